"""Erasure: what was personal in an event's entries is gone for good, and the chain still holds."""

from __future__ import annotations

from collections.abc import Iterable

from tightrope.service.journal import KINDS, Erased, Journal, Row, entry_of, erased


def finish_erasure(journal: Journal) -> None:
    """Erase what the newest entry about it names and is still there: the process may have died in between."""
    for row in journal.select([KINDS[Erased]], limit=1):
        entry = entry_of(row)
        assert isinstance(entry, Erased)
        left = [one for one in rows_in(journal, entry.rows) if erased(one) != one]
        if left:
            journal.overwrite([erased(one) for one in left])


def rows_in(journal: Journal, ranges: Iterable[tuple[int, int]]) -> Iterable[Row]:
    """The rows at some ranges of positions, both ends included."""
    for first, last in ranges:
        for row in journal.rows(after=first - 1):
            if row.position > last:
                break
            yield row
