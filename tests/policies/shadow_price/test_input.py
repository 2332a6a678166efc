"""What a shadow-price policy is given: any unit, entries that are named where they are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import MIXED, D, J, K, Setting
from tightrope.policies import rule_costs
from tightrope.policies.constraints import finite_ranges
from tightrope.validation import LARGEST


def wrong(value, at=(1, 2), shape=(J, D)):
    array = np.ones(shape)
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": wrong(math.nan)}, r"features\[1, 2\] must be finite, but got nan"),
        ({"features": wrong(2e100)}, r"features\[1, 2\] must lie in \[-1e\+30, 1e\+30\], but got 2e\+100"),
        ({"costs": wrong(math.inf, (3, 1), (J, K))}, r"costs\[3, 1\] must be finite, but got inf"),
        ({"costs": wrong(-2e100, (3, 1), (J, K))}, r"costs\[3, 1\] must lie in"),
        ({"features": np.ones((J, 2))}, "features must have shape"),
        ({"costs": np.ones((2, K))}, "costs must have shape"),
        ({"usage": {"hours": 1.0}}, "usage and group need rules"),
        ({"group": "A"}, "usage and group need rules"),
        ({"cost_features": np.ones((J, D))}, "cost_features need a policy with cost="),
        ({"features": np.empty((0, D)), "costs": np.empty((0, K))}, "at least one action must be on offer"),
    ],
)
def test_what_is_refused(given, message):
    policy = Setting("before").make()
    for _ in range(3):
        with pytest.raises(tr.InvalidInput, match=message):
            policy.decide(**{"features": np.ones((J, D)), "costs": np.ones((J, K)), **given})
        policy.learn(policy.decide(np.ones((J, D)), np.ones((J, K))), 1.0)


@pytest.mark.parametrize("factor", [1e-60, 1e11])
def test_anything_else_will_do(factor):
    rng = np.random.default_rng(0)
    policy = Setting("before").make()
    for _ in range(20):
        decision = policy.decide(factor * rng.normal(size=(J, D)), factor * rng.normal(size=(J, K)))
        policy.learn(decision, factor * rng.normal())
        assert np.isfinite(decision.trace).all()


def test_cost_features_are_the_features_where_none_are_given():
    one, other = Setting("after").make(), Setting("after").make()
    rng = np.random.default_rng(0)
    for _ in range(10):
        x = rng.normal(size=(J, D))
        decisions = one.decide(x), other.decide(x, cost_features=x)
        same(decisions[0].trace, decisions[1].trace)
        for policy, decision in zip((one, other), decisions):
            policy.learn(decision, 1.0, [0.5, -0.5])
    unlike = tr.ShadowPrice(reward=tr.Ridge(D), cost=tr.Ridge(2), constraints=1)
    with pytest.raises(tr.InvalidInput, match="needs cost_features"):
        unlike.decide(np.ones((J, D)))


def test_groups_are_asked_for_and_kept_in_bounds(monkeypatch):
    monkeypatch.setattr(rule_costs, "_MAX_KEPT", 3)
    policy = Setting("mixed").make()
    given = policy._input
    with pytest.raises(tr.InvalidInput, match="group is missing"):
        given.in_force(None)
    assert given.in_force("A") is None
    for i in range(10):
        assert given.in_force(f"group {i}").tolist() == [True, True, False, True]
    assert len(given.rule_costs._forces) <= 3


@pytest.mark.parametrize("T", [0, 5])
def test_a_missing_group_leaves_no_trace(T):
    policy = Setting("mixed").make()
    for _ in range(T):
        policy.decide(np.ones((J, D)), usage={"hours": [0.5] * J}, group=())
    before = policy.hooks.state()
    with pytest.raises(tr.InvalidInput, match="group is missing"):
        policy.decide(np.ones((J, D)), usage={"hours": [0.5] * J})
    assert all(
        np.array_equal(array, before[name], equal_nan=True) for name, array in policy.hooks.state().items()
    )


class TestRanges:
    def test_of_rules_and_of_numbers(self):
        assert finite_ranges(2, None, None) is None
        same(finite_ranges(2, None, (0.0, 5.0)), [[0.0, 5.0]] * 2)
        same(finite_ranges(4, MIXED, None), MIXED.cost_range)
        with pytest.raises(tr.InvalidInput, match="comes from the rules"):
            finite_ranges(4, MIXED, (0.0, 1.0))
        with pytest.raises(tr.InvalidInput, match="cost_range"):
            finite_ranges(2, None, (0.0, math.inf))

    def test_a_declared_range_says_how_uncertain_costs_are(self):
        policy = tr.ShadowPrice(
            reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=1, cost_range=(0.0, 50.0)
        )
        decision = policy.decide()
        assert policy._cost.deviations()[0] == pytest.approx(25.0)
        # A first cost far from it does not change the unit: that was declared.
        size = policy._prices.core.copy()
        policy.learn(decision, 1.0, [0.001])
        same(policy._prices.core[:2], size[:2])
        assert policy._cost.deviations().max() > 5.0


def test_the_largest_number_is_taken():
    policy = Setting("before").make()
    decision = policy.decide(np.full((J, D), LARGEST), np.full((J, K), -LARGEST))
    policy.learn(decision, LARGEST)
    assert np.isfinite(decision.trace).all()
