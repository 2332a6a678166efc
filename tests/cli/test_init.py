"""`tightrope init`, as people and scripts run it."""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import shutil
import tomllib
import webbrowser
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tightrope.cli import main
from tightrope.environments.build import environment_of
from tightrope.service.experiment import Experiment, Op
from tightrope.service.http.handlers import decide
from tightrope.service.requests import DecisionRequest, read_body
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import read_spec

QUICK = ["--rounds", "200", "--replications", "2", "--workers", "1"]


def write_table(folder):
    rng = np.random.default_rng(0)
    lines = ["visit_id,age,smoker,ward,nurse_hours,well"]
    for i in range(400):
        age, ward = int(rng.integers(20, 90)), ("icu", "other")[int(rng.random() < 0.6)]
        well = rng.random() < (age / 100 if ward == "icu" else 0.45)
        hours = round((3.0 if ward == "icu" else 1.0) * rng.uniform(0.7, 1.3), 2)
        lines.append(f"{i},{'' if i % 9 == 4 else age},{rng.random() < 0.3},{ward},{hours},{int(well)}")
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")


@contextlib.contextmanager
def counted():
    """How often each file is opened to be read, and how often TOML is parsed."""
    found, opened, loads = Counter(), io.open, tomllib.loads

    def counting_open(file, mode="r", *rest, **options):
        found[Path(str(file)).name] += not set(mode) & set("wxa")
        return opened(file, mode, *rest, **options)

    def counting_loads(text, **options):
        found["toml"] += 1
        return loads(text, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", counting_open)
        patch.setattr(builtins, "open", counting_open)
        patch.setattr(tomllib, "loads", counting_loads)
        yield found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which init has been run once, what it said, and what it read."""
    folder = tmp_path_factory.mktemp("init")
    write_table(folder)
    argv = [
        "init",
        "--from",
        str(folder / "visits.csv"),
        "--out",
        str(folder / "out"),
        "--yes",
        "--json",
        *QUICK,
    ]
    with counted() as reads, contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(argv) == 0
    return folder, json.loads(said.getvalue()), reads


@pytest.fixture
def told(made):
    """What it told machines."""
    return made[1]


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy of it, as the working directory."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_table_and_spec_are_read_once_on_the_way_to_a_service(made, here):
    reads = made[2]
    assert (reads["visits.csv"], reads["spec.toml"], reads["toml"]) == (1, 0, 1), (
        "init parses the text that it writes"
    )
    with counted() as reads:
        experiment = Experiment(read_spec(here / "out" / "spec.toml"), MemoryJournal())
        experiment.open()
    assert (reads["visits.csv"], reads["spec.toml"], reads["toml"]) == (1, 1, 1)
    experiment.close()


def test_everything_is_in_the_folder_and_works_for_all_commands(here, told, capsys):
    assert {"spec.toml", "index.html", "summary.json", "simulation.png", "what-if.png"} == {
        one.name for one in (here / "out").iterdir()
    }
    spec = read_spec(here / "out" / "spec.toml")
    assert tomllib.loads((here / "out" / "spec.toml").read_text())["environment"]["file"] == "../visits.csv"
    assert spec.actions == ("icu", "other")
    assert main(["oracle", "out/spec.toml", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)["value"]
    assert main(["simulate", "out/spec.toml", "--json", *QUICK]) == 0
    [row] = json.loads(capsys.readouterr().out)["rows"]
    summary = json.loads((here / "out" / "summary.json").read_text())["rows"][-1]
    assert row["regret"] == summary["regret"]
    assert value == told["simulated_optimum"]

    journal = MemoryJournal()
    served = Experiment(spec, journal)
    served.open()
    assert served.state.policy.hooks.reward_model().n_learnt == 400
    request = read_body(b'{"context": {"age": null, "smoker": true}}', DecisionRequest)
    [answer] = served.process([Op(decide, request)])
    assert answer.status == 200


def test_the_spec_speaks_to_a_stranger(here):
    text = (here / "out" / "spec.toml").read_text()
    for words in (
        "# visits: made by `tightrope init --from visits.csv` from 400 rows of visits.csv. Everything here is",
        "# The actions. Action: 'ward' (the name says 'ward', and it has 2 different values).",
        "missing in 11% of the rows, which an extra column marks",
        "# left out: visit_id: it names the row: 400 different values in 400 rows",
        "# what was used on average in the table:",
        "# For serve: what the policy has learnt before its first decision.",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 120


def test_the_page_says_what_was_found(here):
    page = (here / "out" / "index.html").read_text()
    for words in (
        "First look at visits",
        "400 rows of visits.csv, 2 actions",
        "nurse_hours: at most",
        "What if the limit of nurse_hours were another",
        "What the columns were taken for",
        "it names the row",
        "tightrope tune spec.toml",
    ):
        assert words in page


def test_machines_are_told_the_same(told):
    assert told["simulated_optimum"] >= told["earned"]
    learnt, [hours] = told["learnt"], told["learnt"]["used"].values()
    assert learnt["policy"]["low"] < learnt["policy"]["value"] < learnt["policy"]["high"]
    assert learnt["fixed_mix"]["low"] < learnt["fixed_mix"]["high"]
    assert 0.0 < learnt["table"]["value"] < 1.0
    assert 0.5 < hours["low"] < hours["high"] < 4.0  # nurse hours, not parts of a range
    assert {part["role"] for part in told["proposed"]} == {
        "action",
        "reward",
        "usage",
        "rule",
        "context",
        "left out",
    }
    assert told["words"][0].startswith("A policy learnt from this table would earn about ")
    assert "(95 %: " in told["words"][0]
    assert any("best fixed mix of actions would earn about" in one for one in told["words"])
    assert any("The table's own decisions earned" in one for one in told["words"])
    # What is best is said of the simulated world alone.
    [best] = [one for one in told["words"] if "the best policy earns" in one]
    assert "optimum of the simulated world" in best
    assert not any("any policy could" in one for one in told["words"])
    curve = told["curve"]
    [today] = [
        row for row in curve["rows"] if row["value"] == pytest.approx(told["simulated_optimum"], abs=1e-9)
    ]
    assert (curve["rule"], len(curve["rows"])) == ("nurse_hours", 21)
    assert today["price"] > 0.0
    assert learnt["over_table"]["low"] < learnt["over_table"]["value"] < learnt["over_table"]["high"]
    assert learnt["over_fixed_mix"]["low"] < learnt["over_fixed_mix"]["high"]
    assert any("per decision than the table's own decisions did (95 %: " in one for one in told["words"])
    assert any("'nurse_hours': a tenth more would earn 0.0" in one for one in told["words"])
    assert told["page"].endswith("index.html")


def test_files_are_not_replaced_unless_asked(here, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(webbrowser, "open", lambda page: pytest.fail("it was told not to"))
    before = (here / "out" / "spec.toml").read_text()
    argv = ["init", "--from", "visits.csv", "--out", "out", "--yes", "--no-usage", "--no-open", *QUICK]
    assert main(argv) == 2
    assert "out/spec.toml already exists. Use --force to replace it" in capsys.readouterr().err
    assert (here / "out" / "spec.toml").read_text() == before
    assert main([*argv, "--force"]) == 0
    assert 'kind = "capacity"' in (here / "out" / "spec.toml").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "stdin is not a terminal. Use --yes to accept the proposals"),
        (["--yes", "--action", "wrd"], r"there is no column 'wrd' (did you mean 'ward'?)"),
        (["--yes", "--rule", "nurse_hours <= 0.1"], "nurse_hours"),
        (["--yes", "--actions", "a,b"], "with --from: the table says both"),
    ],
)
def test_bad_usage_has_status_2_and_writes_nothing(here, capsys, options, words):
    assert main(["init", "--from", "visits.csv", "--out", "none", *options, *QUICK]) == 2
    assert words in capsys.readouterr().err
    assert not (here / "none" / "spec.toml").exists()


def write_orders(folder):
    rng = np.random.default_rng(3)
    lines = ["order,km,zone,warehouse,late"]
    for i in range(300):
        zone, house = ("far", "near")[int(rng.random() < 0.7)], ("mid", "big")[int(rng.random() < 0.5)]
        lines.append(f"{i},{int(rng.integers(1, 90))},{zone},{house},{int(rng.random() < 0.4)}")
    (folder / "orders.csv").write_text("\n".join(lines) + "\n")


ORDERS = [
    "init",
    "--from",
    "orders.csv",
    "--reward",
    "late",
    "--action",
    "warehouse",
    "--yes",
    "--out",
    "o",
    *QUICK,
]


def test_a_rule_may_be_among_a_group(tmp_path, monkeypatch, capsys):
    write_orders(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main([*ORDERS, "--rule", "mid >= 40% among far", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {"role": "group", "what": "zone", "why": "it holds 'far', which a rule is among"} in said[
        "proposed"
    ]
    [used] = said["learnt"]["used"].values()
    assert used["value"] > 0.35  # a share of the decisions of that group
    spec = read_spec(tmp_path / "o" / "spec.toml")
    assert str(spec.rules) == "among group far: mid: at least 40% of that group's decisions"
    assert spec.rules.groups == ("far", "near")

    served = Experiment(spec, MemoryJournal())
    served.open()
    for group, status in (("far", 200), ("near", 200), ("fra", 422)):
        body = json.dumps({"context": {"km": 3, "zone": "near"}, "group": group}).encode()
        [answer] = served.process([Op(decide, read_body(body, DecisionRequest))])
        assert answer.status == status
    served.close()


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (["mid >= 0.4 among fra"], "no column holds the groups 'fra'. Could be: zone. Use --group COLUMN"),
        (["mid >= 0.4 among 'far'", "big >= 0.7 among far"], "'among group far: big: at least 70% of that"),
    ],
)
def test_groups_that_are_unknown_and_rules_of_a_group_that_conflict(
    tmp_path, monkeypatch, capsys, rules, words
):
    write_orders(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main([*ORDERS, *(f"--rule={one}" for one in rules)]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "o" / "spec.toml").exists()


def test_a_group_needs_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--yes", "--rule", "a <= 0.3 among far", *QUICK]) == 2
    assert (
        "no column says the group of each row. Use --from TABLE and --group COLUMN."
        in capsys.readouterr().err
    )


class Terminal:
    """Answers in turn, as people type them."""

    def __init__(self, monkeypatch, *answers):
        self.answers = list(answers)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", lambda prompt: self.answers.pop(0))


def test_on_a_terminal_proposals_can_be_changed_and_the_page_is_opened(here, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    terminal = Terminal(
        monkeypatch, "rules", "icu <= 0.2", "colour", "the context", "age", "usage", "none", ""
    )
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["init", "--from", "visits.csv", "--out", "asked", *QUICK]) == 0
    assert terminal.answers == []
    assert opened == [(here / "asked" / "index.html").as_uri()]
    spec = read_spec(here / "asked" / "spec.toml")
    assert (spec.context_names, str(spec.rules)) == (("age",), "icu: at most 20% of decisions")
    assert "Type one of these six names, not 'colour'" in capsys.readouterr().out


def test_without_a_table_questions_are_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Terminal(
        monkeypatch,
        *("mail", "email, letter"),
        *("age: 0..120", "rubbish", "sex: f, m", ""),
        *("0.3", "often", "0.5"),
        *("letter <= 40%", "minutes <= 4", "1", "9", ""),
    )
    assert main(["init", *QUICK]) == 0
    spec = read_spec(tmp_path / "mail" / "spec.toml")
    assert spec.actions == ("email", "letter")
    assert spec.context_names == ("age", "sex")
    assert spec.usage == {"minutes": {"email": 1.0, "letter": 9.0}}
    assert environment_of(spec).rewards.tolist() == [[0.3, 0.5]]
    said = capsys.readouterr().out
    assert "but got 'rubbish'" in said
    assert "that must be a number, but got 'often'" in said
    assert "in all runs every rule held" in said or "a rule was broken" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--reward", "well"], "--reward names a column of a table"),
        (["--actions", "one"], "at least two different names"),
        (["--chance", "a=2"], "chance of 'a' must lie in [0, 1]"),
        (["--chance", "c=0.5"], "chance 'c' names no action"),
        (["--chance", "a"], "--chance must look like 'letter=0.4'"),
        (["--context", "age"], "context must look like 'age: 0..120'"),
        (["--rule", "minutes <= 4"], "--usage minutes:a=1,b=1"),
        (["--usage", "minutes"], "--usage must look like"),
    ],
)
def test_what_options_must_be_is_said(tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--yes", *options, *QUICK]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.rglob("*.toml")) == []


def test_help_helps(capsys):
    assert main(["init", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "Turn a table",
        "--from",
        "--rule",
        "--yes",
        "--no-open",
        "tightrope init --from coupons.csv",
    ):
        assert words in text
