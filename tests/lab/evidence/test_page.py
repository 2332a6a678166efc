"""The page: the best are bold, what is missed is said, and the committed page is the one that the command writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tightrope.cli import main
from tightrope_lab.evidence import page, run

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "docs" / "shadow-price.md"


def prose():
    """What the page says whatever was measured."""
    return page.page({"date": "2026-01-01"}, "tightrope evidence").partition("## What was measured")[0]


def test_the_committed_page_is_of_this_version():
    text = COMMITTED.read_text(encoding="utf-8")
    assert prose() in text
    assert "--quick" not in text
    for heading in ("README's sixty seconds", "The league", "Real tables", "Held out"):
        assert f"### {heading}" in text
    figures = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert figures == [f"figures/{page.FIGURE_EXAMPLE}", f"figures/{page.FIGURE_TABLES}"]


def league_row(role, regret, *, kept=True, ends=0.0):
    found = {"scenario": "hospital", "role": role, "policy": role, "asked": 80, "regret": regret}
    found |= {"regret_low": regret - 2, "regret_high": regret + 2, "kept": kept, "runs_in_violation": ends}
    return {**found, "path": 1.0, "last_violation": 3.0}


def test_a_rival_that_wins_a_row_is_bold():
    won, lost = (
        page.page(
            {
                "date": "2026-01-01",
                "league": {"rows": [league_row("default", 70.0), rival], "rounds": 100, "runs": 5},
            },
            "tightrope evidence",
        )
        for rival in (league_row("paper", 20.0), league_row("paper", 20.0, kept=False))
    )
    assert "| 70.0 [68.0, 72.0] |" in won
    assert "| **20.0 [18.0, 22.0]** |" in won
    assert "| **70.0 [68.0, 72.0]** |" in lost, "who violates has not won"
    assert "| 20.0 [18.0, 22.0], violates |" in lost


def test_what_is_missed_is_said():
    rows = [league_row("default", 90.0, ends=0.5), league_row("paper", 900.0)]
    said = page.missed({"league": {"rows": rows}})
    assert said == ["hospital: regret 90 instead of at most 80", "hospital: 50% of the runs end in violation"]
    example = [
        {"policy": "shadow-price", "reward": 1700.0, "rounds_above": 12},
        {"policy": "shadow-price, guard", "reward": 1775.0, "rounds_above": 11},
    ]
    said = page.missed({"example": {"rows": example}})
    assert said == [
        "README's example: shadow-price earns 1,700 instead of 1,770",
        "README's example: shadow-price, guard has 11.0 rounds above zero instead of 10",
    ]


def test_the_best_numbers_of_a_column_are_bold():
    body = [["a", "1,200"], ["b", "3"], ["c", "−2"], ["d", "–"]]
    page._embolden(body, 1, [True, True, False, True])
    assert body == [["a", "1,200"], ["b", "**3**"], ["c", "−2"], ["d", "–"]]


def test_the_command_writes_page_figures_and_summary(capsys, tmp_path):
    target = tmp_path / "docs" / "shadow-price.md"
    call = ["evidence", "--quick", "--workers", "1", "--data", str(tmp_path), "--json"]
    assert main([*call, "--out", str(tmp_path / "out"), "--page", str(target)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["page"] == str(target)
    text = target.read_text(encoding="utf-8")
    assert "Left out, since their files were not in the data folder: satimage." in text
    for figure in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (target.parent / figure).is_file()
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())["rows"]
    needed = {
        "policy",
        "scenario",
        "round",
        "regret",
        "regret_low",
        "regret_high",
        "violation",
        "last_violation",
    }
    assert all(needed <= set(row) for row in rows)
    assert {row["part"] for row in rows} == set(run.PARTS)
    # A part alone is put beside what is there already.
    before = (tmp_path / "out" / "worlds.json").read_bytes()
    assert main([*call, "example", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "worlds.json").read_bytes() == before
    assert "### Held out" in (tmp_path / "out" / "shadow-price.md").read_text(encoding="utf-8")


def test_an_unknown_part_is_refused(capsys, tmp_path):
    assert main(["evidence", "moon", "--out", str(tmp_path)]) == 2
    assert "parts must be among example, league, tables, worlds" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["explore", "caution", "memory", "guard"])
def test_every_setting_is_told(name):
    assert f"| `{name}` |" in prose()


def test_what_the_league_missed_in_words():
    row = {"role": "default", "scenario": "hospital", "regret": 90.0, "asked": 80, "runs_in_violation": 0}
    assert page.missed({"league": {"rows": [row]}}) == ["hospital: regret 90 instead of at most 80"]
