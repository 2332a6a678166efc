"""Trees that a library has fitted, as flat arrays that one compiled kernel walks for all members, actions and rows at once.

A library's own `predict` takes a millisecond for a single row, and sixty of them take too long for a decision. The arrays give the
same numbers, up to the order in which trees are added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.kernels import trees
from tightrope.models.model import Ids
from tightrope.validation import Array

__all__ = ["FlatTrees", "Tree", "TreeSum"]


class Tree(NamedTuple):
    """Nodes, the root first: what is asked (x[feature] ≤ threshold), the nodes of yes and no (left −1: a leaf), values."""

    feature: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    value: Array


class TreeSum(NamedTuple):
    """What one fitted estimator predicts: `base` and the leaves of its trees, through a logistic function for a boosted classifier.

    `single` where the library rounds features to single precision before it asks.
    """

    trees: Sequence[Tree]
    base: float
    logistic: bool = False
    single: bool = False


class FlatTrees:
    """Sums of trees, by member, group and output, (M, G, n_outputs) in all, one behind the other.

    Examples
    --------
    >>> stump = Tree(np.array([0]), np.array([0.5]), np.array([1, -1, -1]), np.array([2, 0, 0]), np.array([0.0, 1.0, 2.0]))
    >>> stump = stump._replace(feature=np.zeros(3, int), threshold=np.full(3, 0.5))
    >>> flat = FlatTrees([TreeSum([stump], 10.0)], members=1, outputs=1)
    >>> flat.predict(np.array([[0.2], [0.9]]), np.zeros(2, dtype=np.int64))
    array([[[11.],
            [12.]]])
    """

    def __init__(self, sums: Sequence[TreeSum], members: int, outputs: int) -> None:
        self.members, self.outputs = members, outputs
        self.single = any(one.single for one in sums)
        laid = [_laid_out(tree) for one in sums for tree in one.trees]
        sizes = np.array([len(tree.feature) for tree in laid], dtype=np.int64)
        ends = np.cumsum(sizes)
        self.roots = (ends - sizes).astype(np.int32)
        self.first = np.concatenate([[0], np.cumsum([len(one.trees) for one in sums])]).astype(np.int32)
        self.base = np.array([one.base for one in sums])
        self.logistic = np.array([one.logistic for one in sums], dtype=np.bool_)
        self.feature = _joined([tree.feature for tree in laid], np.int32)
        self.threshold = _joined([tree.threshold for tree in laid], np.float64)
        self.value = _joined([tree.value for tree in laid], np.float64)
        below = [np.where(tree.left < 0, -1, tree.left + root) for tree, root in zip(laid, self.roots)]
        self.child = _joined(below, np.int32)

    def predict(self, rows: Array, groups: Ids) -> Array:
        """What each member expects of each row, asked of the trees of the row's group: (M, n, n_outputs)."""
        if self.single:
            rows = rows.astype(np.float32).astype(np.float64)
        out = np.empty((self.members, len(rows), self.outputs))
        trees.sum_trees(
            np.ascontiguousarray(rows), groups, self.first, self.roots, self.feature, self.threshold, self.child,
            self.value, self.base, self.logistic, out,
        )  # fmt: skip
        return out

    @property
    def n_nodes(self) -> int:
        """Nodes of all trees."""
        return len(self.feature)


def _laid_out(tree: Tree) -> Tree:
    """The same tree with the node for "more" right behind the one for "at most"."""
    n = len(tree.feature)
    inner = np.flatnonzero(np.asarray(tree.left) >= 0)
    place = np.zeros(n, dtype=np.int64)
    after = 1 + 2 * np.arange(len(inner))
    place[np.asarray(tree.left)[inner]], place[np.asarray(tree.right)[inner]] = after, after + 1
    left = np.full(n, -1, dtype=np.int64)
    left[inner] = after
    order = np.empty(n, dtype=np.int64)
    order[place] = np.arange(n)
    return Tree(
        np.maximum(tree.feature, 0)[order],
        np.where(left < 0, math.inf, tree.threshold)[order],
        left[order],
        left[order] + 1,
        np.asarray(tree.value, dtype=float)[order],
    )


def _joined(parts: list[Any], dtype: Any) -> Any:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)
