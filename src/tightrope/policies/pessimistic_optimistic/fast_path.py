"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tightrope import kernels
from tightrope.policies.decision import Decision
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD
from tightrope.policies.plain_values import READABLE, as_array, as_float, readable
from tightrope.validation import FLOAT, Array

_LINE, _TABLE, _IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)
_AWAITS = AWAITS_REWARD | AWAITS_COSTS

empty, ndarray = np.empty, np.ndarray  # looked up in every round


class FastPath(NamedTuple):
    """`decide` by the number of dimensions of features, None where there is none, and `learn`."""

    decide: tuple[Any, ...]
    learn: Any


class ByUsage(NamedTuple):
    """Rounds in words, of all actions: compiled code by the shapes of features, and what it is given each time; outcomes too."""

    decide: dict[Any, Any]
    of_decisions: tuple[Any, ...]
    learn: Any = None
    of_outcomes: tuple[Any, ...] = ()


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


# Compiled code that makes the costs from usage first: what `RuleCosts.said` gives comes before all else.
_SAID = (_LINE, _TABLE, _TABLE, _TABLE)


@cache
def decide_before_by_usage(features: int) -> Any:
    """`costs_before` by usage, for features of one or two dimensions."""
    phi = (_LINE, _TABLE)[features - 1]
    return kernels.entry(kernels.decide_ridge_by_usage, *_SAID, phi, _IDS, _TABLE, _LINE, _LINE, _LINE, _LINE)


@cache
def decide_after_by_usage(features: int, cost_features: int) -> Any:
    """`costs_after` by usage."""
    phi, psi = (_LINE, _TABLE)[features - 1], (_LINE, _TABLE)[cost_features - 1]
    models = (_LINE, _LINE, _TABLE, _IDS)
    return kernels.entry(
        kernels.decide_with_some_learnt_costs_by_usage,
        *(*_SAID, phi, psi, _IDS, _TABLE, _IDS, *models, _LINE, _LINE, _LINE, _LINE),
    )


@cache
def learn_after_by_usage() -> Any:
    """Of a reward and costs seen after acting."""
    given = (0, _IDS, _TABLE, 0, 0, _LINE, _LINE, 0.0, _LINE, _LINE, _TABLE, _IDS, _LINE)
    return kernels.entry(kernels.learn_reward_and_costs_by_usage, *_SAID, *given)


def open_by_usage(policy: Any) -> ByUsage:
    """Of a policy with rules, which always know their actions, once it has made a decision."""
    J, p = policy.n_actions, policy._row_length
    ids, size = policy._offer_of(J)
    flat, core, cost, shared = policy._flat, policy._core, policy._cost, not policy._disjoint
    rest = (ids, size, np.empty((J, policy.n_constraints)), core, p, policy._pending)
    phis = [(J, p)] if shared else [(p,), (J, p)]
    if cost is None:
        return ByUsage({phi: decide_before_by_usage(len(phi)) for phi in phis}, (flat, *rest))
    q, columns = cost.n_features, policy._input.columns
    psis = [(J, q)] if cost.n_actions is None else [(q,), (J, q)]
    ways = {(phi, psi): decide_after_by_usage(len(phi), len(psi)) for phi in phis for psi in psis}
    models = (flat, cost.flat, policy._ranges, columns)
    alone, w = np.zeros(1, dtype=np.int64), np.empty((1, len(columns)))
    return ByUsage(ways, (*models, *rest, q), learn_after_by_usage(), (alone, w, *models, core))


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
    chosen, version = rows.tolist(), pending.version
    numbers = [pending.add(AWAITS_REWARD, row, x) for row, x in zip(chosen, features[np.arange(n), rows])]
    open_learning(policy)
    return [
        Decision(row, row, number, pending.owner, version + i, ids, trace, labels, None, True)
        for i, (number, row, trace) in enumerate(zip(numbers, chosen, traces))
    ]


def decide_by_usage(policy: Any, phi: Any, usage: Any, group: Any) -> Decision | None:
    """Where all costs are seen before acting and rules make them from usage; phi is an array, group is plain. None: not open."""
    known = policy._rule_costs.latest.get(group)
    if known is None or phi.dtype is not FLOAT or phi.flags.num & READABLE != READABLE:
        return None
    said = known[0](usage)
    decide = policy._by_usage[0].get(phi.shape)
    if said is None or decide is None:
        return None
    values, base, ranges, counted = said
    flat, ids, size, W, core, p, pending = policy._by_usage[1]
    trace, x = empty(size), empty(p)
    row = decide(values, base, ranges, counted, phi, ids, W, flat, core, trace, x)
    if row < 0:
        return None
    version = pending.version
    number = pending.add(AWAITS_REWARD, row, x, None, group)
    if policy._meter is not None:
        policy._measure(W, number)
    return Decision(row, row, number, pending.owner, version, ids, trace, policy._labels, None, True)


def decide_late_by_usage(policy: Any, phi: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
    """Where costs are seen after acting and rules make all else from usage; None, with nothing changed, where it is not open."""
    known = policy._rule_costs.latest.get(group)
    if (
        known is None
        or type(phi) is not ndarray
        or phi.dtype is not FLOAT
        or phi.flags.num & READABLE != READABLE
        or (psi is not phi and not readable(psi))
    ):
        return None
    form, force = known
    said = form(usage)
    decide = policy._by_usage[0].get((phi.shape, psi.shape))
    if said is None or decide is None:
        return None
    values, base, ranges, counted = said
    flat, cost_flat, cost_ranges, columns, ids, size, W, core, p, pending, q = policy._by_usage[1]
    trace, x, z = empty(size), empty(p), empty(q)
    row = decide(
        values, base, ranges, counted, phi, psi, ids, W, force[2], flat, cost_flat, cost_ranges, columns, core, trace, x, z
    )  # fmt: skip
    if row < 0:
        return None
    version = pending.version
    number = pending.add(_AWAITS, row, x, z, group)
    return Decision(row, row, number, pending.owner, version, ids, trace, policy._labels, None, True)


def decide_after(
    policy: Any, fast: FastPath, phi: Any, costs: Any, psi: Any, usage: Any, group: Any
) -> Decision | None:
    """Where costs are seen after acting, all or those that rules say; None, with nothing changed, where it is not open."""
    cost, columns, rule_costs = policy._cost, policy._input.columns, policy._rule_costs
    if costs is not None and len(columns) == policy.n_constraints:
        if psi is not None:
            return None
        costs, psi = None, costs
    if psi is None and policy._input.same_features:
        psi = phi
    if rule_costs is not None and costs is None:
        decision = decide_late_by_usage(policy, phi, psi, usage, group)
        if decision is not None:
            return decision
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
        if len(columns) < policy.n_constraints or usage is not None or group is not None:
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
    pending = policy._pending
    version = pending.version
    number = pending.add(_AWAITS, row, x, z, group)
    return Decision(row, row, number, pending.owner, version, ids, trace, policy._labels, None, True)


def learn_after(policy: Any, decision: Any, reward: Any, costs: Any, usage: Any = None) -> bool:
    """Where costs are seen after acting; whether the fast path was open."""
    waiting = policy._pending
    if type(decision) is not Decision or decision.owner != waiting.owner:
        return False
    pending, cost = waiting.get(decision.number), policy._cost
    if (
        pending is None
        or pending[0] != _AWAITS
        or (type(reward) is not float and type(reward := as_float(reward)) is not float)
        or not ((inside := 0.0 <= reward <= 1.0) or reward - reward == 0.0)
    ):
        return False
    _, action, x, z, group, _ = pending
    g = action if policy._disjoint else 0
    h = action if cost.n_actions is not None else 0
    if usage is not None:
        rule_costs = policy._rule_costs
        if costs is not None or rule_costs is None:
            return False
        known = rule_costs.latest_after.get(group)
        said = None if known is None else known[0](usage)
        if said is None:
            # Another list of usages, perhaps, which is the latest then.
            said = rule_costs.said(usage, group, after=True)
            if said is None:
                return False
        values, base, ranges, counted = said
        alone, w, flat, cost_flat, cost_ranges, columns, core = policy._by_usage[3]
        due = policy._by_usage[2](
            values, base, ranges, counted, action, alone, w, g, h, x, z, reward, flat, cost_flat, cost_ranges, columns, core
        )  # fmt: skip
    elif not readable(costs) or costs.ndim != 1:
        return False
    else:
        due = policy._fast_after.learn(
            g, h, x, z, reward, costs, policy._flat, cost.flat, policy._ranges, policy._input.columns, policy._core
        )  # fmt: skip
    if due < 0:
        return False
    waiting.close(decision.number)
    if due & 1:
        policy._reward.refresh(g)
    if due & 2:
        cost.refresh(h)
    if not inside:
        policy._outside.note(policy, reward)
    return True
