"""Rules in words on the way of every decision: what `Rules.costs` and `Rules.observed` say, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.rules import Rules
from tightrope.validation import FLOAT, Array

__all__ = ["RuleCosts"]

asarray, empty, ndarray = np.asarray, np.empty, np.ndarray  # looked up in every round

# Contexts may come with any group; this bounds the memory of what is kept for them.
_MAX_KEPT = 1024

Ids: TypeAlias = NDArray[np.int64]
# From usages and the actions on offer to their costs.
Form: TypeAlias = Callable[[dict[str, Any] | None, Ids | None], Array | None]


class RuleCosts:
    """The costs of one set of rules, to the bit those of `Rules`, and where something is wrong its errors.

    A caller says the same usages round after round, so what does not depend on their values is worked out once for each group and
    list of usages. What is not plain numbers goes by `Rules` itself.

    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.5, seen="after")], actions=["a", "b"])
    >>> RuleCosts(rules).costs()
    array([[ 0.5,  0. ],
           [-0.5,  0. ]])
    >>> RuleCosts(rules).observed({"hours": 0.75}, 1)
    array([0.25])
    """

    __slots__ = ("_alone", "_before", "_forms", "_idle", "rules")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._before = rules.seen.copy()
        self._alone = list(np.arange(len(rules.actions))[:, None])
        self._forms: dict[tuple[Any, ...], Form] = {}
        self._idle: dict[Any, Ids] = {}

    def costs(self, usage: Any = None, group: Any = None, ids: Ids | None = None) -> Array:
        """As `Rules.costs`; `group` by `plain_group`, `ids` those of the actions on offer, None for all."""
        if usage is None or type(usage) is dict:
            key = (group, () if usage is None else tuple(usage), False)
            form = self._forms.get(key) or self._new_form(key)
            if form is not None and (W := form(usage, ids)) is not None:
                return W
        return self.rules.costs(usage, group, ids)

    def observed(self, usage: Any, action: int, group: Any = None) -> Array:
        """As `Rules.observed`; `group` by `plain_group`."""
        if type(usage) is dict:
            key = (group, tuple(usage), True)
            form = self._forms.get(key) or self._new_form(key)
            if form is not None and (w := form(usage, self._alone[action])) is not None:
                return w[0]  # type: ignore[no-any-return]
        return self.rules.observed(usage, action, group)

    def idle(self, group: Any) -> Ids:
        """The columns seen after acting that do not count in a context of this group."""
        idle = self._idle.get(group)
        if idle is None:
            idle = np.flatnonzero(~(self.rules.in_force(group) | self._before)).astype(np.int64)
            _keep(self._idle, group, idle)
        return idle

    def _new_form(self, key: tuple[Any, tuple[str, ...], bool]) -> Form | None:
        """What to keep for a group, names of usages, and whether costs are of columns seen after acting; None where they do not do.

        Then a usage that is needed is not among those named, or a name is not known.
        """
        group, names, after = key
        plan = self.rules.plan(group, after=after)
        if not all(name in plan.names for name in names):
            return None
        given = [plan.names[name] for name in names]
        known = np.isin(plan.counted, given)
        if (plan.needed & ~known).any():
            return None
        columns = np.flatnonzero(~self._before) if after else np.arange(len(self._before))
        place = {k: i for i, k in enumerate(columns.tolist())}
        counted = [
            [place[k], given.index(i), offset, scale, *weights]
            for k, i, offset, scale, weights, there in zip(
                plan.columns.tolist(), plan.counted, plan.offsets, plan.scales, plan.weights.T, known
            )
            if there and k in place
        ]
        form = _form(
            np.ascontiguousarray(plan.base[:, columns]),
            np.ascontiguousarray(plan.ranges[given]),
            np.array(counted).reshape(-1, 4 + len(plan.base)),
            self.rules.actions,
        )
        _keep(self._forms, key, form)
        return form


def _form(base: Array, ranges: Array, counted: Array, actions: Sequence[Any]) -> Form:
    """One way of saying usage: what comes of it, or None where it is not plain numbers within their ranges.

    A closure, since it looks nothing up. `base`, `ranges` and `counted` are what `kernels.costs_of_usage` reads. Numbers, lists and
    tables become one array together, which is cheaper than one for each; arrays are copied row by row.
    """
    fill, fill_by_row = _compiled()
    everyone, K = np.arange(len(base)), base.shape[1]
    of_everyone = itemgetter(*actions)

    def filled(usage: dict[str, Any] | None, ids: Ids | None) -> Array | None:
        if not usage:
            return base.copy() if ids is None else base[ids]
        if ids is None:
            ids = everyone
        J = len(ids)
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
                    row = of_everyone(given) if ids is everyone else [given[actions[i]] for i in ids.tolist()]
                except KeyError:
                    return None
                if not _NUMBERS.issuperset(map(type, row)):
                    return None
                line += row
            else:
                rows, W = _rows(usage, J), empty((J, K))
                return W if rows is not None and fill_by_row(rows, ids, base, ranges, counted, W) else None
        try:
            values = asarray(line)
        except ValueError:
            return None
        if values.dtype is not FLOAT:
            if values.dtype.kind not in "iu":
                return None
            values = values.astype(FLOAT)
        W = empty((J, K))
        return W if fill(values, ids, base, ranges, counted, W) else None

    return filled


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
    ids, table = empty(0, dtype=np.int64), empty((0, 0))
    line, rows = (
        kernels.entry(kernels.costs_of_usage, values, ids, table, table, table, table)
        for values in (empty(0), table)
    )
    return line, rows


def _keep(found: dict[Any, Any], key: Any, value: Any) -> None:
    if len(found) >= _MAX_KEPT:
        found.clear()
    found[key] = value
