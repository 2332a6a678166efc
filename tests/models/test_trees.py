"""Fitted trees as flat arrays, against the libraries that have fitted them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier, XGBRegressor

from tightrope.kernels import trees
from tightrope.models.trees import FlatTrees, tree_sum
from tightrope.models.trees import flat as flat_arrays

DRAW = np.random.default_rng(0)
X, NEW = DRAW.normal(size=(400, 5)), DRAW.normal(size=(200, 5))
SIGNS = (X[:, 0] * X[:, 1] > 0).astype(float)
AMOUNTS = 1000.0 + 50.0 * X[:, 0] * X[:, 1] + DRAW.normal(size=400)

CODES = DRAW.integers(0, 3, 400)
FEW: dict[str, Any] = {"n_estimators": 2, "verbose": -1, "n_jobs": 1}

# Boosting on as many threads as there are cores waits for them where other tests use those.
threadpool_limits(1, user_api="openmp")

REGRESSORS: list[Any] = [
    DecisionTreeRegressor(random_state=1),
    ExtraTreeRegressor(random_state=1),
    RandomForestRegressor(8, random_state=1),
    ExtraTreesRegressor(8, min_samples_leaf=3, random_state=1),
    HistGradientBoostingRegressor(max_iter=20, random_state=1),
    HistGradientBoostingRegressor(max_iter=20, loss="absolute_error", random_state=1),
    LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1),
    LGBMRegressor(n_estimators=20, objective="huber", verbose=-1, n_jobs=1),
    LGBMRegressor(n_estimators=5, min_child_samples=500, verbose=-1, n_jobs=1),  # trees of one leaf
    XGBRegressor(n_estimators=20, max_depth=4, n_jobs=1),
    XGBRegressor(
        n_estimators=20, objective="reg:absoluteerror", num_parallel_tree=2, subsample=0.8, n_jobs=1
    ),
]
CLASSIFIERS: list[Any] = [
    DecisionTreeClassifier(max_depth=4, random_state=1),
    RandomForestClassifier(8, max_depth=4, random_state=1),
    ExtraTreesClassifier(8, max_depth=4, random_state=1),
    HistGradientBoostingClassifier(max_iter=20, random_state=1),
    LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1),
    XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1),
]


def flat(*fitted: Any, members: int = 1, outputs: int = 1) -> FlatTrees:
    sums = [flat_arrays(one) for one in fitted]
    return FlatTrees([one for one in sums if one is not None], members, outputs)


def precision(estimator: Any) -> float:
    """XGBoost adds up in single precision."""
    return 2e-6 if hasattr(estimator, "get_booster") else 1e-12


@pytest.mark.parametrize("estimator", REGRESSORS, ids=lambda one: type(one).__name__)
def test_regressors_are_equal_to_the_library(estimator: Any) -> None:
    estimator.fit(X, AMOUNTS)
    said = flat(estimator).predict(NEW, np.zeros(len(NEW), dtype=np.int64))
    np.testing.assert_allclose(said[0, :, 0], estimator.predict(NEW), rtol=precision(estimator))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda one: type(one).__name__)
def test_classifiers_are_equal_to_the_library(estimator: Any) -> None:
    estimator.fit(X, SIGNS)
    said = flat(estimator).predict(NEW, np.zeros(len(NEW), dtype=np.int64))
    np.testing.assert_allclose(said[0, :, 0], estimator.predict_proba(NEW)[:, 1], rtol=precision(estimator))


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestRegressor(20, random_state=0),
        LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1),
        XGBRegressor(n_estimators=20, n_jobs=1),
    ],
    ids=lambda one: type(one).__name__,
)
def test_thresholds_are_met_in_the_precision_of_the_library(estimator: Any) -> None:
    """Some round features to single precision, some ask for less; a value right at a threshold must fall on the same side."""
    estimator.fit(X, AMOUNTS)
    found = tree_sum(estimator)
    assert found is not None
    at = np.concatenate([one.threshold[one.left >= 0] for one in found.trees])[:500]
    near = [at]
    for kind in (np.float32, np.float64):
        near += [np.nextafter(at.astype(kind), kind(side)).astype(float) for side in (np.inf, -np.inf)]
    rows = np.repeat(np.concatenate(near)[:, None], 5, axis=1)
    said = flat(estimator).predict(rows, np.zeros(len(rows), dtype=np.int64))
    np.testing.assert_allclose(said[0, :, 0], estimator.predict(rows), rtol=precision(estimator))


def test_every_row_meets_the_trees_of_its_member_group_and_output() -> None:
    M, G, K = 3, 4, 2
    fitted = [
        RandomForestRegressor(3, random_state=i).fit(X[i * 10 : i * 10 + 60], AMOUNTS[i * 10 : i * 10 + 60])
        for i in range(M * G * K)
    ]
    groups = DRAW.integers(0, G, len(NEW))
    said = flat(*fitted, members=M, outputs=K).predict(NEW, groups)
    for m in range(M):
        for k in range(K):
            expected = [fitted[(m * G + g) * K + k].predict(x[None])[0] for x, g in zip(NEW[:40], groups)]
            np.testing.assert_allclose(said[m, :40, k], expected, rtol=1e-12)


def test_a_constant_has_no_trees() -> None:
    one = DecisionTreeRegressor().fit(X, AMOUNTS)
    both = FlatTrees([flat_arrays(0.25), flat_arrays(one)], 1, 1)  # type: ignore[list-item]
    said = both.predict(NEW, np.arange(len(NEW)) % 2)
    assert (said[0, ::2, 0] == 0.25).all()
    np.testing.assert_allclose(said[0, 1::2, 0], one.predict(NEW)[1::2], rtol=1e-12)


def test_compiled_is_uncompiled() -> None:
    boosted = flat(HistGradientBoostingClassifier(max_iter=5).fit(X, SIGNS))
    out = np.empty((1, 30, 1))
    parts = ("first", "roots", "feature", "threshold", "child", "value", "base", "logistic")
    arrays = [getattr(boosted, part) for part in parts]
    getattr(trees.sum_trees, "py_func", trees.sum_trees)(NEW[:30], np.zeros(30, dtype=np.int64), *arrays, out)
    np.testing.assert_array_equal(out, boosted.predict(NEW[:30], np.zeros(30, dtype=np.int64)))


@pytest.mark.parametrize(
    "fitted",
    [
        LinearRegression().fit(X, AMOUNTS),
        RandomForestRegressor(2).fit(X, np.column_stack([AMOUNTS, SIGNS])),
        DecisionTreeClassifier().fit(X, DRAW.integers(0, 3, 400)),
        HistGradientBoostingRegressor(max_iter=2, loss="poisson").fit(X, AMOUNTS),
        HistGradientBoostingClassifier(max_iter=2).fit(X, DRAW.integers(0, 3, 400)),
        HistGradientBoostingRegressor(max_iter=5, categorical_features=[0]).fit(
            np.column_stack([DRAW.integers(0, 8, 400), X]), AMOUNTS
        ),
        LGBMRegressor(objective="poisson", **FEW).fit(X, AMOUNTS),
        LGBMRegressor(reg_sqrt=True, **FEW).fit(X, AMOUNTS),
        LGBMRegressor(linear_tree=True, **FEW).fit(X, AMOUNTS),
        LGBMRegressor(zero_as_missing=True, **FEW).fit(np.round(X), AMOUNTS),
        LGBMRegressor(boosting_type="rf", subsample=0.5, subsample_freq=1, **FEW).fit(X, AMOUNTS),
        LGBMRegressor(**FEW).fit(np.column_stack([CODES, X]), 10.0 * CODES, categorical_feature=[0]),
        LGBMClassifier(**FEW).fit(X, CODES),
        XGBRegressor(n_estimators=2, objective="count:poisson", n_jobs=1).fit(X, AMOUNTS),
        XGBRegressor(n_estimators=2, booster="dart", rate_drop=0.5, n_jobs=1).fit(X, AMOUNTS),
        XGBRegressor(n_estimators=2, booster="gblinear", n_jobs=1).fit(X, AMOUNTS),
        XGBRegressor(n_estimators=2, missing=0.0, n_jobs=1).fit(X, AMOUNTS),
        XGBRegressor(n_estimators=2, n_jobs=1).fit(X, np.column_stack([AMOUNTS, SIGNS])),
        XGBRegressor(n_estimators=9, early_stopping_rounds=1, n_jobs=1).fit(
            X, SIGNS, eval_set=[(X[:9], AMOUNTS[:9])], verbose=False
        ),
        XGBClassifier(n_estimators=2, n_jobs=1).fit(X, CODES),
    ],
    ids=lambda one: repr(one)[:60],
)
def test_what_the_kernel_can_not_ask_is_left_to_the_library(fitted: Any) -> None:
    assert tree_sum(fitted) is None


def test_what_another_release_writes_is_left_to_the_library() -> None:
    class Other:
        def __init__(self, text: bytes) -> None:
            self.text = text

        def get_booster(self) -> Any:
            return self

        def save_raw(self, form: str) -> bytes:
            return self.text

    for text in (
        b"{}",
        b'{"learner": {}}',
        b"not JSON",
        b'{"learner": {"gradient_booster": {}, "learner_model_param": {}}}',
    ):
        assert tree_sum(Other(text)) is None
