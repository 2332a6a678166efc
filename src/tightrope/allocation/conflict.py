"""Limits that no allocation keeps: a proof, and the smallest change that would help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tightrope.allocation.limits import Limit, Limits
from tightrope.allocation.prices import FINE, ROUGH, Scales, lower_dual
from tightrope.allocation.settle import LINEAR_ROWS, closest, incidence, options, used_outside
from tightrope.allocation.table import Table
from tightrope.errors import InfeasibleProblem
from tightrope.lp import solve_lp
from tightrope.rules import Rule
from tightrope.validation import Array

# A bound on what is missing counts as a proof where it is more than rounding can make of it.
_ROUNDING = 1e-9
_NAMED = 4  # conflicting limits that are named


@dataclass(frozen=True, eq=False)
class Shortfall:
    """The least sum of changes of limits, each in its own unit, that makes room for an allocation in fractions."""

    least: float  # proved: any changes that help sum to at least this; above 0 nothing keeps every limit
    prices: Array  # (L,) the proof: limits with a price above 0 are in each other's way
    changes: Array  # (L,) changes that help, in the units of the limits


def shortfall(table: Table, told: Callable[[], None]) -> Shortfall:
    """How much is missing, by the dual of the program of least changes: the scores don't matter."""
    limits = table.limits
    scores = np.where(
        np.isneginf(table.rows.scores), table.rows.scores, np.zeros((), table.rows.scores.dtype)
    )
    blank = Table(table.rows._replace(scores=scores), limits, table.pool)
    # A limit of one per row moves the amount by the number of rows.
    per_unit = np.array(
        [1.0 if limits[k].whole else max(1.0, float(limits.rows[k])) for k in range(len(limits))]
    )
    sizes = Scales(1.0 / float(per_unit.max(initial=1.0)), np.ones(len(limits)))
    prices = lower_dual(blank, limits.amounts, 0.5 / per_unit, sizes, ROUGH + FINE, 1.0 / per_unit, told)
    choice = blank.choose(prices)
    core = closest(choice, LINEAR_ROWS)
    rewards, costs, offsets = options(blank, core)
    rest = limits.amounts - used_outside(blank, choice, core)
    L = len(limits)
    found = solve_lp(
        np.concatenate([np.zeros(len(rewards)), np.ones(L)]),
        A_ub=np.hstack([costs / per_unit, np.zeros((0, L))])
        if L == 0
        else np.hstack([costs.T / per_unit[:, None], -np.eye(L)]),
        b_ub=rest / per_unit,
        A_eq=np.hstack([incidence(offsets).toarray(), np.zeros((len(core), L))]),
        b_eq=np.ones(len(core)),
        maximise=False,
    )
    changes = np.maximum(found.x[len(rewards) :], 0.0)
    better = np.minimum(np.maximum(-found.duals_ub, 0.0) / per_unit, 1.0 / per_unit)
    again = blank.choose(better)
    if again.bound < choice.bound:
        prices, choice = better, again
    rounding = _ROUNDING * float(np.abs(prices * limits.amounts).sum() + np.abs(prices * choice.used).sum())
    return Shortfall(max(0.0, -choice.bound - rounding), prices, changes)


def refusal(limits: Limits, missing: Shortfall) -> InfeasibleProblem:
    """The error that names the limits in conflict, and the smallest changes that help."""
    n = len(limits)
    order = sorted((k for k in range(n) if missing.prices[k] > 0.0), key=lambda k: -missing.prices[k])
    blocked = order[:_NAMED]
    named = " and ".join(f"'{worded(limits, k)}'" for k in blocked)
    more = f" and {len(order) - _NAMED} more" if len(order) > _NAMED else ""
    moved = [k for k in range(n) if missing.changes[k] > 1e-9 * (1.0 + abs(limits[k].limit))]
    words = [change_in_words(limits, k, float(missing.changes[k])) for k in moved[:_NAMED]]
    words += [f"and {len(moved) - _NAMED} more"] if len(moved) > _NAMED else []
    conflict = "conflict" if len(blocked) > 1 else "is out of reach"
    least = f"changing limits by {missing.changes.sum():.6g} in total would do: {', '.join(words)}"
    error = InfeasibleProblem(
        f"no allocation of this table keeps these rules: {named}{more} {conflict}; {least}"
    )
    relaxation: dict[Rule, float] = {}
    for k in moved:
        if (column := limits[k].column) is not None:
            relaxation[column.rule] = relaxation.get(column.rule, 0.0) + float(missing.changes[k])
    rules = dict.fromkeys(limits[k].column.rule for k in order if limits[k].column is not None)  # type: ignore[union-attr]
    vars(error).update(rules=tuple(rules), relaxation=relaxation)
    return error


def worded(limits: Limits, k: int) -> str:
    """A limit in words, and its key."""
    key = limits.key(k)
    return str(limits[k]) if key is None else f"{limits[k]} ({limits[k].by} {key})"


def change_in_words(limits: Limits, k: int, change: float) -> str:
    limit: Limit = limits[k]
    if limit.column is None:
        return f"let {change:,.6g} more rows change"
    moved = limit.column.rule.moved(limit.column.side, f"{change:.6g}")
    return moved if limits.key(k) is None else f"{moved} for {limit.by} {limits.key(k)}"
