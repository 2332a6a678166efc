"""What the outcomes of both arms add up to, by decision or by user, for the reward and for the usage of every rule."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.lift import CONTROL, POLICY, ArmSums, Lift
from tightrope.rules import Column
from tightrope.rules.rules import Group, Rules
from tightrope.validation import Array

# Beyond this many users a new one is served but no longer measured.
MOST_USERS = 1_000_000
# The user of a decision without one, and of one that is not measured.
NOBODY: Final = -1
_REWARD: Final = np.zeros(1, dtype=np.int64)


class LiftAccounts:
    """Sums by arm of the M measures: the reward, then the usage of each column of the rules, in units.

    By decision an outcome is one number. By user it is the sum of that user's so far, 0 from the first decision on; users are
    known by 64 bits drawn from their name, which `forget` drops.
    """

    def __init__(self, rules: Rules | None, by_user: bool) -> None:
        self._rules = rules
        self.columns: tuple[Column, ...] = () if rules is None else rules.columns
        self.n_measures = 1 + len(self.columns)
        self._grouped = any(column.rule.among is not None for column in self.columns)
        # Of a cost: its usage, in units, is where it begins plus so many times the cost (`Column.in_units`).
        self._begins = np.array([column.in_units(0.0) for column in self.columns])
        self._times = np.array([column.sign * column.rule.scale for column in self.columns])
        self.by_user = by_user
        self.sums = ArmSums(self.n_measures)
        self.decisions = [0, 0]
        # Users that came after there were too many.
        self.unmeasured = 0
        self._row_of: dict[int, int] = {}
        self._bits = np.zeros(0, dtype=np.uint64)
        self._values = np.zeros((0, self.n_measures))
        self._n_rows = 0

    def decided(self, arm: int, bits: int, columns: NDArray[Any], costs: Array, group: Group) -> int:
        """A decision and the costs of its action that are known; returns the user's row, or `NOBODY`."""
        row = NOBODY
        if self.by_user:
            known = self._row_of.get(bits)
            if known is None and self._n_rows >= MOST_USERS:
                self.unmeasured += 1
                return NOBODY
            row = self._new_row(arm, bits) if known is None else known
        self.decisions[arm] += 1
        self._add(arm, row, *self._usage(columns, costs, group))
        return row

    def learnt(
        self,
        arm: int,
        row: int,
        reward: float | None,
        columns: NDArray[Any],
        costs: Array | None,
        group: Group,
    ) -> None:
        """What an outcome adds, of the decision of the user in a row."""
        if self.by_user and row == NOBODY:
            return
        if reward is not None:
            self._add(arm, row, _REWARD, np.array([reward]))
        if costs is not None:
            self._add(arm, row, *self._usage(columns, costs, group))

    def lift(self, share: float) -> Lift:
        return self.sums.lift(share)

    @property
    def users(self) -> list[int]:
        """How many users there are in each arm."""
        return [int(self.sums.counts[arm, 0]) for arm in (POLICY, CONTROL)]

    def row_of(self, bits: int) -> int:
        """The row of a user, or `NOBODY`."""
        return self._row_of.get(bits, NOBODY)

    def forget(self, rows: list[int]) -> None:
        """Forget whose the sums in some rows are. If such a user comes back, it counts as another one."""
        for row in rows:
            self._row_of.pop(int(self._bits[row]), None)
            self._bits[row] = 0

    def forget_all(self) -> None:
        self.forget([*self._row_of.values()])

    def saved(self) -> dict[str, Any]:
        n = self._n_rows
        return {
            "decisions": self.decisions,
            "unmeasured": self.unmeasured,
            "arrays": {**self.sums.arrays(), "bits": self._bits[:n], "values": self._values[:n]},
        }

    def restore(self, saved: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.decisions = msgspec.convert(saved["decisions"], list[int])
        self.unmeasured = saved["unmeasured"]
        self.sums.shift, self.sums.sums = arrays["shift"], arrays["sums"]
        self._bits, self._values = arrays["bits"], arrays["values"]
        self._n_rows = len(self._bits)
        self._row_of = {bits: row for row, bits in enumerate(self._bits.tolist()) if bits}

    def _usage(self, columns: NDArray[Any], costs: Array, group: Group) -> tuple[NDArray[np.int64], Array]:
        """The measures that these costs are of, and the usage in units; a rule for another group has none."""
        if self._rules is None:
            return _NONE, np.zeros(0)
        used = self._begins[columns] + self._times[columns] * costs
        if not self._grouped:
            return 1 + columns, used
        force = self._rules.in_force(group)[columns]
        return 1 + columns[force], used[force]

    def _add(self, arm: int, row: int, at: NDArray[np.int64], y: Array) -> None:
        if not len(at):
            return
        if not self.by_user:
            self.sums.add(arm, at, y)
            return
        was = self._values[row, at]
        self.sums.move(arm, at, was, was + y)
        self._values[row, at] = was + y

    def _new_row(self, arm: int, bits: int) -> int:
        row = self._n_rows
        if row == len(self._bits):
            room = max(64, row)
            self._bits = np.concatenate([self._bits, np.zeros(room, dtype=np.uint64)])
            self._values = np.concatenate([self._values, np.zeros((room, self.n_measures))])
        self._bits[row], self._row_of[bits], self._n_rows = bits, row, row + 1
        every = np.arange(self.n_measures)
        self.sums.add(arm, every, np.zeros(self.n_measures))
        return row


_NONE: Final = np.zeros(0, dtype=np.int64)
