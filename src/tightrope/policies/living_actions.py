"""Actions that come, pause and go while a policy runs: what was learnt and counted of the others stays, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tightrope.actions import Action, Actions, State
from tightrope.errors import InvalidInput
from tightrope.models import Model, hooks
from tightrope.models.model import keep_entries
from tightrope.policies.hooks import PolicyHooks, arguments_in, learnt_by

if TYPE_CHECKING:
    from tightrope.policies.policy import Policy
    from tightrope.rules import Rules


class LivingActions:
    """The actions of a policy with rules, as `policy.actions`: names by id, and changes while it runs.

    An action that is paused or retired is not on offer; outcomes of its pending decisions are still learnt. If the rules could not
    be met after a change, it is refused with `InfeasibleProblem`, which names the rules in conflict and the smallest relaxation.

    >>> import tightrope as tr
    >>> policy = tr.ShadowPrice(tr.Rules([tr.Capacity("icu", at_most=0.2)], actions=["icu", "surgery", "other"]))
    >>> decision = policy.decide({"age": 41.0})
    >>> policy.actions.add("hospice", like="other")
    >>> policy.actions.pause("surgery")
    >>> policy.actions.rename("icu", "intensive")
    >>> list(policy.actions), policy.actions.state("surgery"), policy.rules.names
    (['intensive', 'surgery', 'other', 'hospice'], 'paused', ('capacity intensive',))
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def add(self, name: str, *, like: Action | None = None) -> None:
        """Put a new action on offer, with the next id; `like` names one whose beliefs it begins with, less certain."""
        registry = self._registry
        source = None if like is None else registry.id(like, "like")
        self._become(registry.with_action(name), source)

    def pause(self, action: Action) -> None:
        """Take an action off offer until it is resumed."""
        self._become(self._registry.with_state(action, "paused"))

    def resume(self, action: Action) -> None:
        """Put a paused action on offer again."""
        self._become(self._registry.with_state(action, "active"))

    def retire(self, action: Action) -> None:
        """Take an action off offer for good."""
        self._become(self._registry.with_state(action, "retired"))

    def rename(self, action: Action, name: str) -> None:
        """Give an action another name; its id stays."""
        self._become(self._registry.with_name(action, name))

    def state(self, action: Action) -> State:
        """Whether an action is "active", "paused" or "retired"."""
        return self._registry.state(action)

    def __iter__(self) -> Iterator[Action]:
        return iter(self._registry)

    def __len__(self) -> int:
        return len(self._registry)

    def __repr__(self) -> str:
        states = {self._registry.name(i): state for i, state in self._registry.states.items()}
        return f"<actions {list(self)}{f', but {states}' if states else ''}>"

    @property
    def _rules(self) -> Rules:
        rules = self._policy.hooks.rules
        if rules is None or not rules.registry.named:
            problem = "need names: make the policy with constraints=Rules([...], actions=[...])"
            raise InvalidInput(field="actions", problem=problem)
        return rules

    @property
    def _registry(self) -> Actions:
        return self._rules.registry

    def _become(self, actions: Actions, like: int | None = None) -> None:
        """Go on with these actions; everything that may be refused is tried on a twin first."""
        policy = self._policy
        twin = _with_rules(policy, self._rules.over(actions))
        succeed(twin, policy)
        if like is not None:
            begin_like(twin, len(actions) - 1, like)
        type(policy).__init__(policy, **arguments_in(twin.hooks.settings()))
        succeed(policy, twin)


def _with_rules(policy: Policy, rules: Rules) -> Policy:
    """An untaught policy with the same settings and these rules."""
    own = policy.hooks
    grown: dict[str, Any] = {"constraints": rules}
    for part, model in (("reward", own.reward_model()), ("cost", own.cost_model())):
        if model is not None:
            if model.n_actions is not None:
                model.grow(len(rules.actions))
            grown[part] = model
    if not grown.keys() - {"constraints"}:
        raise InvalidInput("actions can't change before the first decision: change the rules.")
    return type(policy)(**arguments_in(own.settings()) | grown)


def succeed(new: Policy, old: Policy) -> None:
    """Go on exactly where `old` stands, a policy with the same settings and rules that may know fewer actions."""
    now, then = new.hooks, {**old.hooks.state()}
    then |= learnt_by(old.hooks, _model(now.reward), _model(now.cost))
    sizes = _n_actions(old.hooks), _n_actions(now)
    for name, mine in now.state().items():
        theirs = then.get(name)
        if theirs is None or theirs.ndim != mine.ndim or not 0 < theirs.size < mine.size:
            continue
        if any(pair != sizes and pair[0] != pair[1] for pair in zip(theirs.shape, mine.shape)):
            said = f"a {new.kind} policy can't take more actions, because it does not keep {name!r} by action alone"
            raise InvalidInput(f"{said}.")
        # Numbers by action: those of new ones come last.
        then[name] = mine.copy()
        keep_entries({name: theirs}, {name: then[name]})
    now.load(then)
    now.pending.update(old.hooks.pending)
    now.pending.go_on_as(old.hooks.pending)
    now.pending.version += 1


def begin_like(policy: Policy, action: int, like: int) -> None:
    """Let an action, of which nothing was learnt, begin with what is believed of another, less certain."""
    for model in (_model(policy.hooks.reward), _model(policy.hooks.cost)):
        if model is not None:
            hooks.resemble(model, action, like)
    policy.hooks.pending.version += 1


def _n_actions(own: PolicyHooks) -> int | None:
    model = _model(own.reward)
    return own.n_actions if own.n_actions is not None or model is None else model.n_actions


def _model(part: Any) -> Model | None:
    """What a policy's hooks show as a `Learner` is its model."""
    return part if isinstance(part, Model) else None
