"""Trees that a library has fitted, as flat arrays that one compiled kernel walks for all members, actions and rows at once.

A library's own `predict` takes a millisecond for a single row, sixty of them too long for a decision. The arrays give the same numbers,
up to the order in which trees are added up.
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

__all__ = ["FlatTrees", "Tree", "TreeSum", "tree_sum"]


class Tree(NamedTuple):
    """Nodes of one tree, the root first: what is asked (x[feature] ≤ threshold), the nodes of both answers (left −1: a leaf), values."""

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


def tree_sum(estimator: Any) -> TreeSum | None:
    """A fitted estimator of scikit-learn as a sum of trees; None where it is not one, or asks what the kernel can't.

    Regressors of one quantity, and classifiers of the classes 0 and 1, of which it is the probability of 1: single trees, forests and
    histogram boosting.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree_sum(DecisionTreeRegressor().fit([[0.0], [1.0]], [3.0, 5.0])).trees[0].value
    array([4., 3., 5.])
    """
    if hasattr(estimator, "tree_"):
        return _averaged([estimator])
    if hasattr(estimator, "_predictors"):
        return _boosted(estimator)
    members = getattr(estimator, "estimators_", None)
    named = {"RandomForest", "ExtraTrees"} & {
        name.removesuffix("Regressor").removesuffix("Classifier")
        for name in (made.__name__ for made in type(estimator).__mro__)
    }
    if named and isinstance(members, list):
        return _averaged(members)
    return None


def _averaged(fitted: Sequence[Any]) -> TreeSum | None:
    """Trees of which the mean is taken; the leaves of a classifier hold the share of each class."""
    found = []
    for one in fitted:
        tree = one.tree_
        classes = getattr(one, "n_classes_", 1)
        if tree.n_outputs != 1 or classes > 2:
            return None
        # A classifier that has seen one class alone is a constant, which whoever fits it knows without.
        value = tree.value[:, 0, classes - 1] / len(fitted)
        found.append(Tree(tree.feature, tree.threshold, tree.children_left, tree.children_right, value))
    return TreeSum(found, 0.0, single=True)


def _boosted(fitted: Any) -> TreeSum | None:
    logistic = hasattr(fitted, "classes_")
    link = getattr(getattr(fitted, "_loss", None), "link", None)
    identity = type(link).__name__ == "IdentityLink"
    base, rounds = np.ravel(fitted._baseline_prediction), fitted._predictors
    if len(base) != 1 or not (logistic or identity):
        return None
    found = []
    for (one,) in rounds:
        nodes = one.nodes
        if nodes["is_categorical"].any():
            return None
        left = np.where(nodes["is_leaf"], -1, nodes["left"].astype(np.int64))
        right = nodes["right"].astype(np.int64)
        found.append(Tree(nodes["feature_idx"], nodes["num_threshold"], left, right, nodes["value"]))
    return TreeSum(found, float(base[0]), logistic)


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
