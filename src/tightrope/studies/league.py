"""The league: every policy on every scenario of its setting, on the same draws, measured alike.

A policy outside its assumptions is marked with the reasons and not run. Each is given what the scenario knows, by the names of its
parameters (`Scenario.known`), and nothing is tuned. A policy of one's own joins in the same way: see `own_entry` and docs/league.md.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import importlib
import importlib.util
import inspect
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
from scipy.special import stdtrit

from tightrope import policies, testing
from tightrope.engine import simulate
from tightrope.engine.simulation import policy_name
from tightrope.environments.build import policy_for
from tightrope.environments.scenarios import SCENARIOS, Scenario, scenario
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput, TightropeError
from tightrope.oracle import solve
from tightrope.report import Cell, NamedCurve, Panel, Report, panels_figure
from tightrope.result import Estimate, Result
from tightrope.schedules import Power
from tightrope.spec import PolicySpec, Spec, SpecError
from tightrope.validation import Array, whole_number

__all__ = [
    "ROSTER",
    "Bout",
    "Entry",
    "League",
    "Misfit",
    "chosen_entries",
    "compare",
    "own_entry",
    "spec_entry",
    "standing",
]

ROUNDS, REPLICATIONS = 10_000, 10
QUICK_ROUNDS, QUICK_REPLICATIONS = 2_000, 5
CENTRE = "pessimistic-optimistic"
RECORDED = 40
_SHOWN = 6  # curves in a figure
_TOLD = ("oracle",)  # knows the truth, so it has no place


class Unfit(Exception):
    """A policy can't be made for a scenario; `reasons` say why, and `error` is there where what a spec says was refused."""

    def __init__(self, reasons: Sequence[str], error: SpecError | None = None) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(dict.fromkeys(reasons))
        self.error = error


@dataclass(frozen=True)
class Entry:
    """A policy in the league: its name, and how it is made for a scenario and a number of rounds (or `Unfit` is raised).

    >>> from tightrope.environments.scenarios import scenario
    >>> ROSTER["opb"].make(scenario("bandit-binding"), 1000)
    OPB(4, safe_cost=-0.1, horizon=1000)
    """

    name: str
    make: Callable[[Scenario, int], Any]
    own: bool = False


@dataclass(frozen=True)
class Misfit:
    """A policy that was not run in a scenario, and why."""

    policy: str
    scenario: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Bout:
    """One policy's runs in one scenario.

    `result` is the simulation. `excess` (R,) is the mean over rounds of Σ_k (w̄_k)⁺, where w̄ are the mean costs of the mixture that
    the policy played in that round, given the context: its own `mixture` where it tells one, else the action that it took. `above`
    (R,) is the share of rounds in which some w̄_k > 0. `microseconds` (R,) is the median time of one `decide` with its `learn`.
    """

    policy: str
    kind: str
    scenario: str
    settings: str
    result: Result
    excess: Array
    above: Array
    microseconds: Array

    def row(self) -> dict[str, Any]:
        """What belongs to the whole run, as plain data."""
        row: dict[str, Any] = {"kind": self.kind, "settings": self.settings}
        for name, values in (
            ("round_violation", self.excess),
            ("rounds_violated", self.above),
            ("decision_microseconds", self.microseconds),
        ):
            found = _over_runs(values, least=0.0)
            row[name], row[f"{name}_low"], row[f"{name}_high"] = (_known(one) for one in found)
        last = self.result.last_violated().estimate
        row["last_violation_low"], row["last_violation_high"] = _known(last.low), _known(last.high)
        return row

    @property
    def kept(self) -> bool:
        """Whether no violation at the end is shown: no run ended in one, or the interval of the expected one reaches down to 0."""
        # The expected violation averages the noise of costs out, which hides that a budget was never overspent in any run.
        paths, expected = self.result.path_violation.paths, self.result.violation.at()
        if paths is not None and not paths[:, -1].any():
            return True
        return not (expected.low if math.isfinite(expected.low) else expected.mean) > 0.0


@dataclass(frozen=True, eq=False)
class League:
    """What `compare` found: bouts, misfits, and the way to a table, files and a page."""

    scenarios: Mapping[str, Scenario]
    optima: Mapping[str, float]
    bouts: tuple[Bout, ...]
    misfits: tuple[Misfit, ...]
    rounds: int
    replications: int
    seed: int
    seconds: float
    interrupted: bool = False
    command: str = ""

    def of(self, scenario: str) -> list[Bout]:
        """The bouts in a scenario, best first: those that kept the constraints by regret, then the others by violation."""
        found = [bout for bout in self.bouts if bout.scenario == scenario]
        return sorted(
            found,
            key=lambda bout: (
                not bout.kept,
                0.0 if bout.kept else float(bout.result.violation.mean[-1]),
                _final_regret(bout),
            ),
        )

    def place(self, bout: Bout) -> int | None:
        """1 for the lowest regret of those that kept the constraints and did not know the truth; None for those without a place."""
        able = [one for one in self.of(bout.scenario) if one.kept and one.policy not in _TOLD]
        return able.index(bout) + 1 if bout in able else None

    def gap(self, bout: Bout) -> Array | None:
        """Regret minus that of the pessimistic-optimistic policy, run by run on the same draws, (R, G); None where it did not play."""
        for other in self.bouts:
            if other.scenario == bout.scenario and other.policy == CENTRE and other is not bout:
                return np.asarray(other.result.reward - bout.result.reward)
        return None

    def rows(self) -> list[dict[str, Any]]:
        """One row for each bout and recorded round, ready for JSON."""
        rows = []
        for bout in self.bouts:
            whole, gap = bout.row(), self.gap(bout)
            for g, row in enumerate(bout.result.rows()):
                difference = (None, None, None) if gap is None else map(_known, _over_runs(gap[:, g]))
                mean, low, high = difference
                rows.append(
                    {
                        **row,
                        **whole,
                        "regret_gap": mean,
                        "regret_gap_low": low,
                        "regret_gap_high": high,
                        "kept": bout.kept,
                        "place": self.place(bout),
                    }
                )
        return rows

    def final_rows(self) -> list[dict[str, Any]]:
        """The rows of the last round."""
        return [row for row in self.rows() if row["round"] == self.rounds]

    def overview(self) -> list[dict[str, Any]]:
        """For each scenario the policy with the lowest regret of those that kept the constraints, and where `CENTRE` stands."""
        found = []
        for ground in self.scenarios.values():
            bouts = self.of(ground.name)
            ranked = [bout for bout in bouts if self.place(bout) is not None]
            ours = next((bout for bout in bouts if bout.policy == CENTRE), None)
            found.append(
                {
                    "scenario": ground.name,
                    "best": ranked[0].policy if ranked else None,
                    "regret": _final_regret(ranked[0]) if ranked else None,
                    "violation": float(ranked[0].result.violation.mean[-1]) if ranked else None,
                    "ours": None if ours is None else _final_regret(ours),
                    "place": None if ours is None else self.place(ours),
                    "ranked": len(ranked),
                    "ran": ours is not None,
                }
            )
        return found

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write `summary.json`, `league.csv` and the page `index.html` with its figures into `folder`; returns the page."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        misfits = [
            {"policy": one.policy, "scenario": one.scenario, "reasons": list(one.reasons)}
            for one in self.misfits
        ]
        facts = [
            {
                "scenario": one.name,
                "description": one.description,
                "optimum": self.optima[one.name],
                "slater": one.slater,
            }
            for one in self.scenarios.values()
        ]
        meta = {
            "rounds": self.rounds,
            "replications": self.replications,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "interrupted": self.interrupted,
            "command": self.command,
        }
        body = {**meta, "scenarios": facts, "rows": self.rows(), "outside": misfits}
        text = json.dumps(body, allow_nan=False, ensure_ascii=False, indent=1)
        (target / "summary.json").write_text(text + "\n", encoding="utf-8")
        rows = [{**row, "ran": True, "reasons": ""} for row in self.final_rows()]
        rows += [
            {
                "policy": one.policy,
                "scenario": one.scenario,
                "ran": False,
                "reasons": "; ".join(one.reasons),
            }
            for one in self.misfits
        ]
        columns = list(dict.fromkeys(key for row in rows for key in row))
        with open(target / "league.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return _page(self).write(target, date=datetime.date.today().isoformat(), seed=self.seed)


def compare(
    entries: Sequence[Entry] | None = None,
    scenarios: Sequence[str | Scenario] | None = None,
    *,
    rounds: int = ROUNDS,
    replications: int = REPLICATIONS,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
    command: str = "",
) -> League:
    """Run each policy in each scenario of its setting, on the same draws.

    Parameters
    ----------
    entries : sequence of Entry, optional
        By default all of `ROSTER`.
    scenarios : sequence of names or Scenario, optional
        By default all of `tightrope.environments.scenarios.SCENARIOS`.
    rounds, replications, seed : int
    workers : int, optional
        Processes; as many as there are cores by default.
    progress : bool, optional
        A progress bar on standard error; by default if that is a terminal.
    tell : callable
        Called with a line whenever a bout is over.
    command : str
        What makes these numbers again, for the record.

    Raises
    ------
    InvalidInput
        Also where a policy of one's own does not do what every policy must: `tightrope.testing.check_policy` is asked first.
    InfeasibleProblem
        No policy can meet the constraints of a scenario.

    Examples
    --------
    >>> found = compare([ROSTER["opb"], ROSTER["lfg"]], ["bandit-binding"], rounds=50, replications=2, workers=1)
    >>> [(bout.policy, bout.scenario) for bout in found.bouts]
    [('opb', 'bandit-binding')]
    >>> print(found.misfits[0].reasons[0])
    the constraints are not minimum shares of actions
    """
    chosen = list(ROSTER.values()) if entries is None else list(entries)
    if not chosen:
        raise InvalidInput("entries must name at least one policy.")
    names = [entry.name for entry in chosen]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(
                f"every policy in the league needs a name of its own, but {name!r} comes twice."
            )
    found = [scenario(one) if isinstance(one, str) else one for one in (scenarios or list(SCENARIOS))]
    grounds = {one.name: one for one in found}
    if len(grounds) < len(found):
        raise InvalidInput(f"every scenario needs a name of its own, but got {[one.name for one in found]}.")
    rounds, replications = (
        whole_number("rounds", rounds, low=1),
        whole_number("replications", replications, low=1),
    )
    seed = whole_number("seed", seed)
    workers = (os.cpu_count() or 1) if workers is None else whole_number("workers", workers, low=1)
    optima = {ground.name: solve(ground.env).value for ground in found}
    jobs, misfits = [], []
    for entry in chosen:
        fits, refused = [], []
        for ground in grounds.values():
            try:
                _made(entry, ground, rounds)
            except Unfit as error:
                misfits.append(Misfit(entry.name, ground.name, error.reasons))
                refused.append(error.error)
            else:
                fits.append(ground)
        if not fits and all(refused):
            # Refused everywhere for what the spec says: a slip in the spec, not a matter of the setting.
            raise InvalidInput(str(refused[0]))
        if entry.own and fits:
            _conforms(entry, fits[0], rounds)
        jobs += [(entry, ground) for ground in fits]
    started = time.perf_counter()
    bouts: list[Bout] = []
    interrupted = False
    with _bar(len(jobs), progress) as advance:
        outcomes = _played(jobs, rounds, replications, seed, workers)
        try:
            for bout in outcomes:
                bouts.append(bout)
                advance()
                tell(
                    f"{len(bouts)} of {len(jobs)}: {bout.policy} on {bout.scenario}, {bout.result.seconds:.1f} s"
                )
        except KeyboardInterrupt:
            interrupted = True
        finally:
            outcomes.close()
    if interrupted and not bouts:
        raise KeyboardInterrupt
    order = {(entry.name, ground.name): i for i, (entry, ground) in enumerate(jobs)}
    bouts.sort(key=lambda bout: order[bout.policy, bout.scenario])
    return League(
        scenarios=grounds,
        optima=optima,
        bouts=tuple(bouts),
        misfits=tuple(misfits),
        rounds=rounds,
        replications=replications,
        seed=seed,
        seconds=time.perf_counter() - started,
        interrupted=interrupted,
        command=command,
    )


# --- who plays ---


def own_entry(source: str | type, name: str | None = None) -> Entry:
    """A policy of one's own: a class, `"module:Class"`, or `"path/to/file.py:Class"`.

    Its constructor is given what it asks for by name, as those of the package are. The name is by default that of the class, or what
    it was registered under.

    >>> own_entry("no_such_file.py:Mine")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: policy 'no_such_file.py:Mine': there is no file no_such_file.py.
    """
    made = source if isinstance(source, type) else _loaded(source)
    label = name or getattr(made, "kind", None) or made.__name__
    return Entry(
        str(label), partial(_own, source if isinstance(source, type) else _absolute(source)), own=True
    )


def spec_entry(spec: PolicySpec, folder: Path = Path()) -> Entry:
    """A policy as a spec's ``[policy]`` states it; what it does not say comes from the scenario.

    `kind` may also be a class of one's own as in `own_entry`, where the path starts in `folder`.

    >>> entry = spec_entry(PolicySpec(name="bold", slater=0.5))
    >>> entry.make(scenario("tight-slater"), 100)
    PessimisticOptimistic(reward=Ridge(4, bonus=0.62392, m=1, ridge=1), constraints=2, slater=0.5, horizon=100)
    """
    own = ":" in spec.kind
    if own:
        spec = msgspec.structs.replace(spec, kind=_absolute(spec.kind, folder))
        _loaded(spec.kind)
    return Entry(spec.name, partial(_stated, spec), own=own)


def chosen_entries(names: Sequence[str] = (), spec: Spec | None = None) -> list[Entry]:
    """Who plays: the league, or those of it that are named; with them the classes of one's own that are named, and a spec's policies.

    >>> [entry.name for entry in chosen_entries(["opb", "uniform"])]
    ['opb', 'uniform']
    """
    for name in names:
        if name not in ROSTER and ":" not in name:
            raise InvalidInput(
                f"policy must be one of {', '.join(ROSTER)}, or a class of your own as module:Class or path/to/file.py:Class, "
                f"but got {name!r}."
            )
    league = [name for name in names if name in ROSTER] or list(ROSTER)
    entries = {name: ROSTER[name] for name in league}
    if spec is not None:
        # What the spec says of a policy goes before the league's own form of it.
        entries |= {one.name: spec_entry(one, Path(spec.source).parent) for one in spec.policies}
    own = [own_entry(name) for name in names if name not in ROSTER]
    return [*entries.values(), *own]


def _own(source: str | type, ground: Scenario, horizon: int) -> Any:
    return _fitted(source if isinstance(source, type) else _loaded(source), ground, horizon)


def _stated(spec: PolicySpec, ground: Scenario, horizon: int) -> Any:
    if ":" in spec.kind and spec.kind not in policies.POLICIES:
        policies.POLICIES[spec.kind] = _loaded(spec.kind)
    known = ground.known(horizon, linear=spec.kind in _LINEAR)
    if spec.kind == "oracle":
        known["x"] = solve(ground.env, baseline="fluid").policy
    try:
        return policy_for(spec, ground.env, {name: partial(_same, value) for name, value in known.items()})
    except SpecError as error:
        raise Unfit([str(error)], error) from error


def _same(value: Any) -> Any:
    return value


def _fitted(
    make: Callable[..., Any], ground: Scenario, horizon: int, *, linear: bool = False, **settings: Any
) -> Any:
    """`make` with the settings, and of what the scenario knows all that it has a parameter for."""
    known = {**ground.known(horizon, linear=linear), **settings}
    parameters = {
        name: one
        for name, one in inspect.signature(make).parameters.items()
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    }
    missing = [name for name, one in parameters.items() if one.default is one.empty and name not in known]
    if missing:
        raise Unfit(
            [ground.lacks.get(name, f"it asks for {name!r}, which no scenario tells") for name in missing]
        )
    try:
        return make(**{name: known[name] for name in parameters if name in known})
    except InvalidInput as error:
        raise Unfit([str(error).rstrip(".")]) from error


def _light_schedules(ground: Scenario, horizon: int) -> Any:
    """The schedules of costs seen before acting, where they are seen after."""
    env, K = ground.env, ground.env.n_constraints
    if K == 0 or env.costs_seen == "before":
        raise Unfit(
            ["its costs are seen before acting, so these are the schedules of pessimistic-optimistic"]
        )
    V = Power(max(ground.slater, 1e-6) * K**0.25 * math.sqrt(2.0 / 3.0), 0.5)
    epsilon = Power(K**0.75 * math.sqrt(6.0), -0.5)
    return _fitted(policies.PessimisticOptimistic, ground, horizon, V=V, epsilon=epsilon)


def _measured(ground: Scenario, horizon: int) -> Any:
    if ground.env.n_constraints == 0:
        raise Unfit(["it has no constraints, so there is no Slater's constant to measure"])
    return _fitted(policies.PessimisticOptimistic, ground, horizon, slater=None)


def _opb(ground: Scenario, horizon: int) -> Any:
    if ground.env.n_constraints != 1:
        raise Unfit([f"it has {ground.env.n_constraints} constraints, but the policy has 1"])
    return _fitted(policies.OPB, ground, horizon)


def _oracle(ground: Scenario, horizon: int) -> Any:
    return policies.Oracle(solve(ground.env, baseline="fluid").policy)


def _round_robin(ground: Scenario, horizon: int) -> Any:
    """The minimum shares where there are some, with the rest of the rounds spread evenly; else equal shares."""
    J = ground.env.n_actions
    least = np.asarray(ground.known(horizon).get("shares", np.zeros(J)))
    return policies.RoundRobin(J, shares=least + (1.0 - least.sum()) / J)


# Policies whose models must be linear, also where there are arms alone.
_LINEAR = ("oplb", "safe-lucb", "safe-lts", "lincbwk", "clucb", "lints", "greedy")

_MAKERS: dict[str, Callable[[Scenario, int], Any]] = {
    CENTRE: partial(_fitted, policies.PessimisticOptimistic),
    f"{CENTRE}-a": _light_schedules,
    f"{CENTRE}-measured": _measured,
    "opb": _opb,
    "oplb": partial(_fitted, policies.OPLB, linear=True),
    "safe-lucb": partial(_fitted, policies.SafeLUCB, linear=True),
    "safe-lts": partial(_fitted, policies.SafeLTS, linear=True),
    "lincbwk": partial(_fitted, policies.LinCBwK, linear=True),
    "primal-dual-bwk": partial(_fitted, policies.PrimalDualBwK),
    "ucb-alp": partial(_fitted, policies.UCBALP),
    "lfg": partial(_fitted, policies.LFG),
    "clucb": partial(_fitted, policies.CLUCB, linear=True),
    "linucb": partial(_fitted, policies.LinUCB),
    "lints": partial(_fitted, policies.LinTS, linear=True),
    "greedy": partial(_fitted, policies.Greedy, linear=True),
    "round-robin": _round_robin,
    "uniform": partial(_fitted, policies.Uniform),
    "oracle": _oracle,
}
ROSTER = {name: Entry(name, make) for name, make in _MAKERS.items()}


def _loaded(source: str) -> type:
    """The class that `module:Class` or `path/to/file.py:Class` names."""
    place, _, attribute = source.rpartition(":")
    if not place or not attribute.isidentifier():
        raise InvalidInput(
            f"policy {source!r}: must be 'module:Class' or 'path/to/file.py:Class', and is not in the league either."
        )
    module = _module_of_file(source, place) if place.endswith(".py") else _module(source, place)
    found = getattr(module, attribute, None)
    if not isinstance(found, type):
        raise InvalidInput(f"policy {source!r}: {place} has no class {attribute}.")
    return found


def _absolute(source: str, folder: Path = Path()) -> str:
    """The same class for a process that may run in another folder."""
    place, _, attribute = source.rpartition(":")
    return f"{(folder / place).resolve()}:{attribute}" if place.endswith(".py") else source


def _module(source: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"policy {source!r}: {error}.") from error


def _module_of_file(source: str, place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise InvalidInput(f"policy {source!r}: there is no file {place}.")
    name = f"_tightrope_own_{path.stem}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# --- bouts ---


def _made(entry: Entry, ground: Scenario, rounds: int) -> Any:
    policy = entry.make(ground, rounds)
    requires = getattr(policy, "requires", None)
    reasons = requires(ground.env) if callable(requires) else []
    if reasons:
        raise Unfit(reasons)
    return policy


def _conforms(entry: Entry, ground: Scenario, rounds: int) -> None:
    faults = testing.check_policy(lambda: entry.make(ground, rounds), ground.env)
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        raise InvalidInput(
            f"{entry.name} can't join the league: on {ground.name} it does not do what every policy must:\n{listed}"
        )


def _played(
    jobs: Sequence[tuple[Entry, Scenario]], rounds: int, replications: int, seed: int, workers: int
) -> Any:
    from joblib import Parallel, delayed

    if min(workers, len(jobs)) <= 1:
        return (_bout(entry, ground, rounds, replications, seed) for entry, ground in jobs)
    calls = (delayed(_bout)(entry, ground, rounds, replications, seed) for entry, ground in jobs)
    pool = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)
    return pool(calls)


def _bout(entry: Entry, ground: Scenario, rounds: int, replications: int, seed: int) -> Bout:
    policy = _made(entry, ground, rounds)
    watched = _Watched(policy, ground.env, rounds)
    try:
        # So that loading compiled kernels is not taken for time to decide.
        simulate(_Watched(policy, ground.env, 2), ground.env, 2, workers=1, progress=False, optimum=0.0)
        result = simulate(
            watched,
            ground.env,
            rounds,
            replications,
            seed,
            workers=1,
            record=RECORDED,
            progress=False,
            name=entry.name,
        )
    except TightropeError as error:
        raise type(error)(f"{entry.name} on {ground.name}: {error}") from error
    except Exception as error:
        raise TightropeError(f"{entry.name} failed on {ground.name}: {error!r}") from error
    if result.interrupted:
        raise KeyboardInterrupt
    return Bout(
        policy=entry.name,
        kind=policy_name(policy),
        scenario=ground.name,
        settings=repr(policy),
        result=result,
        excess=np.array([log.excess for log in watched.logs]) / rounds,
        above=np.array([log.above for log in watched.logs]) / rounds,
        microseconds=np.array([np.median(log.nanoseconds) for log in watched.logs]) / 1e3,
    )


class _Log:
    """One run of a watched policy."""

    def __init__(self, rounds: int) -> None:
        self.excess = 0.0
        self.above = 0
        self.nanoseconds = np.zeros(rounds)
        self.round = 0


class _Watched:
    """A policy whose rounds are timed and priced at the mean costs of the mixture played."""

    sees_context = True

    def __init__(self, policy: Any, env: Tabular, rounds: int) -> None:
        self.logs: list[_Log] = []
        self._policy, self._env, self._rounds = policy, env, rounds
        self._log = _Log(rounds)
        self._told = bool(getattr(policy, "sees_context", False))
        self._mixture = getattr(policy, "mixture", None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def copy(self, seed: int) -> _Watched:
        twin = _Watched(self._policy.copy(seed), self._env, self._rounds)
        self.logs.append(twin._log)
        return twin

    def decide(self, *, context: int, **offer: Any) -> Any:
        if self._told:
            offer["context"] = context
        pi = None if self._mixture is None else self._mixture(**offer)
        log, clock = self._log, time.perf_counter_ns
        start = clock()
        decision = self._policy.decide(**offer)
        log.nanoseconds[log.round] += clock() - start
        self._price(context, offer, int(getattr(decision, "action", decision)), pi)
        return decision

    def learn(self, decision: Any, *outcome: Any) -> None:
        log, clock = self._log, time.perf_counter_ns
        start = clock()
        self._policy.learn(decision, *outcome)
        log.nanoseconds[log.round] += clock() - start
        log.round += 1

    def _price(self, context: int, offer: Mapping[str, Any], action: int, pi: Array | None) -> None:
        env = self._env
        ids = offer.get("actions")
        if env.costs_seen == "before" and "costs" in offer:
            W = offer["costs"]
            row = action if ids is None else list(ids).index(action)
        else:
            W, row = env.costs[context], action
            if pi is not None and ids is not None:
                W = W[list(ids)]
        excess = np.maximum(W[row] if pi is None else pi @ W, 0.0)
        self._log.excess += float(excess.sum())
        self._log.above += bool((excess > 1e-9).any())


@contextlib.contextmanager
def _bar(total: int, progress: bool | None) -> Iterator[Callable[[], None]]:
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("league", total=total)
        yield lambda: bar.advance(task)


# --- the page ---


def _page(league: League) -> Report:
    report = Report(
        "The league",
        subtitle=f"Policies: {len({bout.policy for bout in league.bouts})}. Scenarios: {len(league.scenarios)}. The same draws for all.",
    )
    report.text(
        f"Every policy ran in every scenario of its setting: {league.rounds:,} rounds, {league.replications} runs each, "
        f"{league.seconds:,.0f} s in all. Policies outside their assumptions were not run; each scenario lists them with the reasons. "
        "All brackets are 95 % intervals."
    )
    if league.command:
        report.code(league.command)
    if league.interrupted:
        report.text("**The league was interrupted**: what follows is what was finished.")
    _overview(report, league)
    _by_policy(report, league)
    report.section("How it is measured")
    report.bullets(
        [
            "**Regret**: rounds times the optimum of the linear program, less the mean rewards earned. It may be negative for who "
            "breaks the constraints.",
            f"**Against {CENTRE}**: regret less that policy's, run by run on the same draws; negative is better.",
            "**Expected violation**: Σ_{k} (E S_{k})^{+}, with S_{k} the cumulative cost at the end, its noise averaged out. A policy "
            "*keeps* the constraints if the interval reaches down to 0, or if no run at all ended in violation.",
            "**Path violation**: Σ_{k} (S_{k})^{+} within a run, averaged over runs.",
            "**Violation per round**: the average over rounds of Σ_{k} (w_{k})^{+}, with w the mean costs, given the context, of the "
            "mixture that was played (of the action, where a policy tells no mixture). **Rounds**: the share of rounds in which some "
            "w_{k} > 0. Policies for cumulative constraints promise nothing here; where capacities and shares are among the rules, no "
            "single action can be free of it.",
            "**Last violated round**: the last one in which any cumulative cost was above 0, averaged over runs.",
            "**Time**: median of one decision with its learning, on one core of this machine.",
        ]
    )
    for ground in league.scenarios.values():
        _scenario(report, league, ground)
    return report


def _overview(report: Report, league: League) -> None:
    report.section("Who wins")
    rows: list[list[Cell]] = []
    for ground, one in zip(league.scenarios.values(), league.overview(), strict=True):
        rows.append(
            [
                f"[{ground.name}](#{ground.name})",
                f"{ground.env.n_constraints}, seen {ground.env.costs_seen}",
                ground.slater,
                one["best"] or "none",
                one["regret"],
                one["violation"],
                one["ours"],
                standing(one),
            ]
        )
    report.table(
        [
            "scenario",
            "constraints",
            "δ",
            "lowest regret of those that keep them",
            "its regret",
            "its violation",
            "ours",
            "our place",
        ],
        rows,
        caption=f"The best by scenario; ours is {CENTRE}",
        note="δ is Slater's constant. The oracle, which knows all means, takes no place. To keep the constraints means that no violation "
        "is *shown*: a small one may hide in few runs. Regrets of neighbours may differ by less than their intervals: see the tables "
        "below.",
    )


def standing(one: Mapping[str, Any]) -> str:
    """Where `CENTRE` stands in a scenario, in words, from an entry of `League.overview`.

    >>> standing({"ran": True, "place": 2, "ranked": 5})
    '2 of 5'
    """
    if not one["ran"]:
        return "not run"
    return "violates" if one["place"] is None else f"{one['place']} of {one['ranked']}"


def _by_policy(report: Report, league: League) -> None:
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(bout.policy for bout in league.bouts):
        mine = [bout for bout in league.bouts if bout.policy == name]
        kept = [bout for bout in mine if bout.kept]
        safe = [bout for bout in mine if float(bout.above.max()) == 0.0]
        first = [bout for bout in mine if league.place(bout) == 1]
        rows.append(
            [
                name,
                float(len(mine)),
                f"{len(kept)} of {len(mine)}",
                f"{len(safe)} of {len(mine)}",
                float(len(first)),
                round(float(np.median([np.median(bout.microseconds) for bout in mine]))),
            ]
        )
    report.table(
        ["policy", "scenarios", "kept at the end", "kept in every round", "first places", "µs a decision"],
        rows,
        caption="The policies over all scenarios of their setting",
        note="Kept in every round: no round of any run had a mixture whose mean cost was above 0.",
    )


def _scenario(report: Report, league: League, ground: Scenario) -> None:
    bouts = league.of(ground.name)
    report.section(ground.name)
    report.text(ground.description)
    env = ground.env
    report.text(
        f"Contexts: {env.n_contexts}. Actions: {env.n_actions}. Constraints: {env.n_constraints}, seen {env.costs_seen} acting. Optimum: "
        f"{league.optima[ground.name]:.4f} a round. Slater's constant: {ground.slater:.4g}."
    )
    if bouts:
        able = [bout for bout in bouts if bout.policy not in _TOLD]
        chosen = [bout for bout in able if bout.policy == CENTRE]
        chosen += [bout for bout in able if bout not in chosen][: _SHOWN - len(chosen)]
        shown = [bout for bout in bouts if bout in chosen]
        panels = [
            Panel(
                [NamedCurve.of(bout.policy, bout.result.regret) for bout in shown], "Round", "Regret (reward)"
            )
        ]
        if env.n_constraints and any(bout.result.violation.mean.any() for bout in shown):
            curves = [NamedCurve.of(bout.policy, bout.result.violation) for bout in shown]
            panels.append(Panel(curves, "Round", "Expected violation (cost)"))
        report.figure(
            panels_figure(panels),
            name=ground.name,
            alt=f"Regret and violation on {ground.name}: "
            + "; ".join(f"{bout.policy} ends with regret {_final_regret(bout):.0f}" for bout in shown),
            caption=f"{ground.name}: {CENTRE} and the best of the others; bands are 95 % intervals of the mean.",
        )
        _standings(report, league, bouts, ground)
    outside = [one for one in league.misfits if one.scenario == ground.name]
    if outside:
        report.table(
            ["not run", "because"],
            [[one.policy, "; ".join(one.reasons)] for one in outside],
            caption=f"Outside their assumptions on {ground.name}",
        )


def _standings(report: Report, league: League, bouts: Sequence[Bout], ground: Scenario) -> None:
    earned: list[list[Cell]] = []
    spent: list[list[Cell]] = []
    for bout in bouts:
        place, gap, result = league.place(bout), league.gap(bout), bout.result
        standing = f"{place}" if place is not None else "knows all" if bout.policy in _TOLD else "violates"
        difference = None if gap is None else _triple(_over_runs(gap[:, -1]))
        time = round(float(np.median(bout.microseconds)))
        earned.append([bout.policy, standing, _triple(result.regret.at()), difference, time])
        spent.append(
            [
                bout.policy,
                _triple(result.violation.at()),
                _triple(result.path_violation.at()),
                _triple(_over_runs(bout.excess, least=0.0)),
                f"{float(bout.above.mean()):.0%}",
                _triple(result.last_violated().estimate),
            ]
        )
    report.table(
        ["policy", "place", "regret", f"against {CENTRE}", "µs a decision"],
        earned,
        caption=f"Standings on {ground.name}",
    )
    if ground.env.n_constraints:
        report.table(
            [
                "policy",
                "expected violation",
                "path violation",
                "violation per round",
                "rounds",
                "last violated round",
            ],
            spent,
            caption=f"Constraints on {ground.name}",
        )


def _triple(found: Estimate) -> tuple[float, float, float]:
    # What is left of an exact 0 after a long sum is rounding.
    return tuple(0.0 if abs(one) < 1e-9 else one for one in found)  # type: ignore[return-value]


def _final_regret(bout: Bout) -> float:
    return float(bout.result.regret.mean[-1])


def _over_runs(values: Array, least: float = -math.inf) -> Estimate:
    """Mean over runs with its 95 % t-interval, cut off at `least`."""
    n, mean = len(values), float(values.mean())
    if n == 1:
        return Estimate(mean, math.nan, math.nan)
    half = float(stdtrit(n - 1, 0.975)) * float(values.std(ddof=1)) / math.sqrt(n)
    return Estimate(mean, max(least, mean - half), mean + half)


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
