"""`simulate`: many independent replications on all cores, with the same numbers for any number of cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.concerns import in_runs, of_runs
from tightrope.concerns import warn as tell
from tightrope.engine.cpu import Runner, compiled, policy_seed
from tightrope.engine.custom_world import CustomWorld
from tightrope.engine.recording import known_optimum, policy_name, recorded_rounds
from tightrope.engine.replication import Replication, TabularWorld, World, run_plainly, tabular_arrays
from tightrope.environments.custom import Custom
from tightrope.environments.drifting import Drifting, Environment
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.policies.build import for_problem
from tightrope.policies.watch import units_counted
from tightrope.progress import progress_bar
from tightrope.result import Result
from tightrope.validation import whole_number

__all__ = ["Engine", "policy_name", "recorded_rounds", "simulate"]

Engine = Literal["cpu", "gpu", "gpu-double"]

SERIAL_BELOW = 20_000


def simulate(
    policy: Any,
    env: Environment | Custom | Any,
    rounds: int,
    replications: int = 1,
    seed: int = 0,
    *,
    engine: Engine = "cpu",
    workers: int | None = None,
    record: int | Sequence[int] | None = None,
    optimum: float | None = None,
    keep_choices: bool = False,
    compile: bool = True,
    progress: bool | None = None,
    name: str | None = None,
    warn: bool = True,
) -> Result:
    """Run `policy` in `env`, each replication from a copy of the policy's present state; the policy given is not changed.

    Draws come from a counter-based generator keyed by seed, replication, round and slot and do not depend on the action: the
    same seed gives the same numbers for any number of workers, and comparisons of policies under one seed are paired.

    Parameters
    ----------
    policy : ShadowPrice, another policy of the package, or any object
        A user's own policy needs `decide(features=…, costs=…)` (only what the environment has is passed; `actions=` too where some
        actions may be off offer), returning an action or an object with `.action`; `learn(decision, reward)`, or
        `learn(decision, reward, costs)` where costs are seen after acting; and `copy(seed)`.
    env : Tabular, Drifting, Custom, or any object that has `draw` and `outcome`
        Only a `Tabular` has compiled loops: others are played by the policy object itself, as with ``compile=False``.
    rounds, replications, seed : int
    engine : "cpu", "gpu" or "gpu-double"
        Where to run. "gpu" needs CuPy and a CUDA device, keeps estimates in float32 and is for the policies named in
        `tightrope.engine.gpu.simulate_many`; "gpu-double" makes the same choices as "cpu".
    workers : int, optional
        Cores to use; all of them by default.
    record : int or sequence of int, optional
        How many rounds to record (about 200 by default, denser at the start), or which ones. Memory depends on these, not
        on `rounds`.
    optimum : float, optional
        The optimal mean reward per round, if known; by default it is computed by `tightrope.solve`, or is what the environment
        itself knows where no LP solver is installed. Without any, as in a `Custom` environment that does not tell its means, there
        is no regret: rewards and costs are what they are, and regret can be filled in later by `Result.with_optimum`.
    keep_choices : bool
        Keep the action of every round of every replication.
    compile : bool
        False runs the policy object itself, round by round, even where a compiled loop exists: the same choices, slowly.
    progress : bool, optional
        A progress bar on standard error; by default if that is a terminal.
    name : str, optional
        What the policy is called in the result; by default its registered name, or its class.
    warn : bool
        Whether a `PolicyWarning` tells what is in `result.concerns`.

    Returns
    -------
    Result
        Ctrl-C ends the run and gives a result with the replications that were finished (`result.interrupted`).

    Examples
    --------
    >>> import tightrope as tr
    >>> env = tr.environments.bandit(threshold=0.5, costs_seen="after")
    >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1, cost_range=(-0.5, 0.5))
    >>> run = tr.simulate(policy, env, rounds=1000, replications=10, seed=0)
    >>> bool(run.regret.mean[-1] < 100)
    True
    """
    if not isinstance(env, Tabular | Drifting):
        env = Custom.of(env)
    for method in ("decide", "learn", "copy"):
        if not callable(getattr(policy, method, None)):
            raise InvalidInput(f"policy must have a method {method}, but {type(policy).__name__} has none.")
    if engine not in get_args(Engine):
        listed = ", ".join(map(repr, get_args(Engine)))
        raise InvalidInput(f"engine must be one of {listed}, but got {engine!r}.")
    policy = for_problem(policy, env.problem())
    if engine != "cpu":
        from tightrope.engine.gpu import simulate_many

        return simulate_many(
            [policy],
            env,  # type: ignore[arg-type]  # it refuses what it can't play
            rounds,
            replications,
            seed,
            record=record,
            optimum=optimum,
            keep_choices=keep_choices,
            precision="single" if engine == "gpu" else "double",
            names=None if name is None else [name],
        )[0]
    rounds = whole_number("rounds", rounds, low=1)
    replications = whole_number("replications", replications, low=1)
    seed = whole_number("seed", seed)
    workers = (os.cpu_count() or 1) if workers is None else whole_number("workers", workers, low=1)
    grid = recorded_rounds(rounds, record)
    env.problem().require_fit(policy)
    best = known_optimum(env, optimum, grid)

    started = time.perf_counter()
    runner = None
    if compile and isinstance(env, Tabular):
        runner = compiled(policy, env, tabular_arrays(env), seed, rounds, grid, keep_choices)
    stop = np.zeros(1, dtype=np.int64)
    done: dict[int, Replication] = {}
    interrupted = False
    with progress_bar(name or policy_name(policy), replications, "runs", progress) as advance:
        finished = (
            _threads(runner, replications, workers, stop)
            if runner is not None
            else _python(
                partial(_one, policy, env, seed, rounds, grid, keep_choices, stop),
                replications,
                workers,
                rounds,
            )
        )
        try:
            for replication, out in finished:
                done[replication] = out
                advance()
        except KeyboardInterrupt:
            interrupted = True
            stop[0] = 1
            if not done:
                raise
        finally:
            finished.close()
    result = _result(
        done,
        policy=name or policy_name(policy),
        env=env,
        grid=grid,
        seed=seed,
        keep_choices=keep_choices,
        optimum=best.value,
        optimum_interval=best.interval,
        optimal_reward=best.earned,
        baseline=best.baseline,
        seconds=time.perf_counter() - started,
        interrupted=interrupted,
        settings={
            "policy": repr(policy),
            "environment": repr(env),
            "rounds": rounds,
            "replications": len(done),
        },
    )
    for concern in result.concerns if warn else ():
        tell(f"{result.policy} on {result.scenario}: {in_runs(concern, len(done))}")
    return result


def _threads(
    runner: Runner, replications: int, workers: int, stop: NDArray[np.int64]
) -> Generator[tuple[int, Replication], None, None]:
    """Replications on threads: the compiled loops do not hold Python's lock."""
    with ThreadPoolExecutor(workers) as pool:
        waiting: dict[Any, int] = {}
        to_come = iter(range(replications))
        try:
            while True:
                for replication in to_come:
                    waiting[pool.submit(runner, replication, stop)] = replication
                    if len(waiting) >= 2 * workers:
                        break
                if not waiting:
                    return
                finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in sorted(finished, key=waiting.__getitem__):
                    yield waiting.pop(future), future.result()
        finally:
            stop[0] = 1
            for future in waiting:
                future.cancel()


def _python(
    one: Callable[[int], tuple[int, Replication]], replications: int, workers: int, rounds: int
) -> Generator[tuple[int, Replication], None, None]:
    """Replications of a policy object, spread over processes when there is enough to do."""
    workers = min(workers, replications)
    if workers == 1 or rounds * replications < SERIAL_BELOW:
        yield from map(one, range(replications))
        return
    from joblib import Parallel, delayed

    jobs = (delayed(one)(replication) for replication in range(replications))
    outcomes = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs")(jobs)
    try:
        yield from outcomes
    finally:
        outcomes.close()


def _one(
    policy: Any,
    env: Environment | Custom,
    seed: int,
    rounds: int,
    grid: NDArray[np.int64],
    keep_choices: bool,
    stop: NDArray[np.int64],
    replication: int,
) -> tuple[int, Replication]:
    twin = policy.copy(policy_seed(seed, replication))
    world: World
    if isinstance(env, Custom):
        world = CustomWorld(twin, env, seed, replication)
    else:
        world = TabularWorld(twin, env, seed, replication, rounds)
    out = Replication(env.n_actions, env.n_constraints, grid, rounds, keep_choices)
    return replication, run_plainly(twin, world, out, rounds, grid, stop)


def _result(
    done: dict[int, Replication], *, env: Environment | Custom, grid: Any, keep_choices: bool, **rest: Any
) -> Result:
    J, K = env.n_actions, env.n_constraints
    order = sorted(done)
    tallies = kernels.tally_views(np.stack([done[i].records for i in order]), J, K)
    return Result(
        scenario=env.name,
        rounds=grid,
        reward=np.ascontiguousarray(tallies.mean_reward),
        observed_reward=np.ascontiguousarray(tallies.reward),
        cost=np.ascontiguousarray(tallies.costs),
        mean_cost=np.ascontiguousarray(tallies.mean_costs),
        counts=np.ascontiguousarray(tallies.counts),
        last_violation=np.stack([done[i].last_violation for i in order]),
        actions=env.actions,
        constraints=env.constraints,
        scales=tuple(units_counted(env).scales.tolist()),
        choices=np.stack([done[i].choices for i in order]) if keep_choices else None,
        concerns=of_runs(done[i].concerns for i in order),
        **rest,
    )
