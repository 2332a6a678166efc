"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from collections.abc import Callable
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

empty, ndarray = np.empty, np.ndarray  # looked up in every round
_AWAITS = AWAITS_REWARD | AWAITS_COSTS


class ByUsage(NamedTuple):
    """Rounds in words, of all actions: how they are decided, compiled code by the shapes of features, what it is given each time.

    Where costs are seen after acting, the same for outcomes.
    """

    decide: Callable[[Any, Any, Any, Any, Any], Decision | None]
    ways: dict[Any, Any]
    of_decisions: tuple[Any, ...]
    learn: Any = None
    of_outcomes: tuple[Any, ...] = ()


class Late(NamedTuple):
    """Where costs are seen after acting: compiled code, and what every decision and outcome is given beside its own."""

    decide: tuple[Any, ...]
    learn: Any
    models: tuple[Array, ...]  # flat and spread, of the reward and of the costs
    outputs: NDArray[np.int64]
    alone: NDArray[np.int64]  # room for one id


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
    if cost is None:
        policy._fast_known = decide_known(policy._disjoint)
    elif cost.takes_features:
        policy._fast_late = Late(
            decide_all(policy._disjoint, cost.n_actions is not None),
            learn_outcome(),
            (policy._flat, policy._spread, cost.flat, cost.spread),
            np.arange(len(policy._columns)),
            np.zeros(1, dtype=np.int64),
        )
    if policy.rules is not None:
        policy._by_usage = open_by_usage(policy, J)
    policy._fast_learn = learn_reward()


def open_by_usage(policy: Any, J: int) -> ByUsage | None:
    """Of a policy with rules, which always know their actions."""
    ids, size, room, W = policy._offers[J]
    p, late = policy._row_length, policy._fast_late
    rest = (ids, size, room, W, policy._core, policy._seed, p, policy._pending)
    if policy._fast_known is not None:
        _, line, table = decide_known(policy._disjoint, by_usage=True)
        ways = {(p,): line, (J, p): table}
        return ByUsage(decide_known_by_usage, ways, (policy._flat, policy._spread, *rest))
    if late is None:
        return None
    q, entries = (
        policy._cost.n_features,
        decide_all(policy._disjoint, policy._cost.n_actions is not None, True),
    )
    ways = {(phi, psi): entries[3 * len(phi) + len(psi)] for phi in ((p,), (J, p)) for psi in ((q,), (J, q))}
    columns, w = policy._columns, np.empty((1, len(policy._columns)))
    of_outcomes = (w, columns, policy._core, *late.models, late.outputs, late.alone, policy._room)
    of_decisions = (*late.models, columns, *rest, q + len(columns))
    return ByUsage(decide_late_by_usage, ways, of_decisions, learn_outcome(by_usage=True), of_outcomes)


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
    memory.remember(int(slot), Remembered(ids, phi, psi, W, force), mark, own, decision=policy._pending.made)


# In words. None, or False, with nothing changed: not open, or for others to say what is wrong.


def decide_known_by_usage(policy: Any, phi: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
    """Where all costs are seen before acting, and rules make them from usage."""
    known = policy._rule_costs.latest.get(group)
    if (
        known is None
        or psi is not None
        or (type(phi) is not ndarray and type(phi := as_array(phi)) is not ndarray)
        or phi.dtype is not FLOAT
        or phi.flags.num & READABLE != READABLE
    ):
        return None
    _, ways, constants, _, _ = policy._by_usage
    said, decide = known[0](usage), ways.get(phi.shape)
    if said is None or decide is None:
        return None
    values, base, ranges, counted = said
    flat, spread, ids, size, room, W, core, seed, p, pending = constants
    trace, x = empty(size), empty(p)
    row = decide(values, base, ranges, counted, phi, ids, W, flat, spread, core, trace, x, seed, room)
    if row < 0:
        if row == -1:
            return None
        row = shadow.ENTERS - row
        remember(policy, ids, phi, None, W, known[1].rules)
    number = pending.made
    pending.made = number + 1
    pending[number] = (AWAITS_REWARD, row, x, None, group, None)
    return Decision(row, row, number, pending.owner, ids, trace, policy._labels, None)


def decide_late_by_usage(policy: Any, phi: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
    """Where costs are seen after acting and rules make all else from usage."""
    known = policy._rule_costs.latest.get(group)
    if (
        known is None
        or (type(phi) is not ndarray and type(phi := as_array(phi)) is not ndarray)
        or phi.dtype is not FLOAT
        or phi.flags.num & READABLE != READABLE
    ):
        return None
    if psi is None and policy._input.same_features:
        psi = phi
    elif psi is not phi and not (readable(psi) or readable(psi := as_array(psi))):
        return None
    form, force = known
    _, ways, constants, _, _ = policy._by_usage
    said, decide = form(usage), ways.get((phi.shape, psi.shape))
    if said is None or decide is None:
        return None
    values, base, ranges, counted = said
    flat, spread, cost_flat, cost_spread, columns, ids, size, room, W, core, seed, p, pending, q = constants
    trace, x, z = empty(size), empty(p), empty(q)
    row = decide(
        values, base, ranges, counted, phi, psi, ids, W, flat, spread, cost_flat, cost_spread, columns, force[2], core, trace, x, z,
        seed, room
    )  # fmt: skip
    if row < 0:
        if row == -1:
            return None
        row = shadow.ENTERS - row
        remember(policy, ids, phi, psi, W, force[0])
    number = pending.made
    pending.made = number + 1
    pending[number] = (_AWAITS, row, x, z, group, None)
    return Decision(row, row, number, pending.owner, ids, trace, policy._labels, None)


def learn_by_usage(policy: Any, pending: Pending, reward: float, usage: Any) -> bool:
    """A reward, and by usage the costs that are seen after acting."""
    _, action, x, z, group, _ = pending
    rule_costs = policy._rule_costs
    known = rule_costs.latest_after.get(group)
    said = None if known is None else known[0](usage)
    if said is None:
        # Another list of usages, perhaps, which is the latest then.
        said = rule_costs.said(usage, group, after=True)
        known = rule_costs.latest_after.get(group)
        if said is None or known is None:
            return False
    values, base, ranges, counted = said
    _, _, _, learn, constants = policy._by_usage
    w, columns, core, flat, spread, cost_flat, cost_spread, outputs, alone, room = constants
    due = learn(
        values, base, ranges, counted, w, action, x, z, reward, known[1][1], columns, core, flat, spread, cost_flat, cost_spread,
        outputs, alone, len(policy._pending) == 1, room
    )  # fmt: skip
    if due > 0:
        refresh(policy, action, due)
    return due >= 0  # type: ignore[no-any-return]


# In numbers


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
    decide_ways, _, models, _, _ = policy._fast_late
    offer, decide = policy._offers.get(J), decide_ways[3 * phi.ndim + psi.ndim]
    if offer is None or decide is None or (psi.ndim == 2 and len(psi) != J):
        return None
    ids, size, room, W = offer
    idle, force = _NO_IDS, None
    if rule_costs is not None:
        group = group if type(group) is str else plain_group(group)
        if costs is None:
            W = rule_costs.costs(usage, group)
        elif usage is None and readable(costs) and costs.shape == (J, K):
            W[...] = costs
        else:
            return None
        force, _, idle = rule_costs.force(group)
    elif len(columns) < K or usage is not None or group is not None:
        return None
    else:
        W[...] = 0.0
    core = policy._core
    trace, x, z = empty(size), empty(policy._row_length), empty(policy._cost.n_features + len(columns))
    row = decide(phi, psi, ids, W, *models, columns, idle, core, trace, x, z, policy._seed, room)
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
    late, columns, rule_costs = policy._fast_late, policy._columns, policy._rule_costs
    if late is None:
        return False
    if usage is not None:
        return (
            costs is None and policy._by_usage is not None and learn_by_usage(policy, pending, reward, usage)
        )
    if not readable(costs) or costs.shape != columns.shape:
        return False
    _, action, x, z, group, _ = pending
    unseen = _NO_IDS if rule_costs is None else rule_costs.force(group).unseen
    _, learn, models, outputs, alone = late
    last = len(policy._pending) == 1
    due = learn(
        action,
        x,
        z,
        reward,
        costs,
        unseen,
        columns,
        policy._core,
        *models,
        outputs,
        alone,
        last,
        policy._room,
    )
    if due > 0:
        refresh(policy, action, due)
    return due >= 0  # type: ignore[no-any-return]


def note_unit(policy: Any, reward: float) -> None:
    """Before a reward is learnt the careful way: the first that is not 0 says what the unit of all is."""
    model = policy._reward
    if reward != 0.0 and model.compiled == "standardised" and standardised.nothing_seen(model.spread, 0):
        shadow.correct_reward_unit(policy._core, abs(reward))


def learn_costs(policy: Any, pending: Pending, costs: Any) -> None:
    """Costs that are seen after acting, the careful way."""
    cost, z = policy._cost, pending[3]
    assert z is not None
    p = cost.n_features if cost.takes_features else 0
    spread = cost.spread if cost.compiled == "standardised" else _LINE
    shadow.take_costs(costs, z, p, policy._columns, policy._core, spread)
    psi = z[:p] if p else None
    if policy._rule_costs is not None:
        # Of a rule that is not in force nothing is seen: its model is told what it believes already.
        unseen = policy._rule_costs.force(pending[4]).unseen
        if len(unseen):
            ids, costs = np.array([pending[1]]), costs.copy()
            believed = np.reshape(cost.means(None if psi is None else psi[None, :], ids), -1)
            costs[unseen] = believed[unseen]
    cost.learn(psi, costs, pending[1])


def refresh(policy: Any, action: int, due: int) -> None:
    """Refresh the models as `shadow.learn_outcome` has said."""
    if due & 1:
        policy._reward.refresh(action if policy._disjoint else 0)
    if due & 2:
        policy._cost.refresh(action if policy._cost.n_actions is not None else 0)


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
    """`shadow.learn_reward`."""
    return kernels.entry(shadow.learn_reward, 0, _LINE, 0.0, _LINE, _LINE, _LINE, _LINE)


@cache
def learn_outcome(by_usage: bool = False) -> Any:
    """`shadow.learn_outcome`."""
    rest = (_IDS, _IDS, _LINE, _LINE, _LINE, _LINE, _LINE, _IDS, _IDS, False, _LINE)
    if by_usage:
        return kernels.entry(kernels.learn_outcome_by_usage, *_SAID, _TABLE, 0, _LINE, _LINE, 0.0, *rest)
    return kernels.entry(shadow.learn_outcome, 0, _LINE, _LINE, 0.0, _LINE, *rest)
