"""Stories told on a disk that then loses power, or whose writes and syncs fail, and the verdict on what is found afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import apsw

from faults.power import Change, Disk, PoweredJournal, PowerLost, journal_on
from faults.story import Told, batches, bench_on, tell
from tightrope.service.journal import JournalError
from tightrope.service.journal.contract import Snapshot
from tightrope.service.journal.entries import Decided, Learnt
from tightrope.service.journal.rows import Row, entry_of
from tightrope.service.offline.replay import verify
from workbench import visit


def told_on(disk: Disk, folder: Path, *, length: int, synchronous: str = "FULL", seed: int = 0) -> Told:
    """A story from the first byte of an empty disk to an orderly stop."""
    with journal_on(disk, folder, synchronous=synchronous) as journal:
        bench = bench_on(journal)
        told = tell(bench, length, lambda: len(disk.log), seed)
        bench.experiment.close()
    return told


def losses(
    disk: Disk, told: Told, folder: Path, *, loss: Iterable[float], step: int = 1, synchronous: str = "FULL"
) -> list[str]:
    """What is wrong after a cut at every `step`-th change of the disk."""
    found: list[str] = []
    for n, platter in disk.cuts():
        if n % step:
            continue
        for share in loss:
            files = platter.left(share, seed=n)
            wrong = verdict(Disk(files), told, n, folder, synchronous=synchronous)
            if wrong is not None:
                found.append(f"power lost after change {n}, {share:.0%} of what was not synced gone: {wrong}")
    return found


def verdict(disk: Disk, told: Told, n: int, folder: Path, *, synchronous: str = "FULL") -> str | None:
    """What is wrong with the journal found on `disk` after a cut at change `n` of the story; None if nothing is.

    Right is: every acknowledged batch whole, the batch that was being written whole or not at all, nothing else, and a state that
    follows from the journal and goes on.
    """
    done, writing = told.at(n)
    allowed = {1} if done == 0 else {told.positions[done - 1]}
    labels = [_labels(told, done - 1)] if done else [[]]
    if writing is not None and done:
        allowed.add(told.positions[writing])
        labels.append(_labels(told, writing))
    if writing is None:  # an orderly stop keeps a snapshot, and the journal says so
        allowed.add(told.positions[-1] + 1)
    with journal_on(disk, folder, synchronous=synchronous) as journal:
        try:
            bench = bench_on(journal)
            rows = list(journal.rows())
            if len(rows) not in allowed:
                return f"the journal ends at {len(rows)}, but should at one of {sorted(allowed)}"
            if done and rows[: len(told.rows)] != told.rows[: len(rows)]:
                return "the rows are not those that were written"
            if [one.label for one in journal.snapshots() if one.label is not None] not in labels:
                return "a named snapshot is missing"
            if verify(journal).digest != bench.digest():
                return "the state is not what the journal says"
            if bench.decide(visit(1_000_000)).status != 200:
                return "no further decision can be made"
        except JournalError as error:
            return f"the journal can't be opened: {error}"
    return None


def _labels(told: Told, batch: int) -> list[str]:
    return [one.label for one in told.snapshots[batch] if one.label is not None]


# --- cuts upon cuts ---


def walk(folder: Path, *, lives: int, seed: int, synchronous: str = "FULL") -> list[str]:
    """Life after life on one disk, each ended by a cut at a random change, recovery included; what is wrong at the end of each."""
    chance = random.Random(seed)
    disk = Disk()
    acknowledged: list[Row] = []
    found: list[str] = []
    for life in range(lives):
        left = chance.randint(1, 150)

        def cut(change: Change) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerLost

        disk.before = cut
        with journal_on(disk, folder, synchronous=synchronous) as journal, suppress(PowerLost, JournalError):
            bench = bench_on(journal)
            bench.now += 1000.0 * life
            for batch in batches(bench, 40, seed=seed * 1000 + life):
                bench.experiment.process(batch)
                if disk.dead:
                    break
                acknowledged = list(journal.rows())
        disk = Disk(disk.after(len(disk.log), loss=chance.choice((0.0, 0.3, 0.7, 1.0)), seed=life))
        with journal_on(Disk(disk.first), folder, synchronous=synchronous) as journal:
            try:
                bench = bench_on(journal)
                if list(journal.rows())[: len(acknowledged)] != acknowledged:
                    found.append(f"life {life}: acknowledged rows are missing")
                    break
                if verify(journal).digest != bench.digest():
                    found.append(f"life {life}: the state is not what the journal says")
            except JournalError as error:
                found.append(f"life {life}: the journal can't be opened: {error}")
                break
    return found


# --- errors that the process survives ---


class Careless(PoweredJournal):
    """The control: it takes a failed commit for a good one."""

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        with suppress(JournalError):
            super().append(rows, snapshots, drop)


def survives_error(
    folder: Path,
    *,
    length: int,
    kind: str,
    at: int,
    times: int = 1,
    made: type[PoweredJournal] = PoweredJournal,
) -> tuple[bool, str | None]:
    """Let the `at`-th write or sync of a story fail, `times` in a row; retry what was refused; then lose power.

    Returns whether the error was met, and what was wrong afterwards.
    """
    disk = Disk()
    seen = 0
    met = False

    def fail(change: Change) -> None:
        nonlocal seen, met
        if change.kind == kind:
            seen += 1
            if at <= seen < at + times:
                met = True
                raise apsw.FullError("disk full") if kind == "write" else apsw.IOError("fsync")

    acknowledged: set[str] = set()
    with journal_on(disk, folder, made=made) as journal:
        disk.before = fail
        try:
            bench = bench_on(journal)
        except JournalError:
            return met, None
        for batch in batches(bench, length):
            for _ in range(times + 2):
                answers = bench.experiment.process(batch)
                if {answer.status for answer in answers} != {503}:
                    break
            else:
                return met, "the experiment did not come back"
            acknowledged |= {
                event_id
                for op, answer in zip(batch, answers)
                if answer.status == 200 and (event_id := getattr(op.request, "event_id", None))
            }
        written = list(journal.rows())
        try:
            if verify(journal).digest != bench.digest():
                return met, "the state is not what the journal says"
        except JournalError as error:
            return met, str(error)
        end = len(disk.log)
    if not acknowledged <= {row.event_id for row in written}:
        return met, "acknowledged events are missing"
    for share in (1.0, 0.5):
        cut = Disk(disk.after(end, loss=share))
        with journal_on(cut, folder) as journal:
            try:
                bench = bench_on(journal)
                if list(journal.rows()) != written:
                    return met, "rows that were acknowledged after the error are missing"
                if verify(journal).digest != bench.digest():
                    return met, "the state after the cut is not what the journal says"
            except JournalError as error:
                return met, f"the journal can't be opened: {error}"
    return met, once(written)


def once(rows: Iterable[Row]) -> str | None:
    """Each event decided once, each part of an outcome applied once."""
    counted: Counter[tuple[str, str]] = Counter()
    for row in rows:
        entry = entry_of(row)
        if isinstance(entry, Decided):
            counted[entry.event_id, "decision"] += 1
        elif isinstance(entry, Learnt):
            for part in ("reward", "usage"):
                if getattr(entry, part) is not None:
                    counted[entry.event_id, part] += 1
    twice = [f"{what} of {event_id}" for (event_id, what), count in counted.items() if count > 1]
    return f"applied more than once: {', '.join(twice)}" if twice else None
