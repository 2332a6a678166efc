"""The hash chain: what is changed, removed or forged in a journal is noticed, on replay and at the start."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
import pytest

from tightrope.service.http import handlers
from tightrope.service.journal import JournalDamaged, JournalError, chain
from tightrope.service.journal.chain import GENESIS
from tightrope.service.journal.entries import Blank, Decided, Learnt
from tightrope.service.journal.heads import Head, HeadFile, read_head
from tightrope.service.journal.packing import digest_of, packed, unpacked_state
from tightrope.service.journal.rows import chained, entry_of, hash_of
from tightrope.service.offline.replay import open_journal, verify
from tightrope.service.requests import (
    DecisionRequest,
    ModeRequest,
    PageQuery,
    RollbackRequest,
    SnapshotRequest,
)
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from workbench import Bench, arms, code, read

FIXTURES = Path(__file__).parents[2] / "fixtures" / "journals"


def live(bench: Bench, numbers: range) -> None:
    for i in numbers:
        read(bench.decide({"event_id": f"e{i}"}))
        bench.learn(f"e{i}", reward=0.25)


def stopped(path: Path, decisions: int = 12) -> Bench:
    """A journal whose service has died: no snapshot at the end."""
    bench = Bench(arms(), SqliteJournal(path))
    live(bench, range(decisions))
    bench.journal.close()
    return bench


def edit(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("head_file", [True, False])
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE journal SET event_id = 'e9' WHERE position = 4", r"columns .* are \(1, 'e9'\)"),
        ("UPDATE journal SET kind = 2 WHERE position = 4", r"columns .* are \(2, 'e1'\)"),
        ("UPDATE journal SET event_id = 'e3' WHERE position = 1", r"columns .* are \(3, 'e3'\)"),
        ("UPDATE journal SET time = time + 1 WHERE position = 4", "row 5 does not follow"),
        (
            "UPDATE journal SET data = (SELECT data FROM journal WHERE position = 6) WHERE position = 4",
            "row 4",
        ),
    ],
)
def test_columns_are_compared_on_replay_and_at_the_start(
    tmp_path: Path, statement: str, words: str, head_file: bool
) -> None:
    """An event whose decision is filed under another id would be decided a second time."""
    path = tmp_path / "arms.sqlite"
    bench = stopped(path)
    edit(path, statement)
    if not head_file:
        path.with_suffix(".head").unlink()
    source = open_journal(path)
    with pytest.raises(JournalDamaged, match=words):
        verify(source)
    source.close()
    with pytest.raises(JournalDamaged, match=words):
        bench.reopened()
    bench.journal.close()


def _forged_outcome(path: Path) -> None:
    """The last outcome with another reward, its hash made anew by one who knows how."""
    journal = SqliteJournal(path)
    journal.open()
    rows = list(journal.rows())
    entry = entry_of(rows[-1])
    assert isinstance(entry, Learnt)
    changed = msgspec.structs.replace(entry, reward=0.75)
    row, _ = chained(rows[-1].position, rows[-1].time, changed, hash_of(rows[-2], None))
    journal.overwrite([row])
    journal.close()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda path: edit(path, "DELETE FROM journal WHERE position > 20"),
            "ends at row 20, but .* of row 25: 5 ",
        ),
        (_forged_outcome, "row 25 of the journal is not the one that .* knows"),
        (lambda path: path.unlink(), "ends at row 0, but .* of row 25: 25 acknowledged"),
    ],
)
def test_what_is_missing_at_the_end_is_refused_at_the_start(
    tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "arms.sqlite"
    bench = stopped(path)
    head = read_head(path.with_suffix(".head"))
    assert head is not None
    damage(path)
    with pytest.raises(JournalDamaged, match=words):
        bench.reopened()
    bench.journal.close()
    assert read_head(path.with_suffix(".head")) == head, "a refusal forgets nothing"
    if path.stat().st_size > 50_000 or "journal" in words:
        source = open_journal(path)
        with pytest.raises(JournalError):
            verify(source)
        path.with_suffix(".head").unlink()
        with pytest.raises(JournalError, match=r"no row has the hash|is empty"):
            verify(source, head=head.hash.hex())
        source.close()


def test_a_write_ahead_log_that_is_lost_is_noticed(tmp_path: Path) -> None:
    """What was acknowledged is in the log until it is brought into the file."""
    path = tmp_path / "arms.sqlite"
    bench = Bench(arms(), SqliteJournal(path))
    live(bench, range(30))
    for name in (
        "arms.sqlite",
        "arms.head",
    ):  # the files as a copy without the log, or a disk that lost it, has them
        (tmp_path / "found").mkdir(exist_ok=True)
        shutil.copy(tmp_path / name, tmp_path / "found" / name)
    found = SqliteJournal(tmp_path / "found" / "arms.sqlite")
    with pytest.raises(JournalDamaged, match="acknowledged entries are lost"):
        Bench(arms(), found)
    found.close()
    bench.experiment.close()


def test_a_head_that_is_behind_is_what_a_crash_leaves(tmp_path: Path) -> None:
    path = tmp_path / "arms.sqlite"
    bench = Bench(arms(), SqliteJournal(path))
    live(bench, range(3))
    behind = path.with_suffix(".head").read_bytes()
    live(bench, range(3, 6))
    bench.journal.close()
    path.with_suffix(".head").write_bytes(behind)
    bench.reopened()
    assert bench.state()["decisions"] == 6
    live(bench, range(6, 7))
    head = read_head(path.with_suffix(".head"))
    assert head is not None
    assert (head.position, head.hash.hex()) == (bench.state()["position"], bench.state()["head"])
    bench.experiment.close()


def test_a_missing_head_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "arms.sqlite"
    bench = stopped(path)
    path.with_suffix(".head").unlink()
    bench.reopened()
    assert "arms.head is missing" in caplog.text
    live(bench, range(20, 21))
    assert path.with_suffix(".head").exists()
    path.with_suffix(".head").write_text("")  # made, and then the process died
    bench.journal.close()
    bench.reopened()
    bench.experiment.close()
    path.with_suffix(".head").write_text("25:abc")
    with pytest.raises(JournalDamaged, match="POSITION:HASH"):
        bench.reopened()
    bench.journal.close()


@pytest.mark.usefixtures("impatient", "quiet")
def test_a_process_notices_that_the_database_under_it_lost_entries() -> None:
    """As after a switch to a replica that was behind."""
    bench = Bench(arms())
    live(bench, range(5))
    assert isinstance(bench.journal, MemoryJournal)
    bench.journal._rows = bench.journal._rows[:-4]
    bench.experiment._fail(JournalError("the connection is gone"))
    assert code(bench.decide({"event_id": "next"})) == (503, "unavailable")
    assert "4 acknowledged entries are lost" in bench.experiment.trouble


def test_a_forged_snapshot_is_not_trusted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "arms.sqlite"
    rule = {"kind": "budget", "name": "fuel", "at_most": 0.9, "hard": True, "total": 5.0}
    bench = Bench(arms(rules=[rule]), SqliteJournal(path), snapshot_every=8)
    for i in range(20):
        bench.decide({"event_id": f"e{i}", "usage": {"fuel": 0.2}})
    alive = bench.digest()
    for snapshot in bench.journal.snapshots():
        saved = bench.journal.snapshot(snapshot.position)
        assert saved is not None
        state = unpacked_state(saved.state)
        state["ledger"]["caps"] = [[name, "0", "0"] for name, *_ in state["ledger"]["caps"]]
        forged = packed(state)
        bench.journal.append([], [saved._replace(state=forged, digest=digest_of(forged))])
    rolled = bench.ask(handlers.roll_back, RollbackRequest(position=snapshot.position, restore="all"))
    assert code(rolled) == (409, "damaged")
    bench.journal.close()
    bench.reopened()
    assert "is not the one that the journal's chain says was taken; using an older one" in caplog.text
    assert bench.digest() == alive
    with pytest.raises(JournalDamaged, match="is not the one that the journal's chain says"):
        verify(bench.journal)
    taken = read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="mine")))
    saved = bench.journal.snapshot(taken["position"])
    assert saved is not None
    bench.journal.append([], [saved._replace(position=saved.position - 3)])
    with pytest.raises(JournalDamaged, match="chain"):
        verify(bench.journal)
    bench.experiment.close()


def test_whoever_keeps_the_head_elsewhere_notices_a_history_made_anew() -> None:
    """All entries again but one, with hashes that fit: only a hash that was kept elsewhere tells."""
    bench = Bench(arms())
    live(bench, range(6))
    seen = verify(bench.journal).head
    live(bench, range(6, 9))
    assert verify(bench.journal, head=seen).head == bench.state()["head"], "it has grown since, and holds it"
    assert verify(bench.journal, head=f"13:{seen}").entries == 19
    other = Bench(arms())
    live(other, range(5))
    live(other, range(6, 10))
    with pytest.raises(JournalDamaged, match="no row has the hash"):
        verify(other.journal, head=seen)


def test_a_row_without_a_hash_is_no_row() -> None:
    bench = Bench(arms())
    live(bench, range(2))
    entry = entry_of(list(bench.journal.rows())[-1])
    assert isinstance(bench.journal, MemoryJournal)
    bench.journal._rows[-1] = bench.journal._rows[-1]._replace(data=msgspec.msgpack.encode(entry))
    with pytest.raises(JournalDamaged, match="row 5 of the journal can't be read"):
        verify(bench.journal)


def test_the_key_is_in_every_entry() -> None:
    bench = Bench(arms())
    deciding, learning = bench.deciding({"event_id": "e"}), bench.learning("e", reward=0.5)
    bench.experiment.process([deciding._replace(by="1a2b"), learning._replace(by="3c4d")])
    snapshot = SnapshotRequest(label="mine")
    bench.experiment.process(
        [deciding._replace(operation=handlers.take_snapshot, request=snapshot, by="5e6f")]
    )
    assert [entry_of(row).by for row in bench.journal.rows()] == [None, "1a2b", "3c4d", "5e6f"]
    verify(bench.journal)
    pausing = ModeRequest(mode="paused")
    bench.experiment.process([deciding._replace(operation=handlers.change_mode, request=pausing, by="7a8b")])
    changes = read(bench.ask(handlers.list_changes, PageQuery()))["changes"]
    assert [(one["kind"], one.get("by")) for one in changes] == [("mode", "7a8b"), ("started", None)]


def test_a_key_that_was_changed_is_noticed() -> None:
    bench = Bench(arms())
    bench.experiment.process([bench.deciding({"event_id": f"e{i}"})._replace(by="1a2b") for i in range(3)])
    assert isinstance(bench.journal, MemoryJournal)
    row = bench.journal._rows[1]
    entry = entry_of(row)
    assert isinstance(entry, Decided)
    changed, _ = chained(
        row.position,
        row.time,
        msgspec.structs.replace(entry, by="3c4d"),
        hash_of(bench.journal._rows[0], None),
    )
    bench.journal._rows[1] = changed
    with pytest.raises(JournalDamaged, match="row 3 does not follow"):
        verify(bench.journal)


def test_changes_by_administrators_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    bench = Bench(arms())
    naming = bench.deciding({"event_id": "e"})._replace(
        operation=handlers.take_snapshot, request=SnapshotRequest(label="mine"), by="5e6f"
    )
    bench.experiment.process([naming])
    assert "experiment 'arms': snapshot, asked for by key 5e6f" in caplog.text


# --- the parts ---


def test_equal_private_parts_have_different_commitments() -> None:
    """Else whoever knows what is possible could try it all."""
    assert chain.seal(GENESIS, b"x", b"y")[1] != chain.seal(GENESIS, b"x", b"y")[1]
    assert chain.seal(GENESIS, b"x", b"")[1] == b""


def test_every_column_is_in_the_hash() -> None:
    entry = Decided(
        event_id="e",
        request=DecisionRequest(),
        fingerprint=b"f",
        number=0,
        action=1,
        trace=b"",
        queue=b"",
    )
    row, head = chained(5, 7, entry, bytes(range(32)))
    assert hash_of(row, bytes(range(32))) == head
    for changed in (
        row._replace(position=6),
        row._replace(time=8),
        row._replace(kind=2),
        row._replace(event_id="f"),
    ):
        assert hash_of(changed, None) != head
    with pytest.raises(JournalDamaged, match="does not follow"):
        hash_of(row, GENESIS)
    blank = row._replace(data=chain.erase(row.data))
    assert hash_of(blank, bytes(range(32))) == head
    assert isinstance(entry_of(blank), Blank)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x93\xc1", b"\x92\xc4\x00", b"\x94\xa1x\xa1x\xa1x\xa1x", b"\x83\x00"]
)
def test_a_row_that_can_not_be_read_is_damage(data: bytes) -> None:
    bench = Bench(arms())
    row = next(iter(bench.journal.rows()))._replace(data=data)
    with pytest.raises(JournalDamaged, match="can't be read"):
        entry_of(row)


def test_a_head_file_keeps_its_size_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "x.head"
    file = HeadFile(path)
    for position in (1, 10**15):
        file.write(Head(position, bytes([position % 256]) * 32))
        assert path.stat().st_size == 86
        assert read_head(path) == file.known
    assert path.stat().st_mode & 0o077 == 0
    file.close()
