"""Which action a user keeps, for how long."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import msgspec

# Beyond this many users the one whose action is oldest is forgotten.
MOST_KEPT = 1_000_000


class Kept(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An action, the arm and number of the decision that it comes from, and the microsecond at which it may change."""

    action: int
    arm: int
    number: int
    until: int


class KeptActions:
    """Actions by user, oldest first; users are known by 64 bits drawn from their name."""

    def __init__(self, seconds: float) -> None:
        self.lasts = int(seconds * 1e6)
        self._by_user: dict[int, Kept] = {}
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self._by_user)

    def of(self, bits: int, arm: int, time: int) -> Kept | None:
        """What the user has kept since an earlier decision in the same arm."""
        found = self._by_user.get(bits)
        return found if found is not None and found.arm == arm and time < found.until else None

    def keep(self, bits: int, action: int, arm: int, number: int, time: int) -> None:
        """From `time` on the user keeps an action."""
        self._by_user.pop(bits, None)
        # Two looked at for each that is added: those whose time is over are dropped sooner than they come.
        for oldest, one in list(itertools.islice(self._by_user.items(), 2)):
            if one.until <= time or len(self._by_user) >= MOST_KEPT:
                self.forgotten += one.until > time
                del self._by_user[oldest]
        self._by_user[bits] = Kept(action, arm, number, time + self.lasts)

    def forget(self, numbers: Collection[int]) -> None:
        """Forget what comes from some decisions."""
        gone = {*numbers}
        self._by_user = {bits: one for bits, one in self._by_user.items() if one.number not in gone}

    def forget_all(self) -> None:
        self._by_user = {}

    def continue_from(self, other: KeptActions) -> None:
        """Everyone keeps what they have until it ends, however long actions last from now on."""
        self._by_user, self.forgotten = other._by_user, other.forgotten

    def saved(self) -> dict[str, Any]:
        return {
            "users": list(self._by_user),
            "kept": list(self._by_user.values()),
            "forgotten": self.forgotten,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        self._by_user = dict(zip(saved["users"], msgspec.convert(saved["kept"], list[Kept]), strict=True))
        self.forgotten = saved["forgotten"]
