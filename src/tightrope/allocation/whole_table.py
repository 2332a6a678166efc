"""An action for each row of a table, under the same rules as one decision after another."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.actions import Action
from tightrope.allocation.columns import ByAction, Layout, Source, layout_of
from tightrope.allocation.conflict import refusal, shortfall, worded
from tightrope.allocation.exact import worst
from tightrope.allocation.limits import Limit, Limits, limits_of
from tightrope.allocation.plan import CurvePoint, Plan
from tightrope.allocation.prices import FINE, ROUGH, lower_dual, scales_of
from tightrope.allocation.problem import rows_and_limits
from tightrope.allocation.reader import Read, read_rows
from tightrope.allocation.settle import Settled, settle
from tightrope.allocation.table import Table, cores
from tightrope.concerns import warn
from tightrope.errors import InfeasibleProblem, InvalidInput, TightropeError
from tightrope.frames import Frame
from tightrope.kernels.allocation import Rows
from tightrope.progress import progress_bar
from tightrope.rules import Rules
from tightrope.validation import Array, finite_number, whole_number
from tightrope.words import Place, Text

# Rows on which prices are found first; a table up to this size is its own sample.
SAMPLE = 60_000
# The curve of a limit is drawn on fewer rows, smoothed so much.
CURVE_ROWS, CURVE_SMOOTHING = 10_000, (0.03, 0.01)
# Passes over the rows, more or less: how long the progress bar is
_PASSES = 20
_NAMED = 5  # limits, or reasons, that an error lists


class NoneFound(InfeasibleProblem):
    """No allocation was found that keeps every rule; there may be one. `missed` says by how much the nearest misses which
    limits.
    """

    missed: dict[str, float]


def allocate(
    table: Any,
    rules: Rules,
    *,
    reward: ByAction | Sequence[Source],
    usage: Mapping[str, Source | ByAction] | None = None,
    eligible: Mapping[Action, str] | None = None,
    group: str | Sequence[str] | None = None,
    keys: Mapping[str, str] | None = None,
    fixed: str | None = None,
    previous: str | None = None,
    max_changes: int | None = None,
    id: str | None = None,
    max_set_apart: float = 0.01,
    start: Plan | Mapping[str, Any] | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Plan:
    """An action for each row, so that the sum of the scores is as high as the rules allow for the table as a whole.

    Every rule holds exactly: counts are whole numbers, and sums of usage are compared in exact arithmetic. The same input gives the
    same plan, whatever the number of workers.

    Parameters
    ----------
    table : DataFrame, Arrow table, mapping of columns, or list of rows
        One row for each decision.
    rules : Rules
        As for a policy. Shares and averages are those of the table's rows; with ``per="table"`` a limit is an amount.
    reward : mapping from actions
        The column with the score of each action, or a number. A list has one entry for each action.
    usage : mapping
        For each usage that a rule counts: a column, a number, or a mapping from actions to columns and numbers.
    eligible : mapping from actions, optional
        A column that says where the action may be taken. Actions that are left out always may.
    group : column, or several, optional
        The groups that a row belongs to, for rules `among` some of them.
    keys : mapping, optional
        The column of each key that a rule is `by`; by default the one of the same name.
    fixed : column, optional
        The action of rows that are decided already; empty for others. They count towards the rules.
    previous : column, optional
        The action that each row had before; empty for new rows.
    max_changes : int, optional
        At most so many rows may get another action than their previous one.
    id : column, optional
        What names a row. A row whose id has come before is set apart.
    max_set_apart : float
        Stop where more than this share of the rows can't be used: a score is missing, no action is eligible and so on.
    start : Plan, or mapping from names of limits, optional
        Prices to begin with, such as yesterday's plan. They save time, and change the plan at most within its gap.
    workers : int, optional
        Cores to use; all by default.
    progress : bool, optional
        Whether to show a progress bar; by default in a terminal and in a notebook.

    Returns
    -------
    Plan

    Raises
    ------
    InvalidInput
        For a column that is missing or holds something else, and for too many rows that can't be used.
    InfeasibleProblem
        When it is proved that nothing keeps all rules; `error.rules` are those in conflict, `error.relaxation` the smallest changes
        that help. Or, as the subclass `NoneFound`, when none was found: the message says which limits were missed, and by how much.

    Examples
    --------
    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Budget("cost", at_most=1.0), tr.Share("none", at_least=0.25)], ["none", "small", "large"])
    >>> table = {"small": [2.0, 1.0, 3.0, 0.5], "large": [5.0, 1.5, 4.0, 0.5], "price": [3.0, 2.0, 2.0, 3.0]}
    >>> scores = {"none": 0.0, "small": "small", "large": "large"}
    >>> plan = tr.allocate(table, rules, reward=scores, usage={"cost": {"none": 0, "small": 1.0, "large": "price"}})
    >>> plan.actions.tolist(), plan.value
    (['large', 'none', 'small', 'none'], 8.0)
    >>> print(plan)
    4 rows earn 8, at most ... below the best
    limit       at    used  left  price
    cost        1     1     0     ...
    share none  0.25  0.5   0.25  0
    """
    task = Task.of(
        rules,
        reward=reward,
        usage=usage,
        eligible=eligible,
        group=group,
        keys=keys,
        fixed=fixed,
        previous=previous,
        max_changes=max_changes,
        id=id,
        max_set_apart=max_set_apart,
    )
    frame = table if isinstance(table, Frame) else Frame(table)
    read = read_rows(frame, task.layout, rules.registry)
    return task.plan(read, start=start, workers=workers, progress=progress)


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be allocated: the limits, where their numbers are found, and how much may be missing."""

    rules: Rules
    limits: tuple[Limit, ...]
    layout: Layout
    max_set_apart: float

    @classmethod
    def of(cls, rules: Rules, *, max_changes: Any = None, max_set_apart: Any = 0.01, **columns: Any) -> Task:
        """From the arguments of `allocate`."""
        changes = None if max_changes is None else whole_number("max_changes", max_changes)
        limits = tuple(limits_of(rules, changes))
        most = finite_number("max_set_apart", max_set_apart, low=0.0, high=1.0)
        return cls(rules, limits, layout_of(rules, limits, **columns), most)

    def plan(
        self,
        read: Read,
        *,
        start: Plan | Mapping[str, Any] | None = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> Plan:
        """The plan for rows that have been read."""
        self._require_usable(read)
        self._look_at_groups(read)
        n_workers = (os.cpu_count() or 1) if workers is None else whole_number("workers", workers, low=1)
        rows, limits = rows_and_limits(read, self.layout, self.limits, self.rules)
        with cores(n_workers) as pool, progress_bar("allocate", _PASSES, "passes", progress) as advance:
            found = _solved(Table(rows, limits, pool), start, advance)
        return _plan(self.rules, read, limits, rows, found)

    def _look_at_groups(self, read: Read) -> None:
        """Refuse groups that were not declared, and warn of those that look misspelt."""
        for group in read.groups:
            if (slip := self.rules.group_slip(sorted(group))) is not None:
                if self.rules.groups is not None:
                    raise InvalidInput(slip, field="group")
                warn(f"{slip}. No rule among groups holds for it.")

    def _require_usable(self, read: Read) -> None:
        """An error where too many rows can't be used."""
        if not read.n:
            raise InvalidInput(field="table", must="have at least one row")
        apart = len(read.reasons)
        if apart > self.max_set_apart * read.n or apart == read.n:
            told = Counter(read.reasons.values()).most_common(_NAMED)
            listed = ", ".join(f"{why} ({times:,} rows)" for why, times in told)
            most = Text("more than {field} allows", field=Place("max_set_apart"))
            said = "{apart} of {n} rows can't be used, {most} ({limit}): {listed}; the first is row {first}."
            numbers = {"apart": f"{apart:,}", "n": f"{read.n:,}", "limit": f"{self.max_set_apart:g}"}
            first = str(next(iter(read.reasons)))
            raise InvalidInput(Text(said, **numbers, most=most, listed=listed, first=first))


def _solved(table: Table, start: Plan | Mapping[str, Any] | None, advance: Any) -> Settled:
    """Prices on a sample, then on all rows, then an action for each row."""
    scales = scales_of(table)
    prices = starting_prices(table.limits, start)
    if len(table.limits):
        if len(table) > SAMPLE:
            sample = sample_of(table)
            amounts = table.limits.amounts * (len(sample) / len(table))
            stages = ROUGH if start is None else ROUGH[-2:]
            prices = lower_dual(sample, amounts, prices, scales, stages, scales.caps, lambda: None)
            prices = lower_dual(table, table.limits.amounts, prices, scales, FINE, scales.caps, advance)
        else:
            prices = lower_dual(
                table, table.limits.amounts, prices, scales, ROUGH + FINE[1:], scales.caps, advance
            )
    found = settle(table, prices, scales, advance)
    if found.kept:
        return found
    missing = shortfall(table, advance)
    if missing.least > 0.0:
        raise refusal(table.limits, missing)
    raise _none_found(table.limits, found)


def _none_found(limits: Limits, found: Settled) -> TightropeError:
    broken = worst(limits, found.over)
    units = [found.over[k] / (1 if limits[k].whole else max(1, int(limits.rows[k]))) for k in broken]
    listed = [f"'{worded(limits, k)}' by {by:.6g}" for k, by in zip(broken[:_NAMED], units, strict=False)]
    listed += [f"{len(broken) - _NAMED} more"] if len(broken) > _NAMED else []
    missed = {limits.name(k): float(by) for k, by in zip(broken, units, strict=True)}
    if found.impossible:
        proved = InfeasibleProblem(
            "no allocation of whole rows keeps these rules, though fractions of rows would; "
            f"the prices alone miss {', '.join(listed)}"
        )
        vars(proved).update(missed=missed)
        return proved
    error = NoneFound(
        "no allocation was found that keeps every rule, and it is not known whether there is one; "
        f"the nearest misses {', '.join(listed)}"
    )
    error.missed = missed
    return error


def sample_of(table: Table) -> Table:
    """Rows spread evenly over the table, which may be in any order: a counter-based generator draws one of each stretch."""
    return Table(table.take(sampled(len(table), SAMPLE)), table.limits, table.pool)


def sampled(n: int, size: int) -> NDArray[np.int64]:
    """The numbers of `size` of n rows, one of each stretch."""
    edges = np.linspace(0, n, size + 1).astype(np.int64)
    drawn = np.random.Generator(np.random.Philox(0)).random(size)
    return np.asarray(edges[:-1] + (drawn * np.diff(edges)).astype(np.int64))


def starting_prices(limits: Limits, start: Plan | Mapping[str, Any] | None) -> Array:
    """(L,) prices by name and key, 0 where there is none."""
    given: Mapping[str, Any] = start.prices if isinstance(start, Plan) else (start or {})
    found = np.zeros(len(limits))
    for k, limit in enumerate(limits.dense):
        found[k] = finite_number(f"start[{limit.name!r}]", given.get(limit.name, 0.0), low=0.0)
    for b, limit in enumerate(limits.keyed):
        by_key = given.get(limit.name, {})
        found[limits.starts[b] : limits.starts[b + 1]] = [
            float(by_key.get(key, by_key.get(str(key), 0.0))) for key in limits.keys[b]
        ]
    return found


def _plan(rules: Rules, read: Read, limits: Limits, rows: Rows, found: Settled) -> Plan:
    names = np.array([*rules.actions, None], dtype=object)
    chosen = np.full(read.n, -1, dtype=np.int64)
    chosen[read.kept] = found.actions
    counts = np.bincount(found.actions, minlength=len(rules.actions)).tolist()

    def by_name(values: Array) -> dict[str, Any]:
        named: dict[str, Any] = {one.name: float(values[k]) for k, one in enumerate(limits.dense)}
        for b, one in enumerate(limits.keyed):
            part = values[limits.starts[b] : limits.starts[b + 1]].tolist()
            named[one.name] = dict(zip(limits.keys[b], part, strict=True))
        return named

    used = limits.amounts + found.over
    in_units = np.array([limits[k].in_units(float(used[k]), int(limits.rows[k])) for k in range(len(limits))])
    share = min(1.0, CURVE_ROWS / max(1, len(rows.scores)))
    numbers = np.arange(len(rows.scores)) if share == 1.0 else sampled(len(rows.scores), CURVE_ROWS)
    sample = Rows(*(np.ascontiguousarray(one[numbers]) for one in rows))
    return Plan(
        actions=names[chosen],
        value=found.value,
        bound=found.bound,
        prices=by_name(found.prices),
        used=by_name(in_units),
        set_apart=read.reasons,
        limits=limits,
        duals=found.prices,
        left=-found.over,
        counts=dict(zip(rules.actions, counts, strict=True)),
        _curve=Curves(sample, share, limits, found).points,
    )


class Curves:
    """What the table would earn at other limits, estimated from a sample and drawn through the plan's own bound."""

    def __init__(self, sample: Rows, share: float, limits: Limits, found: Settled) -> None:
        self._sample, self._share, self._limits, self._found = sample, share, limits, found
        self._now: float | None = None

    def points(self, k: int, factors: tuple[float, ...]) -> list[CurvePoint]:
        """With limit number k multiplied by each factor."""
        limits, found = self._limits, self._found
        points = []
        for factor in factors:
            value, price = found.bound, float(found.prices[k])
            if factor != 1.0:
                if self._now is None:
                    self._now, _ = self._best(limits.amounts)
                amounts = limits.amounts.copy()
                amounts[k] *= factor
                there, prices = self._best(amounts)
                value, price = value + there - self._now, float(prices[k])
            points.append(CurvePoint(factor * limits[k].limit, value, price))
        return points

    def _best(self, amounts: Array) -> tuple[float, Array]:
        """The bound for these amounts, and its prices."""
        with cores(1) as pool:
            table = Table(self._sample, self._limits, pool)
            scales, told = scales_of(table), self._share * amounts
            start, caps = self._found.prices, scales.caps
            prices = lower_dual(table, told, start, scales, CURVE_SMOOTHING, caps, lambda: None)
            at_present = table.choose(prices).bound
        return (at_present + float(prices @ (told - self._limits.amounts))) / self._share, prices
