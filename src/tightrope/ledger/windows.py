"""The accounts of all limits per window: what may still be taken, what decisions have booked, and what their outcomes settle.

Amounts are whole units of each rule's resolution. A hard limit holds an upper bound of what a decision may use until its outcome is
known, so sums never exceed it; usage is rounded up and limits down.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.concerns import Concern
from tightrope.errors import Exhausted, InvalidInput
from tightrope.ledger.account import Account, Address
from tightrope.ledger.window_accounts import (
    BUCKETS,
    BUCKETS_BY_KEY,
    MOST_UNITS,
    CalendarAccounts,
    RollingAccounts,
    Sums,
    WindowAccounts,
)
from tightrope.offer import Offer
from tightrope.rules import Column, Rules
from tightrope.rules.calendars import Calendar, Rolling
from tightrope.rules.rule import members
from tightrope.validation import Array
from tightrope.words import Key, Place

_EXACT: Final = Context(prec=60)
NOBODY: Final = ""  # the key of an account for all


class WindowAccount(Account):
    """The account of one limit for one key in the window of one time; amounts in the units of its rule.

    `start` and `end` are those of the window, in seconds since 1970; `decisions` counts its decisions so far. Of a limit with
    `at_least`, `allowed` is what is required.
    """

    __slots__ = ("allowed", "decisions", "end", "name", "reserved", "start", "used")

    allowed: Decimal
    reserved: Decimal
    used: Decimal

    def __init__(self, limit: Limit, key: str, sums: Sums) -> None:
        super().__init__(Address(limit.column.name, key or None, int(sums.start), limit.hard))
        self.name = limit.column.name if not key else f"{limit.column.name} of {key!r}"
        self.used, self.reserved = sums.used * limit.unit, sums.held * limit.unit
        self.allowed = limit.allowed(sums.decided) * limit.unit
        self.decisions, self.start, self.end = sums.decided, sums.start, sums.end

    @property
    def taken(self) -> Decimal:
        return self.used + self.reserved


class Limit:
    """One limit per window: its column and its amounts in whole units of `unit`, and the accounts of all keys.

    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Budget("cost", at_most=50, per="day", resolution=0.01)], actions=["a", "b"])
    >>> limit = Limit(rules.windows.columns[0], late=False)
    >>> limit.units(0.125), limit.allowed(0)
    (13, 5000)
    """

    def __init__(self, column: Column, *, late: bool) -> None:
        rule, window = column.rule, column.rule.window
        self.column, self.late, self.hard, self.by = column, late, rule.hard, rule.by
        self.among = frozenset(members(rule.among))
        self.counts = rule.quantity.usage is None
        self.unit = Decimal(1) if self.counts else rule.smallest(column.limit)
        self._up = column.side == "at_most"
        amount = Decimal(repr(column.limit))
        self.shares = not rule.counts_amounts
        self._share = Fraction(amount) if self.shares else None
        self._amount = 0 if self._share is not None else _whole(amount, self.unit, up=not self._up)
        exponent = -self.unit.adjusted()
        self._per_unit = (
            float(10**exponent) if 0 <= exponent <= 22 and self.unit == Decimal(1).scaleb(-exponent) else 0.0
        )
        self.accounts: WindowAccounts
        if isinstance(window, Calendar):
            self.accounts = CalendarAccounts(str(rule), rule.max_keys, window)
        else:
            assert isinstance(window, Rolling)
            buckets = BUCKETS if rule.by is None else BUCKETS_BY_KEY
            self.accounts = RollingAccounts(str(rule), rule.max_keys, window, buckets)

    def units(self, use: float) -> int:
        """Usage in whole units: rounded up, or down where a limit asks for at least so much."""
        near = round(use * self._per_unit)
        if self._per_unit and near / self._per_unit == use:
            return max(-MOST_UNITS, min(near, MOST_UNITS))
        return _whole(Decimal(repr(float(use))), self.unit, up=self._up)

    def bound(self, use: float) -> int:
        """The most that a decision may use, in units: what was given, or else the end of the declared range."""
        if use == use:
            return self.units(use)
        if not self.hard:
            return 0
        if not self.column.rule.declared:
            usage = self.column.rule.quantity.usage
            problem = f"is missing: '{self.column.rule}' must reserve the most that each action may use"
            remedy = "Send it with the decision, or declare range in the rule."
            raise InvalidInput(field=Place("usage", Key(str(usage))), problem=problem, remedy=remedy)
        return self.units(self.column.rule.quantity.range[1])

    def allowed(self, decided: int) -> int:
        """What a window may use, or must, after so many decisions, in units."""
        if self._share is None:
            return self._amount
        share = self._share * decided
        return share.numerator // share.denominator if self._up else -(-share.numerator // share.denominator)

    def fits(self, more: int, sums: Sums) -> bool:
        """Whether a decision may use that much more; using nothing is always allowed."""
        return more <= 0 or sums.used + sums.held + more <= self.allowed(sums.decided + 1)


class Booking(NamedTuple):
    """What a decision has booked under one limit: for whom, in which window, and how much is used and held."""

    limit: int
    key: str
    at: int
    used: int
    held: int


class Windows:
    """The accounts of the limits per window of a set of rules.

    `time` is the latest time of a decision: an account's time never goes back. `bookings` are those of the decisions that await an
    outcome. `overruns` and `strays` count, for each limit, outcomes above what was held, and those of windows that are gone.

    >>> import tightrope as tr
    >>> from tightrope.offer import OfferReader
    >>> rules = tr.Rules([tr.Budget("cost", 1, per="day", by="user", hard=True)], actions=["dear", "none"])
    >>> windows = Windows(rules)
    >>> uses, keys = rules.window_uses({"cost": [0.6, 0.0]}), {"user": "u17"}
    >>> offer = Offer(np.arange(2), W=np.empty((2, 0)), uses=uses, keys=keys, time=0.0)
    >>> windows.take(0, offer, row=0)
    >>> windows.admitted(offer).ids, windows.account(0, "u17", 0.0).left
    (array([1]), Decimal('0.400000000'))
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        rules.windows.require_clock()
        columns, seen = rules.windows.columns, rules.windows.seen
        self.limits = [Limit(one, late=not known) for one, known in zip(columns, seen, strict=True)]
        self.time = -np.inf
        self.bookings: dict[int, tuple[Booking, ...]] = {}
        self.overruns, self.strays = (np.zeros(len(columns), dtype=np.int64) for _ in range(2))
        # Digests of erased keys that still have accounts.
        self.erased: set[str] = set()
        self._hard = [m for m, one in enumerate(self.limits) if one.hard]

    @property
    def shortest(self) -> float:
        """Roughly how many seconds the shortest window lasts."""
        return min(getattr(one.column.rule.window, "shortest", np.inf) for one in self.limits)

    @property
    def late(self) -> bool:
        """Whether some limit counts what is seen only after acting."""
        return any(one.late for one in self.limits)

    def now(self, time: float) -> float:
        """The time of the accounts: what a decision brings, or the latest there was if that is later."""
        return max(self.time, time)

    def account(self, limit: int, key: str | None, time: float) -> WindowAccount:
        """What was used, is reserved, allowed and left under a limit, for a key, at a time."""
        one = self.limits[limit]
        key = NOBODY if key is None else self.name(key)
        return WindowAccount(one, key, one.accounts.sums(key, self.now(time)))

    def name(self, key: str) -> str:
        """What the accounts of a key are called: another name once it is erased."""
        if self.erased and (digest := erased_key(key)) in self.erased:
            return digest
        return key

    def closest(self, limit: int, most: int, time: float) -> list[WindowAccount]:
        """The accounts of keys that have taken the largest parts of what they may, the largest first."""
        one, time = self.limits[limit], self.now(time)
        taken, decided = one.accounts.standings(time)
        allowed = [one.allowed(n) for n in decided.tolist()] if one.shares else one.allowed(0)
        part = taken / np.maximum(1, allowed)
        rows = np.argsort(-part, kind="stable")[:most].tolist()
        return [self.account(limit, key, time) for key in one.accounts.now.keys(rows)]

    @property
    def keys(self) -> int:
        """How many accounts there are, of the present window and of the last."""
        return sum(
            len(one.rows) for limit in self.limits for one in (limit.accounts.now, limit.accounts.last)
        )

    def erase(self, digests: Collection[str], keys: Collection[str] | None = None) -> None:
        """Call the accounts of keys with these `erased_key` by it from now on: they go on counting, but name nobody.

        With `keys`, only these are looked at.
        """
        wanted = {*digests}
        there = [one.accounts for one in self.limits]
        known = {key for one in there for key in one.all_keys()} if keys is None else keys
        names = {key: digest for key in known if (digest := erased_key(key)) in wanted}
        for one in there:
            one.rename(names)
        for number, lines in self.bookings.items():
            if any(line.key in names for line in lines):
                renamed = (line._replace(key=names.get(line.key, line.key)) for line in lines)
                self.bookings[number] = tuple(renamed)
        open_keys = {line.key for lines in self.bookings.values() for line in lines}
        self.erased = {one for one in self.erased | wanted if one in open_keys or self._knows(one)}

    def _knows(self, key: str) -> bool:
        return any(key in part.rows for one in self.limits for part in (one.accounts.now, one.accounts.last))

    def _key(self, limit: Limit, keys: Mapping[str, Any] | None) -> str:
        """The key whose account counts a decision."""
        if limit.by is None:
            return NOBODY
        return self.name(str((keys or {})[limit.by]))

    def admitted(self, offer: Offer) -> Offer:
        """The offer without the actions that may not fit a hard limit; `Exhausted` if none fits. Changes nothing."""
        for one in self.limits:
            if one.by is not None:
                one.accounts.require_room(self._key(one, offer.keys), self.now(offer.time))
        full, rows = self.full(offer, range(len(offer.ids)))
        if not rows:
            raise Exhausted(full, "every action on offer")
        return offer if len(rows) == len(offer.ids) else offer.only(rows)

    def full(self, offer: Offer, rows: Sequence[int]) -> tuple[list[WindowAccount], list[int]]:
        """The accounts under which some of these rows on offer do not fit, and the rows that fit all."""
        assert offer.uses is not None
        time, full, rows = self.now(offer.time), [], list(rows)
        for m in self._hard:
            one = self.limits[m]
            sums, bounds = (
                one.accounts.sums(self._key(one, offer.keys), time),
                list(map(one.bound, offer.uses[:, m].tolist())),
            )
            fit = [row for row in rows if one.fits(bounds[row], sums)]
            if len(fit) < len(rows):
                full.append(WindowAccount(one, self._key(one, offer.keys), sums))
            rows = fit
        return full, rows

    def take(self, number: int, offer: Offer, row: int) -> None:
        """Book what a decision uses, and hold what it may use."""
        assert offer.uses is not None
        self.time = time = self.now(offer.time)
        booked, groups = [], frozenset(members(offer.group))
        for m, (one, use) in enumerate(zip(self.limits, offer.uses[row].tolist(), strict=True)):
            if one.among and not one.among & groups:
                continue
            units, key = one.bound(use), self._key(one, offer.keys)
            used, held = (0, units) if one.late else (units, 0)
            one.accounts.roll(time)
            booked.append(Booking(m, key, one.accounts.book(key, time, used, held), used, held))
        self.bookings[number] = tuple(booked)

    def settle(self, number: int, uses: Sequence[float]) -> None:
        """Book what a decision really used, (M,), instead of what is held for it; in the window in which it was made."""
        settled = []
        for booking in self.bookings[number]:
            one, use = self.limits[booking.limit], uses[booking.limit]
            if one.late and use == use:
                used = one.units(use)
                self.overruns[booking.limit] += one.hard and used > booking.held
                self._correct(booking, used - booking.used, -booking.held)
                booking = booking._replace(used=used, held=0)
            settled.append(booking)
        self.bookings[number] = tuple(settled)

    def expire(self, number: int) -> None:
        """The outcome of a decision will never come: what is held for it counts as used, or as unused, as its rule says."""
        for booking in self.bookings.pop(number, ()):
            if booking.held:
                kept = self.limits[booking.limit].column.rule.kept
                self._correct(booking, booking.held if kept else 0, -booking.held)

    def cancel(self, number: int) -> None:
        """A decision was never carried out: all that it booked is given back. It still counts as a decision."""
        for booking in self.bookings.pop(number, ()):
            self._correct(booking, -booking.used, -booking.held)

    def done(self, number: int) -> None:
        """Nothing more will come of a decision."""
        self.bookings.pop(number, None)

    def _correct(self, booking: Booking, used: int, held: int) -> None:
        limit = self.limits[booking.limit]
        if (used or held) and not limit.accounts.correct(booking.key, booking.at, used, held):
            self.strays[booking.limit] += 1

    def faults(self) -> list[str]:
        """Where what accounts hold differs from the sum of the open reservations; empty if nothing was lost or counted twice."""
        sums: dict[tuple[int, str, int], int] = {}
        for bookings in self.bookings.values():
            for limit, key, at, _, held in bookings:
                sums[limit, key, at] = sums.get((limit, key, at), 0) + held
        found = []
        for m, one in enumerate(self.limits):
            for key, at, held in one.accounts.held():
                expected = sums.pop((m, key, at), 0)
                if held != expected:
                    found.append(
                        f"{one.column.name} holds {held} units for {key!r} from {at}, not {expected}"
                    )
        # What is open in a window that is gone has no account any more.
        return found

    def concerns(self) -> list[Concern]:
        """Outcomes that used more than was reserved for them."""
        found = []
        for one, n in zip(self.limits, self.overruns.tolist(), strict=True):
            if n:
                found.append(
                    f"'{one.column.rule}': {n:,} outcomes used more than was reserved for them, and were counted in full."
                )
        remedy = (
            "Declare a range that no decision exceeds, or send an upper bound as usage with each decision."
        )
        return [Concern("usage above its bound", " ".join(found), remedy)] if found else []

    # State

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state, by name."""
        found: dict[str, NDArray[Any]] = {"time": np.array([self.time])}
        found |= {"overruns": self.overruns.copy(), "strays": self.strays.copy()}
        for m, one in enumerate(self.limits):
            found |= {f"{m}/{name}": array for name, array in one.accounts.arrays().items()}
        lines = [(n, *line) for n, lines in self.bookings.items() for line in lines]
        texts = [line[2].encode() for line in lines]
        numbers = [(n, m, at, used, held, len(key)) for (n, m, _, at, used, held), key in zip(lines, texts)]
        found["erased"] = np.frombuffer("".join(sorted(self.erased)).encode(), dtype=np.uint8)
        found["bookings"] = np.array(numbers, dtype=np.int64).reshape(-1, 6)
        found["booked_keys"] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        return found

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take on a state that `arrays` gave, of the same rules."""
        self.time = float(arrays["time"][0])
        self.overruns[:], self.strays[:] = arrays["overruns"], arrays["strays"]
        for m, one in enumerate(self.limits):
            start = f"{m}/"
            one.accounts.load({n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)})
        whole = arrays["erased"].tobytes().decode()
        self.erased = {whole[i : i + _DIGEST] for i in range(0, len(whole), _DIGEST)}
        text, begin = arrays["booked_keys"].tobytes(), 0
        found: dict[int, list[Booking]] = {}
        for n, m, at, used, held, length in arrays["bookings"].tolist():
            key, begin = text[begin : begin + length].decode(), begin + length
            found.setdefault(n, []).append(Booking(m, key, at, used, held))
        self.bookings = {number: tuple(lines) for number, lines in found.items()}


def erased_key(key: str) -> str:
    """What an account is called once its key is erased.

    >>> erased_key("u17")
    '~9d9cc189db4f28a568564756e909233a'
    """
    return "~" + hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


_DIGEST: Final = 33


def windows_of(rules: Rules | None) -> Windows | None:
    """The accounts of a set of rules; None if no rule limits windows."""
    return Windows(rules) if rules is not None and len(rules.windows) else None


def late_uses(rules: Rules, usage: Mapping[str, Any], action: int, group: Any) -> Array:
    """What a decision used of each limit per window that counts what is seen after acting, (M,)."""
    found: Array = rules.window_uses(usage, group, [action], after=True)[0]
    return found


def _whole(amount: Decimal, unit: Decimal, *, up: bool) -> int:
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    units = _EXACT.divide(amount, unit).to_integral_value(rounding)
    return max(-MOST_UNITS, min(int(units), MOST_UNITS))
