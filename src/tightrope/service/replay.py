"""Journals after the fact: verify that they replay to what they say, and export them.

>>> from tightrope.service.bodies import DecisionRequest
>>> from tightrope.service.experiment import Experiment, Op
>>> from tightrope.service.operations import decide
>>> from tightrope.service.storage.memory import MemoryJournal
>>> from tightrope.spec import make_spec
>>> journal = MemoryJournal()
>>> beds = Experiment(make_spec({"name": "beds", "actions": ["icu", "other"]}), journal)
>>> beds.open()
>>> answers = beds.process([Op(decide, DecisionRequest()) for _ in range(3)])
>>> report = verify(journal)
>>> report.entries, report.decisions
(4, 3)
"""

from __future__ import annotations

import csv
import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from tightrope.errors import InvalidInput
from tightrope.files import replacing
from tightrope.service.experiment_state import ExperimentState
from tightrope.service.journal import (
    Decided,
    Expired,
    Journal,
    JournalDamaged,
    JournalError,
    Learnt,
    Measured,
    ModeChanged,
    Refused,
    RolledBack,
    Started,
    entry_of,
    named_probabilities,
)
from tightrope.service.storage import open_journal as open_journal


@dataclass(frozen=True)
class Report:
    """What `verify` went through; all of it came out, bit for bit, as it was recorded."""

    name: str
    entries: int
    decisions: int
    outcomes: int
    # Recorded states that the replay was compared with.
    snapshots: int
    # SHA-256 of the state at the end.
    digest: str


def verify(journal: Journal, *, progress: Callable[[int], None] | None = None) -> Report:
    """Replay a journal from its first entry, and compare every decision and every snapshot with what was recorded.

    The journal must be open; `progress`, if given, is called with the position now and then.

    Raises
    ------
    JournalDamaged
        Names the first row or snapshot that does not come out as recorded, and what differs.
    """
    recorded = {snapshot.position: snapshot.digest for snapshot in journal.snapshots()}
    rows = journal.rows()
    first = next(rows, None)
    if first is None:
        raise JournalError("the journal is empty.")
    state = ExperimentState.begin(first)
    decisions = outcomes = 0
    compared = _compare(state, recorded, journal)
    for row in rows:
        entry = state.replay(row)
        decisions += isinstance(entry, Decided)
        outcomes += isinstance(entry, Learnt)
        compared += _compare(state, recorded, journal)
        if progress is not None and row.position % 1000 == 0:
            progress(row.position)
    beyond = [position for position in recorded if position > state.position]
    if beyond:
        end = state.position
        raise JournalDamaged(f"there is a snapshot of position {beyond[0]}, but the journal ends at {end}.")
    return Report(state.spec.name, state.position, decisions, outcomes, compared, state.snapshot()[1])


def export(journal: Journal, path: str | os.PathLike[str]) -> int:
    """Write all entries to a `.csv` or `.parquet` file, one row each, and return how many.

    Columns: position, time, kind, event_id, sequence, action, probability, probabilities, proposed, request, reward, costs, queue,
    detail. What is not one number or text is JSON, but for `queue`, which is a list of numbers in Parquet. In CSV a text
    that begins like a formula (=, +, -, @) or with an apostrophe has an apostrophe before it.
    """
    target = Path(path)
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    if target.suffix not in writers:
        raise InvalidInput(f"path must end in .csv or .parquet, but got {target.name!r}.")
    with replacing(target, private=True) as draft:
        return writers[target.suffix](_flat(journal), draft)


def copy_journal(source: Journal, target: Journal) -> int:
    """Copy rows and snapshots to an empty journal, from SQLite to PostgreSQL for instance; return how many rows.

    >>> from tightrope.service.journal import Refused, row_of
    >>> from tightrope.service.storage.memory import MemoryJournal
    >>> one, other = MemoryJournal(), MemoryJournal()
    >>> one.append([row_of(1, 0, Refused(event_id="visit-9", reason="unknown"))])
    >>> copy_journal(one, other), list(other.rows()) == list(one.rows())
    (1, True)
    """
    if target.last():
        raise JournalError("the journal to copy to is not empty.")
    rows = source.rows()
    while page := list(itertools.islice(rows, 5000)):
        target.append(page)
    for snapshot in source.snapshots():
        saved = source.snapshot(snapshot.position)
        assert saved is not None
        target.append([], [saved])
    return target.last()


_COLUMNS: Final = (
    *(
        "position",
        "time",
        "kind",
        "event_id",
        "sequence",
        "action",
        "probability",
        "probabilities",
        "proposed",
    ),
    *("request", "reward", "costs", "queue", "detail"),
)


def _compare(state: ExperimentState, recorded: dict[int, str], journal: Journal) -> int:
    at = state.position
    if at not in recorded:
        return 0
    saved = journal.snapshot(at)
    if saved is not None and not saved.sound:
        raise JournalDamaged(f"the snapshot at position {at} does not match its own digest.")
    if state.snapshot()[1] != recorded[at]:
        raise JournalDamaged(f"the state at position {at} does not come out as its snapshot recorded it.")
    return 1


def _flat(journal: Journal) -> Iterator[dict[str, Any]]:
    actions: list[str] = []
    for row in journal.rows():
        entry = entry_of(row)
        flat: dict[str, Any] = dict.fromkeys(_COLUMNS)
        flat |= {"position": row.position, "time": row.time, "kind": entry.__struct_config__.tag}
        match entry:
            case Started():
                actions = entry.spec["actions"]
                flat["detail"] = _text(msgspec.to_builtins(entry))
            case Decided():
                flat |= {
                    "event_id": entry.event_id,
                    "sequence": entry.number,
                    "action": actions[entry.action],
                }
                chances = named_probabilities(entry, actions)
                flat |= {"probability": entry.probability, "probabilities": chances and _text(chances)}
                flat["proposed"] = None if entry.proposed is None else actions[entry.proposed]
                flat["request"] = _text(msgspec.to_builtins(entry.request))
                flat["queue"] = np.frombuffer(entry.queue).tolist()
            case Learnt() | Refused():
                flat |= {"event_id": entry.event_id, "reward": entry.reward}
                flat["costs"] = None if entry.costs is None else _text(entry.costs)
                if isinstance(entry, Learnt):
                    flat["sequence"] = entry.number
                else:
                    flat["detail"] = entry.reason
            case Expired():
                flat["detail"] = _text({"sequences": entry.numbers, "event_ids": entry.event_ids})
            case Measured():
                flat["detail"] = _text({"slater": entry.slater, "rounds": entry.rounds})
            case ModeChanged():
                default = None if entry.default is None else actions[entry.default]
                flat["detail"] = _text({"mode": entry.mode, "default": default})
            case RolledBack():
                flat["detail"] = _text({"position": entry.position, "restore": entry.restore})
        yield flat


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _write_csv(rows: Iterator[dict[str, Any]], path: Path) -> int:
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS)
        writer.writeheader()
        for row in rows:
            if row["queue"] is not None:
                row["queue"] = _text(row["queue"])
            for name in ("event_id", "action", "proposed"):
                row[name] = _no_formula(row[name])
            for name in ("reward", "probability"):
                row[name] = None if row[name] is None else repr(row[name])
            writer.writerow(row)
            count += 1
    return count


def _no_formula(text: str | None) -> str | None:
    """With an apostrophe before what a spreadsheet would take for a formula, since callers choose these texts.

    >>> _no_formula("=HYPERLINK(1)"), _no_formula("visit-1")
    ("'=HYPERLINK(1)", 'visit-1')
    """
    return f"'{text}" if text is not None and text.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else text


def _write_parquet(rows: Iterator[dict[str, Any]], path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = {"position": pa.int64(), "sequence": pa.int64(), "reward": pa.float64()}
    numbers["probability"] = pa.float64()
    types = {**numbers, "time": pa.timestamp("us", tz="UTC"), "queue": pa.list_(pa.float64())}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in _COLUMNS])
    count = 0
    with pq.ParquetWriter(path, schema) as writer:
        while page := list(itertools.islice(rows, 10_000)):
            writer.write_table(pa.Table.from_pylist(page, schema=schema))
            count += len(page)
    return count
