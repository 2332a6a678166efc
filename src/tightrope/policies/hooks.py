"""What the service, the engines and monitoring ask of a policy beyond deciding and learning."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from tightrope.concerns import Concern
from tightrope.ledger.windows import Windows
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
    """Anything that can be simulated: a `Policy`, or an object of your own. It may declare `Traits` as `hooks`.

    `decide` returns an action, or an object with an `.action`; `learn` takes a reward and the costs seen after
    acting; `copy` returns an independent player in the same state, whose randomness comes from the given seed.
    """

    @property
    def decide(self) -> Callable[..., Any]: ...

    @property
    def learn(self) -> Callable[..., None]: ...

    @property
    def copy(self) -> Callable[..., Any]: ...


class Traits(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an engine must know to show a player its rounds; None means not stated."""

    n_actions: int | None = None
    n_constraints: int | None = None
    rules: Rules | None = None
    # Whether `decide` gets the costs of the actions on offer, gets the number of the context (which no learner does), and
    # needs the context's group if rules apply to groups, even when it gets all costs.
    sees_costs: bool = False
    sees_context: bool = False
    asks_for_group: bool = False
    # Whether its choices are drawn with probabilities that have a closed form.
    randomised: bool = True
    # Whether it looks at outcomes.
    learns: bool = True
    # The simulator's compiled loop that can replace it.
    loop: str | None = None
    # What its models of rewards and of costs seen after acting read.
    reward: Learner | None = None
    cost: Learner | None = None
    # What it requires of its problem, with copies of these models.
    setting: Callable[[], Setting | None] = lambda: None
    reward_model: Callable[[], Model | None] = lambda: None
    cost_model: Callable[[], Model | None] = lambda: None


class PolicyHooks(Traits, frozen=True, kw_only=True, eq=False):
    """What a `Policy` offers to the code that runs it, built from its own methods: `policy.hooks`, as of the moment of access.

    >>> import tightrope as tr
    >>> hooks = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1).hooks
    >>> hooks.n_constraints, hooks.randomised, hooks.dual().tolist()
    (1, True, [0.0])
    """

    n_constraints: int = 0
    # Names of actions and constraints, and how to read the numbers behind its decisions.
    labels: Labels
    # The decisions that await an outcome.
    pending: PendingDecisions
    # The accounts of limits per window, if the policy has such rules: it keeps the hard ones, and books what it decides.
    windows: Windows | None
    # `decide` on an `Offer` made elsewhere, from a request or a journal entry: `quote` and `commit` in one, and faster.
    decide_offer: Callable[[Offer], Decision]
    # What costs are multiplied by when actions are compared, (K,): queues or prices; 0 for a policy without them.
    dual: Callable[[], Array]
    # What converts each constraint's total, (K,), to the units of its rule; and how large a cost of each is.
    cost_scales: Callable[[], Array]
    cost_sizes: Callable[[], Array]

    # Everything except arrays, as plain data; and copies of the arrays that change. Equal settings and state mean equal behaviour.
    settings: Callable[[], dict[str, Any]]
    state: Callable[[], Arrays]
    # Take on the `state` in these arrays; pending decisions lose their groups.
    load: Callable[[Arrays], None]
    # Take on `settings` and `state`; this policy must have been made with those settings.
    restore: Callable[[dict[str, Any], Arrays], None]
    # (old, same_costs=, shifts=): continue from another policy's state, under another configuration.
    resume: Callable[..., None]
    # (then, learnt_only=): restore what was learnt, or everything, from an earlier `state`; returns the pending decisions dropped.
    roll_back: Callable[..., list[int]]
    # Take note that the costs of each constraint have grown by this much, (K,), because limits have moved; None: it can't.
    restate: Callable[[Array], None] | None
    # Add to the totals by how much the costs of an earlier decision were other than reported, (K,).
    book_correction: Callable[[Array], None]
    # Drop the stored inputs of some decisions, by number.
    forget_inputs: Callable[[Collection[int]], None]
    # The policy, or a copy sized for a problem if it has no sizes yet.
    for_problem: Callable[[Problem], Player]

    # Whether some model has a half-life in seconds, and waits for `elapse`.
    counts_seconds: bool
    elapse: Callable[[float], None]
    # Background work, such as fitting models; always in the same order.
    background: Callable[[], list[BackgroundWork]]

    # Who is notified of a new concern, and how to change that; the concerns this kind of policy can have, and the remedy
    # if totals of these constraints stay above zero.
    notify: Callable[[Concern], None]
    report_to: Callable[[Callable[[Concern], None]], None]
    own_concerns: Callable[[], list[Concern]]
    remedy_of_totals: Callable[[Sequence[int]], str]
    # What is proved about it, by name; and roughly what each rule costs, if that is known.
    guarantees: Callable[[], dict[str, Any]]
    cost_of_rules: Callable[[], Any] | None

    # Whether a whole run can be compiled, and what an engine runs it on: the arrays themselves.
    compiles: Callable[[], bool]
    compiled_state: Callable[[], Any]


# A hook is the policy's attribute of the same name with a leading underscore.
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
    """The traits that a player declares.

    >>> traits_of(object()).randomised
    True
    """
    hooks = getattr(player, "hooks", None)
    return hooks if isinstance(hooks, Traits) else Traits()


P = TypeVar("P", bound=Watched)


def learnt_by(old: PolicyHooks, reward: Model | None, cost: Model | None) -> Arrays:
    """The arrays of a policy's models, by their names in its state, grown to the number of actions that these models know."""
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
    """The constructor's arguments, from `settings`."""
    return {
        name: read_model(name, value) if name in ("reward", "cost") and value is not None else value
        for name, value in settings.items()
        if name not in ("owner", "version", "pending_groups")
    }


def received(made: Any, models: list[Any], settings: dict[str, Any], state: Arrays) -> Watched:
    """A policy sent by another process: its class, its models' classes, and what `restored` takes."""
    for model in models:
        MODELS.referred(model)
    # Sent by this program to its own worker.
    grant(settings)
    found: type[Watched] = MODELS.find(made, trust=True) if isinstance(made, str) else made
    return restored(found, settings, state)
