"""What a rule is: the contract, the kinds by name, and the types of its fields.

A rule limits the long-run average of a quantity. A kind of rule is a frozen dataclass in a file of its own that says what
it averages, how it reads, and how its columns are called; `Rules`, specs and the service know nothing else of it.

>>> from dataclasses import dataclass, field
>>> @register("floor")
... @dataclass(frozen=True, repr=False)
... class Floor(UsageRule):
...     name: Name
...     at_least: Limit
...     among: Groups | None = field(default=None, kw_only=True)
...     seen: When = field(default="before", kw_only=True)
...     range: Range = field(default=(0.0, 1.0), kw_only=True)
...     def __str__(self):
...         return self.in_words(self.name, f"no less than {self.at_least}")
>>> rule = rule_from_data({"kind": "floor", "name": "revenue", "at_least": 0.25}, "rules[0]")
>>> print(rule)
revenue: no less than 0.25 per decision on average
>>> del RULE_KINDS["floor"]
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, get_args, get_type_hints

import numpy as np

from tightrope.actions import Action, action_name
from tightrope.errors import InvalidInput

Seen: TypeAlias = Literal["before", "after"]
Side: TypeAlias = Literal["at_most", "at_least"]


class Quantity(NamedTuple):
    """What a rule averages: the usage (None: 1) where one of `actions` (None: any) is chosen, else 0."""

    usage: str | None
    actions: tuple[Action, ...] | None
    range: tuple[float, float]

    @property
    def hull(self) -> tuple[float, float]:
        """The least and the greatest value, the 0 of actions that don't count included."""
        low, high = self.range
        return (low, high) if self.actions is None else (min(low, 0.0), max(high, 0.0))


class Rule(ABC):
    """One rule. Its kinds are frozen dataclasses (with ``repr=False``), registered by `register`.

    A kind has the fields `among` and `seen`, and `at_most`, `at_least` or both; it states its `quantity` and its words. A field is
    read as its type says: `Actions`, `ShareOfDecisions`, `Limit`, `Name`, `Range`, `Groups` and `When` come with messages.

    Attributes
    ----------
    kind : str
        Its name in a spec and in plain data.
    counts_usage : bool
        Whether it averages a usage, which a spec may then fix by a table ``usage``; else decisions are counted.
    among : str, tuple of str or None
        The groups of contexts whose decisions count; None: all.
    seen : "before" or "after"
        When its cost is known: before acting or after.
    """

    kind: ClassVar[str] = ""
    counts_usage: ClassVar[bool] = False
    among: Any
    seen: Any

    @property
    @abstractmethod
    def quantity(self) -> Quantity:
        """What the rule averages."""

    @abstractmethod
    def __str__(self) -> str:
        """The rule in words; see `in_words`."""

    @abstractmethod
    def column(self, side: Side) -> str:
        """A short name for the column of costs of this side. Where it is taken, or the rule is for a group, more is added."""

    @property
    def label(self) -> str | None:
        """The name that the user chose for its column, if any."""
        return None

    @property
    def sides(self) -> tuple[tuple[Side, float], ...]:
        """The limits, one for each column of costs. Only what has the side `at_most` can have a hard cap."""
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

    def in_words(self, subject: str, limit: str) -> str:
        """A sentence, "subject: limit of decisions" or "… per decision on average", with the groups and when it is seen."""
        counts_usage = self.quantity.usage is not None
        if self.among is None:
            scope, unit = "", "per decision on average" if counts_usage else "of decisions"
        else:
            groups = members(self.among)
            several = len(groups) > 1
            scope = f"among group{'s' if several else ''} {either(groups)}: "
            owner, possessive = (
                ("those groups", "those groups'") if several else ("that group", "that group's")
            )
            unit = f"per decision of {owner} on average" if counts_usage else f"of {possessive} decisions"
        after = " (seen after acting)" if self.seen == "after" else ""
        return f"{scope}{subject}: {limit} {unit}{after}"

    def to_data(self) -> dict[str, Any]:
        """The rule as a table of builtin types; `rule_from_data` reads it."""
        if RULE_KINDS.get(self.kind) is not type(self):
            raise InvalidInput(
                f"{type(self).__name__} must be registered under a name, by `tightrope.rules.register`, to become plain data"
            )
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        stated = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value is not None
        }
        return {"kind": self.kind, **stated}

    def __post_init__(self) -> None:
        kind, where = type(self).__name__, f"{type(self).__name__}: "
        for name, (read, optional) in _readers(type(self)).items():
            value = getattr(self, name)
            if not (value is None and optional):
                value = read(f"{where}{name}", value)
                object.__setattr__(self, name, value)
            if where == f"{kind}: ":  # from the second field on, messages say which rule
                where = f"{kind}({value!r}): "
        if not self.sides:
            raise InvalidInput(f"{where}at_most or at_least must be given, but got neither")
        if not math.isfinite(self.scale):
            low, high = self.quantity.range
            raise InvalidInput(f"{where}range and limits are too far apart to be subtracted: {(low, high)}")

    def __repr__(self) -> str:
        first, *others = fields(self)  # type: ignore[arg-type]
        stated = [
            f"{one.name}={value!r}" for one in others if (value := getattr(self, one.name)) != one.default
        ]
        return f"{type(self).__name__}({', '.join([repr(getattr(self, first.name)), *stated])})"


class DecisionRule(Rule):
    """A rule that counts how often an action is chosen, or several together: fields `action` and `name`, its label."""

    action: Any
    name: Any

    @property
    def quantity(self) -> Quantity:
        """What the rule averages."""
        return Quantity(None, members(self.action), (0.0, 1.0))

    @property
    def label(self) -> str | None:
        """The name that the user chose for its column, if any."""
        chosen: str | None = self.name
        return chosen

    def column(self, side: Side) -> str:
        """Such as "capacity icu"."""
        return f"{self.kind} {either(self.action)}"


class UsageRule(Rule):
    """A rule on a usage: fields `name`, that of the usage, `range`, and maybe `action`."""

    counts_usage = True
    name: Any
    range: Any

    @property
    def quantity(self) -> Quantity:
        """What the rule averages."""
        return Quantity(self.name, members(getattr(self, "action", None)) or None, self.range)

    def column(self, side: Side) -> str:
        """The usage, with the actions or the side where that is needed to tell columns apart."""
        action = getattr(self, "action", None)
        if action is not None:
            return f"{self.name} of {either(action)}"
        return f"{self.name} {side.replace('_', ' ')}" if len(self.sides) > 1 else str(self.name)


# --- kinds by name ---

_Kind = TypeVar("_Kind", bound=type[Rule])

RULE_KINDS: dict[str, type[Rule]] = {}


def register(kind: str) -> Callable[[_Kind], _Kind]:
    """Class decorator: make a kind of rule known under a name, for specs and plain data."""

    def add(cls: _Kind) -> _Kind:
        if kind in RULE_KINDS:
            raise InvalidInput(f"a rule named {kind!r} is registered already: {RULE_KINDS[kind]!r}.")
        RULE_KINDS[kind] = cls
        cls.kind = kind
        return cls

    return add


def rule_from_data(table: object, where: str) -> Rule:
    """The rule in a plain table, which `Rule.to_data` writes; errors begin with `where`."""
    if not isinstance(table, Mapping):
        raise InvalidInput(f"{where} must be a table, but got {table!r}")
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in RULE_KINDS:
        raise InvalidInput(f"{where}: kind must be one of {sorted(RULE_KINDS)}, but got {kind!r}")
    known = rule_fields(kind)
    given = {name: value for name, value in table.items() if name != "kind"}
    for name in given:
        if name not in known:
            raise InvalidInput(f"{where}: unknown field {name!r}; a {kind} rule has {list(known)}")
    for name, needed in known.items():
        if needed and name not in given:
            raise InvalidInput(f"{where}: field {name!r} is missing from a {kind} rule")
    try:
        return RULE_KINDS[kind](**given)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def rule_fields(kind: str) -> dict[str, bool]:
    """The fields of a kind of rule, and whether each must be given.

    >>> rule_fields("capacity")
    {'action': True, 'at_most': True, 'among': False, 'seen': False, 'name': False}
    """
    return {one.name: one.default is MISSING for one in fields(RULE_KINDS[kind])}  # type: ignore[arg-type]


# --- words ---


def members(names: Any) -> tuple[Any, ...]:
    """A name, several or None, as a tuple."""
    if names is None:
        return ()
    return names if isinstance(names, tuple) else (names,)


def either(names: Action | Sequence[Action]) -> str:
    """Names in words: "a, b or c"."""
    *most, last = map(str, members(names))
    return f"{', '.join(most)} or {last}" if most else last


def subject(action: Action | Sequence[Action]) -> str:
    """Actions in words: "icu or surgery", "action 3"."""
    first, *others = members(action)
    numbered = "" if isinstance(first, str) else "actions " if others else "action "
    return numbered + either(action)


def plain(number: float) -> str:
    """A number as a person writes it."""
    return f"{number:.12g}"


def percent(share: float) -> str:
    """A share as a person writes it."""
    return f"{100 * share:.12g}%"


# --- the types of fields: each says how what is given is read ---


def number(what: str, value: object) -> float:
    """A finite number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInput(f"{what} must be a number, but got {value!r}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InvalidInput(f"{what} must be finite, but got {value!r}")
    return found


def _fraction(what: str, value: object) -> float:
    found = number(what, value)
    if not 0.0 <= found <= 1.0:
        raise InvalidInput(f"{what} must lie in [0, 1], a share of the decisions, but got {value!r}")
    return found


def _interval(what: str, value: object) -> tuple[float, float]:
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str) or len(value) != 2:
        raise InvalidInput(f"{what} must be a pair (low, high), but got {value!r}")
    low, high = (number(f"{what}[{i}]", value[i]) for i in (0, 1))
    if not low < high:
        raise InvalidInput(f"{what} must satisfy low < high, but got {value!r}")
    return low, high


def _actions(what: str, value: object) -> Action | tuple[Action, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        names = tuple(action_name(f"{what}[{i}]", one) for i, one in enumerate(value))
        if not names or len(set(names)) < len(names):
            raise InvalidInput(f"{what} must name one action or several different ones, but got {value!r}")
        return names if len(names) > 1 else names[0]
    return action_name(what, value)


def _groups(what: str, value: object) -> str | tuple[str, ...]:
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    texts = [name for name in names if isinstance(name, str) and name]
    if not names or len(set(texts)) < len(names):
        raise InvalidInput(f"{what} must name one group or several different ones, but got {value!r}")
    return tuple(texts) if len(texts) > 1 else texts[0]


def _seen(what: str, value: object) -> Seen:
    if value == "before":
        return "before"
    if value == "after":
        return "after"
    raise InvalidInput(f"{what} must be 'before' or 'after', but got {value!r}")


def _text(what: str, value: object) -> str:
    if not (isinstance(value, str) and value):
        raise InvalidInput(f"{what} must be a text that is not empty, but got {value!r}")
    return value


Actions: TypeAlias = Annotated[Action | Sequence[Action], _actions]
"""An action or several, by name; by index where actions have no names."""
ShareOfDecisions: TypeAlias = Annotated[float, _fraction]
"""A share of the decisions, in [0, 1]."""
Limit: TypeAlias = Annotated[float, number]
"""Any finite number."""
Range: TypeAlias = Annotated[tuple[float, float], _interval]
"""What a usage is known to lie in, (low, high)."""
Groups: TypeAlias = Annotated[str | Sequence[str], _groups]
"""A group of contexts or several."""
When: TypeAlias = Annotated[Seen, _seen]
"""When a cost is known."""
Name: TypeAlias = Annotated[str, _text]
"""Name of a usage, as `Rules.costs` is given it, or of a column."""


@functools.cache
def _readers(cls: type[Rule]) -> dict[str, tuple[Callable[[str, object], object], bool]]:
    """For each field whose type says how it is read: how, and whether None may stand for nothing."""
    hints = get_type_hints(cls, include_extras=True)
    readers = {}
    for one in fields(cls):  # type: ignore[arg-type]
        hint = hints[one.name]
        for part in (hint, *get_args(hint)):
            if hasattr(part, "__metadata__"):
                readers[one.name] = part.__metadata__[0], one.default is None
                break
    return readers
