"""Worlds that change: what the policy does when its models find out, on every path; and that it needs no half-life for it."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.kernels import shadow
from tightrope.policies.shadow_price.fast_path import ShadowPath
from tightrope_lab.league.entries import ROSTER
from tightrope_lab.league.scenarios import scenario

SWITCH, ROUNDS = 1_500, 2_600


def play(policy, *, late=False):
    """Three actions under a budget; in round SWITCH the best becomes the worst. Returns the choices and the changes found."""
    rng = np.random.default_rng(3)
    chosen, seen = [], []
    for t in range(ROUNDS):
        x = rng.normal(size=2)
        best = np.array([1.0, 0.5, 0.0]) + 0.1 * x[0]
        if t >= SWITCH:
            best[0] -= 0.8
        noise, use = 0.3 * rng.normal(), np.array([0.7, 0.2, -0.4])
        decision = policy.decide(x) if late else policy.decide(x, use[:, None])
        chosen.append(decision.row)
        cost = {"costs": [use[decision.row] + 0.05 * noise]} if late else {}
        policy.learn(decision, float(best[decision.row] + noise), **cost)
        seen.append(policy.hooks.reward_model().changes)
    return np.array(chosen), np.array(seen)


def made(late=False, **settings):
    cost = {"cost": tr.DisjointRidge(3, 2)} if late else {}
    return tr.ShadowPrice(reward=tr.DisjointRidge(3, 2), constraints=1, **cost, **settings)


@pytest.mark.parametrize("late", [False, True])
def test_a_change_is_found_soon_and_prices_are_solved_for_again(late):
    policy = made(late)
    chosen, changes = play(policy, late=late)
    found = int(np.argmax(changes > 0)) + 1
    assert SWITCH < found < SWITCH + 300
    assert (changes[:SWITCH] == 0).all()
    core = policy._prices.core
    assert core[shadow.CHANGES] == changes[-1]
    assert SWITCH < core[shadow.CHANGED] <= ROUNDS
    assert core[shadow.NEXT_SOLVE] < 2 * ROUNDS - SWITCH, "rounds count from the change"
    before, after = (np.bincount(part, minlength=3) for part in (chosen[:SWITCH], chosen[-300:]))
    assert before[0] > before[1]
    assert after[1] > 2 * after[0], "what was best is so no longer"


@pytest.mark.parametrize("late", [False, True])
def test_the_fast_path_and_the_careful_one_do_the_same(late, monkeypatch):
    fast, changes = play(made(late), late=late)
    assert changes[-1] >= 1
    monkeypatch.setattr(ShadowPath, "fits", staticmethod(lambda beliefs: False))
    careful, again = play(made(late), late=late)
    np.testing.assert_array_equal(fast, careful)
    np.testing.assert_array_equal(changes, again)


def test_a_saved_policy_goes_on_alike_through_a_change(tmp_path):
    whole, _ = play(made())
    policy = made()
    rng = np.random.default_rng(3)
    chosen = []
    for t in range(ROUNDS):
        if t == SWITCH + 60:
            policy.save(tmp_path / "policy")
            policy = tr.load(tmp_path / "policy")
        x = rng.normal(size=2)
        best = np.array([1.0, 0.5, 0.0]) + 0.1 * x[0]
        if t >= SWITCH:
            best[0] -= 0.8
        noise, use = 0.3 * rng.normal(), np.array([0.7, 0.2, -0.4])
        decision = policy.decide(x, use[:, None])
        chosen.append(decision.row)
        policy.learn(decision, float(best[decision.row] + noise))
    np.testing.assert_array_equal(chosen, whole)


@pytest.mark.parametrize("name", ["switching-best", "seasons"])
def test_the_compiled_loop_finds_the_same_changes(name):
    found = scenario(name)
    policy = ROSTER["shadow-price"].make(found, 4_000)
    runs = [
        tr.simulate(policy, found.env, 4_000, 1, seed=1, workers=1, compile=compiled, progress=False)
        for compiled in (True, False)
    ]
    np.testing.assert_array_equal(runs[0].regret.paths, runs[1].regret.paths)


@pytest.mark.parametrize("name", ["switching-best", "seasons", "slow-drift"])
def test_no_half_life_does_much_better(name):
    """The best of three half-lives, chosen in hindsight, on the same draws."""
    found = scenario(name)
    policies = [ROSTER["shadow-price"].make(found, 10_000)] + [
        tr.ShadowPrice(
            reward=tr.DisjointRidge(4, 3, half_life=half_life),
            constraints=found.env.n_constraints,
            half_life=half_life,
        )
        for half_life in (500, 1_000, 2_000)
    ]
    ours, *others = (
        tr.simulate(one, found.env, 10_000, 6, seed=0, workers=1, progress=False).regret.mean[-1]
        for one in policies
    )
    assert ours <= 1.3 * min(others)


def test_where_nothing_changes_nothing_is_lost():
    """The same choices as without the test for changes: it gives no false alarm."""
    for name in ("hospital", "bandit-slack", "wine"):
        found = scenario(name)
        policy = ROSTER["shadow-price"].make(found, 3_000)
        env = found.env
        rng = np.random.default_rng(0)
        for _ in range(3_000):
            c = rng.choice(env.n_contexts, p=env.weights)
            features = None if env.features is None else env.features[c]
            before = {} if env.costs_seen == "after" else {"costs": env.costs[c]}
            decision = policy.decide(features, **before)
            mean = env.rewards[c, decision.action]
            policy.learn(
                decision,
                float(rng.random() < mean),
                **({} if before else {"costs": env.costs[c, decision.action]}),
            )
        assert policy.hooks.reward_model().changes == 0, name
