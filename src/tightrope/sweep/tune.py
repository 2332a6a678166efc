"""`tune`: the settings that meet a target with the least regret, checked on draws that did not choose them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.errors import TightropeError
from tightrope.files import replacing
from tightrope.spec import Spec, read_spec
from tightrope.sweep.cells import Cell, Plan, Row
from tightrope.sweep.design import refuse
from tightrope.sweep.engines import EngineName
from tightrope.sweep.run import Runner, Sweep, running
from tightrope.sweep.store import Rows
from tightrope.sweep.target import Target
from tightrope.sweep.toml import dumps

CHECKS = 5  # candidates that may fail the check before it is given up


class TargetMissed(TightropeError):
    """No setting that was tried meets the target, or none that did met it again on fresh draws."""

    def __init__(self, message: str, sweep: Sweep) -> None:
        super().__init__(message)
        self.sweep = sweep


@dataclass(frozen=True, eq=False)
class Tuned:
    """What `tune` found."""

    settings: dict[str, Any]  # the fields set
    policy: str
    chosen: Row  # the winner's, of the sweep
    checked: Row  # the winner's, on fresh seeds
    passed_over: int  # better candidates that failed the check
    path: Path  # of the spec to serve
    sweep: Sweep


def tune(
    spec: Spec,
    target: Target | str,
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
    named. The winner then has to meet it again with another seed; if it does not, the next one has to, with yet another.

    Parameters
    ----------
    spec : Spec
        Its ``[sweep]`` may vary fields of the policy only: world, rules and length of the run are not the policy's to choose.
    target : Target or str
        Such as "violation<=0 after 500".
    out : path
        Gets what a sweep writes, and `tuned.toml`: the spec with the winner in it, ready to serve.
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
    >>> spec = make_spec({"environment": {"kind": "bandit", "threshold": 0.5},
    ...                   "simulation": {"rounds": 500, "replications": 5}, "sweep": {"policy.caution": [1.0, 3.0]}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = tune(spec, "violation<=0 after 100", folder, workers=1)
    ...     found.checked["met"], read_spec(found.path).policies[0].settings["caution"] == found.settings["policy.caution"]
    (True, True)
    """
    goal = target if isinstance(target, Target) else Target.parse(target)
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
        if not candidates:
            raise TargetMissed(_nearest(rows, goal, len(plan)), sweep)
        found = _cells(plan, {rows["cell"][i]: None for i in candidates})
        for passed_over, i in enumerate(candidates):
            cell = found[rows["cell"][i]]
            checked = _check(runner, cell, spec.simulation.seed + 1 + passed_over)
            if checked["met"]:
                break
        else:
            raise TargetMissed(
                f"{len(candidates)} settings met the target {goal} in the sweep, but none of them on fresh seeds: "
                "raise simulation.replications, or allow for more",
                sweep,
            )
    chosen = rows.row(i)
    path = Path(out) / "tuned.toml"
    write_tuned(spec, plan, cell, path, _comment(goal, chosen, checked))
    return Tuned(dict(cell.settings), plan.names[cell.policy], chosen, checked, passed_over, path, sweep)


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


def _check(runner: Runner, cell: Cell, seed: int) -> Row:
    rung = runner.run([runner.plan.changed(cell, seed=seed)])
    row = runner.store.load(rung.names).row(0)
    if row["error"] is not None:
        raise TightropeError(f"{cell.text()} failed on fresh seeds: {row['error']}")
    return row


def _nearest(rows: Rows, goal: Target, tried: int) -> str:
    shortfall = rows["shortfall"].astype(float)
    known = np.flatnonzero(np.isfinite(shortfall))
    if not known.size:
        return f"none of the {tried:,} settings could be run; the first error: {rows['error'][0]}"
    nearest = rows.row(int(known[np.argmin(shortfall[known])]))
    fields = ", ".join(f"{name} = {value}" for name, value in nearest.items() if name.startswith("policy."))
    missed = f"the nearest, {fields}, misses it by {nearest['shortfall']:.4g}"
    return f"none of the {tried:,} settings meets the target {goal}; {missed}"


def _comment(goal: Target, chosen: Row, checked: Row) -> str:
    return (
        f"Tuned for {goal}: on {checked['replications']} fresh runs of {checked['round']} rounds (seed {checked['seed']})\n"
        f"regret {checked['regret']:.6g} [{checked['regret_low']:.6g}, {checked['regret_high']:.6g}], "
        f"violation at the end {checked['violation']:.6g}; in the sweep regret {chosen['regret']:.6g}."
    )
