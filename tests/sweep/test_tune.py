"""Tuning: the least regret that meets a target, twice."""

from __future__ import annotations

import json
import tomllib
from collections import Counter

import numpy as np
import pytest

from cli_tools import EXAMPLES
from sweep_tools import GRID, run_of, spec_of, stored
from tightrope import engine
from tightrope.cli import main
from tightrope.environments.build import environment_of, policies_of
from tightrope.errors import InvalidInput
from tightrope.spec import SpecError, read_spec
from tightrope.sweep import TargetMissed, cells, tune
from tightrope.sweep.toml import dumps


def test_tune_takes_the_least_regret_that_meets_the_target_twice(tmp_path, capsys):
    path, out = EXAMPLES / "sweep-bandit.toml", tmp_path / "out"
    data = tomllib.loads(path.read_text())
    data["simulation"] |= {"rounds": 600, "replications": 10}
    data["sweep"] |= {"policy.reward.bonus": [0.3, 1.0], "policy.cost.bonus": [0.1, 0.3]}
    (tmp_path / "s.toml").write_text(dumps(data))
    spec = read_spec(tmp_path / "s.toml")
    assert (
        main(
            [
                "tune",
                str(tmp_path / "s.toml"),
                "--target",
                "violation<=5 after 300",
                "--out",
                str(out),
                "--json",
            ]
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    rows = [row for row in stored(out) if row["seed"] == 0]
    assert len(rows) == 16
    met = sorted(row["regret"] for row in rows if row["met"])
    chosen, checked = told["rows"]
    assert chosen["regret"] == met[told["passed_over"]]
    assert checked["met"] is True
    assert checked["seed"] == 1 + told["passed_over"]
    assert checked["regret"] != chosen["regret"]
    tuned = read_spec(told["spec"])
    assert tuned.sweep == {}
    for field, value in told["settings"].items():
        part = tuned.data
        for step in field.split("."):
            part = part[step]
        assert part == value
    # Nothing else changed, and the tuned spec gives the numbers that it was chosen for.
    assert {**tuned.data, "policy": None} == {
        k: v for k, v in {**spec.data, "policy": None}.items() if k != "sweep"
    }
    env = environment_of(tuned)
    (policy,) = policies_of(tuned, env).values()
    assert engine.simulate(policy, env, 600, 10, 0, record=[600]).rows()[-1]["regret"] == chosen["regret"]


def test_tune_says_what_came_nearest(tmp_path, capsys):
    argv = [
        "tune",
        str(EXAMPLES / "sweep-bandit.toml"),
        "--target",
        "regret<=-1e9",
        "--out",
        str(tmp_path),
        "--workers",
        "1",
    ]
    data = tomllib.loads((EXAMPLES / "sweep-bandit.toml").read_text())
    data["simulation"] |= {"rounds": 50, "replications": 2}
    (tmp_path / "s.toml").write_text(dumps(data))
    argv[1] = str(tmp_path / "s.toml")
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert "none of the 36 settings meets the target" in err
    assert "the nearest, policy.reward.bonus" in err
    assert (tmp_path / "index.html").exists()
    assert not (tmp_path / "tuned.toml").exists()


def test_tune_gives_up_when_no_candidate_holds_on_fresh_seeds(tmp_path, monkeypatch):
    real = cells.simulate

    def lucky(policy, env, rounds, replications, seed, **options):
        run = real(policy, env, rounds, replications, seed, **options)
        return run if seed == 5 else run_of(np.full((replications, len(run.rounds)), 99.0), rounds=run.rounds)

    monkeypatch.setattr(cells, "simulate", lucky)
    with pytest.raises(
        TargetMissed, match="5 settings met the target violation <= 50 in the sweep, but none"
    ):
        tune(spec_of(GRID), "violation<=50", tmp_path, workers=1)
    assert sorted({row["seed"] for row in stored(tmp_path)}) == [5, 6, 7, 8, 9, 10]


def test_tune_refuses_what_is_not_the_policys_to_choose(tmp_path):
    for field in ("environment.threshold", "simulation.rounds"):
        with pytest.raises(SpecError, match="can't be tuned"):
            tune(spec_of({**GRID, field: [1, 2]}), "violation<=0", tmp_path)
    with pytest.raises(InvalidInput, match="must leave rounds"):
        tune(spec_of(GRID), "violation<=0 after 120", tmp_path)
    with pytest.raises(SpecError, match="replications: must be at least 2"):
        tune(spec_of(GRID, simulation={"rounds": 10, "replications": 1}), "violation<=0", tmp_path)


def test_tune_with_halving_leaves_rounds_to_judge(tmp_path):
    found = tune(spec_of(GRID), "violation<=60 after 60", tmp_path, workers=1, halving=True)
    rounds = Counter(row["round"] for row in stored(tmp_path) if row["seed"] == 5)
    assert rounds == {67: 6, 80: 2, 120: 1}
    assert found.checked["met"] is True


def test_a_tuned_spec_finds_its_file_from_another_folder(tmp_path):
    np.savez(tmp_path / "a.npz", weights=[1.0], rewards=[[0.5, 0.1]], costs=[[[0.1], [-0.5]]])
    (tmp_path / "s.toml").write_text(
        '[environment]\nkind="tabular"\nfile="a.npz"\n[simulation]\nrounds=20\nreplications=2\n[sweep]\n"policy.caution"=[1.0]\n'
    )
    found = tune(read_spec(tmp_path / "s.toml"), "regret<=1e9", tmp_path / "deep" / "out", workers=1)
    assert environment_of(read_spec(found.path)).rewards.tolist() == [[0.5, 0.1]]
