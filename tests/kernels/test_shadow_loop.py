"""The simulator's compiled loop of the shadow-price policy makes the choices of the policy itself, round by round."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from tightrope.engine.cpu import compiled
from tightrope.engine.recording import Terms
from tightrope.environments import Tabular

T = 400


def run(policy, env, rounds=T, compile=True):
    return tr.simulate(
        policy, env, rounds=rounds, replications=2, seed=5, workers=1, keep_choices=True, compile=compile
    )


def plain_run(policy, env):
    return run(policy, env, compile=False)


def random_world(seed, C=9, J=4, p=3, K=2, costs_seen="before", available=None, per_action=True, twice=False):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(C, J, p) if per_action else (C, p))
    phi /= 1.01 * np.linalg.norm(phi, axis=-1, keepdims=True)
    rewards = rng.uniform(0.1, 0.9, size=(C, J))
    costs = np.clip(0.9 * (rewards[:, :, None] - 0.5) + 0.3 * rng.normal(size=(C, J, K)) - 0.1, -1, 1)
    costs[:, 0] = -0.3
    if twice:
        phi[1], rewards[1], costs[1] = phi[0], rewards[0], costs[0]
    return Tabular(
        rng.dirichlet(np.ones(C)),
        phi,
        rewards,
        costs,
        available=available,
        costs_seen=costs_seen,
        cost_noise="none",
    )


def sleeping(C=9, J=4, seed=0):
    rng = np.random.default_rng(seed)
    available = rng.uniform(size=(C, J)) < 0.6
    available[:, 0] = True
    return available


WORLDS = {
    "before": (lambda: random_world(0), lambda: {"reward": tr.Ridge(3)}),
    "arms of their own": (
        lambda: random_world(1, per_action=False),
        lambda: {"reward": tr.DisjointRidge(4, 3)},
    ),
    "after": (
        lambda: random_world(2, costs_seen="after"),
        lambda: {"reward": tr.Ridge(3), "cost": tr.Ridge(3)},
    ),
    "after, arms of their own": (
        lambda: random_world(3, costs_seen="after", per_action=False),
        lambda: {"reward": tr.DisjointRidge(4, 3), "cost": tr.DisjointRidge(4, 3)},
    ),
    "sleeping actions": (lambda: random_world(4, available=sleeping()), lambda: {"reward": tr.Ridge(3)}),
    "sleeping actions, after": (
        lambda: random_world(5, available=sleeping(), costs_seen="after"),
        lambda: {"reward": tr.Ridge(3), "cost": tr.Ridge(3)},
    ),
    "contexts that look the same": (lambda: random_world(6, twice=True), lambda: {"reward": tr.Ridge(3)}),
    "a small memory": (lambda: random_world(7), lambda: {"reward": tr.Ridge(3), "memory": 12}),
    "guard": (lambda: random_world(8), lambda: {"reward": tr.Ridge(3), "guard": True}),
    "no caution": (lambda: random_world(8), lambda: {"reward": tr.Ridge(3), "caution": 0.0}),
    "bandit": (
        lambda: tr.environments.bandit(threshold=0.5, costs_seen="after"),
        lambda: {"reward": tr.ArmMeans(4), "cost": tr.ArmMeans(4), "constraints": 1},
    ),
    "a least chance": (lambda: random_world(8), lambda: {"reward": tr.Ridge(3), "least_chance": 0.3}),
    "a least chance, sleeping actions, after": (
        lambda: random_world(5, available=sleeping(), costs_seen="after"),
        lambda: {"reward": tr.Ridge(3), "cost": tr.Ridge(3), "least_chance": 0.3},
    ),
    "no constraints": (lambda: random_world(9), lambda: {"reward": tr.Ridge(3), "constraints": 0}),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_loop_makes_the_policys_choices(name):
    world, given = WORLDS[name]
    env, policy = world(), tr.ShadowPrice(**{"constraints": 2, **given()})
    compiled, plain = run(policy, env), plain_run(policy, env)
    same(compiled.choices, plain.choices)
    same(compiled.cost, plain.cost)
    same(compiled.reward, plain.reward)


def test_a_policy_goes_on_from_where_it_stands():
    env = random_world(0)
    policy = tr.ShadowPrice(reward=tr.Ridge(3), constraints=2, memory=30)
    rng = np.random.default_rng(1)
    for _ in range(50):
        c = rng.integers(env.n_contexts)
        decision = policy.decide(np.array(env.features[c]), np.array(env.costs[c]))
        policy.learn(decision, float(env.rewards[c, decision.action]))
    before = policy.hooks.state()
    same(run(policy, env).choices, plain_run(policy, env).choices)
    assert all(
        np.array_equal(array, before[key], equal_nan=True) for key, array in policy.hooks.state().items()
    )


def test_rounds_of_another_world_are_left_to_the_policy_itself():
    env = random_world(0)
    policy = tr.ShadowPrice(reward=tr.Ridge(3), constraints=2)
    policy.learn(policy.decide(np.ones((2, 3)), np.zeros((2, 2))), 1.0)
    assert compiled(policy, env, Terms.of(30, 1, 0, [30], False)) is None
    assert run(policy, env, rounds=30).choices.shape == (2, 30)


def test_warm_started_with_the_worlds_own_rounds():
    env = random_world(0)
    policy = tr.ShadowPrice(reward=tr.Ridge(3), constraints=2)
    offers = [{"features": env.features[c], "costs": env.costs[c]} for c in range(env.n_contexts)]
    policy.warm_start(env.features[:, 0], None, env.rewards[:, 0], offers=offers)
    same(run(policy, env).choices, plain_run(policy, env).choices)
