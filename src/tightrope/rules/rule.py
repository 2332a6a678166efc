"""What a rule is: the contract, the kinds by name, and the types of its fields.

A rule limits the long-run average of a quantity, or its amount per window of time (`Windowed`). A kind of rule is a frozen
dataclass; the types of its fields say how they are read. `Rules`, specs and the service need to know nothing else about it.

>>> from dataclasses import dataclass, field
>>> @register("floor")
... @dataclass(frozen=True, repr=False)
... class Floor(UsageRule):
...     name: Name
...     at_least: Limit
...     among: Groups | None = field(default=None, kw_only=True)
...     seen: When = field(default="before", kw_only=True)
...     range: Range = field(default=(0.0, 1.0), kw_only=True)
>>> print(rule_from_data({"kind": "floor", "name": "revenue", "at_least": 0.25}, "rules[0]"))
revenue: at least 0.25 per decision on average
>>> del RULE_KINDS["floor"]
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args, get_type_hints

import numpy as np

from tightrope import displays
from tightrope.actions import Action, action_name
from tightrope.errors import InvalidInput
from tightrope.registry import Registry
from tightrope.rules.windowed import WINDOW_FIELDS, Windowed, without_defaults
from tightrope.validation import finite_number
from tightrope.words import Place, Text

Seen: TypeAlias = Literal["before", "after"]
Side: TypeAlias = Literal["at_most", "at_least"]


class Quantity(NamedTuple):
    """What a rule averages: the usage (None: 1) where one of `actions` (None: any) is chosen, else 0.

    `range` is the declared range of the usage, or the one that its limits suggest (`Rule.declared` says which).
    """

    usage: str | None
    actions: tuple[Action, ...] | None
    range: tuple[float, float]

    @property
    def hull(self) -> tuple[float, float]:
        """The least and the greatest value, the 0 of actions that don't count included."""
        low, high = self.range
        return (low, high) if self.actions is None else (min(low, 0.0), max(high, 0.0))


class Rule(Windowed, ABC):
    """One rule. Its kinds are frozen dataclasses (with ``repr=False``) that `register` makes known.

    A kind has the fields `among`, `seen`, and `at_most`, `at_least` or both; for those of its quantity see `DecisionRule` and
    `UsageRule`.
    """

    kind: ClassVar[str] = ""  # its name in a spec and in plain data
    # Whether it averages a usage, which a spec may fix with a table ``usage``; otherwise it counts decisions.
    counts_usage: ClassVar[bool] = False
    among: Any  # the groups of contexts whose decisions count: str, tuple of str or None for all
    seen: Any  # "before" or "after": when its cost is known, before acting or after

    @property
    @abstractmethod
    def quantity(self) -> Quantity:
        """What the rule averages."""

    @property
    def declared(self) -> bool:
        """Whether the range of the quantity is known; anything outside is then refused. Otherwise any number is accepted."""
        return True

    @property
    def counts_amounts(self) -> bool:
        """Whether its limits are amounts of what it counts, not shares of the decisions."""
        return self.quantity.usage is not None or getattr(self, "count", False)

    @property
    def short_name(self) -> str:
        """A label for its columns, whose names say more if needed to tell columns apart."""
        usage, actions, _ = self.quantity
        windows = "" if self.per is None else f" per {self.per}"
        windows += "" if self.by is None else f" by {self.by}"
        if usage is None:
            kind = self.kind.rpartition(":")[2].lower()  # for one in your own file: its class
            return f"{kind} {either(actions or ())}{windows}"
        return (usage if actions is None else f"{usage} of {either(actions)}") + windows

    @property
    def label(self) -> str | None:
        """The name that the user chose for its column, if any."""
        return None

    @property
    def sides(self) -> tuple[tuple[Side, float], ...]:
        """The limits, one for each column of costs. Only the side `at_most` can have a hard cap."""
        both: tuple[Side, Side] = ("at_most", "at_least")
        return tuple((side, getattr(self, side)) for side in both if getattr(self, side, None) is not None)

    @property
    def scale(self) -> float:
        """What the costs are divided by, so that |W| ≤ 1.

        The width of the shortest interval that holds every value of the quantity and every limit of the rule,
        or 1 if that is greater.
        """
        points = [*self.quantity.hull, *(limit for _, limit in self.sides)]
        return max(1.0, max(points) - min(points))

    @property
    def unit(self) -> str:
        """The unit of its quantity: the name of the usage, or "decisions"."""
        usage = self.quantity.usage
        return "decisions" if usage is None else usage.replace("_", " ")

    def one_more(self, side: Side) -> str:
        """One more unit of a limit in words, such as "one more nurse hour" or "requiring one decision fewer for b"."""
        usage, actions, _ = self.quantity
        if usage is None:
            one, less = "decision", "fewer"
        else:
            one, less = self.unit[:-1] if _plural(self.unit) else f"unit of {self.unit}", "less"
        scope = f" for {either(actions)}" if actions is not None else ""
        return f"one more {one}{scope}" if side == "at_most" else f"requiring one {one} {less}{scope}"

    def moved(self, side: Side, by: str) -> str:
        """How to change its limit, in words."""
        which = f"{side} of " if len(self.sides) > 1 else ""
        return f"{'raise' if side == 'at_most' else 'lower'} {which}'{self}' by {by}"

    def to_data(self) -> dict[str, Any]:
        """The rule as a table of builtin types; `rule_from_data` reads it."""
        if not RULE_KINDS.knows(self.kind) or RULE_KINDS.find(self.kind) is not type(self):
            raise InvalidInput(f"{type(self).__name__} must be registered under a name to become plain data")
        values = without_defaults({one.name: getattr(self, one.name) for one in _fields(type(self))})
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"kind": self.kind, **{name: value for name, value in plain.items() if value is not None}}

    def __post_init__(self) -> None:
        kind = type(self).__name__
        where: str = Text("{rule!r}", rule=_Named(type(self)))
        for name, (read, optional) in _readers(type(self)).items():
            value = getattr(self, name)
            if not (value is None and optional):
                try:
                    value = (_amount if read is _share and getattr(self, "count", False) else read)(
                        name, value
                    )
                except InvalidInput as error:
                    raise error.inside(where) from None
                object.__setattr__(self, name, value)
            if where == kind:  # from the second field on, messages can say which rule
                where = Text("{rule!r}", rule=_Named(type(self), value))
        if not self.sides:
            raise InvalidInput("at_most or at_least must be given, but got neither.", within=where)
        try:
            self.require_windowed(dict(self.sides))
        except InvalidInput as error:
            raise error.inside(where) from None
        if not math.isfinite(self.scale):
            apart = f"and the limits are too far apart to be subtracted: {self.quantity.range}"
            raise InvalidInput(field="range", problem=apart, within=where)

    def __str__(self) -> str:
        usage, actions, _ = self.quantity
        counted = "" if actions is None else actions_in_words(actions)
        subject = counted if usage is None else f"{usage} used by {counted}" if counted else usage
        amounts = self.counts_amounts
        shown = [(side, plain(limit) if amounts else f"{plain(100 * limit)}%") for side, limit in self.sides]
        limits = " and ".join(f"{side.replace('_', ' ')} {limit}" for side, limit in reversed(shown))
        scope, unit = "", "per decision on average" if usage else "of decisions"
        if self.among is not None:
            several = len(members(self.among)) > 1
            scope = f"among group{'s' if several else ''} {either(self.among)}: "
            groups, whose = ("those groups", "those groups'") if several else ("that group", "that group's")
            unit = f"per decision of {groups} on average" if usage else f"of {whose} decisions"
        if self.per is not None:
            unit = self.span_words() if amounts else self.share_words()
            unit = unit if usage or not amounts else f"decisions {unit}"
        return f"{scope}{subject}: {limits} {unit}{' (seen after acting)' if self.seen == 'after' else ''}"

    def __repr__(self) -> str:
        first, *others = ((one, getattr(self, one.name)) for one in _fields(type(self)))
        stated = [f"{one.name}={value!r}" for one, value in others if value != one.default]
        return f"{type(self).__name__}({', '.join([repr(first[1]), *stated])})"

    def _repr_html_(self) -> str:
        return displays.page(str(self))


@dataclass(frozen=True, repr=False)
class _Counted(Windowed):
    # Whether limits are counts of decisions per window, not shares of them.
    count: bool = field(default=False, kw_only=True)


class DecisionRule(_Counted, Rule):
    """A rule that counts how often an action is chosen, or several together: fields `action` and `name`, its label."""

    action: Any
    name: Any

    @property
    def quantity(self) -> Quantity:
        return Quantity(None, members(self.action), (0.0, 1.0))

    @property
    def label(self) -> str | None:
        return self.name  # type: ignore[no-any-return]


class UsageRule(Rule):
    """A rule on a usage: fields `name` (of the usage), `range`, and optionally `action`, so that only its usage counts.

    If `range` is None the limits suggest one: from 0 to 1, or to a power of two above twice a limit that lies outside, so that a
    limit can change a little without changing the scale.

    >>> from tightrope.rules import Budget
    >>> Budget("nurse_minutes", at_most=24).quantity.range, Budget("nurse_minutes", at_most=24).scale
    ((0.0, 64.0), 64.0)
    """

    counts_usage = True
    name: Any
    range: Any

    @property
    def quantity(self) -> Quantity:
        actions = members(getattr(self, "action", None)) or None
        return Quantity(self.name, actions, self._suggested() if self.range is None else self.range)

    @property
    def declared(self) -> bool:
        return self.range is not None

    def _suggested(self) -> tuple[float, float]:
        outside = [limit for _, limit in self.sides if not 0.0 <= limit <= 1.0]
        far = [math.copysign(math.ldexp(1.0, math.frexp(2.0 * limit)[1]), limit) for limit in outside]
        return min([0.0, *far]), max([1.0, *far])


class _Named:
    """A kind of rule in a message: by its class and first field in Python, by its kind in a spec."""

    def __init__(self, cls: type[Rule], *given: object) -> None:
        self.kind, self._cls, self._given = cls.kind, cls, given

    def __repr__(self) -> str:
        return self._cls.__name__ + (f"({self._given[0]!r})" if self._given else "")


# --- kinds by name ---

RULE_KINDS = Registry("rule", f"{__package__}.kinds")
# Class decorator: make a kind of rule known under a name, for specs and plain data.
register = RULE_KINDS.register


def rule_from_data(table: object, where: str) -> Rule:
    """The rule in a plain table, which `Rule.to_data` writes; errors begin with `where`."""
    if not isinstance(table, Mapping):
        raise InvalidInput(field=where, must="be a table", got=table)
    kind = table.get("kind")
    if not RULE_KINDS.knows(kind):
        raise InvalidInput(field="kind", must=f"be one of {sorted(RULE_KINDS)}", got=kind, within=where)
    known = rule_fields(str(kind))
    given = {name: value for name, value in table.items() if name != "kind"}
    for name in given:
        if name not in known:
            raise InvalidInput(f"unknown field {name!r}; a {kind} rule has {list(known)}.", within=where)
    for name, needed in known.items():
        if needed and name not in given:
            raise InvalidInput(field=name, problem=f"is missing: a {kind} rule needs it", within=where)
    try:
        rule: Rule = RULE_KINDS.find(str(kind))(**given)
    except InvalidInput as error:
        raise error.inside(where) from error
    return rule


def renamed_actions(table: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A rule's table, usage by action included, under other names of actions.

    >>> renamed_actions({"kind": "share", "action": ["a", "b"], "at_least": 0.5}, {"a": "c"})["action"]
    ['c', 'b']
    """
    found = dict(table)
    action = found.get("action")
    if isinstance(action, list | tuple):
        found["action"] = [names.get(one, one) for one in action]
    elif action is not None:
        found["action"] = names.get(action, action)
    if isinstance(used := found.get("usage"), Mapping):
        found["usage"] = {names.get(name, name): amount for name, amount in used.items()}
    return found


def rule_fields(kind: str) -> dict[str, bool]:
    """The fields of a kind of rule, and whether each must be given."""
    return {one.name: one.default is MISSING for one in _fields(RULE_KINDS.find(kind))}


def _fields(cls: type[Rule]) -> list[Field[Any]]:
    """The fields of a kind: its own first, then those that all rules have."""
    every = fields(cls)
    return sorted(every, key=lambda one: one.name in (*WINDOW_FIELDS, "count"))


# --- words ---


def members(names: Any) -> tuple[Any, ...]:
    if names is None:
        return ()
    return names if isinstance(names, tuple) else (names,)


def either(names: Action | Sequence[Action]) -> str:
    *most, last = map(str, members(names))
    return f"{', '.join(most)} or {last}" if most else last


def actions_in_words(action: Action | Sequence[Action]) -> str:
    """Such as "icu or surgery", "action 3"."""
    first, *others = members(action)
    numbered = "" if isinstance(first, str) else "actions " if others else "action "
    return numbered + either(action)


def _plural(word: str) -> bool:
    """Whether a name is a plural: "cents" is, "loss", "status" and "heat" are not."""
    return word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2


def plain(number: float) -> str:
    return f"{number:.12g}"


# --- the types of fields: each says how what is given is read; add your own in the same way ---


def _interval(what: str, value: object) -> tuple[float, float]:
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str) or len(value) != 2:
        raise InvalidInput(field=what, must="be a pair (low, high)", got=value)
    low, high = (finite_number(Place(what, i), value[i]) for i in (0, 1))
    if not low < high:
        raise InvalidInput(field=what, must="satisfy low < high", got=value)
    return low, high


def _actions(what: str, value: object) -> Action | tuple[Action, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        names = tuple(action_name(Place(what, i), one) for i, one in enumerate(value))
        if not names or len(set(names)) < len(names):
            raise InvalidInput(field=what, must="name one action or several different ones", got=value)
        return names if len(names) > 1 else names[0]
    return action_name(what, value)


def _groups(what: str, value: object) -> str | tuple[str, ...]:
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    texts = [name for name in names if isinstance(name, str) and name]
    if not names or len(set(texts)) < len(names):
        raise InvalidInput(field=what, must="name one group or several different ones", got=value)
    return tuple(texts) if len(texts) > 1 else texts[0]


def _seen(what: str, value: object) -> Seen:
    if value not in get_args(Seen):
        raise InvalidInput(field=what, must="be 'before' or 'after'", got=value)
    return value  # type: ignore[return-value]


_share = functools.partial(finite_number, low=0.0, high=1.0)
_amount = functools.partial(finite_number, low=0.0)


def _text(what: str, value: object) -> str:
    if not (isinstance(value, str) and value):
        raise InvalidInput(field=what, must="be a text that is not empty", got=value)
    return value


# By name; by index where the actions have no names. With `count` a share is a number of decisions.
ChosenActions: TypeAlias = Annotated[Action | Sequence[Action], _actions]
ShareOfDecisions: TypeAlias = Annotated[float, _share]
Limit: TypeAlias = Annotated[float, finite_number]
Range: TypeAlias = Annotated[tuple[float, float], _interval]
Groups: TypeAlias = Annotated[str | Sequence[str], _groups]
When: TypeAlias = Annotated[Seen, _seen]
Name: TypeAlias = Annotated[str, _text]


@functools.cache
def _readers(cls: type[Rule]) -> dict[str, tuple[Callable[[str, object], object], bool]]:
    """For each field whose type says how it is read: the reader, and whether None is allowed."""
    there = {one.name for one in fields(cls)}
    for base in (Rule, DecisionRule, UsageRule):
        for name in base.__annotations__ if issubclass(cls, base) else ():
            if name not in there and not hasattr(cls, name):
                raise InvalidInput(f"{cls.__name__} must have a field `{name}`, as every {base.__name__}.")
    hints = get_type_hints(cls, include_extras=True)
    readers = {}
    for one in _fields(cls):
        hint = hints[one.name]
        for part in (hint, *get_args(hint)):
            if hasattr(part, "__metadata__"):
                readers[one.name] = part.__metadata__[0], one.default is None
                break
    return readers
