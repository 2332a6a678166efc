"""The accounts of all rules: what was used, reserved, allowed and left of each, and which actions may still be taken.

Any code that asks whether a rule is kept asks here. Limits per window and key are in `windows`; every other account belongs to one
rule, for all keys and all time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.errors import Exact, Exhausted, InvalidInput
from tightrope.ledger.account import Account, Address, Counts, LimitAccount, Summed, amount
from tightrope.ledger.carry_over import Spent, carried_over
from tightrope.ledger.hard_caps import Withheld, hard_caps
from tightrope.ledger.totals import Totals
from tightrope.ledger.window_changes import carry_windows
from tightrope.ledger.windows import Windows, windows_of
from tightrope.offer import Offer
from tightrope.rules.rules import Group
from tightrope.spec import Spec
from tightrope.validation import Array


class Room(NamedTuple):
    """What each row on offer would take of each hard cap, and the rows that may still be taken."""

    needs: list[list[Decimal]]
    rows: list[int]

    @property
    def whole(self) -> bool:
        return len(self.rows) == len(self.needs)


class Ledger:
    """The accounts of an experiment: one for every limit on an average, and one for every hard cap.

    Parameters
    ----------
    spec : Spec
        Its rules and which of them are hard.
    policy : Summed, optional
        It adds up the costs; without one the ledger does (`book`).
    windows : Windows, optional
        The accounts of limits per window, if the policy keeps them; otherwise the ledger does.
    """

    def __init__(self, spec: Spec, policy: Summed | None = None, windows: Windows | None = None) -> None:
        self._rules = spec.rules
        columns = () if spec.rules is None else spec.rules.columns
        self._sums: Summed = Totals(len(columns)) if policy is None else policy
        self.limits = [LimitAccount(column, k, self._sums, Counts()) for k, column in enumerate(columns)]
        self.caps = hard_caps(spec)
        # Those that no policy keeps.
        self.own_windows = windows_of(spec.rules) if windows is None else None
        self.windows = self.own_windows if windows is None else windows
        # What was spent under caps that are gone: a cap that comes back continues from there.
        self.spent: list[Spent] = []
        # Cached counts of a decision, by its groups and when costs are seen.
        self._counted: dict[Any, list[Counts]] = {}

    def account(self, address: Address) -> Account:
        """The account of a limit, or of a hard cap."""
        every: list[Account] = [*self.limits, *self.caps]
        for one in every:
            if one.address == address:
                return one
        raise InvalidInput(f"there is no account {address}; known: {[one.address for one in every]}.")

    @property
    def totals(self) -> Array:
        """Cumulative costs (K,), scaled as the constraints are."""
        return self._sums.totals

    def room(self, ids: Sequence[int] | None, usage: Mapping[str, Any], group: Group) -> Room:
        """What each action on offer (`ids`, or all) would take, and which may still be taken; `Exhausted` if none may."""
        force, caps = self._in_force(group), self.caps
        offered = enumerate(self._offered(ids))
        needs = [[cap.need(action, row, usage, force) for cap in caps] for row, action in offered]
        rows = [row for row, need in enumerate(needs) if all(cap.fits(one) for cap, one in zip(caps, need))]
        if not rows:
            full = [cap for k, cap in enumerate(caps) if not all(cap.fits(need[k]) for need in needs)]
            raise Exhausted(full, "every action on offer")
        return Room(needs, rows)

    def hard(self, offer: Offer, action: int) -> list[Exact]:
        """The hard caps, and the accounts per window that have no room for an action."""
        if self.windows is None or action not in offer.ids:
            return [*self.caps]
        return [*self.caps, *self.windows.full(offer, [offer.row_of("the action", action)])[0]]

    def book(self, costs: Array, columns: NDArray[np.integer]) -> None:
        """Add costs of some columns, if no policy adds them up."""
        if isinstance(self._sums, Totals):
            self._sums.book(costs, columns)

    def note_withheld(self, room: Room, ids: Sequence[int] | None, now: tuple[int, int, int, float]) -> None:
        """Which actions each cap keeps off offer in a decision, before it takes anything; `now` begins a new `Withheld`."""
        for k, cap in enumerate(self.caps):
            if cap.withheld is not None or not room.whole:
                cap.note_withheld([need[k] for need in room.needs], self._offered(ids), now)

    def take(self, needs: Sequence[Decimal]) -> tuple[int, ...]:
        """Use or reserve what a decision needs of each hard cap; returns which caps hold the high end until usage is known."""
        return tuple(k for k, (cap, need) in enumerate(zip(self.caps, needs, strict=True)) if cap.take(need))

    def settle(self, holds: Sequence[int], used: Mapping[str, float]) -> None:
        """Book what a decision really used, instead of what its caps hold."""
        for cap in (self.caps[k] for k in holds):
            assert cap.usage is not None
            cap.settle(cap.high, amount(used[cap.usage]))

    def keep(self, holds: Sequence[int]) -> None:
        """The usage of a decision will never be reported: all that its caps hold counts as used."""
        for cap in (self.caps[k] for k in holds):
            cap.settle(cap.high, cap.high)

    def count(self, group: Group, seen: str) -> None:
        """Count a decision of these groups for the limits whose costs are `seen` now."""
        key = tuple(group) if isinstance(group, list) else group, seen
        counted = self._counted.get(key)
        if counted is None:
            force = self._in_force(group)
            now = (one for one in self.limits if force[one.k] and one.column.rule.seen == seen)
            counted = [one.counts for one in now if one.counts is not None]
            if len(self._counted) >= _KEPT:
                self._counted.clear()
            self._counted[key] = counted
        for counts in counted:
            counts.decisions += 1

    def under(
        self, spec: Spec, policy: Summed | None, reset: Sequence[str], windows: Windows | None = None
    ) -> tuple[Ledger, dict[int, list[int]]]:
        """The ledger that continues this one under other rules, and where each hard cap continues; this one is not changed.

        A limit keeps its counts and its total by its name; for caps see `carried_over`.
        """
        new, before = Ledger(spec, policy, windows), {one.column.name: one for one in self.limits}
        for limit in new.limits:
            if limit.column.name in before:
                limit.go_on_from(before[limit.column.name])
        withheld = {(cap.key, cap.allowed): cap.withheld for cap in self.caps}
        for cap in new.caps:
            cap.withheld = withheld.get((cap.key, cap.allowed))
        if new.own_windows is not None and self.windows is not None:
            carry_windows(self.windows, new.own_windows)
        moved, new.spent = carried_over(self.caps, self.spent, new.caps, reset)
        return new, moved

    def moved_holds(self, holds: Sequence[int], moved: Mapping[int, list[int]]) -> tuple[int, ...]:
        """Which caps now hold what a pending decision had reserved, under the caps that continue the earlier ones."""
        now = tuple(sorted({at for k in holds for at in moved.get(k, ())}))
        for cap in (self.caps[k] for k in now):
            cap.hold_again(cap.high)
        return now

    def saved(self) -> dict[str, Any]:
        own = self._sums.arrays() if isinstance(self._sums, Totals) else {}
        return {
            "caps": [[cap.name, str(cap.used), str(cap.reserved)] for cap in self.caps],
            "spent": self.spent,
            "averages": [one.counts for one in self.limits],
            "withheld": [cap.withheld for cap in self.caps],
            **{name: one.tolist() for name, one in own.items()},
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        withheld = msgspec.convert(saved["withheld"], list[Withheld | None])
        for cap, (name, used, reserved), run in zip(self.caps, saved["caps"], withheld, strict=True):
            if cap.name != name:
                other = f"counts a hard cap {name!r} where the spec has {cap.name!r}"
                raise InvalidInput(field="the snapshot", problem=other)
            cap.used, cap.reserved, cap.withheld = Decimal(used), Decimal(reserved), run
        self.spent = msgspec.convert(saved["spent"], list[Spent])
        self.restore_counts(saved)
        if isinstance(self._sums, Totals):
            self._sums.load(saved)

    def restore_counts(self, saved: Mapping[str, Any]) -> None:
        """Restore only the counts of the limits, when the totals that they explain are rolled back."""
        counts = msgspec.convert(saved["averages"], list[Counts | None])
        for limit, one in zip(self.limits, counts, strict=True):
            limit.counts = one
        self._counted = {}

    def _offered(self, ids: Sequence[int] | None) -> Sequence[int]:
        if ids is None:
            return () if self._rules is None else self._rules.registry.active
        return ids

    def _in_force(self, group: Group) -> NDArray[np.bool_]:
        return _NONE if self._rules is None else self._rules.in_force(group)


# How many sets of groups are remembered.
_KEPT = 256
_NONE = np.zeros(0, dtype=np.bool_)
