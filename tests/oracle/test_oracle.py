from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar
from scipy.stats import norm

import tightrope as tr
from tightrope import lp, oracle
from tightrope.environments import Tabular, bandit, synthetic
from tightrope.errors import InfeasibleProblem, InvalidInput


def random_env(
    seed: int, contexts: int = 3, actions: int = 3, constraints: int = 2, **settings: Any
) -> Tabular:
    draw = np.random.default_rng(seed)
    rewards = draw.uniform(size=(contexts, actions))
    costs = np.clip(draw.uniform(-0.9, 0.7, size=(contexts, actions, constraints)), -0.95, 0.95)
    return Tabular(draw.dirichlet(np.ones(contexts)), rewards=rewards, costs=costs, **settings)


def by_brute_force(env: Tabular, joint: bool) -> float:
    """The program written out atom by atom, action by action, for another solver."""
    gains, mean_costs, owners = [], [], []
    owner = 0
    for c in range(env.n_contexts):
        entries = [(j, k) for j in range(env.n_actions) for k in range(env.n_constraints)] if joint else []
        for signs in itertools.product([-1.0, 1.0], repeat=len(entries)):
            weight, w = env.weights[c], env.costs[c].copy()
            for (j, k), sign in zip(entries, signs, strict=True):
                weight *= (1 + sign * env.costs[c, j, k]) / 2
                w[j, k] = sign
            for j in np.flatnonzero(env.available[c]):
                gains.append(weight * env.rewards[c, j])
                mean_costs.append(weight * w[j])
                owners.append(owner)
            owner += 1
    found = linprog(
        -np.array(gains),
        A_ub=np.array(mean_costs).T,
        b_ub=np.zeros(env.n_constraints),
        A_eq=(np.arange(owner)[:, None] == np.array(owners)).astype(float),
        b_eq=np.ones(owner),
    )
    assert found.status == 0
    return float(-found.fun)


class TestFluid:
    @pytest.mark.parametrize("seed", range(5))
    def test_is_the_program_s_optimum(self, seed: int) -> None:
        available = np.random.default_rng(seed).uniform(size=(6, 4)) < 0.7
        available[:, 0] = True
        for env in (random_env(seed, 6, 4), random_env(seed, 6, 4, available=available)):
            found = tr.solve(env)
            assert found.value == pytest.approx(by_brute_force(env, joint=False), abs=1e-8)
            assert found.baseline == "fluid"
            assert found.interval == (found.value, found.value)
            assert found.atoms is None
            assert found.policy.shape == (6, 4)
            assert (found.policy[~env.available] == 0).all()
            np.testing.assert_allclose(found.policy.sum(axis=1), 1.0)
            mean_costs = np.einsum("c,cj,cjk->k", env.weights, found.policy, env.costs)
            np.testing.assert_allclose(found.slack, -mean_costs, atol=1e-12)
            assert (found.binding == (np.abs(found.slack) < 1e-7)).all()
            assert found.duals[~found.binding] == pytest.approx(0.0, abs=1e-9)

    @pytest.mark.parametrize(("threshold", "value", "slater"), [(0.1, 0.4, 0.1), (0.5, 0.7, 0.5)])
    def test_the_paper_s_bandit(self, threshold: float, value: float, slater: float) -> None:
        found = tr.solve(bandit(threshold))
        assert found.value == pytest.approx(value)
        assert found.slater == pytest.approx(slater)
        if threshold == 0.1:
            np.testing.assert_allclose(found.policy, [[0.5, 0.0, 0.0, 0.5]], atol=1e-12)

    def test_epsilon_for_each_constraint(self) -> None:
        env = random_env(1, 6, 4)
        loose = tr.solve(env)
        tight = tr.solve(env, epsilon=[0.05, 0.0])
        shifted = Tabular(env.weights, rewards=env.rewards, costs=env.costs + np.array([0.05, 0.0]))
        assert tight.value == pytest.approx(tr.solve(shifted).value, abs=1e-9)
        assert tight.value <= loose.value + 1e-9
        assert tight.slater == pytest.approx(loose.slater)  # a property of the environment

    def test_methods_agree(self) -> None:
        env = synthetic(contexts=80, constraints=4)
        values = [tr.solve(env, method=method).value for method in ("auto", "direct", "decomposition")]
        assert np.ptp(values) < 3e-9

    def test_no_constraints(self) -> None:
        env = synthetic(constraints=0)
        found = tr.solve(env)
        assert found.value == pytest.approx(env.weights @ env.rewards.max(axis=1))
        assert found.slater == 1.0
        assert str(found).startswith("value ")


class TestJoint:
    def test_the_paper_s_bandit(self) -> None:
        env = bandit(0.1, costs_seen="before")
        assert tr.solve(env).value == pytest.approx(0.67)
        assert tr.solve(env, baseline="fluid").value == pytest.approx(0.4)
        assert tr.solve(bandit(0.1), baseline="joint").value == pytest.approx(0.67)

    @pytest.mark.parametrize("seed", range(5))
    def test_is_the_program_s_optimum(self, seed: int) -> None:
        env = random_env(seed, contexts=2, cost_noise="bernoulli")
        found = tr.solve(env)
        assert found.baseline == "joint"
        assert found.value == pytest.approx(by_brute_force(env, joint=True), abs=1e-8)
        assert found.slater >= oracle.slater(env) - 1e-9
        if oracle.slater(env) >= 0:
            assert found.value >= tr.solve(env, baseline="fluid").value - 1e-9

    def test_atoms_carry_the_law(self) -> None:
        env = random_env(0, contexts=2, cost_noise="bernoulli")
        found = tr.solve(env)
        atoms = found.atoms
        assert atoms is not None
        assert atoms.weights.sum() == pytest.approx(1.0)
        assert found.policy.shape == (atoms.weights.size, env.n_actions) == (2 * 2**6, 3)
        for c in range(2):
            here = atoms.contexts == c
            assert atoms.weights[here].sum() == pytest.approx(env.weights[c])
            means = np.einsum("a,ajk->jk", atoms.weights[here], atoms.costs[here]) / env.weights[c]
            np.testing.assert_allclose(means, env.costs[c], atol=1e-12)
        reward = atoms.weights @ (found.policy * env.rewards[atoms.contexts]).sum(axis=1)
        assert reward == pytest.approx(found.value)

    def test_only_random_entries_on_offer_multiply(self) -> None:
        costs = np.array([[[-1.0, 0.2], [0.3, -0.5]], [[-0.5, -0.5], [-0.5, 1.0]]])
        env = Tabular(
            [0.5, 0.5],
            rewards=[[0.1, 0.9], [0.5, 0.6]],
            costs=costs,
            cost_noise="bernoulli",
            available=[[True, True], [True, False]],
        )
        atoms = tr.solve(env).atoms
        assert atoms is not None
        assert (atoms.contexts == 0).sum() == 2**3
        assert (atoms.contexts == 1).sum() == 2**2

    def test_without_randomness_it_is_the_fluid_program(self) -> None:
        env = random_env(2)
        assert tr.solve(env, baseline="joint").value == pytest.approx(tr.solve(env).value, abs=1e-9)


class TestSampled:
    def test_interval_holds_the_exact_value(self, monkeypatch: pytest.MonkeyPatch) -> None:
        env = random_env(0, contexts=2, cost_noise="bernoulli")
        exact = tr.solve(env).value
        monkeypatch.setattr("tightrope.oracle.programs._MOST_ATOMS", 1)
        misses = 0
        for seed in range(12):
            found = tr.solve(env, samples=2_000, seed=seed)
            assert found.baseline == "joint-sampled"
            assert found.interval[0] <= found.value <= found.interval[1]
            misses += not found.interval[0] <= exact <= found.interval[1]
        assert misses <= 3  # 5 % each at most: 4 or more would happen once in 450 times
        assert tr.solve(env, samples=2_000, seed=3).value == tr.solve(env, samples=2_000, seed=3).value

    def test_gaussian_costs_against_the_closed_form(self) -> None:
        """Two arms: the dual function is E max of two independent normals, which has a closed form."""
        rewards, means, scale = np.array([0.3, 0.8]), np.array([-0.1, 0.1]), 0.1

        def dual(lam: float) -> float:
            a, b = rewards - lam * means
            spread = lam * scale * np.sqrt(2.0)
            z = (a - b) / spread
            return float(a * norm.cdf(z) + b * norm.cdf(-z) + spread * norm.pdf(z))

        exact = minimize_scalar(dual, bounds=(1e-6, 50.0), method="bounded", options={"xatol": 1e-10}).fun
        env = Tabular(
            [1.0], rewards=[rewards], costs=means[None, :, None], cost_noise="gaussian", cost_scale=scale
        )
        found = tr.solve(env, samples=20_000)
        low, high = found.interval
        assert found.baseline == "joint-sampled"
        assert low <= exact <= high
        assert high - low < 0.02
        assert "95 % confidence" in str(found)

    def test_samples_without_a_feasible_policy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        env = Tabular([1.0], rewards=[[0.1, 0.9]], costs=[[[-0.1], [0.5]]], cost_noise="bernoulli")
        exact = tr.solve(env).value
        monkeypatch.setattr("tightrope.oracle.programs._MOST_ATOMS", 1)
        # Ten atoms in a batch: with chance 0.08 no policy is feasible there, which only widens the interval.
        found = [tr.solve(env, samples=200, seed=seed) for seed in range(10)]
        assert sum(not one.interval[0] <= exact <= one.interval[1] for one in found) <= 2
        # All of 20 atoms would have to cost -1, and the chance that some do not is 1 - 10^-4.
        with pytest.raises(InfeasibleProblem, match=r"in a sample of 20 atoms; use more samples to be sure"):
            tr.solve(env, epsilon=0.999, samples=20)

    def test_refuses_too_few_samples(self) -> None:
        env = Tabular([1.0], rewards=[[0.5]], costs=[[[-0.1]]], cost_noise="gaussian")
        with pytest.raises(InvalidInput, match="samples must be a whole number >= 20"):
            tr.solve(env, samples=3)


class TestInfeasible:
    def test_says_how_much_and_names_an_irreducible_set(self) -> None:
        # "fair" asks for 0.6 of the second action, "safe" allows 0.3; "idle" is harmless.
        costs = [[[0.6, -0.3, -1.0], [-0.4, 0.7, -1.0]]]
        env = Tabular([1.0], rewards=[[0.1, 0.2]], costs=costs, constraints=["fair", "safe", "idle"])
        with pytest.raises(
            InfeasibleProblem, match=r"'fair' and 'safe' can't be met together; .* 'fair' by 0\.3$"
        ):
            tr.solve(env)
        assert oracle.slater(env) == pytest.approx(-0.15)

    def test_redundant_conflicts_are_left_out(self) -> None:
        costs = np.array([[[0.6, 0.6, -0.3, -0.3], [-0.4, -0.4, 0.7, 0.7]]])
        env = Tabular([1.0], rewards=[[0.1, 0.2]], costs=costs, constraints=["a", "b", "c", "d"])
        with pytest.raises(InfeasibleProblem, match=r": '[ab]' and '[cd]' can't be met together"):
            tr.solve(env)

    def test_margins(self) -> None:
        with pytest.raises(InfeasibleProblem, match=r"margins epsilon: 'usage' can't be met; .* by 0\.1"):
            tr.solve(bandit(0.1), epsilon=0.2)


class TestSolution:
    def test_certificate_is_reproducible_from_the_data(self) -> None:
        env = synthetic(contexts=30, constraints=3)
        found = tr.solve(env, epsilon=0.01)
        proof = lp.certify(
            env.weights, env.rewards, env.costs, x=found.policy, duals=found.duals, epsilon=found.epsilon
        )
        assert proof.verified
        assert proof.value == found.value

    def test_table_names_the_constraints(self) -> None:
        found = tr.solve(Tabular([1.0], rewards=[[0.5, 0.2]], costs=[[[0.5], [-0.5]]], constraints=["beds"]))
        lines = str(found).splitlines()
        assert lines[1].split() == ["rule", "left", "price", "binding"]
        assert lines[2].split() == ["beds", "0", "0.3", "yes"]

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"env": None}, "env must be a tabular environment, but got NoneType"),
            ({"epsilon": [0.1, 0.1]}, "epsilon must have shape"),
            ({"epsilon": np.nan}, "epsilon must be finite"),
            ({"baseline": "best"}, "baseline must be 'auto', 'fluid' or 'joint'"),
            ({"method": "best"}, "method must be 'auto', 'direct' or 'decomposition'"),
        ],
    )
    def test_refuses(self, change: dict[str, Any], text: str) -> None:
        with pytest.raises(InvalidInput, match=text):
            tr.solve(**{"env": bandit(0.1), **change})


class TestCheck:
    def failures(self, env: Tabular, **settings: Any) -> set[str]:
        return {item.statement for item in tr.oracle.check(env, **settings).items if not item.holds}

    def test_bandit_holds_with_a_large_enough_m(self) -> None:
        report = tr.oracle.check(bandit(0.1))
        assert report.m == pytest.approx(np.sqrt(0.1**2 + 0.2**2 + 0.4**2 + 0.7**2))
        assert report.holds
        assert self.failures(bandit(0.1), m=0.5) == {"‖θ*‖ ≤ m = 0.5"}
        assert self.failures(bandit(0.1), m=None) == set(), "nothing is asked where there is no m"

    def test_tau_prime(self) -> None:
        """Costs before: ⌈24 K^1.5/δ²⌉; after: the first round with 4 d log(1+T)/√t ≤ δ/2."""
        assert tr.oracle.check(synthetic(constraints=4, slater=0.1)).tau_prime == pytest.approx(
            24 * 8 / 0.01, abs=1
        )
        env = bandit(0.1)
        assert tr.oracle.check(env).tau_prime is None
        tau = tr.oracle.check(env, horizon=1000).tau_prime
        assert tau is not None
        epsilon = 4 * 4 * np.log(1001) / np.sqrt([tau - 1, tau])
        assert epsilon[1] <= 0.05 < epsilon[0]
        assert tr.oracle.check(synthetic(constraints=0)).tau_prime == 1

    def test_each_violation_is_found(self) -> None:
        draw = np.random.default_rng(0)
        phi = draw.uniform(size=(20, 3, 2))
        phi /= np.linalg.norm(phi, axis=2, keepdims=True)
        theta = np.array([0.5, 0.5])
        fine: dict[str, Any] = {
            "weights": np.full(20, 0.05),
            "features": phi,
            "rewards": phi @ theta,
            "costs": (phi @ np.array([0.3, -0.9]))[:, :, None],
            "reward_noise": "gaussian",
            "costs_seen": "after",
        }
        assert self.failures(Tabular(**fine)) == set()
        bent = fine["rewards"].copy()
        bent[0, 0] += 0.01
        twisted = fine["costs"].copy()
        twisted[3, 1] += 0.01
        cases: list[tuple[dict[str, Any], set[str]]] = [
            ({"rewards": bent}, {"mean rewards linear in φ"}),
            ({"rewards": fine["rewards"] * 2}, {"mean rewards in [0, 1]", "‖θ*‖ ≤ m = 1"}),
            ({"reward_scale": 1.5}, {"reward noise 1-sub-Gaussian"}),
            ({"features": phi * 1.01}, {"‖φ‖ ≤ 1", "‖ψ‖ ≤ 1"}),
            ({"cost_features": phi * 1.01}, {"‖ψ‖ ≤ 1"}),
            ({"costs": twisted}, {"mean costs linear in ψ"}),
            ({"cost_features": phi / 2}, {"‖μ*‖ ≤ 1"}),
            ({"costs": np.full((20, 3, 1), 0.1), "costs_seen": "before"}, {"Slater's condition, δ > 0"}),
            (
                {"cost_noise": "bernoulli", "cost_range": (-1.5, 1.0)},
                {"costs in [-1, 1]", "cost noise 1-sub-Gaussian"},
            ),
        ]
        for change, expected in cases:
            assert self.failures(Tabular(**{**fine, **change})) == expected, change

    def test_what_never_happens_does_not_count(self) -> None:
        phi = np.array([[[1.0], [5.0]], [[7.0], [0.5]]])
        env = Tabular([1.0, 0.0], phi, [[0.5, 0.1], [0.1, 0.1]], available=[[True, False], [True, True]])
        assert tr.oracle.check(env).holds

    def test_shared_features_are_fitted_for_each_action(self) -> None:
        x = np.array([[0.5, 0.5], [0.1, 0.9], [0.3, 0.2]])
        theta = np.array([[0.1, 0.4], [0.3, 0.2]])
        report = tr.oracle.check(Tabular(np.full(3, 1 / 3), x, x @ theta.T))
        assert report.holds
        assert report.m == pytest.approx(np.linalg.norm(theta))

    def test_table(self) -> None:
        text = str(tr.oracle.check(bandit(0.1), m=0.5))
        assert text.startswith("not every assumption holds")
        assert "‖θ*‖ ≤ m = 0.5" in text
        assert " NO" in text
