"""Rules of both kinds in one simulation: the same as a slow loop that speaks to the policy in words."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.engine.cpu import policy_seed
from tightrope.environments.build import environment_of, policies_of
from tightrope.spec import make_spec
from tightrope_lab.draws import environment_draws

ROUNDS, LIMIT = 500, 0.4
ACTIONS = ["email", "call", "visit"]
RULES = tr.Rules(
    [tr.Capacity("visit", at_most=0.3), tr.Budget("hours", at_most=LIMIT, seen="after", range=(0, 1))],
    actions=ACTIONS,
)
X = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.6]])
HOURS = np.array([[0.1, 0.5, 0.9], [0.2, 0.3, 0.8], [0.0, 0.4, 0.6]])
REWARDS = np.array([[0.2, 0.5, 0.8], [0.4, 0.3, 0.9], [0.1, 0.6, 0.7]])


def table(noise="bernoulli", **rest):
    costs = np.stack([RULES.costs({"hours": hours}) for hours in HOURS])
    given = {"cost_range": RULES.cost_range, "costs_seen": ["before", "after"], "cost_noise": noise, **rest}
    return tr.environments.Tabular([0.5, 0.3, 0.2], X, REWARDS, costs, actions=ACTIONS, **given)


def made(kind, constraints=RULES):
    models = {"reward": tr.DisjointRidge(3, 2), "cost": tr.DisjointRidge(3, 2)}
    ranges = {} if constraints is RULES else {"cost_range": RULES.cost_range}
    if kind == "shadow-price":
        return tr.ShadowPrice(**models, constraints=constraints, **ranges)
    return tr.PessimisticOptimistic(**models, constraints=constraints, slater=0.1, horizon=ROUNDS, **ranges)


def slow_loop(policy, env, seed, replication):
    """Every round by hand, usage in words: choices, and the totals of what was drawn."""
    draws = environment_draws(env, seed, replication, ROUNDS)
    choices, totals = [], np.zeros(2)
    for t, c in enumerate(draws.contexts):
        decision = policy.decide(X[c])
        a = decision.action
        hours = HOURS[c, a] if draws.costs is None else draws.costs[t, a, 1] + LIMIT
        policy.learn(decision, float(draws.uniforms[t] < REWARDS[c, a]), usage={"hours": hours})
        choices.append(a)
        totals += ((a == 2) - 0.3, hours - LIMIT)
    return choices, totals


@pytest.mark.parametrize("noise", ["none", "bernoulli"])
@pytest.mark.parametrize("kind", ["shadow-price", "pessimistic-optimistic"])
def test_rules_of_both_kinds_are_played_as_by_hand(kind, noise):
    env = table(noise)
    by_hand = [
        slow_loop(made(kind).copy(policy_seed(3, replication)), env, 3, replication)
        for replication in range(2)
    ]
    for options in ({}, {"compile": False}):
        run = tr.simulate(made(kind), env, ROUNDS, 2, seed=3, keep_choices=True, workers=1, **options)
        for replication, (choices, totals) in enumerate(by_hand):
            assert run.choices[replication].tolist() == choices
            np.testing.assert_allclose(run.cost[replication, -1], totals, atol=1e-9)


@pytest.mark.parametrize("kind", ["shadow-price", "pessimistic-optimistic"])
def test_a_policy_may_be_told_when_each_cost_is_seen_without_rules(kind, tmp_path):
    env, policy = table(), made(kind, ["before", "after"])
    runs = [tr.simulate(one, env, 300, seed=1, keep_choices=True) for one in (made(kind), policy)]
    assert runs[0].choices.tolist() == runs[1].choices.tolist()
    known = [[-0.3], [-0.3], [0.7]]
    policy.learn(policy.decide(X[0], known), 0.5, [0.1])
    policy.save(tmp_path / "state")
    again = tr.load(tmp_path / "state")
    assert [again.decide(X[1], known).action for _ in range(9)] == [
        policy.decide(X[1], known).action for _ in range(9)
    ]
    with pytest.raises(tr.InvalidInput, match="one of them for each of 2 constraints, but got"):
        made(kind, ["before", "later"])
    with pytest.raises(tr.InvalidInput, match="cost is a model of costs that are seen after acting"):
        made(kind, ["before", "before"])


def spec_of(**more):
    return make_spec(
        {
            "name": "outreach",
            "actions": ACTIONS,
            "rule": [
                {"kind": "capacity", "action": "visit", "at_most": 0.3},
                {"kind": "budget", "name": "hours", "at_most": LIMIT, "seen": "after", "range": [0, 1]},
            ],
            "environment": {
                "kind": "tabular",
                "weights": [0.5, 0.3, 0.2],
                "features": X.tolist(),
                "rewards": REWARDS.tolist(),
                "usage": {"hours": HOURS.tolist()},
            },
            **more,
        }
    )


def test_a_spec_may_have_rules_of_both_kinds():
    spec = spec_of()
    env = environment_of(spec)
    assert env.costs_seen == ("before", "after")
    [policy] = policies_of(spec, env).values()
    run = tr.simulate(policy, env, ROUNDS, seed=3, keep_choices=True)
    choices, totals = slow_loop(made("shadow-price").copy(policy_seed(3, 0)), env, 3, 0)
    assert run.choices[0].tolist() == choices
    np.testing.assert_allclose(run.cost[0, -1], totals, atol=1e-9)


def test_a_table_takes_its_rules_as_they_are():
    frame = {"a": X[:, 0], "b": X[:, 1]} | {f"r{j}": REWARDS[:, j] for j in range(3)}
    frame |= {f"h{j}": HOURS[:, j] for j in range(3)}
    env = tr.environments.from_table(
        frame,
        context=["a", "b"],
        reward={name: f"r{j}" for j, name in enumerate(ACTIONS)},
        usage={"hours": {name: f"h{j}" for j, name in enumerate(ACTIONS)}},
        rules=RULES,
    )
    assert env.costs_seen == ("before", "after")
    after = tr.Rules([tr.Budget("hours", at_most=LIMIT, seen="after")], actions=ACTIONS)
    alone = tr.environments.from_table(
        frame,
        context=["a", "b"],
        reward={name: f"r{j}" for j, name in enumerate(ACTIONS)},
        usage={"hours": {name: f"h{j}" for j, name in enumerate(ACTIONS)}},
        rules=after,
    )
    assert alone.costs_seen == "after"
    models = {"reward": tr.DisjointRidge(3, 3), "cost": tr.DisjointRidge(3, 3)}
    run = tr.simulate(tr.ShadowPrice(**models, constraints=RULES), env, 2_000, seed=0, warn=False)
    assert (run.cost[0, -1] <= 20).all()


def test_the_optimum_knows_which_costs_a_choice_can_depend_on():
    """Costs drawn before acting are part of the context, those after count by their means: against both pure cases."""
    rewards, costs = [[0.2, 0.8]], [[[-0.25, -0.25], [0.25, 0.25]]]

    def value(*seen):
        env = tr.environments.Tabular(
            [1.0], None, rewards, costs, cost_noise="bernoulli", cost_range=(-0.5, 0.5), costs_seen=seen
        )
        return tr.solve(env)

    blind, first, both = value("after", "after"), value("before", "after"), value("before", "before")
    assert (blind.baseline, first.baseline, both.baseline) == ("fluid", "joint", "joint")
    assert len(first.atoms.weights) == 4
    assert set(first.atoms.costs[:, 1, 1]) == {0.25}
    # The constraint seen after acting binds as it does where nothing is seen: an even mix of both actions.
    assert blind.value == pytest.approx(0.5)
    assert first.value == pytest.approx(0.5)
    assert both.value > 0.5 + 1e-6


def test_a_gpu_says_that_it_can_not(monkeypatch):
    with pytest.raises(
        tr.InvalidInput, match="can't run costs of which some are seen before acting and others after"
    ):
        tr.simulate(made("shadow-price"), table(), 10, engine="gpu")


def test_a_policy_that_knows_but_one_kind_is_refused_with_the_constraint():
    for policy, words in (
        (tr.ShadowPrice(constraints=2, reward=tr.DisjointRidge(3, 2)), "its costs 1 are seen after acting"),
        (
            tr.ShadowPrice(constraints=2, reward=tr.DisjointRidge(3, 2), cost=tr.DisjointRidge(3, 2)),
            "its costs 0 are seen before",
        ),
    ):
        with pytest.raises(tr.InvalidInput, match=words):
            tr.simulate(policy, table(), 10)
