"""An account: what of one rule was used, is allowed and is left, in the rule's units.

There are two kinds: a `LimitAccount`, of a limit on an average, reads the sums that a policy keeps; an `ExactAccount` is an amount
of its own.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final, Protocol

import msgspec

from tightrope.ledger.totals import Totals
from tightrope.rules import Column
from tightrope.validation import Array

ZERO: Final = Decimal(0)
ONE: Final = Decimal(1)
# Sums of the digits that people write, so that ten times 0.1 is 1; where digits run out they are rounded up.
_EXACT: Final = Context(prec=60, rounding=ROUND_CEILING)


class Summed(Protocol):
    """Whatever adds up scaled costs (K,): a policy, or `Totals`."""

    @property
    def totals(self) -> Array: ...


class Counts(msgspec.Struct, array_like=True):
    """How many decisions a limit has counted at its present height; at others before, and what those allowed."""

    decisions: int = 0
    earlier: int = 0
    allowed: float = 0.0


class LimitAccount:
    """The account of a limit on an average: a view on column k of the sums of costs.

    Of a rule with `at_least`: what there was, what was required, and how much more there was. Without `counts` sums from before a
    change of the rule can't be told apart, and all but `left` is nan.
    """

    __slots__ = ("column", "counts", "k", "sums")

    def __init__(self, column: Column, k: int, sums: Summed, counts: Counts | None) -> None:
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
        return self.allowed - self.column.sign * self.left

    def go_on_from(self, was: LimitAccount) -> None:
        """Begin with the counts of the limit whose place it takes, and with its sums where no policy keeps them."""
        mine, theirs = ((one.column.rule.scale, one.column.side) for one in (self, was))
        known = was.decisions is not None and mine == theirs
        self.counts = Counts(0, was.decisions or 0, was.allowed) if known else None
        if isinstance(self.sums, Totals) and isinstance(was.sums, Totals):
            self.sums.take_over(self.k, was.sums, was.k)


class ExactAccount:
    """An amount in exact decimals. What is reserved counts as taken until it is settled, kept or released."""

    def __init__(self, allowed: Decimal) -> None:
        self.allowed, self.used, self.reserved = allowed, ZERO, ZERO

    @property
    def taken(self) -> Decimal:
        return added(self.used, self.reserved)

    @property
    def left(self) -> Decimal:
        return self.allowed - self.taken

    def fits(self, more: Decimal) -> bool:
        """Whether so much more may be taken; nothing always may."""
        return not more or added(self.taken, more) <= self.allowed

    def book(self, more: Decimal) -> None:
        self.used = added(self.used, more)

    def reserve(self, more: Decimal) -> None:
        """Hold it until what is really used is known."""
        self.reserved = added(self.reserved, more)

    def settle(self, held: Decimal, used: Decimal) -> None:
        """Use this much instead of what was held, and no more than that."""
        self.release(held)
        self.book(min(used, held))

    def release(self, held: Decimal) -> None:
        self.reserved = _EXACT.subtract(self.reserved, held)

    def hold_again(self, held: Decimal) -> None:
        """Of what counts as used this much is only reserved, as in the account that this one goes on from."""
        self.used = _EXACT.subtract(self.used, held)
        self.reserve(held)


def amount(value: float) -> Decimal:
    """A number as people write it: 0.1 is a tenth."""
    return Decimal(repr(float(value)))


def added(one: Decimal, other: Decimal) -> Decimal:
    """The sum, exact to 60 digits and then rounded up."""
    return _EXACT.add(one, other)
