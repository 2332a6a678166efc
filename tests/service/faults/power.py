"""A disk in memory that keeps only what was synced, seen by SQLite through an apsw VFS.

Every change goes into a log. `Disk.after(n)` is the disk as it would be found had the power gone after the first `n` changes:
what was synced is there; what was not is there, or not, sector by sector, as `loss` and chance decide. A failed sync behaves as
on Linux: the pages are taken for clean, reads go on to see them, and the disk never gets them.

>>> disk = Disk()
>>> disk.note("write", "f", 0, b"old"); disk.note("sync", "f"); disk.note("write", "f", 0, b"new")
>>> [bytes(Disk(disk.after(n, loss=1.0)).seen["f"]) for n in (2, 3)], bytes(disk.seen["f"])
([b'old', b'old'], b'new')
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw

from tightrope.service.storage.sqlite import SqliteJournal

SECTOR = 512

Kind = Literal["write", "truncate", "delete", "sync", "failed sync", "sync folder"]


class Change(NamedTuple):
    kind: Kind
    file: str
    offset: int
    data: bytes


class PowerLost(Exception):
    """The power goes now: what this call and later ones ask of the disk never happens."""


class Disk:
    """Files as a running program sees them, and the log of how they came to be."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.first = {name: bytes(content) for name, content in (files or {}).items()}
        self.seen = {name: bytearray(content) for name, content in self.first.items()}
        self.log: list[Change] = []
        self.before: Callable[[Change], None] = lambda change: None
        self.dead = False

    def note(self, kind: Kind, file: str, offset: int = 0, data: bytes = b"") -> None:
        """Make a change; `before` may refuse it with an error of SQLite's, or end everything with `PowerLost`."""
        if self.dead:
            return
        change = Change(kind, file, offset, data)
        try:
            self.before(change)
        except PowerLost:
            self.dead = True
            raise
        except apsw.Error:
            if kind == "sync":
                self.log.append(change._replace(kind="failed sync"))
            raise
        self.log.append(change)
        _apply(self.seen, change)

    def after(self, n: int, *, loss: float, seed: int = 0) -> dict[str, bytes]:
        """What is left when the power goes after `n` changes; each unsynced sector is lost with probability `loss`."""
        return Platter(self.first, self.log[:n]).left(loss, seed)

    def cuts(self) -> Iterator[tuple[int, Platter]]:
        """Every moment at which the power may go, with what the disk then holds."""
        platter = Platter(self.first)
        yield 0, platter
        for n, change in enumerate(self.log, 1):
            platter.take(change)
            yield n, platter


class Platter:
    """What has reached the disk, and what is on its way."""

    def __init__(self, files: Mapping[str, bytes], changes: list[Change] | None = None) -> None:
        self.durable = {name: bytearray(content) for name, content in files.items()}
        self.waiting: dict[str, list[Change]] = {}
        for change in changes or ():
            self.take(change)

    def take(self, change: Change) -> None:
        if change.kind == "sync":
            for one in self.waiting.pop(change.file, ()):
                _apply(self.durable, one)
        elif change.kind == "failed sync":
            self.waiting.pop(change.file, None)
        elif change.kind == "sync folder":
            for file, changes in self.waiting.items():
                gone = max((i for i, one in enumerate(changes, 1) if one.kind == "delete"), default=0)
                if gone:
                    self.durable.pop(file, None)
                    del changes[:gone]
        else:
            self.waiting.setdefault(change.file, []).append(change)

    def left(self, loss: float, seed: int = 0) -> dict[str, bytes]:
        chance = random.Random(seed)
        files = {name: bytearray(content) for name, content in self.durable.items()}
        for changes in self.waiting.values():
            for change in changes:
                for piece in _sectors(change):
                    if chance.random() >= loss:
                        _apply(files, piece)
        return {name: bytes(content) for name, content in files.items()}


def _apply(files: dict[str, bytearray], change: Change) -> None:
    if change.kind == "write":
        content = files.setdefault(change.file, bytearray())
        end = change.offset + len(change.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        content[change.offset : end] = change.data
    elif change.kind == "truncate":
        content = files.setdefault(change.file, bytearray())
        del content[change.offset :]
        content.extend(bytes(change.offset - len(content)))
    elif change.kind == "delete":
        files.pop(change.file, None)


def _sectors(change: Change) -> Iterator[Change]:
    """A write in the pieces that a disk writes at once; anything else as it is."""
    if change.kind != "write":
        yield change
        return
    at, end = change.offset, change.offset + len(change.data)
    while at < end:
        stop = min(end, (at // SECTOR + 1) * SECTOR)
        yield change._replace(offset=at, data=change.data[at - change.offset : stop - change.offset])
        at = stop


_LOGS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


class _File:
    """An open file of a disk, as apsw wants it."""

    def __init__(self, disk: Disk, name: str, flags: int) -> None:
        self._disk = disk
        self._name = name
        self._delete_on_close = bool(flags & apsw.SQLITE_OPEN_DELETEONCLOSE)
        # As SQLite does on Unix: the first sync of a log or a rollback journal that may be new is one of its folder too.
        self._sync_folder = bool(flags & apsw.SQLITE_OPEN_CREATE) and bool(flags & _LOGS)

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._disk.seen.get(self._name, b"")[offset : offset + amount])

    def xWrite(self, data: Any, offset: int) -> None:
        self._disk.note("write", self._name, offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        self._disk.note("truncate", self._name, size)

    def xSync(self, flags: int) -> None:
        self._disk.note("sync", self._name)
        if self._sync_folder:
            self._disk.note("sync folder", "")
            self._sync_folder = False

    def xFileSize(self) -> int:
        return len(self._disk.seen.get(self._name, b""))

    def xClose(self) -> None:
        if self._delete_on_close:
            self._disk.seen.pop(self._name, None)

    def xLock(self, level: int) -> None:
        pass

    def xUnlock(self, level: int) -> None:
        pass

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        # What SQLite takes for granted on Linux: a torn write harms no byte outside it.
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE


class _Vfs(apsw.VFS):
    def __init__(self, name: str, disk: Disk) -> None:
        self._disk = disk
        self._temporary = itertools.count()
        super().__init__(name, "")

    def excepthook(self, kind: Any, error: Any, trace: Any) -> bool:
        """apsw would print what the tests cause on purpose."""
        return True

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        flags[1] = flags[0]
        path = f"temporary-{next(self._temporary)}" if name is None else _path(name)
        if path not in self._disk.seen and not flags[0] & apsw.SQLITE_OPEN_CREATE:
            raise apsw.CantOpenError(path)
        self._disk.seen.setdefault(path, bytearray())
        return _File(self._disk, path, flags[0])

    def xAccess(self, name: str, flags: int) -> bool:
        return name in self._disk.seen

    def xFullPathname(self, name: str) -> str:
        return name

    def xDelete(self, name: str, sync: bool) -> None:
        if name not in self._disk.seen:
            raise apsw.IOError(name)
        self._disk.note("delete", name)
        if sync:
            self._disk.note("sync folder", "")


def _path(name: Any) -> str:
    return str(name.filename()) if isinstance(name, apsw.URIFilename) else str(name)


class PoweredJournal(SqliteJournal):
    """A SQLite journal on a disk that loses power.

    apsw's VFS has no shared memory, so the file is locked exclusively; SQLite then keeps the index of the log to itself. What is
    written and synced when is the same.
    """

    def __init__(self, path: Path, vfs: str, *, checkpoint: int, synchronous: str = "FULL") -> None:
        super().__init__(path, vfs=vfs, synchronous=synchronous)
        self._checkpoint = checkpoint

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.pragma("locking_mode", "exclusive")
        super()._prepare(connection)
        # Small, so that a short story goes through several checkpoints.
        connection.pragma("wal_autocheckpoint", self._checkpoint)


_names = itertools.count()


@contextmanager
def journal_on(
    disk: Disk,
    folder: Path,
    *,
    checkpoint: int = 8,
    synchronous: str = "FULL",
    made: type[PoweredJournal] = PoweredJournal,
) -> Iterator[PoweredJournal]:
    """A journal on `disk`, not open yet; its lock is a real file in `folder`."""
    name = f"power-{next(_names)}"
    vfs = _Vfs(name, disk)
    journal = made(folder / "ward.sqlite", name, checkpoint=checkpoint, synchronous=synchronous)
    try:
        yield journal
    finally:
        with suppress(apsw.Error, PowerLost):
            journal.close()
        journal._release_lock()
        vfs.unregister()
