"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tightrope import kernels
from tightrope.kernels import shadow, standardised
from tightrope.policies.decision import Decision
from tightrope.policies.offer import plain_group
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, Pending
from tightrope.policies.plain_values import as_array, readable
from tightrope.policies.shadow_price.memory import Remembered

_LINE, _TABLE, _IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)
_SEED = np.uint64(0)
_NO_IDS = np.empty(0, dtype=np.int64)

empty = np.empty  # looked up in every round
_AWAITS = AWAITS_REWARD | AWAITS_COSTS


def open_for(policy: Any, J: int) -> None:
    """Open the fast path for offers of all J actions, as far as there is one."""
    if policy.n_actions not in (None, J) or not policy._compiled or not policy._reward.takes_features:
        return
    cost = policy._cost
    if J not in policy._offers:
        room = np.empty(room_needed(policy, J))
        policy._offers[J] = (np.arange(J), shadow.trace_size(J, policy.n_constraints), room)
    if policy._fast_learn is not None:
        return
    if cost is None:
        policy._fast_known = decide_known(policy._disjoint)
    elif cost.takes_features:
        late = len(policy._columns)
        # What every decision and every outcome is given beside its own.
        policy._late = (policy._core, cost.flat, cost.spread, np.arange(late), np.zeros(1, dtype=np.int64))
        policy._fast_late = decide_all(policy._disjoint, cost.n_actions is not None)
    policy._fast_learn = learn_reward()


def room_needed(policy: Any, J: int) -> int:
    """How much room compiled code needs for J actions on offer."""
    width = max(policy.kept_lengths()) + 1
    return 2 * J + int(shadow.room_size(J, policy.n_constraints, width))


def remember(policy: Any, entry: Remembered, own_costs: bool) -> None:
    """The round that a compiled decision was made in; its fingerprint is known. `own_costs`: nobody else has its costs."""
    core = policy._core
    policy._memory.remember(int(core[shadow.SLOT]), entry, float(core[shadow.MARK]), own_costs)


def decide_late(policy: Any, phi: Any, costs: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
    """Where costs are seen after acting, all or those that rules say; None, with nothing changed, where it is not open."""
    columns, K, rule_costs = policy._columns, policy.n_constraints, policy._rule_costs
    if costs is not None and len(columns) == K:
        if psi is not None:
            return None
        costs, psi = None, costs
    if not (readable(phi) or readable(phi := as_array(phi))) or not 0 < phi.ndim < 3:
        return None
    if psi is None:
        if not policy._input.same_features:
            return None
        psi = phi
    elif not (readable(psi) or readable(psi := as_array(psi))) or not 0 < psi.ndim < 3:
        return None
    J = len(phi) if phi.ndim == 2 else len(psi) if psi.ndim == 2 else policy.n_actions
    offer, decide = policy._offers.get(J), policy._fast_late[3 * phi.ndim + psi.ndim]
    if offer is None or decide is None or (psi.ndim == 2 and len(psi) != J):
        return None
    idle, force = _NO_IDS, None
    if rule_costs is not None:
        group = group if type(group) is str else plain_group(group)
        if costs is None:
            W = rule_costs.costs(usage, group)
        elif usage is None and readable(costs) and costs.shape == (J, K):
            W = costs.copy()
        else:
            return None
        force, _, idle = policy._input.force_of(group)
    elif costs is not None or usage is not None or group is not None:
        return None
    else:
        W = np.zeros((J, K))
    ids, size, room = offer
    core, flat, spread, _, _ = policy._late
    p = policy._cost.n_features
    trace, x, z = empty(size), empty(policy._row_length), empty(p + len(columns))
    row = decide(
        phi, psi, ids, W, policy._flat, policy._spread, flat, spread, columns, idle, core, trace, x, z, policy._seed, room
    )  # fmt: skip
    if row < 0:
        return None
    if core[shadow.SLOT] >= 0.0:
        rows, cost_rows = phi.reshape(-1, policy._row_length), psi.reshape(-1, p)
        remember(policy, Remembered(ids, rows, cost_rows, W, force), own_costs=True)
    pending = policy._pending
    number = pending.made
    pending.made = number + 1
    pending[number] = (_AWAITS, row, x, z, group, None)
    return Decision(row, row, number, pending.owner, ids, trace, policy._labels, None)


def learn_late(policy: Any, pending: Pending, costs: Any, usage: Any) -> bool:
    """Costs that are seen after acting; whether the fast path was open."""
    rule_costs, columns = policy._rule_costs, policy._columns
    if policy._fast_late is None:
        return False
    unseen = _NO_IDS
    if rule_costs is not None:
        if usage is not None and costs is None:
            costs = rule_costs.observed(usage, pending[1], pending[4])
        elif usage is not None:
            return False
        unseen = policy._input.force_of(pending[4]).unseen
    elif usage is not None:
        return False
    if not readable(costs) or costs.shape != columns.shape:
        return False
    action, last = pending[1], len(policy._pending) == 1
    done = learn_costs()(action, pending[3], costs, unseen, columns, *policy._late, last, policy._room)
    if done > 0:
        policy._cost.refresh(action if policy._cost.n_actions is not None else 0)
    return bool(done >= 0)


# Compiled code, looked up once


@cache
def decide_known(disjoint: bool) -> tuple[Any, ...]:
    """`kernels.shadow.decide_known` by the number of dimensions of features, None where there is none."""

    def entry(features: Any) -> Any:
        return kernels.entry(
            shadow.decide_known, features, _IDS, _TABLE, _LINE, _LINE, _LINE, _LINE, _LINE, _SEED, _LINE
        )

    return (None, entry(_LINE) if disjoint else None, entry(_TABLE))


@cache
def decide_all(disjoint: bool, cost_disjoint: bool) -> tuple[Any, ...]:
    """`kernels.shadow.decide` by 3 · dimensions of φ + dimensions of ψ, None where there is none."""
    ways: list[Any] = [None] * 9
    for i, phi in enumerate((_LINE, _TABLE), start=1):
        for j, psi in enumerate((_LINE, _TABLE), start=1):
            if (i == 2 or disjoint) and (j == 2 or cost_disjoint):
                flats = (_LINE, _LINE, _LINE, _LINE)
                ways[3 * i + j] = kernels.entry(
                    shadow.decide, phi, psi, _IDS, _TABLE, *flats, _IDS, _IDS, *flats, _SEED, _LINE
                )
    return tuple(ways)


@cache
def learn_reward() -> Any:
    """`standardised.learn_reward`."""
    return kernels.entry(standardised.learn_reward, 0, _LINE, 0.0, _LINE, _LINE, _LINE)


@cache
def learn_costs() -> Any:
    """`shadow.learn_late`."""
    return kernels.entry(
        shadow.learn_late, 0, _LINE, _LINE, _IDS, _IDS, _LINE, _LINE, _LINE, _IDS, _IDS, False, _LINE
    )
