"""What the columns of a table stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tightrope.actions import Action, Actions
from tightrope.allocation.limits import Limit
from tightrope.errors import InvalidInput
from tightrope.rules import Rules
from tightrope.validation import LARGEST, finite_number
from tightrope.words import Key, Place

# A column by name, or the same number in each row.
Source: TypeAlias = str | float
ByAction: TypeAlias = Mapping[Action, Source]

# Rows are copied so many at a time, so that all columns of a part are in the cache.
_PART = 16_384


@dataclass(frozen=True)
class Layout:
    """Which columns to read: sources by action (J of them), and names of columns."""

    scores: tuple[Source, ...]
    usage: Mapping[str, tuple[Source | None, ...]]  # None: no limit counts it
    eligible: Mapping[int, str] = field(default_factory=dict)
    group: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    fixed: str | None = None
    previous: str | None = None
    id: str | None = None
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=dict
    )  # of usages, as rules declare them

    @property
    def usage_columns(self) -> dict[str, int]:
        """The columns of usage, numbered."""
        columns: dict[str, int] = {}
        for name, *_ in self.usage_of_actions:
            columns.setdefault(name, len(columns))
        return columns

    @property
    def usage_of_actions(self) -> list[tuple[str, int, tuple[float, float]]]:
        """Which action each column of usage is read for, and what it must lie in."""
        return [
            (source, j, self.ranges.get(name, (-LARGEST, LARGEST)))
            for name, sources in self.usage.items()
            for j, source in enumerate(sources)
            if isinstance(source, str)
        ]

    @property
    def numbers(self) -> tuple[Source, ...]:
        """What becomes a number in each row."""
        return (*self.scores, *self.usage_columns)


def layout_of(
    rules: Rules,
    limits: Sequence[Limit],
    *,
    reward: Any,
    usage: Any,
    eligible: Any,
    group: Any,
    keys: Any,
    fixed: str | None,
    previous: str | None,
    id: str | None,
) -> Layout:
    """The arguments of `allocate`, checked against the rules."""
    names = rules.registry
    scores = _by_action(Place("reward"), reward, names, range(len(names)))
    counted: dict[str, set[int]] = {}
    for limit in limits:
        if isinstance(limit.counts, str):
            counted.setdefault(limit.counts, set()).update(limit.actions)
    given = {} if usage is None else usage
    if not isinstance(given, Mapping):
        raise InvalidInput(field="usage", must="be a mapping from names of usages", got=usage)
    for name in given:
        if name not in counted:
            raise InvalidInput(f"usage: no rule counts {name!r}; the rules count {list(counted)}.")
    sources: dict[str, tuple[Source | None, ...]] = {}
    for name, actions in counted.items():
        if name not in given:
            rule = next(one for one in limits if one.counts == name)
            raise InvalidInput(field=Place("usage", Key(name)), problem=f"is missing: a rule reads '{rule}'")
        sources[name] = _by_action(Place("usage", Key(name)), given[name], names, sorted(actions))
    if eligible is not None and not isinstance(eligible, Mapping):
        raise InvalidInput(
            field="eligible", must="be a mapping from actions to columns of yes and no", got=eligible
        )
    may = {names.id(action, Place("eligible")): str(column) for action, column in (eligible or {}).items()}
    groups = () if group is None else (group,) if isinstance(group, str) else tuple(group)
    if not groups and (among := next((one for one in limits if one.among), None)) is not None:
        raise InvalidInput(field="group", problem=f"is missing: a rule reads '{among}'")
    stated = dict(keys or {})
    needed = {one.by: str(stated.get(one.by, one.by)) for one in limits if one.by is not None}
    if any(limit.column is None for limit in limits) and previous is None:
        raise InvalidInput(field="previous", problem="is missing: max_changes counts changes from it")
    declared = {
        str(rule.quantity.usage): rule.quantity.range
        for rule in rules
        if rule.quantity.usage is not None and rule.declared
    }
    return Layout(scores, sources, may, groups, needed, fixed, previous, id, declared)


def _by_action(place: Place, given: Any, names: Actions, needed: Iterable[int]) -> Any:
    """One source for each action; None for those that are not needed."""
    if isinstance(given, str | int | float) and not isinstance(given, bool):
        given = dict.fromkeys(names, given)
    elif isinstance(given, Sequence):
        if len(given) != len(names):
            raise InvalidInput(
                field=place, must=f"have one entry for each of {len(names)} actions", got=given
            )
        given = dict(zip(names, given, strict=True))
    if not isinstance(given, Mapping):
        raise InvalidInput(
            field=place, must="be a column, a number, or a mapping from actions to them", got=given
        )
    found: list[Source | None] = [None] * len(names)
    for action, source in given.items():
        if action not in names:
            raise InvalidInput(names.unknown(action), field=place, within=str(place))
        at = place.at(Key(str(action)))
        found[names.id(action)] = source if isinstance(source, str) else finite_number(at, source)
    for j in needed:
        if found[j] is None:
            raise InvalidInput(
                field=place, must=f"hold every action that counts, but {names.name(j)!r} is missing"
            )
    return tuple(found)
