"""One account: an amount that is allowed, and what of it is used or reserved."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from typing import Final, NamedTuple

ZERO: Final = Decimal(0)
ONE: Final = Decimal(1)
# Sums of the digits that people write, so that ten times 0.1 is 1; where digits run out they are rounded up.
_EXACT: Final = Context(prec=60, rounding=ROUND_CEILING)


class Address(NamedTuple):
    """Which account: that of a rule, for a key of the request and for a window of time. None: one for all keys, or for ever."""

    rule: str
    key: str | None = None
    window: int | None = None


class Account:
    """An amount in exact decimals. What is reserved counts as taken until it is settled, kept or released.

    >>> account = Account(Decimal(1))
    >>> for _ in range(10):
    ...     account.book(amount(0.1))
    >>> account.left, account.fits(amount(0.1))
    (Decimal('0.0'), False)
    """

    __slots__ = ("allowed", "reserved", "used")

    def __init__(self, allowed: Decimal, used: Decimal = ZERO, reserved: Decimal = ZERO) -> None:
        self.allowed, self.used, self.reserved = allowed, used, reserved

    @property
    def taken(self) -> Decimal:
        """What is used or reserved."""
        return added(self.used, self.reserved)

    @property
    def left(self) -> Decimal:
        """What may still be taken."""
        return self.allowed - self.taken

    def fits(self, more: Decimal) -> bool:
        """Whether so much more may be taken; nothing always may."""
        return not more or added(self.taken, more) <= self.allowed

    def book(self, more: Decimal) -> None:
        """Use it."""
        self.used = added(self.used, more)

    def reserve(self, more: Decimal) -> None:
        """Hold it until what is really used is known."""
        self.reserved = added(self.reserved, more)

    def settle(self, held: Decimal, used: Decimal) -> None:
        """Use this much instead of what was held, and no more than that."""
        self.release(held)
        self.book(min(used, held))

    def keep(self, held: Decimal) -> None:
        """Nobody will say any more what was used: all that was held counts as used."""
        self.settle(held, held)

    def release(self, held: Decimal) -> None:
        """Nothing of what was held is used."""
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
