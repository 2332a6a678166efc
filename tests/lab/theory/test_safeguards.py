"""The ratchet, word by word and in the world that needs it; the guard, and when it can keep its promise."""

import math

import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope.schedules import Power
from tightrope_lab import theory
from tightrope_lab.theory import Ratchet

# Rewards and mean costs of the world whose dual is flat between 0.6 and 1.2; all costs move by a common coin of ±½.
FLAT = np.array([0.6, 0.0, 0.9]), np.array([0.0, -0.5, 0.5])


def play_flat(price, T, seed, ratchet=True):
    """Rounds in violation, raises, and the waits after them."""
    rule = Ratchet()
    coins = np.random.default_rng(seed).choice([-0.5, 0.5], T)
    rewards, costs = (array.tolist() for array in FLAT)
    S, m, ready, broken, raises, windows = 0.0, np.zeros(1), rule.t0, [], 0, []
    for t in range(1, T + 1):
        rate = max(0.0, price + (S + 2 * t**0.25 + m[0] * 0.5 * math.sqrt(t)) / (0.5 * math.sqrt(t)))
        values = [r - rate * w for r, w in zip(rewards, costs)]
        S += costs[values.index(max(values))] + coins[t - 1]
        if S > 0:
            broken.append(t)
        if ratchet:
            before = ready
            m, ready = rule.step(t, np.array([S]), m, ready)
            if ready != before:
                raises += 1
                windows.append((t, ready))
    return broken, raises, windows


@pytest.mark.parametrize("price", [0.0, 0.6])
def test_the_ratchet_ends_violations_in_the_flat_world(price):
    T, plain, held = 20_000, [], []
    for seed in range(4):
        plain.append(len(play_flat(price, T, seed, ratchet=False)[0]))
        broken, raises, windows = play_flat(price, T, seed)
        held.append(len(broken))
        late = [t for t in broken if t > 100]
        assert all(any(low <= t <= high for low, high in windows) for t in late)
        assert raises <= theory.ratchet_promise(K=1, delta=0.5, price_bound=price).raises
    assert np.mean(held) < 0.03 * np.mean(plain)
    assert np.mean(plain) > 1000


def test_the_rule_word_by_word():
    rng = np.random.default_rng(2)
    K, v, m0 = 3, 0.5, 0.125
    rule = Ratchet()
    m, g = np.zeros(K), 100
    slow, slow_g = [0.0] * K, 100
    for s in range(1, 30_000):
        S = rng.normal(-4.0, 2.0, K)
        m, g = rule.step(s, S, m, g)
        if s >= slow_g and max(S) > 0:
            slow = [max(m0, 2 * old) if total > 0 else old for old, total in zip(slow, S)]
            top = max(slow)
            begin = max(s, math.ceil((K * top**2 / v) ** 2))
            slow_g = max(min(2 * s, s + 1000), begin + math.ceil(4 * K * top**2 * v * math.sqrt(begin)))
        assert m.tolist() == slow
        assert g == slow_g
    assert m.max() >= 4 * m0
    assert rule.buffer(16, m)[0] == 2 * 2 + m[0] * 0.5 * 4


def test_a_step_changes_nothing_in_place():
    m = np.zeros(2)
    raised, _ = Ratchet().step(500, np.array([1.0, -1.0]), m, 100)
    assert m.tolist() == [0.0, 0.0]
    assert raised.tolist() == [0.125, 0.0]


class TestPromise:
    def test_by_hand(self):
        promise = theory.ratchet_promise(K=1, delta=0.5, price_bound=0.6, q=0.01)
        assert promise.m_star == pytest.approx(8 * 1.6 / 0.5)
        assert promise.raises == 1 + math.ceil(math.log2(25.6 / 0.125)) == 9
        assert 0.99 - 1e-7 < promise.probability <= 0.99

    def test_the_logarithm_where_slater_is_generous(self):
        promise = theory.ratchet_promise(K=2, delta=1.0, price_bound=0.0, q=0.05)
        assert promise.m_star == pytest.approx(8 + 3 * math.sqrt(math.log(2 / (0.5 * 0.05))))

    @pytest.mark.parametrize("K", [1, 5, 18])
    def test_the_rest_is_nothing(self, K):
        for delta in (1.0, 0.1):
            promise = theory.ratchet_promise(K=K, delta=delta, price_bound=0.0, q=0.01)
            assert promise.probability == pytest.approx(0.99, abs=1e-7)

    def test_buffers_that_it_does_not_cover(self):
        for beta in (Power(2.0, 0.6), Power(1e6, 0.25)):
            with pytest.raises(InvalidInput, match="beta must stay below V"):
                theory.ratchet_promise(K=1, delta=0.5, price_bound=0.0, ratchet=Ratchet(beta=beta))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [({"K": 0}, "K must be >= 1"), ({"q": 1.0}, "q must"), ({"price_bound": -1}, "price_bound must")],
    )
    def test_bad_arguments(self, changes, message):
        with pytest.raises(InvalidInput, match=message):
            theory.ratchet_promise(**{"K": 1, "delta": 0.5, "price_bound": 0.0, **changes})

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"v": 2.0}, "v must"),
            ({"m0": 0.0}, "m0 must"),
            ({"t0": 0}, "t0 must"),
            ({"beta": 2.0}, "beta must"),
        ],
    )
    def test_bad_rules(self, changes, message):
        with pytest.raises(InvalidInput, match=message):
            Ratchet(**changes)


class TestGuard:
    def test_it_is_told_where_nothing_is_safe(self):
        costs = np.array([[[0.1, -1.0], [0.0, 0.0]], [[0.1, -1.0], [-1.0, 0.1]]])
        assert theory.rounds_without_safe_action(costs).tolist() == [1]
        assert theory.rounds_without_safe_action(costs[0]).tolist() == []
        asleep = [[True, False], [True, True]]
        assert theory.rounds_without_safe_action(costs, asleep).tolist() == [0, 1]
        with pytest.raises(InvalidInput, match=r"available must have shape \(2, 2\)"):
            theory.rounds_without_safe_action(costs, [[True, False]])

    @pytest.mark.parametrize("seed", range(5))
    def test_where_something_is_safe_totals_never_rise_above_zero(self, seed):
        # Any choice among the rows that keep the totals, the most tempting one here.
        rng = np.random.default_rng(seed)
        W = rng.uniform(-1, 1, (300, 4, 3))
        W[:, 0] = rng.choice([0.0, -0.25, -0.5], (300, 3))
        assert not len(theory.rounds_without_safe_action(W))
        S, near = np.zeros(3), 0
        for costs in W:
            kept = np.flatnonzero((S + costs <= 0).all(axis=1))
            S = S + costs[kept[np.argmax(costs[kept].sum(axis=1))]]
            assert S.max() <= 0
            near += len(kept) < 4
        assert near > 50
