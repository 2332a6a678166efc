"""From prices to an action for each row: whole numbers that keep every limit.

At the right prices nearly all rows have one best action. The others, whose two best actions are about as good, are the core: there
a small program decides, first as a linear one, which improves the prices, then in whole numbers. Where it is too large, or finds
nothing, single rows are moved: those that remove most of what is beyond a limit for their price. The result is checked in exact
arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tightrope.allocation.exact import excesses, value_of
from tightrope.allocation.prices import Scales
from tightrope.allocation.table import Actions, Choice, Table, prices_of
from tightrope.kernels.allocation import CHANGES, DECISIONS, Book, Rows, improve_rows, repair_rows
from tightrope.lp import solve_lp
from tightrope.lp.integers import select
from tightrope.validation import Array

# Rows of the linear program of the core, and of the one in whole numbers: so many, and so many for each limit.
LINEAR_ROWS, INTEGER_ROWS = 1_000, (120, 12)
# With more limits than this (those of keys) only single rows are moved, among so many for each limit.
FEW_LIMITS, MOVED_ROWS = 100, (20_000, 25)
# Where nothing is found, the core grows by this factor, until it is the table.
WIDER = 8
# A gap that needs no better prices, and what a search in whole numbers may leave of it
GOOD_GAP, INTEGER_GAP = 1e-5, 1e-6
# A gap that is worth another, wider core of at most so many rows; and how many nodes a search may open
FAIR_GAP, WIDEST, NODES = 1e-3, 1_500, 200
# Rounds of better prices from the core
ROUNDS = 3
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Settled:
    """An action for each row, and the proof of how good it is."""

    actions: Actions
    value: float
    bound: float
    prices: Array
    over: Array  # (L,) exact to the sign: all at most 0 where every limit is kept
    impossible: bool  # proved: nothing keeps every limit

    @property
    def kept(self) -> bool:
        return not (self.over > 0.0).any()

    @property
    def gap(self) -> float:
        """(bound − value) / |bound|."""
        return max(0.0, self.bound - self.value) / max(abs(self.bound), 1e-300)


def settle(table: Table, prices: Array, scales: Scales, told: Callable[[], None]) -> Settled:
    """An action for each row at about these prices, so that every limit is kept if a way is found."""
    choice = table.choose(prices)
    told()
    few = len(table.limits) <= FEW_LIMITS
    least, per_limit = INTEGER_ROWS if few else MOVED_ROWS
    size = least + per_limit * len(table.limits)
    if 2 * size > len(table):
        size = len(table)
    if few and len(table.limits):
        if size < len(table):
            found = _settle_core(table, prices, choice, scales, size, few)
            if found.kept and found.gap <= GOOD_GAP:
                return found
        prices, choice = _better_prices(table, prices, choice, told)
    best: Settled | None = None
    while True:
        found = _settle_core(table, prices, choice, scales, min(size, len(table)), few)
        if best is None or (found.kept, found.value, -found.bound) > (best.kept, best.value, -best.bound):
            best = found
        wider = few and best.gap > FAIR_GAP and size < WIDEST
        if found.impossible or size >= len(table) or (best.kept and not wider):
            return found if found.impossible else best
        size = min(WIDER * size, WIDEST) if best.kept else WIDER * size


def _better_prices(
    table: Table, prices: Array, choice: Choice, told: Callable[[], None]
) -> tuple[Array, Choice]:
    """The prices of a linear program on the core, as long as they lower the bound."""
    for _ in range(ROUNDS):
        core = closest(choice, LINEAR_ROWS)
        rewards, costs, offsets = options(table, core)
        rest = table.limits.amounts - used_outside(table, choice, core)
        size = np.maximum(np.abs(costs).max(axis=0, initial=0.0), 1e-300)
        one_each = incidence(offsets)
        found = solve_lp(
            rewards, A_ub=(costs / size).T, b_ub=rest / size, A_eq=one_each, b_eq=np.ones(len(core))
        )
        if found.status != "optimal":
            break
        better = np.maximum(found.duals_ub, 0.0) / size
        there = table.choose(better)
        told()
        gained = choice.bound - there.bound
        if gained <= 0.0:
            break
        prices, choice = better, there
        if gained <= 1e-7 * abs(choice.bound):
            break
    return prices, choice


def _settle_core(
    table: Table, prices: Array, choice: Choice, scales: Scales, size: int, few: bool
) -> Settled:
    """Settle with the `size` closest rows alone; the others keep what they choose."""
    core = closest(choice, size)
    if few and size <= 40 * INTEGER_ROWS[0]:
        lower = np.zeros(len(table.limits))
        for _ in range(3):
            chosen, bound = _integers(table, choice, core, lower)
            if bound == -np.inf and size == len(table) and not lower.any():
                over = excesses(table, choice.actions)
                value = value_of(table, choice.actions)
                return Settled(choice.actions, value, choice.bound, prices, over, True)
            if chosen is None:
                break
            actions = choice.actions.copy()
            actions[core] = chosen
            over = excesses(table, actions)
            if not (over > 0.0).any():
                proved = bound if size == len(table) and not lower.any() else np.inf
                value = value_of(table, actions)
                return Settled(actions, value, min(choice.bound, max(proved, value)), prices, over, False)
            # The solver is exact to a billionth: aim a little lower.
            lower += np.where(over > 0.0, 2.0 * over + 1e-9 * scales.size, 0.0)
    return _moved(table, prices, choice, scales, core)


def _moved(table: Table, prices: Array, choice: Choice, scales: Scales, core: NDArray[np.int64]) -> Settled:
    """Move single rows of the core: first back within the limits, then to what earns more."""
    rows, told, book = table.take(core), prices_of(table.limits, prices), table.limits.book
    actions, room = choice.actions[core].copy(), np.empty(table.n_actions)
    # Sums in floating point may be just beyond where those of decimals are not.
    used, limits = choice.used.copy(), table.limits.amounts.copy()
    limits += _ROUNDING * np.abs(limits)
    rate = scales.difference
    for _ in range(4):
        for dearest in (*(rate * 8.0**i for i in range(-5, 4)), np.inf):
            while repair_rows(rows, book, told, actions, used, limits, scales.size, dearest, room) > 1e-9:
                pass
            if not (used > limits).any():
                break
        for least in (rate, 0.3 * rate, 0.1 * rate, 0.0):
            improve_rows(rows, book, actions, used, limits, least)
        everything = choice.actions.copy()
        everything[core] = actions
        over = excesses(table, everything)
        if not (over > 0.0).any() or (used > limits).any():
            break
        # Sums in floating point were just beyond: aim a little lower.
        limits -= np.where(over > 0.0, 2.0 * over + 4.0 * _ROUNDING * np.abs(limits), 0.0)
    return Settled(everything, value_of(table, everything), choice.bound, prices, over, False)


def _integers(
    table: Table, choice: Choice, core: NDArray[np.int64], lower: Array
) -> tuple[Actions | None, float]:
    """What a search in whole numbers finds for the core, and what nothing there earns more than: −inf where there is nothing."""
    rewards, costs, offsets = options(table, core)
    rest = table.limits.amounts - lower - used_outside(table, choice, core)
    size = np.maximum(np.abs(costs).max(axis=0, initial=0.0), 1e-300)
    scale = max(float(np.abs(rewards).max(initial=0.0)), 1e-300)
    gap = INTEGER_GAP * abs(choice.bound) / scale
    found = select(rewards / scale, costs / size, offsets, rest / size, gap=gap, nodes=NODES)
    if found.status != "found":
        return None, found.bound
    eligible = np.isfinite(table.rows.scores[core])
    return np.nonzero(eligible)[1][found.chosen].astype(np.int16), scale * found.bound


def closest(choice: Choice, size: int) -> NDArray[np.int64]:
    """The rows whose choice is least clear, in order of the table."""
    if size >= len(choice.margins):
        return np.arange(len(choice.margins))
    limit = np.partition(choice.margins, size - 1)[size - 1]
    clear = np.flatnonzero(choice.margins < limit)
    equal = np.flatnonzero(choice.margins == limit)[: size - len(clear)]
    return np.sort(np.concatenate([clear, equal]))


def options(table: Table, core: NDArray[np.int64]) -> tuple[Array, Array, NDArray[np.intp]]:
    """The eligible actions of the core: scores (N,), costs (N, L), and where each row begins (n + 1,)."""
    rows = table.take(core)
    eligible = np.isfinite(rows.scores)
    row, action = np.nonzero(eligible)
    offsets = np.concatenate([[0], np.cumsum(eligible.sum(axis=1))]).astype(np.intp)
    return rows.scores[eligible].astype(np.float64), _costs(table, rows, row, action), offsets


def _costs(table: Table, rows: Rows, row: NDArray[np.intp], action: NDArray[np.intp]) -> Array:
    """(N, L) what these actions count towards each limit."""
    limits, book = table.limits, table.limits.book
    found = np.zeros((len(row), len(limits)))
    amounts = [_amount(rows, book, row, action, u) for u in range(len(book.source))]
    changes = (rows.previous[row] >= 0) & (rows.previous[row] != action)
    of: dict[int, Array] = {
        DECISIONS: np.ones(len(row)),
        CHANGES: changes.astype(np.float64),
        **dict(enumerate(amounts)),
    }
    for k in range(limits.K):
        found[:, k] = book.weights[rows.pattern[row], action, k] * of[int(book.counts[k])]
    for b in range(len(limits.keyed)):
        keys = rows.keys[row, b]
        there = np.flatnonzero(keys >= 0)
        cost = book.keyed_weights[b, action] * of[int(book.keyed_counts[b])]
        found[there, keys[there]] = cost[there]
    return found


def _amount(rows: Rows, book: Book, row: NDArray[np.intp], action: NDArray[np.intp], u: int) -> Array:
    source, used = book.source[u, action], book.constant[u, action]
    read = source >= 0
    used[read] = rows.usage[row[read], source[read]]
    return np.asarray(used)


def used_outside(table: Table, choice: Choice, core: NDArray[np.int64]) -> Array:
    """What the rows outside the core count towards each limit."""
    rows = table.take(core)
    inside = _costs(table, rows, np.arange(len(core)), choice.actions[core].astype(np.intp))
    return np.asarray(choice.used - inside.sum(axis=0))


def incidence(offsets: NDArray[np.intp]) -> Any:
    """Which options (N,) belong to which rows."""
    n, N = len(offsets) - 1, int(offsets[-1])
    rows = np.repeat(np.arange(n), np.diff(offsets))
    return sp.csr_array((np.ones(N), (rows, np.arange(N))), shape=(n, N))
