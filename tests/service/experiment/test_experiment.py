"""An experiment without HTTP: batches, Slater's constant in the background, snapshots, failures, the writer's thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tightrope.policies.pessimistic_optimistic import slater as slater_module
from tightrope.service.answer import Answer
from tightrope.service.experiment import Op
from tightrope.service.experiment.experiment import ERRORS_IN_A_ROW
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.experiment.writer_thread import Writer, stop_writers
from tightrope.service.http import handlers
from tightrope.service.http.app import Service
from tightrope.service.journal import JournalDamaged, JournalError
from tightrope.service.journal.contract import Snapshot
from tightrope.service.journal.entries import TookEffect
from tightrope.service.journal.rows import Row, entry_of
from tightrope.service.metrics import Metrics
from tightrope.service.offline.replay import verify
from tightrope.service.requests import EventQuery, PageQuery, SnapshotRequest
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from tightrope.spec import make_spec
from waiting import PATIENCE
from workbench import Bench, arms, code, measured, read, running, visit, ward


def test_slater_is_never_measured_inside_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object, **kwargs: object) -> object:
        raise AssertionError("an LP was solved inside a request")

    bench = Bench(measured())
    with monkeypatch.context() as patched:
        patched.setattr("tightrope.lp.slater", forbidden)
        for i in range(40):
            assert bench.decide(visit(i)).status == 200
    assert bench.state()["slater"] == slater_module.FLOOR
    bench.work()
    # On costs W = (0.6, −0.4) of the two actions the best mixture keeps the mean at −0.4.
    assert bench.state()["slater"] == pytest.approx(0.4)
    assert bench.experiment.background_job() is None, "not due before the number of rounds has doubled"
    for i in range(40, 64):
        bench.decide(visit(i))
    job = bench.experiment.background_job()
    assert job is not None
    with monkeypatch.context() as patched:
        op = job()
        patched.setattr("tightrope.lp.slater", forbidden)
        bench.experiment.process([op])
        assert verify(bench.journal).digest == bench.digest(), "replay takes the value from the journal"
    assert sum(isinstance(entry_of(row), TookEffect) for row in bench.journal.rows()) == 2


def test_old_snapshots_are_dropped_but_not_named_ones() -> None:
    bench = Bench(arms(), snapshot_every=4, max_pending=1)
    bench.ask(handlers.take_snapshot, SnapshotRequest(label="mine"))
    for i in range(200):
        bench.decide({"event_id": str(i)})
    kept = bench.journal.snapshots()
    assert len(kept) == 17
    assert kept[0].label == "mine"
    bench.reopened()
    assert verify(bench.journal).digest == bench.digest()


def test_a_named_snapshot_keeps_its_name_where_one_was_due_at_the_same_position() -> None:
    bench = Bench(arms(), snapshot_every=4)
    naming = Op(handlers.take_snapshot, SnapshotRequest(label="mine"))
    bench.experiment.process([*(bench.deciding({"event_id": f"{i}"}) for i in range(5)), naming])
    assert [(one.position, one.label) for one in bench.journal.snapshots()] == [(6, "mine")]


def test_a_damaged_snapshot_is_not_used() -> None:
    bench = Bench(arms(), snapshot_every=50, max_pending=1)
    for i in range(120):
        bench.decide({"event_id": str(i)})
    alive = bench.digest()
    assert isinstance(bench.journal, MemoryJournal)
    newest = max(bench.journal._snapshots)
    saved = bench.journal._snapshots[newest]
    bench.journal._snapshots[newest] = saved._replace(state=saved.state[:-9] + b"\x01" * 9)
    bench.reopened()
    assert bench.digest() == alive
    with pytest.raises(JournalError, match="does not match its own digest"):
        verify(bench.journal)


class _Failing(MemoryJournal):
    """Fails to write when told to; `after` pretends that the rows got in all the same, as a lost connection may."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.after = False

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        if self.broken:
            if self.after:
                super().append(rows, snapshots, drop)
            raise JournalError("disk full")
        super().append(rows, snapshots, drop)

    def probe(self) -> None:
        if self.broken:
            raise JournalError("disk full")


@pytest.mark.parametrize("after", [False, True])
def test_an_unwritable_journal_fails_closed_and_recovers(
    after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tightrope.service.experiment.experiment._RETRY_SECONDS", 0)
    journal = _Failing()
    bench = Bench(ward(), journal)
    for i in range(10):
        bench.decide(visit(i))
    good = bench.digest()
    journal.broken, journal.after = True, after
    answers = bench.experiment.process([bench.deciding(visit(i)) for i in range(10, 13)])
    assert [code(answer) for answer in answers] == [(503, "unavailable")] * 3
    assert bench.experiment.status == "failing"
    assert code(bench.learn("visit-1", reward=1.0)) == (503, "unavailable")
    assert b"disk" not in answers[0].body
    journal.broken = False
    if not after:
        bench.experiment.process([])
        assert bench.digest() == good
    again = [read(bench.decide(visit(i))) for i in range(10, 13)]
    assert [one["sequence"] for one in again] == [10, 11, 12]
    assert bench.learn("visit-1", reward=1.0, usage={"hours": 0.5}).status == 200
    assert verify(journal).digest == bench.digest()


def failing(op: Op, *, reads: bool = False) -> Op:
    """An operation that ends in a defect of ours, after it has done its work."""
    return Op(lambda batch, request: (op.operation(batch, request), 1 / 0)[0], op.request, reads=reads)


@pytest.mark.usefixtures("quiet", "impatient")
def test_a_defect_harms_its_own_request_alone() -> None:
    bench, other = Bench(ward()), Bench(ward())
    asked = [bench.deciding(visit(i)) for i in range(6)]
    answers = bench.experiment.process(
        [failing(asked[0]), asked[1], failing(asked[2]), asked[3], failing(asked[4]), asked[5]]
    )
    assert [answer.status for answer in answers] == [500, 200, 500, 200, 500, 200]
    same = other.experiment.process([asked[1], asked[3], asked[5]])
    assert answers[1::2] == same
    assert bench.digest() == other.digest()
    assert bench.decide(visit(2)).status == 200
    verify(bench.journal)


@pytest.mark.usefixtures("quiet")
def test_a_read_that_fails_undoes_nothing() -> None:
    bench = Bench(ward())
    bad = failing(Op(handlers.show_state), reads=True)
    answers = bench.experiment.process([bench.deciding(visit(1)), bad, bench.deciding(visit(2))])
    assert [answer.status for answer in answers] == [200, 500, 200]
    assert bench.experiment.status == "ready"
    assert bench.state()["decisions"] == 2


@pytest.mark.usefixtures("quiet", "impatient")
@pytest.mark.parametrize("kind", ["decision", "outcome"])
def test_twenty_errors_in_a_row_take_readiness_away_and_a_success_gives_it_back(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(ward())
    for i in range(40):
        bench.decide(visit(i))
    method = "decide" if kind == "decision" else "learn"
    good, broken = getattr(ExperimentState, method), False

    def sometimes(self: ExperimentState, *args: Any, **kwargs: Any) -> Any:
        entry = good(self, *args, **kwargs)
        if broken and (args[0] if kind == "outcome" else int(args[0].removeprefix("visit-"))) > first:
            raise ZeroDivisionError
        return entry

    monkeypatch.setattr(ExperimentState, method, sometimes)
    first = 100 if kind == "decision" else 1

    with running(Service([bench.experiment])) as web:

        def ask(i: int) -> int:
            if kind == "decision":
                return web.post("/v1/decisions", content=visit(100 + i)).status_code
            return web.post("/v1/outcomes", json={"event_id": f"visit-{i}", "reward": 1}).status_code

        broken = True
        assert [ask(i) for i in range(2, 2 + ERRORS_IN_A_ROW - 1)] == [500] * (ERRORS_IN_A_ROW - 1)
        assert web.get("/readyz").status_code == 200
        assert ask(30) == 500
        answer = web.get("/readyz")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["experiments"] == {"broken": 1}
        assert "20 decisions or outcomes in a row" in answer.json()["why"][0]
        # What says nothing of decisions and outcomes is no success.
        assert web.get("/v1/state").status_code == 200
        assert web.post("/v1/outcomes", json={"event_id": "nobody", "reward": 1}).status_code == 404
        assert web.get("/readyz").status_code == 503
        assert 'tightrope_role{experiment="ward",role="broken"} 1' in web.get("/metrics").text
        assert ask(0) == 200
        assert web.get("/readyz").json() == {"ready": True, "experiments": {"ready": 1}}


def test_concurrent_retries_get_one_answer(tmp_path: Path) -> None:
    """Concurrent retries through the writer: one decision for each event."""
    bench = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"))

    async def main() -> list[bytes]:
        writer = Writer(bench.experiment, Metrics())
        writer.start(asyncio.get_running_loop())
        answers = await asyncio.gather(*(writer.submit(bench.deciding(visit(i % 20))) for i in range(400)))
        await asyncio.to_thread(stop_writers, [writer])
        return [answer.body for answer in answers]

    bodies = asyncio.run(main())
    assert len(set(bodies)) == 20
    journal = SqliteJournal(tmp_path / "ward.sqlite", read_only=True)
    journal.open()
    assert verify(journal).decisions == 20
    journal.close()


def with_writer(bench: Bench, talk: Callable[[Writer], Awaitable[None]]) -> Metrics:
    """Something said to an experiment's writer, which must not take long."""
    metrics = Metrics()

    async def main() -> None:
        writer = Writer(bench.experiment, metrics)
        writer.start(asyncio.get_running_loop())
        async with asyncio.timeout(10):
            await talk(writer)
        await asyncio.to_thread(stop_writers, [writer])

    asyncio.run(main())
    return metrics


@pytest.mark.usefixtures("quiet", "impatient")
def test_an_error_that_no_one_expected_is_answered_and_counted_and_the_writer_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(ward())
    process = bench.experiment.process

    def broken(ops: Sequence[Op]) -> list[Answer]:
        if any(op.request.event_id == "visit-1" for op in ops):
            raise UnicodeEncodeError("latin-1", "☃", 0, 1, "not there")
        return process(ops)

    monkeypatch.setattr(bench.experiment, "process", broken)

    async def talk(writer: Writer) -> None:
        assert (await writer.submit(bench.deciding(visit(1)))).status == 500
        assert writer.alive
        assert (await writer.submit(bench.deciding(visit(2)))).status == 200
        assert writer.status == "ready"

    assert 'writer_errors_total{experiment="ward"} 1' in with_writer(bench, talk).text()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_whose_thread_has_ended_says_so_and_keeps_no_one_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(ward())

    def end(ops: Sequence[Op]) -> list[Answer]:
        raise SystemExit

    async def talk(writer: Writer) -> None:
        assert (writer.alive, writer.status) == (True, "ready")
        monkeypatch.setattr(bench.experiment, "process", end)
        assert (await writer.submit(bench.deciding(visit(1)))).status == 503
        assert (writer.alive, writer.status) == (False, "dead")
        assert (await writer.submit(bench.deciding(visit(2)))).status == 503

    with_writer(bench, talk)
    other = Bench(ward())
    with running(Service([other.experiment])) as web:
        assert [web.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
        monkeypatch.setattr(other.experiment, "process", end)
        assert web.post("/v1/decisions", content=visit(1)).status_code == 503
        assert [web.get(path).status_code for path in ("/healthz", "/readyz")] == [503, 503]


def test_a_storage_that_does_not_come_back_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.service.experiment.writer_thread._ANSWER_SECONDS", 0.3)
    monkeypatch.setattr("tightrope.service.experiment.writer_thread._STOP_SECONDS", 0.5)
    bench, released = Bench(ward()), threading.Event()
    monkeypatch.setattr(bench.journal, "append", lambda *args: released.wait(PATIENCE))

    async def talk(writer: Writer) -> None:
        first = writer.submit(bench.deciding(visit(1)))
        await asyncio.sleep(0.1)
        second = writer.submit(bench.deciding(visit(2)))
        assert [code(one) for one in (await first, await second)] == [(503, "unavailable")] * 2
        assert (writer.alive, writer.status) == (True, "stuck")

    began = time.monotonic()
    with_writer(bench, talk)
    assert time.monotonic() - began < PATIENCE / 2, "neither do callers wait, nor the end"
    released.set()


def test_a_row_that_can_not_be_read_harms_its_own_event_alone() -> None:
    bench = Bench(ward())
    for i in range(5):
        bench.decide(visit(i))
    assert isinstance(bench.journal, MemoryJournal)
    bad = bench.journal._rows[3]._replace(data=b"\xc1" + bench.journal._rows[3].data[1:])
    bench.journal._rows[3] = bad
    bench.journal._by_event["visit-2"] = [bad]
    asked = [bench.deciding(visit(1)), bench.deciding(visit(2)), bench.deciding(visit(9))]
    asked += [Op(handlers.list_decisions, PageQuery()), bench.learning("visit-3", reward=1.0)]
    asked += [bench.learning("visit-2", reward=1.0), Op(handlers.show_decision, EventQuery("visit-2"))]
    answers = bench.experiment.process(asked)
    assert [answer.status for answer in answers] == [200, 409, 200, 200, 200, 409, 409]
    assert code(answers[1]) == code(answers[5]) == code(answers[6]) == (409, "damaged")
    listed = {one["event_id"]: one for one in read(answers[3])["decisions"]}
    place = {"position": bad.position, "time": bad.time / 1e6}
    assert listed.pop("visit-2") == {"event_id": "visit-2", **place, "damaged": True}
    assert {one["name"] for one in listed.values()} <= {"icu", "surgery", "other"}
    assert len(listed) == 4
    assert bench.experiment.status == "ready"
    with pytest.raises(JournalDamaged, match="row 4 of the journal can't be read"):
        verify(bench.journal)


def test_what_the_policy_cant_do_is_logged_once_and_stands_in_the_state(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spec = make_spec(
        {
            "name": "torn",
            "actions": ["a", "b"],
            "rule": [
                {"kind": "share", "action": "a", "at_least": 0.6},
                {"kind": "capacity", "action": "a", "at_most": 0.6},
                {"kind": "budget", "name": "hours", "at_most": 0.3, "range": [0.0, 1.0]},
            ],
        }
    )
    bench = Bench(spec)
    for i in range(1100):
        bench.decide({"event_id": str(i), "usage": {"hours": {"a": 0.8, "b": 0.1}}})
        bench.learn(str(i), reward=0.5)
    shown = {one["kind"]: one for one in bench.state()["concerns"]}
    assert set(shown) == {"rules that can't be met", "total above zero"}
    assert all("policy.conflict()" in one["remedy"] for one in shown.values())

    def logged() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]

    assert len(logged()) == 2
    assert all(one.startswith("experiment 'torn': ") for one in logged())
    assert "no choice of actions keeps this along with the other rules" in logged()[0]
    digest = bench.digest()
    bench.reopened()
    assert bench.digest() == digest
    bench.decide({"event_id": "more", "usage": {"hours": {"a": 0.8, "b": 0.1}}})
    assert "rules that can't be met" in {one["kind"] for one in bench.state()["concerns"]}
    assert verify(bench.journal).digest == bench.digest()


WARM = """
import sys
from numba.core.dispatcher import Dispatcher
from tightrope.service.requests import DecisionRequest, OutcomeRequest
from tightrope.service.experiment import Experiment, Op
from tightrope.service.http.handlers import decide, learn
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.experiment.writer_thread import Writer, stop_writers
from tightrope.spec import make_spec

def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("tightrope.kernels")]
    found = {one for module in modules for one in vars(module).values() if isinstance(one, Dispatcher)}
    return {(one.py_func.__name__, signature) for one in found for signature in one.overloads}

rule = {"kind": "budget", "name": "hours", "at_most": 0.5, "range": [0.0, 1.0]}
for seen, used in (("before", None), ("after", {"hours": 0.25})):
    rules = [rule | {"seen": seen} | ({"usage": {"a": 0.2, "b": 0.9}} if seen == "before" else {})]
    context = {"age": {"type": "number", "min": 0, "max": 100}}
    one = Experiment(make_spec({"name": "x", "actions": ["a", "b"], "context": context, "rule": rules}), MemoryJournal())
    one.warm_up()
    one.open()
    known = compiled()
    assert known
    for i in range(40):
        for op in (
            Op(decide, DecisionRequest(event_id=f"{i}", context={"age": 40.0 + i})),
            Op(learn, OutcomeRequest(event_id=f"{i}", reward=i % 2, usage=used)),
        ):
            [answer] = one.process([op])
            assert answer.status == 200, answer
    print(sorted({name for name, _ in compiled() - known}))
"""


def test_what_rounds_need_is_compiled_before_the_first_caller_comes() -> None:
    done = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n[]\n"
