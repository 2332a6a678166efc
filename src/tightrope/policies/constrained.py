"""What policies with constraints share, given as numbers or as rules: input, outcomes that arrive in parts, saved rules."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tightrope.concerns import Concern
from tightrope.encoder import Encoder
from tightrope.errors import InvalidInput
from tightrope.ledger.window_changes import carry_windows
from tightrope.ledger.windows import late_uses, windows_of
from tightrope.models import MODELS, Model, hooks
from tightrope.models.sizes import Sizes, Unsized, read_model
from tightrope.offer import Offer, OfferReader
from tightrope.policies.decision import NOBODY, Decision, Quote, Sampling
from tightrope.policies.hooks import PolicyHooks, arguments_in, learnt_by
from tightrope.policies.living_actions import LivingActions
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, NEVER, PendingDecisions
from tightrope.policies.policy import ROUND, Policy
from tightrope.policies.rule_costs import RuleCosts
from tightrope.policies.sizing import Context, numbers_of, sizes_in, sizes_of_rows
from tightrope.policies.state_file import Arrays, part_of
from tightrope.policies.watch import LOOK_EVERY, Watch
from tightrope.problem import Problem, Seen, Setting
from tightrope.rules import Rules, Units
from tightrope.validation import Array


class Constrained(Policy):
    """A policy whose K costs are seen before acting, after, or some of each; all its input goes through `_input`."""

    rules: Rules | None
    _reward: Any
    _cost: Any
    _input: OfferReader
    _rule_costs: RuleCosts | None
    # The constructor's arguments other than models, constraints and context.
    _given: dict[str, Any]
    _seen: tuple[Seen, ...] | None = None
    # Whether it spreads what soft limits allow per window over the decisions of the window.
    _paces: ClassVar[bool] = False
    context: Context
    # The models as given, while some of them have no sizes yet; empty once the policy has its models.
    _asked: dict[str, Model | Unsized | None]
    # Compiled code for offers of all actions, if there is any, and the round from which it no longer applies.
    _fast: Any
    _wake: int

    @abstractmethod
    def _decide(self, offer: Offer, forced: int | None = None) -> Decision:
        """`quote` and `commit` in one, on checked input; `forced` is the row if somebody else chose it.

        The numbers are the same to the bit, because weighing and drawing depend only on the state and the offer.
        """

    @property
    def actions(self) -> LivingActions:
        """The actions of a policy with rules: add, pause, resume, retire and rename them while it runs."""
        return LivingActions(self)

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
        keys: Mapping[str, Any] | None = None,
        time: Any = None,
    ) -> Decision:
        """Choose one action, and add its cost (or the estimate) to the totals.

        Parameters
        ----------
        features : (J, d) array, (p,) for a model with parameters for each action, or a Catalogue; none for arms
            φ of each action on offer, in any unit. J may change from round to round.
        costs : (J, K) array or SparseCosts
            The costs of each action on offer, in any unit. With `cost=`, pass the cost features here instead. If some constraints
            are seen after acting, you may pass only the columns of the others, (J, K_before).
        cost_features : (J, d_w) array, or (p_w,)
            ψ of each action on offer; defaults to `features` if they have that size.
        actions : sequence of ids or names
            Which action each row is; 0..J−1 by default.
        usage, group
            With rules, these replace the cost matrix: see `Rules.costs`.
        keys : mapping of names to texts
            For rules with `by`, such as ``{"user": "u17"}``.
        time : datetime with a zone, or seconds since 1970
            For rules with `per`.
        """
        made, fast = self._pending.made, self._fast
        if made >= self._look_at:
            self._look()
        if fast is not None and actions is None and made < self._wake:
            decision: Decision | None = fast.decide(features, costs, cost_features, usage, group)
            if decision is not None:
                return decision
        return self._decide_with_care(features, costs, cost_features, actions, usage, group, keys, time)

    def _decide_with_care(self, *given: Any) -> Decision:
        return self._decide(self._take_offer(*given))

    def learn(
        self,
        decision: Decision | int,
        reward: Any = None,
        costs: Any = None,
        *,
        usage: Mapping[str, Any] | None = None,
    ) -> None:
        """Learn the outcome of a decision, or a part of it, at any time and in any order; each part at most once.

        Parameters
        ----------
        decision : Decision or int
            A decision of this policy (or of the policy it was restored from), or its number.
        reward : float, optional
        costs : (K_after,) array, optional
            The costs seen after acting, in the order of the constraints, or all K costs: (usage − limit) / scale.
        usage : mapping of usage names to numbers, optional
            With rules, use this instead of costs.
        """
        fast = self._fast
        if fast is None or not fast.learn(decision, reward, costs, usage):
            self._learn_parts(decision, reward, costs, usage)

    def quote(self, *offer: Any, **given: Any) -> Quote:
        if len(offer) == 1 and isinstance(offer[0], Offer):
            return self._weigh(self._admitted(offer[0]))
        known = dict(zip(ROUND, offer)) | given
        reader = self._reader(known)
        if reader is not self:
            return reader.quote(**known)
        known, context = _as_numbers(known, self.context)
        return replace(self._weigh(self._input.offer(**known)), note=(self, context))

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

    def _decided(
        self,
        offer: Offer,
        row: int,
        trace: Array,
        kept: tuple[Array | None, Array | None] | None = None,
        sampling: Sampling = None,
    ) -> Decision:
        """The decision for a row; φ and ψ are `kept` until its outcome arrives. Without them it is only a proposal."""
        pending, ids, labels = self._pending, offer.ids, self._labels
        action, version, number, owner = int(ids[row]), pending.version, pending.made, NOBODY
        if kept is not None:
            number, owner = pending.add(self._awaits, action, *kept, offer.group), pending.owner
            if self._windows is not None:
                self._windows.take(number, offer, row)
            self._watch.note_offer(ids, self._n_actions)
        certain = not self._randomised
        return Decision(action, row, number, owner, version, ids, trace, labels, sampling, certain)

    def _book(self, quote: Quote, row: int | None) -> Decision:
        if quote.note is not None:
            self._become(*quote.note)
        return self._commit(quote, row)

    def _commit(self, quote: Quote, row: int | None) -> Decision:
        return self._decide(quote.offer, row)

    def _fitting(self, offer: Offer) -> Offer:
        """The offer without the actions that may not fit a hard limit per window."""
        return offer if self._windows is None else self._windows.admitted(offer)

    def _learn_parts(self, decision: Decision | int, reward: Any, costs: Any, usage: Any) -> None:
        windows = self._windows
        if windows is None:
            super()._learn_parts(decision, reward, costs, usage)
            return
        number = self._pending.number_of(decision)
        uses: Array | None = None
        if windows.late and (usage is not None or costs is not None):
            self._pending.require(number, AWAITS_COSTS)
            if usage is None:
                raise InvalidInput("with limits per window, pass what was used by name, as usage=.")
            _, action, _, _, group, _ = self._pending[number]
            uses = late_uses(windows.rules, usage, action, group)
        super()._learn_parts(number, reward, costs, usage)
        if uses is not None:
            windows.settle(number, uses.tolist())
        if number not in self._pending:
            windows.done(number)

    def forget(self, decision: Decision | int, *, acted: bool = True) -> None:
        number = self._pending.number_of(decision)
        super().forget(number, acted=acted)
        if self._windows is not None:
            (self._windows.expire if acted else self._windows.cancel)(number)

    def concerns(self) -> list[Concern]:
        return [*super().concerns(), *(() if self._windows is None else self._windows.concerns())]

    def _observed_costs(self, costs: Any, usage: Any, action: int, group: Any) -> Array:
        return self._input.observed(costs, usage, action, group)

    @property
    def _rules(self) -> Rules | None:
        return self.rules

    def _cost_scales(self) -> Array:
        return Units.of(self.rules, self._n_constraints).scales

    def _setting(self) -> Setting:
        """The same number of constraints, each seen when it is seen here; without constraints, costs do not matter."""
        known = np.isin(np.arange(self._n_constraints), self._input.known_columns)
        return Setting(
            n_constraints=self._n_constraints or None, seen_before=known, reward=self._reward, cost=self._cost
        )

    # Made, saved, restored

    def _read_by(self, rules: Rules | None, known: NDArray[np.bool_], *, any_unit: bool) -> None:
        """Read input by these rules from now on; `known` marks the constraints whose costs are seen before acting."""
        limits = () if rules is None else rules.windows.columns
        if self._windows is None or self._windows.rules.windows.columns != limits:
            self._windows = windows_of(rules)
        soft = next((one.rule for one in limits if not one.rule.hard), None)
        if soft is not None and not self._paces:
            words = f"'{soft}' must be paced, which {type(self).__name__} does not do."
            raise InvalidInput(words, field="rules", remedy="Say hard=True, or use ShadowPrice.")
        self.rules, self._rule_costs = rules, None if rules is None else RuleCosts(rules)
        self._input = OfferReader(
            self._reward,
            self._cost,
            self._n_constraints,
            known,
            rules=rules,
            rule_costs=self._rule_costs,
            any_unit=any_unit,
        )

    def _begin(self) -> None:
        """Start with no decisions. Not as properties: filling a `__dict__` from outside slows every access to its attributes."""
        self._n_actions = self._input.n_actions
        late = len(self._input.columns) or (self._windows is not None and self._windows.late)
        self._awaits = AWAITS_REWARD | (AWAITS_COSTS if late else 0)
        self._pending = PendingDecisions()
        self._watch, self._look_at = Watch(self._n_constraints), LOOK_EVERY
        self._fast, self._wake = None, NEVER

    def _state(self) -> Arrays:
        own = {} if self._windows is None else self._windows.arrays()
        return super()._state() | {f"windows/{name}": array for name, array in own.items()}

    def _load(self, arrays: Arrays) -> None:
        super()._load(arrays)
        if self._windows is not None:
            self._windows.load(part_of(arrays, "windows/"))

    def _roll_back(self, then: Arrays, *, learnt_only: bool) -> list[int]:
        dropped = super()._roll_back(then, learnt_only=learnt_only)
        if self._windows is not None:
            for number in dropped:
                self._windows.expire(number)
        return dropped

    def _settings(self) -> dict[str, Any]:
        given = {
            **self._given,
            # The constructor takes no range if it comes from rules or there are no costs.
            "cost_range": self._given["cost_range"] if self.rules is None and self._n_constraints else None,
            "constraints": self._constraints_as_data(),
            **self._models_as_data(),
            "context": self._context_as_data(),
        }
        taken = inspect.signature(type(self)).parameters
        return {name: one for name, one in given.items() if name in taken} | self._pending.settings()

    @staticmethod
    def _names_of_constraints(old: PolicyHooks) -> tuple[str, ...]:
        return old.labels.constraints or tuple(map(str, range(old.n_constraints)))

    def _go_on(self, old: PolicyHooks, carried: tuple[str, ...]) -> None:
        """Take over models, pending decisions and everything else with these names from a policy of the same kind."""
        now, carried = old.state(), ("reward/", "cost/", "pending/", "made", *carried)
        now |= learnt_by(old, self._reward, self._cost)
        self._load(self._state() | {name: array for name, array in now.items() if name.startswith(carried)})
        if self._windows is not None and old.windows is not None:
            carry_windows(old.windows, self._windows)
        self._pending.update(old.pending)

    def _shown(self, *settings: str) -> str:
        models = self._asked or {"reward": self._reward, "cost": self._cost}
        shown = [f"{part}={one!r}" for part, one in models.items() if one is not None]
        if "constraints" in self._settings():
            K = self._n_constraints
            shown.append(f"constraints={K}" if self.rules is None else f"constraints=<{K} rules>")
        return f"{type(self).__name__}({', '.join([*shown, *settings])})"

    # Inferred sizes

    def _read_models(self, reward: Any, cost: Any, late: int) -> tuple[Model | None, Model | None]:
        """Read the models that were given; `late` costs are seen after acting. A model is None until its sizes are known."""
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
        return self._sized({part: sizes_in(problem, part) for part in self._asked}) if self._asked else self

    def _sized(self, sizes: Mapping[str, Sizes]) -> Self:
        given = arguments_in(self._settings())
        twin = type(self)(**given | {part: one for part, one in self._made(sizes).items() if part in given})
        twin.hooks.pending.go_on_as(self._pending)
        return twin

    def _reader(self, given: Mapping[str, Any]) -> Self:
        """The policy that reads a round: this one, or one with the sizes that the round shows."""
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
        """Check rounds that are about to be decided; the first one gives the policy any sizes and names it lacks."""
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
        known = dict(zip(ROUND, given)) | named
        reader = self._reader(known)
        if reader is not self:
            # If the first round is refused, nothing changes.
            quote = reader.quote(**known)
            self._become(*quote.note)
            return quote.offer if quote.asked is None else quote.asked
        known, self.context = _as_numbers(known, self.context)
        return self._input.offer(**known)

    def _become(self, reader: Self, context: Context) -> None:
        if reader is not self:
            before = self._pending
            type(self).__init__(self, **arguments_in(reader.hooks.settings()))
            self._pending.go_on_as(before)
        self.context = context

    def _state_before(self, then: Arrays) -> Arrays:
        """A state saved before the first context has no models: it stands for the policy as constructed."""
        model = self._reward
        if model is not None and model.arrays() and not any(name.startswith("reward/") for name in then):
            return type(self)(**arguments_in(self._settings())).hooks.state()
        return then

    def _size_by_log(self, features: Any, cost_features: Any) -> None:
        if self._asked:
            J, psi = self._input.n_actions, features if cost_features is None else cost_features
            widths = {"reward": features, "cost": psi}
            sizes = {
                part: Sizes(J, 0 if x is None else np.shape(x)[-1], per_action=False)
                for part, x in widths.items()
            }
            self._become(self._sized(sizes), self.context)

    def _models_as_data(self) -> dict[str, Any]:
        models = self._asked or {"reward": self._reward, "cost": self._cost}
        return {
            part: None if one is None else dict(one.settings) if isinstance(one, Unsized) else one.settings()
            for part, one in models.items()
        }

    def _model_classes(self) -> list[Any]:
        models = self._asked.values() or (self._reward, self._cost)
        return [
            MODELS.find(one.kind) if isinstance(one, Unsized) else type(one)
            for one in models
            if one is not None
        ]

    def _context_as_data(self) -> Any:
        return (
            self.context.to_dict()
            if isinstance(self.context, Encoder)
            else self.context and list(self.context)
        )

    def _constraints_as_data(self) -> Any:
        rules = self.rules
        if rules is None:
            return self._n_constraints if self._seen is None else list(self._seen)
        declared: dict[str, Any] = {} if rules.groups is None else {"groups": list(rules.groups)}
        if states := {rules.registry.name(i): state for i, state in rules.registry.states.items()}:
            declared["states"] = states
        return {"rules": rules.to_data(), "actions": list(rules.actions), **declared}

    def _offer(self, *given: Any, **named: Any) -> Offer:
        return self._input.offer(**_as_numbers(dict(zip(ROUND, given)) | named, self.context)[0])

    def _checked_offer(self, **given: Any) -> Offer:
        return self._offer(**given)

    def _costs_can_come(self) -> bool:
        if self._cost is None:
            if self._windows is not None and self._windows.late:
                return False  # what was used only settles accounts
            raise InvalidInput("Costs were already passed to decide(); learn() takes only the reward.")
        return True


def _as_numbers(given: Mapping[str, Any], context: Context) -> tuple[dict[str, Any], Context]:
    features, names = numbers_of(given.get("features"), context)
    psi, names = numbers_of(given.get("cost_features"), names)
    return {**given, "features": features, "cost_features": psi}, names
