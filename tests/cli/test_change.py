"""`tightrope change`: what is typed becomes one request, and the answer is printed."""

from __future__ import annotations

import json

import pytest

from tightrope.cli import main
from tightrope.service.experiment import Experiment
from tightrope.service.http.app import Service
from tightrope.service.storage.memory import MemoryJournal
from workbench import running, ward


def test_a_service_is_changed_from_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    experiment.warm_up()
    with running(Service([experiment])) as web:
        url = str(web.base_url)
        typed = ["--add", "hospice", "--like", "other", "--rename", "icu=intensive", "--pause", "surgery"]
        typed += ["--at-most", "hours=0.5", "--at-most", "capacity icu=0.3"]
        assert main(["change", url, *typed, "--check", "--json"]) == 0
        would = json.loads(capsys.readouterr().out)
        assert (would["possible"], would["position"]) == (True, None)
        assert main(["change", url, *typed]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines == would["changes"]
        assert "the action 'hospice' is new, and begins like 'other'" in lines
        shown = web.get("/v1/state").json()
        assert [(one["name"], one["state"]) for one in shown["actions"]] == [
            ("intensive", "active"),
            ("surgery", "paused"),
            ("other", "active"),
            ("hospice", "active"),
        ]
        assert [one["limit"] for one in shown["constraints"]] == [0.3, 0.5]
        assert main(["change", url, "--resume", "surgery", "--drop", "hours"]) == 1
        assert "rules that are seen after acting" in capsys.readouterr().err
        assert main(["change", url, "--at-most", "hours"]) == 2
        assert "--at-most must be NAME=VALUE" in capsys.readouterr().err
        assert main(["change", url, "--at-most", "hours=few"]) == 2
        assert "must be NAME=NUMBER" in capsys.readouterr().err
