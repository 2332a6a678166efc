"""`tightrope oracle` and `tightrope simulate`."""

import dataclasses
import json

import pytest

import tightrope as tr
from cli_tools import EXAMPLES, SMALL, machine
from tightrope.cli import main
from tightrope.environments.build import environment_of
from tightrope.result import Result
from tightrope.spec import read_spec

# A spec for `allocate` alone has no world to play in.
SPECS = sorted(
    path for path in EXAMPLES.glob("*.toml") if "[environment]" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_oracle_of_every_example(capsys, path):
    found = machine(capsys, "oracle", path, "--trust")
    env = environment_of(read_spec(path, trust=True))
    expected = tr.solve(env)
    assert found["value"] == pytest.approx(expected.value, abs=1e-9)
    assert found["slater"] == pytest.approx(expected.slater, abs=1e-9)
    assert found["slater"] > 0
    assert found["certificate"]["verified"]
    assert found["assumptions"]["hold"] or path.stem == "own-model"  # whose rewards are not linear
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    assert list(found["shares"]) == list(env.actions)
    assert [one["rule"] for one in found["rules"]] == list(env.constraints)
    # Complementary slackness: only what binds has a price.
    assert all(one["binding"] or one["price"] < 1e-6 for one in found["rules"])
    assert any(one["binding"] for one in found["rules"])


def test_oracle_by_hand(capsys, small):
    found = machine(capsys, "oracle", small)
    # Half of b is all that the budget allows: 0.5·0.2 + 0.5·0.8; a unit of usage is worth 0.6.
    assert found["value"] == pytest.approx(0.5)
    assert found["shares"] == pytest.approx({"a": 0.5, "b": 0.5})
    assert found["rules"][0]["price"] == pytest.approx(0.6)
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
    for word in ("the best policy earns", "best shares", "would earn", "with room to spare", "yes"):
        assert word in shown
    # The theory's constants are for who asks for them.
    theory = ("Slater", "τ′", "‖", "δ", "assumption")
    assert not any(word in shown for word in theory)
    assert main(["oracle", small, "--theory"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in theory)
    written = json.loads((tmp_path / "deep" / "out" / "oracle.json").read_text())
    assert written == machine(capsys, "oracle", small)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_simulate_every_example(capsys, tmp_path, path):
    argv = ("simulate", path, "--trust", "--rounds", 120, "--replications", 3, "--out", tmp_path)
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
        tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5),
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
    assert "use --out DIR to write a report" in shown
    assert main(["simulate", small, "--out", str(tmp_path / "o")]) == 0
    shown = capsys.readouterr().out
    assert f"the report is {tmp_path / 'o' / 'index.html'}" in shown
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


def test_simulate_refuses_rules_that_no_policy_can_keep(capsys, tmp_path):
    path, out = tmp_path / "s.toml", tmp_path / "out"
    # Of each half of the contexts one action is cheap: 100 cents are too few, however the choices are made.
    path.write_text(
        'actions = ["letter", "call"]\n'
        '[[rule]]\nkind = "budget"\nname = "cents"\nat_most = 100\nrange = [0, 1000]\n'
        '[[rule]]\nkind = "share"\naction = "call"\nat_least = 0.1\n'
        '[environment]\nkind = "tabular"\nweights = [0.5, 0.5]\nrewards = [[0.2, 0.8], [0.3, 0.4]]\n'
        "usage.cents = [[150, 900], [250, 500]]\n[simulation]\nrounds = 50\nreplications = 2\n"
    )
    assert main(["simulate", str(path), "--out", str(out)]) == 1
    captured = capsys.readouterr()
    assert "'cents: at most 100 per decision on average' can't be met" in captured.err
    # 200 at least, whatever is done; the share asks for a tenth of calls, which cost 250 more at the least.
    assert "raise 'cents: at most 100 per decision on average' by 100" in captured.err
    assert "regret is not known" not in captured.out + captured.err
    assert not (out / "summary.json").exists()


def test_the_optimum_of_a_table_is_said_to_be_that_of_the_fitted_world(capsys, tmp_path):
    rows = ["age,sent,bought"] + [f"{20 + i % 50},{'ab'[i % 2]},{int(i % 3 == 0)}" for i in range(200)]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    path = tmp_path / "s.toml"
    path.write_text(
        'actions = ["a", "b"]\n[context.encoder]\nnorm = 3.0\n'
        '[context.encoder.columns]\nage = {type = "number", mean = 44.0, deviation = 14.0, min = 20.0, max = 69.0}\n'
        '[environment]\nkind = "table"\nfile = "t.csv"\naction = "sent"\nreward = "bought"\n'
        "[simulation]\nrounds = 50\nreplications = 2\n"
    )
    assert machine(capsys, "oracle", path)["fitted_to_a_table"]
    for argv in (["oracle", str(path)], ["simulate", str(path)]):
        assert main(argv) == 0
        assert (
            "fitted to the rows of t.csv. Its optimum is not that of the real world"
            in capsys.readouterr().out
        )
