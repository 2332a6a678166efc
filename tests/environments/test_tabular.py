"""A tabular environment: what it takes, what it refuses, and its means under noise."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tightrope.environments import Tabular
from tightrope.errors import InvalidInput


def arguments(**changes: Any) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    given: dict[str, Any] = {
        "weights": [0.25, 0.75],
        "features": draw.uniform(-0.3, 0.3, size=(2, 3, 4)),
        "rewards": draw.uniform(size=(2, 3)),
        "costs": draw.uniform(-1, 1, size=(2, 3, 2)),
    }
    return {**given, **changes}


class TestTabular:
    def test_takes_the_design_document_s_call(self) -> None:
        given = arguments()
        env = Tabular(
            weights=given["weights"],
            features=given["features"],
            rewards=given["rewards"],
            costs=given["costs"],
            reward_noise="bernoulli",
            cost_noise="none",
            cost_range=(-1, 1),
            costs_seen="before",
        )
        assert (env.n_contexts, env.n_actions, env.n_features, env.n_constraints) == (2, 3, 4, 2)
        assert not env.random_costs
        np.testing.assert_array_equal(env.costs, given["costs"])
        np.testing.assert_array_equal(env.cost_range, [[-1, 1], [-1, 1]])
        assert env.cost_features is env.features
        assert env.cost_locations is env.costs
        assert env.actions == ("action 0", "action 1", "action 2")
        assert env.constraints == ("constraint 0", "constraint 1")
        assert env.available.all()

    def test_is_frozen_and_keeps_its_own_copy(self) -> None:
        given = arguments()
        env = Tabular(**given)
        before = env.costs.copy()
        given["costs"][:] = 0.0
        np.testing.assert_array_equal(env.costs, before)
        with pytest.raises(ValueError, match="read-only"):
            env.costs[0, 0, 0] = 0.0
        with pytest.raises(AttributeError):
            env.costs = before  # type: ignore[misc]
        for array in (env.weights, env.features, env.rewards, env.available, env.cost_range):
            assert array is not None
            assert array.flags.c_contiguous
            assert not array.flags.writeable

    def test_leaves_the_caller_s_arrays_writeable(self) -> None:
        given = arguments(weights=np.array([0.25, 0.75]))
        Tabular(**given)
        assert all(given[name].flags.writeable for name in given)

    def test_shared_features(self) -> None:
        env = Tabular(**arguments(features=np.array([[0.1, 0.2], [0.3, 0.1]])))
        assert env.disjoint
        assert env.n_features == 2

    def test_arms_only_without_constraints(self) -> None:
        env = Tabular([1.0], rewards=[[0.1, 0.2]])
        assert (env.n_features, env.n_constraints, env.random_costs, env.features) == (0, 0, False, None)

    def test_gaussian_means_are_those_after_clipping(self) -> None:
        low, high, scale = -0.5, 0.75, 0.4
        given = np.array([[[-0.5], [0.1], [0.7]], [[0.0], [0.75], [-0.2]]])
        env = Tabular(
            **arguments(costs=given, cost_noise="gaussian", cost_scale=scale, cost_range=(low, high))
        )
        for at in np.ndindex(given.shape):
            law = norm(given[at], scale)
            inside, _ = quad(lambda w, law=law: w * law.pdf(w), low, high)
            expected = inside + low * law.cdf(low) + high * law.sf(high)
            assert env.costs[at] == pytest.approx(expected, abs=1e-9)
        np.testing.assert_array_equal(env.cost_locations, given)
        assert env.random_costs

    def test_a_cost_at_the_end_of_its_range_is_certain(self) -> None:
        costs = np.full((2, 3, 1), 0.3 - 0.1)  # not exactly 0.2
        env = Tabular(**arguments(costs=costs, cost_noise="bernoulli", cost_range=(-0.8, 0.2)))
        assert not env.random_costs
        assert (env.costs == 0.2).all()

    def test_what_never_happens_is_not_random(self) -> None:
        costs = np.array([[[1.0], [0.0]], [[0.5], [1.0]]])
        given = {"rewards": [[0.1, 0.2]] * 2, "costs": costs, "cost_noise": "bernoulli"}
        assert Tabular([0.5, 0.5], **given).random_costs
        available = [[True, False], [False, True]]
        assert not Tabular([0.5, 0.5], **given, available=available).random_costs
        assert Tabular([1.0, 0.0], **given).random_costs
        assert not Tabular([1.0, 0.0], **given, available=[[True, False], [True, True]]).random_costs

    def test_pickles(self) -> None:
        env = Tabular(**arguments(cost_noise="gaussian", name="one"))
        copy = pickle.loads(pickle.dumps(env))
        np.testing.assert_array_equal(copy.costs, env.costs)
        assert repr(copy) == repr(env)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"weights": [0.5, 0.6]}, r"weights must sum to 1, but they sum to 1\.1"),
            ({"weights": [-0.5, 1.5]}, r"weights\[0\]"),
            ({"weights": []}, "at least one entry"),
            ({"weights": [np.nan, 1.0]}, r"weights\[0\] must be finite"),
            ({"rewards": None}, "rewards must be given"),
            ({"rewards": [[0.1], [1.2]]}, r"rewards\[1, 0\] must lie in \[0, 1\], but got 1\.2"),
            ({"rewards": [["a"], ["b"]]}, "rewards must hold real numbers"),
            ({"rewards": np.empty((2, 0))}, "at least one action"),
            ({"rewards": [[0.1, 0.2]]}, r"rewards must have shape \(2, any\)"),
            ({"costs": np.full((2, 3, 1), 1.7)}, r"costs\[0, 0, 0\] must lie in \[-1, 1\], but got 1\.7"),
            ({"costs": np.full((2, 3, 1), np.nan)}, r"costs\[0, 0, 0\] must be finite"),
            ({"costs": np.zeros((2, 3))}, "costs must have shape"),
            ({"cost_range": (1, -1)}, "low <= high"),
            ({"cost_range": [(-1, 1)] * 3}, "cost_range must have shape"),
            ({"cost_range": (-1, np.inf)}, r"cost_range\[1\] must be finite"),
            ({"cost_range": (-0.001, 0.001)}, r"costs\[0, 0, 0\] must lie in"),
            ({"features": np.zeros((2, 4, 4))}, "features must have shape"),
            ({"features": np.full((2, 3, 4), np.inf)}, r"features\[0, 0, 0\] must be finite"),
            ({"features": np.empty((2, 0))}, "arms only"),
            ({"cost_features": np.zeros((3, 2))}, "cost_features must have shape"),
            ({"reward_noise": "laplace"}, "reward_noise must be one of"),
            ({"cost_noise": None}, "cost_noise must be one of"),
            ({"costs_seen": "never"}, "costs_seen must be one of"),
            ({"reward_scale": 0.0}, "reward_scale"),
            ({"cost_scale": "wide"}, "cost_scale must be a number"),
            ({"available": np.ones((2, 3))}, "available must be of bool"),
            ({"available": [[True] * 3, [False] * 3]}, r"available\[1\] must offer at least one action"),
            ({"actions": ["a", "b"]}, "actions must be 3 different strings"),
            ({"actions": ["a", "b", "a"]}, "actions must be 3 different strings"),
            ({"constraints": "ab"}, "constraints must be 2 different strings"),
            ({"name": 3}, "name must be a string"),
        ],
    )
    def test_refuses(self, change: dict[str, Any], text: str) -> None:
        with pytest.raises(InvalidInput, match=text):
            Tabular(**arguments(**change))
