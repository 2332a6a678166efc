"""The package against the literal transcription in `reference.py`, on random streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tightrope as tr
from reference import ReferenceA, ReferenceArms, ReferenceB, gap

# Two correct programs may part where two values differ from the tie rule's edge by rounding alone: there the package's choice is
# followed, so that the rest of the stream is still compared.
ROUNDING = 1e-9
slow = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def unit_rows(rng, J, d):
    rows = rng.normal(size=(J, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * rng.uniform(0.2, 1.0, size=(J, 1))


def same_choice(mine, theirs, values):
    assert mine == theirs or gap(values) < ROUNDING, (mine, theirs, values)


class Mailbox:
    """Outcomes delivered late, out of order, or never."""

    def __init__(self, rng, delay):
        self.rng, self.delay, self.waiting = rng, delay, []

    def post(self, now, message):
        if self.delay == 0:
            self.waiting.append((now, message))
        elif self.rng.random() > 0.05:
            self.waiting.append((now + int(self.rng.integers(0, self.delay + 1)), message))

    def due(self, now):
        ready = [m for at, m in self.waiting if at <= now]
        self.waiting = [(at, m) for at, m in self.waiting if at > now]
        if self.delay:
            self.rng.shuffle(ready)
        return ready


@slow
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 40),
    K=st.integers(0, 20),
    J_max=st.integers(1, 30),
    ridge=st.sampled_from([0.1, 1.0, 3.0]),
    bonus=st.sampled_from([0.05, 0.3, 1.0]),
    m=st.sampled_from([0.5, 1.0, 4.0]),
    delay=st.sampled_from([0, 0, 7]),
    horizon=st.sampled_from([None, 60, 1000]),
    power=st.booleans(),
)
def test_algorithm_A(seed, d, K, J_max, ridge, bonus, m, delay, horizon, power):
    rng = np.random.default_rng(seed)
    schedules = {"V": tr.Power(2.0, 0.4), "epsilon": tr.Power(1.5, -0.6)} if power else {}
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(d, bonus=bonus, m=m, ridge=ridge),
        constraints=K,
        slater=0.3,
        horizon=horizon,
        **schedules,
    )
    reference = ReferenceA(d, K, slater=0.3, horizon=horizon, bonus=bonus, m=m, ridge=ridge, **schedules)
    theta = rng.normal(size=d) / np.sqrt(d)
    mail = Mailbox(rng, delay)
    for t in range(60):
        J = int(rng.integers(1, J_max + 1))
        phi, W = unit_rows(rng, J, d), rng.uniform(-1, 1, size=(J, K))
        decision = policy.decide(phi, W)
        before = reference.Q.copy()
        a = reference.decide(phi, W)
        same_choice(decision.row, a, reference.values)
        if decision.row != a:
            eps = reference.epsilon(t + 1) if power else K**0.75 * np.sqrt(6 / (t + 1))
            reference.Q = np.maximum(0, before + W[decision.row] + eps)
        np.testing.assert_allclose(policy.queue, reference.Q, atol=1e-9, rtol=0)
        mail.post(t, (decision, phi[decision.row], float(theta @ phi[decision.row] + rng.normal(scale=0.2))))
        for late, x, reward in mail.due(t):
            policy.learn(late, reward)
            reference.model.learn(x, reward)


@slow
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 20),
    d_w=st.integers(1, 20),
    K=st.integers(1, 6),
    J_max=st.integers(1, 15),
    ridge=st.sampled_from([0.5, 1.0]),
    bonus=st.sampled_from([0.05, 1.0]),
    delay=st.sampled_from([0, 5]),
    horizon=st.sampled_from([None, 500]),
    low=st.sampled_from([-1.0, -0.2]),
)
def test_algorithm_B(seed, d, d_w, K, J_max, ridge, bonus, delay, horizon, low):
    rng = np.random.default_rng(seed)
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(d, bonus=bonus, ridge=ridge),
        cost=tr.Ridge(d_w, bonus=bonus, ridge=ridge),
        constraints=K,
        slater=0.2,
        horizon=horizon,
        cost_range=(low, 1.0),
    )
    reference = ReferenceB(d, d_w, K, slater=0.2, horizon=horizon, bonus=bonus, ridge=ridge, low=low)
    theta, mu = rng.normal(size=d) / np.sqrt(d), rng.normal(size=(K, d_w)) / np.sqrt(d_w)
    rewards, costs = Mailbox(rng, delay), Mailbox(rng, delay)
    learnt = np.zeros(K)
    for t in range(50):
        J = int(rng.integers(1, J_max + 1))
        phi, psi = unit_rows(rng, J, d), unit_rows(rng, J, d_w)
        decision = policy.decide(phi, psi)
        a = reference.decide(phi, psi)
        same_choice(decision.row, a, reference.values)
        if decision.row != a:
            return
        np.testing.assert_allclose(policy.queue, reference.Q, atol=1e-9 * max(1.0, reference.Q.max()), rtol=0)
        rewards.post(t, (decision, phi[a], float(theta @ phi[a] + rng.normal(scale=0.2))))
        costs.post(t, (decision, psi[a], np.clip(mu @ psi[a], low, 1)))
        for late, x, reward in rewards.due(t):
            policy.learn(late, reward)
            reference.reward.learn(x, reward)
        for late, x, w in costs.due(t):
            policy.learn(late, costs=w)
            reference.cost.learn(x, w)
            learnt += w
    np.testing.assert_allclose(policy.totals, learnt, atol=1e-12)


@slow
@given(
    seed=st.integers(0, 2**32 - 1),
    J=st.integers(1, 8),
    K=st.integers(1, 4),
    low=st.sampled_from([-1.0, -0.1]),
    seen=st.booleans(),
)
def test_arms(seed, J, K, low, seen):
    rng = np.random.default_rng(seed)
    V, epsilon = tr.Power(1.0, 0.5), tr.Power(6.0, -0.5)
    cost = {} if seen else {"cost": tr.ArmMeans(J), "cost_range": (low, 1.0)}
    policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(J), constraints=K, V=V, epsilon=epsilon, **cost)
    reference = ReferenceArms(J, K, V, epsilon, (low, 1.0))
    for _ in range(80):
        W = rng.uniform(low, 1, size=(J, K))
        decision = policy.decide(costs=W) if seen else policy.decide()
        a = reference.decide(W if seen else None)
        same_choice(decision.action, a, reference.values)
        if decision.action != a:
            return
        np.testing.assert_allclose(policy.queue, reference.Q, atol=1e-9, rtol=0)
        reward = float(rng.random() < 0.5)
        if seen:
            policy.learn(decision, reward)
            reference.learn(a, reward)
        else:
            policy.learn(decision, reward, W[a])
            reference.learn(a, reward, W[a])


@slow
@given(
    seed=st.integers(0, 2**32 - 1),
    J=st.integers(1, 6),
    p=st.integers(1, 6),
    ridge=st.sampled_from([0.5, 1.0]),
)
def test_disjoint_ridge_is_ridge_on_the_kronecker_features(seed, J, p, ridge):
    rng = np.random.default_rng(seed)
    settings_ = {"constraints": 2, "slater": 0.4, "horizon": 100}
    disjoint = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(J, p, ridge=ridge, bonus=0.3, m=2.0), **settings_
    )
    shared = tr.PessimisticOptimistic(reward=tr.Ridge(J * p, ridge=ridge, bonus=0.3, m=2.0), **settings_)
    for _ in range(60):
        x = unit_rows(rng, 1, p)[0]
        ids = sorted(rng.choice(J, size=int(rng.integers(1, J + 1)), replace=False).tolist())
        phi = np.array([np.kron(np.eye(J)[j], x) for j in ids])
        W = rng.uniform(-1, 1, size=(len(ids), 2))
        a, b = disjoint.decide(x, W, actions=ids), shared.decide(phi, W, actions=ids)
        np.testing.assert_allclose(a.explain().values, b.explain().values, atol=1e-9)
        assert a.action == b.action or gap(a.explain().values) < ROUNDING
        if a.action != b.action:
            return
        reward = float(rng.random())
        disjoint.learn(a, reward)
        shared.learn(b, reward)


def test_mixed_rules_use_what_is_seen_and_estimate_the_rest():
    rules = tr.Rules(
        [tr.Capacity("a", at_most=0.5), tr.Budget("hours", at_most=0.4, seen="after")], actions=["a", "b"]
    )
    policy = tr.PessimisticOptimistic(
        reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=rules, slater=0.1, horizon=50
    )
    first = policy.decide()
    np.testing.assert_allclose(first.explain().costs, [[0.5, -0.4], [-0.5, -0.4]])
    np.testing.assert_allclose(policy.totals, [0.5, 0.0])
    policy.learn(first, 1.0, {"hours": 0.9})
    np.testing.assert_allclose(policy.totals, [0.5, 0.5])
    second = policy.decide()
    assert second.explain().costs[0, 1] == pytest.approx(max(-0.4, 0.5 - np.sqrt(np.log(2))))
    assert second.explain().costs[1, 1] == -0.4
