"""Columns and rows of any table: pandas, polars, pyarrow, plain Python columns or rows, arrays; and results as such tables."""

from __future__ import annotations

import datetime
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean
from tightrope.validation import Array, require_choice
from tightrope.words import Place, Shown

# How many rows are Python objects at a time.
CHUNK = 65_536

Library: TypeAlias = Literal["pandas", "polars"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PLAIN = (str, bool, int, float, datetime.date, np.datetime64)
_MAY_BE_NONE = (float, np.floating, np.datetime64)
_KINDS = {"U": "strings", "M": "dates"}
# The placeholder for a missing value, by the kind of dtype.
_NOTHING: dict[str, Any] = {"U": "", "b": False, "M": np.datetime64("NaT", "us")}


class Values(NamedTuple):
    """A column (n,) of bool, numbers, str or datetime64, and which entries are missing."""

    array: NDArray[Any]
    missing: NDArray[np.bool_]

    def to_list(self) -> list[Any]:
        """The entries in plain Python: times as ISO text, None for missing ones."""
        plain = np.datetime_as_string(self.array) if self.array.dtype.kind == "M" else self.array
        return [None if gap else one for one, gap in zip(plain.tolist(), self.missing.tolist())]


class Coded(NamedTuple):
    """A column of texts, each stored once: `texts` (m,) in the order of their first rows, and `codes` (n,), −1 for a gap."""

    texts: NDArray[Any]
    codes: NDArray[np.int32]

    def at(self, rows: Any) -> Coded:
        """Some of its rows, with only the texts that they hold."""
        used, codes = np.unique(self.codes[rows], return_inverse=True)
        gap = int(used.size > 0 and used[0] < 0)
        return Coded(self.texts[used[gap:]], codes.ravel().astype(np.int32) - np.int32(gap))

    def values(self) -> Values:
        missing = self.codes < 0
        if not self.texts.size:
            return Values(np.full(missing.size, "", dtype="U1"), missing)
        spread_out = _texts(self.texts)[self.codes]
        spread_out[missing] = ""
        return Values(spread_out, missing)


class Frame:
    """The columns of a table, by name. A column is read when it is first asked for, a chunk at a time, and then kept.

    The table is a DataFrame, a pyarrow Table, a structured array, a mapping of columns, a sequence of rows, an (n, p) array, or a
    Frame, of which only some `rows` may be meant, by their numbers or a mask. A row is a mapping, a named tuple, a Series or a
    record; what a mapping does not hold is missing. `names` are the columns of an array, by default "x0", "x1", …; `path` and
    `sha256` are of the file that it was read from.

    >>> Frame({"age": [20, 41], "ward": ["A", "B"]}).where([False, True]).to_dict()
    {'age': [41], 'ward': ['B']}
    """

    def __init__(
        self,
        table: Any,
        names: Sequence[str] | None = None,
        *,
        rows: Any = None,
        path: Path | None = None,
        sha256: str | None = None,
    ) -> None:
        whole = isinstance(table, Frame)
        self._table = table if whole else _columns(table, names)
        self._rows = rows
        self.names: tuple[Any, ...] = table.names if whole else tuple(self._table)
        self.path: Path | None = table.path if whole else path
        self.sha256: str | None = table.sha256 if whole else sha256
        self._length: int | None = None
        self._read: dict[str, Values] = {}

    def __len__(self) -> int:
        if self._length is None and self.names:
            self._length = self.missing(self.names[0]).size
        return self._length or 0

    def column(self, name: str) -> Values:
        """A column with its gaps: None, NaN, and their equivalents in pandas and polars."""
        if name not in self._read:
            found = self._values(name)
            if self._length is None:
                self._length = found.array.size
            if found.array.size != self._length:
                must = f"have {self._length} entries, but has {found.array.size}"
                raise InvalidInput(field=f"column {name!r}", must=must)
            self._read[name] = found
        return self._read[name]

    def texts(self, name: str) -> Coded | None:
        """A column of texts, each stored once, if that is how the table has it."""
        if isinstance(self._table, Frame):
            found = self._table.texts(name)
            return found if found is None or self._rows is None else found.at(self._rows)
        found = self._table.get(name)
        return found if isinstance(found, Coded) else None

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Where a column has gaps, (n,)."""
        coded = self.texts(name)
        return self.column(name).missing if coded is None else np.asarray(coded.codes < 0)

    def whole(self, name: str) -> NDArray[Any]:
        """A column that may have no gap."""
        array, missing = self.column(name)
        if missing.any():
            raise InvalidInput(field=Place(f"column {name!r}", int(missing.argmax())), problem="is missing")
        return array

    def numbers(self, stated: str | float) -> Array:
        """A column of numbers without a gap, or the same number in each row, (n,)."""
        if not isinstance(stated, str):
            return np.full(len(self), float(stated))
        column = self.whole(stated)
        if column.dtype.kind not in "biuf":
            must = f"hold numbers, but its first entry is {column[0].item()!r}"
            raise InvalidInput(field=f"column {stated!r}", must=must)
        return column.astype(np.float64)

    def where(self, rows: Any) -> Frame:
        return Frame(self, rows=np.asarray(rows))

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: self.column(name).to_list() for name in self.names}

    def _values(self, name: str) -> Values:
        if name not in self.names:
            known = [str(one) for one in self.names]
            near = did_you_mean(name, known)
            raise InvalidInput(f"frame must have a column {name!r}{near}; it has: {', '.join(known)}")
        if not isinstance(self._table, Frame):
            return _read(name, self._table[name])
        if self._rows is not None and (coded := self.texts(name)) is not None:
            return coded.values()
        found = self._table.column(name)
        return found if self._rows is None else Values(found.array[self._rows], found.missing[self._rows])


class AsFrame:
    """A base for classes that can be turned into a pandas or polars table: they define `frame_rows`."""

    __slots__ = ()

    def frame_rows(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def to_frame(self, library: Library = "pandas") -> Any:
        """A DataFrame of pandas or polars."""
        return made_frame(self.frame_rows(), library)

    def to_pandas(self) -> Any:
        """A DataFrame of pandas."""
        return self.to_frame("pandas")

    def to_polars(self) -> Any:
        """A DataFrame of polars."""
        return self.to_frame("polars")


def made_frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any], library: Library = "pandas") -> Any:
    """Rows by column names, or columns by name, as a DataFrame; lists and tables within a cell become JSON."""
    require_choice("library", library, get_args(Library))
    try:
        importlib.import_module(library)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{library} is not installed: pip install {library}.") from error
    import narwhals as nw

    columns = rows if isinstance(rows, Mapping) else _by_column(rows)
    cells = {name: [_cell(one) for one in values] for name, values in columns.items()}
    return nw.from_dict(cells, backend=library).to_native()


def row_of(value: Any, names: Sequence[str]) -> Mapping[str, Any] | None:
    """One row as a mapping: of a mapping, a named tuple, a Series or a record, or of an array (p,); None for a table."""
    if isinstance(value, Mapping):
        columns = any(hasattr(one, "__len__") and not isinstance(one, str | bytes) for one in value.values())
        return None if columns else value
    if isinstance(value, np.void) and value.dtype.names:
        return dict(zip(value.dtype.names, value.tolist()))
    if (by_name := getattr(value, "_asdict", None)) is not None:
        return dict(by_name())
    if hasattr(value, "index") and hasattr(value, "to_dict") and getattr(value, "ndim", 0) == 1:
        series: Mapping[str, Any] = value.to_dict()
        return series
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.names is None:
        if value.size != len(names):
            raise InvalidInput(field="a row", must=f"have {len(names)} entries, but has {value.size}")
        return dict(zip(names, value.tolist()))
    return None


def is_missing(value: Any) -> bool:
    """Whether a value counts as missing: None, NaN, pandas' NA and NaT."""
    if value is None:
        return True
    if isinstance(value, _MAY_BE_NONE):
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def microseconds(value: Any) -> int | None:
    """Since 1970, of a date, a time (in UTC, unless it says otherwise) or a text in ISO's form; None for anything else."""
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[us]").astype(np.int64))
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return (aware - _EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value.toordinal() - _EPOCH.toordinal()) * 86_400_000_000
    return None


def _cell(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value


def _columns(table: Any, names: Sequence[str] | None) -> Mapping[str, Any]:
    if isinstance(table, Mapping):
        return table
    if isinstance(table, np.ndarray) and table.dtype.names is not None:
        return {name: table[name] for name in table.dtype.names}
    if isinstance(table, np.ndarray):
        if table.ndim != 2:
            must = f"have shape (rows, columns), but its shape is {table.shape}"
            raise InvalidInput(field="an array", must=must)
        names = [f"x{i}" for i in range(table.shape[1])] if names is None else names
        if len(names) != table.shape[1]:
            must = f"have the {len(names)} columns {', '.join(names)}, but has {table.shape[1]}"
            raise InvalidInput(field="an array", must=must)
        return dict(zip(names, table.T))
    if isinstance(table, Sequence) and not isinstance(table, str | bytes) and not hasattr(table, "_asdict"):
        return _of_rows(table)
    import narwhals as nw

    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        must, came = "have named columns or be a list of rows", Shown(type(table).__name__)
        raise InvalidInput(field="a table", must=must, got=came) from None
    return dict(zip(frame.columns, frame.iter_columns()))


def _of_rows(rows: Sequence[Any]) -> dict[str, list[Any]]:
    found: list[Mapping[str, Any]] = []
    for i, one in enumerate(rows):
        row = None if isinstance(one, np.ndarray) else row_of(one, ())
        if row is None:
            raise InvalidInput(field=Place("rows", i), must="be a row by column names", got=one)
        found.append(row)
    return _by_column(found)


def _by_column(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _read(name: str, raw: Any) -> Values:
    if isinstance(raw, Coded):
        return raw.values()
    if isinstance(raw, Values):
        return Values(_texts(raw.array), raw.missing) if raw.array.dtype.kind == "T" else raw
    if not isinstance(raw, list | tuple | np.ndarray):
        import narwhals as nw

        raw = nw.from_native(raw, series_only=True, pass_through=True)
        if not isinstance(raw, nw.Series):
            raw = np.asarray(raw.to_numpy() if hasattr(raw, "to_numpy") else raw)
        elif raw.dtype.is_numeric() or raw.dtype.is_temporal():
            raw = raw.to_numpy()
    if isinstance(raw, np.ndarray):
        if raw.ndim != 1:
            must = f"be a sequence of values, but its shape is {raw.shape}"
            raise InvalidInput(field=f"column {name!r}", must=must)
        if raw.dtype.kind != "O":
            return _typed_array(name, raw)
    parts = []
    for begin in range(0, max(1, len(raw)), CHUNK):
        part = raw[begin : begin + CHUNK]
        # NumPy would silently turn a mixed list into strings.
        if not isinstance(part, list | tuple):
            part = part.tolist() if isinstance(part, np.ndarray) else part.to_list()
        parts.append(_typed_objects(name, list(part), begin))
    return parts[0] if len(parts) == 1 else joined(name, parts)


def _typed_array(name: str, array: NDArray[Any]) -> Values:
    kind = array.dtype.kind
    if kind == "T":
        array = _texts(array)
    elif kind == "M":
        array = array.astype("datetime64[us]")
    elif kind not in "biufU":
        _refuse_dtype(name, array)
    missing = array != array if kind in "fM" else np.zeros(array.size, dtype=bool)
    return Values(array, np.asarray(missing))


def _texts(array: NDArray[Any]) -> NDArray[Any]:
    longest = int(np.strings.str_len(array).max(initial=1))
    return array.astype(f"U{longest}")


def _typed_objects(name: str, entries: list[Any], begin: int) -> Values:
    if set(map(type, entries)) == {str}:  # most columns of objects; no need to look at each value
        return Values(np.array(entries), np.zeros(len(entries), dtype=bool))
    missing = np.array([is_missing(one) for one in entries], dtype=bool)
    for i, one in enumerate(entries):
        if not missing[i] and not isinstance(one, _PLAIN):
            place = Place(f"column {name!r}", begin + i)
            raise InvalidInput(field=place, must="be a string, a number or a date", got=one)
    present = [one for one, gap in zip(entries, missing) if not gap]
    kinds = {_kind(one) for one in present}
    _require_one_kind(name, kinds)
    if kinds == {"dates"}:
        plain: NDArray[Any] = np.array([microseconds(one) for one in present]).astype("datetime64[us]")
    else:
        plain = np.array(present) if present else np.empty(0)
    if plain.dtype.kind not in "biufUM":
        _refuse_dtype(name, plain)
    return spread(plain, missing)


def spread(present: NDArray[Any], missing: NDArray[np.bool_]) -> Values:
    if not missing.any():
        return Values(present, missing)
    if present.dtype.kind in "iu":
        present = present.astype(np.float64)
    array = np.full(missing.size, _NOTHING.get(present.dtype.kind, np.nan), dtype=present.dtype)
    array[~missing] = present
    return Values(array, missing)


def joined(name: str, parts: list[Values]) -> Values:
    """The chunks of a column as one array, of the type that holds them all."""
    missing = np.concatenate([part.missing for part in parts])
    present = [part.array[~part.missing] for part in parts if not part.missing.all()]
    _require_one_kind(name, {_KINDS.get(part.dtype.kind, "numbers") for part in present})
    return spread(np.concatenate(present) if present else np.empty(0), missing)


def _require_one_kind(name: str, kinds: set[str]) -> None:
    if len(kinds) > 1:
        must = f"hold {' or '.join(sorted(kinds, reverse=True))}, but it holds both"
        raise InvalidInput(field=f"column {name!r}", must=must)


def _refuse_dtype(name: str, array: NDArray[Any]) -> NoReturn:
    must = f"hold strings or numbers, but its dtype is {array.dtype}"
    raise InvalidInput(field=f"column {name!r}", must=must)


def _kind(value: Any) -> str:
    return "strings" if isinstance(value, str) else "dates" if microseconds(value) is not None else "numbers"
