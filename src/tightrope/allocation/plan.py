"""What `allocate` returns: an action for each row, what it earns, how far from the best, and what each rule costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.allocation.limits import Limits
from tightrope.frames import AsFrame, Library, made_frame
from tightrope.validation import Array

_WORST = 10  # rows of a keyed rule that are shown


@dataclass(frozen=True, eq=False)
class CurvePoint:
    """What the table would earn with another limit."""

    limit: float
    value: float  # at most, in fractions of rows
    price: float  # what one more unit of the limit would earn there


@dataclass(frozen=True, eq=False, repr=False)
class Plan(AsFrame):
    """An action for each row of a table. `print` shows what was used of each limit.

    Examples
    --------
    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Capacity("call", at_most=0.5)], actions=["call", "wait"])
    >>> table = {"gain": [5.0, 3.0, 4.0, 1.0]}
    >>> plan = tr.allocate(table, rules, reward={"call": "gain", "wait": 0.0})
    >>> plan.actions.tolist(), plan.value, plan.used
    (['call', 'wait', 'call', 'wait'], 9.0, {'capacity call': 0.5})
    """

    actions: NDArray[Any]  # (n,) names; None for rows that were set apart
    value: float  # the sum of the scores
    bound: float  # proved: nothing that keeps the rules earns more
    prices: dict[str, Any]  # by the name of the limit: what one more unit earns; by key where a rule has keys
    used: dict[str, Any]  # likewise, in the unit of the limit: per row, or the amount for the table
    set_apart: Mapping[int, str]  # numbers of the rows that can't be used, and why
    limits: Limits
    duals: Array  # (L,) all prices
    left: Array  # (L,) what is left of each amount; at least 0
    counts: dict[Any, int]  # rows of each action
    _curve: Callable[[int, tuple[float, ...]], list[CurvePoint]]

    @property
    def gap(self) -> float:
        """(bound − value) / |bound|: how much better, at most, anything else could be."""
        return (
            max(0.0, self.bound - self.value) / max(abs(self.bound), 1e-300)
            if self.bound != self.value
            else 0.0
        )

    @property
    def binding(self) -> tuple[str, ...]:
        """The names of the limits that have a price."""
        bound = dict.fromkeys(self.limits[k].name for k in np.flatnonzero(self.duals > 0.0).tolist())
        return tuple(bound)

    def curve(self, name: str, factors: tuple[float, ...] = (0.8, 0.9, 1.0, 1.1, 1.2)) -> list[CurvePoint]:
        """What the table would earn if a limit were multiplied by these factors.

        An estimate from a sample of the rows, drawn through the plan's own bound.

        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Capacity("call", at_most=0.5)], actions=["call", "wait"])
        >>> plan = tr.allocate({"gain": [5.0, 3.0, 4.0, 1.0]}, rules, reward={"call": "gain", "wait": 0.0})
        >>> [(point.limit, round(point.value, 6)) for point in plan.curve("capacity call", (0.5, 1.0, 1.5))]
        [(0.25, 5.0), (0.5, 9.0), (0.75, 12.0)]
        """
        return self._curve(self._number(name), factors)

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row for each limit: what is used and left of it, and what one more unit would earn."""
        rows = []
        for k in range(len(self.limits)):
            limit, n = self.limits[k], int(self.limits.rows[k])
            used = limit.in_units(float(self.limits.amounts[k]) - float(self.left[k]), n)
            rows.append(
                {
                    "limit": limit.name,
                    "key": self.limits.key(k),
                    "rule": str(limit),
                    "at": limit.limit,
                    "used": used,
                    "left": float(self.left[k]) / (1 if limit.whole else max(n, 1)),
                    "unit": limit.unit,
                    "price": float(self.duals[k]),
                }
            )
        return rows

    def actions_frame(self, library: Library = "pandas") -> Any:
        """The actions as a table of pandas or polars: the number of the row, its action, and why it has none."""
        why = [self.set_apart.get(i) for i in range(len(self.actions))] if self.set_apart else None
        columns: dict[str, Any] = {"row": list(range(len(self.actions))), "action": self.actions.tolist()}
        return made_frame(columns if why is None else {**columns, "set_apart": why}, library)

    def _number(self, name: str) -> int:
        names = [one.name for one in self.limits.dense]
        if name not in names:
            from tightrope.errors import InvalidInput
            from tightrope.messages import did_you_mean

            known = ", ".join(names) or "there is none"
            raise InvalidInput(
                f"no limit without keys is called {name!r}{did_you_mean(name, names)}; known: {known}."
            )
        return names.index(name)

    def __repr__(self) -> str:
        apart = f", set_apart={len(self.set_apart)}" if self.set_apart else ""
        return f"Plan({len(self.actions):,} rows, value={self.value:.6g}, gap={self.gap:.1e}{apart})"

    def __str__(self) -> str:
        from tightrope.oracle.solution import table, text

        title = f"{len(self.actions):,} rows earn {text(self.value)}, at most {self.gap:.1e} below the best"
        head = ("limit", "at", "used", "left", "price")
        rows = [
            tuple(one[name] if name == "limit" else text(one[name]) for name in head) for one in self.shown()
        ]
        return table(title, head, rows) if rows else title

    def _repr_html_(self) -> str:
        known: list[tuple[str, Any]] = [("rows", len(self.actions)), ("set apart", len(self.set_apart))]
        known += [("bound", self.bound), ("gap", f"{self.gap:.1e}")]
        head = ("limit", "at", "used", "left", "unit", "price")
        limits = displays.table(head, [[one[name] for name in head] for one in self.shown()])
        chosen = displays.table(("action", "rows"), list(self.counts.items()))
        return displays.page(
            f"A plan that earns {displays.text(self.value)}", displays.facts(known), limits, chosen
        )

    def shown(self) -> list[dict[str, Any]]:
        """The rows of `frame_rows` that people look at: of a rule with keys, those with the highest prices."""
        rows = self.frame_rows()
        found = rows[: self.limits.K]
        for begin, end in zip(self.limits.starts[:-1], self.limits.starts[1:], strict=True):
            keyed = sorted(rows[begin:end], key=lambda one: (-one["price"], one["left"]))[:_WORST]
            found += [{**one, "limit": f"{one['limit']} of {one['key']}"} for one in keyed]
        return found
