"""Several models side by side; the one that has predicted best is followed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.models import hooks
from tightrope.models.composite import Composite
from tightrope.models.model import (
    Model,
    arguments,
    checked_outcome,
    half_life_of,
    missing_sizes,
    register,
    size,
)
from tightrope.models.sizes import Sizes, model_class, shared_or_each, sized
from tightrope.validation import Array, whole_number

_LINEAR = "standardised"
_TREES = tuple({"model": "ensemble", "estimator": one} for one in ("forest", "boosting"))

FIRST_LOOK = 60  # outcomes
_GROWTH = 1.2  # from one look to the next
_SURE = 1.0  # standard errors by which another must be better
_MOST_SWITCHES = 32  # remembered


class Switch(NamedTuple):
    """A switch to another model: after how many outcomes, to which one, and the error of each by then."""

    outcomes: int
    to: str
    errors: dict[str, float]


@register("auto")
class Auto(Composite):
    """A few models learn side by side, and the one with the least error on outcomes it had not seen yet is followed.

    No single learner suits both noisy and clean outcomes. Every candidate first predicts each outcome, then learns it. Later
    squared errors count more, so that early mistakes don't weigh on a model that has become good. At 60 outcomes, and whenever
    their number has grown by a fifth, it switches to another model if that one was better by a standard error of the difference.

    Parameters
    ----------
    n_actions : int, optional
        None if each action comes with its own features, or if `n_features` is not given.
    n_features : int, optional
        0 if there are only arms. By default as many as in the first context that its policy sees.
    candidates : sequence of names or settings, optional
        Registered names, or settings with the name under `model`; by default a linear model, small forests and small boosted
        trees. The first is followed at the start.
    seed, half_life
        For candidates that draw, and for those without a half-life of their own.
    n_outputs : int

    Examples
    --------
    >>> model = Auto(2, 1, candidates=["arm-means", "standardised"])
    >>> for i in range(400):
    ...     model.learn([i % 7], (i % 7) * (1.0 + i % 2), i % 2)
    >>> print(model.why())
    standardised is followed since outcome 60: its squared error was 0.07 of the outcomes' variance, that of arm-means 0.9.
    """

    def __init__(
        self,
        n_actions: int | None = None,
        n_features: int | None = None,
        *,
        candidates: Sequence[Any] | None = None,
        half_life: float | str | None = None,
        seed: int = 0,
        n_outputs: int = 1,
    ) -> None:
        self.n_actions, p = size("n_actions", n_actions, low=1), size("n_features", n_features, low=0)
        self.n_outputs = whole_number("n_outputs", n_outputs)
        self.seed = whole_number("seed", seed)
        self.half_life = half_life
        fades = half_life_of(half_life)
        # In outcomes; even if models forget by the clock, errors don't.
        self._fading = None if fades is None or isinstance(half_life, str) else fades.length
        usual = (_LINEAR, *_TREES) if p != 0 else (_LINEAR,)
        given = usual if candidates is None else candidates
        self._asked_for = None if candidates is None else list(candidates)
        if isinstance(given, str) or not len(given):
            raise InvalidInput(field="candidates", must="be a list of models", got=given)
        if not self._take_sizes(n_features=p):
            return
        self.models = [self._made(f"candidates[{i}]", one) for i, one in enumerate(given)]
        C = len(self.models)
        self._counts = np.zeros(6, dtype=np.int64)
        self._counts[_NEXT_LOOK] = FIRST_LOOK
        self._moments = np.zeros((2, self.n_outputs))
        self._errors, self._apart = np.zeros(C), np.zeros((C, C))
        self._switches = np.zeros((_MOST_SWITCHES, 2 + C))

    def _made(self, name: str, given: Any) -> Model:
        stated = {"model": given} if isinstance(given, str) else dict(given)
        try:
            sizes = Sizes(self.n_actions or 1, self.n_features, self.n_actions is None)
            make = model_class(str(stated.pop("model", None)), sizes)
            if "n_outputs" in stated:  # The complete settings, as `settings` gives them.
                model: Model = make(**stated | {"n_outputs": self.n_outputs})
            else:
                shared = {"seed": self.seed, "half_life": self.half_life, "n_outputs": self.n_outputs}
                taken = inspect.signature(make).parameters
                stated = {k: v for k, v in shared.items() if k in taken and v is not None} | stated
                model = sized(make, sizes, **stated)
            if not model.n_features and self.n_actions is None:
                raise InvalidInput("it does not tell actions apart by their features")
        except (TypeError, InvalidInput) as error:
            raise InvalidInput(f"{name}: {str(error).rstrip('.')}.") from error
        return model

    # Which is followed, and why

    @property
    def followed(self) -> Model:
        """The candidate that decides now."""
        return self.models[int(self._counts[_FOLLOWED])]

    _in_use = followed

    @property
    def _guide(self) -> Model:
        """The first model that looks ahead. Its part of the deviation serves whichever model is followed."""
        return next((one for one in self.models if hooks.defines(one, "look_ahead")), self.followed)

    @property
    def candidates(self) -> list[Any] | None:
        """The settings of each; until sizes are known, as they were given."""
        return self._asked_for if missing_sizes(self) else [model.settings() for model in self.models]

    @property
    def names(self) -> list[str]:
        """A name for each candidate: its kind, or that of its estimator if it has one."""
        return [str(getattr(model, "estimator", None) or model.kind) for model in self.models]

    @property
    def errors(self) -> dict[str, float]:
        """Squared error of each candidate's predictions as a part of the outcomes' variance; later outcomes count more."""
        return dict(zip(self.names, self._errors.tolist()))

    @property
    def switches(self) -> list[Switch]:
        """The changes so far, the last 32 of them."""
        names = self.names
        n = int(self._counts[_SWITCHES])
        rows = [self._switches[i % _MOST_SWITCHES] for i in range(max(0, n - _MOST_SWITCHES), n)]
        return [Switch(int(at), names[int(to)], dict(zip(names, errors))) for at, to, *errors in rows]

    def why(self) -> str:
        """Which model is followed, since when, and the errors that justify it."""
        names, switches, n = self.names, self.switches, self.n_learnt
        name = names[int(self._counts[_FOLLOWED])]
        if not switches:
            if n < FIRST_LOOK or len(names) == 1:
                return f"{name} is followed from the start; {n} outcome{'s' * (n != 1)} learnt."
            return f"{name} is followed from the start: no other was better, {_listed(self.errors)}."
        at, _, errors = switches[-1]
        error = f"its squared error was {errors.pop(name):.1g} of the outcomes' variance"
        return f"{name} is followed since outcome {at}: {error}, that of {_listed(errors)}."

    # The contract

    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        y = checked_outcome(outcome, self.n_outputs)
        rows = None if not self.n_features else np.asarray(features, dtype=float).reshape(1, -1)
        ids = None if action is None else np.array([action])
        said = np.array([np.asarray(one.means(rows, ids), dtype=float).reshape(-1) for one in self.models])
        for model in self.models:
            model.learn(features, y, action)
        counts = self._counts
        counts[_LEARNT] += 1
        self._judge(said, y)
        if counts[_LEARNT] >= counts[_NEXT_LOOK]:
            self._look()
        fits = hooks.fits(self.followed)
        counts[_FITS] += fits != counts[_FITS_SEEN]
        counts[_FITS_SEEN] = fits

    def _judge(self, said: Array, y: Array) -> None:
        n, (mean, square) = float(self._counts[_LEARNT]), self._moments
        guess = mean.copy()
        mean += (y - mean) / n
        square += (y - guess) * (y - mean)
        variance = square / n
        usable = variance > 0.0
        if not usable.any():
            return
        off = np.where(np.isfinite(said), said, guess) - y
        errors = (off[:, usable] ** 2 / variance[usable]).mean(axis=1)
        # Weights that grow like the number of outcomes: Σ i = n(n + 1)/2, so the last one's part is 2/(n + 1).
        part = max(2.0 / (n + 1.0), 0.0 if self._fading is None else 1.0 - 0.5 ** (1.0 / self._fading))
        self._errors += part * (errors - self._errors)
        self._apart += part * ((errors[:, None] - errors) ** 2 - self._apart)

    def _look(self) -> None:
        counts, errors = self._counts, self._errors
        apart = math.inf if self._fading is None else self._fading / 4.0
        counts[_NEXT_LOOK] = counts[_LEARNT] + math.ceil(min((_GROWTH - 1.0) * counts[_LEARNT], apart))
        n, now, best = float(counts[_LEARNT]), int(counts[_FOLLOWED]), int(np.argmin(errors))
        ahead = float(errors[now] - errors[best])
        if self._fading is not None:
            n = min(n, 2.0 * self._fading)
        # Σ i² / (Σ i)² is 4/(3n).
        error = math.sqrt(max(0.0, float(self._apart[now, best]) - ahead**2) * 4.0 / (3.0 * n))
        if ahead > _SURE * error:
            self._switches[counts[_SWITCHES] % _MOST_SWITCHES] = counts[_LEARNT], best, *errors
            counts[_SWITCHES] += 1
            counts[_FOLLOWED] = best
            counts[_FITS] += 1
            counts[_FITS_SEEN] = hooks.fits(self.followed)

    @property
    def fits(self) -> int:
        return int(self._counts[_FITS])

    @property
    def n_learnt(self) -> int:
        return int(self._counts[_LEARNT])

    def _parts(self) -> dict[str, Model]:
        return {str(i): model for i, model in enumerate(self.models)}

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        names = "counts", "moments", "errors", "apart", "switches"
        return {name: getattr(self, f"_{name}") for name in names}

    def learn_many(self, features: Any, outcomes: Any, actions: Any = None) -> None:
        """Learn many outcomes: the first four fifths at once, the rest one by one to see which candidate predicts best."""
        first = len(outcomes) * 4 // 5
        (rows, later_rows), (seen, later), (ids, later_ids) = (
            (None, None) if one is None else (one[:first], one[first:])
            for one in (features, outcomes, actions)
        )
        if first:
            for model in self.models:
                hooks.learn_many(model, rows, seen, ids)
            y = np.asarray(seen, dtype=float).reshape(first, self.n_outputs)
            # As Welford's sums of all of them.
            counts, (mean, square) = self._counts, self._moments
            before = float(counts[_LEARNT])
            gap = y.mean(axis=0) - mean
            square += first * y.var(axis=0) + gap**2 * before * first / (before + first)
            mean += gap * first / (before + first)
            counts[_LEARNT] += first
        for row, outcome, action in hooks.one_by_one(later_rows, later, later_ids):
            self.learn(row, outcome, action)
        self._look()

    def shift(self, output: int, by: float) -> None:
        self._moments[0, output] += by
        super().shift(output, by)

    def standardised(self, n_outputs: int, *, centred: bool, prior: Any) -> Self:
        how: Any = {"centred": centred, "prior": prior}
        return self._of([hooks.standardised(one, n_outputs, **how) for one in self.models])

    def copy(self) -> Self:
        return super().copy() if missing_sizes(self) else self._of([one.copy() for one in self.models])

    def _of(self, models: list[Model]) -> Self:
        """A copy with these candidates that keeps what was seen."""
        changed = {"candidates": [one.settings() for one in models], "n_outputs": models[0].n_outputs}
        fresh = type(self)(**arguments(self) | changed)
        fresh.models = models
        if fresh.n_outputs == self.n_outputs:
            for mine, its in zip(self._own_arrays().values(), fresh._own_arrays().values()):
                its[...] = mine
        return fresh

    sized = classmethod(shared_or_each)

    def __repr__(self) -> str:
        shown = self.candidates if missing_sizes(self) else self.names
        return f"Auto({self.n_actions}, {self.n_features}, candidates={shown})"


_LEARNT, _FOLLOWED, _NEXT_LOOK, _FITS, _FITS_SEEN, _SWITCHES = range(6)


def _listed(errors: dict[str, float]) -> str:
    return ", ".join(f"{name} {error:.1g}" for name, error in errors.items())
