"""What policies with constraints are given: one x for rewards and costs, outcomes in one set of units."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

import tightrope as tr
from tightrope.errors import PolicyWarning

RULES = tr.Rules(
    [
        tr.Capacity("a", at_most=0.5),
        tr.Budget("minutes", at_most=20, range=(0, 60), seen="after"),
        tr.Budget("cents", at_most=4, range=(0, 10), seen="after", among="paid"),
    ],
    actions=["a", "b"],
)
X = np.array([0.6, 0.8])
KINDS = {
    "shadow-price": tr.ShadowPrice,
    "pessimistic-optimistic": partial(tr.PessimisticOptimistic, slater=0.1, horizon=100),
}


@pytest.fixture(params=KINDS)
def make(request):
    def policy(constraints=RULES):
        return KINDS[request.param](constraints, tr.DisjointRidge(2, 2), tr.DisjointRidge(2, 2))

    return policy


def same(*policies):
    states = [one.hooks.state() for one in policies]
    for name in states[0]:
        for other in states[1:]:
            np.testing.assert_array_equal(states[0][name], other[name], err_msg=name)


def test_one_x_is_the_features_of_costs_too(make):
    """Said once, said twice, or by its name, in a policy whose costs are all seen after acting and in one with both kinds."""
    for constraints, group in ((1, {}), (RULES, {"group": "paid"})):
        policies = [make(constraints) for _ in range(3)]
        for _ in range(4):
            policies[0].decide(X, **group)
            policies[1].decide(X, X, **group)
            policies[2].decide(X, cost_features=X, **group)
        same(*policies)
    narrow = tr.ShadowPrice(constraints=1, reward=tr.DisjointRidge(2, 2), cost=tr.DisjointRidge(2, 3))
    with pytest.raises(tr.InvalidInput, match="needs cost_features"):
        narrow.decide(X)


def test_costs_known_before_acting_must_be_given_where_no_rule_makes_them(make):
    policy = make(["before", "after"])
    for _ in range(3):
        policy.learn(policy.decide(X, [[0.5], [-0.5]]), 0.5, [0.1])
    with pytest.raises(tr.InvalidInput, match=r"costs are missing: they have shape \(J, 1\)"):
        policy.decide(X)
    assert policy.rounds == 3


def test_an_outcome_may_be_told_in_any_of_three_ways(make):
    minutes, cents = 30.0, 7.0
    late = [(minutes - 20) / 60, (cents - 4) / 10]
    told = [
        {"usage": {"minutes": minutes, "cents": cents}},
        {"costs": late},
        {"costs": [0.5, *late]},
    ]
    policies = [make() for _ in told]
    for policy, outcome in zip(policies, told):
        for _ in range(3):
            policy.learn(policy.decide(X, group="paid"), 0.5, **outcome)
    for policy in policies:
        np.testing.assert_allclose(policy.totals[1:], 3 * np.array(late), rtol=1e-12)
    same(policies[1], policies[2])
    with pytest.raises(tr.InvalidInput, match="pass numbers by name as usage="):
        policies[0].learn(policies[0].decide(X, group="paid"), 0.5, told[0]["usage"])
    with pytest.raises(tr.InvalidInput, match="costs must have shape"):
        policies[0].learn(policies[0].decide(X, group="paid"), 0.5, [0.1, 0.2, 0.3, 0.4])


def test_a_warm_start_takes_usage_as_learn_does(make):
    n, actions = 6, ["a", "b", "a", "b", "b", "a"]
    x, rewards = np.random.default_rng(0).uniform(0.1, 0.6, (n, 2)), np.linspace(0.0, 1.0, n)
    minutes, cents, groups = np.linspace(0, 60, n), np.linspace(0, 10, n), ["paid", "free"] * 3
    late = np.column_stack(
        [(minutes - 20) / 60, [(c - 4) / 10 if g == "paid" else 0.0 for c, g in zip(cents, groups)]]
    )
    np.testing.assert_allclose(
        RULES.logged({"minutes": minutes, "cents": cents}, actions, groups, after=True), late, atol=1e-12
    )
    by_name, by_costs, by_all = make(), make(), make()
    by_name.warm_start(x, actions, rewards, usage={"minutes": minutes, "cents": cents}, group=groups)
    made = RULES.logged({"minutes": minutes, "cents": cents}, actions, groups)
    by_costs.warm_start(x, actions, rewards, made[:, 1:])
    by_all.warm_start(x, actions, rewards, made)
    same(by_name, by_costs, by_all)
    assert made[:, 0].tolist() == [0.5 if one == "a" else -0.5 for one in actions]
    for given, says in (
        ({"costs": made, "usage": {"minutes": minutes}}, "give costs, or usage by name, not both"),
        ({"usage": [1.0]}, "usage must be a mapping"),
        ({"usage": {"minutes": minutes, "cents": cents}}, "group is missing"),
        ({"usage": {"minutes": minutes}, "group": groups}, r"usage\['cents'\] is missing"),
        (
            {"usage": {"minutes": minutes, "cents": cents}, "group": groups[:2]},
            "group must be that of each of 6",
        ),
    ):
        with pytest.raises(tr.InvalidInput, match=says):
            make().warm_start(x, actions, rewards, **given)
    with pytest.raises(tr.InvalidInput, match="usage needs rules"):
        make(1).warm_start(x, actions, rewards, usage={"minutes": minutes})


def test_rewards_outside_the_unit_interval_are_told_once_by_the_papers_policy():
    policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=100)
    twin = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=100)
    offer = {"costs": [[0.5], [-0.5]]}
    noise = np.random.default_rng(0).normal(0.5, 1.0, 400)
    for reward in (0.0, 1.0, True, np.float64(0.3), -1.0, 2.0, *noise):
        policy.learn(policy.decide(**offer), reward)
    assert policy.concerns() == []
    fresh = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=100)
    with pytest.warns(PolicyWarning, match=r"1 reward lies outside \[0, 1\], all of them in \[0, 7\]"):
        fresh.learn(fresh.decide(**offer), 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh.learn(fresh.decide(**offer), -3.0)
    [concern] = fresh.concerns()
    assert concern.kind == "rewards outside [0, 1]"
    assert "2 rewards lie outside [0, 1], all of them in [-3, 7]" in concern.message
    assert "shadow-price" in concern.remedy
    with pytest.warns(PolicyWarning, match="4 rewards lie outside"):
        twin.warm_start(None, [0, 1, 0, 1, 1], [2.0, 3.0, 0.5, -1.0, 9.0])
    low = twin.copy()
    low.learn(low.decide(**offer), -3)
    with pytest.warns(PolicyWarning, match=r"in \[-3, 1\]"):
        low.warm_start(None, [0] * 12, [-3] * 12)
    free = tr.ShadowPrice(constraints=1, reward=tr.ArmMeans(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for reward in (7.0, -3.0):
            free.learn(free.decide(**offer), reward)
    assert free.concerns() == []


def test_rewards_outside_are_learnt_as_those_inside_are():
    """The way that such rewards take through the code is another; what is learnt is the same formula."""
    scaled, plain = (tr.PessimisticOptimistic(reward=tr.Ridge(2), slater=0.5, horizon=100) for _ in range(2))
    rows = np.eye(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PolicyWarning)
        for i in range(20):
            for policy, unit in ((scaled, 4.0), (plain, 1.0)):
                decision = policy.commit(policy.quote(features=rows), i % 2)
                policy.learn(decision, unit * (i % 5) / 4)
    np.testing.assert_allclose(
        scaled.hooks.reward_model().means(rows), 4.0 * plain.hooks.reward_model().means(rows), rtol=1e-12
    )
