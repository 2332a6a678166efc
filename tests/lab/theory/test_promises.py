"""Every promise at once."""

import math
from itertools import product

import numpy as np
import pytest

from tightrope import schedules
from tightrope.schedules import known_costs
from tightrope_lab import theory
from tightrope_lab.theory.paper import paper_schedules
from tightrope_lab.theory.totals import Summed


class TestGuarantees:
    def test_hospital_is_promised_nothing(self):
        table = theory.guarantees(K=18, delta=0.00625, d=20, T=62_500)
        assert table.violation > 18 * 62_500
        assert table.regret > 62_500
        assert table.regret_linear is None
        lines = str(table).splitlines()
        assert len(lines) == 13
        assert all(line.endswith("no") for line in lines[2:])

    def test_bandit_is_promised_an_end_of_violations_within_the_run(self):
        table = theory.guarantees(K=1, delta=0.5, d=4, T=10_000)
        assert table.violation_ends > 10_000 > table.violation_ends_sharp
        assert sum(line.endswith("yes") for line in str(table).splitlines()) == 6

    def test_the_best_end_is_the_earliest_and_the_old_ones_stay(self):
        table = theory.guarantees(K=1, delta=0.5, d=4, T=10_000)
        assert (table.violation_ends, table.violation_ends_sharp) == (246_722, 2_681)
        assert table.violation_ends_best == 597 < table.paths_end == 1_102


class TestFailedConfidenceSets:
    """r̂ is not clipped at 0 in the paper's policy, so that a set that fails, with probability 1/T, must be paid for."""

    def test_no_probability_is_below_one_in_T(self):
        for T in (10**7, 10**9):
            table = theory.guarantees(K=1, delta=0.5, d=4, T=T)
            assert table.tail >= 1 / T
        assert table.tail == pytest.approx(1e-9, rel=1e-6), "not 7·10⁻¹⁴¹"
        assert theory.guarantees(K=1, delta=0.5, d=4, T=100).paths_end is None
        assert theory.guarantees(K=1, delta=0.5, d=4, T=102).paths_end > 1_200

    def test_every_end_pays_the_most_that_a_failure_can_add(self):
        for K, delta, T in ((1, 0.5, 10_000), (3, 0.2, 200_000), (1, 0.1, 10**6)):
            table = theory.guarantees(K=K, delta=delta, d=4, T=T)
            V, epsilon = paper_schedules(delta, known_costs(K))
            total = np.cumsum(epsilon.scale / np.sqrt(np.arange(1.0, T + 1)))
            failed = math.sqrt(K) * (T + total[-1]) / T
            end = table.violation_ends_sharp
            queue = theory.queue_bound_schedule(end + 1, theory.Steering(K, delta, V, theory.Summed(epsilon)))
            assert queue + failed <= total[end - 1]
            assert theory.violation_ends_schedule(theory.Steering(K, delta, V, theory.Summed(epsilon))) < end
            end = table.violation_ends_best
            assert theory.expected_total_bound(end, theory.Steering(K, delta, V, Summed(epsilon))) <= -failed
            without = theory.expected_violation_ends(theory.Steering(K, delta, V, Summed(epsilon)))
            assert without < end

    def test_the_bounds_in_each_round(self):
        K, delta, T = 2, 0.5, 5_000
        V, epsilon = paper_schedules(delta, known_costs(K))
        tau = np.array([2_000.0, 5_000.0])
        pushed = np.array([t + np.sum(epsilon.scale / np.sqrt(np.arange(1.0, t + 1))) for t in tau])
        setting = {"K": K, "delta": delta, "V": V, "b": Summed(epsilon)}
        added = [
            theory.queue_bound_schedule(tau + 1, theory.Steering(K, delta, V, theory.Summed(epsilon)), T=end)
            for end in (T, None)
        ]
        np.testing.assert_allclose(added[0] - added[1], math.sqrt(K) * pushed / T, rtol=2e-3)
        added = [theory.expected_total_bound(tau, theory.Steering(**setting), T=end) for end in (T, None)]
        np.testing.assert_allclose(added[0] - added[1], math.sqrt(K) * pushed / T, rtol=1e-6)
        late = np.array([50_000.0])
        added = [
            theory.violation_probability_bound(late, theory.Steering(**setting), T=end)
            for end in (10**6, None)
        ]
        np.testing.assert_allclose(added[0] - added[1], 1e-6)
        for bound in (theory.tail_bound, theory.tail_bound_full):
            assert bound(10**9, K=1, delta=0.5, T=10**9) == bound(10**9, K=1, delta=0.5) + 1e-9

    def test_they_fit_into_the_slack_of_theorem_1_in_both_forms(self):
        for K, delta in product((1, 2, 3, 5, 18), (1.0, 0.7, 0.5, 0.3, 0.1)):
            V, epsilon = paper_schedules(delta, known_costs(K))
            start, end = schedules.tau_prime(K=K, delta=delta), theory.violation_ends(K=K, delta=delta)
            # The earliest horizon is the worst.
            for tau in np.unique(np.geomspace(start, end, 25).astype(int)).tolist():
                sharp = theory.violation_bound_schedule(
                    tau, theory.Steering(K, delta, V, theory.Summed(epsilon)), T=tau
                )
                for form in ("printed", "mended"):
                    assert sharp <= theory.violation_bound(tau, K=K, delta=delta, form=form)
                queue = theory.queue_bound_schedule(
                    tau, theory.Steering(K, delta, V, theory.Summed(epsilon)), T=tau
                )
                assert math.sqrt(K) * queue <= theory.queue_bound(tau, K=K, delta=delta)
