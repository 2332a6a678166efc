"""The policy: one round in two steps, what may be refused, then what changes the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope.concerns import Concern
from tightrope.errors import InvalidInput
from tightrope.kernels import shadow, standardised
from tightrope.models import Model
from tightrope.policies.constrained import Constrained
from tightrope.policies.decision import NOBODY, Decision, Labels
from tightrope.policies.input import encoded, read_constraints
from tightrope.policies.offer import Offer, plain_group
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, Pending, PendingDecisions
from tightrope.policies.plain_values import READABLE, as_array, as_float
from tightrope.policies.policy import Choice, Policy
from tightrope.policies.registry import register
from tightrope.policies.shadow_price import concerns, conflict, fast_path, limits, prices, without_rules
from tightrope.policies.shadow_price.explain import MOST_ACTIONS, choice_probabilities, parts, unpack_trace
from tightrope.policies.shadow_price.input import PriceInput, finite_ranges
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory, remembered
from tightrope.policies.shadow_price.predict import Predictions, Rewards
from tightrope.policies.shadow_price.sampling import follow_member, sampling_for, weigh_gaps
from tightrope.policies.shadow_price.solve import PriceSolve
from tightrope.policies.sizing import read_context
from tightrope.policies.state_file import Arrays
from tightrope.policies.watch import LOOK_EVERY, Watch
from tightrope.problem import Seen
from tightrope.rules import Rules, Units
from tightrope.validation import FLOAT, LARGEST, Array, finite_number, whole_number

if TYPE_CHECKING:
    from tightrope.encoder import Encoder

ndarray, empty = np.ndarray, np.empty  # looked up in every round
_NONE = np.empty(0)


@register("shadow-price")
class ShadowPrice(Constrained):
    """Maximise reward under rules on running totals, with nothing to set.

    Every rule has a price: the reward that one more unit of its limit would earn. It comes from the dual of the allocation program
    on remembered rounds, solved anew whenever the number of rounds has doubled, and is corrected in every round by the running
    total. An action's value is its estimated reward less the prices of its costs, drawn from its posterior (Thompson sampling), and
    the highest is chosen. `docs/shadow-price.md` has the formulas, and what was measured. Nothing is promised beyond what
    `guarantees` says: that totals stay at or below zero is measured, not proved, unless `guard` is on and every round offers an
    action that breaks no rule.

    Costs may be seen before acting, after (give `cost`), or some each way (rules with `seen="after"`). Features, rewards and costs
    come in any unit.

    Parameters
    ----------
    constraints : int, Rules, or a sequence of "before" and "after"
        K; or rules in words, which also state names, ranges and what is seen when; or for each constraint when its cost is seen.
    reward : Model or str
        Model of the reward, or the name of one: "linear", "logistic", "auto", …. Sizes that were not typed come from the rules
        (actions) and from the first context or the encoder (features). Of `Ridge`, `DisjointRidge` and `ArmMeans` only the size
        counts, not `bonus`, `m` and `ridge`.
    cost : Model or str, optional
        Model of the costs that are seen after acting, where there are any; "linear" by default.
    context : Encoder, or sequence of names; optional
        What makes numbers of contexts that are rows of a table. Without it a row must have nothing but numbers, in the order of
        these names, or of the first row.
    explore : float
        Standard deviations of the draws, as a part of the posterior's; less earns more as a rule, and may miss the best for good.
    caution : float
        How many of their standard deviations totals are kept below zero.
    memory : int
        Rounds that are remembered for the prices.
    guard : bool
        Never let a total whose cost is known beforehand rise above zero where some action avoids it; else take the least excess.
    seed : int
        Of the draws.
    cost_range : pair or (K, 2), optional
        What costs seen after acting lie in, where that is known: it says how uncertain they are before any was seen.
    sampling : "normal", "members" or "gaps", optional
        How actions are drawn: from normal laws, by following one of the reward model's members, or by inverse gap weighting. By
        default as the reward model says.
    half_life : float, optional
        Rounds after which what is remembered for the prices counts half; for worlds that change.

    Examples
    --------
    Rules are all that it must be told.

    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Capacity("icu", at_most=0.2)], actions=["icu", "surgery", "other"])
    >>> policy = tr.ShadowPrice(rules)
    >>> decision = policy.decide({"age": 41.0, "fever": 38.5})
    >>> policy.learn(decision, reward=1.0)

    Two actions; the better one costs 5 a round, the other gives 5 back.

    >>> import tightrope as tr
    >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
    >>> for _ in range(1000):
    ...     decision = policy.decide(costs=[[5.0], [-5.0]])
    ...     policy.learn(decision, reward=(90.0, 20.0)[decision.action])
    >>> bool(policy.totals[0] <= 0), policy.prices.round(0)
    (True, array([7.]))
    """

    loop: ClassVar[str | None] = "shadow-price"
    asks_for_group: ClassVar[bool] = True
    randomised: ClassVar[bool] = True
    reward_range: ClassVar[tuple[float, float] | None] = (-LARGEST, LARGEST)

    def __init__(
        self,
        constraints: int | Rules | Sequence[Seen] = 0,
        reward: Model | str = "linear",
        cost: Model | str | None = None,
        *,
        context: Encoder | Sequence[str] | None = None,
        explore: float = 1.0,
        caution: float = 3.0,
        memory: int = 2048,
        guard: bool = False,
        seed: int = 0,
        cost_range: Any = None,
        sampling: str | None = None,
        half_life: float | None = None,
    ) -> None:
        self.rules, self.n_constraints, self._seen, known = read_constraints(constraints, cost)
        K = self.n_constraints
        self._columns = after = np.flatnonzero(~known).astype(np.int64)
        self.explore = finite_number("explore", explore, low=0.0)
        self.caution = finite_number("caution", caution, low=0.0)
        self.memory = whole_number("memory", memory, low=1)
        self.guard = bool(guard)
        self.seed = whole_number("seed", seed)
        self.half_life = (
            None if half_life is None else finite_number("half_life", half_life, low=0.0, open_low=True)
        )
        ranges = finite_ranges(K, self.rules, cost_range)
        self.cost_range = None if ranges is None else ranges.tolist()
        prior = np.zeros(len(after)) if ranges is None else (ranges[after, 1] - ranges[after, 0]) / 2.0
        self.context = read_context(context)
        rewards, costs = self._read_models(reward, cost, len(after))
        self._reward = rewards and rewards.standardised(1, centred=True, prior=0.0)
        self._cost = costs and costs.standardised(len(after), centred=False, prior=prior)
        self._input = PriceInput(self._reward, self._cost, self.rules, K, known)
        self._rule_costs = self._input.rule_costs
        self.n_actions = self._input.n_actions
        self.sampling = sampling
        self._sampling = sampling_for(sampling, self._reward)
        self._core = shadow.new_core(
            K, self.explore, self.caution, self.memory, self.guard, known, self.half_life
        )
        # See `prices.work`.
        self._refits = np.zeros(3)
        self._awaits = AWAITS_REWARD | (AWAITS_COSTS if len(after) else 0)
        # Set here, for what fills an object's `__dict__` from outside slows every access to its attributes.
        self._pending = self.decisions = PendingDecisions()
        self._watch, self._look_at = Watch(K), LOOK_EVERY
        self._memory = RoundMemory()
        self._solve: PriceSolve | None = None
        self._seed = np.uint64(self.seed)
        self._disjoint = getattr(self._reward, "n_actions", None) is not None
        self._compiled = (
            self._sampling == "normal"
            and self._reward is not None
            and self._reward.compiled == "standardised"
            and (self._cost is None or self._cost.compiled == "standardised")
        )
        self._row_work = prices.work_of_a_row(self._reward, self._cost, self._compiled)
        # By the number of actions, all on offer: their ids, how many numbers are behind a decision, room for it and for costs.
        self._offers: dict[int, tuple[NDArray[np.int64], int, Array, Array]] = {}
        # Compiled code for plain arrays, looked up with the first decision: for costs seen before acting, or some of them after.
        self._fast_known: tuple[Any, ...] | None = None
        self._fast_late: fast_path.Late | None = None
        self._by_usage: fast_path.ByUsage | None = None
        self._fast_learn: Any = None
        self._row_length, width = self.kept_lengths()[0], max(self.kept_lengths()) + 1
        late = len(after)
        self._room = np.empty(2 * width + 3 * late + 8 + int(standardised.predictions_room(width, late)))
        self._flat = self._reward.flat if self._compiled else _NONE
        self._spread = self._reward.spread if self._compiled else _NONE
        # The number of the first decision that has prices to work on, and must take the careful way.
        self._wake: float = 0
        self._label()

    def _label(self) -> None:
        rules, names = self.rules, self._input.constraints
        self._units = Units.of(rules, self.n_constraints)
        self._labels = Labels(
            self._input.names,
            None if rules is None else rules.names,
            partial(unpack_trace, units=self._units, names=names),
            choice_probabilities,
        )

    # What the policy knows

    @property
    def prices(self) -> Array:
        """λ by the totals as they stand, (K,): the reward that one more unit of what each rule counts would earn."""
        return self._units.unit_prices(self.dual)

    @property
    def dual(self) -> Array:
        """λ as multiplied with costs, (K,)."""
        trace = np.zeros(shadow.TRACE_VECTORS * self.n_constraints)
        core = self._core.copy()
        if core[shadow.ROUNDS]:
            shadow.set_prices(core, trace, 0)
        return trace[: self.n_constraints]

    @property
    def totals(self) -> Array:
        """Cumulative costs that are known, (K,), a copy, scaled as the constraints are."""
        known: Array = shadow.vector(self._core, shadow.TOTALS).copy()
        return known

    @property
    def expected_totals(self) -> Array:
        """`totals` with the estimates of those that are still to come."""
        expected: Array = self.totals + shadow.vector(self._core, shadow.BOOKED)
        return expected

    @property
    def infeasible(self) -> NDArray[np.bool_]:
        """Which rules can't be met on what was seen, (K,)."""
        return np.asarray(shadow.vector(self._core, shadow.INFEASIBLE) != 0.0)

    def conflict(self) -> conflict.Conflict | None:
        """The rules that can't be met together on what is remembered, and the smallest relaxation; None where all can be."""
        return conflict.find(self)

    def cost_of_rules(self) -> without_rules.WithoutRules | None:
        """About what each rule costs: mean rewards with and without it; None if too little is known or rules can't be met."""
        return without_rules.earned(self)

    def own_concerns(self) -> list[Concern]:
        """Rules that can't be met on what was seen."""
        return concerns.hopeless(self)

    def remedy_of_totals(self, constraints: Sequence[int]) -> str:
        """What helps where totals stay above zero."""
        return concerns.remedy_of_totals(self, constraints)

    def cost_sizes(self) -> Array:
        """The typical size of a cost, (K,): of one that can be chosen, or of those that were seen, if that is more."""
        size, square, moved = (
            shadow.vector(self._core, k) for k in (shadow.SIZE, shadow.SQUARE, shadow.MOVED)
        )
        seen = np.sqrt(moved / max(1.0, shadow.rounds_that_count(self._core)))
        return np.asarray(np.maximum(square / np.where(size > 0.0, size, 1.0), seen))

    def guarantees(self) -> dict[str, Any]:
        """What is proved of this policy: with `guard` one thing, without it nothing."""
        if not self.guard:
            return {}
        return {
            "totals at or below zero in every round": (
                "with certainty, for costs that are known before acting, if every round offers an action with no cost above zero"
            )
        }

    @property
    def labels(self) -> Labels:
        """Names of actions and constraints, and how its traces are read."""
        return self._labels

    @property
    def compiles(self) -> bool:
        """Whether a whole run can be compiled."""
        return self._compiled

    # Decide

    def decide(  # type: ignore[override]
        self,
        features: Any = None,
        costs: Any = None,
        *,
        cost_features: Any = None,
        actions: Sequence[int | str] | None = None,
        usage: Mapping[str, Any] | None = None,
        group: Any = None,
    ) -> Decision:
        """Choose one action, and count its cost, or the estimate of it, in the totals.

        Parameters
        ----------
        features : (J, d) array, (p,) for a model with parameters for each action, or a Catalogue; none for arms
            φ of each action on offer, in any unit. J may change from round to round.
        costs : (J, K) array or SparseCosts
            The costs of each action on offer, in any unit. With `cost=` it is the cost features instead. Where some constraints are
            seen after acting, only the columns of the others, (J, K_before), may be given.
        cost_features : (J, d_w) array, or (p_w,)
            ψ of each action on offer; `features` by default, where they are of that size.
        actions : sequence of ids or names
            Which action each row is; 0..J−1 by default.
        usage, group
            With rules they stand in for the cost matrix: see `Rules.costs`.
        """
        if self._pending.made >= self._look_at:
            self._look()
        if actions is None and self._pending.made < self._wake:
            if costs is None and self._by_usage is not None:
                if type(group) is not str:
                    group = plain_group(group)
                decision = self._by_usage[0](self, features, cost_features, usage, group)
                if decision is not None:
                    return decision
            fast = self._fast_known
            if (
                fast is not None
                and (type(features) is ndarray or type(features := as_array(features)) is ndarray)
                and cost_features is None
                and (
                    (usage is None and group is None)
                    or (self.rules is not None and (usage is None or costs is None))
                )
            ):
                # What most callers send, without detours: the kernel checks shapes and values, and where it refuses the careful way
                # below says why.
                W, force = costs, None
                if self._rule_costs is not None:
                    if type(group) is not str:
                        group = plain_group(group)
                    if W is None:
                        W = self._rule_costs.costs(usage, group)
                    force = self._input.in_force(group)
                if (
                    type(W) is ndarray
                    and features.dtype is FLOAT
                    and W.dtype is FLOAT
                    and W.ndim == 2
                    and features.flags.num & READABLE == READABLE
                    and W.flags.num & READABLE == READABLE
                    and (features.ndim == 1 or len(features) == len(W))
                    and (offer := self._offers.get(len(W))) is not None
                    and (decide := fast[features.ndim if features.ndim < 3 else 0]) is not None
                ):
                    ids, size, room, _ = offer
                    trace, x = empty(size), empty(self._row_length)
                    row = decide(
                        features, ids, W, self._flat, self._spread, self._core, trace, x, self._seed, room
                    )
                    if row != -1:
                        if row < 0:
                            row = shadow.ENTERS - row
                            fast_path.remember(self, ids, features, None, W, force)
                        pending = self._pending
                        number = pending.made
                        pending.made = number + 1
                        pending[number] = (AWAITS_REWARD, row, x, None, group, None)
                        return Decision(row, row, number, pending.owner, ids, trace, self._labels, None)
            elif self._fast_late is not None:
                decision = fast_path.decide_late(self, features, costs, cost_features, usage, group)
                if decision is not None:
                    return decision
        return self._commit(self._take_offer(features, costs, cost_features, actions, usage, group))

    def propose(self, *args: Any, **kwargs: Any) -> Decision:
        """What `decide` would choose on the same arguments, without choosing it: no state changes, nothing is learnt from it.

        >>> import tightrope as tr
        >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
        >>> proposed = policy.propose(costs=[[0.5], [-0.5]])
        >>> policy.rounds, proposed.action == policy.decide(costs=[[0.5], [-0.5]]).action
        (0, True)
        """
        if self._asked:
            return self._reader(dict(zip(("features", "costs"), args)) | kwargs).propose(*args, **kwargs)
        ids = (offer := self._offer(*args, **kwargs)).ids
        row, trace, _ = self._proposed(offer)
        return Decision(int(ids[row]), row, self._pending.made, NOBODY, ids, trace, self._labels, None)

    def follow(self, action: int, **offer: Any) -> Decision:
        """As `decide`, where someone else has chosen `action` among those on offer: it counts, and its outcome can be learnt."""
        read = self._take_offer(**offer)
        return self._commit(read, read.row_of("the action that was chosen", action))

    def choose(self, offer: Offer) -> Choice:
        """The row whose drawn value is the highest."""
        J, (row, trace, _) = len(offer.ids), self._proposed(offer)
        seen = parts(trace, J)
        chances = choice_probabilities(trace, J) if J <= MOST_ACTIONS else np.full(J, np.nan)
        return Choice(row, seen["rewards"], seen["means"], chances)

    # Learn

    def learn(
        self,
        decision: Decision | int,
        reward: Any = None,
        costs: Any = None,
        *,
        usage: Mapping[str, Any] | None = None,
    ) -> None:
        """Take in the outcome of a decision, or a part of it, at any time and in any order; each part at most once.

        Parameters
        ----------
        decision : Decision or int
            A decision of this policy (or of the one that it was restored from), or its number.
        reward : float, optional
        costs : (K_after,) array, or with rules a mapping of usage names to numbers, optional
            The costs that are seen after acting, in the order of the constraints, or all K: usage less the limit, over the scale.
        usage : mapping of usage names to numbers, optional
            With rules, in place of costs.
        """
        fast = self._fast_learn
        if (
            fast is not None
            and type(decision) is Decision
            and (type(reward) is float or type(reward := as_float(reward)) is float)
            and decision.owner == self._pending.owner
            and -LARGEST <= reward <= LARGEST
        ):
            # The fast path again; what is refused is left to the careful way below.
            waiting = self._pending.get(decision.number)
            if waiting is not None:
                if costs is None and usage is None:
                    if waiting[0] == AWAITS_REWARD:
                        del self._pending[decision.number]
                        g = waiting[1] if self._disjoint else 0
                        if fast(g, waiting[2], reward, self._flat, self._spread, self._core, self._room):
                            self._reward.refresh(g)
                        return
                elif waiting[0] == self._awaits and fast_path.learn_late(self, waiting, reward, costs, usage):
                    del self._pending[decision.number]
                    return
        self._learn_parts(decision, reward, costs, usage)
        self._book_nothing()

    def _observed_costs(self, costs: Any, action: int, group: Any) -> Array:
        seen: Array = self._input.observed(costs, action, group)
        return seen

    def learn_reward(self, pending: Pending, reward: float) -> None:
        """Take in the reward of a decision."""
        fast_path.note_unit(self, reward)
        Policy.learn_reward(self, pending, reward)

    def learn_costs(self, pending: Pending, costs: Array) -> None:
        """Take in the costs of a decision that are seen after acting, in place of what was booked for them."""
        fast_path.learn_costs(self, pending, costs)

    def forget(self, decision: Decision | int) -> None:
        """Drop a pending decision: its outcome will never come, and what was booked for its costs is taken back."""
        number = self._pending.number_of(decision)
        shadow.vector(self._core, shadow.BOOKED)[self._columns] -= self._booked(self._pending[number])
        del self._pending[number]
        self._book_nothing()

    def forget_inputs(self, numbers: Collection[int]) -> None:
        """Drop what is kept of these decisions, the rounds that are remembered for the prices too."""
        limits.forget_inputs(self, numbers)

    def _booked(self, pending: Pending) -> Array | float:
        """What was booked for the costs of a decision that awaits them."""
        late = len(self._columns)
        return pending[3][-late:] if late and pending[0] & AWAITS_COSTS and pending[3] is not None else 0.0

    def _book_nothing(self) -> None:
        """Where no outcome is awaited nothing is booked, not even what rounding has left."""
        if not self._pending:
            shadow.vector(self._core, shadow.BOOKED)[:] = 0.0

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
        offers: Sequence[Mapping[str, Any]] | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        """Teach the models what was logged before this policy goes live; rounds and totals stay as they are.

        Parameters
        ----------
        features : (n, d) array, or (n, p) for a model with parameters for each action; None for arms
            φ of what was done.
        actions : (n,) ids or names; None where no model tells actions apart
        rewards : (n,) array
        costs : (n, K_after) array, optional; (n,) where K_after is 1
            The costs that are seen after acting.
        cost_features : (n, d_w) array, optional
            ψ of what was done; `features` by default.
        offers : sequence of mappings, optional
            What was on offer in those rounds or in others, each as the arguments of `decide`: prices are made from them from the
            first decision on. Where one x serves all actions and no cost is known before acting, `features` say it already.
        usage, group : mapping of names to (n,) arrays, and (n,) groups; optional
            With rules, in place of costs: what was used, as `learn` takes it, and the group of each context.
        encoder : Encoder, optional
            What makes numbers of features that are rows of a table, here and in offers.

        Examples
        --------
        >>> import tightrope as tr
        >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
        >>> policy.warm_start(None, [0, 1, 1], [0.0, 1.0, 1.0], offers=[{"costs": [[1.0], [-1.0]]}] * 3)
        >>> policy.rounds, policy.totals
        (0, array([0.]))
        """
        features, cost_features, offers = encoded(encoder, features, cost_features, offers)
        self._size_by_log(features, cost_features)
        costs = self._input.logged_costs(costs, usage, group, actions)
        log = self._input.log(features, actions, rewards, costs, cost_features, self._input.late_ranges())
        seen = limits.logged_offers(self, log, offers)
        fast_path.note_unit(self, next((y for y in log.rewards.reshape(-1).tolist() if y), 0.0))
        self._learn_log(log)
        limits.remember_offers(self, seen)

    def change_limit(
        self,
        rule: str | int,
        limit: float | None = None,
        *,
        shift: float | None = None,
        forgive: bool = False,
    ) -> None:
        """Move the limit of a rule while running: what is remembered and learnt is restated, and prices are solved for anew.

        Parameters
        ----------
        rule : str or int
            The name of a constraint, as `rules.names` has it, or its number.
        limit : float
            The new limit, of a policy with rules.
        shift : float
            Of one without: by how much all its costs change, which is minus the change of an upper limit.
        forgive : bool
            An excess over the old limit is forgiven; by default it is paid back.
        """
        if self._asked:
            raise InvalidInput("limits can't change before the first decision: change the rules.")
        limits.change_limit(self, rule, limit, shift, forgive)

    # Save, restore, go on

    def settings(self) -> dict[str, Any]:
        """All that is not arrays, as plain data."""
        return {
            **self._models_as_data(),
            "context": self._context_as_data(),
            "constraints": self._constraints_as_data(),
            **{name: getattr(self, name) for name in ("explore", "caution", "memory", "guard", "seed")},
            **{name: getattr(self, name) for name in ("sampling", "half_life")},
            "cost_range": None if self.rules is not None else self.cost_range,
            "owner": self._pending.owner,
            "pending_groups": self._pending.groups(),
        }

    def kept_lengths(self) -> tuple[int, int]:
        """φ, and ψ with the costs booked behind it."""
        phi, psi = Policy.kept_lengths(self)
        return phi, psi + len(self._columns)

    def state(self) -> Arrays:
        """The arrays that change, by name, copied: two policies with equal settings and equal state act alike."""
        solve = self._solve
        memory, places = self._memory.arrays(() if solve is None else solve.entries)
        parts = {"memory": memory, "solve": {} if solve is None else {"places": places, **solve.arrays()}}
        named = {f"{part}/{name}": array for part, own in parts.items() for name, array in own.items()}
        if self._refits.any():
            named["refits"] = self._refits.copy()
        return Policy.state(self) | named

    def load(self, arrays: Arrays) -> None:
        """Become what gave these arrays as its `state`; pending decisions lose their groups."""

        def part(prefix: str) -> Arrays:
            return {name[len(prefix) :]: one for name, one in arrays.items() if name.startswith(prefix)}

        (memory, kept), solve = RoundMemory.restore(part("memory/")), None
        if own := part("solve/"):
            solve = PriceSolve.restore(own, [kept[i] for i in own["places"]], self.n_constraints)
        Policy.load(self, arrays)
        self._refits[:] = arrays.get("refits", 0.0)
        self._memory, self._solve = memory, solve
        self._set_alarm()

    def roll_back(self, then: Arrays, *, learnt_only: bool) -> list[int]:
        """Take what was learnt, or all else too, from an earlier `state`; the numbers of pending decisions that this drops."""
        return limits.roll_back(self, then, learnt_only)

    def resume(self, old: Policy, *, same_costs: bool, shifts: Array | None = None) -> None:
        """Go on where `old` stands: models, rounds, pending decisions, and of constraints by the same name all that is kept."""
        assert isinstance(old, ShadowPrice)
        limits.resume(self, old, same_costs, shifts)

    def _all_arrays(self) -> Arrays:
        arrays = Policy._all_arrays(self)
        del arrays["totals"], arrays["rests"]
        return {"core": self._core, **arrays}

    def _book_again(self) -> None:
        """What is booked for costs to come, from the decisions that await them."""
        booked = shadow.vector(self._core, shadow.BOOKED)
        booked[:] = 0.0
        for pending in self._pending.values():
            booked[self._columns] += self._booked(pending)

    def __repr__(self) -> str:
        made = self._shown_models()
        K = self.n_constraints
        made.append(f"constraints={K}" if self.rules is None else f"constraints=<{K} rules>")
        usual = {"explore": 1.0, "caution": 3.0, "memory": 2048, "guard": False, "half_life": None}
        made += [
            f"{name}={getattr(self, name):g}" for name, one in usual.items() if getattr(self, name) != one
        ]
        made += [] if self.sampling is None else [f"sampling={self.sampling!r}"]
        return f"ShadowPrice({', '.join(made)})"

    # One round

    def _commit(self, offer: Offer, forced: int = -1) -> Decision:
        core, models = self._core, self._models()
        self._solve = prices.work(self, core, self._refits, self._solve, models)
        row, trace, kept = self._step(offer, core, models, forced)
        if core[shadow.SLOT] >= 0.0:
            self._remember(remembered(offer, self._input))
        action = int(offer.ids[row])
        number = self._pending.add(self._awaits, action, *kept, offer.group)
        self._watch.note_offer(offer.ids, self.n_actions)
        fast_path.open_for(self, len(offer.ids))
        self._set_alarm()
        return Decision(action, row, number, self._pending.owner, offer.ids, trace, self._labels, None)

    def _proposed(self, offer: Offer) -> tuple[int, Array, Any]:
        """The row that `decide` would choose and the numbers behind it; all on copies."""
        core, models = self._core.copy(), self._models().copy()
        prices.work(
            self, core, self._refits.copy(), None if self._solve is None else self._solve.copy(), models
        )
        return self._step(offer, core, models, -1)

    def _models(self) -> Predictions:
        return Predictions(self._reward, self._cost, self._sampling)

    def _step(
        self, offer: Offer, core: Array, models: Predictions, forced: int
    ) -> tuple[int, Array, tuple[Array | None, Array | None]]:
        """The row, the numbers behind it, and φ and ψ of it with the costs booked; moves `core`."""
        ids, phi, W, psi, group, *_ = offer
        J, K = len(ids), self.n_constraints
        trace, spreads = np.empty(shadow.trace_size(J, K)), np.zeros((J, K))
        _, deviations, values, _, costs_at, rules_at = shadow.trace_parts(J, K)
        believed = models.rewards(phi, ids)
        trace[:J], trace[deviations:values] = believed.means, believed.deviations
        costs = trace[costs_at:rules_at].reshape(J, K)
        costs[:] = W
        if self._cost is not None:
            means, sds = models.costs(psi, ids)
            force = self._input.in_force(group)
            if force is not None:
                late = force[self._columns]
                means, sds = means * late, sds * late
            costs[:, self._columns], spreads[:, self._columns] = means, sds
        if self._sampling == "normal":
            row = int(shadow.step(J, spreads.reshape(-1), core, trace, self._seed, forced))
        else:
            row, tail = self._draw(believed, spreads, core, trace)
            row = forced if forced >= 0 else row
            shadow.count(J, core, trace, row, self._seed)
            trace = np.concatenate([trace, tail])
        x = None if phi is None else phi[row if len(phi) == J else 0].copy()
        z = None
        if self._cost is not None:
            first = np.empty(0) if psi is None else psi[row if len(psi) == J else 0]
            z = np.concatenate([first, costs[row, self._columns]])
        return row, trace, (x, z)

    def _draw(self, believed: Rewards, spreads: Array, core: Array, trace: Array) -> tuple[int, Array]:
        """A row that is not drawn from normal laws, and the tail of its trace; prices are set in `core`."""
        J = len(believed.means)
        _, deviations, values, *_ = shadow.trace_parts(J, self.n_constraints)
        if believed.members is None:
            shadow.weigh(J, spreads.reshape(-1), core, trace)
            return weigh_gaps(J, core, trace, self._reward.n_learnt, self._seed)
        trace[deviations:values] = 0.0
        shadow.weigh(J, spreads.reshape(-1), core, trace)
        return follow_member(J, core, trace, believed.members, self._seed)

    def _remember(self, entry: Remembered) -> None:
        core = self._core
        core[shadow.MARK] = mark = entry.mark()
        self._memory.remember(int(core[shadow.SLOT]), entry, mark, decision=self._pending.made)

    def _set_alarm(self) -> None:
        self._wake = prices.next_work(self)
