"""Tables with many rows, of which a sample is looked at, and tables with many actions."""

from __future__ import annotations

import json
import re
import tomllib
import warnings

import numpy as np
import pytest

from tightrope.cli import main
from tightrope.environments import from_table
from tightrope.errors import InvalidInput
from tightrope.frames import Frame
from tightrope.spec import read_spec
from tightrope.starting import proposal, propose, text
from tightrope.starting.learnt_value import least_chance, most_rows

QUICK = ["--rounds", "100", "--replications", "2", "--workers", "1", "--yes", "--json"]


def write_csv(path, columns):
    rows = zip(*columns.values())
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")


def letters(n=900):
    rng = np.random.default_rng(4)
    sent = rng.choice(["email", "letter"], n).astype(object)
    sent[[500, 501]] = "visit"
    zone = rng.choice(["near", "far"], n).astype(object)
    zone[700] = "abroad"
    age = rng.integers(20, 80, n)
    age[10] = 99
    minutes = np.where(sent == "letter", 8.0, 2.0) + rng.uniform(0, 1, n).round(2)
    minutes[20] = 30.0
    earned = rng.uniform(0, 5, n).round(2)
    earned[30] = 40.0
    return {"age": age, "zone": zone, "sent": sent, "minutes": minutes, "revenue": earned}


@pytest.fixture
def sampled(monkeypatch):
    monkeypatch.setattr(proposal, "MOST_ROWS", 300)
    monkeypatch.setattr(text, "MOST_ROWS", 300)


def test_of_many_rows_a_sample_is_used_but_ranges_are_those_of_all(sampled):
    found = propose(
        Frame(letters()), file="a.csv", name="a", rules=["minutes <= 4", "letter >= 0.1 among far"]
    )
    # With the first rows of what was not drawn.
    assert 300 <= len(found.log) <= 303
    assert set(found.log.action_names) == {"email", "letter", "visit"}
    assert {"abroad", "far", "near"} == set(found.log.context_groups)
    [sample] = [part for part in found.parts if part.role == "sample"]
    assert sample.what.endswith(" of 900 rows")
    age = found.encoder.columns["age"]
    assert (age.min, age.max) == (20.0, 99.0)
    assert found.encoder.columns["zone"].values == ("abroad", "far", "near")
    assert found.reward_range == (0.0, 80.0)
    assert found.rules[0]["range"] == [0.0, 30.0]
    assert found.n_rows == 900


def test_a_short_table_is_used_whole():
    found = propose(Frame(letters()), file="a.csv", name="a")
    assert (len(found.log), found.sampled) == (900, False)
    assert "sample" not in {part.role for part in found.parts}


def test_every_command_reads_the_same_sample(sampled, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "a.csv", letters())
    assert main(["init", "--from", "a.csv", *QUICK]) == 0
    said = json.loads(capsys.readouterr().out)
    spec = (tmp_path / "a" / "spec.toml").read_text()
    assert tomllib.loads(spec)["environment"]["rows"] == 300
    assert "rows" not in tomllib.loads(spec)["warm_start"]
    assert "from 900 rows of a.csv" in spec
    page = (tmp_path / "a" / "index.html").read_text()
    assert "900 rows of a.csv, 3 actions; estimates and simulations from 30" in page
    assert main(["oracle", "a/spec.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == said["simulated_optimum"]


def items(n_actions, n=2_000):
    rng = np.random.default_rng(6)
    item = np.append(np.arange(n_actions), rng.integers(0, n_actions, n - n_actions))
    return {
        "age": rng.integers(20, 80, n).astype(float),
        "item": [f"item {one:04d}" for one in item],
        "list_value": (item % 7).astype(float),
        "brand": [("acme", "zeta", "omni")[one % 3] for one in item],
        "bought": (rng.random(n) < 0.1 + 0.5 * (item % 4 == 0)).tolist(),
    }


def test_columns_that_are_the_same_for_an_action_describe_it():
    found = propose(items(150), file="a.csv", name="a")
    roles = {part.what: part.role for part in found.parts}
    assert roles["item"] == "action"
    assert (roles["list_value"], roles["brand"], roles["age"]) == ("action feature",) * 2 + ("context",)
    assert found.why("action feature", "brand") == (
        "it is the same in all rows of an action, so it describes the action: 3 values over 150 actions"
    )
    assert found.action_features["brand"][:4] == ["acme", "zeta", "omni", "acme"]
    assert found.action_features["list_value"][6:9] == [6.0, 0.0, 1.0]
    # Unless the user knows better.
    assert "brand" in propose(items(150), file="a.csv", name="a", context=["brand", "age"]).encoder.columns


def test_init_takes_a_thousand_actions_and_no_more():
    assert len(propose(items(1_000), file="a.csv", name="a").log.action_names) == 1_000
    words = "1,001 different values in 2,500 rows, but at most 1,000 can be actions"
    with pytest.raises(InvalidInput, match=words):
        propose(items(1_001, 2_500), file="a.csv", name="a", action="item", reward=["bought"])
    with pytest.raises(InvalidInput, match="on average in at least two rows each"):
        propose(items(900, 1_500), file="a.csv", name="a", action="item", reward=["bought"])


def test_a_number_can_be_an_action_of_many_if_its_name_says_so():
    table = items(150)
    numbered = {**table, "item": [float(one[5:]) for one in table["item"]]}
    found = propose(numbered, file="a.csv", name="a")
    assert found.history.action == "item"
    assert found.log.action_names[:2] == ("0", "1")


def test_many_actions_give_one_warning_of_a_kind():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_table(items(150), context=["age"], action="item", reward="bought")
    said = [str(one.message) for one in caught]
    assert len(said) <= 4
    assert said[0].startswith("150 of 150 actions have fewer than 30 of 2,000 rows ('item ")
    assert said[0].endswith("…): their means are a guess")


def test_init_with_many_actions_is_readable(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "a.csv", items(150))
    assert main(["init", "--from", "a.csv", "--rule", "item 0000 <= 0.2", *QUICK]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["doubts"]) <= 6
    spec = (tmp_path / "a" / "spec.toml").read_text()
    assert max(map(len, spec.splitlines())) <= 120
    assert "# action feature: brand: it is the same in all rows of an action" in spec
    assert len(read_spec(tmp_path / "a" / "spec.toml").actions) == 150
    page = (tmp_path / "a" / "index.html").read_text()
    assert "The 30 of 150 actions that the simulated policy takes most" in page
    # Thirty in the table, and some in the legend of the figure.
    assert 30 <= len(re.findall(r">item 0\d{3}<", page)) < 40
    assert main(["oracle", "a/spec.toml"]) == 0
    assert "and 120 more actions" in capsys.readouterr().out


def test_weights_and_rows_go_by_the_number_of_actions(tmp_path):
    assert (least_chance(4), least_chance(200)) == (0.02, 0.001)
    (tmp_path / "s.toml").write_text('actions = ["a", "b"]\n[environment]\nkind = "bandit"\n')
    few = read_spec(tmp_path / "s.toml")
    assert most_rows(few) == 20_000
