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


def digest_of(state: bytes) -> str:
    return hashlib.sha256(state).hexdigest()


def packed(value: Any) -> bytes:
    """A state, an entry or a part of one as MessagePack, arrays as type, shape and bytes: equal to the bit where the value is."""
    return _packer.encode(value)


def unpacked_state(state: bytes) -> dict[str, Any]:
    """The value that `packed` was given; `arrays_of` reads its arrays."""
    try:
        return msgspec.msgpack.decode(state, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise JournalDamaged(f"a snapshot can't be read: {error}") from error


@contextlib.contextmanager
def arrays_of(saved: Mapping[str, Any]) -> Iterator[dict[str, NDArray[Any]]]:
    """Arrays by name, for code that restores them: a failure to do so means damage."""
    arrays = {}
    for name, (dtype, shape, data) in saved.items():
        if len(data) != np.dtype(dtype).itemsize * math.prod(shape):
            raise JournalDamaged(f"a snapshot's array {name!r} does not have the size that it states.")
        arrays[name] = np.frombuffer(data, dtype=dtype).reshape(shape).copy()
    try:
        yield arrays
    except (KeyError, ValueError, IndexError) as error:
        raise JournalDamaged(f"the snapshot does not fit the policy of the spec: {error!r}.") from error
