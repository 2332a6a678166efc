"""slater=None: Slater's constant measured from the cost matrices seen so far."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from tightrope import lp, schedules
from tightrope.policies.pessimistic_optimistic.slater import FLOOR, KEPT, SlaterMeter, measure

POWERS = {2**i for i in range(20)}


def slater_by_linprog(matrices, weights=None):
    """max s  s.t.  Σ_i p_i Σ_j W_i[j, k] x_ij + s ≤ 0 for all k, Σ_j x_ij = 1, s ≤ 1: written out for SciPy's own solver."""
    n, K = len(matrices), matrices[0].shape[1]
    p = np.full(n, 1 / n) if weights is None else np.asarray(weights)
    sizes = [len(W) for W in matrices]
    upper = np.hstack([np.vstack([p[i] * W for i, W in enumerate(matrices)]).T, np.ones((K, 1))])
    equal = np.zeros((n, sum(sizes) + 1))
    at = 0
    for i, size in enumerate(sizes):
        equal[i, at : at + size] = 1.0
        at += size
    objective = np.zeros(sum(sizes) + 1)
    objective[-1] = -1.0
    bounds = [(0, None)] * sum(sizes) + [(None, 1.0)]
    found = linprog(objective, A_ub=upper, b_ub=np.zeros(K), A_eq=equal, b_eq=np.ones(n), bounds=bounds)
    assert found.status == 0
    return -found.fun


def stream(seed, K=2):
    """I.i.d. cost matrices over three kinds of context with 1, 2 and 3 actions, and their law."""
    rng = np.random.default_rng(99)
    kinds = [rng.uniform(-1, 0.6, (J, K)) for J in (1, 2, 3)]
    weights = np.array([0.2, 0.5, 0.3])
    draw = np.random.default_rng(seed)
    return kinds, weights, lambda: kinds[draw.choice(3, p=weights)]


def policy_and_features(K=2, **settings):
    return tr.PessimisticOptimistic(reward=tr.Ridge(1), constraints=K, **settings), lambda W: np.full(
        (len(W), 1), 0.5
    )


# The estimate


def test_it_is_the_lp_on_what_was_seen_at_doubling_times():
    _, _, draw = stream(1)
    policy, phi = policy_and_features()
    seen = []
    for t in range(1, 70):
        before = policy.slater
        W = draw()
        told = policy.decide(phi(W), W).explain()
        seen.append(W)
        # V_t uses what was measured before round t.
        expected = before * 2**0.25 * math.sqrt(2 * t / 3)
        assert abs(told.V - expected) <= 1e-12 * expected
        if t in POWERS:
            expected = min(1.0, max(FLOOR, slater_by_linprog(seen)))
            assert policy.slater == pytest.approx(expected, abs=1e-9)
        else:
            assert policy.slater == before


def test_it_starts_at_the_floor_and_stays_there_when_nothing_is_feasible():
    policy, phi = policy_and_features()
    assert policy.slater == FLOOR == 1e-3
    for _ in range(9):
        policy.decide(phi(np.zeros((2, 2))), [[0.5, -0.5], [0.5, -0.5]])
        assert policy.slater == FLOOR


def test_it_is_capped_at_one_and_exact_where_costs_never_change():
    policy, phi = policy_and_features(K=1)
    policy.decide(phi(np.zeros((1, 1))), [[-1.0]])
    assert policy.slater == 1.0
    rules = tr.Rules([tr.Capacity("a", at_most=0.6), tr.Share("a", at_least=0.2)], actions=["a", "b"])
    policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=rules)
    policy.decide()
    assert policy.slater == pytest.approx(0.2, abs=1e-12)  # a in 40 % of the rounds


def test_rounds_may_differ_in_their_number_of_actions():
    meter = SlaterMeter(1, 0)
    matrices = [
        np.array([[0.5], [-0.2]]),
        np.array([[-0.4]]),
        np.array([[0.3], [0.2], [-0.9]]),
        np.array([[0.1]]),
    ]
    for W in matrices:
        meter.offer(W)
    assert meter.value == pytest.approx((0.2 + 0.4 + 0.9 - 0.1) / 4, abs=1e-12)


def test_matrices_are_copied():
    meter, W = SlaterMeter(1, 0), np.array([[-0.5]])
    meter.offer(W)
    W[:] = 1.0
    assert measure(meter.matrices) == pytest.approx(0.5)


def test_the_mean_estimate_is_below_the_truth():
    """E[δ̂_n] ≤ δ, rising with n: the minimum of an average is on average below the minimum of the expectation."""
    kinds, weights, _ = stream(0)
    truth = slater_by_linprog(kinds, weights)
    rng = np.random.default_rng(5)
    means = []
    for n in (1, 4, 16, 64):
        estimates = []
        for _ in range(300):
            sample = [kinds[i] for i in rng.choice(3, size=n, p=weights)]
            offsets = np.concatenate([[0], np.cumsum([len(W) for W in sample])])
            estimates.append(lp.slater(np.full(n, 1 / n), np.concatenate(sample), offsets=offsets).value)
        means.append(np.mean(estimates))
        assert means[-1] <= truth + 3 * np.std(estimates) / math.sqrt(300)
        # Hoeffding on one λ: P(δ̂ > δ + s) ≤ exp(−n s² / 2).
        s = 0.3
        assert np.mean(np.array(estimates) > truth + s) <= math.exp(-n * s**2 / 2)
    assert means == sorted(means)
    assert means[0] < truth - 0.01  # the inequality is strict here, so that the test means something


def test_it_converges():
    kinds, weights, draw = stream(2)
    truth = slater_by_linprog(kinds, weights)
    meter = SlaterMeter(2, 0)
    for _ in range(4096):
        meter.offer(draw())
    assert meter.value == pytest.approx(truth, abs=0.04)
    assert truth > 0.1


# The sample


def marked(i):
    return np.array([[-i / 10_000]])


def test_at_most_1024_are_kept_and_all_rounds_alike():
    meter = SlaterMeter(1, 3)
    for i in range(1, KEPT + 1):
        meter.offer(marked(i))
    assert [round(-10_000 * W[0, 0]) for W in meter.matrices] == list(range(1, KEPT + 1))
    for i in range(KEPT + 1, 8193):
        meter.offer(marked(i))
        assert len(meter.matrices) == KEPT
    kept = np.array([round(-10_000 * W[0, 0]) for W in meter.matrices])
    assert len(set(kept.tolist())) == KEPT
    counts = np.histogram(kept, bins=8, range=(0.5, 8192.5))[0]
    assert ((counts - KEPT / 8) ** 2 / (KEPT / 8)).sum() < 24.3  # χ², 7 degrees of freedom, 0.1 %
    assert meter.value == pytest.approx(kept.mean() / 10_000, abs=1e-9)


def run(seed, rounds, policy=None, start=0):
    rng = np.random.default_rng(7)
    matrices = rng.uniform(-1, 0.5, (start + rounds, 2, 2))
    policy = policy_and_features(seed=seed)[0] if policy is None else policy
    for W in matrices[start:]:
        policy.forget(policy.decide([[0.5], [0.5]], W))
    return policy


def test_the_seed_decides():
    one, same, other = run(1, 2100), run(1, 2100), run(2, 2100)
    for name, array in one.hooks.state().items():
        np.testing.assert_array_equal(array, same.hooks.state()[name])
    assert one.slater == same.slater
    assert (one.hooks.state()["slater/rows"] != other.hooks.state()["slater/rows"]).any()
    np.testing.assert_array_equal(
        run(1, 1024).hooks.state()["slater/rows"], run(2, 1024).hooks.state()["slater/rows"]
    )
    assert run(1, 50).copy(seed=9).hooks.settings()["seed"] == 9


def test_saved_and_restored_exactly(tmp_path):
    whole = run(1, 2500)
    half = run(1, 1500)
    half.save(tmp_path / "state")
    restored = tr.load(tmp_path / "state")
    assert restored.slater == half.slater
    rest = run(1, 1000, policy=restored, start=1500)
    for name, array in whole.hooks.state().items():
        assert array.tobytes() == rest.hooks.state()[name].tobytes(), name
    assert rest.slater == whole.slater


# When it is used, and when it can't be


def test_it_is_measured_only_where_it_is_needed():
    V = tr.Power(1.0, 0.5)
    assert tr.PessimisticOptimistic(reward=tr.Ridge(1), constraints=2, V=V).slater is None
    assert tr.PessimisticOptimistic(reward=tr.Ridge(1), constraints=0).slater is None
    assert tr.PessimisticOptimistic(reward=tr.Ridge(1), cost=tr.Ridge(1), constraints=1, V=V).slater is None
    assert tr.PessimisticOptimistic(reward=tr.Ridge(1), constraints=2, slater=0.4).slater == 0.4
    assert not [name for name in tr.policies.LinUCB(tr.Ridge(1)).hooks.state() if name.startswith("slater/")]


def test_measuring_may_be_left_to_someone_else():
    _, _, draw = stream(4)
    policy, phi = policy_and_features()
    at_once, _ = policy_and_features()
    [meter] = policy.hooks.background()
    meter.deferred = True
    for _ in range(64):
        W = draw()
        policy.decide(phi(W), W)
        at_once.decide(phi(W), W)
    assert policy.slater == FLOOR
    assert meter.due()() == [64, measure(meter.matrices)]
    meter.take([64, measure(meter.matrices)])
    assert policy.slater == at_once.slater
    np.testing.assert_array_equal(policy.decide(phi(W), W).explain().V, at_once.decide(phi(W), W).explain().V)
    given = tr.PessimisticOptimistic(reward=tr.Ridge(1), constraints=2, slater=0.4)
    assert given.hooks.background() == []
    with pytest.raises(tr.InvalidInput, match=r"slater must lie in \(0, 1\], but got 0"):
        meter.take([65, 0])


def test_it_is_refused_where_costs_are_seen_only_after():
    with pytest.raises(
        tr.InvalidInput,
        match="costs that are seen before acting, but every constraint here is seen only after",
    ):
        tr.PessimisticOptimistic(reward=tr.Ridge(1), cost=tr.Ridge(1), constraints=2)
    rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.5, seen="after")], actions=["a", "b"])
    with pytest.raises(
        tr.InvalidInput, match=r"but 1 of 2 constraints here are seen only after\. Give slater, or V"
    ):
        tr.PessimisticOptimistic(reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=rules)


def test_the_constraints_hold_without_any_constant():
    """No δ, no T: cumulative costs at or below 0 at the end, for a stream whose δ the policy is not told."""
    _, _, draw = stream(3)
    policy, phi = policy_and_features()
    for _ in range(4000):
        W = draw()
        decision = policy.decide(phi(W), W)
        policy.learn(decision, float(0.5 + 0.5 * W[decision.row].mean()))  # reward pulls towards what costs
    assert (policy.totals <= 0).all()


@pytest.mark.parametrize("K", [1, 4, 18])
def test_an_estimate_below_one_and_a_half_delta_leaves_the_pessimism_in_charge(K):
    """docs/no-constants.md: Σ ε_t outgrows 4 √K V_τ / δ if and only if δ̂ < 1.5 δ."""
    unit_V, epsilon = schedules.known_costs(K)
    rounds = np.arange(1, 200_001)
    pessimism = np.cumsum([epsilon(t) for t in rounds.tolist()])[-1]
    drift = 4 * math.sqrt(K) * unit_V(rounds[-1])  # times δ̂ / δ
    root = math.sqrt(rounds[-1])
    assert pessimism - 1.45 * drift > 0.1 * root
    assert pessimism - 1.55 * drift < -0.1 * root
