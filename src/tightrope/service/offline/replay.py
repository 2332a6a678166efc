"""Journals after the fact: verify that they replay to what they say, and export them."""

from __future__ import annotations

import csv
import datetime
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from tightrope.errors import InvalidInput
from tightrope.extras import explained
from tightrope.files import replacing
from tightrope.frames import Library, made_frame
from tightrope.service.experiment.rebuild import trust_recorded
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.journal import JournalDamaged, JournalError, entries
from tightrope.service.journal.audit import ChainWalk
from tightrope.service.journal.chain import GENESIS
from tightrope.service.journal.contract import Journal, bound_snapshots, fault_of, row_at
from tightrope.service.journal.heads import Head, read_head, require_head
from tightrope.service.journal.rows import Row, entry_of, hash_of, tag_of
from tightrope.service.storage import open_journal as open_journal


@dataclass(frozen=True)
class Report:
    """What `verify` checked; all of it was, bit for bit, as recorded."""

    name: str
    entries: int
    decisions: int
    outcomes: int
    # How many recorded states the replay was compared with.
    snapshots: int
    # SHA-256 of the state at the end.
    digest: str
    # The hash of the last row: keep it elsewhere, and nobody can change the journal up to here unnoticed.
    head: str
    # Rows whose personal part was erased, and rows that could not be repeated because they come between one and the next whole
    # snapshot.
    erased: int
    not_repeated: int
    # The position of the head, kept beside the journal or on this machine, that was compared; None if there is none.
    known: int | None = None


def verify(
    journal: Journal,
    *,
    head: str | None = None,
    progress: Callable[[int], None] | None = None,
    trust: bool = False,
) -> Report:
    """Replay a journal from its first entry, and compare every decision and every snapshot with what was recorded.

    Each row must carry the hash of the one before it. Where inputs were erased the chain is still checked, and the replay continues
    at the next snapshot whose digest is in the chain. The journal must be open. `JournalDamaged` names the first row or snapshot
    that does not come out as recorded, and what differs.

    Parameters
    ----------
    head : str, optional
        A hash from `tightrope replay`, `/v1/state` or an earlier report: one of the rows must have it.
    progress : callable, optional
        Called with the position from time to time.
    trust : bool
        Whether classes of your own that the journal names may run: see `tightrope.trust`.
    """
    if trust:
        trust_recorded(journal)
    kept = None if journal.head_file is None else read_head(journal.head_file)
    if kept is not None and journal.last() < kept.position:
        require_head(journal, kept, str(journal.head_file))
    walk = _Walk(journal, None if head is None else head.rpartition(":")[2].lower())
    for row in journal.rows():
        walk.step(row)
        if progress is not None and row.position % 1000 == 0:
            progress(row.position)
    report = walk.end()
    if kept is not None:
        require_head(journal, kept, str(journal.head_file))
        report = replace(report, known=kept.position)
    return report


class _Walk:
    """A replay in progress. `state` is None from an erased entry on until a snapshot restores it."""

    def __init__(self, journal: Journal, wanted: str | None) -> None:
        self.journal = journal
        self.wanted = wanted
        self.recorded = {snapshot.position: snapshot.digest for snapshot in journal.snapshots()}
        self.bound = bound_snapshots(journal)
        self.state: ExperimentState | None = None
        self.chain = ChainWalk()
        self.config: entries.Started | None = None
        self.decisions = self.outcomes = self.compared = self.not_repeated = 0

    def step(self, row: Row) -> None:
        before = self.chain.head
        entry = self.chain.step(row)
        if row.position == 1:
            self.state = ExperimentState.begin(row)
        elif isinstance(entry, entries.Blank) and entry.kind != "refused":
            self.state = None
        elif self.state is not None:
            assert self.state.head == before
            self.state.replay(row)
        self.decisions += tag_of(row) == "decided"
        self.outcomes += tag_of(row) == "learnt"
        self.not_repeated += self.state is None
        if isinstance(entry, entries.Started):
            self.config = entry
        if self.wanted == self.chain.head.hex():
            self.wanted = None
        if row.position in self.recorded:
            self._compare()

    def end(self) -> Report:
        position, head = self.chain.position, self.chain.head.hex()
        if position == 0:
            raise JournalError("the journal is empty.")
        last = max(self.recorded, default=0)
        if last > position:
            raise JournalDamaged(
                f"there is a snapshot of position {last}, but the journal ends at {position}."
            )
        self.chain.end()
        windows = None if self.state is None else self.state.ledger.windows
        if windows is not None and (wrong := windows.faults()):
            raise JournalDamaged(f"reservations do not add up: {'; '.join(wrong[:3])}.")
        if self.wanted is not None:
            raise JournalDamaged(
                f"no row has the hash {self.wanted}: rows are missing at the end, or were changed. "
                f"The journal ends at row {position} with {head}."
            )
        if self.state is None:
            raise JournalDamaged("inputs were erased, and no whole snapshot follows: the state is lost.")
        return Report(
            self.state.spec.name,
            position,
            self.decisions,
            self.outcomes,
            self.compared,
            self.state.snapshot()[1],
            head,
            len(self.chain.blank),
            self.not_repeated,
        )

    def _compare(self) -> None:
        at = self.chain.position
        saved = self.journal.snapshot(at)
        if saved is None:  # dropped in the meantime
            return
        fault = fault_of(saved, self.bound)
        if fault is not None:
            raise JournalDamaged(f"the snapshot at position {at} {fault}.")
        if self.state is not None:
            if self.state.snapshot()[1] != saved.digest:
                raise JournalDamaged(f"the state at position {at} is not the one that its snapshot recorded.")
        elif _as_taken(self.journal, at, saved.digest):
            assert self.config is not None
            self.state = ExperimentState.of(self.config)
            self.state.restore(saved.state, saved.position, self.chain.head)
        else:  # rewritten after an erasure, but later entries were made with the erased data
            return
        self.compared += 1


def _as_taken(journal: Journal, position: int, digest: str) -> bool:
    row = row_at(journal, position + 1)
    entry = None if row is None else entry_of(row)
    return isinstance(entry, entries.Snapshotted) and (entry.of, entry.digest) == (position, digest)


def export(journal: Journal, path: str | os.PathLike[str]) -> int:
    """Write all entries to a `.csv` or `.parquet` file, one row each, and return how many.

    Columns: position, time, kind, event_id, sequence, action, probability, probabilities, proposed, arm, repeats, request, reward,
    usage, queue, detail, by. What is not one number or text is JSON, but for `queue`, which is a list of numbers in Parquet. In
    CSV, a text that a spreadsheet would take for a formula, or that begins with ', gets a ' in front.
    """
    target = Path(path)
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    if target.suffix not in writers:
        raise InvalidInput(field="path", must="end in .csv or .parquet", got=target.name)
    with replacing(target, private=True) as draft:
        return writers[target.suffix](_flat(journal), draft)


def to_frame(journal: Journal, library: Library = "pandas") -> Any:
    """All entries as a pandas or polars DataFrame: the columns of `export`, with `time` in UTC."""
    begin = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    rows = [{**row, "time": begin + datetime.timedelta(microseconds=row["time"])} for row in _flat(journal)]
    return made_frame(rows or {name: [] for name in _COLUMNS}, library)


def copy_journal(source: Journal, target: Journal) -> Head:
    """Copy rows and snapshots to an empty journal, checking the chain on the way, even while the source is being written."""
    if target.last():
        raise JournalError("the journal to copy to is not empty.")
    # Snapshots first, so that the rows about them are copied too, even while someone writes.
    snapshots = source.snapshots()
    rows, position, head = source.rows(), 0, GENESIS
    while page := list(itertools.islice(rows, 5000)):
        for row in page:
            position, head = row.position, hash_of(row, head)
        target.append(page)
    for snapshot in snapshots:
        saved = source.snapshot(snapshot.position)
        if saved is not None:  # else it was dropped in the meantime
            target.append([], [saved])
    return Head(position, head)


_COLUMNS: Final = (
    *("position", "time", "kind", "event_id", "sequence", "action", "probability", "probabilities"),
    *("proposed", "arm", "repeats", "request", "reward", "usage", "queue", "detail", "by"),
)


def _flat(journal: Journal) -> Iterator[dict[str, Any]]:
    actions: list[str] = []
    for row in journal.rows():
        entry = entry_of(row)
        if isinstance(entry, entries.Started):
            actions = entry.spec["actions"]
        told = msgspec.structs.asdict(entry)
        chosen = {name: told.get(name) for name in ("action", "proposed")}
        flat = dict.fromkeys(_COLUMNS) | {name: told.get(name) for name in ("event_id", "reward", "by")}
        flat |= {name: None if one is None else actions[one] for name, one in chosen.items()}
        flat |= {"position": row.position, "time": row.time, "kind": tag_of(row)}
        flat |= {"sequence": told.get("number"), "usage": _text(told.get("usage"))}
        flat["detail"] = _detail(entry, actions)
        if isinstance(entry, entries.Decided):
            offered = range(len(actions)) if entry.offered is None else entry.offered
            chances = entries.named_probabilities(entry, actions, offered)
            flat |= {"probability": entry.probability, "probabilities": _text(chances)}
            if entry.assigned is not None:
                flat |= {"arm": entry.assigned.arm, "repeats": entry.assigned.repeats}
            flat["request"] = _text(msgspec.to_builtins(entry.request))
            flat["queue"] = np.frombuffer(entry.queue).tolist()
        yield flat


def _detail(entry: entries.Entry, actions: Sequence[str]) -> str | None:
    """The parts of an entry that have no column of their own."""
    match entry:
        case entries.Blank():
            return "its inputs were erased"
        case entries.Refused():
            return entry.reason
        case entries.Started():
            return _text(msgspec.to_builtins(entry))
        case entries.Snapshotted():
            return _text({"position": entry.of, "digest": entry.digest, "label": entry.label})
        case entries.Erased():
            return _text({"rows": entry.rows, "event_ids": entry.event_ids})
        case entries.Expired():
            return _text({"sequences": entry.numbers, "event_ids": entry.event_ids})
        case entries.TookEffect():
            numbers = [one for one in entry.result if not isinstance(one, bytes)]
            return _text({"work": entry.work, "result": numbers})
        case entries.ModeChanged():
            default = None if entry.default is None else actions[entry.default]
            return _text({"mode": entry.mode, "default": default})
        case entries.WarmStarted():
            return _text({"file": entry.file, "sha256": entry.sha256, "rows": entry.rows})
        case entries.RolledBack():
            return _text({"position": entry.position, "restore": entry.restore})
    return None


# What a spreadsheet takes for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "'")


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)


def _write_csv(rows: Iterator[dict[str, Any]], path: Path) -> int:
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS)
        writer.writeheader()
        for row in rows:
            row["queue"] = _text(row["queue"])
            for name in ("event_id", "action", "proposed", "by"):
                row[name] = _no_formula(row[name])
            for name in ("reward", "probability"):
                row[name] = None if row[name] is None else repr(row[name])
            writer.writerow(row)
            count += 1
    return count


def _no_formula(text: str | None) -> str | None:
    """Put an apostrophe before what a spreadsheet would take for a formula, because callers choose these texts.

    >>> _no_formula("=HYPERLINK(1)"), _no_formula("visit-1")
    ("'=HYPERLINK(1)", 'visit-1')
    """
    return f"'{text}" if text is not None and text.startswith(_FORMULA) else text


def _write_parquet(rows: Iterator[dict[str, Any]], path: Path) -> int:
    with explained("an export to Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    numbers = {"position": pa.int64(), "sequence": pa.int64(), "repeats": pa.int64(), "reward": pa.float64()}
    numbers["probability"] = pa.float64()
    types = {**numbers, "time": pa.timestamp("us", tz="UTC"), "queue": pa.list_(pa.float64())}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in _COLUMNS])
    count = 0
    with pq.ParquetWriter(path, schema) as writer:
        while page := list(itertools.islice(rows, 10_000)):
            writer.write_table(pa.Table.from_pylist(page, schema=schema))
            count += len(page)
    return count
