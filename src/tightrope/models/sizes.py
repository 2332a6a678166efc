"""Models without given sizes: what is known about a problem's sizes, and a model that waits for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tightrope.errors import InvalidInput
from tightrope.models.model import MODELS, Model, missing_sizes

SIZES = ("n_actions", "n_features")


class Sizes(NamedTuple):
    """The sizes that a model is made for: `n_features` numbers per action (`per_action`), or once for all; 0 if only arms.

    `n_actions` is None if it is not known.
    """

    n_actions: int | None
    n_features: int
    per_action: bool


@dataclass(frozen=True)
class Unsized:
    """A model as it was given, by name or without sizes; `sized` makes it."""

    settings: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.settings["model"])

    def sized(self, sizes: Sizes) -> Model:
        settings = {name: value for name, value in self.settings.items() if name != "model"}
        model = sized(model_class(self.kind, sizes), sizes, **settings)
        if missing := missing_sizes(model):
            lacking = f"cannot infer {' and '.join(missing)} of {model!r}"
            raise InvalidInput(f"{lacking}; pass {missing[0]}= to the model, or rules to the policy.")
        return model

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in self.settings.items() if name != "model"]
        return f"{self.kind!r}" if not given else f"{self.kind}({', '.join(given)})"


def read_model(name: str, given: Any) -> Model | Unsized:
    """A model as passed to a policy: an object, a registered name, or settings with the name under `model`.

    >>> read_model("reward", "linear")
    'linear'
    >>> read_model("reward", {"model": "ridge", "n_features": 3})
    Ridge(3, bonus=1, m=1, ridge=1)
    """
    if isinstance(given, Model):
        return Unsized(_typed(given.settings())) if missing_sizes(given) else given
    if isinstance(given, Unsized):
        return given
    settings = {"model": given} if isinstance(given, str) else given
    if not isinstance(settings, Mapping) or "model" not in settings:
        must = 'be a model, such as tr.Ridge(), or the name of one, such as "linear"'
        raise InvalidInput(field=name, must=must, got=given)
    try:
        made = MODELS.find(str(settings["model"]))
        if not isinstance(made, type) or not issubclass(made, Model):
            return Unsized(dict(settings))
        stated = {key: value for key, value in settings.items() if key != "model"}
        taken = parameters_of(made)
        lacking = [key for key, one in taken.items() if one.default is one.empty and key not in stated]
        if lacking and set(lacking) <= set(SIZES):
            return Unsized(dict(settings))
        model: Model = made(**stated)
    except TypeError as error:
        raise InvalidInput(f"{name}: settings of a {settings['model']} model: {error}.") from error
    except InvalidInput as error:
        raise error.inside(name) from error
    return Unsized(_typed(settings)) if missing_sizes(model) else model


def sized(made: Any, sizes: Sizes, **settings: Any) -> Model:
    """A model of a class for these sizes: the class defines `sized`, or its constructor takes the sizes that it asks for.

    One that takes only features gets e_j ⊗ x if there is one x for all actions.
    """
    if (own := getattr(made, "sized", None)) is not None:
        model: Model = own(sizes, **settings)
        return model
    asked = parameters_of(made)
    n, J = sizes.n_features, sizes.n_actions
    if "n_actions" not in asked and not sizes.per_action and J is not None:
        n *= J
    known = {"n_actions": J, "n_features": n}
    found: Model = made(**{name: known[name] for name in SIZES if name in asked} | settings)
    return found


def shared_or_each(made: Callable[..., Any], /, sizes: Sizes, **settings: Any) -> Any:
    """`sized` for a class whose actions share parameters if each has its own features, and otherwise have their own parameters."""
    known = {"n_actions": None if sizes.per_action else sizes.n_actions, "n_features": sizes.n_features}
    return made(**known | settings)


def model_class(kind: str, sizes: Sizes, *where: Any) -> Any:
    """The class behind a name, for a problem of these sizes: "linear" stands for three."""
    made = MODELS.find(kind, *where)
    return made.fitting(sizes) if hasattr(made, "fitting") else made


def parameters_of(make: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(make).parameters
    return {name: one for name, one in found.items() if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}


def _typed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without the sizes that were not given."""
    return {name: value for name, value in settings.items() if name not in SIZES or value is not None}
