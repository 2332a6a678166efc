"""What usage may be that callers send: the `range` of its rule, or one that is inferred at the first start and then fixed.

The journal holds what was inferred, with the configuration, so that a restart and a replay take and refuse the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from tightrope.errors import InvalidInput
from tightrope.log import Log
from tightrope.rules import Rule
from tightrope.spec import Spec, SpecError

Ranges: TypeAlias = dict[str, tuple[float, float]]

# How far from 0 usage may go: so many times the largest that a table tells, or else so many times the largest limit.
OF_A_TABLE: Final = 10.0
OF_A_LIMIT: Final = 100.0
# A table that says so many times the limit is taken for a mistake.
_PLAUSIBLE: Final = 1e6


def inferred_ranges(spec: Spec, past: Log | None = None) -> Ranges:
    """The range of each usage that callers send and no rule declares one for.

    It goes from 0, or where something negative is known as far below 0 as above, to ten times the largest number that the spec's
    `usage` or else the table of the warm start has; where neither tells, to a hundred times the largest limit.
    """
    try:
        return {usage: _inferred(spec, usage, rules, past) for usage, rules in _undeclared(spec).items()}
    except SpecError:
        raise
    except InvalidInput as error:
        raise spec.error(f"warm_start: {error}") from error


def carried_ranges(spec: Spec, before: Spec, known: Mapping[str, tuple[float, float]]) -> Ranges:
    """The ranges under a changed spec: those that are known, wide enough for limits that have changed; others are inferred."""
    old, found = _undeclared(before), {}
    for usage, rules in _undeclared(spec).items():
        if usage in known and _limits(rules) == _limits(old.get(usage, [])):
            found[usage] = known[usage]
            continue
        low, high = _inferred(spec, usage, rules, None)
        was = known.get(usage, (low, high))
        found[usage] = (min(low, was[0]), max(high, was[1]))
    return found


def _undeclared(spec: Spec) -> dict[str, list[Rule]]:
    """The rules on each usage that callers send, where none of them declares its range."""
    by_usage: dict[str, list[Rule]] = {}
    stated: set[str] = set()
    for one in spec.rule_specs:
        usage = one.rule.quantity.usage
        if usage is None:
            continue
        if one.rule.declared or (one.usage is not None and one.rule.seen == "before"):
            stated.add(usage)
        by_usage.setdefault(usage, []).append(one.rule)
    return {usage: rules for usage, rules in by_usage.items() if usage not in stated}


def _limits(rules: list[Rule]) -> list[float]:
    return [limit for rule in rules for _, limit in rule.sides]


def _inferred(spec: Spec, usage: str, rules: list[Rule], past: Log | None) -> tuple[float, float]:
    limits = _limits(rules)
    told, factor = [*spec.usage.get(usage, {}).values()], OF_A_TABLE
    if not told and past is not None and usage in past.columns.usage:
        used = past.used(usage)
        told = [float(used.min()), float(used.max())]
        far, limit = max(map(abs, told)), max(map(abs, limits))
        if limit and not far <= _PLAUSIBLE * limit:
            raise spec.error(
                f"warm_start.usage.{usage}: the table has {far:g}, which is more than {_PLAUSIBLE:g} times the limit {limit:g}: "
                "mend the table, or declare `range` in the rule if that is right"
            )
    if not any(told):
        told, factor = limits, OF_A_LIMIT
    size = factor * max(map(abs, told))
    if not size:
        raise spec.error(
            f"rule: `range` is needed in the rule on {usage!r}, such as range = [0, 1]: a limit of 0 does not tell how large it "
            "may be"
        )
    return min(-size if min(told) < 0 else 0.0, *limits), max(size, *limits)
