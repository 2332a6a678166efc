"""Retention: copy the whole journal to an archive, then erase the personal data in its old entries.

The rows themselves stay, with the ids of their events, numbers and actions: each event still has one decision, whatever its age.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from tightrope.errors import InvalidInput
from tightrope.service.answer import Answer
from tightrope.service.experiment import Batch, Experiment, Op
from tightrope.service.http import handlers
from tightrope.service.journal import JournalError
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.entries import KINDS, Decided, Started
from tightrope.service.journal.heads import Head
from tightrope.service.journal.rows import Row, entry_of
from tightrope.service.offline.backup import copy_to_file
from tightrope.service.requests import ErasureRequest
from tightrope.spec import make_spec

_PAGE: Final = 2000


class Erasure(NamedTuple):
    """How many entries lost their personal data, how many decisions were left as they are, and where the archive ends."""

    entries: int
    left: int
    archive: Head | None = None


def reopened(journal: Journal, *, trust: bool = False) -> Experiment:
    """The experiment of a journal that no process is writing, as it was left; with `trust`, your own classes may run."""
    if not journal.open():
        raise JournalError("another process is active for this experiment: stop it first.")
    try:
        entry = next(journal.told(Started), None)
        if entry is None:
            raise JournalError("the journal is empty.")
        spec = make_spec(entry.spec, source="the journal", trust=trust)
        experiment = Experiment(spec, journal, expire_after=entry.expire_after, max_pending=entry.max_pending)
    except BaseException:
        journal.close()
        raise
    experiment.open()
    return experiment


def erase_before(experiment: Experiment, time: int, archive: str | os.PathLike[str] | None = None) -> Erasure:
    """Copy the journal, then erase personal data before a time (microseconds since 1970) in all settled events."""
    journal = experiment.journal
    copied = None if archive is None else copy_to_file(journal, archive)
    entries = left = at = 0

    def erase_page(batch: Batch, rows: list[Row]) -> Answer:
        events = {row.event_id: entry for row in rows if isinstance(entry := entry_of(row), Decided)}
        settled = {entry.event_id for entry in events.values() if entry.number not in batch.state.waiting}
        _, count = batch.erase(settled, refused_before=time)
        return Answer.of([count, len(events) - len(settled)])

    while page := list(itertools.islice(journal.rows(after=at), _PAGE)):
        at = page[-1].position
        old = [row for row in page if row.time < time and row.kind == KINDS[Decided]]
        [answer] = experiment.process([Op(erase_page, old)])
        if answer.status != 200:
            raise JournalError(f"erasing stopped before row {at}: {answer.body.decode()}")
        _finish(experiment)
        erased, waiting = msgspec.json.decode(answer.body)
        entries, left = entries + erased, left + waiting
        if page[-1].time >= time:
            break
    return Erasure(entries, left, copied)


def erase_events(
    experiment: Experiment, event_ids: Sequence[str], archive: str | os.PathLike[str] | None = None
) -> Erasure:
    """Copy the journal to an archive, then erase personal data in all entries of some events."""
    copied = None if archive is None else copy_to_file(experiment.journal, archive)
    [answer] = experiment.process([Op(handlers.erase, ErasureRequest(event_ids=list(event_ids)))])
    if answer.status != 200:
        raise InvalidInput(msgspec.json.decode(answer.body)["error"]["message"] + ".")
    _finish(experiment)
    return Erasure(msgspec.json.decode(answer.body)["entries"], 0, copied)


def _finish(experiment: Experiment) -> None:
    while experiment.purging:
        experiment.process([])
        if experiment.status != "ready":
            raise JournalError(f"erased data is still in snapshots: {experiment.trouble}.")
