"""OPB: how its indices depend on the noise, and what the paper claims of its mixtures with radii for the noise that there is."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr

SETTINGS = {"safe_cost": -0.1, "horizon": 2000, "cost_range": (-0.1, 0.9)}


def indices(policy):
    why = policy.propose().explain()
    return why.rewards, why.rewards - why.values


def test_radii_scale_with_the_noise_and_the_papers_are_those_of_one():
    rng = np.random.default_rng(0)
    paper, half = (
        tr.policies.OPB(4, **SETTINGS, reward_noise=R, cost_noise=Q) for R, Q in ((1.0, 1.0), (0.5, 0.25))
    )
    assert np.array_equal(paper.constants, tr.policies.OPB(4, **SETTINGS).constants)
    for policy in (paper, half):
        policy.counts += rng.integers(20, 40, 4)
    half.counts[...] = paper.counts
    w = np.sqrt(2 * math.log(2000**2) / paper.counts)
    np.testing.assert_allclose(indices(paper)[0], (1 + 2 / 0.1) * w)
    np.testing.assert_allclose(indices(half)[0], (0.5 + 2 * 0.25 / 0.1) * w)
    np.testing.assert_allclose(indices(half)[1][1:], np.minimum(0.9, 0.25 * w[1:]))


def test_with_the_radii_of_bernoulli_outcomes_every_mixture_keeps_the_constraint_and_regret_is_lower():
    env, T = tr.environments.bandit(threshold=0.1), 2000
    costs, regrets = env.costs[0, :, 0], []
    for R in (1.0, 0.5):
        policy = tr.policies.OPB(4, **SETTINGS, reward_noise=R, cost_noise=R)
        regrets.append(tr.simulate(policy, env, T, 6, workers=1).regret.mean[-1])
    assert regrets[1] < 0.95 * regrets[0]
    rng, beyond = np.random.default_rng(1), 0
    for seed in range(3):
        policy = tr.policies.OPB(4, **SETTINGS, reward_noise=0.5, cost_noise=0.5, seed=seed)
        for _ in range(T):
            decision = policy.decide()
            assert costs @ decision.probabilities <= 1e-12
            beyond += decision.probabilities[0] < 1
            a = decision.action
            reward, usage = rng.random(2) < (env.rewards[0, a], costs[a] + 0.1)
            policy.learn(decision, float(reward), [usage - 0.1])
    assert beyond > 3000


@pytest.mark.parametrize("name", ["reward_noise", "cost_noise"])
def test_there_is_some_noise(name):
    with pytest.raises(tr.InvalidInput, match=f"{name} must be finite and > 0"):
        tr.policies.OPB(4, **SETTINGS, **{name: 0.0})
