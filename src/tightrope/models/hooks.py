"""What a model may say or do beyond `Model`, and what holds for one that does not: a hook is a method by the name of its function.

Policies, fits and warnings call these functions, so that a model of your own defines as many hooks as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.models.model import Model
from tightrope.validation import Array

__all__ = [
    "learn_many",
    "least_norm",
    "least_optimism",
    "never_learnt",
    "of_sum",
    "sampled",
    "working_features",
]


def learn_many(model: Model, features: Any, outcomes: Any, actions: Any = None) -> None:
    """Take in many outcomes, (n,) or (n, n_outputs): one by one, but a model that is fitted to what it keeps is fitted once."""
    own = getattr(model, "learn_many", None)
    if own is not None:
        own(features, outcomes, actions)
        return
    for i, outcome in enumerate(outcomes):
        row, action = None if features is None else features[i], None if actions is None else int(actions[i])
        model.learn(row, outcome, action)


def sampled(
    model: Model, features: Any, actions: Any, scale: float, normals: Callable[[int, int], Array]
) -> Array:
    """A draw for each row (n,), `scale` widths wide; `normals(n, slot)` gives n standard normals of the policy's own stream."""
    own = getattr(model, "sampled", None)
    if own is not None:
        return np.asarray(own(features, actions, scale, normals))
    means = np.asarray(model.means(features, actions))
    ids = np.arange(len(means)) if actions is None else np.asarray(actions)
    spread = scale * np.asarray(model.widths(features, actions))
    return np.asarray(means + spread * np.array([normals(1, int(a))[0] for a in ids]))


def working_features(model: Model) -> int:
    """How many features it computes with, which says how long an answer takes."""
    return int(getattr(model, "working_features", model.n_features))


def never_learnt(model: Model) -> NDArray[np.bool_] | None:
    """By action whether no outcome of it was ever learnt; None where the model does not tell actions apart, or can't say."""
    own = getattr(model, "never_learnt", None)
    return None if own is None else own()


def least_optimism(model: Model, radius: float) -> float | None:
    """The least, over actions, of mean + radius · width as it typically is; None without outcomes, or if it can't say."""
    own = getattr(model, "least_optimism", None)
    return None if own is None else own(radius)


def least_norm(model: Model, horizon: float) -> Array | None:
    """The least ‖θ*‖ of each output that what was learnt allows, with probability 1 − 1/horizon; None without θ or m."""
    own = getattr(model, "least_norm", None)
    return None if own is None else own(horizon)


def of_sum(model: Model, z: Array) -> tuple[float, float] | None:
    """Mean and width of features that were added up; None where a prediction is not linear in them."""
    own = getattr(model, "of_sum", None)
    return None if own is None else own(z)
