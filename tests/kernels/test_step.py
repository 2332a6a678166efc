"""One round, compiled and as plain Python: the same bits, the same refusals."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from kernel_tools import plain, same, started
from strategies import numbers, rows
from tightrope import kernels


def test_these_are_two_programs():
    assert hasattr(kernels.inner, "signatures")
    assert not hasattr(plain.inner, "signatures")
    assert plain.linear_algebra.lanes is plain.lanes is not kernels.lanes


@given(
    data=st.data(),
    n=st.integers(1, 10),
    J=st.integers(1, 10),
    p=st.integers(1, 13),
    K=st.integers(0, 9),
    disjoint=st.booleans(),
)
def test_compiled_and_plain_decide_and_learn_alike(data, n, J, p, K, disjoint):
    features, costs = data.draw(rows(n, 1 if disjoint else J, p)), data.draw(numbers(n, J, K))
    rewards = data.draw(numbers(n))
    model = tr.DisjointRidge(J, p, bonus=0.3) if disjoint else tr.Ridge(p, bonus=0.3)
    ids = np.arange(J)
    sides = [(module, model.flat.copy(), started(K, p)) for module in (kernels, plain)]
    for t in range(n):
        phi, W, reward = features[t], costs[t], float(rewards[t])
        seen = []
        for module, flat, core in sides:
            trace, x = np.empty(kernels.trace_size(J, K)), np.empty(p)
            row = module.decide_ridge(phi, ids, W, flat, core, trace, x)
            g = row if disjoint else 0
            module.learn_reward(g, x, reward, flat, core)
            if t == 5:
                module.ridge_refresh(flat, g, np.empty(2 * p * p))
            seen.append((row, trace, x, flat.copy(), kernels.core_views(core).saved.copy()))
        for ours, theirs in zip(*seen, strict=True):
            same(ours, theirs)


def test_compiled_and_plain_refuse_alike():
    flat, core = tr.Ridge(3).flat, started(2, 3)
    rows, costs, ids = np.eye(3), np.zeros((3, 2)), np.arange(3)
    trace, x = np.empty(kernels.trace_size(3, 2)), np.empty(3)
    bad = [
        (rows[:2].copy(), costs),
        (rows[:, :2].copy(), costs),
        (rows, costs[:, :1].copy()),
        (rows, costs[:2].copy()),
        (rows * 1.01, costs),
        (rows * np.nan, costs),
        (rows, costs + 1.01),
        (rows, costs * np.nan),
        (rows[:1].copy(), costs),
        (np.empty((0, 3)), np.empty((0, 2))),
    ]
    for module in (kernels, plain):
        for phi, W in bad:
            before = core.copy()
            assert module.decide_ridge(phi, ids, W, flat, core, trace, x) == -1
            same(core, before)
        assert module.decide_ridge(rows, ids, costs, flat, core.copy(), trace, x) == 0
