"""Rules that can't be met on what was seen: which, by how much, and that none is made up."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from shadow_tools import Setting, play
from tightrope.lp import least_moves


def test_an_infeasible_pair_is_named_with_its_smallest_relaxation():
    # Usage differs from what was declared: each action uses much of one, so that both budgets together can't be kept.
    rules = tr.Rules(
        [tr.Budget("hours", at_most=0.3), tr.Budget("beds", at_most=0.3), tr.Capacity("a", at_most=0.9)],
        actions=["a", "b"],
    )
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=rules)
    for _ in range(300):
        decision = policy.decide(usage={"hours": [0.8, 0.1], "beds": [0.1, 0.8]})
        policy.learn(decision, 1.0)
    found = policy.conflict()
    assert found.rules == (rules.names[0], rules.names[1])
    # x of a: hours 0.1 + 0.7 x, beds 0.8 − 0.7 x: together 0.9, where 0.6 is allowed.
    assert sum(found.relaxation.values()) == pytest.approx(0.3, abs=1e-6)
    assert "can't be met together on what was seen" in str(found)


def test_a_rule_that_can_not_be_met_alone():
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=2)
    for _ in range(300):
        policy.learn(policy.decide(costs=[[0.3, -0.5], [0.2, -0.5]]), 1.0)
    assert policy.infeasible.tolist() == [True, False]
    found = policy.conflict()
    assert found.rules == ("0",)
    assert found.relaxation == {"0": pytest.approx(0.2)}
    assert str(found).startswith("0 can't be met on what was seen")


def test_moves_are_told_in_the_rules_own_units():
    rules = tr.Rules([tr.Budget("hours", at_most=2.0, range=(0.0, 10.0))], actions=["a", "b"])
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=rules)
    for _ in range(100):
        policy.learn(policy.decide(usage={"hours": [5.0, 4.0]}), 1.0)
    assert policy.conflict().relaxation == {rules.names[0]: pytest.approx(2.0)}


def test_costs_that_are_learnt_can_be_in_conflict():
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=1)
    for _ in range(300):
        decision = policy.decide()
        policy.learn(decision, 1.0, [(0.5, 0.25)[decision.action]])
    assert policy.conflict().rules == ("0",)
    assert policy.infeasible[0]


@pytest.mark.parametrize("name", ["before", "after", "rules", "mixed"])
def test_none_where_all_can_be_met(name):
    setting = Setting(name)
    policy = setting.make()
    assert policy.conflict() is None
    play(policy, setting, 100)
    assert policy.conflict() is None
    assert not policy.infeasible.any()


def test_asking_changes_nothing():
    setting = Setting("after")
    policy = setting.make()
    play(policy, setting, 20)
    before = policy.hooks.state()
    policy.conflict()
    assert all(
        np.array_equal(array, before[name], equal_nan=True) for name, array in policy.hooks.state().items()
    )


def test_moves_of_the_rules_that_are_asked_for():
    weights, costs = np.array([1.0, 3.0]), np.array([[1.0, -1.0], [0.5, 1.0], [-0.2, 0.4]])
    np.testing.assert_allclose(least_moves(weights, costs, [2, 1], [0]), [0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(least_moves(weights, costs, [2, 1], [1]), [0.0, 0.05], atol=1e-9)
    np.testing.assert_allclose(least_moves(weights, costs, [2, 1], []), [0.0, 0.0])
