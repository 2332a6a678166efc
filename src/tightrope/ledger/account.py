"""An account: what was used, is reserved, is allowed and is left under one rule.

There are two kinds: a `LimitAccount`, of a limit on an average, reads the sums that a policy keeps; an `ExactAccount` is an amount
of its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from tightrope.ledger.totals import Totals
from tightrope.rules import Column
from tightrope.validation import Array

ZERO: Final = Decimal(0)
ONE: Final = Decimal(1)
# Exact decimal sums, so that ten times 0.1 is 1; beyond the last digit they are rounded up.
_EXACT: Final = Context(prec=60, rounding=ROUND_CEILING)


class Address(NamedTuple):
    """Which account: that of a rule, for a key of the request and a window of time. None: one for all keys, or for all time.

    A rule with a hard cap has two: one of its average, and one of the amount that is never exceeded.
    """

    rule: str
    key: str | None = None
    window: int | None = None
    hard: bool = False


class Account(ABC):
    """What every account answers, in the units of its rule; reserved amounts count as taken."""

    __slots__ = ("address",)

    @property
    @abstractmethod
    def used(self) -> Any:
        """What was used."""

    @property
    @abstractmethod
    def reserved(self) -> Any:
        """What is held until it is known how much of it is used."""

    @property
    @abstractmethod
    def allowed(self) -> Any:
        """What may be used in all."""

    def __init__(self, address: Address) -> None:
        self.address = address

    @property
    def left(self) -> Any:
        """What may still be taken."""
        return self.allowed - self.used - self.reserved

    def fits(self, more: Any) -> bool:
        """Whether that much more may be taken; taking nothing is always allowed."""
        return not more or bool(more <= self.left)


class Summed(Protocol):
    """Whatever adds up scaled costs: a policy, or `Totals`."""

    @property
    def totals(self) -> Array:
        """Cumulative costs (K,)."""


class Counts(msgspec.Struct, array_like=True):
    """How many decisions the limit has counted at its current value; how many at earlier values, and what those allowed."""

    decisions: int = 0
    earlier: int = 0
    allowed: float = 0.0


class LimitAccount(Account):
    """The account of a limit on an average: a view on column k of the sums of costs.

    Of a rule with `at_least`: what there was, what was required, and how much more there was. Without `counts` sums from before a
    change of the rule can't be told apart, and all but `left` is nan.
    """

    __slots__ = ("column", "counts", "k", "sums")

    def __init__(self, column: Column, k: int, sums: Summed, counts: Counts | None) -> None:
        super().__init__(Address(column.name))
        self.column, self.k, self.sums, self.counts = column, k, sums, counts

    @property
    def decisions(self) -> int | None:
        return None if self.counts is None else self.counts.earlier + self.counts.decisions

    @property
    def allowed(self) -> float:
        if self.counts is None:
            return math.nan
        return self.counts.allowed + self.counts.decisions * self.column.limit

    @property
    def left(self) -> float:
        """How much less was used than allowed, or how much more than required."""
        return float(0.0 - self.sums.totals[self.k] * self.column.rule.scale)

    @property
    def used(self) -> float:
        """What was used."""
        return self.allowed - self.column.sign * self.left

    @property
    def reserved(self) -> float:
        """Nothing: an outcome counts once it is known."""
        return 0.0

    def go_on_from(self, was: LimitAccount) -> None:
        """Begin with the counts of the limit that it replaces, and with its sums if no policy keeps them."""
        mine, theirs = ((one.column.rule.scale, one.column.side) for one in (self, was))
        known = was.decisions is not None and mine == theirs
        self.counts = Counts(0, was.decisions or 0, was.allowed) if known else None
        if isinstance(self.sums, Totals) and isinstance(was.sums, Totals):
            self.sums.take_over(self.k, was.sums, was.k)


class ExactAccount(Account):
    """An amount in exact decimals. A reservation counts as taken until it is settled, kept or released."""

    __slots__ = ("allowed", "reserved", "used")

    allowed: Decimal
    reserved: Decimal
    used: Decimal

    def __init__(self, address: Address, allowed: Decimal) -> None:
        super().__init__(address)
        self.allowed, self.used, self.reserved = allowed, ZERO, ZERO

    @property
    def taken(self) -> Decimal:
        return added(self.used, self.reserved)

    @property
    def left(self) -> Decimal:
        """What may still be taken."""
        return self.allowed - self.taken

    def fits(self, more: Decimal) -> bool:
        """Whether that much more may be taken; taking nothing is always allowed."""
        return not more or added(self.taken, more) <= self.allowed

    def book(self, more: Decimal) -> None:
        self.used = added(self.used, more)

    def reserve(self, more: Decimal) -> None:
        """Hold it until the actual usage is known."""
        self.reserved = added(self.reserved, more)

    def settle(self, held: Decimal, used: Decimal) -> None:
        """Use this much instead of the amount held, which it can't exceed."""
        self.release(held)
        self.book(min(used, held))

    def release(self, held: Decimal) -> None:
        self.reserved = _EXACT.subtract(self.reserved, held)

    def hold_again(self, held: Decimal) -> None:
        """Mark this much of the used amount as only reserved, as in the account that this one continues."""
        self.used = _EXACT.subtract(self.used, held)
        self.reserve(held)


def amount(value: float) -> Decimal:
    """A number as people write it: 0.1 is exactly a tenth."""
    return Decimal(repr(float(value)))


def added(one: Decimal, other: Decimal) -> Decimal:
    """The sum, exact to 60 digits and then rounded up."""
    return _EXACT.add(one, other)
