"""What the pessimistic-optimistic policy says that it can't do, and that it says so when it is true."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr


def played(policy, rounds, reward=lambda a: 0.5, **offer):
    policy.hooks.report_to(lambda concern: None)
    for _ in range(rounds):
        decision = policy.decide(**offer)
        policy.learn(decision, reward(decision.action))
    return {one.kind: one for one in policy.concerns()}


@pytest.mark.parametrize("horizon", [None, 2000])
def test_epsilon_above_every_cost_until_the_round_that_is_named(horizon):
    eps = tr.Power(8.0, -0.5)
    policy = tr.PessimisticOptimistic(
        reward=tr.ArmMeans(2),
        constraints=1,
        slater=0.25,
        horizon=horizon,
        epsilon=eps,
        cost_range=(-0.25, 0.5),
    )
    said = played(policy, 600, costs=[[0.5], [-0.25]])["epsilon above every cost"]
    assert eps(1024) == 0.25
    assert "tightened by ε = 0.326, but no action gives back more than 0.25" in said.message
    assert "can't be met before round 1,024." in said.message
    for name in ("shadow-price", "horizon", "epsilon"):
        assert name in said.remedy
    assert "epsilon above every cost" in played(policy, 422, costs=[[0.5], [-0.25]])
    assert policy.rounds == 1022
    assert "epsilon above every cost" not in played(policy, 1, costs=[[0.5], [-0.25]])


def test_epsilon_that_never_falls():
    policy = tr.PessimisticOptimistic(
        reward=tr.ArmMeans(2), constraints=2, slater=0.25, epsilon=tr.Power(0.5, 0.0), cost_range=(-0.25, 0.5)
    )
    said = played(policy, 600, costs=[[0.5, 0.0], [-0.25, 0.0]])["epsilon above every cost"]
    assert said.message.endswith("can't be met in any round; the same holds for 1 more.")


@pytest.mark.parametrize("bonus", [1.0, 0.02])
def test_rewards_at_the_clip(bonus):
    rng = np.random.default_rng(0)
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(4, 12, bonus=bonus), constraints=0, horizon=5000
    )
    policy.hooks.report_to(lambda concern: None)
    at_clip = []
    for _ in range(700):
        x = rng.normal(size=12)
        decision = policy.decide(x / np.linalg.norm(x))
        at_clip.append((decision.explain().rewards == 1.0).mean())
        policy.learn(decision, float(rng.uniform()))
    kinds = [one.kind for one in policy.concerns()]
    if bonus == 1.0:
        assert "rewards at the clip" in kinds
        assert np.mean(at_clip[-100:]) > 0.95
    else:
        assert "rewards at the clip" not in kinds
        assert np.mean(at_clip[-100:]) < 0.05


@pytest.mark.parametrize("m", [1.0, 3.0])
def test_m_below_what_the_data_show(m):
    rng = np.random.default_rng(0)
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(2, m=m, bonus=0.1), constraints=0, horizon=3000)
    theta = np.array([2.0, -2.0])
    policy.hooks.report_to(lambda concern: None)
    for _ in range(3000):
        rows = rng.uniform(-0.5, 0.5, size=(3, 2))
        decision = policy.decide(rows)
        policy.learn(decision, float(rows[decision.row] @ theta + rng.normal(scale=0.1)))
    found = {one.kind: one for one in policy.concerns()}
    least = policy.hooks.reward_model().least_norm(3000.0)[0]
    assert 1.5 < least < np.linalg.norm(theta)
    if m == 1.0:
        assert (
            "m = 1 bounds the norm of the reward model's parameters" in found["m of the reward model"].message
        )
        assert f"their norm is at least {least:.3g}:" in found["m of the reward model"].message
    else:
        assert "m of the reward model" not in found


def test_an_m_that_is_right_is_never_doubted():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        model = tr.DisjointRidge(3, 3)
        theta = rng.normal(size=(3, 3))
        theta /= np.linalg.norm(theta)
        for n in range(2000):
            x = rng.normal(size=3)
            x /= np.linalg.norm(x)
            a = int(rng.integers(3))
            model.learn(x, theta[a] @ x + rng.normal(scale=0.5), a)
            if n % 100 == 99:
                assert model.least_norm(2000.0)[0] <= 1.0


def test_nothing_is_said_where_nothing_is_wrong():
    policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=5000)
    assert played(policy, 2000, reward=(0.9, 0.2).__getitem__, costs=[[0.5], [-0.5]]) == {}


def test_a_capped_tightening_is_no_concern_and_the_remedy_of_one_that_is_not():
    def after(rounds, **settings):
        policy = tr.PessimisticOptimistic(
            reward=tr.ArmMeans(2),
            constraints=1,
            slater=0.5,
            horizon=1_000,
            cost_range=(-0.01, 1.0),
            **settings,
        )
        policy.hooks.report_to(lambda concern: None)
        for _ in range(rounds):
            policy.learn(policy.decide(costs=[[-0.01], [0.5]]), reward=0.5)
        return {one.kind: one for one in policy.concerns()}

    found = after(600)["epsilon above every cost"]
    assert 'tightening "capped"' in found.remedy
    # Capped at δ/2 = 0.25, still above the 0.01 that an action gives back at most: it says so, and not what is in use already.
    capped = after(600, tightening="capped", epsilon=tr.Power(40.0, -0.5))["epsilon above every cost"]
    assert "ε = 0.25," in capped.message
    assert 'tightening="capped"' not in capped.remedy
