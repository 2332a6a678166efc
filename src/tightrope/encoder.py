"""From the rows of a table to the vectors x that a model takes, and back from a file: the same numbers wherever a row is met.

>>> table = {"age": [20, 40, 60], "ward": ["A", "B", "B"]}
>>> encoder = Encoder({"age": "number", "ward": {"type": "category", "unseen": "other"}}).fit(table)
>>> encoder.names
('one', 'age', 'ward=B', 'ward other')
>>> (encoder.transform({"age": 40, "ward": "C"}) * encoder.norm).tolist()
[1.0, 0.0, 0.0, 1.0]
"""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.files import write_json
from tightrope.frames import Frame, Values, is_missing, microseconds, row_of
from tightrope.messages import did_you_mean, fault, fields_at
from tightrope.validation import Array

MOST_LEVELS = 100
_VERSION = 1
_DAY = 86_400_000_000  # in microseconds

Level: TypeAlias = str | int | float
# Puts what a value becomes into a list of numbers, from a place on.
Write: TypeAlias = Callable[[list[float], int, Any], None]


class _Refused(Exception):
    """What is wrong with a value, in words that go after its name."""


class _Column(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
):
    """How one column becomes entries of x. What is None is not fitted yet."""

    # In words, what a value must be.
    wanted: ClassVar[str]

    def with_fill(self) -> Self:
        """`fill` says that missing values are filled; `missing="fill"` needs it."""
        given: Any = self
        if given.fill is not None and given.missing not in ("error", "fill"):
            raise InvalidInput(f'fill is for missing = "fill", but missing is "{given.missing}"')
        if given.missing == "fill" and given.fill is None:
            raise InvalidInput('fill must say what stands in for a missing value where missing = "fill"')
        return self if given.fill is None else msgspec.structs.replace(self, missing="fill")

    def suffixes(self) -> list[str]:
        """What the names of its entries add to its own."""
        raise NotImplementedError

    def fitted(self, name: str, values: Values) -> Self:
        """The same, with what a table tells."""
        raise NotImplementedError

    def writer(self) -> Write:
        """How one value is written."""
        raise NotImplementedError

    def block(self, values: Values) -> Array | None:
        """The entries of all rows at once, (n, entries), the same to the bit; None for row by row."""
        return None

    def gap(self) -> NoReturn:
        """Refuse a missing value."""
        raise _Refused(
            f"is missing: {self.wanted} is needed, or a declared `missing`, which says what stands in for it"
        )


class NumberColumn(_Column, frozen=True, kw_only=True, tag="number"):
    """A number, less the mean and divided by the standard deviation of the table it was fitted to; or as it is.

    A column that never varied has no entry where it is standardised: it says nothing that the constant does not say.
    """

    wanted: ClassVar[str] = "a number"

    missing: Literal["error", "mean", "indicator", "fill"] = "error"
    fill: float | None = None
    standardise: bool = True
    mean: float | None = None
    deviation: float | None = None

    def __post_init__(self) -> None:
        for name in ("fill", "mean", "deviation"):
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidInput(f"{name} must be finite, but got {value}")
        if self.deviation is not None and self.deviation < 0:
            raise InvalidInput(f"deviation must be at least 0, but got {self.deviation}")

    def suffixes(self) -> list[str]:
        """One entry, and one that says where it is missing."""
        own = [""] if not self.standardise or self.deviation else []
        return own + [" missing"] * (self.missing == "indicator")

    def fitted(self, name: str, values: Values) -> Self:
        """Mean and standard deviation of what is there."""
        numbers = self._numbers(name, values)[~values.missing]
        if numbers.size == 0:
            raise InvalidInput(f"column {name!r} must have a value in some row, but it has none")
        spread = 0.0 if np.ptp(numbers) == 0 else float(numbers.std())
        return msgspec.structs.replace(self, mean=float(numbers.mean()), deviation=spread)

    def number(self, value: Any) -> float:
        """What a value is as a number."""
        if isinstance(value, bool | np.bool_) or not isinstance(
            value, int | float | np.integer | np.floating
        ):
            raise _Refused(f"must be {self.wanted}, but got {value!r}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise _Refused(f"must be finite, but got {value!r}")
        return number

    @property
    def stand_in(self) -> float:
        """What a missing number counts as."""
        return float((self.fill if self.missing == "fill" else self.mean) or 0.0)

    def writer(self) -> Write:
        """(value − mean) / deviation; an indicator after it."""
        number, gap, stand_in = self.number, self.gap, self.stand_in
        mean, spread = (
            (float(self.mean or 0.0), float(self.deviation or 0.0)) if self.standardise else (0.0, 1.0)
        )
        scaled, refuses, indicates = self.standardise, self.missing == "error", self.missing == "indicator"

        def write(x: list[float], at: int, value: Any) -> None:
            if type(value) is not float or not math.isfinite(value):
                if is_missing(value):
                    if refuses:
                        gap()
                    if indicates:
                        x[at + (spread != 0.0)] = 1.0
                    value = stand_in
                else:
                    value = number(value)
            if spread:
                x[at] = (value - mean) / spread if scaled else value

        return write

    def block(self, values: Values) -> Array | None:
        """Whole columns of numbers at once."""
        if values.array.dtype.kind not in "iuf" or (self.missing == "error" and values.missing.any()):
            return None
        numbers = values.array.astype(np.float64)
        if np.isinf(numbers).any():
            return None
        return self._block_of(numbers, values.missing)

    def _block_of(self, numbers: Array, missing: NDArray[np.bool_]) -> Array:
        numbers = np.where(missing, self.stand_in, numbers) if missing.any() else numbers
        parts: list[Array] = []
        if not self.standardise:
            parts.append(numbers)
        elif self.deviation:
            parts.append((numbers - self.mean) / self.deviation)
        if self.missing == "indicator":
            parts.append(missing.astype(np.float64))
        return np.column_stack(parts) if parts else np.empty((numbers.size, 0))

    def _numbers(self, name: str, values: Values) -> Array:
        """A column as numbers, NaN where it is missing."""
        if values.array.dtype.kind in "iuf" and not np.isinf(values.array).any():
            return values.array.astype(np.float64)
        read = _at_row(name, self.number)
        return np.array(
            [
                math.nan if gap else read(i, one)
                for i, (one, gap) in enumerate(zip(values.array.tolist(), values.missing))
            ]
        )


class DateColumn(NumberColumn, frozen=True, kw_only=True, tag="date"):
    """A date, or a time in UTC: days since 1970, then as a number."""

    wanted: ClassVar[str] = "a date such as 2026-03-31"

    fill: str | float | None = None

    def number(self, value: Any) -> float:
        """Days since 1970."""
        since = microseconds(value)
        if since is None:
            raise _Refused(f"must be {self.wanted}, but got {value!r}")
        return since / _DAY

    @property
    def stand_in(self) -> float:
        """What a missing date counts as."""
        if self.missing != "fill":
            return float(self.mean or 0.0)
        try:
            return self.number(self.fill)
        except _Refused as refused:
            raise InvalidInput(f"fill {refused}") from None

    def block(self, values: Values) -> Array | None:
        """Whole columns of dates at once."""
        if values.array.dtype.kind != "M" or (self.missing == "error" and values.missing.any()):
            return None
        return self._block_of(self._numbers("", values), values.missing)

    def _numbers(self, name: str, values: Values) -> Array:
        if values.array.dtype.kind != "M":
            return NumberColumn._numbers(self, name, values)
        since = values.array.astype("datetime64[us]").astype(np.int64) / _DAY
        return np.where(values.missing, math.nan, since)


class BooleanColumn(_Column, frozen=True, kw_only=True, tag="boolean"):
    """True or false, as 1 and 0."""

    wanted: ClassVar[str] = "true or false"

    missing: Literal["error", "mean", "indicator", "fill"] = "error"
    fill: bool | None = None
    mean: float | None = None

    def suffixes(self) -> list[str]:
        """One entry, and one that says where it is missing."""
        return ["", " missing"] if self.missing == "indicator" else [""]

    def block(self, values: Values) -> Array | None:
        """Whole columns of booleans at once."""
        plain = values.array.dtype.kind == "b" and not values.missing.any() and self.missing != "indicator"
        return values.array.astype(np.float64)[:, None] if plain else None

    def fitted(self, name: str, values: Values) -> Self:
        """The share of what is true."""
        read = _at_row(name, _truth)
        entries = enumerate(zip(values.array.tolist(), values.missing))
        known = [read(i, one) for i, (one, gap) in entries if not gap]
        return msgspec.structs.replace(self, mean=sum(known) / len(known) if known else 0.0)

    def writer(self) -> Write:
        """1 for true; an indicator after it."""
        gap, refuses, indicates = self.gap, self.missing == "error", self.missing == "indicator"
        stand_in = (
            float(self.fill or False)
            if self.missing == "fill"
            else 0.0
            if indicates
            else float(self.mean or 0.0)
        )

        def write(x: list[float], at: int, value: Any) -> None:
            if is_missing(value):
                if refuses:
                    gap()
                if indicates:
                    x[at + 1] = 1.0
                x[at] = stand_in
            else:
                x[at] = _truth(value)

        return write


class CategoryColumn(_Column, frozen=True, kw_only=True, tag="category"):
    """One of some values, which are texts or numbers: an indicator for each but the first, which the others are measured against.

    With ``unseen="ignore"`` the first has one too, so that a value never seen, which has none, differs from all of them; with
    ``"other"`` there is one for all such values.
    """

    wanted: ClassVar[str] = "one of its values"

    values: tuple[Level, ...] | None = None
    unseen: Literal["error", "ignore", "other"] = "error"
    missing: Literal["error", "indicator", "fill"] = "error"
    fill: Level | None = None

    def __post_init__(self) -> None:
        values = self.values
        if values is None:
            return
        if not values:
            raise InvalidInput("values must name at least one category, but the list is empty")
        if any(isinstance(one, bool) for one in values) or len(set(values)) < len(values):
            raise InvalidInput(
                f"values must be texts or numbers that differ from each other, but got {list(values)}"
            )
        if self.fill is not None and self.fill not in values:
            raise InvalidInput(f"fill must be one of the values {_listed(values)}, but got {self.fill!r}")

    def suffixes(self) -> list[str]:
        """The indicators of values, of others, of nothing."""
        shown = (self.values or ())[0 if self.unseen == "ignore" else 1 :]
        own = [f"={value}" for value in shown]
        return own + [" other"] * (self.unseen == "other") + [" missing"] * (self.missing == "indicator")

    def fitted(self, name: str, values: Values) -> Self:
        """The values that occur, unless they are declared, in order."""
        if self.values is not None:
            return self
        present = values.array[~values.missing]
        if present.dtype.kind not in "iufU":
            raise InvalidInput(
                f"column {name!r} must hold texts or numbers to be a category, but got {present[0]!r}"
            )
        levels = np.unique(present).tolist()
        if len(levels) > MOST_LEVELS:
            raise InvalidInput(
                f"column {name!r} must have at most {MOST_LEVELS} levels to be a context, but has {len(levels)}: "
                "declare the values that count, and the others as unseen"
            )
        if not levels:
            raise InvalidInput(f"column {name!r} must have a value in some row, but it has none")
        plain = tuple(int(one) if isinstance(one, float) and one.is_integer() else one for one in levels)
        return msgspec.structs.replace(self, values=plain)

    def writer(self) -> Write:
        """A 1 in the place of the value."""
        values = self.values or ()
        first = 0 if self.unseen == "ignore" else -1
        codes: dict[Any, int] = {value: first + i for i, value in enumerate(values)}
        others = len(values) + first if self.unseen == "other" else -1
        nothing = len(self.suffixes()) - 1 if self.missing == "indicator" else -1
        instead = codes.get(self.fill, -1) if self.missing == "fill" else nothing
        refuses_gaps, refuses, gap = self.missing == "error", self.unseen == "error", self.gap

        def write(x: list[float], at: int, value: Any) -> None:
            try:
                code = codes.get(value)
            except TypeError:
                raise _Refused(f"must be a text or a number, but got {value!r}") from None
            if code is None or value is True or value is False:
                if is_missing(value):
                    if refuses_gaps:
                        gap()
                    code = instead
                elif isinstance(value, bool | np.bool_) or not isinstance(
                    value, str | int | float | np.number
                ):
                    raise _Refused(f"must be a text or a number, but got {value!r}")
                elif refuses:
                    raise _Refused(
                        f"must be one of {_listed(values)}, but got {value!r}{did_you_mean(value, map(str, values))}"
                    )
                else:
                    code = others
            if code >= 0:
                x[at + code] = 1.0

        return write


Column: TypeAlias = NumberColumn | DateColumn | BooleanColumn | CategoryColumn
_KINDS: dict[str, type[Column]] = {
    "number": NumberColumn,
    "category": CategoryColumn,
    "boolean": BooleanColumn,
    "date": DateColumn,
}
_INFERRED = {"U": "category", "b": "boolean", "M": "date"}


class Encoder:
    """x = (1, numbers less their mean in standard deviations, indicators of categories, …) / norm.

    Parameters
    ----------
    columns : sequence of names, or mapping of names to declarations, optional
        Which columns, in which order; by default all of the table that `fit` is given. A declaration is a type, "number",
        "category", "boolean" or "date", or a table with

        - ``type``; by default texts are categories, and the rest is what it is;
        - ``missing``: "error" (the default), "indicator" (a column that says so), or of numbers, dates and booleans "mean";
        - ``fill``: a value that stands in for missing ones;
        - ``standardise = False`` for a number that is taken as it is;
        - ``values`` of a category, where they are not to be learnt from the table (sorted; at most 100);
        - ``unseen``: what a category does with other values, "error" (the default), "ignore" or "other".
    unit : bool
        Whether x is divided by the greatest norm in the table, so that ‖x‖ ≤ 1 there.

    Attributes
    ----------
    columns : dict of str to their declarations, with what was fitted
    names : tuple of str
        What each entry of x stands for; "one" is the constant.
    n_features : int
        The length of x.
    norm : float
        What x is divided by.

    Examples
    --------
    >>> rows = [{"age": 20, "ward": "A"}, {"age": 60, "ward": "B"}, {"ward": "B"}]
    >>> encoder = Encoder({"age": {"missing": "mean"}, "ward": {}}, unit=False).fit(rows)
    >>> encoder.transform(rows).tolist()
    [[1.0, -1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]
    >>> encoder.transform({"age": 20, "ward": "C"})
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: column 'ward' must be one of 'A', 'B', but got 'C'
    >>> Encoder.from_dict(encoder.to_dict()) == encoder
    True
    """

    def __init__(
        self, columns: Sequence[str] | Mapping[str, Any] | None = None, *, unit: bool = True
    ) -> None:
        if not isinstance(unit, bool):
            raise InvalidInput(f"unit must be True or False, but got {unit!r}")
        self._declared = None if columns is None else _declarations(columns)
        self.unit = unit
        self.fitted = False

    # From a table

    def fit(self, table: Any, columns: Sequence[str] | Mapping[str, Any] | None = None) -> Self:
        """Learn means, deviations and categories from a table; returns the encoder itself.

        Parameters
        ----------
        table : DataFrame of pandas or polars, pyarrow Table, mapping of columns, list of rows, or (n, p) array
        columns : optional
            As in the constructor, in the place of what was given there.
        """
        declared = self._declared if columns is None else _declarations(columns)
        frame = Frame(table, None if declared is None else list(declared))
        if declared is None:
            declared = {key: {} for key in frame.names}
        if not declared or len(frame) == 0:
            raise InvalidInput(
                f"an encoder needs a column and a row, but got {len(declared)} and {len(frame)}"
            )
        made = {name: _fitted(name, one, frame.column(name)) for name, one in declared.items()}
        self._become(made, 1.0)
        x = self._design(frame)
        if self.unit:
            self.norm = float(np.linalg.norm(x, axis=1).max())
        return self

    def transform(self, rows: Any) -> Array:
        """x of each row (n, n_features); of one row, a mapping, a Series, a record or an array (p,), x itself (n_features,).

        Columns that the encoder does not know are not looked at.
        """
        self._require_fitted()
        row = row_of(rows, list(self.columns))
        if row is not None:
            return self._vector(row, "column {!r}")
        return np.asarray(self._design(Frame(rows, list(self.columns))) / self.norm)

    def fit_transform(self, table: Any, columns: Sequence[str] | Mapping[str, Any] | None = None) -> Array:
        """`fit`, then `transform` of the same table."""
        return self.fit(table, columns).transform(table)

    def design(self, table: Any) -> Array:
        """`transform` of a table before it is divided by `norm`: the constant is 1."""
        self._require_fitted()
        return self._design(Frame(table, list(self.columns)))

    def vector(self, context: Any) -> Array:
        """x of one row by column names, (n_features,), which may hold no other names: for what callers send.

        Raises
        ------
        InvalidInput
            Names the column that is unknown or missing, or whose value can't be taken, as ``context.NAME``.
        """
        self._require_fitted()
        if not isinstance(context, Mapping):
            raise InvalidInput(f"context must be a row by column names, but got {context!r}.")
        for name in context:
            if name not in self.columns:
                known = ", ".join(self.columns)
                raise InvalidInput(
                    f"context.{name} is not a declared field{did_you_mean(name, self.columns)}; declared: {known}."
                )
        return self._vector(context, "context.{}")

    def example(self) -> dict[str, Any]:
        """A row that it takes, of means and first values."""
        return {name: _example(column) for name, column in self.columns.items()}

    def schema(self) -> dict[str, Any]:
        """What `vector` takes, as JSON Schema."""
        needed = [name for name, column in self.columns.items() if column.missing == "error"]
        properties = {name: _schema(column) for name, column in self.columns.items()}
        return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}

    # Plain data

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, for JSON or TOML."""
        self._require_fitted()
        columns = {name: msgspec.to_builtins(column) for name, column in self.columns.items()}
        return {"version": _VERSION, "unit": self.unit, "norm": self.norm, "columns": columns}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The encoder that gave `to_dict`."""
        if not isinstance(data, Mapping):
            raise InvalidInput(f"an encoder must be a table, but got {data!r}")
        for name in data:
            if name not in ("version", "unit", "norm", "columns"):
                raise InvalidInput(f"an encoder has no field {name!r}; allowed: version, unit, norm, columns")
        version, norm, columns = data.get("version", _VERSION), data.get("norm", 1.0), data.get("columns")
        if version != _VERSION:
            raise InvalidInput(
                f"version must be {_VERSION}, the one that this release reads, but got {version!r}"
            )
        if (
            isinstance(norm, bool)
            or not isinstance(norm, int | float)
            or not (math.isfinite(norm) and norm > 0)
        ):
            raise InvalidInput(f"norm must be a finite number above 0, but got {norm!r}")
        if not isinstance(columns, Mapping) or not columns:
            raise InvalidInput(f"columns must be a table of columns by name, but got {columns!r}")
        encoder = cls(columns, unit=data.get("unit", True))
        encoder._become({name: _known(name, stated) for name, stated in columns.items()}, float(norm))
        return encoder

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The encoder that was saved."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(f"{path} can't be read: {error.strerror or error}") from error
        except ValueError as error:
            raise InvalidInput(f"{path} must be JSON, but it is not: {error}") from error
        try:
            return cls.from_dict(data)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Encoder):
            return NotImplemented
        if not (self.fitted and other.fitted):
            return self is other
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if not self.fitted:
            return f"Encoder({list(self._declared or ())}, not fitted)"
        kinds = ", ".join(f"{name}: {_kind_of(column)}" for name, column in self.columns.items())
        return f"Encoder({kinds}; {self.n_features} features)"

    # How it is done

    def _become(self, columns: dict[str, Column], norm: float) -> None:
        names, writers = ["one"], []
        for name, column in columns.items():
            writers.append((name, len(names), column.writer()))
            names += [name + suffix for suffix in column.suffixes()]
        self.columns, self.names, self.n_features, self.norm = columns, tuple(names), len(names), norm
        self._writers = writers
        self.fitted = True

    def _require_fitted(self) -> None:
        if not self.fitted:
            raise InvalidInput("the encoder has seen no table yet: fit it first")

    def _vector(self, row: Mapping[str, Any], where: str) -> Array:
        x = [0.0] * self.n_features
        x[0] = 1.0
        name = ""
        try:
            for name, at, write in self._writers:
                write(x, at, row.get(name))
        except _Refused as refused:
            raise InvalidInput(f"{where.format(name)} {refused}") from None
        return np.array(x) / self.norm

    def _design(self, frame: Frame) -> Array:
        blocks = [self._block(name, write, frame.column(name)) for name, _, write in self._writers]
        return np.column_stack([np.ones(len(frame)), *blocks])

    def _block(self, name: str, write: Write, values: Values) -> Array:
        column = self.columns[name]
        block = column.block(values)
        if block is not None:
            return block
        n, width = values.array.size, len(column.suffixes())
        rows = [[0.0] * width for _ in range(n)]
        for i, (row, one, gap) in enumerate(zip(rows, values.array.tolist(), values.missing.tolist())):
            try:
                write(row, 0, None if gap else one)
            except _Refused as refused:
                raise InvalidInput(f"column {name!r}[{i}] {refused}") from None
        return np.array(rows, dtype=np.float64).reshape(n, width)


def _declarations(columns: Any) -> dict[str, Any]:
    """What is declared of each column: a table, empty where nothing is."""
    if isinstance(columns, Mapping):
        declared = {name: {"type": one} if isinstance(one, str) else one for name, one in columns.items()}
    elif isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidInput(f"columns must be one or more column names, but got {columns!r}")
    else:
        declared = {name: {} for name in columns}
    for name in declared:
        if not isinstance(name, str):
            raise InvalidInput(f"columns must be names, but got {name!r} among them")
    if len(declared) < len(columns):
        raise InvalidInput(f"columns must differ from each other, but got {list(columns)}")
    return declared


def _fitted(name: str, stated: Any, values: Values) -> Column:
    return _made(name, stated, _INFERRED.get(values.array.dtype.kind, "number")).fitted(name, values)


def _made(name: str, stated: Any, default: str | None) -> Column:
    """The declaration of a column, checked."""
    if isinstance(stated, _Column):
        stated = msgspec.to_builtins(stated)
    if not isinstance(stated, Mapping):
        raise InvalidInput(
            f"columns[{name!r}] must be a type or a table such as {{'type': 'number'}}, but got {stated!r}"
        )
    kind = stated.get("type", default)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(
            f"columns[{name!r}].type must be one of {_listed(_KINDS)}, but got {kind!r}{did_you_mean(kind, _KINDS)}"
        )
    try:
        column: Column = msgspec.convert({**stated, "type": kind}, _KINDS[kind])
        return column.with_fill()
    except msgspec.ValidationError as error:
        path, words, unknown = fault(error, stated, _KINDS[kind])
        allowed = f"; allowed: type, {', '.join(fields_at(_KINDS[kind], ''))}" if unknown else ""
        raise InvalidInput(f"columns[{name!r}]{path} {words}{allowed}") from None
    except InvalidInput as error:
        raise InvalidInput(f"columns[{name!r}].{error}") from None


def _known(name: str, stated: Any) -> Column:
    """A column of an encoder that was fitted."""
    column = _made(name, stated, None)
    needed = {
        "number": ("mean", "deviation"),
        "date": ("mean", "deviation"),
        "boolean": ("mean",),
        "category": ("values",),
    }
    for field in needed[_kind_of(column)]:
        if getattr(column, field) is None:
            raise InvalidInput(f"columns[{name!r}].{field} is missing")
    return column


def _kind_of(column: Column) -> str:
    return str(type(column).__struct_config__.tag)


def _at_row(name: str, read: Callable[[Any], float]) -> Callable[[int, Any], float]:
    """`read` for the rows of a column, whose errors name column and row."""

    def at(i: int, value: Any) -> float:
        try:
            return read(value)
        except _Refused as refused:
            raise InvalidInput(f"column {name!r}[{i}] {refused}") from None

    return at


def _truth(value: Any) -> float:
    if isinstance(value, bool | np.bool_) or (isinstance(value, int | float) and value in (0, 1)):
        return float(value)
    raise _Refused(f"must be true or false, but got {value!r}")


def _example(column: Column) -> Any:
    if isinstance(column, DateColumn):
        return (
            datetime.datetime(1970, 1, 1) + datetime.timedelta(days=float(column.mean or 0.0))
        ).isoformat()
    if isinstance(column, NumberColumn):
        return column.mean
    if isinstance(column, BooleanColumn):
        return False
    return (column.values or ("",))[0]


def _schema(column: Column) -> dict[str, Any]:
    """What a value of it may be, as JSON Schema."""
    words = "null where it is missing" if column.missing != "error" else ""
    kind: dict[str, Any] = {
        "type": {"number": "number", "date": "string", "boolean": "boolean"}.get(_kind_of(column))
    }
    if isinstance(column, DateColumn):
        kind["description"] = "A date or a time, as ISO 8601 writes it."
    elif isinstance(column, CategoryColumn):
        kind = {"enum": list(column.values or ())}
        if column.unseen != "error":
            kind = {"type": ["string", "number"], "examples": kind["enum"]}
    if words:
        kind = {"anyOf": [kind, {"type": "null"}], "description": words}
    return kind


def _listed(values: Any) -> str:
    return ", ".join(map(repr, values))
