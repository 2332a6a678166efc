"""Columns and rows of any table: pandas, polars, pyarrow, columns or rows in plain Python, arrays; and results as such tables.

>>> Frame([{"age": 20, "ward": "A"}, {"age": 41}]).column("ward").missing.tolist()
[False, True]
"""

from __future__ import annotations

import datetime
import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean

Library: TypeAlias = Literal["pandas", "polars"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PLAIN = (str, bool, int, float, datetime.date, np.datetime64)
_MAY_BE_NONE = (float, np.floating, np.datetime64)
# What stands in an array where nothing is known, by the kind of its dtype.
_NOTHING: dict[str, Any] = {"U": "", "b": False, "M": np.datetime64("NaT", "us")}


class Values(NamedTuple):
    """A column (n,) of bool, numbers, str or datetime64, and where it has none."""

    array: NDArray[Any]
    missing: NDArray[np.bool_]


class Frame:
    """The columns of a table, by name.

    Parameters
    ----------
    table : DataFrame, pyarrow Table, structured array, mapping of columns, sequence of rows, or (n, p) array
        A row is a mapping, a named tuple, a Series or a record; what a mapping does not hold is missing.
    names : sequence of str, optional
        The columns of an array, which has no names, in order; "x0", "x1", … by default.

    Examples
    --------
    >>> frame = Frame({"age": [20, 41], "ward": ["A", "B"]})
    >>> frame.names, len(frame)
    (('age', 'ward'), 2)
    """

    def __init__(self, table: Any, names: Sequence[str] | None = None) -> None:
        self._table = table
        if isinstance(table, np.ndarray) and table.dtype.names is None:
            self._table = _of_array(table, names)
        elif _is_sequence(table):
            self._table = _of_rows(table)
        self.names = _names(self._table)
        self._length: int | None = None

    def __len__(self) -> int:
        if self._length is None and self.names:
            self._raw(self.names[0])
        return self._length or 0

    def column(self, name: str) -> Values:
        """A column with its gaps: None, NaN, and what pandas and polars have in their place."""
        raw = self._raw(name)
        if raw.dtype.kind == "O":
            return _typed(name, raw)
        if raw.dtype.kind == "T":
            raw = raw.astype(str)
        elif raw.dtype.kind == "M":
            raw = raw.astype("datetime64[us]")
        if raw.dtype.kind not in "biufUM":
            raise InvalidInput(f"column {name!r} must hold strings or numbers, but its dtype is {raw.dtype}")
        empty = raw != raw if raw.dtype.kind in "fM" else np.zeros(raw.size, dtype=bool)
        return Values(raw, np.asarray(empty))

    def whole(self, name: str) -> NDArray[Any]:
        """A column that may have no gap."""
        array, missing = self.column(name)
        if missing.any():
            raise InvalidInput(f"column {name!r}[{int(missing.argmax())}] is missing")
        return array

    def _raw(self, name: str) -> NDArray[Any]:
        try:
            raw = self._table[name]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            raise self._unknown(name) from None
        except Exception as error:  # polars has an error of its own
            if type(error).__name__ != "ColumnNotFoundError":
                raise
            raise self._unknown(name) from None
        if isinstance(raw, list | tuple):
            # NumPy would turn a mixed list into strings without a word.
            column = np.empty(len(raw), dtype=object)
            column[:] = raw
        else:
            column = np.asarray(raw.to_numpy() if hasattr(raw, "to_numpy") else raw)
        if column.ndim != 1:
            raise InvalidInput(
                f"column {name!r} must be a sequence of values, but its shape is {column.shape}"
            )
        if self._length is None:
            self._length = column.size
        if column.size != self._length:
            raise InvalidInput(f"column {name!r} must have {self._length} entries, but has {column.size}")
        return column

    def _unknown(self, name: Any) -> InvalidInput:
        known = [str(one) for one in self.names]
        listed = f"; it has: {', '.join(known)}" if known else ""
        return InvalidInput(f"frame must have a column {name!r}{did_you_mean(name, known)}{listed}")


class AsFrame:
    """What can be had as a table of pandas or polars: a class that says its rows in `frame_rows`."""

    __slots__ = ()

    def frame_rows(self) -> list[dict[str, Any]]:
        """The rows of the table, each by column names."""
        raise NotImplementedError

    def to_frame(self, library: Library = "pandas") -> Any:
        """A DataFrame of pandas, or of polars."""
        return made_frame(self.frame_rows(), library)

    def to_pandas(self) -> Any:
        """A DataFrame of pandas."""
        return self.to_frame("pandas")

    def to_polars(self) -> Any:
        """A DataFrame of polars."""
        return self.to_frame("polars")


def made_frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any], library: Library = "pandas") -> Any:
    """Rows by column names, or columns by name, as a DataFrame; lists and tables within a cell become JSON.

    >>> made_frame([{"a": 1}], "excel")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: library must be 'pandas' or 'polars', but got 'excel'.
    """
    if library not in ("pandas", "polars"):
        raise InvalidInput(f"library must be 'pandas' or 'polars', but got {library!r}.")
    try:
        module = importlib.import_module(library)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{library} is not installed: pip install {library}.") from error
    if isinstance(rows, Mapping):
        columns = {name: list(values) for name, values in rows.items()}
    else:
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
    return module.DataFrame({name: [_cell(one) for one in values] for name, values in columns.items()})


def frame_of(table: Any, names: Sequence[str] | None = None) -> Frame:
    """A table as a `Frame`, which it may be already."""
    return table if isinstance(table, Frame) else Frame(table, names)


def row_of(value: Any, names: Sequence[str]) -> Mapping[str, Any] | None:
    """One row as a mapping: of a mapping, a named tuple, a Series or a record, or of an array (p,); None for a table.

    >>> row_of({"age": 41}, ["age"]), row_of({"age": [41]}, ["age"])
    ({'age': 41}, None)
    """
    if isinstance(value, Mapping):
        columns = any(hasattr(one, "__len__") and not isinstance(one, str | bytes) for one in value.values())
        return None if columns else value
    if isinstance(value, np.void) and value.dtype.names:
        return dict(zip(value.dtype.names, value.tolist()))
    if hasattr(value, "_asdict"):
        named: Mapping[str, Any] = value._asdict()
        return named
    if hasattr(value, "index") and hasattr(value, "to_dict") and getattr(value, "ndim", 0) == 1:
        series: Mapping[str, Any] = value.to_dict()
        return series
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.names is None:
        if value.size != len(names):
            raise InvalidInput(f"a row must have {len(names)} entries, but has {value.size}")
        return dict(zip(names, value.tolist()))
    return None


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, pandas' NA and NaT.

    >>> is_missing(None), is_missing(float("nan")), is_missing(0)
    (True, True, False)
    """
    if value is None:
        return True
    if isinstance(value, _MAY_BE_NONE):
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def microseconds(value: Any) -> int | None:
    """Since 1970, of a date, a time (in UTC, unless it says otherwise) or a text in ISO's form; None for anything else.

    >>> microseconds("1970-01-01T00:00:01"), microseconds("soon")
    (1000000, None)
    """
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
    """What a cell can hold in either library."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value


def _is_sequence(value: Any) -> bool:
    return (
        isinstance(value, Sequence) and not isinstance(value, str | bytes) and not hasattr(value, "_asdict")
    )


def _names(table: Any) -> tuple[Any, ...]:
    """What its columns are called; nothing where it does not say."""
    if isinstance(table, Mapping):
        return tuple(table)
    for holder, name in (
        (table, "column_names"),
        (table, "columns"),
        (getattr(table, "dtype", None), "names"),
    ):
        found = getattr(holder, name, None)
        if found is not None and not callable(found):
            return tuple(found)
    if hasattr(table, "__getitem__") and not isinstance(table, str | bytes):
        return ()
    raise InvalidInput(
        f"a table of named columns is needed, or a list of rows, but got {type(table).__name__}"
    )


def _of_array(table: NDArray[Any], names: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    if table.ndim != 2:
        raise InvalidInput(f"an array must have shape (rows, columns), but its shape is {table.shape}")
    names = [f"x{i}" for i in range(table.shape[1])] if names is None else names
    if len(names) != table.shape[1]:
        raise InvalidInput(
            f"an array must have the {len(names)} columns {', '.join(names)}, but has {table.shape[1]}"
        )
    return dict(zip(names, table.T))


def _of_rows(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Columns of rows, each column that any row has."""
    found: list[Mapping[str, Any]] = []
    for i, one in enumerate(rows):
        row = None if isinstance(one, np.ndarray) else row_of(one, ())
        if row is None:
            raise InvalidInput(f"rows[{i}] must be a row by column names, but got {one!r}")
        found.append(row)
    names = dict.fromkeys(name for row in found for name in row)
    return {name: [row.get(name) for row in found] for name in names}


def _typed(name: str, column: NDArray[Any]) -> Values:
    """A column of any objects as one of a plain type."""
    entries = column.tolist()
    if set(map(type, entries)) == {str}:  # most columns of objects, and no need to look at each
        return Values(np.array(entries), np.zeros(len(entries), dtype=bool))
    missing = np.array([is_missing(one) for one in entries], dtype=bool)
    present = [one for one, gap in zip(entries, missing) if not gap]
    for i, one in enumerate(entries):
        if not missing[i] and not isinstance(one, _PLAIN):
            raise InvalidInput(f"column {name!r}[{i}] must be a string, a number or a date, but got {one!r}")
    kinds = {_kind(one) for one in present}
    if len(kinds) > 1:
        raise InvalidInput(
            f"column {name!r} must hold {' or '.join(sorted(kinds, reverse=True))}, but it holds both"
        )
    if kinds == {"dates"}:
        plain: NDArray[Any] = np.array([microseconds(one) for one in present]).astype("datetime64[us]")
    else:
        plain = np.array(present) if present else np.empty(0)
    if plain.dtype.kind not in "biufUM":
        raise InvalidInput(f"column {name!r} must hold strings or numbers, but its dtype is {plain.dtype}")
    if not missing.any():
        return Values(plain, missing)
    if plain.dtype.kind in "iu":
        plain = plain.astype(np.float64)
    array = np.full(len(entries), _NOTHING.get(plain.dtype.kind, np.nan), dtype=plain.dtype)
    array[~missing] = plain
    return Values(array, missing)


def _kind(value: Any) -> str:
    return "strings" if isinstance(value, str) else "dates" if microseconds(value) is not None else "numbers"
