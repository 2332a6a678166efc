"""Checks the whole chain of a journal after a service has started: in the background, slowly, on its own connection.

A start looks only at the newest snapshot, the rows after it and the head. An audit finds earlier changes: a row whose hash or
columns do not fit, missing rows, rows that were erased without an entry that says so, snapshots that are not the ones that were
taken. It does not repeat decisions: `tightrope replay` does that.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from tightrope.service.journal import JournalDamaged, JournalError
from tightrope.service.journal.chain import GENESIS
from tightrope.service.journal.contract import Journal, bound_snapshots, fault_of
from tightrope.service.journal.entries import Blank, Entry, Erased
from tightrope.service.journal.rows import Row, entry_of, hash_of

log = logging.getLogger("tightrope.service")

_PAGE: Final = 200
# Rest this many times as long as a page took: an audit takes a fifth of a core, and less of the GIL.
_REST: Final = 4.0
_NICE: Final = 10


class ChainWalk:
    """Rows from the first on: each follows the one before it, and its columns say what its entry says."""

    def __init__(self) -> None:
        self.position = 0
        self.head = GENESIS
        # Rows whose personal part was erased, and what entries say about that.
        self.blank: set[int] = set()
        self.named: list[tuple[int, int]] = []

    def step(self, row: Row) -> Entry:
        if row.position != self.position + 1:
            raise JournalDamaged(f"row {row.position} follows row {self.position}: rows are missing.")
        entry = entry_of(row)
        self.head = hash_of(row, self.head)
        if isinstance(entry, Blank):
            self.blank.add(row.position)
        elif isinstance(entry, Erased):
            self.named += entry.rows
        self.position = row.position
        return entry

    def end(self) -> None:
        """Refuse rows that were erased without an entry that says so."""
        unnamed = [at for at in sorted(self.blank) if not any(a <= at <= b for a, b in self.named)]
        if unnamed:
            raise JournalDamaged(
                f"row {unnamed[0]} was erased, but no entry says so: it was changed outside the service."
            )


def audit(journal: Journal, rest: Callable[[float], object] = lambda seconds: None) -> int:
    """Check the chain and the snapshots of an open journal, even while it is being written; returns how many rows there were.

    `rest` is called after each page with the seconds to rest for. `JournalDamaged` names the first row or snapshot that is wrong.
    """
    walk = ChainWalk()
    while True:
        began = time.monotonic()
        # Page by page: one long read would keep SQLite from emptying its write-ahead log.
        page = list(itertools.islice(journal.rows(after=walk.position), _PAGE))
        if not page:
            break
        for row in page:
            walk.step(row)
        rest(_REST * (time.monotonic() - began))
    walk.end()
    for listed in journal.snapshots():
        began = time.monotonic()
        fault = _fault(journal, listed.position)
        # An erasure may have rewritten it in between, and added the entry that says so.
        if fault is not None and (fault := _fault(journal, listed.position)) is not None:
            raise JournalDamaged(f"the snapshot at position {listed.position} {fault}.")
        rest(_REST * (time.monotonic() - began))
    return walk.position


def _fault(journal: Journal, position: int) -> str | None:
    saved = journal.snapshot(position)
    return None if saved is None else fault_of(saved, bound_snapshots(journal))


class Audit(threading.Thread):
    """An audit on its own thread: `told` is called with the number of intact rows, or with what is wrong."""

    def __init__(self, name: str, journal: Journal, told: Callable[[int | JournalDamaged], object]) -> None:
        super().__init__(name=f"audit of {name}", daemon=True)
        self._experiment, self._journal, self._told = name, journal, told
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            # Linux has priorities by thread.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        began = time.monotonic()
        try:
            self._journal.open()
            rows = audit(self._journal, self._rest)
        except _GivenUp:
            return
        except JournalDamaged as error:
            log.critical("experiment %r: the journal was changed or is damaged: %s", self._experiment, error)
            self._told(error)
        except JournalError as error:
            log.warning("experiment %r: the chain can't be checked now: %s", self._experiment, error)
        else:
            words = "experiment %r: the chain of all %d entries holds (%.1f s)"
            log.info(words, self._experiment, rows, time.monotonic() - began)
            self._told(rows)
        finally:
            with contextlib.suppress(JournalError):
                self._journal.close()

    def _rest(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise _GivenUp


class _GivenUp(Exception):
    pass
