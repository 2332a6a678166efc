"""`compare`: every policy in every scenario of its setting, on the same draws, timed and priced alike."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tightrope import testing
from tightrope.concerns import ignore
from tightrope.engine import simulate
from tightrope.engine.simulation import policy_name
from tightrope.environments.build import environment_of
from tightrope.environments.scenarios import SCENARIOS, Scenario
from tightrope.environments.scenarios import scenario as named_scenario
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput, TightropeError
from tightrope.oracle import solve
from tightrope.policies import Policy
from tightrope.progress import progress_bar
from tightrope.spec import Spec
from tightrope.studies.league.entries import ROSTER, Entry, Unfit
from tightrope.studies.league.ranking import League, Misfit, Performance
from tightrope.validation import VIOLATION, Array, whole_number

ROUNDS, REPLICATIONS = 10_000, 10
QUICK_ROUNDS, QUICK_REPLICATIONS = 2_000, 5
RECORDED = 40


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
        Called with a line whenever a policy has finished in a scenario.
    command : str
        What makes these numbers again, for the record.

    Raises
    ------
    InvalidInput
        Also where a policy of your own does not do what every policy must: `tightrope.testing.check_policy` is asked first.
    InfeasibleProblem
        No policy can meet the constraints of a scenario.

    Examples
    --------
    >>> found = compare([ROSTER["opb"], ROSTER["lfg"]], ["bandit-binding"], rounds=50, replications=2, workers=1)
    >>> [(one.policy, one.scenario) for one in found.performances]
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
            what = "every policy in the league needs a name of its own"
            raise InvalidInput(f"{what}, but {name!r} comes twice.")
    found = [named_scenario(one) if isinstance(one, str) else one for one in (scenarios or list(SCENARIOS))]
    by_name = {one.name: one for one in found}
    if len(by_name) < len(found):
        raise InvalidInput(f"every scenario needs a name of its own, but got {[one.name for one in found]}.")
    rounds = whole_number("rounds", rounds, low=1)
    replications = whole_number("replications", replications, low=1)
    seed = whole_number("seed", seed)
    workers = (os.cpu_count() or 1) if workers is None else whole_number("workers", workers, low=1)
    optima = {scenario.name: solve(scenario.env).value for scenario in found}
    jobs, misfits = [], []
    for entry in chosen:
        fits, refused = [], []
        for scenario in by_name.values():
            try:
                _made(entry, scenario, rounds)
            except Unfit as error:
                misfits.append(Misfit(entry.name, scenario.name, error.reasons))
                refused.append(error.error)
            else:
                fits.append(scenario)
        if not fits and all(refused):
            # Refused everywhere for what the spec says: a slip in the spec, not a matter of the setting.
            raise InvalidInput(str(refused[0]))
        if entry.own and fits:
            _conforms(entry, fits[0], rounds)
        jobs += [(entry, scenario) for scenario in fits]
    started = time.perf_counter()
    performances: list[Performance] = []
    interrupted = False
    with progress_bar("league", len(jobs), "runs", progress) as advance:
        outcomes = _performances(jobs, workers, rounds, replications, seed)
        try:
            for one in outcomes:
                performances.append(one)
                advance()
                done = f"{one.policy} on {one.scenario}, {one.result.seconds:.1f} s"
                tell(f"{len(performances)} of {len(jobs)}: {done}")
        except KeyboardInterrupt:
            interrupted = True
        finally:
            outcomes.close()
    if interrupted and not performances:
        raise KeyboardInterrupt
    order = {(entry.name, scenario.name): i for i, (entry, scenario) in enumerate(jobs)}
    performances.sort(key=lambda one: order[one.policy, one.scenario])
    return League(
        scenarios=by_name,
        optima=optima,
        performances=tuple(performances),
        misfits=tuple(misfits),
        rounds=rounds,
        replications=replications,
        seed=seed,
        seconds=time.perf_counter() - started,
        interrupted=interrupted,
        command=command,
    )


def chosen_scenarios(names: Sequence[str] = (), spec: Spec | None = None) -> list[str | Scenario] | None:
    """Where to play: the scenarios that are named, and a spec's environment; None, which is all of the league's, without any."""
    found: list[str | Scenario] = list(names)
    if spec is not None and spec.environment is not None:
        found.append(Scenario(environment_of(spec), f"The environment of {spec.name}."))
    return found or None


def size_of(spec: Spec | None = None, *, quick: bool = False, **asked: int | None) -> dict[str, Any]:
    """`rounds`, `replications` and `seed`: what is asked for, else what a spec's ``[simulation]`` states, else the league's own.

    >>> size_of(quick=True, rounds=100, seed=None)
    {'rounds': 100, 'replications': 5, 'seed': 0}
    """
    usual = {
        "rounds": QUICK_ROUNDS if quick else ROUNDS,
        "replications": QUICK_REPLICATIONS if quick else REPLICATIONS,
        "seed": 0,
    }
    stated = {} if spec is None or quick else spec.data.get("simulation", {})
    return {**usual, **stated, **{name: value for name, value in asked.items() if value is not None}}


def _made(entry: Entry, scenario: Scenario, rounds: int) -> Any:
    policy = entry.make(scenario, rounds)
    reasons = scenario.env.problem().outside(policy)
    if reasons:
        raise Unfit(reasons)
    return policy


def _conforms(entry: Entry, scenario: Scenario, rounds: int) -> None:
    faults = testing.check_policy(lambda: entry.make(scenario, rounds), scenario.env)
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        raise InvalidInput(
            f"{entry.name} can't join the league: on {scenario.name} it does not do what every policy must:\n{listed}"
        )


def _performances(jobs: Sequence[tuple[Entry, Scenario]], workers: int, *size: int) -> Any:
    from joblib import Parallel, delayed

    if min(workers, len(jobs)) <= 1:
        return (_performance(entry, scenario, *size) for entry, scenario in jobs)
    calls = (delayed(_performance)(entry, scenario, *size) for entry, scenario in jobs)
    pool = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)
    return pool(calls)


def _performance(entry: Entry, scenario: Scenario, rounds: int, replications: int, seed: int) -> Performance:
    policy = _made(entry, scenario, rounds)
    watched = _Watched(policy, scenario.env, rounds)
    try:
        # So that loading compiled kernels is not taken for time to decide.
        simulate(_Watched(policy, scenario.env, 2), scenario.env, 2, workers=1, progress=False, optimum=0.0)
        here = partial(simulate, workers=1, record=RECORDED, progress=False, name=entry.name)
        result = here(watched, scenario.env, rounds, replications, seed)
    except TightropeError as error:
        raise type(error)(f"{entry.name} on {scenario.name}: {error}") from error
    except Exception as error:
        raise TightropeError(f"{entry.name} failed on {scenario.name}: {error!r}") from error
    if result.interrupted:
        raise KeyboardInterrupt
    return Performance(
        policy=entry.name,
        kind=policy_name(policy),
        scenario=scenario.name,
        settings=repr(policy),
        result=result,
        excess=np.array([log.excess for log in watched.logs]) / rounds,
        above=np.array([log.above for log in watched.logs]) / rounds,
        microseconds=np.array([np.median(log.nanoseconds) for log in watched.logs]) / 1e3,
    )


@dataclass
class _Log:
    """One run of a watched policy."""

    nanoseconds: Array
    excess: float = 0.0
    above: int = 0
    round: int = 0


class _Watched:
    """A policy whose rounds are timed and priced at the mean costs of the mixture played."""

    sees_context = True

    def __init__(self, policy: Any, env: Tabular, rounds: int) -> None:
        self.logs: list[_Log] = []
        self._policy, self._env, self._rounds = policy, env, rounds
        self._log = _Log(np.zeros(rounds))
        self._told = bool(getattr(policy, "sees_context", False))
        # The package's own decisions tell the mixture that they were drawn from.
        self._tells = isinstance(policy, Policy)
        self._mixture: Any = getattr(policy, "mixture", None) if getattr(policy, "randomised", True) else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def copy(self, seed: int) -> _Watched:
        twin = _Watched(self._policy.copy(seed), self._env, self._rounds)
        if twin._tells:
            # A league says by its numbers who can't keep the rules.
            twin._policy.notify = ignore
        self.logs.append(twin._log)
        return twin

    def decide(self, *, context: int, **offer: Any) -> Any:
        if self._told:
            offer["context"] = context
        asked = self._mixture is not None and not self._tells
        pi = self._mixture(**offer) if asked else None
        log, clock = self._log, time.perf_counter_ns
        start = clock()
        decision = self._policy.decide(**offer)
        log.nanoseconds[log.round] += clock() - start
        if self._mixture is not None and self._tells:
            pi = decision.probabilities
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
        self._log.above += bool((excess > VIOLATION).any())
