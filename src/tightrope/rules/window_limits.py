"""The limits per window of a set of rules: what a round uses of each, and what it must bring, a time and keys."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tightrope.actions import Actions
from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean
from tightrope.rules.calendars import EARLIEST, LATEST, Table
from tightrope.rules.columns import Column
from tightrope.rules.rule import members
from tightrope.validation import Array
from tightrope.words import Key, Place, Shown

# Characters of a key.
LONGEST_KEY: Final = 200


class WindowLimits:
    """M limits per window over named actions, `columns`.

    Attributes
    ----------
    columns, seen : sequences
        For each its label, rule and side; whether what it counts is known before acting.
    keys : tuple of str
        The names of the keys that callers must send.
    among : list of sets of groups
    """

    def __init__(self, columns: Sequence[Column], actions: Actions) -> None:
        self.columns = tuple(columns)
        self.keys = tuple(dict.fromkeys(one.rule.by for one in columns if one.rule.by is not None))
        self.among = [frozenset(members(one.rule.among)) for one in columns]
        self._usages = [one.rule.quantity.usage for one in columns]
        # A decision is counted when it is made.
        self.seen = np.array(
            [one.rule.seen == "before" or one.rule.quantity.usage is None for one in columns], dtype=np.bool_
        )
        self._counts = np.zeros((len(actions), len(columns)), dtype=np.bool_)
        for m, column in enumerate(columns):
            named = column.rule.quantity.actions
            self._counts[slice(None) if named is None else actions.ids(named), m] = True

    def __len__(self) -> int:
        return len(self.columns)

    def counted(self, usage: str) -> NDArray[np.bool_]:
        """The actions whose usage some limit counts, (J,)."""
        return np.asarray(self._counts[:, [one == usage for one in self._usages]].any(axis=1))

    def in_force(self, groups: frozenset[str] | None) -> NDArray[np.bool_]:
        """Which limits count the decisions in contexts of these groups, (M,)."""
        here = groups or frozenset()
        return np.array([not among or bool(among & here) for among in self.among], dtype=np.bool_)

    def uses(
        self,
        values: Array,
        there: NDArray[np.bool_],
        names: Mapping[str, int],
        rows: Sequence[int],
        force: NDArray[np.bool_],
        needed: NDArray[np.bool_],
    ) -> Array:
        """(J, M), from what each action uses of every usage, (n, J), and which are `there`; refuses what is missing."""
        found = np.zeros((len(rows), len(self.columns)))
        for m, usage in enumerate(self._usages):
            if not force[m]:
                continue
            counts = self._counts[list(rows), m]
            if usage is None:
                found[:, m] = counts
            elif there[names[usage]]:
                found[:, m] = np.where(counts, values[names[usage]], 0.0)
            elif not needed[m]:
                found[:, m] = np.where(counts, np.nan, 0.0)
            elif counts.any():
                problem = f"is missing: a rule reads '{self.columns[m].rule}'"
                raise InvalidInput(field=Place("usage", Key(usage)), problem=problem)
        return found

    def read_keys(self, given: Mapping[str, Any] | None) -> dict[str, str]:
        """The keys that rules need, as texts."""
        if given is not None and not isinstance(given, Mapping):
            raise InvalidInput(field="keys", must="be a mapping from names to texts", got=given)
        found = {}
        for name in self.keys:
            if given is None or name not in given:
                rule = next(one.rule for one in self.columns if one.rule.by == name)
                problem = f"is missing{did_you_mean(name, given or ())}: a rule reads '{rule}'"
                raise InvalidInput(field=Place("keys", Key(name)), problem=problem)
            found[name] = _key(name, given[name])
        return found

    def read_time(self, given: object) -> float:
        """The time of a round in seconds since 1970."""
        if given is None:
            problem = f"is missing: a rule reads '{self.columns[0].rule}'"
            remedy = "Pass time=datetime.now(timezone.utc), for example."
            raise InvalidInput(field="time", problem=problem, remedy=remedy)
        if isinstance(given, dt.datetime):
            if given.utcoffset() is None:
                remedy = "Give it a zone: datetime.now(timezone.utc), or time.astimezone()."
                raise InvalidInput(field="time", must="have a time zone", got=given, remedy=remedy)
            seconds = given.timestamp()
        elif isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool):
            seconds = float(given)
        else:
            must = "be a datetime with a time zone, or seconds since 1970"
            raise InvalidInput(field="time", must=must, got=given)
        if not EARLIEST <= seconds < LATEST:
            hint = " (milliseconds?)" if 1e11 < seconds < 1e14 else ""
            must = f"be seconds since 1970{hint}, of the years 1900 to 8999"
            raise InvalidInput(field="time", must=must, got=Shown(f"{seconds:g}"))
        return seconds

    def require_clock(self) -> None:
        """Refuse rules for a whole table where decisions are made one by one."""
        for column in self.columns:
            if isinstance(column.rule.window, Table):
                words = f"'{column.rule}' is for a table that is decided as a whole: use tr.allocate."
                raise InvalidInput(words, field="rules")

    def no_way_out(self, column: Column) -> str | None:
        """What to warn of if every action surely uses something of a hard limit."""
        m, rule = self.columns.index(column), column.rule
        low = 1.0 if rule.quantity.usage is None else rule.quantity.range[0] if rule.declared else -math.inf
        if not self._counts[:, m].all() or low <= 0.0:
            return None
        return (
            f"Every action uses some of '{rule}': once it is used up, decisions are refused until the window ends. "
            "Add an action that uses nothing, such as 'none', if there must always be an answer."
        )


def _key(name: str, value: object) -> str:
    if isinstance(value, str) and 0 < len(value) <= LONGEST_KEY:
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    must = f"be a text of 1 to {LONGEST_KEY} characters, or a whole number"
    raise InvalidInput(field=Place("keys", Key(name)), must=must, got=value)
