"""What `docs/drift.md` says of worlds that change, tried on shorter runs of `examples/drift.py`, and what its table says."""

from __future__ import annotations

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


def test_without_a_half_life_it_is_back_soon(drift):
    """Two runs of 12,000 rounds: back within 5 % in less than 1,500 rounds, and sooner than with the longest half-life."""
    watchful = drift.recovery(None, rounds=12_000, replications=3, seed=1)
    slow = drift.recovery(2000.0, rounds=12_000, replications=3, seed=1)
    assert watchful.back is not None
    assert watchful.back < 1500
    assert slow.back is None or slow.back > watchful.back
    assert watchful.before > slow.before, "and it loses less while the world stays the same"
    assert max(watchful.last_violated, slow.last_violated) < 100


def test_the_table_says_what_the_text_says():
    table = {row[0]: row for row in rows("| half-life | before")}
    back = {name: int(row[2].replace(",", "")) for name, row in table.items()}
    assert min(back, key=back.__getitem__) == "none"
    assert back["none"] < 1000
    assert [float(row[1].rstrip("%")) for row in table.values()] == sorted(
        (float(row[1].rstrip("%")) for row in table.values()), reverse=True
    ), "a half-life costs something while nothing changes, a shorter one more"
    assert all(float(row[4]) < 100 for row in table.values())


def test_no_half_life_in_hindsight_is_much_better():
    """The page's table, and one of its numbers again."""
    said = {row[0]: [float(cell) for cell in row[1:]] for row in rows("| scenario | no half-life |")}
    for ours, *others in said.values():
        assert ours <= 1.3 * min(others)
    found = compare([ROSTER["shadow-price"]], ["switching-best"], rounds=10_000, replications=8, workers=1)
    [one] = found.performances
    assert one.result.regret.mean[-1] == pytest.approx(said["switching-best"][0], rel=0.35)
    assert one.kept
