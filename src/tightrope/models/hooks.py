"""What a model may say or do beyond `Model`, and what holds for one that does not.

A hook is a method, or an attribute, by the name of its function here. Policies, engines, fits and warnings call these functions, so
that a model of your own defines as many hooks as it likes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.models.background import BackgroundWork
from tightrope.models.model import Model, Normals, arguments, checked_outcome, known_action
from tightrope.validation import Array, real_array, require_finite
from tightrope.words import Text

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _hook(otherwise: Callable[Concatenate[Model, _P], _T]) -> Callable[Concatenate[Model, _P], _T]:
    """The method of that name, for a model whose class defines one; else what the function does."""
    name = otherwise.__name__

    @wraps(otherwise)
    def ask(model: Model, /, *given: _P.args, **named: _P.kwargs) -> _T:
        # Of the class: an attribute that happens to have this name, such as a setting, is no hook; and a miss is fast.
        own = getattr(type(model), name, None)
        return otherwise(model, *given, **named) if own is None else own(model, *given, **named)

    return ask


def _told(model: Model, name: str, otherwise: Any) -> Any:
    """An attribute of a model or of its class. `Model.__getattr__`, which explains missing sizes, would make a miss slow."""
    return getattr(model, name) if hasattr(type(model), name) else vars(model).get(name, otherwise)


def defines(model: Model, hook: str) -> bool:
    return hasattr(type(model), hook)


# What it learns


@_hook
def check_outcome(model: Model, outcome: Any) -> None:
    """Refuse an outcome that it can't learn; a policy asks before it changes anything."""


def checked_example(
    model: Model, features: Any, outcome: Any, action: Any
) -> tuple[Array, Array, int | None]:
    """What a model is about to learn, refused before anything changes: the features (p,), the outcomes (n_outputs,), the action."""
    x = real_array("features", features, (model.n_features,))
    require_finite("features", x)
    y = checked_outcome(outcome, model.n_outputs)
    check_outcome(model, y)
    return x, y, None if model.n_actions is None else known_action(action, model.n_actions)


@_hook
def note_decision(model: Model, number: int) -> None:
    """The outcomes that are learnt from here on belong to the decision with this number; `NO_DECISION`: to none.

    A model that keeps rows begins with `decision = NO_DECISION`, and keeps the number with each row, so that `forget_inputs`
    finds them.
    """
    if hasattr(type(model), "decision"):
        setattr(model, "decision", number)  # noqa: B010


@_hook
def forget_inputs(model: Model, numbers: Collection[int]) -> None:
    """Drop the rows that are kept of these decisions; what was learnt from them in sums may stay.

    What it does depends only on `arrays`: a model that is loaded from them afterwards answers the same.
    """


@_hook
def learn_many(model: Model, features: Any, outcomes: Any, actions: Any = None) -> None:
    """Take in many outcomes, (n,) or (n, n_outputs): one by one, but a model that is fitted to what it keeps is fitted once."""
    for row, outcome, action in one_by_one(features, outcomes, actions):
        model.learn(row, outcome, action)


def one_by_one(features: Any, outcomes: Any, actions: Any) -> Iterator[tuple[Any, Any, int | None]]:
    """Each outcome with its row and its action, where there are any."""
    for i, outcome in enumerate(outcomes):
        yield None if features is None else features[i], outcome, None if actions is None else int(actions[i])


@_hook
def elapse(model: Model, time: float) -> None:
    """So much time goes by, in rounds or seconds as `half_life` is, beside what outcomes count: what was learnt fades."""


@_hook
def shift(model: Model, output: int, by: float) -> None:
    """All outcomes of one output, learnt ones too, become larger by so much: for the costs of a rule whose limit changes."""
    require_shift(model)


def require_shift(model: Model) -> None:
    """Refuse a model that would go on with what it has learnt under the old limit."""
    if not defines(model, "shift"):
        raise InvalidInput(
            f"the limit can't change, since the cost model {type(model).__name__} can't restate what it has learnt: define "
            "`shift(output, by)` in its class."
        )


def half_life(model: Model) -> float | str | None:
    """Outcomes learnt until one counts half of what it did, or a time such as "2h"; None for one that forgets nothing."""
    return cast("float | str | None", _told(model, "half_life", None))


def n_learnt(model: Model) -> int:
    """Outcomes learnt so far, where the model counts them; else 0."""
    return int(_told(model, "n_learnt", 0))


@_hook
def never_learnt(model: Model) -> NDArray[np.bool_] | None:
    """By action whether no outcome of it was ever learnt; None where the model does not tell actions apart, or can't say."""
    return None


# What it expects


def compiled(model: Model) -> str | None:
    """The kernels that can take the place of the methods: "ridge", "arms", "standardised", or None for the plain path."""
    return cast("str | None", _told(model, "compiled", None))


def exploration(model: Model) -> str:
    """How to explore with it.

    "normal" draws from means and deviations, "members" follows one of its `members` in a round, "gaps" chooses by inverse gap
    weighting, where there is nothing but means.
    """
    return str(_told(model, "exploration", "normal"))


def unit_features(model: Model) -> bool:
    """Whether ‖φ‖ ≤ 1 is asked for."""
    return bool(_told(model, "unit_features", False))


def dimension(model: Model) -> int:
    """The d of the formulas: how many parameters an output has."""
    return max(1, model.n_features) * (model.n_actions or 1)


def working_features(model: Model) -> int:
    """How many features it computes with, which says how long an answer takes."""
    return int(_told(model, "working_features", model.n_features))


@_hook
def predictions(model: Model, features: Any = None, actions: Any = None) -> tuple[Array, Array]:
    """Means and deviations, (n, n_outputs) each, for what needs both."""
    means, deviations = model.means(features, actions), model.deviations(features, actions)
    expected = np.reshape(means, (len(means), -1))
    # One deviation for all outputs will do.
    return expected, np.broadcast_to(np.reshape(deviations, (len(expected), -1)), expected.shape)


@_hook
def radius(model: Model, horizon: float) -> float:
    """What multiplies the widths in a bound that is to fail with probability 1/horizon; that of a normal law by default."""
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
    """The part of its deviation that the reward of each action is to be drawn with; all of it, if the model does not look ahead."""
    return 1.0


@_hook
def look_ahead(model: Model, features: Any, actions: NDArray[np.int64], best: int) -> None:
    """A round is decided in which row `best` of those on offer is the best by the estimates, draws apart."""


@_hook
def of_sum(model: Model, z: Array) -> tuple[float, float] | None:
    """Mean and width of features that were added up; None where a prediction is not linear in them."""
    return None


@_hook
def least_optimism(model: Model, radius: float) -> float | None:
    """The least, over actions, of mean + radius · width as it typically is; None without outcomes, or if it can't say."""
    return None


@_hook
def least_norm(model: Model, horizon: float) -> Array | None:
    """The least ‖θ*‖ of each output that what was learnt allows, with probability 1 − 1/horizon; None without θ or m."""
    return None


# Fits, beside decisions


def fits(model: Model) -> int:
    """How often it was fitted anew to what it keeps, after which prices are solved anew; 0 where every outcome moves it."""
    return int(_told(model, "fits", 0))


@_hook
def background(model: Model) -> list[BackgroundWork]:
    """What is done in the background: its own fits, or those of the models that it is made of; always in the same order."""
    return []


# Others like it


def with_outputs(model: Model, n: int) -> Model:
    """A copy that learns n quantities; what was learnt is kept, and refused where n differs."""
    if n == model.n_outputs:
        return model.copy()
    settings = arguments(model)
    if "n_outputs" not in settings:
        said = "{model!r} learns {has} quantities, but {n} are needed."
        raise InvalidInput(Text(said, model=model, has=model.n_outputs, n=n))
    if n_learnt(model):
        had = model.n_outputs
        raise InvalidInput(
            f"a model that has learnt {had} quantities can't go on with {n}: make it for {n} outputs."
        )
    return type(model)(**settings | {"n_outputs": n})


@_hook
def standardised(model: Model, n_outputs: int, *, centred: bool, prior: Any) -> Model:
    """A copy for a policy that asks for means and deviations in the outcome's own units, for features in any unit.

    `prior` (n_outputs,) is what outcomes are known to deviate by, 0 for unknown. A model that takes care of all this itself, as
    most do, is copied as it is.
    """
    return with_outputs(model, n_outputs)
