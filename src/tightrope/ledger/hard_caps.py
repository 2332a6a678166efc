"""Hard caps: totals that are never exceeded, whatever the policy would like.

>>> from tightrope.spec import make_spec
>>> rule = {"kind": "capacity", "action": "a", "at_most": 0.5, "hard": True, "total": 3}
>>> spec = make_spec({"actions": ["a", "b"], "rule": [rule]})
>>> [cap] = hard_caps(spec)
>>> need = cap.need(0, 0, {}, spec.rules.in_force())
>>> cap.fits(need), cap.take(need), cap.take(need), cap.take(need), cap.fits(need)
(True, False, False, False, False)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from numpy.typing import NDArray

from tightrope.actions import count
from tightrope.errors import InvalidInput
from tightrope.ledger.account import ONE, ZERO, Address, ExactAccount, amount
from tightrope.rules import Rule, Rules
from tightrope.rules.rule import members
from tightrope.rules.usage import of_row
from tightrope.spec import RuleSpec, Spec


class Withheld(msgspec.Struct, array_like=True):
    """What a hard cap has withheld without a break until now: since when, and the rewards before that."""

    time: int
    number: int
    rewards: int
    reward_sum: float
    decisions: int
    # How often each action was withheld, by its id.
    actions: list[int]


def hard_caps(spec: Spec) -> list[HardCap]:
    """The rules of a spec that are marked `hard = true`, with their `total`."""
    rules = spec.rules
    if rules is None:
        return []
    caps = (one.rule.per is None and (one.hard or one.total is not None) for one in spec.rule_specs)
    marked = [(i, spec.rule_specs[i]) for i, capped in enumerate(caps) if capped]
    try:
        return [HardCap(one, rules, f"rule[{i}]") for i, one in marked]
    except InvalidInput as error:
        raise spec.error(error) from error


class HardCap(ExactAccount):
    """The account of a hard cap: what its rule counts never adds up to more than `total`.

    `high` is what it reserves for a decision whose usage is seen after acting, `withheld` what it keeps off offer now.
    """

    def __init__(self, spec: RuleSpec, rules: Rules, where: str) -> None:
        rule, total = spec.rule, spec.total
        if not spec.hard or total is None:
            words = "a hard cap needs both `hard = true` and `total`, but one is missing."
            raise InvalidInput(words, within=where)
        if "at_most" not in dict(rule.sides):
            words = f"a hard cap needs a rule with at_most, but this one reads '{rule}'."
            raise InvalidInput(words, within=f"{where}.total")
        self.usage, actions, (_, high) = rule.quantity
        if rule.seen == "after" and not rule.declared:
            why = "usage is seen after acting, so until then the cap reserves the most it can be"
            raise InvalidInput(f"is missing, such as range = [0, 1]: {why}.", within=f"{where}.range")
        self._column = next(k for k, one in enumerate(rules.columns) if one.rule == rule)
        super().__init__(Address(rules.names[self._column], hard=True), amount(total))
        self.rule: Rule = rule
        # What it counts, regardless of its limits.
        named = None if actions is None else tuple(map(str, actions))
        self.key = (rule.kind, self.usage, named, members(rule.among) or None, rule.seen)
        self.name = self.usage or str(rule)
        self.after = self.usage is not None and rule.seen == "after"
        self.high = amount(high)
        self.withheld: Withheld | None = None
        self._names = rules.registry
        self._counted = None if actions is None else {*rules.registry.ids(actions)}

    def renames(self, other: HardCap) -> bool:
        """Whether it is the same as the other cap except for the name of what it counts."""
        mine, theirs = ({**one.rule.to_data(), "name": None} for one in (self, other))
        known = self.usage is not None and other.usage is not None
        return known and self.allowed == other.allowed and mine == theirs

    def need(self, action: int, row: int, usage: Mapping[str, Any], in_force: NDArray[Any]) -> Decimal:
        """What choosing this action would take; the high end of the range if usage is seen only afterwards."""
        if not in_force[self._column] or (self._counted is not None and action not in self._counted):
            return ZERO
        if self.usage is None:
            return ONE
        return self.high if self.after else amount(of_row(usage[self.usage], row, self._names.name(action)))

    def take(self, need: Decimal) -> bool:
        """Use it, or reserve it if the actual usage is reported later; returns whether it was reserved."""
        if self.after and need:
            self.reserve(need)
            return True
        self.book(need)
        return False

    def note_withheld(
        self, needs: Sequence[Decimal], offered: Sequence[int], now: tuple[int, int, int, float]
    ) -> None:
        """Note which of the actions on offer it withholds, by what they need; `now` is when a new `Withheld` begins."""
        kept_off = [action for action, need in zip(offered, needs, strict=True) if not self.fits(need)]
        if kept_off:
            if self.withheld is None:
                self.withheld = Withheld(*now, 0, [])
            self.withheld.decisions += 1
            for action in kept_off:
                count(self.withheld.actions, action)
        elif any(needs):
            self.withheld = None
