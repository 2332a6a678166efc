"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.models import hooks
from tightrope.offer import OfferReader, plain_group
from tightrope.policies.decision import Decision, Labels
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, Pending, PendingDecisions
from tightrope.policies.plain_values import READABLE, as_array, as_float, readable
from tightrope.policies.rule_costs import RuleCosts
from tightrope.validation import FLOAT, Array

_LINE, _TABLE, _IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)
_AWAITS = AWAITS_REWARD | AWAITS_COSTS

empty, ndarray = np.empty, np.ndarray  # looked up in every round


class FastPath:
    """For one policy with ridge models, whose arrays it knows. None, or False, with nothing changed: for the careful way.

    `offers`: by the number of actions, all on offer, their ids and how many numbers are behind a decision. `measure`, where δ is
    measured, takes note of the costs of a round.
    """

    def __init__(
        self,
        reward: Any,
        cost: Any,
        core: Array,
        ranges: Array,
        pending: PendingDecisions,
        read: OfferReader,
        rule_costs: RuleCosts | None,
        labels: Labels,
        measure: Callable[[Array, int], None] | None,
    ) -> None:
        self.reward, self.cost, self.core, self.ranges, self.pending = reward, cost, core, ranges, pending
        self.read, self.rule_costs, self.labels, self.measure = read, rule_costs, labels, measure
        self.flat, self.p, self.disjoint = reward.flat, reward.n_features, reward.n_actions is not None
        self.K, self.columns = read.K, read.columns
        self.offers: dict[int, tuple[NDArray[np.int64], int]] = {}
        self.ways: tuple[Any, ...] = ()
        self.usage_ways: dict[Any, Any] = {}
        self.W = _TABLE
        self.decide = self._decide_before if cost is None else self._decide_after
        if cost is None:
            self.learn_one = learn_reward()
            return
        self.cost_flat, self.q, self.cost_disjoint = cost.flat, cost.n_features, cost.n_actions is not None
        self.models = (self.flat, cost.flat, ranges, self.columns)
        self.learn_one = learn_after()
        self.learn_usage: Any = None
        self.alone, self.w = np.zeros(1, dtype=np.int64), empty((1, len(self.columns)))

    @staticmethod
    def fits(reward: Any, cost: Any) -> bool:
        """Whether there is one for these models."""
        return hooks.compiled(reward) == "ridge" and (cost is None or hooks.compiled(cost) == "ridge")

    def offer_of(self, J: int) -> tuple[NDArray[np.int64], int]:
        """The ids of J actions, and how many numbers are behind a decision among them."""
        offer = self.offers.get(J)
        if offer is None:
            offer = self.offers[J] = (np.arange(J), kernels.trace_size(J, self.K))
        return offer

    def open_for(self, J: int) -> None:
        """From now on offers of all J actions are decided."""
        if self.read.n_actions not in (None, J):
            return
        self.offer_of(J)
        if self.ways:
            return
        rules, p, shared = self.rule_costs, self.p, not self.disjoint
        cost = self.cost
        if cost is None:
            self.ways = decide_before(self.disjoint)
        else:
            self.ways = decide_after(self.disjoint, self.cost_disjoint, rules is not None)
        if rules is None:
            return
        # Rules always know their actions.
        J = len(rules.rules.actions)
        self.offer_of(J)
        self.W = empty((J, self.K))
        phis = [(J, p)] if shared else [(p,), (J, p)]
        if cost is None:
            self.usage_ways = {phi: decide_before_by_usage(len(phi)) for phi in phis}
            return
        q = self.q
        psis = [(J, q)] if not self.cost_disjoint else [(q,), (J, q)]
        self.usage_ways = {
            (phi, psi): decide_after_by_usage(len(phi), len(psi)) for phi in phis for psi in psis
        }
        self.learn_usage = learn_after_by_usage()

    # Decide

    def _decide_before(self, phi: Any, W: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
        """Where all costs are seen before acting. The kernel checks shapes and values."""
        if (
            psi is not None
            or (type(phi) is not ndarray and type(phi := as_array(phi)) is not ndarray)
            or phi.dtype is not FLOAT
            or phi.flags.num & READABLE != READABLE
        ):
            return None
        rule_costs, pending = self.rule_costs, self.pending
        if rule_costs is None:
            if usage is not None or group is not None:
                return None
            if W is None:
                if self.K:
                    return None
                W = empty((len(phi) if phi.ndim == 2 else self.read.n_actions or 0, 0))
        else:
            if type(group) is not str:
                group = plain_group(group)
            if W is None:
                known, decide = rule_costs.latest.get(group), self.usage_ways.get(phi.shape)
                if known is not None and decide is not None and (said := known[0](usage)) is not None:
                    values, base, ranges, counted = said
                    W = self.W
                    ids, size = self.offers[len(W)]
                    trace, x = empty(size), empty(self.p)
                    row = decide(values, base, ranges, counted, phi, ids, W, self.flat, self.core, trace, x)
                    if row >= 0:
                        version = pending.version
                        number = pending.add(AWAITS_REWARD, row, x, None, group)
                        if self.measure is not None:
                            self.measure(W, number)
                        owner = pending.owner
                        return Decision(row, row, number, owner, version, ids, trace, self.labels, None, True)
                W = rule_costs.costs(usage, group)
            elif usage is not None:
                return None
        if (
            type(W) is not ndarray
            or W.dtype is not FLOAT
            or W.ndim != 2
            or W.flags.num & READABLE != READABLE
            or (phi.ndim != 1 and len(phi) != len(W))
            or (offer := self.offers.get(len(W))) is None
            or not self.ways
            or (decide := self.ways[phi.ndim if phi.ndim < 3 else 0]) is None
        ):
            return None
        ids, size = offer
        trace, x = empty(size), empty(self.p)
        row = decide(phi, ids, W, self.flat, self.core, trace, x)
        if row < 0:
            return None
        version = pending.version
        number = pending.add(AWAITS_REWARD, row, x, None, group)
        if self.measure is not None:
            self.measure(W, number)
        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels, None, True)

    def _decide_after(self, phi: Any, costs: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
        """Where costs are seen after acting, all or those that rules say."""
        columns, rule_costs, pending = self.columns, self.rule_costs, self.pending
        if costs is not None and len(columns) == self.K:
            if psi is not None:
                return None
            costs, psi = None, costs
        if psi is None and self.read.same_features:
            psi = phi
        if not (
            (readable(phi) or readable(phi := as_array(phi)))
            and (psi is phi or readable(psi) or readable(psi := as_array(psi)))
            and 0 < phi.ndim < 3
            and 0 < psi.ndim < 3
        ):
            return None
        if rule_costs is not None:
            if type(group) is not str:
                group = plain_group(group)
            known, decide = rule_costs.latest.get(group), self.usage_ways.get((phi.shape, psi.shape))
            if costs is None and known and decide is not None and (said := known[0](usage)) is not None:
                values, base, ranges, counted = said
                W, core = self.W, self.core
                ids, size = self.offers[len(W)]
                trace, x, z = empty(size), empty(self.p), empty(self.q)
                idle = known[1][2]
                row = decide(
                    values, base, ranges, counted, phi, psi, ids, W, idle, *self.models, core, trace, x, z
                )
                if row >= 0:
                    version = pending.version
                    number = pending.add(_AWAITS, row, x, z, group)
                    return Decision(
                        row, row, number, pending.owner, version, ids, trace, self.labels, None, True
                    )
        J = len(phi) if phi.ndim == 2 else len(psi) if psi.ndim == 2 else self.read.n_actions
        offer = self.offers.get(J) if self.ways and J is not None else None
        if offer is None or (decide := self.ways[3 * phi.ndim + psi.ndim]) is None:
            return None
        if psi.ndim == 2 and len(psi) != J:
            return None
        ids, size = offer
        trace, x, z = empty(size), empty(self.p), empty(self.q)
        if rule_costs is None:
            if len(columns) < self.K or usage is not None or group is not None:
                return None
            row = decide(phi, psi, ids, *self.models, self.core, trace, x, z)
        else:
            if costs is None:
                costs = rule_costs.costs(usage, group)
            elif usage is not None or not readable(costs) or costs.ndim != 2:
                return None
            idle = rule_costs.force(group).idle
            row = decide(phi, psi, ids, costs, idle, *self.models, self.core, trace, x, z)
        if row < 0:
            return None
        version = pending.version
        number = pending.add(_AWAITS, row, x, z, group)
        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels, None, True)

    def decide_many(self, features: Array, costs: Array) -> list[Decision] | None:
        """Successive decisions in one compiled call."""
        n, J = features.shape[:2]
        ids, size = self.offer_of(J)
        traces, rows = empty((n, size)), empty(n, dtype=np.int64)
        if not kernels.decide_many_ridge(features, ids, costs, self.flat, self.core, traces, rows):
            return None
        pending, labels, chosen = self.pending, self.labels, rows.tolist()
        version = pending.version
        numbers = [pending.add(AWAITS_REWARD, row, x) for row, x in zip(chosen, features[np.arange(n), rows])]
        return [
            Decision(row, row, number, pending.owner, version + i, ids, trace, labels, None, True)
            for i, (number, row, trace) in enumerate(zip(numbers, chosen, traces))
        ]

    # Learn

    def learn(self, decision: Any, reward: Any, costs: Any, usage: Any) -> bool:
        """A whole outcome, the reward of which may lie outside [0, 1]; whether it was taken in."""
        pending = self.pending
        if (
            type(decision) is not Decision
            or (type(reward) is not float and type(reward := as_float(reward)) is not float)
            or decision.owner != pending.owner
            or reward - reward != 0.0
            or (waiting := pending.get(decision.number)) is None
        ):
            return False
        if self.cost is None:
            if costs is not None or usage is not None:
                return False
            pending.close(decision.number)
            g = waiting[1] if self.disjoint else 0
            if self.learn_one(g, waiting[2], reward, self.flat, self.core):
                self.reward.refresh(g)
            return True
        if waiting[0] != _AWAITS or not self._learn_after(waiting, reward, costs, usage):
            return False
        pending.close(decision.number)
        return True

    def _learn_after(self, waiting: Pending, reward: float, costs: Any, usage: Any) -> bool:
        _, action, x, z, group, _ = waiting
        g, h = action if self.disjoint else 0, action if self.cost_disjoint else 0
        if usage is not None:
            rule_costs = self.rule_costs
            if costs is not None or rule_costs is None or self.learn_usage is None:
                return False
            known = rule_costs.latest_after.get(group)
            said = None if known is None else known[0](usage)
            if said is None:
                # Another list of usages, perhaps, which is the latest then.
                said = rule_costs.said(usage, group, after=True)
                if said is None:
                    return False
            values, base, ranges, counted = said
            due = self.learn_usage(
                values, base, ranges, counted, action, self.alone, self.w, g, h, x, z, reward, *self.models, self.core
            )  # fmt: skip
        elif not readable(costs) or costs.ndim != 1:
            return False
        else:
            due = self.learn_one(g, h, x, z, reward, costs, *self.models, self.core)
        if due < 0:
            return False
        if due & 1:
            self.reward.refresh(g)
        if due & 2:
            self.cost.refresh(h)
        return True


@cache
def learn_reward() -> Any:
    """Of a decision whose costs were seen before acting."""
    return kernels.entry(kernels.learn_reward, 0, _LINE, 0.0, _LINE, _LINE)


@cache
def decide_before(disjoint: bool) -> tuple[Any, ...]:
    """For a ridge reward model and costs that are seen before acting, by the number of dimensions of φ."""

    def decide(features: Any) -> Any:
        return kernels.entry(kernels.decide_ridge, features, _IDS, _TABLE, _LINE, _LINE, _LINE, _LINE)

    return (None, decide(_LINE) if disjoint else None, decide(_TABLE))


@cache
def decide_after(disjoint: bool, cost_disjoint: bool, by_rules: bool) -> tuple[Any, ...]:
    """For ridge models of the reward and of costs seen after acting, all of them unless rules say which.

    By 3 · dimensions of φ + dimensions of ψ.
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
    return tuple(ways)


@cache
def learn_after() -> Any:
    """Of a reward and costs seen after acting."""
    return kernels.entry(
        kernels.learn_reward_and_costs, 0, 0, _LINE, _LINE, 0.0, _LINE, _LINE, _LINE, _TABLE, _IDS, _LINE
    )


# Compiled code that makes the costs from usage first: what `RuleCosts.said` gives comes before all else.
_SAID = (_LINE, _TABLE, _TABLE, _TABLE)


@cache
def decide_before_by_usage(features: int) -> Any:
    """`decide_before` by usage, for features of one or two dimensions."""
    phi = (_LINE, _TABLE)[features - 1]
    return kernels.entry(kernels.decide_ridge_by_usage, *_SAID, phi, _IDS, _TABLE, _LINE, _LINE, _LINE, _LINE)


@cache
def decide_after_by_usage(features: int, cost_features: int) -> Any:
    """`decide_after` by usage."""
    phi, psi = (_LINE, _TABLE)[features - 1], (_LINE, _TABLE)[cost_features - 1]
    models = (_LINE, _LINE, _TABLE, _IDS)
    return kernels.entry(
        kernels.decide_with_some_learnt_costs_by_usage,
        *(*_SAID, phi, psi, _IDS, _TABLE, _IDS, *models, _LINE, _LINE, _LINE, _LINE),
    )


@cache
def learn_after_by_usage() -> Any:
    """`learn_after` by usage."""
    given = (0, _IDS, _TABLE, 0, 0, _LINE, _LINE, 0.0, _LINE, _LINE, _TABLE, _IDS, _LINE)
    return kernels.entry(kernels.learn_reward_and_costs_by_usage, *_SAID, *given)
