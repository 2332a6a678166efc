"""What policies share that keep constraints, given as numbers or as rules: input, outcomes that come in parts, saved rules."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from msgspec.structs import replace

from tightrope.encoder import Encoder
from tightrope.errors import InvalidInput
from tightrope.models import MODELS, Model, hooks
from tightrope.models.model import NO_DECISION
from tightrope.models.sizes import Sizes, Unsized, read_model
from tightrope.offer import Offer, OfferReader
from tightrope.policies.decision import Decision, Quote
from tightrope.policies.hooks import arguments_in
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, PendingDecisions
from tightrope.policies.plain_values import as_float
from tightrope.policies.policy import Policy
from tightrope.policies.sizing import Context, numbers_of, sizes_in, sizes_of_rows
from tightrope.policies.state_file import Arrays
from tightrope.problem import Problem, Seen, Setting
from tightrope.rules import Rules, Units
from tightrope.validation import LARGEST, Array, finite_number

# The arguments of `decide`, in order.
ROUND = ("features", "costs", "cost_features", "actions", "usage", "group")


class Constrained(Policy):
    """A policy whose K costs are seen before acting, after, or some each way; what it is given goes through its `_input`."""

    rules: Rules | None
    _reward: Any
    _cost: Any
    _input: OfferReader
    _pending: PendingDecisions
    _seen: tuple[Seen, ...] | None = None
    context: Context
    # The models as they were given, as long as some of them have no sizes; empty once the policy has its models.
    _asked: dict[str, Model | Unsized | None]
    # Compiled code for offers of all actions, once there is any, and the round before which it does.
    _fast: Any = None
    _wake: float = math.inf

    @abstractmethod
    def _decide(self, offer: Offer, forced: int | None = None) -> Decision:
        """`quote` and `commit` in one, on input that was checked; `forced`: the row that somebody else has chosen.

        The same numbers to the bit, for what is weighed and drawn depends on the state and the offer alone.
        """

    def quote(self, *offer: Any, **given: Any) -> Quote:
        """What `decide` would choose on an `Offer`, or on the arguments of `decide`: weighs and draws, and changes nothing."""
        if len(offer) == 1 and isinstance(offer[0], Offer):
            return self._weigh(self._admitted(offer[0]))
        known = dict.fromkeys(ROUND) | dict(zip(ROUND, offer)) | given
        reader = self._reader(known)
        known, context = _as_numbers(known, self.context)
        return replace(reader._weigh(reader._input.offer(**known)), note=(reader, context))

    def _admitted(self, offer: Offer) -> Offer:
        if self._asked:
            raise InvalidInput("an Offer is for a policy that has its sizes: give them to its models.")
        if offer.W.shape[1] > self._n_constraints:
            offer = replace(offer, W=offer.W[:, : self._n_constraints].copy())
        self._input.require_valid(offer)
        return offer

    def _decide_offer(self, offer: Offer) -> Decision:
        if self._pending.made >= self._look_at:
            self._look()
        if self._fast is not None and offer.whole and self._pending.made < self._wake:
            x, z, known = offer.phi, offer.psi, len(self._input.known_columns)
            phi = x if x is None or len(x) > 1 else x[0]
            psi = phi if z is x else z if z is None or len(z) > 1 else z[0]
            decision: Decision | None = self._fast.decide(
                phi, offer.W if known else None, psi, None, offer.group
            )
            if decision is not None:
                return decision
        return self._decide(self._admitted(offer))

    def _book(self, quote: Quote, row: int | None) -> Decision:
        if quote.note is not None:
            self._become(*quote.note)
        return self._decide(quote.offer, row)

    def _observed_costs(self, costs: Any, usage: Any, action: int, group: Any) -> Array:
        """The costs seen after acting, (K_after,), checked."""
        return self._input.observed(costs, usage, action, group)

    @property
    def _rules(self) -> Rules | None:
        return self.rules

    def _cost_scales(self) -> Array:
        return Units.of(self.rules, self._n_constraints).scales

    def _setting(self) -> Setting:
        """As many constraints, seen when they are seen here; without constraints the costs do not matter."""
        known = np.isin(np.arange(self._n_constraints), self._input.known_columns)
        return Setting(
            n_constraints=self._n_constraints or None, seen_before=known, reward=self._reward, cost=self._cost
        )

    # Sizes that nobody typed

    def _read_models(self, reward: Any, cost: Any, late: int) -> tuple[Model | None, Model | None]:
        """The models that were given, `late` costs being seen after acting; none as long as their sizes are not known."""
        self._asked = {
            "reward": read_model("reward", reward),
            "cost": read_model("cost", "linear" if cost is None else cost) if late else None,
        }
        x = self.context
        rules = self.rules
        if isinstance(x, Encoder) and rules is not None:
            self._asked |= self._made(
                dict.fromkeys(self._asked, Sizes(len(rules.actions), x.n_features, per_action=False))
            )
        if any(isinstance(one, Unsized) for one in self._asked.values()):
            for part, model in self._asked.items():
                if isinstance(model, Model) and hooks.n_learnt(model):
                    raise InvalidInput(
                        f"{part} has learnt already, so the other model needs sizes too: pass n_features= to it."
                    )
            return None, None
        made, self._asked = self._asked, {}
        return made["reward"], made["cost"]  # type: ignore[return-value]

    def _made(self, sizes: Mapping[str, Sizes]) -> dict[str, Model | None]:
        return {
            part: one.sized(sizes[part]) if isinstance(one, Unsized) else one
            for part, one in self._asked.items()
        }

    def _for_problem(self, problem: Problem) -> Self:
        """The policy, or one like it that has the sizes of a problem where nobody typed any."""
        return self._sized({part: sizes_in(problem, part) for part in self._asked}) if self._asked else self

    def _sized(self, sizes: Mapping[str, Sizes]) -> Self:
        given = arguments_in(self._settings())
        twin = type(self)(**given | {part: one for part, one in self._made(sizes).items() if part in given})
        twin._pending.owner, twin._pending.version = self._pending.owner, self._pending.version
        return twin

    def _reader(self, given: Mapping[str, Any]) -> Self:
        """What reads a round: the policy, or one that has the sizes that the round shows."""
        if not self._asked:
            return self
        features, costs, psi = (given.get(name) for name in ("features", "costs", "cost_features"))
        features, psi = numbers_of(features, self.context)[0], numbers_of(psi, self.context)[0]
        late, J = len(self._input.columns), self._input.n_actions
        if (
            psi is None
            and late
            and costs is not None
            and (late == self._n_constraints or np.ndim(costs) == 1)
        ):
            costs, psi = None, costs
        for rows in (costs, features, psi):
            if J is None and given.get("actions") is None and rows is not None and np.ndim(rows) == 2:
                J = len(rows)
        return self._sized(
            {
                "reward": sizes_of_rows("features", features, J),
                "cost": sizes_of_rows("cost_features", features if psi is None else psi, J),
            }
        )

    def _take_offers(self, rounds: Sequence[Mapping[str, Any]]) -> list[Offer]:
        """Rounds that are about to be decided, checked; the first gives the policy the sizes and names that it lacks."""
        reader, context, offers = self._reader(rounds[0]) if rounds else self, self.context, []
        for i, given in enumerate(rounds):
            try:
                numbers, context = _as_numbers(given, context)
                offers.append(reader._checked_offer(**numbers))
            except InvalidInput as error:
                raise InvalidInput(f"round {i} of decide_many: {error}") from error
        self._become(reader, context)
        return offers

    def _take_offer(self, *given: Any, **named: Any) -> Offer:
        """One round that is about to be decided: the arguments of `decide`."""
        known = dict.fromkeys(ROUND) | dict(zip(ROUND, given)) | named
        reader = self._reader(known)
        known, context = _as_numbers(known, self.context)
        offer = reader._input.offer(**known)
        self._become(reader, context)
        return offer

    def _become(self, reader: Self, context: Context) -> None:
        if reader is not self:
            owner, version = self._pending.owner, self._pending.version
            type(self).__init__(self, **arguments_in(reader.hooks.settings()))
            self._pending.owner, self._pending.version = owner, version
        self.context = context

    def _roll_back(self, then: Arrays, *, learnt_only: bool) -> list[int]:
        """A state from before the first context has no models in it: what it stands for is a policy as it was made."""
        model = self._reward
        if model is not None and model.arrays() and not any(name.startswith("reward/") for name in then):
            then = type(self)(**arguments_in(self._settings())).hooks.state()
        return super()._roll_back(then, learnt_only=learnt_only)

    def _size_by_log(self, features: Any, cost_features: Any) -> None:
        """Take the sizes that are lacking from rows of past decisions."""
        if self._asked:
            J, psi = self._input.n_actions, features if cost_features is None else cost_features
            widths = {"reward": features, "cost": psi}
            sizes = {
                part: Sizes(J, 0 if x is None else np.shape(x)[-1], per_action=False)
                for part, x in widths.items()
            }
            self._become(self._sized(sizes), self.context)

    def _models_as_data(self) -> dict[str, Any]:
        """The models in `settings`, by part."""
        models = self._asked or {"reward": self._reward, "cost": self._cost}
        return {
            part: None if one is None else dict(one.settings) if isinstance(one, Unsized) else one.settings()
            for part, one in models.items()
        }

    def _model_classes(self) -> list[Any]:
        waiting = [MODELS.find(one.kind) for one in self._asked.values() if isinstance(one, Unsized)]
        return [*super()._model_classes(), *waiting]

    def _context_as_data(self) -> Any:
        return (
            self.context.to_dict()
            if isinstance(self.context, Encoder)
            else self.context and list(self.context)
        )

    def _shown_models(self) -> list[str]:
        """For a `repr`."""
        models = self._asked or {"reward": self._reward, "cost": self._cost}
        return [f"{part}={one!r}" for part, one in models.items() if one is not None]

    def _constraints_as_data(self) -> Any:
        """What the constructor reads: K, when each is seen, or the rules."""
        rules = self.rules
        if rules is None:
            return self._n_constraints if self._seen is None else list(self._seen)
        declared = {} if rules.groups is None else {"groups": list(rules.groups)}
        return {"rules": rules.to_data(), "actions": list(rules.actions), **declared}

    def _offer(self, *given: Any, **named: Any) -> Offer:
        known = dict.fromkeys(ROUND) | dict(zip(ROUND, given)) | named
        return self._input.offer(**_as_numbers(known, self.context)[0])

    def _checked_offer(self, **given: Any) -> Offer:
        return self._offer(**given)

    def _learn_parts(self, decision: Decision | int, reward: Any, costs: Any, usage: Any) -> None:
        """The careful way of `learn`: all parts are checked before the first is learnt."""
        reward = as_float(reward)
        number = self._pending.number_of(decision)
        pending = self._pending[number]
        if reward is None and costs is None and usage is None:
            raise InvalidInput("learn needs a reward, costs, or both.")
        parts, y, w = 0, None, None
        if reward is not None:
            self._pending.require(number, AWAITS_REWARD)
            low, high = self._reward_range or (-LARGEST, LARGEST)
            y, parts = finite_number("reward", reward, low=low, high=high), AWAITS_REWARD
            hooks.check_outcome(self._reward, y)
        if costs is not None or usage is not None:
            if self._cost is None:
                raise InvalidInput("costs are seen before acting here: learn takes the reward alone.")
            self._pending.require(number, AWAITS_COSTS)
            w = self._observed_costs(costs, usage, pending[1], pending[4])
            hooks.check_outcome(self._cost, w)
            parts |= AWAITS_COSTS
        self._note_decision(number)
        if y is not None:
            self._learn_reward(pending, y)
        if w is not None:
            self._learn_costs(pending, w)
        self._note_decision(NO_DECISION)
        self._pending.learnt(number, parts)


def _as_numbers(given: Mapping[str, Any], context: Context) -> tuple[dict[str, Any], Context]:
    """A round with its features as numbers, and how they became that."""
    features, names = numbers_of(given.get("features"), context)
    psi, names = numbers_of(given.get("cost_features"), names)
    return {**given, "features": features, "cost_features": psi}, names
