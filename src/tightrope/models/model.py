"""What every model offers, and models by name.

A model is frozen settings plus arrays: what is believed of a reward, or of several costs, from what was seen. A policy takes a
copy of the one that it is given, so that a model that has learnt from past data gives the policy a warm start, and one object
may be named twice. `docs/models.md` shows one of your own, in one file, from a simulation to the service.
"""

from __future__ import annotations

import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.errors import InvalidInput
from tightrope.models.background import BackgroundWork
from tightrope.registry import Registry, found_by
from tightrope.validation import Array, finite_number, real_array, require_finite, whole_number
from tightrope.words import Text

__all__ = ["MODELS", "Model", "checked_outcome", "known_action", "model_from_settings", "register"]

Ids = NDArray[np.int64]
# The number of the decision where there is none, as for rows of a warm start.
NO_DECISION: Final = -1

MODELS = Registry("model", __package__)
register = MODELS.register


class Model(ABC):
    """One quantity, or several, learnt from features, from the action, or from both.

    A model of your own defines `means`, `learn`, `arrays` and one of `deviations` and `widths`, and keeps every parameter of its
    constructor in an attribute of the same name, as plain data. The constructor is given `n_actions` and `n_features` where it
    asks for them, and `n_outputs`, how many quantities it is to learn. Everything else follows: any policy that takes models
    can be simulated, compared, saved and served with it, by the plain path.

    `features` are rows (n, n_features) and `actions` their action ids (n,), None where the model does not tell actions apart; they
    come checked from a policy. Answers are (n,), or (n, n_outputs) where there are several outputs.
    """

    kind: ClassVar[str]
    # The compiled kernels that can take the place of the methods: "ridge", "arms", "standardised", or None for the plain path.
    compiled: str | None = None
    takes_features: bool = True
    # Whether ‖φ‖ ≤ 1 is asked for.
    unit_features: ClassVar[bool] = False
    # How to explore with it: "normal" draws from means and deviations, "members" follows one of its `members` in a round, "gaps"
    # chooses by inverse gap weighting, where there is nothing but means.
    exploration: str = "normal"

    # The decision that the next outcome belongs to, by its number: see `note_decision`.
    decision: int = NO_DECISION

    n_features: int = 0
    n_actions: int | None = None
    # The sizes that nobody typed, which a policy will tell.
    _missing: tuple[str, ...] = ()
    n_outputs: int = 1
    # Outcomes learnt until one counts half of what it did, or a time such as "2h"; None for a model that forgets nothing.
    half_life: float | str | None = None

    def __init_subclass__(cls) -> None:
        cls.kind = found_by(cls)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if self._missing and not name.startswith("__"):
                raise SizesMissing(
                    f"{self!r} has no {' and '.join(self._missing)} yet: pass {self._missing[0]}=, or give it to a policy, "
                    f"which takes the sizes from its rules and its first context."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @abstractmethod
    def means(self, features: Any = None, actions: Any = None) -> Array:
        """The expected outcome of each row."""

    @abstractmethod
    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        """Take in one outcome, a number or n_outputs of them, seen at `features` (n_features,) for `action`."""

    def note_decision(self, number: int) -> None:
        """The outcomes that are learnt from here on belong to the decision with this number; `NO_DECISION`: to none.

        A model that keeps rows keeps this number, `decision`, with each, so that `forget_inputs` finds them.
        """
        self.decision = number

    def forget_inputs(self, numbers: Collection[int]) -> None:
        """Drop the rows that are kept of these decisions; what was learnt from them in sums may stay.

        What it does depends only on `arrays`: a model that is loaded from them afterwards answers the same.
        """
        return

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state, by name: the arrays themselves, not copies, of the same shapes at all times, but see `make_room`."""

    def grow(self, n_actions: int) -> None:
        """Know `n_actions` actions: new ones come behind those that there are, of which all that was learnt stays as it is.

        A model that actions share has nothing to do. Here arrays get longer along the axes that actions are counted along, and the
        new entries are those of a model that has learnt nothing; one that lays its arrays out otherwise defines it.
        """
        before = {name: array.copy() for name, array in self.arrays().items()}
        if self._begin_anew_with(n_actions):
            self.make_room(before)
            keep_entries(before, self.arrays())

    def _begin_anew_with(self, n_actions: int) -> bool:
        """Be as a new model for more actions; whether there are more."""
        if not more_actions(self, n_actions):
            return False
        settings = {name: value for name, value in self.settings().items() if name != "model"}
        type(self).__init__(self, **{**settings, "n_actions": n_actions})
        return True

    def make_room(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Give the own arrays the shapes of these, which are about to be copied into them; for a model whose arrays grow."""
        return

    def widths(self, features: Any = None, actions: Any = None) -> Array:
        """How unsure the means are, before any radius: ‖φ‖_{Σ⁻¹} where there is a Σ, else the standard deviation."""
        return self.deviations(features, actions)

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        """The standard deviation of each mean, in the outcome's own units."""
        raise NotImplementedError(f"{type(self).__name__} must define deviations, or widths")

    def predictions(self, features: Any = None, actions: Any = None) -> tuple[Array, Array]:
        """Means and deviations, (n, n_outputs) each, for what needs both."""
        means, deviations = self.means(features, actions), self.deviations(features, actions)
        expected = np.reshape(means, (len(means), -1))
        # One deviation for all outputs will do.
        return expected, np.broadcast_to(np.reshape(deviations, (len(expected), -1)), expected.shape)

    def radius(self, horizon: float) -> float:
        """What multiplies the widths in a bound that is to fail with probability 1/horizon; that of a normal law by default."""
        return math.sqrt(2.0 * math.log(max(1.0, horizon)))

    def members(self, features: Any = None, actions: Any = None) -> Array:
        """What each of its M members expects of each row, (M, n) or (M, n, n_outputs), spread as they are to be drawn."""
        raise InvalidInput(Text("{model!r} is one model, without members.", model=self))

    @property
    def fits(self) -> int:
        """How often it was fitted anew to what it keeps, after which prices are solved anew; 0 where every outcome moves it."""
        return 0

    def background(self) -> list[BackgroundWork]:
        """What is done in the background: its own fits, or those of the models that it is made of; always in the same order."""
        return []

    def check_outcome(self, outcome: Any) -> None:
        """Refuse an outcome that it can't learn; a policy asks before it changes anything."""
        return

    def elapse(self, time: float) -> None:
        """So much time goes by, in rounds or seconds as `half_life` is, beside what outcomes count: what was learnt fades."""
        return

    @property
    def dimension(self) -> int:
        """The d of the formulas: how many parameters an output has."""
        return max(1, self.n_features) * (self.n_actions or 1)

    @property
    def n_learnt(self) -> int:
        """Outcomes learnt so far, where the model counts them."""
        return 0

    def settings(self) -> dict[str, Any]:
        """Plain data from which an equal, untaught model can be made."""
        return {
            "model": self.kind,
            **{name: getattr(self, name) for name in inspect.signature(type(self)).parameters},
        }

    def with_outputs(self, n: int) -> Self:
        """A copy that learns n quantities; what was learnt is kept, and refused where n differs."""
        settings = {name: value for name, value in self.settings().items() if name != "model"}
        if "n_outputs" in settings:
            settings["n_outputs"] = n
        elif n != self.n_outputs:
            raise InvalidInput(
                Text(
                    "{model!r} learns {has} quantities, but {n} are needed.",
                    model=self,
                    has=self.n_outputs,
                    n=n,
                )
            )
        fresh = type(self)(**settings)
        if n == self.n_outputs:
            mine = self.arrays()
            fresh.make_room(mine)
            for name, array in fresh.arrays().items():
                array[...] = mine[name]
        elif self.n_learnt:
            raise InvalidInput(
                f"a model that has learnt {self.n_outputs} quantities can't go on with {n}: make it for {n} outputs."
            )
        return fresh

    def standardised(self, n_outputs: int, *, centred: bool, prior: Any) -> Model:
        """A copy for a policy that asks for means and deviations in the outcome's own units, for features in any unit.

        `prior` (n_outputs,) is what outcomes are known to deviate by, 0 for unknown. A model that takes care of all this itself, as
        most do, is copied as it is.
        """
        return self.with_outputs(n_outputs)

    def shift(self, output: int, by: float) -> None:
        """All outcomes of one output, learnt ones too, become larger by so much: for the costs of a rule whose limit changes.

        A model of your own defines it if limits of rules seen after acting are to change under it.
        """
        raise NotImplementedError

    def copy(self) -> Self:
        """An independent copy, state included."""
        if self._missing:
            return type(self)(**{name: value for name, value in self.settings().items() if name != "model"})
        return self.with_outputs(self.n_outputs)

    def _take_sizes(self, **sizes: int | None) -> bool:
        """Keep the sizes; whether all are known."""
        for name, one in sizes.items():
            setattr(self, name, one)
        self._missing = tuple(name for name, one in sizes.items() if one is None)
        return not self._missing

    def __repr__(self) -> str:
        shown = (
            f"{name}={value!r}"
            for name, value in self.settings().items()
            if name not in ("model", "n_outputs")
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        settings = self.settings()
        known = [(name, value) for name, value in settings.items() if name != "model" and value is not None]
        return displays.page(
            f"{type(self).__name__} ({settings.get('model', self.kind)})", displays.facts(known)
        )


class SizesMissing(InvalidInput, AttributeError):
    """A model is asked before it knows how many actions or features there are."""


def missing_sizes(model: Model) -> tuple[str, ...]:
    """The sizes of a model that nobody typed, by name."""
    return model._missing


def size(name: str, value: Any, *, low: int) -> int | None:
    """A whole number; None for one that a policy will tell."""
    return None if value is None else whole_number(name, value, low=low)


def shown_sizes(*sizes: int | None) -> str:
    """For a model's `repr`, which goes on behind them."""
    return "".join(f"{one}, " for one in sizes if one is not None)


def more_actions(model: Model, n_actions: Any) -> bool:
    """Whether a model is to know more actions than it does; fewer are refused, for ids never change."""
    n, known = whole_number("n_actions", n_actions, low=1), model.n_actions
    if known is not None and n < known:
        raise InvalidInput(
            field="n_actions", must=f"be at least {known}, since actions are never taken away", got=n
        )
    return known is not None and n > known


def keep_entries(before: Mapping[str, NDArray[Any]], after: Mapping[str, NDArray[Any]]) -> None:
    """What the arrays of a model were, as the first entries of those that it has now."""
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
    shapes: list[tuple[int | None, ...]] = [(n_outputs,)]
    if n_outputs == 1:
        shapes.append(())
    y = real_array("outcome", outcome, *shapes).reshape(n_outputs)
    require_finite("outcome", y)
    return y


def known_action(action: Any, n_actions: int) -> int:
    """An action id below n_actions."""
    a = whole_number("action", action)
    if a >= n_actions:
        raise InvalidInput(f"action must be below {n_actions}, but got {a}.")
    return a


class HalfLife(NamedTuple):
    """How long it is, and by how much an outcome moves time: 1 where rounds are counted, 0 where time is told in seconds."""

    length: float
    tick: float


def half_life_of(value: Any) -> HalfLife | None:
    """A half-life of at least one round, or one in time: "90s", "30min", "2h", "7d"; None forgets nothing.

    >>> half_life_of("30min")
    HalfLife(length=1800.0, tick=0.0)
    """
    if value is None:
        return None
    if not isinstance(value, str):
        return HalfLife(finite_number("half_life", value, low=1.0), 1.0)
    stated = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)", value)
    length = (
        0.0
        if stated is None
        else float(stated[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}[stated[2]]
    )
    if not length:
        raise InvalidInput(
            f'half_life must be a number of rounds, or a time such as "90s", "30min", "2h" or "7d", but got {value!r}.'
        )
    return HalfLife(length, 0.0)


def shown_half_life(value: float | str | None) -> str:
    """For a model's `repr`."""
    return (
        ""
        if value is None
        else f", half_life={value:g}"
        if isinstance(value, float)
        else f", half_life={value!r}"
    )


def factor(name: str, value: Any) -> float:
    """A number that multiplies, at least 0."""
    return finite_number(name, value, low=0.0)
