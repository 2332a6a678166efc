"""What new hard caps begin with: what was spent under earlier ones, even under another name or in parts."""

from __future__ import annotations

import functools
import shlex
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import msgspec

from tightrope.errors import InvalidInput
from tightrope.ledger.account import ZERO, added
from tightrope.ledger.hard_caps import HardCap


class Spent(msgspec.Struct, frozen=True, array_like=True):
    """What was used under a hard cap that the spec no longer has."""

    kind: str
    usage: str | None
    actions: tuple[str, ...] | None
    among: tuple[str, ...] | None
    seen: str
    used: str

    @classmethod
    def under(cls, cap: HardCap) -> Spent:
        return cls(*cap.key, str(cap.taken))

    def same(self, other: Spent) -> bool:
        return msgspec.structs.replace(self, used=other.used) == other

    def covers(self, other: Spent) -> bool:
        """Whether everything that the other cap counts was counted here too."""
        return _within(other.actions, self.actions) and _within(other.among, self.among)

    def touches(self, other: Spent) -> bool:
        """Whether something may be counted by both: the same usage, and an action in common."""
        if self.usage != other.usage:
            return False
        return self.actions is None or other.actions is None or bool({*self.actions} & {*other.actions})


def _within(part: tuple[str, ...] | None, whole: tuple[str, ...] | None) -> bool:
    return whole is None or (part is not None and {*part} <= {*whole})


def carried_over(
    old: Sequence[HardCap], spent: Sequence[Spent], new: Sequence[HardCap], reset: Sequence[str]
) -> tuple[dict[int, list[int]], list[Spent]]:
    """Start new caps with what was already spent; return where each old cap continues, and what has no cap now.

    A cap that counts the same as an earlier one continues from there, even under another name. Any other begins with the most that
    can have been used: the amount under a cap that counted everything it counts, or the sum over all caps that counted a part of
    it. Those named in `reset` begin at 0.

    Raises
    ------
    InvalidInput
        `reset` names something that is not a cap; or a cap with spending is gone while a new one would begin at 0.
    """
    names = {cap.name for cap in new}
    for name in reset:
        if name not in names:
            known = ", ".join(map(repr, sorted(names))) or "none"
            raise InvalidInput(field="reset_caps", must=f"name hard caps of the new spec, {known}", got=name)
    before = [*map(Spent.under, old), *spent]
    renamed = _renamed(old, before, new, reset)
    kept = [one for k, one in enumerate(before) if k not in renamed.values()]
    moved: dict[int, list[int]] = {}
    for at, cap in enumerate(new):
        this = Spent.under(cap)
        if cap.name in reset:
            kept = [one for one in kept if not one.touches(this)]
            continue
        same = [renamed[at]] if at in renamed else [k for k, one in enumerate(before) if one.same(this)]
        for k in same:
            if k < len(old):
                moved.setdefault(k, []).append(at)
        cap.used = _begin(this, before, same, len(old))
    now = [Spent.under(cap) for cap in new]
    return moved, [one for one in kept if not any(one.same(cap) for cap in now)]


def _renamed(
    old: Sequence[HardCap], before: Sequence[Spent], new: Sequence[HardCap], reset: Sequence[str]
) -> dict[int, int]:
    """Which new cap continues which old one, where only the name of the usage has changed.

    Raises
    ------
    InvalidInput
        A new cap would begin at 0 while one with spending is gone, and the two may be the same.
    """
    now = [Spent.under(cap) for cap in new]
    gone = [k for k, cap in enumerate(old) if cap.taken and not any(before[k].touches(one) for one in now)]
    open_to = [at for at, cap in enumerate(new) if cap.name not in reset]
    fresh = [at for at in open_to if not any(one.touches(now[at]) for one in before)]
    pairs = [(at, k) for at in fresh for k in gone if new[at].renames(old[k])]
    ways = Counter(end for at, k in pairs for end in (("new", at), ("old", k)))
    found = {at: k for at, k in pairs if ways["new", at] == ways["old", k] == 1}
    lost = [old[k] for k in gone if k not in found.values()]
    for at in fresh:
        if lost and at not in found:
            name, was = new[at].name, lost[0]
            used = f"{was.taken.normalize():f} of {was.allowed.normalize():f} used"
            raise InvalidInput(
                f"the hard cap {was.name!r} ({used}) is gone, and {name!r} is new: if it is the same cap under another name "
                "or as another kind of rule, it would begin again at 0.",
                remedy=f"Keep {was.name!r} as it is; or, to let {name!r} begin at 0, start with --accept-changes "
                f"--reset-caps {shlex.quote(name)}.",
            )
    return found


def _begin(cap: Spent, before: Sequence[Spent], same: Sequence[int], present: int) -> Decimal:
    """What a cap begins with; the first `present` of the earlier caps were in force until now, and so have counted everything."""
    counted = [Decimal(before[k].used) for k in same]
    if any(k < present for k in same):
        return max(counted)
    touching = [one for one in before if one.touches(cap)]
    whole = [Decimal(one.used) for one in touching if one.covers(cap)]
    parts = [Decimal(one.used) for one in touching if not one.covers(cap)]
    return max([functools.reduce(added, parts, ZERO), *whole, *counted])
