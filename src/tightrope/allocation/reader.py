"""Tables, part by part, as rows of numbers. Rows that can't be used are set apart, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.actions import Actions
from tightrope.allocation.columns import Layout, Source
from tightrope.errors import InvalidInput
from tightrope.frames import Frame, Values
from tightrope.kernels.allocation import Rows
from tightrope.validation import LARGEST

_Mask = NDArray[np.bool_]

# Rows are copied so many at a time, so that all columns of a part are in the cache.
_PART = 16_384


@dataclass(frozen=True, eq=False)
class Read:
    """The rows of a table that can be used, and those that can't."""

    n: int  # rows of the table
    rows: Rows  # of the usable ones; `pattern` counts in `groups`, `keys` in `keys`
    kept: NDArray[np.int64]  # their numbers in the table
    reasons: Mapping[int, str]  # why others are set apart, by number
    groups: Sequence[frozenset[str]]  # of each pattern
    keys: Mapping[str, tuple[Any, ...]]
    columns: Mapping[str, int]  # of the usage block


class RowReader:
    """Takes a table of at most n rows part by part; `finish` returns all of it.

    With `folder` the numbers lie in files there, which the system keeps in memory only as far as there is room. `narrow` says that
    float32 holds every number.
    """

    def __init__(
        self, layout: Layout, names: Actions, n: int, *, narrow: bool, folder: Path | None = None
    ) -> None:
        self._layout, self._names, self._folder = layout, names, folder
        self._columns, self._where = layout.usage_columns, layout.usage_of_actions
        kind = np.dtype(np.float32 if narrow else np.float64)
        self._store = Rows(
            scores=self._array("scores", (n, len(names)), kind),
            usage=self._array("usage", (n, len(self._columns)), kind),
            pattern=self._array("pattern", (n,), np.dtype(np.int32)),
            keys=self._array("keys", (n, len(layout.keys)), np.dtype(np.int64)),
            previous=self._array("previous", (n,), np.dtype(np.int16)),
        )
        self._seen = self._filled = 0
        self._reasons: dict[int, str] = {}
        self._kept: list[NDArray[np.int64]] = []
        self._ids: list[NDArray[Any]] = []
        self._groups: dict[frozenset[str], int] = {}
        self._keys: list[dict[Any, int]] = [{} for _ in layout.keys]

    def add(self, frame: Frame) -> None:
        """The next rows."""
        n, layout = len(frame), self._layout
        bad = np.zeros(n, dtype=np.bool_)

        def set_apart(rows: _Mask, why: str) -> None:
            fresh = np.flatnonzero(rows & ~bad)
            self._reasons.update(dict.fromkeys((self._seen + fresh).tolist(), why))
            bad[fresh] = True

        if layout.id is not None:
            values = frame.column(layout.id)
            set_apart(values.missing, f"{layout.id} is missing")
            self._ids.append(values.array)
        may = self._eligible(frame, set_apart)
        previous = np.full(n, -1, dtype=np.int16)
        if layout.previous is not None:
            previous, unknown = _actions_of(frame.column(layout.previous), self._names)
            set_apart(unknown, f"{layout.previous} is no action")
        kind = self._store.scores.dtype
        scores, used = _block(frame, layout.scores, kind), _block(frame, tuple(self._columns), kind)
        for j, source in enumerate(layout.scores):
            set_apart(may[:, j] & ~(np.abs(scores[:, j]) <= LARGEST), f"{source} is missing or not finite")
        scores[~may] = -np.inf
        for name, j, (low, high) in self._where:
            numbers = used[:, self._columns[name]]
            set_apart(may[:, j] & ~(np.abs(numbers) <= LARGEST), f"{name} is missing or not finite")
            set_apart(may[:, j] & ~((numbers >= low) & (numbers <= high)), f"{name} is outside its range")
        np.nan_to_num(used, copy=False, posinf=0.0, neginf=0.0)
        keys = np.full((n, len(self._keys)), -1, dtype=np.int64)
        for b, name in enumerate(layout.keys.values()):
            values = frame.column(name)
            set_apart(values.missing, f"{name} is missing")
            keys[~bad, b] = _numbered(values.array[~bad], self._keys[b])
        pattern = self._patterns(frame)
        good = np.flatnonzero(~bad)
        here = slice(self._filled, self._filled + len(good))
        found = Rows(scores=scores, usage=used, pattern=pattern, keys=keys, previous=previous)
        for stored, one in zip(self._store, found, strict=True):
            stored[here] = one if len(good) == n else one[good]
        self._kept.append(self._seen + good)
        self._seen, self._filled = self._seen + n, here.stop

    def finish(self) -> Read:
        """All rows that were added."""
        kept = np.concatenate(self._kept) if self._kept else np.empty(0, dtype=np.int64)
        if self._ids:
            again = np.flatnonzero(_repeats(np.concatenate(self._ids)))
            fresh = [i for i in again.tolist() if i not in self._reasons]
            self._reasons.update(dict.fromkeys(fresh, f"{self._layout.id} comes a second time"))
            if fresh:
                stays = ~np.isin(kept, fresh)
                kept = kept[stays]
                for stored in self._store:
                    _drop(stored, stays)
        rows = Rows(*(stored[: len(kept)] for stored in self._store))
        keys = {name: tuple(self._keys[b]) for b, name in enumerate(self._layout.keys)}
        reasons = dict(sorted(self._reasons.items()))
        return Read(self._seen, rows, kept, reasons, tuple(self._groups), keys, self._columns)

    def _array(self, name: str, shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
        if self._folder is None or not all(shape):
            return np.empty(shape, kind)
        return np.asarray(np.memmap(self._folder / name, kind, "w+", shape=shape))

    def _eligible(self, frame: Frame, set_apart: Any) -> _Mask:
        """(n, J): which actions each row may take."""
        n, layout = len(frame), self._layout
        may = np.ones((n, len(self._names)), dtype=np.bool_)
        for j, name in layout.eligible.items():
            told = frame.column(name)
            set_apart(told.missing, f"{name} is missing")
            if told.array.dtype.kind not in "biuf":
                must = "hold yes or no as booleans, or as 1 and 0"
                raise InvalidInput(field=f"column {name!r}", must=must)
            may[:, j] = told.array.astype(np.bool_) & ~told.missing
        if layout.fixed is not None:
            chosen, unknown = _actions_of(frame.column(layout.fixed), self._names)
            set_apart(unknown, f"{layout.fixed} is no action")
            fixed = np.flatnonzero(chosen >= 0)
            only = np.zeros((len(fixed), len(self._names)), dtype=np.bool_)
            only[np.arange(len(fixed)), chosen[fixed]] = True
            refused = np.zeros(n, dtype=np.bool_)
            refused[fixed] = ~(may[fixed] & only).any(axis=1)
            set_apart(refused, f"{layout.fixed} is not eligible")
            may[fixed] &= only
        set_apart(np.asarray(~may.any(axis=1)), "no action is eligible")
        return may

    def _patterns(self, frame: Frame) -> NDArray[np.int32]:
        """The number of the set of groups that each row is in."""
        pattern = np.zeros(len(frame), dtype=np.int64)
        sets: list[frozenset[str]] = [frozenset()]
        for name in self._layout.group:
            values = frame.column(name)
            distinct, at = np.unique(values.array, return_inverse=True)
            found = [frozenset() if one == "" else frozenset([str(one)]) for one in distinct.tolist()]
            here = np.where(values.missing, len(found), at)
            found.append(frozenset())
            combined, pattern = np.unique(pattern * len(found) + here, return_inverse=True)
            sets = [sets[one // len(found)] | found[one % len(found)] for one in combined.tolist()]
        numbers = [self._groups.setdefault(one, len(self._groups)) for one in sets]
        return np.array(numbers, dtype=np.int32)[pattern]


def read_rows(frame: Frame, layout: Layout, names: Actions) -> Read:
    """A table that is in memory."""
    columns = {one for one in layout.numbers if isinstance(one, str)}
    narrow = fits_narrow(layout, {name: frame.column(name).array.dtype for name in columns})
    reader = RowReader(layout, names, len(frame), narrow=narrow)
    reader.add(frame)
    return reader.finish()


def fits_narrow(layout: Layout, kinds: Mapping[str, np.dtype[Any]]) -> bool:
    """Whether float32 holds every score and usage, to the bit."""

    def fits(source: Source) -> bool:
        if not isinstance(source, str):
            return float(np.float32(source)) == source
        kind = kinds[source]
        if kind.kind not in "biuf":
            raise InvalidInput(field=f"column {source!r}", must=f"hold numbers, but its type is {kind}")
        return kind.kind == "b" or kind.itemsize <= (4 if kind.kind == "f" else 2)

    return all(map(fits, layout.numbers))


def _block(frame: Frame, sources: Sequence[Source], kind: np.dtype[Any]) -> NDArray[Any]:
    """(n, len(sources)) numbers; nan where one is missing."""
    n = len(frame)
    read = [frame.column(one) if isinstance(one, str) else one for one in sources]
    block = np.empty((n, len(sources)), kind)
    for begin in range(0, n, _PART):
        part = slice(begin, begin + _PART)
        for j, one in enumerate(read):
            if isinstance(one, Values):
                block[part, j] = one.array[part]
                block[part, j][one.missing[part]] = np.nan
            else:
                block[part, j] = one
    return block


def _actions_of(values: Values, names: Actions) -> tuple[NDArray[np.int16], _Mask]:
    """The id of each row's action, −1 where it is missing or empty; and which are no actions."""
    distinct, at = np.unique(values.array, return_inverse=True)
    known = np.full(len(distinct), -1, dtype=np.int16)
    unknown = np.zeros(len(distinct), dtype=np.bool_)
    for i, one in enumerate(distinct.tolist()):
        one = int(one) if isinstance(one, float) and one.is_integer() else one
        if one in names:
            known[i] = names.id(one)
        else:
            unknown[i] = one != ""
    ids, strange = known[at], unknown[at] & ~values.missing
    ids[values.missing] = -1
    return ids, strange


def _numbered(array: NDArray[Any], numbers: dict[Any, int]) -> NDArray[np.int64]:
    """The number of each key; new keys get the next ones."""
    distinct, at = np.unique(array, return_inverse=True)
    found = [numbers.setdefault(one, len(numbers)) for one in distinct.tolist()]
    return np.array(found, dtype=np.int64)[at]


def _repeats(array: NDArray[Any]) -> _Mask:
    """Which entries have come before."""
    _, first = np.unique(array, return_index=True)
    found = np.ones(len(array), dtype=np.bool_)
    found[first] = False
    return found


def _drop(stored: NDArray[Any], stays: _Mask) -> None:
    """Move the rows that stay to the front, part by part."""
    filled = 0
    for begin in range(0, len(stays), _PART):
        part = stored[begin : begin + _PART][: len(stays) - begin][stays[begin : begin + _PART]]
        stored[filled : filled + len(part)] = part
        filled += len(part)
