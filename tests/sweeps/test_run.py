"""Sweeps that are stopped, killed, refused, halved; and go on where they were."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from sweep_tools import BANDIT, GRID, numbers, spec_of, stored
from tightrope import sweeps
from tightrope.cli import main
from tightrope.errors import InvalidInput
from tightrope.spec import SpecError, make_spec, read_spec
from tightrope.sweeps import sweep, write_page
from tightrope.sweeps.analysis import pareto_layers
from tightrope.sweeps.run import RUNGS
from tightrope.sweeps.store import Store
from tightrope.toml import dumps
from waiting import PATIENCE


def test_nothing_is_repeated_after_an_interruption(tmp_path, monkeypatch):
    spec = spec_of({"policy.V.scale": {"low": 0.1, "high": 2.0, "steps": 30}})
    whole = sweep(spec, tmp_path / "whole", workers=1)
    real, parts = Store.add, []

    def interrupted(store, rows):
        if len(parts) == 3:
            (store.folder / ".part-0000003.parquet.draft").write_bytes(b"PAR1 torn")
            raise KeyboardInterrupt
        parts.append(len(rows))
        real(store, rows)

    monkeypatch.setattr(Store, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(spec, tmp_path / "torn", workers=1)
    monkeypatch.undo()
    again = sweep(spec, tmp_path / "torn", workers=1)
    assert again.ran == 30 - sum(parts) > 0
    assert max(Counter(row["cell"] for row in stored(tmp_path / "torn")).values()) == 1
    assert numbers(tmp_path / "torn") == numbers(tmp_path / "whole")
    assert not list((tmp_path / "torn" / "cells").glob(".*"))
    assert sweep(spec, tmp_path / "torn", workers=1).ran == 0
    assert len(whole.rows()) == 30


def test_a_killed_process_loses_only_what_was_under_way(tmp_path):
    data = {**BANDIT, "simulation": {"rounds": 20_000, "replications": 4}}
    data["sweep"] = {"policy.V.scale": {"low": 0.1, "high": 2.0, "steps": 60}}
    (tmp_path / "s.toml").write_text(dumps(data))
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "tightrope",
        "sweep",
        str(tmp_path / "s.toml"),
        "--out",
        str(out),
        "--workers",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + PATIENCE
        while (
            len(list(out.glob("cells/*.parquet"))) < 3
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    kept = len(stored(out))
    assert 0 < kept < 60
    found = sweep(read_spec(tmp_path / "s.toml"), out, workers=1)
    assert found.ran == 60 - kept
    assert len(numbers(out)) == len(stored(out)) == 60


def test_a_plan_that_can_not_work_is_refused_before_it_starts(tmp_path, capsys):
    data = {**BANDIT, "sweep": {"policy.slatr": [0.1, 0.2]}}
    (tmp_path / "s.toml").write_text(dumps(data))
    assert main(["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out")]) == 2
    assert "did you mean 'slater'?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(SpecError, match="environment: is missing"):
        sweep(make_spec({"sweep": GRID}), tmp_path)
    with pytest.raises(InvalidInput, match="workers must be a whole number >= 1"):
        sweep(spec_of(GRID), tmp_path, workers=0)
    with pytest.raises(InvalidInput, match="address needs the engine 'ray'"):
        sweep(spec_of(GRID), tmp_path, address="auto")


def test_halving_runs_few_in_full_and_gives_them_the_same_numbers(tmp_path):
    table = {"policy.V.scale": {"low": 0.1, "high": 4.0, "steps": 9}, "policy.epsilon.scale": [0.3, 1.0, 3.0]}
    whole = sweep(spec_of(table), tmp_path / "whole", workers=1)
    found = sweep(spec_of(table), tmp_path / "halved", workers=1, halving=True)
    assert [len(rung.names) for rung in found.rungs] == [27, 9, 3]
    assert Counter(row["round"] for row in stored(tmp_path / "halved")) == {14: 27, 40: 9, 120: 3}
    assert [round(120 * f) for f in RUNGS] == [13, 40, 120]
    full = numbers(tmp_path / "whole")
    last = numbers(tmp_path / "halved")
    assert all(last[name] == full[name] for name in found.rungs[-1].names)
    # Who goes on was on a better Pareto layer, or on the same with less regret.
    rows = found.rows(0)
    layer = pareto_layers(rows["regret"], rows["violation"])
    rank = sorted(range(27), key=lambda i: (layer[i], rows["regret"][i]))
    assert sorted(found.rows(1)["number"].tolist()) == sorted(rows["number"][rank[:9]].tolist())
    assert found.ran == 39
    assert sweep(spec_of(table), tmp_path / "halved", workers=1, halving=True).ran == 0
    assert whole.ran == 27
    write_page(found)
    assert "Successive halving" in (tmp_path / "halved" / "index.html").read_text()


def test_progress_tells_what_failed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    spec = spec_of({"policy.slater": [0.1, 7.0]}, policy={"kind": "pessimistic-optimistic"})
    assert sweep(spec, tmp_path, workers=1, progress=True).failed == 1
    assert "1 failed" in capsys.readouterr().err


def test_public_names():
    assert set(sweeps.__all__) <= set(dir(sweeps))
