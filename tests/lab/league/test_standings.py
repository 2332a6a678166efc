"""The league's tables in a page: between the markers, from the command, and nothing else of the page changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import tightrope as tr
from tightrope.cli import main
from tightrope_lab.league import ROSTER, compare, read_page, rewrite_page
from tightrope_lab.league.ranking import over_runs
from tightrope_lab.league.standings import BEGIN, END, standings

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("shadow-price", "linucb", "round-robin", "uniform", "oracle", "lfg")


@pytest.fixture(scope="module")
def found():
    grounds = ["bandit-binding", "fair-jobs", "sleeping-fractions"]
    return compare([ROSTER[name] for name in NAMES], grounds, rounds=300, replications=3, seed=1, workers=1)


def rows(text):
    """The cells of each table row, by table."""
    tables = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in line.split("|")[1:-1]] for line in one.splitlines()] for one in tables]


def test_the_tables_say_what_the_league_found(found):
    scenarios, policies = rows(standings(found))
    assert scenarios[0] == [
        "scenario",
        "place",
        "policy",
        "regret",
        "against `shadow-price`",
        "rounds above zero",
        "last",
        "worst path",
    ]
    ground = ""
    shown = {}
    for name, place, policy, regret, gap, above, last, worst in scenarios[2:]:
        ground = name.strip("`") or ground
        shown.setdefault(ground, []).append((place, policy.strip("*`"), regret, gap, above, last, worst))
    assert list(shown) == list(found.scenarios)
    for ground, lines in shown.items():
        placed = [one for one in found.of(ground) if found.place(one) is not None]
        kept = [policy for place, policy, *_ in lines if " of " in place]
        assert kept == [one.policy for one in placed][:6]
        assert "shadow-price" in [policy for _, policy, *_ in lines]
        for place, policy, regret, gap, *_ in lines:
            (one,) = (one for one in found.of(ground) if one.policy == policy)
            assert place == (f"{found.place(one)} of {len(placed)}" if one.kept else one.verdict)
            assert regret == str(one.result.regret.at())
            paired = found.gap(one)
            assert gap == ("–" if paired is None else str(over_runs(paired[:, -1])))
    assert [line[0].split("`")[1] for line in policies[2:]] == [row["policy"] for row in found.scores()]
    assert {line[0].split("`")[1] for line in policies[2:]} == set(NAMES)
    for line, row in zip(policies[2:], found.scores(), strict=True):
        assert line[1] == f"{row['kept']} of {row['played']}"
        assert line[2] == ("–" if row["ratio"] is None else f"{row['ratio']:.2f}")


def test_only_what_stands_between_the_markers_changes(found, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Ours\n\nWords.\n\n{BEGIN}\nold\n{END}\n\nMore words.\n")
    rewrite_page(found, page)
    first = page.read_text()
    assert first.startswith(f"# Ours\n\nWords.\n\n{BEGIN}\n")
    assert first.endswith(f"\n{END}\n\nMore words.\n")
    assert "old" not in first
    assert standings(found) in first
    rewrite_page(found, page)
    assert page.read_text() == first


@pytest.mark.parametrize("text", ["nothing", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}\n{END}\n{BEGIN}\n{END}"])
def test_a_page_without_its_markers_is_refused_before_anything_runs(text, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(tr.InvalidInput, match="must have the line"):
        read_page(page)
    assert main(["compare", "--page", str(page)]) == 2
    assert "each once" in capsys.readouterr().err
    assert page.read_text() == text
    assert main(["compare", "--page", str(tmp_path / "none.md")]) == 2
    assert "can't be read" in capsys.readouterr().err


def test_the_command_rewrites_the_page_of_the_documentation(tmp_path, capsys):
    page = tmp_path / "league.md"
    page.write_text((ROOT / "docs" / "league.md").read_text())
    before, after = read_page(page)
    chosen = ["--policy", "shadow-price", "--policy", "uniform", "--scenario", "bandit-binding"]
    size = ["--rounds", "60", "--replications", "2", "--workers", "1", "--out", str(tmp_path / "o")]
    assert main(["compare", *chosen, *size, "--page", str(page)]) == 0
    text = page.read_text()
    assert text.startswith(before)
    assert text.endswith(after)
    made = text[len(before) : -len(after)]
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert f"`{summary['command']}`" in made
    assert summary["command"].endswith(f"--page {page}")
    scores = {row["policy"]: row for row in summary["scores"]}
    _, policies = rows(made)
    assert {line[0].strip("`"): line[1] for line in policies[2:]} == {
        name: f"{row['kept']} of 1" for name, row in scores.items()
    }
    assert "mean ratio to the best" in capsys.readouterr().out
