"""The policy: one round in two steps, what may be refused, then what changes the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope.concerns import Concern
from tightrope.errors import InvalidInput
from tightrope.kernels import shadow
from tightrope.ledger.totals import Totals
from tightrope.models import Model, hooks
from tightrope.offer import Offer, OfferReader
from tightrope.policies.constrained import Constrained
from tightrope.policies.constraints import finite_ranges, read_constraints
from tightrope.policies.decision import NOBODY, Decision, Labels, Quote, Sampling
from tightrope.policies.hooks import learnt_by
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, Pending, PendingDecisions
from tightrope.policies.policy import Policy
from tightrope.policies.registry import register
from tightrope.policies.rule_costs import RuleCosts
from tightrope.policies.shadow_price import concerns, conflict, limits, without_rules
from tightrope.policies.shadow_price.beliefs import Beliefs, Rewards
from tightrope.policies.shadow_price.explain import choice_probabilities, unpack_trace
from tightrope.policies.shadow_price.fast_path import FastPath
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory, remembered
from tightrope.policies.shadow_price.prices import CompiledState, Prices, loaded_memory, work_of_a_row
from tightrope.policies.shadow_price.sampling import follow_member, sampling_for, weigh_gaps
from tightrope.policies.sizing import read_context
from tightrope.policies.state_file import Arrays
from tightrope.policies.warm_start import Lessons, encoded, read_log
from tightrope.policies.watch import LOOK_EVERY, Watch
from tightrope.problem import Seen
from tightrope.rules import Rules, Units
from tightrope.validation import LARGEST, Array, finite_number, whole_number

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
        What draws are multiplied with; less than 1 earns more as a rule, and may miss the best for good.
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

    _loop: ClassVar[str | None] = "shadow-price"
    _asks_for_group: ClassVar[bool] = True
    _randomised: ClassVar[bool] = True
    _reward_range: ClassVar[tuple[float, float] | None] = (-LARGEST, LARGEST)

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
        self.rules, self._n_constraints, self._seen, known = read_constraints(constraints, cost)
        K = self._n_constraints
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
        self._reward = rewards and hooks.standardised(rewards, 1, centred=True, prior=0.0)
        self._cost = costs and hooks.standardised(costs, len(after), centred=False, prior=prior)
        self._read_by(self.rules)
        self._n_actions = self._input.n_actions
        self.sampling = sampling
        self._sampling = sampling_for(sampling, self._reward)
        self._beliefs = Beliefs(self._reward, self._cost, self._sampling, after, looks_ahead=True)
        core = shadow.new_core(K, self.explore, self.caution, self.memory, self.guard, known, self.half_life)
        self._prices = Prices(core, after, self.seed, work_of_a_row(self._beliefs))
        self._ledger = Totals.on(self._prices.vector(shadow.TOTALS), self._prices.vector(shadow.RESTS))
        self._memory = RoundMemory()
        self._awaits = AWAITS_REWARD | (AWAITS_COSTS if len(after) else 0)
        # Set here, for what fills an object's `__dict__` from outside slows every access to its attributes.
        self._pending = PendingDecisions()
        self._watch, self._look_at = Watch(K), LOOK_EVERY
        # Compiled code for plain arrays, from the first decision on, and the number of the first that must take the careful way
        # again, for it has prices to work on.
        self._fast: FastPath | None = None
        self._wake: float = 0
        self._label()

    def _read_by(self, rules: Rules | None) -> None:
        """Read input by these rules from now on."""
        self.rules, self._rule_costs = rules, None if rules is None else RuleCosts(rules)
        self._input = OfferReader(
            self._reward,
            self._cost,
            self._n_constraints,
            ~np.isin(np.arange(self._n_constraints), self._columns),
            rules=rules,
            rule_costs=self._rule_costs,
            any_unit=True,
        )

    def _label(self) -> None:
        rules, names = self.rules, self._input.constraints
        self._units = Units.of(rules, self._n_constraints)
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
        return self._units.unit_prices(self._dual())

    def _dual(self) -> Array:
        """λ as multiplied with costs, (K,)."""
        return self._prices.in_force()

    @property
    def expected_totals(self) -> Array:
        """`totals` with the estimates of those that are still to come."""
        return self.totals + self._prices.vector(shadow.BOOKED)

    @property
    def infeasible(self) -> NDArray[np.bool_]:
        """Which rules can't be met on what was seen, (K,)."""
        return np.asarray(self._prices.vector(shadow.INFEASIBLE) != 0.0)

    def conflict(self) -> conflict.Conflict | None:
        """The rules that can't be met together on what is remembered, and the smallest relaxation; None where all can be."""
        return conflict.find(self._memory, self._beliefs, self._units, self._input.constraints)

    def _cost_of_rules(self) -> without_rules.WithoutRules | None:
        """About what each rule costs: mean rewards with and without it; None if too little is known or rules can't be met."""
        return without_rules.earned(self.rounds, self._memory, self._beliefs, self._input.constraints)

    def _own_concerns(self) -> list[Concern]:
        return concerns.hopeless(self, self.infeasible, self._columns)

    def _remedy_of_totals(self, constraints: Sequence[int]) -> str:
        return concerns.remedy_of_totals(self.infeasible, constraints)

    def _cost_sizes(self) -> Array:
        return self._prices.cost_sizes()

    def _guarantees(self) -> dict[str, Any]:
        """What is proved of this policy: with `guard` one thing, without it nothing."""
        if not self.guard:
            return {}
        return {
            "totals at or below zero in every round": (
                "with certainty, for costs that are known before acting, if every round offers an action with no cost above zero"
            )
        }

    def _compiles(self) -> bool:
        """Whether a whole run can be compiled."""
        return self._beliefs.compiled

    def _compiled_state(self) -> CompiledState:
        """What an engine runs on: the arrays themselves."""
        prices = self._prices
        return CompiledState(
            self._reward, self._cost, prices.columns, prices.core, self._memory, prices.solve
        )

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
        if actions is None and self._fast is not None and self._pending.made < self._wake:
            decision = self._fast.decide(features, costs, cost_features, usage, group)
            if decision is not None:
                return decision
        return self._decide(self._take_offer(features, costs, cost_features, actions, usage, group))

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
        costs : (K_after,) array, optional
            The costs that are seen after acting, in the order of the constraints, or all K: usage less the limit, over the scale.
        usage : mapping of usage names to numbers, optional
            With rules, in place of costs.
        """
        if self._fast is not None and self._fast.learn(decision, reward, costs, usage):
            return
        self._learn_parts(decision, reward, costs, usage)
        self._book_nothing()

    def _learn_reward(self, pending: Pending, reward: float) -> None:
        self._prices.note_unit(self._reward, reward)
        super()._learn_reward(pending, reward)

    def _learn_costs(self, pending: Pending, costs: Array) -> None:
        """Take in the costs of a decision that are seen after acting, in place of what was booked for them."""
        cost, z = self._cost, pending[3]
        assert z is not None
        p = cost.n_features
        spread = cost.spread if hooks.compiled(cost) == "standardised" else np.empty(0)
        self._prices.take_costs(costs, z, p, spread)
        psi = z[:p] if p else None
        unseen = () if self._rule_costs is None else self._rule_costs.force(pending[4]).unseen
        if len(unseen):
            # Of a rule that is not in force nothing is seen: its model is told what it believes already.
            ids, costs = np.array([pending[1]]), costs.copy()
            believed = np.reshape(cost.means(None if psi is None else psi[None, :], ids), -1)
            costs[unseen] = believed[unseen]
        cost.learn(psi, costs, pending[1])

    def forget(self, decision: Decision | int) -> None:
        """Drop a pending decision: its outcome will never come, and what was booked for its costs is taken back."""
        number = self._pending.number_of(decision)
        self._prices.release(self._pending[number])
        self._pending.close(number)
        self._book_nothing()

    def _forget_inputs(self, numbers: Collection[int]) -> None:
        super()._forget_inputs(numbers)
        if self._memory.forget({*numbers}):
            self._prices.forgot(self._memory)
            self._set_alarm()

    def _book_nothing(self) -> None:
        """Where no outcome is awaited nothing is booked, not even what rounding has left."""
        if not self._pending:
            self._prices.vector(shadow.BOOKED)[:] = 0.0

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
        offers: Sequence[Mapping[str, Any] | Offer] | None = None,
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
        offers : sequence of mappings or of `Offer`, optional
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
        anything = np.array([[-LARGEST, LARGEST]] * len(self._columns)).reshape(-1, 2)
        given = features, actions, rewards, costs, cost_features, usage, group
        log = read_log(self._input, self._reward, self._cost, anything, *given)
        seen = self._logged_offers(log) if offers is None else self._told_offers(offers)
        self._prices.note_unit(self._reward, next((y for y in log.rewards.reshape(-1).tolist() if y), 0.0))
        self._pending.version += 1
        log.learn(self._reward, self._cost)
        self._prices.remember_offers(self._memory, seen, self._beliefs)
        self._set_alarm()

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
        k = self._column(rule)
        if k in self._columns:
            hooks.require_shift(self._cost)
        if self.rules is None:
            if limit is not None or shift is None:
                raise InvalidInput(
                    "costs without rules have no limits to name: give shift=, how much they change by."
                )
            by = finite_number("shift", shift)
        else:
            if limit is None or shift is not None:
                raise InvalidInput("with rules, give the new limit.")
            rules, by = limits.with_limit(self.rules, k, finite_number("limit", limit))
            self._read_by(rules)
            self._label()
        change = np.zeros(self._n_constraints)
        change[k] = by
        if k in self._columns:
            self._restate_late(change[self._columns])
        else:
            self._memory.restate(change)
        self._prices.begin_anew([k], self._memory, self._beliefs, forgive)
        self._pending.version += 1
        self._fast = None
        self._set_alarm()

    # Save, restore, go on

    def _settings(self) -> dict[str, Any]:
        return {
            **self._models_as_data(),
            "context": self._context_as_data(),
            "constraints": self._constraints_as_data(),
            **{name: getattr(self, name) for name in ("explore", "caution", "memory", "guard", "seed")},
            **{name: getattr(self, name) for name in ("sampling", "half_life")},
            "cost_range": None if self.rules is not None else self.cost_range,
            **self._pending.settings(),
        }

    def _kept_lengths(self) -> tuple[int, int]:
        phi, psi = super()._kept_lengths()
        return phi, psi + len(self._columns)

    def _state(self) -> Arrays:
        return super()._state() | self._prices.arrays(self._memory)

    def _load(self, arrays: Arrays) -> None:
        memory, solve = loaded_memory(arrays, self._n_constraints)
        super()._load(arrays)
        self._prices.refits[:] = arrays.get("refits", 0.0)
        self._memory, self._prices.solve, self._fast = memory, solve, None
        self._set_alarm()

    def _roll_back(self, then: Arrays, *, learnt_only: bool) -> list[int]:
        dropped = super()._roll_back(then, learnt_only=learnt_only)
        # Where the same outcomes are awaited as then, what was booked for them is what it was, to the bit.
        awaited = then["pending/number"][then["pending/awaits"] & AWAITS_COSTS != 0].tolist()
        if not learnt_only and awaited != [
            number for number, one in self._pending.items() if one[0] & AWAITS_COSTS
        ]:
            self._prices.book_again(self._pending.values())
        return dropped

    def _resume(self, old: Policy, *, same_costs: bool, shifts: Array | None = None) -> None:
        assert isinstance(old, ShadowPrice)
        then = old.hooks
        now, fresh = {**then.state(), **learnt_by(then, self._reward, self._cost)}, self._state()
        mine = self._input.constraints
        theirs = then.labels.constraints or tuple(map(str, range(then.n_constraints)))
        same = same_costs and mine == theirs
        carried = ("reward/", "cost/", "pending/", "made", *(("memory/", "solve/") if same else ()))
        arrays = {
            name: now.get(name, array) if name.startswith(carried) else array for name, array in fresh.items()
        }
        if same:
            arrays |= {name: one for name, one in now.items() if name.startswith("solve/")}
        self._load(arrays)
        self._pending.update(then.pending)
        self._prices.carry_over(old._prices, mine, theirs, self._memory, same)
        self._prices.book_again(self._pending.values())
        if shifts is not None:
            hooks.require_shift(self._cost)
            self._restate_late(shifts)
            if same:
                self._prices.begin_anew(self._columns[shifts != 0.0].tolist(), self._memory, self._beliefs)
        self._set_alarm()

    def _all_arrays(self) -> Arrays:
        return {"core": self._prices.core, **super()._all_arrays()}

    def __repr__(self) -> str:
        made = self._shown_models()
        K = self._n_constraints
        made.append(f"constraints={K}" if self.rules is None else f"constraints=<{K} rules>")
        usual = {"explore": 1.0, "caution": 3.0, "memory": 2048, "guard": False, "half_life": None}
        made += [
            f"{name}={getattr(self, name):g}" for name, one in usual.items() if getattr(self, name) != one
        ]
        made += [] if self.sampling is None else [f"sampling={self.sampling!r}"]
        return f"ShadowPrice({', '.join(made)})"

    # One round

    def _decide(self, offer: Offer, forced: int | None = None) -> Decision:
        self._prices.work(self._memory, self._beliefs)
        row, trace, sampling, kept = self._step(
            offer, self._prices, self._beliefs, -1 if forced is None else forced
        )
        best = shadow.best_mean(len(offer.ids), self._n_constraints, trace)
        self._beliefs.look_ahead(offer.phi, offer.ids, int(best))
        self._prices.remember(self._memory, remembered(offer, self._input), self._pending.made)
        action = int(offer.ids[row])
        version = self._pending.version
        number = self._pending.add(self._awaits, action, *kept, offer.group)
        self._watch.note_offer(offer.ids, self._n_actions)
        if self._fast is None and FastPath.fits(self._beliefs):
            read, rules, labels = self._input, self._rule_costs, self._labels
            self._fast = FastPath(
                self._beliefs, self._prices, self._memory, self._pending, read, rules, labels
            )
        if self._fast is not None:
            self._fast.open_for(len(offer.ids))
        self._set_alarm()
        owner = self._pending.owner
        return Decision(action, row, number, owner, version, offer.ids, trace, self._labels, sampling)

    def _weigh(self, offer: Offer) -> Quote:
        """What `_decide` would choose, all on copies."""
        prices = self._prices.copy()
        prices.work(self._memory, self._beliefs)
        row, trace, sampling, _ = self._step(offer, prices, self._beliefs, -1)
        action, pending = int(offer.ids[row]), self._pending
        proposed = Decision(
            action, row, pending.made, NOBODY, pending.version, offer.ids, trace, self._labels, sampling
        )
        return Quote(offer, proposed, pending.owner)

    def _step(
        self, offer: Offer, prices: Prices, beliefs: Beliefs, forced: int
    ) -> tuple[int, Array, Sampling, tuple[Array | None, Array | None]]:
        """The row, the numbers behind it, how it was drawn, and φ and ψ of it with the costs booked; moves `prices`."""
        ids, phi, W, psi, group = offer.ids, offer.phi, offer.W, offer.psi, offer.group
        J, K = len(ids), self._n_constraints
        trace, spreads = np.empty(shadow.trace_size(J, K)), np.zeros((J, K))
        _, deviations, values, _, costs_at, rules_at = shadow.trace_parts(J, K)
        core, believed = prices.core, beliefs.rewards(phi, ids)
        trace[:J], trace[deviations:values] = believed.means, believed.deviations
        costs = trace[costs_at:rules_at].reshape(J, K)
        costs[:] = W
        if self._cost is not None:
            means, sds = beliefs.costs(psi, ids)
            force = self._input.in_force(group)
            if force is not None:
                late = force[self._columns]
                means, sds = means * late, sds * late
            costs[:, self._columns], spreads[:, self._columns] = means, sds
        sampling: Sampling = None
        if self._sampling == "normal":
            row = int(shadow.step(J, spreads.reshape(-1), core, trace, self._prices.seed, forced))
        else:
            row, sampling = self._draw(believed, spreads, core, trace)
            row = forced if forced >= 0 else row
            shadow.count(J, core, trace, row, self._prices.seed)
        x = None if phi is None else phi[row if len(phi) == J else 0].copy()
        z = None
        if self._cost is not None:
            first = np.empty(0) if psi is None else psi[row if len(psi) == J else 0]
            z = np.concatenate([first, costs[row, self._columns]])
        return row, trace, sampling, (x, z)

    def _draw(self, believed: Rewards, spreads: Array, core: Array, trace: Array) -> tuple[int, Sampling]:
        """A row that is not drawn from normal laws, and how; prices are set in `core`."""
        J = len(believed.means)
        _, deviations, values, *_ = shadow.trace_parts(J, self._n_constraints)
        if believed.members is None:
            shadow.weigh(J, spreads.reshape(-1), core, trace)
            return weigh_gaps(J, core, trace, hooks.n_learnt(self._reward), self._prices.seed)
        trace[deviations:values] = 0.0
        shadow.weigh(J, spreads.reshape(-1), core, trace)
        return follow_member(J, core, trace, believed.members, self._prices.seed)

    def _set_alarm(self) -> None:
        self._wake = self._prices.next_work(self._pending.made)

    # What is told of other rounds

    def _told_offers(self, offers: Sequence[Mapping[str, Any] | Offer]) -> list[Remembered]:
        """What was on offer in rounds from before, checked."""
        found = []
        for i, given in enumerate(offers):
            try:
                told = self._admitted(given) if isinstance(given, Offer) else self._offer(**given)
                found.append(remembered(told, self._input))
            except (InvalidInput, TypeError) as error:
                raise InvalidInput(f"offers[{i}]: {error}") from error
        return found

    def _logged_offers(self, log: Lessons) -> list[Remembered]:
        """What was on offer in logged rounds, where one x serves all actions and no cost is known before."""
        K, late = self._n_constraints, len(self._columns)
        models = [model for model in (self._reward, self._cost) if model is not None]
        if not K or late < K or self.rules is not None or any(model.n_actions is None for model in models):
            return []
        ids = np.arange(self._n_actions or 0)
        W = np.zeros((len(ids), K))
        psi = log.psi if log.psi is not None else log.phi
        return [
            Remembered(
                ids,
                None if log.phi is None else log.phi[i : i + 1].copy(),
                None if psi is None or not self._cost.n_features else psi[i : i + 1].copy(),
                W,
            )
            for i in range(len(log.ids))
        ]

    def _restate_late(self, shifts: Array) -> None:
        """Costs seen after acting have grown by so much, (K_after,): restate what was learnt of them and what is booked."""
        for i, by in enumerate(shifts.tolist()):
            if by:
                hooks.shift(self._cost, i, by)
        for number, (awaits, _, _, z, group, _) in self._pending.items():
            if awaits & AWAITS_COSTS and z is not None:
                booked = shifts.copy()
                if self._rule_costs is not None:
                    # For a rule that is not in force nothing is booked.
                    booked[self._rule_costs.force(group).unseen] = 0.0
                behind = z[-len(shifts) :] + booked
                self._pending.restate(number, np.concatenate([z[: -len(shifts)], behind]))
        self._prices.book_again(self._pending.values())

    def _column(self, rule: str | int) -> int:
        names = self._input.constraints
        if isinstance(rule, str):
            if rule not in names:
                raise InvalidInput(f"there is no constraint {rule!r}; there are {list(names)}.")
            return names.index(rule)
        k = whole_number("rule", rule)
        if k >= self._n_constraints:
            raise InvalidInput(f"rule must be below {self._n_constraints}, but got {k}.")
        return k
