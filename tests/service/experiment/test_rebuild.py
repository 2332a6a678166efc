"""Named snapshots lose what was erased some at a time, and decisions are made in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tightrope.service.experiment import Op
from tightrope.service.experiment.writer_thread import Writer, stop_writers
from tightrope.service.http import handlers
from tightrope.service.journal import JournalError
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.entries import Blank
from tightrope.service.journal.rows import entry_of
from tightrope.service.metrics import Metrics
from tightrope.service.offline.replay import verify
from tightrope.service.offline.retention import erase_events
from tightrope.service.requests import ErasureRequest, PageQuery, RollbackRequest, SnapshotRequest
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from workbench import Bench, code, read, visit, ward

pytestmark = pytest.mark.usefixtures("quiet")
SNAPSHOTS = 6


def filled(journal: Journal | None = None) -> Bench:
    """Named snapshots that all hold visit-0, which waits for its outcome."""
    bench = Bench(ward(), journal)
    for i in range(SNAPSHOTS):
        read(bench.decide(visit(i)))
        read(bench.ask(handlers.take_snapshot, SnapshotRequest(label=f"day {i}")))
    return bench


def erasing(*events: str) -> Op:
    return Op(handlers.erase, ErasureRequest(event_ids=list(events)))


def holding(bench: Bench) -> int:
    """How many snapshots hold visit-0."""
    listed = (bench.journal.snapshot(one.position) for one in bench.journal.snapshots())
    return sum(one is not None and b"visit-0" in one.state for one in listed)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.service.experiment.rebuild.PIECE", 1, raising=False)


@pytest.mark.usefixtures("one_at_a_time")
def test_a_batch_of_decisions_is_made_between_any_two_pieces_of_an_erasure() -> None:
    bench = filled()
    left = [SNAPSHOTS]
    answers = bench.experiment.process([erasing("visit-0"), bench.deciding(visit(100))])
    while bench.experiment.purging:
        left.append(holding(bench))
        answers += bench.experiment.process([bench.deciding(visit(100 + len(left)))])
    assert {answer.status for answer in answers} == {200}
    assert left == [*range(SNAPSHOTS, 0, -1)], "each batch makes one of them anew"
    assert holding(bench) == 0
    assert verify(bench.journal).digest == bench.digest()
    assert [one.label for one in bench.journal.snapshots()][:SNAPSHOTS] == [
        f"day {i}" for i in range(SNAPSHOTS)
    ]
    listed = read(bench.ask(handlers.list_changes, PageQuery()))["changes"]
    assert [one["kind"] for one in listed].count("erased") == 1


@pytest.mark.usefixtures("one_at_a_time")
def test_decisions_are_answered_before_an_erasure_that_came_first() -> None:
    bench, order = filled(), list[str]()

    async def talk() -> None:
        writer = Writer(bench.experiment, Metrics())
        writer.start(asyncio.get_running_loop())
        asked = {"erasure": writer.submit(erasing("visit-0"))}
        asked |= {f"decision {i}": writer.submit(bench.deciding(visit(100 + i))) for i in range(3)}
        for name, future in asked.items():
            future.add_done_callback(lambda _, name=name: order.append(name))
        answers = await asyncio.gather(*asked.values())
        assert {one.status for one in answers} == {200}
        assert holding(bench) == 0, "the erasure is answered when it is through"
        await asyncio.get_running_loop().run_in_executor(None, stop_writers, [writer])

    asyncio.run(talk())
    assert order[-1] == "erasure"


@pytest.mark.usefixtures("one_at_a_time")
def test_an_erasure_that_a_crash_cuts_short_goes_on_after_the_next_start() -> None:
    bench = filled()
    read(bench.experiment.process([erasing("visit-0")])[0])
    assert holding(bench) == SNAPSHOTS - 1
    bench.reopened()
    assert verify(bench.journal).digest == bench.digest()
    while bench.experiment.purging:
        bench.experiment.process([])
    assert holding(bench) == 0
    assert verify(bench.journal).digest == bench.digest()
    bench.reopened()
    assert not bench.experiment.purging


@pytest.mark.usefixtures("one_at_a_time")
def test_a_rollback_does_not_bring_back_what_is_being_erased() -> None:
    bench = filled()
    last = bench.journal.snapshots()[-1].position
    read(bench.experiment.process([erasing("visit-0")])[0])
    read(bench.ask(handlers.roll_back, RollbackRequest(position=last, restore="learnt")))
    assert not any(b"visit-0" in row.data for row in bench.journal.rows() if row.kind == 8)
    read(bench.experiment.process([erasing("visit-1")])[0])
    while bench.experiment.purging:
        bench.experiment.process([])
    assert holding(bench) == 0
    assert verify(bench.journal).digest == bench.digest()


@pytest.mark.usefixtures("one_at_a_time")
def test_a_snapshot_that_can_not_be_read_is_dropped_by_an_erasure() -> None:
    bench = filled()
    assert isinstance(bench.journal, MemoryJournal)
    [bad, *_] = bench.journal.snapshots()
    saved = bench.journal._snapshots[bad.position]
    bench.journal._snapshots[bad.position] = saved._replace(state=saved.state + b"\0")
    erase_events(bench.experiment, ["visit-0"])
    assert bad.position not in [one.position for one in bench.journal.snapshots()]
    assert holding(bench) == 0
    assert verify(bench.journal).digest == bench.digest()


@pytest.mark.usefixtures("impatient")
def test_several_erasures_of_one_batch_are_all_finished_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = filled()
    with monkeypatch.context() as patched:

        def fails(self: Journal, rows: Any) -> None:
            raise JournalError("the power is gone")

        patched.setattr(MemoryJournal, "overwrite", fails)
        answers = bench.experiment.process([erasing("visit-0"), erasing("visit-1"), erasing("visit-1")])
        assert [code(one) for one in answers] == [(503, "unavailable")] * 3
    bench.reopened()
    found = [entry_of(row) for row in bench.journal.find(["visit-0", "visit-1"])]
    assert [type(one) for one in found] == [Blank, Blank]
    assert verify(bench.journal).digest == bench.digest()


def test_a_reader_does_not_hold_decisions_up_and_the_log_is_emptied_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    empty = SqliteJournal._empty_log

    def noted(self: SqliteJournal, patience: int) -> None:
        waits.append(patience)
        empty(self, 0)

    monkeypatch.setattr(SqliteJournal, "_empty_log", noted)
    path = tmp_path / "ward.sqlite"
    bench = filled(SqliteJournal(path))
    reader = SqliteJournal(path, read_only=True)
    reader.open()
    rows = reader.rows()
    next(rows)
    read(bench.experiment.process([erasing("visit-0")])[0])
    log = path.with_name("ward.sqlite-wal")
    assert log.stat().st_size > 0
    assert max(waits) < 6000, "a request is answered within 6 s"
    del rows
    reader.close()
    read(bench.decide(visit(50)))
    assert log.stat().st_size == 0
    bench.experiment.close()
