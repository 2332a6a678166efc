"""`tightrope evaluate` on the journals of a service, and how journals are named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_tools import machine
from tightrope.cli import main
from tightrope.service.experiment import Experiment, Op
from tightrope.service.http.handlers import decide, learn
from tightrope.service.requests import DecisionRequest, OutcomeRequest
from tightrope.service.storage import journal_at
from tightrope.spec import make_spec

TRIAL: dict[str, Any] = {
    "actions": ["none", "low", "high"],
    "rule": [
        {"kind": "capacity", "action": "high", "at_most": 0.2},
        {"kind": "budget", "name": "hours", "at_most": 4.0, "range": [0, 8], "seen": "after"},
    ],
}


def serve(folder: Path, name: str = "trial", policy: str = "uniform", rounds: int = 150) -> None:
    draw = np.random.default_rng(0)
    spec = make_spec({**TRIAL, "name": name, "policy": {"kind": policy}})
    served = Experiment(spec, journal_at(f"sqlite:{folder}", name))
    served.open()
    events = [f"visit-{i}" for i in range(rounds)]
    answers = served.process([Op(decide, DecisionRequest(event_id=event)) for event in events])
    outcomes = []
    for event, answer in zip(events, answers, strict=True):
        action = json.loads(answer.body)["action"]
        reward = float(draw.random() < (0.2, 0.5, 0.9)[action])
        outcomes.append(OutcomeRequest(event_id=event, reward=reward, usage={"hours": 3.0 * action}))
    assert {answer.status for answer in served.process([Op(learn, one) for one in outcomes])} == {200}
    served.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    serve(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    path = tmp_path / "candidate.toml"
    path.write_text('[policy]\nkind = "round-robin"\nshares = [0.5, 0.5, 0.0]\n')
    return path


def test_evaluate_for_machines(
    data: Path, candidate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = machine(capsys, "evaluate", data, "--policy", candidate, "--out", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text()) == found
    assert (found["experiment"], found["policy"], found["served"]) == ("trial", "round-robin", "uniform")
    assert (found["decisions"], found["judged"], found["left_out"]) == (150, 150, {})
    assert found["reward"]["low"] < 0.35 < found["reward"]["high"]
    high, hours = found["rules"]
    assert (high["name"], high["limit"], high["verdict"]) == (
        "capacity high",
        0.2,
        "satisfied with 95 % confidence",
    )
    assert high["estimate"] == pytest.approx(0.0, abs=1e-12)
    assert 0.2 < high["recorded"] < 0.5
    assert hours["low"] - 0.2 < 1.5 < hours["high"] + 0.2 < hours["limit"] == 4.0
    again = machine(capsys, "evaluate", data / "trial.sqlite", "--policy", candidate)
    assert again == found, "the file by its name, and the same numbers for the same seed"
    other = machine(capsys, "evaluate", data, "--policy", candidate, "--method", "ips", "--last", "100")
    assert (other["method"], other["judged"]) == ("ips", 100)


def test_evaluate_for_people(
    data: Path, candidate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(data), "--policy", str(candidate), "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "round-robin on 150 of 150 decisions of trial, served by uniform" in text
    assert "per decision" in text
    assert "satisfied with 95 % confidence" in text
    assert "note: estimates are means over" in text
    assert "evaluation.json" in text
    assert "-0.0000" not in text
    assert " bias " not in text


def test_what_the_journal_can_not_answer_has_status_1(
    tmp_path: Path, candidate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(tmp_path / "data", policy="round-robin")
    assert main(["evaluate", str(tmp_path / "data"), "--policy", str(candidate)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(
        "tightrope: the journal can't answer: every decision was served with probability 1"
    )
    assert main(["evaluate", str(tmp_path / "data"), "--policy", str(candidate), "--json"]) == 1
    reasons = json.loads(capsys.readouterr().out)["refused"]
    assert len(reasons) == 1
    assert "'round-robin' did not" in reasons[0]


def test_bad_usage_and_bad_specs_have_status_2(
    data: Path, candidate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('[policy]\nkind = "unheard-of"\n')
    assert main(["evaluate", str(data), "--policy", str(bad)]) == 2
    assert "policy.kind: must be one of" in capsys.readouterr().err
    assert main(["evaluate", str(data)]) == 2
    assert "--policy" in capsys.readouterr().err
    assert main(["evaluate", str(data), "--policy", str(tmp_path / "none.toml")]) == 2
    assert main(["evaluate", str(data), "--policy", str(candidate), "--last", "0"]) == 2


def test_of_several_journals_one_is_named(
    data: Path, candidate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(data, "night", rounds=60)
    assert main(["evaluate", str(data), "--policy", str(candidate)]) == 2
    assert "experiment must be given" in capsys.readouterr().err
    found = machine(capsys, "evaluate", data, "--policy", candidate, "--experiment", "night")
    assert (found["experiment"], found["judged"]) == ("night", 60)
    assert machine(capsys, "replay", data, "--experiment", "night")["decisions"] == 60


def test_without_the_package_of_a_storage_its_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(tmp_path, rounds=3)
    for package, module, source, extra in [
        ("apsw", "sqlite", str(tmp_path), "service"),
        ("apsw", "sqlite", str(tmp_path / "trial.sqlite"), "service"),
        ("psycopg", "postgresql", "postgresql://localhost/x", "postgres"),
    ]:
        with monkeypatch.context() as patch:
            # As on an install without extras.
            patch.setitem(sys.modules, package, None)
            for loaded in [*sys.modules]:
                if loaded.startswith(f"tightrope.service.storage.{module}"):
                    patch.delitem(sys.modules, loaded)
            assert main(["replay", source, "--experiment", "trial"]) == 1
        assert f"pip install 'tightrope[{extra}]'" in capsys.readouterr().err


def test_keys_with_an_end_and_a_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys.json"
    assert main(["keys", "create", str(path), "--days", "90", "--rate", "20"]) == 0
    [key] = json.loads(path.read_text())
    assert capsys.readouterr().out.split("_")[1] == key["id"]
    assert key["rate"] == 20.0
    assert "expires" in key
    assert main(["keys", "create", str(path), "--rate", "0"]) == 2
    assert "rate must be a positive number" in capsys.readouterr().err


def test_help_helps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--help"]) == 0
    text = capsys.readouterr().out
    for word in (
        "JOURNAL",
        "--policy",
        "--experiment",
        "--method",
        "--may-miss",
        "--json",
        "--out",
        "tightrope evaluate data",
    ):
        assert word in text


def test_openapi_prints_what_a_service_shows(capsys):
    from tightrope.service.http.app import document

    assert main(["openapi"]) == 0
    assert json.loads(capsys.readouterr().out) == document()
    assert main(["openapi", "no-such-file.toml"]) == 2


@pytest.mark.parametrize("port", ["99999", "-1", "65536"])
def test_a_port_that_there_is_none_of_is_bad_usage(
    port: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "arms.toml"
    spec.write_text('actions = ["a", "b"]\n')
    assert main(["serve", str(spec), f"--port={port}", "--data", str(tmp_path / "data")]) == 2
    said = capsys.readouterr().err
    assert "port must be a whole number" in said
    assert port in said
    assert not (tmp_path / "data").exists(), "nothing was opened"


def test_port_0_is_any_that_is_free_and_the_log_names_it(tmp_path: Path) -> None:
    spec = tmp_path / "arms.toml"
    spec.write_text('actions = ["a", "b"]\n')
    command = [
        sys.executable,
        "-m",
        "tightrope",
        "serve",
        str(spec),
        "--port",
        "0",
        "--data",
        str(tmp_path / "data"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = (re.search(r"listening on http://127.0.0.1:(\d+) ", line) for line in process.stderr)
            port = int(next(one for one in found if one is not None)[1])
            assert port > 0
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=20) as answer:
                assert answer.status == 200
        finally:
            process.terminate()


def test_a_key_that_nobody_says_more_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys.json"
    for words in ([], ["--never-expires", "--scope", "read", "--scope", "admin"]):
        assert main(["keys", "create", str(path), *words]) == 0
    little, much = json.loads(path.read_text())
    assert little["scopes"] == ["decide"]
    assert "expires" in little
    assert much["scopes"] == ["read", "admin"]
    assert "expires" not in much
    capsys.readouterr()
    assert main(["keys", "create", str(path), "--days", "3", "--never-expires"]) == 2
    assert "--days and --never-expires exclude each other" in capsys.readouterr().err
