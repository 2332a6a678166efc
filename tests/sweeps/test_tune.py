"""Tuning: the least regret that meets a target, twice."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cli_tools import EXAMPLES
from sweep_tools import GRID, run_of, spec_of, stored
from tightrope import engine
from tightrope.cli import main
from tightrope.encoder import Encoder
from tightrope.environments.build import environment_of, policies_of
from tightrope.errors import InvalidInput
from tightrope.intervals import mean_interval
from tightrope.spec import SpecError, make_spec, read_spec
from tightrope.sweeps import TargetMissed, cells, tune
from tightrope.toml import dumps


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
                "violation<=5 after 500",
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
    passed_over = len(told["trials"]) - 1
    assert [trial["chosen"]["regret"] for trial in told["trials"]] == met[: passed_over + 1]
    assert [trial["passed_over"] for trial in told["trials"]] == [True] * passed_over + [False]
    chosen, checked = told["trials"][-1]["chosen"], told["rows"]
    assert [row["round"] for row in checked] == [600, 1200, 3000]
    assert [row["met"] for row in checked] == [True] * 3
    assert {row["seed"] for row in checked} == {1 + passed_over}
    assert checked[0]["regret"] != chosen["regret"]
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
    assert (
        engine.simulate(policy, env, 600, 10, 0, record=[600], warn=False).rows()[-1]["regret"]
        == chosen["regret"]
    )


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
    with pytest.raises(TargetMissed) as missed:
        tune(spec_of(GRID), "violation<=50", tmp_path, workers=1)
    told = str(missed.value)
    assert (
        "5 settings met the target violation <= 50 in the sweep, but on fresh draws none of them met it"
        in told
    )
    assert "in 120, 240 and 600 rounds, and neither did the spec as it stands" in told
    assert told.count("the target is missed at 120 rounds by 49") == 5
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
    found = tune(spec_of(GRID), "violation<=600 after 60", tmp_path, workers=1, halving=True)
    rounds = Counter(row["round"] for row in stored(tmp_path) if row["seed"] == 5)
    assert rounds == {67: 6, 80: 2, 120: 1}
    assert all(row["met"] for row in found.checked)


def test_a_tuned_spec_finds_its_files_from_another_folder(tmp_path):
    np.savez(tmp_path / "a.npz", weights=[1.0], rewards=[[0.5, 0.1]], costs=[[[0.1], [-0.5]]])
    encoder = Encoder(["age"]).fit({"age": [20, 40]})
    encoder.save(tmp_path / "e.json")
    (tmp_path / "s.toml").write_text(
        '[context]\nencoder="e.json"\n[environment]\nkind="tabular"\nfile="a.npz"\n[simulation]\nrounds=20\nreplications=2\n[sweep]\n"policy.caution"=[1.0]\n'
    )
    found = tune(read_spec(tmp_path / "s.toml"), "regret<=1e9", tmp_path / "deep" / "out", workers=1)
    tuned = read_spec(found.path)
    assert environment_of(tuned).rewards.tolist() == [[0.5, 0.1]]
    assert tuned.encoder == encoder


ADS = {
    "name": "ads",
    "policy": {"kind": "shadow-price"},
    "environment": {
        "kind": "tabular",
        "weights": [0.5, 0.3, 0.2],
        "features": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "rewards": [[0.30, 0.20, 0.05], [0.45, 0.40, 0.10], [0.70, 0.35, 0.20]],
        "usage": {"spend": [[0.6, 0.3, 0.0], [0.7, 0.3, 0.0], [0.9, 0.4, 0.0]]},
    },
    "actions": ["premium", "standard", "house"],
    "rule": [
        {"kind": "budget", "name": "spend", "at_most": 0.3},
        {"kind": "share", "action": "house", "at_least": 0.1},
    ],
    "simulation": {"rounds": 1_000, "replications": 20, "seed": 0},
}


def test_without_a_sweep_explore_and_caution_vary_and_no_run_may_end_in_violation(tmp_path, capsys):
    data = {**ADS, "simulation": {"rounds": 200, "replications": 6, "seed": 3}}
    (tmp_path / "s.toml").write_text(dumps(data))
    argv = ["tune", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out"), "--workers", "1", "--json"]
    assert main(argv) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["target"] == "path_violation <= 0"
    rows = [row for row in stored(tmp_path / "out") if row["seed"] == 3]
    assert {(row["policy.explore"], row["policy.caution"]) for row in rows} == {
        (explore, caution) for explore in (0.5, 0.7, 0.85, 1.0, 1.2) for caution in (2.0, 3.0, 4.0)
    }
    assert [row["met"] for row in rows] == [row["violated_share"] == 0.0 for row in rows]
    # What the trials are compared with is the spec as it stands, on the same draws.
    for number, trial in enumerate(told["trials"]):
        for times, check in zip((1, 2, 5), trial["checks"]):
            rounds, seed = 200 * times, 4 + number
            runs = {}
            for name, settings in (("tuned", trial["settings"]), ("untouched", {})):
                own = {field.removeprefix("policy."): value for field, value in settings.items()}
                spec = make_spec({**data, "policy": {**ADS["policy"], **own}})
                env = environment_of(spec)
                (policy,) = policies_of(spec, env).values()
                runs[name] = engine.simulate(policy, env, rounds, 6, seed, record=[rounds])
                assert check[name]["regret"] == runs[name].rows()[-1]["regret"]
            more = (runs["tuned"].regret.paths - runs["untouched"].regret.paths)[:, -1]
            ends = [check[f"difference{end}"] for end in ("", "_low", "_high")]
            assert ends == pytest.approx(mean_interval(more), abs=1e-9)
    served = read_spec(told["spec"])
    assert served.sweep == {}
    assert served.policies[0].settings == {
        field.removeprefix("policy."): value for field, value in told["settings"].items()
    }
    assert told["worth_it"] == bool(told["settings"])
    assert told["verdict"][-1].endswith("worth it" if told["worth_it"] else "serve the defaults")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Was tuning worth it?" in page
    # How far the checks went is said wherever the spec is called one to serve.
    reach = (
        "it met path_violation <= 0 on 6 fresh runs each in 200, 400 and 1,000 rounds of this environment; "
        "it was not tried beyond 1,000 rounds"
    )
    assert told["reach"].startswith(reach)
    assert reach in Path(told["spec"]).read_text()
    assert main(argv[:-1]) == 0
    assert f"tuned.toml: {reach}" in capsys.readouterr().out


def test_what_explores_too_little_is_passed_over_for_the_regret_it_has_later(tmp_path):
    """At explore 0.35 a few runs lock in: better than the defaults in short runs, worse in the mean of longer ones."""
    policy = {"kind": "shadow-price", "reward": "logistic"}
    spec = make_spec({**ADS, "policy": policy, "sweep": {"policy.explore": [0.35]}})
    found = tune(spec, None, tmp_path, workers=1)
    (trial,) = found.trials
    assert trial.checks[0].difference.mean < 0.0
    assert trial.checks[-1].rounds > trial.checks[0].rounds
    assert trial.checks[-1].difference.mean > 0.0
    assert trial.passed_over
    assert not found.worth_it
    assert found.settings == {}
    assert found.words[-1] == "tuning was not worth it: serve the defaults"
    assert f"more at {trial.checks[-1].rounds:,}" in found.words[0]
    assert read_spec(found.path).policies[0].settings == {}
    assert f"# {found.words[0]}" in found.path.read_text()


def explore(policy):
    return policy.hooks.settings()["explore"]


def _changed(monkeypatch, change):
    """Simulations whose rewards are changed: `change(policy, rounds, seed)` is added to all of a run."""
    real = cells.simulate

    def changed(policy, env, rounds, replications, seed, **options):
        run = real(policy, env, rounds, replications, seed, **options)
        return replace(run, reward=run.reward + change(policy, rounds, seed))

    monkeypatch.setattr(cells, "simulate", changed)


SWEPT = {
    **ADS,
    "simulation": {"rounds": 50, "replications": 4},
    "sweep": {"policy.explore": [0.5, 0.7, 0.85]},
}


def test_the_next_has_its_turn_until_one_holds_at_all_lengths(tmp_path, monkeypatch):
    gain = {
        0.5: {50: 30.0, 100: 60.0, 250: -900.0},
        0.7: {50: 20.0, 100: -60.0, 250: 90.0},
        0.85: dict.fromkeys((50, 100, 250), 10.0),
    }
    _changed(monkeypatch, lambda policy, rounds, seed: gain.get(explore(policy), {}).get(rounds, 0.0))
    found = tune(make_spec(SWEPT), "violation<=1e9", tmp_path, workers=1)
    assert [trial.settings["policy.explore"] for trial in found.trials] == [0.5, 0.7, 0.85]
    assert [len(trial.checks) for trial in found.trials] == [3, 2, 3]
    assert [trial.worth_it for trial in found.trials] == [False, False, True]
    assert found.settings == {"policy.explore": 0.85}
    assert [row["seed"] for row in found.checked] == [3, 3, 3]
    assert [row["seed"] for row in found.untouched] == [3, 3, 3]
    assert found.words[-1].endswith(": worth it")
    assert read_spec(found.path).policies[0].settings == {"explore": 0.85}


def test_settings_are_worth_it_where_the_spec_as_it_stands_misses_the_target(tmp_path, monkeypatch):
    real = cells.simulate

    def strained(policy, env, rounds, replications, seed, **options):
        run = real(policy, env, rounds, replications, seed, **options)
        above = 99.0 if explore(policy) == 1.0 and rounds == 250 else -99.0
        cost = np.full_like(run.cost, above)
        return replace(run, cost=cost, mean_cost=cost, reward=run.reward + 50.0 * explore(policy))

    monkeypatch.setattr(cells, "simulate", strained)
    found = tune(make_spec(SWEPT), None, tmp_path, workers=1)
    assert found.settings == {"policy.explore": 0.85}
    assert found.trials[-1].checks[0].difference.mean > 0.0
    assert "the defaults missed the target at 250 rounds: worth it" in found.words[-1]


def test_a_spec_that_states_what_is_varied_is_not_called_the_defaults(tmp_path):
    data = {**SWEPT, "policy": {"kind": "shadow-price", "explore": 0.5}, "sweep": {"policy.explore": [0.5]}}
    found = tune(make_spec(data), None, tmp_path, workers=1)
    assert found.words == [
        "explore 0.5: the same decisions as the spec as it stands",
        "tuning was not worth it: serve the spec as it stands",
    ]
    assert read_spec(found.path).policies[0].settings == {"explore": 0.5}


def test_a_limit_on_regret_is_for_the_specs_own_length(tmp_path):
    spec = make_spec({**SWEPT, "simulation": {"rounds": 50, "replications": 4, "seed": 1}})
    once = tune(spec, "regret<=1e9", tmp_path / "a", workers=1).checked
    assert once[0]["regret_high"] < once[2]["regret_high"]
    between = (once[0]["regret_high"] + once[2]["regret_high"]) / 2
    found = tune(spec, f"regret<={between}", tmp_path / "b", workers=1)
    assert [row["met"] for row in found.checked] == [True, True, True]


def test_settings_that_the_spec_can_not_run_without_have_nothing_to_be_compared_with(tmp_path):
    data = {
        "environment": {"kind": "bandit", "threshold": 0.5, "costs_seen": "after"},
        "policy": {"kind": "pessimistic-optimistic"},
        "simulation": {"rounds": 60, "replications": 3},
        "sweep": {"policy.slater": [0.1, 0.5]},
    }
    found = tune(make_spec(data), "violation<=1e9", tmp_path, workers=1)
    assert found.worth_it
    assert "the defaults can't run, so there is nothing to compare with" in found.words[-1]


def test_of_several_policies_the_best_is_what_settings_have_to_beat(tmp_path, monkeypatch):
    policies = [
        {"kind": "shadow-price", "name": "first"},
        {"kind": "shadow-price", "name": "second", "seed": 1},
    ]
    gain = {(1.0, 1): 100.0, (0.5, 0): 50.0, (0.7, 0): 20.0, (0.85, 0): 10.0}
    _changed(monkeypatch, lambda policy, rounds, seed: gain.get((explore(policy), policy.seed), 0.0))
    found = tune(make_spec({**SWEPT, "policy": policies}), "violation<=1e9", tmp_path, workers=1)
    assert len(found.trials) == 5
    assert found.words[-1] == "tuning was not worth it: serve second as it stands"
    assert found.policy == "second"
    (served,) = read_spec(found.path).policies
    assert (served.name, served.settings) == ("second", {"seed": 1})


def test_the_spec_as_it_stands_may_meet_the_target_alone(tmp_path, monkeypatch):
    real = cells.simulate

    def strained(policy, env, rounds, replications, seed, **options):
        run = real(policy, env, rounds, replications, seed, **options)
        cost = np.full_like(run.cost, -1.0 if explore(policy) == 1.0 else 1.0)
        return replace(run, cost=cost, mean_cost=cost)

    monkeypatch.setattr(cells, "simulate", strained)
    found = tune(make_spec(SWEPT), None, tmp_path, workers=1)
    assert found.trials == ()
    assert found.words == ["tuning was not worth it: serve the defaults"]


def test_other_policies_need_a_sweep(tmp_path):
    for kinds in (["uniform"], ["shadow-price", "uniform"]):
        spec = make_spec({**ADS, "policy": [{"kind": kind} for kind in kinds]})
        with pytest.raises(
            SpecError, match=r"sweep: is missing.* Only 'shadow-price' and 'pessimistic-optimistic' have"
        ):
            tune(spec, None, tmp_path)


def test_the_papers_policy_is_tuned_without_a_sweep_too(tmp_path):
    size = {"rounds": 100, "replications": 2}
    policy = {"kind": "pessimistic-optimistic", "slater": 0.5}
    spec = make_spec({"environment": {"kind": "bandit"}, "policy": policy, "simulation": size})
    found = tune(spec, "violation <= 100", tmp_path, workers=1)
    tried = {row["policy.reward.bonus"] for row in stored(tmp_path) if row["seed"] == 0} - {None}
    assert tried == {0.01, 0.03, 0.1, 0.3, 1.0}
    assert set(found.settings) <= {"policy.reward.bonus"}
