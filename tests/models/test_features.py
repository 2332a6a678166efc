"""Transformed features in front of a model: the contract, what is fitted when, saving, speed's shortcuts, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

import tightrope as tr
from tightrope.kernels.standardised import LEARNT_OUTCOMES
from tightrope.models import model_from_settings, transformers
from tightrope.testing import ModelSuite


class TestFourier(ModelSuite):
    def make(self):
        return tr.Features({"kind": "fourier", "n_components": 20}, tr.Standardised(4, 3), first=30)


class TestNystroem(ModelSuite):
    def make(self):
        return tr.Features({"kind": "nystroem", "n_components": 20}, tr.DisjointRidge(4, 3), first=30)


class TestSplines(ModelSuite):
    def make(self):
        return tr.Features("splines", tr.Logistic(n_features=3), first=20)


class TestPipeline(ModelSuite):
    def make(self):
        return tr.Features(
            make_pipeline(StandardScaler(), PolynomialFeatures(2)), tr.Ridge(3), first=20, half_life=300.0
        )


def ring(n, seed=0):
    """Rows in the plane; what counts is how far out they are, which no linear model can tell."""
    rows = np.random.default_rng(seed).normal(size=(n, 2)) * [3.0, 0.01] + [10.0, 0.0]
    return rows, np.hypot((rows[:, 0] - 10.0) / 3.0, rows[:, 1] / 0.01)


def taught(model, n=600):
    for row, y in zip(*ring(n)):
        model.learn(row, y, 0)
    return model


@pytest.mark.parametrize(
    "transformer",
    [
        "fourier",
        "nystroem",
        "splines",
        make_pipeline(StandardScaler(), PolynomialFeatures(4)),
        {"kind": "sklearn.preprocessing:SplineTransformer", "n_knots": 7},
    ],
    ids=str,
)
def test_a_linear_model_of_them_learns_what_is_not_linear(transformer):
    fresh, truth = ring(200, seed=1)
    error = np.std(taught(tr.Features(transformer, tr.Standardised(n_features=2))).means(fresh) - truth)
    linear = np.std(taught(tr.Standardised(n_features=2)).means(fresh) - truth)
    assert error < 0.5 * linear


def test_until_the_transformer_is_fitted_it_is_the_inner_model_on_features_as_they_are():
    model, plain = (
        tr.Features("fourier", tr.Standardised(n_features=2), first=50),
        tr.Standardised(n_features=2),
    )
    rows, outcomes = ring(49)
    for row, y in zip(rows, outcomes):
        model.learn(row, y)
        plain.learn(row, y)
    np.testing.assert_array_equal(model.means(rows), plain.means(rows))
    assert (model.fits, model.n_learnt) == (0, 49)


def test_then_it_is_the_inner_model_taught_all_of_it_on_transformed_ones():
    rows, outcomes = ring(80)
    model = taught(tr.Features("fourier", tr.Standardised(n_features=2), first=50, seed=3), 80)
    batch = make_pipeline(StandardScaler(), RBFSampler(gamma="scale", n_components=300, random_state=3)).fit(
        rows[:50]
    )
    made, inner = batch.transform(rows), tr.Standardised(n_features=300)
    for z, y in zip(made, outcomes):
        inner.learn(z, y)
    np.testing.assert_allclose(model.means(rows), inner.means(made), atol=1e-9)
    np.testing.assert_allclose(model.deviations(rows), inner.deviations(made), atol=1e-9)
    assert (model.fits, model.n_learnt) == (1, 80)


@pytest.mark.parametrize(
    "made",
    [
        StandardScaler(),
        make_pipeline(StandardScaler(), RBFSampler(n_components=40, random_state=0)),
        make_pipeline(StandardScaler(), Nystroem(n_components=30, random_state=0)),
        make_pipeline(StandardScaler(), Nystroem(gamma=0.3, n_components=30, random_state=0)),
        SplineTransformer(extrapolation="constant"),
        SplineTransformer(extrapolation="constant", knots="quantile", degree=2, include_bias=False),
        SplineTransformer(extrapolation="constant", degree=1, n_knots=3),
    ],
    ids=str,
)
def test_shortcuts_are_what_scikit_learn_computes(made):
    rng = np.random.default_rng(0)
    made.fit(rng.normal(size=(60, 5)))
    rows = np.concatenate([rng.normal(size=(20, 5)), 10.0 * rng.normal(size=(5, 5)), made_ends(made)])
    np.testing.assert_allclose(transformers._fast(made)(rows), made.transform(rows), atol=1e-10)


def made_ends(made):
    """Rows just on the knots of splines."""
    if not isinstance(made, SplineTransformer):
        return np.zeros((0, 5))
    return np.array([one.t[made.degree : -made.degree] for one in made.bsplines_]).T


def test_a_row_that_stands_for_all_actions_is_transformed_once(monkeypatch):
    model = tr.Features("fourier", tr.DisjointRidge(6, 2), first=40)
    rows = ring(60)[0] / 20.0
    for i, row in enumerate(rows):
        model.learn(row, 0.5, i % 6)
    seen = []
    mark, transform = model._transform
    model._transform = mark, lambda X: seen.append(len(X)) or transform(X)
    policy = tr.ShadowPrice(reward=tr.Features("fourier", tr.DisjointRidge(6, 2), first=40))
    alike = model.means(np.tile(rows[0], (6, 1)), np.arange(6))
    model.deviations(rows[0], np.arange(6))
    np.testing.assert_array_equal(alike, model.means(rows[0]))
    assert seen == [1]
    assert model.means(rows[:6], np.arange(6)).shape == (6,)
    assert seen == [1, 6]
    assert policy.decide(rows[0]).action in range(6)


@pytest.mark.parametrize("n", [20, 80])
def test_a_saved_policy_goes_on_to_the_bit(tmp_path, n):
    policy = tr.ShadowPrice(
        reward=tr.Features({"kind": "nystroem", "n_components": 25}, tr.DisjointRidge(3, 2), first=50),
        constraints=1,
    )
    rows, outcomes = ring(n + 40)
    for row, y in zip(rows[:n], outcomes):
        policy.learn(policy.decide(row, [[0.2], [-0.1], [-0.3]]), y)
    policy.save(tmp_path / "policy")
    transformers.fitted.cache_clear()
    twin = tr.load(tmp_path / "policy")
    for row, y in zip(rows[n:], outcomes):
        mine, its = (one.decide(row, [[0.2], [-0.1], [-0.3]]) for one in (policy, twin))
        assert mine.action == its.action
        np.testing.assert_array_equal(mine.explain().rewards, its.explain().rewards)
        policy.learn(mine, y)
        twin.learn(its, y)


def test_going_back_to_an_earlier_state_undoes_the_fit():
    model = taught(tr.Features("splines", tr.Standardised(n_features=2), first=40), 30)
    early = {name: array.copy() for name, array in model.arrays().items()}
    rows = ring(5, seed=1)[0]
    before = model.means(rows)
    taught(model, 20)
    assert model.fits == 1
    for name, array in model.arrays().items():
        array[...] = early[name]
    assert model.fits == 0
    np.testing.assert_array_equal(model.means(rows), before)


def test_objects_become_plain_data_and_come_back():
    made = ColumnTransformer(
        [
            ("scaled", MinMaxScaler(feature_range=(0, 2)), [0]),
            ("binned", KBinsDiscretizer(4, encode="onehot-dense"), [1]),
        ]
    )
    data = transformers.as_data(make_pipeline(made))
    assert json.loads(json.dumps(data)) == data
    rows = ring(100)[0]
    again = transformers.from_data(data)
    np.testing.assert_allclose(again.fit_transform(rows), made.fit_transform(rows))
    model = model_from_settings(tr.Features(make_pipeline(made), tr.Ridge(2), first=50).settings())
    assert model.settings()["transformer"] == data


def test_what_needs_no_data_is_ready_at_once():
    model = tr.Features(
        {"kind": "fourier", "n_components": 50, "gamma": 1.0}, tr.Standardised(n_features=2), first=0
    )
    direct = RBFSampler(gamma=1.0, n_components=50, random_state=0).fit(np.zeros((1, 2)))
    inner = tr.Standardised(n_features=50)
    for row, y in zip(*ring(10)):
        model.learn(row, y)
        inner.learn(direct.transform(row[None, :])[0], y)
    np.testing.assert_allclose(
        model.means([[1.0, 2.0]]), inner.means(direct.transform([[1.0, 2.0]])), atol=1e-9
    )


def test_categories_are_encoded_where_the_size_is_told():
    encoder = OneHotEncoder(handle_unknown="ignore")
    model = tr.Features(encoder, tr.Standardised(n_features=1), first=30, size=8)
    for i in range(300):
        model.learn([float(i % 5)], float(i % 5 == 2))
    np.testing.assert_allclose(model.means([[2.0], [3.0]]), [1.0, 0.0], atol=0.1)
    small = tr.Features(encoder, tr.Standardised(n_features=1), first=30, size=3)
    for i in range(29):
        small.learn([float(i % 5)], 0.0)
    before = small.n_learnt
    with pytest.raises(
        tr.InvalidInput, match="makes 5 features, but the model expects 3; set size to 5 or more"
    ):
        small.learn([1.0], 0.0)
    assert small.n_learnt == before


def test_a_half_life_is_passed_on():
    model = tr.Features("splines", tr.DisjointRidge(2, 2), half_life=50.0)
    assert (model.half_life, model.settings()["inner"]["half_life"]) == (50.0, 50.0)
    policy = tr.ShadowPrice(reward=model)
    assert policy.hooks.settings()["reward"]["inner"]["half_life"] == 50.0
    early, late = (
        tr.Features("splines", tr.Standardised(n_features=2, half_life=50.0), first=n) for n in (20, 60)
    )
    rows, outcomes = ring(80)
    for i, (row, y) in enumerate(zip(rows, outcomes)):
        for one in (early, late):
            one.learn(row, y)
            if i == 30:
                one.elapse(25.0)
    # By then both were fitted, to other rows: how much outcomes count is the same.
    assert early._model.spread[LEARNT_OUTCOMES] == pytest.approx(late._model.spread[LEARNT_OUTCOMES])


def test_it_serves_in_a_spec():
    from tightrope.policies.build import build_policy
    from tightrope.problem import Problem, Vectors
    from tightrope.spec import ModelSpec, PolicySpec

    problem = Problem(n_actions=3, features=Vectors(4, per_action=False), n_constraints=2)
    for own in ({}, {"inner": "logistic"}, {"inner": {"model": "disjoint-ridge", "half_life": 100}}):
        spec = PolicySpec(reward=ModelSpec(model="features", own={"transformer": "fourier", **own}))
        model = build_policy(spec, problem).hooks.settings()["reward"]
        assert model["transformer"] == {"kind": "fourier"}
        assert model["inner"]["n_features"] == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tr.Features("fourrier", tr.Ridge(2)), "one of 'fourier', 'nystroem', 'splines', or a class"),
        (lambda: tr.Features({"n_knots": 3}, tr.Ridge(2)), "must have a kind"),
        (lambda: tr.Features(3, tr.Ridge(2)), "must be a name, a table or an object"),
        (lambda: tr.Features({"kind": "splines", "knobs": 3}, tr.Ridge(2)), "knobs"),
        (
            lambda: tr.Features(FunctionTransformer(np.sin), tr.Ridge(2)),
            "transformer.func must be plain data",
        ),
        (lambda: tr.Features("splines", tr.ArmMeans(2)), "takes no features"),
        (lambda: tr.Features("splines", taught(tr.Standardised(n_features=2), 5)), "has already learnt"),
        (lambda: tr.Features("splines", 3), "inner must be a model"),
        (lambda: tr.Features("splines", tr.Ridge(2)).learn([1.0], 1.0), "features must have shape"),
        (lambda: tr.Features("splines", tr.Logistic(n_features=2)).learn([1.0, 2.0], 3.0), "must lie in"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(tr.InvalidInput, match=message):
        make()


def test_a_transformer_as_plain_data() -> None:
    assert transformers.as_data("fourier") == {"kind": "fourier"}
    scaler = {"kind": "sklearn.preprocessing:StandardScaler", "with_mean": False}
    assert transformers.as_data(StandardScaler(with_mean=False)) == scaler
    made = transformers.from_data(scaler)
    assert type(made) is StandardScaler
    assert not made.with_mean
