"""What policies share that keep constraints, given as numbers or as rules: input, outcomes that come in parts, saved rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.models.model import NO_DECISION
from tightrope.policies.decision import Decision
from tightrope.policies.input import Log
from tightrope.policies.offer import Offer, rounds_given
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, PendingDecisions
from tightrope.policies.plain_values import as_float
from tightrope.policies.policy import Policy
from tightrope.policies.watch import LOOK_EVERY
from tightrope.problem import Seen, Setting
from tightrope.rules import Rules, Units
from tightrope.validation import LARGEST, Array, finite_number, whole_number


class Constrained(Policy):
    """A policy whose K costs are seen before acting, after, or some each way; what it is given goes through its `_input`."""

    rules: Rules | None
    _reward: Any
    _cost: Any
    _input: Any
    _pending: PendingDecisions
    _seen: tuple[Seen, ...] | None = None

    @abstractmethod
    def _commit(self, offer: Offer) -> Decision:
        """One decision on input that was checked."""

    @abstractmethod
    def _observed_costs(self, costs: Any, action: int, group: Any) -> Array:
        """The costs seen after acting, (K_after,), checked."""

    def cost_scales(self) -> Array:
        """What turns the total of each constraint, (K,), into the units of its rule."""
        return Units.of(self.rules, self.n_constraints).scales

    @property
    def setting(self) -> Setting:
        """As many constraints, seen when they are seen here; without constraints the costs do not matter."""
        known = np.isin(np.arange(self.n_constraints), self._input.known_columns)
        return Setting(
            n_constraints=self.n_constraints or None, seen_before=known, reward=self._reward, cost=self._cost
        )

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
        """As many successive `decide` calls with no `learn` between: the estimates stay.

        Every argument has one entry for each round, in a sequence or along a first axis. `rounds` says how many where there is no
        such argument. All input is checked before the first decision is made.

        >>> import tightrope as tr
        >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(3))
        >>> len(policy.decide_many(rounds=2))
        2
        """
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
                offers.append(self._checked_offer(**entry))
            except InvalidInput as error:
                raise InvalidInput(f"round {i} of decide_many: {error}") from error
        if self._pending.made >= self._look_at:
            self._look()
        made = []
        for offer in offers:
            if self._pending.made % LOOK_EVERY == 0:
                self._watch.note_totals(self)
            made.append(self._commit(offer))
        return made

    @classmethod
    def parameters_from(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """What the constructor was given, from `settings`."""
        given, constraints = Policy.parameters_from(settings), settings["constraints"]
        if isinstance(constraints, dict):
            groups = constraints.get("groups")
            given["constraints"] = Rules.from_data(
                constraints["rules"], constraints["actions"], groups=groups
            )
        return given

    def _constraints_as_data(self) -> Any:
        """What `parameters_from` reads: K, when each is seen, or the rules."""
        rules = self.rules
        if rules is None:
            return self.n_constraints if self._seen is None else list(self._seen)
        declared = {} if rules.groups is None else {"groups": list(rules.groups)}
        return {"rules": rules.to_data(), "actions": list(rules.actions), **declared}

    def _offer(
        self,
        features: Any = None,
        costs: Any = None,
        cost_features: Any = None,
        actions: Any = None,
        usage: Any = None,
        group: Any = None,
        context: Any = None,
    ) -> Offer:
        offer: Offer = self._input.offer(features, costs, cost_features, actions, usage, group)
        return offer

    def _checked_offer(self, **given: Any) -> Offer:
        return self._offer(**given)

    def _learn_parts(self, decision: Decision | int, reward: Any, costs: Any, usage: Any) -> None:
        """The careful way of `learn`: all parts are checked before the first is learnt."""
        reward = as_float(reward)
        number = self._pending.number_of(decision)
        pending = self._pending[number]
        if usage is not None:
            if costs is not None:
                raise InvalidInput("give costs, or usage by name, not both.")
            if not isinstance(usage, Mapping):
                raise InvalidInput(f"usage must be a mapping from names to numbers, but got {usage!r}")
            costs = dict(usage)
        if reward is None and costs is None:
            raise InvalidInput("learn needs a reward, costs, or both.")
        parts, y, w = 0, None, None
        if reward is not None:
            self._pending.require(number, AWAITS_REWARD)
            low, high = self.reward_range or (-LARGEST, LARGEST)
            y, parts = finite_number("reward", reward, low=low, high=high), AWAITS_REWARD
            self._reward.check_outcome(y)
        if costs is not None:
            if self._cost is None:
                raise InvalidInput("costs are seen before acting here: learn takes the reward alone.")
            self._pending.require(number, AWAITS_COSTS)
            w = self._observed_costs(costs, pending[1], pending[4])
            self._cost.check_outcome(w)
            parts |= AWAITS_COSTS
        self._note_decision(number)
        if y is not None:
            self.learn_reward(pending, y)
        if w is not None:
            self.learn_costs(pending, w)
        self._note_decision(NO_DECISION)
        self._pending.learnt(number, parts)

    def _learn_log(self, log: Log) -> None:
        """Logged decisions, row by row; none where one of them can't be learnt."""
        for i in range(len(log.ids)):
            self._reward.check_outcome(log.rewards[i : i + 1])
            if log.costs is not None and self._cost is not None:
                self._cost.check_outcome(log.costs[i])
        for i, action in enumerate(log.ids):
            self._reward.learn(None if log.phi is None else log.phi[i], log.rewards[i : i + 1], action)
            if log.costs is not None and self._cost is not None:
                self._cost.learn(None if log.psi is None else log.psi[i], log.costs[i], action)
