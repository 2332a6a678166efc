"""Entries as rows: each is MessagePack that carries the hash of the row before (`chain`), and seals what may be personal."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from tightrope.service.journal import JournalDamaged, chain
from tightrope.service.journal.chain import GENESIS
from tightrope.service.journal.entries import KINDS, LAST_BY_EVENT, SEALED, Blank, Entry, Written
from tightrope.service.journal.packing import packed

_KIND_OF_TAG: Final = {kind.__struct_config__.tag: number for kind, number in KINDS.items()}
_TAG_OF_KIND: Final = {number: str(tag) for tag, number in _KIND_OF_TAG.items()}


class Row(NamedTuple):
    """A stored entry: its position from 1, microseconds since 1970, its kind's number, its event, the entry itself."""

    position: int
    time: int
    kind: int
    event_id: str | None
    data: bytes


class _Plan(NamedTuple):
    """How entries of a kind are written: its number, and for its open and its sealed part a struct and its fields."""

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
        # Required fields are never None, so this leaves out only optional ones.
        open_part, sealed_part = (
            msgspec.defstruct(
                kind.__name__, [(name, Any, None) for name in names], omit_defaults=True, gc=False, **more
            )
            for names, more in ((shown, tag), (secret, {}))
        )
        return cls(KINDS[kind], open_part, _values(shown), sealed_part if secret else None, _values(secret))


def _values(names: Sequence[str]) -> Callable[[Any], Any]:
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda entry: tuple(getattr(entry, name) for name in names)


_encode: Final = msgspec.msgpack.Encoder().encode
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
    """The hash of a row that must follow the one with the hash `before`; with None, the previous hash is not checked."""
    position, time, kind, event_id, _ = row
    parts = _parts(row)
    if before is not None and parts.link != before:
        raise JournalDamaged(
            f"row {position} does not follow the row before it: one of them was changed, or rows were added or removed."
        )
    return chain.hash_row(parts.link, position, time, kind, event_id, parts.open, parts.commitment)


def erased(row: Row) -> Row:
    """The row without its personal part; its hash stays the same."""
    return Row(*row[:4], chain.erase(row.data)) if _parts(row).sealed else row


def entry_of(row: Row) -> Entry:
    """The entry in a row, whose columns must agree with it."""
    parts = _parts(row)
    entry: Entry
    try:
        if parts.sealed is None:
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
    """Merge two MessagePack maps: below 16 entries the first byte counts them, and the rest is the entries."""
    if not other:
        return one
    return bytes([0x80 | (one[0] & 0x0F) + (other[0] & 0x0F)]) + one[1:] + other[1:]


def _parts(row: Row) -> chain.Parts:
    try:
        return chain.read(row.data)
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        raise JournalDamaged(f"row {row.position} of the journal can't be read: {error}") from error


def as_recorded(value: Any) -> Any:
    """Plain data as a journal returns it: lists for tuples, texts for dates."""
    return msgspec.msgpack.decode(_encode(value))


def tag_of(row: Row) -> str:
    """The name of a row's kind, from its column alone."""
    return _TAG_OF_KIND.get(row.kind, "unknown")


_NUMBERS = ("trace", "queue", "probabilities")


def difference(recorded: Entry, again: Entry | None) -> str:
    """How a repeated entry differs from the recorded one."""
    for name in recorded.__struct_fields__:
        old, new = getattr(recorded, name), getattr(again, name, None)
        if packed(old) != packed(new):
            if isinstance(old, bytes) and isinstance(new, bytes) and name in _NUMBERS:
                return f"{name} was {np.frombuffer(old).tolist()}, and now is {np.frombuffer(new).tolist()}"
            return f"{name} was {old!r}, and now is {new!r}"
    return "its kind differs"
