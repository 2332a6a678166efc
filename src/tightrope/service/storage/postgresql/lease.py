"""Which process writes: the lease of some experiments in a PostgreSQL database, all of them or none.

The process that holds it shows a sign of life (`beat`) every `BEAT` seconds. Others watch: they take the lease over when it is
given back, when the connection that its holder beats on is gone, or when there was no sign of life for `LEASE` seconds of their own
steady clocks. No wall clock matters. The holder, for its part, takes the lease for lost `LEASE` seconds after it sent the last beat
that the database confirmed: it stops before another begins, also if it was not running in between.

What keeps two from writing all the same is the `term` in the lease's row: it grows when the lease changes hands and when a holder
opens its journal anew, and every statement that writes to a journal locks the row and names its term. A statement of an earlier
term writes nothing. Every change of a row is a single statement, so no process that stops in the middle leaves it locked.
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
from tightrope.service.storage.postgresql.connection import Connection, connect, failure, give_up
from tightrope.service.storage.postgresql.schema import make_tables

log = logging.getLogger("tightrope.service")

BEAT: Final = 0.4
LEASE: Final = 4.0

_ROWS = "INSERT INTO tightrope_lease (experiment) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING"
# Of a connection of another role one sees the number alone.
_LOOK = (
    "SELECT experiment, holder, term, beat, EXISTS (SELECT FROM pg_stat_activity one WHERE one.pid = lease.pid "
    "AND coalesce(one.backend_start = lease.connected, true)) FROM tightrope_lease lease WHERE experiment = ANY(%s)"
)
_TAKE = (
    "WITH seen AS (SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS seen (experiment, term, beat)), "
    "free AS (SELECT lease.experiment FROM tightrope_lease lease JOIN seen USING (experiment, term, beat) "
    "ORDER BY experiment FOR UPDATE OF lease) "
    "UPDATE tightrope_lease lease SET holder = %s, term = lease.term + 1, pid = pg_backend_pid(), "
    "connected = (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()) "
    "FROM free WHERE lease.experiment = free.experiment AND (SELECT count(*) FROM free) = %s"
)
_BEAT = (
    "WITH held AS (SELECT experiment FROM tightrope_lease WHERE experiment = ANY(%s) AND holder = %s "
    "ORDER BY experiment FOR NO KEY UPDATE) "
    "UPDATE tightrope_lease lease SET beat = beat + 1 FROM held WHERE lease.experiment = held.experiment"
)
_GIVE_BACK = "UPDATE tightrope_lease SET holder = NULL WHERE experiment = ANY(%s) AND holder = %s"


class Lease:
    """The right to write the journals of some experiments, held by one process at a time and kept by a thread of its own."""

    def __init__(self, url: str, experiments: Sequence[str]) -> None:
        self.holder = uuid.uuid4().hex
        self._url = url
        self._names = sorted(experiments)
        self._turn = threading.Lock()
        self._connection: Connection | None = None
        self._until = 0.0
        self._trouble: JournalError | None = None
        # What was seen of the others' signs of life, and when it was new.
        self._seen: list[tuple[int, int]] = []
        self._seen_at = 0.0
        self._users: set[str] = set()
        self._aside: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> bool:
        """Whether it is this process's now; it may be another's from the next moment on."""
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
        """Whether an experiment can't go on with its journal: then the lease is left to others."""
        (self._aside.add if aside else self._aside.discard)(experiment)

    def release(self, experiment: str) -> None:
        """An experiment needs it no more; after the last one it is given back."""
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
                self._connection.execute(_GIVE_BACK, (self._names, self.holder))
            except psycopg.Error as error:
                log.warning("the lease is not given back: %s", failure(self._url, error))
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
                log.exception("the lease is lost by an error of ours")
            return
        self._until = began + LEASE if mine else 0.0

    def _kept(self) -> bool:
        connection = self._connected()
        if not self._aside:
            if connection.execute(_BEAT, (self._names, self.holder)).rowcount == len(self._names):
                return True
            log.warning("another process has taken over %s", ", ".join(self._names))
        connection.execute(_GIVE_BACK, (self._names, self.holder))
        return False

    def _taken(self, now: float) -> bool:
        connection = self._connected()
        rows = sorted(connection.execute(_LOOK, (self._names,)).fetchall())
        seen = [(term, beat) for _, _, term, beat, _ in rows]
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        silent = now - self._seen_at >= LEASE
        free = all(holder in (None, self.holder) or not there or silent for _, holder, _, _, there in rows)
        if not free or self._aside or len(rows) < len(self._names):
            return False
        terms, beats = zip(*seen, strict=True)
        values = (self._names, list(terms), list(beats), self.holder, len(self._names))
        return connection.execute(_TAKE, values).rowcount == len(self._names)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connection = connect(self._url)
            make_tables(connection)
            connection.execute(_ROWS, (self._names,))
            self._seen = []
        return self._connection
