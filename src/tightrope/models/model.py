"""The contract of every model, and models by name.

A model is frozen settings plus arrays: its estimate of a reward, or of several costs, from what it has seen. A policy copies the
model that it gets, so a model that has learnt from past data gives the policy a warm start, and one object may be passed twice.
`docs/models.md` shows one of your own, in one file, from a simulation to the service.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.errors import InvalidInput
from tightrope.registry import Registry, found_by
from tightrope.validation import Array, finite_number, real_array, require_finite, whole_number

Ids = NDArray[np.int64]
# The number of the decision where there is none, as for rows of a warm start.
NO_DECISION: Final = -1

MODELS = Registry("model", __package__)
register = MODELS.register


class Model(ABC):
    """One quantity, or several, learnt from features, from the action, or from both.

    Your own model defines `means`, `learn`, `arrays` and one of `deviations` and `widths`, and keeps every parameter of its
    constructor in an attribute of the same name, as plain data. The constructor gets `n_actions` and `n_features` if it has these
    parameters, and `n_outputs`, the number of quantities to learn. Everything else follows: any policy that takes models can be
    simulated, compared, saved and served with it, by the plain path.

    `features` are rows (n, n_features) and `actions` their action ids (n,), None if the model does not tell actions apart; a policy
    has already checked them. Answers are (n,), or (n, n_outputs) if there are several outputs.
    """

    kind: ClassVar[str]
    n_features: int = 0
    n_actions: int | None = None
    n_outputs: int = 1
    # The sizes that were not given; a policy will supply them.
    _missing: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls.kind = found_by(cls)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if self._missing and not name.startswith("__"):
                problem = f"{self!r} has no {' and '.join(self._missing)} yet: pass {self._missing[0]}=, or give it to a"
                raise SizesMissing(
                    f"{problem} policy, which takes the sizes from its rules and its first context."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @abstractmethod
    def means(self, features: Any = None, actions: Any = None) -> Array:
        """The expected outcome of each row."""

    @abstractmethod
    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        """Learn one outcome, a number or n_outputs of them, seen at `features` (n_features,) for `action`."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state, by name: the arrays themselves, not copies, of the same shapes at all times, but see `make_room`."""

    def grow(self, n_actions: int) -> None:
        """Extend the model to `n_actions` actions: new ones come last, and what was learnt about the others stays as it is.

        By default arrays get longer along the axes of actions; a model with another layout overrides this.
        """
        before = {name: array.copy() for name, array in self.arrays().items()}
        if self._begin_anew_with(n_actions):
            make_room(self, before)
            keep_entries(before, self.arrays())

    def _begin_anew_with(self, n_actions: int) -> bool:
        """Become a new model for more actions; returns whether there are more."""
        if not more_actions(self, n_actions):
            return False
        type(self).__init__(self, **arguments(self) | {"n_actions": n_actions})
        return True

    def widths(self, features: Any = None, actions: Any = None) -> Array:
        """How uncertain the means are, before any radius: ‖φ‖_{Σ⁻¹} if there is a Σ, else the standard deviation."""
        return self.deviations(features, actions)

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        """The standard deviation of each mean, in the outcome's own units."""
        raise NotImplementedError(f"{type(self).__name__} must define deviations, or widths")

    def settings(self) -> dict[str, Any]:
        """Plain data from which an equal, untaught model can be made."""
        names = inspect.signature(type(self)).parameters
        for name in names:
            if not hasattr(self, name):
                where = f"must be kept in an attribute `{name}`"
                raise InvalidInput(f"the parameter {name!r} of {type(self).__name__}'s constructor {where}.")
        return {"model": self.kind, **{name: getattr(self, name) for name in names}}

    def copy(self) -> Self:
        """An independent copy, state included."""
        fresh = type(self)(**arguments(self))
        if not self._missing:
            take_arrays(fresh, self.arrays())
        return fresh

    def _take_sizes(self, **sizes: int | None) -> bool:
        for name, one in sizes.items():
            setattr(self, name, one)
        self._missing = tuple(name for name, one in sizes.items() if one is None)
        return not self._missing

    def _shaped(self, values: Array) -> Array:
        """Answers (n, n_outputs) in the shape that callers get: (n,) if there is one output."""
        return values.reshape(-1) if self.n_outputs == 1 else values

    def _take_half_life(self, value: Any) -> None:
        """Store the half-life, as given and in numbers."""
        self._fades = fades = half_life_of(value)
        self.half_life: float | str | None = value if fades is None or not fades.tick else fades.length

    def _shown(self, **settings: float) -> str:
        """The Python expression for it, with its sizes and these settings."""
        sizes = [str(one) for one in (self.n_actions, self.n_features) if one]
        stated = [f"{name}={value:g}" for name, value in settings.items()]
        return f"{type(self).__name__}({', '.join(sizes + stated)}{shown_half_life(self.half_life)})"

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in arguments(self).items() if name != "n_outputs")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        known = [(name, value) for name, value in arguments(self).items() if value is not None]
        return displays.page(f"{type(self).__name__} ({self.kind})", displays.facts(known))


def arguments(model: Model) -> dict[str, Any]:
    """The arguments of its constructor: its settings without the name of its class."""
    return {name: value for name, value in model.settings().items() if name != "model"}


def make_room(model: Model, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Give its own arrays the shapes of these, which are about to be copied into them; for a model whose arrays grow."""
    if (own := getattr(type(model), "make_room", None)) is not None:
        own(model, arrays)


def under(name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with this prefix and a slash, by the rest of their names."""
    own = f"{name}/"
    return {key.removeprefix(own): array for key, array in arrays.items() if key.startswith(own)}


def take_arrays(model: Model, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Become the model, with equal settings, that these arrays came from."""
    make_room(model, arrays)
    for name, array in model.arrays().items():
        array[...] = arrays[name]


class SizesMissing(InvalidInput, AttributeError):
    """A model was used before it knew how many actions or features there are."""


def missing_sizes(model: Model) -> tuple[str, ...]:
    return model._missing


def size(name: str, value: Any, *, low: int) -> int | None:
    return None if value is None else whole_number(name, value, low=low)


def more_actions(model: Model, n_actions: Any) -> bool:
    """Whether a model must grow to more actions; fewer are refused, because ids never change."""
    n, known = whole_number("n_actions", n_actions, low=1), model.n_actions
    if known is not None and n < known:
        must = f"be at least {known}, since actions are never taken away"
        raise InvalidInput(field="n_actions", must=must, got=n)
    return known is not None and n > known


def keep_entries(before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]]) -> None:
    """Copy the old arrays of a model into the first entries of its new ones."""
    for name, array in after.items():
        array[tuple(map(slice, before[name].shape))] = before[name]


def model_from_settings(settings: dict[str, Any]) -> Model:
    """An untaught model from what `settings()` gave.

    >>> from tightrope.models import ArmMeans
    >>> model_from_settings(ArmMeans(3).settings())
    ArmMeans(3, bonus=1)
    """
    rest = dict(settings)
    made = MODELS.find(str(rest.pop("model", None)))
    try:
        model: Model = made(**rest)
    except TypeError as error:
        raise InvalidInput(f"settings of a {made.kind} model: {error}.") from error
    return model


def checked_outcome(outcome: Any, n_outputs: int) -> Array:
    """An outcome as (n_outputs,) finite numbers."""
    shapes: list[tuple[int | None, ...]] = [(n_outputs,), *[()] * (n_outputs == 1)]
    y = real_array("outcome", outcome, *shapes).reshape(n_outputs)
    require_finite("outcome", y)
    return y


def known_action(action: Any, n_actions: int) -> int:
    a = whole_number("action", action)
    if a >= n_actions:
        raise InvalidInput(field="action", must=f"be below {n_actions}", got=a)
    return a


# A draw from the policy's own stream: n standard normals for a slot.
Normals: TypeAlias = Callable[[int, int], Array]


class HalfLife(NamedTuple):
    """The half-life, and by how much an outcome advances time: 1 if it counts rounds, 0 if it is in seconds."""

    length: float
    tick: float


def half_life_of(value: Any) -> HalfLife | None:
    """A half-life of at least one round, or one in time: "90s", "30min", "2h", "7d"; None forgets nothing."""
    if value is None:
        return None
    if not isinstance(value, str):
        return HalfLife(finite_number("half_life", value, low=1.0), 1.0)
    stated = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)", value)
    seconds = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
    length = 0.0 if stated is None else float(stated[1]) * seconds[stated[2]]
    if not length:
        must = 'be a number of rounds, or a time such as "90s", "30min", "2h" or "7d"'
        raise InvalidInput(field="half_life", must=must, got=value)
    return HalfLife(length, 0.0)


def shown_half_life(value: float | str | None) -> str:
    if value is None:
        return ""
    return f", half_life={value:g}" if isinstance(value, float) else f", half_life={value!r}"
