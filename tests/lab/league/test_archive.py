"""A league that is run in parts and put together is the league that is run at once."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import tightrope as tr
from tightrope.cli import main
from tightrope.environments.tabular import changed
from tightrope_lab.league import ROSTER, compare, merged, read_runs, write_runs
from tightrope_lab.league.scenarios import Scenario, scenario
from tightrope_lab.league.standings import BEGIN, END, standings

SIZE = ["--rounds", "60", "--replications", "3", "--seed", "2", "--workers", "1"]
NAMES = ("shadow-price", "uniform", "lfg")


def played(names, grounds, **size):
    entries = [ROSTER[name] for name in names]
    return compare(entries, grounds, **{"rounds": 60, "replications": 3, "seed": 2, "workers": 1, **size})


@pytest.fixture(scope="module")
def whole():
    return played(NAMES, ["bandit-binding", "fair-jobs"])


def numbers(league):
    """All rows but for the times."""
    return [{k: v for k, v in row.items() if "microseconds" not in k} for row in league.rows()]


def test_a_league_is_read_as_it_was_written(whole, tmp_path):
    write_runs(whole, tmp_path)
    again = read_runs(tmp_path)
    assert again.rows() == whole.rows()
    assert again.scores() == whole.scores()
    assert again.misfits == whole.misfits
    assert again.optima == whole.optima
    assert all(a.result == b.result for a, b in zip(again.performances, whole.performances, strict=True))


def test_parts_by_scenario_and_by_policy_make_the_whole(whole, tmp_path):
    parts = [
        played(["uniform"], ["fair-jobs"]),
        played(["lfg", "shadow-price"], ["fair-jobs"]),
        played(NAMES, ["bandit-binding"]),
    ]
    folders = [tmp_path / str(i) for i in range(len(parts))]
    for part, folder in zip(parts, folders, strict=True):
        write_runs(part, folder)
    found = merged([read_runs(folder) for folder in folders])
    assert list(found.scenarios) == list(whole.scenarios)
    assert numbers(found) == numbers(whole)
    assert found.misfits == whole.misfits
    assert found.command == (
        "tightrope compare --policy shadow-price --policy lfg --policy uniform --scenario bandit-binding --scenario fair-jobs "
        "--rounds 60 --replications 3 --seed 2"
    )
    assert standings(replace(found, command="")) == standings(replace(whole, command=""))


def test_the_command_merges_and_rewrites_a_page(whole, tmp_path, capsys):
    write_runs(played(NAMES, ["fair-jobs"]), tmp_path / "fair-jobs")
    chosen = [word for name in NAMES for word in ("--policy", name)]
    out = ["--out", str(tmp_path / "bandit-binding")]
    assert main(["compare", *chosen, "--scenario", "bandit-binding", *SIZE, *out]) == 0
    page = tmp_path / "page.md"
    page.write_text(f"Words.\n\n{BEGIN}\nold\n{END}\n")
    merge = ["--merge", str(tmp_path / "fair-jobs"), "--merge", str(tmp_path / "bandit-binding")]
    assert main(["compare", *merge, "--out", str(tmp_path / "all"), "--page", str(page)]) == 0
    text, summary = page.read_text(), json.loads((tmp_path / "all" / "summary.json").read_text())
    assert "old" not in text
    assert f"`{summary['command']}`" in text
    assert [one["scenario"] for one in summary["scenarios"]] == ["bandit-binding", "fair-jobs"]
    assert [row["first_or_tied"] for row in summary["scores"]] == [
        row["first_or_tied"] for row in whole.scores()
    ]
    assert "first or tied in" in capsys.readouterr().out
    assert main(["compare", *merge, "--seed", "3"]) == 2
    assert "--merge runs nothing" in capsys.readouterr().err


def test_parts_that_do_not_fit_are_refused(whole):
    other = played(["uniform"], ["wine"])
    with pytest.raises(
        tr.InvalidInput, match="shadow-price has not been run on wine in any part: run `tightrope"
    ):
        merged([whole, other])
    with pytest.raises(tr.InvalidInput, match="uniform has been run on fair-jobs in more than one part"):
        merged([whole, played(["uniform"], ["fair-jobs"])])
    with pytest.raises(tr.InvalidInput, match="seed must be the same in all parts, but got 2 and 3"):
        merged([whole, played(["uniform"], ["wine"], seed=3)])
    with pytest.raises(tr.InvalidInput, match="at least one"):
        merged([])


def test_what_can_not_be_merged_is_refused(tmp_path):
    with pytest.raises(tr.InvalidInput, match="give a folder that `tightrope compare --out` wrote"):
        read_runs(tmp_path)
    known = scenario("fair-jobs")
    own = Scenario(changed(known.env, name="mine"), "Mine.", known.safe)
    write_runs(played(["uniform"], [own]), tmp_path)
    with pytest.raises(tr.InvalidInput, match="'mine' is the environment of a spec"):
        read_runs(tmp_path)
    write_runs(played(["uniform"], ["fair-jobs"]), tmp_path)
    (tmp_path / "runs" / "0000.npz").write_bytes(b"no")
    with pytest.raises((tr.InvalidInput, tr.errors.StateDamagedError)):
        read_runs(tmp_path)


def test_an_old_league_leaves_no_runs_behind(whole, tmp_path):
    write_runs(whole, tmp_path)
    write_runs(played(["uniform"], ["fair-jobs"]), tmp_path)
    assert len(list((tmp_path / "runs").glob("*.npz"))) == 1
    assert np.isfinite(read_runs(tmp_path).performances[0].microseconds).all()
