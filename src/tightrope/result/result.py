"""`Result`: the runs of one policy in one scenario, and every curve, table and figure that can be made of them."""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.concerns import Concern, in_runs
from tightrope.errors import InvalidInput, StateDamagedError, StateVersionError
from tightrope.files import write, write_csv, write_json
from tightrope.frames import AsFrame
from tightrope.intervals import mean_interval, positive_part, share_interval, violation_interval
from tightrope.report import NamedCurve, Panel, format_number, panels_figure, save_figure
from tightrope.result.curves import ENDS, UNKNOWN, Curve, Estimate, LastViolated, known
from tightrope.validation import Array, finite_array, finite_number, real_array
from tightrope.words import Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row: TypeAlias = dict[str, Any]

_ARRAYS = {"rounds", "reward", "observed_reward", "cost", "mean_cost", "counts", "last_violation"}
_ARRAYS |= {"optimal_reward", "choices"}
_BASELINES = ("fluid", "joint", "joint-sampled", "given")
_ACTIONS_SHOWN = 7
_RULES_SHOWN = 3
_CLOSE = 0.01  # a rule with less room than this per round, of its range, counts as binding
_FORMAT, _VERSION = "tightrope-result", 1


class Summary(dict[str, Any]):
    """The final round as a mapping for programs (the last of `Result.rows()`, with the run's settings) and a table for people."""

    def __init__(self, title: str, values: Mapping[str, Any], lines: Sequence[tuple[str, str]]) -> None:
        super().__init__(values)
        self._title, self._lines = title, tuple(lines)

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self._lines)
        return "\n".join([self._title, *(f"  {name:<{width}}  {text}" for name, text in self._lines)])

    def html_parts(self) -> tuple[str, displays.Html]:
        return self._title, displays.facts(self._lines)

    def _repr_html_(self) -> str:
        return displays.page(*self.html_parts())


@dataclass(frozen=True, kw_only=True, eq=False)
class Result(AsFrame):
    """R replications of one policy in one scenario, at G recorded rounds, with J actions and K constraints.

    Examples
    --------
    >>> run = Result(policy="safe", scenario="two-arms", rounds=[1, 2], reward=[[0.5, 1.0], [0.7, 1.2]],
    ...              observed_reward=[[1, 1], [0, 1]], cost=[[[0.1], [-0.2]], [[0.1], [0.0]]],
    ...              mean_cost=[[[0.1], [-0.2]], [[0.1], [0.0]]], counts=[[[1, 0], [1, 1]], [[0, 1], [1, 1]]],
    ...              last_violation=[[1], [1]], optimum=0.8, optimum_interval=None, baseline="fluid", seed=0,
    ...              actions=("a", "b"), constraints=("limit",), seconds=0.1)
    >>> run.regret.mean.round(3).tolist(), run.violation.mean.tolist(), run.expected_last_violation
    ([0.2, 0.5], [0.1, 0.0], 1)
    >>> run
    safe on two-arms: 2 rounds, 2 runs
      average reward   0.6 [−0.1, 1.2]: 68.8% [−10.7%, 148.2%] of the optimum, 0.8
      regret           0.5 [−0.8, 1.8]
      rules            held at the end; last above zero in round 1 [1, 1], at most 1
      rules that bind  none
    >>> print(run.summary())
    safe on two-arms: 2 rounds, 2 replications, seed 0
      regret               0.5 [−0.8, 1.8]
      average reward       0.6 [−0.1, 1.2]
      expected violation   0 [0, 0]
      path violation       0 [0, 0]
      paths in violation   0.00 [0.00, 0.66]
      last violated round  1 [1, 1], at most 1
      optimum per round    0.8 (fluid)
    """

    policy: str
    scenario: str
    rounds: NDArray[np.int64]  # (G,), recorded rounds, increasing; the last is the number of rounds played
    reward: Array  # (R, G), cumulative mean rewards r(c, a)
    observed_reward: Array  # (R, G), cumulative rewards as drawn
    cost: Array  # (R, G, K), cumulative costs as drawn
    # The same with the noise averaged out where the action can't depend on it (costs seen after acting); else equal to `cost`.
    mean_cost: Array
    counts: NDArray[np.int64]  # (R, G, J), how often each action was chosen
    # (R, K), the last round, recorded or not, at which the cumulative drawn cost was above 0; 0: never.
    last_violation: NDArray[np.int64]
    optimum: float | None  # value per round of the best policy that keeps the constraints; regret needs it
    optimum_interval: tuple[float, float] | None  # 95 %, where the optimum was estimated
    baseline: str  # where the optimum comes from: "fluid", "joint", "joint-sampled" or "given"
    seed: int
    actions: tuple[str, ...]
    constraints: tuple[str, ...]
    seconds: float  # that the simulation took
    interrupted: bool = False  # whether it was stopped early; it then holds the finished replications
    # (K,), what turns costs into the units of their rules; 1 by default. One constraint is shown in those units; a violation adds
    # up scaled costs, since rules differ in their units.
    scales: tuple[float, ...] = ()
    # (G,), what the best policy earns up to each recorded round, where its value changes with the round: `optimum` is then the
    # average over the run.
    optimal_reward: Array | None = None
    choices: NDArray[np.int16] | None = None  # (R, rounds), every action of every run
    settings: dict[str, Any] = field(default_factory=dict)  # plain description of policy and environment
    # What the policy could not do as asked, each with the remedy and the number of runs that had it; totals are checked at the
    # recorded rounds. GPU runs are not checked.
    concerns: tuple[Concern, ...] = ()

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {"actions": tuple(map(str, self.actions))}
        checked["constraints"] = tuple(map(str, self.constraints))
        rounds = checked["rounds"] = _whole("rounds", self.rounds, (None,))
        if rounds.size == 0 or rounds[0] < 1 or (np.diff(rounds) <= 0).any():
            raise InvalidInput(field="rounds", must="be increasing, not empty and start at 1 or later")
        R, G = real_array("reward", self.reward, (None, rounds.size)).shape
        J, K, total = len(self.actions), len(self.constraints), int(rounds[-1])
        if R == 0:
            raise InvalidInput(field="reward", must="have at least one replication, but its shape is (0, G)")
        shapes = {"reward": (R, G), "observed_reward": (R, G), "cost": (R, G, K), "mean_cost": (R, G, K)}
        shapes |= {"optimal_reward": (G,)} if self.optimal_reward is not None else {}
        checked |= {name: finite_array(name, getattr(self, name), shape) for name, shape in shapes.items()}
        counts = checked["counts"] = _whole("counts", self.counts, (R, G, J))
        if (counts < 0).any() or (counts.sum(axis=2) > rounds).any():
            raise InvalidInput(field="counts", must="not be negative, nor sum to more than the rounds so far")
        last = checked["last_violation"] = _whole("last_violation", self.last_violation, (R, K))
        if ((last < 0) | (last > total)).any():
            raise InvalidInput(field="last_violation", must=f"lie between 0 and the last round, {total}")
        if self.choices is not None:
            checked["choices"] = _whole("choices", self.choices, (R, total), np.int16)
        if self.baseline not in _BASELINES:
            raise InvalidInput(field="baseline", must=f"be one of {', '.join(_BASELINES)}", got=self.baseline)
        if self.optimum is not None:
            checked["optimum"] = finite_number("optimum", self.optimum)
        if self.optimum_interval is not None:
            low, high = (finite_number("optimum_interval", end) for end in self.optimum_interval)
            if low > high:
                came = Shown(f"({low:g}, {high:g})")
                raise InvalidInput(field="optimum_interval", must="be (low, high)", got=came)
            checked["optimum_interval"] = (low, high)
        scales = finite_array("scales", self.scales if len(self.scales) else np.ones(K), (K,))
        checked["scales"] = tuple(scales.tolist())
        checked["seconds"] = finite_number("seconds", self.seconds, low=0.0)
        checked["settings"] = {str(key): _plain(value) for key, value in self.settings.items()}
        for name, value in checked.items():
            object.__setattr__(self, name, _frozen(value) if isinstance(value, np.ndarray) else value)

    @property
    def n_replications(self) -> int:
        """How many independent runs it holds."""
        return int(self.reward.shape[0])

    @property
    def n_rounds(self) -> int:
        """Rounds played in each replication."""
        return int(self.rounds[-1])

    # ------------------------------------------------------------------------------------------------------------ curves

    @cached_property
    def regret(self) -> Curve:
        """τ·optimum (or the optimal reward so far) − cumulative mean reward, with a 95 % t-interval over runs.

        An estimated optimum widens the interval by its own (method of variance estimates recovery: the two errors are
        independent, so their squares add on each side).
        """
        if self.optimum is None:
            remedy = "use result.with_optimum(value), for instance with value = tr.solve(env).value"
            what = "regret needs the optimum per round, which is not known for this environment"
            raise InvalidInput(f"{what}: {remedy}.")
        best = self.rounds * self.optimum if self.optimal_reward is None else self.optimal_reward
        paths = best - self.reward
        mean, low, high = mean_interval(paths)
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
        errors from zero, into the lower end: clearly positive ones with their error e, clearly negative ones not at all, and those
        between with max(e, 0), the most that (μ + e)⁺ − μ⁺ can be. The upper end has no such trouble: it is the quantile of
        Σ_k (μ_k − e_k)⁺. Nor is it above that of the path violation, which is at least as large in expectation (unless the
        estimate is: it averages the noise of costs out).
        """
        mean = positive_part(self.mean_cost.mean(axis=0)).sum(axis=1)
        low, high = violation_interval(self.mean_cost, mean, self.path_violation.high)
        return Curve(self.rounds, mean, low, high)

    @cached_property
    def mean_cost_curve(self) -> Curve:
        """E[S_k], the expected cumulative cost by constraint, (G, K); below zero it is slack."""
        return self._over_runs(self.mean_cost)

    @cached_property
    def violation_by_constraint(self) -> Curve:
        """(E[S_k])⁺ by constraint, (G, K)."""
        cost = self.mean_cost_curve
        return Curve(self.rounds, *map(positive_part, (cost.mean, cost.low, cost.high)))

    @cached_property
    def path_violation(self) -> Curve:
        """Σ_k (S_k)⁺ within each run: its mean over runs, its quantiles, and the paths themselves."""
        curve = self._over_runs(positive_part(self.cost).sum(axis=2))
        return replace(curve, low=np.maximum(curve.low, 0.0))

    @cached_property
    def violated_share(self) -> Curve:
        """Share of runs with at least one constraint in violation, with Wilson's 95 % interval."""
        paths = (positive_part(self.cost) > 0).any(axis=2).astype(float)
        mean = paths.mean(axis=0)
        return Curve(self.rounds, mean, *share_interval(mean, self.n_replications), paths)

    @cached_property
    def shares(self) -> Curve:
        """How often each action was chosen so far, as a share of the rounds, (G, J)."""
        return self._over_runs(self.counts / self.rounds[:, None])

    def last_violated(self, group: Iterable[int | str] | None = None) -> LastViolated:
        """The last round in which any constraint of the group was in violation: of all, or of those given by index or name.

        Exact to the round, whatever rounds were recorded; by the drawn costs of each run.
        """
        if isinstance(group, str):
            raise InvalidInput(field="group", must=f"be a list of constraints, such as [{group!r}]")
        columns = list(range(len(self.constraints))) if group is None else [self._column(k) for k in group]
        if group is not None and not columns:
            raise InvalidInput(field="group", must="have at least one constraint")
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
        return replace(self, optimum=value, optimum_interval=interval, baseline=baseline, optimal_reward=None)

    # ------------------------------------------------------------------------------------------------- tables and figures

    def rows(self) -> list[Row]:
        """One dict of plain values for each recorded round; None for what is not known.

        `violation` is the expected one; `path_violation` the mean over runs of Σ_k (S_k)⁺, with its median and 95 % quantile.
        `last_violation` (mean over runs), `last_violation_max` and `expected_last_violation` are those of the whole run, the
        same in every row.
        """
        curves = {
            "regret": None if self.optimum is None else self.regret,
            "reward": self.reward_curve,
            "violation": self.violation,
            "path_violation": self.path_violation,
            "violated_share": self.violated_share,
        }
        plain = {
            "observed_reward": self.observed_reward.mean(axis=0).tolist(),
            "path_violation_median": self.path_violation.quantile(0.5).tolist(),
            "path_violation_q95": self.path_violation.quantile(0.95).tolist(),
        }
        last = self.last_violated()
        whole: Row = {"last_violation": last.mean, "last_violation_max": last.max}
        whole["expected_last_violation"] = self.expected_last_violation
        whole["replications"] = self.n_replications
        rows = []
        for g, at in enumerate(self.rounds.tolist()):
            row: Row = {"policy": self.policy, "scenario": self.scenario, "round": at}
            for name, curve in curves.items():
                row |= (curve.estimate(g) if curve else UNKNOWN).columns(name)
            rows.append(row | {name: values[g] for name, values in plain.items()} | whole)
        return rows

    def frame_rows(self) -> list[Row]:
        """`rows()`, which `to_pandas` and `to_polars` turn into a frame."""
        return self.rows()

    def summary(self) -> Summary:
        """The final round: print it, or read it as a mapping."""
        values = {**self.rows()[-1], **self.described()}
        last = self.last_violated()
        size = f"{self.n_rounds:,} rounds, {self.n_replications:,} replications, seed {self.seed}"
        title = f"{self.policy} on {self.scenario}: {size}{', interrupted' if self.interrupted else ''}"
        lines = [] if self.optimum is None else [("regret", str(self.regret.at()))]
        lines += [
            ("average reward", str(self.average_reward.at())),
            ("expected violation", str(self.violation.at())),
            ("path violation", str(self.path_violation.at())),
            ("paths in violation", str(self.violated_share.at())),
            ("last violated round", f"{last.estimate}, at most {last.max:,}"),
        ]
        if self.optimum is not None:
            lines.append(("optimum per round", f"{format_number(self.optimum)} ({self.baseline})"))
        lines += [(one.kind, in_runs(one, self.n_replications)) for one in self.concerns]
        return Summary(title, values, lines)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Regret (reward per round where the optimum is not known), expected violation and shares of the actions, by round.

        Written to `path` if given: `.png`, `.svg` or `.pdf`. Rounds are on a logarithmic axis, since violations end early.
        A notebook shows the figure by itself, without `%matplotlib inline`.
        """
        logx = self.n_rounds > 1
        if self.optimum is None:
            curve, label = NamedCurve.of("average reward", self.average_reward), "Reward per round"
        else:
            curve, label = NamedCurve.of("regret", self.regret), "Regret (reward)"
        panels = [Panel([curve], "Round", label)]
        if self.constraints:
            curve = NamedCurve.of("expected violation", self.violation)
            panels.append(Panel([curve], "Round", "Violation (cost)", logx))
        figure = panels_figure([*panels, Panel(self._share_curves(), "Round", "Share of rounds", logx)])
        if path is not None:
            save_figure(figure, path)
        return figure

    # ------------------------------------------------------------------------------------------------------------- files

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write the result into `directory`, created if necessary, and return it.

        `result.npz` is what `Result.load` reads, exact. The others are for reading: `summary.json` (rows and settings),
        `curves.csv` (the same rows), `by_constraint.csv`, `shares.csv` and `last_violation.csv`.
        """
        folder = Path(directory)
        write_summary([self], folder / "summary.json")
        write_csv(folder / "curves.csv", self.rows())
        write_csv(folder / "last_violation.csv", self._last_violation_rows())
        curves = {"cost": self.mean_cost_curve, "violation": self.violation_by_constraint}
        costs = {name: curve.times(self.scales) for name, curve in curves.items()}
        _write_long(folder / "by_constraint.csv", "constraint", self.constraints, **costs)
        _write_long(folder / "shares.csv", "action", self.actions, share=self.shares)
        self.write(folder / "result.npz")
        return folder

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Result:
        """The result that `save` wrote into `directory`."""
        return cls.read(Path(directory) / "result.npz")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the result into one file, exact, for `Result.read`."""
        header = {"format": _FORMAT, "version": _VERSION, **self.described()}
        encoded = np.frombuffer(json.dumps(header, allow_nan=False).encode(), dtype=np.uint8)
        arrays = {name: array for name in _ARRAYS if (array := getattr(self, name)) is not None}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, header=encoded, **arrays)
        write(path, buffer.getvalue())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Result:
        """The result that `write` wrote into a file."""
        try:
            with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as archive:
                arrays: dict[str, Any] = {name: archive[name] for name in archive.files}
            header = json.loads(arrays.pop("header").tobytes())
            if header.pop("format") != _FORMAT:
                raise StateDamagedError(f"{path} is not a saved result.")
            if (version := header.pop("version")) != _VERSION:
                known = f"this release reads version {_VERSION}"
                raise StateVersionError(f"{path} was saved in version {version!r} of the format; {known}.")
            interval = header.pop("optimum_interval")
            header["concerns"] = tuple(Concern(**one) for one in header.get("concerns", ()))
            return cls(**arrays, **header, optimum_interval=None if interval is None else tuple(interval))
        except (StateDamagedError, StateVersionError):
            raise
        except (KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise StateDamagedError(f"{path} can't be read as a saved result: {error}") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """The numbers that matter, in a few lines."""
        runs = f"{self.n_replications:,} run{'s' if self.n_replications > 1 else ''}"
        title = f"{self.policy} on {self.scenario}: {self.n_rounds:,} rounds, {runs}"
        lines = [("average reward", f"{self.average_reward.at()}{self._share_in_words()}")]
        lines += [] if self.optimum is None else [("regret", str(self.regret.at()))]
        if self.constraints:
            lines += [("rules", self._kept_in_words()), ("rules that bind", self._binding_in_words())]
        lines += [(one.kind, in_runs(one, self.n_replications)) for one in self.concerns]
        return repr(Summary(f"{title}{', interrupted' if self.interrupted else ''}", {}, lines))

    def _share_in_words(self) -> str:
        if self.optimum is None:
            return ""
        best = self.n_rounds * self.optimum if self.optimal_reward is None else float(self.optimal_reward[-1])
        optimum = f"the optimum, {format_number(self.optimum)}"
        if best <= 0.0:
            return f"; {optimum}"
        share, high, low = (100.0 * (1.0 - one / best) for one in self.regret.at())
        between = "" if math.isnan(low) else f" [{format_number(low, 1)}%, {format_number(high, 1)}%]"
        return f": {format_number(share, 1)}%{between} of {optimum}"

    def _kept_in_words(self) -> str:
        above, last = round(float(self.violated_share.mean[-1]) * self.n_replications), self.last_violated()
        said = (
            f"above zero at the end in {above:,} of {self.n_replications:,}" if above else "held at the end"
        )
        if not last.max:
            return f"{said}; never above zero"
        return f"{said}; last above zero in round {last.estimate}, at most {last.max:,}"

    def _binding_in_words(self) -> str:
        """The rules whose total is close to its limit at the end, or above it."""
        left = -self.mean_cost_curve.mean[-1] / self.n_rounds
        binding = np.flatnonzero(left <= _CLOSE)
        shown = binding[:_RULES_SHOWN].tolist()
        said = []
        for k in shown:
            side = "left" if left[k] >= 0.0 else "too much"
            said.append(
                f"{self.constraints[k]} ({format_number(abs(left[k]) * self.scales[k])} {side} per round)"
            )
        more = [f"{binding.size - len(shown):,} more"] if binding.size > len(shown) else []
        return ", ".join([*said, *more]) or "none"

    def _repr_html_(self) -> str:
        lines = [self._line("reward per round", self.average_reward, self.optimum, "the best there is")]
        if self.constraints:
            # The constraint with the highest total at the end, in its own unit.
            worst = int(np.argmax(self.mean_cost_curve.mean[-1]))
            name = f"total of {self.constraints[worst]}"
            total = self.mean_cost_curve.times(self.scales).column(worst)
            lines.append(self._line(name, total, 0.0, "the limit"))
        title, summary = self.summary().html_parts()
        return displays.page(title, summary, displays.figure(lines))

    def _line(self, name: str, curve: Curve, level: float | None, called: str) -> displays.Line:
        low, high = (None, None) if self.n_replications == 1 else (curve.low.tolist(), curve.high.tolist())
        return displays.Line(name, self.rounds.tolist(), curve.mean.tolist(), low, high, level, called)

    def described(self) -> dict[str, Any]:
        """All that is not an array, as plain data."""
        described = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in _ARRAYS}
        return {**described, "concerns": [asdict(one) for one in self.concerns]}

    def _over_runs(self, paths: Array) -> Curve:
        return Curve(self.rounds, *mean_interval(paths), paths)

    def _column(self, constraint: int | str) -> int:
        if isinstance(constraint, str):
            if constraint not in self.constraints:
                wanted = f"name constraints among {list(self.constraints)}"
                raise InvalidInput(field="group", must=wanted, got=constraint)
            return self.constraints.index(constraint)
        if constraint not in range(n := len(self.constraints)):
            raise InvalidInput(field="group", must=f"have indices from 0 to {n - 1}", got=constraint)
        return int(constraint)

    def _share_curves(self) -> list[NamedCurve]:
        """The most frequent actions, in their own order, and the sum of the others."""
        mean = self.shares.mean
        shown = np.sort(np.argsort(-mean[-1], kind="stable")[:_ACTIONS_SHOWN])
        curves = [NamedCurve.of(self.actions[j], self.shares.column(j)) for j in shown.tolist()]
        others = len(self.actions) - shown.size
        if others:
            rest = mean.sum(axis=1) - mean[:, shown].sum(axis=1)
            curves.append(NamedCurve(f"{others} others", self.rounds, rest))
        return curves

    def _last_violation_rows(self) -> list[Row]:
        groups = [("any", self.last_violated())]
        groups += [(name, self.last_violated([k])) for k, name in enumerate(self.constraints)]
        rows: list[Row] = []
        for name, last in groups:
            row: Row = {"constraint": name, **dict(zip(("mean", "low", "high"), map(known, last.estimate)))}
            row |= {"median": last.quantile(0.5), "q95": last.quantile(0.95)}
            rows.append(row | {"max": last.max, "never": last.never})
        return rows


def write_summary(results: Sequence[Result], path: str | os.PathLike[str]) -> None:
    """One JSON file for several results: `rows` (one for each policy, scenario and recorded round) and `runs` (their settings)."""
    if not results:
        raise InvalidInput(field="results", must="not be empty")
    runs = [{**result.described(), "replications": result.n_replications} for result in results]
    body = {"rows": [row for result in results for row in result.rows()], "runs": runs}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_json(path, body)


def _whole(
    name: str, value: Any, shape: tuple[int | None, ...], dtype: type[np.integer[Any]] = np.int64
) -> Any:
    """`value` as integers, refused if a number is not whole; not copied if it already is."""
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        # Zeros that take no memory: only the shape is checked.
        real_array(name, np.broadcast_to(0.0, value.shape), shape)
        return np.ascontiguousarray(value)
    real = finite_array(name, value, shape)
    limits = np.iinfo(dtype)
    if (real != np.trunc(real)).any() or (np.abs(real) > limits.max).any():
        raise InvalidInput(field=name, must=f"hold whole numbers up to {limits.max}")
    return real.astype(dtype)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and bool(a == b)


def _write_long(path: Path, kind: str, names: Sequence[str], **curves: Curve) -> None:
    columns = ["round", kind, *(f"{label}{end}" for label in curves for end in ENDS)]
    rows: list[dict[str, Any]] = []
    for g, at in enumerate(next(iter(curves.values())).rounds.tolist()):
        for n, name in enumerate(names):
            row = {"round": at, kind: name}
            for label, curve in curves.items():
                row |= Estimate(curve.mean[g, n], curve.low[g, n], curve.high[g, n]).columns(label)
            rows.append(row)
    write_csv(path, rows, columns)


def _plain(value: Any) -> Any:
    """`value` as JSON can hold it: an unknown object becomes the name of its class, a non-finite number becomes text."""
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
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return f"{type(value).__module__}.{type(value).__qualname__}"
