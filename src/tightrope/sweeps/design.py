"""Which settings a sweep tries: fields of the spec by their path, the values of each, and how they are combined.

Points are made one at a time, never all at once, and depend only on the ``[sweep]`` table.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.spec import Spec, unknown_field
from tightrope.validation import finite_number, whole_number
from tightrope.words import Shown

Kind: TypeAlias = Literal["grid", "random", "sobol"]
Scale: TypeAlias = Literal["linear", "log"]
Step: TypeAlias = str | int
Column: TypeAlias = Literal["bool", "int", "float", "text"]

ROOTS = ("policy", "rule", "environment", "simulation")
_BLOCK = 256  # points drawn at a time; a power of 2, as Sobol sequences require


@dataclass(frozen=True)
class Span:
    """All numbers from `low` to `high`; whole ones only if both ends are ints. `steps` is how many of them a grid takes.

    Numbers have six significant digits, so that a setting can be read, written and found again.
    """

    low: float
    high: float
    scale: Scale = "linear"
    steps: int | None = None

    def __post_init__(self) -> None:
        low, high = finite_number("low", self.low), finite_number("high", self.high)
        if not low < high:
            came = Shown(f"low = {self.low} and high = {self.high}")
            raise InvalidInput(field="low", must="be below high", got=came)
        if self.scale not in get_args(Scale):
            raise InvalidInput(field="scale", must="be 'linear' or 'log'", got=self.scale)
        if self.scale == "log" and low <= 0:
            raise InvalidInput(field="low", must="be above 0 on a logarithmic scale", got=self.low)
        if self.steps is not None:
            whole_number("steps", self.steps, low=2)

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def at(self, u: float) -> float:
        """The value at the share u ∈ [0, 1) of the way."""
        if self.whole:
            # Each integer owns the interval up to the next, so all of them are drawn.
            return min(math.floor(self._between(u, self.high + 1)), int(self.high))
        return min(max(_six_digits(self._between(u, self.high)), self.low), self.high)

    def levels(self) -> tuple[float, ...]:
        assert self.steps is not None
        inner = [self._between(i / (self.steps - 1), self.high) for i in range(1, self.steps - 1)]
        values = [self.low, *(round(x) if self.whole else _six_digits(x) for x in inner), self.high]
        return tuple(dict.fromkeys(values))

    def _between(self, u: float, end: float) -> float:
        if self.scale == "log":
            return math.exp(math.log(self.low) + u * (math.log(end) - math.log(self.low)))
        return self.low + u * (end - self.low)


@dataclass(frozen=True)
class Axis:
    """One field and its values: a tuple, or a `Span`."""

    path: str
    values: tuple[Any, ...] | Span

    @property
    def steps(self) -> tuple[Step, ...]:
        return steps_of(self.path)

    @property
    def column(self) -> Column:
        """How values are stored: as numbers where all are numbers."""
        if isinstance(self.values, Span):
            return "int" if self.values.whole else "float"
        kinds = {type(value) for value in self.values}
        if kinds == {bool}:
            return "bool"
        if kinds == {int} and all(abs(value) < 2**63 for value in self.values):
            return "int"
        return "float" if kinds <= {int, float} else "text"

    def at(self, u: float) -> Any:
        """The value at u ∈ [0, 1); of a list, each value has the same share."""
        if isinstance(self.values, Span):
            return self.values.at(u)
        return self.values[int(u * len(self.values))]

    def levels(self) -> tuple[Any, ...]:
        return self.values.levels() if isinstance(self.values, Span) else self.values


@dataclass(frozen=True)
class Design:
    """The points of a sweep."""

    kind: Kind
    axes: tuple[Axis, ...]
    cells: int
    seed: int

    @classmethod
    def of(cls, spec: Spec) -> Design:
        """The design in a spec's ``[sweep]``; a `SpecError` names the field that is wrong."""
        table = dict(spec.sweep)
        example = 'for instance "policy.reward.bonus" = [0.1, 1.0]'
        if not table:
            refuse(spec, "", f"is missing: it names the fields to vary, {example}")
        kind = table.pop("design", "grid")
        if kind not in get_args(Kind):
            refuse(spec, "design", f"must be one of {', '.join(map(repr, get_args(Kind)))}, but got {kind!r}")
        seed = _whole(spec, "seed", table.pop("seed", 0), 0)
        cells = table.pop("cells", None)
        axes = [_axis(spec, path, given, kind) for path, given in _flat(table, "")]
        if not axes:
            refuse(spec, "", f"must name at least one field, {example}")
        if len({axis.steps for axis in axes}) < len(axes):
            refuse(spec, "", "must name each field once")
        # Fields of the environment vary slowest, so that neighbours share one and its linear program.
        axes.sort(key=lambda axis: axis.steps[0] not in ("environment", "rule"))
        if kind == "grid":
            if cells is not None:
                refuse(
                    spec,
                    "cells",
                    "is only for random and sobol designs; a grid takes every combination of its values",
                )
            cells = math.prod(len(axis.levels()) for axis in axes)
        elif cells is None:
            refuse(spec, "cells", f"is missing: a {kind} design needs the number of settings to try")
        return cls(kind, tuple(axes), _whole(spec, "cells", cells, 1), seed)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(axis.path for axis in self.axes)

    def points(self) -> Iterator[tuple[Any, ...]]:
        """One tuple of values for each point, in the order of `paths`."""
        if self.kind == "grid":
            yield from itertools.product(*(axis.levels() for axis in self.axes))
            return
        for row in itertools.islice(self._uniforms(), self.cells):
            yield tuple(axis.at(u) for axis, u in zip(self.axes, row))

    def _uniforms(self) -> Iterator[Sequence[float]]:
        d = len(self.axes)
        if self.kind == "random":
            for block in itertools.count():
                key = np.array([self.seed, block], dtype=np.uint64)
                yield from np.random.Generator(np.random.Philox(key=key)).random((_BLOCK, d)).tolist()
        from scipy.stats import qmc

        sequence = qmc.Sobol(d, scramble=True, seed=np.random.default_rng(self.seed))
        while True:
            yield from sequence.random(_BLOCK).tolist()


def steps_of(path: str) -> tuple[Step, ...]:
    """A path in parts.

    >>> steps_of("policy[1].V.scale")
    ('policy', 1, 'V', 'scale')
    """
    steps: list[Step] = []
    for part in path.split("."):
        found = re.fullmatch(r"([^][]+)((?:\[\d+\])*)", part)
        if found is None:
            raise InvalidInput(f"must be a path such as policy.slater or rule[0].at_most, but got {path!r}")
        steps.append(found[1])
        steps += [int(index) for index in re.findall(r"\d+", found[2])]
    return tuple(steps)


def put(data: Any, steps: Sequence[Step], value: Any) -> Any:
    """`data` with `value` at the place that `steps` lead to; tables on the way are copied, everything else is shared.

    >>> put({"a": {"b": 1}, "c": [1, 2]}, ("a", "d"), 3)
    {'a': {'b': 1, 'd': 3}, 'c': [1, 2]}
    """
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        if not isinstance(data, list) or step >= len(data):
            raise InvalidInput(f"there is no entry [{step}]")
        return [*data[:step], put(data[step], rest, value), *data[step + 1 :]]
    if not isinstance(data, Mapping):
        raise InvalidInput(f"there is no table to hold {step!r}")
    return {**data, step: put(data.get(step, {}) if rest else None, rest, value)}


def refuse(spec: Spec, field: str, message: str) -> NoReturn:
    name = f'"{field}"' if "." in field else field
    raise spec.error(f"sweep.{name}: {message}" if field else f"sweep: {message}")


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Entries by path: TOML turns a path without quotation marks into tables."""
    for name, value in table.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, Mapping) and not {"low", "high"} & set(value):
            yield from _flat(value, path)
        else:
            yield path, value


def _axis(spec: Spec, path: str, given: Any, kind: Kind) -> Axis:
    if path.split(".")[0].split("[")[0] not in ROOTS:
        known = ("design", "cells", "seed", *(f"{root}.…" for root in ROOTS))
        raise spec.error(str(unknown_field("sweep", path, known)))
    values: tuple[Any, ...] | Span
    try:
        steps = steps_of(path)
        if len(steps) < 2:
            field = "seed" if path == "simulation" else "kind"
            raise InvalidInput(f"must lead to a field, such as {path}.{field}")
        if isinstance(given, Mapping):
            for field in given:
                if field not in (known := ("low", "high", "scale", "steps")):
                    raise unknown_field("", field, known)
            if missing := [end for end in ("low", "high") if end not in given]:
                raise InvalidInput(f"{missing[0]} is missing")
            values = Span(**given)
            if kind == "grid" and values.steps is None:
                raise InvalidInput("steps is missing: a grid needs the number of values in the range")
            if kind != "grid" and values.steps is not None:
                raise InvalidInput(f"steps is only for grids, but the design is {kind!r}")
        elif not isinstance(given, list):
            raise InvalidInput(f"must be a list of values or {{ low = …, high = … }}, but got {given!r}")
        elif not given:
            raise InvalidInput("must have at least one value, but the list is empty")
        else:
            values = tuple(given)
        policies = spec.data.get("policy", {})
        base = {**spec.data, "policy": policies if isinstance(policies, list) else [policies]}
        put(base, own_steps(steps, 0), values)
    except InvalidInput as error:
        refuse(spec, path, str(error).rstrip("."))
    return Axis(path, values)


def own_steps(steps: tuple[Step, ...], policy: int) -> tuple[Step, ...]:
    """The steps with `policy` as `policy[i]` if they name no policy themselves."""
    if steps[0] == "policy" and not isinstance(steps[1], int):
        return ("policy", policy, *steps[1:])
    return steps


def _whole(spec: Spec, field: str, value: Any, low: int) -> int:
    try:
        return whole_number(field, value, low=low, high=2**63 - 1)
    except InvalidInput as error:
        refuse(spec, field, error.complaint().rstrip("."))


def _six_digits(x: float) -> float:
    return float(f"{x:.6g}")
