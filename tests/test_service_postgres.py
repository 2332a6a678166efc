"""The journal in PostgreSQL: the same promises, one active process for each experiment, and a standby that takes over.

The server is started by the tests, as another user where they run as root, which PostgreSQL refuses.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service_tools import Bench, arms, code, read, running, visit, ward
from tightrope.service.app import Service
from tightrope.service.experiment import Experiment
from tightrope.service.journal import JournalError, MemoryJournal, Refused, row_of
from tightrope.service.replay import copy_journal, open_journal, verify

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tightrope[postgres]'")

from tightrope.service.postgres import PostgresJournal  # noqa: E402


def _program(name: str) -> str | None:
    for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True):
        if os.path.exists(f"{folder}/{name}"):
            return f"{folder}/{name}"
    return shutil.which(name)


class Server:
    """A PostgreSQL server of our own."""

    def __init__(self) -> None:
        for program in ("initdb", "postgres"):
            if _program(program) is None:
                pytest.skip(f"PostgreSQL's {program} is missing: apt-get install postgresql")
        self._user: str | None = None
        if os.geteuid() == 0:
            users = [entry.pw_name for entry in pwd.getpwall()]
            self._user = next((name for name in ("postgres", "nobody") if name in users), None)
            if self._user is None:
                pytest.skip("PostgreSQL does not run as root, and there is no other user to start it as")
        self.folder = Path(tempfile.mkdtemp(prefix="tightrope-pg-"))
        with socket.create_server(("127.0.0.1", 0)) as one:
            self.port = one.getsockname()[1]
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "tightrope", "-A", "trust", "-E", "UTF8")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://tightrope@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        program = _program("postgres")
        assert program is not None
        options = [
            "-D",
            str(self.folder / "data"),
            "-p",
            str(self.port),
            "-k",
            str(self.folder),
            "-h",
            "127.0.0.1",
        ]
        self._process = subprocess.Popen(
            [program, *options], user=self._user, cwd="/", stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(psycopg.Error):
                psycopg.connect(self.url).close()
                return
            assert time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.05)

    def stop(self) -> None:
        """At once, as a crash would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(timeout=30)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, name: str, *arguments: str) -> None:
        program = _program(name)
        assert program is not None
        subprocess.run([program, *arguments], user=self._user, cwd="/", check=True, capture_output=True)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.remove()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.service.experiment._RETRY_SECONDS", 0)


def bench_on(server: Server, name: str, **options: Any) -> Bench:
    return Bench(ward(name), PostgresJournal(server.url, name), **options)


def test_the_same_events_give_the_same_journal_as_in_memory(server: Server) -> None:
    one, other = bench_on(server, "same", snapshot_every=30), Bench(ward("same"), snapshot_every=30)
    for bench in (one, other):
        for i in range(60):
            bench.decide(visit(i))
            if i % 3:
                bench.learn(f"visit-{i}", reward=0.5, costs={"hours": 0.25})
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
    with contextlib.closing(open_journal(server.url, "same")) as journal:
        assert verify(journal).digest == one.digest()
    one.reopened()
    assert one.digest() == other.digest()
    one.experiment.close()


def test_rows_are_kept_all_or_nothing(server: Server) -> None:
    journal = PostgresJournal(server.url, "atomic")
    assert journal.open()
    rows = [row_of(i, 0, Refused(event_id="e", reason="unknown")) for i in (1, 2, 3)]
    journal.append(rows)
    with pytest.raises(JournalError):
        journal.append([rows[2]._replace(position=4), rows[2]])
    # The server lets go of the lock a moment after the connection that held it is gone.
    deadline = time.monotonic() + 10.0
    while not journal.open():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert journal.last() == 3
    journal.close()


def test_one_process_is_active_and_the_other_takes_over(server: Server) -> None:
    active = bench_on(server, "pair")
    for i in range(20):
        active.decide(visit(i))
    standby = Bench(ward("pair"), PostgresJournal(server.url, "pair"))
    assert standby.experiment.status == "standby"
    assert code(standby.decide(visit(20))) == (503, "standby")
    other = bench_on(server, "unrelated")
    assert other.experiment.status == "ready", "each experiment has a lock of its own"
    other.experiment.close()
    answers = [active.decide(visit(i)) for i in range(20)]
    # The active process dies: its connection is cut, without a word to it.
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()"
        )
    deadline = time.monotonic() + 10
    while standby.experiment.status != "ready":
        standby.experiment.process([])
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [standby.decide(visit(i)) for i in range(20)] == answers, "nothing was lost"
    assert standby.decide(visit(20)).status == 200
    # The old one is still alive, and believes that it is active: it can write nothing any more.
    assert code(active.decide(visit(21))) == (503, "unavailable")
    active.experiment.process([])
    assert active.experiment.status == "standby"
    assert verify(standby.journal).digest == standby.digest()
    standby.experiment.close()
    deadline = time.monotonic() + 10
    while active.experiment.status != "ready":
        active.experiment.process([])
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert read(active.decide(visit(21)))["sequence"] == 21
    active.experiment.close()


def test_a_writer_without_the_lock_can_not_write_over_another(server: Server) -> None:
    """The key of the table holds even if a lock were lost."""
    first = bench_on(server, "fenced")
    first.decide(visit(1))
    intruder = PostgresJournal(server.url, "fenced", read_only=True)
    assert intruder.open()
    with pytest.raises(JournalError, match="duplicate key"):
        intruder.append([row_of(2, 0, Refused(event_id="e", reason="unknown"))])
    assert first.decide(visit(2)).status == 200
    first.experiment.close()


def test_a_restarted_server_loses_nothing_under_load(server: Server) -> None:
    experiment = Experiment(ward("restarted"), PostgresJournal(server.url, "restarted"))
    experiment.open()
    acknowledged: dict[int, bytes] = {}
    refused = 0
    stop = threading.Event()
    with running(Service([experiment])) as web:

        def load(worker: int) -> None:
            nonlocal refused
            with httpx.Client(base_url=web.base_url, timeout=30) as own:
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
        server.stop()
        time.sleep(0.3)
        server.start()
        back = len(acknowledged)
        deadline = time.monotonic() + 20
        while len(acknowledged) < back + 20:
            assert time.monotonic() < deadline, "no decisions after the restart"
            time.sleep(0.05)
        stop.set()
        for worker in workers:
            worker.join()
        for i, content in acknowledged.items():
            assert web.post("/v1/decisions", content=visit(i)).content == content
    assert refused
    with contextlib.closing(open_journal(server.url, "restarted")) as journal:
        assert verify(journal).decisions >= len(acknowledged)


def test_from_sqlite_or_memory_to_postgres(server: Server) -> None:
    """The way that the documentation gives: rows and snapshots as they are."""
    bench = Bench(arms("moved"), MemoryJournal(), snapshot_every=10)
    for i in range(40):
        bench.decide({"event_id": str(i)})
    target = PostgresJournal(server.url, "moved")
    assert target.open()
    copy_journal(bench.journal, target)
    with pytest.raises(JournalError, match="is not empty"):
        copy_journal(bench.journal, target)
    target.close()
    moved = Bench(arms("moved"), PostgresJournal(server.url, "moved"))
    assert moved.digest() == bench.digest()
    moved.experiment.close()
