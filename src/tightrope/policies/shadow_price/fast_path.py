"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.kernels import shadow, standardised
from tightrope.policies.decision import Decision
from tightrope.policies.offer import plain_group
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, Pending
from tightrope.policies.plain_values import READABLE, as_array, readable
from tightrope.policies.shadow_price.memory import Remembered
from tightrope.validation import FLOAT, Array

_LINE, _TABLE, _IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)
_SEED = np.uint64(0)
_NO_IDS = np.empty(0, dtype=np.int64)

empty = np.empty  # looked up in every round
_AWAITS = AWAITS_REWARD | AWAITS_COSTS


class Late(NamedTuple):
    """What every decision and outcome is given beside its own where costs are seen after acting; without rules no code by usage."""

    decide: tuple[Any, ...]
    decide_by_usage: tuple[Any, ...] | None
    learn: Any
    learn_by_usage: Any
    columns: NDArray[np.int64]
    core: Array
    flat: Array
    spread: Array
    cost_flat: Array
    cost_spread: Array
    outputs: NDArray[np.int64]
    row_lengths: tuple[int, int]
    alone: NDArray[np.int64]  # room for one id
    costs: Array  # room for what usage makes of an outcome, (1, K_after)


def open_for(policy: Any, J: int) -> None:
    """Open the fast path for offers of all J actions, as far as there is one."""
    if policy.n_actions not in (None, J) or not policy._compiled or not policy._reward.takes_features:
        return
    cost, K = policy._cost, policy.n_constraints
    if J not in policy._offers:
        room = np.empty(room_needed(policy, J))
        policy._offers[J] = (np.arange(J), shadow.trace_size(J, K), room, np.empty((J, K)))
    if policy._fast_learn is not None:
        return
    by_rules = policy.rules is not None
    if cost is None:
        policy._fast_known = decide_known(policy._disjoint)
        if by_rules:
            policy._fast_by_usage = decide_known(policy._disjoint, by_usage=True)
    elif cost.takes_features:
        late, kinds = len(policy._columns), (policy._disjoint, cost.n_actions is not None)
        policy._fast_late = Late(
            decide_all(*kinds),
            decide_all(*kinds, by_usage=True) if by_rules else None,
            learn_outcome(),
            learn_outcome(by_usage=True) if by_rules else None,
            policy._columns,
            policy._core,
            policy._flat,
            policy._spread,
            cost.flat,
            cost.spread,
            np.arange(late),
            (policy._row_length, cost.n_features),
            np.zeros(1, dtype=np.int64),
            np.empty((1, late)),
        )
    policy._fast_learn = learn_reward()


def room_needed(policy: Any, J: int) -> int:
    """How much room compiled code needs for J actions on offer."""
    width = max(policy.kept_lengths()) + 1
    return 2 * J + int(shadow.room_size(J, policy.n_constraints, width))


def remember(
    policy: Any, ids: NDArray[np.int64], phi: Array, psi: Array | None, W: Array, force: Any
) -> None:
    """The round that a compiled decision was made in; its fingerprint is known."""
    memory, (slot, mark) = policy._memory, policy._core[shadow.SLOT : shadow.MARK + 1].tolist()
    phi = phi if phi.ndim == 2 else phi[None, :]
    psi = psi if psi is None or psi.ndim == 2 else psi[None, :]
    own = not memory.knows(mark)
    if own:
        phi, psi, W = phi.copy(), None if psi is None else psi.copy(), W.copy()
    memory.remember(int(slot), Remembered(ids, phi, psi, W, force), mark, own)


def decide_by_usage(policy: Any, phi: Any, usage: Any, group: Any) -> Decision | None:
    """Where all costs are seen before acting and rules make them from usage; None, with nothing changed, where it is not open."""
    said = policy._rule_costs.said(usage, group)
    if said is None or phi.dtype is not FLOAT or phi.flags.num & READABLE != READABLE:
        return None
    J, ndim = policy.n_actions, phi.ndim
    offer = policy._offers.get(J)
    if offer is None or not (ndim == 1 or (ndim == 2 and len(phi) == J)):
        return None
    decide = policy._fast_by_usage[ndim]
    if decide is None:
        return None
    ids, size, room, W = offer
    trace, x = empty(size), empty(policy._row_length)
    row = decide(
        *said, phi, ids, W, policy._flat, policy._spread, policy._core, trace, x, policy._seed, room
    )
    if row < 0:
        if row == -1:
            return None
        row = shadow.ENTERS - row
        remember(policy, ids, phi, None, W, policy._input.in_force(group))
    pending = policy._pending
    number = pending.made
    pending.made = number + 1
    pending[number] = (AWAITS_REWARD, row, x, None, group, None)
    return Decision(row, row, number, pending.owner, ids, trace, policy._labels, None)


def decide_late(policy: Any, phi: Any, costs: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
    """Where costs are seen after acting, all or those that rules say; None, with nothing changed, where it is not open."""
    late, K, rule_costs = policy._fast_late, policy.n_constraints, policy._rule_costs
    if costs is not None and len(late.columns) == K:
        if psi is not None:
            return None
        costs, psi = None, costs
    if not (readable(phi) or readable(phi := as_array(phi))) or not 0 < phi.ndim < 3:
        return None
    if psi is None:
        if not policy._input.same_features:
            return None
        psi = phi
    elif psi is not phi and (
        not (readable(psi) or readable(psi := as_array(psi))) or not 0 < psi.ndim < 3
    ):
        return None
    J = len(phi) if phi.ndim == 2 else len(psi) if psi.ndim == 2 else policy.n_actions
    offer, way = policy._offers.get(J), 3 * phi.ndim + psi.ndim
    if offer is None or late.decide[way] is None or (psi.ndim == 2 and len(psi) != J):
        return None
    ids, size, room, W = offer
    idle, force, said = _NO_IDS, None, None
    if rule_costs is not None:
        group = group if type(group) is str else plain_group(group)
        if costs is None:
            said = rule_costs.said(usage, group)
            if said is None:
                W = rule_costs.costs(usage, group)
        elif usage is None and readable(costs) and costs.shape == (J, K):
            W[...] = costs
        else:
            return None
        force, _, idle = policy._input.force_of(group)
    elif costs is not None or usage is not None or group is not None:
        return None
    else:
        W[...] = 0.0
    p, q = late.row_lengths
    trace, x, z = empty(size), empty(p), empty(q + len(late.columns))
    _, _, _, _, columns, core, flat, spread, cost_flat, cost_spread, *_ = late
    given = (phi, psi, ids, W, flat, spread, cost_flat, cost_spread, columns, idle, core, trace, x, z, policy._seed, room)
    row = late.decide[way](*given) if said is None else late.decide_by_usage[way](*said, *given)
    if row < 0:
        if row == -1:
            return None
        row = shadow.ENTERS - row
        remember(policy, ids, phi, psi, W, force)
    pending = policy._pending
    number = pending.made
    pending.made = number + 1
    pending[number] = (_AWAITS, row, x, z, group, None)
    return Decision(row, row, number, pending.owner, ids, trace, policy._labels, None)


def learn_late(policy: Any, pending: Pending, reward: float, costs: Any, usage: Any) -> bool:
    """A reward and costs that are seen after acting; whether the fast path was open."""
    late, rule_costs = policy._fast_late, policy._rule_costs
    if late is None:
        return False
    _, action, x, z, group, _ = pending
    unseen = _NO_IDS if rule_costs is None else policy._input.force_of(group).unseen
    _, _, learn, learn_by_usage, columns, core, flat, spread, cost_flat, cost_spread, outputs, _, alone, w = late
    given = (
        unseen, columns, core, flat, spread, cost_flat, cost_spread, outputs, alone, len(policy._pending) == 1, policy._room
    )  # fmt: skip
    if usage is None:
        if not readable(costs) or costs.shape != columns.shape:
            return False
        due = learn(action, x, z, reward, costs, *given)
    else:
        if costs is not None or rule_costs is None:
            return False
        said = rule_costs.said_after(usage, group)
        if said is None:
            return False
        due = learn_by_usage(*said, w, action, x, z, reward, *given)
    if due > 0:
        if due & 1:
            policy._reward.refresh(action if policy._disjoint else 0)
        if due & 2:
            policy._cost.refresh(action if policy._cost.n_actions is not None else 0)
    return bool(due >= 0)


# Compiled code, looked up once. `by_usage`: what `RuleCosts.said` gives comes first.

_SAID = (_LINE, _TABLE, _TABLE, _TABLE)


@cache
def decide_known(disjoint: bool, by_usage: bool = False) -> tuple[Any, ...]:
    """`kernels.shadow.decide_known` by the number of dimensions of features, None where there is none."""

    def entry(features: Any) -> Any:
        given = (features, _IDS, _TABLE, _LINE, _LINE, _LINE, _LINE, _LINE, _SEED, _LINE)
        if by_usage:
            return kernels.entry(kernels.decide_known_by_usage, *_SAID, *given)
        return kernels.entry(shadow.decide_known, *given)

    return (None, entry(_LINE) if disjoint else None, entry(_TABLE))


@cache
def decide_all(disjoint: bool, cost_disjoint: bool, by_usage: bool = False) -> tuple[Any, ...]:
    """`kernels.shadow.decide` by 3 · dimensions of φ + dimensions of ψ, None where there is none."""
    ways: list[Any] = [None] * 9
    flats = (_LINE, _LINE, _LINE, _LINE)
    for i, phi in enumerate((_LINE, _TABLE), start=1):
        for j, psi in enumerate((_LINE, _TABLE), start=1):
            if (i == 2 or disjoint) and (j == 2 or cost_disjoint):
                given = (phi, psi, _IDS, _TABLE, *flats, _IDS, _IDS, *flats, _SEED, _LINE)
                ways[3 * i + j] = (
                    kernels.entry(kernels.decide_by_usage, *_SAID, *given)
                    if by_usage
                    else kernels.entry(shadow.decide, *given)
                )
    return tuple(ways)


@cache
def learn_reward() -> Any:
    """`standardised.learn_reward`."""
    return kernels.entry(standardised.learn_reward, 0, _LINE, 0.0, _LINE, _LINE, _LINE)


@cache
def learn_outcome(by_usage: bool = False) -> Any:
    """`shadow.learn_outcome`."""
    rest = (_IDS, _IDS, _LINE, _LINE, _LINE, _LINE, _LINE, _IDS, _IDS, False, _LINE)
    if by_usage:
        return kernels.entry(
            kernels.learn_outcome_by_usage, *_SAID, _TABLE, 0, _LINE, _LINE, 0.0, *rest
        )
    return kernels.entry(shadow.learn_outcome, 0, _LINE, _LINE, 0.0, _LINE, *rest)
