"""Lagrangian against its definition, what its guard promises, and what prices and margin are said to do."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from policy_tools import LINE, PHI, Literal, unwatched
from tightrope.policies.lagrangian import Lagrangian
from tightrope.testing import PolicySuite

BEFORE = tr.environments.synthetic(contexts=5, actions=4, features=3, constraints=2, slater=0.2)
# Free, or dear and good: the price at which both are worth the same is 0.8/0.5.
PRICED = tr.environments.Tabular(
    [1.0], rewards=[[0.1, 0.9]], costs=[[[-0.2], [0.3]]], cost_range=(-0.5, 0.5), name="priced"
)
PRICED_AFTER = tr.environments.tabular.changed(PRICED, cost_noise="bernoulli", costs_seen="after")


def after(**settings) -> Lagrangian:
    return Lagrangian(
        tr.Ridge(2, bonus=0.1), cost=tr.Ridge(2), n_constraints=1, cost_range=(-1.0, 1.0), **settings
    )


class TestBefore(PolicySuite):
    strict = True

    def make(self):
        return Lagrangian(tr.Ridge(3), n_constraints=1)


class TestGuard(PolicySuite):
    strict = True

    def make(self):
        return Lagrangian(tr.Ridge(3), n_constraints=2, step=0.0, guard=True, clip=1.0)

    def environment(self):
        return BEFORE


class TestAfter(PolicySuite):
    strict = True

    def make(self):
        return after(guard=True)

    def environment(self):
        return LINE


class TestArmsAfter(PolicySuite):
    strict = True

    def make(self):
        return Lagrangian(tr.ArmMeans(2), cost=tr.ArmMeans(2), n_constraints=1, cost_range=(-0.5, 0.5))

    def environment(self):
        return PRICED_AFTER


# The steps


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("learnt", [False, True])
def test_it_plays_as_written(guard, learnt):
    K, step, margin, m = 2, 1.5, 0.4, np.array([1.0, 0.8])
    cost_range = np.column_stack([[-0.3, -0.8], [1.0, 0.5]])
    rng = np.random.default_rng(3)
    policy = Lagrangian(
        tr.Ridge(3),
        cost=tr.Ridge(3) if learnt else None,
        n_constraints=K,
        step=step,
        margin=margin,
        guard=guard,
        cost_range=cost_range,
    )
    reward, costs = Literal(3), [Literal(3) for _ in range(K)]
    Q, S, guarded = np.zeros(K), np.zeros(K), 0
    for t in range(1, 151):
        ids = np.sort(rng.choice(5, int(rng.integers(1, 6)), replace=False))
        phi = rng.normal(size=(len(ids), 3))
        phi *= rng.uniform(0.5, 1.0, (len(ids), 1)) / np.linalg.norm(phi, axis=1, keepdims=True)
        w = rng.uniform(*cost_range.T, size=(len(ids), K))
        W = np.array([[one.mean(x) for one in costs] for x in phi]) if learnt else w
        price = step / math.sqrt(t) * np.maximum(Q, 0.0) / m**2
        upper = np.array([reward.mean(x) + reward.root_beta(1 / (t + 1)) * reward.width(x) for x in phi])
        values = upper - W @ price
        if guard:
            excess = np.maximum(S + W, 0.0).max(axis=1)
            values[excess > excess.min()] = -np.inf
            guarded += bool((excess > excess.min()).any())
        policy = policy.copy()
        np.testing.assert_allclose(policy.hooks.dual(), price, atol=1e-9)
        shown = {"actions": ids.tolist()} if learnt else {"costs": w, "actions": ids.tolist()}
        decision = policy.decide(phi, **shown)
        row = int(np.argmax(values))
        assert decision.row == row
        Q = np.maximum(0.0, Q + W[row] + margin * m / math.sqrt(t))
        y = float(rng.random() < 0.5)
        if learnt:
            policy.learn(decision, y, w[row])
            Q = Q + w[row] - W[row]
            for k in range(K):
                costs[k].learn(phi[row], w[row, k])
        else:
            policy.learn(decision, y)
        S = S + w[row]
        reward.learn(phi[row], y)
        np.testing.assert_allclose(policy.totals, S, atol=1e-9)
        np.testing.assert_allclose(policy.expected_totals, S, atol=1e-9)
    assert not guard or guarded > 20


def test_costs_still_to_come_count_as_estimated():
    policy = after(guard=True, step=0.0)
    for _ in range(30):
        decision = policy.decide(PHI)
        policy.learn(decision, 1.0, LINE.costs[0, decision.action])
    before = policy.expected_totals
    waiting = [policy.decide(PHI) for _ in range(40)]
    # What is expected of them keeps the guard up: without it the best action would be played forty times.
    added = policy.expected_totals - before
    means = policy.hooks.cost_model().means(PHI)
    np.testing.assert_allclose(added, sum(means[one.action] for one in waiting), atol=1e-9)
    assert policy.expected_totals[0] <= 1e-9
    for one in waiting[::-1]:
        policy.learn(one, costs=[0.25])
    assert policy.totals[0] == pytest.approx(before[0] + 40 * 0.25)
    np.testing.assert_allclose(policy.expected_totals, policy.totals, atol=1e-9)


def test_a_clip_bounds_the_optimism():
    policy = Lagrangian(tr.ArmMeans(2), n_constraints=1, clip=1.0)
    assert policy.decide(costs=[[0.0], [0.0]]).explain().rewards.tolist() == [1.0, 1.0]
    assert (
        Lagrangian(tr.ArmMeans(2), n_constraints=1).decide(costs=[[0.0], [0.0]]).explain().rewards[0]
        == np.inf
    )


# What the docstring says


def test_the_guard_keeps_every_total_where_an_action_can():
    found = 0
    for step in (0.0, 2.0):
        policy = Lagrangian(tr.ArmMeans(4), n_constraints=3, guard=True, step=step)
        rng = np.random.default_rng(int(step))
        for _ in range(1500):
            W = rng.uniform(-0.4, 1.0, (4, 3))
            W[rng.integers(4)] = rng.uniform(-0.5, 0.0, 3)
            found += bool((policy.totals + W > 0).any())
            decision = policy.decide(costs=W)
            policy.learn(decision, float(rng.random()))
            assert (policy.totals <= 0).all()
    assert found > 500, "the guard must have had something to forbid"


def test_without_a_safe_action_the_least_excess_is_taken():
    policy = Lagrangian(tr.ArmMeans(3), n_constraints=2, guard=True)
    assert policy.decide(costs=[[0.3, 0.1], [0.2, 0.2], [-0.9, 0.4]]).action == 1


@unwatched  # totals above zero are what it is about
def test_plain_prices_end_above_zero_by_what_is_said_and_a_margin_pays_it_back():
    T, price, m = 4000, 0.8 / 0.5, 0.5
    plain, paid = (
        tr.simulate(
            Lagrangian(
                tr.ArmMeans(2), n_constraints=1, step=1.0, margin=margin, cost_range=PRICED.cost_range[0]
            ),
            PRICED,
            T,
            2,
            workers=1,
        )
        for margin in (0.0, 1.0)
    )
    assert plain.cost[:, -1, 0].mean() == pytest.approx(price * m**2 * math.sqrt(T), rel=0.1)
    # λ* m = 0.8 ≤ 2 step · margin
    assert paid.cost[:, -1, 0].max() < 0


def test_the_price_is_found():
    policy = Lagrangian(tr.ArmMeans(2), n_constraints=1, cost_range=(-0.5, 0.5))
    rng = np.random.default_rng(0)
    for _ in range(5000):
        decision = policy.decide(costs=PRICED.costs[0])
        policy.learn(decision, float(rng.random() < PRICED.rewards[0, decision.action]))
    assert policy.hooks.dual()[0] == pytest.approx(0.8 / 0.5, rel=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_constraints": 0}, "n_constraints must be a whole number >= 1"),
        ({"step": -1.0}, "step must be finite and >= 0"),
        ({"margin": math.nan}, "margin must be"),
        ({"guard": 1}, "guard must be true or false, but got 1"),
        ({"clip": "1"}, "clip must be"),
        ({"cost_range": [[0.0, 1.0]] * 3}, "cost_range"),
        ({"cost_range": (0.0, 0.0)}, r"cost_range must hold a cost other than 0"),
        ({"reward": 3}, "reward must be a model"),
        ({"cost": 3}, "cost must be a model"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        Lagrangian(**{"reward": tr.ArmMeans(2), "n_constraints": 2, **changes})


def test_costs_outside_their_range_are_refused_without_a_trace():
    policy = after()
    decision = policy.decide(PHI)
    state = policy.hooks.state()
    with pytest.raises(tr.InvalidInput, match="costs"):
        policy.learn(decision, 0.5, [1.5])
    assert all(np.array_equal(array, policy.hooks.state()[name]) for name, array in state.items())


def test_it_says_where_it_does_not_fit():
    assert LINE.problem().misfits(Lagrangian(tr.Ridge(2), n_constraints=1)) == [
        "its costs are seen after acting, but the policy has no model of them"
    ]
    assert BEFORE.problem().misfits(Lagrangian(tr.Ridge(3), cost=tr.Ridge(3), n_constraints=2)) == [
        "its costs are seen before acting, but the policy expects to learn them after acting"
    ]
