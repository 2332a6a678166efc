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
    values: Array, influence: Array, groups: Codes | None, freedom: float, effective: float, outcomes: Array
) -> tuple[Array, Array, Array]:
    """95 % intervals for estimates whose errors are averages of `influence` (n, M), and skewness / √n of these."""
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
    error = np.sqrt(variance / G)
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
    # Context numbers may be any ids: those that occur are renumbered.
    context: NDArray[Any] = np.zeros(n, dtype=np.int64) if log.contexts is None else log.contexts
    if context.ndim == 1:
        context = np.unique(context, return_inverse=True)[1]
    fit = _cell_means if context.ndim == 1 else _ridge_fit
    for seen, unseen in parts(log):
        fitted[unseen] = fit(context, log.actions, outcomes, J, seen, unseen)
    return fitted


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
