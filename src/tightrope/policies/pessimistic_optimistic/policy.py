"""The policy: each round in two steps, first everything that can fail, then everything that changes the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels, schedules
from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.concerns import Concern
from tightrope.errors import InvalidInput
from tightrope.ledger.totals import Totals
from tightrope.models import Model, hooks
from tightrope.models.background import BackgroundWork
from tightrope.offer import Offer
from tightrope.policies.constrained import Constrained
from tightrope.policies.constraints import read_constraints, unit_ranges
from tightrope.policies.decision import Decision, Labels, Quote
from tightrope.policies.pending import Pending
from tightrope.policies.pessimistic_optimistic import concerns, estimates
from tightrope.policies.pessimistic_optimistic.catalogue import LazyChoices
from tightrope.policies.pessimistic_optimistic.concerns import Standing
from tightrope.policies.pessimistic_optimistic.fast_path import RidgePath
from tightrope.policies.pessimistic_optimistic.slater import random_state, slater_meter
from tightrope.policies.policy import Policy
from tightrope.policies.registry import register
from tightrope.policies.sizing import read_context
from tightrope.policies.state_file import Arrays, part_of
from tightrope.policies.warm_start import encoded, read_log, require_in_ranges
from tightrope.policies.watch import constraint_words
from tightrope.problem import Seen
from tightrope.rules import Rules
from tightrope.validation import (
    Array,
    finite_number,
    is_plain,
    require_choice,
    whole_number,
)

if TYPE_CHECKING:
    from tightrope.encoder import Encoder

Tightening = Literal["paper", "capped"]

ndarray, empty = np.ndarray, np.empty  # looked up in every round


class CompiledState(NamedTuple):
    """What an engine runs on: models, the ranges and columns of the costs seen after acting, and the core."""

    reward: Any
    cost: Any
    ranges: Array
    columns: NDArray[np.int64]
    core: Array


@register("pessimistic-optimistic")
class PessimisticOptimistic(Constrained):
    """Maximise reward while every expected cumulative cost ends up at or below 0 (`docs/bounds.md` says from which round on).

    Before that round, totals may be above 0 for a long time, and `concerns` says so.

    Each round it picks the action with the highest r̂ − (1/V_t) Σ_k W_k Q_k: r̂ is LinUCB's optimistic reward, and Q has a virtual
    queue for each constraint, which grows by the cost of the chosen action plus ε_t. Costs are seen before acting
    (algorithm A), or learnt by a linear model from those seen after acting (algorithm B: pass `cost`), or some of
    each (rules with `seen="after"`).

    Parameters
    ----------
    constraints : int, Rules, or a sequence of "before" and "after"
        K; or rules in words, which also state ranges, names and when costs are seen; or "before" or "after" for each constraint.
    reward : Model or str
        Model of the reward, or the name of one, such as "linear"; sizes that you leave out come from the rules and the first
        context. The policy works on a copy, so you can pass a trained model as a warm start.
    cost : Model or str, optional
        Model of the costs that are seen after acting, if there are any; "linear" by default.
    context : Encoder, or sequence of names; optional
        Turns contexts that are table rows into numbers, as for `ShadowPrice`.
    slater : float, optional
        δ in (0, 1]: some mixture of actions keeps every expected cost at or below −δ. With None, it is measured from the costs
        seen so far (see `docs/no-constants.md`); this is refused if V needs δ and costs are seen only after acting.
    horizon : int, optional
        T in the formulas. With None the policy runs for ever, with T := t.
    V, epsilon : Power, optional
        Schedules V_t and ε_t; by default the paper's for your setting.
    tightening : "paper" or "capped"
        "paper" is the algorithm as published. "capped" uses min(ε_t, δ/2) instead of ε_t, and max(0, r̂) instead of r̂: until
        ε_t ≤ δ no mixture of actions can meet what the published one asks for, and its queues favour one rule at another's expense.
        Use it for costs seen before acting: if costs are learnt, a large ε_t makes up for optimistic estimates. `docs/bounds.md`
        says what is proved about it.
    cost_range : pair or (K, 2), optional
        The known range of the costs; clips the estimates of costs seen after acting. Rules set it themselves.
    seed : int
        Seed of the sample on which δ is measured.

    Examples
    --------
    Two actions; the better one costs 0.5 per round, the other gives 0.5 back.

    >>> import tightrope as tr
    >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=1000)
    >>> for _ in range(1000):
    ...     decision = policy.decide(costs=[[0.5], [-0.5]])
    ...     policy.learn(decision, reward=(0.9, 0.2)[decision.action])
    >>> bool(policy.totals[0] <= 0)
    True
    """

    _loop: ClassVar[str | None] = "pessimistic-optimistic"
    _reward: Any

    def __init__(
        self,
        constraints: int | Rules | Sequence[Seen] = 0,
        reward: Model | str = "linear",
        cost: Model | str | None = None,
        *,
        context: Encoder | Sequence[str] | None = None,
        slater: float | None = None,
        horizon: int | None = None,
        V: schedules.Power | None = None,
        epsilon: schedules.Power | None = None,
        tightening: Tightening = "paper",
        cost_range: Any = None,
        seed: int = 0,
    ) -> None:
        self.rules, self._n_constraints, self._seen, known = read_constraints(constraints, cost)
        K = self._n_constraints
        V, epsilon = (schedules.Power(*one) if isinstance(one, list) else one for one in (V, epsilon))
        require_choice("tightening", tightening, get_args(Tightening))
        after = np.flatnonzero(~known)
        ranges = unit_ranges(K, self.rules, cost_range)
        self._given = {
            "slater": None
            if slater is None
            else finite_number("slater", slater, low=0.0, high=1.0, open_low=True),
            "horizon": None if horizon is None else whole_number("horizon", horizon, low=1, high=2**53),
            "V": schedules.as_data("V", V),
            "epsilon": schedules.as_data("epsilon", epsilon),
            "tightening": tightening,
            "cost_range": ranges.tolist(),
            "seed": whole_number("seed", seed),
        }
        self.context = read_context(context)
        rewards, costs = self._read_models(reward, cost, len(after))
        self._reward = rewards and hooks.with_outputs(rewards, 1)
        self._cost = costs and hooks.with_outputs(costs, len(after))
        self._read_by(self.rules, known, any_unit=False)
        self._begin()

        d = max([1, *(hooks.dimension(model) for model in self._models_of_its_own())])
        self._unit_V, paper_epsilon = schedules.linear_costs(K, d) if len(after) else schedules.known_costs(K)
        eps = paper_epsilon if epsilon is None else schedules.as_schedule("epsilon", epsilon)
        self._delta = slater
        self._capped = tightening == "capped"
        self._meter = slater_meter(
            slater, V, self._capped, K, len(after), self._given["seed"], self._use_measured
        )
        if V is not None or K == 0:
            V_t = self._unit_V if V is None else schedules.as_schedule("V", V)
        else:
            V_t = self._unit_V.times(self.slater or 0.0)

        self._core = kernels.new_core(
            K, max(self._kept_lengths()), horizon or 0.0, astuple(V_t), astuple(eps), known
        )
        self._ledger = Totals.on(kernels.core_views(self._core).totals)
        self._set_limits()
        self._ranges = np.ascontiguousarray(ranges[after])
        self._shift = np.zeros(len(after))  # see `_set_shift`
        self._outside = concerns.OutsideRewards()
        # Compiled code for plain arrays, from the first decision on.
        self._fast: RidgePath | None = None
        self._lazy: LazyChoices | None = None
        self._labels = Labels(self._input.names, getattr(self.rules, "names", None), estimates.unpack_trace)

    # What the policy knows

    @property
    def queue(self) -> Array:
        """The dual variables Q, (K,), a copy."""
        Q: Array = kernels.core_views(self._core).queue
        return Q.copy()

    def _dual(self) -> Array:
        return self.queue

    @property
    def slater(self) -> float | None:
        """δ as given, or as measured so far; None if V does not depend on it."""
        return self._meter.value if self._meter is not None else self._delta

    def _compiled_state(self) -> CompiledState:
        return CompiledState(self._reward, self._cost, self._ranges, self._input.columns, self._core)

    def _compiles(self) -> bool:
        """Whether a whole run can be compiled: not if δ is measured, which needs an LP, or if a model has no kernels."""
        models = (hooks.compiled(self._reward), "none" if self._cost is None else hooks.compiled(self._cost))
        plain = self._meter is None and self._input.registry.whole
        return plain and None not in models and not self._shift.any()

    def _own_concerns(self) -> list[Concern]:
        at = self._standing()
        return [*concerns.tightening(at), *concerns.clipped(at), *concerns.norms(at)]

    def concerns(self) -> list[Concern]:
        """The concerns of every policy, and rewards outside [0, 1]."""
        return [*Constrained.concerns(self), *self._outside.concerns()]

    def _remedy_of_totals(self, constraints: Sequence[int]) -> str:
        return concerns.remedy_of_totals(self._standing())

    # Decide

    def _decide_with_care(self, *given: Any) -> Decision:
        features, costs, *rest = given
        if not isinstance(features, Catalogue) and not isinstance(costs, SparseCosts):
            return self._decide(self._take_offer(*given))
        if any(one is not None for one in rest):
            raise InvalidInput("with a Catalogue or SparseCosts, decide() takes only features and costs.")
        return self._decide_lazily(features, costs)

    def _decide_at_once(self, given: Mapping[str, Any]) -> list[Decision] | None:
        features, costs, *rest = given.values()
        if (
            self._meter is not None
            or self._cost is not None
            or not self._input.registry.whole
            or not (is_plain(features) and is_plain(costs))
            or not features.ndim == costs.ndim == 3
            or len(features) != len(costs)
            or any(value is not None for value in rest)
            or self._reward is None
            or self._reward.n_actions is not None
            or (fast := self._fast_path()) is None
        ):
            return None
        if self._pending.made >= self._look_at:
            self._look()
        return fast.decide_many(features, costs)

    # Learn

    def learn(
        self,
        decision: Decision | int,
        reward: Any = None,
        costs: Any = None,
        *,
        usage: Mapping[str, Any] | None = None,
    ) -> None:
        fast = self._fast
        if fast is None or not fast.learn(decision, reward, costs, usage):
            self._learn_parts(decision, reward, costs, usage)
        if reward is not None and not 0.0 <= reward <= 1.0:
            self._note_outside(reward)

    def _learn_costs(self, pending: Pending, costs: Array) -> None:
        shift = self._shift
        if self._rule_costs is not None and shift.any():
            # If a rule is not in force, nothing is shifted.
            shift = shift.copy()
            shift[self._rule_costs.force(pending[4]).unseen] = 0.0
        self._cost.learn(pending[3], np.asarray(costs - shift), pending[1])

    def _book_costs(self, costs: Array) -> None:
        self._ledger.book(costs, self._input.columns)

    def _observed_costs(self, costs: Any, usage: Any, action: int, group: Any) -> Array:
        return require_in_ranges(self._input.observed(costs, usage, action, group), self._ranges)

    def warm_start(
        self,
        features: Any,
        actions: Any,
        rewards: Any,
        costs: Any = None,
        *,
        cost_features: Any = None,
        usage: Mapping[str, Any] | None = None,
        group: Any = None,
        encoder: Encoder | None = None,
    ) -> None:
        """Train the models on logged decisions before this policy goes live; t, the queue and the totals do not change.

        Any policy may have written the log if its choices depended only on what the features show. All rows are checked first.
        The arguments are those of `ShadowPrice.warm_start`, in the paper's units.

        Examples
        --------
        >>> import tightrope as tr
        >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=100)
        >>> policy.warm_start(None, [0, 1, 1], [0.0, 1.0, 1.0])
        >>> policy.hooks.reward_model().means(), policy.queue, policy.rounds
        (array([0., 1.]), array([0.]), 0)
        """
        features, cost_features, _ = encoded(encoder, features, cost_features)
        self._size_by_log(features, cost_features)
        given = features, actions, rewards, costs, cost_features, usage, group
        log = read_log(self._input, self._reward, self._cost, self._ranges, *given)
        self._pending.version += 1
        log.learn(self._reward, self._cost)
        self._note_outside(log.rewards)

    def _own_background(self) -> list[BackgroundWork]:
        """The measurement of δ.

        >>> import tightrope as tr
        >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1)
        >>> [meter] = policy.hooks.background()
        >>> meter.deferred = True
        >>> decision = policy.decide(costs=[[0.5], [-0.25]])
        >>> policy.slater
        0.001
        >>> meter.take(meter.due()())
        >>> policy.slater
        0.25
        """
        return [] if self._meter is None else [self._meter]

    def _forget_more(self, numbers: Collection[int]) -> None:
        if self._meter is not None:
            self._meter.forget({*numbers})

    # Save, restore, go on

    def _arrays(self) -> Arrays:
        return {"core": kernels.core_views(self._core).saved}

    def _more_state(self) -> Arrays:
        meter = {} if self._meter is None else self._meter.arrays()
        moved = {"shift": self._shift.copy()} if self._shift.any() else {}
        return {f"slater/{name}": array for name, array in meter.items()} | moved

    def _load_more(self, arrays: Arrays) -> None:
        if self._meter is not None:
            self._meter.load(part_of(arrays, "slater/"))
        self._set_shift(arrays.get("shift", np.zeros_like(self._shift)))
        self._use_measured()

    def _state_for(self, seed: int | None) -> Arrays:
        state = self._state()
        if seed is not None and self._meter is not None:
            state["slater/random"] = random_state(seed)
        return state

    def _resume(self, old: Policy, *, same_costs: bool, shifts: Array | None = None) -> None:
        then, state = old.hooks, old.hooks.state()
        measured = same_costs and self._meter is not None and "slater/numbers" in state
        self._go_on(then, ("slater/",) if measured else ())
        theirs = self._names_of_constraints(then)
        kernels.carry_over(then.compiled_state().core, theirs, self._core, self._input.constraints)
        shift = state.get("shift", np.zeros_like(self._shift))
        self._set_shift(shift if shifts is None else shift + shifts)
        self._use_measured()

    def __repr__(self) -> str:
        given = {name: value for name, value in self._given.items() if value is not None}
        shown = [f"{name}={given[name]!r}" for name in ("slater", "horizon") if name in given]
        powers = [(name, *given[name][:2]) for name in ("V", "epsilon") if name in given]
        shown += [f"{name}=Power({scale:g}, {exponent:g})" for name, scale, exponent in powers]
        return self._shown(*shown, *["tightening='capped'"] * self._capped)

    # One round

    def _checked_offer(self, **given: Any) -> Offer:
        offer = self._offer(**given)
        self._require_valid(offer)
        return offer

    def _require_valid(self, offer: Offer) -> None:
        estimates.require_valid(offer, self._reward, self._cost, self._input.known_columns)

    def _choose_by(self, offer: Offer, core: Array) -> tuple[int, Array, Array | None]:
        """The row chosen, its numbers and its φ; moves the queue in `core`, and nothing else."""
        ids, W, psi, group = offer.ids, offer.W, offer.psi, offer.group
        if self._cost is not None:
            if psi is not None and not kernels.rows_are_valid(psi):
                self._require_valid(offer)
            shift, columns = self._shift, self._input.columns
            ranges = self._ranges - shift[:, None]
            estimates.optimistic_costs(self._cost, psi, ids, core, ranges, columns, W)
            W[:, columns] += shift
            if self._rule_costs is not None:
                # A rule's cost is known to be 0 outside its group.
                W[:, self._rule_costs.force(group).idle] = 0.0
        trace = np.empty(kernels.trace_size(len(ids), self._n_constraints))
        x = np.empty(self._reward.n_features) if self._reward.n_features else None
        row = estimates.optimistic_choice(self._reward, offer, core, trace, x)
        if row < 0:
            self._require_valid(offer)
            raise AssertionError("the kernel refused what the checks accept")  # pragma: no cover
        return row, trace, x

    def _weigh(self, offer: Offer) -> Quote:
        offer = self._fitting(offer)
        row, trace, _ = self._choose_by(offer, self._core.copy())
        return Quote(offer, self._decided(offer, row, trace), self._pending.owner)

    def _decide(self, offer: Offer, forced: int | None = None) -> Decision:
        offer = self._fitting(offer)
        if forced is not None:
            # The queue moves by this row's cost, as if nothing else were on offer.
            offer = offer.only([forced])
        psi = offer.psi
        row, trace, x = self._choose_by(offer, self._core)
        if (fast := self._fast_path()) is not None:
            fast.open_for(len(offer.ids))
        self._measure(offer.W, self._pending.made)
        z = None if psi is None else psi[row if len(psi) > 1 else 0].copy()
        return self._decided(offer, row, trace, (x, z))

    def _decide_lazily(self, features: Any, costs: Any) -> Decision:
        if (
            hooks.compiled(self._reward) != "ridge"
            or self._reward.n_actions is not None
            or self._cost is not None
        ):
            raise InvalidInput(
                "a Catalogue or SparseCosts need a Ridge reward model and costs that are seen before acting."
            )
        if self._windows is not None:
            raise InvalidInput("a Catalogue or SparseCosts can't be combined with limits per window.")
        if isinstance(costs, SparseCosts) and self._meter is not None:
            raise InvalidInput(
                "slater=None can't be measured on SparseCosts: give slater=, or V= (V_t is all that needs it)."
            )
        if self._lazy is None:
            self._lazy = LazyChoices(self._reward, self._n_constraints)
        row, x, shown, behind, W = self._lazy.choose(features, costs, self._core)
        if W is not None:
            self._measure(W, self._pending.made)
        self._fast_path()
        version, owner = self._pending.version, self._pending.owner
        number = self._pending.add(self._awaits, row, x)
        return Decision(row, row, number, owner, version, shown, behind, self._labels, None, True, 0)

    def _measure(self, W: Array, number: int) -> None:
        if self._meter is not None:
            self._meter.offer(W, number)

    def _use_measured(self) -> None:
        if self._meter is not None and self._given["V"] is None:
            self._core[kernels.V_SCALE] = self._unit_V.scale * self._meter.value
        self._set_limits()

    def _set_limits(self) -> None:
        if self._capped:
            kernels.core_views(self._core).limits[:] = schedules.cap(self.slater or 0.0), 0.0

    def _fast_path(self) -> RidgePath | None:
        """Compiled code for the next rounds, if there is any: it can't handle a shift."""
        if self._windows is not None:
            return None
        if self._fast is None and RidgePath.fits(self._reward, self._cost) and not self._shift.any():
            measure = None if self._meter is None else self._meter.offer
            kept = self._reward, self._cost, self._core, self._ranges, self._pending
            self._fast = RidgePath(*kept, self._input, self._labels, measure)
        return self._fast

    def _set_shift(self, shift: Array) -> None:
        """Costs seen after acting are larger by this much than the model learns them, (K_after,).

        A ridge model can't restate what it learnt under another limit: it continues with costs as they were at the start, and
        the policy adds the shift to its predictions.
        """
        self._shift, self._fast = shift, None

    def _note_outside(self, rewards: Any) -> None:
        if self._outside.note(rewards, hooks.n_learnt(self._reward)):
            self._watch.tell(self, self._outside.concerns())

    def _standing(self) -> Standing:
        ranges = np.array(self._given["cost_range"]).reshape(self._n_constraints, 2)
        words, horizon = constraint_words(self.rules, self._n_constraints), self._given["horizon"]
        models = self._reward, self._cost
        return Standing(self.rounds, words, self._core, horizon, ranges, *models, self._capped, self.slater)
