"""A journal in memory, which keeps nothing: for tests, and to see what durability costs."""
# `Journal` documents the methods.

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

from tightrope.service.journal import JournalDamaged
from tightrope.service.journal.contract import Journal, Snapshot
from tightrope.service.journal.rows import Row


def journal(address: str, experiment: str, *, read_only: bool = False) -> MemoryJournal:
    return MemoryJournal()


class MemoryJournal(Journal):
    """A journal that lives and dies with the process."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._snapshots: dict[int, Snapshot] = {}
        self._by_event: dict[str, list[Row]] = {}

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        for last, row in enumerate(rows, len(self._rows)):
            if row.position != last + 1:
                raise JournalDamaged(f"row {row.position} can't follow row {last}.")
        self._rows += rows
        for row in rows:
            if row.event_id is not None:
                self._by_event.setdefault(row.event_id, []).append(row)
        self._snapshots.update({snapshot.position: snapshot for snapshot in snapshots})
        for position in drop:
            self._snapshots.pop(position, None)

    def overwrite(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._rows[row.position - 1] = row
            if row.event_id is not None:
                same = self._by_event[row.event_id]
                same[[one.position for one in same].index(row.position)] = row

    def find(self, event_ids: Collection[str]) -> list[Row]:
        return sorted(row for one in event_ids for row in self._by_event.get(one, ()))

    def rows(self, after: int = 0) -> Iterator[Row]:
        return iter(self._rows[after:])

    def newest(self, kind: int, before: int, limit: int) -> list[Row]:
        found = (row for row in reversed(self._rows[:before]) if row.kind == kind and row.position < before)
        return list(itertools.islice(found, limit))

    def last(self) -> int:
        return len(self._rows)

    def snapshots(self) -> list[Snapshot]:
        return [self._snapshots[at].without_state for at in sorted(self._snapshots)]

    def snapshot(self, position: int) -> Snapshot | None:
        return self._snapshots.get(position)
