"""V_t, ε_t, √β and τ': known values, worked out by hand."""

from __future__ import annotations

import math

import pytest

from tightrope import schedules


def test_known_values() -> None:
    assert schedules.power_law(4.0, 6.0, -0.5, 0.0, 100.0) == 3.0
    assert schedules.power_law(4.0, 6.0, 2.0, 1.0, math.e - 1.0) == pytest.approx(96.0)
    assert schedules.confidence_radius(0.0, 20.0, 1.0, 1.0, 1.0) == 1.0
    assert schedules.cap(0.1) == 0.05
    assert [schedules.Capped(schedules.Power(6.0, -0.5), 2.0)(t) for t in (1, 9, 36)] == [2.0, 2.0, 1.0]
    assert schedules.tau_prime(K=1, delta=0.1) == 2400
    assert schedules.tau_prime_linear(delta=1, d=1, T=1) == math.ceil(64 * math.log(2) ** 2)


def test_the_schedules_of_both_algorithms() -> None:
    V, epsilon = schedules.known_costs(1)
    assert (V(6), epsilon(6)) == (pytest.approx(2.0), pytest.approx(1.0))
    V, epsilon = schedules.linear_costs(1, 2)
    log = math.log(101)
    assert (V(4, horizon=100) / log, epsilon(4, horizon=100) / log) == (
        pytest.approx(1.0),
        pytest.approx(4.0),
    )
