"""`tune`: the settings that meet a target with the least regret, checked on draws that did not choose them, at more lengths."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tightrope.errors import TightropeError
from tightrope.files import replacing
from tightrope.progress import progress_bar
from tightrope.spec import Spec, read_spec
from tightrope.sweep.cells import Cell, Plan, Row
from tightrope.sweep.design import Step, refuse
from tightrope.sweep.engines import EngineName
from tightrope.sweep.run import Runner, Sweep, running
from tightrope.sweep.store import Rows
from tightrope.sweep.target import Target
from tightrope.sweep.toml import dumps
from tightrope.sweep.verdict import Check, Trial

CHECKS = 5  # candidates that may fail the check before it is given up
LENGTHS = (
    1,
    2,
    5,
)  # of the checks, in horizons: what explores too little looks good until its luck has run out
NO_RUN_ENDS_IN_VIOLATION = "path_violation<=0"
# What is varied where the spec does not say, by the kind of its policy.
VARIED: dict[str, dict[str, list[float]]] = {
    "shadow-price": {"policy.explore": [0.5, 0.7, 0.85, 1.0, 1.2], "policy.caution": [2.0, 3.0, 4.0]},
}


class TargetMissed(TightropeError):
    """No setting that was tried meets the target, or none that did met it again on fresh draws."""

    def __init__(self, message: str, sweep: Sweep) -> None:
        super().__init__(message)
        self.sweep = sweep


@dataclass(frozen=True, eq=False)
class Tuned:
    """What `tune` found: whether it was worth it, and the spec to serve."""

    target: Target
    settings: dict[str, Any]  # the fields set; none where the untouched spec is best
    policy: str
    trials: tuple[
        Trial, ...
    ]  # the settings that were checked, in turn; the last ones are served if they are worth it
    untouched: tuple[Row, ...]  # the spec as it stands, on the draws of the last check
    than: str  # what the spec as it stands is called
    path: Path  # of the spec to serve
    sweep: Sweep

    @property
    def worth_it(self) -> bool:
        """Whether settings were found that are better than those of the untouched spec."""
        return bool(self.settings)

    @property
    def chosen(self) -> Row | None:
        """The winner's row in the sweep."""
        return self.trials[-1].chosen if self.worth_it else None

    @property
    def checked(self) -> tuple[Row, ...]:
        """What is served, on fresh draws, at each length."""
        return tuple(check.tuned for check in self.trials[-1].checks) if self.worth_it else self.untouched

    @property
    def words(self) -> list[str]:
        """A line for each of the settings that were checked, the last words being whether tuning was worth it."""
        found = [trial.words for trial in self.trials]
        return (
            found if self.worth_it else [*found, f"tuning was not worth it: the spec to serve is {self.than}"]
        )

    def as_data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "target": str(self.target),
            "policy": self.policy,
            "settings": self.settings,
            "worth_it": self.worth_it,
            "verdict": self.words,
            "rows": list(self.checked),
            "trials": [trial.as_data() for trial in self.trials],
            "spec": str(self.path),
        }


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
    named. The winner then has to meet it again with another seed, in as many rounds, in twice and in five times as many (in these
    without what the target says of regret), and with no more regret than the spec as it stands on the same draws. If it does not,
    the next one has to, with yet another seed. If none does, or chance may explain what is gained, the spec as it stands is best.

    Parameters
    ----------
    spec : Spec
        Its ``[sweep]`` may vary fields of the policy only: world, rules and length of the run are not the policy's to choose.
        Without one, `explore` and `caution` of a shadow-price policy are varied.
    target : Target or str, optional
        Such as "violation<=0 after 500"; by default no run may end in violation, "path_violation<=0".
    out : path
        Gets what a sweep writes, and `tuned.toml`: the spec to serve.
    engine, workers, address, halving, progress
        As in `run_sweep`.

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
            refuse(spec, axis.path, "can't be tuned: only the policy's own fields are for tuning to choose")
    goal.recorded(spec.simulation.rounds)
    if spec.simulation.replications < 2:
        why = "a target is judged by the interval over runs"
        raise spec.error(f"simulation.replications: must be at least 2: {why}")
    with running(plan, out, engine, workers, address, progress) as runner:
        sweep = runner.sweep(halving)
        rows = sweep.rows()
        candidates = _candidates(rows)
        found = _cells(plan, {rows["cell"][i]: None for i in candidates})
        trials: list[Trial] = []
        for i in candidates:
            cell = found[rows["cell"][i]]
            trials.append(_trial(runner, cell, rows.row(i), spec.simulation.seed + 1 + len(trials)))
            if not trials[-1].passed_over:
                break
        if trials and trials[-1].worth_it:
            untouched = [check.untouched for check in trials[-1].checks]
        else:
            cell = plan.untouched(cell.policy if trials else 0)
            untouched = _lengths(runner, cell, spec.simulation.seed + max(1, len(trials)))
            if not all(row["met"] for row in untouched):
                raise TargetMissed(_missed(plan, goal, rows, trials), sweep)
    path = Path(out) / "tuned.toml"
    tuned = Tuned(
        goal,
        dict(cell.settings),
        plan.names[cell.policy],
        tuple(trials),
        tuple(untouched),
        _than(plan, cell),
        path,
        sweep,
    )
    write_tuned(spec, plan, cell, path, _comment(goal, tuned))
    return tuned


def write_tuned(spec: Spec, plan: Plan, cell: Cell, path: Path, comment: str = "") -> None:
    """Write the spec with a cell's settings, as the one policy, and without its ``[sweep]``."""
    tables = plan.tables(cell.policy, cell.settings)
    order = [name for name in spec.data if name in tables]
    data = {name: tables[name] for name in dict.fromkeys(["name", *order, "policy"])}
    environment = data.get("environment")
    if isinstance(environment, Mapping) and isinstance(environment.get("file"), str):
        file = os.path.relpath(plan.folder / environment["file"], path.resolve().parent)
        data["environment"] = {**environment, "file": file}
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    with replacing(path) as draft:
        draft.write_text(head + dumps(data), encoding="utf-8")
        read_spec(draft)


def _candidates(rows: Rows) -> list[int]:
    met = np.flatnonzero(rows["met"] == True)  # noqa: E712
    regret = rows["regret"].astype(float)[met]
    return [int(i) for i in met[np.argsort(regret, kind="stable")][:CHECKS]]


def _cells(plan: Plan, wanted: Mapping[str, None]) -> dict[str, Cell]:
    """The cells with these names."""
    found: dict[str, Cell] = {}
    for cell in plan.cells():
        if cell.id in wanted:
            found[cell.id] = cell
            if len(found) == len(wanted):
                break
    return found


def _with_sweep(spec: Spec) -> Spec:
    """The spec with the fields that are varied by default, if it names none."""
    if spec.sweep:
        return spec
    kinds = {policy.kind for policy in spec.policies}
    if len(kinds) > 1 or not kinds <= set(VARIED):
        known = " or ".join(map(repr, VARIED))
        refuse(
            spec, "", f"is missing: it names the fields to vary, which are known without it for {known} alone"
        )
    return msgspec.structs.replace(spec, sweep=VARIED[kinds.pop()])


def _trial(runner: Runner, cell: Cell, chosen: Row, seed: int) -> Trial:
    """The settings beside the untouched spec on fresh draws, at greater and greater length while they hold."""
    plan = runner.plan
    pair, than = (cell, plan.untouched(cell.policy)), _than(plan, cell)
    trial = Trial(cell.settings, chosen, (), than)
    with progress_bar("fresh draws", 2 * len(LENGTHS), "runs", runner.progress) as advance:
        for times in LENGTHS:
            rounds = times * plan.rounds
            cells = [plan.changed(one, seed=seed, rounds=rounds, by_run=True) for one in pair]
            rung = runner.run(cells, advance)
            rows = runner.store.load(rung.names, by_run=True)
            check = Check.of(rounds, rows.row(0), rows.row(1))
            trial = Trial(cell.settings, chosen, (*trial.checks, check), than)
            if trial.passed_over or check.same:
                break
    return trial


def _lengths(runner: Runner, cell: Cell, seed: int) -> list[Row]:
    """A cell on fresh draws, at each length."""
    rounds = [times * runner.plan.rounds for times in LENGTHS]
    cells = [runner.plan.changed(cell, seed=seed, rounds=one, by_run=True) for one in rounds]
    rows = runner.store.load(runner.run(cells).names)
    return [rows.row(i) for i in range(len(rows))]


def _than(plan: Plan, cell: Cell) -> str:
    """What the untouched spec is called: the defaults, unless it states a field that was varied."""
    tables = plan.tables(cell.policy, {})
    stated = [axis for axis in plan.design.axes if _states(tables, axis.steps)]
    return "the spec as it stands" if stated else "the defaults"


def _states(tables: Any, steps: Sequence[Step]) -> bool:
    for step in steps:
        if isinstance(step, int):
            continue  # of several policies, the one at hand
        if not isinstance(tables, Mapping) or step not in tables:
            return False
        tables = tables[step]
    return True


def _missed(plan: Plan, goal: Target, rows: Rows, trials: Sequence[Trial]) -> str:
    if not trials:
        return _nearest(rows, goal, len(plan))
    lines = [
        f"{len(trials)} settings met the target {goal} in the sweep, but none of them on fresh draws, nor does the spec as it "
        "stands: raise simulation.replications, or allow for more",
        *(f"  {trial.words}" for trial in trials),
    ]
    return "\n".join(lines)


def _nearest(rows: Rows, goal: Target, tried: int) -> str:
    shortfall = rows["shortfall"].astype(float)
    known = np.flatnonzero(np.isfinite(shortfall))
    if not known.size:
        return f"none of the {tried:,} settings could be run; the first error: {rows['error'][0]}"
    nearest = rows.row(int(known[np.argmin(shortfall[known])]))
    fields = ", ".join(f"{name} = {value}" for name, value in nearest.items() if name.startswith("policy."))
    missed = f"the nearest, {fields}, misses it by {nearest['shortfall']:.4g}"
    return f"none of the {tried:,} settings meets the target {goal}; {missed}"


def _comment(goal: Target, tuned: Tuned) -> str:
    checks = [
        f"{row['round']:,} rounds: regret {row['regret']:.6g} [{row['regret_low']:.6g}, {row['regret_high']:.6g}], "
        f"{row['violated_share']:.0%} of the runs end in violation"
        for row in tuned.checked
    ]
    first = tuned.checked[0]
    head = f"Tuned for {goal}: on {first['replications']} fresh runs (seed {first['seed']}) of"
    return "\n".join([head, *checks, *tuned.words])
