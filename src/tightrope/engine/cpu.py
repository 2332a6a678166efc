"""Compiled replications: one adapter for each kind of policy that has a loop in the kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.engine.replication import Replication, model_rows
from tightrope.environments.tabular import Tabular
from tightrope.policies import PessimisticOptimistic
from tightrope.validation import Array

Runner = Callable[[int, NDArray[np.int64]], Replication]

COMPARATORS = {
    "uniform": kernels.UNIFORM,
    "table": kernels.STATIC,
    "round-robin": kernels.ROUND_ROBIN,
    "opb": kernels.OPB,
}


def compiled(
    policy: Any,
    env: Tabular,
    world: kernels.TabularArrays,
    seed: int,
    rounds: int,
    grid: NDArray[np.int64],
    keep_choices: bool,
) -> Runner | None:
    """A function that runs one replication, or None where `policy` has no compiled loop."""
    # Of the class itself: one that inherits may decide otherwise.
    loop = vars(type(policy)).get("loop")
    if loop == "pessimistic-optimistic" and policy.compiles:
        simulate = _pessimistic_optimistic(policy, env, world)
    elif loop in COMPARATORS:
        simulate = functools.partial(_comparator, policy, world)
    else:
        return None

    def run(replication: int, stop: NDArray[np.int64]) -> Replication:
        out = Replication(world, grid, rounds, keep_choices)
        written = out.records, out.last_violation, out.choices, out.tally, out.drawn
        out.rounds_run = simulate(kernels.Run(np.uint64(seed), replication, rounds, grid, *written, stop))
        return out

    return run


def policy_seed(seed: int, replication: int) -> int:
    """What `copy` is given, so that a policy's own randomness differs between replications and not between engines."""
    return int(np.random.SeedSequence((seed, replication)).generate_state(1, np.uint64)[0] >> 1)


def _pessimistic_optimistic(
    policy: PessimisticOptimistic, env: Tabular, world: kernels.TabularArrays
) -> Callable[[kernels.Run], int]:
    reward_rows, cost_rows = model_rows(env, "reward", policy._reward), model_rows(env, "cost", policy._cost)
    p = max(reward_rows.shape[2], cost_rows.shape[2])

    def simulate(run: kernels.Run) -> int:
        twin = policy.copy()
        reward, cost = _model_arrays(twin._reward, reward_rows), _model_arrays(twin._cost, cost_rows)
        arrays = kernels.PolicyArrays(reward, cost, twin._ranges, twin._input.columns, twin._core)
        rounds: int = kernels.simulate_pessimistic_optimistic(world, arrays, _workspace(world, twin, p), run)
        return rounds

    return simulate


def _comparator(policy: Any, world: kernels.TabularArrays, run: kernels.Run) -> int:
    """The loop of a policy that looks at neither features nor costs before acting; its arrays go by their names."""
    J = world.rewards.shape[1]
    twin = policy.copy(policy_seed(int(run.seed), run.replication))
    arrays = kernels.ComparatorArrays(
        kind=COMPARATORS[policy.loop],
        table=getattr(twin, "cdf", np.zeros((1, 1))),
        shares=getattr(twin, "shares", np.zeros(J)),
        counts=getattr(twin, "counts", np.zeros(J)),
        sums=getattr(twin, "sums", np.zeros((J, 2))),
        settings=getattr(twin, "constants", np.zeros(1)),
        seed=np.uint64(getattr(twin, "seed", 0)),
        made=twin.rounds,
        mixture=np.empty((2, J)),
    )
    rounds: int = kernels.simulate_comparator(world, arrays, run)
    return rounds


def _workspace(world: kernels.TabularArrays, policy: PessimisticOptimistic, p: int) -> kernels.Workspace:
    C, J, _ = world.means.shape
    return kernels.Workspace(
        trace=np.empty(kernels.trace_size(J, policy.n_constraints)),
        costs=np.zeros(J * policy.n_constraints),
        y=np.empty(1),
        inverse=np.empty(2 * p * p),
        # Zeros take no memory before they are written to, which matters where there are many contexts.
        bounds=np.zeros(C * J),
        penalty=np.empty(J),
        rewards=np.empty(J),
        values=np.empty(J),
        fresh=np.empty(J, dtype=np.bool_),
    )


def _model_arrays(model: Any, rows: Array) -> kernels.ModelArrays:
    """The model in the loop's form, with empty arrays in place of the kind that it is not."""
    none = np.zeros(1)
    kind, ridge = kernels.NO_MODEL, kernels.RidgeArrays(none, 1, none, none)
    arms = kernels.ArmArrays(none, np.zeros((1, 1)), none)
    if model is not None and model.compiled == "ridge":
        per_context, p = rows.shape[1:]
        kind = kernels.RIDGE_MODEL
        ridge = kernels.RidgeArrays(rows.reshape(-1), per_context, model.flat, np.empty(per_context * p))
    elif model is not None:
        kind, arms = kernels.ARM_MODEL, kernels.ArmArrays(model.counts, model.sums, model.stat)
    return kernels.ModelArrays(kind, ridge, arms)
