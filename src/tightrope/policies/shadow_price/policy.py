"""The policy: each round in two steps, first everything that can fail, then everything that changes the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope.concerns import Concern
from tightrope.errors import InvalidInput
from tightrope.kernels import shadow, shadow_trace
from tightrope.ledger.totals import Totals
from tightrope.ledger.windows import late_uses
from tightrope.models import Model, hooks
from tightrope.offer import Offer
from tightrope.policies.constrained import Constrained
from tightrope.policies.constraints import column_of, finite_ranges, moved_limit, read_constraints
from tightrope.policies.decision import Decision, Quote
from tightrope.policies.pending import Pending
from tightrope.policies.policy import Policy
from tightrope.policies.registry import register
from tightrope.policies.shadow_price import concerns
from tightrope.policies.shadow_price.beliefs import Beliefs
from tightrope.policies.shadow_price.explain import labels_of
from tightrope.policies.shadow_price.fast_path import ShadowPath
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory, logged_rounds, remembered
from tightrope.policies.shadow_price.pacing.window_rules import WindowRules
from tightrope.policies.shadow_price.prices import CompiledState, Prices
from tightrope.policies.shadow_price.rule_programs import (
    Conflict,
    WithoutRules,
    find_conflict,
    rewards_without_rules,
)
from tightrope.policies.shadow_price.sampling import sampling_for
from tightrope.policies.sizing import read_context
from tightrope.policies.state_file import Arrays, part_of
from tightrope.policies.warm_start import encoded, read_log
from tightrope.problem import Seen
from tightrope.rules import Rules, Units
from tightrope.validation import LARGEST, Array, finite_number, whole_number

if TYPE_CHECKING:
    from tightrope.encoder import Encoder

# With more the policy would mostly act at random.
MOST_LEAST_CHANCE = 0.5


@register("shadow-price")
class ShadowPrice(Constrained):
    """Maximise reward under rules on running totals, with nothing to tune.

    Every rule has a price: the reward that one more unit of its limit would earn. It comes from the dual of the allocation program
    on remembered rounds, solved again whenever the number of rounds has doubled, and is corrected in every round by the running
    total. An action's value is its estimated reward minus the prices of its costs, drawn from its posterior (Thompson sampling);
    the highest value wins. `docs/shadow-price.md` has the formulas and the measurements. Nothing is promised beyond what
    `guarantees` says: that totals stay at or below zero is measured, not proved, unless `guard` is on and every round offers an
    action that breaks no rule.

    Costs may be seen before acting, after (pass `cost`), or some of each (rules with `seen="after"`). Features, rewards and costs
    may be in any unit.

    Parameters
    ----------
    constraints : int, Rules, or a sequence of "before" and "after"
        K; or rules in words, which also state names, ranges and when costs are seen; or "before" or "after" for each constraint.
    reward : Model or str
        Model of the reward, or the name of one: "linear", "logistic", "auto", …. Sizes that you leave out come from the rules
        (actions) and from the first context or the encoder (features). For `Ridge`, `DisjointRidge` and `ArmMeans` only the size
        matters; `bonus`, `m` and `ridge` have no effect.
    cost : Model or str, optional
        Model of the costs that are seen after acting, if there are any; "linear" by default.
    context : Encoder, or sequence of names; optional
        Turns contexts that are table rows into numbers. Without an encoder a row must contain only numbers, in the order of
        these names, or of the first row.
    explore : float
        Factor on the size of the draws; less than 1 usually earns more, but may miss the best action for good.
    caution : float
        How many of their standard deviations the totals are kept below zero.
    memory : int
        How many rounds are remembered for the prices.
    guard : bool
        Never let a total whose cost is known beforehand rise above zero if some action avoids it; otherwise take the least excess.
    seed : int
        Seed of the draws.
    cost_range : pair or (K, 2), optional
        The range of costs seen after acting, if it is known: it says how uncertain they are before any is seen.
    sampling : "normal", "members" or "gaps", optional
        How actions are drawn: from normal laws, by following one of the reward model's members, or by inverse gap weighting. The
        reward model sets the default.
    half_life : float, optional
        Number of rounds after which a remembered round counts half in the prices; for worlds that change.
    least_chance : float
        With this probability the action is any that takes no total above zero, each as likely as the others, so that other
        policies can be judged by what was recorded. At most 0.5; 0 takes only what may be best.
    expect : float, optional
        Decisions per day, for limits per window: the first day is then paced like any other.

    Examples
    --------
    All you have to pass is the rules.

    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Capacity("icu", at_most=0.2)], actions=["icu", "surgery", "other"])
    >>> policy = tr.ShadowPrice(rules)
    >>> decision = policy.decide({"age": 41.0, "fever": 38.5})
    >>> policy.learn(decision, reward=1.0)

    Two actions; the better one costs 5 per round, the other gives 5 back.

    >>> import tightrope as tr
    >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
    >>> for _ in range(1000):
    ...     decision = policy.decide(costs=[[5.0], [-5.0]])
    ...     policy.learn(decision, reward=(90.0, 20.0)[decision.action])
    >>> bool(policy.totals[0] <= 0), policy.prices.round(0)
    (True, array([7.]))
    """

    _loop: ClassVar[str | None] = "shadow-price"
    _paces: ClassVar[bool] = True
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
        least_chance: float = 0.0,
        expect: float | None = None,
    ) -> None:
        self.rules, self._n_constraints, self._seen, known = read_constraints(constraints, cost)
        K = self._n_constraints
        # Limits per window are columns behind the others.
        every = known if self.rules is None else np.concatenate([known, self.rules.windows.seen])
        self._columns = after = np.flatnonzero(~every).astype(np.int64)
        ranges = finite_ranges(K, self.rules, cost_range)
        self.seed = whole_number("seed", seed)
        self._given = {
            "explore": finite_number("explore", explore, low=0.0),
            "caution": finite_number("caution", caution, low=0.0),
            "memory": whole_number("memory", memory, low=1),
            "guard": bool(guard),
            "seed": self.seed,
            "half_life": None
            if half_life is None
            else finite_number("half_life", half_life, low=0.0, open_low=True),
            "cost_range": None if ranges is None else ranges.tolist(),
            "sampling": sampling,
            "least_chance": finite_number("least_chance", least_chance, low=0.0, high=MOST_LEAST_CHANCE),
            "expect": None if expect is None else finite_number("expect", expect, low=0.0, open_low=True),
        }
        prior = np.zeros(len(after))
        if ranges is not None:
            own = after[after < K]
            prior[: len(own)] = (ranges[own, 1] - ranges[own, 0]) / 2.0
        self.context = read_context(context)
        rewards, costs = self._read_models(reward, cost, len(after))
        self._reward = rewards and hooks.standardised(rewards, 1, centred=True, prior=0.0)
        self._cost = costs and hooks.standardised(costs, len(after), centred=False, prior=prior)
        self._read_by(self.rules, known, any_unit=True)
        self._begin()
        draws = sampling_for(sampling, self._reward)
        self._beliefs = Beliefs(self._reward, self._cost, draws, after, looks_ahead=True)
        self._paced = None if self._windows is None else WindowRules(self._windows, K, self.seed, expect)
        self._prices = Prices.new(self._beliefs, every, self._given, self._paced)
        total, rest = self._prices.vector(shadow.TOTALS), self._prices.vector(shadow.RESTS)
        self._ledger = Totals.on(total[:K], rest[:K])
        self._memory = RoundMemory()
        # Compiled code for plain arrays, from the first decision on, and the number of the first one that must take the careful
        # path again, because it has to work on prices.
        self._fast: ShadowPath | None = None
        self._wake = 0
        self._label()

    def _label(self) -> None:
        self._units = Units.of(self.rules, self._n_constraints)
        windows = () if self._windows is None else [one.column.name for one in self._windows.limits]
        self._labels = labels_of(self._input, self._units.widened(len(windows)), windows)

    # One round

    def _decide(self, offer: Offer, forced: int | None = None, asked: Offer | None = None) -> Decision:
        # What was asked, and what of it fits; a quote has both.
        asked, offer = asked or offer, self._fitting(offer)
        prices, number = self._prices, self._pending.made
        prices.work(self._memory, self._beliefs)
        offer, force = self._priced(prices, offer)
        step = prices.step(offer, self._beliefs, force, -1 if forced is None else forced)
        best = shadow_trace.best_mean(len(offer.ids), prices.K, step.trace)
        self._beliefs.look_ahead(offer.phi, offer.ids, best)
        prices.remember(self._memory, remembered(self._unstopped(asked, offer, force), force), number)
        if self._paced is not None:
            offer = self._paced.chosen(number, offer, step.row, step.costs, prices.core)
        decision = self._decided(offer, step.row, step.trace, step.kept, step.sampling)
        if self._fast is None and self._windows is None and ShadowPath.fits(self._beliefs):
            own = self._beliefs, self._prices, self._memory, self._pending
            self._fast = ShadowPath(*own, self._input, self._labels, self._set_alarm)
        if self._fast is not None:
            self._fast.open_for(len(offer.ids))
        self._set_alarm()
        return decision

    def _weigh(self, offer: Offer) -> Quote:
        # On a copy of the prices; models are only asked.
        asked, offer = offer, self._fitting(offer)
        prices = self._prices.copy()
        prices.work(self._memory, self._beliefs)
        wide, force = self._priced(prices, offer)
        step = prices.step(wide, self._beliefs, force, -1)
        proposed = self._decided(offer, step.row, step.trace, None, step.sampling)
        return Quote(offer, proposed, self._pending.owner, asked=None if asked is offer else asked)

    def _commit(self, quote: Quote, row: int | None) -> Decision:
        return self._decide(quote.offer, row, quote.asked)

    def _priced(self, prices: Prices, offer: Offer) -> tuple[Offer, NDArray[np.bool_] | None]:
        """The offer with the costs of limits per window, whose prices are set, and which constraints are in force."""
        force = self._input.in_force(offer.group)
        if self._paced is None:
            return offer, force
        assert prices.pacer is not None
        prices.pacer.set_prices(prices.core, self._paced.windows.now(offer.time), offer.keys or {})
        force = self._paced.force(offer.group, force)
        return self._paced.widened(offer, force), force

    def _unstopped(self, asked: Offer, offer: Offer, force: NDArray[np.bool_] | None) -> Offer:
        """What to remember of a round: with actions that did not fit a hard limit, as prices are for those who may take them."""
        if self._paced is None or len(offer.ids) == len(asked.ids):
            return offer
        return self._paced.widened(asked, force)

    def _set_alarm(self) -> None:
        self._wake = self._prices.next_work(self._pending.made)

    # Learn

    def _book_costs(self, costs: Array) -> None:
        """The costs are already in the totals, in place of their bookings."""

    def _observed_costs(self, costs: Any, usage: Any, action: int, group: Any) -> Array:
        found = super()._observed_costs(costs, usage, action, group)
        if self._paced is None or self._paced.known.all():
            return found
        uses = late_uses(self._paced.windows.rules, usage, action, group)
        return np.concatenate([found, self._paced.observed(uses, group)])

    def _learn_parts(self, decision: Decision | int, reward: Any, costs: Any, usage: Any) -> None:
        number = self._pending.number_of(decision)
        pending = self._pending[number]
        super()._learn_parts(decision, reward, costs, usage)
        if self._paced is not None and self._paced.open and usage is not None:
            self._paced.end(number, late_uses(self._paced.windows.rules, usage, pending[1], pending[4]))

    def _learn_reward(self, pending: Pending, reward: float) -> None:
        self._prices.note_unit(self._reward, reward)
        self._reward.learn(pending[2], reward, pending[1])
        self._heed_changes()

    def _learn_costs(self, pending: Pending, costs: Array) -> None:
        _, action, _, z, group, _ = pending
        assert z is not None
        psi = self._prices.take_costs(z, costs, self._cost)
        self._beliefs.learn_costs(psi, costs, action, self._unseen(group))
        self._heed_changes()

    def _heed_changes(self) -> None:
        if self._prices.heed_changes(self._beliefs):
            self._set_alarm()

    def forget(self, decision: Decision | int, *, acted: bool = True) -> None:
        """Drop a pending decision: its outcome will never come, and the booking for its costs is reversed.

        With `acted=False` it was never carried out, and limits per window get back what it booked.
        """
        number = self._pending.number_of(decision)
        self._prices.release(self._pending[number])
        if self._paced is not None:
            self._paced.end(number, None)
        super().forget(number, acted=acted)
        self._settled()

    def _forget_more(self, numbers: Collection[int]) -> None:
        if self._memory.forget({*numbers}):
            self._prices.forgot(self._memory)
            self._set_alarm()
        if self._paced is not None:
            self._paced.follow_names()

    def _settled(self) -> None:
        """If no outcome is awaited, nothing is booked, not even a rounding error."""
        if not self._pending:
            self._prices.vector(shadow.BOOKED)[:] = 0.0

    def _unseen(self, group: Any) -> Any:
        """Which costs are not seen after acting, because their rules are not in force."""
        if self._paced is not None:
            force = self._paced.force(group, self._input.in_force(group))
            return [] if force is None else np.flatnonzero(~force[self._columns])
        return [] if self._rule_costs is None else self._rule_costs.force(group).unseen

    # What the policy knows

    @property
    def prices(self) -> Array:
        """λ at the current totals, (K,): the reward that one more unit of what each rule counts would earn."""
        return self._units.unit_prices(self._dual())

    @property
    def window_prices(self) -> dict[str, float]:
        """For each limit per window, the reward that one more unit of it would have earned at the last decision.

        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Budget("cost", at_most=50, per="day")], actions=["small", "large"])
        >>> tr.ShadowPrice(rules).window_prices
        {'cost per day': 0.0}
        """
        if self._windows is None:
            return {}
        prices = self._prices.vector(shadow.PRICE)[self._n_constraints :].tolist()
        return dict(zip((one.column.name for one in self._windows.limits), prices))

    def _dual(self) -> Array:
        return self._prices.in_force()[: self._n_constraints]

    @property
    def expected_totals(self) -> Array:
        """`totals` plus the estimates of costs still to come."""
        return self.totals + self._prices.vector(shadow.BOOKED)[: self._n_constraints]

    @property
    def infeasible(self) -> NDArray[np.bool_]:
        """Which rules can't be met on what was seen, (K,)."""
        return np.asarray(self._prices.vector(shadow.INFEASIBLE)[: self._n_constraints] != 0.0)

    def conflict(self) -> Conflict | None:
        """The rules that can't be met together on the remembered rounds, and the smallest relaxation; None if all can be met."""
        return find_conflict(self._memory, self._beliefs, self._units, self._input.constraints)

    def _cost_of_rules(self) -> WithoutRules | None:
        """Roughly what each rule costs: mean rewards with and without it; None if too little is known or rules can't be met."""
        names = self._input.constraints
        return rewards_without_rules(self.rounds, self._memory, self._beliefs, names)

    def _own_concerns(self) -> list[Concern]:
        late = self._columns[self._columns < self._n_constraints]
        avoidable = int(self._prices.core[shadow.AVOIDABLE])
        found = [
            *concerns.hopeless(self, self.infeasible, late),
            *concerns.avoidable(self, avoidable, self._given["guard"]),
        ]
        if self._paced is not None:
            unmet = self._prices.vector(shadow.INFEASIBLE)[self._n_constraints :]
            found += concerns.too_little(self.rounds, self._paced.limits, self._paced.names, unmet)
        return found

    def _remedy_of_totals(self, constraints: Sequence[int]) -> str:
        return concerns.remedy_of_totals(self.infeasible, constraints)

    def _cost_sizes(self) -> Array:
        return self._prices.cost_sizes()[: self._n_constraints]

    def _guarantees(self) -> dict[str, Any]:
        if not self._given["guard"]:
            return {}
        return {
            "totals at or below zero in every round": (
                "with certainty, for costs that are known before acting, if every round offers an action with no cost above zero"
            )
        }

    def _compiles(self) -> bool:
        return self._beliefs.compiled and self._input.registry.whole and self._windows is None

    def _compiled_state(self) -> CompiledState:
        return self._prices.compiled_state(self._beliefs, self._memory)

    # What an operator does

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
        """Train the models on logged decisions before this policy goes live; rounds and totals do not change.

        Parameters
        ----------
        features : (n, d) array, or (n, p) for a model with parameters for each action; None for arms
            φ of the actions taken.
        actions : (n,) ids or names; None if no model tells actions apart
        rewards : (n,) array
        costs : (n, K_after) array, optional; (n,) if K_after is 1
            The costs that are seen after acting.
        cost_features : (n, d_w) array, optional
            ψ of the actions taken; `features` by default.
        offers : sequence of mappings or of `Offer`, optional
            What was on offer in those rounds or in others, each as the arguments of `decide`: prices use them from the
            first decision on. If one x serves all actions and no cost is known before acting, `features` is enough.
        usage, group : mapping of names to (n,) arrays, and (n,) groups; optional
            With rules, instead of costs: what was used, as for `learn`, and the group of each context.
        encoder : Encoder, optional
            Turns features that are table rows into numbers, here and in offers.

        Examples
        --------
        >>> import tightrope as tr
        >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
        >>> policy.warm_start(None, [0, 1, 1], [0.0, 1.0, 1.0], offers=[{"costs": [[1.0], [-1.0]]}] * 3)
        >>> policy.rounds, policy.totals
        (0, array([0.]))
        """
        if self._paced is not None and not self._paced.known.all():
            said = "warm_start can't teach what limits per window see after acting; leave it out, and it is learnt as it comes."
            raise InvalidInput(said)
        features, cost_features, offers = encoded(encoder, features, cost_features, offers)
        self._size_by_log(features, cost_features)
        anything = np.array([[-LARGEST, LARGEST]] * len(self._columns)).reshape(-1, 2)
        given = features, actions, rewards, costs, cost_features, usage, group
        log = read_log(self._input, self._reward, self._cost, anything, *given)
        seen = logged_rounds(log, self._input) if offers is None else self._told_rounds(offers)
        self._prices.note_unit(self._reward, next((y for y in log.rewards.reshape(-1).tolist() if y), 0.0))
        self._pending.version += 1
        log.learn(self._reward, self._cost)
        self._prices.remember_offers(self._memory, seen, self._beliefs)
        self._set_alarm()

    def _told_rounds(self, offers: Sequence[Mapping[str, Any] | Offer]) -> list[Remembered]:
        found = []
        for i, given in enumerate(offers):
            try:
                told = self._admitted(given) if isinstance(given, Offer) else self._offer(**given)
                force = self._input.in_force(told.group)
                if self._paced is not None:
                    force = self._paced.force(told.group, force)
                    told = self._paced.widened(told, force)
                found.append(remembered(told, force))
            except (InvalidInput, TypeError) as error:
                raise InvalidInput(f"offers[{i}]: {error}") from error
        return found

    def change_limit(
        self,
        rule: str | int,
        limit: float | None = None,
        *,
        shift: float | None = None,
        forgive: bool = False,
    ) -> None:
        """Move the limit of a rule while running: what is remembered and learnt is restated, and prices are solved for again.

        Parameters
        ----------
        rule : str or int
            The name of a constraint, as `rules.names` has it, or its number.
        limit : float
            The new limit, for a policy with rules.
        shift : float
            Without rules: how much all its costs change, which is minus the change of an upper limit.
        forgive : bool
            Whether to forgive an excess over the old limit; by default it is paid back.
        """
        if self._asked:
            raise InvalidInput("limits can't change before the first decision: change the rules.")
        k = column_of(self._input.constraints, rule)
        if k in self._columns:
            hooks.require_shift(self._cost)
        rules, by = moved_limit(self.rules, k, limit, shift)
        if rules is not None:
            known = ~np.isin(np.arange(self._n_constraints), self._columns)
            self._read_by(rules, known, any_unit=True)
            self._label()
        change = np.zeros(self._prices.K)
        change[k] = by
        self._restate(change, forgive)

    def _restate(self, change: Array, forgive: bool = False) -> None:
        # The columns of limits per window, behind the others, count amounts: none of them moves with a limit.
        change = np.concatenate([change, np.zeros(self._prices.K - len(change))])
        early, late = change.copy(), change[self._columns]
        early[self._columns] = 0.0
        if late.any():
            hooks.require_shift(self._cost)
            self._restate_late(late)
        if early.any():
            self._memory.restate(early)
        self._prices.begin_anew(np.flatnonzero(change).tolist(), self._memory, self._beliefs, forgive)
        self._pending.version += 1
        self._fast = None
        self._set_alarm()

    def _restate_late(self, shifts: Array) -> None:
        """Costs seen after acting have grown by this much, (K_after,): restate what was learnt about them and what is booked."""
        self._beliefs.shift_costs(shifts)
        self._prices.restate_booked(self._pending, shifts, self._unseen)

    # Save, restore, go on

    def _arrays(self) -> Arrays:
        return {"core": self._prices.core}

    def _n_booked(self) -> int:
        return len(self._columns)

    def _more_state(self) -> Arrays:
        own = {} if self._paced is None else self._paced.arrays()
        return self._prices.arrays(self._memory) | {f"pacing/{name}": array for name, array in own.items()}

    def _load_more(self, arrays: Arrays) -> None:
        self._memory, self._fast = self._prices.load(arrays), None
        if self._paced is not None:
            self._paced.load(part_of(arrays, "pacing/"))
        self._set_alarm()

    def _rolled_back(self, same_costs_awaited: bool) -> None:
        # If the same outcomes are awaited, their bookings are the same, to the bit.
        if not same_costs_awaited:
            self._prices.book_again(self._pending.values())

    def _resume(self, old: Policy, *, same_costs: bool, shifts: Array | None = None) -> None:
        then, mine = old.hooks, self._labels.constraints or self._input.constraints
        theirs = self._names_of_constraints(then)
        same = same_costs and mine == theirs
        self._go_on(then, ("memory/", "solve/", "pacing/") if same else ())
        self._prices.carry_over(then.compiled_state().core, mine, theirs, self._memory, same)
        self._prices.book_again(self._pending.values())
        if shifts is not None:
            shifts = np.concatenate([shifts, np.zeros(len(self._columns) - len(shifts))])
            hooks.require_shift(self._cost)
            self._restate_late(shifts)
            if same:
                self._prices.begin_anew(self._columns[shifts != 0.0].tolist(), self._memory, self._beliefs)
        self._set_alarm()

    def __repr__(self) -> str:
        usual = {
            "explore": 1.0,
            "caution": 3.0,
            "memory": 2048,
            "guard": False,
            "half_life": None,
            "least_chance": 0.0,
            "expect": None,
        }
        given = {name: self._given[name] for name, one in usual.items() if self._given[name] != one}
        shown = [f"{name}={value:g}" for name, value in given.items()]
        sampling = self._given["sampling"]
        return self._shown(*shown, *([] if sampling is None else [f"sampling={sampling!r}"]))
