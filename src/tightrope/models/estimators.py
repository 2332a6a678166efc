"""Estimators as plain data: by a name of ours, or by the class and the parameters of any library that has `fit` and `predict`."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.validation import Array

__all__ = ["NAMED", "Recipe", "as_data", "from_data", "recipe"]


class Named(NamedTuple):
    """What a name stands for; `params(n)` has what depends on the number of outcomes that one estimator is fitted to."""

    made: str
    params: Callable[[int], dict[str, Any]]
    # Whether features are brought to mean 0 and deviation 1 first.
    scaled: bool = False
    # Row visits in which a network is trained, over all its passes; 0 for what has a `fit` of its own.
    visits: int = 0


def _leaf(n: int) -> int:
    """Boosting with twenty outcomes in a leaf learns nothing from the first hundred, with five it follows noise later."""
    return int(np.clip(n // 100, 5, 20))


NAMED = {
    "boosted-trees": Named(
        "sklearn.ensemble:HistGradientBoostingRegressor",
        lambda n: {
            "max_iter": int(np.clip(10 + n // 20, 10, 50)),
            "learning_rate": 0.15,
            "max_leaf_nodes": 15,
            "min_samples_leaf": _leaf(n),
            "early_stopping": False,
        },
    ),
    "extra-trees": Named(
        "sklearn.ensemble:ExtraTreesRegressor", lambda n: {"n_estimators": 10, "max_features": "sqrt"}
    ),
    # The bootstrap is the ensemble's own, outcome by outcome and for good, so a forest takes all that it is given.
    "random-forest": Named(
        "sklearn.ensemble:RandomForestRegressor",
        lambda n: {"n_estimators": 10, "max_features": "sqrt", "bootstrap": False},
    ),
    "mlp": Named(
        "sklearn.neural_network:MLPRegressor",
        lambda n: {"hidden_layer_sizes": [64, 64], "learning_rate_init": 0.003, "batch_size": min(128, n)},
        scaled=True,
        visits=60_000,
    ),
}


class Recipe(NamedTuple):
    """How one estimator is made and fitted."""

    name: str
    params: Mapping[str, Any]
    classifier: bool
    weighted: bool

    @property
    def scaled(self) -> bool:
        """Whether it is given features of mean 0 and deviation 1."""
        return self.name in NAMED and NAMED[self.name].scaled

    def fitted(self, X: Array, y: Array, weights: Array, random_state: int) -> Any:
        """A new estimator, fitted; `weights` are what rows count, whole numbers where it takes none (`weighted`)."""
        named = NAMED.get(self.name)
        params = {**({} if named is None else named.params(len(X))), **self.params}
        estimator = _made(self.name if named is None else named.made, params, random_state)
        if self.weighted:
            extra = {"sample_weight": weights}
        else:
            extra, times = {}, weights.astype(np.int64)
            X, y = np.repeat(X, times, axis=0), np.repeat(y, times)
        if named is not None and named.visits:
            for _ in range(math.ceil(np.clip(named.visits / len(X), 5, 100))):
                estimator.partial_fit(X, y, **extra)
        elif hasattr(estimator, "fit"):
            estimator.fit(X, y, **extra)
        elif self.classifier:
            estimator.partial_fit(X, y, classes=[0.0, 1.0], **extra)
        else:
            estimator.partial_fit(X, y, **extra)
        return estimator

    def predict(self, estimator: Any, rows: Array) -> Array:
        """What a fitted estimator expects of each row, (n,); of a classifier the probability of 1."""
        if self.classifier:
            return np.asarray(estimator.predict_proba(rows)[:, -1], dtype=float)
        return np.asarray(estimator.predict(rows), dtype=float).reshape(len(rows))


def recipe(estimator: str, params: Mapping[str, Any]) -> Recipe:
    """How the estimator of that name and parameters is made, looked at before anything is fitted.

    >>> recipe("sklearn.neighbors:KNeighborsRegressor", {"n_neighbors": 3}).weighted
    False
    """
    named = NAMED.get(estimator)
    stated = {**({} if named is None else named.params(100)), **params}
    one = _made(estimator if named is None else named.made, stated, 0)
    fit = getattr(one, "fit", None) or getattr(one, "partial_fit", None)
    classifier = hasattr(one, "predict_proba")
    if fit is None or not (classifier or hasattr(one, "predict")):
        raise InvalidInput(
            f"estimator must have fit (or partial_fit) and predict (or predict_proba), but {estimator} has not."
        )
    # Histogram boosting looks for its bins one by one where rows have weights, which takes longer than all its trees.
    weighted = "sample_weight" in inspect.signature(fit).parameters and not hasattr(one, "max_bins")
    return Recipe(estimator, dict(params), classifier, weighted)


def as_data(estimator: Any, params: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The name and parameters of an estimator, which may be a name, `module:Class`, or an object that has `get_params`.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> name, params = as_data(DecisionTreeRegressor(max_depth=3), None)
    >>> name, params["max_depth"]
    ('sklearn.tree:DecisionTreeRegressor', 3)
    """
    if isinstance(estimator, str):
        if estimator not in NAMED and ":" not in estimator:
            raise InvalidInput(
                f"estimator must be one of {', '.join(map(repr, NAMED))}, module:Class, or an object with fit and predict, "
                f"but got {estimator!r}."
            )
        return estimator, {name: _plain(f"params.{name}", one) for name, one in dict(params or {}).items()}
    if params:
        raise InvalidInput("params are those of an estimator that is named; an object has its own.")
    found: dict[str, Any] = _plain("estimator", estimator)
    if not isinstance(found, dict) or "estimator" not in found:
        raise InvalidInput(
            f"estimator must be a name or an object with fit and predict, but got {estimator!r}."
        )
    return found["estimator"], found["params"]


def from_data(value: Any) -> Any:
    """What was made plain: lists of a name and an estimator become pairs, as pipelines have them."""
    if isinstance(value, Mapping) and set(value) == {"estimator", "params"}:
        return _made(value["estimator"], value["params"], None)
    if isinstance(value, list):
        parts = [from_data(one) for one in value]
        pair = len(value) >= 2 and isinstance(value[0], str) and isinstance(value[1], Mapping)
        return tuple(parts) if pair else parts
    return value


def _plain(where: str, value: Any) -> Any:
    """A parameter as data that survives JSON; estimators within others, as in a pipeline, by class and parameters."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, np.generic):
        return _plain(where, value.item())
    if isinstance(value, (list, tuple)):
        return [_plain(f"{where}[{i}]", one) for i, one in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _plain(f"{where}.{name}", one) for name, one in value.items()}
    made = type(value)
    if not hasattr(value, "get_params") or isinstance(value, type):
        raise InvalidInput(
            f"{where} must be plain data or an estimator with get_params, so that it can be saved, but got {value!r}."
        )
    importable = "." not in made.__qualname__ and made.__module__ != "__main__"
    if not importable or getattr(importlib.import_module(made.__module__), made.__name__, None) is not made:
        raise InvalidInput(
            f"{where}: the class {made.__qualname__} must be in a module that can be imported, so that what is saved with it "
            f"can be loaded, but it is in {made.__module__}."
        )
    params = {
        name: _plain(f"{where}.{name}", one)
        for name, one in value.get_params(deep=False).items()
        # What was not set may be a mark that is no data, such as XGBoost's NaN for "missing".
        if not (isinstance(one, float) and math.isnan(one))
    }
    return {"estimator": f"{_public(made)}:{made.__name__}", "params": params}


def _public(made: type) -> str:
    """The shortest module that has the class: libraries move what stands in modules that begin with an underscore."""
    parts = made.__module__.split(".")
    for n in range(1, len(parts)):
        module = ".".join(parts[:n])
        if getattr(importlib.import_module(module), made.__name__, None) is made:
            return module
    return made.__module__


def _made(name: str, params: Mapping[str, Any], random_state: int | None) -> Any:
    """The object, with its own stream of random numbers, on one core."""
    place, _, attribute = name.rpartition(":")
    try:
        make = getattr(importlib.import_module(place), attribute)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        how = "pip install 'tightrope[models]'" if missing == "sklearn" else f"install {missing}"
        raise InvalidInput(
            f"estimator {name!r} needs the package {missing}, which is not here: {how}."
        ) from error
    except AttributeError as error:
        raise InvalidInput(f"estimator {name!r}: {place} has no class {attribute!r}.") from error
    try:
        one = make(**{key: from_data(value) for key, value in params.items()})
    except TypeError as error:
        raise InvalidInput(f"estimator {name!r} with params {dict(params)}: {error}.") from error
    if random_state is not None and hasattr(one, "get_params"):
        known = one.get_params()
        streams = {key: random_state for key in known if key.rpartition("__")[2] == "random_state"}
        cores = {key: 1 for key, value in known.items() if key.rpartition("__")[2] == "n_jobs"}
        one.set_params(**streams, **cores)
    return one


def is_zero_or_one(outcome: NDArray[Any]) -> bool:
    """Whether a classifier can be taught it."""
    return bool(((outcome == 0.0) | (outcome == 1.0)).all())
