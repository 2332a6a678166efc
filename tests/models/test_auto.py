"""Several models beside each other: the best predictor is followed, switches are rare and explained, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.models import Auto, Model
from tightrope.models.auto import FIRST_LOOK
from tightrope.models.sizes import Sizes
from tightrope.testing import ModelSuite

PAIR = ["arm-means", "standardised"]


class TestPair(ModelSuite):
    def make(self) -> Model:
        return Auto(3, 2, candidates=PAIR)


class TestTrees(ModelSuite):
    def make(self) -> Model:
        trees = {"model": "ensemble", "estimator": "extra-trees", "members": 3}
        return Auto(3, 2, candidates=["standardised", trees])


def taught(model: Model, n: int, *, slope: float = 1.0, seed: int = 0) -> Model:
    draw = np.random.default_rng(seed)
    for _ in range(n):
        x, a = draw.normal(size=2), int(draw.integers(3))
        model.learn(x, slope * x[0] * (a - 1.0) + 0.1 * draw.normal(), a)
    return model


def test_it_follows_what_predicts_best():
    model = taught(Auto(3, 2, candidates=PAIR), 300)
    assert model.names[0] == "arm-means"
    assert model.followed.kind == "standardised"
    assert len(model.switches) == 1
    assert model.switches[0].outcomes == FIRST_LOOK
    assert "standardised is followed since outcome 60" in model.why()
    rows, ids = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0, 2])
    assert np.array_equal(model.means(rows, ids), model.followed.means(rows, ids))
    assert np.array_equal(model.deviations(rows, ids), model.followed.deviations(rows, ids))


def test_chance_alone_makes_no_switch():
    """Of equal models none is better for sure: the first stays."""
    switched = [
        len(taught(Auto(3, 2, candidates=PAIR), 1000, slope=0.0, seed=seed).switches) for seed in range(4)
    ]
    assert sum(switched) <= 1
    assert "no other was better" in taught(Auto(3, 2, candidates=PAIR), 300, slope=0.0).why()


def test_errors_are_those_before_learning():
    """A literal computation: predict, weigh by the outcome's number, then learn."""
    draw = np.random.default_rng(1)
    model, twins = Auto(3, 2, candidates=PAIR), [tr.ArmMeans(3), tr.models.Standardised(3, 2)]
    seen, errors = [], []
    for _ in range(40):
        x, a = draw.normal(size=2), int(draw.integers(3))
        y = x[0] * a + draw.normal()
        said = [twins[0].means(None, [a])[0], twins[1].means(x[None], [a])[0]]
        seen.append(y)
        guess = np.mean(seen[:-1]) if len(seen) > 1 else 0.0
        said = [guess if np.isnan(one) else one for one in said]
        variance = np.var(seen)
        errors.append([0.0, 0.0] if variance == 0 else [(one - y) ** 2 / variance for one in said])
        for twin in twins:
            twin.learn(x if twin.n_features else None, y, a)
        model.learn(x, y, a)
    weights = np.arange(1, len(errors) + 1)
    # The first outcome has no variance to be measured in, and is passed over.
    expected = (weights[1:, None] * np.array(errors)[1:]).sum(axis=0) / weights.sum()
    assert np.allclose(list(model.errors.values()), expected, rtol=1e-9)


def test_a_drift_of_the_best_model_is_followed_with_a_half_life():
    def life(half_life):
        model = taught(Auto(3, 2, candidates=PAIR, half_life=half_life), 1500)
        assert model.followed.kind == "standardised"
        draw = np.random.default_rng(5)
        for _ in range(1500):  # Now features mislead: their meaning is another in every round.
            x, a = draw.normal(size=2), int(draw.integers(3))
            model.learn(x, float(draw.normal() * 3 * x[0] + a), a)
        return model

    errors = life(100).errors
    assert errors["arm-means"] < errors["standardised"]


def test_many_outcomes_at_once_say_who_is_best():
    draw = np.random.default_rng(0)
    x, a = draw.normal(size=(500, 2)), draw.integers(3, size=500)
    y = x[:, 0] * (a - 1.0)
    model = Auto(3, 2, candidates=PAIR)
    model.learn_many(x, y, a)
    assert model.n_learnt == 500
    assert model.followed.kind == "standardised"
    assert np.allclose(model.arrays()["moments"][0], y.mean())
    assert np.allclose(model.arrays()["moments"][1] / 500, y.var())


def test_a_policy_learns_with_it_and_goes_on_exactly(tmp_path):
    trees = {"model": "ensemble", "estimator": "extra-trees", "members": 3, "refit": "now"}
    policy = tr.ShadowPrice(reward=tr.Auto(2, 1, candidates=["standardised", trees]), constraints=1, seed=3)
    draw = np.random.default_rng(2)

    def live(policy, n):
        done = []
        for x in draw.uniform(-1, 1, (n, 1)):
            decision = policy.decide(x, np.array([[0.5], [-0.5]]))
            done.append(decision.action)
            policy.learn(decision, float(decision.action == (abs(x[0]) > 0.5)))
        return done

    live(policy, 250)
    model = policy.hooks.reward_model()
    assert model.names[1] == "extra-trees"
    assert model.followed.kind == "ensemble", model.why()
    policy.save(tmp_path / "policy")
    again = tr.load(tmp_path / "policy")
    assert again.hooks.reward_model().why() == model.why()
    state = draw.bit_generator.state
    first = live(policy, 60)
    draw.bit_generator.state = state
    assert live(again, 60) == first


def test_a_spec_names_it_in_one_word():
    spec = tr.spec.make_spec(
        {
            "actions": ["a", "b"],
            "context": {"x": {"type": "number", "min": 0, "max": 1}},
            "policy": {"reward": "auto"},
        }
    )
    policy = tr.policies.build.build_policy(spec.policies[0], spec.problem())
    assert isinstance(policy.hooks.reward_model(), Auto)
    assert policy.hooks.reward_model().names == ["standardised", "forest", "boosting"]


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ([], "candidates must be a list of models"),
        ("standardised", "candidates must be a list of models"),
        (["standardized"], r"candidates\[0\]: model must be one of"),
        ([{"model": "standardised", "centred": True, "colour": 3}], r"candidates\[0\]"),
    ],
)
def test_what_is_no_list_of_models_is_refused(candidates, words):
    with pytest.raises(tr.InvalidInput, match=words):
        Auto(2, 1, candidates=candidates)


def test_actions_with_features_of_their_own_share_their_models():
    model = Auto.sized(Sizes(5, 2, per_action=True), candidates=["standardised"])
    assert model.n_actions is None
    assert model.models[0].n_actions is None
    with pytest.raises(tr.InvalidInput, match="does not tell actions apart by their features"):
        Auto(None, 2, candidates=["arm-means"])
