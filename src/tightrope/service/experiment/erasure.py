"""Erasure: what was personal in an event's entries is gone for good, and the chain still holds.

The entries of an event keep their open part, the event's id, number and action, and lose what is sealed: the request, the numbers
behind the decision, the outcome. What the policy and its models keep of the decision's inputs goes too, here and in every snapshot.
An `Erased` entry says which rows and decisions these are. Decisions can't be repeated without their inputs, so a snapshot follows
from which a replay goes on. There is one such snapshot: that of the newest erasure. Snapshots that people have named may be many:
the entry says which still hold the inputs, and `Batch.purge` makes them anew, some in each batch, with decisions in between. What
is left of that is in the state, so it goes on after a crash.

>>> from tightrope.service.http import handlers
>>> from tightrope.service.requests import DecisionRequest, ErasureRequest
>>> from tightrope.service.experiment.batch import Op
>>> from tightrope.service.experiment.experiment import Experiment
>>> from tightrope.service.offline.replay import verify
>>> from tightrope.service.storage.memory import MemoryJournal
>>> from tightrope.spec import make_spec
>>> journal = MemoryJournal()
>>> beds = Experiment(make_spec({"name": "beds", "actions": ["icu", "other"]}), journal)
>>> beds.open()
>>> asked = beds.process([Op(handlers.decide, DecisionRequest(event_id="visit-1"))])
>>> [answer] = beds.process([Op(handlers.erase, ErasureRequest(event_ids=["visit-1"]))])
>>> answer.body
b'{"erased":["visit-1"],"unknown":[],"entries":1}'
>>> verify(journal).erased
1
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tightrope.service.journal import (
    KINDS,
    LAST_BY_EVENT,
    Blank,
    Decided,
    Erased,
    Refused,
    RolledBack,
    Row,
    entry_of,
    erased,
    label_after_erasure,
)

if TYPE_CHECKING:
    from tightrope.service.experiment.batch import Batch


def erase(batch: Batch, event_ids: Collection[str], refused_before: int = 0) -> tuple[set[str], int]:
    """Erase what is personal in all entries of some events; the events that there were, and how many entries lost something.

    Also outcomes that were refused before a time.
    """
    journal, state = batch.journal, batch.state
    wanted = {*event_ids}
    rows = [*journal.find(wanted), *(row for row in batch.rows if row.event_id in wanted)]
    decided = {str(row.event_id) for row in rows}
    numbers = {entry.number: row.position for row in rows if isinstance(entry := entry_of(row), Decided)}
    refused = {
        row: str(getattr(entry_of(row), "event_id", None)) for row in _refused(batch, wanted, refused_before)
    }
    rows += [row for row, event_id in refused.items() if row.time < refused_before or event_id in wanted]
    known = decided | (wanted & {*refused.values()})
    # What holds inputs of a decision was made after it.
    first = min(numbers.values(), default=1 << 62)
    rows += [
        row for row in _all(batch, RolledBack) if (getattr(entry_of(row), "position", None) or 0) >= first
    ]
    blank = {
        row.position: one for row in rows if row.position not in batch.erased and (one := erased(row)) != row
    }
    if not blank:
        return known, 0
    stale, dropped = _holding(batch, first) if numbers else ([], [])
    entry = Erased(rows=_ranges(sorted(blank)), event_ids=sorted(known), numbers=sorted(numbers), stale=stale)
    batch.write(state.erase(entry))
    batch.erased |= blank
    batch.blank |= {event_id: Blank(kind="decided", event_id=event_id) for event_id in decided}
    batch.drop += dropped
    batch.forgets |= bool(numbers)
    return known, len(blank)


def _refused(batch: Batch, wanted: Collection[str], before: int) -> Iterator[Row]:
    """Refused outcomes that came before a time or may be of some events: those that have the bytes of such an id."""
    some = re.compile(b"|".join(re.escape(one.encode()) for one in sorted(wanted)) or b"(?!)")
    for row in _all(batch, Refused):
        if row.time < before or some.search(row.data):
            yield row


def _all(batch: Batch, kind: type) -> Iterator[Row]:
    """All rows of a kind that is found by its number, those of the batch too."""
    number, end = KINDS[kind], 1 << 62
    assert number > LAST_BY_EVENT
    yield from (row for row in batch.rows if row.kind == number)
    while page := batch.journal.newest(number, end, 1000):
        yield from page
        end = page[-1].position


def _holding(batch: Batch, first: int) -> tuple[list[int], list[int]]:
    """The snapshots from row `first` on: those with a label, which are made anew, and those to drop.

    So are those of earlier erasures, since a newer one follows.
    """
    stale: list[int] = []
    dropped: list[int] = []
    for snapshot in (*batch.journal.snapshots(), *batch.snapshots):
        if snapshot.label == label_after_erasure(snapshot.position):
            dropped.append(snapshot.position)
        elif snapshot.position >= first:
            (dropped if snapshot.label is None else stale).append(snapshot.position)
    return stale, dropped


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
