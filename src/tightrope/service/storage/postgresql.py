"""A journal in PostgreSQL: one active process for each experiment, others stand by and take over when it dies.

The active process holds an advisory lock on the connection that it writes through. When that connection is gone so is the lock, and
nothing more can be written through it; the process that takes over replays the journal first. The primary key keeps a second writer
out even if a lock were ever lost. What the methods promise is said in `Journal`.
"""
# ruff: noqa: D102

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import psycopg

from tightrope.errors import InvalidInput
from tightrope.service.journal import (
    FORMAT,
    LAST_BY_EVENT,
    Journal,
    JournalDamaged,
    JournalError,
    Row,
    Snapshot,
)

_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS tightrope_format (version integer PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS tightrope_journal (experiment text NOT NULL, position bigint NOT NULL, time bigint NOT NULL, "
    "kind smallint NOT NULL, event_id text, data bytea NOT NULL, PRIMARY KEY (experiment, position))",
    "CREATE INDEX IF NOT EXISTS tightrope_journal_event ON tightrope_journal (experiment, event_id) "
    f"WHERE kind <= {LAST_BY_EVENT}",
    "CREATE INDEX IF NOT EXISTS tightrope_journal_kind ON tightrope_journal (experiment, kind, position) "
    f"WHERE kind > {LAST_BY_EVENT}",
    "CREATE TABLE IF NOT EXISTS tightrope_snapshot (experiment text NOT NULL, position bigint NOT NULL, time bigint NOT NULL, "
    "digest text NOT NULL, label text, state bytea NOT NULL, PRIMARY KEY (experiment, position))",
    "CREATE TABLE IF NOT EXISTS tightrope_probe (experiment text PRIMARY KEY, count bigint NOT NULL)",
)
_COLUMNS: Final = "position, time, kind, event_id, data"
# A server that is gone without a word is noticed after about this many seconds.
_PATIENCE: Final = 5


def journal(address: str, experiment: str, *, read_only: bool = False) -> PostgresJournal:
    """The journal of an experiment in the database at `address`."""
    if "://" not in address:
        raise InvalidInput(f"database must be postgresql://…, but got {address!r}.")
    return PostgresJournal(address, experiment, read_only=read_only)


class PostgresJournal(Journal):
    """The journal of one experiment in the database at `url`.

    Parameters
    ----------
    url : str
        ``postgresql://user@host/database``, as libpq reads it.
    read_only : bool
        Read alone, without the lock.
    """

    def __init__(self, url: str, experiment: str, *, read_only: bool = False) -> None:
        self._url = url
        self._experiment = experiment
        self._read_only = read_only
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def open(self) -> bool:
        """Connect and take the lock; False while another process has it."""
        if self._connection is not None and not self._connection.closed:
            return True
        try:
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=_PATIENCE,
                keepalives=1,
                keepalives_idle=_PATIENCE,
                keepalives_interval=1,
                keepalives_count=_PATIENCE,
                tcp_user_timeout=_PATIENCE * 1000,
            )
            if not self._take(self._connection):
                self.close()
        except (psycopg.Error, JournalError) as error:
            raise self._lost(error) from error
        return self._connection is not None

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        """One transaction, whose commit waits for the server's disk."""
        connection = self._open_connection()
        name = self._experiment
        try:
            with connection.pipeline(), connection.transaction(), connection.cursor() as cursor:
                if rows:
                    columns = zip(*rows, strict=True)
                    cursor.execute(
                        f"INSERT INTO tightrope_journal (experiment, {_COLUMNS}) SELECT %s, * FROM "
                        "unnest(%s::bigint[], %s::bigint[], %s::smallint[], %s::text[], %s::bytea[])",
                        (name, *(list(column) for column in columns)),
                        binary=True,
                    )
                for snapshot in snapshots:
                    cursor.execute(
                        "INSERT INTO tightrope_snapshot VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (experiment, position) "
                        "DO UPDATE SET digest = excluded.digest, label = excluded.label, state = excluded.state",
                        (name, *snapshot),
                        binary=True,
                    )
                if drop:
                    gone = "DELETE FROM tightrope_snapshot WHERE experiment = %s AND position = ANY(%s)"
                    cursor.execute(gone, (name, list(drop)))
        except psycopg.Error as error:
            raise self._lost(error) from error

    def overwrite(self, rows: Sequence[Row]) -> None:
        """What was there is vacuumed away; the server's files, its own log and its replicas follow in their time."""
        connection = self._open_connection()
        try:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    "UPDATE tightrope_journal SET data = %s WHERE experiment = %s AND position = %s",
                    [(row.data, self._experiment, row.position) for row in rows],
                )
            connection.execute("VACUUM tightrope_journal")
        except psycopg.Error as error:
            raise self._lost(error) from error

    def probe(self) -> None:
        """Write a row that does not matter."""
        try:
            self._open_connection().execute(
                "INSERT INTO tightrope_probe AS old VALUES (%s, 1) ON CONFLICT (experiment) DO UPDATE SET count = old.count + 1",
                (self._experiment,),
            )
        except psycopg.Error as error:
            raise self._lost(error) from error

    def find(self, event_ids: Collection[str]) -> list[Row]:
        which = f"event_id = ANY(%s) AND kind <= {LAST_BY_EVENT} ORDER BY position"
        return self._rows(which, list(event_ids))

    def rows(self, after: int = 0) -> Iterator[Row]:
        while page := self._rows("position > %s ORDER BY position LIMIT 5000", after):
            yield from page
            after = page[-1].position

    def newest(self, kind: int, before: int, limit: int) -> list[Row]:
        # As constants, so that the planner sees which index fits.
        apart = f" AND kind > {LAST_BY_EVENT}" if kind > LAST_BY_EVENT else ""
        which = f"kind = {int(kind)}{apart} AND position < %s"
        return self._rows(f"{which} ORDER BY position DESC LIMIT %s", before, limit)

    def last(self) -> int:
        query = "SELECT coalesce(max(position), 0) FROM tightrope_journal WHERE experiment = %s"
        return int(self._all(query, (self._experiment,))[0][0])

    def snapshots(self) -> list[Snapshot]:
        query = "SELECT position, time, digest, label, ''::bytea FROM tightrope_snapshot WHERE experiment = %s ORDER BY position"
        return [Snapshot(*row) for row in self._all(query, (self._experiment,))]

    def snapshot(self, position: int) -> Snapshot | None:
        query = "SELECT position, time, digest, label, state FROM tightrope_snapshot WHERE experiment = %s AND position = %s"
        found = self._all(query, (self._experiment, position))
        return Snapshot(*found[0]) if found else None

    def close(self) -> None:
        """Close the connection, and with it the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
        if self._read_only:
            self._check_format(connection)
            return True
        connection.execute("SET synchronous_commit = on")
        digest = hashlib.blake2b(f"tightrope:{self._experiment}".encode(), digest_size=8).digest()
        key = int.from_bytes(digest, "big", signed=True)
        taken = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        if taken is None or not taken[0]:
            return False
        # Two experiments that start at once would make the same tables.
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('tightrope schema'))")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(
                f"INSERT INTO tightrope_format SELECT {FORMAT} WHERE NOT EXISTS (SELECT FROM tightrope_format)"
            )
        self._check_format(connection)
        return True

    def _check_format(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        found = connection.execute("SELECT version FROM tightrope_format").fetchall()
        if found != [(FORMAT,)]:
            raise JournalDamaged(
                f"the database holds version {found!r} of the journal's format; this release reads version {FORMAT}."
            )

    def _rows(self, which: str, *bindings: Any) -> list[Row]:
        query = f"SELECT {_COLUMNS} FROM tightrope_journal WHERE experiment = %s AND {which}"
        return [Row(*row) for row in self._all(query, (self._experiment, *bindings))]

    def _all(self, query: str, bindings: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        try:
            with self._open_connection().cursor(binary=True) as cursor:
                return cursor.execute(query, bindings).fetchall()
        except psycopg.Error as error:
            raise self._lost(error) from error

    def _open_connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None:
            raise JournalError("the journal is not open.")
        return self._connection

    def _lost(self, error: psycopg.Error | JournalError) -> JournalError:
        """After any error the lock may be gone, so the connection goes too: `open` takes a new one."""
        self.close()
        if isinstance(error, JournalError):
            return error
        words = str(error).strip().partition("\n")[0]
        return JournalError(f"PostgreSQL: {words or type(error).__name__}")
