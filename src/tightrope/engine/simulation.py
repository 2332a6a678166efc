"""`simulate`: many independent replications on all cores, with the same numbers for any number of cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tightrope.concerns import in_runs, of_runs
from tightrope.concerns import warn as tell
from tightrope.engine.cpu import Runner, compiled, policy_seed
from tightrope.engine.recording import Terms, known_optimum, policy_name
from tightrope.engine.replication import CustomWorld, Replication, TabularWorld, run_plainly
from tightrope.environments.custom import Custom
from tightrope.environments.drifting import Drifting, Environment
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.policies.build import for_problem
from tightrope.policies.hooks import Player
from tightrope.progress import progress_bar
from tightrope.result import Result
from tightrope.validation import require_choice, whole_number

Engine = Literal["cpu", "gpu", "gpu-double"]

SERIAL_BELOW = 20_000


def simulate(
    policy: Player,
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
        Your own policy needs `decide(features=…, costs=…)` (only what the environment has is passed; also `actions=` if some
        actions may be off offer), returning an action or an object with `.action`; `learn(decision, reward)`, or `learn(decision,
        reward, costs)` where costs are seen after acting; and `copy(seed)`.
    env : Tabular, Drifting, Custom, or any object that has `draw` and `outcome`
        Only a `Tabular` has compiled loops; in others the policy object runs round by round, as with ``compile=False``.
    rounds, replications, seed : int
    engine : "cpu", "gpu" or "gpu-double"
        Where to run. "gpu" needs CuPy and a CUDA device, keeps estimates in float32 and supports the policies named in
        `tightrope.engine.gpu.simulate_many`; "gpu-double" makes the same choices as "cpu".
    workers : int, optional
        Cores to use; all of them by default.
    record : int or sequence of int, optional
        How many rounds to record (about 200 by default, denser at the start), or which ones. Memory depends on these, not
        on `rounds`.
    optimum : float, optional
        The optimal mean reward per round, if known. By default `tightrope.solve` computes it; without an LP solver, the
        environment's own value is used. If there is none, as in a `Custom` environment without `means`, the result has rewards and
        costs but no regret; `Result.with_optimum` adds it later.
    keep_choices : bool
        Keep the action of every round of every replication.
    compile : bool
        False runs the policy object itself, round by round, even where a compiled loop exists: the same choices, slowly.
    progress : bool, optional
        Whether to show a progress bar on standard error; by default if that is a terminal.
    name : str, optional
        What the policy is called in the result; by default its registered name, or its class.
    warn : bool
        Whether to warn (`PolicyWarning`) about what is in `result.concerns`.

    Returns
    -------
    Result
        Ctrl-C ends the run and returns a result with the finished replications (`result.interrupted`).

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
            raise InvalidInput(
                field="policy", must=f"have a method {method}, but {type(policy).__name__} has none"
            )
    require_choice("engine", engine, get_args(Engine))
    policy = for_problem(policy, env.problem())
    if engine != "cpu":
        from tightrope.engine.gpu import simulate_many

        return simulate_many(
            [policy],
            env,  # type: ignore[arg-type]  # it refuses what it can't run
            rounds,
            replications,
            seed,
            record=record,
            optimum=optimum,
            keep_choices=keep_choices,
            precision="single" if engine == "gpu" else "double",
            names=None if name is None else [name],
        )[0]
    terms = Terms.of(rounds, replications, seed, record, keep_choices)
    workers = (os.cpu_count() or 1) if workers is None else whole_number("workers", workers, low=1)
    label = name or policy_name(policy)
    env.problem().require_fit(policy)
    best = known_optimum(env, optimum, terms.grid)

    started = time.perf_counter()
    runner = compiled(policy, env, terms) if compile and isinstance(env, Tabular) else None
    stop = np.zeros(1, dtype=np.int64)
    if runner is not None:
        finished = _threads(runner, terms.replications, workers, stop)
    else:
        finished = _python(partial(_one, policy, env, terms, stop), terms, workers)
    done: dict[int, Replication] = {}
    interrupted = False
    with progress_bar(label, terms.replications, "runs", progress) as advance:
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
    runs = [done[i] for i in sorted(done)]
    result = terms.result(
        policy,
        env,
        best,
        np.stack([run.records for run in runs]),
        name=label,
        last_violation=np.stack([run.last_violation for run in runs]),
        choices=np.stack([run.choices for run in runs]) if keep_choices else None,
        concerns=of_runs(run.concerns for run in runs),
        seconds=time.perf_counter() - started,
        interrupted=interrupted,
    )
    for concern in result.concerns if warn else ():
        tell(f"{result.policy} on {result.scenario}: {in_runs(concern, len(done))}")
    return result


def _threads(
    runner: Runner, replications: int, workers: int, stop: NDArray[np.int64]
) -> Generator[tuple[int, Replication], None, None]:
    """Replications on threads: the compiled loops release the GIL."""
    with ThreadPoolExecutor(workers) as pool:
        try:
            futures = [pool.submit(runner, replication, stop) for replication in range(replications)]
            for replication, future in enumerate(futures):
                yield replication, future.result()
        finally:
            stop[0] = 1
            pool.shutdown(cancel_futures=True)


def _python(
    one: Callable[[int], tuple[int, Replication]], terms: Terms, workers: int
) -> Generator[tuple[int, Replication], None, None]:
    """Replications of a policy object, spread over processes when there is enough to do."""
    workers = min(workers, terms.replications)
    if workers == 1 or terms.rounds * terms.replications < SERIAL_BELOW:
        yield from map(one, range(terms.replications))
        return
    from joblib import Parallel, delayed

    jobs = (delayed(one)(replication) for replication in range(terms.replications))
    outcomes = Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="2*n_jobs")(jobs)
    try:
        yield from outcomes
    finally:
        outcomes.close()


def _one(
    policy: Player, env: Environment | Custom, terms: Terms, stop: NDArray[np.int64], replication: int
) -> tuple[int, Replication]:
    twin = policy.copy(policy_seed(terms.seed, replication))
    make: Any = CustomWorld if isinstance(env, Custom) else TabularWorld
    return replication, run_plainly(twin, make(twin, env, terms, replication), terms, stop)
