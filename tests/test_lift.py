"""The interval of a lift: the formula written out slowly, and how often it misses where someone looks all the time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope.lift import CONTROL, LEAST, POLICY, ArmSums


def slow(treated: list[float], control: list[float], share: float) -> tuple[float, float]:
    """The formulas of the module's docstring, outcome by outcome."""
    n, both = len(treated) + len(control), [*treated, *control]
    m1, m0, m = (math.fsum(one) / len(one) for one in (treated, control, both))
    scores = [m1 - m0 + (y - m1) / (1 - share) for y in treated] + [
        m1 - m0 - (y - m0) / share for y in control
    ]
    variance = math.fsum((score - (m1 - m0)) ** 2 for score in scores) / n
    large = math.fsum((y - m) ** 4 for y in both) / math.fsum((y - m) ** 2 for y in both)
    v = variance + 1.5 * large / (min(share, 1 - share) ** 2 * n)
    q = (-2 * math.log(0.05) + math.log(-2 * math.log(0.05)) + 1) / 2000
    half = math.sqrt(2 * v * (n * q + 1) / (n * n * q) * math.log(math.sqrt(n * q + 1) / 0.05))
    return m1 - m0 - half, m1 - m0 + half


# Of six places: the squares of far smaller ones would be 0 in the formula as it is written.
OUTCOMES = st.floats(-50, 50).map(lambda y: round(y, 6))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(OUTCOMES, min_size=LEAST, max_size=60),
    st.lists(OUTCOMES, min_size=LEAST, max_size=40),
    st.floats(0.02, 0.98),
    st.floats(-1e4, 1e4),
)
def test_the_interval_is_that_of_the_formula(
    treated: list[float], control: list[float], share: float, far: float
) -> None:
    treated, control = ([y + far for y in one] for one in (treated, control))
    sums = ArmSums(2)
    for arm, outcomes in ((POLICY, treated), (CONTROL, control)):
        for y in outcomes:
            sums.add(arm, [1], [y])
    found = sums.lift(share)
    assert found.low[0] == -math.inf, "nothing is known of the other measure"
    if len({*treated, *control}) == 1:
        assert found.high[1] == math.inf
        return
    low, high = slow(treated, control, share)
    tolerance = 1e-4 * (high - low) + 1e-9 * abs(far)
    assert found.low[1] == pytest.approx(low, abs=tolerance)
    assert found.high[1] == pytest.approx(high, abs=tolerance)


def test_outcomes_that_grow_give_the_same_as_their_last_values() -> None:
    random = np.random.default_rng(0)
    last = random.normal(size=200)
    arms = (random.random(200) < 0.4).astype(np.int64)
    grown, whole = ArmSums(1), ArmSums(1)
    for arm in arms.tolist():
        grown.add(arm, [0], [0.0])
    for arm, y in zip(arms.tolist(), last.tolist(), strict=True):
        grown.move(arm, [0], [0.0], [y / 3])
        grown.move(arm, [0], [y / 3], [y])
        whole.add(arm, [0], [y])
    np.testing.assert_allclose(np.array(grown.lift(0.4)), np.array(whole.lift(0.4)), rtol=1e-9)
    np.testing.assert_array_equal(grown.counts, whole.counts)


def test_too_little_says_nothing() -> None:
    sums = ArmSums(1)
    for _ in range(LEAST - 1):
        sums.add(CONTROL, [0], [1.0])
    for _ in range(1000):
        sums.add(POLICY, [0], [0.0])
    assert sums.lift(0.1).high[0] == math.inf
    sums.add(CONTROL, [0], [1.0])
    assert sums.lift(0.1).high[0] < math.inf


def test_whoever_looks_all_the_time_is_rarely_misled() -> None:
    """Nothing differs between the arms, in 400 experiments side by side. An interval for a single look misleads a quarter."""
    random, share, R = np.random.default_rng(3), 0.1, 400
    sums, at = ArmSums(R), np.arange(R)
    missed, misled = np.zeros(R, dtype=bool), np.zeros(R, dtype=bool)
    for t in range(1, 4001):
        sums.add((random.random(R) < share).astype(np.int64), at, (random.random(R) < 0.3).astype(float))
        if t % 100 == 0:
            found, n = sums.lift(share), np.maximum(sums.counts, 1.0)
            p = sums.means
            once = 1.96 * np.sqrt(np.nan_to_num(p * (1 - p) / n).sum(axis=0))
            missed |= (found.low > 0) | (found.high < 0)
            misled |= (np.abs(found.estimate) > once) & (sums.counts.min(axis=0) >= LEAST)
    assert missed.mean() <= 0.065
    assert misled.mean() > 0.2
