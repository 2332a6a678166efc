"""What is counted for people alone: what each rule has allowed, what was on offer, what hard caps withheld.

No decision depends on it.

>>> import tightrope as tr
>>> rules = tr.Rules([tr.Budget("cents", at_most=3.0, range=(0, 8))], ["mail", "none"])
>>> counts = Counts.begin(constraints=1, actions=2, caps=0)
>>> counts.of_decision(rules.columns, group=None, ids=None)
>>> counts.allowed(rules.columns)
[3.0]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal

import msgspec

from tightrope.rules import Column
from tightrope.rules.rule import members
from tightrope.service.experiment.hard_caps import HardCap

Group = str | Sequence[str] | None


class Tally(msgspec.Struct, kw_only=True):
    """What has been counted since the beginning."""

    actions: list[int]
    shadow: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    complete: int = 0
    expired: int = 0
    rolled_back: int = 0
    late: int = 0
    unknown: int = 0
    differs: int = 0


class RuleCount(msgspec.Struct, array_like=True):
    """How many decisions a constraint has counted under its present limit; under others before, and what those allowed."""

    decisions: int = 0
    earlier: int = 0
    allowed: float = 0.0


class Withheld(msgspec.Struct, array_like=True):
    """What a hard cap has kept off offer, without a break until now: since when, and what the rewards were until then."""

    time: int
    number: int
    rewards: int
    reward_sum: float
    decisions: int
    actions: list[int]


class Counts(msgspec.Struct):
    """The counts of an experiment. A rule whose costs have changed their scale has None: its sums can't be told apart."""

    rules: list[RuleCount | None]
    offered: list[int]
    withheld: list[Withheld | None]
    # By field of the context: how many of its numbers were outside their range, and taken all the same.
    outside: dict[str, int] = msgspec.field(default_factory=dict)

    @classmethod
    def begin(cls, constraints: int, actions: int, caps: int) -> Counts:
        """Nothing counted yet."""
        return cls([RuleCount() for _ in range(constraints)], [0] * actions, [None] * caps)

    def of_decision(self, columns: Sequence[Column], group: Group, ids: Sequence[int] | None) -> None:
        """A decision, and what was on offer in it: all, where `ids` is None."""
        self._count(columns, group, "before")
        for action in range(len(self.offered)) if ids is None else ids:
            self.offered[action] += 1

    def of_context(self, fields: Iterable[str]) -> None:
        """A context, and which of its numbers were outside their range."""
        for name in fields:
            self.outside[name] = self.outside.get(name, 0) + 1

    def of_usage(self, columns: Sequence[Column], group: Group) -> None:
        """What was used, which is seen after acting."""
        self._count(columns, group, "after")

    def _count(self, columns: Sequence[Column], group: Group, seen: str) -> None:
        groups = {group} if isinstance(group, str) else set(group or ())
        for count, (_, rule, _) in zip(self.rules, columns, strict=True):
            if count is not None and rule.seen == seen:
                count.decisions += rule.among is None or not groups.isdisjoint(members(rule.among))

    def of_caps(
        self,
        caps: Sequence[HardCap],
        needs: Sequence[Sequence[Decimal]],
        ids: Sequence[int] | None,
        some: bool,
        now: tuple[int, int, int, float],
    ) -> None:
        """What each row needs of each cap, before any is spent; whether `some` row is kept off offer; `now` as in `Withheld`."""
        for k, cap in enumerate(caps):
            rows = [row for row, need in enumerate(needs) if not cap.fits(need[k])] if some else []
            run = self.withheld[k]
            if rows:
                if run is None:
                    run = self.withheld[k] = Withheld(*now, 0, [0] * len(self.offered))
                run.decisions += 1
                for row in rows:
                    run.actions[row if ids is None else ids[row]] += 1
            elif run is not None and any(need[k] for need in needs):
                self.withheld[k] = None

    def allowed(self, columns: Sequence[Column]) -> list[float]:
        """What each constraint has allowed, or required, so far, in the rule's own units; nan where that is not known."""
        return [
            math.nan if count is None else count.allowed + count.decisions * column.limit
            for count, column in zip(self.rules, columns, strict=True)
        ]

    def decisions(self) -> list[int | None]:
        """How many decisions each constraint has counted."""
        return [None if one is None else one.earlier + one.decisions for one in self.rules]

    def adopt(
        self, old: Sequence[Column], new: Sequence[Column], caps: Sequence[HardCap], now: Iterable[HardCap]
    ) -> None:
        """Go on under other rules and caps: a constraint keeps its count by its name, as it keeps its total."""
        known = {
            column.name: (column, count, allowed)
            for column, count, allowed in zip(old, self.rules, self.allowed(old), strict=True)
        }
        self.rules = [
            _carried(column, *known[column.name]) if column.name in known else RuleCount() for column in new
        ]
        runs = dict(zip(((cap.key, cap.total) for cap in caps), self.withheld))
        self.withheld = [runs.get((cap.key, cap.total)) for cap in now]


def _carried(column: Column, was: Column, count: RuleCount | None, allowed: float) -> RuleCount | None:
    if count is None or (was.rule.scale, was.side) != (column.rule.scale, column.side):
        return None
    return RuleCount(0, count.earlier + count.decisions, allowed)
