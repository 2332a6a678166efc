"""Transformed features for any model: random Fourier features, Nyström, splines, or a pipeline of your own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.models import hooks, transformers
from tightrope.models.composite import Composite
from tightrope.models.model import (
    NO_DECISION,
    Model,
    Normals,
    arguments,
    model_from_settings,
    register,
    take_arrays,
)
from tightrope.models.outcome_memory import keep_rows
from tightrope.models.sizes import Sizes, Unsized, read_model
from tightrope.trust import grant
from tightrope.validation import Array, real_array, whole_number
from tightrope.words import Text


@register("features")
class Features(Composite):
    """A model on transformed features: a linear model then fits curves, kernels or whatever the transformer makes.

    The transformer is fitted once, to the features of the first outcomes. Until then the model works on the raw features; then it
    starts again on the transformed ones with everything seen so far. The data that the transformer was fitted to is part of the
    state, so nothing is pickled: a restored model fits it again and gives the same answers to the bit.

    Parameters
    ----------
    transformer : str, dict or object
        "fourier" (random Fourier features of a Gaussian kernel), "nystroem" (the same kernel, on features of the first rows) or
        "splines"; a dict of such a `kind`, or of module:Class, and parameters; or any object like scikit-learn's, a pipeline too,
        whose parameters are plain data or such objects. The first two standardise features beforehand.
    inner : Model, dict or str
        The model behind it, sized for the raw features or without sizes; it must not have learnt anything yet.
    first : int
        How many outcomes until the transformer is fitted; 0 for one that needs only the number of features.
    size : int, optional
        How many features the transformer makes; required if that depends on the data. Fewer are padded with 0, more are refused.
    seed, half_life
        For the transformer's draws, and for an inner model without a half-life of its own.
    n_outputs : int

    Examples
    --------
    >>> from tightrope.models import Standardised
    >>> model = Features({"kind": "splines", "n_knots": 4}, Standardised(n_features=1), first=50)
    >>> for i in range(400):
    ...     model.learn([i % 20 / 10], abs(i % 20 / 10 - 1.0))
    >>> model.means([[0.0], [1.0], [1.9]]).round(1)
    array([1. , 0.1, 0.9])
    """

    decision = NO_DECISION

    def __init__(
        self,
        transformer: Any,
        inner: Any = "linear",
        *,
        first: int = 300,
        size: int | None = None,
        seed: int = 0,
        n_outputs: int = 1,
        half_life: float | str | None = None,
    ) -> None:
        self.transformer = transformers.as_data(transformer)
        self._data = json.dumps(self.transformer, sort_keys=True)
        self.n_outputs = M = whole_number("n_outputs", n_outputs)
        self.first, self.seed = whole_number("first", first), whole_number("seed", seed)
        self.size = None if size is None else whole_number("size", size, low=1)
        # This checks the class, and whether it is trusted.
        transformers.from_data(self.transformer)
        behind = read_model("inner", inner)
        if isinstance(behind, Unsized):
            self.inner, self.half_life = dict(behind.settings), half_life
            self._take_sizes(n_features=None)
            return
        self._raw = hooks.with_outputs(_inner_model(behind, half_life), M)
        if not self._raw.n_features:
            said = "{model!r} takes no features, so there is nothing to transform."
            raise InvalidInput(Text(said, model=self._raw))
        self.inner = self._raw.settings()
        self.half_life = hooks.half_life(self._raw)
        self.n_features = p = self._raw.n_features
        self.n_actions = self._raw.n_actions
        self.exploration = hooks.exploration(self._raw)
        self._size = self.size or transformers.usual_size(self._data, self.first, p)
        self._model = model_from_settings({**self.inner, "n_features": self._size})
        # What was seen until the transformer is fitted: the rows, the time before each, and the number of its decision.
        self.rows, self.outcomes = np.zeros((self.first, p)), np.zeros((self.first, M))
        self.which, self.waits = np.zeros(self.first, dtype=np.int64), np.zeros(self.first + 1)
        self.decisions = np.zeros(self.first, dtype=np.int64)
        # How many outcomes; and a mark of the rows that the transformer is fitted to, 0 before that.
        self.seen = np.zeros(2, dtype=np.int64)
        self._transform: tuple[int, transformers.Transform] | None = None
        self._last: tuple[int, bytes, Array] | None = None
        if not self.first:
            self.seen[1] = self._mark()

    @classmethod
    def sized(cls, sizes: Sizes, inner: Any = "linear", **settings: Any) -> Features:
        """A copy whose inner model takes its missing sizes from the problem."""
        named = inner if not isinstance(inner, dict) or "model" in inner else {"model": "linear", **inner}
        behind = read_model("inner", named)
        return cls(inner=behind.sized(sizes) if isinstance(behind, Unsized) else behind, **settings)

    # Learn

    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        x, y, a = hooks.checked_example(self, features, outcome, action)
        n = int(self.seen[0])
        if self.seen[1]:
            self._model.learn(self._made_of(x[None, :])[0], y, a)
            self.seen[0] = n + 1
            return
        transform = None
        if n + 1 == self.first:
            # Fitted before anything changes, so that a refusal leaves no trace.
            transform = self._fitted(np.concatenate([self.rows[:n], x[None, :]]))
        self.rows[n], self.outcomes[n], self.which[n] = x, y, -1 if a is None else a
        self.decisions[n] = self.decision
        self.seen[0] = n + 1
        self._raw.learn(self._in_reach(x[None, :])[0], y, a)
        if transform is not None:
            self.seen[1] = self._mark()
            self._transform = int(self.seen[1]), transform
            for i, z in enumerate(self._made_of(self.rows)):
                hooks.elapse(self._model, float(self.waits[i]))
                hooks.note_decision(self._model, int(self.decisions[i]))
                self._model.learn(z, self.outcomes[i], None if a is None else int(self.which[i]))

    def correct(self, features: Any, was: Array, now: Array, action: int, decision: int) -> hooks.Corrected:
        """Correct the kept row, if there is one, and the part that answers now."""
        n = min(int(self.seen[0]), self.first)
        self.outcomes[:n][self.decisions[:n] == decision] = now
        row = self._rows(features, None if self.n_actions is None else [action])[0]
        return hooks.correct(self._in_use, row, was, now, action, decision)

    def note_decision(self, number: int) -> None:
        self.decision = number
        super().note_decision(number)

    def forget_inputs(self, numbers: Collection[int]) -> None:
        """Drop the rows of these decisions.

        A transformer that was fitted to one of them is discarded. Once as many outcomes have come in their place, it is fitted
        again and the inner model learns everything again; until then the raw features are used.
        """
        super().forget_inputs(numbers)
        n = min(int(self.seen[0]), self.first)
        stays = ~np.isin(self.decisions[:n], list(numbers))
        if stays.all():
            return
        left = int(stays.sum())
        # The time before a dropped row adds to the time before the next kept one.
        at = np.cumsum(np.concatenate([[0], stays]))
        waits = np.bincount(at, weights=self.waits[: n + 1], minlength=left + 1)
        self.waits[: left + 1], self.waits[left + 1 :] = waits[: left + 1], 0.0
        keep_rows((self.rows, self.outcomes, self.which, self.decisions), np.flatnonzero(stays), n)
        self.seen[:] = left, 0
        self._transform = self._last = None
        take_arrays(self._model, model_from_settings({**self.inner, "n_features": self._size}).arrays())

    def elapse(self, time: float) -> None:
        if not self.seen[1]:
            self.waits[self.seen[0]] += time
        hooks.elapse(self._in_use, time)

    def shift(self, output: int, by: float) -> None:
        self.outcomes[:, output] += by
        super().shift(output, by)

    # Predict

    def widths(self, features: Any = None, actions: Any = None) -> Array:
        return self._in_use.widths(self._rows(features, actions), actions)

    def members(self, features: Any = None, actions: Any = None) -> Array:
        return hooks.members(self._in_use, self._rows(features, actions), actions)

    def sampled(self, features: Any, actions: Any, scale: float, normals: Normals) -> Array:
        return hooks.sampled(self._in_use, self._rows(features, actions), actions, scale, normals)

    def radius(self, horizon: float) -> float:
        return hooks.radius(self._in_use, horizon)

    @property
    def working_features(self) -> int:
        return self._size

    @property
    def n_learnt(self) -> int:
        return int(self.seen[0])

    @property
    def fits(self) -> int:
        return int(self.seen[1] != 0 and self.first > 0) + hooks.fits(self._in_use)

    # The parts

    def standardised(self, n_outputs: int, *, centred: bool, prior: Any) -> Model:
        if self.n_learnt:
            return hooks.with_outputs(self, n_outputs)
        inner = hooks.standardised(self._raw, n_outputs, centred=centred, prior=prior)
        changed = {"inner": inner, "n_outputs": n_outputs, "half_life": None}
        return type(self)(**arguments(self) | changed)

    def _parts(self) -> dict[str, Model]:
        return {"raw": self._raw, "inner": self._model}

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        names = ("rows", "outcomes", "which", "waits", "decisions", "seen")
        return {name: getattr(self, name) for name in names}

    def grow(self, n_actions: int) -> None:
        super().grow(n_actions)
        self.inner = self._raw.settings()

    @property
    def _in_use(self) -> Model:
        return self._model if self.seen[1] else self._raw

    def _rows(self, features: Any, actions: Any) -> Array:
        p = self.n_features
        rows = real_array("features", features, (p,), (None, p))
        if rows.ndim == 1:
            n = self.n_actions or 1 if actions is None else len(actions)
            rows = np.broadcast_to(rows, (n, p))
        return self._made_of(rows) if self.seen[1] else self._in_reach(rows)

    def _made_of(self, rows: Array) -> Array:
        """Transformed rows; a row shared by all actions is transformed once, and the last result is cached."""
        if len(rows) > 1 and not (new := (rows[1:] != rows[:-1]).any(axis=1)).all():
            starts = np.concatenate([[True], new])
            return np.asarray(self._made_of(rows[starts])[np.cumsum(starts) - 1])
        mark = int(self.seen[1])
        if self._transform is None or self._transform[0] != mark:
            self._transform, self._last = (mark, self._fitted(self.rows)), None
        key = rows.tobytes()
        if self._last is not None and self._last[:2] == (mark, key):
            return self._last[2]
        made = self._transform[1](np.ascontiguousarray(rows))
        if made.shape[1] < self._size:
            made = np.pad(made, ((0, 0), (0, self._size - made.shape[1])))
        made = np.ascontiguousarray(self._in_reach(made))
        self._last = mark, key, made
        return made

    def _in_reach(self, rows: Array) -> Array:
        """Rows for the inner model; if it requires ‖φ‖ ≤ 1, longer ones are scaled down to 1."""
        if not hooks.unit_features(self._raw):
            return rows
        return np.asarray(rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True)))

    def _fitted(self, rows: Array) -> transformers.Transform:
        # Checked at construction, but this may be another process.
        grant(self.transformer)
        transform, made = transformers.fitted(self._data, self.seed, rows.tobytes(), self.n_features)
        if made > self._size:
            said = f"the transformer makes {made} features, but the model expects {self._size}"
            raise InvalidInput(f"{said}; set size to {made} or more.")
        return transform

    def _mark(self) -> int:
        digest = hashlib.blake2b(self.rows.tobytes(), digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1 | 1


def _inner_model(inner: Model, half_life: float | str | None) -> Model:
    if hooks.n_learnt(inner):
        said = "{model!r} has already learnt from raw features; pass a new model."
        raise InvalidInput(Text(said, model=inner))
    if half_life is None or hooks.half_life(inner) == half_life:
        return inner
    settings = inner.settings()
    if "half_life" not in settings:
        raise InvalidInput(Text("{inner!r} takes no half_life.", inner=inner))
    return model_from_settings({**settings, "half_life": half_life})
