"""What the shadow-price policy says that it can't do."""

from __future__ import annotations

import tightrope as tr


def test_rules_that_exclude_each_other_are_named_with_the_way_to_the_conflict():
    rules = tr.Rules([tr.Share("a", at_least=0.6), tr.Budget("hours", at_most=0.3)], actions=["a", "b"])
    policy, told = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=rules), []
    policy.hooks.report_to(told.append)
    for _ in range(1100):
        decision = policy.decide(usage={"hours": [0.8, 0.1]})
        policy.learn(decision, reward=0.5)
    assert [one.kind for one in told] == ["rules that can't be met", "total above zero"]
    assert policy.infeasible.any()
    for k, rule in enumerate(rules):
        assert (str(rule) in told[0].message) == policy.infeasible[k]
    assert all("`policy.conflict()`" in one.remedy for one in told)
    assert policy.conflict() is not None


def test_rules_on_costs_that_were_never_seen_are_not_called_hopeless():
    policy, told = tr.ShadowPrice(reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=1), []
    policy.hooks.report_to(told.append)
    for _ in range(1100):
        policy.decide()
    assert [one.kind for one in told] == ["costs not seen"]
