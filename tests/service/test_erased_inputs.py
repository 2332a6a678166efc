"""Erased inputs are gone from memory, models, snapshots and files: the raw bytes are searched for them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from secret_visit import SECRET_REWARD, SPECS, erasing, filled, play, secrets, stored, visit
from tightrope.service.http import handlers
from tightrope.service.journal.entries import Blank
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.backup import copy_to_file
from tightrope.service.offline.replay import verify
from tightrope.service.offline.retention import erase_before
from tightrope.service.requests import RollbackRequest
from tightrope.service.storage.sqlite import SqliteJournal
from workbench import Bench, code, read


def test_every_kind_of_model_that_keeps_rows_is_here() -> None:
    kept = {
        name
        for spec in SPECS.values()
        for model in [Bench(spec).experiment.state.policy._reward]  # type: ignore[union-attr]
        for name in model.arrays()
    }
    assert {"rows", "decisions", "kept/decisions", "1/kept/decisions"} <= kept


@pytest.mark.parametrize("name", SPECS)
def test_nothing_of_an_erased_event_is_left_anywhere(name: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    bench = Bench(SPECS[name], SqliteJournal(data / "ward.sqlite"), snapshot_every=15)
    good = filled(bench)
    wanted = secrets(bench)

    def found(folder: Path = data) -> list[bytes]:
        files = [path.read_bytes() for path in folder.iterdir()]
        return [one for one in wanted if any(one in content for content in files)]

    # The control: they are there, in the rows and in snapshots.
    assert len(found()) > 5
    positions = [one.position for one in bench.journal.snapshots() if one.position >= good]
    states = [saved for position in positions if (saved := bench.journal.snapshot(position))]
    assert all(any(one in saved.state for one in wanted[:3]) for saved in states)
    done = read(bench.experiment.process([erasing("visit-13", "visit-7")])[0])
    assert done["erased"] == ["visit-13", "visit-7"]
    assert found() == []
    assert not any(one in content for one in wanted for content in stored(bench.journal))
    assert [one.label for one in bench.journal.snapshots()].count("good") == 1
    (tmp_path / "backup").mkdir()
    copy_to_file(bench.journal, tmp_path / "backup" / "ward.sqlite")
    assert found(tmp_path / "backup") == []
    # It goes on, and a replay from scratch comes out the same, bit for bit: live, restarted, and rolled back to what was purged.
    play(bench, 40, 60)
    assert verify(bench.journal).digest == bench.digest()
    alive = bench.digest()
    bench.journal.close()
    bench.reopened()
    assert bench.digest() == alive
    read(bench.ask(handlers.roll_back, RollbackRequest(position=good, restore="all")))
    play(bench, 60, 70)
    assert verify(bench.journal).digest == bench.digest()
    assert found() == []
    bench.experiment.close()
    assert found() == []


def test_one_erasure_snapshot_is_kept_however_often_something_is_erased(tmp_path: Path) -> None:
    bench = Bench(SPECS["linear"], SqliteJournal(tmp_path / "ward.sqlite"))
    filled(bench)
    sizes = []
    for i in range(10, 16):
        read(bench.experiment.process([erasing(f"visit-{i}")])[0])
        sizes.append((tmp_path / "ward.sqlite").stat().st_size)
        labels = [one.label for one in bench.journal.snapshots()]
        assert len(labels) == 2, "the one that has a name, and the erasure's"
        assert labels[0] == "good"
    assert max(sizes) <= sizes[0] + 4 * 4096
    assert verify(bench.journal).digest == bench.digest()
    bench.experiment.close()


def test_all_that_was_ever_learnt_can_be_erased() -> None:
    for name in ("ensemble", "network", "features", "logistic", "linear"):
        bench = Bench(SPECS[name])
        play(bench, 0, 20)
        assert erase_before(bench.experiment, 1 << 62).entries == 2 * 19
        play(bench, 20, 45)
        assert verify(bench.journal).digest == bench.digest()


def test_refused_outcomes_of_events_that_no_one_knows_are_erased_by_their_id(tmp_path: Path) -> None:
    bench = Bench(SPECS["linear"], SqliteJournal(tmp_path / "ward.sqlite"))
    play(bench, 0, 5)
    assert code(bench.learn("nobody", reward=SECRET_REWARD)) == (404, "unknown")
    play(bench, 5, 10)
    done = read(bench.experiment.process([erasing("nobody", "no one")])[0])
    assert done == {"erased": ["nobody"], "unknown": ["no one"], "entries": 1}
    wanted = struct.pack(">d", SECRET_REWARD)
    assert not any(wanted in path.read_bytes() for path in tmp_path.iterdir())
    assert verify(bench.journal).not_repeated == 0, "nothing depends on what was refused"
    assert bench.journal.snapshots() == [], "so there is nothing to go on from"
    bench.journal.close()
    digest = bench.digest()
    bench.reopened()
    assert bench.digest() == digest
    read(bench.decide({**visit(50), "event_id": "nobody"}))
    bench.experiment.close()


def test_a_round_that_others_share_stays_for_them() -> None:
    bench = Bench(SPECS["linear"])
    same = visit(1)
    for i in range(4):
        read(bench.decide({**same, "event_id": f"twin-{i}"}))
    read(bench.experiment.process([erasing("twin-0")])[0])
    state = bench.experiment.state
    assert state is not None
    memory = state.policy._memory  # type: ignore[attr-defined]
    assert len(memory) == 3
    assert memory.counts[memory.slots[0]] == 3
    assert isinstance(entry_of(bench.journal.find(["twin-0"])[0]), Blank)
