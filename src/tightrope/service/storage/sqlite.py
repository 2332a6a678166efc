"""A journal in one SQLite file: write-ahead log, one fsync for each batch, one writer process.

The file is `NAME.sqlite`; `NAME.lock` beside it is held by the process that writes, and `NAME.head` tells where the chain ends.
Only their owner may read them, or the folder if it is created here. Other processes of that user may read at any time. `Journal`
documents the methods.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from tightrope.errors import InvalidInput
from tightrope.files import file_name
from tightrope.service.journal import JournalDamaged, JournalError, JournalLocked
from tightrope.service.journal.contract import Journal, Snapshot
from tightrope.service.journal.entries import FORMAT, LAST_BY_EVENT
from tightrope.service.journal.rows import Row

log = logging.getLogger("tightrope.service")

_AT_ONCE: Final = 256
_BUSY_MS: Final = 10_000
# Decisions wait while an erasure waits for readers.
_READERS_MS: Final = 500
APPLICATION: Final = 0x74726A31  # "trj1"

_SCHEMA: Final = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")


def journal(address: str, experiment: str, *, read_only: bool = False) -> SqliteJournal:
    """The journal of an experiment in the folder at `address`: its name, written so that different names give different files."""
    if not experiment:
        raise InvalidInput(field="name", must="not be empty: journals are found by it")
    path = Path(address.partition(":")[2], f"{file_name(experiment)}.sqlite")
    return SqliteJournal(path, read_only=read_only)


class SqliteJournal(Journal):
    """The journal in the file at `path`; with `read_only` it needs no lock, even while another process writes.

    `vfs` names an apsw VFS to go through instead of the operating system's, for tests that lose power. Of SQLite's settings of
    `synchronous` only FULL keeps the promise of `append`; NORMAL is the control that shows a test can fail.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        vfs: str | None = None,
        synchronous: str = "FULL",
    ) -> None:
        self.path = Path(path)
        # A test's own file system has its own files.
        self.head_file = self.path.with_suffix(".head") if vfs is None else None
        self._read_only = read_only
        self._vfs = vfs
        self._synchronous = synchronous
        self._lock: int | None = None
        # Whether the write-ahead log holds what was erased.
        self._log_to_empty = False
        self._connection: apsw.Connection | None = None

    def open(self) -> bool:
        """Lock, open or create the file, and copy the write-ahead log into it."""
        if self._connection is not None:
            return True
        flags = apsw.SQLITE_OPEN_READONLY
        if not self._read_only:
            self._take_lock()
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        elif not self.path.exists():
            raise JournalError(f"{self.path}: there is no journal here.")
        connection: apsw.Connection | None = None
        try:
            connection = apsw.Connection(str(self.path), flags=flags, vfs=self._vfs)
            connection.set_busy_timeout(_BUSY_MS)
            if not self._read_only:
                self._prepare(connection)
            self._check_format(connection)
        except (apsw.Error, OSError, JournalError) as error:
            if connection is not None:
                with contextlib.suppress(apsw.Error):
                    connection.close()
            self._release_lock()
            raise _failure(self.path, error) from error
        self._connection = connection
        return True

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        """One transaction, one fsync."""
        with self._opened() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?)", rows)
                if snapshots:
                    insert = "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?)"
                    connection.executemany(insert, snapshots)
                if drop:
                    connection.executemany("DELETE FROM snapshot WHERE position = ?", zip(drop))
                connection.execute("COMMIT")
            except (apsw.Error, OSError):
                # The connection stays open: reopening the file would revive frames whose fsync failed.
                with contextlib.suppress(apsw.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise
        if self._log_to_empty:
            with contextlib.suppress(JournalError):
                self._empty_log(0)

    def overwrite(self, rows: Sequence[Row]) -> None:
        """The old data is overwritten with zeros, and the write-ahead log is emptied as soon as no reader is in the way."""
        data = [(row.data, row.position) for row in rows]
        with self._opened() as connection:
            with connection:
                connection.executemany("UPDATE journal SET data = ? WHERE position = ?", data)
            self._log_to_empty = True
            self._empty_log(_READERS_MS)
        if self._log_to_empty:
            words = "%s: erased, but a reader still holds the write-ahead log, which will be emptied when the reader is done"
            log.warning(words, self.path)

    def probe(self) -> None:
        """Write a page, and copy the log into the file, which is what needs space."""
        with self._opened() as connection:
            connection.execute("UPDATE probe SET count = count + 1")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def find(self, event_ids: Collection[str]) -> list[Row]:
        # One query for many, padded to a power of two, so that there are few different queries to prepare.
        wanted, found = list(event_ids), []
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            room = 1 << (len(some) - 1).bit_length()
            query = f"SELECT * FROM journal WHERE event_id IN ({_marks(room)}) AND kind <= {LAST_BY_EVENT}"
            found += [Row(*row) for row in self._select(query, (*some, *[None] * (room - len(some))))]
        return sorted(found)

    def rows(self, after: int = 0) -> Iterator[Row]:
        query = "SELECT * FROM journal WHERE position > ? ORDER BY position"
        return (Row(*row) for row in self._select(query, (after,)))

    def newest(self, kind: int, before: int, limit: int) -> list[Row]:
        # Rows found by event id have no index by kind: they are many, so the newest are never far.
        which = (
            f"kind = {int(kind)} AND kind > {LAST_BY_EVENT}"
            if kind > LAST_BY_EVENT
            else f"+kind = {int(kind)}"
        )
        query = f"SELECT * FROM journal WHERE {which} AND position < ? ORDER BY position DESC LIMIT ?"
        return [Row(*row) for row in self._select(query, (before, limit))]

    def last(self) -> int:
        [(position,)] = self._select("SELECT max(position) FROM journal", ())
        return int(position or 0)

    def snapshots(self) -> list[Snapshot]:
        query = "SELECT position, time, digest, label, x'' FROM snapshot ORDER BY position"
        return [Snapshot(*row) for row in self._select(query, ())]

    def snapshot(self, position: int) -> Snapshot | None:
        found = list(self._select("SELECT * FROM snapshot WHERE position = ?", (position,)))
        return Snapshot(*found[0]) if found else None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._release_lock()

    def reader(self) -> SqliteJournal:
        return SqliteJournal(self.path, read_only=True, vfs=self._vfs)

    def disk_left(self) -> int | None:
        try:
            return shutil.disk_usage(self.path.parent).free
        except OSError:
            return None

    def _empty_log(self, patience: int) -> None:
        """Copy all of the write-ahead log into the file and empty it, unless a reader holds it for that many milliseconds."""
        with self._opened() as connection:
            connection.set_busy_timeout(patience)
            try:
                [(busy, *_)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.set_busy_timeout(_BUSY_MS)
        self._log_to_empty = bool(busy)

    def _select(self, query: str, bindings: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        with self._opened() as connection:
            yield from connection.execute(query, bindings)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[apsw.Connection]:
        """The connection; what fails on it is a `JournalError`."""
        if self._connection is None:
            raise JournalError(f"{self.path}: the journal is not open.")
        try:
            yield self._connection
        except (apsw.Error, OSError) as error:
            raise _failure(self.path, error) from error

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        path = self.path.with_suffix(".lock")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._vfs is None:
                # SQLite would let everyone read it; its log gets the file's own mode.
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _failure(path, error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise JournalLocked(
                f"{self.path}: another process writes this journal; a SQLite journal has one writer. Stop the other "
                "one, or use PostgreSQL, where others stand by."
            ) from error
        self._lock = handle

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _prepare(self, connection: apsw.Connection) -> None:
        mode = connection.pragma("journal_mode", "wal")
        if mode != "wal":
            words = f"the file system does not support SQLite's write-ahead log: it answers {mode!r}."
            raise JournalError(f"{self.path}: {words}")
        connection.pragma("synchronous", self._synchronous)
        connection.pragma("wal_autocheckpoint", 4000)
        # Always: split pages and dropped snapshots would leave copies of data that is erased later.
        connection.pragma("secure_delete", True)
        # Frames that an earlier process left in the log may never have reached the disk; this writes them again.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        if connection.pragma("user_version") == 0 and not tables:
            made = _SCHEMA.format(application=APPLICATION, format=FORMAT, last_by_event=LAST_BY_EVENT)
            connection.execute(f"BEGIN IMMEDIATE; {made} COMMIT;")

    def _check_format(self, connection: apsw.Connection) -> None:
        if connection.pragma("application_id") != APPLICATION:
            raise JournalDamaged(f"{self.path}: not a Tightrope journal.")
        version = connection.pragma("user_version")
        if version != FORMAT:
            raise JournalDamaged(
                f"{self.path}: written in version {version} of the journal's format; this release reads version {FORMAT}."
            )


@functools.cache
def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _failure(path: Path, error: Exception) -> JournalError:
    if isinstance(error, JournalError):
        return error
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return JournalDamaged(f"{path}: {error}")
    return JournalError(f"{path}: {type(error).__name__}: {error}")
