"""Limits that an operator moves while a policy runs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from tightrope.errors import InvalidInput
from tightrope.rules import Rules


def with_limit(rules: Rules, k: int, limit: float) -> tuple[Rules, float]:
    """The rules with another limit in column k, and by how much its costs change."""
    column = rules.columns[k]
    old: Any = column.rule
    if column.side not in {one.name for one in fields(old)}:
        raise InvalidInput(
            f"the limit of {rules.names[k]!r} follows from other fields of {old!r}: make a policy with new rules."
        )
    new = replace(old, **{column.side: limit})
    if new.scale != old.scale:
        raise InvalidInput(
            f"the limit {limit:g} of {rules.names[k]!r} lies outside what is "
            f"{'declared of' if old.declared else 'suggested by the old one for'} its usage, so that costs would change their "
            "scale: make a policy with new rules, with a `range` that holds both limits."
        )
    changed = [new if rule is old else rule for rule in rules]
    moved = Rules(changed, list(rules.actions), groups=rules.groups)
    return moved, column.shift(moved.columns[k])
