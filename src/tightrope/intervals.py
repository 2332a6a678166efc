"""95 % intervals: of a mean, by Student's t, and of a share, by Wilson's score."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np

from tightrope.validation import Array

__all__ = ["LEVEL", "NORMAL_QUANTILE", "mean_interval", "share_interval", "student_quantile"]

LEVEL = 0.95
NORMAL_QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)


@cache
def student_quantile(df: int) -> float:
    """The quantile of Student's t that a two-sided 95 % interval needs, for whole degrees of freedom, to 1e-10.

    Newton's method on the distribution function, an elementary sum for whole df (Abramowitz and Stegun 26.7.3-4), from the
    expansion in 1/df (26.7.5), which is exact enough by itself when df is large.

    >>> [round(student_quantile(df), 4) for df in (1, 2, 9, 10_000)]
    [12.7062, 4.3027, 2.2622, 1.9602]
    """
    z = NORMAL_QUANTILE
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    t = z + math.fsum(term / df ** (i + 1) for i, term in enumerate(terms))
    if df > 500:
        return t
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    for _ in range(50):
        angle = math.atan2(t, math.sqrt(df))
        cosine = math.cos(angle) ** 2
        term, total = (math.cos(angle), 0.0) if df % 2 else (1.0, 0.0)
        for i in range(1 if df % 2 else 0, df - 1, 2):
            total += term
            term *= cosine * (i + 1) / (i + 2)
        inside = total * math.sin(angle)
        if df % 2:
            inside = 2 / math.pi * (angle + inside)
        step = (inside - LEVEL) / 2 / math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))
        t = max(t - step, t / 2)
        if abs(step) <= 1e-13 * t:
            break
    return t


def mean_interval(paths: Array) -> tuple[Array, Array, Array]:
    """Mean over the first axis and its 95 % t-interval; nan with one run."""
    R = paths.shape[0]
    mean = paths.mean(axis=0)
    if R == 1:
        unknown = np.full_like(mean, np.nan)
        return mean, unknown, unknown.copy()
    half = student_quantile(R - 1) * paths.std(axis=0, ddof=1) / math.sqrt(R)
    return mean, mean - half, mean + half


def share_interval(share: Array, n: int) -> tuple[Array, Array]:
    """Wilson's score interval of a share of n runs."""
    z2 = NORMAL_QUANTILE**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # The ends are exactly 0 and 1 where no run, or every run, is in violation; rounding must not move them.
    low = np.where(share == 0.0, 0.0, np.maximum(centre - half, 0.0))
    return low, np.where(share == 1.0, 1.0, np.minimum(centre + half, 1.0))
