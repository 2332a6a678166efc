"""The one reader of `usage`: for each name one number for all actions, one for each row on offer, or a mapping from actions.

>>> of_row(0.5, 1, "b"), of_row([0.5, 0.25], 1, "b"), of_row({"a": 1.0, "b": 2.0}, 1, "b")
(0.5, 0.25, 2.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.actions import Action, Actions
from tightrope.errors import InvalidInput
from tightrope.rules.rule import Rule, plain
from tightrope.validation import Array, finite_number
from tightrope.words import Key, Place

Ranges: TypeAlias = Mapping[str, tuple[float, float]]

# Any finite number.
ANY = (-float(np.finfo(float).max), float(np.finfo(float).max))
_TOLERANCE = 1e-9  # overshooting a declared range by this fraction of its width is rounding


def usage_ranges(rules: Sequence[Rule]) -> Ranges:
    """The range of each usage, as all rules on it declare it, or as their limits suggest, in any unit."""
    declared: dict[str, tuple[float, float] | None] = {}
    found: dict[str, tuple[float, float]] = {}
    for i, rule in enumerate(rules):
        usage, _, (low, high) = rule.quantity
        if usage is None:
            continue
        own = (low, high) if rule.declared else None
        if declared.setdefault(usage, own) != own:
            before = "left out" if declared[usage] is None else declared[usage]
            must = f"be {before}, as in an earlier rule on {usage!r}"
            raise InvalidInput(field=Place("rules", i, "range"), must=must, got=own)
        least, most = found.get(usage, (low, high))
        found[usage] = (min(least, low), max(most, high))
    return found


def where_declared(
    ranges: Ranges, rules: Sequence[Rule], otherwise: Callable[[float, float], tuple[float, float]]
) -> Ranges:
    """The ranges that rules declare; for other usages, those made from the ranges that limits suggest."""
    declared = {rule.quantity.usage for rule in rules if rule.declared}
    return {name: one if name in declared else otherwise(*one) for name, one in ranges.items()}


def of_row(given: Any, row: int, action: Action, *, uncounted: float | None = None) -> float:
    """What the action in a row on offer uses; `uncounted` if a mapping may leave it out."""
    if isinstance(given, Mapping):
        return float(given[action] if uncounted is None else given.get(action, uncounted))
    return float(given[row] if isinstance(given, list) else given)


def by_action(given: Any, actions: Sequence[Action]) -> Any:
    """Usage given for rows on offer, by action name; a single number stays single."""
    return dict(zip(actions, given, strict=True)) if isinstance(given, list) else given


def entries(name: str, given: Any) -> Iterator[tuple[Place, float]]:
    """Every given number, and its place."""
    place = Place("usage", Key(name))
    if isinstance(given, Mapping):
        yield from ((place.at(Key(action)), value) for action, value in given.items())
    elif isinstance(given, list):
        yield from ((place.at(i), value) for i, value in enumerate(given))
    else:
        yield place, given


class UsageReader:
    """Reads usage as numbers within their ranges.

    Parameters
    ----------
    names : Actions
    ranges : mapping
        The range of each usage, as declared or as limits suggest.
    allowed : mapping
        The range that is accepted.
    counted : mapping
        For each usage, the actions for which some rule counts it, (J,): a mapping may leave out the others.
    """

    def __init__(
        self, names: Actions, ranges: Ranges, allowed: Ranges, counted: Mapping[str, NDArray[np.bool_]]
    ) -> None:
        self._names, self._ranges, self._allowed, self._counted = names, ranges, allowed, counted

    def read(self, name: str, given: Any, rows: Sequence[int]) -> Array | float:
        """The given usage as one number, or one for each action on offer; the range is not checked yet."""
        n_rows = len(rows)
        if type(given) is float:
            return given
        if isinstance(given, np.ndarray) and given.dtype.kind == "f" and given.shape == (n_rows,):
            return given
        what = Place("usage", Key(name))
        if isinstance(given, Mapping):
            given = self._listed(what, name, given, rows)
        try:
            array = np.asarray(given)
        except ValueError as error:
            raise InvalidInput(field=what, must="hold numbers", got=given) from error
        if array.dtype.kind == "O":
            # May hold Fraction objects; an array of only bools is not numbers.
            kinds = set(map(type, array.flat))
            if kinds != {bool} and all(issubclass(kind, Real) for kind in kinds):
                with suppress(OverflowError):
                    array = array.astype(np.float64)
        if array.dtype.kind not in "fiu":
            raise InvalidInput(field=what, must="hold real numbers", got=given)
        if array.shape not in {(), (n_rows,)}:
            must = f"be one number or {n_rows}, one for each action on offer, but its shape is {array.shape}"
            raise InvalidInput(field=what, must=must)
        return array.astype(np.float64)

    def in_range(self, name: str, values: Array, given: Any) -> Array:
        """The values; those that overshoot the declared range only by rounding are set to its end."""
        low, high = allowed = self._allowed[name]
        slack = 0.0 if allowed == ANY else _TOLERANCE * (high - low)
        near = (values >= low - slack) & (values <= high + slack)
        if not near.all():
            row = int(np.argmin(near))
            one = not isinstance(given, Mapping) and np.ndim(given) == 0
            entry = Place("usage", Key(name), *([] if one else [row]))
            must = f"lie in [{plain(low)}, {plain(high)}], the range declared"
            must = "be a finite number" if allowed == ANY else must
            raise InvalidInput(field=entry, must=must, got=float(values.flat[row]))
        clipped: Array = np.clip(values, low, high)
        return clipped

    def _listed(
        self, what: Place, name: str, table: Mapping[Action, float], rows: Sequence[int]
    ) -> list[float]:
        for action in table:
            if action not in self._names:
                raise InvalidInput(self._names.unknown(action), field=what, within=str(what))
        values = []
        for i in rows:
            action = self._names.name(i)
            if action in table:
                values.append(finite_number(what.at(Key(action)), table[action]))
            elif self._counted[name][i]:
                raise InvalidInput(field=what, must=f"hold every action on offer, but {action!r} is missing")
            else:
                values.append(self._ranges[name][0])
        return values
