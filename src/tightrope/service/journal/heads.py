"""The head of a journal's chain, kept outside the journal, so that a loss of acknowledged entries is noticed.

A SQLite journal has its head beside it. One in a database has it on the machine of each replica, in the folder of `--heads`.

The head is the position and the hash of the last row. It is written after each commit, over the same bytes of a small file and
without an fsync of its own. So whatever dies, the file is never ahead of the journal: it may be behind, by a batch after a kill, by
some seconds after a power cut. A file that is ahead, or has another hash, means that rows were lost or changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path
from typing import NamedTuple

from tightrope.files import file_name
from tightrope.service.journal import JournalDamaged, JournalError
from tightrope.service.journal.contract import Journal, row_at
from tightrope.service.journal.rows import Row, hash_of

log = logging.getLogger("tightrope.service")


class Head(NamedTuple):
    """The last row of a chain: its position and its hash."""

    position: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.position}:{self.hash.hex()}"


def heads_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Where this machine keeps the heads of journals in databases: as given, or in the user's state folder."""
    if given is not None:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    try:
        return Path(state or Path.home() / ".local" / "state", "tightrope", "heads")
    except RuntimeError:  # a user without a home, as in some containers
        return Path("tightrope-heads")


def keep_head(journal: Journal, folder: Path) -> None:
    """Give a journal in a database a file for its head, one per experiment and database.

    If that is impossible, it is logged: the service still starts, but rows deleted at the end go unnoticed.
    """
    if journal.head_file is not None or journal.place is None:
        return
    experiment = journal.place.rpartition("/")[2]
    mark = hashlib.sha256(journal.place.encode()).hexdigest()[:12]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError("this process may not write there")
    except OSError as error:
        words = "no head of the journal can be kept in %s: %s. Entries that are deleted from its end would go unnoticed. "
        words += "Use --heads with a folder that outlives this process"
        log.error(words, folder, error.strerror or error)
        return
    journal.head_file = folder / f"{file_name(experiment)}.{mark}.head"


def set_aside(path: Path) -> Path | None:
    """Move a head away, for a journal that is known to lack entries, such as a restored backup; returns where to, or None."""
    head = read_head(path)
    if head is None:
        return None
    target = path.with_name(f"{path.name}.{head.position}")
    try:
        os.replace(path, target)
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror or error}") from error
    log.warning(
        "%s was moved to %s: the journal is accepted without the entries that it lacks", path, target.name
    )
    return target


def read_head(path: Path) -> Head | None:
    """The head in the file, None if there is no file; or `JournalDamaged` if it holds something else."""
    try:
        text = path.read_text(encoding="ascii")
        if not text:  # created, and then the process died
            return None
        position, _, digest = text.strip().partition(":")
        head = Head(int(position), bytes.fromhex(digest))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise JournalDamaged(f"{path}: must hold POSITION:HASH, but can't be read: {error}") from error
    if len(head.hash) != 32:
        raise JournalDamaged(f"{path}: must hold POSITION:HASH with 64 digits in the hash, but got {text!r}.")
    return head


class HeadFile:
    """A file that holds a head, always of the same size; with `path` None the head is kept only in memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: Head | None = None
        self._handle: int | None = None

    def write(self, head: Head) -> None:
        """Record that the journal ends here. A failure is only logged: the row is in the journal anyway."""
        self.known = head
        if self.path is None:
            return
        try:
            text = b"%020d:%s\n" % (head.position, head.hash.hex().encode())
            if self._handle is None:
                self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                if os.fstat(self._handle).st_size != len(text):
                    _write_first(self._handle, text, self.path.parent)
            os.pwrite(self._handle, text, 0)
        except OSError as error:
            log.error("%s: the head of the chain can't be kept: %s", self.path, error)

    def close(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._handle)
            os.close(self._handle)
            self._handle = None

    def require(self, journal: Journal) -> None:
        """Refuse a journal that lacks entries, judging by the file or by what this process has written to it."""
        kept = None if self.path is None else read_head(self.path)
        for head, where in ((kept, str(self.path)), (self.known, "this process")):
            if head is not None:
                require_head(journal, head, where)
        if kept is None and self.path is not None:
            row = row_at(journal, journal.last())
            if row is not None:
                words = "%s is missing, as on a new replica: nothing here shows whether the journal lacks entries after row %d, "
                words += "where it ends. Compare with a head that was kept elsewhere: tightrope replay --head"
                log.warning(words, self.path, row.position)

    def follow(self, journal: Journal) -> None:
        """While another process writes the journal: check that it has its old rows, and only then record where it ends now."""
        head = self.known
        if head is None and self.path is not None:
            head = read_head(self.path)
        found = {row.position: row for row in journal.watched(0 if head is None else head.position)}
        last = max(found, default=0)
        if head is not None:
            _require(head, last, found.get(head.position), str(self.path or "this process"))
        if last and (head is None or last > head.position):
            self.write(Head(last, hash_of(found[last], None)))


def require_head(journal: Journal, head: Head, where: str) -> None:
    _require(head, journal.last(), row_at(journal, head.position), where)


def _require(head: Head, last: int, row: Row | None, where: str) -> None:
    """Refuse a journal that ends at `last` and has `row` at the head's position, unless that is the head."""
    if head.position > last:
        raise JournalDamaged(
            f"the journal ends at row {last}, but {where} knows of row {head.position}: {head.position - last} acknowledged "
            "entries are lost. Restore the whole journal, with its write-ahead log; or continue without them, with "
            "--accept-restored: see docs/backup.md."
        )
    if row is None or hash_of(row, None) != head.hash:
        raise JournalDamaged(
            f"row {head.position} of the journal is not the one that {where} knows, {head.hash.hex()}: "
            "the journal was changed since. Restore it; or, if this is a restored backup, use --accept-restored: see "
            "docs/backup.md."
        )


def _write_first(handle: int, text: bytes, folder: Path) -> None:
    """Sync it to disk, name and size too: later writes change neither, and stay within one sector."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, text, 0)
    os.fsync(handle)
    entries = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(entries)
    finally:
        os.close(entries)
