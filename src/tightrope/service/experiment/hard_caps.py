"""Hard caps: totals that are never exceeded, whatever the policy would like.

>>> from tightrope.spec import make_spec
>>> rule = {"kind": "capacity", "action": "a", "at_most": 0.5, "hard": True, "total": 3}
>>> [cap] = hard_caps(make_spec({"actions": ["a", "b"], "rule": [rule]}))
>>> need = cap.need(0, "a", 0, {}, set())
>>> cap.fits(need), cap.spend(need), cap.spend(need), cap.spend(need), cap.fits(need)
(True, False, False, False, False)
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, Final

import msgspec

from tightrope.errors import InvalidInput
from tightrope.rules import Rule
from tightrope.service.answer import Refusal
from tightrope.spec import RuleSpec, Spec


def hard_caps(spec: Spec) -> list[HardCap]:
    """The rules of a spec that are marked `hard = true`, with their `total`."""
    ids = {name: i for i, name in enumerate(spec.actions)}
    try:
        return [
            HardCap(one, ids, f"rule[{i}]")
            for i, one in enumerate(spec.rule_specs)
            if one.hard or one.total is not None
        ]
    except InvalidInput as error:
        raise spec.error(error) from error


class HardCap:
    """A hard cap: what its rule counts never adds up to more than `total`.

    Sums are decimal, of the digits that people write, so that ten times 0.1 is 1; where digits run out they are rounded up.
    """

    def __init__(self, spec: RuleSpec, ids: Mapping[str, int], where: str) -> None:
        rule, total = spec.rule, spec.total
        if not spec.hard or total is None:
            raise InvalidInput(f"{where}: `hard = true` and `total` go together, but one of them is missing.")
        if "at_most" not in dict(rule.sides):
            words = f"a hard cap needs a rule with at_most, but this one reads '{rule}'."
            raise InvalidInput(f"{where}.total: {words}")
        quantity = rule.quantity
        if rule.seen == "after" and not rule.declared:
            words = "what a decision uses is seen after acting, so the cap reserves the most that it may be until then"
            raise InvalidInput(f"{where}.range: is needed, such as range = [0, 1]: {words}.")
        self.rule: Rule = rule
        # What it counts, whatever its limits are.
        self.key = (rule.kind, quantity.usage, quantity.actions, rule.among, rule.seen)
        self.name = quantity.usage or str(rule)
        self.total = _decimal(total)
        self.used = Decimal(0)
        self.high = _decimal(quantity.range[1])
        self.usage = quantity.usage
        self.after = quantity.usage is not None and rule.seen == "after"
        self._counted = None if quantity.actions is None else {ids[str(a)] for a in quantity.actions}
        among = rule.among
        self._groups = {among} if isinstance(among, str) else set(among or ())

    def renames(self, other: HardCap) -> bool:
        """Whether it is the other under another name of what is used, and in nothing else another."""
        mine, theirs = self.rule.to_data(), other.rule.to_data()
        return (
            self.usage is not None
            and other.usage is not None
            and self.total == other.total
            and {**mine, "name": None} == {**theirs, "name": None}
        )

    def need(self, action: int, name: str, row: int, usage: Mapping[str, Any], groups: set[str]) -> Decimal:
        """What choosing this action would add, the high end of the range where that is seen only after."""
        if self._counted is not None and action not in self._counted:
            return _ZERO
        if self._groups and not self._groups & groups:
            return _ZERO
        if self.usage is None:
            return _ONE
        if self.after:
            return self.high
        given = usage[self.usage]
        if isinstance(given, Mapping):
            given = given[name]
        elif isinstance(given, list):
            given = given[row]
        return _decimal(given)

    def fits(self, amount: Decimal) -> bool:
        """Whether so much more may be used."""
        return not amount or _EXACT.add(self.used, amount) <= self.total

    def spend(self, amount: Decimal) -> bool:
        """Use it, or reserve it; whether what was really used will be said later."""
        self.used = _EXACT.add(self.used, amount)
        return self.after and bool(amount)

    def replace_reserved(self, actual: float) -> None:
        """What was really used, instead of the high end that was reserved."""
        self.used = _EXACT.add(_EXACT.subtract(self.used, self.high), min(_decimal(actual), self.high))


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
        """What was used under this cap."""
        kind, usage, actions, among, seen = cap.key
        groups = (among,) if isinstance(among, str) else None if among is None else tuple(among)
        return cls(
            kind, usage, None if actions is None else tuple(map(str, actions)), groups, seen, str(cap.used)
        )

    def same(self, other: Spent) -> bool:
        """Whether both counted the very same."""
        return msgspec.structs.replace(self, used=other.used) == other

    def covers(self, other: Spent) -> bool:
        """Whether all that the other counts was counted here too."""
        return _within(other.actions, self.actions) and _within(other.among, self.among)

    def touches(self, other: Spent) -> bool:
        """Whether something may be counted by both: the same usage, and an action in common."""
        if (self.usage is None) != (other.usage is None) or self.usage != other.usage:
            return False
        return self.actions is None or other.actions is None or bool({*self.actions} & {*other.actions})


def _within(part: tuple[str, ...] | None, whole: tuple[str, ...] | None) -> bool:
    return whole is None or (part is not None and {*part} <= {*whole})


def carried_over(
    old: Sequence[HardCap], spent: Sequence[Spent], new: Sequence[HardCap], reset: Sequence[str]
) -> tuple[dict[int, list[int]], list[Spent]]:
    """Let new caps begin with what was spent before, and say where each old cap is counted on, and what has no cap now.

    A cap that counts what one before it counted goes on from there, also where that has another name now. Any other begins with the
    most that it can have been: what was used under a cap that counted all that it counts, or under all together that counted a part
    of it. Those named in `reset` begin at 0.

    Raises
    ------
    InvalidInput
        `reset` names what is no cap; or a cap under which something was spent is gone, and another that would begin at 0 is there.
    """
    names = {cap.name for cap in new}
    for name in reset:
        if name not in names:
            known = ", ".join(map(repr, sorted(names))) or "none"
            raise InvalidInput(f"reset_caps must name hard caps of the new spec, {known}, but got {name!r}.")
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
    """Which new cap goes on from which old one whose usage has another name now, and nothing else.

    Raises
    ------
    InvalidInput
        A new cap would begin at 0 while one that was spent from is gone, and may be the same thing.
    """
    now = [Spent.under(cap) for cap in new]
    gone = [k for k, cap in enumerate(old) if cap.used and not any(before[k].touches(one) for one in now)]
    fresh = [
        at
        for at, cap in enumerate(new)
        if cap.name not in reset and not any(one.touches(now[at]) for one in before)
    ]
    pairs = [(at, k) for at in fresh for k in gone if new[at].renames(old[k])]
    ways = Counter(end for at, k in pairs for end in (("new", at), ("old", k)))
    found = {at: k for at, k in pairs if ways["new", at] == ways["old", k] == 1}
    lost = [old[k] for k in gone if k not in found.values()]
    for at in fresh:
        if lost and at not in found:
            name, was = new[at].name, lost[0]
            raise InvalidInput(
                f"the hard cap {was.name!r}, of which {was.used.normalize():f} of {was.total.normalize():f} is used, is gone, and "
                f"{name!r} is new: if that is the same under another name or as another kind of rule, it would begin again at 0. "
                f"Keep {was.name!r} as it is; or, if {name!r} is to begin at 0, start with "
                f"--accept-changes --reset-caps {shlex.quote(name)}."
            )
    return found


def _begin(cap: Spent, before: Sequence[Spent], same: Sequence[int], present: int) -> Decimal:
    """What a cap begins with; the first `present` of those before were in force until now, and so have counted all."""
    counted = [Decimal(before[k].used) for k in same]
    if any(k < present for k in same):
        return max(counted)
    touching = [one for one in before if one.touches(cap)]
    whole = [Decimal(one.used) for one in touching if one.covers(cap)]
    parts = [Decimal(one.used) for one in touching if not one.covers(cap)]
    total = _ZERO
    for part in parts:
        total = _EXACT.add(total, part)
    return max([total, *whole, *counted])


def affordable(
    caps: Sequence[HardCap],
    names: Sequence[str],
    ids: list[int] | None,
    usage: Mapping[str, Any],
    group: str | list[str] | None,
) -> tuple[list[list[Decimal]], list[int]]:
    """What each row on offer (`ids`, or all) needs of each cap, and the rows that no cap forbids; a `Refusal` if none is left."""
    groups = {group} if isinstance(group, str) else set(group or ())
    needs = [
        [cap.need(action, names[action], row, usage, groups) for cap in caps]
        for row, action in enumerate(range(len(names)) if ids is None else ids)
    ]
    keep = [row for row, need in enumerate(needs) if all(cap.fits(amount) for cap, amount in zip(caps, need))]
    if not keep:
        full = [cap for k, cap in enumerate(caps) if not all(cap.fits(need[k]) for need in needs)]
        raise exhausted(full, "every action on offer")
    return needs, keep


def exhausted(caps: Sequence[HardCap], what: str) -> Refusal:
    """The answer when nothing is left."""
    spent = ", ".join(
        f"{cap.name} ({cap.used.normalize():f} of {cap.total.normalize():f} used or reserved)" for cap in caps
    )
    return Refusal(409, "exhausted", f"{what} would exceed a hard cap: {spent}")


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))


_EXACT: Final = Context(prec=60, rounding=ROUND_CEILING)
_ZERO, _ONE = Decimal(0), Decimal(1)
