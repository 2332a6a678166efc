"""The journal in a SQLite file: one writer, one fsync for each batch, a full disk, files that are no journals."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from tightrope.errors import InvalidInput
from tightrope.service.journal import JournalError, JournalLocked
from tightrope.service.journal.conformance import JournalSuite
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.rows import Row
from tightrope.service.offline.replay import verify
from tightrope.service.storage import journal_at, open_journal
from tightrope.service.storage.sqlite import SqliteJournal
from workbench import Bench, code, play, visit, ward


class TestSqliteJournal(JournalSuite):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self) -> Journal:
        return journal_at(f"sqlite:{self.folder}", "ward")


def test_a_journal_is_read_at_the_address_that_it_was_written_at(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path}"
    bench = Bench(ward(), journal_at(address, "ward"))
    play(bench, 10)
    bench.experiment.close()
    for experiment in (None, "ward"):
        with contextlib.closing(open_journal(address, experiment)) as journal:
            assert journal.last() == verify(journal).entries > 1
    with pytest.raises(
        InvalidInput, match="experiment must be given: a database holds the journals of several"
    ):
        open_journal("memory:")
    assert open_journal("memory:", "ward").last() == 0


def test_a_journal_keeps_its_state_across_files_and_restarts(tmp_path: Path) -> None:
    bench = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"), expire_after=200.0)
    play(bench, 60)
    for seed in (1, 2):
        alive = bench.digest()
        bench.experiment.close()
        assert bench.journal.open()
        assert verify(bench.journal).digest == alive
        bench.journal.close()
        bench.reopened()
        assert bench.digest() == alive
        play(bench, 30, seed)
    bench.experiment.close()


def test_a_full_disk_fails_closed_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.service.experiment.experiment._RETRY_SECONDS", 0)
    journal = SqliteJournal(tmp_path / "ward.sqlite")
    bench = Bench(ward(), journal)
    connection = journal._connection
    assert isinstance(connection, apsw.Connection)
    connection.pragma("max_page_count", 40)
    acknowledged = []
    for i in range(2000):
        answer = bench.decide(visit(i))
        if answer.status != 200:
            break
        acknowledged.append(answer)
    assert code(answer) == (503, "unavailable")
    assert code(bench.decide(visit(i))) == (503, "unavailable")
    connection.pragma("max_page_count", 1 << 30)
    assert bench.decide(visit(i)).status == 200
    assert [bench.decide(visit(j)) for j in range(len(acknowledged))] == acknowledged
    assert verify(journal).digest == bench.digest()
    bench.experiment.close()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    first = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"))
    first.decide(visit(1))
    with pytest.raises(JournalLocked, match="another process writes"):
        Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"))
    reader = SqliteJournal(tmp_path / "ward.sqlite", read_only=True)
    reader.open()
    assert verify(reader).decisions == 1, "reading is allowed meanwhile"
    with pytest.raises(JournalError):
        reader.append([Row(3, 0, 5, None, b"")])
    reader.close()
    first.experiment.close()
    second = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"))
    assert second.decide(visit(1)).status == 200
    second.experiment.close()


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_bytes(b"this is no database at all, but a text" * 100)
    other = apsw.Connection(str(tmp_path / "other.sqlite"))
    other.execute("CREATE TABLE t (x)")
    other.close()
    for name in ("text", "other"):
        with pytest.raises(JournalError):
            SqliteJournal(tmp_path / f"{name}.sqlite").open()
    with pytest.raises(JournalError, match="there is no journal here"):
        SqliteJournal(tmp_path / "missing.sqlite", read_only=True).open()


class _CountedFile(apsw.VFSFile):
    """A file that counts when it is told to reach the disk."""

    def __init__(self, vfs: _Counted, name: Any, flags: Any) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs

    def xSync(self, flags: int) -> None:
        self._vfs.syncs += 1
        super().xSync(flags)


class _Counted(apsw.VFS):
    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.syncs = 0

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return _CountedFile(self, name, flags)


@pytest.mark.parametrize(("synchronous", "syncs"), [("FULL", 1), ("NORMAL", 0)])
def test_a_batch_is_synced_once_before_it_is_answered(tmp_path: Path, synchronous: str, syncs: int) -> None:
    """Group commit: as many fsyncs for a hundred decisions as for one. NORMAL shows that the test can fail."""
    vfs = _Counted(f"counted-{synchronous}")
    bench = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite", vfs=vfs.name, synchronous=synchronous))
    bench.decide(visit(0))
    for size in (1, 100):
        before = vfs.syncs
        answers = bench.experiment.process([bench.deciding(visit(size * 1000 + i)) for i in range(size)])
        assert {answer.status for answer in answers} == {200}
        assert vfs.syncs - before == syncs
    bench.experiment.close()


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask of the process."""
    before = os.umask(0o000)
    try:
        bench = Bench(ward(), SqliteJournal(tmp_path / "data" / "ward.sqlite"))
        bench.decide(visit(1))
        files = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").iterdir()}
        bench.experiment.close()
    finally:
        os.umask(before)
    names = ("ward.head", "ward.lock", "ward.sqlite", "ward.sqlite-shm", "ward.sqlite-wal")
    assert files == dict.fromkeys(names, 0o600)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o750)
    SqliteJournal(tmp_path / "data" / "ward.sqlite").open()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o750
