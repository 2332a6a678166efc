"""The state of an experiment as bytes, and back."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.service.journal import JournalDamaged

_packer = msgspec.msgpack.Encoder(
    order="deterministic", enc_hook=lambda array: [array.dtype.str, list(array.shape), array.tobytes()]
)


def canonical(value: Any) -> bytes:
    """An entry, or a part of one, in bytes: equal only where the same is recorded, to the bit. Maps may have any order."""
    return _packer.encode(value)


def digest_of(packed: bytes) -> str:
    return hashlib.sha256(packed).hexdigest()


def packed_state(state: dict[str, Any]) -> bytes:
    """Plain data and arrays, which are type, shape and bytes, as MessagePack: equal states give equal bytes."""
    return _packer.encode(state)


def unpacked_state(packed: bytes) -> dict[str, Any]:
    """What `packed_state` was given; its arrays are for `arrays_of` to read."""
    try:
        state: dict[str, Any] = msgspec.msgpack.decode(packed, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise JournalDamaged(f"a snapshot can't be read: {error}") from error
    return state


@contextlib.contextmanager
def arrays_of(packed: Mapping[str, Any]) -> Iterator[dict[str, NDArray[Any]]]:
    """Arrays by name, for whoever takes them over: what it can't take is damage."""
    arrays = {}
    for name, (dtype, shape, data) in packed.items():
        if len(data) != np.dtype(dtype).itemsize * math.prod(shape):
            raise JournalDamaged(f"a snapshot's array {name!r} does not have the size that it states.")
        arrays[name] = np.frombuffer(data, dtype=dtype).reshape(shape).copy()
    try:
        yield arrays
    except (KeyError, ValueError, IndexError) as error:
        raise JournalDamaged(f"the snapshot does not fit the policy of the spec: {error!r}.") from error
