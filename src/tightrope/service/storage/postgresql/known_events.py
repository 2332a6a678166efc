"""Which events a journal may hold, so that the database need not be asked about those that it can't hold."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

# 8 MiB: of 5 million events one in 250 that is new is asked for all the same, of 20 million one in 4.
_BITS: Final = 1 << 26
_places: Final = struct.Struct("<4I").unpack


class KnownEvents:
    """A Bloom filter of event ids: what it does not know is new for certain; what it knows may be.

    It may be believed once it is `complete`: when every event of the journal has been noted.
    """

    def __init__(self) -> None:
        self.complete = False
        self._bits = bytearray(_BITS // 8)

    def note(self, event_ids: Iterable[str | None]) -> None:
        """These are in the journal, or may be soon."""
        bits = self._bits
        for one in event_ids:
            if one is not None:
                for place in _places(blake2b(one.encode(), digest_size=16).digest()):
                    bits[(place >> 3) % len(bits)] |= 1 << (place & 7)

    def may_hold(self, event_id: str) -> bool:
        """False: it was never noted."""
        bits = self._bits
        for place in _places(blake2b(event_id.encode(), digest_size=16).digest()):
            if not bits[(place >> 3) % len(bits)] & 1 << (place & 7):
                return False
        return True
