"""The journal: what happened to an experiment, in order. Everything else about it can be computed from this.

A journal is a list of rows, numbered from 1 without gaps, each an `Entry` in MessagePack that carries the hash of the row before
(`chain`), and snapshots of the state at some of these positions. `append` is all or nothing, and durable when it returns. A
storage (`storage/`) is where one is kept: it fulfils the contract `Journal`.

>>> row = row_of(1, 0, Refused(event_id="visit-9", reason="unknown", reward=1.0))
>>> entry_of(row)
Refused(event_id='visit-9', reason='unknown', reward=1.0, usage=None, by=None)
>>> entry_of(erased(row))
Blank(kind='refused', by=None, event_id='visit-9', number=None, action=None, reason='unknown', position=None, restore=None)
>>> hash_of(erased(row), GENESIS) == hash_of(row, GENESIS)
True
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.errors import TightropeError
from tightrope.service import chain
from tightrope.service.bodies import DecisionRequest, Used
from tightrope.service.chain import GENESIS

FORMAT: Final = 1  # of the tables
# Of what is in them. Since 2 every decision is stored with its probability; since 3 a change of configuration carries what was
# spent over to every hard cap of the same usage; since 4 snapshots hold `Counts`, in journals that began so; since 5 a fit of a
# model takes effect when it is made, which an entry says, and not at a fixed outcome.
ENTRIES: Final = 5


class JournalError(TightropeError):
    """The journal can't be read or written now: nothing was acknowledged that is not in it."""


class JournalLocked(JournalError):
    """Another process writes this journal."""


class JournalUnreachable(JournalError):
    """The journal is kept elsewhere, and nothing is heard from there: it may be back by itself."""


class JournalDamaged(JournalError):
    """What the journal holds can't have been written by this program, or does not replay to what it says."""


class _Entry(msgspec.Struct, tag_field="kind", omit_defaults=True, kw_only=True):
    # The id of the key with which it was asked for; None where there are no keys, and for what the service did by itself.
    by: str | None = None


class Started(_Entry, tag="started"):
    """The experiment as its spec states it, and how long it waits for outcomes: the first entry, and again when that changes.

    `reset_caps` names the hard caps that begin at 0 with this change, whatever was spent. `ranges` are those of usage that no rule
    declares, as they were inferred (`usage_ranges`).
    """

    format: int
    version: str
    spec: dict[str, Any]
    expire_after: float
    max_pending: int
    reset_caps: list[str] = msgspec.field(default_factory=list)
    ranges: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)


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
    usage: Used | None = None


class Expired(_Entry, tag="expired"):
    """Decisions whose outcome is waited for no longer."""

    numbers: list[int]
    event_ids: list[str]


class Refused(_Entry, tag="refused"):
    """An outcome that was well formed, but came too late, for an event that no one knows, or at odds with an earlier one."""

    event_id: str
    reason: Literal["late", "unknown", "differs"]
    reward: float | None = None
    usage: Used | None = None


class Measured(_Entry, tag="measured"):
    """Slater's constant, measured on what was seen up to a number of rounds."""

    rounds: int
    slater: float


class Refitted(_Entry, tag="refitted"):
    """Some models, by their numbers in `Policy.refits`, go on with the fits that were made of what they had learnt."""

    models: list[int]


class ModeChanged(_Entry, tag="mode"):
    """Live, shadow (with the action that is served by default) or paused."""

    mode: Literal["live", "shadow", "paused"]
    default: int | None = None


class RolledBack(_Entry, tag="rolled back"):
    """Back to the snapshot at `position`, whose state is here once more: snapshots may be dropped, the journal needs none."""

    position: int
    restore: Literal["learnt", "all"]
    state: bytes


class WarmStarted(_Entry, tag="warm start"):
    """What the policy has learnt of a table before its first decision: its state from here on, whatever becomes of the file."""

    file: str
    sha256: str
    rows: int
    state: bytes


class Snapshotted(_Entry, tag="snapshot"):
    """A snapshot was taken of the state after the entry at `of`: its digest, which a snapshot that is used must have."""

    of: int
    digest: str
    label: str | None = None


class Erased(_Entry, tag="erased"):
    """What was personal in some rows is gone for good. `rows` are ranges of positions, both ends included.

    `numbers` are the decisions whose inputs are gone, from the policy's memory too; what was pending is no longer waited for.
    `stale` are the positions of snapshots with a label that still hold them. Entries that follow rewrite these, some at a time, and
    have nothing but `snapshots`: the position of each and its new digest, empty for one that could not be read and was dropped.
    """

    rows: list[tuple[int, int]]
    event_ids: list[str] = msgspec.field(default_factory=list)
    numbers: list[int] = msgspec.field(default_factory=list)
    stale: list[int] = msgspec.field(default_factory=list)
    snapshots: list[tuple[int, str]] = msgspec.field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether it goes on with an erasure that an earlier entry tells of."""
        return not self.rows


class Blank(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of an entry whose personal part was erased; `kind` says of which."""

    kind: str
    by: str | None = None
    event_id: str | None = None
    number: int | None = None
    action: int | None = None
    reason: Literal["late", "unknown", "differs"] | None = None
    position: int | None = None
    restore: Literal["learnt", "all"] | None = None


Written: TypeAlias = (
    Started
    | Decided
    | Learnt
    | Expired
    | Refused
    | Measured
    | ModeChanged
    | RolledBack
    | Snapshotted
    | Erased
    | WarmStarted
    | Refitted
)
Entry: TypeAlias = Written | Blank

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
    Snapshotted: 9,
    Erased: 10,
    WarmStarted: 11,
    Refitted: 12,
}
_KIND_OF_TAG: Final = {kind.__struct_config__.tag: number for kind, number in KINDS.items()}
_TAG_OF_KIND: Final = {number: str(tag) for tag, number in _KIND_OF_TAG.items()}
# What may be personal, or was computed of it, and is therefore sealed in a row.
SEALED: Final[dict[type[Any], tuple[str, ...]]] = {
    Decided: (
        *("request", "fingerprint", "trace", "queue", "offered", "proposed", "probability", "probabilities"),
    ),
    Learnt: ("reward", "usage"),
    Refused: ("reward", "usage"),
    RolledBack: ("state",),
    WarmStarted: ("state",),
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


class _Plan(NamedTuple):
    """How entries of a kind are written: its number, and for its open and its sealed part a struct and what goes into it."""

    number: int
    open_part: Callable[..., Any]
    shown: Callable[[Any], Any]
    sealed_part: Callable[..., Any] | None
    private: Callable[[Any], Any]

    @classmethod
    def of(cls, kind: type[Any]) -> _Plan:
        secret = SEALED.get(kind, ())
        shown = [name for name in kind.__struct_fields__ if name not in secret]
        tag = {"tag": kind.__struct_config__.tag, "tag_field": "kind"}
        # What a kind must have is never None, so this leaves out what it need not have.
        open_part, sealed_part = (
            msgspec.defstruct(
                kind.__name__, [(name, Any, None) for name in names], omit_defaults=True, gc=False, **more
            )
            for names, more in ((shown, tag), (secret, {}))
        )
        return cls(KINDS[kind], open_part, _values(shown), sealed_part if secret else None, _values(secret))


def _values(names: Sequence[str]) -> Callable[[Any], Any]:
    """The values of some fields of an entry, as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda entry: tuple(getattr(entry, name) for name in names)


_encoder = msgspec.msgpack.Encoder()
_packer = msgspec.msgpack.Encoder(order="deterministic")
_encode = _encoder.encode
_PLANS: Final = {kind: _Plan.of(kind) for kind in KINDS}
_decoder = msgspec.msgpack.Decoder(Written)
_blank_decoder = msgspec.msgpack.Decoder(Blank)


def row_of(position: int, time: int, entry: Written, link: bytes = GENESIS) -> Row:
    """The entry as a row that follows the one whose hash is `link`."""
    return chained(position, time, entry, link)[0]


def chained(position: int, time: int, entry: Written, link: bytes) -> tuple[Row, bytes]:
    """The same, and the hash of the row."""
    number, open_part, shown, sealed_part, private = _PLANS[type(entry)]
    event_id: str | None = entry.event_id if number <= LAST_BY_EVENT else None  # type: ignore[union-attr]
    told = _encode(open_part(*shown(entry)))
    data, commitment = chain.seal(
        link, told, b"" if sealed_part is None else _encode(sealed_part(*private(entry)))
    )
    row = Row(position, time, number, event_id, data)
    return row, chain.hash_row(link, position, time, number, event_id, told, commitment)


def hash_of(row: Row, before: bytes | None) -> bytes:
    """The hash of a row that follows the one with the hash `before`; None: whatever row it says that it follows.

    Raises
    ------
    JournalDamaged
        It does not follow that row: one of the two was changed, or others were added or removed.
    """
    position, time, kind, event_id, data = row
    parts = _parts(row)
    if parts is None:
        # Of before the chain. The first row in it binds all of them.
        if before is None:
            raise JournalDamaged(
                f"row {position} is of before the chain: its hash needs that of the row before."
            )
        return chain.hash_row(before, position, time, kind, event_id, data, b"")
    if before is not None and parts.link != before:
        raise JournalDamaged(
            f"row {position} does not follow the row before it: one of them was changed, or rows were added or removed."
        )
    return chain.hash_row(parts.link, position, time, kind, event_id, parts.open, parts.commitment)


def is_chained(row: Row) -> bool:
    """Whether the row carries a hash; those of before the chain do not."""
    return _parts(row) is not None


def erased(row: Row) -> Row:
    """The row without what may be personal in it; its hash stays."""
    if not is_chained(row):
        raise JournalError(
            f"row {row.position} was written before journals had a chain: what is in it can't be erased alone."
        )
    return row._replace(data=chain.erase(row.data))


def entry_of(row: Row) -> Entry:
    """The entry in a row, whose columns must say what it says."""
    parts = _parts(row)
    entry: Entry
    try:
        if parts is None:
            entry = _decoder.decode(row.data)
        elif parts.sealed is None:
            entry = _blank_decoder.decode(parts.open)
        else:
            entry = _decoder.decode(_joined(parts.open, parts.sealed))
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError) as error:
        raise JournalDamaged(f"row {row.position} of the journal can't be read: {error}") from error
    kind = _KIND_OF_TAG.get(entry.kind, 0) if isinstance(entry, Blank) else KINDS[type(entry)]
    event_id = entry.event_id if kind <= LAST_BY_EVENT else None  # type: ignore[union-attr]
    if (row.kind, row.event_id) != (kind, event_id):
        stored, said = (
            f"({columns[0]}, {columns[1]!r})" for columns in ((row.kind, row.event_id), (kind, event_id))
        )
        raise JournalDamaged(
            f"row {row.position}: its columns (kind, event_id) are {stored}, but its entry says {said}: "
            "it was changed after it was written."
        )
    return entry


def _joined(one: bytes, other: bytes) -> bytes:
    """Two maps of MessagePack as one: below 16 entries the first byte counts them, and the rest is the entries."""
    if not other:
        return one
    return bytes([0x80 | (one[0] & 0x0F) + (other[0] & 0x0F)]) + one[1:] + other[1:]


def _parts(row: Row) -> chain.Parts | None:
    try:
        return chain.read(row.data)
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise JournalDamaged(f"row {row.position} of the journal can't be read: {error}") from error


def as_recorded(value: Any) -> Any:
    """Plain data as a journal gives it back: lists for tuples, texts for dates.

    >>> as_recorded({"values": ("f", "m")})
    {'values': ['f', 'm']}
    """
    return msgspec.msgpack.decode(_encode(value))


def canonical(value: Any) -> bytes:
    """An entry, or a part of one, in bytes: equal only where the same is recorded, to the bit. Maps may have any order.

    >>> canonical(("f", 0.0)) == canonical(["f", 0.0]), canonical(0.0) == canonical(-0.0)
    (True, False)
    """
    return _packer.encode(value)


def tag_of(row: Row) -> str:
    """What a row is, in a word, by its column alone."""
    return _TAG_OF_KIND.get(row.kind, "unknown")


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


class Journal(ABC):
    """What an experiment needs of a storage. One thread at a time calls it; only `append` and `probe` write.

    Every method raises `JournalError` where the storage fails, and `JournalDamaged` where it holds what can't be right. After an
    error `open` is called again before anything else. `tightrope.service.conformance.JournalSuite` checks all of this.
    """

    # Where the hash of the last row is kept beside the journal, and not in it; None: nowhere.
    head_file: Path | None = None
    # Of a storage that has no folder of its own: which place it is, so that `heads.keep_head` gives it a file of its own.
    place: str | None = None

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

    def watched(self, position: int) -> list[Row]:
        """While standing by: the row at a position and the last one, as far as there are such."""
        return []

    def stand_aside(self, aside: bool) -> None:  # noqa: B027
        """While standing by: whether not to take over, since this process could not go on with the journal."""

    @abstractmethod
    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        """Add rows and snapshots and drop the snapshots at some positions, all or nothing, durable on return."""

    def overwrite(self, rows: Sequence[Row]) -> None:
        """Put other data into rows that are there, all or nothing and durable; what was in them is gone from the storage."""
        raise JournalError(f"{type(self).__name__} can't erase anything.")

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


def row_at(journal: Journal, position: int) -> Row | None:
    """The row at a position."""
    found = next(journal.rows(after=position - 1), None)
    return found if found is not None and found.position == position else None


def label_after_erasure(position: int) -> str:
    """What the snapshot is called that follows an erasure, the only one that has its own position in its label."""
    return f"after the erasure at {position}"


def bound_snapshots(journal: Journal) -> dict[int, str]:
    """The digest that the chain holds of the snapshot at each position, the newest word on it."""
    found: dict[int, str] = {}
    end: int | None = None
    while page := journal.select([KINDS[Snapshotted], KINDS[Erased]], before=end, limit=1000):
        for row in page:
            entry = entry_of(row)
            if isinstance(entry, Snapshotted):
                found.setdefault(entry.of, entry.digest)
            elif isinstance(entry, Erased):
                for position, digest in entry.snapshots:
                    found.setdefault(position, digest)
        end = page[-1].position
    return found


def fault_of(snapshot: Snapshot, journal: Journal, bound: Mapping[int, str]) -> str | None:
    """Why a snapshot is not to be used, in words; None for one that is as the chain says. `bound` is from `bound_snapshots`.

    Nothing is said of those of before the chain.
    """
    if not snapshot.sound:
        return "does not match its own digest"
    if snapshot.position in bound:
        same = bound[snapshot.position] == snapshot.digest
        return None if same else "is not the one that the journal's chain says was taken"
    row = row_at(journal, snapshot.position)
    if row is None or is_chained(row):
        return "is not in the journal's chain"
    return None


# The state of an experiment as bytes, and back.


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


@contextlib.contextmanager
def fitting() -> Iterator[None]:
    """Where a state is taken into a policy: what the policy can't take is damage."""
    try:
        yield
    except (KeyError, ValueError, IndexError) as error:
        raise JournalDamaged(f"the snapshot does not fit the policy of the spec: {error!r}.") from error


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


_NUMBERS = ("trace", "queue", "probabilities")


def difference(recorded: Entry, again: Entry | None) -> str:
    """In what an entry that was made again differs from the recorded one."""
    for name in recorded.__struct_fields__:
        old, new = getattr(recorded, name), getattr(again, name, None)
        if canonical(old) != canonical(new):
            if isinstance(old, bytes) and isinstance(new, bytes) and name in _NUMBERS:
                return f"{name} was {np.frombuffer(old).tolist()}, and now is {np.frombuffer(new).tolist()}"
            return f"{name} was {old!r}, and now is {new!r}"
    return "its kind differs"
