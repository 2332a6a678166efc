"""`tightrope backup`, `restore`, `erase`, and `replay` with a head that was kept elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli_tools import machine
from tightrope.cli import main
from tightrope.service.experiment import Experiment, Op
from tightrope.service.http.handlers import decide, learn
from tightrope.service.requests import DecisionRequest, OutcomeRequest
from tightrope.service.storage import journal_at
from tightrope.spec import make_spec


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the journal of forty decisions and their outcomes."""
    spec = make_spec({"name": "trial", "actions": ["a", "b"], "policy": {"kind": "uniform"}})
    served = Experiment(spec, journal_at(f"sqlite:{tmp_path / 'data'}", "trial"))
    served.open()
    events = [f"visit-{i}" for i in range(40)]
    served.process([Op(decide, DecisionRequest(event_id=event)) for event in events])
    served.process([Op(learn, OutcomeRequest(event_id=event, reward=0.5)) for event in events])
    served.close()
    return tmp_path / "data"


def test_a_backup_is_restored(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = machine(capsys, "backup", data, "--out", tmp_path / "backups")
    assert made["file"] == str(tmp_path / "backups" / "trial.sqlite")
    again = machine(capsys, "replay", made["file"])
    assert (again["entries"], again["head"]) == (made["entries"], made["head"])
    assert main(["backup", str(data), "--out", str(tmp_path / "backups")]) == 2
    assert "the file already exists" in capsys.readouterr().err
    assert main(["backup", str(data)]) == 2
    assert "--to FILE or --out FOLDER" in capsys.readouterr().err
    (data / "trial.sqlite").unlink()
    assert main(["restore", made["file"], str(data / "trial.sqlite")]) == 0
    text = capsys.readouterr().out
    assert f"head {made['head']}" in text
    assert "nothing known is lost" in text
    assert machine(capsys, "replay", data, "--head", made["head"])["head"] == made["head"]


def test_replay_compares_with_a_head(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = machine(capsys, "replay", data)
    assert main(["replay", str(data), "--head", found["head"]]) == 0
    assert f"head {found['head']}: keep it elsewhere" in capsys.readouterr().out
    assert main(["replay", str(data), "--head", "ab" * 32]) == 1
    assert f"no row has the hash {'ab' * 32}" in capsys.readouterr().err


def test_events_and_old_entries_are_erased(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert machine(capsys, "erase", data, "--event-id", "visit-3")["entries"] == 2
    assert main(["erase", str(data), "--event-id", "nobody"]) == 2
    assert "nothing was decided or sent for event_id 'nobody'" in capsys.readouterr().err
    assert main(["erase", str(data), "--before", "2100-01-01", "--archive", str(tmp_path / "a.sqlite")]) == 0
    text = capsys.readouterr().out
    assert "78 entries erased" in text
    assert "archive: " in text
    assert main(["replay", str(data)]) == 0
    assert "80 entries are erased" in capsys.readouterr().out
    assert machine(capsys, "replay", tmp_path / "a.sqlite")["erased"] == 2
    assert main(["erase", str(data)]) == 2
    assert main(["erase", str(tmp_path / "nowhere"), "--event-id", "x"]) == 2
    assert "there is no journal" in capsys.readouterr().err


def test_without_the_extra_the_message_says_what_to_install(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "apsw", None)
    monkeypatch.delitem(sys.modules, "tightrope.service.storage.sqlite")
    for source in (data, data / "trial.sqlite"):
        assert main(["replay", str(source)]) == 1
        assert (
            capsys.readouterr().err == "tightrope: apsw is not installed: pip install 'tightrope[service]'\n"
        )
