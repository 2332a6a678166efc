"""Copies of a journal, even while the service writes it, and how to restore them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tightrope.errors import InvalidInput
from tightrope.files import replacing
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.heads import Head, HeadFile, read_head
from tightrope.service.offline.replay import copy_journal, open_journal, verify
from tightrope.service.storage.sqlite import SqliteJournal


class Restored(NamedTuple):
    """Where a restored journal ends, and how many entries after that had been acknowledged."""

    head: Head
    lost: int


def copy_to_file(source: Journal, path: str | os.PathLike[str]) -> Head:
    """Copy an open journal, checking its chain, to a new SQLite file, all or nothing; returns where it ends."""
    target = Path(path)
    if target.exists():
        raise InvalidInput(f"{target}: the file already exists; a journal is never overwritten.")
    with replacing(target, private=True) as draft:
        # SQLite makes the file itself.
        draft.unlink()
        copy = SqliteJournal(draft)
        copy.open()
        try:
            head = copy_journal(source, copy)
        finally:
            copy.close()
            for suffix in (".lock", ".head"):
                draft.with_suffix(suffix).unlink(missing_ok=True)
    file = HeadFile(target.with_suffix(".head"))
    file.write(head)
    file.close()
    return head


def restore(backup: str | os.PathLike[str], path: str | os.PathLike[str], *, trust: bool = False) -> Restored:
    """Put a copy in a journal's place, after replaying all of it; the existing head says what is lost.

    The place must be free: move away what is left of the journal, and leave its `.head`. With `trust`, your own classes that the
    copy names may run.
    """
    target = Path(path)
    known = read_head(target.with_suffix(".head"))
    source = open_journal(backup)
    try:
        verify(source, trust=trust)
        head = copy_to_file(source, target)
    finally:
        source.close()
    return Restored(head, 0 if known is None else max(0, known.position - head.position))
