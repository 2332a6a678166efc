"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tightrope import kernels
from tightrope.policies.decision import Decision
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD
from tightrope.policies.plain_values import as_array, as_float, readable
from tightrope.validation import Array

_LINE, _TABLE, _IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)


class FastPath(NamedTuple):
    """`decide` by the number of dimensions of features, None where there is none, and `learn`."""

    decide: tuple[Any, ...]
    learn: Any


@cache
def learning_only() -> FastPath:
    """`costs_before` where other code decides, so that none need be compiled for it."""
    return FastPath((None, None, None), kernels.entry(kernels.learn_reward, 0, _LINE, 0.0, _LINE, _LINE))


@cache
def costs_before(disjoint: bool) -> FastPath:
    """For a ridge reward model and costs that are seen before acting."""

    def decide(features: Any) -> Any:
        return kernels.entry(kernels.decide_ridge, features, _IDS, _TABLE, _LINE, _LINE, _LINE, _LINE)

    return FastPath((None, decide(_LINE) if disjoint else None, decide(_TABLE)), learning_only().learn)


@cache
def costs_after(disjoint: bool, cost_disjoint: bool, by_rules: bool) -> FastPath:
    """For ridge models of the reward and of costs seen after acting, all of them unless rules say which.

    `decide` by 3 · dimensions of φ + dimensions of ψ.
    """
    kernel = kernels.decide_with_some_learnt_costs if by_rules else kernels.decide_with_learnt_costs
    shown = (_TABLE, _IDS) if by_rules else ()
    models = (_LINE, _LINE, _TABLE, _IDS)
    ways: list[Any] = [None] * 9
    for i, phi in enumerate((_LINE, _TABLE), start=1):
        for j, psi in enumerate((_LINE, _TABLE), start=1):
            if (i == 2 or disjoint) and (j == 2 or cost_disjoint):
                ways[3 * i + j] = kernels.entry(
                    kernel, phi, psi, _IDS, *shown, *models, _LINE, _LINE, _LINE, _LINE
                )
    learn = kernels.entry(
        kernels.learn_reward_and_costs, 0, 0, _LINE, _LINE, 0.0, _LINE, _LINE, _LINE, _TABLE, _IDS, _LINE
    )
    return FastPath(tuple(ways), learn)


def open_learning(policy: Any) -> None:
    """Open the fast path of `learn` alone: the decision was made by code of its own."""
    if policy._plain_before and policy._fast_before is None:
        policy._fast_before = learning_only()


def decide_many(policy: Any, features: Array, costs: Array) -> list[Decision] | None:
    """Successive decisions in one compiled call; None, with nothing changed, where an input is not valid."""
    n, J = features.shape[:2]
    ids, size = policy._offer_of(J)
    traces = np.empty((n, size))
    rows = np.empty(n, dtype=np.int64)
    if not kernels.decide_many_ridge(features, ids, costs, policy._flat, policy._core, traces, rows):
        return None
    pending, labels = policy.decisions, policy.labels
    chosen = rows.tolist()
    numbers = [pending.add(AWAITS_REWARD, row, x) for row, x in zip(chosen, features[np.arange(n), rows])]
    open_learning(policy)
    return [
        Decision(row, row, number, pending.owner, ids, trace, labels)
        for number, row, trace in zip(numbers, chosen, traces)
    ]


def decide_after(
    policy: Any, fast: FastPath, phi: Any, costs: Any, psi: Any, usage: Any, group: Any
) -> Decision | None:
    """Where costs are seen after acting, all or those that rules say; None, with nothing changed, where it is not open."""
    cost, columns, rule_costs = policy._cost, policy._input.columns, policy._rule_costs
    if costs is not None and len(columns) == policy.n_constraints:
        if psi is not None:
            return None
        costs, psi = None, costs
    if not (
        (readable(phi) or readable(phi := as_array(phi)))
        and (readable(psi) or readable(psi := as_array(psi)))
        and 0 < phi.ndim < 3
        and 0 < psi.ndim < 3
    ):
        return None
    J = len(phi) if phi.ndim == 2 else len(psi) if psi.ndim == 2 else policy.n_actions
    offer, decide = policy._offers.get(J), fast.decide[3 * phi.ndim + psi.ndim]
    if offer is None or decide is None or (psi.ndim == 2 and len(psi) != J):
        return None
    ids, size = offer
    trace, x, z = np.empty(size), np.empty(policy._row_length), np.empty(cost.n_features)
    flat, ranges, core = policy._flat, policy._ranges, policy._core
    if rule_costs is None:
        if costs is not None or usage is not None or group is not None:
            return None
        row = decide(phi, psi, ids, flat, cost.flat, ranges, columns, core, trace, x, z)
    else:
        if costs is None:
            costs = rule_costs.costs(usage, group)
        elif usage is not None or not readable(costs) or costs.ndim != 2:
            return None
        idle = rule_costs.force(group).idle
        row = decide(phi, psi, ids, costs, idle, flat, cost.flat, ranges, columns, core, trace, x, z)
    if row < 0:
        return None
    number = policy._pending.add(AWAITS_REWARD | AWAITS_COSTS, row, x, z, group)
    return Decision(row, row, number, policy._pending.owner, ids, trace, policy._labels)


def learn_after(
    policy: Any, fast: FastPath, decision: Any, reward: Any, costs: Any, usage: Any = None
) -> bool:
    """Where costs are seen after acting; whether the fast path was open."""
    waiting = policy._pending
    if type(decision) is not Decision or decision.owner != waiting.owner:
        return False
    pending, cost = waiting.get(decision.number), policy._cost
    if (
        pending is None
        or pending[0] != AWAITS_REWARD | AWAITS_COSTS
        or (type(reward) is not float and type(reward := as_float(reward)) is not float)
        or reward - reward != 0.0
    ):
        return False
    if usage is not None and costs is None and policy._rule_costs is not None:
        costs = policy._rule_costs.observed(usage, pending[1], pending[4])
    elif usage is not None or not readable(costs) or costs.ndim != 1:
        return False
    g = pending[1] if policy._disjoint else 0
    h = pending[1] if cost.n_actions is not None else 0
    due = fast.learn(
        g,
        h,
        pending[2],
        pending[3],
        reward,
        costs,
        policy._flat,
        cost.flat,
        policy._ranges,
        policy._input.columns,
        policy._core,
    )
    if due < 0:
        return False
    del waiting[decision.number]
    if due & 1:
        policy._reward.refresh(g)
    if due & 2:
        cost.refresh(h)
    return True
