"""Intervals at one level throughout: of a mean over runs, batches or rows, by Student's t, and of a share, by Wilson's score.

>>> mean_interval([1.0, 2.0, 3.0])
(np.float64(2.0), np.float64(-0.484...), np.float64(4.484...))
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

LEVEL: Final = 0.95
NORMAL_QUANTILE: Final = NormalDist().inv_cdf((1 + LEVEL) / 2)


def mean_interval(values: ArrayLike) -> tuple[Any, Any, Any]:
    """The mean over the first axis and its 95 % t-interval (mean, low, high); nan with one value."""
    array = np.asarray(values, dtype=np.float64)
    n = array.shape[0]
    mean = array.mean(axis=0)
    if n == 1:
        unknown = np.full_like(mean, np.nan)
        return mean, unknown, unknown.copy()
    half = student_quantile(n - 1) * array.std(axis=0, ddof=1) / math.sqrt(n)
    return mean, mean - half, mean + half


@lru_cache(maxsize=1024)
def student_quantile(df: float) -> float:
    """The quantile of Student's t that a two-sided 95 % interval needs.

    For whole degrees of freedom to 1e-10 and without SciPy: Newton's method on the distribution function, an elementary sum
    (Abramowitz and Stegun 26.7.3-4), from the expansion in 1/df (26.7.5), which is exact enough by itself when df is large.

    >>> [round(student_quantile(df), 4) for df in (1, 2, 2.5, 9, 10_000)]
    [12.7062, 4.3027, 3.5747, 2.2622, 1.9602]
    """
    if df != int(df):
        from scipy.special import stdtrit

        return float(stdtrit(df, (1 + LEVEL) / 2))
    df, z = int(df), NORMAL_QUANTILE
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


def share_interval(share: Any, n: int) -> tuple[Any, Any]:
    """Wilson's score interval of a share of n runs."""
    z2 = NORMAL_QUANTILE**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # The ends are exactly 0 and 1 where no run, or every run, is in violation; rounding must not move them.
    low = np.where(share == 0.0, 0.0, np.maximum(centre - half, 0.0))
    return low, np.where(share == 1.0, 1.0, np.minimum(centre + half, 1.0))
