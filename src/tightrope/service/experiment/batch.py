"""Requests to an experiment, and the batch in which their effects become durable together.

Erasure: the entries of an event keep their open part (the event's id, number and action) and lose the sealed part for good: the
request, the numbers behind the decision, the outcome. The decision's inputs are also removed from the policy and its models, here
and in every snapshot. An `Erased` entry says which rows and decisions these are. Decisions can't be repeated without their inputs,
so a snapshot follows from which a replay continues. There is one such snapshot, that of the newest erasure. There may be many
snapshots that people have named: the entry says which of them still hold the inputs, and `Batch.purge` rewrites them, a few in each
batch, with decisions in between. The remaining work is part of the state, so it continues after a crash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tightrope.ledger.windows import erased_key
from tightrope.service.answer import Answer, Refusal
from tightrope.service.experiment.rebuild import purged
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.journal import JournalDamaged, entries
from tightrope.service.journal.contract import Journal, Snapshot
from tightrope.service.journal.rows import Row, chained, entry_of, erased
from tightrope.version import __version__

# Changes that an administrator asked for, and that are logged.
_CHANGES: Final = (
    *(entries.Started, entries.ModeChanged, entries.RolledBack, entries.Erased, entries.Snapshotted),
    *(entries.Scheduled, entries.Cancelled),
)


class Op(NamedTuple):
    """A request to an experiment: `operation(batch, request)`, one of those in `http.handlers`."""

    operation: Callable[[Batch, Any], Answer]
    request: Any = None
    # The id of the key that asked; None where there are no keys.
    by: str | None = None
    # Whether it changes nothing. If it fails, the state is still sound.
    reads: bool = False


class Batch:
    """What becomes durable together. `journal` is only for reading; writes go in at the end of the batch."""

    def __init__(self, state: ExperimentState, journal: Journal, now: int, found: Sequence[Row] = ()) -> None:
        self.state = state
        self.journal = journal
        # Microseconds since 1970, the same for all of the batch; never before what is in the journal.
        self.now = max(now, state.time)
        self.rows: list[Row] = []
        self.snapshots: list[Snapshot] = []
        self.drop: list[int] = []
        # The id of the key behind the current operation.
        self.by: str | None = None
        # Changes by administrators.
        self.changes: list[entries.Written] = []
        # Rows by position that lose their personal data once the entry that says so is durable; whether a snapshot must follow.
        self.erased: dict[int, Row] = {}
        self.forgets = False
        # Existing snapshots by position, and rewritten ones.
        self.rewritten: dict[int, Snapshot] = {}
        # By event: the decisions that the batch needs or has made, and the parts of their outcomes.
        self.decided: dict[str, entries.Decided] = {}
        self.learnt: dict[str, list[entries.Learnt]] = {}
        # Events whose journal entries can't be read, and those whose inputs were erased.
        self._damaged: dict[str, JournalDamaged] = {}
        self._blank: set[str] = set()
        for row in found:
            try:
                self._note(entry_of(row))
            except JournalDamaged as error:
                self._damaged[str(row.event_id)] = error

    def write(self, entry: entries.Written) -> None:
        """Put what has just happened to the state into the journal."""
        entry.by = self.by
        row, head = chained(self.state.position + 1, self.now, entry, self.state.head)
        self.rows.append(row)
        self.state.advance(row, head)
        self._note(entry)
        if isinstance(entry, _CHANGES) and not (isinstance(entry, entries.Erased) and entry.goes_on):
            self.changes.append(entry)

    def begin_changes(self) -> None:
        """Let changes begin that were asked for earlier and are due."""
        while (begun := self.state.begin_due(__version__, time=self.now)) is not None:
            self.by = begun.by
            self.write(begun)
        self.by = None

    def snapshot(self, label: str | None) -> Snapshot:
        """Keep the state as it is now, and put its digest into the journal."""
        packed, digest = self.state.snapshot()
        taken = Snapshot(self.state.position, self.now, digest, label, packed)
        self.snapshots.append(taken)
        self.write(entries.Snapshotted(of=taken.position, digest=digest, label=label))
        return taken

    def decision_of(self, event_id: str) -> entries.Decided | None:
        """The decision for an event; refuses one whose inputs were erased or whose journal entries can't be read."""
        if event_id in self._damaged:
            raise self._damaged[event_id]
        if event_id in self._blank:
            words = f"event_id {event_id!r} was decided and then erased; it can't be decided again"
            raise Refusal(410, "erased", words)
        return self.decided.get(event_id)

    def erase(self, event_ids: Collection[str], refused_before: int = 0) -> tuple[set[str], int]:
        """Erase personal data of events, and of outcomes refused before a time; returns the known events and how many entries."""
        wanted = {*event_ids}
        rows = [*self.journal.find(wanted), *(row for row in self.rows if row.event_id in wanted)]
        decided = {str(row.event_id) for row in rows}
        told = [(row, entry_of(row)) for row in rows]
        decisions = [(row, entry) for row, entry in told if isinstance(entry, entries.Decided)]
        numbers = {entry.number: row.position for row, entry in decisions}
        assignment = self.state.assignment
        own, users = ([], []) if assignment is None else assignment.reached(entry for _, entry in decisions)
        # Only refused outcomes that are old or contain the bytes of such an id are read.
        some = re.compile(b"|".join(re.escape(one.encode()) for one in sorted(wanted)) or b"(?!)")
        refused = {
            row: str(getattr(entry_of(row), "event_id", None))
            for row in self._all(entries.Refused)
            if row.time < refused_before or some.search(row.data)
        }
        rows += [row for row, event_id in refused.items() if row.time < refused_before or event_id in wanted]
        known = decided | (wanted & {*refused.values()})
        # A snapshot that holds a decision's inputs was made after it.
        first = min(numbers.values(), default=1 << 62)
        rolled = ((row, getattr(entry_of(row), "position", None)) for row in self._all(entries.RolledBack))
        rows += [row for row, position in rolled if (position or 0) >= first]
        blank = {row.position: one for row in rows if (one := erased(row)) != row}
        blank = {position: row for position, row in blank.items() if position not in self.erased}
        if not blank:
            return known, 0
        by = () if self.state.input.windows is None else self.state.input.windows.keys
        asked = [entry.request.keys or {} for _, entry in decisions]
        keys = {str(each[name]) for each in asked for name in by if name in each}
        entry = entries.Erased(
            rows=_ranges(sorted(blank)),
            event_ids=sorted(known),
            numbers=sorted(numbers),
            keys=sorted(map(erased_key, keys)),
            own=own,
            users=users,
            stale=self._drop_from(first) if numbers else [],
        )
        self.write(self.state.erase(entry, keys))
        self.erased |= blank
        self._blank |= decided
        self.forgets |= bool(numbers)
        return known, len(blank)

    def purge(self, only: int | None = None) -> None:
        """Rewrite some of the snapshots that hold erased data, or the one at `only`; the next batches continue with the others."""
        # Snapshots of this batch are not in the journal yet.
        taken = {one.position for one in self.snapshots}
        due = {
            at: numbers for at, numbers in self.state.stale.items() if at not in taken and only in (None, at)
        }
        if due:
            found = purged(self.journal, due, self.rewritten, self.state.stale_keys)
            self.rewritten |= {one.position: one for one in found.snapshots}
            self.drop += found.drop
            self.write(self.state.erase(found.entry))

    def _all(self, kind: type[entries.Written]) -> Iterator[Row]:
        """All rows of a kind that is found by its number, including those of the batch."""
        yield from (row for row in self.rows if row.kind == entries.KINDS[kind])
        yield from self.journal.newest_rows(kind)

    def _drop_from(self, first: int) -> list[int]:
        """Drop the snapshots from row `first` on and those of earlier erasures; returns the labelled ones, to be rewritten."""
        labelled: list[int] = []
        for position, *_, label, _ in (*self.journal.snapshots(), *self.snapshots):
            if label == entries.label_after_erasure(position) or (position >= first and label is None):
                self.drop.append(position)
            elif position >= first:
                labelled.append(position)
        return labelled

    def _note(self, entry: entries.Entry) -> None:
        if isinstance(entry, entries.Blank):
            self._blank.add(entry.event_id or "")
        elif isinstance(entry, entries.Decided):
            self.decided[entry.event_id] = entry
        elif isinstance(entry, entries.Learnt):
            self.learnt.setdefault(entry.event_id, []).append(entry)


def _ranges(positions: list[int]) -> list[tuple[int, int]]:
    """Sorted positions as ranges.

    >>> _ranges([1, 2, 3, 7])
    [(1, 3), (7, 7)]
    """
    found: list[tuple[int, int]] = []
    for at in positions:
        if found and found[-1][1] == at - 1:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return found
