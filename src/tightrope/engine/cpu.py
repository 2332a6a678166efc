"""Compiled replications: one adapter for each kind of policy that has a loop in the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.engine.world import Replication, context_index, rows_for
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans, DisjointRidge, Ridge
from tightrope.policies import OPB, Oracle, PessimisticOptimistic, RoundRobin, Uniform
from tightrope.validation import Array, require_unit_rows

Runner = Callable[[int, NDArray[np.int64]], Replication]


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
    if type(policy) is PessimisticOptimistic and policy.compiles:
        return _pessimistic_optimistic(policy, env, world, seed, rounds, grid, keep_choices)
    if type(policy) in COMPARATORS:
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
    J, C = env.n_actions, env.n_contexts
    reward_rows = context_index(rows_for("reward", policy._reward, env.features, J), C)
    cost_rows = context_index(rows_for("cost", policy._cost, env.cost_features, J), C)
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
            twin._columns,
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


COMPARATORS = {
    Uniform: kernels.UNIFORM,
    Oracle: kernels.STATIC,
    RoundRobin: kernels.ROUND_ROBIN,
    OPB: kernels.OPB,
}


def _comparator(
    policy: Uniform | Oracle | RoundRobin | OPB,
    env: Tabular,
    world: kernels.TabularArrays,
    seed: int,
    rounds: int,
    grid: NDArray[np.int64],
    keep_choices: bool,
) -> Runner:
    J = env.n_actions
    kind = COMPARATORS[type(policy)]
    size = (
        policy.x.shape
        if isinstance(policy, Oracle)
        else (policy.n_arms if isinstance(policy, OPB) else policy.n_actions)
    )
    if size not in (J, (env.n_contexts, J)):
        raise InvalidInput(
            f"{policy!r} does not fit an environment of {env.n_contexts} contexts and {J} actions."
        )

    def run(replication: int, stop: NDArray[np.int64]) -> Replication:
        twin = policy.copy(policy_seed(seed, replication))
        out = Replication(world, grid, rounds, keep_choices)
        out.rounds_run = kernels.simulate_comparator(
            world,
            kind,
            twin.cdf if isinstance(twin, Oracle) else np.zeros((1, 1)),
            twin.shares if isinstance(twin, RoundRobin) else np.zeros(J),
            twin.counts if isinstance(twin, (RoundRobin, OPB)) else np.zeros(J),
            twin.sums if isinstance(twin, OPB) else np.zeros((J, 2)),
            twin.settings if isinstance(twin, OPB) else np.zeros(1),
            np.uint64(getattr(twin, "seed", 0)),
            twin._ledger.made,
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


def check_fit(policy: Any, env: Tabular) -> None:
    """Refuse a policy whose constraints are not the environment's."""
    if isinstance(policy, OPB) and (
        env.n_constraints != 1 or env.costs_seen != "after" or not env.available.all()
    ):
        raise InvalidInput(
            "OPB is for one constraint seen after acting, all arms on offer: the environment is another."
        )
    if not isinstance(policy, PessimisticOptimistic):
        return
    K, seen, J = policy.n_constraints, env.costs_seen, env.n_actions
    for model, features in ((policy._reward, env.features), (policy._cost, env.cost_features)):
        if isinstance(model, (ArmMeans, DisjointRidge)) and model.n_actions != J:
            raise InvalidInput(f"the environment has {J} actions, but the policy's model is {model!r}.")
        if isinstance(model, (Ridge, DisjointRidge)) and features is not None:
            require_unit_rows("features", features.reshape(-1, features.shape[-1]), kernels.NORM_LIMIT)
    if K == 0:
        return
    if env.n_constraints != K:
        raise InvalidInput(f"the policy has {K} constraints, but the environment has {env.n_constraints}.")
    learns = policy.cost_model is not None
    if seen == "after" and len(policy._columns) != K:
        raise InvalidInput(
            "costs are seen after acting in this environment: the policy needs cost=, a model of them."
        )
    if seen == "before" and learns:
        raise InvalidInput("costs are seen before acting in this environment: make the policy without cost=.")


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
    if isinstance(model, (Ridge, DisjointRidge)):
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
