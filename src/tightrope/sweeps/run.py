"""`sweep`: every cell of a design, once, on any engine; finished cells go to disk."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.files import write
from tightrope.frames import AsFrame
from tightrope.progress import Advance, progress_bar
from tightrope.report import format_estimate
from tightrope.result.curves import ENDS
from tightrope.spec import Spec
from tightrope.sweeps.analysis import best_first, ranks
from tightrope.sweeps.cells import Cell, Plan, Row, check_ends
from tightrope.sweeps.engines import Engine, EngineName, engine_for
from tightrope.sweeps.store import Rows, Store
from tightrope.version import __version__

BATCH_SECONDS = (
    1.0  # how long a batch should take: much less costs overhead, much more loses work when killed
)
MOST_CELLS = 500
# Successive halving, here by thirds: a ninth of the rounds for all, a third for the best third, all for the best ninth.
RUNGS = (1 / 9, 1 / 3, 1.0)
KEPT = 1 / 3
_SHOWN = 10  # settings in a notebook's table


@dataclass(frozen=True, eq=False)
class Rung:
    """Cells that ran for the same number of rounds: their places in the design and their names."""

    numbers: NDArray[np.int64]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Sweep(AsFrame):
    """A finished sweep: its numbers are read from disk when asked for."""

    folder: Path
    plan: Plan
    rungs: tuple[Rung, ...]  # cells in the order of the design: all, and with halving those kept, twice
    ran: int  # cells that ran now; the others were already there
    failed: int  # failed cells, now and before
    seconds: float

    def rows(self, rung: int = -1) -> Rows:
        """Settings and numbers of the cells that ran for all rounds, or of those on another rung; each cell once."""
        names = self.rungs[rung].names
        rows = Store(self.folder, self.plan.design.axes).load(names)
        place: dict[str, int] = {}
        for number, name in zip(self.rungs[rung].numbers.tolist(), names):
            place.setdefault(name, number)
        numbers = np.array([place[name] for name in rows["cell"]], dtype=np.int64)
        return Rows({**rows.columns, "number": numbers, **self.plan.columns(numbers)})

    def __repr__(self) -> str:
        cells = f"{len(self.plan):,} cells of {' × '.join(self.plan.design.paths)}"
        ran = f"{self.ran:,} ran now, {self.failed:,} failed"
        return f"Sweep({self.plan.base['name']}: {cells}; {ran}; in {self.folder})"

    def _repr_html_(self) -> str:
        rows = self.rows()
        best = [rows.row(int(i)) for i in best_first(rows)[:_SHOWN]]
        bad = [f"{one['error']} ({one['settings']})" for one in self.failures(3)] if self.failed else []
        return displays.page(
            f"Sweep of {self.plan.base['name']}: {len(self.plan):,} settings, {self.failed:,} failed",
            settings_table(best, self.plan.design.paths),
            displays.lines_of([f"The best {len(best)} of {len(rows):,}; `to_pandas()` has all."]),
            displays.lines_of(bad, warning=True),
        )

    def frame_rows(self) -> list[dict[str, Any]]:
        """Settings and numbers of the cells that ran for all rounds, a row for each."""
        first = dict.fromkeys(("number", "policy", *self.plan.design.paths))
        return [{**{name: row[name] for name in first}, **row} for row in self.rows().frame_rows()]

    def failures(self, most: int) -> list[dict[str, Any]]:
        """The first failed cells: `number`, `settings` and `error`."""
        found: list[dict[str, Any]] = []
        for rung in range(len(self.rungs)):
            rows = self.rows(rung)
            for i in np.flatnonzero(rows["error"] != None)[: most - len(found)].tolist():  # noqa: E711
                row = rows.row(i)
                settings = {path: row[path] for path in self.plan.design.paths}
                found.append({"number": row["number"], "settings": settings, "error": row["error"]})
        return found


def settings_table(rows: Sequence[Row], paths: Sequence[str]) -> displays.Html:
    labels, judged, body = ("policy", *paths), ("regret", "violation"), []
    for row in rows:
        found = [_estimate(row, name) for name in judged]
        body.append((*map(row.get, labels), *found, row["last_violation"]))
    return displays.table((*labels, *judged, "last violated round"), body)


def _estimate(row: Row, name: str) -> str | None:
    found = np.array([row[f"{name}{end}"] for end in ENDS], dtype=float)  # None is nan
    return None if row[name] is None else format_estimate(*found)


def sweep(
    spec: Spec,
    out: str | os.PathLike[str],
    *,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str | None = None,
    halving: bool = False,
    retry_failed: bool = False,
    progress: bool | None = None,
) -> Sweep:
    """Run the ``[sweep]`` of a spec; the same numbers on any engine and any number of workers.

    Parameters
    ----------
    spec : Spec
        With an ``[environment]`` and a ``[sweep]``.
    out : path
        Its subfolder `cells` gets the rows as they finish. Cells that are already there do not run again, whether from a sweep that
        was stopped or from another design with cells in common.
    engine : "local", "ray" or "gpu"
    workers : int, optional
        Cores to use; all by default. One means this process.
    address : str, optional
        Address of a Ray cluster, "auto" for the one that runs on this machine; by default one is started for the sweep.
    halving : bool
        Successive halving: all cells run for a few rounds first, and only the best go on.
    retry_failed : bool
        Run failed cells again.
    progress : bool, optional
        A progress bar on standard error; by default if that is a terminal.

    Examples
    --------
    >>> import tempfile
    >>> from tightrope.spec import make_spec
    >>> spec = make_spec({"environment": {"kind": "bandit"}, "simulation": {"rounds": 100, "replications": 2},
    ...                   "sweep": {"policy.caution": [1.0, 3.0]}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = sweep(spec, folder, workers=1)
    ...     again = sweep(spec, folder, workers=1)
    ...     first.ran, again.ran, again.rows()["policy.caution"].tolist()
    (2, 0, [1.0, 3.0])
    """
    with running(Plan.of(spec), out, engine, workers, address, progress, retry_failed) as runner:
        return runner.sweep(halving)


@contextlib.contextmanager
def running(
    plan: Plan,
    out: str | os.PathLike[str],
    engine: EngineName,
    workers: int | None,
    address: str | None,
    progress: bool | None,
    retry_failed: bool = False,
) -> Iterator[Runner]:
    chosen = engine_for(plan, engine, workers=workers, address=address)
    check_ends(plan)
    folder = Path(out)
    with Store(folder, plan.design.axes).held() as store:
        _describe(plan, folder)
        known, bad = store.finished()
        if retry_failed:
            known, bad = known - bad, set()
        with chosen:
            yield Runner(plan, folder, store, chosen, known, bad, progress)


@dataclass(eq=False)
class Runner:
    """Runs cells that have not run yet."""

    plan: Plan
    folder: Path
    store: Store
    engine: Engine
    known: set[str]
    bad: set[str]
    progress: bool | None
    ran: int = 0
    failed: int = 0
    started: float = field(default_factory=time.perf_counter)

    def sweep(self, halving: bool) -> Sweep:
        rungs: list[Rung] = []
        fractions = RUNGS if halving else (1.0,)
        sizes = [max(1, math.ceil(len(self.plan) * KEPT**i)) for i in range(len(fractions))]
        name, total = self.plan.base["name"], sum(sizes)
        with progress_bar(name, total, "cells", self.progress, failures=True) as advance:
            for fraction, size in zip(fractions, sizes):
                cells: Iterable[Cell] = self.plan.cells()
                if rungs:
                    cells = itertools.compress(cells, self._best(rungs[-1], size))
                if fraction < 1.0:
                    cells = (self._shortened(cell, fraction) for cell in cells)
                rungs.append(self.run(cells, advance))
        seconds = time.perf_counter() - self.started
        return Sweep(self.folder, self.plan, tuple(rungs), self.ran, self.failed, seconds)

    def run(self, cells: Iterable[Cell], advance: Advance = lambda done=1, failed=0: None) -> Rung:
        """Run those of the cells that have not run; give the names of all."""
        names: list[str] = []
        numbers = array("q")
        # Cells in a batch: as many as take about a second, growing from one.
        size = 1

        def new() -> Iterator[Cell]:
            for cell in cells:
                names.append(cell.id)
                numbers.append(cell.number)
                if cell.id in self.known:
                    self.failed += cell.id in self.bad
                    advance(1, int(cell.id in self.bad))
                    continue
                self.known.add(cell.id)
                yield cell

        stream = new()
        batches = iter(lambda: list(itertools.islice(stream, size)), [])
        for rows in self.engine.map(batches):
            self.store.add(rows)
            failed = sum(row["error"] is not None for row in rows)
            self.ran += len(rows)
            self.failed += failed
            fits = int(BATCH_SECONDS * len(rows) / max(sum(row["seconds"] for row in rows), 1e-9))
            size = max(1, min(fits, 2 * size, MOST_CELLS))
            advance(len(rows), failed)
        return Rung(np.array(numbers, dtype=np.int64), tuple(names))

    def _shortened(self, cell: Cell, fraction: float) -> Cell:
        """The cell with a fraction of its rounds (of those after the target's round, if it names one)."""
        rounds = cell.settings.get("simulation.rounds", self.plan.rounds)
        if not isinstance(rounds, int) or rounds < 1:
            return cell  # it will fail, and say why
        start = 0 if self.plan.target is None else min(self.plan.target.after, rounds - 1)
        return self.plan.changed(cell, rounds=start + max(1, math.ceil((rounds - start) * fraction)))

    def _best(self, rung: Rung, most: int) -> NDArray[np.bool_]:
        """Which cells of the rung go on: at most `most`."""
        rows = self.store.load(rung.names)
        place = dict(zip(rows["cell"], ranks(rows, judged=self.plan.target is not None)))
        rank = np.array([place.get(name, np.inf) for name in rung.names])
        best = np.argsort(rank, kind="stable")[:most]
        mask = np.zeros(len(self.plan), dtype=bool)
        mask[rung.numbers[best[np.isfinite(rank[best])]]] = True
        return mask


def _describe(plan: Plan, folder: Path) -> None:
    """Explain the rows in the folder, for anyone who finds it."""
    design = plan.design
    values = ((axis.path, axis.values) for axis in design.axes)
    target = None if plan.target is None else str(plan.target)
    data: dict[str, Any] = {"tightrope": __version__, "spec": plan.base, "target": target}
    data |= {"design": design.kind, "points": design.cells, "seed": design.seed}
    data["fields"] = {path: given if isinstance(given, tuple) else vars(given) for path, given in values}
    write(folder / "sweep.json", json.dumps(data, default=str, ensure_ascii=False, indent=1) + "\n")
