r"""Past decisions in a file, as a spec speaks of them: which columns hold what, and the rows that are whole.

>>> import pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "log.csv").write_text("age,sent,bought\n41,email,yes\n35,letter,no\n28,letter,\n")
>>> past = History(file="log.csv", action="sent", reward="bought", success="yes").read(folder)
>>> past.taught()
[(0, 'email', 1.0), (1, 'letter', 0.0)]
>>> past.left_out
1
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tightrope.errors import InvalidInput
from tightrope.frames import Frame, is_missing
from tightrope.tables import Columns, read_table
from tightrope.validation import Array

PerAction = dict[str, str | float]


class History(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of past decisions: one action and one reward a row, or a reward for every action, or the right action as a label.

    Parameters
    ----------
    file : str
        A .csv, .csv.gz or .parquet file, as seen from the spec.
    action, reward : column names
        What was done, and what it brought. `reward` may also be a table from actions to columns or numbers, without `action`.
    label : column name
        The action that would have been right, in place of both: it earns 1, any other 0.
    success : optional
        The entry of the reward's column that counts as 1; all others are 0.
    usage : table
        For each usage that rules count the column of what was used; or a table from actions to columns or numbers.
    group : column name, optional
        The group of each row, for rules among groups.
    """

    file: str
    action: str | None = None
    reward: str | PerAction | None = None
    label: str | None = None
    success: str | bool | float | None = None
    usage: dict[str, str | PerAction] = {}
    group: str | None = None

    def __post_init__(self) -> None:
        if self.label is not None and (self.action is not None or self.reward is not None):
            raise InvalidInput(
                "label must be given without action and reward: it tells every action's reward"
            )
        if self.label is None and self.reward is None:
            raise InvalidInput("reward is missing: name the column of what was earned, or a label")
        if isinstance(self.reward, dict) and self.action is not None:
            raise InvalidInput("action must be left out where reward tells every action's reward")
        if isinstance(self.reward, str) and self.action is None:
            raise InvalidInput("action is missing: name the column of what was done")
        if self.success is not None and not isinstance(self.reward, str):
            raise InvalidInput("success is for a reward that is one column")

    def read(self, folder: Path = Path()) -> Past:
        """The rows of the file that have all that is named here."""
        path = folder / self.file
        return self.of(read_table(path), path)

    def of(self, table: Columns, path: Path) -> Past:
        """The same of a table that was read from `path`."""
        columns = dict(table)
        frame = Frame(columns)
        needed = self.columns()
        kept = np.ones(len(frame), dtype=bool)
        for name in needed:
            kept &= ~frame.column(name).missing
        if not kept.any():
            raise InvalidInput(f"{path}: no row has all of {', '.join(needed)}")
        for chosen in (self.action, self.label):
            if chosen is not None:
                columns[chosen] = [None if is_missing(one) else action_name(one) for one in columns[chosen]]
        if self.success is not None:
            assert isinstance(self.reward, str)
            columns[self.reward] = [_is(one, self.success) for one in columns[self.reward]]
        if not kept.all():
            at = np.flatnonzero(kept).tolist()
            columns = {name: [values[i] for i in at] for name, values in columns.items()}
        return Past(self, path, columns, int((~kept).sum()))

    def columns(self) -> list[str]:
        """All columns that a row must have, each once."""
        named: list[Any] = [self.action, self.label, self.group]
        for one in (self.reward, *self.usage.values()):
            named += one.values() if isinstance(one, Mapping) else [one]
        return list(dict.fromkeys(one for one in named if isinstance(one, str)))


@dataclass(frozen=True, eq=False)
class Past:
    """The rows of a file that are whole, as columns; `left_out` counts the others."""

    history: History
    path: Path
    columns: Columns
    left_out: int

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @cached_property
    def sha256(self) -> str:
        """Of the file."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def taught(self) -> list[tuple[int, str, float]]:
        """What can be learnt: row, action and reward, one for each action where a row tells them all."""
        history, n = self.history, len(self)
        if history.label is not None:
            right = self.columns[history.label]
            actions = sorted(set(right))
            return [(i, action, float(right[i] == action)) for i in range(n) for action in actions]
        if isinstance(history.reward, dict):
            known = {action: self.numbers(one) for action, one in history.reward.items()}
            return [(i, action, float(rewards[i])) for i in range(n) for action, rewards in known.items()]
        assert history.action is not None
        assert history.reward is not None
        return list(zip(range(n), self.columns[history.action], self.numbers(history.reward).tolist()))

    def used(self, usage: str) -> dict[str | None, Array]:
        """What was used in each row, (n,), by action; under None where it is what was done that used it."""
        stated = self.history.usage[usage]
        if isinstance(stated, str):
            return {None: self.numbers(stated)}
        return {action: self.numbers(one) for action, one in stated.items()}

    def numbers(self, stated: str | float) -> Array:
        """A column, or the same number in each row, (n,)."""
        if not isinstance(stated, str):
            return np.full(len(self), float(stated))
        column = Frame(self.columns).whole(stated)
        if column.dtype.kind not in "biuf":
            raise InvalidInput(
                f"column {stated!r} must hold numbers, but its first entry is {column.tolist()[0]!r}"
            )
        return column.astype(np.float64)

    def group(self, i: int) -> str | None:
        """The group of a row."""
        name = self.history.group
        return None if name is None else str(self.columns[name][i])


def action_name(value: Any) -> str:
    """What stands in a column of actions, as a name: a CSV has no whole numbers.

    >>> action_name(3.0), action_name("email"), action_name(True)
    ('3', 'email', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is(value: Any, success: Any) -> float | None:
    return None if is_missing(value) else float(value == success)
