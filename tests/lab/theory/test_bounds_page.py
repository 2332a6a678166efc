"""The numbers on the page about bounds are those that the functions give."""

import re
from pathlib import Path

import numpy as np
import pytest

from paper_proof import paper_route
from tightrope import schedules
from tightrope.schedules import Power, known_costs
from tightrope_lab import theory
from tightrope_lab.theory.totals import LogTimes, Summed

PAGE = (Path(__file__).parents[3] / "docs" / "bounds.md").read_text(encoding="utf-8")
HALF_ROOT = Power(0.5, 0.5)


def both(**setting):
    found = (
        theory.expected_violation_ends(theory.Steering(**setting)),
        theory.violation_probability_ends(theory.Steering(**setting), 0.01),
    )
    return "{:,} ({:,})".format(*found)


@pytest.mark.parametrize(("K", "delta"), [(1, 0.5), (1, 0.1), (3, 0.2)])
def test_rounds_without_violation(K, delta):
    V, epsilon = known_costs(K)
    V, epsilon = Power(delta * V.scale, 0.5), Power(epsilon.scale, -0.5)
    outgrowing = {"K": K, "delta": delta, "V": HALF_ROOT, "b": LogTimes(2.0, HALF_ROOT)}
    cells = [
        f"{theory.violation_ends(K=K, delta=delta):,}",
        f"{theory.violation_ends_schedule(theory.Steering(K, delta, V, theory.Summed(epsilon))):,}",
        both(K=K, delta=delta, V=V, b=Summed(epsilon)),
        both(**outgrowing),
        both(**outgrowing, price_bound=1.0),
    ]
    [row] = re.findall(rf"^\| {K}, {delta:g} \| (.*) \|$", PAGE, re.MULTILINE)
    assert row.split(" | ") == cells


@pytest.mark.parametrize("delta", [1.0, 0.1])
def test_where_the_print_falls_below_its_own_proof(delta):
    [row] = re.findall(rf"^\| δ = {delta:g} \| (.*) \|$", PAGE, re.MULTILINE)
    cells = []
    for K in (1, 2, 3, 5, 18):
        tau = schedules.tau_prime(K=K, delta=delta)
        printed = theory.violation_bound(tau, K=K, delta=delta, form="printed")
        cells.append(f"{paper_route(K, delta, np.array([tau]))[0] / printed:.2f}")
    assert row.split(" | ") == cells


COLUMNS = [(1, 0.5, 4, 10_000), (1, 0.1, 4, 10_000), (18, 0.00625, 20, 62_500)]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("no violation from, mended", "violation_ends"),
        ("no violation from, sharper route", "violation_ends_sharp"),
        ("no violation from, by the totals", "violation_ends_best"),
        ("one run in violation with less than 1 % from", "paths_end"),
        ("capped: regret by T", "regret_capped"),
        ("capped: no violation from", "violation_ends_capped"),
        ("capped: one run in violation with less than 1 % from", "paths_end_capped"),
        ("costs learnt after: no violation from", "violation_ends_linear"),
        ("capped, costs learnt after: no violation from", "violation_ends_linear_capped"),
    ],
)
def test_in_numbers(name, field):
    [row] = re.findall(rf"^\| {name} \| (.*) \|$", PAGE, re.MULTILINE)
    for cell, (K, delta, d, T) in zip(row.split(" | "), COLUMNS, strict=True):
        found = getattr(theory.guarantees(K=K, delta=delta, d=d, T=T), field)
        assert written(found) == cell.replace("**", "")


def written(number):
    """As the page writes it: in full below 10⁸, else as 5.2·10¹⁶."""
    if number is None:
        return "no theorem"
    if number < 10**8:
        return f"{number:,.0f}"
    digits, power = f"{number:.1e}".split("e")
    return f"{digits}·10{str(int(power)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


@pytest.mark.parametrize(("K", "delta"), [(1, 0.5), (1, 0.1), (3, 0.2), (18, 0.00625)])
def test_rounds_without_violation_where_the_tightening_is_capped(K, delta):
    [row] = re.findall(rf"^\| K = {K}, δ = {delta:g} \| (.*) \|$", PAGE, re.MULTILINE)
    V, epsilon = theory.capped_schedules(K=K, delta=delta)
    paper = {"K": K, "delta": delta, "V": V, "b": Summed(epsilon.power)}
    cells = [
        written(theory.violation_ends(K=K, delta=delta)),
        written(theory.violation_ends_capped(K=K, delta=delta)),
        written(theory.violation_ends_schedule(theory.Steering(K, delta, V, theory.Summed(epsilon.power)))),
        written(theory.violation_ends_schedule(theory.Steering(K, delta, V, theory.Summed(epsilon)))),
        "{} ({})".format(
            *map(
                written,
                (
                    theory.expected_violation_ends(theory.Steering(**paper)),
                    theory.violation_probability_ends(theory.Steering(**paper), 0.01),
                ),
            )
        ),
        "{} ({})".format(*map(written, theory.capped_ends(K=K, delta=delta))),
    ]
    assert row.split(" | ") == cells


def test_the_experiments_own_schedules():
    bandit = {"K": 1, "delta": 0.1, "V": Power(1.0, 0.5), "b": Summed(Power(6.0, -0.5))}
    assert f"\n  {theory.expected_violation_ends(theory.Steering(**bandit)):,}, as they ask" in PAGE
    hospital = {"K": 18, "delta": 0.00625, "V": Power(4.0, 0.5), "b": Summed(Power(1.0, -0.5))}
    assert theory.expected_violation_ends(theory.Steering(**hospital)) is None
