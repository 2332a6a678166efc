"""What logged rows say of each action: its outcomes by ridge regression, and the chance that it was taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tightrope.log import Codes
from tightrope.validation import Array

_MOST_JUDGED = 20_000
_FREE = 1e-3  # the penalty of an intercept, so that even an action that was never taken has a finite one
# OpenBLAS uses several threads from so many multiplications on. For products of this size they cost more than they save, and on a
# machine that is busy they spin, up to thirty times as long as the product itself takes.
_ON_ONE_CORE = 2**18
_LEAST_BLOCK = 256


def ridge_by_action(x: Array, codes: Codes, y: Array, n_actions: int, ridge: float) -> Array:
    """Coefficients (J, p) of each action's rows of y on x, whose first feature is 1, without penalty; 0 where there are no rows."""
    p = x.shape[1]
    penalty = np.diag(np.append(0.0, np.full(p - 1, ridge)))
    fitted = np.zeros((n_actions, p))
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes, np.arange(n_actions + 1), sorter=order)
    block = _block(p * p)
    for j in range(n_actions):
        squares, products = np.zeros((p, p)), np.zeros(p)
        for begin in range(ends[j], ends[j + 1], block):
            rows = order[begin : min(begin + block, ends[j + 1])]
            some = x[rows]
            squares += some.T @ some
            products += some.T @ y[rows]
        if ends[j] < ends[j + 1]:
            fitted[j] = np.linalg.solve(squares + penalty, products)
    return fitted


def chance_model(x: Array, codes: Codes, n_actions: int, penalty: float = 1.0) -> Callable[[Array], Array]:
    """The chance of each action by its context, (n, J) for rows (n, p): a logistic model with a ridge penalty.

    The first feature is 1 and hardly penalised, so a large penalty leaves each action its share of the rows.
    """
    from scipy.optimize import minimize

    rows, p = judged(len(x)), x.shape[1]
    x, codes = x[rows], codes[rows]
    ridge = np.append(_FREE, np.full(p - 1, penalty))
    size = _block(n_actions * p)
    blocks = [
        (np.ascontiguousarray(x[begin : begin + size].T), codes[begin : begin + size])
        for begin in range(0, len(x), size)
    ]

    def loss(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(n_actions, -1)
        total, gradient = 0.5 * float((ridge * theta**2).sum()), ridge * theta
        for columns, taken in blocks:
            at = taken, np.arange(taken.size)
            scores = theta @ columns
            scores -= scores.max(axis=0)
            total -= float(scores[at].sum())
            odds = np.exp(scores, out=scores)
            sums = odds.sum(axis=0)
            total += float(np.log(sums).sum())
            odds /= sums
            odds[at] -= 1.0
            gradient += odds @ columns.T
        return total, gradient.ravel()

    # After a few dozen steps the remaining error is far below that of the fit.
    start = np.zeros(n_actions * p)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    theta = found.x.reshape(n_actions, -1)

    def chances(rows: Array) -> Array:
        scores = rows @ theta.T
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Array = odds / odds.sum(axis=1, keepdims=True)
        return shares

    return chances


def judged(n: int) -> Codes:
    """The rows on which fits are judged: all of them, or a fixed sample."""
    if n <= _MOST_JUDGED:
        return np.arange(n)
    return np.random.default_rng(0).choice(n, _MOST_JUDGED, replace=False)


def _block(multiplications: int) -> int:
    """How many rows to multiply at a time, where one row takes so many multiplications."""
    return max(_LEAST_BLOCK, _ON_ONE_CORE // multiplications)
