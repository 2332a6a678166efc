"""The four estimators and their intervals, as functions of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.intervals import LEVEL, student_quantile
from tightrope.log import Codes, Log
from tightrope.validation import Array

Method: TypeAlias = Literal["replay", "ips", "snips", "dr"]
Mask: TypeAlias = NDArray[np.bool_]

_FOLDS = 5
_FIRST = 20  # of rows in order
_RIDGE = 1.0
_FEW = 20.0  # an action with this many outcomes borrows half of its variance from the others
_SHRINK = 5.0  # rows: with less the noise of rare cells spoils the intervals of short logs


def outcomes_of(log: Log) -> Array:
    """The outcomes that need weights, (n, M): rewards, and costs that are known only for the action taken."""
    return np.column_stack([log.rewards, log.costs]) if log.costs.ndim == 2 else log.rewards[:, None]


def estimate(
    log: Log, outcomes: Array, fitted: Array | None, pi: Array, w: Array, method: Method
) -> tuple[Array, Array, Array]:
    """For outcomes (n, M): estimates (M,), their influence values (n, M), and what a unit of cut weight can move (M,)."""
    if method in ("ips", "dr"):
        scores, left = w[:, None] * outcomes, outcomes
        if fitted is not None:
            scores, left = doubly_robust(log, outcomes, fitted, pi, w)
        return scores.mean(axis=0), scores - scores.mean(axis=0), np.abs(left).max(axis=0)
    values = w @ outcomes / w.sum()
    # The delta method: θ̂ − θ is the average of w·(y − θ) / E[w], to first order.
    return values, w[:, None] * (outcomes - values) / w.mean(), np.ptp(outcomes, axis=0)


def doubly_robust(log: Log, outcomes: Array, fitted: Array, pi: Array, w: Array) -> tuple[Array, Array]:
    """The scores (n, M) of `dr`, whose average is its estimate, and how far the fits missed what was done, (n, M)."""
    residual = outcomes - fitted[np.arange(log.n_rows), log.actions]
    return np.einsum("ij,ijm->im", pi, fitted) + w[:, None] * residual, residual


def interval(
    values: Array,
    influence: Array,
    groups: Codes | None,
    freedom: float,
    effective: float,
    outcomes: Array,
    least: Array | float = 0.0,
) -> tuple[Array, Array, Array]:
    """95 % intervals for estimates whose errors are averages of `influence` (n, M), and skewness / √n of these.

    `least` (M,): standard errors that the true ones can't be below.
    """
    n = influence.shape[0]
    units = summed(influence, groups)
    G = units.shape[0]
    units = units * (G / n)
    variance = (units**2).sum(axis=0) / (G - 1)
    quantile = student_quantile(max(1.0, freedom))
    size = np.abs(outcomes).max(axis=0)
    flat = variance <= (1e-12 * np.maximum(size, np.finfo(float).tiny)) ** 2
    safe = np.where(flat, 1.0, variance * (G - 1) / G)
    skewness = (units**3).mean(axis=0) / safe**1.5 / np.sqrt(G)
    error = np.maximum(np.sqrt(variance / G), least)
    low, high = (values - error * _unskewed(x, skewness) for x in (quantile, -quantile))
    # Only one value was seen: the exact binomial interval towards the ends of the range that the log shows.
    unseen = 1.0 - ((1.0 - LEVEL) / 2) ** (1.0 / max(1.0, effective))
    return (
        np.where(flat, values - unseen * np.maximum(0.0, values - outcomes.min(axis=0)), low),
        np.where(flat, values + unseen * np.maximum(0.0, outcomes.max(axis=0) - values), high),
        skewness,
    )


def _unskewed(x: float, s: Array) -> Array:
    """The studentised error T at which T + s(T²/3 + 1/6) + s²T³/27 = x, for s = skewness / √n (Hall 1992)."""
    safe = np.where(np.abs(s) < 1e-6, 1.0, s)
    inverse: Array = 3.0 / safe * (np.cbrt(1.0 + safe * (x - safe / 6.0)) - 1.0)
    return np.where(np.abs(s) < 1e-6, x, inverse)


def degrees_of_freedom(w: Array) -> float:
    """The degrees of freedom of the estimated variance of an average with weights w (n,): (Σw²)² / Σw⁴ − 1."""
    return float((w**2).sum() ** 2 / (w**4).sum()) - 1.0


def summed(values: Array, groups: Codes | None) -> Array:
    """Sums of rows, (n,) or (n, M), by group, (G,) or (G, M)."""
    if groups is None:
        return values
    if values.ndim == 1:
        return np.asarray(np.bincount(groups, values), dtype=np.float64)
    return np.column_stack([np.bincount(groups, column) for column in values.T])


def mean_and_error(values: Array, groups: Codes | None) -> tuple[float, float]:
    """The mean of (n,) and its standard error, by group if there are groups."""
    mean = float(values.mean())
    sums = summed(values - mean, groups)
    return mean, float(np.sqrt((sums**2).sum() * sums.size / max(1, sums.size - 1))) / len(values)


def predictions(log: Log, outcomes: Array) -> Array:
    """ŷ of every action in every row, (n, J, M), fitted on the rows of other folds; on earlier ones for rows `in_order`."""
    n, J = log.n_rows, log.n_actions
    fitted = np.empty((n, J, outcomes.shape[1]))
    for seen, unseen in parts(log):
        fitted[unseen] = _fit(log, outcomes, seen, unseen)
    return fitted


def error_of_few(log: Log, outcomes: Array, fitted: Array, pi: Array) -> Array | float:
    """The standard error of `dr` by the known propensities and a fit on all rows, (M,).

    Where an action was hardly tried, two or three outcomes may agree by chance and early fits are far off. The rows that would have
    shown it are missing from the spread of the scores. The propensities of all actions say how often such rows had to be missing:
    given what came before, what was drawn has the variance Σ π²/p·(d² + σ²) − (Σ π·d)². Here d is the difference of the fits and σ²
    the variance of an action's outcomes; an action with few outcomes borrows it from the others.
    """
    p = log.propensities
    if not log.in_order or p is None or p.ndim == 1:
        return 0.0
    every = np.ones(log.n_rows, dtype=bool)
    best = _fit(log, outcomes, every, every)
    off, squares = best - fitted, (outcomes - best[np.arange(log.n_rows), log.actions]) ** 2
    taken = np.eye(log.n_actions)[log.actions]
    noise = (taken.T @ squares + _FEW * squares.mean(axis=0)) / (taken.sum(axis=0) + _FEW)[:, None]
    tried = np.where(p >= 1.0 / log.n_rows, pi, 0.0)
    second = np.einsum("ij,ijm->im", tried**2 / np.where(tried > 0.0, p, 1.0), off**2 + noise)
    variance = second - np.einsum("ij,ijm->im", tried, off) ** 2
    return np.asarray(np.sqrt(np.maximum(0.0, variance.sum(axis=0)))) / log.n_rows


def _fit(log: Log, outcomes: Array, seen: Mask, unseen: Mask) -> Array:
    """ŷ of every action in the rows `unseen`, fitted on those that are `seen`."""
    # Context numbers may be any ids: those that occur are renumbered.
    context: NDArray[Any] = np.zeros(log.n_rows, dtype=np.int64) if log.contexts is None else log.contexts
    if context.ndim == 1:
        context = np.unique(context, return_inverse=True)[1]
    fit = _cell_means if context.ndim == 1 else _ridge_fit
    return fit(context, log.actions, outcomes, log.n_actions, seen, unseen)


def parts(log: Log) -> Iterator[tuple[Mask, Mask]]:
    """Which rows to fit on, and which to predict: another fold; or, where time matters, those that come next."""
    rows = np.arange(log.n_rows)
    units = rows if log.in_order or log.groups is None else log.groups
    first = min(_FIRST, log.n_rows) if log.in_order else log.n_rows
    # The first rows have too few rows before them, so they are fitted on each other; among many rows that does no harm.
    folds = np.where(rows < first, units % _FOLDS, -1)
    for fold in range(_FOLDS):
        if (folds == fold).any():
            yield (folds != fold) & (folds >= 0), folds == fold
    begin = first
    while begin < log.n_rows:
        end = begin + begin // 4
        yield rows < begin, (rows >= begin) & (rows < end)
        begin = end


def _action_means(actions: Codes, outcomes: Array, J: int) -> Array:
    """Averages by action, (J, M); the overall one for an action without rows."""
    counts = np.bincount(actions, minlength=J)[:, None]
    sums = np.column_stack([np.bincount(actions, column, J) for column in outcomes.T])
    return np.where(counts > 0, sums / np.maximum(counts, 1), outcomes.mean(axis=0))


def _cell_means(context: Codes, actions: Codes, outcomes: Array, J: int, seen: Mask, unseen: Mask) -> Array:
    """Averages by context and action, shrunk to the action's average as if it had been seen `_SHRINK` more times in each."""
    C, M = int(context.max()) + 1, outcomes.shape[1]
    means = _action_means(actions[seen], outcomes[seen], J)
    cell = context[seen] * J + actions[seen]
    counts = np.bincount(cell, minlength=C * J).reshape(C, J, 1)
    sums = np.stack([np.bincount(cell, column, C * J) for column in outcomes[seen].T], axis=-1)
    table = (sums.reshape(C, J, M) + _SHRINK * means) / (counts + _SHRINK)
    return np.asarray(table[context[unseen]])


def _ridge_fit(x: Array, actions: Codes, outcomes: Array, J: int, seen: Mask, unseen: Mask) -> Array:
    """Ridge regression of each action's rows on standardised features, no penalty on intercepts."""
    spread = x.std(axis=0)
    z = (x - x.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    fitted = np.empty((int(unseen.sum()), J, outcomes.shape[1]))
    means = _action_means(actions[seen], outcomes[seen], J)
    for j in range(J):
        rows = seen & (actions == j)
        fitted[:, j] = means[j]
        if rows.any():
            centre = z[rows].mean(axis=0)
            design = z[rows] - centre
            gram = design.T @ design + _RIDGE * np.eye(z.shape[1])
            slopes = np.linalg.solve(gram, design.T @ (outcomes[rows] - means[j]))
            fitted[:, j] += (z[unseen] - centre) @ slopes
    return fitted
