"""Compiled versions of `Rules.costs` and `Rules.observed`, for use in every decision."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.rules import Rules
from tightrope.validation import FLOAT, Array

__all__ = ["Force", "RuleCosts"]

asarray, empty, ndarray = np.asarray, np.empty, np.ndarray  # looked up in every round

# Contexts may have any group; this bounds the memory kept for them.
_MAX_KEPT = 1024

Ids: TypeAlias = NDArray[np.int64]
# Usage as `kernels.costs_of_usage` reads it: values, base, ranges, counted. The next call may overwrite the values.
Said: TypeAlias = tuple[Array, Array, Array, Array]
# From usages and, unless all are on offer, the ids of the actions; None if they are not plain numbers.
Form: TypeAlias = Callable[..., Said | None]


class Force(NamedTuple):
    """What counts in a group's contexts: the rules in force (K,), or None for all, and the costs seen after acting that do not.

    The latter are numbered among the costs seen after acting (`unseen`) and among all (`idle`).
    """

    rules: NDArray[np.bool_] | None
    unseen: Ids
    idle: Ids


class RuleCosts:
    """The costs of one set of rules, equal to those of `Rules` to the bit; it raises the same errors.

    A caller passes the same usages round after round, so anything that does not depend on their values is computed once per group
    and list of usages. `latest` has, by group, the form of the last usage, with what counts in that group; `latest_after` is the
    same for usage seen after acting. A hit there needs no further lookup. Anything but plain numbers goes to `Rules` itself.

    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.5, seen="after")], actions=["a", "b"])
    >>> RuleCosts(rules).costs()
    array([[ 0.5,  0. ],
           [-0.5,  0. ]])
    >>> RuleCosts(rules).observed({"hours": 0.75}, 1)
    array([0.25])
    """

    __slots__ = ("_alone", "_before", "_everyone", "_forces", "_forms", "latest", "latest_after", "rules")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.latest: dict[Any, tuple[Form, Force]] = {}
        self.latest_after: dict[Any, tuple[Form, Force]] = {}
        self._before = rules.seen.copy()
        self._everyone = np.arange(len(rules.actions))
        self._alone = list(self._everyone[:, None])
        self._forms: dict[tuple[Any, ...], Form] = {}
        self._forces: dict[Any, Force] = {}

    def said(
        self, usage: Any, group: Any = None, ids: Ids | None = None, *, after: bool = False
    ) -> Said | None:
        """What `kernels.costs_of_usage` reads; None to let `costs` report what is wrong, if anything is.

        `group` is from `plain_group`; `ids` are the actions on offer, None for all. `after`: of one action, for the columns that
        are seen after acting.
        """
        if not (type(usage) is dict or (usage is None and not after)):
            return None
        key = (group, () if usage is None else tuple(usage), after)
        form = self._forms.get(key) or self._new_form(key)
        if form is None:
            return None
        # A rule seen after acting may need a group that is not needed here.
        with suppress(InvalidInput):
            _keep(self.latest_after if after else self.latest, group, (form, self.force(group)))
        return form(usage) if ids is None else form(usage, ids)

    def costs(self, usage: Any = None, group: Any = None, ids: Ids | None = None) -> Array:
        """As `Rules.costs`; `group` is from `plain_group`, `ids` are the actions on offer, None for all."""
        W = _filled(self.said(usage, group, ids), self._everyone if ids is None else ids)
        return self.rules.costs(usage, group, ids) if W is None else W

    def observed(self, usage: Any, action: int, group: Any = None) -> Array:
        w = _filled(self.said(usage, group, after=True), self._alone[action])
        return self.rules.observed(usage, action, group) if w is None else w[0]

    def force(self, group: Any) -> Force:
        found = self._forces.get(group)
        if found is None:
            force = self.rules.in_force(group)
            after = np.flatnonzero(~self._before).astype(np.int64)
            unseen = np.flatnonzero(~force[after]).astype(np.int64)
            found = Force(None if force.all() else force, unseen, after[unseen])
            _keep(self._forces, group, found)
        return found

    def _new_form(self, key: tuple[Any, tuple[str, ...], bool]) -> Form | None:
        """What to keep for a group and names of usages, and whether for columns seen after acting; None if the names are wrong.

        They are wrong if a usage that is needed is missing, or a name is unknown.
        """
        group, names, after = key
        plan = self.rules.plan(group, self._everyone, after=after)
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
        constants = (
            np.ascontiguousarray(plan.base[:, columns]),
            np.ascontiguousarray(plan.ranges[given]),
            np.array(counted).reshape(-1, 4 + len(plan.base)),
        )
        form = _form(names, self.rules.actions, 1 if after else len(plan.base), constants)
        _keep(self._forms, key, form)
        return form


def _filled(said: Said | None, ids: Ids) -> Array | None:
    if said is None:
        return None
    W = empty((len(ids), said[1].shape[1]))
    return W if _compiled()(*said, ids, W) else None


def _form(
    names: tuple[str, ...], actions: Sequence[Any], J: int, constants: tuple[Array, Array, Array]
) -> Form:
    """One form of usage: J numbers for each of these names, one for each action on offer.

    These are closures because closures look nothing up. Lists, tables, and single numbers that stand for all are written in one go;
    so are arrays.
    """
    n = len(names)
    if not n:
        nothing = (empty(0), *constants)
        return lambda usage, ids=None: (
            nothing if usage is None or (type(usage) is dict and not usage) else None
        )
    pick, [first, *_], one_usage = itemgetter(*names), names, n == 1
    rows = empty((n, J))
    said = (rows.reshape(-1), *constants)
    numbers = memoryview(said[0]).cast("B")  # type: ignore[arg-type]
    write, join, shape = struct.Struct(f"{n * J}d").pack_into, b"".join, (J,)
    every_row = itemgetter(*actions) if J > 1 else None

    def form(usage: Any, ids: Ids | None = None) -> Said | None:
        if type(usage) is not dict or len(usage) != n:
            return None
        try:
            given = (usage[first],) if one_usage else pick(usage)
            if ids is not None:
                return some_rows(given, ids)
            line: list[Any] = []
            for one in given:
                kind = type(one)
                if kind is float:
                    line += [one] * J
                    continue
                if kind is dict and every_row is not None:
                    # If the number of actions differs, `Rules` reports it.
                    one = every_row(one) if len(one) == J else ()
                elif kind is not list:
                    break
                # With a number in front, no row is all bools, which do not count as numbers.
                if len(one) != J or type(one[0]) is not float:
                    break
                line += one
            else:
                # The sum of floats and whole numbers; texts, NumPy's numbers and anything else would change its type.
                if type(sum(line)) is float:
                    write(numbers, 0, *line)
                    return said
            for one in given:
                if type(one) is not ndarray or one.dtype is not FLOAT or one.shape != shape:
                    return said if _read(given, every_row, rows) else None
            try:
                numbers[:] = join(given)
            except TypeError:  # not contiguous
                numbers[:] = asarray(given).tobytes()
        except (KeyError, TypeError, OverflowError, struct.error):
            return None
        return said

    def some_rows(given: Sequence[Any], ids: Ids) -> Said | None:
        offered = [actions[i] for i in ids.tolist()]
        some = empty((n, len(ids)))
        read = _read(given, itemgetter(*offered) if len(ids) > 1 else None, some)
        return (some.reshape(-1), *constants) if read else None

    return form


def _read(given: Sequence[Any], every_row: Callable[[Any], tuple[Any, ...]] | None, rows: Array) -> bool:
    """Write numbers of any kind, and arrays of any layout, into the rows of usages; returns whether that worked."""
    shape = rows.shape[1:]
    for i, one in enumerate(given):
        if type(one) is dict:
            if every_row is None or len(one) != len(rows[i]):
                return False
            one = every_row(one)
        try:
            array = asarray(one)
        except ValueError:
            return False
        if array.dtype.kind not in "fiu" or array.shape not in ((), shape):
            return False
        rows[i] = array
    return True


@cache
def _compiled() -> Any:
    ids, table = empty(0, dtype=np.int64), empty((0, 0))
    return kernels.entry(kernels.costs_of_usage, empty(0), table, table, table, ids, table)


def _keep(found: dict[Any, Any], key: Any, value: Any) -> None:
    if len(found) >= _MAX_KEPT:
        found.clear()
    found[key] = value
