"""`compare`: every policy in every scenario of its setting, on the same draws, timed and priced alike."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from tightrope import testing
from tightrope.concerns import ignore
from tightrope.engine import simulate
from tightrope.engine.recording import policy_name
from tightrope.environments.build import environment_of
from tightrope.environments.custom import Custom
from tightrope.environments.drifting import Environment, phases_of
from tightrope.errors import InvalidInput, TightropeError
from tightrope.intervals import positive_part
from tightrope.oracle import benchmark
from tightrope.policies import Policy
from tightrope.policies.hooks import Player, traits_of
from tightrope.progress import progress_bar
from tightrope.result import Result
from tightrope.spec import Spec
from tightrope.validation import VIOLATION, Array, whole_number
from tightrope_lab.draws import environment_draws
from tightrope_lab.league.entries import ROSTER, Entry, Unfit
from tightrope_lab.league.ranking import League, Misfit, Performance
from tightrope_lab.league.scenarios import SCENARIOS, Scenario
from tightrope_lab.league.scenarios import scenario as named_scenario

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
        By default all of `SCENARIOS`, but for those whose data need an extra that is not installed: `League.left_out` says which and
        why.
    rounds, replications, seed, workers, progress
        As in `tightrope.simulate`.
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
    found, left_out = _found(scenarios)
    by_name = {one.name: one for one in found}
    if len(by_name) < len(found):
        raise InvalidInput(f"every scenario needs a name of its own, but got {[one.name for one in found]}.")
    rounds = whole_number("rounds", rounds, low=1)
    replications = whole_number("replications", replications, low=1)
    seed = whole_number("seed", seed)
    workers = (os.cpu_count() or 1) if workers is None else whole_number("workers", workers, low=1)
    optima = {scenario.name: benchmark(scenario.env, rounds).value for scenario in found}
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
        left_out=left_out,
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
        env = environment_of(spec)
        if isinstance(env, Custom):
            raise spec.error(
                "environment: policies are ranked where all means are listed, in a table: `tightrope simulate` plays those of a spec, "
                "written [[policy]], in an environment that draws its contexts"
            )
        found.append(Scenario(env, f"The environment of {spec.name}."))
    return found or None


def size_of(spec: Spec | None = None, *, quick: bool = False, **asked: int | None) -> dict[str, Any]:
    """`rounds`, `replications` and `seed`: what is asked for, else what a spec's ``[simulation]`` states, else the league's own."""
    rounds, replications = (QUICK_ROUNDS, QUICK_REPLICATIONS) if quick else (ROUNDS, REPLICATIONS)
    usual = {"rounds": rounds, "replications": replications, "seed": 0}
    stated = {} if spec is None or quick else spec.data.get("simulation", {})
    return {**usual, **stated, **{name: value for name, value in asked.items() if value is not None}}


def path_totals(result: Result, env: Environment) -> tuple[Array, Array]:
    """For each run how many rounds had some total above 0, and the most that Σ_k (S_k)⁺ came to, (R,) each.

    Totals are cumulative costs as drawn, and all rounds count, recorded or not. The result must have kept its choices.
    """
    if result.choices is None:
        raise InvalidInput("the result must have its choices: simulate with keep_choices=True.")
    above, peak = np.zeros(result.n_replications), np.zeros(result.n_replications)
    for i, actions in enumerate(result.choices if env.n_constraints else ()):
        contexts, _, drawn = environment_draws(env, result.seed, i, result.n_rounds)
        costs = np.zeros((len(actions), env.n_constraints))
        for first, last, now in phases_of(env, len(actions)):
            here = slice(first - 1, last)
            means = now.costs[contexts[here], actions[here]]
            costs[here] = means if drawn is None else drawn[range(first - 1, last), actions[here]]
        violations = positive_part(np.cumsum(costs, axis=0)).sum(axis=1)
        above[i], peak[i] = np.count_nonzero(violations), violations.max()
    return above, peak


def _found(asked: Sequence[str | Scenario] | None) -> tuple[list[Scenario], dict[str, str]]:
    """The scenarios asked for; or all of the league's that can be made here, and why the others can't."""
    if asked:
        return [named_scenario(one) if isinstance(one, str) else one for one in asked], {}
    found: list[Scenario] = []
    left_out: dict[str, str] = {}
    for name in SCENARIOS:
        try:
            found.append(named_scenario(name))
        except ModuleNotFoundError as error:
            left_out[name] = str(error)
    return found, left_out


def _made(entry: Entry, scenario: Scenario, rounds: int) -> Any:
    policy = entry.make(scenario, rounds)
    reasons = scenario.env.problem().outside(policy)
    if scenario.delay and not (isinstance(policy, Policy) or getattr(policy, "takes_late_outcomes", False)):
        neither = "neither inherits tightrope.policies.Policy nor says takes_late_outcomes = True"
        reasons = [*reasons, f"outcomes come {scenario.delay} rounds late, and the policy {neither}"]
    if reasons:
        raise Unfit(reasons)
    return policy


def _conforms(entry: Entry, scenario: Scenario, rounds: int) -> None:
    # A policy conforms or not whether or not the means change.
    env = phases_of(scenario.env, rounds)[0].env
    faults = testing.check_policy(lambda: entry.make(scenario, rounds), env)
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        why = f"on {scenario.name} it does not do what every policy must:\n{listed}"
        raise InvalidInput(f"{entry.name} can't join the league: {why}")


def _performances(jobs: Sequence[tuple[Entry, Scenario]], workers: int, *size: int) -> Any:
    from joblib import Parallel, delayed

    if min(workers, len(jobs)) <= 1:
        return (_performance(entry, scenario, *size) for entry, scenario in jobs)
    calls = (delayed(_performance)(entry, scenario, *size) for entry, scenario in jobs)
    pool = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)
    return pool(calls)


def _performance(entry: Entry, scenario: Scenario, rounds: int, replications: int, seed: int) -> Performance:
    policy = _made(entry, scenario, rounds)
    watched = _Watched(policy, scenario.env, rounds, scenario.delay)
    try:
        # So that loading compiled kernels is not taken for time to decide.
        simulate(_Watched(policy, scenario.env, 2), scenario.env, 2, workers=1, progress=False, optimum=0.0)
        how: dict[str, Any] = {"record": RECORDED, "name": entry.name, "keep_choices": True}
        one_core = partial(simulate, workers=1, progress=False)
        result = one_core(watched, scenario.env, rounds, replications, seed, **how)
    except TightropeError as error:
        raise type(error)(f"{entry.name} on {scenario.name}: {error}") from error
    except Exception as error:
        raise TightropeError(f"{entry.name} failed on {scenario.name}: {error!r}") from error
    if result.interrupted:
        raise KeyboardInterrupt
    above, peak = path_totals(result, scenario.env)
    return Performance(
        policy=entry.name,
        kind=policy_name(policy),
        scenario=scenario.name,
        settings=repr(policy),
        result=replace(result, choices=None),
        rounds_above=above,
        peak=peak,
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
    """A policy whose rounds are timed and priced at the mean costs of the mixture played, and whose outcomes come `delay` rounds late."""

    def __init__(self, policy: Player, env: Environment, rounds: int, delay: int = 0) -> None:
        self.logs: list[_Log] = []
        self._phases, self._decisions = [*phases_of(env, rounds)], 0
        self._policy, self._env, self._rounds, self._delay = policy, env, rounds, delay
        self._held_back: deque[tuple[Any, ...]] = deque()
        self.log = _Log(np.zeros(rounds))
        traits = traits_of(policy)
        # It is told the context, whatever the policy is told.
        self.hooks = msgspec.structs.replace(traits, sees_context=True)
        self._told = traits.sees_context
        # The package's own decisions tell the mixture that they were drawn from, others' own method of that name.
        self._tells = isinstance(policy, Policy) and traits.randomised
        self._mixture: Any = getattr(policy, "mixture", None) if traits.randomised else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def copy(self, seed: int) -> _Watched:
        policy = self._policy.copy(seed)
        if isinstance(policy, Policy):
            # A league says by its numbers who can't keep the rules.
            policy.hooks.report_to(ignore)
        twin = _Watched(policy, self._env, self._rounds, self._delay)
        self.logs.append(twin.log)
        return twin

    def decide(self, *, context: int, **offer: Any) -> Any:
        if self._told:
            offer["context"] = context
        pi = None if self._mixture is None else self._mixture(**offer)
        log, clock = self.log, time.perf_counter_ns
        start = clock()
        decision = self._policy.decide(**offer)
        log.nanoseconds[log.round] += clock() - start
        if self._tells:
            pi = decision.probabilities
        self._price(context, offer, int(getattr(decision, "action", decision)), pi)
        return decision

    def learn(self, *outcome: Any) -> None:
        log, clock = self.log, time.perf_counter_ns
        self._held_back.append(outcome)
        if len(self._held_back) > self._delay:
            known = self._held_back.popleft()
            start = clock()
            self._policy.learn(*known)
            log.nanoseconds[log.round] += clock() - start
        log.round += 1

    def _price(self, context: int, offer: Mapping[str, Any], action: int, pi: Array | None) -> None:
        self._decisions += 1
        if self._decisions > self._phases[0].last:
            del self._phases[0]
        env = self._phases[0].env
        ids = offer.get("actions")
        if env.costs_seen == "before" and "costs" in offer:
            W = offer["costs"]
            row = action if ids is None else list(ids).index(action)
        else:
            W, row = env.costs[context], action
            if pi is not None and ids is not None:
                W = W[list(ids)]
        excess = np.maximum(W[row] if pi is None else pi @ W, 0.0)
        self.log.excess += float(excess.sum())
        self.log.above += bool((excess > VIOLATION).any())
