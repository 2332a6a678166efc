"""What every policy does: decide, learn, propose, forget, copy, explain, save and load."""

from __future__ import annotations

import inspect
import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from msgspec.structs import replace

from tightrope import kernels
from tightrope.concerns import Concern, warn
from tightrope.errors import InvalidInput
from tightrope.ledger.totals import Totals
from tightrope.ledger.windows import Windows
from tightrope.models import Model, hooks
from tightrope.models.background import BackgroundWork
from tightrope.models.model import NO_DECISION, make_room
from tightrope.offer import Offer, OfferReader, rounds_of, rows_for_each
from tightrope.policies.choices import Choice, checked_choice, unpack_choice
from tightrope.policies.decision import NOBODY, Decision, Explanation, Labels, Quote
from tightrope.policies.hooks import PolicyHooks, hooks_of, learnt_by, received, restored
from tightrope.policies.notebook import policy_page
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, Pending, PendingDecisions
from tightrope.policies.plain_values import as_float
from tightrope.policies.state_file import Arrays, as_data, checked, part_of, rolled_back, write_state
from tightrope.policies.watch import LOOK_EVERY, Watch, next_look
from tightrope.problem import Problem, Setting
from tightrope.registry import found_by, reference
from tightrope.rules import Rules
from tightrope.validation import (
    COST_LIMIT,
    LARGEST,
    Array,
    finite_number,
    real_array,
    require_range,
)

__all__ = ["Choice", "Policy"]

# The arguments of `decide`, in order.
ROUND = ("features", "costs", "cost_features", "actions", "usage", "group", "keys", "time")


class Policy:
    """Decides and learns: a policy of the package, or one of your own.

    Your own policy defines `_choose`, and any of the other methods in the first part of this class that it needs; it can then be
    simulated, compared, saved, loaded and served. It keeps its constructor's parameters under their names, with or without a
    leading underscore, and its state in arrays. Models are parameters called `reward` and `cost`, kept as `_reward` and `_cost`
    (`copy_of_model`). `_n_constraints` and `_sees_costs` say which costs it looks at. Randomness comes from `_uniform`, which
    depends only on the seed and the decision's number, so `_choose` can be called again. `examples/own_policy.py` is an example.
    """

    kind: ClassVar[str]
    _n_actions: int | None = None
    _n_constraints: int = 0
    # As in `Traits`. Costs that `decide` does not get are seen after acting.
    _loop: ClassVar[str | None] = None
    _sees_costs: bool = False
    _sees_context: bool = False
    _asks_for_group: ClassVar[bool] = False
    _randomised: ClassVar[bool] = False
    _learns: ClassVar[bool] = True
    # The range in which rewards must lie.
    _reward_range: ClassVar[tuple[float, float] | None] = None
    # Arguments that `decide` refuses, and why.
    _refuses: ClassVar[tuple[tuple[str, ...], str]] = ((), "")
    # Called with each new concern; a service logs it, a simulation collects `concerns` at the end.
    _notify: Callable[[Concern], None] = staticmethod(warn)
    # How to read the numbers behind its decisions.
    _labels: Labels = Labels(None, None, unpack_choice)
    # The decisions that await an outcome, and the number of all decisions made.
    _pending: PendingDecisions
    _reward: Model | None = None
    _cost: Model | None = None
    # The accounts of limits per window, if there are any.
    _windows: Windows | None = None
    _look_at: int = LOOK_EVERY
    _cost_of_rules: Callable[[], Any] | None = None
    _restate: Callable[[Array], None] | None = None

    def __init_subclass__(cls) -> None:
        cls.kind = found_by(cls)
        # A subclass may decide differently.
        cls._loop = vars(cls).get("_loop")

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Start with no decisions; not a property of the class, since that would slow every decision down."""
        policy = super().__new__(cls)
        policy._pending = PendingDecisions()
        return policy

    # What a policy defines

    def _choose(self, offer: Offer) -> Choice:
        """The row to play. Changes nothing."""
        raise NotImplementedError(f"{type(self).__name__} must define _choose(self, offer).")

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        """Note that the choice is played, or another row that someone else chose instead (`commit`)."""
        return

    def _kept_features(self, offer: Offer, choice: Choice) -> tuple[Array | None, Array | None]:
        """φ and ψ for learning the outcome."""
        row = choice.row
        return (
            None if offer.phi is None else offer.phi[row].copy(),
            None if offer.psi is None else offer.psi[row].copy(),
        )

    def _learn_reward(self, pending: Pending, reward: float) -> None:
        if self._reward is not None:
            self._reward.learn(pending[2], reward, pending[1])

    def _learn_costs(self, pending: Pending, costs: Array) -> None:
        if self._cost is not None:
            self._cost.learn(pending[3], costs, pending[1])

    def _learn_outcome(
        self, pending: Pending, reward: float | None, costs: Array | None, complete: bool
    ) -> None:
        """Learn the parts of an outcome that have arrived; `complete` if none is left."""
        if reward is not None:
            self._learn_reward(pending, reward)
        if costs is not None:
            self._learn_costs(pending, costs)

    def _kept_lengths(self) -> tuple[int, int]:
        """How many numbers a pending decision has for φ and ψ, including those stored after ψ."""
        return (
            0 if self._reward is None else self._reward.n_features,
            (0 if self._cost is None else self._cost.n_features) + self._n_booked(),
        )

    def _n_booked(self) -> int:
        """How many estimated costs are stored after ψ of a pending decision."""
        return 0

    def _arrays(self) -> Arrays:
        """Further state by name: the arrays themselves, of constant shapes; `rewards/…` and `usage/…` hold what was learnt."""
        return {}

    def _more_state(self) -> Arrays:
        """Copies of the state whose arrays grow and shrink, by name."""
        return {}

    def _load_more(self, arrays: Arrays) -> None:
        """Take on the result of `_more_state`; everything else is already loaded."""

    def _forget_more(self, numbers: Collection[int]) -> None:
        """Drop anything else stored about the inputs of some decisions; see `_forget_inputs`."""

    def _settled(self) -> None:
        """Called when an outcome has arrived, or is no longer awaited."""

    def _own_background(self) -> list[BackgroundWork]:
        """Background work other than fitting models."""
        return []

    def _setting(self) -> Setting:
        return self._asks()

    def _asks(self, **more: Any) -> Setting:
        """The same number of actions, models that fit, costs seen when the policy sees them; and anything else it names."""
        return Setting(
            n_actions=self._n_actions,
            n_constraints=self._n_constraints or None,
            seen_before=np.full(self._n_constraints, self._sees_costs),
            reward=self._reward,
            cost=self._cost,
            **more,
        )

    @property
    def _cost_bounds(self) -> Array:
        return np.array([[-COST_LIMIT, COST_LIMIT]] * self._n_constraints)

    def _own_concerns(self) -> list[Concern]:
        return []

    def _remedy_of_totals(self, constraints: Sequence[int]) -> str:
        return "The shadow-price policy takes running totals into account; `tightrope oracle SPEC` says if the rules can be met."

    def _cost_sizes(self) -> Array:
        return np.ones(self._n_constraints)

    def _cost_scales(self) -> Array:
        return np.ones(self._n_constraints)

    # What the base class provides

    @cached_property
    def _input(self) -> OfferReader:
        K = self._n_constraints if self._sees_costs else 0
        models = self._reward, self._cost
        return OfferReader(*models, K, np.ones(K, dtype=bool), n_actions=self._n_actions, ignores=True)

    @cached_property
    def _ledger(self) -> Totals:
        return Totals(self._n_constraints)

    @cached_property
    def _watch(self) -> Watch:
        return Watch(self._n_constraints)

    def concerns(self) -> list[Concern]:
        """Requests that the policy can't meet, as far as its state shows: each with the numbers, in words, and the remedy.

        Totals are judged as they are now, from decision 512 on, by checks before every 64th decision. A new concern is reported
        once, as a `PolicyWarning` unless `hooks.report_to` says otherwise: totals before any of these decisions, everything
        else before decision 512 and whenever the number of decisions has doubled.
        """
        return [*self._own_concerns(), *self._watch.concerns(self, self._reward)]

    def _repr_html_(self) -> str:
        return policy_page(self)

    def _look(self) -> None:
        self._look_at = next_look(self._pending.made)
        self._watch.look(self)

    @property
    def totals(self) -> Array:
        """A copy of the cumulative known costs, (K,), scaled as the constraints are."""
        return self._ledger.totals

    @property
    def rounds(self) -> int:
        """Decisions made so far."""
        return self._pending.made

    @property
    def pending(self) -> tuple[int, ...]:
        """Numbers of the decisions that await an outcome, oldest first."""
        return tuple(self._pending)

    def _reward_model(self) -> Any:
        return None if self._reward is None else self._reward.copy()

    def _cost_model(self) -> Any:
        return None if self._cost is None else self._cost.copy()

    def _dual(self) -> Array:
        return np.zeros(self._n_constraints)

    @property
    def hooks(self) -> PolicyHooks:
        """The interface for the service, the engines and other tools; `docs/policy.md` lists it."""
        return hooks_of(self)

    @property
    def _rules(self) -> Rules | None:
        return None

    def _report_to(self, tell: Callable[[Concern], None]) -> None:
        self._notify = tell

    def _guarantees(self) -> dict[str, Any]:
        return {}

    def _for_problem(self, problem: Problem) -> Policy:
        return self

    def _compiles(self) -> bool:
        return True

    def _compiled_state(self) -> Any:
        return None

    def _uniform(self, slot: int = 0) -> float:
        """A number in [0, 1) for the next decision: a function of the seed, the decision's number and the slot (one per draw)."""
        if not hasattr(self, "seed"):
            raise InvalidInput(
                f"{type(self).__name__} draws, so its constructor must take a `seed`, which it keeps."
            )
        return float(kernels.uniforms(self.seed, 0, self._pending.made, slot)[0])

    def decide(
        self,
        features: Any = None,
        costs: Any = None,
        *,
        cost_features: Any = None,
        actions: Sequence[int | str] | None = None,
        usage: Mapping[str, Any] | None = None,
        group: Any = None,
        keys: Mapping[str, Any] | None = None,
        time: Any = None,
        context: int | None = None,
    ) -> Decision:
        """Choose one of the actions on offer.

        Parameters
        ----------
        features : (J, d) array, or (p,) for a model with parameters for each action; none if no model uses features
        costs : (J, K) or (J, d_w) array
            W of each action, for a policy that sees costs before acting. If the policy learns costs from those seen after acting:
            the features of the costs, `features` by default. A policy without constraints ignores costs.
        cost_features : (J, d_w) array
            The features of the costs, under their own name.
        actions : sequence of ids
            Which action each row is; all by default.
        usage, group, keys, time
            For rules; a policy without constraints ignores them.
        context : int
            The number of the context, for a policy that takes it.
        """
        offer = self._offer(features, costs, cost_features, actions, usage, group, keys, time, context)
        return self.commit(self._weigh(offer))

    def quote(self, *offer: Any, **given: Any) -> Quote:
        """What `decide` would choose, for an `Offer` or for the arguments of `decide`: weighs and draws, and changes nothing.

        >>> import tightrope as tr
        >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
        >>> quote = policy.quote(costs=[[0.5], [-0.5]])
        >>> policy.rounds, policy.commit(quote).action == quote.proposed.action, policy.rounds
        (0, True, 1)
        """
        read = len(offer) == 1 and isinstance(offer[0], Offer)
        return self._weigh(self._admitted(offer[0]) if read else self._offer(*offer, **given))

    def _decide_offer(self, offer: Offer) -> Decision:
        return self.commit(self._weigh(self._admitted(offer)))

    def commit(self, quote: Quote, action: int | None = None) -> Decision:
        """Turn a quote into a decision: it counts, and you can learn its outcome. Refused if the state has changed since.

        Parameters
        ----------
        quote : Quote
            A result of `quote`, from this policy in its current state.
        action : int, optional
            The action on offer that someone else chose instead of the quoted one.
        """
        self._pending.require_current(quote)
        offer, row = quote.offer, None
        if action is not None:
            row = offer.row_of("the action that was chosen", action)
        if self._pending.made >= self._look_at:
            self._look()
        return self._book(quote, row)

    def decide_many(
        self,
        features: Any = None,
        costs: Any = None,
        *,
        cost_features: Any = None,
        actions: Sequence[Sequence[int | str] | None] | None = None,
        usage: Sequence[Mapping[str, Any] | None] | None = None,
        group: Sequence[Any] | None = None,
        keys: Sequence[Mapping[str, Any] | None] | None = None,
        time: Sequence[Any] | None = None,
        rounds: int | None = None,
    ) -> list[Decision]:
        """The same as successive `decide` calls without `learn` in between: the estimates stay the same.

        Every argument has one entry for each round, in a sequence or along a first axis. Pass `rounds`, a number, if there is no
        such argument. All input is checked before the first decision is made.

        >>> import tightrope as tr
        >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(3))
        >>> len(policy.decide_many(rounds=2))
        2
        """
        given = dict(zip(ROUND, (features, costs, cost_features, actions, usage, group, keys, time)))
        if rounds is None and (made := self._decide_at_once(given)) is not None:
            return made
        offers = self._take_offers(rounds_of(given, rounds))
        if self._pending.made >= self._look_at:
            self._look()
        made = []
        for offer in offers:
            if self._pending.made % LOOK_EVERY == 0:
                self._watch.note_totals(self.totals, self.rounds)
            made.append(self._decide(offer))
        return made

    def _decide_at_once(self, given: Mapping[str, Any]) -> list[Decision] | None:
        """`decide_many` in one compiled call; None if no compiled code fits."""
        return None

    def explain(self, what: Decision | Quote) -> Explanation:
        """The reasons for a decision of this policy, or for a quote: rewards, penalties and values of all actions on offer.

        >>> import tightrope as tr
        >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
        >>> decision = policy.decide(costs=[[0.5], [-0.5]])
        >>> policy.explain(decision).actions, policy.explain(policy.quote(costs=[[0.5], [-0.5]])).round
        (('0', '1'), 2)
        """
        if isinstance(what, Quote):
            what = what.proposed
        if not isinstance(what, Decision):
            raise InvalidInput(field="what", must="be a Decision or a Quote", got=what)
        if what.owner not in (NOBODY, self._pending.owner):
            raise InvalidInput(f"decision {what.number} was made by another policy.")
        return what.explain()

    def propose(self, *args: Any, **kwargs: Any) -> Decision:
        """What `decide` would choose for the same arguments, without choosing it: no state changes, nothing is learnt.

        >>> import tightrope as tr
        >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
        >>> proposed = policy.propose(costs=[[0.5], [-0.5]])
        >>> policy.rounds, proposed.action == policy.decide(costs=[[0.5], [-0.5]]).action
        (0, True)
        """
        return self.quote(*args, **kwargs).proposed

    def learn(
        self,
        decision: Decision | int,
        reward: Any = None,
        costs: Any = None,
        *,
        usage: Mapping[str, Any] | None = None,
    ) -> None:
        """Learn the outcome of a decision, or a part of it, at any time and in any order; each part at most once."""
        if usage is not None:
            raise InvalidInput("usage needs rules, which this policy does not take: pass costs.")
        if self._learns:
            self._learn_parts(decision, reward, costs, None)
            return
        parts = AWAITS_REWARD * (reward is not None) | AWAITS_COSTS * (costs is not None)
        self._pending.learnt(self._pending.number_of(decision), parts or AWAITS_REWARD | AWAITS_COSTS)

    def _learn_parts(self, decision: Decision | int, reward: Any, costs: Any, usage: Any) -> None:
        """The careful path of `learn`: all parts are checked before the first is learnt."""
        reward = as_float(reward)
        number = self._pending.number_of(decision)
        pending = self._pending[number]
        parts, y, w = 0, None, None
        if reward is not None:
            self._pending.require(number, AWAITS_REWARD)
            low, high = self._reward_range or (-LARGEST, LARGEST)
            y, parts = finite_number("reward", reward, low=low, high=high), AWAITS_REWARD
            if self._reward is not None:
                hooks.check_outcome(self._reward, y)
        if costs is not None or usage is not None:
            parts |= AWAITS_COSTS
            if self._costs_can_come():
                self._pending.require(number, AWAITS_COSTS)
                w = self._observed_costs(costs, usage, pending[1], pending[4])
                if self._cost is not None:
                    hooks.check_outcome(self._cost, w)
        if y is None and not parts & pending[0]:
            raise InvalidInput("learn needs a reward, costs, or both.")
        self._note_decision(number)
        self._learn_outcome(pending, y, w, complete=not pending[0] & ~parts)
        self._note_decision(NO_DECISION)
        if w is not None:
            self._book_costs(w)
        self._pending.learnt(number, parts)
        self._settled()

    def _costs_can_come(self) -> bool:
        """Whether costs are seen after acting; raises if all were seen before."""
        if self._n_constraints and self._sees_costs:
            raise InvalidInput("Costs were already passed to decide(); learn() takes only the reward.")
        return self._n_constraints > 0

    def _book_costs(self, costs: Array) -> None:
        self._ledger.book(costs)

    def _book_correction(self, costs: Array) -> None:
        self._ledger.book(costs)

    @property
    def _counts_seconds(self) -> bool:
        return any(isinstance(hooks.half_life(model), str) for model in self._models_of_its_own())

    def _elapse(self, seconds: float) -> None:
        for model in self._models_of_its_own():
            if isinstance(hooks.half_life(model), str):
                hooks.elapse(model, finite_number("seconds", seconds, low=0.0))
                self._pending.version += 1

    def _background(self) -> list[BackgroundWork]:
        fits = [one for model in self._models_of_its_own() for one in hooks.background(model)]
        return [*fits, *self._own_background()]

    def forget(self, decision: Decision | int, *, acted: bool = True) -> None:
        """Drop a pending decision: its outcome will never come. Whatever deciding has changed stays.

        With `acted=False` it was never carried out, and limits per window get back what it booked.
        """
        self._pending.close(self._pending.number_of(decision))

    def _forget_inputs(self, numbers: Collection[int]) -> None:
        """Drop stored inputs of decisions, by number: pending ones, rows that models keep, and `_forget_more`; sums stay."""
        for number in sorted({*numbers} & {*self._pending}):
            self.forget(number)
        for model in self._models_of_its_own():
            hooks.forget_inputs(model, numbers)
        self._forget_more(numbers)
        self._pending.version += 1

    # Save, restore, copy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, including pending decisions; `tightrope.load` restores it exactly."""
        write_state(path, self.kind, self._settings(), self._state())

    def _settings(self) -> dict[str, Any]:
        given = {name: as_data(self._parameter(name)) for name in inspect.signature(type(self)).parameters}
        return {**given, **self._pending.settings()}

    def _state(self) -> Arrays:
        return {
            **self._pending.arrays(*self._kept_lengths()),
            **{name: array.copy() for name, array in self._all_arrays().items()},
            **self._more_state(),
        }

    def _restore(self, settings: dict[str, Any], arrays: Arrays) -> None:
        self._load(arrays)
        self._pending.take_settings(settings)

    def _resume(self, old: Policy, *, same_costs: bool, shifts: Array | None = None) -> None:
        """Go on where `old` stands, a policy of the same kind under another configuration, which may know more actions.

        `same_costs` says that costs seen before acting have not changed, so measurements on them still hold. Costs
        seen after acting have grown by `shifts`, (K_after,), because limits have changed; None means not at all.
        """
        if shifts is not None and self._n_constraints:
            raise InvalidInput(
                f"limits of rules that are seen after acting can't change under a {self.kind} policy."
            )
        if self._sees_costs and not same_costs:
            raise InvalidInput(f"costs that are seen before acting can't change under a {self.kind} policy.")
        then = {**old.hooks.state(), **learnt_by(old.hooks, self._reward, self._cost)}
        self._make_room(then)
        for name, mine in self._all_arrays().items():
            if name in then and mine.shape == then[name].shape:
                mine[...] = then[name]
        self._load_more(then)
        self._pending.made = old.hooks.pending.made
        self._pending.version += 1
        self._pending.update(old.hooks.pending)

    def _roll_back(self, then: Arrays, *, learnt_only: bool) -> list[int]:
        """Restore what was learnt, or everything, from an earlier `state`; returns the numbers of the pending decisions dropped.

        Decisions keep their numbers. Those pending both then and now stay pending; unless `learnt_only`, later ones
        are dropped.
        """
        then = self._state_before(then)
        now, pending = self._state(), dict(self._pending)
        awaited = then["pending/number"][then["pending/awaits"] & AWAITS_COSTS != 0].tolist()
        dropped = [] if learnt_only else sorted(set(pending) - set(then["pending/number"].tolist()))
        self._load(rolled_back(now, then, learnt_only))
        self._pending.update(pending)
        for number in dropped:
            del self._pending[number]
        self._rolled_back(learnt_only or awaited == self._pending.awaiting_costs())
        return dropped

    def _state_before(self, then: Arrays) -> Arrays:
        """The complete state that an earlier one stands for."""
        return then

    def _rolled_back(self, same_costs_awaited: bool) -> None:
        """Take note that an earlier state has come back; whether the same costs were awaited then, or all of them still are."""

    def _load(self, arrays: Arrays) -> None:
        self._make_room(arrays)
        for name, array in self._all_arrays().items():
            array[...] = checked(arrays, name, array.dtype, array.shape)
        self._pending.clear()
        self._pending.version += 1
        self._pending.restore(arrays, *self._kept_lengths(), self._n_actions)
        self._watch = Watch(self._n_constraints, self._pending.made)
        self._load_more(arrays)

    def copy(self, seed: int | None = None) -> Self:
        """An independent policy in the same state; it accepts this one's pending decisions only by number."""
        settings = self._settings()
        if seed is not None and "seed" in settings:
            settings["seed"] = seed
        settings["owner"] = secrets.randbits(63)
        return restored(type(self), settings, self._state_for(seed))

    def _state_for(self, seed: int | None) -> Arrays:
        """The state of a copy, which draws with another seed if one is given."""
        return self._state()

    def __reduce__(self) -> tuple[Any, ...]:
        """For worker processes: what is saved is all there is. Classes of models come along: none may know their names there."""
        models = [reference(one) for one in self._model_classes()]
        return received, (reference(type(self)), models, self._settings(), self._state())

    def _model_classes(self) -> list[Any]:
        return [type(model) for model in (self._reward, self._cost) if model is not None]

    # Helpers

    def _offer(self, *given: Any, **named: Any) -> Offer:
        """One round, from the arguments of `decide`."""
        known = dict(zip((*ROUND, "context"), given)) | named
        names, why = self._refuses
        for name in names:
            if known.get(name) is not None:
                raise InvalidInput(f"{type(self).__name__} takes no {name}: it is for {why}.")
        return self._admitted(self._input.offer(**known))

    def _admitted(self, offer: Offer) -> Offer:
        """An offer as `_choose` reads it: with costs if the policy sees them, and a row of features for each action."""
        names, why = self._refuses
        if "actions" in names and not offer.whole:
            raise InvalidInput(f"{type(self).__name__} takes no actions: it is for {why}.")
        J, W = len(offer.ids), offer.W
        if self._sees_costs:
            require_range("costs", W, -COST_LIMIT, COST_LIMIT)
        elif W.shape[1]:
            W = W[:, :0]
        return replace(offer, phi=rows_for_each(offer.phi, J), psi=rows_for_each(offer.psi, J), W=W)

    def _take_offers(self, rounds: Sequence[Mapping[str, Any]]) -> list[Offer]:
        offers = []
        for i, given in enumerate(rounds):
            try:
                offers.append(self._offer(**given))
            except InvalidInput as error:
                raise InvalidInput(f"round {i} of decide_many: {error}") from error
        return offers

    def _decide(self, offer: Offer, forced: int | None = None) -> Decision:
        """`quote` and `commit` in one, on checked input; `forced` is the row if somebody else chose it."""
        return self._book(self._weigh(offer), forced)

    def _weigh(self, offer: Offer) -> Quote:
        choice = checked_choice(self._choose(offer), len(offer.ids), type(self).__name__)
        return Quote(offer, self._decision(offer, choice, NOBODY), self._pending.owner, choice)

    def _book(self, quote: Quote, row: int | None) -> Decision:
        """Turn a current quote into a decision, on another row if one is given."""
        offer: Offer = quote.offer
        choice: Choice = quote.note if row is None else quote.note._replace(row=row)
        phi, psi = self._kept_features(offer, choice)
        awaits = AWAITS_REWARD | (0 if self._sees_costs or not self._n_constraints else AWAITS_COSTS)
        if self._sees_costs:
            self._ledger.book(offer.W[choice.row])
        decision = self._decision(offer, choice, self._pending.owner)
        self._chosen(offer, choice)
        self._watch.note_offer(offer.ids, self._n_actions)
        self._pending.add(awaits, decision.action, phi, psi, offer.group)
        return decision

    def _decision(self, offer: Offer, choice: Choice, owner: int) -> Decision:
        row, trace, certain = choice.row, choice.trace(), choice.probabilities is None
        made, version, action = self._pending.made, self._pending.version, int(offer.ids[row])
        return Decision(action, row, made, owner, version, offer.ids, trace, self._labels, None, certain)

    def _observed_costs(self, costs: Any, usage: Any, action: int, group: Any) -> Array:
        K = self._n_constraints
        shapes: list[tuple[int | None, ...]] = [(K,), *([()] if K == 1 else [])]
        w = real_array("costs", costs, *shapes).reshape(K)
        require_range("costs", w, *self._cost_bounds.T)
        return w

    def _models_of_its_own(self) -> list[Model]:
        return [one for one in (self._reward, self._cost) if isinstance(one, Model)]

    def _note_decision(self, number: int) -> None:
        for model in self._models_of_its_own():
            hooks.note_decision(model, number)

    def _parameter(self, name: str) -> Any:
        for kept in (name, f"_{name}"):
            if hasattr(self, kept):
                return getattr(self, kept)
        where = f"must be kept in an attribute `{name}` or `_{name}`"
        raise InvalidInput(f"the parameter {name!r} of {type(self).__name__}'s constructor {where}.")

    def _make_room(self, arrays: Arrays) -> None:
        """Make room for new input in models whose arrays grow."""
        for part, model in (("reward/", self._reward), ("cost/", self._cost)):
            given = part_of(arrays, part)
            if model is not None and given.keys() >= model.arrays().keys():
                make_room(model, given)

    def _all_arrays(self) -> Arrays:
        found: Arrays = {**self._ledger.arrays(), **self._arrays()}
        for part, model in (("reward", self._reward), ("cost", self._cost)):
            if model is not None:
                found |= {f"{part}/{name}": array for name, array in model.arrays().items()}
        return found
