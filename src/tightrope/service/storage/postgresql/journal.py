"""The journal of one experiment in PostgreSQL.

Every append names the term of the process's lease (`lease`) and writes nothing if the term is over; the primary key keeps a second
writer out even if a lease were lost. `Journal` documents the methods.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import struct
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

import psycopg
from psycopg import pq

from tightrope.service.journal import JournalError
from tightrope.service.journal.contract import Journal, Snapshot
from tightrope.service.journal.entries import KINDS, LAST_BY_EVENT, Started
from tightrope.service.journal.rows import Row
from tightrope.service.storage.postgresql.connection import (
    PATIENCE,
    SQL,
    Connection,
    Statement,
    connect,
    failure,
    give_up,
)
from tightrope.service.storage.postgresql.lease import Lease
from tightrope.service.storage.postgresql.schema import require_format

log = logging.getLogger("tightrope.service")

_PAUSE: Final = 0.01
_COLUMNS: Final = "position, time, kind, event_id, data"
_INT2, _INT8, _TEXT, _BYTEA = 21, 20, 25, 17
_ARRAYS: Final = {_INT2: 1005, _INT8: 1016, _TEXT: 1009, _BYTEA: 1001}
_ROW_TYPES: Final = (_INT8, _INT8, _INT2, _TEXT, _BYTEA)
_SNAPSHOT_TYPES: Final = (_INT8, _INT8, _TEXT, _TEXT, _BYTEA)

_ARRAYS_OF_ROWS: Final = tuple(_ARRAYS[one] for one in _ROW_TYPES)
_ARRAYS_OF_SNAPSHOTS: Final = tuple(_ARRAYS[one] for one in _SNAPSHOT_TYPES)
_APPEND: Final = Statement("append", (_TEXT, _INT8, *_ARRAYS_OF_ROWS))
_APPEND_ALL: Final = Statement(
    "append_all", (_TEXT, _INT8, *_ARRAYS_OF_ROWS, *_ARRAYS_OF_SNAPSHOTS, _ARRAYS[_INT8])
)
_FIND: Final = Statement("find", (_TEXT, _ARRAYS[_TEXT]))

# 8 MiB: after 5 million events, one new event in 250 is looked up needlessly; after 20 million, one in 4.
_BITS: Final = 1 << 26
_places: Final = struct.Struct("<4I").unpack


class KnownEvents:
    """A Bloom filter of event ids, valid once it is `complete`: an id that it does not know is new, one that it knows may be."""

    def __init__(self) -> None:
        self.complete = False
        self._bits = bytearray(_BITS // 8)

    def note(self, event_ids: Iterable[str | None]) -> None:
        bits = self._bits
        for one in event_ids:
            if one is not None:
                for place in _places(blake2b(one.encode(), digest_size=16).digest()):
                    bits[(place >> 3) % len(bits)] |= 1 << (place & 7)

    def may_hold(self, event_id: str) -> bool:
        bits = self._bits
        for place in _places(blake2b(event_id.encode(), digest_size=16).digest()):
            if not bits[(place >> 3) % len(bits)] & 1 << (place & 7):
                return False
        return True


class PostgresJournal(Journal):
    """The journal of one experiment in the database at `url`, as libpq reads it; `read_only` needs no lease.

    `lease` is shared by all experiments of a process; by default it is only for this experiment.
    """

    def __init__(
        self, url: str, experiment: str, *, read_only: bool = False, lease: Lease | None = None
    ) -> None:
        self._url = url
        self.place = _place(url, experiment)
        self._experiment = experiment
        self._read_only = read_only
        self._lease = Lease(url, [experiment]) if lease is None else lease
        self._term = 0
        # Of the present term.
        self._known: KnownEvents | None = None
        self._connection: Connection | None = None

    def reader(self) -> PostgresJournal:
        return PostgresJournal(self._url, self._experiment, read_only=True)

    def open(self) -> bool:
        """Connect, and begin a new term; False while another process has the lease."""
        if not self._read_only and not self._lease.acquire(self._experiment):
            self._let_go()
            return False
        if self._connection is not None:
            if not self._connection.gone:
                return True
            self._let_go()
        self._connection = connection = connect(self._url)
        try:
            if self._read_only:
                require_format(connection)
                return True
            # From here on, nothing that an earlier connection of ours still does has any effect.
            found = connection.execute(SQL["next_term"], (self._experiment, self._lease.holder)).fetchone()
        except (psycopg.Error, JournalError) as error:
            raise self._lost(error) from None
        if found is None:
            self._let_go()
            return False
        self._term = int(found[0])
        # From here on only this connection writes.
        self._known = KnownEvents()
        threading.Thread(
            target=self._learn_events, args=(self._known,), name="known events", daemon=True
        ).start()
        return True

    def held(self) -> bool:
        connection = self._connection
        return self._read_only or (self._lease.held and connection is not None and not connection.gone)

    def stand_aside(self, aside: bool) -> None:
        self._lease.stand_aside(self._experiment, aside)

    def recorded(self) -> Row | None:
        which = f"kind = {KINDS[Started]} ORDER BY position DESC LIMIT 1"
        return next(iter(self._beside(which)), None)

    def watched(self, position: int) -> list[Row]:
        last = "(SELECT max(position) FROM tightrope_journal WHERE experiment = %s)"
        which = f"position IN (%s, {last}) ORDER BY position"
        return self._beside(which, position, self._experiment)

    def _beside(self, which: str, *bindings: Any) -> list[Row]:
        """Rows, read on a temporary connection: a process that stands by has none."""
        connection = connect(self._url)
        query = f"SELECT {_COLUMNS} FROM tightrope_journal WHERE experiment = %s AND {which}"
        try:
            found = connection.execute(query, (self._experiment, *bindings), binary=True).fetchall()
        except psycopg.Error as error:
            raise failure(self._url, error) from None
        finally:
            connection.close()
        return [Row(*row) for row in found]

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        """One statement, whose commit waits for the server's disk; it writes nothing unless the term is still ours."""
        if self._known is not None:
            self._known.note(row.event_id for row in rows if row.kind <= LAST_BY_EVENT)
        parameters: list[bytes] = [self._experiment.encode(), _int8(self._term)]
        parameters += _columns(rows, _ROW_TYPES)
        with self._opened() as connection:
            if snapshots or drop or not rows:
                parameters += [*_columns(snapshots, _SNAPSHOT_TYPES), _array(_INT8, drop)]
                written = connection.call(_APPEND_ALL, parameters).ntuples == 1
            else:
                written = connection.call(_APPEND, parameters).command_tuples == len(rows)
        if not written:
            raise self._lost(JournalError("another process has taken over; nothing was written."))

    def overwrite(self, rows: Sequence[Row]) -> None:
        """The old data is vacuumed away, snapshots too; the server's files, its own log and its replicas follow in time."""
        # The function removes the sealed part, whatever the rows here say: this role may not change rows in any other way.
        values = (self._experiment, self._term, [row.position for row in rows])
        with self._opened() as connection, connection.transaction():
            [written] = connection.execute("SELECT tightrope_erase(%s, %s, %s)", values).fetchone() or [0]
        if written != len(rows):
            raise self._lost(JournalError("another process has taken over; nothing was erased."))
        # For large tables this takes a while, and nobody needs to wait for it.
        vacuum = threading.Thread(target=self._vacuum, name="vacuum", daemon=True)
        vacuum.start()
        vacuum.join(PATIENCE)

    def probe(self) -> None:
        with self._opened() as connection:
            connection.execute(SQL["probe"], (self._experiment,))

    def find(self, event_ids: Collection[str]) -> list[Row]:
        known = self._known
        if known is not None and known.complete:
            event_ids = [one for one in event_ids if known.may_hold(one)]
            if not event_ids:
                return []
        with self._opened() as connection:
            found = connection.call(_FIND, [self._experiment.encode(), _array(_TEXT, event_ids)])
        return [_row(found, at) for at in range(found.ntuples)]

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
        """Close the connection; the last journal of a process gives the lease back."""
        self._known = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if not self._read_only:
            self._lease.release(self._experiment)

    def _vacuum(self) -> None:
        """On its own connection, without a time limit; a role that may not vacuum leaves it to the server."""
        try:
            with psycopg.connect(
                self._url, autocommit=True, connect_timeout=math.ceil(PATIENCE)
            ) as connection:
                connection.add_notice_handler(
                    lambda said: log.warning("erased, but not vacuumed: %s", said.message_primary)
                )
                connection.execute("VACUUM tightrope_journal, tightrope_snapshot")
        except psycopg.Error as error:
            log.warning("erased, but not vacuumed: %s", failure(self._url, error))

    def _learn_events(self, known: KnownEvents) -> None:
        """Read the event ids from before the term, page by page, on its own thread and connection."""
        last: str | None = ""
        known.note([last])
        try:
            with connect(self._url) as connection:
                while last is not None and known is self._known:
                    page = connection.execute(SQL["events"], (self._experiment, last)).fetchall()
                    known.note(one for (one,) in page)
                    last = page[-1][0] if page else None
                    # Decisions go first.
                    time.sleep(_PAUSE)
        except (psycopg.Error, JournalError) as error:
            log.warning(
                "experiment %r: every event must be looked up in the database: %s", self._experiment, error
            )
        else:
            known.complete = True

    def _rows(self, which: str, *bindings: Any) -> list[Row]:
        query = f"SELECT {_COLUMNS} FROM tightrope_journal WHERE experiment = %s AND {which}"
        return [Row(*row) for row in self._all(query, (self._experiment, *bindings))]

    def _all(self, query: str, bindings: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._opened() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(query, bindings).fetchall()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Connection]:
        """The connection; after any error on it, call `open` again."""
        if self._connection is None:
            raise JournalError("the journal is not open.")
        try:
            yield self._connection
        except psycopg.Error as error:
            raise self._lost(error) from None

    def _let_go(self) -> None:
        self._known = None
        if self._connection is not None:
            give_up(self._url, self._connection)
            self._connection = None

    def _lost(self, error: psycopg.Error | JournalError) -> JournalError:
        """After any error the connection is dropped: `open` makes a new one, and a new term."""
        self._let_go()
        return error if isinstance(error, JournalError) else failure(self._url, error)


def _place(url: str, experiment: str) -> str | None:
    """Which journal in which database of which server; None for an invalid URL, which `connect` reports."""
    try:
        known = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        return None
    return "/".join([*(str(known.get(name, "")) for name in ("host", "port", "dbname")), experiment])


# --- values in PostgreSQL's binary form ---

_int8: Final = struct.Struct("!q").pack
_int2: Final = struct.Struct("!h").pack
_length: Final = struct.Struct("!i").pack
_LENGTH_2, _LENGTH_8, _NULL = _length(2), _length(8), _length(-1)


def _array(kind: int, values: Collection[Any]) -> bytes:
    parts = [struct.pack("!iiIii", 1, 1, kind, len(values), 1) if values else struct.pack("!iiI", 0, 0, kind)]
    if kind == _INT8:
        parts += [_LENGTH_8 + _int8(value) for value in values]
    elif kind == _INT2:
        parts += [_LENGTH_2 + _int2(value) for value in values]
    else:
        for value in values:
            if value is None:
                parts.append(_NULL)
            else:
                content = value.encode() if isinstance(value, str) else value
                parts += (_length(len(content)), content)
    return b"".join(parts)


def _columns(rows: Sequence[tuple[Any, ...]], kinds: tuple[int, ...]) -> list[bytes]:
    columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return [_array(kind, column) for kind, column in zip(kinds, columns, strict=True)]


_whole: Final = functools.partial(int.from_bytes, byteorder="big", signed=True)


def _row(found: pq.abc.PGresult, at: int) -> Row:
    values: list[Any] = [found.get_value(at, column) for column in range(len(_ROW_TYPES))]
    position, time, kind = map(_whole, values[:3])
    event_id, data = values[3:]
    return Row(position, time, kind, None if event_id is None else event_id.decode(), data)
