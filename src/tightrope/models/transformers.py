"""Transformers of features: scikit-learn's, by name or as objects, as plain data and back, fitted, and fast for a single row."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.extras import explained
from tightrope.models.library_objects import made_of, object_as_data, object_from_data
from tightrope.validation import Array

Transform = Callable[[Array], Array]

NAMES = ("fourier", "nystroem", "splines")


def as_data(transformer: Any) -> Any:
    """A transformer as plain data: a table with `kind`, a name or module:Class, and parameters."""
    if isinstance(transformer, str):
        return {"kind": transformer}
    if isinstance(transformer, Mapping):
        if not isinstance(transformer.get("kind"), str):
            must = f"have a kind, one of {', '.join(map(repr, NAMES))} or module:Class"
            raise InvalidInput(field="transformer", must=must, got=dict(transformer))
        return json.loads(json.dumps(dict(transformer)))
    if not hasattr(transformer, "get_params") or isinstance(transformer, type):
        must = "be a name, a table or an object with fit and transform"
        raise InvalidInput(field="transformer", must=must, got=transformer)
    return object_as_data(transformer, "transformer")


def from_data(data: Any, *, seed: int = 0, rows: int = 0) -> Any:
    """The transformer that `as_data` described, not fitted; random parts get the seed. `rows`: how many it will be fitted to."""

    def make(kind: str, settings: dict[str, Any]) -> Any:
        if kind in NAMES:
            try:
                return _named(kind, settings, rows)
            except TypeError as error:
                raise InvalidInput(f"transformer {kind!r}: {error}.") from error
        if ":" not in kind:
            must = f"be one of {', '.join(map(repr, NAMES))}, or a class as module:Class"
            raise InvalidInput(field="transformer", must=must, got=kind)
        return made_of(kind, settings, "transformer", [["fit"], ["transform"]])

    made = object_from_data(data, make)
    given = made.get_params()
    draws = [name for name in given if name.endswith("random_state") and given[name] is None]
    return made.set_params(**dict.fromkeys(draws, seed)) if draws else made


def _named(kind: str, settings: dict[str, Any], rows: int) -> Any:
    with explained(f"the transformer {kind!r}"):
        from sklearn.kernel_approximation import Nystroem, RBFSampler
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import SplineTransformer, StandardScaler

    if kind == "splines":
        usual = {"n_knots": 5, "knots": "quantile", "extrapolation": "constant", "include_bias": False}
        return SplineTransformer(**{**usual, **settings})
    # For scaled features this is the width that scikit-learn calls "scale".
    if kind == "fourier":
        drawn = RBFSampler(**{"gamma": "scale", "n_components": 300, **settings})
        return make_pipeline(StandardScaler(), drawn) if rows else drawn
    components = min(int(settings.pop("n_components", 300)), rows or 1)
    return make_pipeline(StandardScaler(), Nystroem(**settings, n_components=components))


@lru_cache(maxsize=64)
def fitted(data: str, seed: int, rows: bytes, n_features: int) -> tuple[Transform, int]:
    """The transformer in `data` (JSON), fitted to rows, as a function of rows (n, p) to (n, size); and that size.

    The latest ones are cached: copies of a model, and restored models, share them.
    """
    X = np.frombuffer(rows).reshape(-1, n_features)
    made = from_data(json.loads(data), seed=seed, rows=len(X))
    some = X if len(X) else np.zeros((1, n_features))
    try:
        made.fit(some)
        transform = _fast(made)
        return transform, int(transform(some[:1]).shape[1])
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"the transformer can't be fitted to {len(X)} rows: {error}.") from error


def usual_size(data: str, first: int, n_features: int) -> int:
    """How many features the transformer makes of rows that are all different, drawn for the purpose."""
    rows = np.random.default_rng(0).normal(size=(first, n_features))
    return fitted(data, 0, rows.tobytes(), n_features)[1]


# scikit-learn's input checks cost 0.1 ms per step. Common transformers are computed here, from its fitted parameters.


def _fast(made: Any) -> Transform:
    from sklearn.kernel_approximation import Nystroem, RBFSampler
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import SplineTransformer, StandardScaler

    if type(made) is Pipeline:
        steps = [_fast(step) for _, step in made.steps if step not in (None, "passthrough")]
        return lambda X: reduce(lambda rows, step: step(rows), steps, X)
    if type(made) is StandardScaler:
        mean = made.mean_ if made.with_mean else 0.0
        scale = made.scale_ if made.with_std else 1.0
        return lambda X: (X - mean) / scale
    if type(made) is RBFSampler:
        weights, offset = made.random_weights_, made.random_offset_
        factor = np.sqrt(2.0 / weights.shape[1])
        return lambda X: np.cos(X @ weights + offset) * factor
    if type(made) is Nystroem and made.kernel == "rbf":
        return _nystroem(made)
    if type(made) is SplineTransformer and made.extrapolation == "constant":
        return _splines(made)
    return _slow(made)


def _nystroem(made: Any) -> Transform:
    components, back = made.components_, made.normalization_.T
    gamma = made.gamma if made.gamma is not None else 1.0 / components.shape[1]
    lengths = (components**2).sum(axis=1)

    def transform(X: Array) -> Array:
        apart = (X**2).sum(axis=1)[:, None] + lengths - 2.0 * (X @ components.T)
        return np.asarray(np.exp(-gamma * np.maximum(apart, 0.0)) @ back)

    return transform


def _splines(made: Any) -> Transform:
    """Each spline as a polynomial between knots: of each feature one interval is looked up, and its polynomials evaluated."""
    degree, splines = made.degree, made.bsplines_
    # Where intervals begin, from the first knot to the one before the last; those of length 0 are never looked up.
    knots = np.array([one.t[degree : -degree - 1] for one in splines])
    ends = np.array([(one.t[degree], one.t[-degree - 1]) for one in splines])
    # Taylor's: (p, degree + 1, intervals, splines), highest power first.
    powers = range(degree, -1, -1)
    taylor = [[one(at, nu=k) / math.factorial(k) for k in powers] for one, at in zip(splines, knots)]
    coefficients = np.array(taylor)
    kept = coefficients.shape[3] - (0 if made.include_bias else 1)
    features = np.arange(len(splines))

    def transform(X: Array) -> Array:
        X = np.clip(X, ends[:, 0], ends[:, 1])
        at = np.maximum((X[:, :, None] >= knots).sum(axis=2) - 1, 0)
        step = X - knots[features, at]
        values = np.zeros((*X.shape, coefficients.shape[3]))
        for power in range(degree + 1):
            values = values * step[:, :, None] + coefficients[features, power, at]
        return values[:, :, :kept].reshape(len(X), -1)

    return transform


def _slow(made: Any) -> Transform:
    from sklearn import config_context

    def transform(X: Array) -> Array:
        with config_context(assume_finite=True, skip_parameter_validation=True, transform_output="default"):
            out = made.transform(X)
        return np.asarray(out.toarray() if hasattr(out, "toarray") else out, dtype=np.float64)

    return transform
