"""Compiled replications: one adapter for each kind of policy that has a loop in the kernels."""

from __future__ import annotations

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
        return _pessimistic_optimistic(policy, env, world, seed, rounds, grid, keep_choices)
    if loop in COMPARATORS:
        return _comparator(policy, env, world, seed, rounds, grid, keep_choices)
    return None


def policy_seed(seed: int, replication: int) -> int:
    """What `copy` is given, so that a policy's own randomness differs between replications and not between engines."""
    return int(np.random.SeedSequence((seed, replication)).generate_state(1, np.uint64)[0] >> 1)


def _pessimistic_optimistic(
    policy: PessimisticOptimistic,
    env: Tabular,
    world: kernels.TabularArrays,
    seed: int,
    rounds: int,
    grid: NDArray[np.int64],
    keep_choices: bool,
) -> Runner:
    reward_rows, cost_rows = model_rows(env, "reward", policy._reward), model_rows(env, "cost", policy._cost)
    p = max(reward_rows.shape[2], cost_rows.shape[2])

    def run(replication: int, stop: NDArray[np.int64]) -> Replication:
        twin = policy.copy()
        out = Replication(world, grid, rounds, keep_choices)
        reward_kind, reward_ridge, reward_arms = _model_arrays(twin._reward, reward_rows)
        cost_kind, cost_ridge, cost_arms = _model_arrays(twin._cost, cost_rows)
        out.rounds_run = kernels.simulate_pessimistic_optimistic(
            world,
            twin.n_constraints > 0,
            reward_kind,
            reward_ridge,
            reward_arms,
            cost_kind,
            cost_ridge,
            cost_arms,
            twin._ranges,
            twin._input.columns,
            twin._core,
            _workspace(world, twin, p),
            np.uint64(seed),
            replication,
            rounds,
            grid,
            out.records,
            out.last_violation,
            out.choices,
            out.tally,
            out.drawn,
            stop,
        )
        return out

    return run


def _comparator(
    policy: Any,
    env: Tabular,
    world: kernels.TabularArrays,
    seed: int,
    rounds: int,
    grid: NDArray[np.int64],
    keep_choices: bool,
) -> Runner:
    """The loop of a policy that looks at neither features nor costs before acting; its arrays go by their names."""
    J, kind = env.n_actions, COMPARATORS[policy.loop]

    def run(replication: int, stop: NDArray[np.int64]) -> Replication:
        twin = policy.copy(policy_seed(seed, replication))
        out = Replication(world, grid, rounds, keep_choices)
        out.rounds_run = kernels.simulate_comparator(
            world,
            kind,
            getattr(twin, "cdf", np.zeros((1, 1))),
            getattr(twin, "shares", np.zeros(J)),
            getattr(twin, "counts", np.zeros(J)),
            getattr(twin, "sums", np.zeros((J, 2))),
            getattr(twin, "constants", np.zeros(1)),
            np.uint64(getattr(twin, "seed", 0)),
            twin.rounds,
            np.uint64(seed),
            replication,
            rounds,
            grid,
            out.records,
            out.last_violation,
            out.choices,
            out.tally,
            out.drawn,
            stop,
            np.empty((2, J)),
        )
        return out

    return run


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


def _model_arrays(model: Any, rows: Array) -> tuple[int, kernels.RidgeArrays, kernels.ArmArrays]:
    """The model in the loop's form, with empty arrays in place of the kind that it is not."""
    none = np.zeros(1)
    arms = kernels.ArmArrays(none, np.zeros((1, 1)), none)
    if model is not None and model.compiled == "ridge":
        per_context, p = rows.shape[1:]
        buffer = np.empty(per_context * p)
        return (
            kernels.RIDGE_MODEL,
            kernels.RidgeArrays(rows.reshape(-1), per_context, model.flat, buffer),
            arms,
        )
    ridge = kernels.RidgeArrays(none, 1, none, none)
    if model is None:
        return kernels.NO_MODEL, ridge, arms
    return kernels.ARM_MODEL, ridge, kernels.ArmArrays(model.counts, model.sums, model.stat)
