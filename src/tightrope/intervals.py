"""Intervals at one level throughout: of a mean over runs, batches or rows, by Student's t; of a share, by Wilson's score; of the
expected violation, the positive part of what constraints cost so far, by the bootstrap.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from tightrope.validation import VIOLATION, Array

LEVEL: Final = 0.95
NORMAL_QUANTILE: Final = NormalDist().inv_cdf((1 + LEVEL) / 2)
_RESAMPLES = 2000
_BLOCK = 1 << 20  # entries of a bootstrap block


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


def positive_part(cumulative: Array) -> Array:
    """(·)⁺ of cumulative costs, with rounding errors treated as 0; nan stays nan."""
    return np.where(cumulative <= VIOLATION, 0.0, cumulative)


def violation_interval(cost: Array, violation: Array, path_high: Array) -> tuple[Array, Array]:
    """95 % interval of Σ_k (E[S_k])⁺ from runs (R, G, K), given the upper end of E[Σ_k (S_k)⁺]: see `Result.violation`.

    Errors e are those of the bootstrap, stretched from its normal to Student's t, so that a single, clearly positive constraint
    gets its t-interval. The lower end is inference for directionally differentiable functions (Fang and Santos 2019), made valid on
    both sides of the kink. The upper end is the quantile of g(μ̂ − e), g(m) = Σ_k (m_k)⁺, which is valid because g is convex: with s
    a subgradient at μ, g(μ̂ − e) ≥ g(μ) + s·(μ̂ − μ) − s·e, and the quantile of the right side is at least g(μ) as often as that of
    the plain mean s·μ̂ covers s·μ. By Jensen's inequality `path_high` is an upper end too.
    """
    R, G, K = cost.shape
    if R == 1:
        return np.full(G, np.nan), np.full(G, np.nan)
    tail = (1 - LEVEL) / 2
    mean = cost.mean(axis=0)
    error = cost.std(axis=0, ddof=1) / math.sqrt(R)
    student = student_quantile(R - 1)
    clear = max(2.0, math.sqrt(2 * math.log(R))) * error
    positive, near = mean > clear, np.abs(mean) <= clear
    # No resample's error goes as far as twice Student's quantile.
    may_be_positive = (mean > -2.0 * student * error) | near
    low, high = violation.copy(), violation.copy()
    weights = _resampled(R) * (student / NORMAL_QUANTILE * math.sqrt(R / (R - 1)) / R)
    step = max(1, _BLOCK // (_RESAMPLES * max(1, K)))
    for start in range(0, G, step):
        block = slice(start, start + step)
        if not may_be_positive[block].any():
            continue
        # Centred, so that a cost that is the same in all runs has errors of exactly 0.
        centred = (cost[:, block] - mean[block]).reshape(R, -1)
        errors = (weights @ centred).reshape(_RESAMPLES, -1, K)
        fixed = np.where(positive[block], errors, 0.0).sum(axis=2)
        loose = np.where(near[block], errors, 0.0)
        low[block] -= np.quantile(fixed + np.maximum(loose, 0.0).sum(axis=2), 1 - tail, axis=0)
        beyond = np.where(may_be_positive[block], np.maximum(mean[block] - errors, 0.0), 0.0)
        high[block] = np.quantile(beyond.sum(axis=2), 1 - tail, axis=0)
    # The estimate itself may be above `path_high` where noise was averaged out of `cost` and not of the paths.
    return np.clip(low, 0.0, violation), np.maximum(np.minimum(high, path_high), violation)


@lru_cache(maxsize=2)
def _resampled(R: int) -> Array:
    """How often each of R runs is drawn in each resample, less one: the same for every result with that many runs."""
    draws = np.random.default_rng(0).multinomial(R, np.full(R, 1 / R), size=_RESAMPLES)
    return draws.astype(np.float64) - 1.0
