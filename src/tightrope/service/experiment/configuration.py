"""The configuration of an experiment: which parts of a spec are served, its policy, and what may change while it runs.

Usage that callers send must lie in the `range` of its rule, or in one that is inferred at the first start and then fixed: the
journal keeps it with the configuration, so that a restart and a replay accept and refuse the same values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.log import Log
from tightrope.policies import Policy
from tightrope.policies.build import build_policy
from tightrope.rules import Rule
from tightrope.service.journal.entries import Started
from tightrope.service.journal.rows import as_recorded
from tightrope.spec import RuleSpec, Spec, SpecError, make_spec, named_kinds, names_encoder
from tightrope.trust import absolute
from tightrope.validation import Array

Ranges: TypeAlias = dict[str, tuple[float, float]]

# How far from 0 usage may go: this many times the largest in the table, or else this many times the largest limit.
OF_A_TABLE: Final = 10.0
OF_A_LIMIT: Final = 100.0
# A table with this many times the limit is considered a mistake.
_PLAUSIBLE: Final = 1e6


def served_part(spec: Spec) -> dict[str, Any]:
    """The parts of a spec that the service depends on, as the journal returns them; the policy's kind is always explicit."""
    # The journal itself holds what was learnt before the first decision.
    apart = ("environment", "simulation", "sweep", "warm_start")
    part = {key: value for key, value in spec.data.items() if key not in apart}
    part |= {"policy": named_kinds(part.get("policy", {})), "name": spec.name}
    if spec.encoder is not None and names_encoder(part["context"]):
        # A replay must work without the file, whatever happens to it.
        part["context"] = {"encoder": spec.encoder.to_dict()}
    folder = spec.policies[0].folder
    whole = part | {key: _absolute(part[key], folder) for key in ("policy", "rule") if key in part}
    if "policy" in (holdout := part.get("holdout", {})):
        whole["holdout"] = {**holdout, "policy": _absolute(named_kinds(holdout["policy"]), folder)}
    recorded: dict[str, Any] = as_recorded(whole)
    return recorded


def continued(spec: Spec, recorded: Spec, stated: Mapping[str, Any] | None = None) -> Spec:
    """`spec` for an experiment that has begun.

    If it is the one that was `stated` before changes while it ran, the recorded one continues. If it names no kind of policy, the
    recorded kind does. If its context has the same fields in another order, they keep the order in which they were learnt.
    """
    policy = spec.data.get("policy", {})
    change = {"policy": named_kinds(policy, recorded.policies[0].kind)}
    if change["policy"] == named_kinds(policy):
        change = {}
    was, now = (served_part(one).get("context") for one in (recorded, spec))
    if was == now and spec.context_names != recorded.context_names:
        change["context"] = was
    if change:
        data, folder = {**spec.data, **change}, spec.policies[0].folder
        spec = make_spec(data, source=spec.source, folder=folder, name=spec.name, trust=spec.trust)
    return recorded if stated is not None and served_part(spec) == stated else spec


def changed_fields(present: Started, wanted: Started) -> tuple[list[str], list[str]]:
    """The parts of the spec, and the other settings, in which two configurations differ."""
    parts = [*changed_values(present.spec, wanted.spec)]
    settings = [
        name for name in ("expire_after", "max_pending") if getattr(present, name) != getattr(wanted, name)
    ]
    return parts, settings


def served_policy(spec: Spec) -> Policy:
    if not spec.actions:
        raise spec.error("actions: is missing: the service must know which actions it may choose")
    if len(spec.policies) != 1:
        names = ", ".join(repr(policy.name) for policy in spec.policies)
        raise spec.error(
            f"policy: the service runs a single policy, but the spec has {len(spec.policies)}: {names}"
        )
    kind = spec.policies[0].kind
    policy: Policy | None = None
    if kind == "oracle":
        reasons = ["it needs the true means of an environment, and a service has none"]
    elif isinstance(built := build_policy(spec.policies[0], spec.problem()), Policy):
        policy, reasons = built, spec.problem().misfits(built)
    else:
        reasons = ["a served policy must inherit tightrope.policies.Policy, which saves and restores it"]
    if reasons or policy is None:
        raise spec.error(f"policy.kind: {kind!r} can't be served here: {'; '.join(reasons)}")
    return policy


def constraint_names(spec: Spec) -> tuple[str, ...]:
    return () if spec.rules is None else spec.rules.names


def known_before(spec: Spec, actions: Sequence[str]) -> list[Any]:
    """Everything that costs of these actions depend on if they are seen before acting; limits per window have accounts instead."""

    def used(one: RuleSpec) -> Any:
        return one.usage and {name: value for name, value in one.usage.items() if name in actions}

    rules = (one for one in spec.rule_specs if one.rule.per is None)
    return [(one.rule, used(one)) for one in rules if one.rule.seen == "before"]


def require_fit(old: Spec, new: Spec, was: Policy, now: Policy) -> None:
    """Refuse a spec that would change the meaning of what was learnt; `old` has the actions' present names."""
    _require_actions(old, new, now)
    was_late, now_late = (
        [one.rule for one in spec.rule_specs if one.rule.seen == "after" and one.rule.per is None]
        for spec in (old, new)
    )
    if [one.short_name for one in was_late] != [one.short_name for one in now_late]:
        there = [", ".join(f"'{one}'" for one in rules) or "none" for rules in (was_late, now_late)]
        change = f"rules that are seen after acting: were {there[0]}, and now are {there[1]}"
        raise _unfit(new, change, "them")
    for one, other in zip(was_late, now_late, strict=True):
        limits: dict[str, float] = dict(one.sides)
        ranges = [[*rule.quantity.range] for rule in (one, other)]
        for field, (this, that) in changed_values(one.to_data(), other.to_data()).items():
            # A range that is not declared comes from the limits.
            if field != "range" and (field not in limits or that is None):
                raise _unfit(new, f"rule '{one}': {field} was {this!r}, and now is {that!r}", "it")
        if ranges[0] != ranges[1] and other.declared:
            raise _unfit(new, f"rule '{one}': range was {ranges[0]}, and now is {ranges[1]}", "it")
        if one.scale != other.scale:
            side, limit = next((side, limit) for side, limit in other.sides if limit != limits[side])
            declare = "" if other.declared else f" and declare `range = {ranges[0]}` in the rule"
            raise new.error(
                f"rule '{one}': {side} was {limits[side]:g}, and now is {limit:g}, but what was learnt is scaled by the range "
                f"{ranges[0]} of its usage. Keep {side} inside{declare}, or give the experiment a new name, to start afresh"
            )
    for what, before, after in (
        ("name", old.name, new.name),
        ("context", *(None if one.encoder is None else one.encoder.to_dict() for one in (old, new))),
        ("features", old.vector, new.vector),
        ("policy.kind", was.kind, now.kind),
        ("policy.reward", *(_lasting(one.hooks.settings().get("reward"), "n_actions") for one in (was, now))),
        (
            "policy.cost",
            *(_lasting(one.hooks.settings().get("cost"), "n_actions", "prior") for one in (was, now)),
        ),
    ):
        if before != after:
            raise _unfit(new, f"{what}: was {before!r}, and now is {after!r}", "it")


def moved_limits(old: Spec, new: Spec) -> Array | None:
    """By how much the costs of each constraint grow, (K,), if two specs differ in limits and hard caps alone; else None."""
    rest = [{**served_part(one), "rule": len(one.rule_specs)} for one in (old, new)]
    if rest[0] != rest[1] or old.rules is None or new.rules is None:
        return None
    for one, other in zip(old.rule_specs, new.rule_specs, strict=True):
        may = {side for side, _ in one.rule.sides} | {"hard", "total"}
        if not (one.rule.declared or other.rule.declared):
            may.add("range")
        if changed_values(_told(one), _told(other)).keys() - may or one.rule.scale != other.rule.scale:
            return None
    if [column.side for column in old.rules.columns] != [column.side for column in new.rules.columns]:
        return None
    return np.array([a.shift(b) for a, b in zip(old.rules.columns, new.rules.columns, strict=True)])


def late_shifts(old: Spec, new: Spec) -> Array | None:
    """By how much changed limits raise the costs of rules that are seen after acting, (K_after,); None if none changed."""
    before, after = (
        [one for one in (spec.rules.columns if spec.rules else ()) if one.rule.seen == "after"]
        for spec in (old, new)
    )
    shifts = np.array([one.shift(other) for one, other in zip(before, after, strict=True)])
    return shifts if shifts.any() else None


def differences(old: Spec, new: Spec) -> list[str]:
    """How the served parts of two specs differ, in words: each rule by its name, with both values."""
    parts = changed_values(served_part(old), served_part(new))
    if _same_places(old, new):
        # `changes.in_words` tells of actions that joined or changed.
        parts = {name: pair for name, pair in parts.items() if name not in ("actions", "action")}
    found = _rule_differences(old, new) if parts.pop("rule", None) is not None else []
    for part, (was, now) in parts.items():
        tables = isinstance(was, dict) and isinstance(now, dict)
        inside = changed_values(was, now) if tables else {}
        found += [_change(f"{part}.{name}", *pair) for name, pair in inside.items()] or [
            _change(part, was, now)
        ]
    return found


def changed_values(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The entries in which two tables differ, from both; None if there is none."""
    names = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    return {name: (was.get(name), now.get(name)) for name in names}


def inferred_ranges(spec: Spec, past: Log | None = None) -> Ranges:
    """The range of each usage that callers send and no rule declares one for.

    It goes from 0 (or, if something negative is known, from as far below 0 as above) to ten times the largest number in the spec's
    `usage` or else in the table of the warm start; without either, to a hundred times the largest limit.
    """
    try:
        return {usage: _inferred(spec, usage, rules, past) for usage, rules in _undeclared(spec).items()}
    except SpecError:
        raise
    except InvalidInput as error:
        raise spec.error(f"warm_start: {error}") from error


def carried_ranges(spec: Spec, before: Spec, known: Mapping[str, tuple[float, float]]) -> Ranges:
    """The ranges under a changed spec: known ones, wide enough for changed limits; others are inferred."""
    old, found = _undeclared(before), {}
    for usage, rules in _undeclared(spec).items():
        if usage in known and _limits(rules) == _limits(old.get(usage, [])):
            found[usage] = known[usage]
            continue
        low, high = _inferred(spec, usage, rules, None)
        was = known.get(usage, (low, high))
        found[usage] = (min(low, was[0]), max(high, was[1]))
    return found


def _rule_differences(old: Spec, new: Spec) -> list[str]:
    left, found = [*new.rule_specs], []
    for one in old.rule_specs:
        same = [k for k, other in enumerate(left) if _subject(other.rule) == _subject(one.rule)]
        if not same:
            found.append(f"the rule '{one.rule}' is gone")
            continue
        other = left.pop(same[0])
        for field, (this, that) in changed_values(_told(one), _told(other)).items():
            found.append(_change(f"rule '{one.rule}': {field}", this, that))
    found += [f"the rule '{other.rule}' is new" for other in left]
    return found or ["the rules come in another order"]


def _subject(rule: Rule) -> tuple[Any, ...]:
    return rule.kind, rule.short_name, rule.among, rule.seen


def _told(one: RuleSpec) -> dict[str, Any]:
    data = one.rule.to_data()
    return {**data, "usage": one.usage, "hard": one.hard or one.rule.hard, "total": one.total}


def _change(what: str, was: Any, now: Any) -> str:
    before, after = ("not there" if one is None else repr(one) for one in (was, now))
    short = [one if len(one) <= 120 else f"{one[:117]}..." for one in (before, after)]
    return f"{what} was {short[0]}, and now is {short[1]}"


def _same_places(old: Spec, new: Spec) -> bool:
    """Whether the actions of the old spec come first in the new one, in their order."""
    return new.actions[: len(old.actions)] == old.actions


def _require_actions(old: Spec, new: Spec, now: Policy) -> None:
    """Actions keep their places and names; what is retired stays so; and the policy can do without those that are off offer."""
    known = [*old.actions]
    if not _same_places(old, new):
        added = [name for name in new.actions if name not in known]
        line = f"actions = {json.dumps([*known, *added], ensure_ascii=False)}"
        raise new.error(
            f"actions: what was learnt goes by their places, so those of the journal come first, in its order: {line}. To take one "
            'off offer, add a table [action."NAME"] with state = "retired"; to rename one, write the new name in its place, and '
            'was = ["OLD NAME"] in its table'
        )
    for part in ("reward", "cost"):
        model = getattr(now.hooks, part)
        if len(new.actions) > len(known) and model is not None and model.n_actions != len(new.actions):
            raise new.error(
                f"policy.{part}: no action can join, because this policy has no parameters for each action alone. A model such as "
                '"linear", "logistic", "ensemble" or "disjoint-ridge" has'
            )
    states = new.registry.states
    for i, state in old.registry.states.items():
        if state == "retired" and states.get(i) != state:
            name = new.actions[i]
            raise new.error(
                f'action.{name}.state: must be "retired", which is for good; add an action under another name instead'
            )
    setting = now.hooks.setting()
    if not states or setting is None:
        return
    off = [i for i in states if i in [action for _, action in setting.counts_on]]
    if off or not setting.takes_sleep or (setting.any_of and not {*setting.any_of} - {*states}):
        name = new.actions[(off or [*states])[0]]
        raise new.error(f"action.{name}.state: a {now.kind} policy needs this action to be on offer")


def _lasting(settings: Any, *but: str) -> Any:
    """A model's settings but those that may change: it grows with the actions, and keeps the prior that it began with."""
    if isinstance(settings, list):
        return [_lasting(one, *but) for one in settings]
    if not isinstance(settings, dict):
        return settings
    return {name: _lasting(value, *but) for name, value in settings.items() if name not in but}


def _unfit(spec: Spec, what: str, it: str) -> SpecError:
    return spec.error(
        f"{what}. What was learnt depends on {it}: put {it} back, or give the experiment a new name, to start afresh"
    )


def _absolute(stated: Any, folder: Path) -> Any:
    """The policy or rules of a spec, with absolute paths to your own classes, so that a journal can be replayed in any folder."""
    if isinstance(stated, list):
        return [_absolute(one, folder) for one in stated]
    if not isinstance(stated, dict):
        return absolute(stated, folder) if isinstance(stated, str) else stated
    named = ("kind", "model", "reward", "cost")
    return {key: _absolute(value, folder) if key in named else value for key, value in stated.items()}


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
                "correct the table, or declare `range` in the rule if that is right"
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
