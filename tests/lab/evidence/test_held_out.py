"""The held-out protocol: what is computed of its rows, and a handful of its worlds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tightrope_lab.evidence.held_out import (
    CONTESTANTS,
    DEFAULT,
    FIRST_SEED,
    LAGRANGIAN,
    PAPER,
    PROTOTYPE,
    contest,
    recorded,
    summarise,
)


def row(policy, scenario, regret, *, keeps=True, last=10.0, path=1.0, ends=0.0):
    found = {"policy": policy, "scenario": scenario, "regret": regret, "keeps": keeps}
    return {**found, "last_violation": last, "path": path, "runs_in_violation": ends}


def test_the_summary_by_hand():
    found = summarise(
        [
            row(DEFAULT, "a", 30.0, last=4.0),
            row(PROTOTYPE, "a", 80.0, last=8.0, ends=0.5),
            row(DEFAULT, "b", 60.0, last=30.0),
            row(PROTOTYPE, "b", -60.0, keeps=False, last=20.0),
            row(DEFAULT, "c", 180.0, keeps=False),
            row(PROTOTYPE, "c", 180.0, keeps=False),
        ]
    )
    ours, theirs = found["policies"][DEFAULT], found["policies"][PROTOTYPE]
    assert (ours["keeps"], ours["mean_ratio"], ours["worst_ratio"]) == (2, 1.0, 1.0)
    assert (theirs["keeps"], theirs["mean_ratio"]) == (1, 2.0)
    assert theirs["runs_in_violation"] == pytest.approx(0.5 / 3)
    assert (ours["last_median"], theirs["last_median"]) == (10.0, 10.0)
    assert found["kept_by_none"] == 1
    pair = found["paired"]
    # Ratios of 0.5, of 80/5 (a regret counts as at least −15), and of 1.
    assert pair["geometric_ratio"] == pytest.approx((0.5 * 16) ** (1 / 3))
    assert (pair["earlier"], pair["later"], pair["less_regret"]) == (1, 1, 1)
    assert (pair["kept_by_both"], pair["regret_kept"], pair["regret_kept_prototype"]) == (1, 30.0, 80.0)


def test_a_handful_of_worlds():
    """Costs before and after, own and shared parameters; those in which a short run can settle."""
    who = (DEFAULT, PAPER, LAGRANGIAN)
    rows = [one for i in (5, 15, 19, 27, 29, 48) for one in contest(FIRST_SEED + i, 3000, 2, who)]
    found = summarise(rows)
    ours = found["policies"][DEFAULT]
    assert ours["keeps"] == 6
    assert ours["mean_ratio"] < 1.2
    assert found["policies"][PAPER]["regret_mean"] > 2 * ours["regret_mean"]
    assert found["policies"][LAGRANGIAN]["regret_mean"] > ours["regret_mean"]


def test_all_contestants_play_and_the_best_in_hindsight_is_no_worse():
    rows = contest(FIRST_SEED + 13, 500, 2)
    assert [one["policy"] for one in rows] == [name for name in CONTESTANTS if name != PROTOTYPE]
    needed = {"round", "regret", "regret_low", "regret_high", "violation", "last_violation", "path", "keeps"}
    assert all(needed <= set(one) for one in rows)


def test_what_the_prototype_did_is_what_the_page_says():
    """But for means over worlds, which a single round of a single run moves: another processor rounds differently."""
    kept = recorded(10_000, 4)
    found = summarise(kept)["policies"][PROTOTYPE]
    page = (Path(__file__).parents[3] / "docs" / "shadow-price.md").read_text(encoding="utf-8")
    [line] = [one for one in page.splitlines() if one.startswith(f"| `{PROTOTYPE}` |")]
    _, keeps, _, _, ends, path, _, last, _ = line.strip("| ").split(" | ")
    assert str(sum(row["keeps"] for row in kept)) == keeps
    assert (f"{found['runs_in_violation']:.1%}", f"{found['path_median']:.2f}") == (ends, path)
    assert f"{found['last_median']:.0f}" == last


def test_the_prototype_is_recorded_for_runs_of_its_own_size():
    assert (len(recorded(10_000, 4)), recorded(400, 2)) == (60, [])


def test_ratios_to_the_best_by_hand():
    row = {
        "scenario": "a",
        "regret": 30.0,
        "keeps": True,
        "runs_in_violation": 0.0,
        "path": 1.0,
        "last_violation": 5.0,
    }
    found = summarise([{**row, "policy": "shadow-price"}, {**row, "policy": "prototype", "regret": 80.0}])
    assert found["policies"]["prototype"]["mean_ratio"] == 2.0
    assert found["paired"]["geometric_ratio"] == 0.5
