"""Where Slater's constant is measured: how often it is too high, and what that costs, against samples, runs and the page."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from tightrope.errors import InvalidInput
from tightrope.policies.pessimistic_optimistic.slater import measure
from tightrope.schedules import Power, known_costs
from tightrope_lab import theory

PAGE = (Path(__file__).parents[3] / "docs" / "no-constants.md").read_text(encoding="utf-8")
PAGE = re.sub(r"\s+", " ", PAGE)


class TestProbability:
    def test_estimates_in_use_are_counted_once_each(self):
        def term(n):
            return math.exp(-n * (0.4 * 0.5) ** 2 / 2)

        # Rounds 65..128 use what was measured after 64, round 129 what was measured after 128.
        assert theory.overestimate_probability(65, 128, delta=0.5, ratio=1.4) == pytest.approx(term(64))
        two = theory.overestimate_probability(128, 129, delta=0.5, ratio=1.4)
        assert two == pytest.approx(term(64) + term(128))
        # Beyond 1,024 rounds no estimate is surer than another: each doubling adds as much.
        many = [theory.overestimate_probability(1025, 2**i, delta=0.5, ratio=1.4) for i in (11, 12, 16)]
        np.testing.assert_allclose(many, term(1024) * np.array([1, 2, 6]))
        assert theory.overestimate_probability(1, 2, delta=0.5, ratio=1.4) == pytest.approx(term(1))
        with pytest.raises(InvalidInput, match="`first <= last` must hold"):
            theory.overestimate_probability(3, 2, delta=0.5, ratio=1.4)

    @pytest.mark.parametrize("n", [4, 16])
    def test_samples_exceed_it_no_more_often_than_that(self, n):
        # Costs jump between the ends of their range: the worst law that there is. By symmetry λ = (½, ½), so that
        # δ = E max_j −(W_j1 + W_j2)/2.
        draw, K, J, seen = np.random.default_rng(0), 2, 2, 400
        W = np.where(draw.random((200_000, J, K)) < 0.5, -1.0, 0.6)
        delta = float(np.mean((-W.mean(axis=2)).max(axis=1)))
        found = np.array(
            [measure(list(np.where(draw.random((n, J, K)) < 0.5, -1.0, 0.6))) for _ in range(seen)]
        )
        assert found.mean() <= delta + 3 * found.std() / math.sqrt(seen), "on average it is not too high"
        for ratio in (1.2, 1.5, 2.0):
            bound = math.exp(-n * ((ratio - 1) * delta) ** 2 / 2)
            assert (found > ratio * delta).mean() <= bound + 3 * math.sqrt(bound / seen)


class TestViolation:
    def test_what_the_page_says(self):
        for delta, tau in ((0.5, 10**5), (0.3, 10**6), (0.25, 10**8)):
            assert theory.violation_bound_measured(tau, K=1, delta=delta) == 0
            assert theory.violation_bound_measured(tau // 10, K=1, delta=delta) > 0
        assert "by round 10⁵ for δ = 0.5, by 10⁶ for δ = 0.3, by 10⁸ for δ = 0.25" in PAGE
        assert f"the bound is {theory.violation_bound_measured(10**6, K=1, delta=0.2):,.0f}" in PAGE
        far = [theory.violation_bound_measured(10**i, K=1, delta=0.2) for i in (6, 8, 10)]
        assert far == sorted(far)
        risks = [theory.overestimate_probability(1025, 10**6, delta=d, ratio=1.45) for d in (0.3, 0.2, 0.1)]
        assert f"at most {risks[0]:.4f} at δ = 0.3 and {risks[1]:.2f} at δ = 0.2" in PAGE
        assert risks[2] == 1

    def test_with_certainty_it_is_the_bound_for_a_known_constant(self):
        # With a sample that is large enough p vanishes, and so does the difference but for ρ and the later start.
        V, epsilon = known_costs(1)
        V, epsilon = Power(0.5 * V.scale, 0.5), Power(epsilon.scale, -0.5)
        for tau in (200, 1_000, 3_000):
            known = theory.violation_bound_schedule(tau, theory.Steering(1, 0.5, V, theory.Summed(epsilon)))
            assert known <= theory.violation_bound_measured(tau, K=1, delta=0.5, kept=10**9)
        assert theory.violation_bound_measured(30_000, K=1, delta=0.5, kept=10**9) == 0

    def test_trivial_where_nothing_is_proved_and_nothing_to_prove_without_constraints(self):
        assert theory.violation_bound_measured(50, K=3, delta=0.1) == 150
        assert theory.violation_bound_measured(50, K=0, delta=0.1) == 0

    @pytest.mark.parametrize("tightening", ["paper", "capped"])
    def test_runs_that_measure_stay_below(self, tightening):
        env = tr.environments.Tabular(
            [1.0],
            rewards=[[0.9, 0.1]],
            costs=[[[0.6], [-0.6]]],
            cost_noise="bernoulli",
            reward_noise="none",
        )
        policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, tightening=tightening)
        run = tr.simulate(
            policy, env, rounds=1_500, replications=6, seed=0, optimum=0.0, record=30, workers=1
        )
        delta = tr.solve(env).slater
        bound = [theory.violation_bound_measured(int(t), K=1, delta=delta) for t in run.rounds]
        assert run.violation.mean.max() > 0
        assert np.all(run.violation.mean <= bound)
