"""Trees fitted by a library, as flat arrays that one compiled kernel walks for all members, actions and rows at once.

A library's own `predict` takes a millisecond for a single row, and sixty of them take too long for a decision. The arrays give the
same numbers, up to the order in which trees are added up.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.kernels import trees
from tightrope.models.model import Ids
from tightrope.validation import Array

# Objectives of LightGBM and of XGBoost whose predictions are the sum itself.
_SUMS = {
    *("regression", "regression_l1", "huber", "fair", "quantile", "mape"),
    *("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror"),
}


class Tree(NamedTuple):
    """Nodes, the root first: what is asked (x[feature] ≤ threshold), the nodes of yes and no (left −1: a leaf), values."""

    feature: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    value: Array


class TreeSum(NamedTuple):
    """What one fitted estimator predicts: `base` and the leaves of its trees, through a logistic function for a boosted classifier.

    `single`: whether the library rounds features to single precision first.
    """

    trees: Sequence[Tree]
    base: float
    logistic: bool = False
    single: bool = False


_ARRAYS: dict[str, Any] = {
    "roots": np.int32,
    "first": np.int32,
    "base": np.float64,
    "logistic": np.bool_,
    "feature": np.int32,
    "threshold": np.float64,
    "child": np.int32,
    "value": np.float64,
}


class Flat(NamedTuple):
    """A sum of trees as the kernel walks them: where each begins, and feature, threshold, child and value of all nodes."""

    roots: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]
    child: NDArray[Any]
    value: NDArray[Any]
    base: float
    logistic: bool = False
    single: bool = False


class FlatTrees:
    """Sums of trees, by member, group and output, (M, G, n_outputs) in all, one behind the other."""

    def __init__(self, sums: Sequence[Flat], members: int, outputs: int) -> None:
        self.members, self.outputs = members, outputs
        self.single = any(one.single for one in sums)
        ends = np.cumsum([len(one.feature) for one in sums])
        begins = [0, *ends[:-1].tolist()]
        self.roots = _joined([one.roots + at for one, at in zip(sums, begins)], np.int32)
        self.first = np.concatenate([[0], np.cumsum([len(one.roots) for one in sums])]).astype(np.int32)
        self.base = np.array([one.base for one in sums])
        self.logistic = np.array([one.logistic for one in sums], dtype=np.bool_)
        self.feature = _joined([one.feature for one in sums], np.int32)
        self.threshold = _joined([one.threshold for one in sums], np.float64)
        self.value = _joined([one.value for one in sums], np.float64)
        below = [np.where(one.child < 0, -1, one.child + at) for one, at in zip(sums, begins)]
        self.child = _joined(below, np.int32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that answers depend on, by name."""
        return {name: getattr(self, name) for name in _ARRAYS} | {"single": np.array([self.single])}

    @classmethod
    def of_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], members: int, outputs: int, *, n_features: int, sums: int
    ) -> FlatTrees:
        """The one that `arrays` came from. A walk must end inside of them, so all that could lead outside is refused."""
        one = cls([], members, outputs)
        for name, dtype in _ARRAYS.items():
            setattr(one, name, np.ascontiguousarray(arrays[name], dtype=dtype).reshape(-1))
        one.single = bool(arrays["single"][0])
        n, steps = len(one.feature), np.diff(one.first)
        sound = (
            {len(one.threshold), len(one.child), len(one.value)} == {n}
            and len(one.base) == len(one.logistic) == sums == len(steps)
            and (one.first[0], one.first[-1]) == (0, len(one.roots))
            and (steps >= 0).all()
            and ((one.roots >= 0) & (one.roots < n)).all()
            and ((one.feature >= 0) & (one.feature < n_features)).all()
            and ((one.child == -1) | ((one.child > np.arange(n)) & (one.child < n - 1))).all()
        )
        if not sound:
            raise ValueError("the trees do not fit the model")
        return one

    def predict(self, rows: Array, groups: Ids) -> Array:
        if self.single:
            rows = rows.astype(np.float32).astype(np.float64)
        out = np.empty((self.members, len(rows), self.outputs))
        trees.sum_trees(
            np.ascontiguousarray(rows), groups, self.first, self.roots, self.feature, self.threshold, self.child,
            self.value, self.base, self.logistic, out,
        )  # fmt: skip
        return out


def flat(estimator: Any) -> Flat | None:
    """What was fitted as flat arrays: a constant, trees that were grown here, or those of a library; None if it is neither."""
    if isinstance(estimator, Flat):
        return estimator
    if isinstance(estimator, float):
        return _flat(TreeSum([], estimator))
    found = tree_sum(estimator)
    return None if found is None else _flat(found)


def _flat(found: TreeSum) -> Flat:
    laid = [_laid_out(tree) for tree in found.trees]
    sizes = np.array([len(tree.feature) for tree in laid], dtype=np.int64)
    roots = np.cumsum(sizes) - sizes
    below = [np.where(tree.left < 0, -1, tree.left + root) for tree, root in zip(laid, roots)]
    return Flat(
        roots,
        _joined([tree.feature for tree in laid], np.int32),
        _joined([tree.threshold for tree in laid], np.float64),
        _joined(below, np.int32),
        _joined([tree.value for tree in laid], np.float64),
        found.base,
        found.logistic,
        found.single,
    )


def _laid_out(tree: Tree) -> Tree:
    """The same tree with the node for "more" right behind the one for "at most"."""
    n = len(tree.feature)
    inner = np.flatnonzero(np.asarray(tree.left) >= 0)
    place = np.zeros(n, dtype=np.int64)
    after = 1 + 2 * np.arange(len(inner))
    place[np.asarray(tree.left)[inner]], place[np.asarray(tree.right)[inner]] = after, after + 1
    left = np.full(n, -1, dtype=np.int64)
    left[inner] = after
    order = np.argsort(place, kind="stable")
    threshold, value = np.where(left < 0, math.inf, tree.threshold), np.asarray(tree.value, dtype=float)
    return Tree(
        np.maximum(tree.feature, 0)[order], threshold[order], left[order], left[order] + 1, value[order]
    )


def _joined(parts: list[Any], dtype: Any) -> Any:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)


# What libraries have fitted: scikit-learn's trees by their arrays, LightGBM's and XGBoost's by the text they write


def tree_sum(estimator: Any) -> TreeSum | None:
    """A fitted estimator as a sum of trees; None if it is not one, or has splits that the kernel can't do.

    Single trees, forests and histogram boosting of scikit-learn, boosters of LightGBM and XGBoost: regressors of one quantity, and
    classifiers of the classes 0 and 1, of which it is the probability of 1.
    """
    if hasattr(estimator, "tree_"):
        return _averaged([estimator])
    if hasattr(estimator, "_predictors"):
        return _boosted(estimator)
    # If a release writes another format, the library's own predict is used.
    with contextlib.suppress(KeyError, ValueError):
        if hasattr(estimator, "booster_"):
            return _lightgbm(estimator.booster_.model_to_string())
        if hasattr(estimator, "get_booster") and math.isnan(getattr(estimator, "missing", math.nan)):
            return _xgboost(estimator.get_booster().save_raw("json"))
    members = getattr(estimator, "estimators_", None)
    forests = re.compile("(RandomForest|ExtraTrees)(Regressor|Classifier)?")
    named = any(forests.fullmatch(made.__name__) for made in type(estimator).__mro__)
    return _averaged(members) if named and isinstance(members, list) else None


def _averaged(fitted: Sequence[Any]) -> TreeSum | None:
    """Trees of which the mean is taken; the leaves of a classifier hold the share of each class."""
    found = []
    for one in fitted:
        tree = one.tree_
        classes = getattr(one, "n_classes_", 1)
        if tree.n_outputs != 1 or classes > 2:
            return None
        # A classifier that has seen only one class is a constant; the code that fits it handles that.
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


def _lightgbm(text: str) -> TreeSum | None:
    """A model of LightGBM (`Booster.model_to_string`); None where a tree asks or answers what the kernel can't."""
    head, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    told = _fields(head)
    objective, logistic = told.get("objective", ""), told.get("objective") == "binary sigmoid:1"
    plain = objective.partition(" ")[0] in _SUMS and "sqrt" not in objective
    if told.get("num_class") != "1" or "average_output" in head.split() or not (plain or logistic):
        return None
    found = [_lightgbm_tree(_fields(block)) for block in blocks]
    trees = [one for one in found if one is not None]
    return None if len(trees) < len(found) else TreeSum(trees, 0.0, logistic)


def _lightgbm_tree(told: dict[str, str]) -> Tree | None:
    """Inner nodes come first; a child below zero is a leaf, −1 the first of them."""
    values = _numbers(told, "leaf_value", float)
    n = len(values) - 1
    kinds = _numbers(told, "decision_type", np.int64)
    # Categories (bit 0), zeros that stand for missing ones (1 in bits 2 and 3), leaves that are linear.
    if told.get("num_cat") != "0" or told.get("is_linear") != "0" or ((kinds >> 2) & 3 == 1).any():
        return None
    left, right = (_numbers(told, name, np.int64) for name in ("left_child", "right_child"))
    leaves = np.full(n + 1, -1)
    return Tree(
        np.concatenate([_numbers(told, "split_feature", np.int64), leaves]),
        np.concatenate([_numbers(told, "threshold", float), np.full(n + 1, math.inf)]),
        np.concatenate([np.where(left < 0, n + ~left, left), leaves]),
        np.concatenate([np.where(right < 0, n + ~right, right), leaves]),
        np.concatenate([np.zeros(n), values]),
    )


def _fields(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


def _numbers(told: dict[str, str], name: str, kind: Any) -> NDArray[Any]:
    return np.array(told.get(name, "").split(), dtype=kind)


def _xgboost(text: bytes | bytearray) -> TreeSum | None:
    """A model of XGBoost (`Booster.save_raw("json")`); None where a tree asks or answers what the kernel can't.

    It asks x < threshold, and does all in single precision, sums too: predictions agree to about 10⁻⁶ of their size.
    """
    learner = json.loads(bytes(text))["learner"]
    booster, sizes = learner["gradient_booster"], learner["learner_model_param"]
    objective = learner["objective"]["name"]
    logistic = objective == "binary:logistic"
    base = np.array(json.loads(f"[{sizes['base_score'].strip('[]')}]"), dtype=np.float32)
    plain = booster["name"] == "gbtree" and (objective in _SUMS or logistic) and len(base) == 1
    if not plain or sizes["num_class"] not in ("0", "1") or sizes.get("num_target", "1") != "1":
        return None
    if "best_iteration" in learner.get("attributes", {}):
        return None
    found = []
    for one in booster["model"]["trees"]:
        if any(one["split_type"]) or one["tree_param"]["size_leaf_vector"] not in ("0", "1"):
            return None
        stated = np.array(one["split_conditions"], dtype=np.float32)
        left = np.array(one["left_children"], dtype=np.int64)
        below = np.nextafter(stated, np.float32(-np.inf)).astype(float)
        value = np.where(left < 0, stated, np.float32(0.0)).astype(float)
        right = np.array(one["right_children"], dtype=np.int64)
        found.append(Tree(np.array(one["split_indices"]), below, left, right, value))
    start = float(base[0])
    return TreeSum(found, math.log(start / (1.0 - start)) if logistic else start, logistic, single=True)
