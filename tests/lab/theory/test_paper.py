"""The bounds against hand arithmetic, exact sums, an exactly solved Markov chain, LPs, and runs of the queues."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from paper_proof import known_costs, paper_route, run_of_queues, values
from tightrope import kernels, schedules
from tightrope.errors import InvalidInput
from tightrope.schedules import Power
from tightrope_lab import theory

KS = (1, 2, 3, 5, 18)
DELTAS = (1.0, 0.7, 0.5, 0.3, 0.1)
GRID = list(product(KS, DELTAS))


def rounds_between(low, high, count=40):
    return np.unique(np.geomspace(low, max(low, high), count).astype(np.int64))


class TestByHand:
    def test_radius(self):
        # √4·3 + sqrt(2·log 100 + 5·log(1 + 40/(5·4))) = 6 + sqrt(9.210340 + 5·1.098612) = 6 + sqrt(14.703402)
        assert theory.radius(40, d=5, T=100, m=3, ridge=4) == pytest.approx(6 + 3.834502, abs=1e-5)

    def test_regret(self):
        # K = 16, δ = 1/2, τ = 6: 60·4096·8 = 1,966,080; 4·√6·8·√6·2 = 384
        rest = theory.linucb_bound(6, d=3, T=50)
        assert theory.regret_bound(6, K=16, delta=0.5, d=3, T=50) - rest == pytest.approx(1_966_080 + 384)
        # d = τ = 1, T = 1, m = 1: √β = 1 + sqrt(log 2) = 1.832555, 2 + sqrt(8·log 2)·1.832555 = 2 + 2.354820·1.832555
        assert theory.linucb_bound(1, d=1, T=1) == pytest.approx(2 + 4.315337, abs=1e-5)

    def test_violation_with_four_constraints(self):
        # δ = 1, τ = 100: 48·16·log 64 = 768·4.158883 = 3194.0222; 24·16 = 384; 30·16 = 480; 8·4 = 32; √τ = 10
        assert theory.violation_bound(100, K=4, delta=1) == pytest.approx(
            8 * (3194.0222 + 384 + 480 + 32 - 10), rel=1e-7
        )
        # printed: 768·log 16 = 768·2.772589 = 2129.3482; 24·8 = 192; 30·8 = 240
        printed = theory.violation_bound(100, K=4, delta=1, form="printed")
        assert printed == pytest.approx(8 * (2129.3482 + 192 + 240 + 32 - 10), rel=1e-7)

    def test_tau_prime(self):
        assert schedules.tau_prime(K=4, delta=0.5) == 24 * 8 * 4
        assert schedules.tau_prime_linear(delta=0.5, d=2, T=100) == math.ceil(64 * 4 * math.log(101) ** 2 * 4)

    def test_queue(self):
        # K = 1, δ = 1: τ' = 24, V_24 = sqrt(2·24/3) = 4, ε_24 = 1/2; 48·log 16 = 133.084; 2; 4(4 + 1.25) = 21;
        # 23 rounds before τ': 23 + √6 (2√23 − 1) = 23 + 2.449490·8.591663 = 44.0452
        assert theory.queue_bound(24, K=1, delta=1) == pytest.approx(133.0843 + 2 + 21 + 44.0452, abs=1e-3)
        # round 2 follows one round: 1 + ε_1 = 1 + √6
        assert theory.queue_bound(2, K=1, delta=1) == pytest.approx(1 + math.sqrt(6))

    def test_queue_with_four_constraints(self):
        # δ = 1: τ' = 24·8 = 192, V_192 = √2·sqrt(128) = 16, ε_192 = √8·sqrt(6/192) = 1/2; 48·16·log 64 = 3194.0222; 8;
        # 4(16 + 4·1.25) = 84; 191 rounds: 191 + √48 (2√191 − 1) = 191 + 6.928203·26.640550 = 375.5712, times √4
        assert schedules.tau_prime(K=4, delta=1) == 192
        bound = theory.queue_bound(192, K=4, delta=1)
        assert bound == pytest.approx(2 * (3194.0222 + 8 + 84 + 2 * 375.5712), rel=1e-6)
        # printed: 192 + 2·√48 (2√192 − 1) = 192 + 13.856406·26.712813 = 562.1436
        bound = theory.queue_bound(192, K=4, delta=1, form="printed")
        assert bound == pytest.approx(2 * (3194.0222 + 8 + 84 + 562.1436), rel=1e-6)

    def test_drift(self):
        # ρ = ν = 3: ζ = 1/4, 2/(ζρ) = 8/3; start 8, 5 rounds ago: (1 − 3/8)⁵ e² + (8/3) e^(7/4) with level 4
        want = 4 * math.log((5 / 8) ** 5 * math.exp(2) + 8 / 3 * math.exp(7 / 4))
        assert theory.drift_mean_bound(4, drift=3, jump=3, start=8, elapsed=5) == pytest.approx(want)

    def test_queue_of_a_schedule(self):
        # K = 4, δ = 1, ε = 1/2 from the start: ρ = 1/4, ν = 2·1.5 = 3, ζ = 1/37, 2/(ζρ) = 296, level 4(10 + 4·1.25) = 60
        want = 37 * math.log((1 - 1 / 296) ** 1000 + 296 * math.exp(63 / 37))
        V, epsilon = Power(10, 0), Power(0.5, 0)
        assert theory.queue_bound_schedule(
            1001, theory.Steering(4, 1, V, theory.Summed(epsilon))
        ) == pytest.approx(want)

    def test_tail(self):
        # K = 2, δ = 0.6: ρ = 0.15, ν = 4, ζ = 0.15/(16 + 0.2) = 1/108
        zeta = theory.drift_exponent(drift=0.15, jump=4)
        assert zeta == pytest.approx(1 / 108)
        tau = 2 * 10**10
        assert theory.tail_starts(K=2, delta=0.6) < tau
        assert theory.tail_bound(tau, K=2, delta=0.6) == pytest.approx(math.exp(-(10**5) / 324))

    def test_linear(self):
        # d = 2, δ = 1/2, τ = 9, T = 99, L = log 100: 235·16·L⁴·8, 40·3·L·2, 20·3·L
        L = math.log(100)
        want = 235 * 16 * L**4 * 8 + 240 * L + 2 + 60 * L
        assert theory.regret_bound_linear(9, delta=0.5, d=2, T=99) == pytest.approx(want)
        # 128·4·L²·4 + 96·log 32 + 24 + 4(4 − 3)L
        want = 2048 * L**2 + 96 * math.log(32) + 24 + 4 * L
        assert theory.violation_bound_linear(9, delta=0.5, d=2, T=99) == pytest.approx(want)
        # d = 1: 512·L² + 96·log 32 + 24 + 8L − 3(7L − sqrt(8L)·(1 + sqrt(2·log 99 + L)))
        learning = math.sqrt(8 * L) * (1 + math.sqrt(2 * math.log(99) + L))
        want = 512 * L**2 + 96 * math.log(32) + 24 + 8 * L - 3 * (7 * L - learning)
        assert theory.violation_bound_linear(9, delta=0.5, d=1, T=99) == pytest.approx(want)


def test_radius_is_the_kernels_radius():
    for n, d, T, m, ridge in product((0, 1, 777), (1, 20), (1, 10_000), (0.5, 1.0, 3.0), (0.1, 1.0, 4.0)):
        ours = theory.radius(n, d, T, m, ridge)
        assert ours == pytest.approx(
            kernels.confidence_radius(float(n), float(d), float(T), m, ridge), rel=1e-15
        )


class TestRegretProof:
    @pytest.mark.parametrize(("K", "delta"), GRID)
    def test_the_three_sums_with_a_repaired_queue_stay_below_the_theorem(self, K, delta):
        n = 20 * schedules.tau_prime(K=K, delta=delta)
        V, eps = (values(s, n) for s in known_costs(K, delta))
        Q = np.concatenate([[0.0], np.cumsum(1 + eps)[:-1]])
        t = np.arange(1.0, n + 1)
        assert np.all(t * (1 + 2 * eps) >= Q)
        assert np.all(np.cumsum(1 / V) <= np.sqrt(6 * t) / (delta * K**0.25))
        early = np.cumsum(K * Q * np.maximum(0, eps - delta) / V)
        assert early[-1] <= 6 * K**3 / delta**3 + 36 * K**3 / delta**2
        exact = early + np.cumsum(eps / delta + K * (1 + eps**2) / V)
        theorem = theory.regret_bound(t, K=K, delta=delta, d=1, T=n) - theory.linucb_bound(t, d=1, T=n)
        assert np.all(exact <= theorem)

    def test_the_sum_of_weights_as_printed_lacks_delta(self):
        V, _ = known_costs(1, 0.1)
        assert np.sum(1 / values(V, 1000)) > math.sqrt(6 * 1000)

    def test_a_queue_can_pass_what_the_paper_bounds_it_by(self):
        _, epsilon = known_costs(1, 0.5)
        eps = values(epsilon, 50)
        assert np.sum(1 + eps[:-1]) > 50 * (1 + eps[-1])

    @pytest.mark.parametrize(("d", "delta"), list(product((1, 2, 5, 20), (1.0, 0.5, 0.1))))
    def test_linear_costs(self, d, delta):
        for T in (1, 2, 5, 20, 54, 55, 100, 1000, 100_000):
            L, t = math.log(1 + T), np.arange(1.0, T + 1)
            V, eps = delta * d * np.sqrt(t) * L / 4, 4 * d * L / np.sqrt(t)
            Q = np.concatenate([[0.0], np.cumsum(1 + eps)[:-1]])
            failed = 2 * Q / T  # W̌ − w ≤ 2 where the confidence set fails
            exact = np.cumsum(Q * np.maximum(0, eps - delta) / V + eps / delta + (1 + eps**2 + failed) / V)
            exact += theory.linucb_bound(t, d=d, T=T)
            theorem = theory.regret_bound_linear(t, delta=delta, d=d, T=T)
            assert np.all(np.minimum(exact, t) <= theorem)

    @pytest.mark.parametrize("d", [1, 2, 3, 10, 100])
    def test_learning_terms_of_theorem_2(self, d):
        for T in [*range(1, 60), 10**3, 10**5, 10**8, 10**12]:
            tau = np.unique(np.geomspace(1, T, 30))
            ratio = (theory.linucb_bound(tau, d=d, T=T) - 2) / (d * np.sqrt(tau) * math.log(1 + T))
            assert ratio.max() < (7 if d == 1 else 5)
        assert (d == 1) == (
            (theory.linucb_bound(10**4, d=d, T=10**4) - 2) / (d * 100 * math.log(10**4 + 1)) > 5
        )


class TestViolationProof:
    @pytest.mark.parametrize(("K", "delta"), GRID)
    def test_mended_covers_the_proof_and_printed_only_at_one_constraint(self, K, delta):
        start = schedules.tau_prime(K=K, delta=delta)
        taus = rounds_between(start, min(10**6, theory.violation_ends(K=K, delta=delta)))
        exact = paper_route(K, delta, taus)
        assert np.all(exact <= theory.violation_bound(taus, K=K, delta=delta))
        printed = theory.violation_bound(taus, K=K, delta=delta, form="printed")
        assert np.all(exact <= printed) == (K == 1)
        if K > 1:
            assert exact[0] > 1.2 * printed[0]

    @pytest.mark.parametrize(("K", "delta"), GRID)
    def test_printed_is_true_by_the_sharper_route(self, K, delta):
        V, epsilon = known_costs(K, delta)
        taus = rounds_between(1, theory.violation_ends(K=K, delta=delta), 200)
        sharp = theory.violation_bound_schedule(taus, theory.Steering(K, delta, V, theory.Summed(epsilon)))
        printed = theory.violation_bound(taus, K=K, delta=delta, form="printed")
        assert np.all(sharp <= printed)
        assert np.all(printed <= theory.violation_bound(taus, K=K, delta=delta) + 1e-9 * printed)

    @pytest.mark.parametrize(("K", "delta"), GRID)
    def test_levels_rise_from_tau_prime_on_as_the_drift_lemma_asks(self, K, delta):
        start = schedules.tau_prime(K=K, delta=delta)
        t = np.arange(start, start + 2000.0)
        V, epsilon = known_costs(K, delta)
        assert np.all(np.diff(V.scale * np.sqrt(t) + K * epsilon.scale**2 / t) > 0)

    @pytest.mark.parametrize(("K", "delta"), [(1, 0.1), (4, 0.5), (18, 0.00625), (18, 0.3)])
    def test_end_is_the_first_zero(self, K, delta):
        for form in ("mended", "printed"):
            end = theory.violation_ends(K=K, delta=delta, form=form)
            assert theory.violation_bound(end, K=K, delta=delta, form=form) == 0
            assert theory.violation_bound(end * (1 - 1e-9) - 1, K=K, delta=delta, form=form) > 0

    @pytest.mark.parametrize("d", [1, 2, 5])
    def test_linear_costs_with_every_failure_counted(self, d):
        covered = 0
        for delta, T in product((1.0, 0.7, 0.5), (2, 50, 3000, 10**6)):
            L, start = math.log(1 + T), schedules.tau_prime_linear(delta=delta, d=d, T=T)
            early = np.arange(1, min(T, start - 1) + 1)
            assert np.all(early <= theory.violation_bound_linear(early, delta=delta, d=d, T=T))
            if start > T:
                continue
            covered += 1
            eps = 4 * d * L / np.sqrt(np.arange(1.0, T + 2))
            total = np.cumsum(eps)
            taus = rounds_between(start, T)
            V, eps_next = delta * d * L * np.sqrt(taus + 1) / 4, eps[taus]
            queue = theory.drift_mean_bound(
                4 * (V + 1 + eps_next**2) / delta, drift=delta / 4, jump=2, start=start - 1 + total[start - 2]
            )
            failed = 2 / T * (taus + total[taus - 1])  # either confidence set: r̂ ≥ 0 and W̌ ≤ w are lost
            inside = taus < T
            lemma = theory.queue_bound_linear(taus[inside] + 1, delta=delta, d=d, T=T)
            assert np.all((queue + failed)[inside] <= lemma)
            exact = queue + failed + theory.linucb_bound(taus, d=d, T=T) - total[taus - 1]
            assert np.all(exact <= theory.violation_bound_linear(taus, delta=delta, d=d, T=T))
        assert covered >= 2

    def test_linear_end(self):
        T = 10**8
        for d, form in product((1, 2), ("mended", "printed")):
            end = theory.violation_ends_linear(delta=1, d=d, T=T, form=form)
            assert end <= T
            assert theory.violation_bound_linear(end, delta=1, d=d, T=T, form=form) == 0
            assert theory.violation_bound_linear(end - 1, delta=1, d=d, T=T, form=form) > 0


class TestTailProof:
    @pytest.mark.parametrize(("K", "delta"), [*GRID, (18, 0.00625)])
    def test_both_exponents_follow_from_the_display(self, K, delta):
        start = theory.tail_starts(K=K, delta=delta)
        taus = np.geomspace(float(start), 1e6 * start, 60)
        full = theory.tail_bound_full(taus, K=K, delta=delta)
        zeta = theory.drift_exponent(drift=delta / 4, jump=2 * K)
        assert zeta / 3 >= delta / (50 * K**2)
        assert np.all(full <= theory.tail_bound(taus, K=K, delta=delta))
        assert np.all(full <= theory.tail_bound(taus, K=K, delta=delta, form="printed"))

    def test_says_nothing_before_it_starts(self):
        start = theory.tail_starts(K=2, delta=0.5)
        assert theory.tail_bound(start - 1, K=2, delta=0.5) == 1
        assert theory.tail_bound(start, K=2, delta=0.5) < 1
        before = schedules.tau_prime(K=2, delta=0.5) - 2
        assert theory.tail_bound_full(before, K=2, delta=0.5) == 1

    def test_stated_constants_cover_the_ones_in_the_proof(self):
        for K, delta in GRID:
            zeta = theory.drift_exponent(drift=delta / 4, jump=2 * K)
            need = 6 * math.sqrt(K) / zeta * math.log(11 * (2 * K) ** 2 / (3 * (delta / 4) ** 2))
            need += 6 * math.sqrt(K) * (4 * K * (1 + delta**2 / 4) / delta + 48 * K**2 / delta**2)
            assert theory.tail_starts(K=K, delta=delta) >= need**2


class TestDriftLemma:
    @pytest.mark.parametrize(("drift", "start"), [(0.1, 0), (0.1, 60), (0.5, 80), (1.0, 40)])
    def test_an_exactly_solved_chain_stays_below(self, drift, start):
        # Moves of ±1, up for certain below the level, down by `drift` on average from it on: the worst allowed.
        size, level = 260, 20
        up = np.where(np.arange(size) < level, 1.0, (1 - drift) / 2)
        law = np.zeros(size)
        law[start] = 1.0
        mean = []
        for _ in range(600):
            mean.append(law @ np.arange(size))
            law = np.concatenate([[0.0], (law * up)[:-1]]) + np.concatenate([(law * (1 - up))[1:], [0.0]])
        assert law.sum() == pytest.approx(1.0)
        bound = theory.drift_mean_bound(
            np.full(600, float(level)), drift=drift, jump=1, start=start, elapsed=np.arange(600)
        )
        assert np.all(np.array(mean) <= bound)

    def test_closed_form_of_the_paper_is_weaker(self):
        for rho, nu, level, start in product((0.01, 0.2, 1.0), (1.0, 4.0), (0.0, 30.0), (0.0, 500.0)):
            closed = 3 * nu**2 / rho * math.log(2 * nu / rho) + nu + level + start
            assert theory.drift_mean_bound(level, drift=rho, jump=nu, start=start) <= closed


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize(
    ("V", "epsilon"), [(None, None), (Power(1.0, 0.5), Power(6.0, -0.5)), (Power(2.0, 0.3), Power(1.0, -0.4))]
)
def test_a_run_of_the_queues_stays_below(K, V, epsilon):
    delta = 0.5
    if V is None:
        V, epsilon = known_costs(K, delta)
    n = 8000
    queues, totals = run_of_queues(K, delta, V, epsilon, n)
    tau = np.arange(1, n + 1)
    assert queues.max() > 0
    assert np.all(
        queues
        <= theory.queue_bound_schedule(tau, theory.Steering(K, delta, V, theory.Summed(epsilon))) + 1e-9
    )
    assert np.all(
        totals
        <= theory.violation_bound_schedule(tau, theory.Steering(K, delta, V, theory.Summed(epsilon))) + 1e-9
    )


class TestSchedules:
    def test_end(self):
        V, epsilon = known_costs(1, 0.5)
        end = theory.violation_ends_schedule(theory.Steering(1, 0.5, V, theory.Summed(epsilon)))
        around = np.array([end - 1, end])
        bound = theory.violation_bound_schedule(around, theory.Steering(1, 0.5, V, theory.Summed(epsilon)))
        assert bound[0] > 0 == bound[1]
        later = np.geomspace(end, 1e9, 500)
        assert not theory.violation_bound_schedule(
            later, theory.Steering(1, 0.5, V, theory.Summed(epsilon))
        ).any()

    def test_never_tight_enough(self):
        V, epsilon = Power(1.0, 0.5), Power(0.6, 0.0)
        tau = np.array([1.0, 100.0, 1e6])
        bound = theory.queue_bound_schedule(tau, theory.Steering(1, 0.5, V, theory.Summed(epsilon)))
        np.testing.assert_allclose(bound, 1.6 * (tau - 1))
        assert theory.violation_ends_schedule(theory.Steering(1, 0.5, V, theory.Summed(epsilon))) is None

    def test_a_zero_that_does_not_last_is_no_end(self):
        V, epsilon = Power(0.05, 0.7), Power(6.0, -0.5)
        bound = theory.violation_bound_schedule(
            np.array([1e5, 1e15]), theory.Steering(1, 0.5, V, theory.Summed(epsilon))
        )
        assert bound[0] == 0 < bound[1]
        assert theory.violation_ends_schedule(theory.Steering(1, 0.5, V, theory.Summed(epsilon))) is None

    def test_sums_bracket_the_truth(self):
        for exponent in (-1.5, -1.0, -0.5, -0.2, 0.0):
            epsilon = Power(3.0, exponent)
            exact = np.cumsum(values(epsilon, 500))
            tau = np.arange(1, 501)
            high = theory.tightness_cost(tau, delta=1, epsilon=epsilon)
            assert np.all(exact <= high * (1 + 1e-12))
            assert np.all(high <= exact + 3.0)

    @pytest.mark.parametrize("seed", range(5))
    def test_tightness_cost_covers_linear_programs(self, seed):
        rng = np.random.default_rng(seed)
        contexts, actions, K = 3, 4, 2
        p = rng.dirichlet(np.ones(contexts))
        r, w = rng.random((contexts, actions)), rng.uniform(-1, 0.5, (contexts, actions, K))
        simplex = np.kron(np.eye(contexts), np.ones(actions))
        mass = p[:, None, None] * w

        def best(tight):
            rows = mass.reshape(-1, K).T
            return linprog(-(p[:, None] * r).ravel(), rows, np.full(K, -tight), simplex, np.ones(contexts))

        margin = linprog(
            np.append(np.zeros(contexts * actions), -1.0),
            np.hstack([mass.reshape(-1, K).T, np.ones((K, 1))]),
            np.zeros(K),
            np.hstack([simplex, np.zeros((contexts, 1))]),
            np.ones(contexts),
        )
        delta = min(1.0, -margin.fun)
        for share in (0.1, 0.5, 0.99):
            lost = best(share * delta).fun - best(0.0).fun
            assert (
                -1e-9
                <= lost
                <= theory.tightness_cost(1, delta=delta, epsilon=Power(share * delta, -0.5)) + 1e-9
            )


@pytest.mark.parametrize("ridge", [0.2, 1.0, 5.0])
def test_elliptical_potential_covers_any_features(ridge):
    rng = np.random.default_rng(0)
    for d in (1, 3):
        for phi in (np.eye(d)[np.arange(200) % d], rng.normal(size=(200, d))):
            phi = phi / np.maximum(1, np.linalg.norm(phi, axis=1, keepdims=True))
            Sigma, total = ridge * np.eye(d), 0.0
            for t, x in enumerate(phi, 1):
                total += min(1.0, x @ np.linalg.solve(Sigma, x))
                Sigma += np.outer(x, x)
                assert total <= theory.elliptical_potential(t, d=d, ridge=ridge)


class TestFailureOfASet:
    """What the two mismatch terms of the regret lose: 1 for r̂ ≤ 1, and E(r − r̂)⁺ for r̂ that is below r."""

    @pytest.mark.parametrize(("ridge", "lost"), [(4.0, 2.0), (1.0, 2.0), (0.25, 3.0), (0.01, 11.0)])
    def test_a_small_ridge_lets_r_hat_fall_further(self, ridge, lost):
        learning = 2 * theory.radius(9, d=3, T=50, ridge=ridge)
        learning *= math.sqrt(9 * theory.elliptical_potential(9, d=3, ridge=ridge))
        assert theory.linucb_bound(9, d=3, T=50, ridge=ridge) == pytest.approx(lost + learning)
        assert theory.linucb_bound(9, d=3, T=50, ridge=ridge, clipped=True) == pytest.approx(2 + learning)
        endless = theory.linucb_bound(50, d=3, T=None, ridge=ridge)
        fixed = theory.linucb_bound(50, d=3, T=50, ridge=ridge)
        assert endless - fixed == pytest.approx(lost * math.log(50))

    def test_what_is_lost_beyond_the_radius_is_at_most_one_in_T(self):
        # ∫ e^{−su − u²/2} du with s = sqrt(2 log T) is what E(r − r̂)⁺ is at most, over T and with ‖φ‖_{Σ⁻¹} ≤ 1/√λ.
        for T in (2, 3, 10, 1e3, 1e6):
            s, u = math.sqrt(2 * math.log(T)), np.linspace(0, 12, 400_001)
            assert np.trapezoid(np.exp(-s * u - u**2 / 2), u) <= 1

    def test_the_second_term_is_needed_where_the_ridge_is_small(self):
        # One feature of length 1, one reward with noise of −z: r̂ falls below r by (z − √λ(m + …))/√λ-ish, beyond 1 for small λ.
        ridge, m, T = 0.01, 1.0, 2
        radius = theory.radius(1, d=1, T=T, m=m, ridge=ridge)
        noise = np.random.default_rng(0).normal(size=200_000)
        estimate = (m + noise) / (1 + ridge)
        for length in (1.0, 0.05):  # features of the reward learnt, and of the one to come
            r_hat = np.minimum(1, estimate * length + radius * length / math.sqrt(1 + ridge))
            assert np.mean(np.maximum(0, m * length - r_hat)) <= 1 / (math.sqrt(ridge) * T)


def test_no_horizon_pays_a_logarithm():
    tau = np.array([1, 10, 1000])
    for i, t in enumerate(tau):
        fixed = theory.linucb_bound(int(t), d=3, T=int(t))
        assert theory.linucb_bound(tau, d=3, T=None)[i] == pytest.approx(fixed + 2 * math.log(t))


def test_no_constraints():
    tau = np.array([1, 50])
    same = theory.regret_bound(tau, K=0, delta=0.5, d=2, T=100)
    np.testing.assert_array_equal(same, theory.linucb_bound(tau, d=2, T=100))
    for bound in (theory.violation_bound, theory.queue_bound, theory.tail_bound, theory.tail_bound_full):
        np.testing.assert_array_equal(bound(tau, K=0, delta=0.5), [0, 0])
    assert theory.violation_ends(K=0, delta=0.5) == schedules.tau_prime(K=0, delta=0.5) == 1
    assert theory.tail_starts(K=0, delta=0.5) == 1
    table = theory.guarantees(K=0, delta=0.5, d=2, T=100)
    assert table.violation == 0
    assert table.violation_ends_sharp == 1


@pytest.mark.parametrize(
    "bound",
    [
        lambda tau: theory.radius(tau, d=3, T=5000),
        lambda tau: theory.regret_bound(tau, K=2, delta=0.5, d=3, T=5000),
        lambda tau: theory.violation_bound(tau, K=2, delta=0.5),
        lambda tau: theory.queue_bound(tau, K=2, delta=0.5),
        lambda tau: theory.tail_bound_full(tau, K=2, delta=0.5),
        lambda tau: theory.regret_bound_linear(tau, delta=0.5, d=3, T=5000),
        lambda tau: theory.violation_bound_linear(tau, delta=0.5, d=3, T=5000),
        lambda tau: theory.queue_bound_linear(tau, delta=0.5, d=3, T=5000),
        lambda tau: theory.violation_bound_schedule(
            tau, theory.Steering(2, 0.5, Power(1, 0.5), theory.Summed(Power(6, -0.5)))
        ),
    ],
)
def test_arrays_are_scalars_side_by_side(bound):
    tau = np.array([[1, 2, 700], [271, 272, 5000]])
    together = bound(tau)
    assert together.shape == tau.shape
    for index, t in np.ndenumerate(tau):
        alone = bound(int(t))
        assert type(alone) is float
        assert alone == together[index]


def test_smaller_slater_constants_are_harder():
    deltas = (1.0, 0.5, 0.1, 0.01)
    for bound in (
        lambda delta: theory.regret_bound(100, K=2, delta=delta, d=3, T=100),
        lambda delta: theory.violation_ends(K=2, delta=delta),
        lambda delta: theory.tail_starts(K=2, delta=delta),
        lambda delta: theory.violation_ends_linear(delta=delta, d=2, T=100),
    ):
        found = [bound(delta) for delta in deltas]
        assert found == sorted(found)


class TestBadArguments:
    @pytest.mark.parametrize("delta", [0, -0.1, 1.0001, math.nan, math.inf, "0.5", True, None])
    def test_delta(self, delta):
        with pytest.raises(InvalidInput, match="delta must"):
            theory.violation_bound(5, K=1, delta=delta)

    @pytest.mark.parametrize("K", [-1, 1.0, "1", True, None])
    def test_constraints(self, K):
        for call in (theory.violation_ends, theory.tail_starts):
            with pytest.raises(InvalidInput, match=r"K must be a whole number >= 0, but got"):
                call(K=K, delta=0.5)

    @pytest.mark.parametrize("tau", [0, -3, math.nan, math.inf, "5", True, None, [True], ["a"]])
    def test_rounds(self, tau):
        for call in (theory.violation_bound, theory.queue_bound, theory.tail_bound, theory.tail_bound_full):
            with pytest.raises(InvalidInput, match="tau"):
                call(tau, K=1, delta=0.5)

    def test_the_entry_is_named(self):
        with pytest.raises(InvalidInput, match=r"tau\[1, 0\] must be finite and >= 1, but got 0\."):
            theory.violation_bound(np.array([[1, 2], [0, 4]]), K=1, delta=0.5)
        with pytest.raises(InvalidInput, match=r"tau must be finite and in \[1, T = 100\], but got 101\."):
            theory.regret_bound(101, K=1, delta=0.5, d=2, T=100)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("d", 0), ("d", 2.0), ("T", 0), ("T", 1e4), ("m", -1.0), ("m", math.nan), ("ridge", 0.0), ("n", -1)],
    )
    def test_reward_model(self, name, value):
        arguments = {"n": 3, "d": 2, "T": 10, "m": 1.0, "ridge": 1.0, name: value}
        with pytest.raises(InvalidInput, match=f"^{name} must"):
            theory.radius(**arguments)

    def test_form(self):
        for call in (theory.violation_bound, theory.queue_bound, theory.tail_bound, theory.tail_bound_full):
            with pytest.raises(
                InvalidInput, match="form must be one of 'mended', 'printed', but got 'fixed'"
            ):
                call(5, K=1, delta=0.5, form="fixed")

    def test_drift(self):
        with pytest.raises(InvalidInput, match="`drift <= jump` must hold"):
            theory.drift_exponent(drift=2, jump=1)
        with pytest.raises(InvalidInput, match="drift must be finite and > 0"):
            theory.drift_exponent(drift=0, jump=1)

    def test_schedules(self):
        good = theory.Summed(Power(6, -0.5))
        for V in (Power(1, -0.5), Power(0, 0.5)):
            with pytest.raises(InvalidInput, match=r"^V must be a Power"):
                theory.Steering(1, 0.5, V, good)
        for epsilon in (Power(6, 0.5), 0.1):
            with pytest.raises(InvalidInput, match=r"^epsilon must be a Power"):
                theory.Summed(epsilon)
        with pytest.raises(InvalidInput, match=r"^b must be a Summed"):
            theory.queue_bound_schedule(5, theory.Steering(1, 0.5, Power(1, 0.5), Power(2, 0.25)))
