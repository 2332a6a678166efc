"""The four arms are the paper's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tightrope.environments import bandit
from tightrope.errors import InvalidInput


class TestBandit:
    @pytest.mark.parametrize("threshold", [0.1, 0.5])
    def test_is_the_paper_s(self, threshold: float) -> None:
        env = bandit(threshold, "before")
        np.testing.assert_array_equal(env.rewards, [[0.1, 0.2, 0.4, 0.7]])
        np.testing.assert_allclose(env.costs[0, :, 0] + threshold, [0.0, 0.4, 0.5, 0.2], atol=1e-15)
        chance = (env.costs[0, :, 0] - env.cost_range[0, 0]) / np.diff(env.cost_range[0])
        np.testing.assert_allclose(chance, [0.0, 0.4, 0.5, 0.2], atol=1e-15)
        assert (env.cost_noise, env.costs_seen) == ("bernoulli", "before")

    @pytest.mark.parametrize("threshold", [-0.1, 1.5, np.nan, True])
    def test_refuses(self, threshold: Any) -> None:
        with pytest.raises(InvalidInput, match="threshold"):
            bandit(threshold)
