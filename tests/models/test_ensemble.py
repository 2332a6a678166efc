"""Ensembles of any estimators: what they expect, when they are fitted, what is kept and saved."""

from __future__ import annotations

import json
import pickle
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import tightrope as tr
from tightrope.models import Ensemble, Model, ensemble, model_from_settings
from tightrope.models.estimators import NAMED, as_data, recipe
from tightrope.models.members import OneByOne
from tightrope.models.model import take_arrays
from tightrope.models.networks import weight_count
from tightrope.models.sizes import Sizes
from tightrope.models.trees import FlatTrees
from tightrope.policies.build import build_policy
from tightrope.policies.hooks import restored
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.http import handlers
from tightrope.service.journal.entries import TookEffect
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.replay import verify
from tightrope.service.requests import SnapshotRequest
from tightrope.spec import make_spec
from tightrope.testing import ModelSuite
from workbench import Bench, read

SMALL: dict[str, Any] = {"members": 3, "first": 20, "growth": 2.0}


class TestForest(ModelSuite):
    def make(self) -> Model:
        return Ensemble("extra-trees", 2, 2, **SMALL)


class TestBoosting(ModelSuite):
    def make(self) -> Model:
        return Ensemble("boosted-trees", 2, 2, refit="now", **SMALL)


class TestNetworks(ModelSuite):
    def make(self) -> Model:
        return Ensemble("mlp", 2, 2, refit="now", **SMALL)


class TestShared(ModelSuite):
    def make(self) -> Model:
        return Ensemble("random-forest", 2, 2, shared=True, refit="now", half_life=100.0, **SMALL)


class TestOfRows(ModelSuite):
    """Where one row tells all about an action."""

    def make(self) -> Model:
        return Ensemble(LinearRegression(), None, 2, refit="now", **SMALL)


def sign_of_product(x: Any) -> float:
    return float(x[0] * x[1] > 0.0)


def rows(n: int, p: int = 2, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, p))


def taught(model: Any, n: int = 150, seed: int = 0, scale: float = 1.0, offset: float = 0.0) -> Any:
    """A model that has seen action 0 pay off where the signs agree, and action 1 where they do not."""
    for i, x in enumerate(rows(n, model.n_features, seed)):
        y = sign_of_product(x) if i % 2 == 0 else 1.0 - sign_of_product(x)
        model.learn(x, offset + scale * y, i % 2)
    return model


CORNERS = np.array([[0.6, 0.6], [0.6, -0.6], [-0.6, 0.6], [-0.6, -0.6]])


@pytest.mark.parametrize("estimator", NAMED)
def test_what_no_linear_model_can_tell_is_learnt_in_any_unit(estimator: str) -> None:
    model = taught(Ensemble(estimator, 2, 2, refit="now", members=4), 600, scale=5000.0, offset=1e6)
    said = (model.means(CORNERS, [0, 0, 1, 1]) - 1e6) / 5000.0
    np.testing.assert_allclose(said, [1.0, 0.0, 1.0, 0.0], atol=0.3)
    assert (model.deviations(CORNERS, [0, 0, 1, 1]) < 2000.0).all()


def test_members_mean_and_deviations_agree() -> None:
    model = taught(Ensemble("extra-trees", 2, 2, refit="now", spread=0.5))
    wide = taught(Ensemble("extra-trees", 2, 2, refit="now", spread=1.0))
    ids = [0, 1, 0, 1]
    members = model.members(CORNERS, ids)
    assert members.shape == (10, 4)
    np.testing.assert_allclose(members.mean(axis=0), model.means(CORNERS, ids))
    np.testing.assert_allclose(members.std(axis=0, ddof=1), model.deviations(CORNERS, ids))
    np.testing.assert_allclose(wide.deviations(CORNERS, ids), 2.0 * model.deviations(CORNERS, ids))


def test_one_member_is_the_library_on_all_that_is_kept() -> None:
    library = HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=5, early_stopping=False)
    model = taught(Ensemble(library, 2, 2, members=1, made_up=0, refit="now", first=100, growth=9.0), 100)
    X, y = model._kept.in_force().features, model._kept.in_force().outcomes[:, 0]
    centre, unit = y.mean(), y.std()
    for a in (0, 1):
        library.fit(X[a::2], (y[a::2] - centre) / unit)
        expected = centre + unit * library.predict(CORNERS)
        np.testing.assert_allclose(model.means(CORNERS, [a] * 4), expected, rtol=1e-12)
    assert model.exploration == "gaps"
    assert (model.deviations(CORNERS, [0] * 4) == 0.0).all()


def test_before_the_first_fit_all_is_open() -> None:
    model = Ensemble("extra-trees", 6, 2)
    ids = np.arange(6)
    x = np.tile(CORNERS[0], (6, 1))
    np.testing.assert_allclose(model.means(x, ids), 0.0, atol=1e-12)
    assert (model.deviations(x, ids) == 1.0).all()
    first = {int(best) for best in model.members(x, ids).argmax(axis=0)}
    best = set(model.members(x, ids).argmax(axis=1).tolist())
    model.learn(CORNERS[0], 5.0, 0)
    best |= set(model.members(x, ids).argmax(axis=1).tolist())
    assert len(first) > 1
    assert len(best) == 6, "every action is the best for some member soon"
    assert (model.deviations(x, ids) == 5.0).all(), "in the outcomes' own unit"


def test_an_action_that_never_paid_off_is_not_given_up_by_all() -> None:
    """Without rounds that are made up all members would agree on it, and none would ever try it again."""
    unsure = []
    for made_up in (2, 0):
        model = Ensemble("extra-trees", 2, 2, refit="now", made_up=made_up)
        for x in rows(60):
            model.learn(x, 0.0, 0)
            model.learn(x, 0.0 if x[0] < 0.8 else 1.0, 1)
        unsure.append(model.deviations(rows(50, seed=1), [0] * 50).max())
    assert unsure[0] > 0.05
    assert unsure[1] < 1e-12


# When it is fitted, and what is kept


def test_fits_come_when_what_is_kept_has_grown() -> None:
    model, at = Ensemble("extra-trees", 1, 1, refit="now", first=30, growth=1.3, keep=200), []
    for i in range(1, 500):
        fits = model.fits
        model.learn([float(i)], 0.0, 0)
        if model.fits > fits:
            at.append(i)
    assert at[:6] == [30, 40, 52, 68, 89, 116]
    assert set(np.diff(at[-4:])) == {60}, (
        "from the limit on they come evenly, so that a round's share of them is bounded"
    )


@pytest.mark.parametrize("refit", ["now", "background"])
def test_memory_is_bounded(refit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble, "fit_members", lambda *given: None)
    monkeypatch.setattr(ensemble, "packed_members", lambda fitted: None)
    model, sizes, bytes_kept = Ensemble("extra-trees", 1, 1, refit=refit, keep=100), [], []
    for i in range(3000):
        model.learn([float(i)], 0.0, 0)
        sizes.append(len(model._kept))
        bytes_kept.append(sum(array.nbytes for array in model.arrays().values()))
    assert max(sizes) <= 100 + 30 + 3
    assert bytes_kept[-1] == bytes_kept[300]


def test_a_fit_in_the_background_does_not_make_answers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is under way the old one answers, however long it takes; the outcome at which it takes effect waits for it."""
    model = taught(Ensemble("extra-trees", 2, 2, growth=2.0), 40)
    before, fits = model.means(CORNERS, [0] * 4), model.fits
    go_on, fit = threading.Event(), ensemble.fit_members

    def slow(*given: Any) -> Any:
        assert go_on.wait(60)
        return fit(*given)

    monkeypatch.setattr(ensemble, "fit_members", slow)
    seen = 0
    for x in rows(200, seed=5):
        model.learn(x, 1.0, 0)
        if model.fits > fits:
            break
        np.testing.assert_array_equal(model.means(CORNERS, [0] * 4), before)
        seen += 1
    assert seen > 10
    assert model._clock[ensemble.LEARNT] == 40 + seen + 1
    go_on.set()
    assert (model.means(CORNERS, [0] * 4) != before).any()


@pytest.mark.parametrize("estimator", ["extra-trees", "boosted-trees", "mlp"])
def test_loading_gives_the_same_bits_whatever_is_under_way(estimator: str) -> None:
    """At every outcome of a stretch that has fits under way and fits that take effect."""
    model, under_way = taught(Ensemble(estimator, 2, 2, **SMALL), 38), 0
    for x in rows(6, seed=2):
        model.learn(x, sign_of_product(x), 0)
        under_way += bool(model._clock[ensemble.UNDER_WAY])
        twin = model_from_settings(json.loads(json.dumps(model.settings())))
        arrays = {name: array.copy() for name, array in model.arrays().items()}
        take_arrays(twin, arrays)
        np.testing.assert_array_equal(
            twin.members(CORNERS, [0, 1, 0, 1]), model.members(CORNERS, [0, 1, 0, 1])
        )
    assert 0 < under_way < 6


def test_networks_go_on_from_fit_to_fit_and_are_loaded_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit begins with the weights of the one before; those of the last that is known are part of the state."""
    starts: list[Any] = []

    def noted(*given: Any) -> Any:
        starts.append(given[4])
        return fit(*given)

    fit = ensemble.fit_members
    monkeypatch.setattr(ensemble, "fit_members", noted)
    model = Ensemble("mlp", 2, 2, refit="now", **SMALL)
    said = []
    for i, x in enumerate(rows(170)):
        model.learn(x, sign_of_product(x), i % 2)
        said.append(model.means(CORNERS, [0] * 4))
    assert [start is None for start in starts] == [True, False, False, False]
    assert all((a != b).any() for a, b in pairwise(starts[1:]))
    # A fit that begins in the background finds the weights of the one in force, which then need not be made again.
    model.refit = "background"
    for x in rows(160, seed=3):
        model.learn(x, sign_of_product(x), 0)
        if model._clock[ensemble.UNDER_WAY]:
            break
    model._fitted[int(model._clock[ensemble.MARK_UNDER_WAY])].result()
    before, made = model.means(CORNERS, [0] * 4), len(starts)
    loaded = model_from_settings(model.settings())
    take_arrays(loaded, model.arrays())
    loaded._clock[ensemble.UNDER_WAY] = 0
    np.testing.assert_array_equal(loaded.means(CORNERS, [0] * 4), before)
    assert len(starts) == made


def test_arrays_that_are_put_in_place_are_what_it_answers_by() -> None:
    """Also where they stand at as many outcomes as its own."""
    one, other = (taught(Ensemble("extra-trees", 2, 2, **SMALL), 60, seed) for seed in (0, 1))
    expected = other.members(CORNERS, [0] * 4)
    assert (one.members(CORNERS, [0] * 4) != expected).any()
    take_arrays(one, other.arrays())
    np.testing.assert_array_equal(one.members(CORNERS, [0] * 4), expected)


def test_a_copy_shares_fits_and_goes_its_own_way() -> None:
    model = taught(Ensemble("extra-trees", 2, 2, **SMALL), 60)
    model.means(CORNERS, [0] * 4)
    twin, travelled = model.copy(), pickle.loads(pickle.dumps(model))
    assert twin._in_force() is model._in_force()
    before = model.members(CORNERS, [0] * 4)
    np.testing.assert_array_equal(travelled.members(CORNERS, [0] * 4), before)
    taught(twin, 300, seed=9)
    np.testing.assert_array_equal(model.members(CORNERS, [0] * 4), before)


def test_a_policy_is_saved_copied_and_rolled_back(tmp_path: Path) -> None:
    policy = tr.ShadowPrice(
        reward=Ensemble("extra-trees", 2, 2, **SMALL),
        constraints=1,
        cost=Ensemble("extra-trees", 2, 2, **SMALL),
    )

    def play(one: Any, n: int, seed: int) -> list[bytes]:
        traces = []
        for x in rows(n, seed=seed):
            decision = one.decide(x)
            traces.append(decision.trace.tobytes())
            one.learn(decision, float(decision.action == 0) * x[0], [x[1]])
        return traces

    play(policy, 70, 0)
    then = policy.hooks.state()
    policy.save(tmp_path / "policy")
    loaded, twin = tr.load(tmp_path / "policy"), policy.copy()
    expected = play(policy, 90, 1)
    assert play(loaded, 90, 1) == expected == play(twin, 90, 1)
    assert policy.hooks.state()["reward/kept/features"].shape != then["reward/kept/features"].shape
    policy.hooks.roll_back(then, learnt_only=True)
    x, ids = CORNERS[:2], np.arange(2)
    old = restored(
        type(policy),
        policy.hooks.settings(),
        {**policy.hooks.state(), **{k: v for k, v in then.items() if k.startswith("reward/")}},
    )
    np.testing.assert_array_equal(
        policy.hooks.reward_model().members(x, ids), old.hooks.reward_model().members(x, ids)
    )
    assert policy.hooks.reward_model().n_learnt == 70


def test_old_outcomes_are_forgotten() -> None:
    """After a switch a model with a half-life follows; one without holds on to the average."""
    said = []
    for half_life in (50.0, None):
        model = Ensemble("extra-trees", 1, 2, refit="now", half_life=half_life)
        for i, x in enumerate(rows(900)):
            model.learn(x, 1.0 if i < 600 else 0.0, 0)
        said.append(model.means(CORNERS[:1], [0])[0])
        assert model.fits > 5
    assert said[0] < 0.1
    assert said[1] > 0.4


def test_rounds_without_an_outcome_age_what_was_learnt() -> None:
    said = []
    for waits in (0.0, 500.0):
        model = Ensemble("extra-trees", 1, 2, refit="now", half_life=50.0, first=100, growth=1.2)
        for x in rows(100):
            model.learn(x, 1.0, 0)
        model.elapse(waits)
        for x in rows(40, seed=1):
            model.learn(x, 0.0, 0)
        assert model.fits >= 2
        said.append(model.means(CORNERS, [0] * 4).mean())
    assert said[1] < 0.2 < said[0]


# Several outputs, shared parameters, shifts


def test_costs_are_learnt_side_by_side() -> None:
    model = Ensemble("extra-trees", 2, 2, n_outputs=2, refit="now")
    for i, x in enumerate(rows(300)):
        model.learn(x, [sign_of_product(x), -3.0 * sign_of_product(x)], i % 2)
    said = model.means(CORNERS, [0, 0, 1, 1])
    np.testing.assert_allclose(said[:, 1], -3.0 * said[:, 0], atol=0.6)
    assert model.members(CORNERS, [0, 0, 1, 1]).shape == (10, 4, 2)
    before, unsure = model.means(CORNERS, [0] * 4), model.deviations(CORNERS, [0] * 4)
    model.shift(1, 10.0)
    np.testing.assert_allclose(model.means(CORNERS, [0] * 4), before + np.array([0.0, 10.0]))
    np.testing.assert_allclose(model.deviations(CORNERS, [0] * 4), unsure)
    model.learn(CORNERS[0], [1.0, 7.0], 0)
    assert model._kept.all().outcomes[-1].tolist() == [1.0, -3.0]


def test_a_shared_model_tells_actions_apart() -> None:
    model = taught(Ensemble("extra-trees", 2, 2, shared=True, refit="now"), 600)
    np.testing.assert_allclose(model.means(CORNERS, [0, 0, 1, 1]), [1.0, 0.0, 1.0, 0.0], atol=0.35)


def test_sizes_follow_the_problem() -> None:
    assert Ensemble.sized(Sizes(4, 3, per_action=True)).n_actions is None
    assert Ensemble.sized(Sizes(4, 3, per_action=False), estimator="mlp").n_actions == 4
    assert Ensemble("mlp", 4, 3).never_learnt().tolist() == [True] * 4  # type: ignore[union-attr]


# Any estimator


class OnlyPartial:
    """Has neither `fit`, nor weights, nor parameters that can be asked for."""

    def __init__(self, start: float = 0.0) -> None:
        self.mean = start

    def partial_fit(self, X: Any, y: Any) -> None:
        self.mean = float(np.mean(y))

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.mean)


LIGHT = {"n_estimators": 10, "min_child_samples": 3, "verbose": -1}


@pytest.mark.parametrize(
    ("estimator", "params"),
    [
        (KNeighborsRegressor(3), None),
        (make_pipeline(StandardScaler(), KNeighborsRegressor(3)), None),
        (HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5), None),
        (LogisticRegression(), None),
        (GaussianNB(), None),
        ("sklearn.tree:DecisionTreeRegressor", {"max_depth": 3}),
        ("lightgbm:LGBMRegressor", LIGHT),
        ("xgboost:XGBRegressor", {"n_estimators": 10, "max_depth": 3}),
        (f"{__name__}:OnlyPartial", {"start": 1.0}),
    ],
    ids=str,
)
def test_any_estimator_can_be_a_member(estimator: Any, params: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIGHTROPE_TRUST", __name__)
    model = taught(Ensemble(estimator, 2, 2, params=params, refit="now", **SMALL), 120)
    settings = model.settings()
    assert json.loads(json.dumps(settings)) == settings
    twin = taught(model_from_settings(settings), 120)
    np.testing.assert_array_equal(twin.members(CORNERS, [0, 1, 0, 1]), model.members(CORNERS, [0, 1, 0, 1]))
    means = model.means(CORNERS, [0] * 4)
    assert ((means > -1e-9) & (means < 1.0 + 1e-9)).all()


def test_what_is_asked_in_one_call_and_what_is_not() -> None:
    for estimator, params, expected in (
        (DecisionTreeRegressor(), None, FlatTrees),
        ("lightgbm:LGBMRegressor", LIGHT, FlatTrees),
        ("xgboost:XGBClassifier", {"n_estimators": 5}, FlatTrees),
        (KNeighborsRegressor(2), None, OneByOne),
    ):
        model = taught(Ensemble(estimator, 2, 2, params=params, refit="now", **SMALL), 60)
        assert isinstance(model._in_force().predictor, expected)


def test_a_classifier_learns_zeros_and_ones_alone() -> None:
    model = Ensemble(LogisticRegression(), 1, 2)
    with pytest.raises(tr.InvalidInput, match="outcome must be 0 or 1, since sklearn"):
        model.learn([0.0, 1.0], 0.5, 0)
    assert model.n_learnt == 0
    assert len(model._kept) == 0


def test_what_can_not_be_saved_or_made_is_refused() -> None:
    class Hidden(LinearRegression):
        pass

    for estimator, params, words in (
        (
            "boosted",
            None,
            "estimator must be one of 'forest', 'boosting', 'boosted-trees', 'small-boosted-trees', 'extra-trees'",
        ),
        (3.0, None, "estimator must be a name or an object with fit and predict, but got 3.0"),
        (TransformedTargetRegressor(func=np.log1p), None, r"estimator\.func must be plain data"),
        (Hidden(), None, "Hidden, which no other process could import; move the class to a module"),
        ("sklearn.tree:NoTree", None, "there is no class 'NoTree' in 'sklearn.tree'"),
        (
            "catboost:CatBoostRegressor",
            None,
            "needs catboost, which is not installed: pip install catboost",
        ),
        ("sklearn.tree:DecisionTreeRegressor", {"depth": 3}, "unexpected keyword argument 'depth'"),
        (DecisionTreeRegressor(), {"max_depth": 3}, "params is only for a named estimator"),
        (
            "sklearn.preprocessing:StandardScaler",
            None,
            "must be a class with fit or partial_fit and predict or predict_proba",
        ),
    ):
        with pytest.raises(tr.InvalidInput, match=words):
            Ensemble(estimator, 2, 2, params=params)
    for wrong, words in (
        ({"members": 0}, "members must be"),
        ({"growth": 1.0}, "growth must be finite and > 1"),
        ({"refit": "later"}, "refit must be one of 'background', 'now'"),
        ({"exploration": "greedy"}, "exploration must be one of"),
        ({"half_life": 0.0}, "half_life must be finite and >= 1"),
    ):
        with pytest.raises(tr.InvalidInput, match=words):
            Ensemble("mlp", 2, 2, **wrong)


def test_a_missing_library_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("tightrope.models.library_objects.importlib.import_module", missing)
    with pytest.raises(tr.InvalidInput, match=r"needs scikit-learn.*pip install 'tightrope\[models\]'"):
        Ensemble("mlp", 2, 2)


def test_an_estimator_that_fails_says_so() -> None:
    with pytest.raises(tr.InvalidInput, match="KNeighborsRegressor can't be fitted to"):
        taught(Ensemble(KNeighborsRegressor(0), 2, 2, refit="now", **SMALL), 60).means(CORNERS, [0] * 4)


# In a spec and in the service


def spec(**reward: Any) -> Any:
    return make_spec(
        {
            "actions": ["a", "b", "c"],
            "context": {"x": {"type": "number", "min": 0, "max": 1}},
            "rule": [{"kind": "capacity", "action": "b", "at_most": 0.4}],
            "policy": {"reward": {"model": "ensemble", **reward}},
        }
    )


def test_a_spec_names_it() -> None:
    stated = spec(estimator="sklearn.tree:DecisionTreeRegressor", params={"max_depth": 3}, members=4)
    policy = build_policy(stated.policies[0], stated.problem())
    assert (
        repr(policy.hooks.reward_model()) == "Ensemble('sklearn.tree:DecisionTreeRegressor', 3, 2, members=4)"
    )
    assert policy.hooks.reward_model().params == {"max_depth": 3}
    wrong = spec(estimator="boosted")
    with pytest.raises(tr.InvalidInput, match=r"policy\.reward: estimator must be one of"):
        build_policy(wrong.policies[0], wrong.problem())


def play(bench: Bench, first: int, last: int) -> None:
    """Decisions, and the outcomes of three of four."""
    for i in range(first, last):
        x = (37 * i % 101) / 101
        read(bench.decide({"event_id": str(i), "context": {"x": x}}))
        if i % 4:
            read(bench.learn(str(i), reward=float((11 * i % 17) / 17 < x)))


def fits_of(bench: Bench) -> int:
    return sum(isinstance(entry_of(row), TookEffect) for row in bench.journal.rows())


def test_it_is_served_with_fits_in_the_background_and_replayed() -> None:
    bench = Bench(spec(estimator="extra-trees", **SMALL), snapshot_every=40)
    play(bench, 0, 40)
    bench.work()
    play(bench, 40, 60)
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="here")))
    alive = bench.digest()
    assert verify(bench.journal).digest == alive
    bench.reopened()
    assert bench.digest() == alive
    play(bench, 60, 110)
    bench.work()
    play(bench, 110, 120)
    assert fits_of(bench) > 1
    assert verify(bench.journal).digest == bench.digest()


def test_no_request_waits_for_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for one that never ends, nor after a restart for that in force; when it is made it takes effect, and is replayed."""
    bench = Bench(spec(estimator="extra-trees", **SMALL))
    play(bench, 0, 60)
    bench.work()
    before, go_on, fit = fits_of(bench), threading.Event(), ensemble.fit_members

    def slow(*given: Any) -> Any:
        assert go_on.wait(60)
        return fit(*given)

    with monkeypatch.context() as hung:
        hung.setattr(ensemble, "fit_members", slow)
        play(bench, 60, 160)
        assert fits_of(bench) == before
        go_on.set()
        bench.work()
    assert fits_of(bench) > before
    with monkeypatch.context() as made:
        bench.reopened()
        made.setattr(
            ensemble, "fit_members", lambda *given: pytest.fail("it was made before the experiment was ready")
        )
        read(bench.decide({"event_id": "next", "context": {"x": 0.5}}))
    assert verify(bench.journal).digest == bench.digest()


def test_a_journal_that_tells_of_a_fit_that_is_not_there_is_refused() -> None:
    state = ExperimentState(spec(estimator="extra-trees", **SMALL))
    for work in (0, 1, -1):
        with pytest.raises(
            tr.InvalidInput, match=r"no fit under way with the mark|not done in the background"
        ):
            state.background.take(work, [7])


def test_fits_inside_other_models_wait_for_their_keeper_too() -> None:
    within = [
        tr.Auto(
            2, 2, candidates=["standardised", {"model": "ensemble", "estimator": "extra-trees", **SMALL}]
        ),
        tr.Features("sklearn.preprocessing:StandardScaler", Ensemble("extra-trees", 2, 2, **SMALL), first=20),
    ]
    for model in within:
        for one in model.background():
            one.deferred = True
        taught(model, 60)
        due = [(one, job) for one in model.background() if (job := one.due()) is not None]
        assert due, model
        for one, job in due:
            fits = one.fits
            one.take(job())
            assert one.fits == fits + 1


def test_an_estimator_as_plain_data_and_what_it_takes() -> None:
    data = "sklearn.tree:DecisionTreeRegressor", {"max_depth": 3}
    assert as_data(DecisionTreeRegressor(max_depth=3), None) == data
    assert recipe(*data).weighted
    assert not recipe("sklearn.neighbors:KNeighborsRegressor", {"n_neighbors": 3}).weighted
    assert weight_count([2, 3, 1]) == 13
