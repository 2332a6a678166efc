"""Environments by name, and the whole of a spec made ready to run."""

from __future__ import annotations

import inspect
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.actions import Action
from tightrope.environments.bandit import bandit
from tightrope.environments.custom import Custom
from tightrope.environments.hospital import hospital
from tightrope.environments.synthetic import synthetic
from tightrope.environments.table import costs_of, table_environment
from tightrope.environments.tabular import Tabular, changed, seen_words
from tightrope.errors import InvalidInput
from tightrope.policies.build import build_policy
from tightrope.problem import WhenSeen
from tightrope.registry import Registry
from tightrope.rules import Rules
from tightrope.spec import EnvironmentSpec, Spec, SpecError, read_spec, unknown_field
from tightrope.validation import Array, real_array
from tightrope.words import Shown

# Functions that return a `Tabular`, a `Custom`, or what has `draw` and `outcome`, by name.
# A parameter called `folder` gets the folder of the spec.
ENVIRONMENTS = Registry("environment", __package__)
register = ENVIRONMENTS.register


def environment_of(spec: Spec) -> Tabular | Custom:
    """The environment that a spec describes, its rules included: a table, or one of your own."""
    if spec.environment is None:
        what = "a simulation needs one, to draw contexts, rewards and costs"
        raise spec.error(f"environment: is missing: {what}")
    make = table_environment if spec.environment.kind == "table" else _of_kind
    try:
        return make(spec)
    except SpecError as error:
        raise spec.error(error) from error


def load(path: str | os.PathLike[str], *, trust: bool = False) -> Tabular | Custom:
    """The environment of a spec in a file: what `save` of a table wrote, or any other with an ``[environment]``.

    With `trust` a class of your own that it names may run: see `tightrope.trust`.

    >>> import tempfile
    >>> from tightrope.environments import from_table
    >>> env = from_table({"age": [20, 30], "label": ["a", "b"]}, context=["age"], label="label", name="ages")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(env.save(f"{folder}/ages.toml"))
    >>> again.name, (again.rewards == env.rewards).all()
    ('ages', np.True_)
    """
    return environment_of(read_spec(path, trust=trust))


def policies_of(
    spec: Spec, env: Tabular | Custom, tells: Mapping[str, Callable[[], Any]] | None = None
) -> dict[str, Any]:
    """The policies of a spec, by name, made to fit `env`; for `tells` see `tightrope.problem.Problem`."""
    try:
        return {policy.name: build_policy(policy, env.problem(tells)) for policy in spec.policies}
    except SpecError as error:
        raise spec.error(error) from error


def _of_kind(spec: Spec) -> Tabular | Custom:
    """The environment of an ``[environment]``; rules, where there are any, take the place of its own costs.

    All tables share two settings for the rules: `usage` (for each usage that the rules count: one number, one for each action, or
    one for each context and action) and `groups` (each context's group or groups).
    """
    stated = spec.environment
    assert stated is not None
    settings = {"usage": {}, **stated.settings}
    if not isinstance(settings["usage"], Mapping):
        raise _error("usage", must="be a table of usages by name", got=settings["usage"])
    if stated.kind == "tabular" and "file" in settings:
        settings = _with_file(stated.folder, **settings)
    usage, groups = settings.pop("usage"), settings.pop("groups", None)
    env = _made(stated, settings)
    field = "usage" if usage else "groups" if groups is not None else None
    if isinstance(env, Custom):
        if field is not None:
            raise _error(field, problem="is only for tables; this environment gives it with each context")
        return _custom(env, spec)
    changes: dict[str, Any] = {}
    if spec.actions and spec.actions != env.actions:
        changes["actions"] = _renamed(env, spec.actions)
    if env.name == Tabular.__name__.lower():
        changes["name"] = spec.name
    if spec.rules is not None:
        if "costs" in stated.settings:
            raise _error("costs", problem="the rules state the costs: leave one or the other out")
        _require_as_many(env, spec.rules.actions)
        changes |= _rule_costs(env, spec.rules, spec.usage, usage, groups)
        _require_agreed(stated.settings, spec.rules.costs_seen)
        changes["name"] = spec.name
    elif field is not None:
        raise _error(field, problem="needs rules, but the spec has none")
    return changed(env, **changes) if changes else env


# --- environments ---


_ARRAYS = [one for one in inspect.signature(Tabular).parameters if one not in ("rules", "groups")]


@register("tabular")
def _tabular(**arrays: Any) -> Tabular:
    for field in arrays:
        if field not in _ARRAYS:
            raise unknown_field("environment", field, ["kind", "file", *_ARRAYS, "usage", "groups"])
    if "weights" not in arrays:
        raise _error("weights", problem="is missing: a tabular environment needs weights and rewards")
    return Tabular(**arrays)


for _factory in (bandit, hospital, synthetic):
    register(_factory.__name__)(_factory)


def _with_file(folder: Path, *, file: Any, usage: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """The settings, and with them the arrays of a file: parameters of `Tabular`, `groups`, and ``usage.NAME``."""
    if not isinstance(file, str):
        raise _error("file", must="be a text", got=file)
    path = folder / file
    try:
        with np.load(path, allow_pickle=False) as archive:
            entries = {field: archive[field] for field in archive.files}
    except OSError as error:
        raise _error("file", problem=f"{path} can't be read: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        wanted = f"{path} must be a NumPy .npz archive of plain arrays"
        raise _error("file", problem=f"{wanted}, but it is not: {error}") from error
    used = dict(usage)
    for field, array in entries.items():
        name = field.removeprefix("usage.")
        place = settings if name == field else used
        if place is settings and name not in (*_ARRAYS, "groups"):
            raise SpecError(f"environment.file: {path}: {unknown_field('', name, _ARRAYS)}")
        if name in place:
            raise _error(field, problem=f"is also in the file {file}; leave one of them out")
        place[name] = array if array.dtype.kind in "fiub" else array.tolist()
    return {**settings, "usage": used}


def _made(spec: EnvironmentSpec, settings: dict[str, Any]) -> Tabular | Custom:
    try:
        factory = ENVIRONMENTS.find(spec.kind, spec.folder, trust=spec.trust)
    except InvalidInput as error:
        raise SpecError(error.complaint(), within="environment.kind") from error
    parameters = inspect.signature(factory).parameters
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        for field in settings:
            if field not in parameters:
                allowed = ["kind", *(one for one in parameters if one != "folder"), "usage", "groups"]
                raise unknown_field("environment", field, allowed)
    folder = {"folder": spec.folder} if "folder" in parameters else {}
    try:
        env = factory(**settings, **folder)
        return env if isinstance(env, Tabular) else Custom.of(env)
    except SpecError:
        raise
    except InvalidInput as error:
        raise SpecError(error, within="environment") from error


def _custom(env: Custom, spec: Spec) -> Custom:
    changes: dict[str, Any] = {}
    if spec.rules is not None:
        if env.n_constraints and env.rules is None:
            raise SpecError("rule: the environment has costs of its own: leave one or the other out")
        _require_as_many(env, spec.rules.actions)
        changes = {"rules": spec.rules, "actions": None, "usage": {**env.usage, **spec.usage}}
    elif spec.actions and spec.actions != env.actions:
        changes = {"actions": _renamed(env, spec.actions)}
    if env.name in (Custom.__name__.lower(), "log"):
        changes["name"] = spec.name
    try:
        return env.changed(**changes) if changes else env
    except InvalidInput as error:
        raise SpecError(error, within="environment") from error


def _error(field: str, **data: Any) -> SpecError:
    return SpecError(within=f"environment.{field}", **data)


def _require_as_many(env: Tabular | Custom, actions: Sequence[Action]) -> None:
    if (n := env.n_actions) != len(actions):
        wanted = f"be {n} names, as many as the environment has actions"
        raise SpecError(must=wanted, got=len(actions), within="actions")


def _renamed(env: Tabular | Custom, actions: tuple[str, ...]) -> tuple[str, ...]:
    """`actions`, where they may name the actions of `env`."""
    _require_as_many(env, actions)
    if env.actions != tuple(f"action {j}" for j in range(env.n_actions)):
        wanted = f"be those of the environment, in its order, {list(env.actions)}"
        raise SpecError(must=wanted, got=list(actions), within="actions")
    return actions


# --- rules in an environment ---


def _rule_costs(
    env: Tabular,
    rules: Rules,
    fixed: Mapping[str, Mapping[str, float]],
    given: Mapping[str, Any],
    groups: Any,
) -> dict[str, Any]:
    needed = dict.fromkeys(usage for rule in rules if (usage := rule.quantity.usage) is not None)
    for usage in given:
        if usage not in needed:
            raise unknown_field("environment.usage", usage, list(needed))
        if usage in fixed:
            what = "a rule already says what each action uses: leave one of them out"
            raise _error(f"usage.{usage}", problem=what)
    for usage in needed:
        if usage not in given and usage not in fixed:
            what = "is missing: a rule counts it, so the simulation must know what each action uses"
            raise _error(f"usage.{usage}", problem=f"{what}; give it here or as `usage` of the rule")
    tables = {usage: _by_context(env, usage, table, rules) for usage, table in {**fixed, **given}.items()}
    by_context = _groups(env, rules, groups)
    try:
        costs = costs_of(rules, tables, by_context)
    except InvalidInput as error:
        raise SpecError(error, within="environment.usage") from error
    return {
        "costs": costs,
        "constraints": rules.names,
        "rules": rules,
        "groups": by_context,
        "cost_range": rules.range_of_costs(costs),
        "cost_noise": _noise(env, rules),
        "costs_seen": rules.costs_seen,
    }


def _require_agreed(settings: Mapping[str, Any], seen: WhenSeen) -> None:
    stated = settings.get("costs_seen", seen)
    if (tuple(stated) if isinstance(stated, list) else stated) != seen:
        what = f'is "{stated}", but the rules are seen {seen_words(seen)}'
        remedy = "change this, `seen` of the rules or `costs_seen` of the policy"
        raise _error("costs_seen", problem=f"{what}: {remedy}")


def _by_context(env: Tabular, usage: str, table: Any, rules: Rules) -> Array:
    where, (C, J) = f"environment.usage.{usage}", env.rewards.shape
    if isinstance(table, Mapping):
        for action in table:
            if action not in rules.actions:
                raise unknown_field(where, action, [str(one) for one in rules.actions])
        counting = [rule.quantity for rule in rules if rule.quantity.usage == usage]
        counted = {action for quantity in counting for action in quantity.actions or rules.actions}
        if missing := counted - set(table):
            raise SpecError(f"{where}.{min(map(str, missing))}: is missing: a rule counts this action")
        # An action that no rule counts may be left out: its value is multiplied by 0.
        table = [table.get(action, counting[0].range[0]) for action in rules.actions]
    try:
        return np.array(np.broadcast_to(real_array(where, table, (), (J,), (C, J)), (C, J)))
    except InvalidInput as error:
        raise SpecError(error) from error


def _groups(env: Tabular, rules: Rules, groups: Any) -> list[Any]:
    if groups is None:
        for i, rule in enumerate(rules):
            if rule.among is not None:
                what = f"the group of each of the {env.n_contexts} contexts must be known"
                raise _error("groups", problem=f"is missing: rule[{i}] is for a group, so {what}")
        return [()] * env.n_contexts
    if not isinstance(groups, list) or len(groups) != env.n_contexts:
        wanted = f"be a list with one entry for each of the {env.n_contexts} contexts"
        raise _error("groups", must=wanted, got=groups)
    for c, group in enumerate(groups):
        members = group if isinstance(group, list) else [group]
        if not all(isinstance(member, str) for member in members):
            raise _error(f"groups[{c}]", must="be a name or a list of names", got=group)
    return groups


def _noise(env: Tabular, rules: Rules) -> str:
    noise, wanted = env.cost_noise, ""
    if noise == "gaussian":
        wanted = 'be "none" or "bernoulli" where rules state the costs'
    if noise == "bernoulli" and any(rule.among is not None for rule in rules):
        wanted = 'be "none" where a rule is for a group of contexts'
    if wanted:
        raise _error("cost_noise", must=wanted, got=Shown(f'"{noise}"'))
    return noise
