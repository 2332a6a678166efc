"""What usage lies in: as rules declare it, or where none does what their limits suggest, in any unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.rules.rule import Rule
from tightrope.validation import Array
from tightrope.words import Place

Ranges: TypeAlias = dict[str, tuple[float, float]]

# Any finite number.
ANY = (-float(np.finfo(float).max), float(np.finfo(float).max))
# Without a declared range rules are taken to conflict only if usage so many times what their limits suggest would not do.
_FAR = 1e3


def usage_ranges(rules: Sequence[Rule]) -> Ranges:
    """What each usage lies in, as all rules on it declare alike, or as their limits suggest."""
    declared: dict[str, tuple[float, float] | None] = {}
    found: Ranges = {}
    for i, rule in enumerate(rules):
        usage, _, (low, high) = rule.quantity
        if usage is None:
            continue
        own = (low, high) if rule.declared else None
        if declared.setdefault(usage, own) != own:
            before = "left out" if declared[usage] is None else declared[usage]
            must = f"be {before}, as in an earlier rule on {usage!r}"
            raise InvalidInput(field=Place("rules", i, "range"), must=must, got=own)
        least, most = found.get(usage, (low, high))
        found[usage] = (min(least, low), max(most, high))
    return found


def allowed_ranges(rules: Sequence[Rule]) -> Ranges:
    """What each usage may be at all: where no range is declared, any finite number."""
    declared = _declared(rules)
    return {name: one if name in declared else ANY for name, one in usage_ranges(rules).items()}


def likely_ranges(rules: Sequence[Rule]) -> Ranges:
    """What each usage may be when rules are judged: where no range is declared, a thousand times what the limits suggest."""
    declared = _declared(rules)
    return {
        name: (low, high) if name in declared else (_FAR * low, _FAR * high)
        for name, (low, high) in usage_ranges(rules).items()
    }


def widened(cost_range: Array, declared: NDArray[np.bool_], costs: Array) -> Array:
    """Ranges of costs, (K, 2); those that are not declared wide enough for these costs, (…, K)."""
    found = np.array(cost_range)
    if costs.size:
        flat = costs.reshape(-1, len(found))
        low, high = np.minimum(found[:, 0], flat.min(axis=0)), np.maximum(found[:, 1], flat.max(axis=0))
        found = np.where(declared[:, None], found, np.column_stack([low, high]))
    return found


def _declared(rules: Sequence[Rule]) -> set[str | None]:
    return {rule.quantity.usage for rule in rules if rule.declared}
