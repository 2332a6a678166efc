"""How one column of a table becomes entries of x: numbers, dates, booleans and categories, as declared and as fitted."""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.frames import CHUNK, Frame, Values, is_missing, microseconds
from tightrope.messages import did_you_mean, fault, fields_at
from tightrope.validation import Array, Outside, number_schema, taken_range

MOST_LEVELS = 100
_BOOLEANS = (bool, np.bool_)
_NUMBERS = (int, float, np.integer, np.floating)
_DAY = 86_400_000_000  # in microseconds

Level: TypeAlias = str | int | float
Rows: TypeAlias = NDArray[np.int64]
# Puts what a value becomes into a list of numbers, from a place on.
Write: TypeAlias = Callable[[list[float], int, Any], None]


class Refused(Exception):
    """What is wrong with a value, in words that go after its name."""


class _Column(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
):
    """How one column becomes entries of x. What is None is not fitted yet.

    Each kind defines `suffixes`, what the names of its entries add to its own; `fitted`, the same with what a table tells;
    `writer`, how one value is written; and `block`, the entries of all rows at once, (n, entries), the same to the bit, and the
    rows that must be written one by one.
    """

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

    def gap(self) -> NoReturn:
        """Refuse a missing value."""
        raise Refused(
            f"is missing: {self.wanted} is needed, or a declared `missing`, which says what stands in for it"
        )


class NumberColumn(_Column, frozen=True, kw_only=True, tag="number"):
    """A number, less the mean and divided by the standard deviation of the table it was fitted to; or as it is.

    A column that never varied has no entry where it is standardised: it says nothing that the constant does not say. `min` and
    `max` are those of the table, unless they are declared; `outside` says what becomes of a number that is not between them
    (`validation.taken_range`).
    """

    wanted: ClassVar[str] = "a number"

    missing: Literal["error", "mean", "indicator", "fill"] = "error"
    fill: float | None = None
    standardise: bool = True
    mean: float | None = None
    deviation: float | None = None
    min: float | None = None
    max: float | None = None
    outside: Outside = "clip"

    def __post_init__(self) -> None:
        for name in ("fill", "mean", "deviation", "min", "max"):
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidInput(f"{name} must be finite, but got {value}")
        if self.deviation is not None and self.deviation < 0:
            raise InvalidInput(f"deviation must be at least 0, but got {self.deviation}")
        if self.min is not None and self.max is not None and not self.min <= self.max:
            raise InvalidInput(f"`min <= max` must hold, but got min = {self.min:g}, max = {self.max:g}")

    def suffixes(self) -> list[str]:
        """One entry, and one that says where it is missing."""
        own = [""] if not self.standardise or self.deviation else []
        return own + [" missing"] * (self.missing == "indicator")

    def fitted(self, name: str, values: Values) -> Self:
        """Least and greatest, mean and standard deviation of what is there, as it is taken."""
        numbers = self._numbers(name, values)
        if numbers.size == 0:
            raise InvalidInput(f"column {name!r} must have a value in some row, but it has none")
        low = float(numbers.min()) if self.min is None else self.min
        high = float(numbers.max()) if self.max is None else self.max
        ranged = msgspec.structs.replace(self, min=low, max=high)
        numbers = np.clip(numbers, *ranged.taken)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, spread = float(numbers.mean()), 0.0 if np.ptp(numbers) == 0 else float(numbers.std())
        if not (math.isfinite(mean) and math.isfinite(spread)):
            raise InvalidInput(
                f"column {name!r} must hold numbers whose squares can be added, but goes from {low:g} to {high:g}"
            )
        return msgspec.structs.replace(ranged, mean=mean, deviation=spread)

    @property
    def taken(self) -> tuple[float, float]:
        """Where a number is taken as it is."""
        low, high = (
            (-math.inf if self.min is None else self.min),
            (math.inf if self.max is None else self.max),
        )
        return taken_range(low, high, self.outside) if math.isfinite(high - low) else (low, high)

    def is_outside(self, value: Any) -> bool:
        """Whether a value that is taken is a number outside the range."""
        known = isinstance(value, _NUMBERS) and self.min is not None and self.max is not None
        return known and not is_missing(value) and not self.min <= value <= self.max

    def number(self, value: Any) -> float:
        """What a value is as a number."""
        if isinstance(value, _BOOLEANS) or not isinstance(value, _NUMBERS):
            raise Refused(f"must be {self.wanted}, but got {value!r}")
        try:
            number = float(value)
        except OverflowError:  # a whole number that no float holds is outside every range
            number = sys.float_info.max if value > 0 else -sys.float_info.max
        if not math.isfinite(number):
            raise Refused(f"must be finite, but got {value!r}")
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
        (low, high), strict = self.taken, self.outside == "refuse"
        # Whole numbers that are floats, too; a date is never a number.
        whole = 2**53 if type(self) is NumberColumn else -1

        def write(x: list[float], at: int, value: Any) -> None:
            kind = type(value)
            if not (kind is float and value - value == 0.0) and not (
                kind is int and -whole <= value <= whole
            ):
                if is_missing(value):
                    if refuses:
                        gap()
                    if indicates:
                        x[at + (spread != 0.0)] = 1.0
                    if spread:
                        x[at] = (stand_in - mean) / spread if scaled else stand_in
                    return
                value = number(value)
            if not low <= value <= high:
                if strict:
                    raise Refused(f"must lie in [{low:g}, {high:g}], but got {value:g}")
                value = low if value < low else high
            if spread:
                x[at] = (value - mean) / spread if scaled else value

        return write

    def plain(self, values: Values) -> Array | None:
        """A column that is one of numbers already, NaN where it is missing; None where each value must be looked at."""
        return values.array.astype(np.float64) if values.array.dtype.kind in "iuf" else None

    def block(self, values: Values) -> tuple[Array, Rows]:
        """Whole columns of numbers at once, but for what is refused."""
        numbers, missing = self.plain(values), values.missing
        if numbers is None:
            return _row_by_row(self, values)
        refused = np.isinf(numbers) | (missing & (self.missing == "error"))
        low, high = self.taken
        if self.outside == "refuse":
            refused |= (numbers < low) | (numbers > high)
        else:
            numbers = np.clip(numbers, low, high)
        numbers = np.where(refused, 0.0, np.where(missing, self.stand_in, numbers))
        parts: list[Array] = []
        if not self.standardise:
            parts.append(numbers)
        elif self.deviation:
            parts.append((numbers - float(self.mean or 0.0)) / self.deviation)
        if self.missing == "indicator":
            parts.append(missing.astype(np.float64))
        block = np.column_stack(parts) if parts else np.empty((numbers.size, 0))
        return block, np.flatnonzero(refused)

    def _numbers(self, name: str, values: Values) -> Array:
        """What of a column is there, as numbers."""
        numbers = self.plain(values)
        if numbers is not None and not np.isinf(numbers).any():
            return numbers[~values.missing]
        read, entries = _at_row(name, self.number), zip(values.array.tolist(), values.missing.tolist())
        return np.array([read(i, one) for i, (one, gap) in enumerate(entries) if not gap])


class DateColumn(NumberColumn, frozen=True, kw_only=True, tag="date"):
    """A date, or a time in UTC: days since 1970, then as a number. One outside the table's is taken: tomorrow always is."""

    wanted: ClassVar[str] = "a date such as 2026-03-31"

    fill: str | None = None  # type: ignore[assignment]
    outside: Outside = "take"

    def __post_init__(self) -> None:
        NumberColumn.__post_init__(self)
        if self.fill is not None and microseconds(self.fill) is None:
            raise InvalidInput(f"fill must be {self.wanted}, but got {self.fill!r}")

    def number(self, value: Any) -> float:
        """Days since 1970."""
        since = microseconds(value)
        if since is None:
            raise Refused(f"must be {self.wanted}, but got {value!r}")
        return since / _DAY

    @property
    def stand_in(self) -> float:
        """What a missing date counts as."""
        return self.number(self.fill) if self.missing == "fill" else float(self.mean or 0.0)

    def plain(self, values: Values) -> Array | None:
        """A column of times, in days; None where each value must be looked at."""
        if values.array.dtype.kind != "M":
            return None
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

    def block(self, values: Values) -> tuple[Array, Rows]:
        """Whole columns of booleans at once, but for gaps."""
        block, rows = _row_by_row(self, values)
        if values.array.dtype.kind != "b":
            return block, rows
        block[:, 0] = values.array
        return block, np.flatnonzero(values.missing)

    def fitted(self, name: str, values: Values) -> Self:
        """The share of what is true."""
        read, entries = _at_row(name, _truth), zip(values.array.tolist(), values.missing.tolist())
        known = [read(i, one) for i, (one, gap) in enumerate(entries) if not gap]
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
            if value is not True and value is not False and is_missing(value):
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
        own = [f"={value}" for value in self._own()]
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
        levels = sorted(set(present.tolist()))
        if len(levels) > MOST_LEVELS:
            raise InvalidInput(
                f"column {name!r} must have at most {MOST_LEVELS} levels to be a context, but has {len(levels)}: "
                "declare the values that count, and the others as unseen"
            )
        if not levels:
            raise InvalidInput(f"column {name!r} must have a value in some row, but it has none")
        plain = tuple(int(one) if isinstance(one, float) and one.is_integer() else one for one in levels)
        return msgspec.structs.replace(self, values=plain)

    def _own(self) -> tuple[Level, ...]:
        """The values that have an indicator."""
        return (self.values or ())[0 if self.unseen == "ignore" else 1 :]

    def _codes(self) -> dict[Any, int]:
        """The place of each value's indicator, −1 for none."""
        return dict.fromkeys(self.values or (), -1) | {value: i for i, value in enumerate(self._own())}

    def block(self, values: Values) -> tuple[Array, Rows]:
        """All known values at once."""
        block, rows = _row_by_row(self, values)
        if values.array.dtype.kind not in "iufU":
            return block, rows
        codes = self._codes()
        places = np.empty(values.array.size, dtype=np.int64)
        for begin in range(0, places.size, CHUNK):
            chunk = slice(begin, begin + CHUNK)
            places[chunk] = [codes.get(one, -2) for one in values.array[chunk].tolist()]
        places[values.missing] = -2
        shown = np.flatnonzero(places >= 0)
        block[shown, places[shown]] = 1.0
        return block, np.flatnonzero(places == -2)

    def writer(self) -> Write:
        """A 1 in the place of the value."""
        values, codes = self.values or (), self._codes()
        others = len(self._own()) if self.unseen == "other" else -1
        nothing = len(self.suffixes()) - 1 if self.missing == "indicator" else -1
        instead = codes.get(self.fill, -1) if self.missing == "fill" else nothing
        refuses_gaps, refuses, gap = self.missing == "error", self.unseen == "error", self.gap

        def write(x: list[float], at: int, value: Any) -> None:
            try:
                code = codes.get(value)
            except TypeError:
                raise Refused(f"must be a text or a number, but got {value!r}") from None
            if code is None or value is True or value is False:
                if is_missing(value):
                    if refuses_gaps:
                        gap()
                    code = instead
                elif isinstance(value, _BOOLEANS) or not isinstance(value, (str, *_NUMBERS)):
                    raise Refused(f"must be a text or a number, but got {value!r}")
                elif refuses:
                    raise Refused(
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


def declarations(columns: Any) -> dict[str, Any]:
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


def fitted_column(name: str, stated: Any, values: Values) -> Column:
    """A column as declared, of the type that its values have where none is declared, fitted to them."""
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


def known_column(name: str, stated: Any) -> Column:
    """A column of an encoder that was fitted."""
    column = _made(name, stated, None)
    needed = {
        "number": ("mean", "deviation", "min", "max"),
        "date": ("mean", "deviation", "min", "max"),
        "boolean": ("mean",),
        "category": ("values",),
    }
    for field in needed[kind_of(column)]:
        if getattr(column, field) is None:
            raise InvalidInput(f"columns[{name!r}].{field} is missing")
    return column


def kind_of(column: Column) -> str:
    """The name of its type."""
    return str(type(column).__struct_config__.tag)


def design_of(columns: Mapping[str, Column], frame: Frame) -> Array:
    """A one and the entries of all columns, of each row of a table (n, n_features)."""
    blocks = [_block(name, column, frame.column(name)) for name, column in columns.items()]
    return np.column_stack([np.ones(len(frame)), *blocks])


def _block(name: str, column: Column, values: Values) -> Array:
    block, left = column.block(values)
    write = column.writer()
    for i in left.tolist():
        row = [0.0] * block.shape[1]
        try:
            write(row, 0, None if values.missing[i] else values.array[i : i + 1].tolist()[0])
        except Refused as refused:
            raise InvalidInput(f"column {name!r}[{i}] {refused}") from None
        block[i] = row
    return block


def _row_by_row(column: Column, values: Values) -> tuple[Array, Rows]:
    """Room for the entries of all rows, and that each of them must be written by itself."""
    n = values.array.size
    return np.zeros((n, len(column.suffixes()))), np.arange(n)


def _at_row(name: str, read: Callable[[Any], float]) -> Callable[[int, Any], float]:
    """`read` for the rows of a column, whose errors name column and row."""

    def at(i: int, value: Any) -> float:
        try:
            return read(value)
        except Refused as refused:
            raise InvalidInput(f"column {name!r}[{i}] {refused}") from None

    return at


def _truth(value: Any) -> float:
    if isinstance(value, _BOOLEANS) or (isinstance(value, _NUMBERS) and value in (0, 1)):
        return float(value)
    raise Refused(f"must be true or false, but got {value!r}")


def example_of(column: Column) -> Any:
    """A value that it takes."""
    if isinstance(column, DateColumn):
        return (
            datetime.datetime(1970, 1, 1) + datetime.timedelta(days=float(column.mean or 0.0))
        ).isoformat()
    if isinstance(column, NumberColumn):
        return column.mean
    if isinstance(column, BooleanColumn):
        return False
    return (column.values or ("",))[0]


def schema_of(column: Column) -> dict[str, Any]:
    """What a value of it may be, as JSON Schema."""
    words = "null where it is missing" if column.missing != "error" else ""
    kind: dict[str, Any] = {
        "type": {"number": "number", "date": "string", "boolean": "boolean"}.get(kind_of(column))
    }
    if isinstance(column, DateColumn):
        kind["description"] = "A date or a time, as ISO 8601 writes it."
    elif isinstance(column, NumberColumn):
        kind = number_schema(float(column.min or 0.0), float(column.max or 0.0), column.outside)
    elif isinstance(column, CategoryColumn):
        kind = {"enum": list(column.values or ())}
        if column.unseen != "error":
            kind = {"type": ["string", "number"], "examples": kind["enum"]}
    if words:
        kind = {"anyOf": [kind, {"type": "null"}], "description": words}
    return kind


def _listed(values: Any) -> str:
    return ", ".join(map(repr, values))
