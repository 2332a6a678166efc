"""Rebuild a state from its journal: the newest sound snapshot and the rows after it; and rewrite snapshots after an erasure."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from tightrope.service.experiment.state import ExperimentState
from tightrope.service.journal import JournalDamaged
from tightrope.service.journal.contract import Journal, Snapshot, bound_snapshots, fault_of, row_at
from tightrope.service.journal.entries import Erased, Started
from tightrope.service.journal.rows import Row, erased, hash_of
from tightrope.spec import Spec
from tightrope.trust import grant

log = logging.getLogger("tightrope.service")

# About how many bytes of snapshots one batch rewrites.
PIECE: Final = 1 << 19


def trust_recorded(journal: Journal) -> None:
    for entry in journal.told(Started):
        grant(entry.spec)


def rebuilt(journal: Journal, spec: Spec) -> tuple[ExperimentState, int]:
    """The state at the journal's end, and the position of its snapshot; recorded configurations are trusted if `spec` is."""
    if spec.trust:
        trust_recorded(journal)
    name, source = spec.name, spec.source
    first = next(journal.rows(), None)
    assert first is not None
    state = ExperimentState.begin(first, source)
    snapshot_at = state.position
    bound = bound_snapshots(journal)
    last = journal.last()
    for snapshot in reversed(journal.snapshots()):
        if snapshot.position > last:
            at = snapshot.position
            raise JournalDamaged(f"the newest snapshot is of position {at}, but the journal ends at {last}.")
        saved = journal.snapshot(snapshot.position)
        assert saved is not None
        fault = fault_of(saved, bound)
        if fault is None:
            state = _restored(journal, saved, source)
            # The entry about it follows it.
            snapshot_at = saved.position + 1
            break
        words = "experiment %r: the snapshot at position %d %s; using an older one"
        log.error(words, name, snapshot.position, fault)
    for row in journal.rows(after=state.position):
        state.replay(row)
    return state, snapshot_at


def finish_erasure(journal: Journal) -> None:
    """Finish erasures that the newest entries name but that did not happen: the process may have died in between.

    Entries of one batch are erased together, so nothing is left to do before an entry that is done.
    """
    left: dict[int, Row] = {}
    for entry in journal.told(Erased):
        rows = [
            row
            for first, last in entry.rows
            for row in itertools.islice(journal.rows(after=first - 1), last - first + 1)
        ]
        found = [one for whole in rows if (one := erased(whole)) != whole]
        if entry.rows and not found:
            break
        left |= {one.position: one for one in found}
    if left:
        journal.overwrite(list(left.values()))


class Purge(NamedTuple):
    """Rewritten snapshots, positions of those to drop, and the entry that says so."""

    snapshots: list[Snapshot]
    drop: list[int]
    entry: Erased


def purged(
    journal: Journal,
    stale: Mapping[int, Collection[int]],
    newer: Mapping[int, Snapshot],
    keys: Collection[str] = (),
) -> Purge:
    """Rewrite snapshots without erased decisions and `keys`, up to about `PIECE` bytes, because decisions wait meanwhile.

    `newer` are those that differ from the journal's. One that can't be read is dropped: its content has to go.
    """
    found = Purge([], [], Erased(rows=[]))
    size = 0
    for position, numbers in stale.items():
        if size >= PIECE:
            break
        saved, digest = newer.get(position) or journal.snapshot(position), ""
        if saved is not None:
            size += len(saved.state)
            try:
                anew = _without(journal, saved, numbers, keys)
            except JournalDamaged as error:
                words = "the snapshot %r at position %d can't be read, so the erasure drops it: %s"
                log.error(words, saved.label, position, error)
                found.drop.append(position)
            else:
                found.snapshots.append(anew)
                digest = anew.digest
        found.entry.snapshots.append((position, digest))
    return found


def _without(journal: Journal, saved: Snapshot, numbers: Collection[int], keys: Collection[str]) -> Snapshot:
    if not saved.sound:
        raise JournalDamaged("it does not match its own digest")
    state = _restored(journal, saved)
    if keys and state.ledger.windows is not None:
        state.ledger.windows.erase(keys)
    state.hooks.forget_inputs(numbers)
    if state.assignment is not None:
        state.assignment.erase_all()
    packed, digest = state.snapshot()
    return Snapshot(saved.position, saved.time, digest, saved.label, packed)


def _restored(journal: Journal, saved: Snapshot, source: str = "journal") -> ExperimentState:
    """The state in a snapshot, under the configuration that was in force then."""
    row = row_at(journal, saved.position)
    if row is None:
        raise JournalDamaged(f"there is a snapshot of position {saved.position}, but no row.")
    state = ExperimentState.of(next(journal.told(Started, before=saved.position + 1)), source)
    state.restore(saved.state, saved.position, hash_of(row, None))
    return state
