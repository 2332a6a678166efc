"""Half-lives of all linear models, against slow batch computations; without one nothing changes by a bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from tightrope.kernels import forgetting
from tightrope.models import hooks
from tightrope.testing import ModelSuite

HALF_LIFE = 40.0


class TestRidge(ModelSuite):
    def make(self):
        return tr.Ridge(3, half_life=300.0)


class TestDisjointRidge(ModelSuite):
    def make(self):
        return tr.DisjointRidge(4, 3, half_life=300.0)


class TestArmMeans(ModelSuite):
    def make(self):
        return tr.ArmMeans(3, half_life=300.0)


class TestStandardised(ModelSuite):
    def make(self):
        return tr.Standardised(4, 3, half_life=300.0)


def log(n=600, p=3, J=3, M=1, seed=0):
    """Rows, outcomes and actions of which the last is given up half-way; time that goes by here and there, when each came."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, p))
    rows /= 2.0 * np.linalg.norm(rows, axis=1, keepdims=True)
    actions = np.where(np.arange(n) < n // 2, rng.integers(J, size=n), rng.integers(J - 1, size=n))
    waits = np.where(rng.random(n) < 0.05, 10.0 * rng.random(n), 0.0)
    return (
        rows,
        5.0 + rows @ rng.normal(size=(p, M)) + rng.normal(size=(n, M)),
        actions,
        waits,
        np.cumsum(waits + 1.0),
    )


def taught(model, rows, outcomes, actions, waits):
    for row, y, a, wait in zip(rows, outcomes, actions.tolist(), waits):
        model.elapse(wait)
        model.learn(row if model.n_features else None, y, a)
    return model


def faded(ages, block):
    """By how much the ridge has faded since the block was last computed afresh: seldom by more than a twentieth."""
    w = forgetting.weight(ages, 0, block)
    assert 1.0 <= w <= 1.5
    return w


@pytest.mark.parametrize("n", [5, 90, 600])
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("M", [1, 2])
def test_ridge_models_are_the_weighted_regression(n, disjoint, M):
    rows, outcomes, actions, waits, when = log(n, M=M)
    model = (
        tr.DisjointRidge(3, 3, ridge=0.3, half_life=HALF_LIFE)
        if disjoint
        else tr.Ridge(3, ridge=0.3, half_life=HALF_LIFE)
    )
    model = taught(hooks.with_outputs(model, M), rows, outcomes, actions, waits)
    weights = 2.0 ** (-(when[-1] - when) / HALF_LIFE)
    for g in range(3 if disjoint else 1):
        mine = actions == g if disjoint else np.full(n, True)
        x, y, w = rows[mine], outcomes[mine], weights[mine, None]
        Sigma = 0.3 / faded(model.ages, g) * np.eye(3) + (w * x).T @ x
        theta = np.linalg.solve(Sigma, (w * x).T @ y).T
        sigma, inverse, found = (
            (model.sigma[g], model.sigma_inverse[g], model.theta[g])
            if disjoint
            else (model.sigma, model.sigma_inverse, model.theta)
        )
        np.testing.assert_allclose(sigma, Sigma, atol=1e-11)
        np.testing.assert_allclose(inverse, np.linalg.inv(Sigma), atol=1e-9)
        np.testing.assert_allclose(found.reshape(M, 3), theta, atol=1e-9)
        row = np.array([0.3, -0.2, 0.5])
        width = model.widths(row[None, :] if not disjoint else row)[g]
        expected = min(row @ np.linalg.inv(Sigma) @ row, row @ row / 0.3)
        assert width == pytest.approx(math.sqrt(expected), abs=1e-9)


def test_an_action_that_is_given_up_becomes_as_uncertain_as_one_that_was_never_tried():
    model = tr.DisjointRidge(2, 3, half_life=HALF_LIFE)
    rows, outcomes, *_ = log(200)
    for row, y in zip(rows, outcomes):
        model.learn(row, y, 0)
    assert model.widths(rows[0])[0] < 0.7 * np.linalg.norm(rows[0])
    for row, y in zip(np.tile(rows, (5, 1)), np.tile(outcomes, (5, 1))):
        model.learn(row, y, 1)
    assert model.widths(rows[0])[0] == pytest.approx(np.linalg.norm(rows[0]), rel=0.02)
    assert abs(model.means(rows[0])[0]) < 1e-3


class SlowStandardised:
    """What `kernels.standardised` keeps, computed anew from all weighted outcomes."""

    def __init__(self, rows, outcomes, actions, when):
        self.rows, self.outcomes, self.actions, self.when = rows, outcomes, actions, when

    def weights(self, i):
        return 2.0 ** (-(self.when[i] - self.when[: i + 1]) / HALF_LIFE)

    def extended(self, rows, learnt, g):
        """In the units of block g after so many outcomes: those when it last had half as many rows again.

        Of its first row it is the root mean squares, and nothing is centred.
        """
        mine = np.flatnonzero(self.actions[:learnt] == g)
        then, renewal = mine[0] if len(mine) else learnt, 2
        for count, i in enumerate(mine, start=1):
            if count >= renewal:
                then, renewal = i, math.floor(1.5 * count) + 1
        known = self.rows[: then + 1]
        scaled = rows / np.sqrt(np.mean(known**2, axis=0))
        if len(mine) >= 2:
            scaled = (rows - known.mean(axis=0)) / known.std(axis=0)
        return np.column_stack([scaled, np.full(len(rows), 2.0)])

    def centre_and_spread(self, i):
        w, y = self.weights(i), self.outcomes[: i + 1, 0]
        c = w @ y / w.sum()
        return c, w @ (y - c) ** 2 / w.sum()

    def block(self, i, g, ridge):
        mine = self.actions[: i + 1] == g
        z, y, w = (
            self.extended(self.rows[: i + 1][mine], i + 1, g),
            self.outcomes[: i + 1, 0][mine],
            self.weights(i)[mine],
        )
        return ridge * np.eye(z.shape[1]) + (w[:, None] * z).T @ z, z, y, w


def test_the_standardised_model_is_the_weighted_regression_about_the_weighted_mean():
    rows, outcomes, actions, waits, when = log(300)
    model = taught(tr.Standardised(3, 3, half_life=HALF_LIFE), rows, outcomes, actions, waits)
    slow, last = SlowStandardised(rows, outcomes, actions, when), len(rows) - 1
    ages = model.spread[-forgetting.ages_size(3) :]
    fresh = np.random.default_rng(1).normal(size=(4, 3))
    c, _ = slow.centre_and_spread(last)
    for g in range(3):
        Sigma, z, y, w = slow.block(last, g, 4.0 / faded(ages, g))
        theta = np.linalg.solve(Sigma, z.T @ (w * (y - c)))
        expected = c + slow.extended(fresh, last + 1, g) @ theta
        np.testing.assert_allclose(model.means(fresh, np.full(4, g)), expected, atol=1e-8)


def test_its_deviations_are_those_of_weighted_errors():
    rows, outcomes, actions, waits, when = log(300)
    model = taught(tr.Standardised(3, 3, half_life=HALF_LIFE), rows, outcomes, actions, waits)
    slow, last = SlowStandardised(rows, outcomes, actions, when), len(rows) - 1
    # Errors are of predictions made before their outcomes, so the whole of it again, step by step.
    twin, total, weight = tr.Standardised(3, 3, half_life=HALF_LIFE), 0.0, 0.0
    for i in range(len(rows)):
        g = int(actions[i])
        twin.elapse(waits[i])
        fade = 2.0 ** (-(1.0 + waits[i]) / HALF_LIFE)
        total, weight = fade * total, fade * weight
        if i:
            ages = twin.spread[-forgetting.ages_size(3) :].copy()
            ages[forgetting.TIME] += 1.0
            mine = actions[:i] == g
            w = (2.0 ** (-(when[i] - when[:i]) / HALF_LIFE))[mine]
            z, y = slow.extended(rows[:i][mine], i, g), outcomes[:i, 0][mine]
            Sigma = 4.0 / forgetting.weight(ages, 0, g) * np.eye(4) + (w[:, None] * z).T @ z
            c = slow.centre_and_spread(i - 1)[0]
            x = slow.extended(rows[i : i + 1], i, g)[0]
            e = outcomes[i, 0] - c - x @ np.linalg.solve(Sigma, z.T @ (w * (y - c)))
            h = x @ np.linalg.solve(Sigma, x)
            root = math.sqrt(2.0 * h / (1.0 + h))
            total, weight = total + root * e * e / (1.0 + h), weight + root
        twin.learn(rows[i], outcomes[i], g)
    _, signal = slow.centre_and_spread(last)
    noise = (signal + total) / (weight + 1.0)
    signal = max(noise, signal)
    ages = model.spread[-forgetting.ages_size(3) :]
    x = np.array([0.1, -0.3, 0.2])
    for g in range(3):
        ridge = 4.0 / faded(ages, g)
        z = slow.extended(x[None, :], last + 1, g)[0]
        inverse = np.linalg.inv(slow.block(last, g, ridge)[0])
        whole = min(z @ inverse @ z, z @ z / 4.0)
        hidden = min(whole, ridge * ((inverse @ z) ** 2).sum())
        whole, hidden = np.array([whole, hidden]) / max(1.0, whole)
        expected = math.sqrt(whole * (noise + (hidden / whole) ** 4 * (signal - noise)))
        assert model.deviations(x)[g] == pytest.approx(expected, abs=1e-9)


def test_arms_are_weighted_means():
    rows, outcomes, actions, waits, when = log(100, J=3)
    model = taught(tr.ArmMeans(3, half_life=HALF_LIFE), rows, outcomes, actions, waits)
    w = 2.0 ** (-(when[-1] - when) / HALF_LIFE)
    for g in range(3):
        mine = actions == g
        assert model.means()[g] == pytest.approx(w[mine] @ outcomes[mine, 0] / w[mine].sum())
        assert model.widths()[g] == pytest.approx(1.0 / math.sqrt(w[mine].sum()))


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [(tr.Ridge, (3,)), (tr.DisjointRidge, (3, 3)), (tr.ArmMeans, (3,)), (tr.Standardised, (3, 3))],
)
def test_a_half_life_beyond_all_time_forgets_nothing(kind, sizes):
    rows, outcomes, actions, _, _ = log(200)
    plain, patient = kind(*sizes), kind(*sizes, half_life=1e12)
    for model in (plain, patient):
        taught(model, rows, outcomes, actions, np.zeros(200))
    offered = (rows[:3], np.arange(3)) if plain.n_features else (None, np.arange(3))
    np.testing.assert_allclose(patient.means(*offered), plain.means(*offered), atol=1e-7)
    np.testing.assert_allclose(patient.deviations(*offered), plain.deviations(*offered), atol=1e-7)


@pytest.mark.parametrize(
    "make", [lambda h: tr.DisjointRidge(3, 3, half_life=h), lambda h: tr.Standardised(3, 3, half_life=h)]
)
def test_settings_of_a_model_without_one_are_what_they_were(make):
    arrays = make(None).arrays()
    assert "ages" not in arrays
    assert len(make(60.0).arrays()) == len(arrays) + (0 if "spread" in arrays else 1)
    old = {name: value for name, value in make(None).settings().items() if name != "half_life"}
    again = tr.models.model_from_settings(old)
    assert again.half_life is None
    for name, array in again.arrays().items():
        same(array, arrays[name])


def test_the_compiled_path_of_a_policy_is_the_plain_one():
    rows, outcomes, _, _, _ = log(400)
    policies = []
    for compiled in (True, False):
        policy = tr.ShadowPrice(reward=tr.DisjointRidge(3, 3, half_life=50.0), constraints=1, half_life=50.0)
        if not compiled:
            policy._fast = None
        policies.append(policy)
    W = np.array([[0.3], [-0.2], [-0.1]])
    for i, (row, y) in enumerate(zip(rows, outcomes)):
        decisions = [policies[0].decide(row, W), policies[1].decide(list(row), W.tolist(), actions=[0, 1, 2])]
        assert decisions[0].action == decisions[1].action, i
        policies[0].learn(decisions[0], float(y[0] + decisions[0].action))
        policies[1].learn(decisions[1].number, float(y[0] + decisions[1].action))
    same(policies[0]._reward.flat, policies[1]._reward.flat)


def test_whole_runs_are_compiled_and_the_same():
    env = tr.environments.synthetic(contexts=8, actions=4, features=3, constraints=2, seed=1)
    policy = tr.ShadowPrice(reward=tr.Ridge(3, half_life=100.0), constraints=2)
    assert policy.hooks.compiles()
    compiled = tr.simulate(policy, env, 400, 2, seed=0, workers=1)
    plain = tr.simulate(policy, env, 400, 2, seed=0, workers=1, compile=False)
    same(compiled.reward, plain.reward)
    same(compiled.cost, plain.cost)


# Half-lives in time


@pytest.mark.parametrize(
    "make",
    [
        lambda h: tr.Ridge(3, half_life=h),
        lambda h: tr.DisjointRidge(3, 3, half_life=h),
        lambda h: tr.ArmMeans(3, half_life=h),
        lambda h: tr.Standardised(3, 3, half_life=h),
        lambda h: tr.Logistic(3, 3, half_life=h),
        lambda h: tr.Features("splines", tr.Standardised(3, 3), first=20, half_life=h),
    ],
)
def test_told_a_second_with_every_outcome_it_is_one_that_counts_rounds(make):
    rows, outcomes, actions, _, _ = log(150)
    outcomes = (outcomes > 5.0).astype(float)
    by_rounds, by_time = make(3600.0), make("1h")
    assert by_time.copy().half_life == "1h"
    for model in (by_rounds, by_time):
        for i, (row, y, a) in enumerate(zip(rows, outcomes, actions.tolist())):
            if model is by_time and i:
                model.elapse(1.0)
            model.learn(row if model.n_features else None, y, a)
    offered = (rows[:3], np.arange(3)) if by_time.n_features else (None, np.arange(3))
    np.testing.assert_allclose(by_time.means(*offered), by_rounds.means(*offered), rtol=1e-3)
    np.testing.assert_allclose(by_time.deviations(*offered), by_rounds.deviations(*offered), rtol=1e-2)
    before = by_time.deviations(*offered)
    by_time.elapse(3600.0)
    after = by_time.deviations(*offered)
    # What is as uncertain as outcomes are noisy stays so.
    assert (after >= before).all()
    assert (after > 1.05 * before).any()


@pytest.mark.parametrize("value", ["2 hours", "h", "0s", "-3min", "", "1e3s"])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(tr.InvalidInput, match='a time such as "90s", "30min", "2h" or "7d"'):
        tr.Ridge(3, half_life=value)


def test_a_policy_tells_only_those_that_count_seconds():
    policy = tr.ShadowPrice(
        reward=tr.Ridge(3, half_life="30min"), cost=tr.Ridge(3, half_life=100.0), constraints=1
    )
    assert policy.hooks.counts_seconds
    assert not tr.ShadowPrice(reward=tr.Ridge(3, half_life=100.0)).hooks.counts_seconds
    ages = [model.spread[-forgetting.ages_size(1) :] for model in (policy._reward, policy._cost)]
    policy.hooks.elapse(90.0)
    assert [one[forgetting.TIME] for one in ages] == [90.0, 0.0]
    with pytest.raises(tr.InvalidInput, match="seconds must be finite and >= 0"):
        policy.hooks.elapse(-1.0)
