"""What is asked of an experiment, and the batch in which it becomes durable together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tightrope.service.answer import Answer, Refusal
from tightrope.service.experiment.rebuild import purged
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.journal import (
    Blank,
    Decided,
    Entry,
    Erased,
    Journal,
    JournalDamaged,
    Learnt,
    ModeChanged,
    RolledBack,
    Row,
    Snapshot,
    Snapshotted,
    Started,
    Written,
    chained,
    entry_of,
)

# What an administrator asked for, and a log keeps.
_CHANGES: Final = (Started, ModeChanged, RolledBack, Erased, Snapshotted)


class Op(NamedTuple):
    """What is asked of an experiment: `operation(batch, request)`, one of those in `http.handlers`."""

    operation: Callable[[Batch, Any], Answer]
    request: Any = None
    # The id of the key that asked; None where there are no keys.
    by: str | None = None
    # Whether it changes nothing. One that fails is then no reason to doubt the state.
    reads: bool = False


class Batch:
    """What becomes durable together. `journal` is to read from; what is written goes in at the end of the batch."""

    def __init__(self, state: ExperimentState, journal: Journal, now: int, found: Sequence[Row] = ()) -> None:
        self.state = state
        self.journal = journal
        # Microseconds since 1970, the same for all of the batch; never before what is in the journal.
        self.now = max(now, state.time)
        self.rows: list[Row] = []
        self.snapshots: list[Snapshot] = []
        self.drop: list[int] = []
        # The id of the key that the operation under way was asked with.
        self.by: str | None = None
        # What administrators have changed.
        self.changes: list[Written] = []
        # Rows by position that lose what is personal, once the entry that says so is durable; whether a snapshot must follow.
        self.erased: dict[int, Row] = {}
        self.forgets = False
        # Snapshots by position that are there, and made anew.
        self.rewritten: dict[int, Snapshot] = {}
        # By event: the decisions that the batch asks for or has made, and the parts of their outcomes.
        self.decided: dict[str, Decided] = {}
        self.learnt: dict[str, list[Learnt]] = {}
        # Events of which the journal holds what can't be read.
        self.damaged: dict[str, JournalDamaged] = {}
        self.blank: dict[str, Blank] = {}
        for row in found:
            try:
                self._note(entry_of(row))
            except JournalDamaged as error:
                self.damaged[str(row.event_id)] = error

    def write(self, entry: Written) -> None:
        """Put what has just happened to the state into the journal."""
        entry.by = self.by
        row, head = chained(self.state.position + 1, self.now, entry, self.state.head)
        self.rows.append(row)
        self.state.advance(row, head)
        self._note(entry)
        if isinstance(entry, _CHANGES) and not (isinstance(entry, Erased) and entry.goes_on):
            self.changes.append(entry)

    def snapshot(self, label: str | None) -> Snapshot:
        """Keep the state as it is now, and put its digest into the journal."""
        packed, digest = self.state.snapshot()
        taken = Snapshot(self.state.position, self.now, digest, label, packed)
        self.snapshots.append(taken)
        self.write(Snapshotted(of=taken.position, digest=digest, label=label))
        return taken

    def purge(self, only: int | None = None) -> None:
        """Make some of the snapshots anew that hold what was erased, or the one at `only`; the next batches go on with others."""
        # What the batch has taken itself is not in the journal yet.
        taken = {one.position for one in self.snapshots}
        due = {
            at: numbers for at, numbers in self.state.stale.items() if at not in taken and only in (None, at)
        }
        if due:
            found = purged(self.journal, due, self.rewritten)
            self.rewritten |= {one.position: one for one in found.snapshots}
            self.drop += found.drop
            self.write(self.state.erase(found.entry))

    def decision_of(self, event_id: str) -> Decided | None:
        """The decision for an event; None where there is none.

        Refuses an event whose inputs were erased, or of which the journal holds what can't be read.
        """
        if event_id in self.damaged:
            raise self.damaged[event_id]
        if event_id in self.blank:
            words = f"what event_id {event_id!r} was about has been erased; it was decided, and is not decided again"
            raise Refusal(410, "erased", words)
        return self.decided.get(event_id)

    def _note(self, entry: Entry) -> None:
        if isinstance(entry, Blank):
            self.blank[entry.event_id or ""] = entry
        elif isinstance(entry, Decided):
            self.decided[entry.event_id] = entry
        elif isinstance(entry, Learnt):
            self.learnt.setdefault(entry.event_id, []).append(entry)
