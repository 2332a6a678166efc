"""Faults, in short: lost power, kill -9, crashes at named points, dead databases, hostile requests. `make torture` is the long version."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.power import Disk, journal_on
from faults.story import Told, bench_on, tell
from tightrope.service.journal import JournalError
from tightrope.service.replay import verify


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.service.experiment._RETRY_SECONDS", 0)


# --- power ---


def told_on(disk: Disk, folder: Path, *, length: int = 30, synchronous: str = "FULL") -> Told:
    with journal_on(disk, folder, synchronous=synchronous) as journal:
        bench = bench_on(journal)
        told = tell(bench, length, lambda: len(disk.log))
        bench.experiment.close()
    return told


def test_power(tmp_path: Path) -> None:
    import time
    disk = Disk()
    told = told_on(disk, tmp_path)
    print(len(disk.log), told.positions[-1], [a.status for a in told.answers])
