"""What if one limit were another: the optimum against the limit of a rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tightrope import displays, lp
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.frames import AsFrame
from tightrope.rules import Column
from tightrope.validation import Array, finite_array, whole_number

POINTS = 21
_FLAT = 1e-9  # a price below this is none


class Program(Protocol):
    """An oracle's program, which can be solved for other margins."""

    def family(self) -> lp.Family: ...


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class LimitCurve(AsFrame):
    """The reward per decision of the best policy against the limit of one rule; all other limits stay. `print` shows it as a table.

    The curve is concave, and straight between the limits at which the best policy changes. Every value is a verified optimum.
    `prices` are the slopes: what one more unit of the limit would earn there.
    """

    rule: str
    unit: str
    side: str  # "at_most" or "at_least"
    limits: Array  # (M,), increasing
    values: Array  # (M,), NaN where no policy keeps all rules
    prices: Array  # (M,), NaN there, too
    today: float  # today's limit, one of `limits`
    value: float  # what the best policy earns with it
    share: bool  # whether limits are shares of the decisions

    @property
    def enough(self) -> float | None:
        """The tightest limit of those tried that costs nothing; None if all of them cost something."""
        if not (self.prices <= _FLAT).any():
            return None
        free = self.limits[self.values >= np.nanmax(self.values) - _FLAT]
        return float(free.min() if self.side == "at_most" else free.max())

    @property
    def least(self) -> float | None:
        """The tightest limit of those tried that some policy keeps; None if all of them can be kept."""
        kept = self.limits[np.isfinite(self.values)]
        if kept.size == self.limits.size or not kept.size:
            return None
        return float(kept.min() if self.side == "at_most" else kept.max())

    def words(self) -> list[str]:
        """What the curve says, in sentences."""
        highest = np.flatnonzero(self.values >= np.nanmax(self.values) - _FLAT)
        best = int(highest[np.abs(self.limits[highest] - self.today).argmin()])
        gain = float(self.values[best]) - self.value
        said = [
            f"{self.rule}: with today's limit of {self.amount(self.today)} the best policy earns {self.value:.4g} per decision."
        ]
        if gain > _FLAT:
            said.append(f"A limit of {self.amount(self.limits[best])} would earn {gain:.4g} more.")
        if self.enough is not None:
            looser = "higher" if self.side == "at_most" else "lower"
            said.append(f"From {self.amount(self.enough)} on, a {looser} limit would earn nothing more.")
        if self.least is not None:
            tighter = "below" if self.side == "at_most" else "above"
            said.append(
                f"With a limit {tighter} {self.amount(self.least)} no policy keeps every rule, as far as was tried."
            )
        return said

    def amount(self, limit: float) -> str:
        """A limit in words."""
        return f"{limit:.4%}".replace(".0000%", "%") if self.share else displays.text(float(limit))

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row for each limit: what the best policy earns with it, and what one more unit would earn there."""
        columns = self.limits.tolist(), self.values.tolist(), self.prices.tolist()
        return [{"limit": limit, "value": value, "price": price} for limit, value, price in zip(*columns)]

    def plain_rows(self) -> list[dict[str, Any]]:
        """The same for JSON: None where no policy keeps all rules."""
        return [
            {name: None if math.isnan(one) else one for name, one in row.items()} for row in self.frame_rows()
        ]

    def __repr__(self) -> str:
        return f"LimitCurve(rule={self.rule!r}, limits=[{self.limits[0]:g}, …, {self.limits[-1]:g}], today={self.today:g})"

    def __str__(self) -> str:
        head, rows = self._table()
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = ["  ".join(map(str.rjust, row, widths)).rstrip() for row in (head, *rows)]
        return "\n".join([*self.words(), *lines])

    def _repr_html_(self) -> str:
        head, rows = self._table()
        marked = int(np.flatnonzero(self.limits == self.today)[0])
        said = displays.lines_of(self.words())
        return displays.page(
            f"What if the limit of {self.rule} were another", said, displays.table(head, rows, marked=marked)
        )

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows: list[tuple[str, ...]] = []
        for limit, value, price in zip(self.limits.tolist(), self.values.tolist(), self.prices.tolist()):
            found = (
                ("can't be kept", "–")
                if math.isnan(value)
                else (f"{value:.6g}", f"{0.0 + round(price, 12):.4g}")
            )
            rows.append((self.amount(limit), *found, "today" if limit == self.today else ""))
        return ("limit", "earns", "one more unit earns", ""), rows


def limit_curve(
    program: Program,
    epsilon: Array,
    k: int,
    name: str,
    column: Column | None,
    *,
    unit_margin: float,
    limits: ArrayLike | None,
    points: int,
) -> LimitCurve:
    """The curve of column k. `unit_margin` is how far ε moves with a unit of the limit."""
    today, sign = (0.0, 1.0) if column is None else (float(column.limit), float(column.sign))
    share = column is not None and not column.rule.counts_amounts
    if unit_margin <= 0.0:
        raise InvalidInput(field="rule", must="count some decision, but its groups never occur", got=name)
    tried = _limits(today, 1.0 / unit_margin, share, limits, points)
    family, margin = program.family(), np.array(epsilon)
    values, prices = np.full(tried.size, np.nan), np.full(tried.size, np.nan)

    def solve(i: int) -> None:
        margin[k] = epsilon[k] + sign * (today - float(tried[i])) * unit_margin
        found = family.solve(margin)
        values[i], prices[i] = found.value, found.duals[k] * unit_margin

    at = int(np.flatnonzero(tried == today)[0])
    looser, tighter = range(at, tried.size), range(at - 1, -1, -1)
    if sign < 0.0:
        looser, tighter = range(at, -1, -1), range(at + 1, tried.size)
    for i in looser:
        solve(i)
    for i in tighter:
        try:
            solve(i)
        except InfeasibleProblem:
            break  # what is tighter still can't be kept either
    unit = "cost" if column is None else column.rule.unit
    side = "at_most" if column is None else column.side
    return LimitCurve(name, unit, side, tried, values, prices, today, float(values[at]), share)


def _limits(today: float, scale: float, share: bool, given: ArrayLike | None, points: int) -> Array:
    """Increasing limits, with today's among them: by default from half of it to one and a half of it."""
    if given is not None:
        return np.unique(np.append(finite_array("limits", given, (None,)), today))
    n = whole_number("points", points, low=2)
    size = abs(today) or scale
    low, high = today - 0.5 * size, today + 0.5 * size
    if share:
        low, high = max(low, 0.0), min(high, 1.0)
    spread = np.linspace(low, high, n)
    # Rounding may put a limit beside today's.
    return np.unique(np.append(spread[np.abs(spread - today) > 1e-9 * size], today))
