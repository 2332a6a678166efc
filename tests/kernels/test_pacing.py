"""Formulas of pacing against slow transcriptions and known values."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_tools import plain, same
from tightrope.kernels import pacing

GRID = np.concatenate([[0.0], np.logspace(-2, 1.5, 25)])


def rounds(seed: int, n: int = 40) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    # Whole numbers, so that values and uses often tie.
    rewards, uses = rng.integers(0, 5, offsets[-1]) / 2.0, rng.integers(-2, 4, offsets[-1]) / 1.0
    return rewards, uses, offsets, rng.random(n) + 0.1, rng.choice([0.0, 0.3, 2.0], n)


def slow_use(rewards, uses, offsets, weights, floors, price):
    total = 0.0
    for i in range(len(weights)):
        own = slice(offsets[i], offsets[i + 1])
        values = rewards[own] - max(price, floors[i]) * uses[own]
        total += weights[i] * uses[own][np.isclose(values, values.max(), atol=1e-12)].min()
    return total / weights.sum()


@pytest.mark.parametrize("seed", range(5))
def test_use_at_each_price_is_that_of_the_best_actions(seed: int) -> None:
    given, use = rounds(seed), np.empty(len(GRID))
    pacing.fill_use(*given, GRID, use)
    # At a price where two actions tie, the one that uses less is counted.
    np.testing.assert_allclose(use, [slow_use(*given, price) for price in GRID], atol=1e-12)
    twin = np.empty(len(GRID))
    plain.pacing.fill_use(*given, GRID, twin)
    same(use, twin)


def test_a_price_lies_between_the_two_whose_use_it_separates() -> None:
    prices, use = np.array([0.0, 1.0, 2.0, 3.0]), np.array([4.0, 2.0, 2.0, 1.0])
    found = [pacing.price_at(prices, use, c) for c in (5.0, 4.0, 3.0, 2.0, 1.5, 1.0, 0.5)]
    np.testing.assert_allclose(found, [0.0, 0.0, 0.5, 1.0, 2.5, 3.0, 3.0])
    chances = np.zeros(pacing.BINS)
    chances[:2] = 0.25, 0.75  # nobody, or one more: 3 for one, or 1.5 for each of two
    assert pacing.mean_price(prices, use, 3.0, chances, pacing.TYPICAL) == pytest.approx(
        0.25 * 0.5 + 0.75 * 2.5
    )


def test_what_is_left_is_spread_over_more_decisions_than_expected_and_what_is_owed_over_fewer() -> None:
    assert pacing.amount_per_decision(22.0, 9.0, 0.2, 0.5) == pytest.approx(22.0 / 10.9)
    assert pacing.amount_per_decision(-22.0, 10.0, 0.2, 0.5) == pytest.approx(-22.0 / 10.0)
    assert pacing.amount_per_decision(-4.0, 10.0, 9.0, 1.0) == pytest.approx(-4.0 / 4.0)


def traffic(**values: float) -> np.ndarray:
    state = np.zeros(pacing.TRAFFIC_SIZE)
    state[pacing.FACTORS : pacing.SEEN] = 1.0
    state[pacing.BEFORE : pacing.PROFILE] = np.linspace(0.0, 1.0, pacing.BUCKETS + 1)
    state[[pacing.BETWEEN, pacing.WITHIN, pacing.END]] = 0.04, 0.02, pacing.DAY
    for name, value in values.items():
        state[getattr(pacing, name)] = value
    return state


def test_decisions_still_to_come_follow_profile_weekday_and_today() -> None:
    state = traffic(LEVEL=1000.0)
    assert pacing.still_to_come(state, 0.0, pacing.DAY)[0] == pytest.approx(1000.0)
    assert pacing.still_to_come(state, pacing.DAY / 4, pacing.DAY / 2)[0] < 250.0  # nobody has come yet
    state[pacing.FACTORS + 1] = 0.5  # tomorrow
    assert pacing.still_to_come(state, 0.0, 2 * pacing.DAY)[0] == pytest.approx(1500.0)
    assert pacing.still_to_come(state, 0.0, 1.5 * pacing.DAY)[0] == pytest.approx(1250.0)
    for i in range(500):  # twice as many as expected in a quarter of the day
        pacing.note_decision(state, i / 500 * pacing.DAY / 4)
    mean, _ = pacing.still_to_come(state, pacing.DAY / 4, pacing.DAY)
    assert 850.0 < mean < 1500.0
    same(plain.pacing.still_to_come(state, 3e4, 2e5), pacing.still_to_come(state, 3e4, 2e5))


def test_the_first_day_goes_on_as_it_began() -> None:
    state = traffic()
    for t in range(100):
        pacing.note_decision(state, 36.0 * t)
    mean, deviation = pacing.still_to_come(state, 3600.0, 7200.0)
    assert mean == pytest.approx(101.0)
    assert deviation > 1.0
