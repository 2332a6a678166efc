"""`tightrope reproduce`, `compare` and `bench`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tightrope.cli import main
from tightrope_lab.league import run

ROOT = Path(__file__).resolve().parents[2]
OWN = f"{ROOT / 'examples' / 'own_policy.py'}:Prudent"


def test_reproduce_a_study(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    size = ("--rounds", "60", "--replications", "2", "--seed", "3", "--workers", "1")
    assert main(["reproduce", "mab", *size, "--json"]) == 0
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert "mab: " in captured.err
    assert (data["seed"], data["interrupted"]) == (3, False)
    assert Path(data["page"]).is_file()
    assert Path(data["page"]).parent == Path("reproduction")
    labels = [(row["study"], row["variant"]) for row in data["rows"]]
    assert len(set(labels)) == len(labels) > 1
    written = json.loads(Path("reproduction", "summary.json").read_text())["rows"]
    for row in data["rows"]:
        same = [
            other for other in written if (other["study"], other["variant"]) == (row["study"], row["variant"])
        ]
        assert row == max(same, key=lambda other: other["round"])


def test_reproduce_hands_its_settings_on(capsys, tmp_path, monkeypatch):
    from tightrope_lab import paper

    def stopped(name, **settings):
        assert name == "all"
        assert callable(settings.pop("tell"))
        assert settings == {"rounds": None, "replications": 5, "seed": 0, "out": tmp_path, "workers": None}
        raise KeyboardInterrupt

    monkeypatch.setattr(paper, "reproduce", stopped)
    assert main(["reproduce", "--replications", "5", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "tightrope: interrupted\n"


def test_compare_says_which_scenarios_are_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr(run, "SCENARIOS", ["bandit-binding", "digits"])
    size = ("--rounds", "20", "--replications", "2", "--workers", "1", "--out", str(tmp_path), "--json")
    assert main(["compare", "--policy", "uniform", *size]) == 0
    captured = capsys.readouterr()
    reason = "the table 'digits' comes with scikit-learn: pip install 'tightrope[data]'"
    assert json.loads(captured.out)["left_out"] == {"digits": reason}
    assert f"digits is left out: {reason}\n" in captured.err
    assert main(["compare", "--scenario", "digits", "--policy", "uniform", *size]) == 1
    assert capsys.readouterr().err == f"tightrope: {reason}\n"


def test_compare_keeps_what_was_finished(monkeypatch, tmp_path, capsys):
    real = run._performances

    def stopped(*args):
        outcomes = real(*args)
        yield next(outcomes)
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_performances", stopped)
    size = ("--rounds", "50", "--replications", "2", "--workers", "1", "--out", str(tmp_path))
    assert (
        main(["compare", "--policy", "opb", "--policy", "uniform", "--scenario", "bandit-slack", *size])
        == 130
    )
    data = json.loads((tmp_path / "summary.json").read_text())
    assert data["interrupted"] is True
    assert {row["policy"] for row in data["rows"]} == {"opb"}
    assert "interrupted" in (tmp_path / "index.html").read_text()


def test_compare(capsys, tmp_path):
    size = ("--rounds", "60", "--replications", "2", "--workers", "1", "--json", "--out", str(tmp_path / "o"))
    chosen = ("--policy", "opb", "--policy", "lfg", "--policy", OWN, "--scenario", "bandit-binding")
    assert main(["compare", *chosen, *size]) == 0
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert [row["policy"] for row in data["rows"]] == ["opb"]
    assert {one["policy"] for one in data["outside"]} == {"lfg", "Prudent"}
    assert Path(data["page"]).is_file()
    assert "1 of 1: opb on bandit-binding" in captured.err
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert summary["command"].startswith("tightrope compare --policy opb")
    assert (
        main(
            [
                "compare",
                "--policy",
                "uniform",
                "--scenario",
                "bandit-slack",
                *size[:6],
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    assert "uniform" in capsys.readouterr().out


SPEC = """
name = "two"
[[policy]]
name = "bold"
kind = "pessimistic-optimistic"
slater = 0.9
[environment]
kind = "tabular"
weights = [1.0]
rewards = [[0.2, 0.8]]
costs = [[[-0.5], [0.5]]]
[simulation]
rounds = 40
replications = 2
"""


def test_the_environment_of_a_spec_is_a_scenario(capsys, tmp_path):
    (tmp_path / "two.toml").write_text(SPEC)
    where = ("--workers", "1", "--json", "--out", str(tmp_path / "o"))
    assert main(["compare", str(tmp_path / "two.toml"), "--policy", "uniform", *where]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["policy"], row["scenario"], row["round"]) for row in rows] == [
        ("uniform", "two", 40),
        ("bold", "two", 40),
    ]
    assert "slater=0.9" in rows[1]["settings"]
    (tmp_path / "two.toml").write_text(SPEC.replace("slater", "slatr"))
    assert main(["compare", str(tmp_path / "two.toml"), "--policy", "uniform", *where]) == 2
    assert "policy[0].slatr: unknown field" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--policy", "nobody"], "policy must be one of"),
        (["--scenario", "nowhere"], "scenario must be one of"),
        (["--policy", "gone.py:Mine"], "there is no file gone.py"),
        (["--rounds", "0"], "rounds must be a whole number >= 1"),
        (["none.toml"], "can't be read"),
    ],
)
def test_bad_usage_of_compare_is_2(capsys, argv, says):
    assert main(["compare", *argv]) == 2
    assert says in capsys.readouterr().err


def test_the_example_of_a_policy_runs_from_anywhere(tmp_path):
    argv = ["compare", "--policy", OWN, "--policy", "uniform", "--scenario", "model-routing"]
    size = ["--rounds", "50", "--replications", "2", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "tightrope", *argv, *size], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Prudent" in done.stdout


def test_bench(capsys, tmp_path):
    assert main(["bench", "batch", "--repeats", "1", "--json", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr()
    data = json.loads(out.out)
    (row,) = data["rows"]
    assert row["case"] == "batch"
    assert row["agree"] == 1.0
    assert data["start"] is None
    assert "bench: batch" in out.err
    assert json.loads((tmp_path / "bench.json").read_text()) == data
    assert "| batch | decide_many" in (tmp_path / "bench.md").read_text()
    assert main(["bench", "nothing"]) == 2
    assert "case must be one of" in capsys.readouterr().err
