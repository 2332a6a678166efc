"""The policy: each round in two steps, first everything that can fail, then everything that changes the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope.concerns import Concern
from tightrope.errors import InvalidInput
from tightrope.kernels import shadow
from tightrope.ledger.totals import Totals
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
from tightrope.policies.shadow_price.prices import CompiledState, Prices
from tightrope.policies.shadow_price.rule_programs import (
    Conflict,
    WithoutRules,
    find_conflict,
    rewards_without_rules,
)
from tightrope.policies.shadow_price.sampling import sampling_for
from tightrope.policies.sizing import read_context
from tightrope.policies.state_file import Arrays
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
    ) -> None:
        self.rules, self._n_constraints, self._seen, known = read_constraints(constraints, cost)
        K = self._n_constraints
        self._columns = after = np.flatnonzero(~known).astype(np.int64)
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
        }
        prior = np.zeros(len(after)) if ranges is None else (ranges[after, 1] - ranges[after, 0]) / 2.0
        self.context = read_context(context)
        rewards, costs = self._read_models(reward, cost, len(after))
        self._reward = rewards and hooks.standardised(rewards, 1, centred=True, prior=0.0)
        self._cost = costs and hooks.standardised(costs, len(after), centred=False, prior=prior)
        self._read_by(self.rules, known, any_unit=True)
        self._begin()
        draws = sampling_for(sampling, self._reward)
        self._beliefs = Beliefs(self._reward, self._cost, draws, after, looks_ahead=True)
        self._prices = Prices.new(self._beliefs, known, self._given)
        self._ledger = Totals.on(self._prices.vector(shadow.TOTALS), self._prices.vector(shadow.RESTS))
        self._memory = RoundMemory()
        # Compiled code for plain arrays, from the first decision on, and the number of the first one that must take the careful
        # path again, because it has to work on prices.
        self._fast: ShadowPath | None = None
        self._wake = 0
        self._label()

    def _label(self) -> None:
        self._units = Units.of(self.rules, self._n_constraints)
        self._labels = labels_of(self._input, self._units)

    # One round

    def _decide(self, offer: Offer, forced: int | None = None) -> Decision:
        self._prices.work(self._memory, self._beliefs)
        force = self._input.in_force(offer.group)
        step = self._prices.step(offer, self._beliefs, force, -1 if forced is None else forced)
        self._beliefs.look_ahead(
            offer.phi, offer.ids, shadow.best_mean(len(offer.ids), self._n_constraints, step.trace)
        )
        self._prices.remember(self._memory, remembered(offer, self._input), self._pending.made)
        decision = self._decided(offer, step.row, step.trace, step.kept, step.sampling)
        if self._fast is None and ShadowPath.fits(self._beliefs):
            own = self._beliefs, self._prices, self._memory, self._pending
            self._fast = ShadowPath(*own, self._input, self._labels)
        if self._fast is not None:
            self._fast.open_for(len(offer.ids))
        self._set_alarm()
        return decision

    def _weigh(self, offer: Offer) -> Quote:
        # On a copy of the prices; models are only asked.
        prices = self._prices.copy()
        prices.work(self._memory, self._beliefs)
        step = prices.step(offer, self._beliefs, self._input.in_force(offer.group), -1)
        proposed = self._decided(offer, step.row, step.trace, None, step.sampling)
        return Quote(offer, proposed, self._pending.owner)

    def _set_alarm(self) -> None:
        self._wake = self._prices.next_work(self._pending.made)

    # Learn

    def _book_costs(self, costs: Array) -> None:
        """The costs are already in the totals, in place of their bookings."""

    def _learn_reward(self, pending: Pending, reward: float) -> None:
        self._prices.note_unit(self._reward, reward)
        self._reward.learn(pending[2], reward, pending[1])

    def _learn_costs(self, pending: Pending, costs: Array) -> None:
        _, action, _, z, group, _ = pending
        assert z is not None
        psi = self._prices.take_costs(z, costs, self._cost)
        self._beliefs.learn_costs(psi, costs, action, self._unseen(group))

    def forget(self, decision: Decision | int) -> None:
        """Drop a pending decision: its outcome will never come, and the booking for its costs is reversed."""
        number = self._pending.number_of(decision)
        self._prices.release(self._pending[number])
        self._pending.close(number)
        self._settled()

    def _forget_more(self, numbers: Collection[int]) -> None:
        if self._memory.forget({*numbers}):
            self._prices.forgot(self._memory)
            self._set_alarm()

    def _settled(self) -> None:
        """If no outcome is awaited, nothing is booked, not even a rounding error."""
        if not self._pending:
            self._prices.vector(shadow.BOOKED)[:] = 0.0

    def _unseen(self, group: Any) -> Any:
        """Which costs are not seen after acting, because their rules are not in force."""
        return [] if self._rule_costs is None else self._rule_costs.force(group).unseen

    # What the policy knows

    @property
    def prices(self) -> Array:
        """λ at the current totals, (K,): the reward that one more unit of what each rule counts would earn."""
        return self._units.unit_prices(self._dual())

    def _dual(self) -> Array:
        return self._prices.in_force()

    @property
    def expected_totals(self) -> Array:
        """`totals` plus the estimates of costs still to come."""
        return self.totals + self._prices.vector(shadow.BOOKED)

    @property
    def infeasible(self) -> NDArray[np.bool_]:
        """Which rules can't be met on what was seen, (K,)."""
        return np.asarray(self._prices.vector(shadow.INFEASIBLE) != 0.0)

    def conflict(self) -> Conflict | None:
        """The rules that can't be met together on the remembered rounds, and the smallest relaxation; None if all can be met."""
        return find_conflict(self._memory, self._beliefs, self._units, self._input.constraints)

    def _cost_of_rules(self) -> WithoutRules | None:
        """Roughly what each rule costs: mean rewards with and without it; None if too little is known or rules can't be met."""
        names = self._input.constraints
        return rewards_without_rules(self.rounds, self._memory, self._beliefs, names)

    def _own_concerns(self) -> list[Concern]:
        return concerns.hopeless(self, self.infeasible, self._columns)

    def _remedy_of_totals(self, constraints: Sequence[int]) -> str:
        return concerns.remedy_of_totals(self.infeasible, constraints)

    def _cost_sizes(self) -> Array:
        return self._prices.cost_sizes()

    def _guarantees(self) -> dict[str, Any]:
        if not self._given["guard"]:
            return {}
        return {
            "totals at or below zero in every round": (
                "with certainty, for costs that are known before acting, if every round offers an action with no cost above zero"
            )
        }

    def _compiles(self) -> bool:
        return self._beliefs.compiled

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
                found.append(remembered(told, self._input))
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
        return self._prices.arrays(self._memory)

    def _load_more(self, arrays: Arrays) -> None:
        self._memory, self._fast = self._prices.load(arrays), None
        self._set_alarm()

    def _rolled_back(self, same_costs_awaited: bool) -> None:
        # If the same outcomes are awaited, their bookings are the same, to the bit.
        if not same_costs_awaited:
            self._prices.book_again(self._pending.values())

    def _resume(self, old: Policy, *, same_costs: bool, shifts: Array | None = None) -> None:
        then, mine = old.hooks, self._input.constraints
        theirs = self._names_of_constraints(then)
        same = same_costs and mine == theirs
        self._go_on(then, ("memory/", "solve/") if same else ())
        self._prices.carry_over(then.compiled_state().core, mine, theirs, self._memory, same)
        self._prices.book_again(self._pending.values())
        if shifts is not None:
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
        }
        given = {name: self._given[name] for name, one in usual.items() if self._given[name] != one}
        shown = [f"{name}={value:g}" for name, value in given.items()]
        sampling = self._given["sampling"]
        return self._shown(*shown, *([] if sampling is None else [f"sampling={sampling!r}"]))
