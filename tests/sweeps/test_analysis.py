"""What many cells say together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightrope.sweeps.analysis import explained, levels, pareto_layers


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25))
def test_pareto_layers_by_brute_force(points):
    left = set(range(len(points)))
    expected = [0] * len(points)
    layer = 0

    def beats(p, q):
        return p != q and p[0] <= q[0] and p[1] <= q[1]

    while left:
        front = {i for i in left if not any(beats(points[j], points[i]) for j in left)}
        for i in front:
            expected[i] = layer
        left -= front
        layer += 1
    regret, violation = (np.array([p[k] for p in points], dtype=float) for k in (0, 1))
    assert pareto_layers(regret, violation).tolist() == expected


def test_explained_variance():
    rng = np.random.default_rng(0)
    a, b = rng.choice([1.0, 2.0, 3.0], 3_000), rng.random(3_000)
    noise = rng.normal(size=3_000)
    assert explained(a, 2.0 * a) == pytest.approx(1.0)
    # Two independent parts of known variance: 2/3 · 2² and 3²/12.
    y = 2.0 * a + 3.0 * b
    total = 8 / 3 + 0.75
    assert explained(a, y) == pytest.approx(8 / 3 / total, abs=0.02)
    assert explained(b, y) == pytest.approx(0.75 / total, abs=0.04)
    assert explained(a, noise) < 0.01
    assert explained(np.array(["x", "y"] * 1_500, dtype=object), noise) < 0.01
    assert np.isnan(explained(np.array([1.0, 2.0]), np.array([1.0, 2.0])))
    group, names = levels(b)
    assert len(names) == 10
    assert np.bincount(group).tolist() == [300] * 10
