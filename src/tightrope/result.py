"""What a simulation leaves behind: curves with intervals, a table, files and figures.

Three different things are called violation, and all three are reported. In round τ, with cumulative costs S_k(τ):

`violation`       Σ_k (E[S_k(τ)])⁺, the paper's: the expectation over runs is inside, so a run above zero may be offset by another
`path_violation`  Σ_k (S_k(τ))⁺ within each run, as seen by whoever lives through it
`last_violated`   the last round in which S_k > 0, run by run

A cumulative cost counts as above zero when it exceeds 1e-9: less than that is what rounding can leave of an exact 0.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput, StateDamagedError, StateVersionError
from tightrope.report import NamedCurve, Panel, format_estimate, format_number, panels_figure, save_figure
from tightrope.validation import finite_number, real_array, require_finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Curve", "Estimate", "LastViolated", "Result", "Summary", "write_summary"]

Array: TypeAlias = NDArray[np.float64]
Row: TypeAlias = dict[str, str | int | float | None]

LEVEL = 0.95
ROUNDING = 1e-9  # the same as the engine's, `validation.VIOLATION`

_FORMAT = "tightrope-result"
_VERSION = 1
_RESAMPLES = 2000
_BLOCK = 1 << 20  # entries of a bootstrap block
_BASELINES = ("fluid", "joint", "joint-sampled", "given")
_ACTIONS_SHOWN = 7


class Estimate(NamedTuple):
    """A mean with its 95 % interval; nan where one replication can't tell.

    >>> print(Estimate(612.3, 598.1, 626.6))
    612 [598, 627]
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return format_estimate(*self)


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity at each recorded round: mean over runs and 95 % interval, (G,), or (G, N) for N constraints or actions.

    `paths` holds the runs one by one, (R, G) or (R, G, N), where the quantity exists within a run. With one replication `low` and
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

    def quantile(self, q: float) -> Array:
        """The q-quantile over runs at each recorded round."""
        if self.paths is None:
            raise InvalidInput(
                "this curve belongs to all runs together and has no quantiles over runs; use path_violation."
            )
        return np.asarray(np.quantile(self.paths, finite_number("q", q, low=0.0, high=1.0), axis=0))

    def at(self, round: int | None = None, column: int | None = None) -> Estimate:
        """The estimate at a recorded round, by default the last; `column` picks a constraint or an action."""
        curve = self if column is None else self.column(column)
        if curve.mean.ndim != 1:
            raise InvalidInput(f"column must be given, from 0 to {curve.mean.shape[1] - 1}.")
        i = len(self.rounds) - 1 if round is None else int(np.searchsorted(self.rounds, round))
        if round is not None and (i == len(self.rounds) or self.rounds[i] != round):
            raise InvalidInput(f"round must be one of the recorded rounds, but got {round}.")
        return Estimate(float(curve.mean[i]), float(curve.low[i]), float(curve.high[i]))

    def column(self, n: int) -> Curve:
        """The curve of one constraint or action, of those that a curve of shape (G, N) holds."""
        if self.mean.ndim != 2 or not 0 <= n < self.mean.shape[1]:
            raise InvalidInput(
                f"column must name one of the curve's {self.mean.shape[1:]} columns, but got {n}."
            )
        paths = None if self.paths is None else self.paths[..., n]
        return Curve(self.rounds, self.mean[:, n], self.low[:, n], self.high[:, n], paths)


@dataclass(frozen=True, eq=False)
class LastViolated:
    """The last round in which any constraint of a group was in violation, run by run (0: never), and its mean with an interval.

    >>> last = LastViolated(("icu",), np.array([3, 0, 9]))
    >>> last.mean, last.max, last.quantile(0.5), last.never
    (4.0, 9, 3.0, 0.3333333333333333)
    """

    constraints: tuple[str, ...]
    values: NDArray[np.int64]

    @property
    def estimate(self) -> Estimate:
        """Mean over runs with its 95 % t-interval, cut off at 0."""
        mean, low, high = _t_interval(self.values.astype(float))
        return Estimate(float(mean), max(0.0, float(low)) if math.isfinite(low) else float(low), float(high))

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return self.estimate.mean

    @property
    def low(self) -> float:
        """Low end of the mean's interval."""
        return self.estimate.low

    @property
    def high(self) -> float:
        """High end of the mean's interval."""
        return self.estimate.high

    @property
    def max(self) -> int:
        """The latest over all runs."""
        return int(self.values.max())

    @property
    def never(self) -> float:
        """Share of runs that were never in violation."""
        return float((self.values == 0).mean())

    def quantile(self, q: float) -> float:
        """The q-quantile over runs."""
        return float(np.quantile(self.values, finite_number("q", q, low=0.0, high=1.0)))


class Summary(Mapping[str, Any]):
    """The final round as a mapping for programs (the last of `Result.rows()`, with the run's settings) and a table for people."""

    def __init__(self, title: str, values: Mapping[str, Any], lines: Sequence[tuple[str, str]]) -> None:
        self._title = title
        self._values = dict(values)
        self._lines = tuple(lines)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self._lines)
        return "\n".join([self._title, *(f"  {name:<{width}}  {text}" for name, text in self._lines)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """R replications of one policy in one scenario, at G recorded rounds, with J actions and K constraints.

    Parameters
    ----------
    policy, scenario : str
        Registered names.
    rounds : (G,) of int
        Recorded rounds, increasing; the last is the number of rounds played.
    reward : (R, G)
        Cumulative mean rewards r(c, a).
    observed_reward : (R, G)
        Cumulative rewards as drawn.
    cost : (R, G, K)
        Cumulative costs as drawn.
    mean_cost : (R, G, K)
        The same with the noise averaged out where the action can't depend on it (costs seen after acting); else equal to `cost`.
    counts : (R, G, J) of int
        How often each action was chosen.
    last_violation : (R, K) of int
        The last round, recorded or not, at which the cumulative drawn cost was above 0; 0: never.
    optimum : float, optional
        Value per round of the best policy that keeps the constraints; regret needs it.
    optimum_interval : (low, high), optional
        95 % interval of the optimum where it was estimated.
    baseline : str
        Where the optimum comes from: "fluid", "joint", "joint-sampled" or "given".
    seed : int
    actions, constraints : tuples of str
    seconds : float
        Time that the simulation took.
    interrupted : bool
        Whether it was stopped before its time; it then holds what was finished.
    choices : (R, rounds) of int16, optional
        Every action of every run.
    settings : dict
        Plain description of policy and environment, for the record.

    Examples
    --------
    >>> run = Result(policy="safe", scenario="two-arms", rounds=[1, 2], reward=[[0.5, 1.0], [0.7, 1.2]],
    ...              observed_reward=[[1, 1], [0, 1]], cost=[[[0.1], [-0.2]], [[0.1], [0.0]]],
    ...              mean_cost=[[[0.1], [-0.2]], [[0.1], [0.0]]], counts=[[[1, 0], [1, 1]], [[0, 1], [1, 1]]],
    ...              last_violation=[[1], [1]], optimum=0.8, optimum_interval=None, baseline="fluid", seed=0,
    ...              actions=("a", "b"), constraints=("limit",), seconds=0.1)
    >>> run.regret.mean.round(3).tolist(), run.violation.mean.tolist(), run.expected_last_violation
    ([0.2, 0.5], [0.1, 0.0], 1)
    >>> print(run.summary())
    safe on two-arms: 2 rounds, 2 replications, seed 0
      regret               0.5 [−0.8, 1.8]
      average reward       0.6 [−0.1, 1.2]
      expected violation   0.00 [0.00, 0.92]
      path violation       0 [0, 0]
      paths in violation   0.00 [0.00, 0.66]
      last violated round  1 [1, 1], at most 1
      optimum per round    0.8 (fluid)
    """

    policy: str
    scenario: str
    rounds: NDArray[np.int64]
    reward: Array
    observed_reward: Array
    cost: Array
    mean_cost: Array
    counts: NDArray[np.int64]
    last_violation: NDArray[np.int64]
    optimum: float | None
    optimum_interval: tuple[float, float] | None
    baseline: str
    seed: int
    actions: tuple[str, ...]
    constraints: tuple[str, ...]
    seconds: float
    interrupted: bool = False
    choices: NDArray[np.int16] | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("actions", "constraints"):
            self._set(name, tuple(str(item) for item in getattr(self, name)))
        rounds = _whole("rounds", self.rounds, (None,))
        if rounds.size == 0 or rounds[0] < 1 or (np.diff(rounds) <= 0).any():
            raise InvalidInput("rounds must be increasing, not empty and start at 1 or later.")
        self._set("rounds", _frozen(rounds))
        reward = real_array("reward", self.reward, (None, rounds.size))
        R, G, J, K = *reward.shape, len(self.actions), len(self.constraints)
        if R == 0:
            raise InvalidInput("reward must have at least one replication, but its shape is (0, G).")
        shapes = {"reward": (R, G), "observed_reward": (R, G), "cost": (R, G, K), "mean_cost": (R, G, K)}
        for name, shape in shapes.items():
            array = real_array(name, getattr(self, name), shape)
            require_finite(name, array)
            self._set(name, _frozen(array))
        total = int(rounds[-1])
        counts = _whole("counts", self.counts, (R, G, J))
        if (counts < 0).any() or (counts.sum(axis=2) > rounds).any():
            raise InvalidInput("counts must not be negative, nor sum to more than the rounds so far.")
        self._set("counts", _frozen(counts))
        last = _whole("last_violation", self.last_violation, (R, K))
        if ((last < 0) | (last > total)).any():
            raise InvalidInput(f"last_violation must lie between 0 and the last round, {total}.")
        self._set("last_violation", _frozen(last))
        if self.choices is not None:
            self._set("choices", _frozen(_whole("choices", self.choices, (R, total), np.int16)))
        if self.baseline not in _BASELINES:
            raise InvalidInput(f"baseline must be one of {', '.join(_BASELINES)}, but got {self.baseline!r}.")
        if self.optimum is not None:
            self._set("optimum", finite_number("optimum", self.optimum))
        if self.optimum_interval is not None:
            low, high = (finite_number("optimum_interval", end) for end in self.optimum_interval)
            if low > high:
                raise InvalidInput(f"optimum_interval must be (low, high), but got ({low:g}, {high:g}).")
            self._set("optimum_interval", (low, high))
        self._set("seconds", finite_number("seconds", self.seconds, low=0.0))
        self._set("settings", {str(key): _plain(value) for key, value in self.settings.items()})

    @property
    def n_replications(self) -> int:
        """R."""
        return int(self.reward.shape[0])

    @property
    def n_rounds(self) -> int:
        """Rounds played in each replication."""
        return int(self.rounds[-1])

    # ------------------------------------------------------------------------------------------------------------ curves

    @cached_property
    def regret(self) -> Curve:
        """τ·optimum − cumulative mean reward, with a 95 % t-interval over runs.

        An estimated optimum widens the interval by its own (method of variance estimates recovery: the two errors are
        independent, so their squares add on each side).
        """
        if self.optimum is None:
            raise InvalidInput(
                "regret needs the optimum per round, which is not known for this environment: "
                "use result.with_optimum(value), for instance with value = tr.solve(env).value."
            )
        best = self.rounds * self.optimum
        paths = best - self.reward
        mean, low, high = _t_interval(paths)
        if self.optimum_interval is not None:
            below, above = (max(0.0, d) for d in np.subtract(self.optimum_interval, self.optimum) * (-1, 1))
            low = mean - np.hypot(mean - low, self.rounds * below)
            high = mean + np.hypot(high - mean, self.rounds * above)
        return Curve(self.rounds, mean, low, high, paths)

    @cached_property
    def reward_curve(self) -> Curve:
        """Cumulative mean reward."""
        return self._over_runs(self.reward)

    @cached_property
    def average_reward(self) -> Curve:
        """Mean reward per round so far."""
        return self._over_runs(self.reward / self.rounds)

    @cached_property
    def violation(self) -> Curve:
        """Σ_k (E[S_k])⁺, the expected violation, with a 95 % bootstrap interval over runs (2,000 resamples, always the same).

        The sum of positive parts has kinks, where the plain bootstrap fails: with eighteen constraints at exactly zero it would put
        a positive lower end on a violation of zero. So each constraint enters according to where its mean μ stands, in standard
        errors from zero: clearly positive ones with their error e, clearly negative ones not at all, and those between with
        max(e, 0) for the lower end and min(e, 0) for the upper one, the extremes that (μ + e)⁺ − μ⁺ can take.
        """
        mean = _excess(self.mean_cost.mean(axis=0)).sum(axis=1)
        low, high = _violation_interval(self.mean_cost, mean)
        return Curve(self.rounds, mean, low, high)

    @cached_property
    def mean_cost_curve(self) -> Curve:
        """E[S_k], the expected cumulative cost by constraint, (G, K); below zero it is slack."""
        return self._over_runs(self.mean_cost)

    @cached_property
    def violation_by_constraint(self) -> Curve:
        """(E[S_k])⁺ by constraint, (G, K)."""
        cost = self.mean_cost_curve
        mean, low, high = (_excess(part) for part in (cost.mean, cost.low, cost.high))
        return Curve(self.rounds, mean, low, high)

    @cached_property
    def path_violation(self) -> Curve:
        """Σ_k (S_k)⁺ within each run: its mean over runs, its quantiles, and the paths themselves."""
        paths = _excess(self.cost).sum(axis=2)
        curve = self._over_runs(paths)
        return Curve(self.rounds, curve.mean, np.maximum(curve.low, 0.0), curve.high, paths)

    @cached_property
    def violated_share(self) -> Curve:
        """Share of runs with at least one constraint in violation, with Wilson's 95 % interval."""
        paths = (_excess(self.cost) > 0).any(axis=2).astype(float)
        mean = paths.mean(axis=0)
        low, high = _wilson(mean, self.n_replications)
        return Curve(self.rounds, mean, low, high, paths)

    @cached_property
    def shares(self) -> Curve:
        """How often each action was chosen so far, as a share of the rounds, (G, J)."""
        return self._over_runs(self.counts / self.rounds[:, None])

    def last_violated(self, group: Iterable[int | str] | None = None) -> LastViolated:
        """The last round in which any constraint of the group was in violation: of all, or of those given by index or name.

        Exact to the round, whatever rounds were recorded; by the drawn costs of each run.
        """
        if isinstance(group, str):
            raise InvalidInput(f"group must be a list of constraints, such as [{group!r}].")
        columns = list(range(len(self.constraints))) if group is None else [self._column(k) for k in group]
        if group is not None and not columns:
            raise InvalidInput("group must have at least one constraint.")
        values = self.last_violation[:, columns].max(axis=1, initial=0)
        return LastViolated(tuple(self.constraints[k] for k in columns), values)

    @cached_property
    def expected_last_violation(self) -> int:
        """The last recorded round at which the expected violation is above 0; 0: at none. No finer than the recorded rounds."""
        at = np.flatnonzero(self.violation.mean > 0)
        return int(self.rounds[at[-1]]) if at.size else 0

    def with_optimum(
        self, value: float, interval: tuple[float, float] | None = None, *, baseline: str = "given"
    ) -> Result:
        """A copy whose regret is measured against `value` per round."""
        return replace(self, optimum=value, optimum_interval=interval, baseline=baseline)

    # ------------------------------------------------------------------------------------------------- tables and figures

    def rows(self) -> list[Row]:
        """One dict of plain values for each recorded round; None for what is not known.

        `violation` is the expected one; `path_violation` the mean over runs of Σ_k (S_k)⁺, with its median and 95 % quantile.
        `last_violation` (mean over runs), `last_violation_max` and `expected_last_violation` are those of the whole run, the
        same in every row.
        """
        curves: dict[str, Curve | None] = {
            "regret": None if self.optimum is None else self.regret,
            "reward": self.reward_curve,
            "violation": self.violation,
            "path_violation": self.path_violation,
            "violated_share": self.violated_share,
        }
        observed = self.observed_reward.mean(axis=0)
        median, tail = self.path_violation.quantile(0.5), self.path_violation.quantile(0.95)
        last = self.last_violated()
        rows = []
        for g, at in enumerate(self.rounds.tolist()):
            row: Row = {"policy": self.policy, "scenario": self.scenario, "round": at}
            for name, curve in curves.items():
                row[name] = _known(curve.mean[g]) if curve else None
                row[f"{name}_low"] = _known(curve.low[g]) if curve else None
                row[f"{name}_high"] = _known(curve.high[g]) if curve else None
            row["observed_reward"] = float(observed[g])
            row["path_violation_median"] = float(median[g])
            row["path_violation_q95"] = float(tail[g])
            row["last_violation"] = last.mean
            row["last_violation_max"] = last.max
            row["expected_last_violation"] = self.expected_last_violation
            row["replications"] = self.n_replications
            rows.append(row)
        return rows

    def summary(self) -> Summary:
        """The final round: print it, or read it as a mapping."""
        values = {**self.rows()[-1], **_described(self)}
        last = self.last_violated()
        interrupted = ", interrupted" if self.interrupted else ""
        title = (
            f"{self.policy} on {self.scenario}: {self.n_rounds:,} rounds, "
            f"{self.n_replications:,} replications, seed {self.seed}{interrupted}"
        )
        lines = []
        if self.optimum is not None:
            lines.append(("regret", str(self.regret.at())))
        lines += [
            ("average reward", str(self.average_reward.at())),
            ("expected violation", str(self.violation.at())),
            ("path violation", str(self.path_violation.at())),
            ("paths in violation", str(self.violated_share.at())),
            ("last violated round", f"{last.estimate}, at most {last.max:,}"),
        ]
        if self.optimum is not None:
            lines.append(("optimum per round", f"{format_number(self.optimum)} ({self.baseline})"))
        return Summary(title, values, lines)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Regret (reward per round where the optimum is not known), expected violation and shares of the actions, by round.

        Written to `path` if given: `.png`, `.svg` or `.pdf`. Rounds are on a logarithmic axis, since violations end early.
        """
        if self.optimum is None:
            panels = [
                Panel([NamedCurve.of("average reward", self.average_reward)], "Round", "Reward per round")
            ]
        else:
            panels = [Panel([NamedCurve.of("regret", self.regret)], "Round", "Regret (reward)")]
        if self.constraints:
            curve = NamedCurve.of("expected violation", self.violation)
            panels.append(Panel([curve], "Round", "Violation (cost)", logx=self.n_rounds > 1))
        panels.append(Panel(self._share_curves(), "Round", "Share of rounds", logx=self.n_rounds > 1))
        figure = panels_figure(panels)
        if path is not None:
            save_figure(figure, path)
        return figure

    # ------------------------------------------------------------------------------------------------------------- files

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write the result into `directory`, made if need be, and return it.

        `result.npz` is what `Result.load` reads, exact. The others are for reading: `summary.json` (rows and settings),
        `curves.csv` (the same rows), `by_constraint.csv`, `shares.csv` and `last_violation.csv`.
        """
        folder = Path(directory)
        write_summary([self], folder / "summary.json")
        rows, last = self.rows(), self._last_violation_rows()
        _write_csv(folder / "curves.csv", list(rows[0]), rows)
        _write_csv(folder / "last_violation.csv", list(last[0]), last)
        costs = {"cost": self.mean_cost_curve, "violation": self.violation_by_constraint}
        _write_long(folder / "by_constraint.csv", "constraint", self.constraints, **costs)
        _write_long(folder / "shares.csv", "action", self.actions, share=self.shares)
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name in _ARRAYS}
        if self.choices is None:
            del arrays["choices"]
        header = {"format": _FORMAT, "version": _VERSION, **_described(self)}
        buffer = io.BytesIO()
        text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), dtype=np.uint8)
        np.savez_compressed(buffer, allow_pickle=False, header=text, **arrays)
        _replace(folder / "result.npz", buffer.getvalue())
        return folder

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Result:
        """The result that `save` wrote into `directory`."""
        path = Path(directory) / "result.npz"
        content = io.BytesIO(path.read_bytes())
        try:
            with np.load(content, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(arrays.pop("header").tobytes())
            if header.pop("format") != _FORMAT:
                raise StateDamagedError(f"{path} is not a saved result.")
            version = header.pop("version")
            if version != _VERSION:
                raise StateVersionError(
                    f"{path} was saved in version {version!r} of the format; this release reads version {_VERSION}."
                )
            interval = header.pop("optimum_interval")
            return cls(**arrays, **header, optimum_interval=None if interval is None else tuple(interval))
        except (KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            if isinstance(error, StateDamagedError | StateVersionError):
                raise
            raise StateDamagedError(f"{path} can't be read as a saved result: {error}") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Result(policy={self.policy!r}, scenario={self.scenario!r}, rounds={self.n_rounds}, "
            f"replications={self.n_replications})"
        )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _over_runs(self, paths: Array) -> Curve:
        return Curve(self.rounds, *_t_interval(paths), paths)

    def _column(self, constraint: int | str) -> int:
        if isinstance(constraint, str):
            if constraint not in self.constraints:
                raise InvalidInput(
                    f"group must name constraints among {list(self.constraints)}, but got {constraint!r}."
                )
            return self.constraints.index(constraint)
        k = int(constraint)
        if not 0 <= k < len(self.constraints):
            raise InvalidInput(f"group must have indices from 0 to {len(self.constraints) - 1}, but got {k}.")
        return k

    def _share_curves(self) -> list[NamedCurve]:
        """The most chosen actions, in their own order, and the sum of the others."""
        mean = self.shares.mean
        shown = np.sort(np.argsort(-mean[-1], kind="stable")[:_ACTIONS_SHOWN])
        curves = [NamedCurve.of(self.actions[j], self.shares.column(j)) for j in shown.tolist()]
        others = len(self.actions) - shown.size
        if others:
            curves.append(
                NamedCurve(f"{others} others", self.rounds, mean.sum(axis=1) - mean[:, shown].sum(axis=1))
            )
        return curves

    def _last_violation_rows(self) -> list[Row]:
        groups = [("any", self.last_violated())]
        groups += [(name, self.last_violated([k])) for k, name in enumerate(self.constraints)]
        return [
            {
                "constraint": name,
                "mean": last.mean,
                "low": _known(last.low),
                "high": _known(last.high),
                "median": last.quantile(0.5),
                "q95": last.quantile(0.95),
                "max": last.max,
                "never": last.never,
            }
            for name, last in groups
        ]


def write_summary(results: Sequence[Result], path: str | os.PathLike[str]) -> None:
    """One JSON file for several results: `rows` (one for each policy, scenario and recorded round) and `runs` (their settings).

    >>> write_summary([], "summary.json")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: results must not be empty.
    """
    if not results:
        raise InvalidInput("results must not be empty.")
    runs = [{**_described(result), "replications": result.n_replications} for result in results]
    body = {"rows": [row for result in results for row in result.rows()], "runs": runs}
    text = json.dumps(body, allow_nan=False, indent=1, ensure_ascii=False)
    _replace(Path(path), f"{text}\n".encode())


# -------------------------------------------------------------------------------------------------------------- intervals


_NORMAL_QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)


@cache
def student_quantile(df: int) -> float:
    """The quantile of Student's t that a two-sided 95 % interval needs, for whole degrees of freedom, to 1e-10.

    Newton's method on the distribution function, an elementary sum for whole df (Abramowitz and Stegun 26.7.3-4), from the
    expansion in 1/df (26.7.5), which is exact enough by itself when df is large.

    >>> [round(student_quantile(df), 4) for df in (1, 2, 9, 10_000)]
    [12.7062, 4.3027, 2.2622, 1.9602]
    """
    z = _NORMAL_QUANTILE
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    t = z + math.fsum(term / df ** (i + 1) for i, term in enumerate(terms))
    if df > 500:
        return t
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    for _ in range(50):
        angle = math.atan2(t, math.sqrt(df))
        cosine = math.cos(angle) ** 2
        term, total = (math.cos(angle), 0.0) if df % 2 else (1.0, 0.0)
        for i in range(1 if df % 2 else 0, df - 1, 2):
            total += term
            term *= cosine * (i + 1) / (i + 2)
        inside = total * math.sin(angle)
        if df % 2:
            inside = 2 / math.pi * (angle + inside)
        step = (inside - LEVEL) / 2 / math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))
        t = max(t - step, t / 2)
        if abs(step) <= 1e-13 * t:
            break
    return t


def _t_interval(paths: Array) -> tuple[Array, Array, Array]:
    """Mean over the first axis and its 95 % t-interval; nan with one run."""
    R = paths.shape[0]
    mean = paths.mean(axis=0)
    if R == 1:
        unknown = np.full_like(mean, np.nan)
        return mean, unknown, unknown.copy()
    half = student_quantile(R - 1) * paths.std(axis=0, ddof=1) / math.sqrt(R)
    return mean, mean - half, mean + half


def _excess(cumulative: Array) -> Array:
    """(·)⁺ of cumulative costs, rounding errors taken for 0; nan stays."""
    return np.where(cumulative <= ROUNDING, 0.0, cumulative)


def _wilson(share: Array, n: int) -> tuple[Array, Array]:
    """Wilson's score interval of a share of n runs."""
    z2 = _NORMAL_QUANTILE**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # The ends are exactly 0 and 1 where no run, or every run, is in violation; rounding must not move them.
    low = np.where(share == 0.0, 0.0, np.maximum(centre - half, 0.0))
    return low, np.where(share == 1.0, 1.0, np.minimum(centre + half, 1.0))


@lru_cache(maxsize=2)
def _resampled(R: int) -> Array:
    """How often each of R runs is drawn in each resample, less one: the same for every result with so many runs."""
    draws = np.random.default_rng(0).multinomial(R, np.full(R, 1 / R), size=_RESAMPLES)
    return draws.astype(np.float64) - 1.0


def _violation_interval(cost: Array, violation: Array) -> tuple[Array, Array]:
    """95 % interval of Σ_k (E[S_k])⁺ from runs (R, G, K): see `Result.violation`.

    Inference for directionally differentiable functions (Fang and Santos 2019), made valid on both sides of the kink. Errors are
    stretched from the bootstrap's normal to Student's t, so that a single, clearly positive constraint gets its t-interval.
    """
    R, G, K = cost.shape
    if R == 1:
        return np.full(G, np.nan), np.full(G, np.nan)
    tail = (1 - LEVEL) / 2
    mean = cost.mean(axis=0)
    error = cost.std(axis=0, ddof=1) / math.sqrt(R)
    clear = max(2.0, math.sqrt(2 * math.log(R))) * error
    positive, near = mean > clear, np.abs(mean) <= clear
    stretch = student_quantile(R - 1) / _NORMAL_QUANTILE * math.sqrt(R / (R - 1))
    if not (positive | near).any():
        return violation.copy(), violation.copy()
    weights = _resampled(R) * (stretch / R)
    low, high = violation.copy(), violation.copy()
    step = max(1, _BLOCK // (_RESAMPLES * max(1, K)))
    for start in range(0, G, step):
        block = slice(start, start + step)
        if not (positive[block] | near[block]).any():
            continue
        # Centred, so that a cost that is the same in all runs has errors of exactly 0.
        centred = (cost[:, block] - mean[block]).reshape(R, -1)
        errors = (weights @ centred).reshape(_RESAMPLES, -1, K)
        fixed = np.where(positive[block], errors, 0.0).sum(axis=2)
        loose = np.where(near[block], errors, 0.0)
        low[block] -= np.quantile(fixed + np.maximum(loose, 0.0).sum(axis=2), 1 - tail, axis=0)
        high[block] -= np.quantile(fixed + np.minimum(loose, 0.0).sum(axis=2), tail, axis=0)
    return np.clip(low, 0.0, violation), np.maximum(high, violation)


# ------------------------------------------------------------------------------------------------------------------ files

_ARRAYS = {"rounds", "reward", "observed_reward", "cost", "mean_cost", "counts", "last_violation", "choices"}


def _described(result: Result) -> dict[str, Any]:
    """All that is not an array, as plain data."""
    return {f.name: _plain(getattr(result, f.name)) for f in fields(result) if f.name not in _ARRAYS}


def _plain(value: Any) -> Any:
    """`value` as JSON can hold it: an object of unknown make by the name of its class, a number that is not finite as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [
            _plain(item) for item in (sorted(value, key=str) if isinstance(value, set | frozenset) else value)
        ]
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _write_long(path: Path, kind: str, names: Sequence[str], **curves: Curve) -> None:
    """Curves (G, N) as one line for each round and name."""
    columns = ["round", kind, *(f"{label}{end}" for label in curves for end in ("", "_low", "_high"))]
    rows: list[Row] = []
    for g, at in enumerate(next(iter(curves.values())).rounds.tolist()):
        for n, name in enumerate(names):
            parts = (part for curve in curves.values() for part in (curve.mean, curve.low, curve.high))
            rows.append(dict(zip(columns, [at, name, *(_known(part[g, n]) for part in parts)])))
    _write_csv(path, columns, rows)


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _replace(path, buffer.getvalue().encode())


def _replace(path: Path, content: bytes) -> None:
    """Write beside the destination, then move into place: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(content)
    os.replace(draft, path)


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _whole(
    name: str, value: Any, shape: tuple[int | None, ...], dtype: type[np.integer[Any]] = np.int64
) -> Any:
    """`value` as integers, refused where a number is not whole; not copied where it is right already."""
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        # Zeros without memory behind them: only the shape is to be checked.
        real_array(name, np.broadcast_to(0.0, value.shape), shape)
        return np.ascontiguousarray(value)
    real = real_array(name, value, shape)
    require_finite(name, real)
    limits = np.iinfo(dtype)
    if (real != np.trunc(real)).any() or (np.abs(real) > limits.max).any():
        raise InvalidInput(f"{name} must hold whole numbers up to {limits.max}.")
    return real.astype(dtype)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A view that can't be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and bool(a == b)
