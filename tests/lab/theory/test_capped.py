"""The capped tightening: each step of its proof on exact sums, exactly solved and simulated runs below its bounds."""

import math
from itertools import product

import numpy as np
import pytest

import tightrope as tr
from paper_proof import run_of_queues
from policy_tools import unwatched
from tightrope import schedules
from tightrope.schedules import Capped, Power
from tightrope_lab import theory
from tightrope_lab.league.entries import ROSTER
from tightrope_lab.league.scenarios import scenario
from tightrope_lab.theory.totals import Summed

KS = (1, 2, 3, 5, 18)
DELTAS = (1.0, 0.7, 0.5, 0.3, 0.1)
GRID = list(product(KS, DELTAS))


def values(schedule, n):
    return np.array([schedule(t) for t in range(1, n + 1)])


class TestByHand:
    def test_schedules(self):
        # K = 16, δ = 1/2: V = ½·2·sqrt(2t/3), ε = 8·sqrt(6/t), at most ¼: below it from t = (8·√6·4)² = 6,144 on
        V, epsilon = theory.capped_schedules(K=16, delta=0.5)
        assert V(6) == pytest.approx(2.0)
        assert epsilon(1) == epsilon(6_143) == 0.25
        assert epsilon(4 * 6_144) == pytest.approx(0.125)

    def test_regret(self):
        # K = 16, δ = 1/2, τ = 6: (3 + 1/16)·√6·8·√6·2 = 294
        rest = theory.linucb_bound(6, d=3, T=50)
        assert theory.regret_bound_capped(6, K=16, delta=0.5, d=3, T=50) - rest == pytest.approx(294)
        # r̂ ≥ 0, so a small ridge costs nothing more when a set fails
        small = theory.regret_bound_capped(6, K=0, delta=0.5, d=3, T=50, ridge=0.01)
        assert small == theory.linucb_bound(6, d=3, T=50, ridge=0.01) - 9

    def test_violation(self):
        # K = 4, δ = 1, τ = 6: 27·4·log 24 = 108·3.178054 = 343.2298; 17·8 = 136; 2·2 = 4; sqrt(8/3)·√8·√6 = √128
        bound = theory.violation_bound_capped(6, K=4, delta=1)
        assert bound == pytest.approx(4 * (343.2298 + 136 + 4 - math.sqrt(128)), rel=1e-6)
        assert theory.violation_bound_capped(6, K=0, delta=1) == 0
        assert theory.violation_ends_capped(K=0, delta=1) == 1

    def test_linear(self):
        # d = 2, δ = 1/2, τ = 9, T = 99, L = log 100: 32·4·L²·2 + 96·log 32 + 26 − 4·3·L
        L = math.log(100)
        want = 256 * L**2 + 96 * math.log(32) + 26 - 12 * L
        assert theory.violation_bound_linear_capped(9, delta=0.5, d=2, T=99) == pytest.approx(want)
        # (16 + 24)·3·L·2 + 2 + 60·L
        want = 240 * L + 2 + 60 * L
        assert theory.regret_bound_linear_capped(9, delta=0.5, d=2, T=99) == pytest.approx(want)


class TestProof:
    @pytest.mark.parametrize(("K", "delta"), GRID)
    def test_what_the_cap_takes_from_the_sum_is_a_constant(self, K, delta):
        n = min(200_000, 3 * schedules.tau_prime(K=K, delta=delta))
        _, epsilon = theory.capped_schedules(K=K, delta=delta)
        total = np.cumsum(np.minimum(delta / 2, epsilon.power.scale / np.sqrt(np.arange(1.0, n + 1))))
        tau = np.arange(1.0, n + 1)
        e = epsilon.power.scale
        assert np.all(total >= 2 * e * np.sqrt(tau + 1) - 12 * K**1.5 / delta - delta / 2 - 1e-6)
        # … and it is that constant, but for rounding: the bound is met within ε_1/2 from τ' on.
        late = tau > schedules.tau_prime(K=K, delta=delta)
        slack = total[late] - (2 * e * np.sqrt(tau[late] + 1) - 12 * K**1.5 / delta - delta / 2)
        assert slack.max() <= delta

    @pytest.mark.parametrize(("K", "delta"), [*GRID, (18, 0.00625)])
    def test_the_closed_form_covers_the_proof_in_every_round(self, K, delta):
        V, epsilon = theory.capped_schedules(K=K, delta=delta)
        end = theory.violation_ends_capped(K=K, delta=delta)
        taus = np.unique(np.geomspace(1, end, 200).astype(np.int64)).astype(float)
        sharp = theory.violation_bound_schedule(taus, theory.Steering(K, delta, V, theory.Summed(epsilon)))
        assert np.all(sharp <= theory.violation_bound_capped(taus, K=K, delta=delta) + 1e-9)
        assert theory.violation_bound_capped(end, K=K, delta=delta) == 0
        assert theory.violation_bound_capped(end * (1 - 1e-9) - 1, K=K, delta=delta) > 0
        assert theory.violation_ends_schedule(theory.Steering(K, delta, V, theory.Summed(epsilon))) <= end
        assert theory.capped_ends(K=K, delta=delta)[0] <= end

    @pytest.mark.parametrize(("K", "delta"), GRID)
    def test_levels_rise_from_the_first_round_as_the_drift_lemma_asks(self, K, delta):
        V, epsilon = theory.capped_schedules(K=K, delta=delta)
        t = np.unique(np.geomspace(1, 20 * schedules.tau_prime(K=K, delta=delta), 3000).astype(np.int64))
        level = [V(one) + K * epsilon(one) ** 2 for one in t.tolist()]
        assert np.all(np.diff(level) > 0)

    @pytest.mark.parametrize(("K", "delta"), GRID)
    def test_the_sums_of_the_regret(self, K, delta):
        n = min(100_000, 20 * schedules.tau_prime(K=K, delta=delta))
        V, epsilon = theory.capped_schedules(K=K, delta=delta)
        t = np.arange(1.0, n + 1)
        eps, weight = np.minimum(delta / 2, epsilon.power.scale / np.sqrt(t)), V.scale * np.sqrt(t)
        exact = np.cumsum(eps / delta + K * (1 + eps**2) / weight)
        bound = theory.regret_bound_capped(t, K=K, delta=delta, d=1, T=n) - theory.linucb_bound(t, d=1, T=n)
        assert np.all(exact <= bound)
        paper = theory.regret_bound(t, K=K, delta=delta, d=1, T=n)
        assert np.all(theory.regret_bound_capped(t, K=K, delta=delta, d=1, T=n) < paper)

    @pytest.mark.parametrize(("d", "delta"), list(product((1, 2, 5, 20), (1.0, 0.5, 0.1))))
    def test_linear_costs(self, d, delta):
        for T in (1, 2, 5, 20, 54, 100, 484, 485, 1000, 100_000):
            L, t = math.log(1 + T), np.arange(1.0, T + 1)
            V, eps = delta * d * np.sqrt(t) * L / 4, np.minimum(delta / 2, 4 * d * L / np.sqrt(t))
            total = np.cumsum(eps)
            Q = np.concatenate([[0.0], np.cumsum(1 + eps)[:-1]])
            learning = theory.linucb_bound(t, d=d, T=T)
            exact = np.cumsum(eps / delta + (1 + eps**2 + 2 * Q / T) / V) + learning
            regret = theory.regret_bound_linear_capped(t, delta=delta, d=d, T=T)
            assert np.all(np.minimum(exact, t) <= regret)
            queue = theory.drift_mean_bound(
                4 * (delta * d * np.sqrt(t + 1) * L / 4 + 1 + eps**2) / delta, drift=delta / 4, jump=2
            )
            failed = 2 / T * (t + total)  # either confidence set: r̂ ≥ 0 is certain here, W̌ ≤ w is not
            violation = theory.violation_bound_linear_capped(t, delta=delta, d=d, T=T)
            assert np.all(np.minimum(t, queue + failed + learning - total) <= violation)

    def test_linear_end(self):
        T = 10**8
        for d in (1, 2):
            end = theory.violation_ends_linear_capped(delta=1, d=d, T=T)
            assert end <= T
            assert theory.violation_bound_linear_capped(end, delta=1, d=d, T=T) == 0
            assert theory.violation_bound_linear_capped(end - 1, delta=1, d=d, T=T) > 0
            assert 10 * end < theory.violation_ends_linear(delta=1, d=d, T=T)


class TestSums:
    @pytest.mark.parametrize(("exponent", "most"), list(product((-1.0, -0.5, -0.2, 0.0), (0.05, 0.3, 5.0))))
    def test_sums_of_a_capped_schedule_are_bracketed(self, exponent, most):
        from tightrope_lab.theory.totals import _buffer

        epsilon = Capped(Power(3.0, exponent), most)
        exact = np.concatenate([[0.0], np.cumsum(values(epsilon, 19_999))])
        t = np.arange(1.0, 20_001)
        shape = _buffer(Summed(epsilon))
        slack = 1e-12 * (1 + exact)
        assert np.all(shape.low(t) <= exact + slack)
        assert np.all(exact <= shape.high(t) + slack)
        assert np.all(shape.high(t) - shape.low(t) < 1e-3)
        assert np.all(shape.step(t[:-1]) <= shape.largest_step)
        high = theory.tightness_cost(t[1:] - 1, delta=1, epsilon=epsilon)
        assert np.all(exact[1:] <= high + slack[1:])

    def test_a_cap_that_is_no_number_is_refused(self):
        with pytest.raises(tr.InvalidInput, match="the cap of epsilon must be"):
            Summed(Capped(Power(1.0, -0.5), math.nan))
        with pytest.raises(tr.InvalidInput, match="epsilon must be a Power"):
            Summed(Capped(Power(1.0, 0.5), 0.1))


class TestExactlySolvedRuns:
    """Actions of reward 1 and 0 whose costs are 1 or 0, and 0 or −1, with probability ½ each: δ = ½."""

    @pytest.mark.parametrize("V", [Power(12.0, 0.0), Power(0.5 * math.sqrt(2 / 3), 0.5)])
    def test_queues_that_are_capped_from_the_start(self, V):
        # ε = ½ = δ would leave no drift at all; capped it is ¼, and the queue stays on a grid.
        epsilon = Capped(Power(0.5, 0.0), 0.25)
        n = 1_000
        law, total = {0.0: 1.0}, 0.0
        mean, above, moments = np.empty(n), np.empty(n), {}
        etas = (0.3, 0.5, 0.8)
        for eta in etas:
            moments[eta] = np.empty(n)
        for t in range(1, n + 1):
            after = {}
            for Q, share in law.items():
                for w in (1.0, 0.0) if V(t) > Q else (0.0, -1.0):
                    total += share * w / 2
                    queue = max(0.0, Q + w + epsilon(t))
                    after[queue] = after.get(queue, 0.0) + share / 2
            law = after
            mean[t - 1] = total
            Q, share = np.array(list(law)), np.array(list(law.values()))
            above[t - 1] = share @ (0.25 * t < Q)
            for eta in etas:
                zeta = theory.drift_exponent(drift=eta * 0.25, jump=1 + eta * 0.25)
                moments[eta][t - 1] = share @ np.exp(zeta * Q)
        tau = np.arange(1, n + 1)
        setting = {"K": 1, "delta": 0.5, "V": V, "b": Summed(epsilon)}
        assert mean.max() > 0.4
        assert np.all(mean <= theory.expected_total_bound(tau, theory.Steering(**setting)))
        assert np.all(above <= theory.violation_probability_bound(tau, theory.Steering(**setting)) + 1e-12)
        for eta in etas:
            bound = theory.log_moment_bound(tau, theory.Steering(**setting, eta=eta))
            assert np.all(np.log(moments[eta]) <= bound)
        queue = theory.queue_bound_schedule(tau + 1, theory.Steering(1, 0.5, V, theory.Summed(epsilon)))
        assert np.all(mean + 0.25 * tau <= queue)

    def test_steps_inside_the_drift_are_what_makes_it_hold_from_the_start(self):
        _, epsilon = theory.capped_schedules(K=18, delta=0.00625)
        V, _ = theory.capped_schedules(K=18, delta=0.00625)
        setting = {"K": 18, "delta": 0.00625, "V": V}
        capped = theory.expected_violation_ends(theory.Steering(b=Summed(epsilon), **setting))
        assert 40 * capped < theory.expected_violation_ends(
            theory.Steering(b=Summed(epsilon.power), **setting)
        )


@pytest.mark.parametrize("K", [1, 3])
def test_a_run_of_the_queues_stays_below(K):
    delta, n = 0.5, 8000
    V, epsilon = theory.capped_schedules(K=K, delta=delta)
    queues, totals = run_of_queues(K, delta, V, epsilon, n)
    tau = np.arange(1, n + 1)
    assert totals.max() > 0
    assert np.all(
        queues
        <= theory.queue_bound_schedule(tau, theory.Steering(K, delta, V, theory.Summed(epsilon))) + 1e-9
    )
    sharp = theory.violation_bound_schedule(tau, theory.Steering(K, delta, V, theory.Summed(epsilon)))
    assert np.all(totals <= sharp + 1e-9)
    assert np.all(totals <= theory.violation_bound_capped(tau, K=K, delta=delta))


@unwatched  # that it does is what it is about
def test_without_the_clip_a_model_that_is_wrong_breaks_the_rule_for_long():
    # The safe action is thought to earn −300: the bound knows nothing of rewards, and holds all the same.
    highest = {}
    for tightening in ("paper", "capped"):
        policy = tr.PessimisticOptimistic(
            reward=tr.ArmMeans(2, bonus=0.05), constraints=1, slater=0.5, tightening=tightening
        )
        policy.warm_start(None, [1] * 50, [-300.0] * 50)
        totals = []
        for _ in range(4_000):
            decision = policy.decide(costs=[[1.0], [-0.5]])
            policy.learn(decision, reward=(0.5, -300.0)[decision.action])
            totals.append(policy.totals[0])
        excess = np.array(totals) - theory.violation_bound_capped(np.arange(1, 4_001), K=1, delta=0.5)
        highest[tightening] = excess.max()
    assert highest["paper"] > 1_000
    assert highest["capped"] <= 0


@unwatched  # models that are wrong are what it is about
@pytest.mark.parametrize(
    "model", [tr.Ridge(3), tr.Ridge(3, bonus=0.0, ridge=0.1), tr.ArmMeans(3, bonus=0.05)], ids=repr
)
def test_the_policy_itself_stays_below_with_any_model_and_bonus_and_no_horizon(model):
    # Rewards are drawn with noise far above what the models expect, so that r̂ without its clip would be far below 0.
    draw = np.random.default_rng(0)
    phi = draw.normal(size=(4, 3, 3))
    phi /= np.linalg.norm(phi, axis=-1, keepdims=True)
    costs = draw.uniform(-0.9, 0.6, (4, 3, 2))
    costs[:, 2] = -0.6
    env = tr.environments.Tabular(
        np.full(4, 0.25), phi, draw.uniform(0, 1, (4, 3)), costs, reward_noise="gaussian", reward_scale=4.0
    )
    delta = tr.solve(env).slater
    assert delta >= 0.6
    policy = tr.PessimisticOptimistic(reward=model, constraints=2, slater=delta, tightening="capped")
    run = tr.simulate(policy, env, rounds=3_000, replications=60, seed=1, record=300)
    V, epsilon = theory.capped_schedules(K=2, delta=delta)
    rounds = run.rounds.astype(float)
    sharp = theory.violation_bound_schedule(rounds, theory.Steering(2, delta, V, theory.Summed(epsilon)))
    assert np.all(
        run.violation.mean <= np.minimum(sharp, theory.violation_bound_capped(rounds, K=2, delta=delta))
    )
    late = rounds >= theory.capped_ends(K=2, delta=delta)[1]
    assert late.any()
    paths = (run.cost[:, late] > 1e-9).any(axis=2).mean(axis=0)
    assert np.all(paths <= 0.01 + 3 * math.sqrt(0.01 / 60))


@unwatched  # ε is above every cost there
def test_where_costs_are_learnt_the_cap_comes_too_early_for_a_short_horizon():
    binding = scenario("bandit-binding")
    above = {}
    for name in ("pessimistic-optimistic", "pessimistic-optimistic-capped"):
        policy = ROSTER[name].make(binding, 10_000)
        run = tr.simulate(policy, binding.env, rounds=10_000, replications=5, seed=0, record=2, workers=1)
        above[name] = run.violation.mean[-1]
    assert above["pessimistic-optimistic"] == 0
    assert 200 < above["pessimistic-optimistic-capped"] < 400
    assert theory.violation_ends_linear_capped(delta=0.1, d=4, T=10_000) > 10_000
