"""The limits of rules one by one: an upper and a lower limit are two columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tightrope.errors import InvalidInput
from tightrope.rules.rule import Rule, Side, either


class Column(NamedTuple):
    """One column of the cost matrix: its label, the rule it belongs to and which of its limits it is."""

    name: str
    rule: Rule
    side: Side

    @property
    def limit(self) -> float:
        return dict(self.rule.sides)[self.side]

    @property
    def sign(self) -> float:
        """1 where more of the rule's quantity costs more, −1 where less does."""
        return 1.0 if self.side == "at_most" else -1.0

    def shift(self, other: Column) -> float:
        """By how much costs grow if `other`, which differs only in its limit, replaces this column."""
        return self.sign * (self.limit - other.limit) / self.rule.scale

    def in_units(self, cost: float) -> float:
        """The rule's quantity, in its own units, at a cost of this column."""
        return self.limit + self.sign * self.rule.scale * cost

    def price_words(self, price: float) -> str:
        """What the limit costs, in a sentence: `price` is the reward per decision for moving it by one unit."""
        if self.rule.quantity.usage is None:
            move = f"a limit one percentage point {'higher' if self.side == 'at_most' else 'lower'}"
            price /= 100
        else:
            scope = "" if self.rule.among is None else f" of {either(self.rule.among)}"
            move = f"{self.rule.one_more(self.side)} per decision{scope}"
        return f"{self.name}: {move} would earn {price:.4g} per decision."


def named_columns(rules: Sequence[Rule]) -> tuple[Column, ...]:
    """One column for each limit of the rules, with labels of which no two are alike."""
    chosen = [rule.label for rule in rules if rule.label is not None]
    for name in chosen:
        if (n := chosen.count(name)) > 1:
            raise InvalidInput(f"name must be unique, but {name!r} comes {n} times.", within="rules")
    taken, columns = set(chosen), []
    for rule in rules:
        for side, _ in rule.sides:
            short = rule.label or rule.short_name
            short += f" {side.replace('_', ' ')}" if len(rule.sides) > 1 else ""
            short += f" among {either(rule.among)}" if rule.among is not None and rule.label is None else ""
            name, n = short, 1
            while name in taken and name != rule.label:
                n += 1
                name = f"{short} ({n})"
            taken.add(name)
            columns.append(Column(name, rule, side))
    return tuple(columns)
