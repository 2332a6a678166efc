"""Plans beside the optimum in whole numbers, on random tables: every rule kept exactly, and next to nothing lost."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from allocation_tools import exactly_kept, integer_optimum, random_case, value_of_case
from tightrope.allocation import NoneFound


@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_rows_earn_what_an_integer_program_earns(seed: int) -> None:
    case = random_case(seed, 300)
    plan = case.allocate()
    assert exactly_kept(case, plan.actions)
    earned, bound = integer_optimum(case)
    assert plan.value == pytest.approx(value_of_case(case, plan.actions))
    assert earned * (1 - 1e-4) <= plan.value <= bound * (1 + 1e-9)
    assert plan.bound >= earned * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(24))
def test_a_dozen_rows_are_solved_or_proved_impossible(seed: int) -> None:
    case = random_case(100 + seed, 5 + seed % 9)
    earned, bound = integer_optimum(case, gap=0.0)
    try:
        plan = case.allocate()
    except NoneFound:
        pytest.fail("a program this small is solved to the end")
    except tr.InfeasibleProblem:
        assert bound == -np.inf
    else:
        assert exactly_kept(case, plan.actions)
        assert plan.value == pytest.approx(earned, abs=1e-6)


def test_the_cases_are_of_both_kinds() -> None:
    """Otherwise the test above would show half of what it says."""
    bounds = [integer_optimum(random_case(100 + seed, 5 + seed % 9), gap=0.0)[1] for seed in range(24)]
    assert 2 <= sum(bound == -np.inf for bound in bounds) <= 22


def test_thousands_of_rows_stay_within_a_ten_thousandth_of_the_bound() -> None:
    case = random_case(7, 20_000)
    plan = case.allocate()
    assert exactly_kept(case, plan.actions)
    assert plan.gap < 1e-4


def test_the_bound_is_the_optimum_in_fractions_of_rows() -> None:
    """The core's linear program takes the prices there; Newton's method alone stops short of it."""
    case = random_case(9, 700, beyond=False)
    plan = case.allocate()
    assert plan.bound == pytest.approx(integer_optimum(case, whole=False)[0], rel=1e-8)


def test_two_runs_and_any_number_of_workers_give_the_same_plan() -> None:
    case = random_case(3, 70_000, beyond=False)
    one, two = (case.allocate(workers=workers) for workers in (1, 2))
    np.testing.assert_array_equal(one.actions, two.actions)
    assert (one.prices, one.used, one.bound) == (two.prices, two.used, two.bound)


def test_prices_of_yesterday_give_the_same_value() -> None:
    case = random_case(11, 800)
    first = case.allocate()
    again = case.allocate(start=first)
    assert exactly_kept(case, again.actions)
    assert again.value == pytest.approx(first.value, rel=1e-4)


def test_the_order_of_actions_and_rows_does_not_matter() -> None:
    case = random_case(5, 400)
    order = np.random.default_rng(0).permutation(400)
    mixed = tr.allocate(
        {name: np.asarray(column)[order] for name, column in case.table.items()},
        tr.Rules(list(case.rules), tuple(reversed(case.rules.actions))),
        **case.told,
    )
    assert mixed.value == pytest.approx(case.allocate().value, rel=1e-4)
