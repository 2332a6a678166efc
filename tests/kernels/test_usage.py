"""Costs of usage, compiled and as plain Python: the same bits, the same refusals."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernel_tools import plain, same
from strategies import numbers, wholes
from tightrope import kernels


@given(data=st.data(), n=st.integers(0, 3), J=st.integers(1, 9), K=st.integers(1, 5), known=st.integers(1, 9))
def test_compiled_and_plain_fill_alike(data, n, J, K, known):
    usage, base, ids = (
        data.draw(numbers(n, J)),
        data.draw(numbers(known, K)),
        data.draw(wholes(J, below=known)),
    )
    ranges = np.tile([-0.75, 0.9], (n, 1))
    columns = data.draw(wholes(K, below=2)) * (n > 0)
    of = data.draw(wholes(K, below=max(n, 1)))
    weights, limits = data.draw(numbers(K, known)), data.draw(numbers(K, 2))
    counted = np.array(
        [[k, of[k], limits[k, 0], 1.0 + abs(limits[k, 1]), *weights[k]] for k in range(K) if columns[k]]
    ).reshape(-1, 4 + known)
    found = []
    for module in (kernels, plain):
        for values in (usage, usage.reshape(-1)):
            W = np.full((J, K), 7.0)
            found.append((module.costs_of_usage(values, base, ranges, counted, ids, W), W))
    inside = bool(((usage >= -0.75) & (usage <= 0.9)).all())
    expected = np.full((J, K), 7.0)
    if inside:
        expected[...] = base[ids]
        for k, i, offset, scale, *weight in counted:
            expected[:, int(k)] = (np.array(weight)[ids] * usage[int(i)] - offset) / scale
    for fits, W in found:
        assert fits == inside
        same(W, expected)
        same(np.signbit(W), np.signbit(expected))


def test_what_is_no_number_is_refused():
    W = np.zeros((2, 1))
    counted = np.array([[0.0, 0.0, 0.5, 1.0, 1.0, 1.0]])
    for bad in (np.nan, np.inf, -np.inf):
        assert not kernels.costs_of_usage(
            np.array([0.5, bad]), np.ones((2, 1)), np.array([[0.0, 1.0]]), counted, np.arange(2), W
        )
    same(W, np.zeros((2, 1)))
