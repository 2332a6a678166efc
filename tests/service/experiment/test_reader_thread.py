"""Reads beside the writer: they see what was acknowledged, and need no turn of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tightrope.errors import SolverError
from tightrope.service.experiment import Experiment
from tightrope.service.http.app import ROUTES, Service
from tightrope.service.journal import JournalDamaged, JournalError
from tightrope.service.journal.contract import Journal, Snapshot
from tightrope.service.journal.rows import Row
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from waiting import PATIENCE
from workbench import running, visit, ward


class _Gated(SqliteJournal):
    """Its writer waits for the gate; who reads does not."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.gate = threading.Event()
        self.gate.set()
        self.readers: list[SqliteJournal] = []

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        self.gate.wait(20)
        super().append(rows, snapshots, drop)

    def newest(self, kind: int, before: int, limit: int) -> list[Row]:
        raise AssertionError("the writer's connection was used for a list")

    def reader(self) -> SqliteJournal:
        self.readers.append(super().reader())
        return self.readers[-1]


@pytest.fixture
def journal(tmp_path: Path) -> _Gated:
    return _Gated(tmp_path / "ward.sqlite")


def opened(journal: Journal) -> Experiment:
    experiment = Experiment(ward(), journal)
    experiment.open()
    return experiment


READS = [
    "/v1/decisions?limit=1000",
    "/v1/decisions/visit-1",
    "/v1/outcomes?status=missing",
    "/v1/outcomes?status=late",
    "/v1/outcomes?status=pending",
    "/v1/changes",
    "/v1/snapshots",
    "/v1/rules",
]


def test_reads_are_answered_while_the_writer_is_held_up(journal: _Gated) -> None:
    with running(Service([opened(journal)])) as web, ThreadPoolExecutor(1) as pool:
        for i in range(5):
            web.post("/v1/decisions", content=visit(i))
        journal.gate.clear()
        try:
            url = f"{web.base_url}/v1/decisions"
            held_up = pool.submit(httpx.post, url, content=visit(9), timeout=PATIENCE)
            for path in READS:
                answer = web.get(path, timeout=PATIENCE)
                assert answer.status_code == 200, (path, answer.text)
            assert len(web.get(READS[0]).json()["decisions"]) == 5
            assert not held_up.done()
        finally:
            journal.gate.set()
        assert held_up.result().status_code == 200
        assert web.get(READS[0]).json()["decisions"][0]["event_id"] == "visit-9"
    assert {one.path for one in ROUTES if one.apart} == {
        one.partition("?")[0].replace("visit-1", "{event_id}") for one in READS
    }
    # One for all of these, and one for the check behind the start.
    assert len(journal.readers) <= 2
    assert all(one._connection is None for one in journal.readers), "closed with the service"


def test_what_was_acknowledged_is_read(tmp_path: Path) -> None:
    with running(Service([opened(SqliteJournal(tmp_path / "ward.sqlite"))])) as web:
        for i in range(50):
            web.post("/v1/decisions", content=visit(i))
            shown = web.get(f"/v1/decisions/visit-{i}").json()
            assert (shown["sequence"], shown["pending"]) == (i, True)
            web.post("/v1/outcomes", json={"event_id": f"visit-{i}", "reward": 1, "usage": {"hours": 0.5}})
            shown = web.get(f"/v1/decisions/visit-{i}").json()
            assert (shown["outcome"]["reward"], shown["pending"]) == (1.0, False)
            assert web.get("/v1/decisions?limit=1").json()["decisions"][0]["event_id"] == f"visit-{i}"


@pytest.mark.parametrize(("error", "times"), [(JournalError, 1), (RuntimeError, 2)])
@pytest.mark.usefixtures("quiet")
def test_a_read_that_fails_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], times: int
) -> None:
    journal, left = SqliteJournal(tmp_path / "ward.sqlite"), [times]

    class Shaky(SqliteJournal):
        def find(self, event_ids: Any) -> list[Row]:
            left[0] -= 1
            if left[0] >= 0:
                raise error("gone")
            return super().find(event_ids)

    monkeypatch.setattr(journal, "reader", lambda: Shaky(journal.path, read_only=True))
    with running(Service([opened(journal)])) as web:
        web.post("/v1/decisions", content=visit(1))
        assert web.get("/v1/decisions/visit-1").json()["sequence"] == 0
        assert web.get("/v1/decisions/visit-2").status_code == 404


@pytest.mark.parametrize(
    ("error", "status"), [(JournalError, 503), (RuntimeError, 500), (JournalDamaged, 409)]
)
@pytest.mark.usefixtures("quiet", "impatient")
def test_a_read_that_always_fails_takes_no_decision_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], status: int
) -> None:
    """Neither on a thread of its own nor, where the storage has no second connection, on the writer's."""

    def fail(batch: Any, request: Any) -> Any:
        raise error("always")

    ops = {route.path: route for route in ROUTES if route.path == "/v1/rules"}
    monkeypatch.setitem(ops["/v1/rules"].__dict__, "handler", fail)
    monkeypatch.setitem(ops["/v1/rules"].__dict__, "request", None)
    for journal in (SqliteJournal(tmp_path / "ward.sqlite"), MemoryJournal()):
        with running(Service([opened(journal)])) as web, ThreadPoolExecutor(2) as pool:
            url = f"{web.base_url}/v1/rules"
            reads = [pool.submit(httpx.get, url, timeout=20) for _ in range(12)]
            decisions = [web.post("/v1/decisions", content=visit(i)).status_code for i in range(60)]
            assert decisions == [200] * 60
            if error is not JournalError or isinstance(journal, SqliteJournal):
                assert {one.result().status_code for one in reads} == {status}
            assert web.get("/readyz").status_code == 200


def test_a_program_that_can_not_be_solved_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise SolverError("the matrix is singular")

    monkeypatch.setattr("tightrope.policies.shadow_price.policy.rewards_without_rules", fail)
    experiment = Experiment(ward(policy={"kind": "shadow-price"}), SqliteJournal(tmp_path / "ward.sqlite"))
    experiment.open()
    with running(Service([experiment])) as web:
        answer = web.get("/v1/rules")
    assert answer.status_code == 200
    assert answer.json()["reward"] is None
    assert answer.json()["why"] == "the linear program could not be solved: the matrix is singular"


def test_a_read_that_hangs_is_given_up_and_keeps_no_one_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tightrope.service.experiment.reader_thread._PATIENCE", 0.3)
    monkeypatch.setattr("tightrope.service.experiment.reader_thread._GOODBYE", 0.3)
    journal, gate = SqliteJournal(tmp_path / "ward.sqlite"), threading.Event()

    class Hung(SqliteJournal):
        def find(self, event_ids: Any) -> list[Row]:
            gate.wait(20)
            return super().find(event_ids)

    monkeypatch.setattr(journal, "reader", lambda: Hung(journal.path, read_only=True))
    with running(Service([opened(journal)])) as web:
        web.post("/v1/decisions", content=visit(1))
        answer = web.get("/v1/decisions/visit-1")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert web.post("/v1/decisions", content=visit(2)).status_code == 200
    # The service has stopped while the read still hangs.
    assert not gate.is_set()
    gate.set()


def test_a_read_changes_nothing_under_many_writes(tmp_path: Path) -> None:
    with (
        running(Service([opened(SqliteJournal(tmp_path / "ward.sqlite"))])) as web,
        ThreadPoolExecutor(4) as pool,
    ):

        def write(i: int) -> int:
            return web.post("/v1/decisions", content=visit(i)).status_code

        def read(i: int) -> int:
            path = READS[i % len(READS)].replace("visit-1", "visit-0")
            return web.get(path).status_code

        assert write(0) == 200
        asked = [pool.submit(write if i % 2 else read, i) for i in range(1, 120)]
        assert {one.result() for one in asked} == {200}
