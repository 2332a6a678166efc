"""Small forests and boosted trees that are grown here, by compiled code, without any other library."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tightrope.kernels import tree_growth
from tightrope.models.model import Ids
from tightrope.models.outcome_memory import bootstrap_weights
from tightrope.models.trees import Flat, FlatTrees
from tightrope.validation import Array

_BINS = 32
# As many rows say where a feature is cut into bins.
_SORTED = 1000

Grow = Callable[..., Flat]


def forest(
    X: Array, y: Array, weights: Array, random_state: int, *, trees: int, least: int, rows: int
) -> Flat:
    """Extremely randomised trees, each from at most `rows` rows, with at least `least` rows in a leaf."""
    n, d = X.shape
    room = trees * (2 * min(n, rows) - 1)
    roots, nodes = np.empty(trees, dtype=np.int32), _Nodes(room)
    tries = max(1, int(math.sqrt(d)))
    order, begin, end = (np.empty(size, dtype=np.int64) for size in (n, room, room))
    used = tree_growth.grow_forest(
        np.ascontiguousarray(X), np.ascontiguousarray(y), np.ascontiguousarray(weights), random_state, tries, least,
        rows, order, np.arange(d), begin, end, roots, *nodes.arrays,
    )  # fmt: skip
    return nodes.first(used, roots, 0.0)


def boosting(
    X: Array,
    y: Array,
    weights: Array,
    random_state: int,
    *,
    trees: int,
    leaves: int,
    rate: float,
    least: int,
    rows: int,
) -> Flat:
    """Boosted trees of at most `leaves` leaves, whose rows count at least `least`, from at most `rows` rows; without any draws."""
    if len(X) > rows:
        X, y, weights = (one[_evenly(len(X), rows)] for one in (X, y, weights))
    n, d = X.shape
    spread = X[_evenly(n, min(n, _SORTED))]
    spread.sort(axis=0)
    ends = np.arange(1, _BINS) * len(spread) // _BINS
    edges = np.ascontiguousarray(0.5 * (spread[np.maximum(ends, 1) - 1] + spread[ends]).T)
    codes = np.empty((n, d), dtype=np.uint8)
    tree_growth.bin_rows(np.ascontiguousarray(X), edges, codes)
    size = 2 * leaves - 1
    roots, nodes = np.empty(trees, dtype=np.int32), _Nodes(trees * size)
    base = float(weights @ y / weights.sum())
    order, begin, end = (np.empty(length, dtype=np.int64) for length in (n, size, size))
    best, mass, total = np.empty((3, size))
    used = tree_growth.grow_boosted(
        codes, edges, np.ascontiguousarray(y) - base, np.ascontiguousarray(weights), rate, least, leaves, order,
        np.empty((d, _BINS, 2)), begin, end, np.empty((size, 2), dtype=np.int64), best, mass, total, roots,
        *nodes.arrays,
    )  # fmt: skip
    return nodes.first(used, roots, base)


@functools.cache
def compile_ahead() -> None:
    """Draw weights, grow tiny trees of both kinds and ask them, so that no later round waits for the compiler."""
    X, y = np.arange(8.0)[:, None], np.arange(8.0) % 2.0
    bootstrap_weights(0, np.arange(8), np.ones(8), 2)
    grown = forest(X, y, np.ones(8), 0, trees=1, least=1, rows=8)
    boosting(X, y, np.ones(8), 0, trees=1, leaves=2, rate=0.5, least=1, rows=8)
    FlatTrees([grown], 1, 1).predict(X, np.zeros(8, dtype=np.int64))


def _evenly(n: int, some: int) -> Ids:
    """So many of n rows, evenly spread."""
    return np.linspace(0, n - 1, some).astype(np.int64)


class _Nodes:
    """Room for the nodes of trees: feature, threshold, child and value of each."""

    def __init__(self, room: int) -> None:
        self.arrays: list[Any] = [np.empty(room, dtype) for dtype in (np.int32, float, np.int32, float)]

    def first(self, used: int, roots: Any, base: float) -> Flat:
        feature, threshold, child, value = (array[:used].copy() for array in self.arrays)
        return Flat(roots, feature, threshold, child, value, base)
