"""What an experiment needs of a storage: the contract `Journal`, which every module in `storage/` fulfils.

A journal is a list of rows, numbered from 1 without gaps, and snapshots of the state at some of these positions. `append` is all
or nothing, and durable when it returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tightrope.service.journal import JournalError
from tightrope.service.journal.entries import KINDS, Erased, Snapshotted, Written
from tightrope.service.journal.packing import digest_of
from tightrope.service.journal.rows import Row, entry_of

E = TypeVar("E", bound=Written)


class Snapshot(NamedTuple):
    """The state after the entry at `position`, a SHA-256 of it in hexadecimal, and the name that people gave it."""

    position: int
    time: int
    digest: str
    label: str | None
    state: bytes

    @property
    def without_state(self) -> Snapshot:
        """The same as a list shows it."""
        return Snapshot(*self[:4], b"")

    @property
    def sound(self) -> bool:
        """Whether the state matches the digest."""
        return digest_of(self.state) == self.digest


class Journal(ABC):
    """What an experiment needs of a storage. One thread at a time calls it; only `append` and `probe` write.

    Every method raises `JournalError` if the storage fails, and `JournalDamaged` if its content can't be right. After an error,
    `open` is called again before anything else. `journal.conformance.JournalSuite` checks all of this.
    """

    # Where the hash of the last row is kept outside the journal; None: nowhere.
    head_file: Path | None = None
    # For a storage without its own folder: an id of the place, so that `heads.keep_head` gives it its own file.
    place: str | None = None

    def open(self) -> bool:
        """Get ready to read and write, also after a failure; or `JournalLocked`. False: another process is active, try later."""
        return True

    def held(self) -> bool:
        """Whether this process may still write, as far as it knows; called often and from any thread, so it must not wait.

        False: another process is active, or may be from now on. What was read here may be out of date, and `append` fails.
        """
        return True

    def recorded(self) -> Row | None:
        """While standing by: the active process's configuration, its newest `Started`; None if it is not known."""
        return None

    def watched(self, position: int) -> list[Row]:
        """While standing by: the row at a position and the last one, if they exist."""
        return []

    def stand_aside(self, aside: bool) -> None:  # noqa: B027
        """While standing by: whether not to take over, because this process could not continue with the journal."""

    @abstractmethod
    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        """Add rows and snapshots and drop the snapshots at some positions, all or nothing, durable on return."""

    def overwrite(self, rows: Sequence[Row]) -> None:
        """Replace the data of existing rows, all or nothing and durable; the old data is gone from the storage."""
        raise JournalError(f"{type(self).__name__} can't erase anything.")

    def probe(self) -> None:  # noqa: B027
        """Write something unimportant durably: raises `JournalError` if `append` would."""

    @abstractmethod
    def find(self, event_ids: Collection[str]) -> list[Row]:
        """The rows of these events whose kind is at most `LAST_BY_EVENT`, in order."""

    @abstractmethod
    def rows(self, after: int = 0) -> Iterator[Row]:
        """All rows after a position, in order, read lazily."""

    @abstractmethod
    def newest(self, kind: int, before: int, limit: int) -> list[Row]:
        """The newest rows of one kind before a position, newest first."""

    @abstractmethod
    def last(self) -> int:
        """The position of the last row; 0 for an empty journal."""

    @abstractmethod
    def snapshots(self) -> list[Snapshot]:
        """All snapshots, oldest first, without their states."""

    @abstractmethod
    def snapshot(self, position: int) -> Snapshot | None:
        """The snapshot at a position."""

    def close(self) -> None:  # noqa: B027
        """Release everything; another process may write from now on."""

    def reader(self) -> Journal | None:
        """The same journal, not open yet, for another thread to read while this one writes; None if that is impossible."""
        return None

    def disk_left(self) -> int | None:
        """Free bytes where the journal is kept, callable from any thread; None if unknown."""
        return None

    def select(self, kinds: Collection[int], *, before: int | None = None, limit: int = 100) -> list[Row]:
        end = before if before is not None else 1 << 62
        found = [row for kind in kinds for row in self.newest(kind, end, limit)]
        return sorted(found, reverse=True)[:limit]

    def newest_rows(self, *kinds: type[Any], before: int | None = None) -> Iterator[Row]:
        """All rows of some kinds of entries, newest first, read page by page."""
        while page := self.select([KINDS[kind] for kind in kinds], before=before):
            yield from page
            before = page[-1].position

    def told(self, kind: type[E], before: int | None = None) -> Iterator[E]:
        """All complete entries of one kind, newest first."""
        for row in self.newest_rows(kind, before=before):
            if isinstance(entry := entry_of(row), kind):
                yield entry


def row_at(journal: Journal, position: int) -> Row | None:
    found = next(journal.rows(after=position - 1), None)
    return found if found is not None and found.position == position else None


def bound_snapshots(journal: Journal) -> dict[int, str]:
    """The newest digest in the chain for the snapshot at each position."""
    found: dict[int, str] = {}
    for row in journal.newest_rows(Snapshotted, Erased):
        entry = entry_of(row)
        if isinstance(entry, Snapshotted):
            found.setdefault(entry.of, entry.digest)
        elif isinstance(entry, Erased):
            for position, digest in entry.snapshots:
                found.setdefault(position, digest)
    return found


def fault_of(snapshot: Snapshot, bound: Mapping[int, str]) -> str | None:
    """Why a snapshot must not be used; None if it is as the chain says. `bound` is from `bound_snapshots`."""
    if not snapshot.sound:
        return "does not match its own digest"
    if snapshot.position not in bound:
        return "is not in the journal's chain"
    same = bound[snapshot.position] == snapshot.digest
    return None if same else "is not the one that the journal's chain says was taken"
