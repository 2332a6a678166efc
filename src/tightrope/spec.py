"""The spec: one TOML file with a problem, the policies for it and an environment to try them in, read as data.

>>> spec = read_spec('''
... name = "beds"
... actions = ["icu", "other"]
... [[rule]]
... kind = "capacity"
... action = "icu"
... at_most = 0.2
... ''')
>>> print(spec.rules)
icu: at most 20% of decisions
>>> spec.policies[0].kind, spec.simulation.rounds
('shadow-price', 10000)

Nothing is built here but rules: `tightrope.policies.build` and `tightrope.environments.build` make policies and environments.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeAlias

import msgspec

from tightrope.actions import Actions, State
from tightrope.encoder import Encoder
from tightrope.encoder.fields import Category, Field, Number, Vector
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.holdout import MIX, Holdout, Sticky, key_names, require_agreement
from tightrope.log import History
from tightrope.messages import did_you_mean, fault, fields_at, leaves
from tightrope.problem import Problem, Seen, Vectors
from tightrope.rules import RULE_KINDS, Rule, Rules, rule_fields
from tightrope.rules.rule import rule_from_data
from tightrope.trust import grant
from tightrope.words import CommandLine, Place

Usage: TypeAlias = dict[str, dict[str, float]]

# The kind of policy if a spec names none.
DEFAULT_KIND = "shadow-price"
_PAPERS_KIND = "pessimistic-optimistic"
_PAPERS_MODELS = (None, "ridge", "disjoint-ridge", "arm-means")


class SpecError(InvalidInput):
    """A spec is invalid: the message says which file, which field, what is allowed and what was given."""


class ModelSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a policy learns with: the `reward` or `cost` of a ``[policy]``. None leaves a field to the model.

    `model` is a registered name, or your own class as ``file.py:Class``; other fields are in `own`, and that class checks them.
    """

    model: str | None = None
    bonus: float | None = None
    m: float | None = None
    ridge: float | None = None
    own: dict[str, Any] = {}

    def settings(self) -> dict[str, Any]:
        given = {"bonus": self.bonus, "m": self.m, "ridge": self.ridge}
        return {name: value for name, value in given.items() if value is not None} | self.own


class PowerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule scale · t^exponent."""

    scale: float
    exponent: float


class PolicySpec(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[policy]``. Other fields are in `settings`, and the class behind `kind` checks them."""

    kind: str = DEFAULT_KIND
    name: str = ""
    reward: ModelSpec | None = None
    cost: ModelSpec | None = None
    costs_seen: Seen | None = None
    slater: float | Literal["measure"] | None = None
    horizon: int | None = None
    V: PowerSpec | None = None
    epsilon: PowerSpec | None = None
    settings: dict[str, Any] = {}
    where: str = "policy"
    folder: Path = Path()
    trust: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            msgspec.structs.force_setattr(self, "name", self.kind)


class ActionSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One ``[action.NAME]``: the state of an action, what it is, and earlier names of it.

    `like` names an action whose beliefs this one begins with when it joins an experiment that runs.
    """

    state: State = "active"
    description: str = ""
    like: str | None = None
    was: tuple[str, ...] = ()


class _BeyondRule(msgspec.Struct, frozen=True, kw_only=True):
    # What each action uses, or may use at most if it is seen after acting; None: the caller sends it.
    usage: dict[str, float] | None = None
    hard: bool = False  # without `per`: the service never lets the running total pass `total`, not even once
    total: Annotated[float, msgspec.Meta(ge=0)] | None = None  # what may be used up in all


class RuleSpec(_BeyondRule, frozen=True, kw_only=True):
    """One ``[[rule]]``: the rule itself, and the other fields of its table."""

    rule: Rule


class EnvironmentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The ``[environment]``: its kind and its arguments. Relative paths among them start at `folder`."""

    kind: str
    settings: dict[str, Any] = {}
    folder: Path = Path()
    trust: bool = False


class SimulationSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ``[simulation]``: how long, how often, from which seed."""

    rounds: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    replications: Annotated[int, msgspec.Meta(ge=1)] = 100
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A whole spec, checked."""

    name: str
    actions: tuple[str, ...]  # empty if only the environment names them
    action_specs: dict[str, ActionSpec]  # of those that have a table
    encoder: Encoder | None  # reads what callers send by name; None if they send nothing
    vector: Vector | None  # numbers without names, instead of a context
    reward_range: tuple[float, float] | None  # the range of rewards, if declared
    rules: Rules | None  # None when there is no ``[[rule]]``
    rule_specs: tuple[RuleSpec, ...]  # in the order of `rules`
    policies: tuple[PolicySpec, ...]  # at least one
    environment: EnvironmentSpec | None
    simulation: SimulationSpec
    warm_start: History | None  # what a served policy has learnt before its first decision
    holdout: Holdout | None  # who gets the baseline, when this is served
    baseline: PolicySpec | None  # the policy that serves it
    sticky: Sticky | None  # who keeps an action, and for how long
    sweep: dict[str, Any]  # as written
    allocate: dict[str, Any]  # what a table's columns are, as written
    data: dict[str, Any]  # the whole file as written, for `make_spec`
    source: str  # the file, for messages

    @property
    def trust(self) -> bool:
        """Whether the code that it names was trusted when it was read."""
        return self.policies[0].trust

    @property
    def usage(self) -> Usage:
        """What each action uses, for each usage that the rules fix; ready for `Rules.costs`."""
        stated = ((one.rule.quantity.usage, one.usage) for one in self.rule_specs)
        return {name: usage for name, usage in stated if name is not None and usage is not None}

    @property
    def context_names(self) -> tuple[str, ...]:
        return () if self.encoder is None else tuple(self.encoder.columns)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The keys that a request to the service must have."""
        return key_names(self.holdout, self.sticky)

    @property
    def registry(self) -> Actions:
        if self.rules is not None:
            return self.rules.registry
        return _registry(self.actions, self.action_specs) if self.actions else Actions(None)

    def action(self, name: str) -> ActionSpec:
        """What is said of an action."""
        return self.action_specs.get(name, ActionSpec())

    def problem(self) -> Problem:
        """The decision problem when this spec is served; contexts are numbered if all fields are categories."""
        read = self.vector if self.encoder is None else self.encoder
        return Problem(
            n_actions=len(self.actions),
            n_contexts=None if self.encoder is None else self.encoder.n_contexts,
            features=None if read is None else Vectors(read.n_features, per_action=False),
            rules=self.rules,
            actions=self.actions,
        )

    def error(self, message: str | InvalidInput) -> SpecError:
        return SpecError(message, within=self.source)


def read_spec(source: str | os.PathLike[str], *, trust: bool = False) -> Spec:
    r"""The spec in a file. A str with a line break in it is taken as the text of a spec, not as a path.

    With `trust`, your own classes that it names, and their files, may run: see `tightrope.trust`.

    Raises
    ------
    SpecError
        Names file and field, or, for invalid TOML, line and column.
    InfeasibleProblem
        No policy can meet the rules; the message names those in conflict.

    Examples
    --------
    >>> read_spec('actions = ["a", "b"]\nactoins = 3\n')
    Traceback (most recent call last):
    ...
    tightrope.spec.SpecError: spec: actoins: unknown field (did you mean 'actions'?); allowed: name, actions, action, groups,
    context, features, reward, rule, policy, environment, simulation, warm_start, holdout, sticky, sweep, allocate
    """
    if isinstance(source, str) and "\n" in source:
        return make_spec(_parsed(source, "spec"), trust=trust)
    path = Path(source)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SpecError(f"{path}: can't be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    parsed = _parsed(text, str(path))
    return make_spec(parsed, source=str(path), folder=path.parent, name=path.stem, trust=trust)


def make_spec(
    data: Mapping[str, Any],
    *,
    source: str = "spec",
    folder: Path = Path(),
    name: str = "spec",
    trust: bool = False,
) -> Spec:
    """The spec from plain tables, as `tomllib` returns them: what `read_spec` does once the text is parsed.

    Messages call it `source`, relative paths start at `folder`, `name` is used if it has none, and with `trust` your own classes
    that it names may run.
    """
    if trust:
        grant(data, folder)
    try:
        return _read(data, source, folder, name, trust)
    except SpecError as error:
        raise SpecError(error, within=source) from error
    except InfeasibleProblem as error:
        error.args = (f"{source}: rule: {error}",)
        raise


def convert_table(value: Any, kind: Any, where: str, also: Sequence[str] = ()) -> Any:
    """`value` as `kind`, a Struct or a plain type; `also` are other fields that the table may have."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        path, words, unknown = fault(error, value, kind)
        if unknown:
            inner = path.removesuffix(f".{unknown}")
            known = (*also, *fields_at(kind, inner))
            raise unknown_field((where + inner).lstrip("."), unknown, known) from None
        raise SpecError(f"{(where + path).lstrip('.')}: {words}") from None


def unknown_field(where: str, name: str, known: Sequence[str]) -> SpecError:
    """The error for an unknown field, with the nearest known one."""
    path = f"{where}.{name}" if where else name
    words = f"unknown field{did_you_mean(name, known)}; allowed: {', '.join(known)}"
    return SpecError(words, field=path, within=path)


def _refuse(where: str, message: str | InvalidInput) -> NoReturn:
    raise SpecError(message, field=where, within=where)


@contextmanager
def _read_at(*place: str | int) -> Iterator[None]:
    """Errors raised in the block name their field as part of `place` in the file."""
    try:
        yield
    except SpecError:
        raise
    except InvalidInput as error:
        at = _FILE.field(Place(*place, *(error.field or ())))
        raise SpecError(error.message or error.complaint(_FILE), field=at, within=at) from error


# How fields and values are written in a spec.
_FILE = CommandLine()


# --- reading, table by table ---


class _Reward(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    range: tuple[float, float] | None = None


class _Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A spec as it is written."""

    name: str | None = None
    actions: tuple[str, ...] = ()
    action: dict[str, ActionSpec] = {}
    groups: tuple[str, ...] | None = None
    context: dict[str, Any] = {}
    features: Vector | None = None
    reward: _Reward = _Reward()
    rule: dict[str, Any] | list[dict[str, Any]] = []
    policy: dict[str, Any] | list[dict[str, Any]] = {}
    environment: dict[str, Any] | None = None
    simulation: SimulationSpec = SimulationSpec()
    warm_start: History | None = None
    holdout: Holdout | None = None
    sticky: Sticky | None = None
    sweep: dict[str, Any] = {}
    allocate: dict[str, Any] = {}


def _read(data: Mapping[str, Any], source: str, folder: Path, name: str, trust: bool) -> Spec:
    for path, value in leaves(data):
        if isinstance(value, float) and not math.isfinite(value):
            _refuse(path[1:], f"must be a finite number, but got {value}")
    read: _Tables = convert_table(data, _Tables, "")
    if "actions" in data:
        with _read_at():
            Actions(read.actions)
    _require_actions(read)
    if read.features is not None and read.context:
        _refuse("features", "can't be combined with [context], which names what callers send")
    if (ends := read.reward.range) is not None and not ends[0] < ends[1]:
        _refuse("reward.range", f"must be [low, high] with low < high, but got {list(ends)}")
    policies = _read_policies(read.policy, folder, trust)
    rules, rule_specs = _read_rules(read, _agreed_seen(policies), folder)
    with _read_at():
        require_agreement(read.holdout, read.sticky)
        baseline = _read_baseline(read.holdout, read.actions, folder, trust)
    return Spec(
        name=name if read.name is None else read.name,
        actions=read.actions,
        action_specs=read.action,
        encoder=_read_context(read.context, folder),
        vector=read.features,
        reward_range=read.reward.range,
        rules=rules,
        rule_specs=rule_specs,
        policies=policies,
        environment=_read_environment(read.environment, folder, trust),
        simulation=read.simulation,
        warm_start=read.warm_start,
        holdout=read.holdout,
        baseline=baseline,
        sticky=read.sticky,
        sweep=read.sweep,
        allocate=read.allocate,
        data=dict(data),
        source=source,
    )


def _registry(actions: Sequence[str], specs: Mapping[str, ActionSpec]) -> Actions:
    return Actions(actions, {i: specs[name].state for i, name in enumerate(actions) if name in specs})


def _require_actions(read: _Tables) -> None:
    """Refuse a table of an unknown action, and a name that two actions have or had."""
    known = Actions(read.actions or None)
    owner: dict[str, str] = {name: name for name in read.actions}
    for name, one in read.action.items():
        if name not in known:
            _refuse(f"action.{name}", known.unknown(name))
        if one.like is not None and (one.like not in known or one.like == name):
            _refuse(f"action.{name}.like", f"must name another action, but got {one.like!r}")
        for former in one.was:
            if owner.setdefault(former, name) != name or former == name:
                _refuse(
                    f"action.{name}.was",
                    f"must hold former names of this action, but {former!r} is or was the name of another",
                )
    if read.actions:
        with _read_at():
            _registry(read.actions, read.action)


def names_encoder(context: Mapping[str, Any]) -> bool:
    """Whether a ``[context]`` names or contains an encoder instead of fields; a field of that name would have a type."""
    stated = context.get("encoder")
    return isinstance(stated, str) or (isinstance(stated, Mapping) and "type" not in stated)


def _read_context(table: Mapping[str, Any], folder: Path) -> Encoder | None:
    if names_encoder(table):
        for name in table:
            if name != "encoder":
                _refuse(f"context.{name}", "can't be combined with an encoder, which has all the fields")
        stated = table["encoder"]
        with _read_at("context", "encoder"):
            return Encoder.load(folder / stated) if isinstance(stated, str) else Encoder.from_dict(stated)
    kinds: dict[str, type[Field]] = {"number": Number, "category": Category}
    fields: dict[str, Field] = {}
    for name, entry in table.items():
        where = f"context.{name}"
        if not isinstance(entry, Mapping):
            _refuse(
                where, f'must be a table such as {{ type = "number", min = 0, max = 1 }}, but got {entry!r}'
            )
        kind = entry.get("type")
        if not isinstance(kind, str) or kind not in kinds:
            _refuse(f"{where}.type", _one_of(kinds, kind))
        fields[name] = convert_table(entry, kinds[kind], where, also=("type",))
    return Encoder.declared(fields) if fields else None


def _read_baseline(
    holdout: Holdout | None, actions: tuple[str, ...], folder: Path, trust: bool
) -> PolicySpec | None:
    """What decides for the control group: a policy of its own, or a fixed mix."""
    if holdout is None:
        return None
    mix = holdout.mix(actions)
    if mix is None:
        [policy] = _read_policies(holdout.policy or {}, folder, trust, "holdout.policy")
        return policy
    return PolicySpec(kind=MIX, settings={"shares": mix}, where="holdout.baseline", folder=folder)


def _read_policies(
    tables: dict[str, Any] | list[dict[str, Any]], folder: Path, trust: bool, at: str = "policy"
) -> tuple[PolicySpec, ...]:
    known = PolicySpec.__struct_fields__[: PolicySpec.__struct_fields__.index("settings")]
    policies: list[PolicySpec] = []
    for i, table in enumerate(tables if isinstance(tables, list) else [tables]):
        where = f"{at}[{i}]" if isinstance(tables, list) else at
        kind = table.get("kind", DEFAULT_KIND)
        if kind == DEFAULT_KIND:
            _refuse_the_papers(table, where)
        # Only the paper's policy has schedules: other kinds may use these names for anything.
        schedules = () if kind == _PAPERS_KIND else ("slater", "V", "epsilon")
        read = [one for one in known if one not in schedules]
        typed = {key: value for key, value in table.items() if key in read}
        typed |= {key: _model_table(typed[key]) for key in _MODEL_PARTS if key in typed}
        rest = {key: value for key, value in table.items() if key not in read}
        beyond = {"settings": rest, "where": where, "folder": folder, "trust": trust}
        policy = msgspec.structs.replace(convert_table(typed, PolicySpec, where), **beyond)
        if policy.name in [other.name for other in policies]:
            _refuse(f"{where}.name", f"must differ from the names of other policies, but got {policy.name!r}")
        policies.append(policy)
    if not policies:
        _refuse("policy", "must hold at least one policy, but the list is empty")
    return tuple(policies)


_MODEL_PARTS = ("reward", "cost")


def _refuse_the_papers(table: Mapping[str, Any], where: str) -> None:
    """Refuse settings that only the paper's policy has, and say where they belong."""
    stated = [name for name in ("slater", "horizon", "V", "epsilon") if name in table]
    for part in _MODEL_PARTS:
        model = table.get(part)
        if isinstance(model, Mapping) and model.get("model") in _PAPERS_MODELS:
            stated += [f"{part}.{name}" for name in ("bonus", "m", "ridge") if name in model]
    if stated:
        default = "" if "kind" in table else ", the default,"
        missing = f'"{DEFAULT_KIND}"{default} has no such setting. Leave it out, or name the kind'
        _refuse(f"{where}.{stated[0]}", f'belongs to kind = "{_PAPERS_KIND}": {missing}')


def named_kinds(table: Any, kind: str = DEFAULT_KIND) -> Any:
    """The ``policy`` of a spec's data, one table or a list of them, with `kind` where none is named."""
    if isinstance(table, list):
        return [named_kinds(one, kind) for one in table]
    return {"kind": kind, **table} if isinstance(table, Mapping) else table


def _model_table(table: Any) -> Any:
    """A model's table, with fields that only its own class knows in `own`; a text is its name."""
    if isinstance(table, str):
        return {"model": table}
    if not isinstance(table, Mapping) or "model" not in table:
        return table
    known = ("model", "bonus", "m", "ridge")
    own = {key: value for key, value in table.items() if key not in known}
    return {key: value for key, value in table.items() if key in known} | ({"own": own} if own else {})


def _agreed_seen(policies: Sequence[PolicySpec]) -> Seen:
    """When costs are seen, for rules that don't say."""
    stated = {policy.costs_seen for policy in policies} - {None}
    return "after" if stated == {"after"} else "before"


def _read_rules(read: _Tables, seen: Seen, folder: Path) -> tuple[Rules | None, tuple[RuleSpec, ...]]:
    if isinstance(read.rule, dict):
        _refuse("rule", f"must be a list of tables, written [[rule]], but got {read.rule!r}")
    if not read.rule:
        if read.groups is not None:
            _refuse("groups", "needs rules among groups, but there is no [[rule]]")
        return None, ()
    if not read.actions:
        _refuse("actions", "is missing: rules refer to actions by name")
    names = _registry(read.actions, read.action)
    plain, extras = [], []
    for i, table in enumerate(read.rule):
        where = f"rule[{i}]"
        kind: Any = table.get("kind")
        if isinstance(kind, str) and ":" in kind:
            with _read_at("rule", i, "kind"):
                kind = RULE_KINDS.find(kind, folder).kind
        if not RULE_KINDS.knows(kind):
            _refuse(f"{where}.kind", _one_of(RULE_KINDS, kind))
        beyond: tuple[str, ...] = (
            ("hard", "total", "usage") if RULE_KINDS.find(kind).counts_usage else ("hard", "total")
        )
        known = dict.fromkeys(("kind", *rule_fields(kind), *beyond))
        for name in table:
            if name not in known:
                raise unknown_field(where, name, [*known])
        if "per" in table:
            if "total" in table:
                amount = "at_most is the amount of each window, which `hard = true` never exceeds"
                _refuse(f"{where}.total", f"can't be combined with per: {amount}")
            beyond = tuple(name for name in beyond if name != "hard")
        stated = {key: value for key, value in table.items() if key not in beyond}
        plain.append({"seen": seen, **stated, "kind": kind})
        extras.append({key: value for key, value in table.items() if key in beyond})
    rules = _made_rules(plain, names, read.groups)
    specs: list[RuleSpec] = []
    for i, (rule, extra) in enumerate(zip(rules, extras, strict=True)):
        where = f"rule[{i}]"
        found = RuleSpec(rule=rule, **msgspec.structs.asdict(convert_table(extra, _BeyondRule, where)))
        counted = rule.quantity.usage
        if found.usage is not None:
            _require_usage(found.usage, rule, names, f"{where}.usage")
            for j, other in enumerate(specs):
                if other.rule.quantity.usage == counted and other.usage not in (None, found.usage):
                    _refuse(
                        f"{where}.usage", f"must be the same as in rule[{j}], which also counts {counted!r}"
                    )
        specs.append(found)
    return rules, tuple(specs)


def _made_rules(tables: list[dict[str, Any]], actions: Actions, groups: tuple[str, ...] | None) -> Rules:
    made = []
    for i, table in enumerate(tables):
        with _read_at("rule", i):
            made.append(rule_from_data(table, f"rule[{i}]"))
    try:
        return Rules(made, actions, groups=groups)
    except InvalidInput as error:
        name, *steps = error.field or Place("rule")
        error.field = Place("rule" if name == "rules" else name, *steps)
        with _read_at():
            raise


def _require_usage(usage: dict[str, float], rule: Rule, names: Actions, where: str) -> None:
    low, high = rule.quantity.range
    for action, value in usage.items():
        if action not in names:
            _refuse(f"{where}.{action}", names.unknown(action))
        if rule.declared and not low <= value <= high:
            words = f"must lie in [{low:g}, {high:g}], the rule's range, but got {value:g}"
            _refuse(f"{where}.{action}", words)
    for counted in rule.quantity.actions or names:
        if counted not in usage:
            _refuse(f"{where}.{counted}", "is missing: the rule counts this action")


def _read_environment(table: dict[str, Any] | None, folder: Path, trust: bool) -> EnvironmentSpec | None:
    if table is None:
        return None
    settings = dict(table)
    if "kind" not in settings:
        _refuse("environment.kind", "is missing")
    kind = convert_table(settings.pop("kind"), str, "environment.kind")
    return EnvironmentSpec(kind=kind, settings=settings, folder=folder, trust=trust)


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        lines = text.split("\n")
        message, _, place = str(error).partition(" (at ")
        found = re.match(r"line (\d+), column (\d+)", place)
        line, column = (int(found[1]), int(found[2])) if found else _end(lines)
        message = message.replace("Cannot overwrite a value", "this key is given twice")
        message = re.sub(r"Cannot declare \((.*?),?\) twice", r"the table \1 is declared twice", message)
        shown = lines[line - 1].replace("\t", " ")
        margin = " " * len(str(line))
        raise SpecError(
            f"{source}:{line}:{column}: not valid TOML: {message}{'' if found else ' before the end of the file'}\n"
            f"  {line} | {shown}\n  {margin} | {' ' * (column - 1)}^"
        ) from error


def _end(lines: Sequence[str]) -> tuple[int, int]:
    line = max((i for i, one in enumerate(lines, 1) if one.strip()), default=1)
    return line, len(lines[line - 1].rstrip()) + 1


def _one_of(choices: Iterable[str], came: Any) -> str:
    listed = ", ".join(repr(choice) for choice in choices)
    if came is None:
        return f"is missing; must be one of {listed}"
    return f"must be one of {listed}, but got {came!r}{did_you_mean(came, choices)}"
