"""Logistic regression: the contract of all models, a batch fit, extreme probabilities, forgetting, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

import tightrope as tr
from tightrope.testing import ModelSuite


class TestShared(ModelSuite):
    def make(self):
        return tr.Logistic(n_features=3)


class TestDisjoint(ModelSuite):
    def make(self):
        return tr.Logistic(4, 3)


class TestArms(ModelSuite):
    def make(self):
        return tr.Logistic(3, 0)


class TestForgetting(ModelSuite):
    def make(self):
        return tr.Logistic(2, 3, half_life=200.0)


class TestOnlineAlone(ModelSuite):
    def make(self):
        return tr.Logistic(n_features=3, keep=0)


UNITS, OFFSETS = np.array([1.0, 10.0, 0.01, 100.0]), np.array([0.0, 50.0, 1.0, -1000.0])


def world(n, intercept=0.0, slope=1.0, seed=0):
    """Rows in all sorts of units, outcomes, and their true probabilities."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 4))
    truth = expit(intercept + slope * rows @ [1.0, -1.0, 0.5, 0.2])
    return rows * UNITS + OFFSETS, (rng.random(n) < truth).astype(float), truth


def taught(model, rows, outcomes, actions=None):
    for i, (row, y) in enumerate(zip(rows, outcomes)):
        model.learn(row, y, None if actions is None else int(actions[i]))
    return model


def batch_fit(Z, y, ridge, offset, weights=None):
    """θ and Σ of the penalised likelihood, by another solver."""
    w = np.ones(len(y)) if weights is None else weights

    def loss(theta):
        t = Z @ theta + offset
        return w @ (np.logaddexp(0.0, t) - y * t) + ridge / 2 * theta @ theta

    def slope(theta):
        return Z.T @ (w * (expit(Z @ theta + offset) - y)) + ridge * theta

    found = minimize(
        loss, np.zeros(Z.shape[1]), jac=slope, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}
    ).x
    p = expit(Z @ found + offset)
    return found, ridge * np.eye(Z.shape[1]) + (Z * (w * p * (1 - p))[:, None]).T @ Z


@pytest.mark.parametrize(
    ("n", "intercept", "slope", "half_life"),
    [
        (100, 0.0, 1.0, None),
        (3000, 0.0, 1.0, None),
        (3000, -4.0, 1.0, None),
        (3000, 0.0, 3.0, None),
        (3000, 0.0, 1.0, 400.0),
    ],
)
def test_it_is_the_batch_fit_within_a_third_of_a_standard_deviation(n, intercept, slope, half_life):
    rows, outcomes, _ = world(n, intercept, slope)
    model = taught(tr.Logistic(n_features=4, half_life=half_life), rows, outcomes)
    Z = np.column_stack([(rows - model.units[0]) / model.units[1], np.ones(n)])
    weights = None if half_life is None else 2.0 ** (-(n - 1 - np.arange(n)) / half_life)
    theta, Sigma = batch_fit(Z, outcomes, 2.0 / model.prior**2, model.offset[0], weights)
    deviations = np.sqrt(np.einsum("ni,ij,nj->n", Z, np.linalg.inv(Sigma), Z))
    m, s = model.logits(rows)
    assert np.abs((m[:, 0] - Z @ theta - model.offset[0]) / deviations).max() < 1 / 3
    np.testing.assert_allclose(s[:, 0], deviations, rtol=0.12)


def test_it_agrees_with_scikit_learn_where_data_are_many():
    from sklearn.linear_model import LogisticRegression

    rows, outcomes, _ = world(5000, intercept=-2.0)
    model = taught(tr.Logistic(n_features=4), rows, outcomes)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    batch = LogisticRegression(C=1e6, tol=1e-8).fit(scaled, outcomes).predict_proba(scaled)[:, 1]
    assert np.abs(model.means(rows) - batch).max() < 0.01


@pytest.mark.parametrize("slope", [2.0, 4.0])
def test_it_is_better_than_a_linear_model_where_probabilities_are_extreme(slope):
    rows, outcomes, _ = world(1500, intercept=-2.0, slope=slope)
    fresh, _, truth = world(500, intercept=-2.0, slope=slope, seed=1)
    scale = np.abs(rows).max(axis=0)
    errors = [
        np.sqrt(np.mean((taught(model, rows / scale, outcomes).means(fresh / scale) - truth) ** 2))
        for model in (tr.Logistic(n_features=4), tr.Standardised(n_features=4))
    ]
    assert errors[0] < errors[1] / 3


def test_means_and_deviations_are_those_of_a_probability_whose_logit_is_normal():
    rows, outcomes, _ = world(40)
    model = taught(tr.Logistic(n_features=4), rows, outcomes)
    m, s = model.logits(rows)
    drawn = expit(m + s * np.random.default_rng(0).normal(size=40_000))
    np.testing.assert_allclose(model.means(rows), drawn.mean(axis=1), atol=0.01)
    np.testing.assert_allclose(model.deviations(rows), drawn.std(axis=1), atol=0.01)


@pytest.mark.parametrize("n_actions", [None, 2])
def test_draws_have_the_law_of_the_logits(n_actions):
    rows, outcomes, _ = world(60)
    actions = np.arange(60) % 2
    model = taught(tr.Logistic(n_actions, 4), rows, outcomes, actions)
    rng = np.random.default_rng(0)
    drawn = np.array(
        [model.sampled(rows[:2], actions[:2], 1.0, lambda n, _: rng.normal(size=n)) for _ in range(4000)]
    )
    m, s = model.logits(rows[:2], actions[:2])
    np.testing.assert_allclose(logit(drawn).mean(axis=0), m[:, 0], atol=0.1)
    np.testing.assert_allclose(logit(drawn).std(axis=0), s[:, 0], rtol=0.05)


def test_units_do_not_matter():
    rows, outcomes, _ = world(300)
    base = taught(tr.Logistic(n_features=4), rows, outcomes)
    other = taught(tr.Logistic(n_features=4), 1e3 * rows + 5.0, outcomes)
    np.testing.assert_allclose(other.means(1e3 * rows + 5.0), base.means(rows), atol=0.02)


def test_an_action_that_was_never_tried_is_expected_to_do_as_all_others():
    model = tr.Logistic(3, 1)
    for i in range(512):
        model.learn([float(i % 7)], float(i % 50 == 0), i % 2)
    means, deviations = model.means([3.0]), model.deviations([3.0])
    assert means[2] < 0.15
    assert deviations[2] > 3 * deviations[0]
    assert model.never_learnt().tolist() == [False, False, True]


def test_outcomes_may_lie_between_other_limits():
    rows, outcomes, _ = world(400)
    unit = taught(tr.Logistic(n_features=4), rows, outcomes)
    model = taught(tr.Logistic(n_features=4, low=-0.3, high=1.7), rows, 2.0 * outcomes - 0.3)
    np.testing.assert_allclose(model.means(rows), 2.0 * unit.means(rows) - 0.3)
    np.testing.assert_allclose(model.deviations(rows), 2.0 * unit.deviations(rows))
    before = model.means(rows)
    model.shift(0, 0.1)
    np.testing.assert_allclose(model.means(rows), before + 0.1)
    model.learn(rows[0], 1.8)


def test_what_is_forgotten_makes_room_for_what_is_new():
    rng = np.random.default_rng(0)
    models = {h: tr.Logistic(2, 2, half_life=h) for h in (None, 100.0)}
    for t in range(3000):
        x = rng.normal(size=2)
        chance = expit(2.0 * x[0] * (1.0 if t < 2000 else -1.0))
        y = float(rng.random() < chance)
        for model in models.values():
            model.learn(x, y, 0)
    now = {h: model.means([1.0, 0.0], [0])[0] for h, model in models.items()}
    assert now[100.0] == pytest.approx(expit(-2.0), abs=0.1)
    assert now[None] > 0.4


def test_time_that_goes_by_makes_it_less_sure():
    rows, outcomes, _ = world(200)
    model = taught(tr.Logistic(n_features=4, half_life=100.0), rows, outcomes)
    before = model.logits(rows[:1])[1]
    model.elapse(100.0)
    assert model.logits(rows[:1])[1] == pytest.approx(math.sqrt(2.0) * before, rel=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tr.Logistic(n_features=0), "needs n_actions"),
        (lambda: tr.Logistic(n_features=2, prior=0.0), "prior must be finite and > 0"),
        (lambda: tr.Logistic(n_features=2, low=1.0), "low must be below high"),
        (lambda: tr.Logistic(n_features=2, half_life=0.5), "half_life must be finite and >= 1"),
        (
            lambda: tr.Logistic(n_features=2).learn([1.0, 0.0], 1.5),
            r"outcome\[0\] must lie in \[.*, 1\], but got 1.5. .* low and high",
        ),
        (lambda: tr.Logistic(n_features=2).learn([1.0, 0.0], math.nan), "outcome"),
        (lambda: tr.Logistic(n_features=2).learn([1.0, math.inf], 1.0), "features"),
        (lambda: tr.Logistic(3, 2).learn([1.0, 0.0], 1.0, 3), "action must be below 3"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(tr.InvalidInput, match=message):
        make()


@pytest.mark.parametrize("kind", [tr.ShadowPrice, tr.policies.Greedy])
def test_a_policy_that_is_given_an_impossible_outcome_stays_as_it_was(kind):
    policy = kind(reward=tr.Logistic(3, 2))
    policy.learn(policy.decide([1.0, 0.5]), 1.0)
    decision, before = policy.decide([1.0, 0.5]), policy.hooks.state()
    with pytest.raises(tr.InvalidInput, match="must lie in"):
        policy.learn(decision, 1.5)
    for name, array in policy.hooks.state().items():
        np.testing.assert_array_equal(array, before[name])
    policy.learn(decision, 1.0)


def test_costs_of_which_one_is_impossible_leave_no_trace():
    policy = tr.ShadowPrice(
        reward=tr.DisjointRidge(3, 2), cost=tr.Logistic(3, 2, low=-0.3, high=0.7), constraints=1
    )
    decision, before = policy.decide([1.0, 0.5]), policy.hooks.state()
    with pytest.raises(tr.InvalidInput, match="must lie in"):
        policy.learn(decision, 1.0, [0.9])
    for name, array in policy.hooks.state().items():
        np.testing.assert_array_equal(array, before[name])
    policy.learn(decision, 1.0, [0.7])


@pytest.mark.parametrize("size", [0.3, 1.0, 2.4, 5.0])
def test_intervals_cover_effects_of_any_size(size):
    covered = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        beta, rows, new = (
            size * rng.choice([-1.0, 1.0], 3),
            rng.normal(size=(300, 3)),
            rng.normal(size=(100, 3)),
        )
        model = taught(tr.Logistic(n_features=3), rows, rng.random(300) < expit(rows @ beta))
        m, s = model.logits(new)
        covered.append(np.abs(m[:, 0] - new @ beta) <= 1.96 * s[:, 0])
    assert np.mean(covered) >= 0.9


def test_the_penalty_falls_only_where_effects_are_large():
    penalties = []
    for slope in (0.0, 0.3, 3.0):
        rows, outcomes, _ = world(400, slope=slope)
        penalties.append(taught(tr.Logistic(n_features=4), rows, outcomes).penalty)
    first = 4 / 1.75**2
    assert penalties[:2] == pytest.approx([first, first])
    assert penalties[2] < first / 10
    assert taught(tr.Logistic(n_features=4), rows, np.zeros(400)).penalty == pytest.approx(first)
    assert taught(tr.Logistic(n_features=4, keep=0), rows, outcomes).penalty == pytest.approx(first)


@pytest.mark.parametrize("half_life", [None, 100.0])
def test_a_copy_of_the_state_learns_on_as_the_original_does(half_life):
    rows, outcomes, _ = world(300, slope=4.0)
    model = taught(tr.Logistic(n_features=4, half_life=half_life, keep=128), rows[:200], outcomes[:200])
    twin = tr.Logistic(n_features=4, half_life=half_life, keep=128)
    for name, array in model.arrays().items():
        twin.arrays()[name][...] = array
    assert twin.penalty == model.penalty < 4 / 1.75**2
    for one in (model, twin):
        taught(one, rows[200:], outcomes[200:])
    for name, array in model.arrays().items():
        np.testing.assert_array_equal(twin.arrays()[name], array)
