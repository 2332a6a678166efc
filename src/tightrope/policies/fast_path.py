"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.offer import OfferReader, plain_group
from tightrope.policies.decision import Decision, Labels
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, Pending, PendingDecisions
from tightrope.policies.plain_values import READABLE, as_array, as_float, readable
from tightrope.validation import FLOAT, LARGEST, Array

# Arguments of each type that compiled code takes.
LINE, TABLE, IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)
SAID = (LINE, TABLE, TABLE, TABLE)  # what `RuleCosts.said` gives, which comes first in kernels `…_by_usage`

empty, ndarray = np.empty, np.ndarray  # looked up in every round
_AWAITS_BOTH = AWAITS_REWARD | AWAITS_COSTS


class Kernels(NamedTuple):
    """What decides: a kernel, the same by usage, and the types of the models' arguments and of those that come last."""

    decide: Any
    by_usage: Any
    models: tuple[Any, ...]
    last: tuple[Any, ...] = ()

    def entry(self, by_usage: bool, *rows: int) -> Any:
        """The code for φ, and ψ where costs are seen after acting, of so many dimensions."""
        said, kernel = (SAID, self.by_usage) if by_usage else ((), self.decide)
        features = [(LINE, TABLE)[n - 1] for n in rows]
        return kernels.entry(
            kernel, *said, *features, IDS, TABLE, *self.models, LINE, LINE, *[LINE] * len(rows), *self.last
        )


class FastPath:
    """For one policy, whose arrays it knows. None, or False, with nothing changed: for the careful way to say what is wrong.

    `offers` has, by the number of actions, all of them on offer: their ids, how many numbers are behind a decision, room for costs,
    further arguments of compiled code, and that code by the shapes of features, for costs and for usage. A subclass says which
    kernels they are, what the `models` are that they read, how a reward is learnt (`learn_reward`, with `learns_by` last) and what
    else happens in a round. `kept`: how many numbers are kept of the costs of a decision until they are seen. `measure` takes
    note of the costs of a round. No attribute stands in for one of the class, which would make every access slower.
    """

    learn_reward: Any
    learns_by: tuple[Any, ...]

    before: ClassVar[Kernels]  # where all costs are seen before acting
    after: ClassVar[Kernels]  # where some are seen after acting
    # Whether rounds enter a memory, which keeps what rules are in force.
    remembers: ClassVar[bool] = False

    def __init__(
        self,
        reward: Any,
        cost: Any,
        core: Array,
        read: OfferReader,
        pending: PendingDecisions,
        labels: Labels,
        models: tuple[Any, ...],
        kept: int,
        certain: bool = False,
        measure: Callable[[Array, int], None] | None = None,
    ) -> None:
        self.reward, self.cost, self.core, self.read, self.pending = reward, cost, core, read, pending
        self.labels, self.models, self.certain, self.measure = labels, models, certain, measure
        self.rule_costs: Any = read.rule_costs
        self.K, self.columns, self.kept = read.K, read.columns, kept
        self.p, self.disjoint = reward.n_features, reward.n_actions is not None
        self.offers: dict[int | None, tuple[Any, ...]] = {}
        self.alone, self.w = np.zeros(1, dtype=np.int64), empty((1, len(read.columns)))
        self.decide: Callable[[Any, Any, Any, Any, Any], Decision | None]
        self.decide = self._decide_before if cost is None else self._decide_after

    def trace_size(self, J: int) -> int:
        """How many numbers are behind a decision among J actions."""
        raise NotImplementedError

    def last(self, J: int) -> tuple[Any, ...]:
        """What compiled code is given last."""
        return ()

    def enter(
        self, row: int, ids: NDArray[np.int64], phi: Array, psi: Array | None, W: Array, force: Any
    ) -> int:
        """The row that was chosen in a round that enters the memory."""
        raise NotImplementedError

    def learn_outcome(
        self, said: tuple[Any, ...] | None, waiting: Pending, reward: float, costs: Any, unseen: Any
    ) -> int:
        """A reward, and costs as such or as usage that was said: −1 if not valid, else 1 and 2 for blocks to be refreshed."""
        raise NotImplementedError

    def open_for(self, J: int) -> None:
        """From now on offers of all J actions are decided."""
        if J in self.offers or self.read.n_actions not in (None, J):
            return
        made: Any = type(self)
        phis = _shapes(self.reward, J)
        shapes: dict[Any, tuple[int, ...]] = {phi: (len(phi),) for phi in phis}
        if self.cost is not None:
            psis = _shapes(self.cost, J)
            shapes = {(phi, psi): (len(phi), len(psi)) for phi in phis for psi in psis}
        ways = {shape: _entry(made, False, *rows) for shape, rows in shapes.items()}
        by_usage = {}
        if self.rule_costs is not None:
            by_usage = {shape: _entry(made, True, *rows) for shape, rows in shapes.items()}
        room = np.zeros((J, self.K))
        self.offers[J] = (np.arange(J), self.trace_size(J), room, self.last(J), ways, by_usage)

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
        rule_costs, force, row = self.rule_costs, None, -1
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
                known, offer = rule_costs.latest.get(group), self.offers.get(self.read.n_actions)
                if (
                    known is not None
                    and offer is not None
                    and (decide := offer[5].get(phi.shape)) is not None
                    and (said := known[0](usage)) is not None
                ):
                    values, base, ranges, counted = said
                    ids, size, W, last, _, _ = offer
                    trace, x = empty(size), empty(self.p)
                    row = decide(
                        values, base, ranges, counted, phi, ids, W, *self.models, self.core, trace, x, *last
                    )
                    force = known[1].rules
                if row == -1:
                    W = rule_costs.costs(usage, group)
            elif usage is not None:
                return None
            if row == -1 and self.remembers:
                force = rule_costs.force(group).rules
        if row == -1:
            if (
                type(W) is not ndarray
                or W.dtype is not FLOAT
                or W.ndim != 2
                or W.flags.num & READABLE != READABLE
                or (offer := self.offers.get(len(W))) is None
                or (decide := offer[4].get(phi.shape)) is None
            ):
                return None
            ids, size, _, last, _, _ = offer
            trace, x = empty(size), empty(self.p)
            if last:
                row = decide(phi, ids, W, *self.models, self.core, trace, x, *last)
            else:  # spares what unpacking takes, which is a part of a short decision
                row = decide(phi, ids, W, self.models[0], self.core, trace, x)
        if row < 0:
            if row == -1:
                return None
            row = self.enter(row, ids, phi, None, W, force)
        pending = self.pending
        version = pending.version
        number = pending.add(AWAITS_REWARD, row, x, None, group)
        if self.measure is not None:
            self.measure(W, number)
        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels, None, self.certain)

    def _decide_after(self, phi: Any, costs: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
        """Where costs are seen after acting, all or those that rules say."""
        columns, K, rule_costs = self.columns, self.K, self.rule_costs
        if costs is not None and len(columns) == K:
            if psi is not None:
                return None
            costs, psi = None, costs
        if not (readable(phi) or readable(phi := as_array(phi))):
            return None
        if psi is None:
            if not self.read.same_features:
                return None
            psi = phi
        elif psi is not phi and not (readable(psi) or readable(psi := as_array(psi))):
            return None
        shapes, row, force, idle = (phi.shape, psi.shape), -1, None, IDS
        J = len(phi) if phi.ndim == 2 else len(psi) if psi.ndim == 2 else self.read.n_actions
        if (offer := self.offers.get(J)) is None or (decide := offer[4].get(shapes)) is None:
            return None
        ids, size, W, last, _, usage_ways = offer
        trace, x, z = empty(size), empty(self.p), empty(self.kept)
        if rule_costs is not None:
            if type(group) is not str:
                group = plain_group(group)
            if costs is None:
                known = rule_costs.latest.get(group)
                if known is not None and (said := known[0](usage)) is not None:
                    values, base, ranges, counted = said
                    force, _, idle = known[1]
                    row = usage_ways[shapes](
                        values, base, ranges, counted, phi, psi, ids, W, *self.models, idle, self.core, trace, x, z, *last
                    )  # fmt: skip
                if row == -1:
                    W = rule_costs.costs(usage, group)
            elif usage is None and readable(costs) and costs.shape == W.shape:
                W[...] = costs
            else:
                return None
            if row == -1:
                force, _, idle = rule_costs.force(group)
        elif len(columns) < K or usage is not None or group is not None:
            return None
        if row == -1:
            row = decide(phi, psi, ids, W, *self.models, idle, self.core, trace, x, z, *last)
        if row < 0:
            if row == -1:
                return None
            row = self.enter(row, ids, phi, psi, W, force)
        pending = self.pending
        version = pending.version
        number = pending.add(_AWAITS_BOTH, row, x, z, group)
        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels, None, self.certain)

    # Learn

    def learn(self, decision: Any, reward: Any, costs: Any, usage: Any) -> bool:
        """A whole outcome, or the reward where nothing else is awaited; whether it was taken in."""
        pending = self.pending
        if (
            type(decision) is not Decision
            or (type(reward) is not float and type(reward := as_float(reward)) is not float)
            or decision.owner != pending.owner
            or not -LARGEST <= reward <= LARGEST
            or (waiting := pending.get(decision.number)) is None
        ):
            return False
        action = waiting[1]
        if costs is None and usage is None:
            if waiting[0] != AWAITS_REWARD:
                return False
            # As `close` does, which would take as long again.
            del pending[decision.number]
            pending.version += 1
            g = action if self.disjoint else 0
            if self.learn_reward(g, waiting[2], reward, *self.learns_by):
                self._refresh(action, 1)
            return True
        if self.cost is None or waiting[0] != _AWAITS_BOTH:
            return False
        rule_costs, group, said, unseen = self.rule_costs, waiting[4], None, IDS
        if usage is not None:
            if costs is not None or rule_costs is None:
                return False
            known = rule_costs.latest_after.get(group)
            said = None if known is None else known[0](usage)
            if said is None:
                # Another list of usages, perhaps, which is the latest then.
                said = rule_costs.said(usage, group, after=True)
                known = rule_costs.latest_after.get(group)
            if said is None or known is None:
                return False
            unseen = known[1].unseen
        elif not readable(costs) or costs.shape != self.columns.shape:
            return False
        elif rule_costs is not None:
            unseen = rule_costs.force(group).unseen
        due = self.learn_outcome(said, waiting, reward, costs, unseen)
        if due < 0:
            return False
        if due:
            self._refresh(action, due)
        pending.close(decision.number)
        return True

    def _refresh(self, action: int, due: int) -> None:
        """Refresh an action's block of the reward model where `due` has 1, of the cost model where it has 2."""
        for model, part in ((self.reward, 1), (self.cost, 2)):
            if due & part:
                model.refresh(action if model.n_actions is not None else 0)


def _shapes(model: Any, J: int) -> list[tuple[int, ...]]:
    """What features may come in: a row for each action, or one for all where the model tells actions apart."""
    p = model.n_features
    return [(J, p)] if model.n_actions is None else [(p,), (J, p)]


@cache
def _entry(made: Any, by_usage: bool, *rows: int) -> Any:
    return (made.before if len(rows) == 1 else made.after).entry(by_usage, *rows)
