"""Designs: which settings a sweep tries."""

from __future__ import annotations

from collections import Counter
from itertools import islice, product

import numpy as np
import pytest

from sweep_tools import spec_of
from tightrope.spec import SpecError, read_spec
from tightrope.sweeps import Design, Plan
from tightrope.sweeps.design import Span, put


def test_a_grid_has_every_combination_with_environments_slowest():
    spec = spec_of(
        {"policy.slater": [0.1, 0.2], "environment.threshold": [0.1, 0.5], "simulation.seed": [0, 1, 2]}
    )
    design = Design.of(spec)
    assert design.paths == ("environment.threshold", "policy.slater", "simulation.seed")
    assert list(design.points()) == list(product([0.1, 0.5], [0.1, 0.2], [0, 1, 2]))
    assert design.cells == 12


def test_paths_without_quotation_marks_are_the_same():
    quoted = read_spec(
        '[sweep]\n"policy.V.scale" = { low = 1.0, high = 2.0, steps = 3 }\n"simulation.seed" = [1]\n'
    )
    plain = read_spec(
        "[sweep]\npolicy.V.scale = { low = 1.0, high = 2.0, steps = 3 }\nsimulation.seed = [1]\n"
    )
    assert Design.of(quoted) == Design.of(plain)
    assert [point[0] for point in Design.of(plain).points()] == [1.0, 1.5, 2.0]


@pytest.mark.parametrize("kind", ["random", "sobol"])
def test_drawn_points_depend_on_the_seed_alone(kind):
    table = {
        "design": kind,
        "policy.reward.bonus": {"low": 0.01, "high": 1.0, "scale": "log"},
        "simulation.rounds": {"low": 3, "high": 9},
        "policy.slater": ["measure", 0.1],
    }
    few = list(Design.of(spec_of({**table, "cells": 40})).points())
    many = list(Design.of(spec_of({**table, "cells": 700})).points())
    other = list(Design.of(spec_of({**table, "cells": 40, "seed": 1})).points())
    assert many[:40] == few != other
    assert len(many) == 700
    bonus, rounds, slater = (list(column) for column in zip(*many))
    assert all(0.01 <= b <= 1.0 and b == float(f"{b:.6g}") for b in bonus)
    assert set(rounds) == set(range(3, 10))
    assert all(isinstance(r, int) for r in rounds)
    assert set(slater) == {"measure", 0.1}
    # On a logarithmic scale, half of the draws lie below the geometric mean.
    assert 0.4 < np.mean(np.array(bonus) < 0.1) < 0.6
    assert 0.4 < np.mean([s == 0.1 for s in slater]) < 0.6


def test_sobol_points_are_spread_evenly():
    table = {"design": "sobol", "cells": 64, "policy.V.scale": {"low": 0.0, "high": 64.0}}
    table["policy.epsilon.scale"] = {"low": 0.0, "high": 64.0}
    points = np.array(list(Design.of(spec_of(table)).points()))
    # The property that defines it: one point in each of 64 slices, of either coordinate, and of 8 × 8 squares.
    for column in points.T:
        assert sorted(np.floor(column).astype(int)) == list(range(64))
    assert len({(int(x // 8), int(y // 8)) for x, y in points}) == 64


def test_designs_are_streamed():
    big = {f"policy.x{i}": list(range(100)) for i in range(6)}  # 10¹² points
    plan = Plan.of(spec_of(big))
    assert len(plan) == 10**12
    assert [cell.number for cell in islice(plan.cells(), 3)] == [0, 1, 2]


def test_spans():
    assert Span(1, 1000, scale="log", steps=4).levels() == (1, 10, 100, 1000)
    assert Span(1, 3, steps=9).levels() == (1, 2, 3)
    assert Span(1, 4).at(0.999999) == 4
    assert Counter(Span(1, 4).at(i / 400) for i in range(400)) == {1: 100, 2: 100, 3: 100, 4: 100}
    assert Span(0.1, 0.3).at(0.0) == 0.1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "sweep: is missing"),
        ({"design": "grid"}, "sweep: must name at least one field"),
        ({"design": "latin", "policy.slater": [1]}, "sweep.design: must be one of 'grid', 'random', 'sobol'"),
        ({"design": "sobol", "policy.slater": [1]}, "sweep.cells: is missing"),
        ({"cells": 3, "policy.slater": [1]}, "sweep.cells: is only for random and sobol"),
        ({"design": "random", "cells": 0, "policy.slater": [1]}, "sweep.cells: must be a whole number >= 1"),
        (
            {"design": "random", "cells": 2, "seed": -1, "policy.slater": [1]},
            "sweep.seed: must be a whole number",
        ),
        ({"polcy.slater": [1]}, "sweep.polcy.slater: unknown field"),
        ({"policy": [1]}, "must lead to a field"),
        ({"policy.slater": []}, 'sweep."policy.slater": must have at least one value'),
        ({"policy.slater": 3}, "must be a list of values or"),
        ({"policy.slater": {"low": 1.0, "high": 2.0}}, "steps is missing"),
        ({"policy.slater": {"low": 1.0, "high": 2.0, "steps": 1}}, "steps must be a whole number >= 2"),
        ({"policy.slater": {"low": 2.0, "high": 1.0, "steps": 3}}, "low must be below high"),
        ({"policy.slater": {"low": 0.0, "high": 1.0, "steps": 3, "scale": "log"}}, "low must be above 0"),
        (
            {"policy.slater": {"low": 0.1, "high": 1.0, "steps": 3, "scale": "lg"}},
            "scale must be 'linear' or 'log'",
        ),
        ({"policy.slater": {"low": "a", "high": 1.0, "steps": 3}}, "low must be a number"),
        ({"policy.slater": {"low": 0.1, "hihg": 1.0}}, "did you mean 'high'?"),
        ({"policy.slater": {"low": 0.1}}, "high is missing"),
        (
            {"design": "random", "cells": 2, "policy.slater": {"low": 0.1, "high": 1.0, "steps": 3}},
            "steps is only for grids",
        ),
        ({"rule[0].at_most": [0.1]}, "there is no entry [0]"),
        ({"policy[1].slater": [0.1]}, "there is no entry [1]"),
        ({"environment.kind.x": [0.1]}, "there is no table to hold 'x'"),
        ({"policy.sla[ter": [0.1]}, "must be a path such as"),
        ({"policy.slater": [0.1], "policy": {"slater": [0.2]}}, "must name each field once"),
    ],
)
def test_bad_designs_are_refused(table, message):
    with pytest.raises(SpecError) as error:
        Design.of(spec_of(table))
    assert message in str(error.value)


def test_putting_a_value_leaves_the_original():
    data = {"a": [{"b": 1}, {"b": 2}], "c": {}}
    assert put(data, ("a", 1, "b"), 9) == {"a": [{"b": 1}, {"b": 9}], "c": {}}
    assert put(data, ("c", "d", "e"), 1)["c"] == {"d": {"e": 1}}
    assert data == {"a": [{"b": 1}, {"b": 2}], "c": {}}
