"""Violation, the positive part of what constraints cost so far, and the interval of its expectation."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tightrope.intervals import LEVEL, NORMAL_QUANTILE, student_quantile
from tightrope.validation import VIOLATION, Array

_RESAMPLES = 2000
_BLOCK = 1 << 20  # entries of a bootstrap block


def positive_part(cumulative: Array) -> Array:
    """(·)⁺ of cumulative costs, rounding errors taken for 0; nan stays."""
    return np.where(cumulative <= VIOLATION, 0.0, cumulative)


def violation_interval(cost: Array, violation: Array) -> tuple[Array, Array]:
    """95 % interval of Σ_k (E[S_k])⁺ from runs (R, G, K): see `Result.violation`.

    Inference for directionally differentiable functions (Fang and Santos 2019), made valid on both sides of the kink. Errors are
    stretched from the bootstrap's normal to Student's t, so that a single, clearly positive constraint gets its t-interval.
    """
    R, G, K = cost.shape
    if R == 1:
        return np.full(G, np.nan), np.full(G, np.nan)
    tail = (1 - LEVEL) / 2
    mean = cost.mean(axis=0)
    error = cost.std(axis=0, ddof=1) / math.sqrt(R)
    clear = max(2.0, math.sqrt(2 * math.log(R))) * error
    positive, near = mean > clear, np.abs(mean) <= clear
    stretch = student_quantile(R - 1) / NORMAL_QUANTILE * math.sqrt(R / (R - 1))
    if not (positive | near).any():
        return violation.copy(), violation.copy()
    weights = _resampled(R) * (stretch / R)
    low, high = violation.copy(), violation.copy()
    step = max(1, _BLOCK // (_RESAMPLES * max(1, K)))
    for start in range(0, G, step):
        block = slice(start, start + step)
        if not (positive[block] | near[block]).any():
            continue
        # Centred, so that a cost that is the same in all runs has errors of exactly 0.
        centred = (cost[:, block] - mean[block]).reshape(R, -1)
        errors = (weights @ centred).reshape(_RESAMPLES, -1, K)
        fixed = np.where(positive[block], errors, 0.0).sum(axis=2)
        loose = np.where(near[block], errors, 0.0)
        low[block] -= np.quantile(fixed + np.maximum(loose, 0.0).sum(axis=2), 1 - tail, axis=0)
        high[block] -= np.quantile(fixed + np.minimum(loose, 0.0).sum(axis=2), tail, axis=0)
    return np.clip(low, 0.0, violation), np.maximum(high, violation)


@lru_cache(maxsize=2)
def _resampled(R: int) -> Array:
    """How often each of R runs is drawn in each resample, less one: the same for every result with so many runs."""
    draws = np.random.default_rng(0).multinomial(R, np.full(R, 1 / R), size=_RESAMPLES)
    return draws.astype(np.float64) - 1.0
