"""Hard caps: totals that are never exceeded, whatever the policy would like.

>>> from tightrope.spec import make_spec
>>> rule = {"kind": "capacity", "action": "a", "at_most": 0.5, "hard": True, "total": 3}
>>> spec = make_spec({"actions": ["a", "b"], "rule": [rule]})
>>> [cap] = hard_caps(spec)
>>> need = cap.need(0, 0, {}, spec.rules.in_force())
>>> cap.account.fits(need), cap.take(need), cap.take(need), cap.take(need), cap.account.fits(need)
(True, False, False, False, False)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from numpy.typing import NDArray

from tightrope.errors import InvalidInput, TightropeError
from tightrope.ledger.account import ONE, ZERO, Account, Address, amount
from tightrope.rules import Rule, Rules
from tightrope.rules.usage import of_row
from tightrope.spec import RuleSpec, Spec


class Exhausted(TightropeError):
    """Hard caps leave no action that may be taken."""

    def __init__(self, caps: Sequence[HardCap], what: str) -> None:
        self.caps = tuple(caps)
        spent = ", ".join(
            f"{cap.name} ({cap.account.taken.normalize():f} of {cap.account.allowed.normalize():f} used or reserved)"
            for cap in caps
        )
        super().__init__(f"{what} would exceed a hard cap: {spent}")


def hard_caps(spec: Spec) -> list[HardCap]:
    """The rules of a spec that are marked `hard = true`, with their `total`."""
    rules = spec.rules
    if rules is None:
        return []
    try:
        return [
            HardCap(one, rules, f"rule[{i}]")
            for i, one in enumerate(spec.rule_specs)
            if one.hard or one.total is not None
        ]
    except InvalidInput as error:
        raise spec.error(error) from error


class HardCap:
    """A hard cap: what its rule counts never adds up to more than `total`, the amount of its account."""

    def __init__(self, spec: RuleSpec, rules: Rules, where: str) -> None:
        rule, total = spec.rule, spec.total
        if not spec.hard or total is None:
            raise InvalidInput(
                "`hard = true` and `total` go together, but one of them is missing.", within=where
            )
        if "at_most" not in dict(rule.sides):
            words = f"a hard cap needs a rule with at_most, but this one reads '{rule}'."
            raise InvalidInput(words, within=f"{where}.total")
        quantity = rule.quantity
        if rule.seen == "after" and not rule.declared:
            words = "what a decision uses is seen after acting, so the cap reserves the most that it may be until then"
            raise InvalidInput(f"is needed, such as range = [0, 1]: {words}.", within=f"{where}.range")
        self.rule: Rule = rule
        # What it counts, whatever its limits are.
        self.key = (rule.kind, quantity.usage, quantity.actions, rule.among, rule.seen)
        self.name = quantity.usage or str(rule)
        self.address = Address(self.name)
        self.account = Account(amount(total))
        self.usage = quantity.usage
        self.after = quantity.usage is not None and rule.seen == "after"
        self._high = amount(quantity.range[1])
        self._names = rules.action_names
        self._counted = None if quantity.actions is None else {*rules.action_names.ids(quantity.actions)}
        self._column = next(k for k, one in enumerate(rules.columns) if one.rule == rule)

    def renames(self, other: HardCap) -> bool:
        """Whether it is the other under another name of what is used, and in nothing else another."""
        mine, theirs = self.rule.to_data(), other.rule.to_data()
        return (
            self.usage is not None
            and other.usage is not None
            and self.account.allowed == other.account.allowed
            and {**mine, "name": None} == {**theirs, "name": None}
        )

    def need(self, action: int, row: int, usage: Mapping[str, Any], in_force: NDArray[Any]) -> Decimal:
        """What choosing this action would take, the high end of the range where that is seen only after."""
        if not in_force[self._column] or (self._counted is not None and action not in self._counted):
            return ZERO
        if self.usage is None:
            return ONE
        return self._high if self.after else amount(of_row(usage[self.usage], row, self._names.name(action)))

    def take(self, need: Decimal) -> bool:
        """Use it, or reserve it where what was really used will be said later; whether that is so."""
        if self.after and need:
            self.account.reserve(need)
            return True
        self.account.book(need)
        return False

    def settle(self, used: Mapping[str, float]) -> None:
        """What was really used, instead of the high end that was reserved."""
        assert self.usage is not None
        self.account.settle(self._high, amount(used[self.usage]))

    def keep(self) -> None:
        """The high end that was reserved counts as used: nobody waits any longer."""
        self.account.keep(self._high)

    def hold_again(self) -> None:
        """A high end that counts as used is only reserved, as under the cap that this one goes on from."""
        self.account.hold_again(self._high)
