"""What a state notes of each pending decision: here, and in a snapshot."""

from __future__ import annotations

import msgspec


# There is one per pending decision, so they are hidden from the garbage collector: they can't be part of a cycle.
class Event(msgspec.Struct, frozen=True, gc=False):
    """The service's notes on a pending decision. `holds` are the hard caps that have the high end of its cost reserved."""

    event_id: str
    time: int
    group: str | tuple[str, ...] | None
    holds: tuple[int, ...]


class Waiting(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The same as a snapshot has it, with the action and what is awaited."""

    event_id: str
    time: int
    action: int
    awaits: int
    group: str | tuple[str, ...] | None
    holds: tuple[int, ...]
