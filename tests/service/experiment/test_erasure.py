"""Erasure and retention: inputs are gone for good, the chain and what follows still verify."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pytest

from tightrope.service.experiment import Op
from tightrope.service.http import handlers
from tightrope.service.journal import JournalDamaged, JournalError
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.entries import Blank, Decided
from tightrope.service.journal.rows import entry_of, erased
from tightrope.service.offline.replay import export, open_journal, verify
from tightrope.service.offline.retention import erase_before, erase_events, reopened
from tightrope.service.requests import ErasureRequest, EventQuery, PageQuery, RollbackRequest, SnapshotRequest
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from workbench import Bench, arms, code, read, ward

FIXTURES = Path(__file__).parents[2] / "fixtures" / "journals"
SECRET = 77.03125  # an age whose eight bytes occur nowhere else
COSTS = 0.4140625


def visit(i: int, age: float = 50.0) -> dict[str, Any]:
    return {"event_id": f"visit-{i}", "context": {"age": age, "sex": "f"}}


def filled(journal: Journal | None = None, **options: Any) -> Bench:
    """Visits 0 to 19; 3 is the one to erase, 4 waits for its costs, 5 for all."""
    bench = Bench(ward(), journal, **options)
    bench.now = time.time() - 10_000.0  # `reopened` has the machine's clock
    for i in range(20):
        read(bench.decide(visit(i, SECRET if i == 3 else 50.0 + i)))
        if i not in (4, 5):
            bench.learn(f"visit-{i}", reward=0.5, usage={"hours": COSTS if i == 3 else 0.25})
    bench.learn("visit-4", reward=1.0)
    return bench


def erasing(*events: str) -> Op:
    return Op(handlers.erase, ErasureRequest(event_ids=list(events)))


def packed(value: float) -> bytes:
    return struct.pack(">d", value)  # as MessagePack has it


def test_nothing_of_an_erased_event_is_left_in_the_files(tmp_path: Path) -> None:
    path = tmp_path / "ward.sqlite"
    bench = filled(SqliteJournal(path))

    def found(value: float) -> bool:
        return any(packed(value) in file.read_bytes() for file in tmp_path.iterdir())

    assert found(SECRET)
    assert found(COSTS)
    row = next(row for row in bench.journal.find(["visit-3"]) if isinstance(entry_of(row), Decided))
    entry = entry_of(row)
    assert isinstance(entry, Decided)
    done = read(bench.experiment.process([erasing("visit-3", "nobody")])[0])
    assert done == {"erased": ["visit-3"], "unknown": ["nobody"], "entries": 2}
    assert not found(SECRET)
    assert not found(COSTS)
    for secret in (entry.fingerprint, entry.trace):
        assert not any(secret in file.read_bytes() for file in tmp_path.iterdir())
    bench.journal.close()
    assert not found(SECRET)


def test_the_chain_holds_and_the_replay_goes_on_at_the_next_snapshot() -> None:
    bench = filled()
    before = verify(bench.journal)
    read(bench.experiment.process([erasing("visit-3")])[0])
    for i in range(20, 30):
        read(bench.decide(visit(i)))
    report = verify(bench.journal, head=before.head)
    assert report.digest == bench.digest()
    assert (report.erased, report.snapshots) == (2, 1)
    first = bench.journal.find(["visit-3"])[0].position
    taken = bench.journal.snapshots()[-1].position
    assert report.not_repeated == taken - first + 1, "from the erased entry on to the snapshot after it"
    assert isinstance(bench.journal, MemoryJournal)
    damaged = bench.journal._rows[taken + 3]
    bench.journal._rows[taken + 3] = damaged._replace(event_id="other")
    with pytest.raises(JournalDamaged, match="its columns"):
        verify(bench.journal)
    bench.journal._rows[taken + 3] = damaged
    between = bench.journal._rows[first + 5]
    bench.journal._rows[first + 5] = between._replace(time=between.time + 1)
    with pytest.raises(JournalDamaged, match="does not follow"):
        verify(bench.journal)


def test_an_erased_event_is_not_decided_again() -> None:
    bench = filled()
    read(bench.experiment.process([erasing("visit-3", "visit-5")])[0])
    decisions = bench.state()["decisions"]
    for event in ("visit-3", "visit-5"):
        assert code(bench.decide({"event_id": event, "context": {"age": 1, "sex": "m"}})) == (410, "erased")
        assert code(bench.learn(event, reward=0.5)) == (410, "erased")
        assert code(bench.ask(handlers.show_decision, EventQuery(event_id=event))) == (410, "erased")
    assert bench.state()["decisions"] == decisions
    listed = read(bench.ask(handlers.list_decisions, PageQuery(limit=100)))["decisions"]
    assert [one["sequence"] for one in listed if one.get("erased")] == [5, 3]
    assert bench.state()["outcomes"]["pending"] == 1, "visit-4; 5 is waited for no longer"
    assert read(bench.experiment.process([erasing("visit-3")])[0])["entries"] == 0
    assert code(bench.experiment.process([erasing("nobody")])[0]) == (404, "unknown")


def test_a_restart_follows_an_erasure(tmp_path: Path) -> None:
    bench = filled(SqliteJournal(tmp_path / "ward.sqlite"))
    for event in ("visit-19", "visit-3", "visit-4"):
        read(bench.experiment.process([erasing(event)])[0])
    alive = bench.digest()
    bench.journal.close()
    bench.reopened()
    assert bench.digest() == alive
    bench.learn("visit-5", reward=0.5, usage={"hours": 0.5})
    assert verify(bench.journal).digest == bench.digest()
    bench.experiment.close()


@pytest.mark.usefixtures("impatient", "quiet")
def test_an_erasure_that_was_cut_short_is_finished_at_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = filled()
    with monkeypatch.context() as patched:

        def fails(self: Journal, rows: Any) -> None:
            raise JournalError("the power is gone")

        patched.setattr(MemoryJournal, "overwrite", fails)
        assert bench.experiment.process([erasing("visit-3")])[0].status == 503
        assert [type(entry_of(row)) for row in bench.journal.find(["visit-3"])].count(Blank) == 0
    bench.reopened()
    assert [type(entry_of(row)) for row in bench.journal.find(["visit-3"])] == [Blank, Blank]
    assert verify(bench.journal).erased == 2


def test_an_entry_that_is_blank_without_a_word_is_damage() -> None:
    bench = filled(snapshot_every=10)
    bench.journal.overwrite([erased(bench.journal.find(["visit-3"])[1])])
    with pytest.raises(JournalDamaged, match="was erased, but no entry says so"):
        verify(bench.journal)


def test_snapshots_and_rollbacks_lose_what_was_pending_in_them() -> None:
    bench = Bench(ward(), snapshot_every=10)
    read(bench.decide(visit(0, SECRET)))
    for i in range(1, 8):
        read(bench.decide(visit(i)))
    good = read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="good")))["position"]
    for i in range(8, 30):
        read(bench.decide(visit(i)))
        bench.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.5})
    read(bench.ask(handlers.roll_back, RollbackRequest(position=good, restore="learnt")))
    bench.learn("visit-1", reward=0.5)

    def states() -> list[bytes]:
        held = [bench.journal.snapshot(one.position) for one in bench.journal.snapshots()]
        return [one.state for one in held if one is not None]

    assert all(b"visit-0" in state for state in states())
    assert len(states()) > 2
    read(bench.experiment.process([erasing("visit-0")])[0])
    assert not any(b"visit-0" in state for state in states())
    assert bench.journal.snapshots()[0].label == "good"
    rolled = [entry_of(row) for row in bench.journal.rows() if row.kind == 8]
    assert isinstance(rolled[0], Blank)
    assert verify(bench.journal).digest == bench.digest()
    read(bench.ask(handlers.roll_back, RollbackRequest(position=good, restore="learnt")))
    assert verify(bench.journal).digest == bench.digest()
    bench.reopened()


def test_outcomes_that_were_refused_are_erased_too() -> None:
    bench = filled()
    bench.learn("visit-3", reward=0.875)
    read(bench.experiment.process([erasing("visit-3")])[0])
    [refused] = [entry_of(row) for row in bench.journal.rows() if row.kind == 5]
    assert isinstance(refused, Blank)
    assert refused.reason == "differs"
    assert verify(bench.journal).digest == bench.digest()


def test_who_erased_what_is_in_the_journal() -> None:
    bench = filled()
    bench.experiment.process([erasing("visit-3")._replace(by="1a2b")])
    changes = read(bench.ask(handlers.list_changes, PageQuery()))["changes"]
    [entry] = [one for one in changes if one["kind"] == "erased"]
    assert (entry["by"], entry["event_ids"]) == ("1a2b", ["visit-3"])


def test_an_event_that_is_decided_and_erased_at_once() -> None:
    bench = filled()
    deciding = bench.deciding(visit(50))
    answers = bench.experiment.process([deciding, erasing("visit-50"), deciding])
    assert [answer.status for answer in answers] == [200, 200, 410]
    assert isinstance(entry_of(bench.journal.find(["visit-50"])[0]), Blank)
    assert verify(bench.journal).digest == bench.digest()


def test_old_entries_go_to_an_archive(tmp_path: Path) -> None:
    path, archive = tmp_path / "data" / "ward.sqlite", tmp_path / "2024.sqlite"
    bench = filled(SqliteJournal(path))
    bench.learn("nobody", reward=0.875)
    before = verify(bench.journal)
    bench.now += 1000.0
    until = int(bench.now * 1e6)
    for i in range(20, 25):
        read(bench.decide(visit(i)))
    bench.experiment.close()
    experiment = reopened(SqliteJournal(path))
    found = erase_before(experiment, until, archive)
    experiment.close()
    assert found.archive is not None
    assert (found.entries, found.left) == (18 * 2 + 1, 2), (
        "two are still waited for; one outcome was no one's"
    )
    source = open_journal(path)
    report = verify(source, head=before.head)
    assert report.erased == found.entries
    assert [type(entry_of(row)) is Blank for row in source.find(["visit-0", "visit-4", "visit-20"])] == [
        *[True] * 2,
        *[False] * 3,
    ]
    export(source, tmp_path / "all.csv")
    source.close()
    kept = open_journal(archive)
    assert verify(kept, head=before.head).erased == 0, "the archive holds it all, and is the same history"
    kept.close()
    bench.reopened()
    assert code(bench.decide(visit(0))) == (410, "erased")
    bench.learn("visit-4", usage={"hours": 0.5})
    assert verify(bench.journal).digest == bench.digest()
    bench.experiment.close()
    again = reopened(SqliteJournal(path))
    assert erase_events(again, ["visit-20"]).entries == 1
    again.close()


def test_what_was_reserved_for_an_erased_event_stays_used() -> None:
    rule = {
        "kind": "budget",
        "name": "hours",
        "at_most": 0.9,
        "range": [0, 1],
        "seen": "after",
        "hard": True,
        "total": 9.0,
    }
    bench = Bench(arms(rules=[rule]))
    for i in range(3):
        read(bench.decide({"event_id": f"e{i}"}))
    read(bench.experiment.process([erasing("e1")])[0])
    assert bench.state()["hard_caps"][0]["used"] == 3.0
    assert bench.state()["outcomes"]["pending"] == 2
    assert verify(bench.journal).digest == bench.digest()


def test_entries_without_their_inputs_are_less_than_half_as_long() -> None:
    bench = Bench(ward())
    for i in range(60):
        read(bench.decide(visit(i)))
        bench.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.5})
    before = sum(len(row.data) for row in bench.journal.rows())
    assert erase_before(bench.experiment, 1 << 62).entries == 120
    assert sum(len(row.data) for row in bench.journal.rows()) < 0.5 * before
