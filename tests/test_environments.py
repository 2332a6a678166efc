from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import tightrope as tr
from tightrope.environments import Tabular, bandit, synthetic
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
        assert not env.disjoint
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

    def test_shared_features_and_theta(self) -> None:
        x, theta = np.array([[0.1, 0.2], [0.3, 0.1]]), np.arange(6.0) / 4
        env = Tabular(**arguments(features=x, rewards=x @ theta.reshape(3, 2).T, theta=theta))
        assert env.disjoint
        assert env.n_features == 2
        with pytest.raises(InvalidInput, match=r"theta must give the rewards.*rewards\[0, 0\]"):
            Tabular(**arguments(features=x, theta=theta))

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
            ({"rewards": [[True], [False]]}, "rewards must hold real numbers"),
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
            ({"features": None, "theta": [1.0]}, "theta must come with features"),
            ({"theta": [1.0]}, r"theta must have shape \(4,\)"),
            ({"name": 3}, "name must be a string"),
        ],
    )
    def test_refuses(self, change: dict[str, Any], text: str) -> None:
        with pytest.raises(InvalidInput, match=text):
            Tabular(**arguments(**change))


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
            report = tr.check(env)
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


class TestPackage:
    def test_functions_survive_the_import_of_their_modules(self) -> None:
        import importlib

        for name in ("bandit", "synthetic", "hospital"):
            module = importlib.import_module(f"tightrope.environments.{name}")
            assert getattr(tr.environments, name) is getattr(module, name)

    def test_unknown_names(self) -> None:
        assert {"Tabular", "bandit", "hospital", "synthetic"} <= set(dir(tr.environments))
        with pytest.raises(AttributeError, match="no attribute 'casino'"):
            _ = tr.environments.casino  # type: ignore[attr-defined]
