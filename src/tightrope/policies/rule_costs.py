"""Rules in words on the way of every decision: what `Rules.costs` and `Rules.observed` say, compiled."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.rules import Rules
from tightrope.validation import FLOAT, Array

__all__ = ["RuleCosts", "Said"]

asarray, empty, ndarray = np.asarray, np.empty, np.ndarray  # looked up in every round

# Contexts may come with any group; this bounds the memory of what is kept for them.
_MAX_KEPT = 1024

Ids: TypeAlias = NDArray[np.int64]
# What was said, as `kernels.costs_of_usage` reads it: values, base, ranges, counted. The next that is said may overwrite the values.
Said: TypeAlias = tuple[Array, Array, Array, Array]
# From usages and, if not all, the actions on offer; None where they are not plain numbers.
Form: TypeAlias = Callable[[Any, Ids | None], Said | None]


class RuleCosts:
    """The costs of one set of rules, to the bit those of `Rules`, and where something is wrong its errors.

    A caller says the same usages round after round, so what does not depend on their values is worked out once for each group and
    list of usages, and the list that came last is tried first. What is not plain numbers goes by `Rules` itself.

    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.5, seen="after")], actions=["a", "b"])
    >>> RuleCosts(rules).costs()
    array([[ 0.5,  0. ],
           [-0.5,  0. ]])
    >>> RuleCosts(rules).observed({"hours": 0.75}, 1)
    array([0.25])
    """

    __slots__ = ("_alone", "_before", "_everyone", "_forms", "_idle", "_last", "rules")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._before = rules.seen.copy()
        self._everyone = np.arange(len(rules.actions))
        self._alone = list(self._everyone[:, None])
        self._forms: dict[tuple[Any, ...], Form] = {}
        # The form that came last, by group; of costs seen before acting, and after.
        self._last: tuple[dict[Any, Form], dict[Any, Form]] = ({}, {})
        self._idle: dict[Any, Ids] = {}

    def said(self, usage: Any, group: Any = None) -> Said | None:
        """What `kernels.costs_of_usage` reads for all actions; None where it is for `costs` to say what is wrong, if anything is.

        `group` by `plain_group`.
        """
        form = self._last[0].get(group)
        if form is not None and (said := form(usage, None)) is not None:
            return said
        return self._said_otherwise(form, usage, group, False, None)

    def said_after(self, usage: Any, group: Any = None) -> Said | None:
        """`said` of one action, for the columns that are seen after acting: what `kernels.costs_of_outcome` reads."""
        form = self._last[1].get(group)
        if form is not None and (said := form(usage, None)) is not None:
            return said
        return self._said_otherwise(form, usage, group, True, None)

    def costs(self, usage: Any = None, group: Any = None, ids: Ids | None = None) -> Array:
        """As `Rules.costs`; `group` by `plain_group`, `ids` those of the actions on offer, None for all."""
        said = (
            self.said(usage, group) if ids is None else self._said_otherwise(None, usage, group, False, ids)
        )
        W = self._filled(said, self._everyone if ids is None else ids)
        return self.rules.costs(usage, group, ids) if W is None else W

    def observed(self, usage: Any, action: int, group: Any = None) -> Array:
        """As `Rules.observed`; `group` by `plain_group`."""
        w = self._filled(self.said_after(usage, group), self._alone[action])
        return self.rules.observed(usage, action, group) if w is None else w[0]

    def idle(self, group: Any) -> Ids:
        """The columns seen after acting that do not count in a context of this group."""
        idle = self._idle.get(group)
        if idle is None:
            idle = np.flatnonzero(~(self.rules.in_force(group) | self._before)).astype(np.int64)
            _keep(self._idle, group, idle)
        return idle

    def _filled(self, said: Said | None, ids: Ids) -> Array | None:
        if said is None:
            return None
        W = empty((len(ids), said[1].shape[1]))
        return W if _compiled()(*said, ids, W) else None

    def _said_otherwise(
        self, tried: Form | None, usage: Any, group: Any, after: bool, ids: Ids | None
    ) -> Said | None:
        """By the form for these names, unless it was tried."""
        if not (type(usage) is dict or (usage is None and not after)):
            return None
        key = (group, () if usage is None else tuple(usage), after)
        form = self._forms.get(key) or self._new_form(key)
        if form is None or form is tried:
            return None
        _keep(self._last[after], group, form)
        return form(usage, ids)

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
        constants = (
            np.ascontiguousarray(plan.base[:, columns]),
            np.ascontiguousarray(plan.ranges[given]),
            np.array(counted).reshape(-1, 4 + len(plan.base)),
        )
        form = _form(names, self.rules.actions, 1 if after else len(plan.base), constants)
        _keep(self._forms, key, form)
        return form


def _form(
    names: tuple[str, ...], actions: Sequence[Any], rows: int, constants: tuple[Array, Array, Array]
) -> Form:
    """One way of saying usage, of as many rows as there are actions on offer. Closures, since they look nothing up."""
    n = len(names)
    if not n:
        nothing = (empty(0), *constants)
        return lambda usage, ids: nothing if usage is None or (type(usage) is dict and not usage) else None
    all_of = itemgetter(*names)
    [name, *_] = names
    readers = {rows: _reader(n, rows)}
    read_all, values = readers[rows]
    said = (values, *constants)
    every_row = itemgetter(*actions) if rows > 1 else None

    def form(usage: Any, ids: Ids | None) -> Said | None:
        if type(usage) is not dict or len(usage) != n:
            return None
        try:
            given = all_of(usage) if n > 1 else (usage[name],)
        except KeyError:
            return None
        if ids is None:
            return said if read_all(given, every_row) else None
        J = len(ids)
        if J not in readers:
            readers[J] = _reader(n, J)
        read, some = readers[J]
        offered = [actions[i] for i in ids.tolist()]
        return (some, *constants) if read(given, itemgetter(*offered) if J > 1 else None) else None

    return form


def _reader(n: int, J: int) -> tuple[Callable[[Sequence[Any], Any], bool], Array]:
    """What reads J numbers for each of n usages, and the array that it reads them into.

    Lists, tables, and single numbers that stand for all are written in one go, and so are arrays.
    """
    rows = empty((n, J))
    values = rows.reshape(-1)
    numbers = memoryview(values).cast("B") if J else memoryview(b"")
    write = struct.Struct(f"{n * J}d").pack_into
    shape, join = (J,), b"".join

    def read(given: Sequence[Any], every_row: Callable[[Any], tuple[Any, ...]] | None) -> bool:
        line: list[Any] = []
        for one in given:
            kind = type(one)
            if kind is list:
                row = one
            elif kind is float:
                line += [one] * J
                continue
            elif kind is dict and every_row is not None:
                try:
                    row = every_row(one)
                except KeyError:
                    return False
                if len(one) != J:
                    return False
            else:
                break
            # With a number in front no row is all bools, which are no numbers.
            if len(row) != J or type(row[0]) is not float:
                break
            line += row
        else:
            try:
                # A sum of floats and whole numbers; texts, NumPy's and all else would make it something else.
                if type(sum(line)) is float:
                    write(numbers, 0, *line)
                    return True
            except (TypeError, OverflowError, struct.error):
                return False
        for one in given:
            if type(one) is not ndarray or one.dtype is not FLOAT or one.shape != shape:
                return _read_slowly(given, every_row, rows)
        try:
            numbers[:] = join(given)
        except TypeError:  # not contiguous
            return _read_slowly(given, every_row, rows)
        return True

    return read, values


def _read_slowly(
    given: Sequence[Any], every_row: Callable[[Any], tuple[Any, ...]] | None, rows: Array
) -> bool:
    """Numbers of any kind, and arrays of any layout."""
    shape = rows.shape[1:]
    for i, one in enumerate(given):
        if type(one) is dict:
            if every_row is None or len(one) != len(rows[i]):
                return False
            try:
                one = every_row(one)
            except KeyError:
                return False
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
