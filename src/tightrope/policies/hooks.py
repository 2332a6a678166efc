"""What those who run a policy ask of it beside deciding and learning: the service, the engines, whoever watches it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from tightrope.concerns import Concern
from tightrope.models import MODELS, Model
from tightrope.models.background import BackgroundWork
from tightrope.models.sizes import read_model
from tightrope.offer import Offer
from tightrope.policies.decision import Decision, Labels
from tightrope.policies.pending import PendingDecisions
from tightrope.policies.state_file import Arrays
from tightrope.problem import Learner, Problem, Setting
from tightrope.rules import Rules
from tightrope.trust import grant
from tightrope.validation import Array

__all__ = ["Player", "PolicyHooks", "Traits", "Watched", "arguments_in", "restored", "traits_of"]


class Player(Protocol):
    """Whatever can be simulated: a `Policy`, or an object of your own. It may state `Traits` as `hooks`.

    `decide` chooses an action, or an object that has one as `.action`; `learn` takes in a reward, and the costs that are seen after
    acting; `copy` makes an independent player in the same state, whose randomness comes from the seed given.
    """

    @property
    def decide(self) -> Callable[..., Any]: ...

    @property
    def learn(self) -> Callable[..., None]: ...

    @property
    def copy(self) -> Callable[..., Any]: ...


class Traits(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an engine must know to show a player its rounds; what is None is not said."""

    n_actions: int | None = None
    n_constraints: int | None = None
    rules: Rules | None = None
    # Whether `decide` is shown the costs of the actions on offer, is told the number of the context (which no learner is), and
    # asks for the group of the context where rules are among groups, even if it is given all costs.
    sees_costs: bool = False
    sees_context: bool = False
    asks_for_group: bool = False
    # Whether its choices are drawn with probabilities that have a closed form.
    randomised: bool = True
    # Whether it looks at outcomes.
    learns: bool = True
    # The compiled loop of the simulator that can take its place.
    loop: str | None = None
    # What its models of rewards and of costs seen after acting read.
    reward: Learner | None = None
    cost: Learner | None = None
    # What it asks of its problem, and copies of these models.
    setting: Callable[[], Setting | None] = lambda: None
    reward_model: Callable[[], Model | None] = lambda: None
    cost_model: Callable[[], Model | None] = lambda: None


class PolicyHooks(Traits, frozen=True, kw_only=True, eq=False):
    """What a `Policy` offers to those who run it, made of its own methods: `policy.hooks`, as things stand when it is asked for.

    >>> import tightrope as tr
    >>> hooks = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1).hooks
    >>> hooks.n_constraints, hooks.randomised, hooks.dual().tolist()
    (1, True, [0.0])
    """

    n_constraints: int = 0
    # Names of actions and constraints, and how the numbers behind its decisions are read.
    labels: Labels
    # Those whose outcome is still to come.
    pending: PendingDecisions
    # `decide` on an `Offer` that was made elsewhere, of a request or a journal's entry: `quote` and `commit` in one, and faster.
    decide_offer: Callable[[Offer], Decision]
    # What is multiplied with costs when actions are compared, (K,): queues or prices; 0 for a policy without.
    dual: Callable[[], Array]
    # What turns the total of each constraint, (K,), into the units of its rule; and how large a cost of each is.
    cost_scales: Callable[[], Array]
    cost_sizes: Callable[[], Array]

    # All that is not arrays, as plain data; and the arrays that change, copied. Equal settings and equal state: equal acts.
    settings: Callable[[], dict[str, Any]]
    state: Callable[[], Arrays]
    # Become what gave these arrays as its `state`; pending decisions lose their groups.
    load: Callable[[Arrays], None]
    # Become the policy that gave `settings` and `state`, this one having been made with those settings.
    restore: Callable[[dict[str, Any], Arrays], None]
    # (old, same_costs=, shifts=): go on where another policy stands, under another configuration.
    resume: Callable[..., None]
    # (then, learnt_only=): take what was learnt, or all else too, from an earlier `state`; which pending decisions this drops.
    roll_back: Callable[..., list[int]]
    # Drop what is kept of the inputs of some decisions, by their numbers.
    forget_inputs: Callable[[Collection[int]], None]
    # The policy, or one like it that has the sizes of a problem where nobody typed any.
    for_problem: Callable[[Problem], Player]

    # Whether some model has a half-life in seconds, and waits for `elapse`.
    counts_seconds: bool
    elapse: Callable[[float], None]
    # What is done in the background, such as fits of models; always in the same order.
    background: Callable[[], list[BackgroundWork]]

    # Who hears of a concern that is new, and how to have another hear of it; what concerns this kind of policy has, and what
    # helps where totals of these constraints stay above zero.
    notify: Callable[[Concern], None]
    report_to: Callable[[Callable[[Concern], None]], None]
    own_concerns: Callable[[], list[Concern]]
    remedy_of_totals: Callable[[Sequence[int]], str]
    # What is proved of it, by name; and about what each rule costs, where that can be told.
    guarantees: Callable[[], dict[str, Any]]
    cost_of_rules: Callable[[], Any] | None

    # Whether a whole run can be compiled, and what an engine runs it on: the arrays themselves.
    compiles: Callable[[], bool]
    compiled_state: Callable[[], Any]


# A hook is what a policy has under the same name with a leading underscore.
_NAMES = PolicyHooks.__struct_fields__
_own_hooks = attrgetter(*(f"_{name}" for name in _NAMES))


def hooks_of(policy: Watched) -> PolicyHooks:
    return PolicyHooks(**dict(zip(_NAMES, _own_hooks(policy))))


class Watched(Protocol):
    """A policy whose totals, actions and outcomes are watched while it runs."""

    kind: ClassVar[str]

    @property
    def hooks(self) -> PolicyHooks: ...

    @property
    def rounds(self) -> int: ...

    @property
    def totals(self) -> Array: ...

    def concerns(self) -> list[Concern]: ...


def traits_of(player: Any) -> Traits:
    """What a player says of itself.

    >>> traits_of(object()).randomised
    True
    """
    hooks = getattr(player, "hooks", None)
    return hooks if isinstance(hooks, Traits) else Traits()


P = TypeVar("P", bound=Watched)


def learnt_by(old: PolicyHooks, reward: Model | None, cost: Model | None) -> Arrays:
    """The arrays of the models of a policy, by their names in its state, grown to as many actions as these models know."""
    found: Arrays = {}
    for part, model, own in (("reward", old.reward_model(), reward), ("cost", old.cost_model(), cost)):
        if model is not None and own is not None:
            if own.n_actions is not None:
                model.grow(own.n_actions)
            found |= {f"{part}/{name}": array for name, array in model.arrays().items()}
    return found


def restored(made: Callable[..., P], settings: dict[str, Any], arrays: Arrays) -> P:
    """The policy that gave `settings` and `state`."""
    policy = made(**arguments_in(settings))
    policy.hooks.restore(settings, arrays)
    return policy


def arguments_in(settings: dict[str, Any]) -> dict[str, Any]:
    """What the constructor was given, from `settings`."""
    return {
        name: read_model(name, value) if name in ("reward", "cost") and value is not None else value
        for name, value in settings.items()
        if name not in ("owner", "version", "pending_groups")
    }


def received(made: Any, models: list[Any], settings: dict[str, Any], state: Arrays) -> Watched:
    """A policy that another process has sent: its class, those of its models, and what `restored` takes."""
    for model in models:
        MODELS.referred(model)
    # Sent by this program to its own worker.
    grant(settings)
    found: type[Watched] = MODELS.find(made, trust=True) if isinstance(made, str) else made
    return restored(found, settings, state)
