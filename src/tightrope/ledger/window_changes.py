"""What accounts per window begin with when rules change: what was used in the present window still counts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tightrope.ledger.windows import Booking, Limit, Windows
from tightrope.rules.rule import members


def carry_windows(old: Windows, new: Windows) -> None:
    """Let `new`, which has counted nothing yet, continue `old` under other rules; `old` is not changed.

    A limit continues the one that counts the same for the same keys, in the same windows if there is such a one. Under other
    windows (another zone, weeks instead of days), what is counted in the present window counts in full in the new rule's present
    one. A limit on anything else begins at 0.
    """
    new.time, new.erased = old.time, set(old.erased)
    heirs: dict[int, list[int]] = {}
    for m, limit in enumerate(new.limits):
        alike = [k for k, one in enumerate(old.limits) if _subject(one) == _subject(limit)]
        same = [k for k in alike if old.limits[k].column.rule.window == limit.column.rule.window]
        for k in (same or alike)[:1]:
            heirs.setdefault(k, []).append(m)
            new.overruns[m], new.strays[m] = old.overruns[k], old.strays[k]
            _continue(old.limits[k], limit, old.time)
    for number, booked in old.bookings.items():
        lines = [_moved(old, new, one, m) for one in booked for m in heirs.get(one.limit, ())]
        new.bookings[number] = tuple(one for one in lines if one is not None)


def _subject(limit: Limit) -> tuple[Any, ...]:
    rule = limit.column.rule
    usage, actions, _ = rule.quantity
    return usage, actions, members(rule.among), rule.seen, rule.by, limit.column.side


def _continue(was: Limit, now: Limit, time: float) -> None:
    factor = Fraction(was.unit) / Fraction(now.unit)
    if was.column.rule.window == now.column.rule.window:
        now.accounts.load(was.accounts.arrays())
        now.accounts.restate(factor)
        return
    for key in list(was.accounts.now.rows):
        sums = was.accounts.sums(key, time)
        now.accounts.roll(time)
        now.accounts.book(key, time, -(-sums.used * factor.numerator // factor.denominator), 0, sums.decided)


def _moved(old: Windows, new: Windows, booking: Booking, m: int) -> Booking | None:
    """A booking under the limit `m` of the new rules, with what it holds held there; None if its window is gone."""
    was, now = old.limits[booking.limit], new.limits[m]
    factor, at = Fraction(was.unit) / Fraction(now.unit), booking.at
    if was.column.rule.window != now.column.rule.window:
        if not was.accounts.counts(at, old.time):
            return None
        at = now.accounts.moment(old.time)
    held = -(-booking.held * factor.numerator // factor.denominator)
    # Rounded down, so that giving it back never gives back more than was booked.
    used = booking.used * factor.numerator // factor.denominator
    if not now.accounts.correct(booking.key, at, 0, held):
        return None
    return Booking(m, booking.key, at, used, held)
