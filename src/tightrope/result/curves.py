"""A quantity over the rounds and over the runs: mean and 95 % interval, and the single runs if they have it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.intervals import mean_interval
from tightrope.report.numbers import format_estimate
from tightrope.validation import Array, finite_number

ENDS = ("", "_low", "_high")  # what the columns of an estimate are called, after its name


class Estimate(NamedTuple):
    """A mean with its 95 % interval; nan if there is only one replication.

    >>> print(Estimate(612.3, 598.1, 626.6))
    612 [598, 627]
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return format_estimate(*self)

    def columns(self, name: str) -> dict[str, float | None]:
        """As three columns of a table; None for what is not known.

        >>> Estimate(1.0, math.nan, math.nan).columns("regret")
        {'regret': 1.0, 'regret_low': None, 'regret_high': None}
        """
        return {f"{name}{end}": known(value) for end, value in zip(ENDS, self)}


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity at each recorded round: mean over runs and 95 % interval, (G,), or (G, N) for N constraints or actions.

    `paths` holds the single runs, (R, G) or (R, G, N), if the quantity exists within a run. With one replication `low` and
    `high` are nan: one run says nothing about the spread between runs.

    >>> curve = Curve(np.array([1, 2]), np.array([0.5, 1.0]), np.array([0.4, 0.8]), np.array([0.6, 1.2]))
    >>> curve.at(2)
    Estimate(mean=1.0, low=0.8, high=1.2)
    """

    rounds: NDArray[np.int64]
    mean: Array
    low: Array
    high: Array
    paths: Array | None = None

    def __repr__(self) -> str:
        last = "" if self.mean.ndim > 1 else f", {self.estimate(-1)} in round {self.rounds[-1]:,}"
        return f"Curve({' × '.join(map(str, self.mean.shape))}{last})"

    def quantile(self, q: float) -> Array:
        """The q-quantile over runs at each recorded round."""
        if self.paths is None:
            what = "this curve belongs to all runs together"
            raise InvalidInput(f"{what} and has no quantiles over runs; use path_violation.")
        return np.asarray(np.quantile(self.paths, finite_number("q", q, low=0.0, high=1.0), axis=0))

    def at(self, round: int | None = None, column: int | None = None) -> Estimate:
        """The estimate at a recorded round, by default the last; `column` picks a constraint or an action."""
        curve = self if column is None else self.column(column)
        if curve.mean.ndim != 1:
            raise InvalidInput(field="column", must=f"be given, from 0 to {curve.mean.shape[1] - 1}")
        i = len(self.rounds) - 1 if round is None else int(np.searchsorted(self.rounds, round))
        if round is not None and (i == len(self.rounds) or self.rounds[i] != round):
            raise InvalidInput(field="round", must="be one of the recorded rounds", got=round)
        return curve.estimate(i)

    def estimate(self, i: int) -> Estimate:
        """The estimate at the i-th of the recorded rounds."""
        return Estimate(float(self.mean[i]), float(self.low[i]), float(self.high[i]))

    def times(self, factors: Sequence[float]) -> Curve:
        """The curve with each of its columns multiplied by a positive number, such as to convert costs to the units of rules."""
        return self._each(lambda values: values * np.asarray(factors, dtype=float))

    def column(self, n: int) -> Curve:
        """The curve of one constraint or action, of those that a curve of shape (G, N) holds."""
        if self.mean.ndim != 2 or not 0 <= n < self.mean.shape[1]:
            wanted = f"name one of the curve's {self.mean.shape[1:]} columns"
            raise InvalidInput(field="column", must=wanted, got=n)
        return self._each(lambda values: values[..., n])

    def _each(self, change: Callable[[Array], Array]) -> Curve:
        paths = None if self.paths is None else change(self.paths)
        return Curve(self.rounds, change(self.mean), change(self.low), change(self.high), paths)


@dataclass(frozen=True, eq=False)
class LastViolated:
    """The last round in which any constraint of a group was in violation, run by run (0: never), and its mean with an interval.

    >>> last = LastViolated(("icu",), np.array([3, 0, 9]))
    >>> last.mean, last.max, last.quantile(0.5), last.never
    (4.0, 9, 3.0, 0.3333333333333333)
    """

    constraints: tuple[str, ...]
    values: NDArray[np.int64]
    mean: float = field(init=False)
    low: float = field(init=False)  # 95 % t-interval of the mean, cut off at 0
    high: float = field(init=False)
    max: int = field(init=False)  # the latest over all runs
    never: float = field(init=False)  # the share of runs that were never in violation

    def __post_init__(self) -> None:
        mean, low, high = map(float, mean_interval(self.values.astype(float)))
        vars(self).update(mean=mean, low=max(0.0, low) if math.isfinite(low) else low, high=high)
        vars(self).update(max=int(self.values.max()), never=float((self.values == 0).mean()))

    def __repr__(self) -> str:
        return f"LastViolated({self.estimate}, max={self.max}, never={self.never:.4g})"

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.mean, self.low, self.high)

    def quantile(self, q: float) -> float:
        """The q-quantile over runs."""
        return float(np.quantile(self.values, finite_number("q", q, low=0.0, high=1.0)))


def known(value: float) -> float | None:
    """A number as JSON can hold it: None if it is not finite."""
    return float(value) if math.isfinite(value) else None
