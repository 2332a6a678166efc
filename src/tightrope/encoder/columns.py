"""How one column of a table becomes entries of x: numbers, dates, booleans and categories, as declared and as fitted."""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias

import msgspec
import numpy as np

from tightrope.errors import InvalidInput
from tightrope.frames import CHUNK, Values, is_missing, microseconds
from tightrope.messages import did_you_mean, fault, fields_at
from tightrope.validation import Array, Outside, number_schema, taken_range
from tightrope.words import Key, Place

MOST_LEVELS = 100
_BOOLEANS = (bool, np.bool_)
_NUMBERS = (int, float, np.integer, np.floating)
_DAY = 86_400_000_000  # in microseconds

Level: TypeAlias = str | int | float
# Why another value is used instead of the one that was sent.
Replaced: TypeAlias = Literal["missing", "other"]
# Writes the entries of one value into a list of numbers, starting at a position.
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
    """How one column becomes entries of x. A field that is None is not fitted yet.

    Each kind also defines `fitted`, a copy fitted to a table; `example`, a value that it accepts; and `schema`, its JSON Schema.
    """

    wanted: ClassVar[str]  # what a value must be, in words
    learnt: ClassVar[tuple[str, ...]]  # the fields that are known once it is fitted

    @property
    def kind(self) -> str:
        return str(type(self).__struct_config__.tag)

    def suffixes(self) -> list[str]:
        """The suffix of each entry's name."""
        raise NotImplementedError

    def writer(self) -> Write:
        """The function that writes one value."""
        raise NotImplementedError

    def block(self, name: str, values: Values) -> Array:
        """The entries of all rows, (n, entries); every distinct value is converted once."""
        met: dict[Any, int] = {}
        codes = np.empty(values.array.size, dtype=np.int64)
        for begin in range(0, codes.size, CHUNK):
            rows = slice(begin, begin + CHUNK)
            entries = zip(values.array[rows].tolist(), values.missing[rows].tolist())
            codes[rows] = [met.setdefault(None if gap else one, len(met)) for one, gap in entries]
        write, written = self.writer(), [[0.0] * len(self.suffixes()) for _ in met]
        for value, code in met.items():
            try:
                write(written[code], 0, value)
            except Refused as refused:
                raise InvalidInput(f"column {name!r}[{int(np.argmax(codes == code))}] {refused}") from None
        return np.array(written).reshape(len(met), -1)[codes]

    def with_fill(self) -> Self:
        """The same with `missing="fill"` where there is a `fill`."""
        given: Any = self
        if given.fill is not None and given.missing not in ("error", "fill"):
            raise InvalidInput(f'fill needs missing = "fill", but missing is "{given.missing}"')
        if given.missing == "fill" and given.fill is None:
            raise InvalidInput('fill must give the value to use for missing ones if missing = "fill"')
        return self if given.fill is None else msgspec.structs.replace(self, missing="fill")

    def replaced(self, value: Any) -> Replaced | None:
        """Why an accepted value was replaced by another one, if it was."""
        return "missing" if is_missing(value) else None

    @property
    def taken_as(self) -> dict[Replaced, str]:
        """What replaces values, in words; empty if none are replaced."""
        own: Any = self
        fill = f"{own.fill:g}" if isinstance(own.fill, float) else f"{own.fill}"
        words = {"indicator": "missing", "mean": "the mean", "fill": fill}
        return {} if own.missing == "error" else {"missing": words[own.missing]}

    def gap(self) -> NoReturn:
        raise Refused(f"is missing: give {self.wanted}, or declare `missing` to say what to use instead")


class NumberColumn(_Column, frozen=True, kw_only=True, tag="number"):
    """A number, less the mean and divided by the standard deviation of the table it was fitted to; or as it is.

    A standardised column that never varied has no entry: it says nothing that the constant doesn't. `min` and `max` come from the
    table unless they are declared; `outside` says what happens to a number beyond them (`validation.taken_range`).
    """

    wanted: ClassVar[str] = "a number"
    learnt: ClassVar[tuple[str, ...]] = ("mean", "deviation", "min", "max")

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
        return [""] * (self.scaling[1] != 0.0) + [" missing"] * (self.missing == "indicator")

    def fitted(self, name: str, values: Values) -> Self:
        numbers = self._numbers(name, values)
        if numbers.size == 0:
            _refuse_empty(name)
        low = float(numbers.min()) if self.min is None else self.min
        high = float(numbers.max()) if self.max is None else self.max
        ranged = msgspec.structs.replace(self, min=low, max=high)
        numbers = np.clip(numbers, *ranged.taken)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, spread = float(numbers.mean()), 0.0 if np.ptp(numbers) == 0 else float(numbers.std())
        if not (math.isfinite(mean) and math.isfinite(spread)):
            must = f"hold numbers whose squares can be added, but goes from {low:g} to {high:g}"
            raise InvalidInput(field=f"column {name!r}", must=must)
        return msgspec.structs.replace(ranged, mean=mean, deviation=spread)

    @property
    def scaling(self) -> tuple[float, float]:
        """What is subtracted from a number, and what it is then divided by (0 if the column has no entry)."""
        return (float(self.mean or 0.0), float(self.deviation or 0.0)) if self.standardise else (0.0, 1.0)

    @property
    def taken(self) -> tuple[float, float]:
        low = -math.inf if self.min is None else self.min
        high = math.inf if self.max is None else self.max
        return taken_range(low, high, self.outside) if math.isfinite(high - low) else (low, high)

    def is_outside(self, value: Any) -> bool:
        """Whether an accepted value is a number outside the range."""
        known = isinstance(value, _NUMBERS) and self.min is not None and self.max is not None
        return known and not is_missing(value) and not self.min <= value <= self.max

    def number(self, value: Any) -> float:
        if isinstance(value, _BOOLEANS) or not isinstance(value, _NUMBERS):
            raise Refused(f"must be {self.wanted}, but got {value!r}")
        try:
            number = float(value)
        except OverflowError:  # an integer too large for a float is outside every range
            number = sys.float_info.max if value > 0 else -sys.float_info.max
        if not math.isfinite(number):
            raise Refused(f"must be finite, but got {value!r}")
        return number

    @property
    def stand_in(self) -> float:
        return float((self.fill if self.missing == "fill" else self.mean) or 0.0)

    def writer(self) -> Write:
        number, gap, stand_in, (mean, spread) = self.number, self.gap, self.stand_in, self.scaling
        refuses, indicates = self.missing == "error", self.missing == "indicator"
        (low, high), strict = self.taken, self.outside == "refuse"
        # Whole numbers that are floats, too; a date is never a number.
        whole = 2**53 if type(self) is NumberColumn else -1

        def write(x: list[float], at: int, value: Any) -> None:
            kind = type(value)
            if not ((kind is float and value - value == 0.0) or (kind is int and -whole <= value <= whole)):
                if is_missing(value):
                    if refuses:
                        gap()
                    if indicates:
                        x[at + (spread != 0.0)] = 1.0
                    if spread:
                        x[at] = (stand_in - mean) / spread
                    return
                value = number(value)
            if not low <= value <= high:
                if strict:
                    raise Refused(f"must lie in [{low:g}, {high:g}], but got {value:g}")
                value = low if value < low else high
            if spread:
                x[at] = (value - mean) / spread

        return write

    def plain(self, values: Values) -> Array | None:
        """The column as numbers, NaN where one is missing; None if each value must be looked at."""
        return values.array.astype(np.float64) if values.array.dtype.kind in "iuf" else None

    def block(self, name: str, values: Values) -> Array:
        """The same numbers as `writer`, to the bit, but for all rows at once unless one of them is refused."""
        numbers, missing = self.plain(values), values.missing
        (low, high), (mean, spread) = self.taken, self.scaling
        if (
            numbers is None
            or np.isinf(numbers).any()
            or (self.missing == "error" and missing.any())
            or (self.outside == "refuse" and ((numbers < low) | (numbers > high)).any())
        ):
            return super().block(name, values)
        numbers = np.where(missing, self.stand_in, np.clip(numbers, low, high))
        parts = [(numbers - mean) / spread] if spread else []
        if self.missing == "indicator":
            parts.append(missing.astype(np.float64))
        return np.column_stack(parts) if parts else np.empty((numbers.size, 0))

    def example(self) -> Any:
        return self.mean

    def schema(self) -> dict[str, Any]:
        return number_schema(float(self.min or 0.0), float(self.max or 0.0), self.outside)

    def _numbers(self, name: str, values: Values) -> Array:
        numbers = self.plain(values)
        if numbers is not None and not np.isinf(numbers).any():
            return numbers[~values.missing]
        return np.array(_read(name, values, self.number))


class DateColumn(NumberColumn, frozen=True, kw_only=True, tag="date"):
    """A date, or a time in UTC, as the number of days since 1970. One outside the table's range is accepted: tomorrow always is."""

    wanted: ClassVar[str] = "a date such as 2026-03-31"

    fill: str | None = None  # type: ignore[assignment]
    outside: Outside = "take"

    def __post_init__(self) -> None:
        NumberColumn.__post_init__(self)
        if self.fill is not None and microseconds(self.fill) is None:
            raise InvalidInput(f"fill must be {self.wanted}, but got {self.fill!r}")

    def number(self, value: Any) -> float:
        since = microseconds(value)
        if since is None:
            raise Refused(f"must be {self.wanted}, but got {value!r}")
        return since / _DAY

    @property
    def stand_in(self) -> float:
        return self.number(self.fill) if self.missing == "fill" else float(self.mean or 0.0)

    def plain(self, values: Values) -> Array | None:
        if values.array.dtype.kind != "M":
            return None
        since = values.array.astype("datetime64[us]").astype(np.int64) / _DAY
        return np.where(values.missing, math.nan, since)

    def example(self) -> str:
        day = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=float(self.mean or 0.0))
        return day.isoformat()

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "description": "A date or a time, as ISO 8601 writes it."}


class BooleanColumn(_Column, frozen=True, kw_only=True, tag="boolean"):
    """True or false, as 1 and 0."""

    wanted: ClassVar[str] = "true or false"
    learnt: ClassVar[tuple[str, ...]] = ("mean",)

    missing: Literal["error", "mean", "indicator", "fill"] = "error"
    fill: bool | None = None
    mean: float | None = None

    def suffixes(self) -> list[str]:
        return ["", " missing"] if self.missing == "indicator" else [""]

    def fitted(self, name: str, values: Values) -> Self:
        known = _read(name, values, _truth)
        return msgspec.structs.replace(self, mean=sum(known) / len(known) if known else 0.0)

    def writer(self) -> Write:
        gap, refuses, indicates = self.gap, self.missing == "error", self.missing == "indicator"
        stand_in = float({"fill": self.fill, "mean": self.mean}.get(self.missing) or 0.0)

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

    def example(self) -> bool:
        return False

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class CategoryColumn(_Column, frozen=True, kw_only=True, tag="category"):
    """One of some values, which are texts or numbers: an indicator for each but the first, which the others are measured against.

    With ``unseen="ignore"`` the first has one too, so that an unseen value, which has none, differs from all of them; with
    ``"other"`` all unseen values share one; with ``"fill"`` they count as the value `other`.
    """

    wanted: ClassVar[str] = "one of its values"
    learnt: ClassVar[tuple[str, ...]] = ("values",)

    values: tuple[Level, ...] | None = None
    unseen: Literal["error", "ignore", "other", "fill"] = "error"
    other: Level | None = None
    missing: Literal["error", "indicator", "fill"] = "error"
    fill: Level | None = None

    def __post_init__(self) -> None:
        if self.other is not None and self.unseen not in ("error", "fill"):
            raise InvalidInput(f'other needs unseen = "fill", but unseen is "{self.unseen}"')
        if self.other is not None:
            msgspec.structs.force_setattr(self, "unseen", "fill")
        if self.unseen == "fill" and self.other is None:
            raise InvalidInput('other must give the value to use for unseen ones if unseen = "fill"')
        values = self.values
        if values is None:
            return
        if not values:
            raise InvalidInput("values must name at least one category, but the list is empty")
        if any(isinstance(one, bool) for one in values) or len(set(values)) < len(values):
            raise InvalidInput(f"values must be different texts or numbers, but got {list(values)}")
        if self.fill is not None and self.fill not in values:
            raise InvalidInput(f"fill must be one of the values {_listed(values)}, but got {self.fill!r}")
        if self.other is not None and self.other not in values:
            raise InvalidInput(f"other must be one of the values {_listed(values)}, but got {self.other!r}")

    def replaced(self, value: Any) -> Replaced | None:
        if is_missing(value):
            return "missing"
        return None if value in (self.values or ()) else "other"

    @property
    def taken_as(self) -> dict[Replaced, str]:
        known: dict[Replaced, str] = super().taken_as
        others = {
            "ignore": "none of its values",
            "other": "one value for all others",
            "fill": str(self.other),
        }
        return known | ({"other": others[self.unseen]} if self.unseen != "error" else {})

    def suffixes(self) -> list[str]:
        own = [f"={value}" for value in self._own()]
        return own + [" other"] * (self.unseen == "other") + [" missing"] * (self.missing == "indicator")

    def fitted(self, name: str, values: Values) -> Self:
        if self.values is not None:
            return self
        present = values.array[~values.missing]
        if present.dtype.kind not in "iufU":
            must = "hold texts or numbers to be a category"
            raise InvalidInput(field=f"column {name!r}", must=must, got=present[0])
        levels = sorted(set(present.tolist()))
        if len(levels) > MOST_LEVELS:
            must = f"have at most {MOST_LEVELS} different values to be a category, but has {len(levels)}"
            remedy = "Declare the `values` that count, and what to do with `unseen` ones."
            raise InvalidInput(field=f"column {name!r}", must=must, remedy=remedy)
        if not levels:
            _refuse_empty(name)
        plain = tuple(int(one) if isinstance(one, float) and one.is_integer() else one for one in levels)
        return msgspec.structs.replace(self, values=plain)

    def _own(self) -> tuple[Level, ...]:
        return (self.values or ())[0 if self.unseen == "ignore" else 1 :]

    def writer(self) -> Write:
        values, own = self.values or (), self._own()
        codes: dict[Any, int] = dict.fromkeys(values, -1) | {value: i for i, value in enumerate(own)}
        others = codes.get(self.other, -1) if self.unseen == "fill" else -1
        others = len(own) if self.unseen == "other" else others
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
                    near = did_you_mean(value, map(str, values))
                    raise Refused(f"must be one of {_listed(values)}, but got {value!r}{near}")
                else:
                    code = others
            if code >= 0:
                x[at + code] = 1.0

        return write

    def example(self) -> Level:
        return (self.values or ("",))[0]

    def schema(self) -> dict[str, Any]:
        values = list(self.values or ())
        return (
            {"enum": values} if self.unseen == "error" else {"type": ["string", "number"], "examples": values}
        )


Column: TypeAlias = NumberColumn | DateColumn | BooleanColumn | CategoryColumn
_KINDS: dict[str, type[Column]] = {
    str(one.__struct_config__.tag): one for one in (NumberColumn, CategoryColumn, BooleanColumn, DateColumn)
}
_INFERRED = {"U": "category", "b": "boolean", "M": "date"}


def declarations(columns: Any) -> dict[str, Any]:
    """The declaration of each column: a table, empty if nothing is declared."""
    if isinstance(columns, Mapping):
        declared = {name: {"type": one} if isinstance(one, str) else one for name, one in columns.items()}
    elif isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidInput(field="columns", must="be one or more column names", got=columns)
    else:
        declared = {name: {} for name in columns}
    for name in declared:
        if not isinstance(name, str):
            raise InvalidInput(field="columns", must=f"be names, but got {name!r} among them")
    if len(declared) < len(columns):
        raise InvalidInput(field="columns", must="differ from each other", got=list(columns))
    return declared


def fitted_column(name: str, stated: Any, values: Values) -> Column:
    """A column fitted to its values; its type is as declared, otherwise that of the values."""
    return _made(name, stated, _INFERRED.get(values.array.dtype.kind, "number")).fitted(name, values)


def _made(name: str, stated: Any, default: str | None) -> Column:
    if isinstance(stated, _Column):
        stated = msgspec.to_builtins(stated)
    if not isinstance(stated, Mapping):
        must = "be a type or a table such as {'type': 'number'}"
        raise InvalidInput(field=Place("columns", Key(name)), must=must, got=stated)
    kind = stated.get("type", default)
    if not isinstance(kind, str) or kind not in _KINDS:
        near = did_you_mean(kind, _KINDS)
        raise InvalidInput(f"columns[{name!r}].type must be one of {_listed(_KINDS)}, but got {kind!r}{near}")
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
    column = _made(name, stated, None)
    for field in column.learnt:
        if getattr(column, field) is None:
            raise InvalidInput(f"columns[{name!r}].{field} is missing")
    return column


def _read(name: str, values: Values, read: Callable[[Any], float]) -> list[float]:
    found = []
    for i, (one, gap) in enumerate(zip(values.array.tolist(), values.missing.tolist())):
        try:
            found += [] if gap else [read(one)]
        except Refused as refused:
            raise InvalidInput(f"column {name!r}[{i}] {refused}") from None
    return found


def _refuse_empty(name: str) -> NoReturn:
    raise InvalidInput(field=f"column {name!r}", must="have a value in some row, but it has none")


def _truth(value: Any) -> float:
    if isinstance(value, _BOOLEANS) or (isinstance(value, _NUMBERS) and value in (0, 1)):
        return float(value)
    raise Refused(f"must be true or false, but got {value!r}")


def _listed(values: Any) -> str:
    return ", ".join(map(repr, values))
