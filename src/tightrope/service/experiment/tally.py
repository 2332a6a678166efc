"""Counts of an experiment, for people."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tightrope.actions import count


class Tally(msgspec.Struct, kw_only=True):
    """Counts since the beginning, only for people: no decision depends on them. Actions are counted by id."""

    decisions: int = 0
    actions: list[int] = []
    offered: list[int] = []
    # By field of the context: how many of its numbers were outside their range but still accepted.
    outside: dict[str, int] = {}
    # By field, and by why: how many of its values were replaced, as the field declares.
    replaced: dict[str, dict[str, int]] = {}
    shadow: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    complete: int = 0
    expired: int = 0
    rolled_back: int = 0
    cancelled: int = 0
    late: int = 0
    unknown: int = 0
    differs: int = 0

    def count_decision(self, action: int, ids: Iterable[int]) -> None:
        self.decisions += 1
        count(self.actions, action)
        offered = self.offered
        for one in ids:
            if one < len(offered):
                offered[one] += 1
            else:
                count(offered, one)

    def count_replaced(self, fields: Iterable[tuple[str, str]]) -> None:
        for name, why in fields:
            counts = self.replaced.setdefault(name, {})
            counts[why] = counts.get(why, 0) + 1
