"""Rules in words on the way of every decision: what `Rules.costs` and `Rules.observed` say, compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.rules import Plan, Rules
from tightrope.validation import FLOAT, Array

__all__ = ["RuleCosts"]

asarray, empty, ndarray = np.asarray, np.empty, np.ndarray  # looked up in every round

# Contexts may come with any group, and actions on offer in any combination; this bounds the memory of what is kept for them.
_MAX_KEPT = 1024


class RuleCosts:
    """The costs of one set of rules, to the bit those of `Rules`, and where something is wrong its errors.

    A caller says the same usages round after round, so what does not depend on their values is worked out once for each group, list
    of usages and list of actions on offer. What is not plain numbers goes by `Rules` itself.

    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.5, seen="after")], actions=["a", "b"])
    >>> RuleCosts(rules).costs()
    array([[ 0.5,  0. ],
           [-0.5,  0. ]])
    >>> RuleCosts(rules).observed({"hours": 0.75}, 1)
    array([0.25])
    """

    __slots__ = ("_before", "_forms", "_idle", "rules")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._before = rules.seen.copy()
        self._forms: dict[tuple[Any, ...], _Form] = {}
        self._idle: dict[Any, NDArray[np.int64]] = {}

    def costs(self, usage: Any = None, group: Any = None, ids: NDArray[np.int64] | None = None) -> Array:
        """As `Rules.costs`; `group` by `plain_group`, `ids` those of the actions on offer, None for all."""
        if usage is None or type(usage) is dict:
            key = (group, () if usage is None else tuple(usage), None if ids is None else ids.tobytes())
            form = self._forms.get(key)
            if form is None:
                form = self._new_form(key, self.rules.plan(group, ids), slice(None))
            if form is not None and (W := form.filled(usage)) is not None:
                return W
        return self.rules.costs(usage, group, ids)

    def observed(self, usage: Any, action: int, group: Any = None) -> Array:
        """As `Rules.observed`; `group` by `plain_group`."""
        if type(usage) is dict:
            key = (group, tuple(usage), action)
            form = self._forms.get(key)
            if form is None:
                form = self._new_form(key, self.rules.plan(group, (action,), after=True), ~self._before)
            if form is not None and (w := form.filled(usage)) is not None:
                return w[0]
        return self.rules.observed(usage, action, group)

    def idle(self, group: Any) -> NDArray[np.int64]:
        """The columns seen after acting that do not count in a context of this group."""
        idle = self._idle.get(group)
        if idle is None:
            idle = np.flatnonzero(~(self.rules.in_force(group) | self._before)).astype(np.int64)
            _keep(self._idle, group, idle)
        return idle

    def _new_form(self, key: tuple[Any, ...], plan: Plan, columns: Any) -> _Form | None:
        """What to keep for a key; None where a usage that is needed is not among those named, or a name is not known."""
        names = key[1]
        if not all(name in plan.names for name in names):
            return None
        rows = [plan.names[name] for name in names]
        known = np.isin(plan.counted, rows)
        if (plan.needed & ~known).any():
            return None
        place = np.full(plan.base.shape[1], -1)
        base = np.ascontiguousarray(plan.base[:, columns])
        place[columns] = np.arange(base.shape[1])
        counted = np.array(
            [
                [place[k], rows.index(i), plan.offsets[c], plan.scales[c], *plan.weights[:, c]]
                for c, (k, i) in enumerate(zip(plan.columns, plan.counted))
                if known[c] and place[k] >= 0
            ]
        ).reshape(-1, 4 + len(base))
        ranges = np.ascontiguousarray(plan.ranges[rows])
        actions = [self.rules.actions[i] for i in plan.rows]
        form = _Form(base, ranges, counted, itemgetter(*actions), *_compiled())
        _keep(self._forms, key, form)
        return form


class _Form(NamedTuple):
    """One way in which usage is said: what `kernels.costs_of_usage` reads beside the values of the usages."""

    base: Array  # (J, K)
    ranges: Array
    counted: Array
    by_action: Callable[[Any], Any]  # from a table by action, the numbers of those on offer
    fill: Any  # compiled, for values in one line
    fill_by_row: Any  # compiled, for a row of values for each usage

    def filled(self, usage: dict[str, Any] | None) -> Array | None:
        """The costs; None where usage is not plain numbers within their ranges.

        Numbers, lists and tables become one array together, which is cheaper than one for each; arrays are copied row by row.
        """
        base, ranges, counted, by_action, fill, fill_by_row = self
        if not usage:
            return base.copy()
        J = len(base)
        line: list[Any] = []
        for given in usage.values():
            kind = type(given)
            # With a plain number in front no list makes an array of bools, which are no numbers.
            if kind is list and len(given) == J and type(given[0]) in _PLAIN:
                line += given
            elif kind is float:
                line += [given] * J
            elif kind is dict and len(given) == J > 1:
                try:
                    row = by_action(given)
                except KeyError:
                    return None
                if not _NUMBERS.issuperset(map(type, row)):
                    return None
                line += row
            else:
                values = _rows(usage, J)
                fill = fill_by_row
                break
        else:
            values = _line(line)
        if values is None:
            return None
        W = empty(base.shape)
        return W if fill(values, base, ranges, counted, W) else None


def _line(numbers: list[Any]) -> Array | None:
    """A list as an array; None where it holds what is no number."""
    try:
        values = asarray(numbers)
    except ValueError:
        return None
    if values.dtype is FLOAT:
        return values
    return values.astype(FLOAT) if values.dtype.kind in "iu" else None


def _rows(usage: dict[str, Any], J: int) -> Array | None:
    """J numbers for each usage; None where there are others, or what is no number."""
    rows = empty((len(usage), J))
    shape = (J,)
    for i, given in enumerate(usage.values()):
        if not (type(given) is ndarray and given.dtype is FLOAT and given.shape == shape):
            try:
                array = asarray(given)
            except ValueError:
                return None
            if array.dtype.kind not in "fiu" or array.shape not in ((), shape):
                return None
            given = array
        rows[i] = given
    return rows


_PLAIN = frozenset({float, int})
_NUMBERS = frozenset({float, int, np.float64})


@cache
def _compiled() -> tuple[Any, Any]:
    table = empty((0, 0))
    line, rows = (
        kernels.entry(kernels.costs_of_usage, values, table, table, table, table)
        for values in (empty(0), table)
    )
    return line, rows


def _keep(found: dict[Any, Any], key: Any, value: Any) -> None:
    if len(found) >= _MAX_KEPT:
        found.clear()
    found[key] = value
