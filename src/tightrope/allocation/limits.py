"""The limits of a table: rules as amounts for all of its rows, or for all rows of a key, and what counts towards each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.kernels.allocation import CHANGES, DECISIONS, Book
from tightrope.rules import Column, Rules
from tightrope.rules.rule import members
from tightrope.validation import Array
from tightrope.words import Place

Index = NDArray[np.int64]

CHANGED = "changes"  # the name of the limit on how many rows change


@dataclass(frozen=True, eq=False)
class Limit:
    """One limit: Σ sign · quantity ≤ sign · limit · (the rows that it counts, unless it is an amount for the whole table).

    All numbers are the decimals that you see, and sums of them are exact: three of ten rows are within a share of 0.3, ten times a
    usage of 0.1 is within an amount of 1, and nothing is forgiven.
    """

    name: str
    sign: float
    limit: float
    counts: str | int  # the name of a usage, DECISIONS or CHANGES
    actions: tuple[int, ...]
    among: frozenset[str]  # empty: all rows count
    by: str | None  # a limit for each key of this name
    whole: bool  # an amount for the whole table (or key); otherwise one per row
    column: Column | None  # None for the limit on changes

    def amount(self, n: int) -> Fraction:
        """The right-hand side where n rows count."""
        at = Fraction(repr(self.limit)) * (1 if self.whole else n)
        if not isinstance(self.counts, str):
            at = Fraction(at.__floor__() if self.sign > 0.0 else at.__ceil__())
        return int(self.sign) * at

    def in_units(self, used: float, n: int) -> float:
        """A signed sum in the unit of the limit: per row, or an amount."""
        return self.sign * used / (1 if self.whole else max(n, 1)) + 0.0

    @property
    def unit(self) -> str:
        return "rows" if self.column is None else self.column.rule.unit

    def __str__(self) -> str:
        if self.column is None:
            return f"at most {self.limit:,.12g} rows change"
        return str(self.column.rule)


def limits_of(rules: Rules, max_changes: int | None) -> list[Limit]:
    """One limit for each column of the rules, and one for the changes."""
    found = []
    for column in (*rules.columns, *rules.windows.columns):
        rule, quantity = column.rule, column.rule.quantity
        if rule.per not in (None, "table"):
            must, remedy = "be 'table' or left out where a table is allocated", "A table has no time."
            i = next(i for i, one in enumerate(rules) if one is rule)
            raise InvalidInput(field=Place("rules", i, "per"), must=must, got=rule.per, remedy=remedy)
        chosen = (
            range(len(rules.actions)) if quantity.actions is None else rules.registry.ids(quantity.actions)
        )
        found.append(
            Limit(
                name=column.name,
                sign=column.sign,
                limit=column.limit,
                counts=DECISIONS if quantity.usage is None else quantity.usage,
                actions=tuple(chosen),
                among=frozenset(members(rule.among)),
                by=rule.by,
                whole=rule.per == "table" and rule.counts_amounts,
                column=column,
            )
        )
    if max_changes is not None:
        everything = tuple(range(len(rules.actions)))
        found.append(
            Limit(CHANGED, 1.0, float(max_changes), CHANGES, everything, frozenset(), None, True, None)
        )
    return found


@dataclass(frozen=True, eq=False)
class Limits:
    """All limits of one table, numbered: the K dense ones, then one for each key of each keyed one.

    `rows` says for each number how many rows count, `book` is what the kernels read.
    """

    dense: tuple[Limit, ...]
    keyed: tuple[Limit, ...]
    keys: tuple[tuple[Any, ...], ...]  # of each keyed limit
    rows: Index  # (L,)
    book: Book

    @property
    def K(self) -> int:
        return len(self.dense)

    @cached_property
    def starts(self) -> list[int]:
        """The first number of each keyed limit, and the end."""
        return [self.K + sum(map(len, self.keys[:b])) for b in range(len(self.keys) + 1)]

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, number: int) -> Limit:
        if number < self.K:
            return self.dense[number]
        return self.keyed[self._keyed_by(number)]

    def key(self, number: int) -> Any:
        """The key that a limit is for; None for a dense one."""
        if number < self.K:
            return None
        b = self._keyed_by(number)
        return self.keys[b][number - self.starts[b]]

    def name(self, number: int) -> str:
        return self[number].name if number < self.K else f"{self[number].name} of {self.key(number)}"

    def exact(self, number: int) -> Fraction:
        """The amount of a limit, signed."""
        return self[number].amount(int(self.rows[number]))

    @cached_property
    def amounts(self) -> Array:
        """(L,) the same, rounded."""
        found = np.array([float(self.exact(k)) for k in range(self.K)])
        parts = [found]
        for b, limit in enumerate(self.keyed):
            # Few different numbers of rows, many keys.
            counts, at = np.unique(self.rows[self.starts[b] : self.starts[b + 1]], return_inverse=True)
            parts.append(np.array([float(limit.amount(int(n))) for n in counts])[at])
        return np.concatenate(parts)

    def _keyed_by(self, number: int) -> int:
        return int(np.searchsorted(self.starts, number, side="right")) - 1


def book_of(
    dense: Sequence[Limit],
    keyed: Sequence[Limit],
    memberships: NDArray[np.bool_],
    usages: Mapping[str, Sequence[int | float | None]],
    n_actions: int,
) -> Book:
    """What the kernels read: `memberships` (P, K) says which dense limits count rows of a pattern.

    `usages` has, for each action, the number of a column, or a constant as a float; None where no limit counts it.
    """
    numbers = {name: u for u, name in enumerate(usages)}

    def counted(limit: Limit) -> int:
        return numbers[limit.counts] if isinstance(limit.counts, str) else limit.counts

    weights = np.zeros((len(memberships), n_actions, len(dense)))
    for k, limit in enumerate(dense):
        weights[np.ix_(memberships[:, k], np.array(limit.actions), np.array([k]))] = limit.sign
    keyed_weights = np.zeros((len(keyed), n_actions))
    for b, limit in enumerate(keyed):
        keyed_weights[b, list(limit.actions)] = limit.sign
    source = np.full((len(usages), n_actions), -1, dtype=np.int64)
    constant = np.zeros((len(usages), n_actions))
    for u, by_action in enumerate(usages.values()):
        for j, one in enumerate(by_action):
            if isinstance(one, float):
                constant[u, j] = one
            elif one is not None:
                source[u, j] = one
    return Book(
        weights=weights,
        counts=np.array([counted(one) for one in dense], dtype=np.int64),
        keyed_weights=keyed_weights,
        keyed_counts=np.array([counted(one) for one in keyed], dtype=np.int64),
        source=source,
        constant=constant,
    )
