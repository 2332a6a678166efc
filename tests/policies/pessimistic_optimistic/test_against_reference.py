"""The package against the literal transcription in `reference.py`, on random streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from reference import ReferenceA, ReferenceArms, ReferenceB, gap
from strategies import numbers, rows, unit_rows, wholes

# Two correct programs may part where two values differ from the tie rule's edge by rounding alone: there the package's choice is
# followed, so that the rest of the stream is still compared.
ROUNDING = 1e-9
NEVER = 6


def same_choice(decision, theirs, values):
    """The values behind a decision are the reference's, and so is the choice, but where rounding decides."""
    found = decision.explain().values
    np.testing.assert_allclose(found, values, atol=1e-9 * max(1.0, np.abs(values).max()), rtol=0)
    assert decision.row == theirs or gap(values) < ROUNDING, (decision, theirs, values)


class Mailbox:
    """Outcomes delivered after so many rounds as `lags` say, those of one round newest first; NEVER is never."""

    def __init__(self, lags):
        self.lags, self.waiting = lags, []

    def post(self, now, message):
        if self.lags[now] != NEVER:
            self.waiting.append((now + self.lags[now], message))

    def due(self, now):
        ready = [m for at, m in self.waiting if at <= now]
        self.waiting = [(at, m) for at, m in self.waiting if at > now]
        return ready[::-1]


def lags_of(data, n, delayed):
    return data.draw(wholes(n, below=NEVER + 1)) if delayed else np.zeros(n, dtype=int)


def compare_A(phi, W, sizes, noise, lags, *, bonus, m, ridge, horizon, schedules):
    (n, _, d), K = phi.shape, W.shape[2]
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(d, bonus=bonus, m=m, ridge=ridge),
        constraints=K,
        slater=0.3,
        horizon=horizon,
        **schedules,
    )
    reference = ReferenceA(d, K, slater=0.3, horizon=horizon, bonus=bonus, m=m, ridge=ridge, **schedules)
    mail = Mailbox(lags)
    for t in range(n):
        offered, costs = phi[t, : sizes[t]], W[t, : sizes[t]]
        decision = policy.decide(offered, costs)
        before = reference.Q.copy()
        a = reference.decide(offered, costs)
        same_choice(decision, a, reference.values)
        if decision.row != a:
            eps = schedules["epsilon"](t + 1) if schedules else K**0.75 * np.sqrt(6 / (t + 1))
            reference.Q = np.maximum(0, before + costs[decision.row] + eps)
        np.testing.assert_allclose(policy.queue, reference.Q, atol=1e-9, rtol=0)
        x = offered[decision.row]
        mail.post(t, (decision, x, float(x.sum() / np.sqrt(d) + 0.3 * noise[t])))
        for late, x, reward in mail.due(t):
            policy.learn(late, reward)
            reference.model.learn(x, reward)


@given(
    data=st.data(),
    n=st.integers(1, 20),
    J=st.integers(1, 5),
    d=st.integers(1, 6),
    K=st.integers(0, 3),
    ridge=st.sampled_from([1.0, 0.1, 3.0]),
    bonus=st.sampled_from([1.0, 0.05, 0.3]),
    m=st.sampled_from([1.0, 0.5, 4.0]),
    delayed=st.booleans(),
    horizon=st.sampled_from([None, 60, 1000]),
    power=st.booleans(),
)
def test_algorithm_A(data, n, J, d, K, ridge, bonus, m, delayed, horizon, power):
    compare_A(
        data.draw(rows(n, J, d)),
        data.draw(numbers(n, J, K)),
        data.draw(wholes(n, below=J)) + 1,
        data.draw(numbers(n)),
        lags_of(data, n, delayed),
        bonus=bonus,
        m=m,
        ridge=ridge,
        horizon=horizon,
        schedules={"V": tr.Power(2.0, 0.4), "epsilon": tr.Power(1.5, -0.6)} if power else {},
    )


@pytest.mark.parametrize(("d", "K", "J"), [(40, 20, 30), (20, 3, 10), (1, 18, 6), (33, 0, 50), (9, 9, 9)])
def test_algorithm_A_at_size(d, K, J):
    rng, n = np.random.default_rng(d), 120
    compare_A(
        unit_rows(rng, n * J, d).reshape(n, J, d),
        rng.uniform(-1, 1, size=(n, J, K)),
        rng.integers(1, J + 1, n),
        rng.normal(size=n),
        rng.integers(0, NEVER + 1, n),
        bonus=0.05,
        m=1.0,
        ridge=1.0,
        horizon=1000,
        schedules={},
    )


def compare_B(phi, psi, sizes, noise, lags, *, bonus, ridge, horizon, low, K):
    n, d, d_w = len(phi), phi.shape[2], psi.shape[2]
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(d, bonus=bonus, ridge=ridge),
        cost=tr.Ridge(d_w, bonus=bonus, ridge=ridge),
        constraints=K,
        slater=0.2,
        horizon=horizon,
        cost_range=(low, 1.0),
    )
    reference = ReferenceB(d, d_w, K, slater=0.2, horizon=horizon, bonus=bonus, ridge=ridge, low=low)
    rewards, costs = Mailbox(lags[0]), Mailbox(lags[1])
    learnt = np.zeros(K)
    for t in range(n):
        offered, features = phi[t, : sizes[t]], psi[t, : sizes[t]]
        decision = policy.decide(offered, features)
        a = reference.decide(offered, features)
        same_choice(decision, a, reference.values)
        if decision.row != a:
            return t
        np.testing.assert_allclose(policy.queue, reference.Q, atol=1e-9 * max(1.0, reference.Q.max()), rtol=0)
        x, z = offered[a], features[a]
        rewards.post(t, (decision, x, float(x.sum() / np.sqrt(d) + 0.3 * noise[t])))
        costs.post(t, (decision, z, np.clip(z.sum() * np.cos(np.arange(K)) + 0.2 * noise[t], low, 1)))
        for late, x, reward in rewards.due(t):
            policy.learn(late, reward)
            reference.reward.learn(x, reward)
        for late, z, w in costs.due(t):
            policy.learn(late, costs=w)
            reference.cost.learn(z, w)
            learnt += w
    np.testing.assert_allclose(policy.totals, learnt, atol=1e-12)
    return n


@given(
    data=st.data(),
    n=st.integers(1, 20),
    J=st.integers(1, 5),
    d=st.integers(1, 5),
    d_w=st.integers(1, 5),
    K=st.integers(1, 3),
    ridge=st.sampled_from([1.0, 0.5]),
    bonus=st.sampled_from([1.0, 0.05]),
    delayed=st.booleans(),
    horizon=st.sampled_from([None, 500]),
    low=st.sampled_from([-1.0, -0.2]),
)
def test_algorithm_B(data, n, J, d, d_w, K, ridge, bonus, delayed, horizon, low):
    compare_B(
        data.draw(rows(n, J, d)),
        data.draw(rows(n, J, d_w)),
        data.draw(wholes(n, below=J)) + 1,
        data.draw(numbers(n)),
        (lags_of(data, n, delayed), lags_of(data, n, delayed)),
        bonus=bonus,
        ridge=ridge,
        horizon=horizon,
        low=low,
        K=K,
    )


@pytest.mark.parametrize(("d", "d_w", "K", "J"), [(20, 12, 2, 10), (3, 20, 6, 15), (20, 1, 1, 4)])
def test_algorithm_B_at_size(d, d_w, K, J):
    rng, n = np.random.default_rng(d), 120
    compared = compare_B(
        unit_rows(rng, n * J, d).reshape(n, J, d),
        unit_rows(rng, n * J, d_w).reshape(n, J, d_w),
        rng.integers(1, J + 1, n),
        rng.normal(size=n),
        rng.integers(0, NEVER + 1, (2, n)),
        bonus=0.02,
        ridge=1.0,
        horizon=500,
        low=-1.0,
        K=K,
    )
    assert compared == n


@given(
    data=st.data(),
    n=st.integers(1, 40),
    J=st.integers(1, 6),
    K=st.integers(1, 3),
    low=st.sampled_from([-1.0, -0.125]),
    seen=st.booleans(),
)
def test_arms(data, n, J, K, low, seen):
    V, epsilon = tr.Power(1.0, 0.5), tr.Power(6.0, -0.5)
    cost = {} if seen else {"cost": tr.ArmMeans(J), "cost_range": (low, 1.0)}
    policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(J), constraints=K, V=V, epsilon=epsilon, **cost)
    reference = ReferenceArms(J, K, V, epsilon, (low, 1.0))
    drawn, rewards = data.draw(numbers(n, J, K)), data.draw(wholes(n, below=2))
    for W, reward in zip(np.maximum(drawn, low), rewards.tolist()):
        decision = policy.decide(costs=W) if seen else policy.decide()
        a = reference.decide(W if seen else None)
        same_choice(decision, a, reference.values)
        if decision.action != a:
            return
        np.testing.assert_allclose(policy.queue, reference.Q, atol=1e-9, rtol=0)
        if seen:
            policy.learn(decision, reward)
            reference.learn(a, reward)
        else:
            policy.learn(decision, reward, W[a])
            reference.learn(a, reward, W[a])


@given(
    data=st.data(),
    n=st.integers(1, 30),
    J=st.integers(1, 5),
    p=st.integers(1, 5),
    ridge=st.sampled_from([1.0, 0.5]),
)
def test_disjoint_ridge_is_ridge_on_the_kronecker_features(data, n, J, p, ridge):
    settings = {"constraints": 2, "slater": 0.4, "horizon": 100}
    disjoint = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(J, p, ridge=ridge, bonus=0.3, m=2.0), **settings
    )
    shared = tr.PessimisticOptimistic(reward=tr.Ridge(J * p, ridge=ridge, bonus=0.3, m=2.0), **settings)
    contexts, costs, rewards = data.draw(rows(n, p)), data.draw(numbers(n, J, 2)), data.draw(numbers(n))
    # At least the first action is on offer.
    offered = (data.draw(wholes(n, J, below=2)) == 0) | (np.arange(J) == 0)
    for x, W, there, reward in zip(contexts, costs, offered, rewards.tolist()):
        ids = np.flatnonzero(there).tolist()
        phi = np.array([np.kron(np.eye(J)[j], x) for j in ids])
        a, b = disjoint.decide(x, W[ids], actions=ids), shared.decide(phi, W[ids], actions=ids)
        np.testing.assert_allclose(a.explain().values, b.explain().values, atol=1e-9)
        assert a.action == b.action or gap(a.explain().values) < ROUNDING
        if a.action != b.action:
            return
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
    policy.learn(first, 1.0, usage={"hours": 0.9})
    np.testing.assert_allclose(policy.totals, [0.5, 0.5])
    second = policy.decide()
    assert second.explain().costs[0, 1] == pytest.approx(max(-0.4, 0.5 - np.sqrt(np.log(2))))
    assert second.explain().costs[1, 1] == -0.4
