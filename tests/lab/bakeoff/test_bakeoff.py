"""From made tables to the page and its picture, without a network: resumed, merged, with what failed and what is missing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import bakeoff_tools
from tightrope.cli import main
from tightrope.errors import InvalidInput
from tightrope_lab.bakeoff import bakeoff, packages, players, rivals, runs, tables
from tightrope_lab.bakeoff.packages import PACKAGES
from tightrope_lab.bakeoff.results import Results
from tightrope_lab.bakeoff.runs import FILE, read_rows
from tightrope_lab.bakeoff.tables import SOURCES, half

QUICK = ("tightrope", "numpy", "lagrangian")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    sources, pinned = dict(SOURCES), dict(PACKAGES)
    runs._table.cache_clear()
    bakeoff_tools.make(tmp_path / "cache")
    yield tmp_path / "cache"
    runs._table.cache_clear()
    for there, before in ((SOURCES, sources), (PACKAGES, pinned)):
        there.clear()
        there.update(before)


@pytest.fixture
def count(monkeypatch):
    """How many runs have been played."""
    played, real = [], runs.play

    def counted(job, where):
        played.append(job)
        return real(job, where)

    monkeypatch.setattr(runs, "play", counted)
    return played


def test_the_made_tables_are_of_both_halves(cache):
    assert sorted(half(name) for name in SOURCES) == ["held-out", "held-out", "tuning", "tuning"]


def test_from_the_command_to_the_page_and_the_picture(cache, tmp_path, capsys):
    size = (
        "--seeds",
        "3",
        "--limit",
        "120",
        "--workers",
        "1",
        "--cache",
        str(cache),
        "--out",
        str(tmp_path / "out"),
    )
    named = [word for name in QUICK for word in ("--players", name)]
    assert main(["bakeoff", *named, *size, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["failed"], data["missing"]) == ([], {})
    # The Lagrangian needs rules.
    assert len(data["rows"]) == 4 * (2 + 3)
    page = (tmp_path / "out" / "bakeoff.md").read_text()
    assert "on 4 of 4 tables with 3 of 17 players: 60 runs, 3 seeds, at most 120 rounds per table" in page
    for part in ("### Without rules", "### With three rules"):
        text = page.partition(part)[2]
        assert "**The held-out half**, 2 tables" in text
        assert "**The tuning half**, 2 tables" in text
    picture = (tmp_path / "out" / "figures" / "bakeoff.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000
    lines = (tmp_path / "out" / "bakeoff.csv").read_text().splitlines()
    assert len(lines) == 1 + len(data["rows"])


def test_means_on_the_page_are_those_of_the_runs(cache, tmp_path):
    found = bakeoff(
        out=tmp_path, players=QUICK[:2], parts=["plain"], seeds=2, limit=120, workers=1, cache=cache
    )
    rows = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    mine = [row for row in rows if row["player"] == "numpy" and half(row["table"]) == "tuning"]
    assert len(mine) == 4
    whole, early = (sum(values) / 4 for values in zip(*((row["whole"], row["marks"]["100"]) for row in mine)))
    text = found.page.read_text().partition("**The tuning half**")[2]
    line = next(line for line in text.splitlines() if "`numpy`" in line).replace("*", "")
    assert [cell.strip() for cell in line.split("|")[2:4]] == [f"{early:.3f}", f"{whole:.3f}"]


def test_a_run_is_what_its_actions_earned(cache, monkeypatch):
    monkeypatch.setattr(players, "play", lambda player, x, y, J, costs, seed, where: y * (y != 2))
    table = tables.read("made/a", cache)
    plain, ruled = (
        runs.play(runs.Job(part, "made/a", "numpy", 0, 110), cache) for part in ("plain", "rules")
    )
    y = table.y[table.rows(0, 110)]
    assert plain["whole"] == pytest.approx((y != 2).mean(), abs=1e-6)
    assert plain["marks"] == {"100": pytest.approx((y[:100] != 2).mean(), abs=1e-6)}
    assert ruled["whole"] == pytest.approx((y != 2).mean() / ruled["optimum"], abs=1e-5)
    # It answers the third label never, and the first far too often.
    assert ruled["end"] > 0
    assert ruled["last"] == 110


def test_a_killed_run_continues(cache, tmp_path, count):
    """Killed in the middle of the seventh run, with half a line of it written."""
    out = tmp_path / "out"
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(bakeoff_tools.__file__).parent)!r})
from pathlib import Path
import bakeoff_tools
from tightrope_lab.bakeoff import bakeoff, runs
bakeoff_tools.make(Path({str(cache)!r}))
real, played = runs.play, []
def play(job, where):
    if len(played) == 6:
        with open({str(out / FILE)!r}, "a") as file:
            file.write('{{"part": "plain", "tab')
        os.kill(os.getpid(), signal.SIGKILL)
    played.append(job)
    return real(job, where)
runs.play = play
bakeoff(out={str(out)!r}, players=["tightrope", "numpy"], parts=["plain"], seeds=2, limit=60, workers=1, cache={str(cache)!r})
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = (out / FILE).read_text().splitlines()
    assert len(before) == 7
    told = []
    settings = {
        "players": QUICK[:2],
        "parts": ["plain"],
        "seeds": 2,
        "limit": 60,
        "workers": 1,
        "cache": cache,
    }
    bakeoff(out=out, **settings, tell=told.append)
    assert len(count) == 16 - 6
    assert told == [f"6 of 16 runs are in {out / FILE} already"]
    after = (out / FILE).read_text().splitlines()
    assert after[:6] == before[:6]
    assert (
        len({(row["table"], row["player"], row["seed"]) for row in map(json.loads, after)})
        == len(after)
        == 16
    )
    whole = bakeoff(out=tmp_path / "whole", **settings).page.read_text()
    assert (out / "bakeoff.md").read_text() == whole


def test_another_limit_is_another_run(cache, tmp_path, count):
    for limit, so_far in ((50, 4), (50, 4), (60, 8)):
        settings = {"players": ["numpy"], "parts": ["plain"], "seeds": 1, "workers": 1, "cache": cache}
        found = bakeoff(out=tmp_path, **settings, limit=limit)
        assert len(count) == so_far
        assert {row["rounds"] for row in found.results.rows} == {limit}
    with pytest.raises(
        InvalidInput, match="runs that are shown together must have one limit, but got 50, 60"
    ):
        Results.of(read_rows(tmp_path))


def test_two_workers_find_the_same(cache, tmp_path, monkeypatch):
    """Threads in the place of processes, which would know the real tables only."""
    monkeypatch.setattr(runs, "ProcessPoolExecutor", lambda n, mp_context: ThreadPoolExecutor(n))

    def rows(folder, workers):
        settings = {"players": ["numpy"], "parts": ["plain"], "seeds": 2, "limit": 60, "cache": cache}
        found = bakeoff(out=folder, workers=workers, **settings).results.rows
        return sorted((row["table"], row["seed"], row["whole"]) for row in found)

    one, two = rows(tmp_path / "one", 1), rows(tmp_path / "two", 2)
    assert one == two
    assert len(one) == 8


def test_a_table_that_can_not_be_fetched_is_an_error_before_anything_is_played(
    cache, tmp_path, capsys, count, monkeypatch
):
    (cache / "packages" / "made==1.0" / "made.whl").unlink()

    def run(command, **settings):
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no matching distribution")

    monkeypatch.setattr(packages.subprocess, "run", run)
    size = ("--players", "numpy", "--workers", "1", "--cache", str(cache), "--out", str(tmp_path / "out"))
    assert main(["bakeoff", *size]) == 1
    assert (
        capsys.readouterr().err == "tightrope: made==1.0 can't be fetched: ERROR: no matching distribution\n"
    )
    assert not count


def test_a_player_that_fails_is_on_the_page_and_tried_again(cache, tmp_path, monkeypatch, capsys):
    real = players.play

    def play(player, x, y, *more):
        if player.name == "numpy" and len(y) == 70:
            raise FloatingPointError("out of range")
        return real(player, x, y, *more)

    monkeypatch.setattr(players, "play", play)
    size = ["--seeds", "1", "--limit", "70", "--workers", "1", "--cache", str(cache), "--out", str(tmp_path)]
    words = [
        "bakeoff",
        "--players",
        "tightrope",
        "--players",
        "numpy",
        "--parts",
        "plain",
        "--tables",
        "made/a",
        *size,
    ]
    assert main(words) == 1
    assert "tightrope: 1 runs failed" in capsys.readouterr().err
    page = (tmp_path / "bakeoff.md").read_text()
    assert "- `numpy` on made/a (plain, seed 0): FloatingPointError: out of range" in page
    monkeypatch.setattr(players, "play", real)
    assert main(words) == 0
    assert "FloatingPointError" not in (tmp_path / "bakeoff.md").read_text()


def test_a_library_that_can_not_be_installed_is_left_out_and_said(cache, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rivals, "install", lambda libraries, where, tell: {"vowpalwabbit": "no wheel"})
    size = ("--seeds", "1", "--limit", "30", "--workers", "1", "--cache", str(cache), "--out", str(tmp_path))
    assert main(["bakeoff", "--players", "numpy", "--players", "vw-regcb", "--parts", "plain", *size]) == 0
    assert "vowpalwabbit can't be installed, and is left out: no wheel" in capsys.readouterr().err
    page = (tmp_path / "bakeoff.md").read_text()
    assert "**vowpalwabbit could not be installed** and is left out: no wheel" in page
    assert "vw-regcb" not in page


def test_parts_are_merged_into_the_page_of_the_whole(cache, tmp_path, count):
    settings = {
        "players": QUICK[:2],
        "parts": ["plain"],
        "seeds": 2,
        "limit": 60,
        "workers": 1,
        "cache": cache,
    }
    whole = bakeoff(out=tmp_path / "whole", **settings).page.read_text()
    for i, name in enumerate(SOURCES):
        bakeoff(out=tmp_path / str(i), tables=[name], **settings)
    played = len(count)
    page = tmp_path / "own.md"
    page.write_text("# Mine\n\n<!-- standings: begin -->\nold\n<!-- standings: end -->\n\nbelow\n")
    merged = bakeoff(out=tmp_path / "all", merge=[tmp_path / str(i) for i in range(4)], page=page)
    assert len(count) == played
    between = page.read_text().partition("begin -->")[2].partition("<!--")[0]
    assert between == whole.partition("begin -->")[2].partition("<!--")[0]
    assert page.read_text().startswith("# Mine\n")
    assert page.read_text().endswith("\n\nbelow\n")
    assert (tmp_path / "figures" / "bakeoff.png").exists()
    assert len(merged.results.rows) == 16


def row(table, player, seed, whole):
    known = {"part": "plain", "table": table, "player": player, "seed": seed, "limit": 60, "rounds": 60}
    marks = {"identity": players.PLAYERS[player].identity, "actions": 3, "marks": {}, "seconds": 1.0}
    return known | marks | {"whole": whole}


def test_a_setting_is_chosen_on_the_tuning_half_and_compared_on_the_other(cache):
    tuning, held_out = ([name for name in SOURCES if half(name) == of] for of in ("tuning", "held-out"))
    found = []
    for seed in range(5):
        noise = 0.001 * seed
        for table in tuning:
            found += [row(table, "tightrope", seed, 0.5), row(table, "vw-regcb", seed, 0.5 + noise)]
            found += [row(table, "vw-cover", seed, 0.6 + noise)]
        for table in held_out:
            found += [row(table, "tightrope", seed, 0.5), row(table, "vw-regcb", seed, 0.9 + noise)]
            found += [row(table, "vw-cover", seed, (0.4 if table == held_out[0] else 0.7) + noise)]
    results = Results.of(found)
    assert results.representatives("plain") == {"tightrope": "tightrope", "vw": "vw-cover"}
    [(pair, compared)] = results.comparisons("plain", "held-out").items()
    assert pair == ("tightrope", "vw-cover")
    assert (compared.wins, compared.losses) == ((held_out[0],), (held_out[1],))


def test_a_table_that_one_player_has_not_finished_is_in_no_mean(cache):
    a, b, *_ = (name for name in SOURCES if half(name) == "tuning")
    found = [row(table, player, 0, 0.5) for table in (a, b) for player in ("tightrope", "numpy")]
    results = Results.of(found[:-1])
    assert (results.tables("plain", "tuning"), results.unfinished("plain", "tuning")) == ([a], [b])
    assert results.marks("plain", "tuning") == {"whole": 1}


def test_what_can_not_be_is_refused(cache, tmp_path, capsys):
    for words, said in (
        (["--parts", "some"], "--parts must be among plain, rules, but got 'some'."),
        (["--seeds", "0"], "--seeds must be a whole number >= 1, but got 0."),
        (["--limit", "0"], "--limit must be a whole number >= 1, but got 0."),
        (
            ["--merge", "x", "--tables", "made/a"],
            "--merge runs nothing: give it no tables, players or parts.",
        ),
    ):
        assert main(["bakeoff", *words, "--cache", str(cache), "--out", str(tmp_path)]) == 2
        assert said in capsys.readouterr().err
