"""What rules cost in reward, on programs that can be solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr


def played(rules: tr.Rules, rewards: list[float], rounds: int = 300) -> tr.ShadowPrice:
    policy = tr.ShadowPrice(reward=tr.ArmMeans(len(rewards)), constraints=rules)
    for _ in range(rounds):
        decision = policy.decide()
        policy.learn(decision, reward=rewards[decision.action])
    return policy


def test_each_rule_costs_what_is_earned_without_it() -> None:
    rules = tr.Rules(
        [tr.Capacity("a", at_most=0.25), tr.Share("c", at_least=0.1), tr.Capacity("b", at_most=0.9)],
        ["a", "b", "c"],
    )
    policy = played(rules, [1.0, 0.5, 0.1])
    before = policy.hooks.state()
    found = policy.hooks.cost_of_rules()
    assert found is not None
    # A quarter a, a tenth c, the rest b; without the first all but a tenth a, without the second no c.
    means = policy._reward.means()
    np.testing.assert_allclose(means, [1.0, 0.5, 0.1], atol=0.02)
    assert found.reward == pytest.approx(np.dot([0.25, 0.65, 0.1], means))
    assert found.without["capacity a"] == pytest.approx(np.dot([0.9, 0.0, 0.1], means))
    assert found.without["share c"] == pytest.approx(np.dot([0.25, 0.75, 0.0], means))
    assert found.without["capacity b"] == found.reward, "not felt"
    assert found.rounds == 300
    for name, array in policy.hooks.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_nothing_is_said_of_what_is_not_known() -> None:
    rules = tr.Rules([tr.Budget("heat", at_most=0.25)], ["a", "b"])
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=rules)
    for i in range(120):
        assert i >= 100 or policy.hooks.cost_of_rules() is None
        policy.learn(policy.decide(usage={"heat": 0.5}), reward=0.5)
    assert policy.hooks.cost_of_rules() is None, "no choice keeps the rule"
