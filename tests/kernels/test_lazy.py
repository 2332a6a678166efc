"""Skipping widths and sparse costs change no choice and no queue."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from kernel_tools import plain, same, started
from strategies import numbers, rows, unit_rows, wholes
from tightrope import kernels
from tightrope.environments import Tabular


@given(
    data=st.data(),
    J=st.integers(1, 20),
    K=st.integers(0, 3),
    bonus=st.sampled_from([1.0, 0.0, 0.02, 0.3]),
    ridge=st.sampled_from([1.0, 1e-3]),
    shared=st.booleans(),
    sleeping=st.booleans(),
    tied=st.booleans(),
)
def test_the_simulator_skips_widths_and_chooses_the_same(data, J, K, bonus, ridge, shared, sleeping, tied):
    C, p = 5, 4
    features, costs = data.draw(rows(C, J, p)), 0.5 * data.draw(numbers(C, J, K)) - 0.1
    if tied:
        # Equal features and costs, but for what counts as nothing: the lowest of equals must win.
        same_as = data.draw(wholes(C, J, below=J))
        features = features[np.arange(C)[:, None], same_as]
        costs = np.round(costs[np.arange(C)[:, None], same_as], 1) + 1e-14 * data.draw(numbers(C, J, K))
    available = data.draw(wholes(C, J, below=3)) < 2
    env = Tabular(
        weights=np.full(C, 0.2),
        features=features,
        rewards=np.abs(data.draw(numbers(C, J))),
        costs=costs,
        available=available | ~available.any(axis=1, keepdims=True) if sleeping else None,
    )
    reward = (
        tr.Ridge(p, bonus=bonus, ridge=ridge) if shared else tr.DisjointRidge(J, p, bonus=bonus, ridge=ridge)
    )
    policy = tr.PessimisticOptimistic(reward=reward, constraints=K, slater=0.3, horizon=150)
    options = {"rounds": 150, "replications": 1, "seed": 3, "keep_choices": True, "optimum": 1.0}
    fast = tr.simulate(policy, env, **options)
    slow = tr.simulate(policy, env, compile=False, **options)
    same(fast.choices, slow.choices)
    same(fast.cost, slow.cost)
    same(fast.reward, slow.reward)


def test_the_simulator_does_skip_widths(monkeypatch):
    env = tr.environments.hospital()
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(6, 10),
        constraints=18,
        V=tr.Power(4.0, 0.5),
        epsilon=tr.Power(1.0, -0.5),
        horizon=500,
    )
    from tightrope.engine import cpu

    workspaces = []
    make = cpu._workspace
    monkeypatch.setattr(cpu, "_workspace", lambda *args: workspaces.append(make(*args)) or workspaces[-1])
    tr.simulate(policy, env, rounds=500, replications=1, optimum=1.0)
    (workspace,) = workspaces
    # In 500 rounds of six actions almost all of the 360 · 6 widths could come up.
    assert 100 < (workspace.bounds > 0.0).sum() <= 750


def test_what_is_behind_a_sparse_decision_does_not_change_afterwards():
    rng = np.random.default_rng(0)
    J, K = 6, 50
    usage = scipy.sparse.random_array((J, K), density=0.1, rng=rng, format="csr")
    costs = tr.policies.SparseCosts(usage, np.full(K, 0.02))
    W = np.array([costs.row(j) for j in range(J)])
    phi = unit_rows(rng, J, 4)
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(4), constraints=K, slater=0.02, horizon=100)
    decisions, queues = [], []
    for _ in range(10):
        queues.append(policy.queue)
        decisions.append(policy.decide(phi, costs))
        policy.learn(decisions[-1], 0.5)
    usage.data[:] = 0.5
    for decision, queue in zip(decisions, queues):
        seen = decision.explain()
        same(seen.queue, queue)
        same(seen.costs[0], W[decision.action])
        assert seen.values[0] == pytest.approx(seen.rewards[0] - seen.penalties[0].sum(), rel=1e-12)
    assert pickle.loads(pickle.dumps(decisions[3])).explain().V == decisions[3].explain().V


@given(data=st.data(), J=st.integers(1, 9), K=st.integers(1, 40), row=st.integers(0, 8))
def test_the_step_of_sparse_costs_is_the_dense_step(data, J, K, row):
    drawn = np.abs(data.draw(numbers(J, K)))
    usage = scipy.sparse.csr_array(np.where(drawn > 2 / 3, drawn, 0.0))
    costs = tr.policies.SparseCosts(usage, 0.5 * np.abs(data.draw(numbers(K))))
    core = started(K, 1)
    before = kernels.core_views(core)
    before.queue[:], before.totals[:] = 1.0 + data.draw(numbers(2, K))
    row %= J
    results = []
    for module in (kernels, plain):
        one, two = core.copy(), core.copy()
        module.queue_step(costs.row(row), 0, 0.25, one)
        at, end = costs.offsets[row : row + 2].tolist()
        scratch = np.empty(2 * costs.most_entries)
        module.sparse_queue_step(at, end, costs.indices, costs.data, costs.limits, 0.25, two, scratch)
        same(one, two)
        results.append(one)
    same(*results)
    Q = np.maximum(0, before.queue + costs.row(row) + 0.25)
    same(kernels.core_views(results[0]).queue, Q)
