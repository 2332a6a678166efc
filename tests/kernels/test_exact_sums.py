"""Totals that are never below the exact sum, against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tightrope.kernels import exact_sums

COSTS = st.lists(
    st.floats(-1e100, 1e100)
    | st.sampled_from([0.1, 0.2, -0.3, 1.0, -1.0, 1e15, -1e15, 1e16, -1e16, 5e-324, -5e-324]),
    max_size=40,
)


def summed(costs: list[float]) -> tuple[float, float]:
    totals, rests = np.zeros(1), np.zeros(1)
    for cost in costs:
        exact_sums.add_costs(totals, rests, np.array([cost]))
    return float(totals[0]), float(rests[0])


@given(COSTS)
def test_it_is_not_below_the_exact_sum_and_as_near_as_two_numbers_come(costs: list[float]) -> None:
    total, rest = summed(costs)
    kept, exact = Fraction(total) + Fraction(rest), sum(map(Fraction, costs), Fraction(0))
    assert kept >= exact
    assert kept - exact <= len(costs) * max(map(abs, costs), default=0.0) * Fraction(2) ** -100
    assert (total > 0) == (kept > 0), "the total has the sign of the sum"


@given(COSTS, COSTS)
def test_from_at_or_below_zero_no_cost_that_is_not_above_zero_leads_above(
    costs: list[float], more: list[float]
) -> None:
    total, rest = summed(costs)
    if total > 0.0:
        total, rest = -total, -rest
    for cost in more:
        total, rest = exact_sums.total_after(total, rest, -abs(cost))
        assert total <= 0.0


def test_what_plain_sums_lose_is_kept() -> None:
    assert summed([-1e16, 1.0, 1.0, 1.0, 1e16])[0] == 3.0
    assert summed([-0.1] * 10 + [1.0])[0] < 0.0, "ten times the number 0.1 is more than 1"
