"""The hash chain: every row of a journal carries the hash of the row before, so none can be changed, added or removed unseen.

A stored entry has an open part and, if it contains personal data, a sealed part. The hash covers the open part and a salted
commitment to the sealed one: the sealed part can be erased, salt and all, and the chain still holds.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from typing import Final, NamedTuple

import msgspec

# What the first row of a journal carries, since no row comes before it.
GENESIS: Final = bytes(32)

_SALT: Final = 16
_salts: deque[bytes] = deque()
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
_sha256 = hashlib.sha256


class Parts(NamedTuple):
    """A stored entry: `proof` is the salt of its sealed part, or, once that was erased and is None, its commitment."""

    link: bytes
    open: bytes
    sealed: bytes | None
    proof: bytes

    @property
    def commitment(self) -> bytes:
        """What the row's hash covers of the sealed part."""
        return _sha256(self.proof + self.sealed).digest() if self.sealed else self.proof


def seal(link: bytes, open_part: bytes, private: bytes) -> tuple[bytes, bytes]:
    """An entry as it is stored, and the commitment to its private part.

    The commitment covers 16 random bytes and the part, so that nobody can find the part again by guessing.
    """
    if not private:
        return _encode((link, open_part)), b""
    salt = _salt()
    return _encode((link, open_part, salt, private)), _sha256(salt + private).digest()


def _salt() -> bytes:
    """Random bytes, fetched for many rows at a time: a system call for each would cost as much as the hash."""
    try:
        return _salts.pop()
    except IndexError:
        more = os.urandom(_SALT * 256)
        _salts.extend(more[at : at + _SALT] for at in range(_SALT, len(more), _SALT))
        return more[:_SALT]


def read(data: bytes) -> Parts:
    """The stored entry in these bytes; raises `ValueError` (such as `msgspec.DecodeError`) if they are not one."""
    parts = _decode(data)
    if len(parts) == 4:
        link, open_part, salt, private = parts
        return Parts(link, open_part, private, salt)
    if len(parts) == 3:
        link, open_part, commitment = parts
        return Parts(link, open_part, None, commitment)
    link, open_part = parts
    return Parts(link, open_part, b"", b"")


def erase(data: bytes) -> bytes:
    """The same without the sealed part and its salt; the hash stays the same."""
    parts = read(data)
    return _encode((parts.link, parts.open, parts.commitment)) if parts.sealed else data


def hash_row(
    link: bytes,
    position: int,
    time: int,
    kind: int,
    event_id: str | None,
    open_part: bytes,
    commitment: bytes,
) -> bytes:
    """The SHA-256 of a row: of the hash before it, all its columns, its open part and the commitment to its sealed one."""
    whole = _encode((link, position, time, kind, event_id, open_part, commitment))
    return _sha256(whole).digest()
