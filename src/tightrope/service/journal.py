"""The journal: what happened to an experiment, in order. Everything else about it can be computed from this.

A journal is a list of rows, numbered from 1 without gaps, each an `Entry` in MessagePack, and snapshots of the state at
some of these positions. `append` is all or nothing, and durable when it returns. A storage (`storage/`) is where one is kept:
it fulfils the contract `Journal`.

>>> row = row_of(1, 0, Refused(event_id="visit-9", reason="unknown"))
>>> entry_of(row)
Refused(event_id='visit-9', reason='unknown', reward=None, costs=None)
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.errors import TightropeError
from tightrope.service.bodies import Costs, DecisionRequest
from tightrope.spec import named_kinds

FORMAT: Final = 1  # of the tables
ENTRIES: Final = 2  # of what is in them; since 2 every decision is stored with its probability


class JournalError(TightropeError):
    """The journal can't be read or written now: nothing was acknowledged that is not in it."""


class JournalLocked(JournalError):
    """Another process writes this journal."""


class JournalUnreachable(JournalError):
    """The journal is kept elsewhere, and nothing is heard from there: it may be back by itself."""


class JournalDamaged(JournalError):
    """What the journal holds can't have been written by this program, or does not replay to what it says."""


class _Entry(msgspec.Struct, tag_field="kind", omit_defaults=True, kw_only=True):
    pass


class Started(_Entry, tag="started"):
    """The experiment as its spec states it, and how long it waits for outcomes: the first entry, and again when that changes.

    A spec that names no kind of policy was written when the default was pessimistic-optimistic: that is what decided.
    """

    format: int
    version: str
    spec: dict[str, Any]
    expire_after: float
    max_pending: int

    def __post_init__(self) -> None:
        policy = named_kinds(self.spec.get("policy", {}), "pessimistic-optimistic")
        self.spec = {**self.spec, "policy": policy}


class Decided(_Entry, tag="decided"):
    """A decision: what was asked, what was answered, the numbers behind it (`Decision`'s trace) and the queue after it.

    `offered` holds the ids of the actions that were compared, None for all; `proposed` what the policy would have chosen where
    shadow mode served the default. `probability` is that with which the action was served, after prices, hard caps and
    eligibility: 1 for a policy that does not draw and for a default, None where there is no closed form and in journals of
    format 1. `probabilities` are those of all actions on offer, by row; left out where the one served has 1.
    """

    event_id: str
    request: DecisionRequest
    fingerprint: bytes
    number: int
    action: int
    trace: bytes
    queue: bytes
    offered: list[int] | None = None
    proposed: int | None = None
    probability: float | None = None
    probabilities: bytes | None = None


class Learnt(_Entry, tag="learnt"):
    """An outcome, or a part of one, that was applied."""

    event_id: str
    number: int
    reward: float | None = None
    costs: Costs | None = None


class Expired(_Entry, tag="expired"):
    """Decisions whose outcome is waited for no longer."""

    numbers: list[int]
    event_ids: list[str]


class Refused(_Entry, tag="refused"):
    """An outcome that was well formed, but came too late, for an event that no one knows, or at odds with an earlier one."""

    event_id: str
    reason: Literal["late", "unknown", "differs"]
    reward: float | None = None
    costs: Costs | None = None


class Measured(_Entry, tag="measured"):
    """Slater's constant, measured on what was seen up to a number of rounds."""

    rounds: int
    slater: float


class ModeChanged(_Entry, tag="mode"):
    """Live, shadow (with the action that is served by default) or paused."""

    mode: Literal["live", "shadow", "paused"]
    default: int | None = None


class RolledBack(_Entry, tag="rolled back"):
    """Back to the snapshot at `position`, whose state is here once more: snapshots may be dropped, the journal needs none."""

    position: int
    restore: Literal["learnt", "all"]
    state: bytes


Entry: TypeAlias = Started | Decided | Learnt | Expired | Refused | Measured | ModeChanged | RolledBack

# Numbers of the kinds in the tables, so that a query can pick some without decoding. Never reuse one.
KINDS: Final[dict[type[Any], int]] = {
    Decided: 1,
    Learnt: 2,
    Started: 3,
    Expired: 4,
    Refused: 5,
    Measured: 6,
    ModeChanged: 7,
    RolledBack: 8,
}
# The kinds up to this one are found by their event id; the others, which are few, by their kind.
LAST_BY_EVENT: Final = 2


class Row(NamedTuple):
    """An entry as it is stored: its place from 1, microseconds since 1970, its kind's number, its event, the entry itself."""

    position: int
    time: int
    kind: int
    event_id: str | None
    data: bytes


class Snapshot(NamedTuple):
    """The state after the entry at `position`, a SHA-256 of it in hexadecimal, and the name that people gave it."""

    position: int
    time: int
    digest: str
    label: str | None
    state: bytes

    @property
    def sound(self) -> bool:
        """Whether the state is the one that the digest was made of."""
        return digest_of(self.state) == self.digest


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


def row_of(position: int, time: int, entry: Entry) -> Row:
    """The entry as a row."""
    kind = KINDS[type(entry)]
    event_id = entry.event_id if isinstance(entry, Decided | Learnt) else None
    return Row(position, time, kind, event_id, _encoder.encode(entry))


def probabilities_of(entry: Decided, n_actions: int) -> NDArray[np.float64] | None:
    """The probability of every action, (J,), 0 of those that were not on offer; None where it is not known."""
    if entry.probability is None:
        return None
    found = np.zeros(n_actions)
    if entry.probabilities is None:
        found[entry.action] = entry.probability
    else:
        offered = slice(None) if entry.offered is None else entry.offered
        found[offered] = np.frombuffer(entry.probabilities)
    return found


def named_probabilities(entry: Decided, actions: Sequence[str]) -> dict[str, float] | None:
    """The same of the actions on offer, by name."""
    found = probabilities_of(entry, len(actions))
    if found is None:
        return None
    offered = range(len(actions)) if entry.offered is None else entry.offered
    return {actions[a]: float(found[a]) for a in offered}


def entry_of(row: Row) -> Entry:
    """The entry in a row."""
    try:
        entry: Entry = _decoder.decode(row.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalDamaged(f"row {row.position} of the journal can't be read: {error}") from error
    return entry


class Journal(ABC):
    """What an experiment needs of a storage. One thread at a time calls it; only `append` and `probe` write.

    Every method raises `JournalError` where the storage fails, and `JournalDamaged` where it holds what can't be right. After an
    error `open` is called again before anything else. `tightrope.service.conformance.JournalSuite` checks all of this.
    """

    def open(self) -> bool:
        """Get ready to read and write, also after a failure. False: another process is active, ask again later.

        Raises
        ------
        JournalLocked
            Another process writes here, and waiting for it is not how this storage works.
        """
        return True

    def held(self) -> bool:
        """Whether this process may still write, as far as it knows; asked often and from any thread, so it does not wait.

        False: another process is active, or may be from now on. What was read here may be out of date, and `append` fails.
        """
        return True

    def recorded(self) -> Row | None:
        """While standing by: the configuration that the active process goes by, its newest `Started`; None if nobody knows."""
        return None

    def stand_aside(self, aside: bool) -> None:  # noqa: B027
        """While standing by: whether not to take over, since this process could not go on with the journal."""

    @abstractmethod
    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        """Add rows and snapshots and drop the snapshots at some positions, all or nothing, durable on return."""

    def probe(self) -> None:  # noqa: B027
        """Write something that does not matter, durably: raises `JournalError` where `append` would."""

    @abstractmethod
    def find(self, event_ids: Collection[str]) -> list[Row]:
        """The rows of these events whose kind is at most `LAST_BY_EVENT`, in order."""

    @abstractmethod
    def rows(self, after: int = 0) -> Iterator[Row]:
        """All rows beyond a position, in order, read as they are needed."""

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
        """Let go of everything; another process may write from now on."""

    def reader(self) -> Journal | None:
        """The same journal, not open yet, for another thread to read while this one writes; None where that can't be."""
        return None

    def disk_left(self) -> int | None:
        """Bytes that are free where the journal is kept, from any thread; None where that is not known."""
        return None

    def select(self, kinds: Collection[int], *, before: int | None = None, limit: int = 100) -> list[Row]:
        """The newest rows of some kinds, newest first."""
        end = before if before is not None else 1 << 62
        found = [row for kind in kinds for row in self.newest(kind, end, limit)]
        return sorted(found, reverse=True)[:limit]


# The state of an experiment as bytes, and back.

_packer = msgspec.msgpack.Encoder(order="deterministic")


def digest_of(packed: bytes) -> str:
    """The SHA-256 of a packed state, in hexadecimal."""
    return hashlib.sha256(packed).hexdigest()


def packed_state(state: dict[str, Any]) -> bytes:
    """Plain data as MessagePack: equal states give equal bytes."""
    return _packer.encode(state)


def unpacked_state(packed: bytes) -> dict[str, Any]:
    """What `packed_state` was given."""
    try:
        state: dict[str, Any] = msgspec.msgpack.decode(packed, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise JournalDamaged(f"a snapshot can't be read: {error}") from error
    return state


def packed_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Arrays as plain data: type, shape and bytes."""
    return {name: [array.dtype.str, list(array.shape), array.tobytes()] for name, array in arrays.items()}


def unpacked_arrays(plain: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """What `packed_arrays` was given."""
    arrays = {}
    for name, (dtype, shape, data) in plain.items():
        if len(data) != np.dtype(dtype).itemsize * math.prod(shape):
            raise JournalDamaged(f"a snapshot's array {name!r} does not have the size that it states.")
        arrays[name] = np.frombuffer(data, dtype=dtype).reshape(shape).copy()
    return arrays
