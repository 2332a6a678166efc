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

from tightrope.service.journal.errors import JournalDamaged

_packer = msgspec.msgpack.Encoder(order="deterministic")


def canonical(value: Any) -> bytes:
    """An entry, or a part of one, in bytes: equal only where the same is recorded, to the bit. Maps may have any order.

    >>> canonical(("f", 0.0)) == canonical(["f", 0.0]), canonical(0.0) == canonical(-0.0)
    (True, False)
    """
    return _packer.encode(value)


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
