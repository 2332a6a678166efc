"""A base install: what needs an extra says so in one line, with the command that installs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tightrope import extras
from tightrope.extras import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
SPEC, SWEEP = "examples/hospital.toml", "examples/sweep-bandit.toml"
RAY = ["sweep", SWEEP, "--engine", "ray", "--out", "{tmp}/ray"]

# The package that is not there, the command, the status and what it says.
COMMANDS = [
    ("apsw", ["serve", SPEC, "--data", "{tmp}/data"], 1, "apsw is not installed: pip install 'tightrope[service]'"),
    ("starlette", ["serve", SPEC], 1, "Starlette is not installed: pip install 'tightrope[service]'"),
    ("uvicorn", ["serve", SPEC], 1, "uvicorn is not installed: pip install 'tightrope[service]'"),
    ("httptools", ["serve", SPEC], 1, "httptools is not installed: pip install 'tightrope[service]'"),
    ("psycopg", ["serve", SPEC, "--database", "postgresql://db/x"], 1, "pip install 'tightrope[postgres]'"),
    ("apsw", ["replay", "tests/fixtures/journals/ward.sqlite"], 1, "pip install 'tightrope[service]'"),
    ("apsw", ["backup", "tests/fixtures/journals/ward.sqlite", "--out", "{tmp}/copy"], 1, "pip install 'tightrope[service]'"),
    ("apsw", ["erase", "tests/fixtures/journals/ward.sqlite", "--event-id", "x"], 1, "pip install 'tightrope[service]'"),
    ("apsw", ["evaluate", "tests/fixtures/journals/ward.sqlite", "--policy", SPEC], 1, "pip install 'tightrope[service]'"),
    ("apsw", ["fit", "tests/fixtures/journals/ward.sqlite"], 1, "pip install 'tightrope[service]'"),
    ("pyarrow", ["sweep", SWEEP, "--out", "{tmp}/sweep"], 1, "pip install 'tightrope[data]'"),
    ("pyarrow", ["tune", SWEEP, "--out", "{tmp}/tune"], 1, "pip install 'tightrope[data]'"),
    ("ray", RAY, 1, "the engine 'ray' needs Ray, which is not installed: pip install 'tightrope[ray]'"),
    ("pyarrow", ["fit", "{tmp}/log.parquet"], 2, "needs pyarrow: pip install 'tightrope[data]'"),
    ("sklearn", ["fit", "{tmp}/log.csv", "--model", "boosted-trees"], 2, "pip install 'tightrope[models]'"),
    ("pyarrow", ["calibrate", "hospital", "--source", "{tmp}/log.parquet"], 1, "pip install 'tightrope[data]'"),
    ("sklearn", ["compare", "--scenario", "digits", "--out", "{tmp}/league"], 1, "pip install 'tightrope[data]'"),
    ("cupy", ["simulate", SPEC, "--engine", "gpu"], 2, "pip install 'tightrope[gpu]'"),
]  # fmt: skip

# The same from Python.
CALLS = [
    ("apsw", "import tightrope.service.storage as s; s.journal_at('sqlite:{tmp}', 'x')"),
    ("starlette", "from tightrope.service import serve"),
    ("sklearn", "import tightrope as tr; tr.Ensemble('random-forest', n_features=2)"),
    ("pyarrow", "import tightrope.service as s; from tightrope.service.storage.memory import MemoryJournal; "
     "s.export(MemoryJournal(), '{tmp}/all.parquet')"),
]  # fmt: skip

# One process that has loaded what every case needs, and a child of it for each.
RUN = """
import json, os, sys, tempfile, traceback
import numba, numpy, tightrope.kernels
import tightrope.fitting, tightrope.oracle, tightrope.policies, tightrope.service.requests, tightrope.spec
import tightrope_lab.league, tightrope.sweeps
from tightrope.cli import main

for hidden, what in json.load(sys.stdin):
    with tempfile.TemporaryFile("w+") as said:
        if not (child := os.fork()):
            sys.modules[hidden] = None
            os.dup2(said.fileno(), 2)
            try:
                status = main(what) if isinstance(what, list) else exec(what)
            except BaseException:
                traceback.print_exc()
                status = 3
            sys.stderr.flush()
            os._exit(status or 0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        print(json.dumps([status, said.read()]))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extras")
    (folder / "log.csv").write_text("action,reward,x\n" + "a,1,0.5\nb,0,0.25\n" * 40)
    (folder / "log.parquet").write_bytes(b"PAR1")
    cases = [(hidden, [word.format(tmp=folder) for word in argv]) for hidden, argv, *_ in COMMANDS]
    cases += [(hidden, code.format(tmp=folder)) for hidden, code in CALLS]
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(cases), capture_output=True, text=True, check=False, cwd=ROOT
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(lines) == len(cases)
    return lines


@pytest.mark.parametrize("case", range(len(COMMANDS)), ids=lambda i: f"{COMMANDS[i][1][0]}-{COMMANDS[i][0]}")
def test_a_command_explains_what_is_missing_in_one_line(answers, case):
    status, said = answers[case]
    *_, expected, words = COMMANDS[case]
    assert words in said
    assert "Traceback" not in said
    # Commands that take a while also say what they are at.
    assert said.splitlines()[-1].startswith("tightrope: ")
    assert said.count("tightrope: ") == 1
    assert status == expected


@pytest.mark.parametrize("case", range(len(CALLS)), ids=lambda i: CALLS[i][0])
def test_so_does_a_call(answers, case):
    _, said = answers[len(COMMANDS) + case]
    _, install = PACKAGES[CALLS[case][0]]
    assert said.splitlines()[-1].endswith((f"pip install {install}", f"pip install {install}."))


def test_what_is_said_of_each_package_is_what_pyproject_declares():
    def words(requirements):
        return {re.split(r"[\[><=]", one)[0].lower() for one in requirements}

    base = words(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    for name, install in PACKAGES.values():
        extra = re.fullmatch(r"'tightrope\[(\w+)\]'", install)
        declared = words(EXTRAS[extra[1]]) if extra else words([install])
        assert any(one.startswith(name.lower()) for one in declared), name
        assert name.lower() not in base


def test_the_page_has_a_row_for_every_extra():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE))
    assert set(rows) == set(EXTRAS) - {"dev"}
    for extra, packages in rows.items():
        declared = {re.split(r"[\[><=]", one)[0] for one in EXTRAS[extra]}
        assert set(re.findall(r"`([\w-]+)`", packages)) == declared, extra


def test_words_for_a_package_that_is_missing():
    missing = ModuleNotFoundError("No module named 'pyarrow.parquet'", name="pyarrow.parquet")
    assert extras.package_of(missing) == "pyarrow"
    assert extras.remedy(missing) == "pyarrow is not installed: pip install 'tightrope[data]'"
    said = r"^a forest needs scikit-learn, which is not installed: pip install 'tightrope\[models\]'$"
    with pytest.raises(ModuleNotFoundError, match=said), extras.explained("a forest"):
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
