"""Small networks of equal shape, fitted by a library, asked side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tightrope.models.model import Ids
from tightrope.validation import Array

__all__ = ["Network", "StackedNetworks", "network", "set_weights", "weight_count"]

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
    "logistic": lambda z: 1.0 / (1.0 + np.exp(-z)),
}


class Network(NamedTuple):
    """Weights and biases by layer, what stands between the layers and behind the last."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
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
    return Network(tuple(weights), tuple(estimator.intercepts_), estimator.activation, behind)


def weight_count(layers: Sequence[int]) -> int:
    """How many weights and biases there are between layers so wide.

    >>> weight_count([2, 3, 1])
    13
    """
    return sum((a + 1) * b for a, b in pairwise(layers))


def _flat(one: Network) -> Array:
    """All weights, then all biases."""
    return np.concatenate([part.ravel() for part in (*one.weights, *one.biases)])


def _parted(flat: Array, layers: Sequence[int]) -> tuple[list[Array], list[Array]]:
    """Weights and biases by layer."""
    shapes: list[tuple[int, ...]] = [*pairwise(layers), *((b,) for b in layers[1:])]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes)]
    return parts[: len(layers) - 1], parts[len(layers) - 1 :]


def set_weights(estimator: Any, flat: Array) -> None:
    """Give a multi-layer perceptron of scikit-learn other weights."""
    layers = [*(one.shape[0] for one in estimator.coefs_), estimator.coefs_[-1].shape[1]]
    for own, given in zip((estimator.coefs_, estimator.intercepts_), _parted(flat, layers)):
        for mine, one in zip(own, given):
            mine[...] = one


class StackedNetworks:
    """Networks by member, group and output, (M, G, n_outputs) in all; a number in the place of one is what it always says."""

    def __init__(self, networks: Sequence[Any], members: int, outputs: int) -> None:
        self.members, self.outputs = members, outputs
        self.groups = len(networks) // (members * outputs)
        shape = members, self.groups, outputs
        model: Network = next(one for one in networks if not isinstance(one, float))
        self.between, self.behind = model.between, model.behind
        self.constant = np.array([one if isinstance(one, float) else np.nan for one in networks]).reshape(
            shape
        )
        # Layers by group, so that the rows of a group meet all its networks in one product: (G, M · n_outputs, …).
        self.weights, self.biases = [], []
        for layer in range(len(model.weights)):
            W = np.zeros((len(networks), *model.weights[layer].shape))
            b = np.zeros((len(networks), 1, model.weights[layer].shape[1]))
            for i, one in enumerate(networks):
                if not isinstance(one, float):
                    W[i], b[i, 0] = one.weights[layer], one.biases[layer]
            self.weights.append(_by_group(W, shape))
            self.biases.append(_by_group(b, shape))

        # One row for each; of a constant the number, and then nothing.
        width = _flat(model).size
        self.flat = np.full((len(networks), width), np.nan)
        for row, one in zip(self.flat, networks):
            if isinstance(one, float):
                row[0] = one
            else:
                row[:] = _flat(one)

    @classmethod
    def of(
        cls, flat: Array, layers: Sequence[int], between: str, members: int, outputs: int
    ) -> StackedNetworks:
        """The same from its rows."""
        networks: list[Any] = []
        for row in flat:
            weights, biases = _parted(row, layers)
            constant = np.isnan(row[-1])
            networks.append(
                float(row[0]) if constant else Network(tuple(weights), tuple(biases), between, "identity")
            )
        return cls(networks, members, outputs)

    def predict(self, rows: Array, groups: Ids) -> Array:
        """What each member expects of each row, asked of the networks of the row's group: (M, n, n_outputs)."""
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
