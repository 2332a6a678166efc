"""Journals after the fact: exports that hold everything, and the hooks of the policy that replay depends on."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

import tightrope as tr
from tightrope.errors import InvalidInput
from tightrope.service.http import handlers
from tightrope.service.journal import JournalError
from tightrope.service.journal.chain import GENESIS
from tightrope.service.journal.entries import Blank, Decided, Expired, Learnt
from tightrope.service.journal.rows import chained, entry_of, hash_of
from tightrope.service.offline.replay import export, open_journal, verify
from tightrope.service.requests import ModeRequest, SnapshotRequest
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from workbench import Bench, arms, measured, visit, ward


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "ward.sqlite"
    bench = Bench(ward(), SqliteJournal(path), expire_after=50.0)
    bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="icu"))
    for i in range(30):
        bench.now += 2.0
        bench.decide(visit(i))
        if i % 2:
            bench.learn(f"visit-{i}", reward=0.1 * i, usage={"hours": 0.5})
    bench.learn("visit-0", reward=1.0)
    bench.ask(handlers.take_snapshot, SnapshotRequest(label="end"))
    bench.experiment.close()
    return path


def test_an_export_holds_every_entry(journal: Path, tmp_path: Path) -> None:
    source = open_journal(journal)
    report = verify(source)
    assert report.snapshots >= 1
    assert export(source, tmp_path / "all.csv") == report.entries
    assert export(source, tmp_path / "all.parquet") == report.entries
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(tmp_path / "all.parquet").to_pylist()
    assert [int(row["position"]) for row in rows] == [row["position"] for row in table]
    decided = [row for row in table if row["kind"] == "decided"]
    assert len(decided) == report.decisions == 30
    assert {row["action"] for row in decided} == {"icu"}
    assert {row["proposed"] for row in decided} <= {"icu", "surgery", "other"}
    assert json.loads(decided[3]["request"])["context"] == {"age": 11.0, "sex": "m"}
    learnt = [row for row in table if row["kind"] == "learnt"]
    assert [row["reward"] for row in learnt] == [0.1 * i for i in range(1, 30, 2)]
    as_text = [row for row in rows if row["kind"] == "learnt"]
    assert [float(row["reward"]) for row in as_text] == [row["reward"] for row in learnt]
    queues = [json.loads(row["queue"]) for row in rows if row["queue"]]
    assert queues == [row["queue"] for row in decided]
    assert {"started", "mode", "expired", "refused"} <= {row["kind"] for row in table}
    with pytest.raises(InvalidInput, match=r"\.csv or \.parquet"):
        export(source, tmp_path / "all.xlsx")
    assert sorted(path.name for path in tmp_path.glob(".*")) == [], "no drafts are left"
    source.close()


def test_a_journal_in_a_database_needs_a_name() -> None:
    with pytest.raises(InvalidInput, match="experiment must be given"):
        open_journal("postgresql://localhost/db")


# --- the hooks of the policy ---


def test_a_deferred_policy_equals_one_that_measures_at_the_same_rounds() -> None:
    random = np.random.default_rng(3)
    inline = tr.PessimisticOptimistic(reward=tr.ArmMeans(3), constraints=2)
    deferred = inline.copy()
    [meter] = deferred.hooks.background()
    meter.deferred = True
    for t in range(1, 130):
        W = random.uniform(-1, 0.5, (3, 2))
        one, other = inline.decide(costs=W), deferred.decide(costs=W)
        assert one.action == other.action
        job = meter.due()
        assert (job is not None) == (t & (t - 1) == 0)
        if job is not None:
            meter.take(job())
        reward = float(random.uniform())
        inline.learn(one.number, reward)
        deferred.learn(other.number, reward)
    for name, array in inline.hooks.state().items():
        np.testing.assert_array_equal(array, deferred.hooks.state()[name], err_msg=name)


def test_nothing_to_defer_where_slater_is_given() -> None:
    policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5)
    assert policy.hooks.background() == []
    fresh = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1)
    [meter] = fresh.hooks.background()
    with pytest.raises(InvalidInput, match="rounds after 0 of 0, but got 1"):
        meter.take([1, 0.5])
    fresh.decide(costs=[[0.5], [-0.25]])
    with pytest.raises(InvalidInput, match="rounds after 1 of 1, but got 1"):
        meter.take([1, 0.5])
    meter.deferred = True
    fresh.decide(costs=[[0.5], [-0.25]])
    with pytest.raises(InvalidInput, match="slater must lie in"):
        meter.take([2, float("nan")])
    assert fresh.slater == 0.25


def test_a_proposal_changes_nothing_and_agrees_with_decide() -> None:
    random = np.random.default_rng(4)
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(3), cost=tr.Ridge(3), constraints=2, slater=0.5, horizon=100
    )
    for _ in range(60):
        phi = random.uniform(-0.5, 0.5, (4, 3))
        before = policy.hooks.state()
        proposed = policy.propose(phi, phi)
        for name, array in policy.hooks.state().items():
            np.testing.assert_array_equal(array, before[name])
        decided = policy.decide(phi, phi)
        assert (proposed.action, proposed.row, proposed.number) == (
            decided.action,
            decided.row,
            decided.number,
        )
        np.testing.assert_array_equal(proposed.explain().values, decided.explain().values)
        policy.learn(decided, float(random.uniform()), random.uniform(-1, 1, 2))
    with pytest.raises(InvalidInput):
        policy.propose(phi * 9, phi)


def test_a_restored_policy_is_deferred_again() -> None:
    bench = Bench(measured())
    bench.decide(visit(1))
    bench.work()
    bench.ask(handlers.take_snapshot, SnapshotRequest(label="x"))
    bench.reopened()
    slater = bench.state()["slater"]
    for i in range(2, 70):
        bench.decide(visit(i))
    assert bench.state()["slater"] == slater


class _Altered(MemoryJournal):
    """A journal in which one row was changed after the fact, and the chain from there on made anew if its author knows how."""

    def __init__(self, journal: MemoryJournal, position: int, *, rechain: bool, **changes: Any) -> None:
        super().__init__()
        head = GENESIS
        for row in journal.rows():
            entry = entry_of(row)
            if row.position == position:
                entry = msgspec.structs.replace(entry, **changes)
            if row.position == position or rechain:
                assert not isinstance(entry, Blank)
                row, head = chained(row.position, row.time, entry, head)
            else:
                head = hash_of(row, None)
            self.append([row])
        for snapshot in journal.snapshots():
            saved = journal.snapshot(snapshot.position)
            assert saved is not None
            self.append([], [saved])


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (Decided, {"action": 2}, "action was"),
        (Decided, {"queue": b"\0" * 16}, "queue was"),
        (Decided, {"number": 7}, "number was"),
        (Learnt, {"reward": 0.123}, "is not the one that its snapshot recorded"),
        (Expired, {"numbers": [999]}, "can't be repeated"),
    ],
)
def test_a_journal_that_was_altered_does_not_verify(kind: type, change: dict[str, Any], words: str) -> None:
    bench = Bench(ward(), expire_after=30.0)
    for i in range(40):
        bench.decide(visit(i))
        if i % 2:
            bench.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.5})
        bench.now += 1.0
    bench.ask(handlers.take_snapshot, SnapshotRequest(label="end"))
    assert isinstance(bench.journal, MemoryJournal)
    rows = [row for row in bench.journal.rows() if isinstance(entry_of(row), kind)]
    head = verify(bench.journal).head
    altered = _Altered(bench.journal, rows[3].position, rechain=True, **change)
    with pytest.raises(JournalError, match=words):
        verify(altered)
    altered = _Altered(bench.journal, rows[3].position, rechain=False, **change)
    with pytest.raises(JournalError, match=rf"{words}|row {rows[4].position}|does not follow"):
        verify(altered)
    assert verify(bench.journal, head=head).head == head
    lost = MemoryJournal()
    lost._rows = [row for row in bench.journal.rows() if row.position != 5]
    with pytest.raises(JournalError, match="rows are missing"):
        verify(lost)


def test_a_spreadsheet_computes_nothing_from_an_export(tmp_path: Path) -> None:
    bench = Bench(arms())
    ids = ['=HYPERLINK("http://x","y")', "+1", "-1", "@SUM(A1)", "'quoted", "plain", "a=b"]
    for event_id in ids:
        bench.decide({"event_id": event_id})
        bench.learn(event_id, reward=-0.5)
    export(bench.journal, tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cells = [value for row in rows for name, value in row.items() if name != "reward"]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    found = [row["event_id"] for row in rows if row["kind"] == "decided"]
    assert found == ["'" + one for one in ids[:5]] + ids[5:]
    assert {row["reward"] for row in rows if row["kind"] == "learnt"} == {"-0.5"}
    export(bench.journal, tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet").to_pylist()
    assert [row["event_id"] for row in table if row["kind"] == "decided"] == ids
