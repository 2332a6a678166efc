"""The fast path of `decide` and `learn`: compiled code for plain arrays, called without inspecting every argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.offer import OfferReader, plain_group
from tightrope.policies.decision import Decision, Labels
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, PendingDecisions
from tightrope.policies.plain_values import READABLE, as_array, as_float, readable
from tightrope.validation import FLOAT, LARGEST, Array

# Arguments of each type that compiled code takes.
LINE, TABLE, IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)
SAID = (LINE, TABLE, TABLE, TABLE)  # what `RuleCosts.said` gives, which comes first in kernels `…_by_usage`

empty, ndarray = np.empty, np.ndarray  # looked up in every round
_AWAITS_BOTH = AWAITS_REWARD | AWAITS_COSTS
_LEAST = -LARGEST


class Kernels(NamedTuple):
    """What decides: a kernel, its variant by usage, and the types of the models' arguments and of the last arguments."""

    decide: Any
    by_usage: Any
    models: tuple[Any, ...]
    last: tuple[Any, ...] = ()

    def entry(self, by_usage: bool, *rows: int) -> Any:
        """The code for φ (and ψ, if costs are seen after acting) with that many dimensions."""
        said, kernel = (SAID, self.by_usage) if by_usage else ((), self.decide)
        features = [(LINE, TABLE)[n - 1] for n in rows]
        return kernels.entry(
            kernel, *said, *features, IDS, TABLE, *self.models, LINE, LINE, *[LINE] * len(rows), *self.last
        )


class FastPath:
    """For one policy, whose arrays it knows. It returns None or False, with nothing changed, to let the careful path report errors.

    `offers` holds offers of all actions, by the shapes of features: what decides on costs and on usage, the actions' ids, how many
    numbers are behind a decision, room for costs, and its shape. A subclass says which kernels they are and binds them to its
    arrays, once for all rounds: looking up and unpacking arguments would slow a short decision down. `kept` says how many
    of a decision's costs are kept until they are seen. `measure` notes the costs of a round. No attribute
    shadows one of the class, which would make every access slower.
    """

    # What learns: the reward of an action; a reward and costs; a reward and usage. The last two give −1 if the input is not valid,
    # otherwise 1 and 2 for blocks that need a refresh.
    learn_reward: Callable[[int, Any, float], bool]
    learn_costs: Callable[[int, Any, Any, float, Array, Any], int]
    learn_usage: Callable[[Any, int, Any, Any, float, Any], int]

    before: ClassVar[Kernels]  # where all costs are seen before acting
    after: ClassVar[Kernels]  # where some are seen after acting
    # Whether rounds enter a memory, which records the rules in force.
    remembers: ClassVar[bool] = False

    def __init__(
        self,
        reward: Any,
        cost: Any,
        core: Array,
        read: OfferReader,
        pending: PendingDecisions,
        labels: Labels,
        kept: int,
        certain: bool = False,
        measure: Callable[[Array, int], None] | None = None,
    ) -> None:
        self.reward, self.cost, self.core, self.read, self.pending = reward, cost, core, read, pending
        self.labels, self.certain, self.measure = labels, certain, measure
        self.rule_costs: Any = read.rule_costs
        self.K, self.columns, self.kept = read.K, read.columns, kept
        self.p, self.disjoint = reward.n_features, reward.n_actions is not None
        self.offers: dict[Any, tuple[Any, Any, NDArray[np.int64], int, Array, Any]] = {}
        self.decide: Callable[[Any, Any, Any, Any, Any], Decision | None]
        self.decide = self._decide_before if cost is None else self._decide_after

    def trace_size(self, J: int) -> int:
        """How many numbers are behind a decision among J actions."""
        raise NotImplementedError

    def bind_before(self, ids: NDArray[np.int64], decide: Any, by_usage: Any) -> tuple[Any, Any]:
        """What decides on (φ, W, trace, x), and the same with usage in front."""
        raise NotImplementedError

    def bind_after(self, ids: NDArray[np.int64], decide: Any, by_usage: Any) -> tuple[Any, Any]:
        """What decides on (φ, ψ, W, idle, trace, x, z), and the same with usage in front."""
        raise NotImplementedError

    def enter(
        self, row: int, ids: NDArray[np.int64], phi: Array, psi: Array | None, W: Array, force: Any
    ) -> int:
        """The row chosen in a round that enters the memory."""
        raise NotImplementedError

    def open_for(self, J: int) -> None:
        """Take offers of all J actions from now on."""
        if not self.read.registry.whole:
            return
        phis = _shapes(self.reward, J)
        if self.cost is None:
            shapes: dict[Any, tuple[int, ...]] = {phi: (len(phi),) for phi in phis}
        else:
            psis = _shapes(self.cost, J)
            shapes = {(phi, psi): (len(phi), len(psi)) for phi in phis for psi in psis}
        if self.read.n_actions not in (None, J) or shapes.keys() <= self.offers.keys():
            return
        ids, size, room = np.arange(J), self.trace_size(J), np.zeros((J, self.K))
        bind = self.bind_before if self.cost is None else self.bind_after
        made: Any = type(self)
        for shape, rows in shapes.items():
            by_usage = None if self.rule_costs is None else _entry(made, True, *rows)
            self.offers[shape] = (
                *bind(ids, _entry(made, False, *rows), by_usage),
                ids,
                size,
                room,
                room.shape,
            )

    # Decide

    def _decide_before(self, phi: Any, W: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
        """Decide if all costs are seen before acting. The kernel checks values."""
        if (
            psi is not None
            or (type(phi) is not ndarray and type(phi := as_array(phi)) is not ndarray)
            or phi.dtype is not FLOAT
            or phi.flags.num & READABLE != READABLE
            or (offer := self.offers.get(phi.shape)) is None
        ):
            return None
        decide, by_usage, ids, size, room, shape = offer
        trace, x = empty(size), empty(self.p)
        rule_costs, row = self.rule_costs, -1
        if rule_costs is None:
            if usage is not None or group is not None:
                return None
            if W is None:
                if self.K:
                    return None
                W = room
        else:
            if type(group) is not str:
                group = plain_group(group)
            if W is None:
                known = rule_costs.latest.get(group)
                if known is not None and (said := known[0](usage)) is not None:
                    W = room
                    row = by_usage(said, phi, W, trace, x)
                if row == -1:
                    W = rule_costs.costs(usage, group)
            elif usage is not None:
                return None
            if row == -1 and self.remembers:
                rule_costs.force(group)  # refuses a group that is missing
        if row == -1:
            if (
                type(W) is not ndarray
                or W.dtype is not FLOAT
                or W.shape != shape
                or W.flags.num & READABLE != READABLE
            ):
                return None
            row = decide(phi, W, trace, x)
        if row < 0:
            if row == -1:
                return None
            force = None if rule_costs is None else rule_costs.force(group).rules
            row = self.enter(row, ids, phi, None, W, force)
        # Inlines `add`: calling it would take as long again.
        pending = self.pending
        number, version = pending.made, pending.version
        pending.made, pending.version = number + 1, version + 1
        pending[number] = (AWAITS_REWARD, row, x, None, group, None)
        if self.measure is not None:
            self.measure(W, number)
        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels, None, self.certain)

    def _decide_after(self, phi: Any, costs: Any, psi: Any, usage: Any, group: Any) -> Decision | None:
        """Decide if costs are seen after acting, all of them or those that rules name."""
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
        if (offer := self.offers.get((phi.shape, psi.shape))) is None:
            return None
        decide, by_usage, ids, size, W, shape = offer
        trace, x, z = empty(size), empty(self.p), empty(self.kept)
        row, force, idle = -1, None, IDS
        if rule_costs is not None:
            if type(group) is not str:
                group = plain_group(group)
            if costs is None:
                known = rule_costs.latest.get(group)
                if known is not None and (said := known[0](usage)) is not None:
                    force, _, idle = known[1]
                    row = by_usage(said, phi, psi, W, idle, trace, x, z)
                if row == -1:
                    W = rule_costs.costs(usage, group)
            elif usage is None and readable(costs) and costs.shape == shape:
                W[...] = costs
            else:
                return None
            if row == -1:
                force, _, idle = rule_costs.force(group)
        elif len(columns) < K or usage is not None or group is not None:
            return None
        if row == -1:
            row = decide(phi, psi, W, idle, trace, x, z)
        if row < 0:
            if row == -1:
                return None
            row = self.enter(row, ids, phi, psi, W, force)
        pending = self.pending
        number, version = pending.made, pending.version
        pending.made, pending.version = number + 1, version + 1
        pending[number] = (_AWAITS_BOTH, row, x, z, group, None)
        return Decision(row, row, number, pending.owner, version, ids, trace, self.labels, None, self.certain)

    # Learn

    def learn(self, decision: Any, reward: Any, costs: Any, usage: Any) -> bool:
        """Learn a whole outcome, or the reward if nothing else is awaited; returns whether it was learnt."""
        pending = self.pending
        if (
            type(decision) is not Decision
            or (type(reward) is not float and type(reward := as_float(reward)) is not float)
            or decision.owner != pending.owner
            or not _LEAST <= reward <= LARGEST
            or (waiting := pending.get(decision.number)) is None
        ):
            return False
        awaits, action, x, z, group, _ = waiting
        if costs is None and usage is None:
            if awaits != AWAITS_REWARD:
                return False
            # Inlines `close`: calling it would take as long again.
            del pending[decision.number]
            pending.version += 1
            if self.learn_reward(action, x, reward):
                self._refresh(action, 1)
            return True
        if self.cost is None or awaits != _AWAITS_BOTH:
            return False
        rule_costs = self.rule_costs
        if usage is not None:
            if costs is not None or rule_costs is None:
                return False
            known = rule_costs.latest_after.get(group)
            said = None if known is None else known[0](usage)
            if said is None:
                # This may be another list of usages, which then becomes the latest.
                said = rule_costs.said(usage, group, after=True)
                known = rule_costs.latest_after.get(group)
            if said is None or known is None:
                return False
            due = self.learn_usage(said, action, x, z, reward, known[1].unseen)
        elif not readable(costs) or costs.shape != self.columns.shape:
            return False
        else:
            unseen = IDS if rule_costs is None else rule_costs.force(group).unseen
            due = self.learn_costs(action, x, z, reward, costs, unseen)
        if due < 0:
            return False
        if due:
            self._refresh(action, due)
        pending.close(decision.number)
        return True

    def _refresh(self, action: int, due: int) -> None:
        """Refresh an action's block of the reward model if `due` contains 1, of the cost model if it contains 2."""
        for model, part in ((self.reward, 1), (self.cost, 2)):
            if due & part:
                model.refresh(action if model.n_actions is not None else 0)


def _shapes(model: Any, J: int) -> list[tuple[int, ...]]:
    """The shapes that features may have: a row for each action, or one row for all if the model tells actions apart."""
    p = model.n_features
    return [(J, p)] if model.n_actions is None else [(p,), (J, p)]


@cache
def _entry(made: Any, by_usage: bool, *rows: int) -> Any:
    return (made.before if len(rows) == 1 else made.after).entry(by_usage, *rows)
