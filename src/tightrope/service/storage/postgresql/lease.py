"""Which process writes: the lease of some experiments in a PostgreSQL database, all of them or none.

The process that holds it sends a heartbeat (`beat`) every `BEAT` seconds. Others watch: they take over the lease when it is given
back, when the holder's heartbeat connection is gone, or when there was no heartbeat for `LEASE` seconds on their own steady clocks.
No wall clock matters. The holder, for its part, considers the lease lost `LEASE` seconds after it sent the last heartbeat that the
database confirmed: it stops before another begins, even if it was suspended in between.

The `term` in the lease's row still keeps two from writing: it grows when the lease changes hands and when a holder reopens its
journal, and every statement that writes to a journal locks the row and names its term. A statement of an earlier term writes
nothing. Every change of a row is a single statement, so no process that stops in the middle leaves it locked.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Final

import psycopg

from tightrope.service.journal import JournalError
from tightrope.service.storage.postgresql.connection import SQL, Connection, connect, failure, give_up
from tightrope.service.storage.postgresql.schema import make_tables

log = logging.getLogger("tightrope.service")

BEAT: Final = 0.4
LEASE: Final = 4.0


class Lease:
    """The right to write the journals of some experiments, held by one process at a time and kept alive by its own thread."""

    def __init__(self, url: str, experiments: Sequence[str]) -> None:
        self.holder = uuid.uuid4().hex
        self._url = url
        self._names = sorted(experiments)
        self._turn = threading.Lock()
        self._connection: Connection | None = None
        self._until = 0.0
        self._trouble: JournalError | None = None
        # The last heartbeat seen from others, and when it was new.
        self._seen: list[tuple[int, int]] = []
        self._seen_at = 0.0
        self._users: set[str] = set()
        self._aside: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> bool:
        """Whether this process holds it now; another may hold it the next moment."""
        return time.monotonic() < self._until

    def acquire(self, experiment: str) -> bool:
        """Whether this process has it now; False: another process has it. `JournalError`: the database can't be asked."""
        self._users.add(experiment)
        if self._thread is None:
            with self._turn:
                self._stop.clear()
                self._step()
                self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
                self._thread.start()
        if not self.held and self._trouble is not None:
            raise type(self._trouble)(str(self._trouble))
        return self.held

    def stand_aside(self, experiment: str, aside: bool) -> None:
        """Whether an experiment can't continue with its journal: then the lease is left to others."""
        (self._aside.add if aside else self._aside.discard)(experiment)

    def release(self, experiment: str) -> None:
        """An experiment no longer needs it; after the last one it is given back."""
        self._users.discard(experiment)
        thread = self._thread
        if not self._users and thread is not None:
            self._stop.set()
            thread.join(2.0)
            self._thread = None

    def _run(self) -> None:
        # Not all at the same moment.
        while not self._stop.wait(BEAT * random.uniform(0.8, 1.0)):
            with self._turn:
                self._step()
        self._until = 0.0
        if self._connection is not None:
            try:
                self._connection.execute(SQL["give_back"], (self._names, self.holder))
            except psycopg.Error as error:
                log.warning("the lease could not be given back: %s", failure(self._url, error))
            self._connection.close()
            self._connection = None

    def _step(self) -> None:
        began = time.monotonic()
        try:
            mine = self._kept() if self._until else self._taken(began)
            self._trouble = None
        except Exception as error:
            self._until, self._seen = 0.0, []
            if self._connection is not None:
                give_up(self._url, self._connection)
                self._connection = None
            self._trouble = error if isinstance(error, JournalError) else failure(self._url, error)
            if not isinstance(error, JournalError | psycopg.Error):
                log.exception("the lease was lost because of an internal error")
            return
        self._until = began + LEASE if mine else 0.0

    def _kept(self) -> bool:
        connection = self._connected()
        if not self._aside:
            if connection.execute(SQL["beat"], (self._names, self.holder)).rowcount == len(self._names):
                return True
            log.warning("another process has taken over %s", ", ".join(self._names))
        connection.execute(SQL["give_back"], (self._names, self.holder))
        return False

    def _taken(self, now: float) -> bool:
        connection = self._connected()
        rows = sorted(connection.execute(SQL["look"], (self._names,)).fetchall())
        seen = [(term, beat) for _, _, term, beat, _ in rows]
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        silent = now - self._seen_at >= LEASE
        free = all(holder in (None, self.holder) or not there or silent for _, holder, _, _, there in rows)
        if not free or self._aside or len(rows) < len(self._names):
            return False
        terms, beats = zip(*seen, strict=True)
        values = (self._names, list(terms), list(beats), self.holder, len(self._names))
        return connection.execute(SQL["take"], values).rowcount == len(self._names)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connection = connect(self._url)
            make_tables(connection)
            connection.execute(SQL["enter"], (self._names,))
            self._seen = []
        return self._connection
