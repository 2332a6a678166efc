"""Greedy against its definition, and where it works."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from policy_tools import LINE, Literal, check_contract, same_on_blocks, stream
from tightrope.policies.greedy import Greedy


def make_greedy() -> Greedy:
    return Greedy(tr.Ridge(2))


def test_greedy_keeps_the_contract():
    check_contract(make_greedy, LINE)


def test_greedy_plays_the_best_estimate():
    policy, literal = Greedy(tr.Ridge(3)), Literal(3)
    for phi, _, r, _ in stream(1, 1):
        policy = policy.copy()
        decision = policy.decide(phi)
        means = [literal.mean(x) for x in phi]
        assert means[decision.row] >= max(means) - 1e-9
        policy.learn(decision, r[decision.row])
        literal.learn(phi[decision.row], r[decision.row])


def test_greedy_is_the_same_on_blocks():
    same_on_blocks(Greedy)


def test_greedy_needs_diverse_contexts():
    # Two actions, contexts on the circle: whatever is believed, both sides occur (covariate diversity).
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False) + 0.1
    x = np.column_stack([np.cos(angle), np.sin(angle)])
    diverse = tr.environments.Tabular(
        np.full(24, 1 / 24), x, x / 2, reward_noise="gaussian", reward_scale=0.5
    )
    run = tr.simulate(Greedy(tr.DisjointRidge(2, 2)), diverse, 1200, 10, seed=6, workers=1, record=[600])
    optimum = np.maximum(x[:, 0], x[:, 1]).mean() / 2
    late = 600 * optimum - (run.reward[:, 1] - run.reward[:, 0])
    assert late.mean() < 0.02 * 600 * optimum + 10

    stuck = tr.environments.Tabular([1.0], None, [[0.3, 0.8]])
    run = tr.simulate(Greedy(tr.Ridge(2)), stuck, 300, 4, seed=6, workers=1)
    assert np.all(run.counts[:, -1, 0] > 295), "without variety it holds on to what paid first"


def test_greedy_refuses_bad_settings():
    with pytest.raises(tr.InvalidInput, match="reward must be a"):
        Greedy(None)
