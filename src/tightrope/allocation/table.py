"""The rows of a table in arrays, as the kernels read them, and passes over them on several cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tightrope.allocation.limits import Limits
from tightrope.kernels.allocation import CHANGES, DECISIONS, Prices, Rows, Sums, choose_rows
from tightrope.validation import Array

Actions = NDArray[np.int16]
_Found = TypeVar("_Found")

# Rows that one core works on at a time. Sums are made piece by piece and added in order, so that they don't depend on the cores.
PIECE = 32_768


@dataclass(frozen=True, eq=False)
class Choice:
    """What the rows choose at given prices."""

    bound: float  # D(λ): nothing earns more
    actions: Actions  # (n,)
    margins: NDArray[np.float32]  # (n,): by how much the choice is better than the next
    used: Array  # (L,) signed sums


class Table:
    """Rows and the limits that they count towards; `pool` works on several pieces at once."""

    def __init__(self, rows: Rows, limits: Limits, pool: ThreadPoolExecutor) -> None:
        self.rows, self.limits, self.pool = rows, limits, pool

    def __len__(self) -> int:
        return len(self.rows.scores)

    @property
    def n_actions(self) -> int:
        return int(self.rows.scores.shape[1])

    def take(self, numbers: NDArray[np.int64]) -> Rows:
        """Some of the rows."""
        return Rows(*(np.ascontiguousarray(one[numbers]) for one in self.rows))

    def each_piece(self, work: Callable[[Rows, slice], _Found]) -> Iterator[_Found]:
        """What `work` makes of each piece, in order."""
        edges = range(0, len(self), PIECE)
        slices = [slice(begin, begin + PIECE) for begin in edges]
        yield from self.pool.map(lambda part: work(Rows(*(one[part] for one in self.rows)), part), slices)

    def choose(self, prices: Array) -> Choice:
        """The best action of each row at these prices."""
        told = prices_of(self.limits, prices)
        actions = np.empty(len(self), dtype=np.int16)
        margins = np.empty(len(self), dtype=np.float32)

        def work(piece: Rows, part: slice) -> Sums:
            sums = new_sums(self.limits, self.n_actions)
            room = np.empty(self.n_actions)
            choose_rows(piece, self.limits.book, told, actions[part], margins[part], sums, room)
            return sums

        total = new_sums(self.limits, self.n_actions)
        for found in self.each_piece(work):
            add_sums(total, found)
        bound = float(total.head[0]) + float(prices @ self.limits.amounts)
        return Choice(bound, actions, margins, used_of(self.limits, total))


def prices_of(limits: Limits, prices: Array) -> Prices:
    """Prices (L,), summed for each pattern and action."""
    book = limits.book
    P, J, _ = book.weights.shape
    U = len(book.source)
    priced = book.weights * prices[: limits.K]
    base = priced[:, :, book.counts == DECISIONS].sum(axis=2)
    rate = np.zeros((P, U, J))
    for u in range(U):
        rate[:, u] = priced[:, :, book.counts == u].sum(axis=2)
    change = float(prices[: limits.K][book.counts == CHANGES].sum())
    return Prices(base=np.ascontiguousarray(base), rate=rate, price=np.array(prices), change=change)


def new_sums(limits: Limits, n_actions: int) -> Sums:
    P, U = len(limits.book.weights), len(limits.book.source)
    Q = len(limits) - limits.K
    return Sums(np.zeros(2), np.zeros((P, n_actions)), np.zeros((P, U, n_actions)), np.zeros(Q))


def add_sums(total: Sums, more: Sums) -> None:
    for one, other in zip(total, more, strict=True):
        one += other


def used_of(limits: Limits, sums: Sums) -> Array:
    """(L,) what was chosen counts towards each limit."""
    book = limits.book
    used = np.empty(len(limits))
    for k, counted in enumerate(book.counts.tolist()):
        if counted == CHANGES:
            used[k] = sums.head[1]
        else:
            amounts = sums.share if counted == DECISIONS else sums.spent[:, counted]
            used[k] = np.sum(book.weights[:, :, k] * amounts)
    used[limits.K :] = sums.keyed
    return used


@contextmanager
def cores(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads for the kernels, which release Python's lock."""
    with ThreadPoolExecutor(workers, thread_name_prefix="allocate") as pool:
        yield pool
