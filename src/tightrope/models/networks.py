"""Small networks of equal shape, fitted by a library and evaluated side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tightrope.models.model import Ids
from tightrope.validation import Array

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
    "logistic": lambda z: 1.0 / (1.0 + np.exp(-z)),
}


class Network(NamedTuple):
    """All weights, then all biases, in one row; the layer widths, and the activations between layers and after the last."""

    flat: Array
    layers: tuple[int, ...]
    between: str
    behind: str


def network(estimator: Any) -> Network | None:
    """A fitted multi-layer perceptron of scikit-learn with one output; None for anything else."""
    weights = getattr(estimator, "coefs_", None)
    if not isinstance(weights, list) or not hasattr(estimator, "out_activation_"):
        return None
    behind = estimator.out_activation_
    if behind not in _ACTIVATIONS or weights[-1].shape[1] != 1:
        return None
    flat = np.concatenate([part.ravel() for part in (*weights, *estimator.intercepts_)])
    return Network(flat, _layers(estimator), estimator.activation, behind)


def weight_count(layers: Sequence[int]) -> int:
    return sum((a + 1) * b for a, b in pairwise(layers))


def set_weights(estimator: Any, flat: Array) -> None:
    for own, given in zip((estimator.coefs_, estimator.intercepts_), _parted(flat, _layers(estimator))):
        for mine, one in zip(own, given):
            mine[...] = one


def _layers(estimator: Any) -> tuple[int, ...]:
    return *(one.shape[0] for one in estimator.coefs_), estimator.coefs_[-1].shape[1]


def _parted(flat: Array, layers: Sequence[int]) -> tuple[list[Array], list[Array]]:
    """Weights and biases by layer, of one row or of several."""
    shapes: list[tuple[int, ...]] = [*pairwise(layers), *((b,) for b in layers[1:])]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    split = np.split(flat, ends[:-1], axis=-1)
    parts = [part.reshape(*flat.shape[:-1], *shape) for part, shape in zip(split, shapes)]
    return parts[: len(layers) - 1], parts[len(layers) - 1 :]


class StackedNetworks:
    """Networks by member, group and output, (M, G, n_outputs) in all, a row of `flat` for each.

    A row that holds a number followed by NaN always predicts that number.
    """

    def __init__(
        self, flat: Array, layers: Sequence[int], between: str, behind: str, members: int, outputs: int
    ) -> None:
        self.flat, self.between, self.behind = flat, between, behind
        self.members, self.outputs = members, outputs
        shape = members, len(flat) // (members * outputs), outputs
        constant = np.isnan(flat[:, -1])
        self.constant = np.where(constant, flat[:, 0], np.nan).reshape(shape)
        weights, biases = _parted(np.where(constant[:, None], 0.0, flat), layers)
        # Layers by group, so that one product covers a group's rows and all its networks: (G, M · n_outputs, …).
        self.weights = [_by_group(W, shape) for W in weights]
        self.biases = [_by_group(b[:, None, :], shape) for b in biases]

    def predict(self, rows: Array, groups: Ids) -> Array:
        out = np.empty((self.members, len(rows), self.outputs))
        between, behind = _ACTIVATIONS[self.between], _ACTIVATIONS[self.behind]
        for g in np.unique(groups).tolist():
            picked = np.flatnonzero(groups == g)
            h: Array = rows[picked]
            for W, b in zip(self.weights[:-1], self.biases[:-1]):
                h = between(h @ W[g] + b[g])
            h = behind(h @ self.weights[-1][g] + self.biases[-1][g])
            said = h.reshape(self.members, self.outputs, len(picked)).transpose(0, 2, 1)
            always = self.constant[:, g, None, :]
            out[:, picked] = np.where(np.isnan(always), said, always)
        return out


def _by_group(layer: Array, shape: tuple[int, int, int]) -> Array:
    M, G, K = shape
    parted = layer.reshape(M, G, K, *layer.shape[1:]).swapaxes(0, 1)
    return np.ascontiguousarray(parted).reshape(G, M * K, *layer.shape[1:])
