"""Real tables: at least three rules bind on each, and what is missing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

import tightrope as tr
from tightrope_lab.evidence.tables import NEEDS, TABLES, read_tables

DATA = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.parametrize("name", TABLES)
def test_at_least_three_rules_bind(name):
    if name in NEEDS and not (DATA / NEEDS[name]).is_file():
        pytest.skip(f"no {DATA / NEEDS[name]}")
    table = TABLES[name](DATA)
    best = tr.solve(table.env)
    assert len(table.binding) >= 3
    for rule in table.binding:
        k = table.env.constraints.index(rule)
        assert best.duals[k] > 0
        assert best.slack[k] == pytest.approx(0, abs=1e-7)
    assert best.slater > 0
    assert table.blind < 0.9 * table.optimum
    assert len(table.rules) == table.env.n_constraints


def test_tables_that_are_not_there_are_named(tmp_path):
    found, missing = read_tables(("wine", "satimage", "coupons"), tmp_path)
    assert list(found) == ["wine"]
    assert missing == ["satimage", "coupons"]
    assert read_tables(("coupons",), None) == ({}, ["coupons"])


@pytest.mark.parametrize("name", ["digits", "breast-cancer", "wine"])
def test_a_table_is_called_what_its_environment_is(name):
    """The page looks for its rows by that name."""
    assert TABLES[name](None).env.name == name
