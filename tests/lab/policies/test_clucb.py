"""CLUCB against its definition, and what its paper claims."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from policy_tools import LINE, PHI, allowed_failures, check_contract, reasons
from tightrope_lab.policies.clucb import CLUCB


def clucb(**changes) -> CLUCB:
    settings = {"baseline": 3, "baseline_reward": 0.6, "alpha": 0.2, "failure": 0.1}
    return CLUCB(tr.Ridge(2), **{**settings, **changes})


@pytest.mark.parametrize("baseline_reward", [0.6, [0.6]])
def test_clucb_keeps_the_contract(baseline_reward):
    check_contract(lambda: clucb(baseline_reward=baseline_reward), LINE)


def test_clucb_plays_as_written():
    rng = np.random.default_rng(2)
    theta, alpha, p = np.array([0.6, 0.4, 0.1]), 0.3, 0.2
    r_b = np.array([0.5, 0.2])
    policy = CLUCB(tr.Ridge(3), baseline=1, baseline_reward=r_b, alpha=alpha, failure=p)
    A, b, z, n = np.eye(3), np.zeros(3), np.zeros(3), 0
    safe, owed, kinds = 0.0, 0.0, []
    for _ in range(400):
        c = int(rng.integers(2))
        phi = np.abs(rng.normal(size=(4, 3)))
        phi /= np.linalg.norm(phi, axis=1, keepdims=True)
        root_beta = 1 + math.sqrt(2 * math.log(1 / p) + 3 * math.log((3 + n) / 3))
        inverse = np.linalg.inv(A)
        a = int(np.argmax([inverse @ b @ x + root_beta * math.sqrt(x @ inverse @ x) for x in phi]))
        new = z + phi[a]
        owed += r_b[c]
        lowest = inverse @ b @ new - root_beta * math.sqrt(new @ inverse @ new)
        optimistic = lowest + safe >= (1 - alpha) * owed
        policy = policy.copy()
        decision = policy.decide(phi, context=c)
        assert decision.action == (a if optimistic else 1)
        reward = theta @ phi[decision.action] + rng.normal(scale=0.1)
        policy.learn(decision, reward)
        if optimistic:
            z, A, b, n = new, A + np.outer(phi[a], phi[a]), b + reward * phi[a], n + 1
        else:
            safe += r_b[c]
        kinds.append(optimistic)
    assert 20 < sum(kinds) < 380


def test_clucb_with_a_model_for_each_action_is_the_same_on_blocks():
    rng = np.random.default_rng(3)
    split = CLUCB(tr.DisjointRidge(3, 2), baseline=0, baseline_reward=0.5, alpha=0.9)
    whole = CLUCB(tr.Ridge(6), baseline=0, baseline_reward=0.5, alpha=0.9)
    for _ in range(200):
        x = rng.normal(size=2)
        x /= 1.1 * np.linalg.norm(x)
        one, two = split.decide(x), whole.decide(np.kron(np.eye(3), x))
        assert one.action == two.action
        for policy, decision in ((split, one), (whole, two)):
            policy.learn(decision, 0.3 + 0.1 * decision.action)
    assert one.action or split._z.any()


def test_clucb_never_falls_below_its_share_of_the_baseline():
    # Finding the arm of 0.9 means trying the arms of 0.05, which LinUCB does without regard to the baseline.
    means, r_b, alpha = np.array([0.6, 0.05, 0.05, 0.9]), 0.6, 0.2
    n, p, T, arms = 20, 0.1, 800, np.eye(4)
    guarded = CLUCB(tr.Ridge(4), baseline=0, baseline_reward=r_b, alpha=alpha, failure=p)
    broken, learnt = {"guarded": 0, "unguarded": 0}, []
    for seed in range(n):
        for name, policy in (
            ("guarded", guarded.copy()),
            ("unguarded", tr.policies.LinUCB(tr.Ridge(4), horizon=10)),
        ):
            rng = np.random.default_rng(seed)
            choices = []
            for _ in range(T):
                decision = policy.decide(arms)
                choices.append(decision.action)
                policy.learn(decision, float(rng.random() < means[decision.action]))
            owed = (1 - alpha) * r_b * np.arange(1, len(choices) + 1)
            broken[name] += bool((np.cumsum(means[choices]) < owed - 1e-9).any())
            if name == "guarded":
                learnt.append(policy.hooks.reward_model().n_learnt)
    assert broken["guarded"] <= allowed_failures(n, p)
    assert broken["unguarded"] > n / 2
    assert min(learnt) > 50, "it must leave the baseline to prove anything"


def test_clucb_learns_what_linucb_learns_in_the_end():
    run = tr.simulate(clucb(), LINE, 1500, 6, seed=5, workers=1, record=[750])
    late = (run.reward[:, 1] - run.reward[:, 0]) / 750
    assert late.mean() > 0.95 * LINE.rewards.max()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0.0}, "alpha must lie in"),
        ({"baseline_reward": [0.5, 1.5]}, r"baseline_reward\[1\] must lie in"),
        ({"failure": 0.0}, "failure must lie in"),
    ],
)
def test_clucb_refuses_bad_settings(changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        clucb(**changes)


def test_clucb_refuses_bad_rounds_and_stays_as_it_was():
    policy = clucb()
    with pytest.raises(tr.InvalidInput, match="baseline must be on offer"):
        policy.decide(PHI[:2], actions=[0, 1])
    assert policy.decide(PHI).number == 0
    with pytest.raises(tr.InvalidInput, match="context must be a whole number below 1"):
        clucb(baseline_reward=[0.6]).decide(PHI)


def test_clucb_tells_other_settings_apart():
    assert "mean reward is 0.6" in reasons(clucb(baseline_reward=0.5), LINE)
    assert "1 contexts" in reasons(clucb(baseline_reward=[0.6, 0.6]), LINE)
