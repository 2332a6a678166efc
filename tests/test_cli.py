import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from tightrope import cli
from tightrope.cli import main
from tightrope.environments.build import environment_of
from tightrope.errors import SolverError
from tightrope.result import Result
from tightrope.spec import read_spec

EXAMPLES = Path(__file__).parents[1] / "examples"
SPECS = sorted(EXAMPLES.glob("*.toml"))

SMALL = """
actions = ["a", "b"]
[[rule]]
kind = "budget"
name = "h"
at_most = 0.5
usage = { a = 0.0, b = 1.0 }
[[policy]]
name = "one"
slater = 0.5
[[policy]]
name = "two"
slater = 0.1
[environment]
kind = "tabular"
weights = [1.0]
rewards = [[0.2, 0.8]]
[simulation]
rounds = 40
replications = 3
seed = 7
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def machine(capsys, *argv):
    assert main([*map(str, argv), "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


# --- oracle ---


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_oracle_of_every_example(capsys, path):
    found = machine(capsys, "oracle", path)
    env = environment_of(read_spec(path))
    expected = tr.solve(env)
    assert found["value"] == pytest.approx(expected.value, abs=1e-9)
    assert found["slater"] == pytest.approx(expected.slater, abs=1e-9)
    assert found["slater"] > 0
    assert found["certificate"]["verified"]
    assert found["assumptions"]["hold"]
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    assert list(found["shares"]) == list(env.actions)
    assert [one["name"] for one in found["constraints"]] == list(env.constraints)
    # Complementary slackness: only what binds has a price.
    assert all(one["binding"] or one["dual"] < 1e-6 for one in found["constraints"])
    assert any(one["binding"] for one in found["constraints"])


def test_oracle_by_hand(capsys, small):
    found = machine(capsys, "oracle", small)
    # Half of b is all that the budget allows: 0.5·0.2 + 0.5·0.8; a unit of usage is worth 0.6.
    assert found["value"] == pytest.approx(0.5)
    assert found["shares"] == pytest.approx({"a": 0.5, "b": 0.5})
    assert found["constraints"][0]["dual"] == pytest.approx(0.6)
    assert found["slater"] == pytest.approx(0.5)


def test_oracle_uses_the_joint_law_where_it_must(capsys, tmp_path):
    path = tmp_path / "b.toml"
    path.write_text("[environment]\nkind = 'bandit'\nthreshold = 0.1\ncosts_seen = 'before'\n")
    assert machine(capsys, "oracle", path)["baseline"] == "joint"
    assert machine(capsys, "oracle", path)["value"] == pytest.approx(0.67)
    assert machine(capsys, "oracle", path, "--baseline", "fluid")["value"] == pytest.approx(0.4)


def test_oracle_for_people(capsys, small, tmp_path):
    assert main(["oracle", small, "--out", str(tmp_path / "deep" / "out")]) == 0
    shown = capsys.readouterr().out
    for word in (
        "value per round",
        "Slater's constant",
        "best shares",
        "Slater's condition",
        "verified",
        "yes",
    ):
        assert word in shown
    written = json.loads((tmp_path / "deep" / "out" / "oracle.json").read_text())
    assert written == machine(capsys, "oracle", small)


# --- simulate ---


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_simulate_every_example(capsys, tmp_path, path):
    argv = ("simulate", path, "--rounds", 120, "--replications", 3, "--out", tmp_path)
    data = machine(capsys, *argv)
    names = [policy.name for policy in read_spec(path).policies]
    assert [row["policy"] for row in data["rows"]] == names
    assert all(row["round"] == 120 and row["replications"] == 3 for row in data["rows"])
    written = json.loads((tmp_path / "summary.json").read_text())["rows"]
    assert {row["policy"] for row in written} == set(names)
    folders = [folder for folder in tmp_path.iterdir() if folder.is_dir()]
    assert len(folders) == len(names)
    for folder in folders:
        result = Result.load(folder)
        assert result.policy in names
        assert result.counts[:, -1].sum() == 360
        assert (folder / "figure.svg").read_text().lstrip().startswith("<?xml")


def test_simulate_follows_the_spec_and_the_command_line(capsys, small):
    rows = machine(capsys, "simulate", small)["rows"]
    assert [(row["round"], row["replications"]) for row in rows] == [(40, 3), (40, 3)]
    spec = read_spec(small)
    env = environment_of(spec)
    by_hand = tr.simulate(
        tr.PessimisticOptimistic(tr.ArmMeans(2), constraints=1, slater=0.5),
        env,
        rounds=40,
        replications=3,
        seed=7,
    )
    assert rows[0]["regret"] == by_hand.rows()[-1]["regret"]
    other = machine(
        capsys, "simulate", small, "--rounds", 30, "--replications", 2, "--seed", 8, "--workers", 1
    )["rows"]
    assert [(row["round"], row["replications"]) for row in other] == [(30, 2), (30, 2)]


def test_simulate_for_people(capsys, small, tmp_path):
    assert main(["simulate", small]) == 0
    shown = capsys.readouterr().out
    assert "nothing is written" in shown
    assert main(["simulate", small, "--out", str(tmp_path / "o")]) == 0
    shown = capsys.readouterr().out
    assert f"written to {tmp_path / 'o'}" in shown
    for word in ("one", "two", "regret", "violation", "last violated round"):
        assert word in shown


def test_policies_of_other_kinds(capsys, tmp_path):
    path = tmp_path / "s.toml"
    others = (
        '[[policy]]\nkind = "oracle"\n[[policy]]\nkind = "round-robin"\nshares = [0.75, 0.25]\n[environment]'
    )
    path.write_text(SMALL.replace("[environment]", others))
    rows = machine(capsys, "simulate", path, "--rounds", 400, "--replications", 20)["rows"]
    by_name = {row["policy"]: row for row in rows}
    assert list(by_name) == ["one", "two", "oracle", "round-robin"]
    # A quarter of b is earned where half of it is best: 0.25 · 0.6 a round.
    assert by_name["round-robin"]["regret"] == pytest.approx(400 * 0.15)
    assert by_name["oracle"]["regret_low"] <= 0 <= by_name["oracle"]["regret_high"]


def test_policies_whose_names_look_alike_keep_apart(capsys, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SMALL.replace('"one"', '"../x y"').replace('"two"', '"x/y"'))
    machine(capsys, "simulate", path, "--out", tmp_path / "o")
    folders = [folder for folder in (tmp_path / "o").iterdir() if folder.is_dir()]
    assert sorted(Result.load(folder).policy for folder in folders) == ["../x y", "x/y"]


def test_ctrl_c_keeps_what_is_finished(capsys, small, tmp_path, monkeypatch):
    from tightrope import engine

    whole = engine.simulate

    def cut_short(*args, name, **kwargs):
        result = whole(*args, name=name, **kwargs)
        return dataclasses.replace(result, interrupted=name == "two")

    monkeypatch.setattr(engine, "simulate", cut_short)
    assert main(["simulate", small, "--json", "--out", str(tmp_path / "a")]) == 130
    data = json.loads(capsys.readouterr().out)
    assert data["interrupted"]
    assert len(data["rows"]) == 2

    def nothing_yet(*args, name, **kwargs):
        if name == "two":
            raise KeyboardInterrupt
        return whole(*args, name=name, **kwargs)

    monkeypatch.setattr(engine, "simulate", nothing_yet)
    assert main(["simulate", small, "--out", str(tmp_path / "b")]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert Result.load(tmp_path / "b" / "one").policy == "one"
    assert (
        len({row["policy"] for row in json.loads((tmp_path / "b" / "summary.json").read_text())["rows"]}) == 1
    )


# --- exit status and messages ---


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["orcle"], 'Did you mean "oracle"'),
        (["oracle"], "requires an argument"),
        (["oracle", "none.toml"], "none.toml: can't be read: No such file or directory"),
        (["simulate", "{small}", "--rounds", "x"], "--rounds"),
        (["simulate", "{small}", "--rounds", "0"], "rounds must be a whole number >= 1"),
        (["simulate", "{small}", "--round", "3"], "Unknown option"),
        (["oracle", "{small}", "--baseline", "best"], "--baseline"),
        (["reproduce", "mbb"], "study must be one of mab, hospital, bounds, tail, all, but got 'mbb'"),
        (["calibrate", "hospital", "--source", "none.csv"], "--source: none.csv must be a file"),
    ],
)
def test_bad_usage_is_2_without_a_traceback(capsys, small, argv, says):
    assert main([one.format(small=small) for one in argv]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.startswith("tightrope: ")
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("slater = 0.5", "slatr = 0.5"), "policy[0].slatr: unknown field (did you mean 'slater'?)"),
        (("at_most = 0.5", "at_most = "), "small.toml:6:11: not valid TOML"),
        (("[simulation]", "[simulations]"), "simulations: unknown field (did you mean 'simulation'?)"),
        (('"tabular"', '"tabula"'), "environment.kind: must be one of"),
        (("at_most = 0.5", "at_most = -0.5"), "no policy can meet these rules"),
    ],
)
def test_a_bad_spec_is_2_and_names_the_file(capsys, small, change, says):
    Path(small).write_text(SMALL.replace(*change))
    assert main(["simulate", small, "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"tightrope: {small}")
    assert says in captured.err
    assert captured.out == ""


def test_an_environment_that_no_policy_can_satisfy(capsys, small):
    table = "costs = [[[0.5], [0.25]]]\n[simulation]"
    tail = SMALL.split("[[policy]]", 1)[1]
    Path(small).write_text("[[policy]]" + tail.replace("[simulation]", table))
    assert main(["oracle", small]) == 2
    assert "missed by 0.25" in capsys.readouterr().err


def test_what_fails_is_1(capsys, small, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    assert main(["oracle", small, "--out", str(tmp_path / "file")]) == 1
    assert "file: File exists" in capsys.readouterr().err

    def stuck(*args, **kwargs):
        raise SolverError("no answer could be verified")

    monkeypatch.setattr("tightrope.oracle.solve", stuck)
    assert main(["oracle", small]) == 1
    assert "no answer could be verified" in capsys.readouterr().err


def test_an_error_of_ours_is_not_swallowed(small, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr("tightrope.oracle.solve", broken)
    with pytest.raises(ZeroDivisionError):
        main(["oracle", small])


# --- the others ---


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
    from tightrope import studies

    def stopped(name, **settings):
        assert name == "all"
        assert callable(settings.pop("tell"))
        assert settings == {"rounds": None, "replications": 5, "seed": 0, "out": tmp_path, "workers": None}
        raise KeyboardInterrupt

    monkeypatch.setattr(studies, "reproduce", stopped)
    assert main(["reproduce", "--replications", "5", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "tightrope: interrupted\n"


def test_calibrate_writes_numbers_and_report(capsys, tmp_path, monkeypatch):
    from tightrope.environments import calibration

    source = tmp_path / "encounters.csv"
    source.write_text("")
    asked = []

    def fit(path, *, first_encounter):
        asked.append((path, first_encounter))
        return calibration.shipped("first")

    monkeypatch.setattr(calibration, "calibrate_hospital", fit)
    data = machine(
        capsys, "calibrate", "hospital", "--source", source, "--first-encounter", "--out", tmp_path / "o"
    )
    assert asked == [(source, True)]
    again = calibration.read(tmp_path / "o" / "hospital.json")
    np.testing.assert_array_equal(again.counts, calibration.shipped("first").counts)
    assert data == json.loads((tmp_path / "o" / "hospital.json").read_text())
    assert (tmp_path / "o" / "report.md").read_text().startswith("# Ward routing")
    assert main(["calibrate", "hospital", "--source", str(source)]) == 0
    assert "# Ward routing" in capsys.readouterr().out


def test_version(capsys):
    versions = machine(capsys, "version")
    assert versions["tightrope"] == tr.__version__
    assert versions["numpy"] == np.__version__
    assert main(["version"]) == 0
    assert f"tightrope {tr.__version__}" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == tr.__version__


@pytest.mark.parametrize(
    "command", [[], ["oracle"], ["simulate"], ["reproduce"], ["calibrate", "hospital"], ["version"]]
)
def test_help_has_an_example_for_every_command(capsys, command):
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert " ".join(["Usage: tightrope", *command]) in shown
    assert ("Example: tightrope " + " ".join(command) in " ".join(shown.split())) == bool(command)


def test_every_command_takes_json_and_out(capsys):
    for command in (["oracle"], ["simulate"], ["reproduce"], ["calibrate", "hospital"], ["version"]):
        main([*command, "--help"])
        shown = capsys.readouterr().out
        assert "--json" in shown
        assert "--out" in shown


def test_the_module_runs_and_its_start_is_light():
    code = "import sys, tightrope.cli; print([m for m in ('numpy', 'numba', 'scipy', 'highspy', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    done = subprocess.run(
        [sys.executable, "-m", "tightrope", "oracle", "none.toml"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "tightrope: none.toml: can't be read: No such file or directory\n"


def test_a_reader_that_leaves_early_is_no_crash(small):
    code = "import sys; from tightrope.cli import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", code, "oracle", small],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        complaint = process.stderr.read()
    assert process.returncode == cli.FAILED
    assert complaint == ""


def test_every_command_is_documented():
    text = (EXAMPLES.parent / "docs" / "commands.md").read_text()
    for command in ("oracle", "simulate", "reproduce", "calibrate hospital", "version"):
        assert f"## `tightrope {command}" in text
        assert f"$ tightrope {command}" in text
