"""The accounts of all rules: what was used, reserved, allowed and left of each, and which actions may still be taken.

Today every account is that of a rule, for all keys and for ever. Whoever asks whether a rule is kept asks here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.actions import count
from tightrope.errors import InvalidInput
from tightrope.ledger.account import Account, Address
from tightrope.ledger.carry_over import Spent, carried_over
from tightrope.ledger.hard_caps import Exhausted, hard_caps
from tightrope.rules import Column
from tightrope.rules.rules import Group
from tightrope.spec import Spec
from tightrope.validation import Array


class Summed(Protocol):
    """Whatever adds up scaled costs: a policy, or `Totals` where the policy does not count them."""

    @property
    def totals(self) -> Array:
        """Cumulative costs (K,)."""


class Average(msgspec.Struct, array_like=True):
    """How many decisions a limit has counted at its present height; at others before, and what those allowed."""

    decisions: int = 0
    earlier: int = 0
    allowed: float = 0.0

    def allows(self, limit: float) -> float:
        """What it has allowed, or required, so far, in the rule's own units."""
        return self.allowed + self.decisions * limit


class Standing(NamedTuple):
    """Where the account of a limit stands, in the rule's own units; nan where sums before a change can't be told apart.

    Of a rule with `at_least`: what there was, what was required, and how much more there was.
    """

    address: Address
    decisions: int | None
    used: float
    allowed: float
    left: float


class Withheld(msgspec.Struct, array_like=True):
    """What a hard cap has kept off offer, without a break until now: since when, and what the rewards were until then."""

    time: int
    number: int
    rewards: int
    reward_sum: float
    decisions: int
    # How often each action was kept off, by its id.
    actions: list[int]


class Room(NamedTuple):
    """What each row on offer would take of each hard cap, and the rows that may still be taken."""

    needs: list[list[Decimal]]
    rows: list[int]

    @property
    def whole(self) -> bool:
        """Whether every row may be taken."""
        return len(self.rows) == len(self.needs)


class Before(NamedTuple):
    """What a ledger goes on from: averages, with what they allowed, by the names of their limits; what each cap keeps off offer."""

    averages: dict[str, tuple[Column, Average | None, float]]
    withheld: dict[Any, Withheld | None]


class Ledger:
    """The accounts of an experiment: an average for every limit, and an exact amount for every hard cap.

    Parameters
    ----------
    spec : Spec
        Its rules and which of them are hard.
    sums : Summed
        Who adds up the costs.
    before : Before, optional
        What it goes on from: see `under`.

    Examples
    --------
    >>> from tightrope.ledger.totals import Totals
    >>> from tightrope.spec import make_spec
    >>> rule = {"kind": "capacity", "action": "a", "at_most": 0.5, "hard": True, "total": 1}
    >>> ledger = Ledger(make_spec({"actions": ["a", "b"], "rule": [rule]}), Totals(1))
    >>> room = ledger.room(None, {}, None)
    >>> room.rows, ledger.take(room.needs[0]), ledger.room(None, {}, None).rows
    ([0, 1], (), [1])
    """

    def __init__(self, spec: Spec, sums: Summed, before: Before | None = None) -> None:
        self.sums = sums
        self.caps = hard_caps(spec)
        # What was spent under caps that there are no longer: one that comes back goes on from there.
        self.spent: list[Spent] = []
        self._rules = spec.rules
        averages, withheld = ({}, {}) if before is None else before
        # By groups and when costs are seen, which averages count a decision: looked up for each one.
        self._counted: dict[Any, list[Average]] = {}
        self._averages = [
            _carried(column, *averages[column.name]) if column.name in averages else Average()
            for column in self.columns
        ]
        self._withheld = [withheld.get((cap.key, cap.account.allowed)) for cap in self.caps]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The limits, in the order of the costs."""
        return () if self._rules is None else self._rules.columns

    # What it answers

    def account(self, address: Address) -> Account:
        """The account of a hard cap."""
        for cap in self.caps:
            if cap.address == address:
                return cap.account
        raise InvalidInput(f"there is no hard cap {address.rule!r}.")

    def allowed(self) -> list[float]:
        """What each limit has allowed, or required, so far, in the rule's own units; nan where that is not known."""
        return [
            math.nan if one is None else one.allows(column.limit)
            for one, column in zip(self._averages, self.columns, strict=True)
        ]

    def standings(self) -> list[Standing]:
        """Where the account of each limit stands."""
        found = []
        for one, column, total, allowed in zip(
            self._averages, self.columns, self.sums.totals.tolist(), self.allowed(), strict=True
        ):
            left = 0.0 - total * column.rule.scale
            counted = None if one is None else one.earlier + one.decisions
            used = allowed - column.sign * left
            found.append(Standing(Address(column.name), counted, used, allowed, left))
        return found

    def withheld(self, cap: int) -> Withheld | None:
        """What a hard cap keeps off offer now."""
        return self._withheld[cap]

    def room(self, ids: Sequence[int] | None, usage: Mapping[str, Any], group: Group) -> Room:
        """What each action on offer (`ids`, or all) would take, and which may still be taken; `Exhausted` if none may."""
        force = self._in_force(group)
        offered = self._offered(ids)
        needs = [
            [cap.need(action, row, usage, force) for cap in self.caps] for row, action in enumerate(offered)
        ]
        rows = [
            row
            for row, need in enumerate(needs)
            if all(cap.account.fits(one) for cap, one in zip(self.caps, need))
        ]
        if not rows:
            full = [
                cap for k, cap in enumerate(self.caps) if not all(cap.account.fits(need[k]) for need in needs)
            ]
            raise Exhausted(full, "every action on offer")
        return Room(needs, rows)

    # What changes it

    def note_withheld(self, room: Room, ids: Sequence[int] | None, now: tuple[int, int, int, float]) -> None:
        """Which actions each cap keeps off offer in a decision, before it takes anything; `now` begins a new `Withheld`."""
        for k, cap in enumerate(self.caps):
            fits = [room.whole or cap.account.fits(need[k]) for need in room.needs]
            offered = self._offered(ids)
            run = self._withheld[k]
            if not all(fits):
                if run is None:
                    run = self._withheld[k] = Withheld(*now, 0, [])
                run.decisions += 1
                for row in (row for row, one in enumerate(fits) if not one):
                    count(run.actions, offered[row])
            elif run is not None and any(need[k] for need in room.needs):
                self._withheld[k] = None

    def take(self, needs: Sequence[Decimal]) -> tuple[int, ...]:
        """Use or reserve what a decision needs of each hard cap; which caps hold the high end until usage is known."""
        return tuple(k for k, (cap, need) in enumerate(zip(self.caps, needs, strict=True)) if cap.take(need))

    def settle(self, holds: Sequence[int], used: Mapping[str, float]) -> None:
        """What a decision really used, instead of what its caps hold."""
        for k in holds:
            self.caps[k].settle(used)

    def keep(self, holds: Sequence[int]) -> None:
        """Nobody will say what a decision used: all that its caps hold counts as used."""
        for k in holds:
            self.caps[k].keep()

    def count(self, group: Group, seen: str) -> None:
        """A decision of these groups whose costs are known, for the limits that are `seen` now."""
        key = tuple(group) if isinstance(group, list) else group, seen
        counted = self._counted.get(key)
        if counted is None:
            counted = self._counted[key] = self._counting(group, seen)
            if len(self._counted) > _KEPT:
                self._counted = {key: counted}
        for average in counted:
            average.decisions += 1

    def _counting(self, group: Group, seen: str) -> list[Average]:
        """The averages that count a decision of these groups."""
        force = self._in_force(group)
        return [
            average
            for k, (column, average) in enumerate(zip(self.columns, self._averages, strict=True))
            if average is not None and force[k] and column.rule.seen == seen
        ]

    def under(self, spec: Spec, sums: Summed, reset: Sequence[str]) -> tuple[Ledger, dict[int, list[int]]]:
        """The ledger that goes on from this one under other rules, and where each hard cap is counted on; this one is left alone.

        A limit keeps its average by its name, as it keeps its total; of caps see `carried_over`.
        """
        averages = {
            column.name: (column, average, allowed)
            for column, average, allowed in zip(self.columns, self._averages, self.allowed(), strict=True)
        }
        withheld = dict(zip(((cap.key, cap.account.allowed) for cap in self.caps), self._withheld))
        new = Ledger(spec, sums, Before(averages, withheld))
        moved, new.spent = carried_over(self.caps, self.spent, new.caps, reset)
        return new, moved

    def moved_holds(self, holds: Sequence[int], moved: Mapping[int, list[int]]) -> tuple[int, ...]:
        """Where what a pending decision holds is held from now on, under the caps that go on from those before."""
        now = tuple(sorted({at for k in holds for at in moved.get(k, ())}))
        for k in now:
            self.caps[k].hold_again()
        return now

    # Snapshots

    def saved(self) -> dict[str, Any]:
        """What a snapshot holds of it."""
        return {
            "caps": [[cap.name, str(cap.account.used), str(cap.account.reserved)] for cap in self.caps],
            "spent": self.spent,
            "averages": self._averages,
            "withheld": self._withheld,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Become what was saved under the same rules."""
        for cap, (name, used, reserved) in zip(self.caps, saved["caps"], strict=True):
            if cap.name != name:
                raise InvalidInput(
                    f"the snapshot counts a hard cap {name!r} where the spec has {cap.name!r}."
                )
            cap.account.used, cap.account.reserved = Decimal(used), Decimal(reserved)
        self.spent = msgspec.convert(saved["spent"], list[Spent])
        self.restore_averages(saved)
        self._withheld = msgspec.convert(saved["withheld"], list[Withheld | None])

    def restore_averages(self, saved: Mapping[str, Any]) -> None:
        """Take only the counts of the limits, where the totals that they explain go back."""
        self._averages = msgspec.convert(saved["averages"], list[Average | None])
        self._counted = {}

    def _offered(self, ids: Sequence[int] | None) -> Sequence[int]:
        if ids is None:
            return () if self._rules is None else self._rules.action_names.active
        return ids

    def _in_force(self, group: Group) -> NDArray[np.bool_]:
        return _NONE if self._rules is None else self._rules.in_force(group)


def _carried(column: Column, was: Column, average: Average | None, allowed: float) -> Average | None:
    if average is None or (was.rule.scale, was.side) != (column.rule.scale, column.side):
        return None
    return Average(0, average.earlier + average.decisions, allowed)


# Sets of groups that are remembered.
_KEPT = 256
_NONE = np.zeros(0, dtype=np.bool_)
