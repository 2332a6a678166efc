"""`tightrope allocate`: from files to a folder that is complete or not there."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import tightrope as tr
from cli_tools import EXAMPLES, machine
from html_page import Page
from tightrope.allocation import bulk
from tightrope.cli import main
from tightrope.spec import read_spec

SPEC = """
name = "calls"
actions = ["wait", "mail", "call"]
[[rule]]
kind = "capacity"
action = "call"
at_most = 0.2
[[rule]]
kind = "budget"
name = "cost"
at_most = 0.5
[[rule]]
kind = "capacity"
action = "mail"
at_most = 40
count = true
per = "table"
by = "team"
[allocate]
id = "who"
reward = { wait = 0.0, mail = "mail", call = "call" }
usage = { cost = { wait = 0.0, mail = 0.25, call = "price" } }
group = "team"
"""


def calls(n=900, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "who": [f"p{i}" for i in range(n)],
            "mail": rng.random(n).astype(np.float32),
            "call": (3.0 * rng.random(n)).astype(np.float32),
            "price": rng.uniform(0.5, 2.0, n).astype(np.float32),
            "team": rng.choice(["red", "blue", "green"], n),
        }
    )


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "calls.toml"
    path.write_text(SPEC)
    return path


def command(spec, rows, out, *more):
    return list(map(str, ["allocate", spec, "--in", rows, "--out", out, *more]))


def actions_of(folder: Path) -> dict[str, str | None]:
    [file] = folder.glob("actions.*")
    if file.suffix == ".csv":
        with file.open(encoding="utf-8") as lines:
            return {row["who"]: row["action"] or None for row in csv.DictReader(lines)}
    read = pyarrow.parquet.read_table if file.suffix == ".parquet" else pyarrow.feather.read_table
    table = read(file).to_pydict()
    return dict(zip(table["who"], table["action"]))


def test_every_format_gives_what_python_gives(spec, tmp_path, capsys):
    table = calls()
    (tmp_path / "parts").mkdir()
    for i in range(3):
        pyarrow.parquet.write_table(table.slice(300 * i, 300), tmp_path / "parts" / f"{i}.parquet")
    pyarrow.parquet.write_table(table, tmp_path / "calls.parquet")
    with pa.ipc.new_file(str(tmp_path / "calls.arrow"), table.schema) as file:
        file.write_table(table, max_chunksize=250)
    told = read_spec(spec)
    plan = tr.allocate(table, told.rules, **told.allocate)
    expected = dict(zip(table["who"].to_pylist(), plan.actions))
    for name in ("calls.parquet", "calls.arrow", "parts"):
        data = machine(capsys, *command(spec, tmp_path / name, tmp_path / "out"))
        assert actions_of(tmp_path / "out") == expected
        assert data["value"] == pytest.approx(plan.value)
        assert data["gap"] < 2e-3
    assert sum(action == "call" for action in expected.values()) <= 180


def test_the_example_runs_on_its_table(tmp_path, capsys):
    data = machine(capsys, *command(EXAMPLES / "tonight.toml", EXAMPLES / "tonight.csv", tmp_path / "out"))
    assert {one["limit"]: one["used"] for one in data["rows"] if one["key"] is None}[
        "cents per table"
    ] <= 100_000
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {**summary, "out": str(tmp_path / "out")} == data
    chosen = actions_of_example(tmp_path / "out")
    assert {name: list(chosen.values()).count(name) for name in summary["actions"]} == summary["actions"]
    page = Page((tmp_path / "out" / "index.html").read_text(encoding="utf-8"))
    assert "Every rule holds exactly" in page.text
    assert {"chosen.png", "curves.png"} <= {path.name for path in (tmp_path / "out").iterdir()}


def actions_of_example(folder):
    with (folder / "actions.csv").open(encoding="utf-8") as lines:
        return {row["customer"]: row["action"] for row in csv.DictReader(lines)}


def test_little_memory_gives_the_same_plan(spec, tmp_path, monkeypatch):
    pyarrow.parquet.write_table(calls(), tmp_path / "calls.parquet")
    folders = []
    made = bulk.RowReader

    def spied(*given, folder, **named):
        folders.append(folder)
        return made(*given, folder=folder, **named)

    monkeypatch.setattr(bulk, "RowReader", spied)
    for name, memory in (("all", "4"), ("little", "0.00001")):
        assert main(command(spec, tmp_path / "calls.parquet", tmp_path / name, "--memory", memory)) == 0
    assert folders[0] is None
    assert not folders[1].exists()
    files = [{path.name for path in (tmp_path / name).iterdir()} for name in ("all", "little")]
    assert files[0] == files[1]
    assert actions_of(tmp_path / "all") == actions_of(tmp_path / "little")


def test_rows_that_cannot_be_used_are_listed(spec, tmp_path, capsys):
    table = calls(200).to_pydict()
    table["mail"][3], table["price"][50], table["who"][60] = None, float("nan"), "p59"
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "calls.parquet")
    run = command(spec, tmp_path / "calls.parquet", tmp_path / "out")
    assert main(run) == 2
    assert "3 of 200 rows can't be used" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    spec.write_text(SPEC + "max_set_apart = 0.05\n")
    assert machine(capsys, *run)["set_apart"] == 3
    with (tmp_path / "out" / "set-apart.csv").open() as file:
        listed = [(row["row"], row["who"], row["reason"]) for row in csv.DictReader(file)]
    assert listed == [
        ("3", "p3", "mail is missing or not finite"),
        ("50", "p50", "price is missing or not finite"),
        ("60", "p59", "who comes a second time"),
    ]
    assert pyarrow.parquet.read_table(tmp_path / "out" / "actions.parquet")["action"].null_count == 3


def test_yesterdays_prices_save_work_and_change_next_to_nothing(spec, tmp_path, capsys):
    pyarrow.parquet.write_table(calls(), tmp_path / "one.parquet")
    pyarrow.parquet.write_table(calls(seed=1), tmp_path / "two.parquet")
    machine(capsys, *command(spec, tmp_path / "one.parquet", tmp_path / "one"))
    cold = machine(capsys, *command(spec, tmp_path / "two.parquet", tmp_path / "two"))
    warm = machine(
        capsys, *command(spec, tmp_path / "two.parquet", tmp_path / "two", "--start", tmp_path / "one")
    )
    assert warm["value"] == pytest.approx(cold["value"], rel=1e-3)
    assert main(command(spec, tmp_path / "two.parquet", tmp_path / "x", "--start", str(spec))) == 2
    assert "can't be read as prices" in capsys.readouterr().err


def test_a_folder_with_something_else_is_left_alone(spec, tmp_path, capsys):
    pyarrow.parquet.write_table(calls(60), tmp_path / "calls.parquet")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "summary.json").write_text('{"rows": []}')
    assert main(command(spec, tmp_path / "calls.parquet", tmp_path / "mine")) == 2
    assert "not the output of an earlier allocation" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["summary.json"]


@pytest.mark.parametrize("cut", [signal.SIGKILL, signal.SIGINT])
def test_what_is_cut_short_leaves_the_last_output_whole(spec, tmp_path, cut):
    """The process stops while it writes: the folder is still the one of the run before."""
    pyarrow.parquet.write_table(calls(60), tmp_path / "calls.parquet")
    run = command(spec, tmp_path / "calls.parquet", tmp_path / "out")
    assert main(run) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    stopping = (
        "import sys, time; from tightrope.allocation import bulk; from tightrope.cli import main\n"
        "def stop(*_): print('writing', flush=True); time.sleep(60)\n"
        "bulk.write_page = stop\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen([sys.executable, "-c", stopping, *run], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    time.sleep(0.05)
    os.kill(process.pid, cut)
    process.communicate(timeout=30)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    drafts = [path for path in tmp_path.iterdir() if path.name.startswith(".out.")]
    assert len(drafts) == (1 if cut == signal.SIGKILL else 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[allocate]\n", "[alocate]\n"), "alocate: unknown field (did you mean 'allocate'?)"),
        (('id = "who"', 'ids = "who"'), "allocate.ids: unknown field (did you mean 'id'?)"),
        (('"price"', '"prise"'), "must have a column 'prise' (did you mean 'price'?)"),
        (
            ('wait = 0.0, mail = "mail"', 'wait = 0.0, male = "mail"'),
            "allocate: reward: unknown action 'male'",
        ),
        (
            (SPEC[SPEC.index("[allocate]") :], ""),
            "allocate: is missing: say what the columns of the table are",
        ),
    ],
)
def test_a_spec_that_does_not_fit_is_refused(spec, tmp_path, capsys, change, said):
    pyarrow.parquet.write_table(calls(30), tmp_path / "calls.parquet")
    spec.write_text(SPEC.replace(*change))
    assert main(command(spec, tmp_path / "calls.parquet", tmp_path / "out")) == 2
    assert said in capsys.readouterr().err


def test_files_that_are_no_tables_are_refused(spec, tmp_path, capsys):
    for name, content in (("a.parquet", b"nothing"), ("a.txt", b"x"), ("none.csv", None)):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        assert main(command(spec, tmp_path / name, tmp_path / "out")) in (1, 2)
        assert name in capsys.readouterr().err
