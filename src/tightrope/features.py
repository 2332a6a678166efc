"""From what a caller sends, by name, to the vector x(c) that a model takes.

>>> fields = {"age": Number(0, 120), "sex": Category(["f", "m"])}
>>> features = FeatureMap(fields)
>>> features.names
('one', 'age', 'sex=m')
>>> features.vector({"age": 60, "sex": "f"}) * 3**0.5
array([1. , 0.5, 0. ])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

import msgspec
import numpy as np

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean
from tightrope.validation import (
    REACH,
    Array,
    Outside,
    finite_number,
    number_schema,
    real_array,
    require_range,
    taken_range,
)


class Number(msgspec.Struct, frozen=True, tag_field="type", tag="number", forbid_unknown_fields=True):
    """A number between `min` and `max`, scaled to [0, 1]; `outside` says what becomes of any other (`validation.taken_range`).

    >>> Number(0, 120)
    Number(min=0, max=120, outside='clip')
    """

    min: float
    max: float
    outside: Outside = "clip"

    def __post_init__(self) -> None:
        low, high = finite_number("min", self.min), finite_number("max", self.max)
        if not (low < high and math.isfinite(high - low)):
            raise InvalidInput(
                f"`min < max` must hold, at a finite distance, but got (min={low:g}, max={high:g})"
            )


class Category(msgspec.Struct, frozen=True, tag_field="type", tag="category", forbid_unknown_fields=True):
    """One of `values`: an indicator for each but the first, which the others are measured against.

    >>> Category(["f", "m"])
    Category(values=('f', 'm'))
    """

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        given: Any = self.values
        if not isinstance(given, list | tuple) or not all(isinstance(value, str) for value in given):
            raise InvalidInput(f"values must be a list of texts, but got {given!r}")
        if not given:
            raise InvalidInput("values must name at least one category, but the list is empty")
        if len(set(given)) < len(given):
            raise InvalidInput(f"values must differ from each other, but got {list(given)}")
        msgspec.structs.force_setattr(self, "values", tuple(given))


Field: TypeAlias = Number | Category


class Vector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`count` numbers without names, each between `min` and `max`: x = (1, the numbers scaled to [0, 1]) / √(1 + count).

    >>> Vector(count=2, min=-1, max=1).rows([0, 1]) * 3**0.5
    array([1. , 0.5, 1. ])
    >>> Vector(count=2, min=-1, max=1).rows([0, 1e20])
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: features[1] must lie in [-1, 1], but got 1e+20.
    """

    count: int
    min: float
    max: float

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(f"count must be at least 1, but got {self.count}")
        Number(self.min, self.max)

    @property
    def n_features(self) -> int:
        """p, the length of x."""
        return self.count + 1

    def rows(self, given: Any, n_actions: int | None = None) -> Array:
        """x (p,) of `count` numbers; with `n_actions` also one row for each of so many actions, (J, p)."""
        several = [] if n_actions is None else [(n_actions, self.count)]
        numbers = real_array("features", given, (self.count,), *several)
        low, high = float(self.min), float(self.max)
        require_range("features", numbers, low, high)
        ones = np.ones((*numbers.shape[:-1], 1))
        x = np.concatenate([ones, (numbers - low) / (high - low)], axis=-1)
        return np.ascontiguousarray(x * (math.sqrt(1.0 / (1 + self.count)) * (1.0 - 2.0**-50)))

    def example(self) -> list[float]:
        """Numbers that it takes: the least."""
        return [float(self.min)] * self.count


class FeatureMap:
    """x(c) = (1, numbers scaled to [0, 1], indicators) / √(1 + fields), so that ‖x‖ ≤ 1 whatever is sent.

    A number outside its range is brought to the nearer end, refused, or taken, as its field declares. One that may be taken counts
    for (1 + REACH)² fields.

    Parameters
    ----------
    fields : mapping of names to Number or Category
        Their order is that of the vector. A category has one entry for each of its values but the first: with the leading 1, the
        model's parameters for that first value are the intercept, those of the others differences from it.

    Attributes
    ----------
    names : tuple of str
        What each entry of the vector stands for; "one" is the constant.
    n_features : int
        p, the length of the vector.

    Examples
    --------
    >>> features = FeatureMap({"age": Number(0, 120), "ward": Category(["a", "b", "c"])})
    >>> features.n_features
    4
    >>> features.vector({"age": 130, "ward": "a"}).tolist() == features.vector({"age": 120, "ward": "a"}).tolist()
    True
    >>> FeatureMap({"age": Number(0, 120, "refuse")}).vector({"age": 130})
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: context.age must lie in [0, 120], but got 130.
    """

    def __init__(self, fields: Mapping[str, Field]) -> None:
        names = ["one"]
        self._numbers: list[tuple[str, int, float, float, float]] = []
        self._categories: list[tuple[str, dict[str, int]]] = []
        counted: float = 1
        for name, field in fields.items():
            if isinstance(field, Number):
                low, high = float(field.min), float(field.max)
                self._numbers.append((name, len(names), low, high, high - low))
                names.append(name)
                counted += (1.0 + REACH) ** 2 if field.outside == "take" else 1.0
            elif isinstance(field, Category):
                # The first value has no entry of its own: it writes the constant again.
                columns = {value: len(names) + i for i, value in enumerate(field.values[1:])}
                self._categories.append((name, {field.values[0]: 0, **columns}))
                names += [f"{name}={value}" for value in field.values[1:]]
                counted += len(field.values) > 1
            else:
                raise InvalidInput(f"context.{name} must be a Number or a Category, but got {field!r}.")
        self.fields = dict(fields)
        self.names = tuple(names)
        self.n_features = len(names)
        # Each field adds at most 1 to the squared norm, as does the constant. Rounding down keeps ‖x‖ ≤ 1 to the last bit.
        self._one = math.sqrt(1.0 / counted) * (1.0 - 2.0**-50)
        self._start = [self._one] + [0.0] * (len(names) - 1)

    def vector(self, context: Mapping[str, Any]) -> Array:
        """x of one context, (p,): every declared field, and no other.

        Raises
        ------
        InvalidInput
            Names the field that is missing, unknown, out of range or of a category that was never declared.
        """
        x = self._start.copy()
        one = self._one
        try:
            for name, column, low, high, width in self._numbers:
                value = context[name]
                if type(value) is not float and type(value) is not int:
                    value = finite_number(f"context.{name}", value)
                if not low <= value <= high:
                    value = self._brought(name, value, context)
                x[column] = one * ((value - low) / width)
            for name, columns in self._categories:
                x[columns[context[name]]] = one
            if len(context) != len(self.fields):
                self._refuse(context)
        except (KeyError, TypeError, IndexError):
            self._refuse(context)
        return np.array(x)

    @property
    def ranges(self) -> dict[str, tuple[float, float, Outside]]:
        """Of each number: least, greatest, and what becomes of one outside."""
        return {
            name: (float(one.min), float(one.max), one.outside)
            for name, one in self.fields.items()
            if isinstance(one, Number)
        }

    def outside(self, context: Mapping[str, Any]) -> list[str]:
        """The fields of a context that `vector` takes whose number is outside its range."""
        return [name for name, _, low, high, _ in self._numbers if not low <= context[name] <= high]

    def example(self) -> dict[str, Any]:
        """A context that it takes, of least numbers and first values.

        >>> FeatureMap({"age": Number(0, 120), "sex": Category(["f", "m"])}).example()
        {'age': 0.0, 'sex': 'f'}
        """
        return {
            name: float(one.min) if isinstance(one, Number) else one.values[0]
            for name, one in self.fields.items()
        }

    def schema(self) -> dict[str, Any]:
        """What `vector` takes, as JSON Schema."""
        properties = {
            name: number_schema(one.min, one.max, one.outside)
            if isinstance(one, Number)
            else {"enum": list(one.values)}
            for name, one in self.fields.items()
        }
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    def _brought(self, name: str, value: float, context: Any) -> float:
        """A number that is outside its range, as it is taken."""
        field = self.fields[name]
        assert isinstance(field, Number)
        if field.outside == "refuse" or (isinstance(value, float) and not math.isfinite(value)):
            self._refuse(context)
        low, high = taken_range(float(field.min), float(field.max), field.outside)
        return min(max(value, low), high)

    def _refuse(self, context: Any) -> NoReturn:
        """Say what is wrong: apart from the fast path, which only notices that something is."""
        if not isinstance(context, Mapping):
            raise InvalidInput(f"context must be a table of named fields, but got {context!r}.")
        for name in context:
            if name not in self.fields:
                raise InvalidInput(
                    f"context.{name!s:.100} is not a declared field{did_you_mean(name, self.fields)}; "
                    f"declared: {_listed(self.fields)}."
                )
        for name in self.fields:
            if name not in context:
                raise InvalidInput(f"context.{name} is missing; needed: {_listed(self.fields)}.")
        for name, (low, high, outside) in self.ranges.items():
            if outside != "refuse":
                low, high = -math.inf, math.inf
            try:
                finite_number(f"context.{name}", context[name], low=low, high=high)
            except OverflowError:
                raise InvalidInput(
                    f"context.{name} must lie in [{low:g}, {high:g}], but got a whole number too large for a float."
                ) from None
        for name, columns in self._categories:
            value = context[name]
            if not isinstance(value, str) or value not in columns:
                raise InvalidInput(
                    f"context.{name} must be one of {', '.join(map(repr, columns))}, but got {value!r}."
                )
        raise InvalidInput(f"context must be a plain table of the declared fields, but got {context!r}.")

    def __repr__(self) -> str:
        return f"FeatureMap({self.fields!r})"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
