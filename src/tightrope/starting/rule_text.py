"""A rule as people type it, such as ``letter <= 30%`` or ``letter >= 40% among far``, and as a spec states it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean

_RULE = re.compile(
    r"\s*(?P<name>.+?)\s*(?P<sign><=|>=|≤|≥)\s*(?P<limit>[-+0-9.,eE%]+)\s*(?:\bamong\s+(?P<among>\S.*?)\s*)?"
)


class RuleText(NamedTuple):
    """What a rule in words limits, on which side and at what, and the groups that it is among, if any."""

    name: str
    side: str
    limit: float
    among: tuple[str, ...] = ()


class Used(NamedTuple):
    """What is known about a usage that rules may limit."""

    low: float
    high: float
    stated: dict[str, Any]  # what a rule says about it besides the limit
    average: float = 0.0


def read_rule(text: str) -> RuleText:
    """What is limited, on which side, at what, and among which groups."""
    form = "be NAME <= NUMBER or NAME >= NUMBER, such as 'letter <= 0.3' or 'letter >= 40% among far'"
    if (match := _RULE.fullmatch(text)) is None:
        raise InvalidInput(field="a rule", must=form, got=text)
    try:
        limit = float(match["limit"].rstrip("%").replace(",", "."))
    except ValueError:
        raise InvalidInput(field="a rule", must=form, got=text) from None
    side = "at_most" if match["sign"] in ("<=", "≤") else "at_least"
    limit /= 100.0 if match["limit"].endswith("%") else 1.0
    named = re.split(r",|\bor\b", match["among"] or "")
    among = dict.fromkeys(one.strip().strip("'\"") for one in named if one.strip())
    return RuleText(match["name"].strip("'\""), side, limit, tuple(among))


def rule_of(
    text: str,
    actions: Sequence[str],
    used: Mapping[str, Used],
    remedy: str = "",
    *,
    groups: Sequence[str] = (),
) -> dict[str, Any]:
    """``"letter <= 0.3"`` as a spec states it: the share of an action, or the average of a usage, perhaps among some `groups`."""
    name, side, limit, among = read_rule(text)
    where = f"rule {text!r}"
    for one in among:
        if not groups:
            told = f"group {one!r} is unknown, because no column says the group of each row."
            raise InvalidInput(told, within=where, remedy="Use --from TABLE and --group COLUMN.")
        if one not in groups:
            known = f"known groups: {few_of(groups)}"
            raise InvalidInput(f"unknown group {one!r}{did_you_mean(one, groups)}; {known}", within=where)
    of = {} if not among else {"among": among[0] if len(among) == 1 else [*among]}
    if name in actions:
        return {"kind": "capacity" if side == "at_most" else "share", "action": name, side: limit, **of}
    if name not in used:
        known = few_of([*used, *actions])
        what = (
            f"{name!r} is neither an action nor something that is used{did_you_mean(name, [*actions, *used])}"
        )
        raise InvalidInput(f"{what}; known: {known}{remedy}", within=where)
    return {**limited(name, side, limit, used[name]), **of}


def limited(name: str, side: str, limit: float, used: Used) -> dict[str, Any]:
    kind, ends = "budget" if side == "at_most" else "mean", [min(0.0, used.low), max(used.high, limit)]
    return {"kind": kind, "name": name, side: limit, "range": ends, **used.stated}


def rule_name(rule: Mapping[str, Any]) -> str:
    """A rule in a few words, such as ``letter >= 0.1`` or ``letter >= 0.1 among far``."""
    what = rule.get("action", rule.get("name"))
    limit = f"<= {rule['at_most']:g}" if "at_most" in rule else f">= {rule['at_least']:g}"
    among = rule.get("among", ())
    groups = f" among {among if isinstance(among, str) else ', '.join(among)}" if among else ""
    return f"{what} {limit}{groups}"


def few_of(names: Sequence[str], most: int = 12) -> str:
    """Some names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
