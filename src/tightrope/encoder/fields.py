"""What a caller sends, as a spec declares it: numbers and categories by name, or numbers without names."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from tightrope.encoder.columns import CategoryColumn, NumberColumn
from tightrope.errors import InvalidInput
from tightrope.validation import REACH, Array, Outside, finite_number, real_array, require_range
from tightrope.words import Shown

# How missing or undeclared values get a column of their own.
_OWN_COLUMN = "indicator"


class Number(msgspec.Struct, frozen=True, tag_field="type", tag="number", forbid_unknown_fields=True):
    """A number between `min` and `max`, scaled to [0, 1]; `outside` says what happens to any other (`validation.taken_range`).

    `missing` is the number to use for one that is missing, or "indicator", an extra column that says so; by default it is refused.
    """

    min: float
    max: float
    outside: Outside = "clip"
    missing: float | Literal["error", "indicator"] = "error"

    def __post_init__(self) -> None:
        low, high = finite_number("min", self.min), finite_number("max", self.max)
        if not (low < high and math.isfinite(high - low)):
            must, came = "hold, a finite distance apart", Shown(f"min = {low:g}, max = {high:g}")
            raise InvalidInput(field="`min < max`", must=must, got=came)
        if not isinstance(self.missing, str) and not low <= self.missing <= high:
            must = f"lie in [{low:g}, {high:g}]"
            raise InvalidInput(field="missing", must=must, got=Shown(f"{self.missing:g}"))

    def column(self) -> NumberColumn:
        low, high = float(self.min), float(self.max)
        missing, fill = (
            (self.missing, None) if isinstance(self.missing, str) else ("fill", float(self.missing))
        )
        scaled = NumberColumn(min=low, max=high, outside=self.outside, mean=low, deviation=high - low)
        return msgspec.structs.replace(scaled, missing=missing, fill=fill)

    @property
    def reach(self) -> float:
        """The most that it adds to ‖x‖²."""
        return (1.0 + REACH) ** 2 if self.outside == "take" else 1.0


class Category(msgspec.Struct, frozen=True, tag_field="type", tag="category", forbid_unknown_fields=True):
    """One of `values`: an indicator for each but the first, which the others are measured against.

    `missing` is the value to use for one that is missing, `other` the one to use for any that is not declared. "indicator" gives
    them a column of their own. By default both are refused.
    """

    values: tuple[str, ...]
    missing: str | None = None
    other: str | None = None

    def __post_init__(self) -> None:
        given: Any = self.values
        if not isinstance(given, list | tuple) or not all(isinstance(value, str) for value in given):
            raise InvalidInput(field="values", must="be a list of texts", got=given)
        if not given:
            raise InvalidInput(field="values", must="name at least one category, but the list is empty")
        if len(set(given)) < len(given):
            raise InvalidInput(field="values", must="differ from each other", got=list(given))
        msgspec.structs.force_setattr(self, "values", tuple(given))
        for name in ("missing", "other"):
            value = getattr(self, name)
            if value is not None and value not in (*given, _OWN_COLUMN):
                must = f'be one of its values, or "{_OWN_COLUMN}" for a column of their own'
                raise InvalidInput(field=name, must=must, got=value)

    def column(self) -> CategoryColumn:
        how: dict[str, Any] = {}
        if self.missing is not None:
            known = self.missing in self.values
            how |= {"missing": "fill", "fill": self.missing} if known else {"missing": "indicator"}
        if self.other is not None:
            how |= {"other": self.other} if self.other in self.values else {"unseen": "other"}
        return CategoryColumn(values=self.values, **how)

    @property
    def reach(self) -> float:
        """The most that it adds to ‖x‖²."""
        return float(bool(self.column().suffixes()))


Field: TypeAlias = Number | Category


class Vector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`count` numbers without names, each between `min` and `max`: x = (1, the numbers scaled to [0, 1]) / √(1 + count)."""

    count: int
    min: float
    max: float

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(field="count", must="be at least 1", got=self.count)
        Number(self.min, self.max)

    @property
    def n_features(self) -> int:
        return self.count + 1

    def rows(self, given: Any, n_actions: int | None = None) -> Array:
        """x (p,) of `count` numbers; with `n_actions` also one row for each of that many actions, (J, p)."""
        several = [] if n_actions is None else [(n_actions, self.count)]
        numbers = real_array("features", given, (self.count,), *several)
        low, high = float(self.min), float(self.max)
        require_range("features", numbers, low, high)
        ones = np.ones((*numbers.shape[:-1], 1))
        x = np.concatenate([ones, (numbers - low) / (high - low)], axis=-1)
        return np.ascontiguousarray(x * (math.sqrt(1.0 / (1 + self.count)) * (1.0 - 2.0**-50)))

    def example(self) -> list[float]:
        return [float(self.min)] * self.count
