"""The accounts of one limit per window: for every key what was used, is held and was decided, in whole units.

Accounts of a calendar window are rows of a table that is replaced when the window ends; the last table stays, for outcomes that
come late. Accounts of a rolling window are rings of buckets. A key costs one row, and nothing two windows after its last decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import TooManyKeys
from tightrope.rules.calendars import Calendar, Rolling

Numbers = NDArray[np.int64]

# Amounts are whole units, and none is larger than this, so that sums can't overflow.
MOST_UNITS: Final = 1 << 60
# Into how many parts a rolling window is cut: for one account, and for each of many.
BUCKETS, BUCKETS_BY_KEY = 96, 8
USED, HELD, DECIDED = 0, 1, 2


class Sums(NamedTuple):
    """What an account holds at some time, in units, and from when to when its window goes."""

    used: int
    held: int
    decided: int
    start: float
    end: float


class Keyed:
    """Rows of whole numbers by key, in one array that grows. The texts of the keys are at hand as bytes, for snapshots."""

    __slots__ = ("lengths", "rows", "table", "text")

    def __init__(self, width: int) -> None:
        self.rows: dict[str, int] = {}
        self.table: Numbers = np.zeros((1, width), dtype=np.int64)
        self.text, self.lengths = bytearray(), array("q")

    def add(self, key: str) -> int:
        row = self.rows[key] = len(self.rows)
        if row == len(self.table):
            self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        text = key.encode()
        self.text += text
        self.lengths.append(len(text))
        return row

    def rename(self, names: Mapping[str, str]) -> None:
        """Keep the rows of some keys under other names, in their places."""
        if not names.keys() & self.rows.keys():
            return
        keys, self.rows = list(self.rows), {}
        self.text, self.lengths = bytearray(), array("q")
        table = self.table
        for key in keys:
            self.add(names.get(key, key))
        self.table = table

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "keys": np.frombuffer(bytes(self.text), dtype=np.uint8),
            "lengths": np.array(self.lengths, dtype=np.int64),
            "rows": self.table[: len(self.rows)].copy(),
        }

    def keys(self, rows: Sequence[int]) -> list[str]:
        """The keys of some rows."""
        ends = np.cumsum(np.array(self.lengths, dtype=np.int64))
        return [bytes(self.text[ends[row] - self.lengths[row] : ends[row]]).decode() for row in rows]

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], width: int) -> Keyed:
        found, text, at = cls(width), arrays["keys"].tobytes(), 0
        lengths = arrays["lengths"].tolist()
        for row, length in enumerate(lengths):
            found.rows[text[at : at + length].decode()] = row
            at += length
        found.text, found.lengths = bytearray(text), array("q", lengths)
        if lengths:
            found.table = np.array(arrays["rows"], dtype=np.int64).reshape(len(lengths), width)
        return found


class WindowAccounts(ABC):
    """The accounts of one limit, by key; "" where there is one for all.

    A booking is addressed by its key and by the moment of its decision, `at`: the start of its calendar window, or the number of
    its bucket. `now` and `last` have the rows of the present and of the previous generation.
    """

    width: int
    now: Keyed
    last: Keyed

    def __init__(self, name: str, most_keys: int) -> None:
        self.name, self.most_keys = name, most_keys

    @abstractmethod
    def sums(self, key: str, time: float) -> Sums:
        """What the account of a key holds at a time; changes nothing."""

    @abstractmethod
    def roll(self, time: float) -> None:
        """Begin the window of a time that never goes back."""

    @abstractmethod
    def book(self, key: str, time: float, used: int, held: int, decided: int = 1) -> int:
        """Count a decision of this time, after `roll`, with what it uses and holds; returns `at`."""

    @abstractmethod
    def moment(self, time: float) -> int:
        """The `at` of a decision at a time of the present window."""

    @abstractmethod
    def counts(self, at: int, time: float) -> bool:
        """Whether what was booked at `at` still counts at a time."""

    @abstractmethod
    def correct(self, key: str, at: int, used: int, held: int) -> bool:
        """Add to what was used and held by a decision at `at`; False if that window is gone."""

    @abstractmethod
    def held(self) -> Iterator[tuple[str, int, int]]:
        """For every key and `at`, how much is held."""

    @abstractmethod
    def restate(self, factor: Fraction) -> None:
        """Count in other units, rounded up, and hold nothing."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Their state."""

    @abstractmethod
    def load(self, arrays: dict[str, NDArray[Any]]) -> None: ...

    def require_room(self, key: str, time: float) -> None:
        """Refuse a key that would be one too many."""
        if key not in self.now.rows and len(self.now.rows) >= self.most_keys and self._stays(time):
            raise TooManyKeys(self.name, self.most_keys)

    @abstractmethod
    def _stays(self, time: float) -> bool:
        """Whether a time is in the present generation."""

    @abstractmethod
    def standings(self, time: float) -> tuple[Numbers, Numbers]:
        """What every account of the present generation has taken at a time, used and held, and its decisions; by row."""

    def all_keys(self) -> Iterator[str]:
        """The keys of the present generation and of the last."""
        yield from self.now.rows
        yield from self.last.rows

    def rename(self, names: Mapping[str, str]) -> None:
        for one in (self.now, self.last):
            one.rename(names)

    def _generations(self) -> dict[str, NDArray[Any]]:
        named = (("now", self.now), ("last", self.last))
        return {f"{part}/{name}": found for part, one in named for name, found in one.arrays().items()}

    def _load_generations(self, arrays: dict[str, NDArray[Any]]) -> None:
        def own(part: str) -> dict[str, NDArray[Any]]:
            return {name: arrays[f"{part}/{name}"] for name in ("keys", "lengths", "rows")}

        self.now, self.last = (Keyed.restore(own(part), self.width) for part in ("now", "last"))


class CalendarAccounts(WindowAccounts):
    """Accounts of calendar windows. `bounds` stay as they were when the window began; `before` is when the last one did."""

    width = 3

    def __init__(self, name: str, most_keys: int, calendar: Calendar) -> None:
        super().__init__(name, most_keys)
        self.calendar = calendar
        self.now, self.last = Keyed(self.width), Keyed(self.width)
        self.bounds: tuple[float, float] | None = None
        self.before = 0

    def sums(self, key: str, time: float) -> Sums:
        if self.bounds is None or time >= self.bounds[1]:
            return Sums(0, 0, 0, *self.calendar.bounds(time))
        row = self.now.rows.get(key)
        if row is None:
            return Sums(0, 0, 0, *self.bounds)
        used, held, decided = self.now.table[row].tolist()
        return Sums(used, held, decided, *self.bounds)

    def decided_before(self, key: str, time: float) -> int:
        """How many decisions a key had in the window before that of a time, if that was the last there was."""
        there = self.now if self.bounds is not None and time >= self.bounds[1] else self.last
        row = there.rows.get(key)
        return 0 if row is None else int(there.table[row, DECIDED])

    def roll(self, time: float) -> None:
        if self.bounds is None:
            self.bounds = self.calendar.bounds(time)
        elif time >= self.bounds[1]:
            self.before = int(self.bounds[0])
            self.last, self.now = self.now, Keyed(self.width)
            self.bounds = self.calendar.bounds(time)

    def book(self, key: str, time: float, used: int, held: int, decided: int = 1) -> int:
        row = self.now.rows.get(key)
        row = self.now.add(key) if row is None else row
        _add(self.now.table[row], used, held, decided)
        return self.moment(time)

    def moment(self, time: float) -> int:
        assert self.bounds is not None
        return int(self.bounds[0])

    def counts(self, at: int, time: float) -> bool:
        return self.bounds is not None and at == int(self.bounds[0]) and time < self.bounds[1]

    def correct(self, key: str, at: int, used: int, held: int) -> bool:
        assert self.bounds is not None
        there = self.now if at == int(self.bounds[0]) else self.last if at == self.before else None
        row = None if there is None else there.rows.get(key)
        if there is None or row is None:
            return False
        _add(there.table[row], used, held, 0)
        return True

    def _stays(self, time: float) -> bool:
        return self.bounds is not None and time < self.bounds[1]

    def held(self) -> Iterator[tuple[str, int, int]]:
        if self.bounds is not None:
            for one, at in ((self.now, int(self.bounds[0])), (self.last, self.before)):
                yield from ((key, at, int(one.table[row, HELD])) for key, row in one.rows.items())

    def standings(self, time: float) -> tuple[Numbers, Numbers]:
        n = len(self.now.rows) if self._stays(time) else 0
        found = self.now.table[:n]
        return found[:, USED] + found[:, HELD], found[:, DECIDED].copy()

    def restate(self, factor: Fraction) -> None:
        for one in (self.now, self.last):
            one.table[:, USED] = _times(one.table[:, USED], factor)
            one.table[:, HELD] = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "bounds": np.array(() if self.bounds is None else self.bounds),
            "before": np.array([self.before], dtype=np.int64),
            **self._generations(),
        }

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        found = arrays["bounds"].tolist()
        self.bounds = (found[0], found[1]) if found else None
        self.before = int(arrays["before"][0])
        self._load_generations(arrays)


class RollingAccounts(WindowAccounts):
    """Accounts of every stretch of `span` seconds: a row is the number of its newest bucket, then used, held, decided by bucket.

    The oldest bucket counts in full until all of it is past: an account never counts too little. A generation is as long as the
    span; a row that is touched in a new one moves there, and what is left behind is past when the next begins.
    """

    def __init__(self, name: str, most_keys: int, rolling: Rolling, buckets: int) -> None:
        super().__init__(name, most_keys)
        self.span, self.buckets = rolling.span, buckets
        self.width = 1 + 3 * (buckets + 1)
        self.now, self.last = Keyed(self.width), Keyed(self.width)
        self.generation: int | None = None

    def moment(self, time: float) -> int:
        """The number of its bucket."""
        return int(time * self.buckets // self.span)

    def counts(self, at: int, time: float) -> bool:
        return at >= self.moment(time) - self.buckets

    def sums(self, key: str, time: float) -> Sums:
        head = self.moment(time)
        start = (head - self.buckets) * self.span / self.buckets
        row = self._find(key, time)
        if row is None:
            return Sums(0, 0, 0, start, time)
        rings, gone = row[1:].reshape(3, -1), head - int(row[0])
        if gone > 0:
            rings = rings[:, self._kept(int(row[0]), head)]
        used, held, decided = rings.sum(axis=1).tolist()
        return Sums(used, held, decided, start, time)

    def roll(self, time: float) -> None:
        due = int(time // self.span)
        if self.generation is None or due > self.generation:
            near = self.generation is not None and due == self.generation + 1
            self.last, self.now = self.now if near else Keyed(self.width), Keyed(self.width)
            self.generation = due

    def book(self, key: str, time: float, used: int, held: int, decided: int = 1) -> int:
        head, n = self.moment(time), self.buckets + 1
        found = self.now.rows.get(key)
        if found is None:
            old = self.last.rows.get(key)
            found = self.now.add(key)
            if old is None:
                self.now.table[found, 0] = head
            else:
                self.now.table[found] = self.last.table[old]
        row = self.now.table[found]
        if head > row[0]:
            rings = row[1:].reshape(3, n)
            rings[:, ~self._kept(int(row[0]), head)] = 0
            row[0] = head
        place = head % n
        cells = row[1:].reshape(3, n)[:, place]
        _add(cells, used, held, decided)
        return head

    def correct(self, key: str, at: int, used: int, held: int) -> bool:
        for there in (self.now, self.last):
            found = there.rows.get(key)
            if found is not None:
                row, n = there.table[found], self.buckets + 1
                if at <= row[0] - n:
                    return False
                _add(row[1:].reshape(3, n)[:, at % n], used, held, 0)
                return True
        return False

    def ring(self, key: str, time: float) -> Numbers:
        """What was used and is held in each bucket of the window that ends at a time, the oldest first."""
        head, n = self.moment(time), self.buckets + 1
        row = self._find(key, time)
        if row is None:
            return np.zeros(n, dtype=np.int64)
        rings = row[1:].reshape(3, n)[:2].sum(axis=0)
        rings[~self._kept(int(row[0]), head)] = 0
        oldest_first: Numbers = rings[(head + 1 + np.arange(n)) % n]
        return oldest_first

    def _kept(self, newest: int, head: int) -> NDArray[np.bool_]:
        """Which places of a ring still count when the newest bucket is `head`."""
        n = self.buckets + 1
        past = np.arange(newest + 1, min(head, newest + n) + 1) % n
        kept = np.ones(n, dtype=np.bool_)
        kept[past] = False
        return kept

    def _find(self, key: str, time: float) -> Numbers | None:
        due = int(time // self.span)
        if self.generation is None or due > self.generation + 1:
            return None
        there = (self.now, self.last) if due <= self.generation else (self.now,)
        for one in there:
            at = one.rows.get(key)
            if at is not None:
                row: Numbers = one.table[at]
                return row
        return None

    def _stays(self, time: float) -> bool:
        return self.generation is not None and int(time // self.span) <= self.generation

    def held(self) -> Iterator[tuple[str, int, int]]:
        n = self.buckets + 1
        left = {key: row for key, row in self.last.rows.items() if key not in self.now.rows}
        for one, rows in ((self.now, self.now.rows), (self.last, left)):
            for key, row in rows.items():
                newest, held = int(one.table[row, 0]), one.table[row, 1:].reshape(3, n)[HELD]
                yield from ((key, at, int(held[at % n])) for at in range(newest - n + 1, newest + 1))

    def standings(self, time: float) -> tuple[Numbers, Numbers]:
        n, newest = self.buckets + 1, self.now.table[: len(self.now.rows), :1]
        bucket_of = newest - (newest - np.arange(n)) % n
        kept = bucket_of >= self.moment(time) - self.buckets
        rings = self.now.table[: len(newest), 1:].reshape(len(newest), 3, n) * kept[:, None]
        return rings[:, :DECIDED].sum(axis=(1, 2)), rings[:, DECIDED].sum(axis=1)

    def restate(self, factor: Fraction) -> None:
        n = self.buckets + 1
        for one in (self.now, self.last):
            one.table[:, 1 : 1 + n] = _times(one.table[:, 1 : 1 + n], factor)
            one.table[:, 1 + n : 1 + 2 * n] = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        generation = () if self.generation is None else (self.generation,)
        return {"generation": np.array(generation, dtype=np.int64), **self._generations()}

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        found = arrays["generation"].tolist()
        self.generation = found[0] if found else None
        self._load_generations(arrays)


def _times(units: Numbers, factor: Fraction) -> Numbers:
    if factor == 1:
        return units
    scaled = [-(-int(one) * factor.numerator // factor.denominator) for one in units.flat]
    return np.array(scaled, dtype=np.int64).reshape(units.shape)


def _add(cells: Numbers, used: int, held: int, decided: int) -> None:
    cells[USED] = min(int(cells[USED]) + used, MOST_UNITS)
    cells[HELD] += held
    cells[DECIDED] += decided
