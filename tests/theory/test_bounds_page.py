"""The numbers on the page about bounds are those that the functions give."""

import re
from pathlib import Path

import pytest

from tightrope import theory
from tightrope.schedules import Power, known_costs
from tightrope.theory.totals import LogTimes, Summed

PAGE = (Path(__file__).parents[2] / "docs" / "bounds.md").read_text(encoding="utf-8")
HALF_ROOT = Power(0.5, 0.5)


def both(**setting):
    found = theory.expected_violation_ends(**setting), theory.violation_probability_ends(0.01, **setting)
    return "{:,} ({:,})".format(*found)


@pytest.mark.parametrize(("K", "delta"), [(1, 0.5), (1, 0.1), (3, 0.2)])
def test_rounds_without_violation(K, delta):
    V, epsilon = known_costs(K)
    V, epsilon = Power(delta * V.scale, 0.5), Power(epsilon.scale, -0.5)
    outgrowing = {"K": K, "delta": delta, "V": HALF_ROOT, "b": LogTimes(2.0, HALF_ROOT)}
    cells = [
        f"{theory.violation_ends(K=K, delta=delta):,}",
        f"{theory.violation_ends_schedule(K=K, delta=delta, V=V, epsilon=epsilon):,}",
        both(K=K, delta=delta, V=V, b=Summed(epsilon)),
        both(**outgrowing),
        both(**outgrowing, price_bound=1.0),
    ]
    [row] = re.findall(rf"^\| {K}, {delta:g} \| (.*) \|$", PAGE, re.MULTILINE)
    assert row.split(" | ") == cells


def test_the_experiments_own_schedules():
    bandit = {"K": 1, "delta": 0.1, "V": Power(1.0, 0.5), "b": Summed(Power(6.0, -0.5))}
    assert f"\n  {theory.expected_violation_ends(**bandit):,}, as they ask" in PAGE
    hospital = {"K": 18, "delta": 0.00625, "V": Power(4.0, 0.5), "b": Summed(Power(1.0, -0.5))}
    assert theory.expected_violation_ends(**hospital) is None
