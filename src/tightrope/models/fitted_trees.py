"""What libraries have fitted, as sums of trees: scikit-learn's by their arrays, LightGBM's and XGBoost's by the text they write.

A library's own `predict` takes a tenth of a millisecond to several for one row; see `tightrope.models.trees`.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.models.trees import Tree, TreeSum

__all__ = ["tree_sum"]

# Objectives of LightGBM and of XGBoost whose predictions are the sum itself.
_SUMS = {
    *("regression", "regression_l1", "huber", "fair", "quantile", "mape"),
    *("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror"),
}


def tree_sum(estimator: Any) -> TreeSum | None:
    """A fitted estimator as a sum of trees; None where it is not one, or asks what the kernel can't.

    Single trees, forests and histogram boosting of scikit-learn, boosters of LightGBM and XGBoost: regressors of one quantity, and
    classifiers of the classes 0 and 1, of which it is the probability of 1.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree_sum(DecisionTreeRegressor().fit([[0.0], [1.0]], [3.0, 5.0])).trees[0].value
    array([4., 3., 5.])
    """
    if hasattr(estimator, "tree_"):
        return _averaged([estimator])
    if hasattr(estimator, "_predictors"):
        return _boosted(estimator)
    # What a release writes otherwise is left to the library.
    with contextlib.suppress(KeyError, ValueError):
        if hasattr(estimator, "booster_"):
            return _lightgbm(estimator.booster_.model_to_string())
        if hasattr(estimator, "get_booster") and math.isnan(getattr(estimator, "missing", math.nan)):
            return _xgboost(estimator.get_booster().save_raw("json"))
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
