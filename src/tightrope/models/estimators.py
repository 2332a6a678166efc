"""Estimators as plain data: one of our names, or the class and parameters of any library object with `fit` and `predict`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.models import grown_trees
from tightrope.models.library_objects import made_of, object_as_data, object_from_data
from tightrope.models.networks import set_weights
from tightrope.trust import grant
from tightrope.validation import Array, finite_number

# With fewer outcomes, an estimator is just their mean.
_FEWEST = 10


class Named(NamedTuple):
    """What a name stands for; `params(n)` has what depends on the number of outcomes that one estimator is fitted to."""

    made: str
    params: Callable[[int], dict[str, Any]]
    # Whether features are brought to mean 0 and deviation 1 first.
    scaled: bool = False
    # How many row visits train a network, in 4 to 20 passes, half as many if it continues from the last fit; 0 for estimators with
    # a `fit` of their own.
    visits: int = 0
    # Whether a single one for all actions does better, or as well in less time.
    shared: bool = False
    # Grows it by compiled code; `made` is not used then.
    grow: grown_trees.Grow | None = None


# The fraction of passes for a network that continues from the last fit, and the rows of its first step.
_WARM = 0.5
_FIRST_STEP = 200


def _boosting(rate: float, *, leaves: int, outcomes_per_leaf_size: int) -> Named:
    def params(n: int) -> dict[str, Any]:
        trees, least = int(np.clip(10 + n // 20, 10, 50)), int(np.clip(n // outcomes_per_leaf_size, 5, 20))
        sizes = {"max_iter": trees, "max_leaf_nodes": leaves, "min_samples_leaf": least}
        return {"learning_rate": rate, "early_stopping": False, **sizes}

    return Named("sklearn.ensemble:HistGradientBoostingRegressor", params)


_FOREST = {"n_estimators": 10, "max_features": "sqrt"}


def _small(n: int) -> dict[str, Any]:
    trees, least = int(np.clip(10 + n // 20, 10, 50)), int(np.clip(n // 10, 5, 20))
    return {"trees": trees, "leaves": 7, "rate": 0.1, "least": least, "rows": 4000}


NAMED = {
    # Grown here, quickly, without scikit-learn.
    "forest": Named("", lambda n: {"trees": 10, "least": 1, "rows": 2000}, grow=grown_trees.forest),
    "boosting": Named("", _small, grow=grown_trees.boosting),
    # With twenty outcomes in a leaf it would learn nothing from the first hundred, with five it would follow noise later.
    "boosted-trees": _boosting(0.15, leaves=15, outcomes_per_leaf_size=100),
    # For noisy outcomes: large trees would learn the noise.
    "small-boosted-trees": _boosting(0.1, leaves=7, outcomes_per_leaf_size=10),
    "extra-trees": Named("sklearn.ensemble:ExtraTreesRegressor", lambda n: _FOREST),
    # The ensemble does the bootstrap itself, fixed per outcome, so a forest uses all rows that it gets.
    "random-forest": Named(
        "sklearn.ensemble:RandomForestRegressor", lambda n: {**_FOREST, "bootstrap": False}
    ),
    "mlp": Named(
        "sklearn.neural_network:MLPRegressor",
        lambda n: {"hidden_layer_sizes": [64, 64], "learning_rate_init": 0.003, "batch_size": min(128, n)},
        scaled=True,
        visits=120_000,
        shared=True,
    ),
}


def _named(estimator: str) -> Named:
    return NAMED.get(estimator) or Named(estimator, lambda n: {})


# One method of each list, whatever else an estimator has.
_ESTIMATOR = [["fit", "partial_fit"], ["predict", "predict_proba"]]


class Recipe(NamedTuple):
    """How one estimator is made and fitted."""

    name: str
    params: Mapping[str, Any]
    classifier: bool
    weighted: bool

    @property
    def named(self) -> Named:
        return _named(self.name)

    def layers(self, inputs: int) -> tuple[int, ...]:
        hidden = {**self.named.params(100), **self.params}["hidden_layer_sizes"]
        return (inputs, *(hidden if isinstance(hidden, list | tuple) else [hidden]), 1)

    def fitted(self, X: Array, y: Array, weights: Array, random_state: int, start: Array | None) -> Any:
        """A new estimator, fitted to rows as often as they count; a number where there is too little to fit or to tell apart.

        Rows are repeated for an estimator that takes no weights. A network continues from the weights `start`, if given.
        """
        if not len(y):
            return 0.5 if self.classifier else 0.0
        if len(y) < _FEWEST or y.min() == y.max():
            return float(weights @ y / weights.sum())
        try:
            return self._fitted(X, y, weights, random_state, start)
        except Exception as error:
            raise InvalidInput(f"{self.name} can't be fitted to {len(y)} outcomes: {error}") from error

    def _fitted(self, X: Array, y: Array, weights: Array, random_state: int, start: Array | None) -> Any:
        named = self.named
        if named.grow is not None:
            return named.grow(X, y, weights, random_state, **{**named.params(len(X)), **self.params})
        # The recipe was checked when it was made, but this may be another process.
        grant([self.name, dict(self.params)])
        estimator = _made(named.made, {**named.params(len(X)), **self.params}, random_state)
        if self.weighted:
            extra = {"sample_weight": weights}
        else:
            extra, times = {}, weights.astype(np.int64)
            X, y = np.repeat(X, times, axis=0), np.repeat(y, times)
        if named.visits:
            passes = float(np.clip(named.visits / len(X), 4, 20))
            if start is not None:
                # A first step makes the layers.
                some = slice(_FIRST_STEP)
                estimator.partial_fit(X[some], y[some], **{name: one[some] for name, one in extra.items()})
                set_weights(estimator, start)
                passes *= _WARM
            for _ in range(math.ceil(passes)):
                estimator.partial_fit(X, y, **extra)
        elif hasattr(estimator, "fit"):
            estimator.fit(X, y, **extra)
        else:
            classes = {"classes": [0.0, 1.0]} if self.classifier else {}
            estimator.partial_fit(X, y, **classes, **extra)
        return estimator

    def predict(self, estimator: Any, rows: Array) -> Array:
        """What a fitted estimator expects of each row, (n,); of a classifier the probability of 1."""
        if self.classifier:
            return np.asarray(estimator.predict_proba(rows)[:, -1], dtype=float)
        return np.asarray(estimator.predict(rows), dtype=float).reshape(len(rows))


def recipe(estimator: str, params: Mapping[str, Any]) -> Recipe:
    """How the estimator of that name and parameters is made, looked at before anything is fitted."""
    named = _named(estimator)
    if named.grow is not None:
        sizes = named.params(100)
        for name, value in params.items():
            if name not in sizes:
                raise InvalidInput(f"params: {estimator} has no parameter {name!r}, only {', '.join(sizes)}.")
            finite_number(f"params.{name}", value, low=0.0, open_low=True)
        return Recipe(estimator, dict(params), classifier=False, weighted=True)
    one = _made(named.made, {**named.params(100), **params}, 0)
    fit = one.fit if hasattr(one, "fit") else one.partial_fit
    classifier = hasattr(one, "predict_proba")
    # With weights, histogram boosting computes its bins one by one, which takes longer than all its trees.
    weighted = "sample_weight" in inspect.signature(fit).parameters and not hasattr(one, "max_bins")
    return Recipe(estimator, dict(params), classifier, weighted)


def as_data(estimator: Any, params: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The name and parameters of an estimator, which may be a name, `module:Class`, or an object that has `get_params`."""
    if isinstance(estimator, str):
        if estimator not in NAMED and ":" not in estimator:
            must = f"be one of {', '.join(map(repr, NAMED))}, module:Class, or an object with fit and predict"
            raise InvalidInput(field="estimator", must=must, got=estimator)
        data = {name: object_as_data(one, f"params.{name}") for name, one in (params or {}).items()}
        return estimator, data
    if params:
        raise InvalidInput("params is only for a named estimator; set the parameters on the object itself.")
    found = object_as_data(estimator, "estimator")
    if not isinstance(found, dict) or "kind" not in found:
        must = "be a name or an object with fit and predict"
        raise InvalidInput(field="estimator", must=must, got=estimator)
    return found.pop("kind"), found


def _made(name: str, params: Mapping[str, Any], random_state: int) -> Any:
    """The object, with its own stream of random numbers, on one core."""

    def part(kind: str, settings: dict[str, Any]) -> Any:
        return made_of(kind, settings, "estimator", [["get_params"]])

    settings = {key: object_from_data(value, part) for key, value in params.items()}
    one = made_of(name, settings, "estimator", _ESTIMATOR)
    if hasattr(one, "get_params"):
        known = one.get_params()
        streams = {key: random_state for key in known if key.rpartition("__")[2] == "random_state"}
        # In scikit-learn None means one core, elsewhere all of them.
        ours = type(one).__module__.partition(".")[0] == "sklearn"
        cores = [key for key in known if key.rpartition("__")[2] == "n_jobs"]
        one.set_params(**streams, **{key: 1 for key in cores if not (ours and known[key] is None)})
    return one
