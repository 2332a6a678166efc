"""Changes asked for while an experiment runs, of actions and of rules: the spec that they lead to.

A change is an edit of the recorded spec. What it leads to goes the same way as a spec that was edited by hand: it is refused for
the same reasons, and the journal keeps it in the same kind of entry.

>>> from tightrope.spec import make_spec
>>> rule = {"kind": "capacity", "action": "icu", "at_most": 0.3}
>>> spec = make_spec({"name": "ward", "actions": ["icu", "other"], "rule": [rule]})
>>> new = edited(spec, ChangeRequest(add={"hospice": NewAction(like="other")}, actions={"icu": ActionChange(name="ic")}))
>>> new.actions, new.action("ic").was, str(new.rules)
(('ic', 'other', 'hospice'), ('icu',), 'ic: at most 30% of decisions')
>>> edited(spec, ChangeRequest(rules={"capacity icu": {"at_most": 0.2}})).rules.columns[0].limit
0.2
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean
from tightrope.policies import POLICIES
from tightrope.rules.rule import renamed_actions
from tightrope.service.experiment.configuration import differences, served_part
from tightrope.service.requests import ActionChange, ChangeRequest, NewAction
from tightrope.spec import Spec, SpecError, make_spec
from tightrope.words import Key, Place


def edited(spec: Spec, change: ChangeRequest) -> Spec:
    """The spec after a change; raises what `make_spec` raises, such as `InfeasibleProblem`."""
    data = copy.deepcopy(served_part(spec))
    rules, asked = _edit_rules(spec, data, change)
    for name, one in change.actions.items():
        _require_known(spec, name, Place("actions", Key(name)))
        _edit_action(data, rules, name, one)
    for name, new in change.add.items():
        _add_action(data, rules, name, new)
    if rules or "rule" in data:
        data["rule"] = rules
    if not data.get("action", True):
        del data["action"]
    if data == served_part(spec):
        raise InvalidInput("this changes nothing: the experiment already is as asked.")
    try:
        return make_spec(data, source=_AFTER, name=spec.name, trust=spec.trust)
    except SpecError as error:
        raise _of_request(error, change, asked) from error


_AFTER: Final = "after this change"


def _of_request(error: SpecError, change: ChangeRequest, asked: Sequence[str | None]) -> SpecError:
    """An error about the spec as one about the request: of its fields, if they led to it."""
    inner = error.message
    if not isinstance(inner, SpecError) or not inner.within or inner.field is None:
        return error
    places = {f"rule[{i}]": place for i, place in enumerate(asked) if place is not None}
    places |= {f"action.{name}": f"actions.{name}" for name in change.actions}
    places |= {f"action.{name}": f"add.{name}" for name in change.add}
    for old, new in places.items():
        if inner.within == old or inner.within.startswith(f"{old}."):
            at = new + inner.within.removeprefix(old)
            return SpecError(inner.message, field=at, within=at)
    return error


def in_words(old: Spec, new: Spec) -> list[str]:
    """How two specs differ: each action and rule by its name, with both values."""
    was, names = renamed(old, new)
    found = [f"the action {name!r} is called {later!r} now" for name, later in names.items()]
    known = was.actions
    if new.actions[: len(known)] == known:
        for name in new.actions[len(known) :]:
            like = new.action(name).like
            found.append(
                f"the action {name!r} is new" + ("" if like is None else f", and begins like {like!r}")
            )
        for name in known:
            before, now = was.action(name), new.action(name)
            if before.state != now.state:
                found.append(f"the action {name!r} was {before.state}, and now is {now.state}")
            if before.description != now.description:
                found.append(f"the action {name!r} is described as {now.description!r}")
    return found + differences(was, new)


def renamed(old: Spec, new: Spec) -> tuple[Spec, dict[str, str]]:
    """The old spec with the names that its actions have in a new one, and those names by the old ones."""
    names = {
        name: later
        for name, later in zip(old.actions, new.actions)
        if name != later and name in new.action(later).was
    }
    if not names:
        return old, {}
    data = copy.deepcopy(served_part(old))
    _rename(data, data.get("rule", []), names)
    return make_spec(data, source=old.source, name=old.name, trust=old.trust), names


def only_actions_differ(old: Spec, new: Spec) -> bool:
    """Whether a spec says the same of the actions that the old one has: others are new, or states and descriptions differ."""
    known = {*old.actions}
    parts = [served_part(one) for one in (old, new)]
    for part in parts:
        part["actions"] = part["actions"][: len(known)]
        part.pop("action", None)
        part["policy"] = _of_the_first(part["policy"], len(known))
        for rule in part.get("rule", ()):
            if "usage" in rule:
                rule["usage"] = {name: used for name, used in rule["usage"].items() if name in known}
    return parts[0] == parts[1]


def _edit_rules(
    spec: Spec, data: Mapping[str, Any], change: ChangeRequest
) -> tuple[list[dict[str, Any]], list[str | None]]:
    """The rules after a change, and for each the field of the request that states it; None if it stays as it was."""
    tables: list[dict[str, Any] | None] = [*data.get("rule", [])]
    places: list[str | None] = [None] * len(tables)
    columns = () if spec.rules is None else spec.rules.columns
    rules = list(spec.rules or ())
    at = {column.name: rules.index(column.rule) for column in columns}
    at |= {rule.label or rule.short_name: i for i, rule in reversed([*enumerate(rules)])} | at
    for name, fields in change.rules.items():
        if name not in at:
            problem = f"is no rule{did_you_mean(name, at)}; there are {[*at]}"
            raise InvalidInput(field=Place("rules", Key(name)), problem=problem)
        table, places[at[name]] = tables[at[name]], f"rules.{name}"
        if table is None or fields is None:
            tables[at[name]] = None
        else:
            tables[at[name]] = {key: one for key, one in {**table, **fields}.items() if one is not None}
    stay = [(table, place) for table, place in zip(tables, places) if table is not None]
    added = [f"add_rules[{i}]" for i in range(len(change.add_rules))]
    return [*(table for table, _ in stay), *change.add_rules], [*(place for _, place in stay), *added]


def _edit_action(data: dict[str, Any], rules: list[dict[str, Any]], name: str, one: ActionChange) -> None:
    table = dict(data.get("action", {}).get(name, {}))
    for field in ("state", "description"):
        if (value := getattr(one, field)) is not None:
            table[field] = value
    if table.get("state") == "active":
        del table["state"]
    data["action"] = {**data.get("action", {}), name: table}
    if one.name is not None and one.name != name:
        table["was"] = [*table.get("was", []), name]
        _rename(data, rules, {name: one.name})
    if not table:
        del data["action"][name if one.name is None else one.name]


def _add_action(data: dict[str, Any], rules: list[dict[str, Any]], name: str, new: NewAction) -> None:
    where = Place("add", Key(name))
    for other in data["actions"]:
        if name == other or name in data.get("action", {}).get(other, {}).get("was", ()):
            problem = (
                f"is the name of an action, or was that of {other!r}: a name belongs to one action for good"
            )
            raise InvalidInput(field=where, problem=problem)
    data["actions"] = [*data["actions"], name]
    stated = {"state": new.state, "description": new.description, "like": new.like}
    table = {key: value for key, value in stated.items() if value not in (None, "", "active")}
    if table:
        data["action"] = {**data.get("action", {}), name: table}
    counted = {rule["name"] for rule in rules if "usage" in rule}
    for usage in new.usage:
        if usage not in counted:
            problem = f"is the usage of no rule{did_you_mean(usage, counted)}, or is not stated in the spec"
            raise InvalidInput(field=where.at("usage").at(Key(usage)), problem=problem)
    for rule in rules:
        if "usage" in rule and rule["name"] in new.usage:
            rule["usage"] = {**rule["usage"], name: new.usage[rule["name"]]}
    data["policy"] = _grown(data["policy"], len(data["actions"]))


def _rename(data: dict[str, Any], rules: list[dict[str, Any]], names: Mapping[str, str]) -> None:
    """Actions under other names, wherever a spec names them."""

    def now(name: Any) -> Any:
        return [now(one) for one in name] if isinstance(name, list) else names.get(name, name)

    data["actions"] = now(data["actions"])
    tables = data.get("action", {})
    if tables:
        data["action"] = {now(name): table for name, table in tables.items()}
        for name, table in data["action"].items():
            if "like" in table:
                table["like"] = now(table["like"])
            if "was" in table:
                # It may get a former name back.
                table["was"] = [former for former in table["was"] if former != name]
    rules[:] = [renamed_actions(rule, names) for rule in rules]
    holdout = data.get("holdout") or {}
    baseline = holdout.get("baseline")
    if isinstance(baseline, dict):
        holdout["baseline"] = {now(name): share for name, share in baseline.items()}
    elif baseline is not None:
        holdout["baseline"] = now(baseline)


def _by_action(policy: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings of a policy that hold a number for each action."""
    found: tuple[str, ...] = getattr(POLICIES.find(policy["kind"]), "settings_by_action", ())
    return tuple(name for name in found if isinstance(policy.get(name), list))


def _grown(policy: Any, n_actions: int) -> Any:
    """A policy's table for more actions: its settings are 0 for new ones."""
    if not isinstance(policy, dict):
        return policy
    own = {name: policy[name] + [0.0] * (n_actions - len(policy[name])) for name in _by_action(policy)}
    return {**policy, **own}


def _of_the_first(policy: Any, n_actions: int) -> Any:
    if not isinstance(policy, dict):
        return policy
    return {**policy, **{name: policy[name][:n_actions] for name in _by_action(policy)}}


def _require_known(spec: Spec, name: str, field: Place) -> None:
    if name not in spec.actions:
        raise InvalidInput(field=field, problem=f"is no action: {spec.registry.unknown(name)}")
