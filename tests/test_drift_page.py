"""What `docs/drift.md` says of worlds that change, tried on shorter runs of `examples/drift.py`, and what its table says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tightrope_lab.league import ROSTER, compare

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "drift.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def drift():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import drift
    finally:
        sys.path.pop(0)
    return drift


def rows(head: str) -> list[list[str]]:
    body = PAGE.split(head)[1].split("\n\n")[0]
    return [[cell.strip(" `*") for cell in line.strip("|").split("|")] for line in body.splitlines()[2:]]


def test_with_a_half_life_it_is_back_within_2000_rounds_and_without_it_is_not(drift):
    forgetful = drift.recovery(1000.0, rounds=12_000, replications=3, seed=1)
    assert forgetful.back is not None
    assert forgetful.back <= 2000
    assert forgetful.last_violated < 100
    stubborn = drift.recovery(None, rounds=12_000, replications=2, seed=1)
    assert stubborn.back is None or stubborn.back > 2000
    assert stubborn.last_violated < 100


def test_the_table_says_what_the_text_says():
    table = {row[0]: row for row in rows("| half-life | before")}
    back = {name: row[2].replace(",", "") for name, row in table.items()}
    assert int(back["1,000"]) < 2000
    assert not back["none"].isdigit() or int(back["none"]) > 4000
    assert [float(row[1].rstrip("%")) for row in table.values()] == sorted(
        (float(row[1].rstrip("%")) for row in table.values()), reverse=True
    ), "a half-life costs something while nothing changes, a shorter one more"
    assert all(float(row[4]) < 100 for row in table.values())


def test_the_forgetful_entry_of_the_league_is_ahead_where_the_best_changes():
    entries = [ROSTER["shadow-price"], ROSTER["shadow-price-forgetful"]]
    found = compare(entries, ["seasons"], rounds=8000, replications=2, workers=1)
    stubborn, forgetful = (one.result.regret.mean[-1] for one in found.performances)
    assert forgetful < stubborn
    assert all(one.kept for one in found.performances)
    said = {row[0]: row for row in rows("| scenario | `shadow-price` |")}
    for name in ("switching-best", "seasons"):
        ours, theirs = (float(re.sub(r"[^\d.]", "", cell.split()[0])) for cell in said[name][1:3])
        assert theirs < ours
