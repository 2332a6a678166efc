"""Exact sums against rational arithmetic, and limits read as they were written."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from tightrope.allocation.exact import excess

FLOATS = st.floats(-1e30, 1e30, allow_nan=False, allow_infinity=False)


def exact_sum(values: list[float]) -> Fraction:
    """Of the decimals that Python shows."""
    return sum((Fraction(repr(value)) for value in values), Fraction(0))


@given(st.lists(FLOATS, max_size=30), st.fractions(-10, 10))
def test_the_sign_is_that_of_the_exact_sum(values: list[float], limit: Fraction) -> None:
    exact = exact_sum(values) - limit
    assert np.sign(excess(np.array(values), limit)) == (exact > 0) - (exact < 0)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_a_sum_is_within_itself_and_beyond_anything_less(values: list[float]) -> None:
    exact = exact_sum(values)
    assert excess(np.array(values), exact) == 0.0
    assert excess(np.array(values), exact - Fraction(1, 10**40)) > 0.0


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=200))
def test_cents_add_up_to_cents(cents: list[int]) -> None:
    values = np.array(cents) / 100
    assert excess(values, Fraction(sum(cents), 100)) == 0.0
    assert excess(values, Fraction(sum(cents) - 1, 100)) > 0.0


def test_three_of_ten_rows_are_within_three_tenths() -> None:
    """Though the float 0.3 is less than 3/10."""
    rules = tr.Rules([tr.Capacity("call", at_most=0.3), tr.Share("call", at_least=0.3)], ["wait", "call"])
    plan = tr.allocate({"gain": np.arange(10.0)}, rules, reward={"wait": 0.0, "call": "gain"})
    assert (plan.counts["call"], plan.value) == (3, 24.0)


def test_a_tenth_in_each_of_a_thousand_rows_is_a_hundred() -> None:
    """Though the float 0.1 is more than 1/10, and sums of it are rounded."""
    rules = tr.Rules([tr.Budget("cost", at_most=100.0, per="table")], ["wait", "call"])
    usage = {"cost": {"wait": 0.0, "call": 0.1}}
    plan = tr.allocate({"gain": np.ones(3_001)}, rules, reward={"wait": 0.0, "call": "gain"}, usage=usage)
    assert plan.counts["call"] == 1_000


def test_a_hair_beyond_a_limit_is_beyond_it() -> None:
    rules = tr.Rules([tr.Budget("cost", at_most=1.0)], ["wait", "call"])
    told = {"reward": {"wait": 0.0, "call": "gain"}, "usage": {"cost": {"wait": 0.0, "call": "price"}}}
    for price, called in ((2.0, 2), (np.nextafter(2.0, 3.0), 1)):
        table = {"gain": np.ones(4), "price": [2.0, price, 9.0, 9.0]}
        assert tr.allocate(table, rules, **told).counts["call"] == called
