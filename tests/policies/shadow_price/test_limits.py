"""Limits that are moved while running: restated memory and models, debts paid back or forgiven."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import MIXED, RULES, Setting, equal_states, play
from tightrope.kernels import shadow
from tightrope.policies.hooks import restored


def make(at_most=0.6, cost=None, seen="before"):
    rules = tr.Rules([tr.Capacity("a", at_most=at_most)], actions=["a", "b"])
    return tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=rules)


def run(policy, T, seed=0):
    rng, taken = np.random.default_rng(seed), 0
    for _ in range(T):
        decision = policy.decide()
        taken += decision.name == "a"
        policy.learn(decision, (1.0, 0.2)[decision.action] + 0.1 * rng.normal())
    return taken / T


def test_a_limit_that_follows_from_other_fields_is_not_moved():
    @dataclass(frozen=True, repr=False)
    class Target(tr.rules.UsageRule):
        name: str
        target: float
        range: tuple[float, float] = (0.0, 1.0)
        among: None = None
        seen: str = "before"

        @property
        def at_most(self):
            return self.target + 0.1

    rules = tr.Rules([Target("hours", 0.5)], actions=["a", "b"])
    policy = tr.ShadowPrice(rules, reward=tr.ArmMeans(2))
    with pytest.raises(tr.InvalidInput, match=r"the limit of 'hours' follows from other fields of Target"):
        policy.change_limit("hours", 0.7)


@pytest.mark.parametrize("forgive", [False, True])
def test_what_was_in_excess_is_paid_back_or_forgiven(forgive):
    policy = make(0.6)
    assert 0.5 < run(policy, 500) <= 0.6
    policy.change_limit("a at most 0.6" if "a at most 0.6" in policy.rules.names else 0, 0.3, forgive=forgive)
    assert policy.rules.columns[0].rule.at_most == 0.3
    total = policy.totals[0]
    assert total <= 0.0
    assert 0.2 < run(policy, 2000) <= 0.3


def test_a_debt_stays_unless_it_is_forgiven():
    debts = []
    for forgive in (False, True):
        policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
        for _ in range(30):
            policy.learn(policy.commit(policy.quote(costs=[[0.5], [-0.5]]), 0), 1.0)
        assert policy.totals[0] == 15.0
        policy.change_limit(0, shift=0.1, forgive=forgive)
        debts.append(policy.totals[0])
        for _ in range(400):
            policy.learn(policy.decide(costs=[[0.6], [-0.4]]), 1.0)
        assert policy.totals[0] <= 0.0
    assert debts == [15.0, 0.0]


def test_costs_seen_before_are_restated_where_the_rule_is_in_force():
    setting = Setting("rules")
    policy = setting.make()
    play(policy, setting, 30)
    old = [entry.W.copy() for entry in policy._memory.entries]
    policy.change_limit(2, 0.25)
    for W, entry in zip(old, policy._memory.entries):
        expected = W.copy()
        if entry.force is None or entry.force[2]:
            expected[:, 2] += 0.25
        np.testing.assert_allclose(entry.W, expected, atol=1e-12)
    budget = tr.Budget("hours", at_most=0.25, among="B")
    rules = tr.Rules([*[*RULES][:2], budget], actions=["a", "b", "c", "d"])
    usage = {"hours": [0.1, 0.2, 0.3, 0.4]}
    decision = policy.decide(np.ones((4, 3)), usage=usage, group="B")
    np.testing.assert_allclose(decision.explain().costs, rules.costs(usage, "B"), atol=1e-12)
    play(policy, setting, 40, start=30)
    assert (
        restored(tr.ShadowPrice, policy.hooks.settings(), policy.hooks.state()).rules.columns[2].rule.at_most
        == 0.25
    )


def test_costs_seen_after_are_restated_in_the_model():
    setting = Setting("mixed")
    policy = setting.make()
    play(policy, setting, 60)
    x = np.random.default_rng(0).normal(size=(4, 3))
    before = policy.hooks.cost_model().means(x)
    policy.change_limit(3, 0.5)
    after = policy.hooks.cost_model().means(x)
    np.testing.assert_allclose(after[:, 1], before[:, 1] + 0.2, atol=1e-9)
    same(after[:, 0], before[:, 0])
    # What comes from now on is counted by the new limit.
    decision = policy.decide(x, usage={"hours": [0.1] * 4}, group="A")
    total = policy.totals[3]
    policy.learn(decision, 1.0, usage={"minutes": 0.75})
    assert policy.totals[3] - total == pytest.approx(0.25)
    play(policy, setting, 40, start=60)


def test_prices_are_solved_for_in_the_next_round():
    setting = Setting("before")
    policy = setting.make()
    play(policy, setting, 20)
    solves = policy._prices.core[shadow.SOLVES]
    policy.change_limit("0", shift=0.1)
    assert shadow.vector(policy._prices.core, shadow.CORRECTION)[0] == 0.0
    play(policy, setting, 1, start=20)
    assert policy._prices.core[shadow.SOLVES] == solves + 1


@pytest.mark.parametrize(
    ("rule", "given", "message"),
    [
        ("nobody", {"limit": 0.5}, "there is no constraint 'nobody'"),
        (9, {"limit": 0.5}, "rule must be below 4"),
        (0, {}, "give the new limit"),
        (0, {"limit": 0.5, "shift": 0.1}, "give the new limit"),
        (0, {"limit": np.nan}, "limit must be finite"),
        (0, {"limit": 7.0}, "at_most"),
        (1, {"limit": -3.0}, "at_most|outside"),
    ],
)
def test_what_can_not_be_changed_leaves_no_trace(rule, given, message):
    setting = Setting("mixed")
    policy = setting.make()
    play(policy, setting, 10)
    before, settings = policy.hooks.state(), policy.hooks.settings()
    with pytest.raises(tr.InvalidInput, match=message):
        policy.change_limit(rule, **given)
    assert equal_states(before, policy.hooks.state())
    assert policy.hooks.settings() == settings
    assert policy.rules is MIXED
    with pytest.raises(tr.InvalidInput, match="pass shift="):
        Setting("before").make().change_limit(0, 0.5)
