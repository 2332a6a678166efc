"""The rounds that prices are computed from: what was on offer, each distinct round once, with how often it is remembered."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.kernels import shadow
from tightrope.models.model import NO_DECISION
from tightrope.offer import Offer, OfferReader
from tightrope.policies.state_file import Arrays
from tightrope.policies.warm_start import Lessons
from tightrope.validation import Array

Ids = NDArray[np.int64]


class Remembered(NamedTuple):
    """One round: ids on offer (J,), φ and ψ (a row for each, or one for all), costs known before (J, K), rules in force (K,).

    Features of a `catalogue` are the catalogue's own array, not a copy; they are compared by identity, not by their numbers.
    """

    ids: Ids
    phi: Array | None
    psi: Array | None
    W: Array
    force: NDArray[np.bool_] | None = None
    catalogue: bool = False

    def mark(self) -> float:
        """A number that equal rounds share, and different ones hardly ever do."""
        rows = _NONE if self.phi is None or self.catalogue else self.phi.reshape(-1)
        return float(_fingerprint()(rows, self.W.reshape(-1), shadow.MARKS))

    def kept(self) -> Remembered:
        """The same round with arrays of its own, except for the features of a catalogue."""
        ids, phi, psi, W, force, catalogue = self
        W = W.copy()
        if catalogue:
            return Remembered(ids, phi, psi if psi is None or psi is phi else psi.copy(), W, force, True)
        phi, psi = None if phi is None else phi.copy(), None if psi is None else psi.copy()
        return Remembered(ids, phi, psi, W, force, False)

    def equals(self, other: Remembered) -> bool:
        return (
            _equal(self.W, other.W)
            and _equal(self.ids, other.ids)
            and (self.phi is other.phi if self.catalogue or other.catalogue else _equal(self.phi, other.phi))
            and _equal(self.psi, other.psi)
            and _equal(self.force, other.force)
        )

    def key(self) -> bytes:
        """A key that is the same for equal rounds and only for those."""
        parts = [self.ids.tobytes(), self.W.tobytes()]
        for rows in (self.phi, self.psi):
            if rows is not None:
                shared = self.catalogue and rows is self.phi
                parts += [b"%d;" % len(rows), b"%d" % id(rows) if shared else rows.tobytes()]
        if self.force is not None:
            parts.append(self.force.tobytes())
        return b"".join(parts)


def _equal(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    if a is None or b is None or a is b:
        return a is b
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def remembered(offer: Offer, force: NDArray[np.bool_] | None) -> Remembered:
    phi, psi = offer.phi, offer.psi
    if offer.catalogue is None:
        return Remembered(offer.ids, phi, psi, offer.W, force)
    rows = offer.catalogue
    return Remembered(offer.ids, rows, rows if psi is phi else psi, offer.W, force, True)


def logged_rounds(log: Lessons, read: OfferReader) -> list[Remembered]:
    """The offers of logged rounds, if one x serves all actions and no cost is known before acting; otherwise nothing."""
    models = [model for model in (read.reward, read.cost) if model is not None]
    unknown = len(read.known_columns) > 0 or any(model.n_actions is None for model in models)
    if read.cost is None or read.rules is not None or unknown:
        return []
    ids = np.arange(read.n_actions or 0)
    W = np.zeros((len(ids), read.K))
    psi = log.psi if log.psi is not None else log.phi
    return [
        Remembered(
            ids,
            None if log.phi is None else log.phi[i : i + 1].copy(),
            None if psi is None or not read.cost.n_features else psi[i : i + 1].copy(),
            W,
        )
        for i in range(len(log.ids))
    ]


_NONE = np.empty(0)


@cache
def _fingerprint() -> Any:
    return kernels.entry(shadow.fingerprint, _NONE, _NONE, shadow.MARKS)


class RoundMemory:
    """Slots, one for each remembered round, and the distinct rounds in them, numbered, lowest free number first.

    `decisions` has for each slot the number of the decision made in that round.
    """

    def __init__(
        self,
        slots: Sequence[int] = (),
        decisions: Sequence[int] = (),
        entries: Sequence[Remembered | None] = (),
    ) -> None:
        self.slots, self.decisions, self.entries = list(slots), list(decisions), list(entries)
        size = len(self.entries)
        self.counts: list[int] = np.bincount(np.array(self.slots, dtype=np.int64), minlength=size).tolist()
        if len(self.decisions) != len(self.slots):
            raise ValueError("memory/decisions must have a number for each of memory/slots")
        if len(self.counts) != size:
            raise ValueError("memory/slots names rounds that memory/numbers does not have")
        self._marks: list[float] = []
        self._numbers: dict[float, list[int]] = {}
        self._mark_all()
        self._free = [number for number, entry in enumerate(self.entries) if entry is None]
        self._catalogues: list[Array] = []

    def __len__(self) -> int:
        return len(self.slots)

    def knows(self, mark: float) -> bool:
        return mark in self._numbers

    def remember(
        self, slot: int, entry: Remembered, mark: float, own: bool = False, decision: int = NO_DECISION
    ) -> None:
        """Put a round, with its mark, into a slot: the next one, or an occupied one. `own`: nobody else has its arrays."""
        if entry.catalogue and entry.phi is not None:
            self._share(entry.phi)
        if slot < len(self.slots):
            self._release(self.slots[slot])
        number = self._number_of(mark, entry) if mark in self._numbers else None
        if number is None:
            if not own:
                entry = entry.kept()
            if self._free:
                number = heapq.heappop(self._free)
                self.entries[number], self.counts[number], self._marks[number] = entry, 0, mark
            else:
                number = len(self.entries)
                self.entries.append(entry)
                self.counts.append(0)
                self._marks.append(mark)
            self._numbers.setdefault(mark, []).append(number)
        self.counts[number] += 1
        if slot < len(self.slots):
            self.slots[slot], self.decisions[slot] = number, decision
        else:
            self.slots.append(number)
            self.decisions.append(decision)

    def forget(self, decisions: Collection[int]) -> bool:
        """Drop the rounds of some decisions; returns whether there were any. A round shared with other decisions stays for them."""
        stay = []
        for slot, decision in enumerate(self.decisions):
            if decision in decisions:
                self._release(self.slots[slot])
            else:
                stay.append(slot)
        found = len(stay) < len(self.slots)
        self.slots, self.decisions = [self.slots[i] for i in stay], [self.decisions[i] for i in stay]
        return found

    def shorten(self, slots: int) -> None:
        for number in self.slots[slots:]:
            self._release(number)
        del self.slots[slots:], self.decisions[slots:]

    def sample(self, most_rows: float) -> tuple[list[Remembered], Array]:
        """The distinct rounds in order of their numbers, with their weights; rounds are added until they have this many rows."""
        numbers = self.sampled(most_rows)
        return [self.entry(number) for number in numbers], np.array([float(self.counts[i]) for i in numbers])

    def sampled(self, most_rows: float) -> list[int]:
        """The numbers of the distinct rounds in a sample."""
        numbers: list[int] = []
        rows = 0
        for number, (entry, count) in enumerate(zip(self.entries, self.counts)):
            if entry is not None and count and (not numbers or rows < most_rows):
                numbers.append(number)
                rows += len(entry.ids)
        return numbers

    def entry(self, number: int) -> Remembered:
        found = self.entries[number]
        assert found is not None
        return found

    def sums(self, numbers: Sequence[int], of_slots: Array) -> Array:
        """For these distinct rounds, the sums over their slots of a number for each slot."""
        return np.bincount(self.slots, of_slots, minlength=len(self.entries)).astype(float)[numbers]

    def restate(self, change: Array) -> None:
        """Add this much (K,) to the costs of every round in which the rules are in force."""
        for number, entry in enumerate(self.entries):
            if entry is not None:
                by = change if entry.force is None else change * entry.force
                self.entries[number] = entry._replace(W=entry.W + by)
        self._mark_all()

    def _share(self, rows: Array) -> None:
        """Identify a catalogue by its array: it replaces an array with the same numbers, such as a restored memory has."""
        if any(known is rows for known in self._catalogues):
            return
        held = {id(entry.phi): entry.phi for entry in self.entries if entry is not None and entry.catalogue}
        self._catalogues = [known for known in held.values() if known is not None]
        for i, known in enumerate(self._catalogues):
            if np.array_equal(known[:1], rows[:1]) and np.array_equal(known, rows):
                self._catalogues[i] = rows
                for number, entry in enumerate(self.entries):
                    if entry is not None and entry.phi is known:
                        psi = rows if entry.psi is known else entry.psi
                        self.entries[number] = entry._replace(phi=rows, psi=psi)
                return
        self._catalogues.append(rows)

    def _number_of(self, mark: float, entry: Remembered) -> int | None:
        for number in self._numbers.get(mark, ()):
            other = self.entries[number]
            if other is not None and other.equals(entry):
                return number
        return None

    def _mark_all(self) -> None:
        self._numbers.clear()
        self._marks = [float("nan")] * len(self.entries)
        for number, entry in enumerate(self.entries):
            if entry is not None:
                self._marks[number] = mark = entry.mark()
                self._numbers.setdefault(mark, []).append(number)

    def _release(self, number: int) -> None:
        self.counts[number] -= 1
        if self.counts[number] == 0:
            mark = self._marks[number]
            self._numbers[mark].remove(number)
            if not self._numbers[mark]:
                del self._numbers[mark]
            self.entries[number] = None
            heapq.heappush(self._free, number)

    # Save and restore

    def arrays(self, others: Sequence[Remembered] = ()) -> tuple[Arrays, Ids]:
        """The state, by name, with other rounds after the remembered ones; and where in that list the others are.

        Most of the others are remembered too, and are stored once.
        """
        used = [number for number, entry in enumerate(self.entries) if entry is not None]
        kept = [entry for entry in self.entries if entry is not None]
        places = {id(entry): i for i, entry in enumerate(kept)}
        for other in others:
            if id(other) not in places:
                places[id(other)] = len(kept)
                kept.append(other)
        arrays = {
            "slots": np.array(self.slots, dtype=np.int64),
            "decisions": np.array(self.decisions, dtype=np.int64),
            "numbers": np.array(used, dtype=np.int64),
            **pack(kept),
        }
        return arrays, np.array([places[id(other)] for other in others], dtype=np.int64)

    @classmethod
    def restore(cls, arrays: Arrays) -> tuple[RoundMemory, list[Remembered]]:
        numbers, kept = arrays["numbers"].tolist(), unpack(arrays)
        entries: list[Remembered | None] = [None] * (max(numbers, default=-1) + 1)
        for number, entry in zip(numbers, kept):
            entries[number] = entry
        memory = cls(arrays["slots"].tolist(), arrays["decisions"].tolist(), entries)
        return memory, kept


def pack(entries: Sequence[Remembered]) -> Arrays:
    """Rounds as arrays; an array that several rounds share is written once."""
    shared: dict[int, tuple[int, Array]] = {}

    def kept(rows: Array | None) -> int:
        if rows is None:
            return -1
        return shared.setdefault(id(rows), (len(shared), rows))[0]

    phi = np.array([kept(entry.phi) for entry in entries], dtype=np.int64)
    psi = np.array([kept(entry.psi) for entry in entries], dtype=np.int64)
    tables = [rows for _, rows in shared.values()]
    K = entries[0].W.shape[1] if entries else 0
    every = np.ones(K, dtype=np.bool_)
    return {
        "sizes": np.array([len(entry.ids) for entry in entries], dtype=np.int64),
        "ids": _joined([entry.ids for entry in entries], np.int64),
        "costs": _joined([entry.W.reshape(-1) for entry in entries], np.float64),
        "phi": phi,
        "psi": psi,
        "table_shapes": np.array([rows.shape for rows in tables], dtype=np.int64).reshape(len(tables), 2),
        "tables": _joined([rows.reshape(-1) for rows in tables], np.float64),
        "force": np.array(
            [every if entry.force is None else entry.force for entry in entries], dtype=np.bool_
        ).reshape(len(entries), K),
        "forced": np.array([entry.force is not None for entry in entries], dtype=np.bool_),
        "catalogue": np.array([entry.catalogue for entry in entries], dtype=np.bool_),
    }


def unpack(arrays: Arrays) -> list[Remembered]:
    shapes, sizes, K = arrays["table_shapes"], arrays["sizes"], arrays["force"].shape[1]
    parts = _split(arrays["tables"], shapes.prod(axis=1))
    tables = [np.ascontiguousarray(rows.reshape(n, p)) for rows, (n, p) in zip(parts, shapes.tolist())]
    each = [arrays[name].tolist() for name in ("phi", "psi", "forced", "catalogue")]
    lines = zip(_split(arrays["ids"], sizes), _split(arrays["costs"], sizes * K), arrays["force"], *each)
    return [
        Remembered(
            ids.astype(np.int64),
            None if phi < 0 else tables[phi],
            None if psi < 0 else tables[psi],
            np.array(W.reshape(len(ids), K)),
            np.array(force, dtype=np.bool_) if forced else None,
            catalogue,
        )
        for ids, W, force, phi, psi, forced, catalogue in lines
    ]


def _split(joined: NDArray[Any], sizes: NDArray[Any]) -> list[NDArray[Any]]:
    return np.split(joined, np.cumsum(sizes)[:-1])


def _joined(parts: list[NDArray[np.generic]], dtype: type[np.generic]) -> NDArray[np.generic]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)
