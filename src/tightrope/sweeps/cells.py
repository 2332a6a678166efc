"""Cells: one setting of one policy each, identified by a hash of everything its numbers depend on, and run independently."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.engine import simulate
from tightrope.environments.build import environment_of
from tightrope.environments.custom import Custom
from tightrope.environments.tabular import Tabular
from tightrope.errors import InfeasibleProblem, InvalidInput, TightropeError
from tightrope.messages import leaves
from tightrope.oracle import solve
from tightrope.policies.build import build_policy
from tightrope.policies.hooks import Player
from tightrope.result import Result
from tightrope.spec import SimulationSpec, Spec, make_spec, named_kinds
from tightrope.sweeps.design import Design, own_steps, put, steps_of
from tightrope.sweeps.target import Target, since
from tightrope.validation import Array
from tightrope.version import __version__

Row: TypeAlias = dict[str, Any]

MEASURES = (
    *("regret", "regret_low", "regret_high", "reward", "violation", "violation_low", "violation_high"),
    *("path_violation", "path_violation_low", "path_violation_high", "violated_share"),
    *("last_violation", "last_violation_max"),
)

_SIZE = ("round", "replications", "seed")
_DTYPES: dict[str, type] = {"bool": object, "int": np.int64, "float": np.float64, "text": object}
_FORMAT = 2  # version of what is measured: a change gives every cell a new name
_KEPT = 8


class Cell(NamedTuple):
    """One setting of one policy: its place in the design, which policy, the fields set, and its name, a hash.

    With `by_run` the reward of each run is kept too, for comparisons of two cells run by run.
    """

    number: int
    policy: int
    settings: dict[str, Any]
    id: str
    by_run: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """A spec and a design, as data that can be sent to another process.

    >>> spec = make_spec({"environment": {"kind": "bandit"}, "sweep": {"policy.caution": [1.0, 3.0]}})
    >>> [cell.settings for cell in Plan.of(spec).cells()]
    [{'policy.caution': 1.0}, {'policy.caution': 3.0}]
    """

    source: str
    folder: Path
    base: dict[str, Any]
    names: tuple[str, ...]
    design: Design
    target: Target | None = None
    trust: bool = False

    @classmethod
    def of(cls, spec: Spec, target: Target | None = None) -> Plan:
        """The plan that a spec's ``[sweep]`` states."""
        if spec.environment is None:
            raise spec.error("environment: is missing: a sweep needs one to draw rewards and costs")
        # Kinds are explicit, because the hash covers the text: results under another default must not match.
        policies = named_kinds(spec.data.get("policy", {}))
        base = {name: value for name, value in spec.data.items() if name != "sweep"} | {
            "name": spec.name,
            "policy": policies if isinstance(policies, list) else [policies],
        }
        names = tuple(policy.name for policy in spec.policies)
        folder = spec.environment.folder.resolve()
        return cls(spec.source, folder, base, names, Design.of(spec), target, spec.trust)

    def __len__(self) -> int:
        return self.design.cells * len(self.names)

    def cells(self) -> Iterator[Cell]:
        """Every cell, in the order of the design, made one by one."""
        count = itertools.count()
        for point in self.design.points():
            for policy in range(len(self.names)):
                yield self.cell(next(count), policy, dict(zip(self.design.paths, point)))

    def columns(self, numbers: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The values of each field in the cells with these numbers."""
        points, back = np.unique(numbers // len(self.names), return_inverse=True)
        wanted = np.zeros(self.design.cells if points.size else 0, dtype=bool)
        wanted[points] = True
        found: list[NDArray[Any]] = [np.empty(points.size, _DTYPES[axis.column]) for axis in self.design.axes]
        for j, point in enumerate(itertools.compress(self.design.points(), wanted)):
            for column, value in zip(found, point):
                column[j] = value
        return {path: column[back] for path, column in zip(self.design.paths, found)}

    def cell(self, number: int, policy: int, settings: dict[str, Any], by_run: bool = False) -> Cell:
        parts = self._digests(_PARTS, self.tables(policy, settings))
        parts |= {"format": str(_FORMAT), "version": __version__, "target": str(self.target or "")}
        parts |= {"by_run": "yes"} if by_run else {}
        return Cell(number, policy, settings, _hash(parts), by_run)

    def changed(self, cell: Cell, *, by_run: bool = False, **simulation: int) -> Cell:
        """The cell with other rounds or another seed: a different cell at the same place in the design."""
        settings = cell.settings | {f"simulation.{name}": value for name, value in simulation.items()}
        return self.cell(cell.number, cell.policy, settings, by_run)

    def tables(self, policy: int, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The spec's tables with the settings in them and one `policy`."""
        data = self.base
        for path, value in settings.items():
            data = put(data, own_steps(steps_of(path), policy), value)
        return {**data, "policy": data["policy"][policy]}

    @property
    def rounds(self) -> int:
        """How long the spec's runs are, unless a cell says otherwise."""
        return int(self.base.get("simulation", {}).get("rounds", SimulationSpec().rounds))

    def goal(self, rounds: int) -> Target | None:
        """The target of a run: regret grows with the rounds, so runs longer than the spec's are judged by violation alone."""
        return self.target if self.target is None or rounds <= self.rounds else self.target.without_regret()

    def recorded(self, rounds: int) -> list[int]:
        goal = self.goal(rounds)
        return [rounds] if goal is None else goal.recorded(rounds)

    def solved(self, tables: Mapping[str, Any]) -> _Solved:
        """The environment with its optimum; made if it is new, and kept for the next cells."""
        stated = tables["policy"]
        seen = stated.get("costs_seen") if isinstance(stated, Mapping) else None
        parts = self._digests(_ENVIRONMENT, tables)
        key = _hash({**parts, "seen": str(seen), "folder": str(self.folder)})
        found = _recent[key] = _recent.pop(key) if key in _recent else _Solved.of(self._environment(tables))
        if len(_recent) > _KEPT:
            del _recent[next(iter(_recent))]
        return found

    def spec(self, tables: Mapping[str, Any]) -> Spec:
        return make_spec(tables, source=self.source, folder=self.folder, trust=self.trust)

    def _environment(self, tables: Mapping[str, Any]) -> Tabular | Custom:
        seen = {name: value for name, value in tables["policy"].items() if name == "costs_seen"}
        parts = (*_ENVIRONMENT, "context") if _reads_rows(tables) else _ENVIRONMENT
        return environment_of(self.spec({**{p: tables[p] for p in parts if p in tables}, "policy": seen}))

    def _digests(self, parts: Sequence[str], tables: Mapping[str, Any]) -> dict[str, str]:
        return {part: self._fixed.get(part) or self._hash_of(part, tables) for part in parts}

    @cached_property
    def _fixed(self) -> dict[str, str]:
        varied = {axis.steps[0] for axis in self.design.axes} | {"policy", "simulation"}
        return {part: self._hash_of(part, self.base) for part in _PARTS if part not in varied}

    def _hash_of(self, part: str, tables: Mapping[str, Any]) -> str:
        value = tables.get(part)
        file = value.get("file") if part == "environment" and isinstance(value, Mapping) else None
        if part == "environment" and _reads_rows(tables):
            context = tables.get("context", {})
            value = [value, context, self._content(context.get("encoder"))]
        own = sorted({place for _, leaf in leaves(value) if (place := _own_class(leaf)[0])})
        return _hash([value, self._content(file), *map(self._content, own)])

    def _content(self, file: Any) -> str:
        return _file_hash(self.folder / file) if isinstance(file, str) else ""


_ENVIRONMENT = ("name", "actions", "rule", "environment")
_PARTS = (*_ENVIRONMENT, "policy", "simulation")


def run_cells(plan: Plan, cells: Sequence[Cell]) -> list[Row]:
    return [_run(plan, cell) for cell in cells]


def run_cells_on_gpu(plan: Plan, cells: Sequence[Cell], device: Any = None) -> list[Row]:
    """Like `run_cells`, but cells with one environment and size share a launch, in double precision: the CPU's choices."""
    rows: dict[str, Row] = {}
    alike: dict[tuple[Any, ...], list[tuple[Cell, _Built]]] = {}
    for cell in cells:
        started = time.perf_counter()
        try:
            built = _build(plan, plan.tables(cell.policy, cell.settings))
        except Exception as error:
            rows[cell.id] = failed_row(plan, cell, error, time.perf_counter() - started)
        else:
            alike.setdefault((id(built.solved), *built.shape), []).append((cell, built))
    launches = list(alike.values())
    while launches:
        members = launches.pop()
        try:
            rows |= _launched(plan, members, device)
        except Exception as error:
            if len(members) == 1:
                rows[members[0][0].id] = failed_row(plan, members[0][0], error)
            else:
                launches += [[member] for member in members]  # one by one, so that each reports its own error
    return [rows[cell.id] for cell in cells]


def _launched(plan: Plan, members: list[tuple[Cell, _Built]], device: Any) -> dict[str, Row]:
    from tightrope.engine.gpu import simulate_many

    started = time.perf_counter()
    first, policies = members[0][1], [built.policy for _, built in members]
    env: Any = first.solved.env  # simulate_many refuses what it can't run
    record = plan.recorded(first.size.rounds)
    options: dict[str, Any] = {"record": record, "precision": "double", "optimum": 0.0, "device": device}
    runs = simulate_many(policies, env, *first.shape, **options)
    seconds = (time.perf_counter() - started) / len(members)
    pairs = zip(members, runs, strict=True)
    return {cell.id: _row(plan, cell, built, run, seconds) for (cell, built), run in pairs}


def failed_row(plan: Plan, cell: Cell, error: Exception | str, seconds: float = 0.0) -> Row:
    """The row of a failed cell: whatever is wrong with one cell, the others go on."""
    told = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else error
    return {
        **_head(plan, cell),
        **dict.fromkeys(("scenario", *_SIZE, *MEASURES, "met", "shortfall", "reward_by_run")),
        "seconds": seconds,
        "error": str(error) if isinstance(error, TightropeError) else told,
    }


def check_ends(plan: Plan) -> None:
    """Refuse a plan if neither its first nor its last point can be built: then the fault is not in a setting's value.

    Raises
    ------
    SpecError, InvalidInput or InfeasibleProblem
    """
    points = plan.design.points()
    first = next(points)
    errors: list[Exception] = []
    for point in (first, *deque(points, maxlen=1)):
        for policy in range(len(plan.names)):
            try:
                _build(plan, plan.tables(policy, dict(zip(plan.design.paths, point))))
            except (InvalidInput, InfeasibleProblem) as error:
                errors.append(error)
            else:
                return
    raise errors[0]


def shown(value: Any) -> str:
    """A value as TOML writes it, near enough for people."""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


# --- running one ---


@dataclass(frozen=True, eq=False)
class _Solved:
    """An environment with its optimum, made once because cells share it."""

    env: Tabular | Custom
    optimum: float | None
    interval: tuple[float, float] | None
    baseline: str

    @classmethod
    def of(cls, env: Tabular | Custom) -> _Solved:
        if isinstance(env, Custom) and env.optimum is not None:
            return cls(env, env.optimum, None, "given")
        if isinstance(env, Custom) and env.means is None:
            what = f"settings are ranked by regret, which is not known in {env.name!r}"
            raise InvalidInput(f"{what}: give its `means` or its `optimum`")
        try:
            found = solve(env)
        except InfeasibleProblem:
            return cls(env, None, None, "fluid")
        return cls(env, found.value, found.interval, found.baseline)

    @cached_property
    def mixture(self) -> Array:
        return solve(self.env, baseline="fluid").policy


class _Built(NamedTuple):
    """What a cell runs: environment, policy and its name, and the size of the run."""

    solved: _Solved
    policy: Player
    name: str
    size: SimulationSpec

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.size.rounds, self.size.replications, self.size.seed


_recent: dict[str, _Solved] = {}  # the environments used last, the latest at the end


def _run(plan: Plan, cell: Cell) -> Row:
    started = time.perf_counter()
    try:
        built = _build(plan, plan.tables(cell.policy, cell.settings))
        recorded = plan.recorded(built.size.rounds)
        options: dict[str, Any] = {"workers": 1, "progress": False, "record": recorded, "warn": False}
        # The optimum is not computed here: one for all cells of an environment is filled in below.
        run = simulate(built.policy, built.solved.env, *built.shape, optimum=0.0, **options)
        if run.interrupted:
            raise KeyboardInterrupt
        row = _row(plan, cell, built, run, 0.0)
        # The intervals take time too, and batches are sized by time.
        return {**row, "seconds": time.perf_counter() - started}
    except Exception as error:
        return failed_row(plan, cell, error, time.perf_counter() - started)


def _row(plan: Plan, cell: Cell, built: _Built, run: Result, seconds: float) -> Row:
    solved = built.solved
    run = replace(run, optimum=solved.optimum, optimum_interval=solved.interval, baseline=solved.baseline)
    return {
        **_head(plan, cell),
        "policy": built.name,
        "scenario": solved.env.name,
        **dict(zip(_SIZE, built.shape)),
        **_measured(run, plan.goal(built.size.rounds)),
        "reward_by_run": run.reward[:, -1].tolist() if cell.by_run else None,
        "seconds": seconds,
        "error": None,
    }


def _build(plan: Plan, tables: Mapping[str, Any]) -> _Built:
    """What a cell runs. Rules are read only where the environment is made: checking them takes an LP."""
    spec = plan.spec({"policy": tables["policy"], "simulation": tables.get("simulation", {})})
    solved = plan.solved(tables)
    try:
        policy = build_policy(spec.policies[0], solved.env.problem({"x": lambda: solved.mixture}))
    except InvalidInput as error:
        raise spec.error(error) from error
    return _Built(solved, policy, spec.policies[0].name, spec.simulation)


def _reads_rows(tables: Mapping[str, Any]) -> bool:
    """Whether the environment is a table, whose rows are read as the context says."""
    stated = tables.get("environment")
    return isinstance(stated, Mapping) and stated.get("kind") == "table"


def _measured(run: Result, target: Target | None) -> Row:
    [row] = since(run, run.n_rounds - 1).rows()
    met, shortfall = (None, None) if target is None else target.judge(run)
    return {**{name: row[name] for name in MEASURES}, "met": met, "shortfall": shortfall}


def _head(plan: Plan, cell: Cell) -> Row:
    knobs = {path: cell.settings.get(path) for path in plan.design.paths}
    return {"cell": cell.id, "number": cell.number, **knobs, "policy": plan.names[cell.policy]}


def moved(value: Any, old: Path, new: Path) -> Any:
    """The same tables for a spec in another folder: references like file.py:Class are made relative to it.

    >>> moved({"kind": "mine.py:Shop", "of": [1]}, Path("/a"), Path("/a/out"))
    {'kind': '../mine.py:Shop', 'of': [1]}
    """
    if isinstance(value, Mapping):
        return {name: moved(one, old, new) for name, one in value.items()}
    if isinstance(value, list):
        return [moved(one, old, new) for one in value]
    place, name = _own_class(value)
    return f"{os.path.relpath(old / place, new)}:{name}" if place else value


def _own_class(value: Any) -> tuple[str, str]:
    """File and class of a text such as file.py:Class; empty ones of anything else."""
    place, _, name = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return (place, name) if place.endswith(".py") and name.isidentifier() else ("", "")


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=64)
def _file_hash(path: Path) -> str:
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""
