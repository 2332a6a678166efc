"""What is counted for people alone: decisions, what was on offer, outcomes. No decision depends on it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tightrope.actions import count


class Tally(msgspec.Struct, kw_only=True):
    """What has been counted since the beginning; actions by their ids."""

    decisions: int = 0
    actions: list[int] = []
    offered: list[int] = []
    # By field of the context: how many of its numbers were outside their range, and taken all the same.
    outside: dict[str, int] = {}
    shadow: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    complete: int = 0
    expired: int = 0
    rolled_back: int = 0
    late: int = 0
    unknown: int = 0
    differs: int = 0

    def count_decision(self, action: int, ids: Iterable[int]) -> None:
        """A decision, and what was on offer in it."""
        self.decisions += 1
        count(self.actions, action)
        offered = self.offered
        for one in ids:
            if one < len(offered):
                offered[one] += 1
            else:
                count(offered, one)

    def count_outside(self, fields: Iterable[str]) -> None:
        """Which numbers of a context were outside their range."""
        for name in fields:
            self.outside[name] = self.outside.get(name, 0) + 1
