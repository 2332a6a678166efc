"""What could have been earned by somebody who knew all of a world beforehand.

The best use of a stretch of time at any price is a concave function of what may be used in it; its tangents, one for each price of
a grid, bound it from above. The bounds of linear programs over many thousand decisions follow from the tangents alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, vstack

from tightrope.validation import Array

GRID = np.concatenate([[0.0], np.logspace(-3.0, 1.5, 90)])
# Bisections of a price.
STEPS = 50


def price_of(rewards: Array, usage: Array, amount: float) -> tuple[float, float]:
    """The prices between which the use of these rounds, (n, J), falls to the amount; both 0 if it is never above."""
    rows = np.arange(len(rewards))
    low, high = 0.0, float(np.ptp(rewards) / np.min(np.ptp(usage, axis=1))) + 1.0
    if usage[rows, rewards.argmax(axis=1)].sum() <= amount:
        return 0.0, 0.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if usage[rows, (rewards - middle * usage).argmax(axis=1)].sum() <= amount:
            high = middle
        else:
            low = middle
    return low, high


def fixed_price(rewards: Array, usage: Array, amount: float) -> tuple[float, bool]:
    """The most that one price for all these rounds earns, (n, J), and whether the amount binds.

    One round may be shared between two actions, so that nothing is left.

    >>> fixed_price(np.array([[0.0, 1.0], [0.0, 3.0]]), np.array([[0.0, 1.0], [0.0, 1.0]]), 1.0)
    (3.0, True)
    """
    rows, prices = np.arange(len(rewards)), price_of(rewards, usage, amount)
    more, less = ((rewards - price * usage).argmax(axis=1) for price in prices)
    better, worse = (float(rewards[rows, best].sum()) for best in (more, less))
    above, below = (float(usage[rows, best].sum()) for best in (more, less))
    part = min(1.0, max(0.0, (amount - below) / (above - below))) if above > below else 0.0
    return round(worse + part * (better - worse), 9), prices[1] > 0.0


def tangents(rewards: Array, usage: Array, stretch: NDArray[np.int64]) -> Array:
    """Σ max_j (r − p w) of each stretch at each price of the grid, (stretches, prices)."""
    found = np.zeros((int(stretch.max()) + 1, len(GRID)))
    for g, price in enumerate(GRID.tolist()):
        found[:, g] = np.bincount(stretch, (rewards - price * usage).max(axis=1), minlength=len(found))
    return found


def bound_by_stretch(
    rewards: Array, usage: Array, stretch: NDArray[np.int64], windows: Sequence[tuple[Sequence[int], float]]
) -> float:
    """At most this much can be earned if each of the windows, stretches with an amount, keeps its amount."""
    values = tangents(rewards, usage, stretch)
    n, G = values.shape
    # Variables: what is used in each stretch, and what it earns; earned − p·used ≤ tangent at p.
    row, s, g = np.arange(n * G), np.repeat(np.arange(n), G), np.tile(np.arange(G), n)
    cuts = coo_matrix(
        (
            np.concatenate([-GRID[g], np.ones(n * G)]),
            (np.concatenate([row, row]), np.concatenate([s, n + s])),
        ),
        (n * G, 2 * n),
    )
    members = [(w, k) for w, (own, _) in enumerate(windows) for k in own if k < n]
    inside = coo_matrix((np.ones(len(members)), tuple(np.array(members).T)), (len(windows), 2 * n))
    limits = np.concatenate([values.ravel(), [amount for _, amount in windows]])
    found = linprog(
        np.concatenate([np.zeros(n), -np.ones(n)]),
        A_ub=vstack([cuts, inside]).tocsr(),
        b_ub=limits,
        bounds=[(0.0, None)] * n + [(None, None)] * n,
        method="highs",
    )
    return float(-found.fun)


def bound_of_two(
    rewards: Array,
    usage: Array,
    share: Array,
    days: NDArray[np.int64],
    amount: float,
    part: float,
    grid: int = 40,
) -> float:
    """At most this much can be earned with an amount of `usage` a day and at most a part of the decisions of a week in `share`."""
    weeks, total = days // 7, 0.0
    prices = np.concatenate([[0.0], np.logspace(-3.0, 0.5, grid)])
    for week in np.unique(weeks).tolist():
        own = weeks == week
        best = np.inf
        for second in prices.tolist():
            charged = rewards[own] - second * (share[own] - part)
            day = days[own] - 7 * week
            values = tangents(charged, usage[own], day) + GRID * amount
            best = min(best, float(values.min(axis=1)[np.unique(day)].sum()))
        total += best
    return total


def bound_by_key(rewards: Array, usage: Array, accounts: NDArray[np.int64], amount: float) -> float:
    """At most this much can be earned if every account, such as a user's day, keeps the amount."""
    values = tangents(rewards, usage, np.unique(accounts, return_inverse=True)[1]) + GRID * amount
    return float(values.min(axis=1).sum())
