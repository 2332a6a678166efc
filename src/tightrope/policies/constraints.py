"""A policy's constraints: how many, when each is seen, the range of its costs, and limits that an operator moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.actions import Actions
from tightrope.errors import InvalidInput
from tightrope.problem import Seen, when_seen, which_before
from tightrope.rules import Rules
from tightrope.validation import Array, finite_array, finite_number, real_array, require_range, whole_number


def read_constraints(
    constraints: Any, cost: Any
) -> tuple[Rules | None, int, tuple[Seen, ...] | None, NDArray[np.bool_]]:
    """Read constraints given as a number, as rules, or by when each is seen: rules, K, when, and which are seen before acting.

    `cost` is the model of the costs seen after acting, if one was given.
    """
    if isinstance(constraints, dict):  # rules as data, as they are saved
        names = constraints["actions"]
        states = {names.index(name): state for name, state in constraints.get("states", {}).items()}
        actions = Actions(names, states) if states else names
        constraints = Rules.from_data(constraints["rules"], actions, groups=constraints.get("groups"))
    if isinstance(constraints, Rules):
        rules, K, told = constraints, constraints.n_constraints, None
        before = np.asarray(constraints.seen, dtype=bool)
    elif (
        isinstance(constraints, tuple | list)
        and constraints
        and all(isinstance(one, str) for one in constraints)
    ):
        rules, K = None, len(constraints)
        seen = when_seen("constraints", constraints, K)
        told, before = seen if isinstance(seen, tuple) else None, which_before(seen, K)
    else:
        K = whole_number("constraints must be Rules or their number, which", constraints)
        return None, K, None, np.full(K, cost is None)
    late_windows = isinstance(constraints, Rules) and not constraints.windows.seen.all()
    if cost is not None and before.all() and not late_windows:
        raise InvalidInput(
            "cost is a model of costs that are seen after acting, but here all are seen before."
        )
    return rules, K, told, before


def finite_ranges(K: int, rules: Rules | None, cost_range: Any) -> Array | None:
    """The known range of each of K costs, (K, 2); None if nothing is known."""
    if rules is not None:
        ranges = _ranges_of(rules, cost_range)
        for k, column in enumerate(rules.columns):
            if not column.rule.declared:
                # The limit hints at how large costs are, in any unit; a limit of 0 says nothing.
                size = max(abs(limit) for _, limit in column.rule.sides) / column.rule.scale
                ranges[k] = -size, size
        return ranges
    if cost_range is None:
        return None
    given = finite_array("cost_range", np.asarray(cost_range, dtype=float), (2,), (K, 2))
    ranges = np.array(np.broadcast_to(given, (K, 2)))
    _require_order(ranges, "≤", ranges[:, 0] <= ranges[:, 1])
    return ranges


def unit_ranges(K: int, rules: Rules | None, cost_range: Any) -> Array:
    """The known range of each of K costs, (K, 2), for a policy that takes costs in [−1, 1]."""
    if rules is not None:
        return _ranges_of(rules, cost_range)
    given = real_array("cost_range", (-1.0, 1.0) if cost_range is None else cost_range, (2,), (K, 2))
    ranges = np.array(np.broadcast_to(given, (K, 2)))
    require_range("cost_range", ranges, -1.0, 1.0)
    _require_order(ranges, "<", ranges[:, 0] < ranges[:, 1])
    return ranges


def column_of(names: Sequence[str], rule: str | int) -> int:
    """The number of a constraint, given its name or number."""
    if isinstance(rule, str):
        if rule not in names:
            raise InvalidInput(f"there is no constraint {rule!r}; there are {list(names)}.")
        return names.index(rule)
    k = whole_number("rule", rule)
    if k >= len(names):
        raise InvalidInput(field="rule", must=f"be below {len(names)}", got=k)
    return k


def moved_limit(rules: Rules | None, k: int, limit: Any, shift: Any) -> tuple[Rules | None, float]:
    """The rules with another limit in column k (no rules if costs shift), and by how much the costs of k change."""
    if rules is None:
        if limit is not None or shift is None:
            raise InvalidInput(
                "there are no rules and so no limits: pass shift=, the amount that the costs change by."
            )
        return None, finite_number("shift", shift)
    if limit is None or shift is not None:
        raise InvalidInput("with rules, give the new limit.")
    return _with_limit(rules, k, finite_number("limit", limit))


def _with_limit(rules: Rules, k: int, limit: float) -> tuple[Rules, float]:
    column = rules.columns[k]
    old: Any = column.rule
    if column.side not in {one.name for one in fields(old)}:
        why = f"the limit of {rules.names[k]!r} follows from other fields of {old!r}"
        raise InvalidInput(f"{why}: make a policy with new rules.")
    new = replace(old, **{column.side: limit})
    if new.scale != old.scale:
        raise InvalidInput(
            f"the limit {limit:g} of {rules.names[k]!r} lies outside the range "
            f"{'declared for' if old.declared else 'suggested by the old limit for'} its usage, so the costs would change "
            "scale: make a policy with new rules and a `range` that contains both limits."
        )
    changed = [new if rule is old else rule for rule in rules]
    moved = Rules(changed, rules.registry, groups=rules.groups)
    return moved, column.shift(moved.columns[k])


def _ranges_of(rules: Rules, cost_range: Any) -> Array:
    if cost_range is not None:
        raise InvalidInput("cost_range comes from the rules' declared ranges: do not give it as well.")
    return np.array(rules.cost_range, dtype=float).reshape(-1, 2)


def _require_order(ranges: Array, sign: str, good: NDArray[np.bool_]) -> None:
    for k in np.flatnonzero(~good).tolist():
        low, high = ranges[k].tolist()
        raise InvalidInput(f"`low {sign} high` must hold in cost_range, but constraint {k} has {low, high}.")
