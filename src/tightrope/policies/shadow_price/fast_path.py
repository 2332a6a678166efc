"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.kernels import shadow, standardised
from tightrope.offer import OfferReader, plain_group
from tightrope.policies.decision import Decision, Labels
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, Pending, PendingDecisions
from tightrope.policies.plain_values import READABLE, as_array, as_float, readable
from tightrope.policies.rule_costs import RuleCosts
from tightrope.policies.shadow_price.beliefs import Beliefs
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory
from tightrope.policies.shadow_price.prices import Prices
from tightrope.validation import FLOAT, LARGEST, Array

_LINE, _TABLE, _IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)
_SEED = np.uint64(0)
_NO_IDS = np.empty(0, dtype=np.int64)

empty, ndarray = np.empty, np.ndarray  # looked up in every round
_AWAITS = AWAITS_REWARD | AWAITS_COSTS


class FastPath:
    """For one policy, whose arrays it knows. None, or False, with nothing changed: for the careful way to say what is wrong.

    `offers`: by the number of actions, all on offer, their ids, how many numbers are behind a decision, room for it and for costs.
    `decide` and `by_usage` are the ways of this policy: all costs known before acting, or some seen after.
    """

    def __init__(
        self,
        beliefs: Beliefs,
        prices: Prices,
        memory: RoundMemory,
        pending: PendingDecisions,
        read: OfferReader,
        rule_costs: RuleCosts | None,
        labels: Labels,
    ) -> None:
        reward: Any = beliefs.reward
        cost: Any = beliefs.cost
        self.beliefs, self.prices, self.memory, self.pending = beliefs, prices, memory, pending
        self.read, self.rule_costs, self.labels = read, rule_costs, labels
        self.core, self.seed, self.columns, self.K = prices.core, prices.seed, prices.columns, prices.K
        self.flat, self.spread, self.p = reward.flat, reward.spread, reward.n_features
        self.disjoint = reward.n_actions is not None
        self.offers: dict[int, tuple[NDArray[np.int64], int, Array, Array]] = {}
        late = len(self.columns)
        width = max(reward.n_features, (0 if cost is None else cost.n_features) + late) + 1
        self.room = empty(2 * width + 3 * late + 8 + int(standardised.predictions_room(width, late)))
        self.learn_reward = learn_reward()
        self.decide: Callable[[Any, Any, Any, Any, Any], Decision | None]
        self.usage_ways: dict[Any, Any] = {}
        if cost is None:
            self.ways, self.decide = decide_known(self.disjoint), self._decide_known
            return
        self.cost_disjoint, self.q = cost.n_actions is not None, cost.n_features
        self.models = (self.flat, self.spread, cost.flat, cost.spread)
        self.ways, self.decide = decide_all(self.disjoint, self.cost_disjoint), self._decide_late
        self.learn_outcome: Any = learn_outcome()
        self.learn_usage: Any = None
        self.outputs, self.alone = np.arange(late), np.zeros(1, dtype=np.int64)
        self.w = empty((1, late))

    @staticmethod
    def fits(beliefs: Beliefs) -> bool:
        """Whether there is one for these models."""
        cost = beliefs.cost
        return beliefs.compiled and beliefs.reward.n_features > 0 and (cost is None or cost.n_features > 0)

    def open_for(self, J: int) -> None:
        """From now on offers of all J actions are decided."""
        if J in self.offers or self.read.n_actions not in (None, J):
            return
        room = empty(self.beliefs.room_needed(J, self.K))
        self.offers[J] = (np.arange(J), shadow.trace_size(J, self.K), room, empty((J, self.K)))
        if self.rule_costs is None or self.usage_ways:
            return
        # Rules always know their actions, so there is one J.
        p = self.p
        if self.beliefs.cost is None:
            _, line, table = decide_known(self.disjoint, by_usage=True)
            self.usage_ways = {(p,): line, (J, p): table}
            return
        q, entries = self.q, decide_all(self.disjoint, self.cost_disjoint, True)
        self.usage_ways = {
            (phi, psi): entries[3 * len(phi) + len(psi)] for phi in ((p,), (J, p)) for psi in ((q,), (J, q))
        }
        self.learn_usage = learn_outcome(by_usage=True)

    # Decide

    def _decide_known(self, phi: Any, W: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
        """Where all costs are seen before acting. The kernel checks shapes and values."""
        if (
            psi is not None
            or (type(phi) is not ndarray and type(phi := as_array(phi)) is not ndarray)
            or phi.dtype is not FLOAT
            or phi.flags.num & READABLE != READABLE
        ):
            return None
        rule_costs, force, pending = self.rule_costs, None, self.pending
        if rule_costs is None:
            if usage is not None or group is not None:
                return None
        else:
            if type(group) is not str:
                group = plain_group(group)
            if W is None:
                known = rule_costs.latest.get(group)
                decide = self.usage_ways.get(phi.shape)
                if known is not None and decide is not None and (said := known[0](usage)) is not None:
                    ids, size, room, W = self.offers[len(rule_costs.rules.actions)]
                    values, base, ranges, counted = said
                    trace, x = empty(size), empty(self.p)
                    row = decide(
                        values, base, ranges, counted, phi, ids, W, self.flat, self.spread, self.core, trace, x, self.seed, room
                    )  # fmt: skip
                    if row != -1:
                        if row < 0:
                            row = shadow.ENTERS - row
                            self._remember(ids, phi, None, W, known[1].rules)
                        version = pending.version
                        number = pending.add(AWAITS_REWARD, row, x, None, group)
                        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels)
                W = rule_costs.costs(usage, group)
            elif usage is not None:
                return None
            force = rule_costs.force(group).rules
        if (
            type(W) is not ndarray
            or W.dtype is not FLOAT
            or W.ndim != 2
            or W.flags.num & READABLE != READABLE
            or (phi.ndim != 1 and len(phi) != len(W))
            or (offer := self.offers.get(len(W))) is None
            or (decide := self.ways[phi.ndim if phi.ndim < 3 else 0]) is None
        ):
            return None
        ids, size, room, _ = offer
        trace, x = empty(size), empty(self.p)
        row = decide(phi, ids, W, self.flat, self.spread, self.core, trace, x, self.seed, room)
        if row < 0:
            if row == -1:
                return None
            row = shadow.ENTERS - row
            self._remember(ids, phi, None, W, force)
        version = pending.version
        number = pending.add(AWAITS_REWARD, row, x, None, group)
        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels)

    def _decide_late(self, phi: Any, costs: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
        """Where costs are seen after acting, all or those that rules say."""
        columns, K, rule_costs, pending = self.columns, self.K, self.rule_costs, self.pending
        if costs is not None and len(columns) == K:
            if psi is not None:
                return None
            costs, psi = None, costs
        if not (readable(phi) or readable(phi := as_array(phi))) or not 0 < phi.ndim < 3:
            return None
        if psi is None:
            if not self.read.same_features:
                return None
            psi = phi
        elif psi is not phi and (
            not (readable(psi) or readable(psi := as_array(psi))) or not 0 < psi.ndim < 3
        ):
            return None
        if rule_costs is not None:
            group = group if type(group) is str else plain_group(group)
            if costs is None:
                decision = self._decide_late_by_usage(phi, psi, usage, group)
                if decision is not None:
                    return decision
        J = len(phi) if phi.ndim == 2 else len(psi) if psi.ndim == 2 else self.read.n_actions
        offer, decide = self.offers.get(J), self.ways[3 * phi.ndim + psi.ndim]  # type: ignore[arg-type]
        if offer is None or decide is None or (psi.ndim == 2 and len(psi) != J):
            return None
        ids, size, room, W = offer
        idle, force = _NO_IDS, None
        if rule_costs is not None:
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
        trace, x, z = empty(size), empty(self.p), empty(self.q + len(columns))
        row = decide(phi, psi, ids, W, *self.models, columns, idle, self.core, trace, x, z, self.seed, room)
        if row < 0:
            if row == -1:
                return None
            row = shadow.ENTERS - row
            self._remember(ids, phi, psi, W, force)
        version = pending.version
        number = pending.add(_AWAITS, row, x, z, group)
        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels)

    def _decide_late_by_usage(self, phi: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
        """Where costs are seen after acting and rules make all else from usage."""
        rule_costs: Any = self.rule_costs
        known, decide = rule_costs.latest.get(group), self.usage_ways.get((phi.shape, psi.shape))
        if known is None or decide is None or (said := known[0](usage)) is None:
            return None
        force, pending = known[1], self.pending
        values, base, ranges, counted = said
        ids, size, room, W = self.offers[len(rule_costs.rules.actions)]
        trace, x, z = empty(size), empty(self.p), empty(self.q + len(self.columns))
        row = decide(
            values, base, ranges, counted, phi, psi, ids, W, *self.models, self.columns, force[2], self.core, trace, x, z,
            self.seed, room
        )  # fmt: skip
        if row < 0:
            if row == -1:
                return None
            row = shadow.ENTERS - row
            self._remember(ids, phi, psi, W, force[0])
        version = pending.version
        number = pending.add(_AWAITS, row, x, z, group)
        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels)

    def _remember(self, ids: NDArray[np.int64], phi: Array, psi: Array | None, W: Array, force: Any) -> None:
        """The round that a compiled decision was made in; its fingerprint is known."""
        memory, (slot, mark) = self.memory, self.core[shadow.SLOT : shadow.MARK + 1].tolist()
        phi = phi if phi.ndim == 2 else phi[None, :]
        psi = psi if psi is None or psi.ndim == 2 else psi[None, :]
        own = not memory.knows(mark)
        if own:
            phi, psi, W = phi.copy(), None if psi is None else psi.copy(), W.copy()
        memory.remember(int(slot), Remembered(ids, phi, psi, W, force), mark, own, decision=self.pending.made)

    # Learn

    def learn(self, decision: Any, reward: Any, costs: Any, usage: Any) -> bool:
        """A whole outcome; whether it was taken in."""
        pending = self.pending
        if (
            type(decision) is not Decision
            or (type(reward) is not float and type(reward := as_float(reward)) is not float)
            or decision.owner != pending.owner
            or not -LARGEST <= reward <= LARGEST
            or (waiting := pending.get(decision.number)) is None
        ):
            return False
        if costs is None and usage is None:
            if waiting[0] != AWAITS_REWARD:
                return False
            # As `close` does, which would take as long again.
            del pending[decision.number]
            pending.version += 1
            g = waiting[1] if self.disjoint else 0
            if self.learn_reward(g, waiting[2], reward, self.flat, self.spread, self.core, self.room):
                self.beliefs.refresh(waiting[1], 1)
            return True
        if not len(self.columns) or waiting[0] != _AWAITS:
            return False
        if not self._learn_late(waiting, reward, costs, usage):
            return False
        pending.close(decision.number)
        return True

    def _learn_late(self, waiting: Pending, reward: float, costs: Any, usage: Any) -> bool:
        """A reward and costs that are seen after acting."""
        _, action, x, z, group, _ = waiting
        rule_costs, last = self.rule_costs, len(self.pending) == 1
        if usage is not None:
            if costs is not None or rule_costs is None or self.learn_usage is None:
                return False
            known = rule_costs.latest_after.get(group)
            said = None if known is None else known[0](usage)
            if said is None:
                # Another list of usages, perhaps, which is the latest then.
                said = rule_costs.said(usage, group, after=True)
                known = rule_costs.latest_after.get(group)
            if said is None or known is None:
                return False
            values, base, ranges, counted = said
            due = self.learn_usage(
                values, base, ranges, counted, self.w, action, x, z, reward, known[1][1], self.columns, self.core, *self.models,
                self.outputs, self.alone, last, self.room
            )  # fmt: skip
        elif not readable(costs) or costs.shape != self.columns.shape:
            return False
        else:
            unseen = _NO_IDS if rule_costs is None else rule_costs.force(group).unseen
            due = self.learn_outcome(
                action, x, z, reward, costs, unseen, self.columns, self.core, *self.models, self.outputs, self.alone, last,
                self.room
            )  # fmt: skip
        if due > 0:
            self.beliefs.refresh(action, due)
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
    """`shadow.learn_reward`."""
    return kernels.entry(shadow.learn_reward, 0, _LINE, 0.0, _LINE, _LINE, _LINE, _LINE)


@cache
def learn_outcome(by_usage: bool = False) -> Any:
    """`shadow.learn_outcome`."""
    rest = (_IDS, _IDS, _LINE, _LINE, _LINE, _LINE, _LINE, _IDS, _IDS, False, _LINE)
    if by_usage:
        return kernels.entry(kernels.learn_outcome_by_usage, *_SAID, _TABLE, 0, _LINE, _LINE, 0.0, *rest)
    return kernels.entry(shadow.learn_outcome, 0, _LINE, _LINE, 0.0, _LINE, *rest)
