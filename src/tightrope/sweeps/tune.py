"""`tune`: the settings that meet a target with the least regret, checked on draws that did not choose them, at more lengths."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tightrope import displays
from tightrope.errors import TightropeError
from tightrope.files import replacing
from tightrope.frames import AsFrame
from tightrope.intervals import mean_interval
from tightrope.progress import Advance, progress_bar
from tightrope.report import format_number
from tightrope.result import Estimate
from tightrope.result.curves import UNKNOWN
from tightrope.spec import Spec, read_spec
from tightrope.sweeps.cells import Cell, Plan, Row, moved, shown
from tightrope.sweeps.design import refuse
from tightrope.sweeps.engines import EngineName
from tightrope.sweeps.run import Runner, Sweep, running, settings_table
from tightrope.sweeps.store import Rows, for_people
from tightrope.sweeps.target import FEW_RUNS, Target
from tightrope.toml import dumps

CHECKS = 5  # how many candidates may fail the check before giving up
# Lengths of the checks, in multiples of the spec's rounds: too little exploration looks good until its luck runs out.
LENGTHS = (1, 2, 5)
NO_RUN_ENDS_IN_VIOLATION = "path_violation<=0"
# What is varied by default, by kind of policy.
VARIED: dict[str, dict[str, list[float]]] = {
    "shadow-price": {"policy.explore": [0.5, 0.7, 0.85, 1.0, 1.2], "policy.caution": [2.0, 3.0, 4.0]},
    "pessimistic-optimistic": {"policy.reward.bonus": [0.01, 0.03, 0.1, 0.3, 1.0]},
}


class TargetMissed(TightropeError):
    """No setting that was tried meets the target, or none that did met it again on fresh draws."""

    def __init__(self, message: str, sweep: Sweep) -> None:
        super().__init__(message)
        self.sweep = sweep


@dataclass(frozen=True, eq=False)
class Check:
    """Some settings and the untouched spec on the same draws."""

    rounds: int
    tuned: Row
    untouched: Row
    difference: Estimate | None  # the regret of the settings less that of the spec; None if one can't run

    @classmethod
    def of(cls, rounds: int, tuned: Row, untouched: Row) -> Check:
        """The check from two rows, which must have the column `reward_by_run`."""
        tuned, untouched = dict(tuned), dict(untouched)
        ours, theirs = tuned.pop("reward_by_run"), untouched.pop("reward_by_run")
        if ours is None or theirs is None:
            return cls(rounds, tuned, untouched, None)
        return cls(rounds, tuned, untouched, Estimate(*map(float, mean_interval(np.subtract(theirs, ours)))))

    def as_data(self) -> dict[str, Any]:
        difference = (self.difference or UNKNOWN).columns("difference")
        return {"round": self.rounds, "tuned": self.tuned, "untouched": self.untouched, **difference}


@dataclass(frozen=True, eq=False)
class Trial:
    """Settings that met the target in a sweep, and how they did on fresh draws, up to the first length at which they failed."""

    settings: dict[str, Any]
    chosen: Row  # in the sweep
    checks: tuple[Check, ...]
    than: str  # how to refer to the untouched spec
    missed: tuple[int, ...] = ()  # the lengths at which the untouched spec misses the target

    @property
    def failure(self) -> str:
        """Where the settings fail or miss the target; empty if they don't."""
        last = self.checks[-1]
        if last.tuned["error"] is not None:
            return f"failed at {last.rounds:,} rounds: {last.tuned['error']}"
        if not last.tuned["met"]:
            return f"the target is missed at {last.rounds:,} rounds by {last.tuned['shortfall']:.4g}"
        return ""

    @property
    def comparable(self) -> bool:
        """Whether the untouched spec runs and meets the target too, so that regret decides."""
        return not self.missed and all(check.difference is not None for check in self.checks)

    @property
    def passed_over(self) -> bool:
        """Whether to try the next settings: these fail, or have more regret than the spec that they should improve."""
        last = self.checks[-1].difference
        return bool(self.failure) or (self.comparable and last is not None and last.mean > 0.0)

    @property
    def worth_it(self) -> bool:
        """Whether to serve the settings rather than the untouched spec, which then has clearly more regret or misses the target."""
        first = self.checks[0].difference
        clear = not self.comparable or (first is not None and first.high < 0.0)
        return clear and not self.passed_over

    @property
    def words(self) -> str:
        named = {path.removeprefix("policy."): shown(value) for path, value in self.settings.items()}
        settings = ", ".join(f"{name} {value}" for name, value in named.items())
        if not self.failure and all(check.difference == (0.0, 0.0, 0.0) for check in self.checks):
            return f"{settings}: the same decisions as {self.than}"
        found = [self._compared(), self.failure]
        if (error := self.checks[0].untouched["error"]) is not None:
            found.append(f"{self.than} can't run, so there is nothing to compare with ({error})")
        if self.missed:
            found.append(f"{self.than} missed the target at {_listed(self.missed)} rounds")
        answer = "worth it" if self.worth_it else "not worth it"
        if not self.worth_it and not self.passed_over:
            answer += ", since chance alone may explain it"
        return f"{settings}: {'; '.join(filter(None, found))}: {answer}"

    def as_data(self) -> dict[str, Any]:
        found = {"passed_over": self.passed_over, "worth_it": self.worth_it, "verdict": self.words}
        checks = [check.as_data() for check in self.checks]
        return {"settings": self.settings, "chosen": self.chosen, "checks": checks, **found}

    def _compared(self) -> str:
        parts: list[str] = []
        for check in self.checks:
            if (difference := check.difference) is None:
                continue
            regret, size = check.untouched["regret"], abs(difference.mean)
            amount = f"{100 * size / regret:.0f} %" if regret and regret > 0.0 else format_number(size)
            kind = "more" if difference.mean > 0.0 else "less"
            than, rounds = ("", "") if parts else (f" regret than {self.than}", " rounds")
            parts.append(f"{amount} {kind}{than} at {check.rounds:,}{rounds} ({difference})")
        return ", ".join(parts)


def _listed(rounds: Sequence[int]) -> str:
    *most, last = (f"{one:,}" for one in rounds)
    return f"{', '.join(most)} and {last}" if most else last


@dataclass(frozen=True, eq=False)
class Tuned(AsFrame):
    """What `tune` found: whether it was worth it, and the spec to serve."""

    target: Target
    settings: dict[str, Any]  # the fields set; none where the untouched spec is best
    policy: str
    trials: tuple[Trial, ...]  # the settings that were checked, in turn; the last are served if worth it
    untouched: tuple[Row, ...]  # the spec as it stands, at each length; on the winner's draws if there is one
    than: str  # how to refer to the spec as it stands
    path: Path  # of the spec to serve
    sweep: Sweep

    @property
    def worth_it(self) -> bool:
        return bool(self.settings)

    @property
    def chosen(self) -> Row | None:
        return self.trials[-1].chosen if self.worth_it else None

    @property
    def checked(self) -> tuple[Row, ...]:
        """What is served, on fresh draws, at each length."""
        return tuple(check.tuned for check in self.trials[-1].checks) if self.worth_it else self.untouched

    @property
    def words(self) -> list[str]:
        """A line for each of the checked settings, and finally whether tuning was worth it."""
        found = [trial.words for trial in self.trials]
        return found if self.worth_it else [*found, f"tuning was not worth it: serve {self.than}"]

    @property
    def reach(self) -> str:
        """How the spec to serve was checked, and how far that goes."""
        rounds, runs = [row["round"] for row in self.checked], self.checked[0]["replications"]
        met = (
            f"it met {self.target} on {runs} fresh runs each in {_listed(rounds)} rounds of this environment"
        )
        return f"{met}; it was not tried beyond {rounds[-1]:,} rounds or in another environment"

    def __repr__(self) -> str:
        found = f"settings={self.settings}" if self.worth_it else f"not worth it: serve {self.than}"
        return f"Tuned({found}, target={str(self.target)!r}, spec={str(self.path)!r})"

    def _repr_html_(self) -> str:
        found = "Tuning was worth it" if self.worth_it else "Tuning was not worth it"
        return displays.page(
            f"{found}, for {self.target}",
            displays.facts([*self.settings.items(), ("spec to serve", str(self.path))]),
            displays.lines_of(["On fresh draws, at each length:"]),
            settings_table([{**row, "length": row["round"]} for row in self.checked], ("length",)),
            displays.lines_of(self.words),
        )

    def frame_rows(self) -> list[dict[str, Any]]:
        """What is served and the spec as it stands, on fresh draws, a row for each length."""
        runs = [("tuned", self.checked)] if self.worth_it else []
        runs.append((self.than, self.untouched))
        return [{"run": run, **for_people(row)} for run, rows in runs for row in rows]

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"target": str(self.target), "reach": self.reach}
        data |= {"policy": self.policy, "settings": self.settings, "worth_it": self.worth_it}
        data |= {"verdict": self.words, "rows": list(self.checked)}
        return data | {"trials": [trial.as_data() for trial in self.trials], "spec": str(self.path)}


def tune(
    spec: Spec,
    target: Target | str | None,
    out: str | os.PathLike[str],
    *,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str | None = None,
    halving: bool = False,
    progress: bool | None = None,
) -> Tuned:
    """Sweep the policy's settings, take those that meet the target, and of them the one with the least regret.

    A setting meets a target if the high end of the 95 % interval does, at the last round or at each recorded round after the one
    named. The winner then has to meet it again with another seed, over the same number of rounds, twice and five times as many
    (there without the target's limit on regret), and with no more regret than the spec as it stands on the same draws. If it does
    not, the next one is tried, with yet another seed. If none does, or if chance may explain the gain, the spec as it stands is
    best.

    Parameters
    ----------
    spec : Spec
        Its ``[sweep]`` may vary only fields of the policy: a policy can't choose the world, the rules or the length of the run.
        Without one, `explore` and `caution` of a shadow-price policy are varied, and the bonus of a pessimistic-optimistic one.
    target : Target or str, optional
        Such as "violation<=0 after 500"; by default no run may end in violation, "path_violation<=0".
    out : path
        Gets what a sweep writes, and `tuned.toml`: the spec to serve.
    engine, workers, address, halving, progress
        As in `sweep`.

    Raises
    ------
    TargetMissed
        Its `sweep` holds what was tried.

    Examples
    --------
    >>> import tempfile
    >>> from tightrope.spec import make_spec
    >>> spec = make_spec({"environment": {"kind": "bandit", "threshold": 0.5}, "policy": {"kind": "pessimistic-optimistic"},
    ...                   "simulation": {"rounds": 500, "replications": 5}, "sweep": {"policy.slater": [0.1, 0.5]}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = tune(spec, "violation<=0 after 100", folder, workers=1)
    ...     [row["round"] for row in found.checked], all(row["met"] for row in found.checked), read_spec(found.path).sweep
    ([500, 1000, 2500], True, {})
    """
    goal = target if isinstance(target, Target) else Target.parse(target or NO_RUN_ENDS_IN_VIOLATION)
    spec = _with_sweep(spec)
    plan = Plan.of(spec, goal)
    for axis in plan.design.axes:
        if axis.steps[0] != "policy":
            refuse(spec, axis.path, "can't be tuned: only fields of the policy can")
    goal.recorded(spec.simulation.rounds)
    if spec.simulation.replications < 2:
        raise spec.error(FEW_RUNS)
    with running(plan, out, engine, workers, address, progress) as runner:
        sweep = runner.sweep(halving)
        rows = sweep.rows()
        met = np.flatnonzero(rows["met"] == True)  # noqa: E712
        candidates = met[np.argsort(rows["regret"].astype(float)[met], kind="stable")][:CHECKS].tolist()
        wanted = set(rows["cell"][candidates])
        found = {cell.id: cell for cell in plan.cells() if cell.id in wanted}
        fresh = spec.simulation.seed + 1
        rival = _rival(runner, fresh)
        trials: list[Trial] = []
        for i in candidates:
            cell = found[rows["cell"][i]]
            trials.append(_trial(runner, cell, rows.row(i), rival, fresh + len(trials)))
            if not trials[-1].passed_over:
                break
        untouched = rival.rows
        if trials and trials[-1].worth_it:
            untouched = tuple(check.untouched for check in trials[-1].checks)
        elif rival.rank[0]:
            raise TargetMissed(_missed(plan, goal, rows, trials, rival), sweep)
        else:
            cell = rival.cell
    path = Path(out) / "tuned.toml"
    settings, policy = dict(cell.settings), plan.names[cell.policy]
    tuned = Tuned(goal, settings, policy, tuple(trials), untouched, rival.called, path, sweep)
    _write(spec, plan, cell, path, _comment(tuned))
    return tuned


def _write(spec: Spec, plan: Plan, cell: Cell, path: Path, comment: str) -> None:
    """Write the spec with a cell's settings, as the one policy, and without its ``[sweep]``."""
    tables = plan.tables(cell.policy, cell.settings)
    order = [name for name in spec.data if name in tables]
    data = {name: tables[name] for name in dict.fromkeys(["name", *order, "policy"])}
    there = path.resolve().parent
    for table, field in (("environment", "file"), ("context", "encoder"), ("warm_start", "file")):
        stated = data.get(table)
        if isinstance(stated, Mapping) and isinstance(stated.get(field), str):
            data[table] = {**stated, field: os.path.relpath(plan.folder / stated[field], there)}
    data = moved(data, plan.folder, there)
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    with replacing(path) as draft:
        draft.write_text(head + dumps(data), encoding="utf-8")
        read_spec(draft, trust=plan.trust)


def _with_sweep(spec: Spec) -> Spec:
    """The spec with the fields that are varied by default, if it names none."""
    if spec.sweep:
        return spec
    kinds = {policy.kind for policy in spec.policies}
    if len(kinds) > 1 or not kinds <= set(VARIED):
        known = " and ".join(map(repr, VARIED))
        refuse(spec, "", f"is missing: it names the fields to vary. Only {known} have default ones")
    return msgspec.structs.replace(spec, sweep=VARIED[kinds.pop()])


class _Rival(NamedTuple):
    """The spec as it stands, which is served unless settings are found that are better: the best of its policies, if several."""

    cell: Cell
    called: str
    rows: tuple[Row, ...]  # on fresh draws, at each length

    @property
    def rank(self) -> tuple[bool, float]:
        regret = self.rows[0]["regret"]
        return not all(row["met"] for row in self.rows), math.inf if regret is None else regret


def _rival(runner: Runner, seed: int) -> _Rival:
    rivals = []
    for policy in range(len(runner.plan.names)):
        cell = runner.plan.cell(-1, policy, {})  # no field is set, so it has no place in the design
        rows = _run(runner, [(cell, times) for times in LENGTHS], seed)
        for row in rows:
            del row["reward_by_run"]
        rivals.append(_Rival(cell, _called(runner.plan, policy), tuple(rows)))
    return min(rivals, key=lambda one: one.rank)


def _trial(runner: Runner, cell: Cell, chosen: Row, rival: _Rival, seed: int) -> Trial:
    """The settings and their rival on fresh draws, in longer and longer runs while they hold."""
    missed = tuple(row["round"] for row in rival.rows if row["met"] is False)
    trial = Trial(cell.settings, chosen, (), rival.called, missed)
    with progress_bar("fresh draws", 2 * len(LENGTHS), "runs", runner.progress) as advance:
        for times in LENGTHS:
            pair = _run(runner, [(cell, times), (rival.cell, times)], seed, advance)
            trial = replace(trial, checks=(*trial.checks, Check.of(times * runner.plan.rounds, *pair)))
            if trial.passed_over:
                break
    return trial


def _run(runner: Runner, longer: Iterable[tuple[Cell, int]], seed: int, *advance: Advance) -> list[Row]:
    """A row for each cell, in runs `times` as long, on the draws of `seed`; two may be the same cell."""
    plan = runner.plan
    cells = [plan.changed(one, rounds=times * plan.rounds, seed=seed, by_run=True) for one, times in longer]
    return [runner.store.load([name], by_run=True).row(0) for name in runner.run(cells, *advance).names]


def _called(plan: Plan, policy: int) -> str:
    """The untouched spec in words: the defaults, unless it states a field that was varied."""
    if len(plan.names) > 1:
        return f"{plan.names[policy]} as it stands"
    for axis in plan.design.axes:
        stated: Any = plan.tables(policy, {})
        for step in axis.steps:
            if isinstance(step, str):  # a number is the position of the only policy
                stated = stated.get(step) if isinstance(stated, Mapping) else None
        if stated is not None:
            return "the spec as it stands"
    return "the defaults"


def _missed(plan: Plan, goal: Target, rows: Rows, trials: Sequence[Trial], rival: _Rival) -> str:
    if trials:
        rounds = _listed([times * plan.rounds for times in LENGTHS])
        missed = f"on fresh draws none of them met it in {rounds} rounds, and neither did {rival.called}"
        remedy = "raise simulation.replications, or allow for more"
        head = f"{len(trials)} settings met the target {goal} in the sweep, but {missed}: {remedy}"
        return "\n".join([head, *(f"  {trial.words}" for trial in trials)])
    shortfall = rows["shortfall"].astype(float)
    if not np.isfinite(shortfall).any():
        return f"none of the {len(plan):,} settings could be run; the first error: {rows['error'][0]}"
    nearest = rows.row(int(np.nanargmin(shortfall)))
    fields = ", ".join(f"{name} = {value}" for name, value in nearest.items() if name.startswith("policy."))
    missed = f"the nearest, {fields}, misses it by {nearest['shortfall']:.4g}"
    return f"none of the {len(plan):,} settings meets the target {goal}; {missed}"


def _comment(tuned: Tuned) -> str:
    checks = [
        f"{row['round']:,} rounds: regret {row['regret']:.6g} [{row['regret_low']:.6g}, {row['regret_high']:.6g}], "
        f"{100 * row['violated_share']:.0f} % of the runs end in violation"
        for row in tuned.checked
    ]
    first = tuned.checked[0]
    head = f"Tuned for {tuned.target}: on {first['replications']} fresh runs (seed {first['seed']}) of"
    return "\n".join([head, *checks, *tuned.words, f"To serve: {tuned.reach}."])
