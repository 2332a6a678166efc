"""A half-life: what is remembered and measured counts half after so many rounds, by every path."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import COMPILED, SETTINGS, Setting, actions, equal_states, play
from tightrope.kernels import shadow


def arms(**settings):
    return tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1, **settings)


def ages(policy, T):
    """How many rounds ago each remembered round was; its cost says which it was."""
    for t in range(T):
        policy.learn(policy.decide(costs=[[1.0 + t], [-1.0 - t]]), 0.5)
    return T - np.array([entry.W[0, 0] for entry in policy._memory.entries if entry is not None])


@pytest.mark.parametrize("half_life", [60.0, 300.0])
def test_half_of_what_is_remembered_is_younger(half_life):
    found = np.concatenate([ages(arms(half_life=half_life, memory=128, seed=s), 1500) for s in range(4)])
    # Each leaves with the same probability in every round, so that ages are exponential.
    assert np.mean(found < half_life) == pytest.approx(0.5, abs=0.08)
    assert np.mean(found < 2 * half_life) == pytest.approx(0.75, abs=0.08)


def test_more_is_not_remembered_than_counts():
    policy = arms(half_life=100.0)
    ages(policy, 600)
    assert len(policy._memory) == int(100.0 / np.log(2.0))
    assert arms(half_life=1.0)._prices.core[shadow.CAPACITY] == -2048
    policy = arms(half_life=1.0)
    ages(policy, 200)
    assert len(policy._memory) == shadow.LEAST_CAPACITY


def test_prices_are_solved_for_at_least_four_times_in_a_half_life():
    policy, begun = arms(half_life=80.0), []
    for t in range(1, 400):
        before = policy._prices.core[shadow.NEXT_SOLVE]
        policy.learn(policy.decide(costs=[[0.5], [-0.5]]), 0.5)
        if policy._prices.core[shadow.NEXT_SOLVE] != before:
            begun.append(t)
    assert begun[:5] == [2, 4, 8, 16, 32]
    assert (np.diff(begun[5:]) == 21).all()
    assert len(begun) > 18


@pytest.mark.parametrize("name", SETTINGS)
def test_without_one_nothing_changes_and_an_endless_one_is_none(name):
    setting = Setting(name)
    plain, none, endless = setting.make(), setting.make(half_life=None), setting.make(half_life=1e9)
    chosen = [actions(play(one, setting, 60)) for one in (plain, none, endless)]
    assert chosen[0] == chosen[1] == chosen[2]
    assert equal_states(plain.hooks.state(), none.hooks.state())
    assert len(endless._prices.core) == len(plain._prices.core) + 1


@pytest.mark.parametrize("name", COMPILED)
def test_the_careful_way_decides_alike(name, monkeypatch):
    setting = Setting(name, half_life=20.0, memory=16)
    fast, careful = setting.make(), setting.make()
    monkeypatch.setattr(careful, "_wake", -1)
    one, other = [], []
    for t in range(80):
        one += play(fast, setting, 1, start=t)
        careful._wake = -1
        other += play(careful, setting, 1, start=t)
    for a, b in zip(one, other):
        same(a.trace, b.trace)
    assert equal_states(fast.hooks.state(), careful.hooks.state())


@pytest.mark.parametrize("seen", ["before", "after"])
def test_a_compiled_run_is_a_plain_run(seen):
    env = tr.environments.synthetic(
        contexts=40, actions=4, features=3, constraints=2, slater=0.2, costs_seen=seen
    )
    cost = tr.Ridge(3) if seen == "after" else None
    policy = tr.ShadowPrice(reward=tr.Ridge(3), cost=cost, constraints=2, half_life=150.0, memory=64)
    assert policy.hooks.compiles()
    runs = [
        tr.simulate(policy, env, 700, 2, seed=1, workers=1, optimum=0.0, keep_choices=True, compile=compile)
        for compile in (True, False)
    ]
    np.testing.assert_array_equal(runs[0].choices, runs[1].choices)


def test_a_file_holds_it(tmp_path):
    setting = Setting("before", half_life=30.0)
    policy = setting.make()
    play(policy, setting, 75)
    policy.save(tmp_path / "policy")
    twin = tr.load(tmp_path / "policy")
    assert twin.hooks.settings()["half_life"] == 30.0
    assert "half_life=30" in repr(twin)
    assert actions(play(policy, setting, 40, start=75)) == actions(play(twin, setting, 40, start=75))
    assert equal_states(policy.hooks.state(), twin.hooks.state())


def test_a_policy_goes_on_with_another():
    """What is remembered is cut to what counts from then on, and the oldest of it is soon replaced."""
    old, new = arms(), arms(half_life=60.0)
    ages(old, 300)
    assert len(old._memory) == 300
    new.hooks.resume(old, same_costs=True)
    assert new.rounds == 300
    assert len(new._memory) == int(60.0 / np.log(2.0)) == new._prices.core[shadow.REMEMBERED]
    for t in range(600):
        new.learn(new.decide(costs=[[1000.0 + t], [-1000.0 - t]]), 0.5)
    assert len(new._memory) == 86
    assert sum(entry.W[0, 0] < 1000.0 for entry in new._memory.entries if entry is not None) <= 1


def test_scales_forget():
    """Costs a hundred times larger for a while: after twenty half-lives their scale is what it was."""
    found = {}
    for half_life in (None, 50.0):
        policy = arms(half_life=half_life)
        for t in range(1700):
            size = 100.0 if 500 <= t < 600 else 1.0
            policy.learn(policy.decide(costs=[[0.5 * size], [-0.5 * size]]), 0.5)
        found[half_life] = float(policy.hooks.cost_sizes()[0])
    assert found[50.0] == pytest.approx(0.5, rel=0.05)
    assert found[None] > 5.0


def test_it_must_be_a_number_of_rounds():
    for bad in (0.0, -3.0, np.nan, "long"):
        with pytest.raises(tr.InvalidInput, match="half_life"):
            arms(half_life=bad)


def test_a_gpu_refuses():
    env = tr.environments.synthetic(contexts=5, actions=2, features=3, constraints=1, slater=0.2)
    with pytest.raises(tr.InvalidInput, match="with a half_life; use engine='cpu'"):
        tr.simulate(tr.ShadowPrice(reward=tr.Ridge(3), constraints=1, half_life=10.0), env, 10, engine="gpu")


def test_prices_follow_a_world_that_has_changed():
    """Half of the rounds may take the action that costs. What it is worth in the median round is its price: 0.2, then 0.8."""
    prices, above = {}, {}
    for half_life in (None, 200.0):
        policy = tr.ShadowPrice(reward=tr.Ridge(2), constraints=1, half_life=half_life)
        rng, totals = np.random.default_rng(0), []
        for t in range(3500):
            worth = rng.uniform(0.0, 0.4) + (0.6 if t >= 2500 else 0.0)
            x = np.array([[worth, 0.0], [0.0, 1.0]])
            decision = policy.decide(x, np.array([[0.5], [-0.5]]))
            policy.learn(decision, worth if decision.action == 0 else 0.0)
            totals.append(policy.totals[0])
        prices[half_life] = float(shadow.vector(policy._prices.core, shadow.PRICE)[0])
        assert max(totals[500:2500]) <= 0.0
        above[half_life] = int(np.sum(np.array(totals[2500:]) > 0.0))
    assert prices[200.0] == pytest.approx(0.8, abs=0.06)
    assert prices[None] < 0.4
    # Costs are known before acting: whatever the price, no action leads the total above zero while another does not.
    assert above == {None: 0, 200.0: 0}
