"""Changes that begin later: each is in the journal when it is asked for, and again when it begins or is cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tightrope.errors import InvalidInput
from tightrope.service.journal.entries import Cancelled, Scheduled


class Planned(msgspec.Struct, frozen=True, array_like=True):
    """A change that begins later: where in the journal it is, when it begins (in microseconds), what changes, who asked."""

    position: int
    starts: int
    change: dict[str, Any]
    by: str | None


class Schedule:
    """The changes that have not begun, the next one first.

    >>> schedule = Schedule()
    >>> _ = schedule.keep(7, Scheduled(starts=20, change={})), schedule.keep(8, Scheduled(starts=10, change={}))
    >>> [one.position for one in schedule], schedule.due(5), schedule.due(15).position
    ([8, 7], None, 8)
    """

    def __init__(self, planned: list[Planned] | None = None) -> None:
        self.planned = planned or []

    def keep(self, position: int, entry: Scheduled) -> Scheduled:
        """Keep the change in the entry at this position."""
        self.planned.append(Planned(position, entry.starts, entry.change, entry.by))
        self.planned.sort(key=lambda one: (one.starts, one.position))
        return entry

    def due(self, time: int) -> Planned | None:
        """The next change, if it has to begin by now."""
        return self.planned[0] if self.planned and self.planned[0].starts <= time else None

    def begun(self, position: int | None) -> None:
        self.planned = [one for one in self.planned if one.position != position]

    def cancel(self, position: int, why: str | None = None) -> Cancelled:
        waiting = [one.position for one in self.planned]
        if position not in waiting:
            must, remedy = "be that of a change that has not begun", f"There are {waiting}."
            raise InvalidInput(field="position", must=must, got=position, remedy=remedy)
        self.begun(position)
        return Cancelled(position=position, why=why)

    def __iter__(self) -> Iterator[Planned]:
        return iter(self.planned)

    def __len__(self) -> int:
        return len(self.planned)
