"""The pessimistic-optimistic algorithm of Liu, Li, Shi, Ying (NeurIPS 2021), both forms, and LinUCB as its case K = 0."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels, schedules
from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.errors import InvalidInput
from tightrope.models import (
    ArmMeans,
    DisjointRidge,
    Ridge,
    learn_ridge,
    model_from_settings,
    refresh_ridge,
)
from tightrope.policies.decision import Decision
from tightrope.policies.inputs import (
    Model,
    check_model_sizes,
    cost_ranges,
    feature_rows,
    logged_rows,
    plain_group,
    power_settings,
    require_valid_rows,
    rounds_given,
    row_length,
    seen_before,
)
from tightrope.policies.linear import Linear, action_count_misfits, feature_misfits
from tightrope.policies.registry import register
from tightrope.policies.short import READABLE, ShortWays, costs_after, costs_before, learning_only, readable
from tightrope.policies.store import Arrays, checked, write_state
from tightrope.rules import Rules
from tightrope.validation import (
    FLOAT,
    Array,
    finite_number,
    first,
    is_plain,
    real_array,
    require_finite,
    require_range,
    whole_number,
)

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular
    from tightrope.policies.slater import SlaterMeter

AWAITS_REWARD, AWAITS_COSTS = 1, 2
NOBODY = -1  # owner of what was only proposed


class _Offer(NamedTuple):
    """One round's input in the kernels' form."""

    ids: NDArray[np.int64]
    phi: Array | None
    W: Array
    psi: Array | None
    group: Any


# A decision whose outcome is still to come: what it awaits, its action, φ, ψ, and the context's group.
_Pending = tuple[int, int, Array | None, Array | None, Any]

# Names of this module, for they are looked up in every round.
ndarray, empty = np.ndarray, np.empty


class _Room:
    """For one catalogue: upper bounds of the widths, which outlast a round, and room for penalties, rewards and values."""

    def __init__(self, bounds: Array) -> None:
        self.scores = np.zeros((4, len(bounds)))
        self.scores[0] = bounds
        self.fresh = np.zeros(len(bounds), dtype=np.bool_)


@register("pessimistic-optimistic")
class PessimisticOptimistic:
    """Maximise reward while every cumulative cost stays at or below 0 at every round.

    Each round it picks the action with the highest r̂ − (1/V_t) Σ_k W_k Q_k: r̂ is LinUCB's optimistic reward, Q is a virtual
    queue for each constraint that grows by the cost of what was chosen plus ε_t. Costs are seen before acting
    (algorithm A), or learnt by a linear model from what is seen after acting (algorithm B: give `cost`), or some each
    way (rules with `seen="after"`).

    Parameters
    ----------
    reward : Ridge, DisjointRidge or ArmMeans
        Model of the reward. The policy works on a copy, so a model that has learnt already is a warm start.
    constraints : int or Rules
        K, or rules in words, which also state ranges, names and what is seen when.
    cost : Ridge, DisjointRidge or ArmMeans, optional
        Model of the costs that are seen after acting.
    slater : float, optional
        δ in (0, 1]: some mixture of actions keeps every expected cost at or below −δ. None measures it from the costs
        seen so far (see `docs/no-constants.md`), which is refused where V must come from δ and costs are seen only after acting.
    horizon : int, optional
        T of the formulas. None runs for ever, with T := t.
    V, epsilon : Power, optional
        Schedules V_t and ε_t; the paper's for the case at hand by default.
    cost_range : pair or (K, 2), optional
        What the costs are known to lie in; clips the estimates of costs seen after acting. Rules set it themselves.
    seed : int
        Of the sample on which δ is measured.

    Examples
    --------
    Two actions; the better one costs 0.5 a round, the other gives 0.5 back.

    >>> import tightrope as tr
    >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=1000)
    >>> for _ in range(1000):
    ...     decision = policy.decide(costs=[[0.5], [-0.5]])
    ...     policy.learn(decision, reward=(0.9, 0.2)[decision.action])
    >>> bool(policy.totals[0] <= 0)
    True
    """

    kind: str

    def __init__(
        self,
        reward: Model,
        *,
        constraints: int | Rules = 0,
        cost: Model | None = None,
        slater: float | None = None,
        horizon: int | None = None,
        V: schedules.Power | None = None,
        epsilon: schedules.Power | None = None,
        cost_range: Any = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(reward, Model):
            raise InvalidInput(f"reward must be a Ridge, DisjointRidge or ArmMeans, but got {reward!r}.")
        if cost is not None and not isinstance(cost, Model):
            raise InvalidInput(f"cost must be a Ridge, DisjointRidge or ArmMeans, but got {cost!r}.")
        self.rules = constraints if isinstance(constraints, Rules) else None
        K = (
            constraints.n_constraints
            if isinstance(constraints, Rules)
            else whole_number("constraints must be Rules or their number, which", constraints)
        )
        known = seen_before(K, self.rules, cost)
        after = np.flatnonzero(~known)
        ranges = cost_ranges(K, self.rules, cost_range)
        self._settings: dict[str, Any] = {
            "slater": None
            if slater is None
            else finite_number("slater", slater, low=0.0, high=1.0, open_low=True),
            "horizon": None if horizon is None else whole_number("horizon", horizon, low=1, high=2**53),
            "V": power_settings("V", V),
            "epsilon": power_settings("epsilon", epsilon),
            "cost_range": ranges.tolist(),
            "seed": whole_number("seed", seed),
        }
        self._reward = reward.with_outputs(1)
        self._cost = None if cost is None or not len(after) else cost.with_outputs(len(after))
        check_model_sizes(self._reward, self._cost, self.rules)

        d = max(self._reward.dimension, self._cost.dimension if self._cost else 1)
        unit_V, paper_epsilon = schedules.linear_costs(K, d) if len(after) else schedules.known_costs(K)
        eps = paper_epsilon if epsilon is None else schedules.as_schedule("epsilon", epsilon)
        self._unit_V = unit_V
        self._meter: SlaterMeter | None = None
        self._delta = slater
        if V is not None or K == 0:
            V_t = unit_V if V is None else schedules.as_schedule("V", V)
        elif slater is not None:
            V_t = _scaled(unit_V, float(slater))
        elif len(after):
            raise InvalidInput(
                "slater=None measures Slater's constant from costs that are seen before acting, but "
                + (
                    "every constraint here is"
                    if len(after) == K
                    else f"{len(after)} of {K} constraints here are"
                )
                + " seen only after. Give slater=, or V= (V_t is all that needs it)."
            )
        else:
            from tightrope.policies.slater import SlaterMeter  # the LP solver takes long to import

            self._meter = SlaterMeter(K, self._settings["seed"])
            V_t = _scaled(unit_V, self._meter.value)

        scratch = max(row_length(self._reward), row_length(self._cost))
        self._core = kernels.new_core(K, scratch, horizon or 0.0, astuple(V_t), astuple(eps), known)
        self._K = K
        self._columns = after.astype(np.int64)
        self._known_columns = np.flatnonzero(known)
        self._ranges = np.ascontiguousarray(ranges[after])
        self._awaits = AWAITS_REWARD | (AWAITS_COSTS if len(after) else 0)
        self._made = 0
        self._pending: dict[int, _Pending] = {}
        self._owner = secrets.randbits(63)
        # By the number of actions on offer: their ids, and how many numbers are behind a decision.
        self._offers: dict[int, tuple[NDArray[np.int64], int]] = {}
        # Whether `decide` and `learn` may take a short way: ridge models, nothing to measure, costs seen before acting, or all of
        # them after. Its compiled code is looked up with the first decision.
        self._before: ShortWays | None = None
        self._after: ShortWays | None = None
        linear = not isinstance(self._reward, ArmMeans) and self._meter is None
        self._plain = linear and self._cost is None
        self._plain_after = (
            linear and isinstance(self._cost, Linear) and len(after) == K and self.rules is None
        )
        self._disjoint = isinstance(self._reward, DisjointRidge)
        self._flat = np.empty(0) if isinstance(self._reward, ArmMeans) else self._reward.flat
        self._row_length = row_length(self._reward)
        self._n_blocks = max(
            (m.n_actions for m in (self._reward, self._cost) if isinstance(m, DisjointRidge)), default=0
        )
        self._rooms: WeakKeyDictionary[Catalogue, _Room] = WeakKeyDictionary()
        self._last_room: tuple[Catalogue | None, _Room | None] = (None, None)
        self._names: tuple[tuple[str, ...] | None, tuple[str, ...] | None] = (None, None)
        if self.rules is not None:
            self._names = (tuple(map(str, self.rules.actions)), self.rules.names)

    # What the policy knows

    @property
    def n_constraints(self) -> int:
        """K."""
        return self._K

    @property
    def rounds(self) -> int:
        """Decisions made so far."""
        return self._made

    @property
    def queue(self) -> Array:
        """The dual variables Q, (K,), a copy."""
        Q: Array = kernels.core_views(self._core).queue
        return Q.copy()

    @property
    def totals(self) -> Array:
        """Cumulative costs, (K,), a copy: as chosen where they are seen before acting, as learnt where they are seen after."""
        totals: Array = kernels.core_views(self._core).totals
        return totals.copy()

    @property
    def pending(self) -> tuple[int, ...]:
        """Numbers of the decisions whose outcome is still to come, oldest first."""
        return tuple(self._pending)

    @property
    def slater(self) -> float | None:
        """δ as given, or as measured so far; None where V does not come from it."""
        return self._meter.value if self._meter is not None else self._delta

    @property
    def compiles(self) -> bool:
        """Whether a whole run can be compiled: not where δ is measured, which needs an LP now and then."""
        return self._meter is None

    @property
    def reward_model(self) -> Model:
        """A copy of the model of the reward."""
        return self._reward.copy()

    @property
    def cost_model(self) -> Model | None:
        """A copy of the model of the costs that are seen after acting."""
        return None if self._cost is None else self._cost.copy()

    # Decide

    def decide(
        self,
        features: Any = None,
        costs: Any = None,
        *,
        cost_features: Any = None,
        actions: Sequence[int | str] | None = None,
        usage: Mapping[str, Any] | None = None,
        group: Any = None,
    ) -> Decision:
        """Choose one action, and move the queue by its cost.

        Parameters
        ----------
        features : (J, d) array, or (p,) for `DisjointRidge`; none for `ArmMeans`
            φ of each action on offer, ‖φ‖ ≤ 1. J may change from round to round.
        costs : (J, K) array
            W of each action on offer, in [−1, 1]. With `cost=` it is the cost features instead. Where some constraints
            are seen after acting, only the columns of the others, (J, K_before), may be given.
        cost_features : (J, d_w) array, or (p_w,) for `DisjointRidge`
            ψ of each action on offer, ‖ψ‖ ≤ 1.
        actions : sequence of ids or names
            Which action each row is; 0..J−1 by default.
        usage, group
            With rules they stand in for the cost matrix: see `Rules.costs`.

        Returns
        -------
        Decision
        """
        ways = self._before
        if (
            ways is not None
            and type(features) is ndarray
            and actions is None
            and cost_features is None
            and ((usage is None and group is None) or (costs is None and self.rules is not None))
        ):
            # What most callers send, without detours: the kernel checks shapes and values, and where it refuses the careful way
            # below says why.
            W = costs
            if W is None:
                if self.rules is not None:
                    group = plain_group(group)
                    W = self.rules.costs(usage, group)
                elif not self._K:
                    W = empty((len(features) if features.ndim == 2 else self._n_blocks, 0))
            if (
                type(W) is ndarray
                and features.dtype is FLOAT
                and W.dtype is FLOAT
                and W.ndim == 2
                and features.flags.num & READABLE == READABLE
                and W.flags.num & READABLE == READABLE
                and (features.ndim == 1 or len(features) == len(W))
                and (offer := self._offers.get(len(W))) is not None
                and (decide := ways.decide[features.ndim if features.ndim < 3 else 0]) is not None
            ):
                ids, size = offer
                trace = empty(size)
                x = empty(self._row_length)
                row = decide(features, ids, W, self._flat, self._core, trace, x)
                if row >= 0:
                    number = self._made
                    self._made = number + 1
                    self._pending[number] = (AWAITS_REWARD, row, x, None, group)
                    return Decision(row, row, number, self._owner, ids, trace, self._names)
        elif (
            self._after is not None
            and actions is None
            and usage is None
            and group is None
            and (costs is None or cost_features is None)
        ):
            psi = cost_features if costs is None else costs
            decision = self._decide_after(self._after, features, psi)
            if decision is not None:
                return decision
        if isinstance(features, Catalogue) or isinstance(costs, SparseCosts):
            if cost_features is not None or actions is not None or usage is not None or group is not None:
                raise InvalidInput("with a Catalogue or SparseCosts, decide takes features and costs alone.")
            return self._decide_large(features, costs)
        return self._commit(self._prepare(features, costs, cost_features, actions, usage, group))

    def propose(
        self,
        features: Any = None,
        costs: Any = None,
        *,
        cost_features: Any = None,
        actions: Sequence[int | str] | None = None,
        usage: Mapping[str, Any] | None = None,
        group: Any = None,
    ) -> Decision:
        """What `decide` would choose on the same arguments, without choosing it: no state changes, nothing can be learnt from it.

        >>> import tightrope as tr
        >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=100)
        >>> policy.propose(costs=[[0.5], [-0.5]]).action, policy.rounds
        (0, 0)
        """
        offer = self._prepare(features, costs, cost_features, actions, usage, group)
        row, trace, _ = self._choose(offer, self._core.copy())
        return Decision(int(offer.ids[row]), row, self._made, NOBODY, offer.ids, trace, self._names)

    def decide_many(
        self,
        features: Any = None,
        costs: Any = None,
        *,
        cost_features: Any = None,
        actions: Sequence[Sequence[int | str] | None] | None = None,
        usage: Sequence[Mapping[str, Any] | None] | None = None,
        group: Sequence[Any] | None = None,
        rounds: int | None = None,
    ) -> list[Decision]:
        """As many successive `decide` calls with no `learn` between: t and Q advance, the estimates stay.

        Every argument has one entry for each round, in a sequence or along a first axis. `rounds` says how many where there is no
        such argument. All input is checked before the first decision is made.

        >>> import tightrope as tr
        >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(3), constraints=0)
        >>> [d.action for d in policy.decide_many(rounds=2)]
        [0, 0]
        """
        if (
            self._plain
            and not self._disjoint
            and is_plain(features)
            and is_plain(costs)
            and features.ndim == costs.ndim == 3
            and len(features) == len(costs)
            and all(value is None for value in (cost_features, actions, usage, group, rounds))
        ):
            n, J = features.shape[:2]
            ids, size = self._offer_of(J)
            traces = np.empty((n, size))
            rows = np.empty(n, dtype=np.int64)
            if kernels.decide_many_ridge(features, ids, costs, self._flat, self._core, traces, rows):
                numbers = range(self._made, self._made + n)
                self._made += n
                chosen = rows.tolist()
                for number, row, x in zip(numbers, chosen, features[np.arange(n), rows]):
                    self._pending[number] = (AWAITS_REWARD, row, x, None, None)
                self._learn_shortly()
                owner, names = self._owner, self._names
                return [
                    Decision(row, row, number, owner, ids, trace, names)
                    for number, row, trace in zip(numbers, chosen, traces)
                ]
        given = {
            "features": features,
            "costs": costs,
            "cost_features": cost_features,
            "actions": actions,
            "usage": usage,
            "group": group,
        }
        lengths = {name: rounds_given(name, value) for name, value in given.items() if value is not None}
        if rounds is not None:
            lengths["rounds"] = whole_number("rounds", rounds)
        if not lengths:
            raise InvalidInput("decide_many needs rounds=, or an argument with one entry for each round.")
        if len(set(lengths.values())) > 1:
            raise InvalidInput(
                f"the arguments must have one entry for each round, but their lengths differ: {lengths}."
            )
        offers = []
        for i in range(next(iter(lengths.values()))):
            entry = {name: None if value is None else value[i] for name, value in given.items()}
            try:
                offer = self._prepare(**entry)
                self._check_values(offer)
            except InvalidInput as error:
                raise InvalidInput(f"round {i} of decide_many: {error}") from error
            offers.append(offer)
        return [self._commit(offer) for offer in offers]

    # Learn

    def learn(self, decision: Decision | int, reward: Any = None, costs: Any = None) -> None:
        """Take in the outcome of a decision, at any time and in any order; each part at most once.

        Parameters
        ----------
        decision : Decision or int
            A decision of this policy (or of the one that it was restored from), or its number.
        reward : float, optional
        costs : (K_after,) array, or with rules a mapping of usage names to numbers, optional
            The costs that are seen after acting, in the order of the constraints.
        """
        ways = self._before
        if (
            ways is not None
            and type(decision) is Decision
            and type(reward) is float
            and costs is None
            and decision.owner == self._owner
            and reward - reward == 0.0
        ):
            # The short way again; what is refused is left to the careful way below.
            waiting = self._pending.pop(decision.number, None)
            if waiting is not None:
                g = waiting[1] if self._disjoint else 0
                if ways.learn(g, waiting[2], reward, self._flat, self._core):
                    refresh_ridge(self._reward, g)  # type: ignore[arg-type]
                return
        elif self._after is not None and self._learn_after(self._after, decision, reward, costs):
            return
        number, pending = self._find(decision)
        if reward is None and costs is None:
            raise InvalidInput("learn needs a reward, costs, or both.")
        awaits, action, phi, psi, group = pending
        y = None
        if reward is not None:
            if not awaits & AWAITS_REWARD:
                raise InvalidInput(f"decision {number} has its reward already.")
            y = np.array([finite_number("reward", reward)])
        w = None
        if costs is not None:
            if not len(self._columns):
                raise InvalidInput("costs are seen before acting here: learn takes the reward alone.")
            if not awaits & AWAITS_COSTS:
                raise InvalidInput(f"decision {number} has its costs already.")
            w = self._observed_costs(costs, pending)
        if y is not None:
            awaits &= ~AWAITS_REWARD
            _learn(self._reward, action, phi, y)
        if w is not None and self._cost is not None:
            awaits &= ~AWAITS_COSTS
            _learn(self._cost, action, psi, w)
            kernels.core_views(self._core).totals[self._columns] += w
        if awaits:
            self._pending[number] = (awaits, action, phi, psi, group)
        else:
            del self._pending[number]

    def forget(self, decision: Decision | int) -> None:
        """Drop a pending decision: its outcome will never come. The queue has moved already, and stays."""
        number, _ = self._find(decision)
        del self._pending[number]

    def warm_start(
        self, features: Any, actions: Any, rewards: Any, costs: Any = None, *, cost_features: Any = None
    ) -> None:
        """Teach the models what was logged before this policy goes live: t, the queue and the totals stay as they are.

        The log may be of any policy whose choices depended on nothing but what the features tell. Row by row it is what the models'
        own `learn` does. All rows are checked before the first is learnt.

        Parameters
        ----------
        features : (n, d) array, or (n, p) for `DisjointRidge`; None for `ArmMeans`
            φ of what was done, ‖φ‖ ≤ 1.
        actions : (n,) ids or names; None where no model tells actions apart
        rewards : (n,) array
        costs : (n, K_after) array, optional; (n,) where K_after is 1
            The costs that are seen after acting. Those seen before are not learnt, so they are not taken.
        cost_features : (n, d_w) array, optional
            ψ of what was done; `features` by default.

        Examples
        --------
        >>> import tightrope as tr
        >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=100)
        >>> policy.warm_start(None, [0, 1, 1], [0.0, 1.0, 1.0])
        >>> policy.reward_model.means(), policy.queue, policy.rounds
        (array([0., 1.]), array([0.]), 0)
        """
        y = real_array("rewards", rewards, (None,))
        require_finite("rewards", y)
        n = len(y)
        ids = self._logged_ids(actions, n)
        phi = logged_rows("features", features, self._reward, n)
        w = psi = None
        if costs is not None:
            if self._cost is None:
                raise InvalidInput("costs are seen before acting here: warm_start takes the rewards alone.")
            K = len(self._columns)
            w = real_array("costs", costs, (n, K), *([(n,)] if K == 1 else [])).reshape(n, K)
            w = self._costs_in_range(w)
            if cost_features is None and not isinstance(self._cost, ArmMeans):
                cost_features = features
            psi = logged_rows("cost_features", cost_features, self._cost, n)
        elif cost_features is not None:
            raise InvalidInput("cost_features come with the costs that were seen, but costs is None.")
        for i in range(n):
            _learn(self._reward, ids[i], None if phi is None else phi[i], y[i : i + 1])
            if w is not None and self._cost is not None:
                _learn(self._cost, ids[i], None if psi is None else psi[i], w[i])

    # Slater's constant, measured elsewhere

    def defer_slater(self) -> bool:
        """From now on `decide` never stops to measure δ, which stays as it is until `take_slater`; whether δ is measured at all.

        For a service, which can't solve an LP while someone waits. A saved policy does not remember this.

        >>> import tightrope as tr
        >>> from tightrope.policies.slater import measure
        >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1)
        >>> policy.defer_slater()
        True
        >>> decision = policy.decide(costs=[[0.5], [-0.25]])
        >>> policy.slater
        0.001
        >>> policy.take_slater(measure(policy.slater_sample()))
        >>> policy.slater
        0.25
        """
        if self._meter is None:
            return False
        self._meter.deferred = True
        return True

    def slater_sample(self) -> list[Array]:
        """The cost matrices on which δ is measured, for `tightrope.policies.slater.measure` on any thread."""
        return [] if self._meter is None else list(self._meter.matrices)

    def take_slater(self, value: float) -> None:
        """Go on with a δ that was measured on `slater_sample`."""
        if self._meter is None:
            raise InvalidInput("slater is not measured here: it was given, or V does not come from it.")
        self._meter.value = finite_number("slater", value, low=0.0, high=1.0, open_low=True)
        self._core[kernels.V_SCALE] = self._unit_V.scale * self._meter.value

    # Where it fits

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is. Without constraints the costs do not matter.

        >>> import tightrope as tr
        >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(4), constraints=1, slater=0.1, horizon=100)
        >>> policy.requires(tr.environments.bandit(threshold=0.1))
        ['its costs are seen after acting, but the policy has no model of them']
        """
        reasons = []
        if self._K:
            late = len(self._columns)
            if env.n_constraints != self._K:
                reasons.append(f"it has {env.n_constraints} constraints, but the policy has {self._K}")
            if env.costs_seen == "after" and late < self._K:
                reasons.append("its costs are seen after acting, but the policy has no model of them")
            if env.costs_seen == "before" and late:
                reasons.append(
                    "its costs are seen before acting, but the policy learns them from what is seen after"
                )
        for part, model in (("reward", self._reward), ("cost", self._cost)):
            if isinstance(model, ArmMeans):
                reasons += action_count_misfits(env, model.n_actions)
            elif model is not None:
                reasons += feature_misfits(env, part, model)
        return reasons

    # Save, restore, copy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, pending decisions too; `tightrope.load` gives it back exactly."""
        write_state(path, self.kind, self.settings(), self.state())

    def settings(self) -> dict[str, Any]:
        """All that is not arrays, as plain data."""
        groups = [group for *_, group in self._pending.values()]
        return {
            **self._settings,
            "constraints": self._K
            if self.rules is None
            else {"rules": self.rules.to_data(), "actions": list(self.rules.actions)},
            "reward": self._reward.settings(),
            "cost": None if self._cost is None else self._cost.settings(),
            "owner": self._owner,
            "pending_groups": groups if any(g is not None for g in groups) else None,
        }

    def state(self) -> Arrays:
        """The arrays that change, by name, copied: two policies with equal settings and equal state act alike."""
        entries = list(self._pending.values())
        state: Arrays = {
            "core": kernels.core_views(self._core).saved.copy(),
            "made": np.array([self._made], dtype=np.int64),
            "pending/number": np.array(list(self._pending), dtype=np.int64),
            "pending/awaits": np.array([e[0] for e in entries], dtype=np.int64),
            "pending/action": np.array([e[1] for e in entries], dtype=np.int64),
            "pending/phi": _stack([e[2] for e in entries], row_length(self._reward)),
            "pending/psi": _stack([e[3] for e in entries], row_length(self._cost)),
        }
        for name, array in self._reward.arrays().items():
            state[f"reward/{name}"] = array.copy()
        if self._cost is not None:
            for name, array in self._cost.arrays().items():
                state[f"cost/{name}"] = array.copy()
        if self._meter is not None:
            for name, array in self._meter.arrays().items():
                state[f"slater/{name}"] = array
        return state

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: Arrays) -> PessimisticOptimistic:
        """The policy that gave `settings` and `state`."""
        constraints = settings["constraints"]
        policy = cls(
            reward=model_from_settings(settings["reward"]),
            cost=None if settings["cost"] is None else model_from_settings(settings["cost"]),
            constraints=Rules.from_data(constraints["rules"], constraints["actions"])
            if isinstance(constraints, dict)
            else constraints,
            slater=settings["slater"],
            horizon=settings["horizon"],
            V=None if settings["V"] is None else schedules.Power(*settings["V"]),
            epsilon=None if settings["epsilon"] is None else schedules.Power(*settings["epsilon"]),
            cost_range=settings["cost_range"] if not isinstance(constraints, dict) and constraints else None,
            seed=settings["seed"],
        )
        policy._owner = int(settings["owner"])
        saved = kernels.core_views(policy._core).saved
        saved[:] = checked(arrays, "core", saved.dtype, saved.shape)
        policy._made = int(checked(arrays, "made", np.int64, (1,))[0])
        for prefix, model in (("reward", policy._reward), ("cost", policy._cost)):
            for name, array in model.arrays().items() if model is not None else ():
                array[...] = checked(arrays, f"{prefix}/{name}", array.dtype, array.shape)
        if policy._meter is not None:
            names = [name for name in arrays if name.startswith("slater/")]
            policy._meter = type(policy._meter).restore(
                policy._K, {name.removeprefix("slater/"): arrays[name] for name in names}
            )
        policy._restore_pending(settings["pending_groups"], arrays)
        return policy

    def _restore_pending(self, groups: list[Any] | None, arrays: Arrays) -> None:
        n, limit = len(arrays["pending/number"]), self._action_limit()
        numbers, awaits, actions = (
            checked(arrays, f"pending/{name}", np.int64, (n,)) for name in ("number", "awaits", "action")
        )
        phi = checked(arrays, "pending/phi", np.float64, (n, row_length(self._reward)))
        psi = checked(arrays, "pending/psi", np.float64, (n, row_length(self._cost)))
        if n and (actions.min() < 0 or (limit is not None and actions.max() >= limit)):
            raise ValueError(f"pending/action must lie in 0..{limit}, but found {actions.tolist()}")
        groups = [None] * n if groups is None else groups
        for i, number in enumerate(numbers.tolist()):
            self._pending[number] = (
                int(awaits[i]),
                int(actions[i]),
                phi[i].copy() if phi.shape[1] else None,
                psi[i].copy() if psi.shape[1] else None,
                tuple(groups[i]) if isinstance(groups[i], list) else groups[i],
            )

    def copy(self, seed: int | None = None) -> PessimisticOptimistic:
        """An independent policy in the same state; it takes this one's pending decisions by number alone."""
        twin = type(self).restore(self.settings(), self.state())
        twin._owner = secrets.randbits(63)
        if seed is not None:
            twin._settings["seed"] = whole_number("seed", seed)
            if twin._meter is not None:
                twin._meter.random = np.uint64(seed & 0xFFFFFFFFFFFFFFFF)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """For worker processes: what is saved is all there is."""
        return type(self).restore, (self.settings(), self.state())

    def __repr__(self) -> str:
        s = self._settings
        parts = [f"reward={self._reward!r}"]
        if self._cost is not None:
            parts.append(f"cost={self._cost!r}")
        parts.append(f"constraints={self._K}" if self.rules is None else f"constraints=<{self._K} rules>")
        parts += [f"{name}={s[name]!r}" for name in ("slater", "horizon") if s[name] is not None]
        parts += [
            f"{name}=Power({s[name][0]:g}, {s[name][1]:g})"
            for name in ("V", "epsilon")
            if s[name] is not None
        ]
        return f"PessimisticOptimistic({', '.join(parts)})"

    # One round, in two steps: what may be refused, then what changes the state

    def _prepare(
        self, features: Any, costs: Any, cost_features: Any, actions: Any, usage: Any, group: Any
    ) -> _Offer:
        K = self._K
        group = plain_group(group)
        if self._cost is not None and costs is not None and len(self._columns) == K:
            if cost_features is not None:
                raise InvalidInput(
                    "costs are seen after acting here: give the cost features once, not costs as well."
                )
            if isinstance(self._cost, ArmMeans):
                raise InvalidInput("costs are seen after acting here: give them to learn, not to decide.")
            costs, cost_features = None, costs
        if actions is None:
            ids = None
        else:
            ids = self._action_ids(actions)
            if not len(ids):
                raise InvalidInput("actions must name at least one action, but it is empty.")
        J = None if ids is None else len(ids)
        phi, J = feature_rows("features", features, self._reward, J)
        psi = None
        if self._cost is not None:
            psi, J = feature_rows("cost_features", cost_features, self._cost, J)
        elif cost_features is not None:
            raise InvalidInput(
                "cost_features are for a policy with cost=: costs are seen before acting here."
            )
        W = self._cost_matrix(costs, usage, group, ids, J)
        if ids is None:
            J = len(W)
            limit = self._action_limit()
            if limit is not None and limit != J:
                raise InvalidInput(
                    f"there are {limit} actions, but {J} rows came: say with actions= which they are."
                )
            ids = self._offer_of(J)[0]
        return _Offer(ids, phi, W, psi, group)

    def _offer_of(self, J: int) -> tuple[NDArray[np.int64], int]:
        offer = self._offers.get(J)
        if offer is None:
            offer = self._offers[J] = (np.arange(J), kernels.trace_size(J, self._K))
        return offer

    def _cost_matrix(self, costs: Any, usage: Any, group: Any, ids: Any, J: int | None) -> Array:
        """W (J, K); columns that are seen after acting hold nothing yet."""
        K, known = self._K, self._known_columns
        if usage is not None or group is not None:
            if self.rules is None:
                raise InvalidInput(
                    "usage and group need rules: make the policy with constraints=Rules([...])."
                )
            if costs is not None:
                raise InvalidInput("give costs, or usage and group, not both.")
        if costs is None and self.rules is not None:
            W = self.rules.costs(usage=usage, group=group, actions=ids)
            if J is not None and len(W) != J:
                raise InvalidInput(
                    f"there are {len(W)} actions, but {J} rows came: say with actions= which they are."
                )
            return W
        if not len(known) and (costs is None or K):
            if costs is not None:
                raise InvalidInput("no constraint is seen before acting here, so costs can't be given.")
            if J is None:
                raise InvalidInput("how many actions are on offer can't be told: give features or actions.")
            return np.empty((J, K))
        if costs is None:
            raise InvalidInput(
                f"costs of shape (J, {len(known)}) are needed: one row an action, one column a constraint."
            )
        shapes: list[tuple[int | None, ...]] = [(J, K)] if len(known) == K else [(J, len(known)), (J, K)]
        given = real_array("costs", costs, *shapes)
        if not len(given):
            raise InvalidInput("at least one action must be on offer, but costs has no row.")
        if len(known) == K:
            return given
        W = np.zeros((len(given), K))
        if given.shape[1] == K:
            W[:, known] = given[:, known]
        else:
            require_range("costs", given, -kernels.COST_LIMIT, kernels.COST_LIMIT)
            W[:, known] = given
        return W

    def _choose(self, offer: _Offer, core: Array) -> tuple[int, Array, Array | None]:
        """The row chosen, the numbers behind it and its φ; moves the queue in `core`, and nothing else."""
        ids, phi, W, psi, group = offer
        model, J = self._reward, len(offer.ids)
        if self._cost is not None:
            if psi is not None and not kernels.rows_are_valid(psi):
                self._check_values(offer)
            _optimistic_costs(self._cost, psi, ids, core, self._ranges, self._columns, W)
            if self.rules is not None:
                # Outside its group a rule's cost is known to be 0.
                W[:, self._columns[~self.rules.in_force(group)[self._columns]]] = 0.0
        trace = np.empty(kernels.trace_size(J, self._K))
        x = None
        if isinstance(model, ArmMeans):
            row = kernels.decide_arms(ids, W, model.counts, model.sums, model.stat, core, trace)
        else:
            x = np.empty(model.n_features)
            row = kernels.decide_ridge(phi, ids, W, self._flat, core, trace, x)
        if row < 0:
            self._check_values(offer)
            raise AssertionError("the kernel refused what the checks accept")  # pragma: no cover
        return row, trace, x

    def _commit(self, offer: _Offer) -> Decision:
        ids, _, W, psi, group = offer
        row, trace, x = self._choose(offer, self._core)
        self._find_ways()
        if self._meter is not None and self._meter.offer(W):
            self._core[kernels.V_SCALE] = self._unit_V.scale * self._meter.value
        return self._record(
            int(ids[row]),
            row,
            x,
            None if psi is None else psi[row if len(psi) > 1 else 0].copy(),
            group,
            ids,
            trace,
        )

    def _record(
        self,
        action: int,
        row: int,
        x: Array | None,
        z: Array | None,
        group: Any,
        ids: NDArray[np.int64],
        trace: Array | Callable[[], Array],
        shown: int | None = None,
    ) -> Decision:
        number = self._made
        self._made = number + 1
        self._pending[number] = (self._awaits, action, x, z, group)
        return Decision(action, row, number, self._owner, ids, trace, self._names, 1.0, shown)

    def _find_ways(self) -> None:
        """Open the short ways for the decisions to come."""
        if self._plain:
            self._before = costs_before(self._disjoint)
        elif self._plain_after:
            self._after = costs_after(self._disjoint, isinstance(self._cost, DisjointRidge))

    def _learn_shortly(self) -> None:
        """Open that of `learn` alone: the decision was made by code of its own, and none other need be compiled."""
        if self._plain and self._before is None:
            self._before = learning_only()

    def _decide_after(self, ways: ShortWays, phi: Any, psi: Any) -> Decision | None:
        """The short way where all costs are seen after acting; None where it is not open."""
        cost = self._cost
        if not (readable(phi) and readable(psi) and 0 < phi.ndim < 3 and 0 < psi.ndim < 3):
            return None
        J = len(phi) if phi.ndim == 2 else len(psi) if psi.ndim == 2 else self._n_blocks
        offer, decide = self._offers.get(J), ways.decide[3 * phi.ndim + psi.ndim]
        if (
            offer is None
            or decide is None
            or (psi.ndim == 2 and len(psi) != J)
            or not isinstance(cost, Linear)
        ):
            return None
        ids, size = offer
        trace, x, z = empty(size), empty(self._row_length), empty(cost.n_features)
        row = decide(
            phi, psi, ids, self._flat, cost.flat, self._ranges, self._columns, self._core, trace, x, z
        )
        if row < 0:
            return None
        number = self._made
        self._made = number + 1
        self._pending[number] = (AWAITS_REWARD | AWAITS_COSTS, row, x, z, None)
        return Decision(row, row, number, self._owner, ids, trace, self._names)

    def _learn_after(self, ways: ShortWays, decision: Any, reward: Any, costs: Any) -> bool:
        """The short way where all costs are seen after acting; whether it was open."""
        if type(decision) is not Decision or decision.owner != self._owner:
            return False
        pending, reward_model, cost = self._pending.get(decision.number), self._reward, self._cost
        if (
            pending is None
            or pending[0] != AWAITS_REWARD | AWAITS_COSTS
            or type(reward) is not float
            or reward - reward != 0.0
            or not readable(costs)
            or costs.ndim != 1
            or not isinstance(reward_model, Linear)
            or not isinstance(cost, Linear)
        ):
            return False
        g = pending[1] if self._disjoint else 0
        h = pending[1] if isinstance(cost, DisjointRidge) else 0
        due = ways.learn(
            g,
            h,
            pending[2],
            pending[3],
            reward,
            costs,
            self._flat,
            cost.flat,
            self._ranges,
            self._columns,
            self._core,
        )
        if due < 0:
            return False
        del self._pending[decision.number]
        if due & 1:
            refresh_ridge(reward_model, g)
        if due & 2:
            refresh_ridge(cost, h)
        return True

    def _decide_large(self, features: Any, costs: Any) -> Decision:
        """As `decide`, by `kernels.lazy_choice`: the same choice without most of the widths, or without a dense cost matrix."""
        model, core, K = self._reward, self._core, self._K
        if not isinstance(model, Ridge) or self._cost is not None:
            raise InvalidInput(
                "a Catalogue or SparseCosts need a Ridge reward model and costs that are seen before acting."
            )
        if isinstance(features, Catalogue):
            phi, columns = features.features, features.columns
            room = self._room_of(features)
        else:
            phi, columns = real_array("features", features, (None, model.n_features)), np.empty((0, 0))
            require_valid_rows("features", phi)
            if not len(phi):
                raise InvalidInput("at least one action must be on offer, but features has no row.")
            room = _Room(np.full(len(phi), math.sqrt(kernels.NORM_LIMIT / model.ridge)))
        shown = np.empty(kernels.SHOWN, dtype=np.int64)
        behind: Array | Callable[[], Array]
        if isinstance(costs, SparseCosts):
            row, n, behind = self._choose_sparsely(phi, columns, costs, room, shown)
        else:
            if is_plain(costs) and costs.ndim == 2:
                W = costs
            elif costs is None and not K:
                W = np.empty((len(phi), 0))
            else:
                W = real_array("costs", costs, (len(phi), K))
            trace = np.empty(kernels.trace_size(kernels.SHOWN, K))
            row, n = kernels.decide_lazily(
                phi, columns, W, self._flat, core, room.scores, room.fresh, shown, trace
            )
            if row < 0:
                real_array("costs", W, (len(phi), K))
                require_range("costs", W, -kernels.COST_LIMIT, kernels.COST_LIMIT)
            if self._meter is not None and self._meter.offer(W):
                core[kernels.V_SCALE] = self._unit_V.scale * self._meter.value
            behind = trace[: kernels.trace_size(n, K)]
        self._learn_shortly()
        return self._record(row, row, phi[row].copy(), None, None, shown[:n], behind, shown=0)

    def _room_of(self, catalogue: Catalogue) -> _Room:
        last, room = self._last_room
        if catalogue is last and room is not None:
            return room
        model = self._reward
        if isinstance(model, ArmMeans) or catalogue.features.shape[1] != model.n_features:
            raise InvalidInput(
                f"the catalogue must have {row_length(model)} features, but has {catalogue.features.shape[1]}."
            )
        room = self._rooms.get(catalogue)
        if room is None:
            room = self._rooms[catalogue] = _Room(catalogue.norms / math.sqrt(model.ridge))
        self._last_room = (catalogue, room)
        return room

    def _choose_sparsely(
        self, phi: Array, columns: Array, costs: SparseCosts, room: _Room, shown: NDArray[np.int64]
    ) -> tuple[int, int, Callable[[], Array]]:
        core, K = self._core, self._K
        if self._meter is not None:
            raise InvalidInput(
                "slater=None can't be measured on SparseCosts: give slater=, or V= (V_t is all that needs it)."
            )
        if costs.shape != (len(phi), K):
            raise InvalidInput(f"costs must have shape ({len(phi)}, {K}), but got {costs.shape}.")
        before, numbers = np.empty(K), np.empty(kernels.trace_size(kernels.SHOWN, 0))
        row, n = kernels.decide_sparsely(
            phi,
            columns,
            costs.offsets,
            costs.indices,
            costs.data,
            costs.limits,
            self._flat,
            core,
            room.scores,
            room.fresh,
            shown,
            numbers,
            before,
            np.empty(2 * costs.most_entries),
        )

        return row, n, partial(_sparse_trace, costs, shown[:n], numbers[: kernels.trace_size(n, 0)], before)

    def _check_values(self, offer: _Offer) -> None:
        """Name the entry that is wrong."""
        for name, rows in (("features", offer.phi), ("cost_features", offer.psi)):
            if rows is not None:
                require_valid_rows(name, rows)
        known = self._known_columns
        bad = ~(np.abs(offer.W[:, known]) <= kernels.COST_LIMIT)
        if bad.any():
            j, i = first(bad)
            raise InvalidInput(
                f"costs[{j}, {known[i]}] must lie in [-1, 1], but got {offer.W[j, known[i]]:g}."
            )

    def _action_ids(self, actions: Any) -> NDArray[np.int64]:
        ids = self._known_ids(actions)
        if len(np.unique(ids)) != len(ids):
            raise InvalidInput(f"actions must name each action once, but got {list(actions)!r}.")
        return ids

    def _logged_ids(self, actions: Any, n: int) -> list[int]:
        if actions is None:
            if any(isinstance(model, (DisjointRidge, ArmMeans)) for model in (self._reward, self._cost)):
                raise InvalidInput("actions are needed: the models tell actions apart.")
            return [0] * n
        ids: list[int] = self._known_ids(actions).tolist()
        if len(ids) != n:
            raise InvalidInput(f"actions must have one entry for each of {n} rewards, but got {len(ids)}.")
        return ids

    def _known_ids(self, actions: Any) -> NDArray[np.int64]:
        if isinstance(actions, (str, bytes)) or not (
            isinstance(actions, Sequence) or (isinstance(actions, np.ndarray) and actions.ndim == 1)
        ):
            raise InvalidInput(f"actions must be a sequence of action ids, but got {actions!r}.")
        names = self._names[0]
        ids = np.empty(len(actions), dtype=np.int64)
        for i, action in enumerate(actions):
            if isinstance(action, str):
                if names is None or action not in names:
                    known = (
                        "no rules name actions here"
                        if names is None
                        else f"known: {', '.join(map(str, names))}"
                    )
                    raise InvalidInput(f"actions[{i}] is the unknown name {action!r}; {known}.")
                ids[i] = names.index(action)
            else:
                ids[i] = whole_number(f"actions[{i}]", action, high=2**63 - 1)
        limit = self._action_limit()
        if limit is not None and len(ids) and ids.max() >= limit:
            i = int(np.argmax(ids >= limit))
            raise InvalidInput(
                f"actions[{i}] must be below {limit}, the number of actions, but got {ids[i]}."
            )
        return ids

    def _action_limit(self) -> int | None:
        for owner in (self._reward, self._cost):
            if isinstance(owner, (DisjointRidge, ArmMeans)):
                return owner.n_actions
        return None if self.rules is None else len(self.rules.actions)

    def _find(self, decision: Decision | int) -> tuple[int, _Pending]:
        if isinstance(decision, Decision):
            if decision.owner == NOBODY:
                raise InvalidInput(
                    "decision was proposed, not made: only what `decide` returns has an outcome."
                )
            if decision.owner != self._owner:
                raise InvalidInput(f"decision {decision.number} was made by another policy.")
            number = decision.number
        else:
            number = whole_number("decision must be a Decision or its number, which", decision)
        pending = self._pending.get(number)
        if pending is None:
            if number >= self._made:
                raise InvalidInput(
                    f"decision {number} was never made: this policy has made {self._made}, from number 0."
                )
            raise InvalidInput(f"decision {number} has had its whole outcome already, or was forgotten.")
        return number, pending

    def _observed_costs(self, costs: Any, pending: _Pending) -> Array:
        if isinstance(costs, Mapping):
            if self.rules is None:
                raise InvalidInput(
                    "costs by usage name need rules: make the policy with constraints=Rules([...])."
                )
            costs = self.rules.observed(costs, action=pending[1], group=pending[4])
        n = len(self._columns)
        w = real_array("costs", costs, (n,), *([()] if n == 1 else [])).reshape(n)
        return self._costs_in_range(w)

    def _costs_in_range(self, w: Array) -> Array:
        require_range(
            "costs", w, self._ranges[:, 0] - kernels.COST_ROUNDING, self._ranges[:, 1] + kernels.COST_ROUNDING
        )
        return w


def LinUCB(reward: Model, *, horizon: int | None = None) -> PessimisticOptimistic:
    """LinUCB (Abbasi-Yadkori, Pál, Szepesvári 2011): the pessimistic-optimistic policy without constraints.

    >>> import tightrope as tr
    >>> policy = tr.LinUCB(tr.Ridge(2), horizon=100)
    >>> policy.decide([[1.0, 0.0], [0.0, 1.0]]).action
    0
    """
    return PessimisticOptimistic(reward=reward, constraints=0, horizon=horizon)


def _scaled(schedule: schedules.Schedule, factor: float) -> schedules.Schedule:
    return schedules.Schedule(schedule.scale * factor, schedule.exponent, schedule.log_power)


def _optimistic_costs(
    model: Model,
    psi: Array | None,
    ids: NDArray[np.int64],
    core: Array,
    ranges: Array,
    columns: Any,
    W: Array,
) -> None:
    if isinstance(model, ArmMeans):
        kernels.optimistic_costs_arms(
            ids, model.counts, model.sums, model.stat, core, ranges, columns, W.reshape(-1), W.shape[1]
        )
    elif psi is not None:
        one_row = len(psi) < len(ids)
        kernels.optimistic_costs_ridge(
            model.flat, psi.reshape(-1), 0, one_row, ids, core, ranges, columns, W.reshape(-1), W.shape[1]
        )


def _learn(model: Model, action: int, x: Array | None, y: Array) -> None:
    if isinstance(model, ArmMeans):
        kernels.arms_learn(action, y, model.counts, model.sums, model.stat)
    elif x is not None:
        learn_ridge(model, action if isinstance(model, DisjointRidge) else 0, x, y)


def _sparse_trace(costs: SparseCosts, rows: NDArray[np.int64], numbers: Array, Q: Array) -> Array:
    """The numbers behind a decision with sparse costs, made dense only when they are asked for."""
    seen = kernels.trace_views(numbers, len(rows))
    W = (costs.row(j) for j in rows.tolist())
    return np.concatenate([seen.rewards, seen.values, *W, Q, [seen.V, seen.epsilon]])


def carry_state(was: Array, names: Sequence[str], fresh: Array, new_names: Sequence[str]) -> Array:
    """The array "core" of a fresh policy's state, with the rounds, queues and cumulative costs of another, by constraint."""
    carried = fresh.copy()
    carried[kernels.ROUNDS] = was[kernels.ROUNDS]
    old, new = kernels.core_views(was), kernels.core_views(carried)
    for k, name in enumerate(new_names):
        if name in names:
            new.queue[k], new.totals[k] = (part[names.index(name)] for part in (old.queue, old.totals))
    return carried


def _stack(rows: list[Array | None], width: int) -> Array:
    return np.stack([r for r in rows if r is not None]) if rows and width else np.empty((len(rows), width))
