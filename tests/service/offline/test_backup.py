"""Backups: copies that are made while the service writes hold everything that was acknowledged before, and start again."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tightrope.errors import InvalidInput
from tightrope.service.journal import JournalDamaged
from tightrope.service.journal.heads import read_head
from tightrope.service.offline.backup import copy_to_file, restore
from tightrope.service.offline.replay import open_journal, verify
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from workbench import Bench, arms, read


class Load:
    """A service that decides without pause, on a thread of its own; `acknowledged` is the last position that it answered for."""

    def __init__(self, path: Path) -> None:
        self.bench = Bench(arms(), SqliteJournal(path), snapshot_every=50, max_pending=20)
        self.acknowledged = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        i = 0
        while not self._stop.is_set():
            i += 1
            ops = [self.bench.deciding({"event_id": f"e{i}-{k}"}) for k in range(5)]
            assert {answer.status for answer in self.bench.experiment.process(ops)} == {200}
            state = self.bench.experiment._state
            assert state is not None
            self.acknowledged = state.position

    def wait(self, more: int) -> int:
        """Until so many more entries are acknowledged."""
        end = self.acknowledged + more
        while self.acknowledged < end and self._thread.is_alive():
            self._stop.wait(0.005)
        assert self._thread.is_alive(), "the service failed under the backup"
        return self.acknowledged

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        self.bench.experiment.close()


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    one = Load(tmp_path / "data" / "arms.sqlite")
    yield one
    one.end()


def by_files(data: Path, copy: Path) -> Path:
    """`cp`, the head first: the others may then only be ahead of it."""
    copy.mkdir()
    for name in ("arms.head", "arms.sqlite", "arms.sqlite-wal"):
        shutil.copy(data / name, copy / name)
    return copy / "arms.sqlite"


def by_vacuum(data: Path, copy: Path) -> Path:
    copy.mkdir()
    connection = apsw.Connection(str(data / "arms.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute("VACUUM INTO ?", (str(copy / "arms.sqlite"),))
    connection.close()
    return copy / "arms.sqlite"


def by_command(data: Path, copy: Path) -> Path:
    copy.mkdir()
    source = open_journal(data)
    copy_to_file(source, copy / "arms.sqlite")
    source.close()
    return copy / "arms.sqlite"


@pytest.mark.parametrize("how", [by_files, by_vacuum, by_command])
def test_a_copy_under_load_holds_what_was_acknowledged_before(how, load: Load, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    load.wait(120)
    for n in range(2):
        before = load.wait(40)
        copy = how(tmp_path / "data", tmp_path / f"copy-{n}")
        source = open_journal(copy)
        report = verify(source)
        source.close()
        assert report.entries >= before
        bench = Bench(arms(), SqliteJournal(copy), snapshot_every=50, max_pending=20)
        assert bench.state()["position"] >= before
        assert bench.decide({"event_id": "next"}).status == 200
        bench.experiment.close()
        live = open_journal(tmp_path / "data")
        assert verify(live, head=report.head).entries > report.entries, "the copy is where the journal was"
        live.close()


def test_a_restored_journal_says_what_is_lost(tmp_path: Path) -> None:
    path, copy = tmp_path / "data" / "arms.sqlite", tmp_path / "copy.sqlite"
    bench = Bench(arms(), SqliteJournal(path))
    for i in range(10):
        read(bench.decide({"event_id": f"e{i}"}))
    head = copy_to_file(bench.journal, copy)
    assert read_head(copy.with_suffix(".head")) == head
    assert sorted(one.name for one in tmp_path.iterdir()) == ["copy.head", "copy.sqlite", "data"]
    for i in range(10, 14):
        read(bench.decide({"event_id": f"e{i}"}))
    bench.journal.close()
    shutil.copy(copy, path)  # as people do
    with pytest.raises(JournalDamaged, match="4 acknowledged entries are lost"):
        bench.reopened()
    bench.journal.close()
    with pytest.raises(InvalidInput, match="the file already exists"):
        restore(copy, path)
    path.unlink()
    assert restore(copy, path) == (head, 4)
    bench.reopened()
    assert bench.state()["decisions"] == 10
    assert read_head(path.with_suffix(".head")) == head
    bench.experiment.close()
    for file in (copy, copy.with_suffix(".head"), path):
        assert file.stat().st_mode & 0o077 == 0


def test_a_damaged_copy_is_not_restored(tmp_path: Path) -> None:
    copy, path = tmp_path / "copy.sqlite", tmp_path / "data" / "arms.sqlite"
    bench = Bench(arms(), SqliteJournal(copy))
    for i in range(5):
        read(bench.decide({"event_id": f"e{i}"}))
    bench.experiment.close()
    connection = apsw.Connection(str(copy))
    connection.execute("UPDATE journal SET time = time + 1 WHERE position = 3")
    connection.close()
    path.parent.mkdir()
    with pytest.raises(JournalDamaged, match="row 4 does not follow"):
        restore(copy, path)
    assert list(path.parent.iterdir()) == []


def test_a_journal_of_another_storage_becomes_a_file(tmp_path: Path) -> None:
    bench = Bench(arms(), MemoryJournal(), snapshot_every=10)
    for i in range(30):
        read(bench.decide({"event_id": f"e{i}"}))
    head = copy_to_file(bench.journal, tmp_path / "copy.sqlite")
    source = open_journal(tmp_path / "copy.sqlite")
    report = verify(source)
    assert (report.head, report.digest) == (head.hash.hex(), bench.digest())
    assert report.snapshots == verify(bench.journal).snapshots
    source.close()
