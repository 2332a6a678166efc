"""The journal in PostgreSQL: the same promises, one active process for each experiment, and a standby that takes over."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from secret_visit import SPECS, erasing, filled, play, secrets, stored
from tightrope.service.experiment import Experiment
from tightrope.service.http import handlers
from tightrope.service.http.app import Service
from tightrope.service.journal import JournalError
from tightrope.service.journal.conformance import JournalSuite
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.entries import Refused
from tightrope.service.journal.rows import row_of
from tightrope.service.offline.backup import copy_to_file
from tightrope.service.offline.replay import copy_journal, open_journal, verify
from tightrope.service.requests import ErasureRequest
from tightrope.service.storage import journal_at
from tightrope.service.storage.memory import MemoryJournal
from workbench import Bench, arms, code, read, running, visit, ward

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tightrope[postgres]'")

from faults.database import Server  # noqa: E402
from tightrope.service.storage.postgresql import PostgresJournal  # noqa: E402
from waiting import PATIENCE  # noqa: E402

pytestmark = pytest.mark.usefixtures("impatient")


def bench_on(database: Server, name: str, **options: Any) -> Bench:
    return Bench(ward(name), PostgresJournal(database.url, name), **options)


def test_the_same_events_give_the_same_journal_as_in_memory(
    database: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tightrope.service.journal.chain._salt", lambda: bytes(16))
    one, other = bench_on(database, "same", snapshot_every=30), Bench(ward("same"), snapshot_every=30)
    for bench in (one, other):
        for i in range(60):
            bench.decide(visit(i))
            if i % 3:
                bench.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.25})
            if i % 7 == 0:
                bench.learn(f"visit-{i}", reward=0.75)
                bench.learn("nobody", reward=0.75)
    assert one.digest() == other.digest()
    assert list(one.journal.rows()) == list(other.journal.rows())
    assert one.journal.snapshots() == other.journal.snapshots()
    for kinds in ([1], [2], [5], [3, 5]):
        for before in (None, 20):
            assert one.journal.select(kinds, before=before, limit=7) == other.journal.select(
                kinds, before=before, limit=7
            )
    assert one.journal.find(["visit-3", "visit-9", "?"]) == other.journal.find(["visit-3", "visit-9", "?"])
    with contextlib.closing(open_journal(database.url, "same")) as journal:
        assert verify(journal).digest == one.digest()
    one.reopened()
    assert one.digest() == other.digest()
    one.experiment.close()


class TestPostgresJournal(JournalSuite):
    @pytest.fixture(autouse=True)
    def _place(self, database: Server, request: pytest.FixtureRequest) -> None:
        self.url, self.name = database.url, request.node.name

    def make(self) -> Journal:
        return journal_at(self.url, self.name)


def test_one_process_is_active_and_the_other_takes_over(database: Server) -> None:
    active = bench_on(database, "pair")
    for i in range(20):
        active.decide(visit(i))
    standby = Bench(ward("pair"), PostgresJournal(database.url, "pair"))
    assert standby.experiment.status == "standby"
    assert code(standby.decide(visit(20))) == (503, "standby")
    other = bench_on(database, "unrelated")
    assert other.experiment.status == "ready", (
        "processes without an experiment in common do not wait for each other"
    )
    other.experiment.close()
    answers = [active.decide(visit(i)) for i in range(20)]
    # The active process hangs, and its connections are cut, without a word to it.
    assert isinstance(active.journal, PostgresJournal)
    active.journal._lease._turn.acquire()
    with psycopg.connect(database.url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM tightrope_lease WHERE experiment = 'pair'")
        assert active.journal._connection is not None
        admin.execute("SELECT pg_terminate_backend(%s)", (active.journal._connection.info.backend_pid,))
    deadline = time.monotonic() + PATIENCE
    while standby.experiment.status != "ready":
        standby.experiment.process([])
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [standby.decide(visit(i)) for i in range(20)] == answers, "nothing was lost"
    assert standby.decide(visit(20)).status == 200
    # The old one is still alive: it can write nothing any more, and then learns why.
    assert active.decide(visit(21)).status == 503
    active.journal._lease._turn.release()
    deadline = time.monotonic() + PATIENCE
    while active.experiment.status != "standby":
        active.experiment.process([])
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert verify(standby.journal).digest == standby.digest()
    standby.experiment.close()
    deadline = time.monotonic() + PATIENCE
    while active.experiment.status != "ready":
        active.experiment.process([])
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert read(active.decide(visit(21)))["sequence"] == 21
    active.experiment.close()


def test_a_writer_without_the_lease_can_not_write_over_another(database: Server) -> None:
    """A term that is over writes nothing; and the key of the table holds even if a term were forged."""
    first = bench_on(database, "fenced")
    first.decide(visit(1))
    intruder = PostgresJournal(database.url, "fenced", read_only=True)
    assert intruder.open()
    row = row_of(2, 0, Refused(event_id="e", reason="unknown"))
    with pytest.raises(JournalError, match="another process has taken over"):
        intruder.append([row_of(3, 0, Refused(event_id="e", reason="unknown"))])
    assert first.journal.last() == 2
    assert intruder.open()
    assert isinstance(first.journal, PostgresJournal)
    intruder._term = first.journal._term
    with pytest.raises(JournalError, match="duplicate key"):
        intruder.append([row])
    assert first.decide(visit(2)).status == 200
    first.experiment.close()


def test_a_restarted_server_loses_nothing_under_load(database: Server) -> None:
    experiment = Experiment(ward("restarted"), PostgresJournal(database.url, "restarted"))
    experiment.open()
    acknowledged: dict[int, bytes] = {}
    refused = 0
    stop = threading.Event()
    with running(Service([experiment])) as web:

        def load(worker: int) -> None:
            nonlocal refused
            with httpx.Client(base_url=web.base_url, timeout=PATIENCE) as own:
                for i in range(worker, 1_000_000, 4):
                    if stop.is_set():
                        return
                    answer = own.post("/v1/decisions", content=visit(i))
                    if answer.status_code == 200:
                        acknowledged[i] = answer.content
                    else:
                        assert answer.status_code == 503
                        refused += 1
                        time.sleep(0.02)

        workers = [threading.Thread(target=load, args=(worker,)) for worker in range(4)]
        for worker in workers:
            worker.start()
        time.sleep(0.5)
        database.stop()
        time.sleep(0.3)
        database.start()
        back = len(acknowledged)
        deadline = time.monotonic() + PATIENCE
        while len(acknowledged) < back + 20:
            assert time.monotonic() < deadline, "no decisions after the restart"
            time.sleep(0.05)
        stop.set()
        for worker in workers:
            worker.join()
        for i, content in acknowledged.items():
            assert web.post("/v1/decisions", content=visit(i)).content == content
    assert refused
    with contextlib.closing(open_journal(database.url, "restarted")) as journal:
        assert verify(journal).decisions >= len(acknowledged)


def test_from_sqlite_or_memory_to_postgres(database: Server) -> None:
    """The way that the documentation gives: rows and snapshots as they are."""
    bench = Bench(arms("moved"), MemoryJournal(), snapshot_every=10)
    for i in range(40):
        bench.decide({"event_id": str(i)})
    target = PostgresJournal(database.url, "moved")
    assert target.open()
    copy_journal(bench.journal, target)
    with pytest.raises(JournalError, match="is not empty"):
        copy_journal(bench.journal, target)
    target.close()
    moved = Bench(arms("moved"), PostgresJournal(database.url, "moved"))
    assert moved.digest() == bench.digest()
    moved.experiment.close()


def test_events_are_erased_and_a_journal_is_copied_to_a_file(database: Server, tmp_path: Path) -> None:
    bench = bench_on(database, "erased")
    for i in range(12):
        read(bench.decide(visit(i)))
        bench.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.25})
    before = verify(bench.journal).head
    answer = bench.ask(handlers.erase, ErasureRequest(event_ids=["visit-3"]))
    assert read(answer)["entries"] == 2
    assert code(bench.decide(visit(3))) == (410, "erased")
    report = verify(bench.journal, head=before)
    assert (report.erased, report.digest) == (2, bench.digest())
    head = copy_to_file(bench.journal, tmp_path / "copy.sqlite")
    with contextlib.closing(open_journal(tmp_path / "copy.sqlite")) as copy:
        assert verify(copy, head=before).head == head.hash.hex() == report.head
    bench.reopened()
    bench.experiment.close()


def test_nothing_of_an_erased_event_is_left_in_any_row(database: Server) -> None:
    bench = Bench(SPECS["linear"], PostgresJournal(database.url, "ward"), snapshot_every=15)
    filled(bench)
    wanted = secrets(bench)
    assert any(one in content for one in wanted[:3] for content in stored(bench.journal))
    read(bench.experiment.process([erasing("visit-13", "visit-7")])[0])
    assert not any(one in content for one in wanted for content in stored(bench.journal))
    with psycopg.connect(database.url, autocommit=True) as connection:
        # Vacuumed: no dead row is left, in neither table nor where their long values are.
        connection.execute("CREATE EXTENSION IF NOT EXISTS pgstattuple")
        for table in ("tightrope_journal", "tightrope_snapshot"):
            [(toast,)] = connection.execute(
                "SELECT reltoastrelid::regclass::text FROM pg_class WHERE relname = %s", (table,)
            ).fetchall()
            for one in (table, toast):
                dead = connection.execute("SELECT dead_tuple_count FROM pgstattuple(%s)", (one,)).fetchone()
                assert dead == (0,), one
    play(bench, 40, 50)
    assert verify(bench.journal).digest == bench.digest()
    bench.experiment.close()
