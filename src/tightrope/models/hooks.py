"""Optional abilities of a model beyond `Model`, and the default for a model without them.

A hook is a method or attribute with the name of its function here. Policies, engines, fits and warnings call these functions, so
your own model may define as many hooks as it likes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.models.background import BackgroundWork
from tightrope.models.model import Model, Normals, arguments, checked_outcome, known_action
from tightrope.validation import Array, finite_array
from tightrope.words import Text

# What becomes of an outcome that was corrected: the means are what they would be had it come that way; or will be, after the next
# fit; or the model keeps what it has learnt.
Corrected: TypeAlias = Literal["exactly", "at the next fit", "not"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _hook(otherwise: Callable[Concatenate[Model, _P], _T]) -> Callable[Concatenate[Model, _P], _T]:
    """Call the model's method of that name if its class defines one; else the function itself."""
    name = otherwise.__name__

    @wraps(otherwise)
    def ask(model: Model, /, *given: _P.args, **named: _P.kwargs) -> _T:
        # Looked up on the class: an attribute that happens to have this name, such as a setting, is not a hook; and a miss is fast.
        own = getattr(type(model), name, None)
        return otherwise(model, *given, **named) if own is None else own(model, *given, **named)

    return ask


def _told(name: str, otherwise: Any, doc: str = "") -> Callable[[Model], Any]:
    """An attribute of a model or of its class. `Model.__getattr__`, which explains missing sizes, would make a miss slow."""

    def ask(model: Model) -> Any:
        return getattr(model, name) if hasattr(type(model), name) else vars(model).get(name, otherwise)

    ask.__doc__ = doc
    return ask


def defines(model: Model, hook: str) -> bool:
    return hasattr(type(model), hook)


# What it learns


@_hook
def check_outcome(model: Model, outcome: Any) -> None:
    """Refuse an outcome that it can't learn; a policy calls this before it changes anything."""


def checked_example(
    model: Model, features: Any, outcome: Any, action: Any
) -> tuple[Array, Array, int | None]:
    """Check what a model is about to learn before anything changes: features (p,), outcomes (n_outputs,), action."""
    x = finite_array("features", features, (model.n_features,))
    y = checked_outcome(outcome, model.n_outputs)
    check_outcome(model, y)
    return x, y, None if model.n_actions is None else known_action(action, model.n_actions)


@_hook
def note_decision(model: Model, number: int) -> None:
    """From here on, outcomes belong to the decision with this number; `NO_DECISION`: to none.

    A model that keeps rows begins with `decision = NO_DECISION`, and keeps the number with each, for `forget_inputs`.
    """
    if hasattr(type(model), "decision"):
        setattr(model, "decision", number)  # noqa: B010


@_hook
def forget_inputs(model: Model, numbers: Collection[int]) -> None:
    """Drop the rows kept from these decisions; sums that they contributed to may stay.

    Its effect is entirely in `arrays`: a model loaded from them afterwards gives the same answers.
    """


@_hook
def learn_many(model: Model, features: Any, outcomes: Any, actions: Any = None) -> None:
    """Learn many outcomes, (n,) or (n, n_outputs): one by one, but a model that fits to kept outcomes is fitted only once."""
    for row, outcome, action in one_by_one(features, outcomes, actions):
        model.learn(row, outcome, action)


def one_by_one(features: Any, outcomes: Any, actions: Any) -> Iterator[tuple[Any, Any, int | None]]:
    """Each outcome with its row and its action, if there are any."""
    for i, outcome in enumerate(outcomes):
        yield None if features is None else features[i], outcome, None if actions is None else int(actions[i])


@_hook
def elapse(model: Model, time: float) -> None:
    """Let time pass, in the unit of `half_life` (rounds or seconds), beyond what outcomes count: what was learnt fades."""


@_hook
def shift(model: Model, output: int, by: float) -> None:
    """Add an amount to all outcomes of one output, past ones too: for the costs of a rule whose limit changes."""
    require_shift(model)


def require_shift(model: Model) -> None:
    """Refuse a model that would keep what it learnt under the old limit."""
    if not defines(model, "shift"):
        name = type(model).__name__
        problem = f"the limit can't change, because the cost model {name} can't adjust what it has learnt"
        raise InvalidInput(f"{problem}: define `shift(output, by)` in its class.")


@_hook
def resemble(model: Model, action: int, like: int) -> None:
    """Expect of an action, of which nothing was learnt, what is expected of another one, but less certainly.

    What was learnt of the others stays as it is.
    """
    name = type(model).__name__
    remedy = "Leave out `like`, or define `resemble(action, like)` in its class."
    raise InvalidInput(f"the model {name} can't begin with what it knows of another action.", remedy=remedy)


@_hook
def correct(model: Model, features: Any, was: Array, now: Array, action: int, decision: int) -> Corrected:
    """An outcome that was learnt, (n_outputs,), should have been another one; says whether the model has corrected itself.

    By default the model keeps what it has learnt.
    """
    return "not"


def part_alike(outcomes: float, parameters: int) -> float:
    """How much each outcome of an action counts for another that begins like it: a quarter, and all at most ten per parameter.

    >>> part_alike(1000.0, 5), part_alike(100.0, 5)
    (0.05, 0.25)
    """
    return min(0.25, 10.0 * parameters / max(1.0, outcomes))


half_life: Callable[[Model], float | str | None] = _told(
    "half_life", None, 'After how many outcomes, or after what time such as "2h", one counts half; None if it forgets nothing.'
)  # fmt: skip
n_learnt: Callable[[Model], int] = _told(
    "n_learnt", 0, "How many outcomes it has learnt; 0 if it does not count them."
)


@_hook
def never_learnt(model: Model) -> NDArray[np.bool_] | None:
    """For each action, whether no outcome of it was ever learnt; None if the model can't tell."""
    return None


# What it expects


# The kernels that can take the place of the methods: "ridge", "arms", "standardised", or None for the plain path.
compiled: Callable[[Model], str | None] = _told("compiled", None)
# How to explore with it: "normal" draws from means and deviations, "members" follows one of its `members` in a round, "gaps"
# chooses by inverse gap weighting, where there is nothing but means.
exploration: Callable[[Model], str] = _told("exploration", "normal")
# Whether ‖φ‖ ≤ 1 is required.
unit_features: Callable[[Model], bool] = _told("unit_features", False)


def dimension(model: Model) -> int:
    """The d of the formulas: how many parameters an output has."""
    return max(1, model.n_features) * (model.n_actions or 1)


def working_features(model: Model) -> int:
    """How many features it computes with, as a measure of how long an answer takes."""
    return int(_told("working_features", model.n_features)(model))


@_hook
def predictions(model: Model, features: Any = None, actions: Any = None) -> tuple[Array, Array]:
    """Means and deviations, (n, n_outputs) each, for callers that need both."""
    means, deviations = model.means(features, actions), model.deviations(features, actions)
    expected = np.reshape(means, (len(means), -1))
    # One deviation for all outputs will do.
    return expected, np.broadcast_to(np.reshape(deviations, (len(expected), -1)), expected.shape)


@_hook
def radius(model: Model, horizon: float) -> float:
    """The factor on widths for a bound that fails with probability 1/horizon; by default that of a normal law."""
    return math.sqrt(2.0 * math.log(max(1.0, horizon)))


@_hook
def members(model: Model, features: Any = None, actions: Any = None) -> Array:
    """What each of its M members expects of each row, (M, n) or (M, n, n_outputs), spread as they are to be drawn."""
    raise InvalidInput(Text("{model!r} is one model, without members.", model=model))


@_hook
def sampled(model: Model, features: Any, actions: Any, scale: float, normals: Normals) -> Array:
    """A draw for each row (n,), `scale` widths wide; `normals(n, slot)` gives n standard normals of the policy's own stream."""
    means = np.asarray(model.means(features, actions))
    ids = np.arange(len(means)) if actions is None else np.asarray(actions)
    spread = scale * np.asarray(model.widths(features, actions))
    return np.asarray(means + spread * np.array([normals(1, int(a))[0] for a in ids]))


@_hook
def drawn_parts(model: Model, actions: NDArray[np.int64]) -> Array | float:
    """The part of its deviation to draw each action's reward with; all of it if the model does not look ahead."""
    return 1.0


@_hook
def look_ahead(model: Model, features: Any, actions: NDArray[np.int64], best: int) -> None:
    """A round was decided in which the estimates, without draws, choose row `best` of those on offer."""


@_hook
def of_sum(model: Model, z: Array) -> tuple[float, float] | None:
    """Mean and width of summed features; None if predictions are not linear in them."""
    return None


@_hook
def least_optimism(model: Model, radius: float) -> float | None:
    """The least typical mean + radius · width over actions; None without outcomes, or if the model can't say."""
    return None


@_hook
def least_norm(model: Model, horizon: float) -> Array | None:
    """The least ‖θ*‖ of each output that what was learnt allows, with probability 1 − 1/horizon; None without θ or m."""
    return None


# Background fits


changes: Callable[[Model], int] = _told(
    "changes", 0, "How often it found that the world had changed; prices are solved again after each time."
)
fits: Callable[[Model], int] = _told(
    "fits", 0, "How often it was refitted; prices are solved again after each fit."
)


@_hook
def background(model: Model) -> list[BackgroundWork]:
    """Its background work: its own fits, or those of the models that it is made of; always in the same order."""
    return []


# Others like it


def with_outputs(model: Model, n: int) -> Model:
    """A copy that learns n quantities; it keeps what was learnt, and refuses a different n once it has learnt."""
    if n == model.n_outputs:
        return model.copy()
    settings = arguments(model)
    has = model.n_outputs
    if "n_outputs" not in settings:
        said = "{model!r} learns {has} quantities, but the policy needs {n}."
        raise InvalidInput(Text(said, model=model, has=has, n=n))
    if n_learnt(model):
        said = f"a model that has learnt {has} quantities can't go on with {n}; make it for {n} outputs."
        raise InvalidInput(said)
    return type(model)(**settings | {"n_outputs": n})


@_hook
def standardised(model: Model, n_outputs: int, *, centred: bool, prior: Any) -> Model:
    """A copy for a policy that needs means and deviations in the outcome's own units, with features in any unit.

    `prior` (n_outputs,) is the known standard deviation of outcomes, 0 if unknown. Most models handle all this themselves and are
    copied as they are.
    """
    return with_outputs(model, n_outputs)
