"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tightrope import kernels
from tightrope.kernels import shadow
from tightrope.policies.decision import Decision
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, Pending
from tightrope.policies.pessimistic_optimistic.fast_path import readable
from tightrope.policies.shadow_price.memory import Remembered
from tightrope.validation import Array

_LINE, _TABLE, _IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)
_SEED = np.uint64(0)


def open_for(policy: Any, J: int) -> Array:
    """Open the fast path for J actions, as far as there is one; room for as many."""
    K, cost = policy.n_constraints, policy._cost
    if J not in policy._offers:
        width = max(policy.kept_lengths()) + 1
        room = np.empty(2 * J + shadow.room_size(J, K, width))
        policy._offers[J] = (np.arange(J), shadow.trace_size(J, K), room)
    room = policy._offers[J][2]
    if policy._fast_learn is not None or not policy._compiled or not policy._reward.takes_features:
        return room
    if cost is None:
        policy._fast_known = decide_known(policy._disjoint)
    elif cost.takes_features and len(policy._columns) == K and policy.rules is None:
        policy._fast_late = decide_all(policy._disjoint, cost.n_actions is not None)
    policy._fast_learn = learn_reward()
    return room


def remember(policy: Any, ids: Any, features: Array, W: Array, group: Any) -> None:
    """The round that a compiled decision was made in; its fingerprint is known."""
    core = policy._core
    rows = features.copy() if features.ndim == 2 else features[None, :].copy()
    force = None if policy.rules is None else policy._force(group)
    entry = Remembered(ids, rows, None, W.copy(), force)
    policy._memory.remember(int(core[shadow.SLOT]), entry, float(core[shadow.MARK]))


def decide_late(policy: Any, features: Any, cost_features: Any) -> Decision | None:
    """A decision where all costs are seen after acting; None where the fast path is not open."""
    phi, psi = features, features if cost_features is None else cost_features
    if not (readable(phi) and readable(psi) and 0 < phi.ndim < 3 and 0 < psi.ndim < 3):
        return None
    J = len(phi) if phi.ndim == 2 else len(psi) if psi.ndim == 2 else policy.n_actions
    offer, decide = policy._offers.get(J), policy._fast_late[3 * phi.ndim + psi.ndim]
    if offer is None or decide is None or (psi.ndim == 2 and len(psi) != J):
        return None
    ids, size, room = offer
    cost, core, K = policy._cost, policy._core, policy.n_constraints
    p = cost.n_features
    trace, x, z, W = np.empty(size), np.empty(policy._row_length), np.empty(p + K), np.zeros((J, K))
    flats = (policy._flat, policy._spread, cost.flat, cost.spread)
    row = decide(phi, psi, ids, W, *flats, policy._columns, core, trace, x, z, policy._seed, room)
    if row < 0:
        return None
    if core[shadow.SLOT] >= 0.0:
        rows, cost_rows = phi.reshape(-1, policy._row_length).copy(), psi.reshape(-1, p).copy()
        policy._remember(Remembered(ids, rows, cost_rows, W))
    pending = policy._pending
    number = pending.add(AWAITS_REWARD | AWAITS_COSTS, row, x, z)
    return Decision(row, row, number, pending.owner, ids, trace, policy._labels, None)


def learn_late(policy: Any, pending: Pending, costs: Any) -> bool:
    """Costs that are seen after acting; whether the fast path was open."""
    K = policy.n_constraints
    if (
        policy._fast_late is None
        or not readable(costs)
        or costs.shape != (K,)
        or not np.isfinite(costs).all()
    ):
        return False
    cost, z = policy._cost, pending[3]
    shadow.take_costs(costs, z, cost.n_features, policy._columns, policy._core)
    g = pending[1] if cost.n_actions is not None else 0
    if learn_costs()(g, z, costs, cost.flat, cost.spread, policy._room):
        cost.refresh(g)
    if len(policy._pending) == 1:
        shadow.vector(policy._core, shadow.BOOKED)[:] = 0.0
    return True


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
                    shadow.decide, phi, psi, _IDS, _TABLE, *flats, _IDS, *flats, _SEED, _LINE
                )
    return tuple(ways)


@cache
def learn_reward() -> Any:
    """`kernels.shadow.learn_reward`."""
    return kernels.entry(shadow.learn_reward, 0, _LINE, 0.0, _LINE, _LINE, _LINE)


@cache
def learn_costs() -> Any:
    """`kernels.shadow.learn_costs`."""
    return kernels.entry(shadow.learn_costs, 0, _LINE, _LINE, _LINE, _LINE, _LINE)
