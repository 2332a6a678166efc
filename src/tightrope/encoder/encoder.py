"""From the rows of a table to the vectors x that a model takes, saved to a file so that a row gives the same numbers everywhere."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

from tightrope import displays
from tightrope.encoder.columns import (
    CategoryColumn,
    Column,
    NumberColumn,
    Refused,
    Replaced,
    declarations,
    fitted_column,
    known_column,
)
from tightrope.encoder.fields import Category, Field, Number
from tightrope.errors import InvalidInput
from tightrope.files import write_json
from tightrope.frames import Frame, row_of
from tightrope.messages import did_you_mean
from tightrope.validation import Array, Outside, finite_number
from tightrope.words import Place

_VERSION = 1


class Encoder:
    """x = (1, numbers less their mean in standard deviations, indicators of categories, …) / norm.

    Parameters
    ----------
    columns : sequence of names, or mapping of names to declarations, optional
        Which columns, in which order; by default all of the table that `fit` is given. A declaration is a type, "number",
        "category", "boolean" or "date", or a table with

        - ``type``; by default texts are categories, and other values keep their own type;
        - ``missing``: "error" (the default), "indicator" (an extra column that says so), or for numbers, dates and booleans "mean";
        - ``fill``: the value to use for missing ones;
        - ``standardise = False`` for a number that is not scaled;
        - ``min`` and ``max`` of a number, if they should not be learnt from the table;
        - ``outside``: what happens to other numbers: "clip" (the default) moves them to the nearer end, "refuse" is an error,
          "take" keeps them as they are, up to ten times the width beyond (the default for dates);
        - ``values`` of a category, if they should not be learnt from the table (sorted; at most 100);
        - ``unseen``: what a category does with other values, "error" (the default), "ignore" or "other";
        - ``other``: the value of a category that unseen ones count as.
    unit : bool
        Whether x is divided by the greatest norm in the table, so that ‖x‖ ≤ 1 there.

    Attributes
    ----------
    columns : dict of str to their declarations, with what was fitted
    names : tuple of str
        What each entry of x, `n_features` of them, stands for; "one" is the constant.
    norm : float
        What x is divided by.

    Examples
    --------
    >>> rows = [{"age": 20, "ward": "A"}, {"age": 60, "ward": "B"}, {"ward": "B"}]
    >>> encoder = Encoder({"age": {"missing": "mean"}, "ward": {}}, unit=False).fit(rows)
    >>> encoder.names, encoder.transform(rows).tolist()
    (('one', 'age', 'ward=B'), [[1.0, -1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
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
            raise InvalidInput(field="unit", must="be true or false", got=unit)
        self._declared = None if columns is None else declarations(columns)
        self.unit = unit
        self.fitted = False

    @classmethod
    def declared(cls, fields: Mapping[str, Field]) -> Self:
        """An encoder that needs no table: x = (1, numbers scaled to [0, 1], indicators) / norm, so that ‖x‖ ≤ 1 whatever is sent.

        `fields` are those that `[context]` of a spec declares. Because of the leading 1, a model's parameters for the first value
        of a category are the intercept, and those of the others are differences from it.

        >>> from tightrope.encoder.fields import Category, Number
        >>> encoder = Encoder.declared({"age": Number(0, 120), "sex": Category(["f", "m"])})
        >>> encoder.names, (encoder.vector({"age": 60, "sex": "f"}) * 3**0.5).round(9).tolist()
        (('one', 'age', 'sex=m'), [1.0, 0.5, 0.0])
        """
        for name, field in fields.items():
            if not isinstance(field, Number | Category):
                raise InvalidInput(field=Place("context", name), must="be a Number or a Category", got=field)
        columns: dict[str, Column] = {name: field.column() for name, field in fields.items()}
        # Rounding up keeps ‖x‖ ≤ 1 to the last bit.
        norm = math.sqrt(1.0 + sum(field.reach for field in fields.values())) * (1.0 + 2.0**-50)
        return cls(columns)._become(columns, norm)

    # From a table

    def fit(self, table: Any, columns: Sequence[str] | Mapping[str, Any] | None = None) -> Self:
        """Learn ranges, means, deviations and categories from a table; returns the encoder itself.

        The table is a DataFrame of pandas or polars, a pyarrow Table, a mapping of columns, a list of rows, or an (n, p) array.
        `columns` replace those of the constructor.
        """
        declared = self._declared if columns is None else declarations(columns)
        frame = Frame(table, None if declared is None else list(declared))
        if declared is None:
            declared = declarations(frame.names)
        read = {name: frame.column(name) for name in declared}
        if not declared or len(frame) == 0:
            came = f"{len(declared)} and {len(frame)}"
            raise InvalidInput(field="an encoder", problem=f"needs a column and a row, but got {came}")
        made = {name: fitted_column(name, one, read[name]) for name, one in declared.items()}
        x = _design(made, frame)
        return self._become(made, float(np.linalg.norm(x, axis=1).max()) if self.unit else 1.0)

    def transform(self, rows: Any) -> Array:
        """x of each row (n, n_features); of one row, a mapping, a Series, a record or an array (p,), x itself (n_features,).

        Columns that the encoder does not know are ignored.
        """
        self._require_fitted()
        row = row_of(rows, list(self.columns))
        if row is not None:
            return self._vector(row, "column {!r}")
        return np.asarray(self.design(rows) / self.norm)

    def fit_transform(self, table: Any, columns: Sequence[str] | Mapping[str, Any] | None = None) -> Array:
        """`fit`, then `transform` of the same table."""
        return self.fit(table, columns).transform(table)

    def design(self, table: Any) -> Array:
        """`transform`, not divided by the norm."""
        self._require_fitted()
        return _design(self.columns, Frame(table, list(self.columns)))

    def vector(self, context: Any) -> Array:
        """x of one row by column names, (n_features,): for what callers send, so unknown names are refused.

        An error names the unknown, missing or invalid field as ``context.NAME``.
        """
        self._require_fitted()
        if type(context) is not dict and not isinstance(context, Mapping):
            raise InvalidInput(field="context", must="be a row by column names", got=context)
        if not context.keys() <= self.columns.keys():
            name = next(one for one in context if one not in self.columns)
            known, near = ", ".join(self.columns), did_you_mean(name, self.columns)
            problem = f"is not a declared field{near}; declared: {known}"
            raise InvalidInput(field=Place("context", f"{name!s:.100}"), problem=problem)
        return self._vector(context, "context.{}")

    @property
    def ranges(self) -> dict[str, tuple[float, float, Outside]]:
        """For each number except dates: the least, the greatest, and what happens to one outside."""
        return {
            name: (float(column.min or 0.0), float(column.max or 0.0), column.outside)
            for name, column in self.columns.items()
            if type(column) is NumberColumn
        }

    def outside(self, context: Mapping[str, Any]) -> list[str]:
        """The numbers of a row that lie outside their range, although `vector` accepts them."""
        return [name for name, is_outside in self._numbers if is_outside(context.get(name))]

    def replaced(self, context: Mapping[str, Any]) -> list[tuple[str, Replaced]]:
        """The fields of a row whose value is replaced by another one, and why."""
        found = ((name, column.replaced(context.get(name))) for name, column in self._tolerant)
        return [(name, why) for name, why in found if why is not None]

    @property
    def taken_as(self) -> dict[str, dict[Replaced, str]]:
        """What replaces values, in words, for the fields that replace any."""
        return {name: column.taken_as for name, column in self._tolerant}

    def example(self) -> dict[str, Any]:
        """A context that it takes."""
        return {name: column.example() for name, column in self.columns.items()}

    def schema(self) -> dict[str, Any]:
        """What a context may be, as JSON Schema."""
        needed = [name for name, column in self.columns.items() if column.missing == "error"]
        properties = {name: column.schema() for name, column in self.columns.items()}
        for name in properties.keys() - {*needed}:
            either = [properties[name], {"type": "null"}]
            properties[name] = {"anyOf": either, "description": "null if it is missing"}
        return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}

    @property
    def n_contexts(self) -> int | None:
        """How many different rows there can be if all columns are categories with fixed values; else None."""
        sizes = []
        for column in self.columns.values():
            if not isinstance(column, CategoryColumn) or not column.unseen == column.missing == "error":
                return None
            sizes.append(len(column.values or ()))
        return math.prod(sizes) if sizes else None

    def context_number(self, context: Mapping[str, Any]) -> int:
        """The number of a row of categories, the last column running fastest."""
        number = 0
        for name, column in self.columns.items():
            assert isinstance(column, CategoryColumn)
            values = column.values or ()
            number = number * len(values) + values.index(context[name])
        return number

    def copy(self) -> Self:
        """An independent encoder, declared and fitted as this one."""
        return copy(self)

    # Plain data

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, for JSON or a spec."""
        self._require_fitted()
        # Through bytes, because `to_builtins` leaves tuples where JSON has lists: what is read back equals what was given.
        columns = msgspec.msgpack.decode(msgspec.msgpack.encode(self.columns))
        return {"version": _VERSION, "unit": self.unit, "norm": self.norm, "columns": columns}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Make an encoder from what `to_dict` gave."""
        if not isinstance(data, Mapping):
            raise InvalidInput(field="an encoder", must="be a table", got=data)
        for name in data:
            if name not in ("version", "unit", "norm", "columns"):
                problem = f"has no field {name!r}; allowed: version, unit, norm, columns"
                raise InvalidInput(field="an encoder", problem=problem)
        version, norm, columns = data.get("version", _VERSION), data.get("norm", 1.0), data.get("columns")
        if version != _VERSION:
            must = f"be {_VERSION}, which this release reads"
            raise InvalidInput(field="version", must=must, got=version)
        norm = finite_number("norm", norm, low=0.0, open_low=True)
        if not isinstance(columns, Mapping) or not columns:
            raise InvalidInput(field="columns", must="be a table of columns by name", got=columns)
        made = {name: known_column(name, stated) for name, stated in columns.items()}
        return cls(columns, unit=data.get("unit", True))._become(made, norm)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a JSON file."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an encoder that `save` wrote."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise InvalidInput(f"{path} can't be read: {error.strerror or error}") from error
        except InvalidInput as error:
            raise error.inside(str(path)) from error
        except ValueError as error:
            raise InvalidInput(f"{path} must be JSON, but it is not: {error}") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Encoder):
            return NotImplemented
        if not (self.fitted and other.fitted):
            return self is other
        # Features are numbered in the order of the columns.
        return self.names == other.names and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if not self.fitted:
            return f"Encoder({list(self._declared or ())}, not fitted)"
        kinds = ", ".join(f"{name}: {column.kind}" for name, column in self.columns.items())
        return f"Encoder({kinds}; {self.n_features} features)"

    def _repr_html_(self) -> str:
        if not self.fitted:
            known = [("columns", list(self._declared or ()) or "all of the table")]
            return displays.page("Encoder, not fitted yet", displays.facts(known))
        ends = [*(at for _, at, _ in self._writers), self.n_features]
        rows = []
        for (name, at, _), end in zip(self._writers, ends[1:], strict=True):
            column = self.columns[name]
            rows.append((name, column.kind, column.missing, ", ".join(self.names[at:end])))
        title = f"Encoder: {len(rows)} columns become {self.n_features} features, the constant among them"
        return displays.page(title, displays.table(("column", "type", "where missing", "features"), rows))

    # How it is done

    def _become(self, columns: dict[str, Column], norm: float) -> Self:
        names, self._writers = ["one"], []
        for name, column in columns.items():
            self._writers.append((name, len(names), column.writer()))
            names += [name + suffix for suffix in column.suffixes()]
        self.columns, self.names, self.n_features, self.norm = columns, tuple(names), len(names), norm
        self._numbers = [(name, columns[name].is_outside) for name in self.ranges]  # type: ignore[union-attr]
        self._tolerant = [(name, column) for name, column in columns.items() if column.taken_as]
        self.fitted = True
        return self

    def _require_fitted(self) -> None:
        if not self.fitted:
            raise InvalidInput("the encoder is not fitted yet; call fit(table) first")

    def _vector(self, row: Mapping[str, Any], where: str) -> Array:
        x = [0.0] * self.n_features
        x[0] = 1.0
        name = ""
        try:
            for name, at, write in self._writers:
                write(x, at, row.get(name))
        except Refused as refused:
            field = where.format(name)
            raise InvalidInput(f"{field} {refused}", field=field) from None
        norm = self.norm
        return np.array([entry / norm for entry in x])


def _design(columns: Mapping[str, Column], frame: Frame) -> Array:
    """`transform` of a table before it is divided by `norm`: a one and the entries of all columns, (n, n_features)."""
    blocks = [column.block(name, frame.column(name)) for name, column in columns.items()]
    return np.column_stack([np.ones(len(frame)), *blocks])
