"""Random instances meet every assumption of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.environments import synthetic
from tightrope.errors import InvalidInput


class TestSynthetic:
    @pytest.mark.parametrize("costs_seen", ["before", "after"])
    @pytest.mark.parametrize(
        ("contexts", "actions", "features", "constraints", "slater"),
        [
            (1, 2, 2, 1, 0.3),
            (40, 5, 4, 3, 0.05),
            (300, 8, 10, 12, 0.2),
            (5, 3, 3, 0, 0.5),
            (600, 5, 6, 2, 0.01),
        ],
    )
    def test_meets_every_assumption(
        self, contexts: int, actions: int, features: int, constraints: int, slater: float, costs_seen: Any
    ) -> None:
        for seed in range(3):
            env = synthetic(
                contexts, actions, features, constraints, slater, seed=seed, costs_seen=costs_seen
            )
            report = tr.oracle.check(env)
            assert report.holds, str(report)
            assert report.slater == pytest.approx(slater if constraints else 1.0, abs=1e-9)

    def test_constraints_bind_at_the_optimum(self) -> None:
        binding = [tr.solve(synthetic(constraints=3, seed=seed)).binding.sum() for seed in range(5)]
        assert min(binding) >= 1

    def test_seed_decides(self) -> None:
        one, same, other = synthetic(seed=1), synthetic(seed=1), synthetic(seed=2)
        np.testing.assert_array_equal(one.costs, same.costs)
        assert not np.array_equal(one.costs, other.costs)

    def test_bernoulli_costs_keep_their_means(self) -> None:
        fixed, random = synthetic(), synthetic(cost_noise="bernoulli")
        np.testing.assert_array_equal(fixed.costs, random.costs)
        assert random.random_costs

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"slater": 0.99}, r"slater must be at most 0\.7"),
            ({"slater": 0.0}, "slater"),
            ({"features": 1}, "features must be a whole number >= 2"),
            ({"contexts": 0}, "contexts"),
            ({"seed": -1}, "seed"),
            ({"cost_noise": "gaussian"}, "cost_noise must be 'none' or 'bernoulli'"),
        ],
    )
    def test_refuses(self, change: dict[str, Any], text: str) -> None:
        with pytest.raises(InvalidInput, match=text):
            synthetic(**change)
