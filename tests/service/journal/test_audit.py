"""What was changed in a journal before its last snapshot is found behind the start, and no decisions are made on it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from tightrope.service.experiment import Experiment
from tightrope.service.http import handlers
from tightrope.service.http.app import Service
from tightrope.service.journal import JournalDamaged
from tightrope.service.journal.audit import audit
from tightrope.service.journal.rows import erased
from tightrope.service.requests import ErasureRequest, SnapshotRequest
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from workbench import Bench, arms, code, read, running

# Each before the last snapshot, where a start does not look.
ATTACKS = {
    "kind": "UPDATE journal SET kind = 2 WHERE position = 6",
    "event_id": "UPDATE journal SET event_id = 'somebody else' WHERE position = 6",
    "time": "UPDATE journal SET time = time + 1 WHERE position = 6",
    "data": "UPDATE journal SET data = (SELECT data FROM journal WHERE position = 8) WHERE position = 6",
    "a row less": "DELETE FROM journal WHERE position = 6",
    "a snapshot with a name": "UPDATE snapshot SET state = zeroblob(100) WHERE label IS NOT NULL",
}


def stopped(path: Path) -> Bench:
    """A journal with a named snapshot in the middle, that was stopped in order: a start needs no row but the last."""
    bench = Bench(arms(), SqliteJournal(path))
    for i in range(12):
        read(bench.decide({"event_id": f"e{i}"}))
        read(bench.learn(f"e{i}", reward=0.25))
        if i == 5:
            read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="half way")))
    bench.experiment.close()
    return bench


def copied(source: Path, path: Path) -> None:
    for suffix in (".sqlite", ".head"):
        shutil.copy(source.with_suffix(suffix), path.with_suffix(suffix))


def edit(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


@pytest.fixture(scope="module")
def journal_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("journal") / "arms.sqlite"
    stopped(path)
    return path


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_changed_long_ago_is_found_behind_the_start(
    attack: str, journal_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "arms.sqlite"
    copied(journal_file, path)
    edit(path, ATTACKS[attack])
    bench = Bench(arms(), SqliteJournal(path))
    assert bench.experiment.status == "ready", "the start does not look there"
    read(bench.decide({"event_id": "before the audit"}))
    job = bench.experiment.audit_job()
    assert job is not None
    job.start()
    job.join()
    assert code(bench.decide({"event_id": "after it"})) == (503, "unavailable")
    assert bench.experiment.status == "damaged"
    assert bench.experiment.trouble
    bench.experiment.close()


def test_a_journal_as_it_was_written_passes_also_while_it_is_written(
    journal_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "arms.sqlite"
    copied(journal_file, path)
    bench = Bench(arms(), SqliteJournal(path))
    reader = bench.journal.reader()
    assert reader is not None
    reader.open()
    erase = iter(["e1", "e7"])

    def meanwhile(seconds: float) -> None:

        for event in erase:
            read(bench.ask(handlers.erase, ErasureRequest(event_ids=[event])))

    assert audit(reader, meanwhile) == bench.journal.last()
    reader.close()
    job = bench.experiment.audit_job()
    assert job is not None
    job.start()
    job.join()
    assert bench.experiment.checked == bench.journal.last()
    assert bench.experiment.audit_job() is None, "once for each start"
    read(bench.decide({"event_id": "goes on"}))
    bench.experiment.close()


def test_a_row_that_was_erased_without_a_word_is_found() -> None:
    bench = Bench(arms())
    read(bench.decide({"event_id": "e0"}))
    assert isinstance(bench.journal, MemoryJournal)
    bench.journal.overwrite([erased(bench.journal.find(["e0"])[0])])
    with pytest.raises(JournalDamaged, match="was erased, but no entry says so"):
        audit(bench.journal)


@pytest.mark.usefixtures("quiet")
def test_the_service_is_no_longer_ready_and_says_why(journal_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "arms.sqlite"
    copied(journal_file, path)
    edit(path, ATTACKS["event_id"])
    experiment = Experiment(arms(), SqliteJournal(path))
    experiment.open()
    with running(Service([experiment])) as client:
        answer = _not_ready(client)
        assert answer["experiments"] == {"damaged": 1}
        assert "a journal was changed or is damaged" in answer["why"][0]
        assert "row 6: its columns (kind, event_id)" in experiment.trouble
        assert client.post("/v1/decisions", json={"event_id": "late"}).status_code == 503
        assert 'tightrope_role{experiment="arms",role="damaged"} 1.0' in client.get("/metrics").text


def _not_ready(client: httpx.Client) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        answer = client.get("/readyz")
        if answer.status_code == 503:
            found: dict[str, Any] = answer.json()
            return found
        assert time.monotonic() < deadline
        time.sleep(0.05)
