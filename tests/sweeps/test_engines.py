"""Engines that agree, and outlive their workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from sweep_tools import BANDIT, numbers, spec_of
from tightrope.sweeps import cells, engines, sweep
from waiting import PATIENCE


def test_processes_give_the_same_numbers_and_survive_a_deadly_cell(tmp_path, monkeypatch):
    table = {
        "design": "random",
        "cells": 30,
        "policy.V.scale": {"low": 0.1, "high": 2.0},
        "environment.threshold": [0.1, 0.3],
    }
    sweep(spec_of(table), tmp_path / "one", workers=1)
    run = cells.run_cells

    def deadly(plan, batch):
        if any(cell.number == 3 for cell in batch):
            os.kill(os.getpid(), signal.SIGKILL)
        return run(plan, batch)

    monkeypatch.setattr(engines, "run_cells", deadly)
    found = sweep(spec_of(table), tmp_path / "two", workers=2)
    assert found.failed == 1
    (failure,) = found.failures(5)
    assert failure["number"] == 3
    assert "the worker died" in failure["error"]
    expected, came = numbers(tmp_path / "one"), numbers(tmp_path / "two")
    assert len(expected) == len(came) == 30
    assert [name for name in expected if expected[name] != came[name]] == [found.rungs[0].names[3]]


def test_the_local_engine_needs_no_ray(tmp_path):
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from tightrope.spec import make_spec\nfrom tightrope.sweeps import sweep\n"
        f"spec = make_spec({ {**BANDIT, 'sweep': {'policy.V.scale': [1.0]}}!r})\n"
        f"assert sweep(spec, {str(tmp_path)!r}, workers=1).failed == 0\n"
        f"sweep(spec, {str(tmp_path)!r}, engine='ray')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert "pip install 'tightrope[ray]'" in done.stderr.splitlines()[-1]
