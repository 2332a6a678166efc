"""Compiled replications: one adapter for each kind of policy that has a loop in the kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.engine.recording import Terms
from tightrope.engine.replication import Replication, model_rows, of_run, offered, tabular_arrays
from tightrope.environments.tabular import Tabular
from tightrope.kernels import shadow_loop
from tightrope.models import hooks
from tightrope.policies import PessimisticOptimistic, Policy, ShadowPrice
from tightrope.policies.hooks import Player
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory
from tightrope.validation import Array

Runner = Callable[[int, NDArray[np.int64]], Replication]
# Runs one replication; returns how many rounds it ran, and the policy as it is then.
Loop = Callable[[kernels.Run], tuple[int, Policy]]

COMPARATORS = {
    "uniform": kernels.UNIFORM,
    "table": kernels.STATIC,
    "round-robin": kernels.ROUND_ROBIN,
    "opb": kernels.OPB,
}


def compiled(policy: Player, env: Tabular, terms: Terms) -> Runner | None:
    """A function that runs one replication, or None if `policy` has no compiled loop."""
    if not isinstance(policy, Policy) or (loop := policy.hooks.loop) is None or not policy.hooks.compiles():
        return None
    world = tabular_arrays(env)
    simulate: Loop | None = None
    if isinstance(policy, PessimisticOptimistic):
        simulate = _pessimistic_optimistic(policy, env, world)
    elif isinstance(policy, ShadowPrice):
        simulate = _shadow_price(policy, env, world)
    elif loop in COMPARATORS:
        simulate = functools.partial(_comparator, policy, loop, world)
    if simulate is None:
        return None

    def run(replication: int, stop: NDArray[np.int64]) -> Replication:
        out, rounds, grid = Replication(env, terms), terms.rounds, terms.grid
        written = out.records, out.last_violation, out.choices, out.tally, out.drawn
        out.rounds_run, twin = simulate(
            kernels.Run(np.uint64(terms.seed), replication, rounds, grid, *written, stop)
        )
        if out.rounds_run == rounds:
            twin.hooks.pending.made += rounds
            out.concerns = of_run(twin, offered(env, rounds), out.records, grid)
        return out

    return run


def policy_seed(seed: int, replication: int) -> int:
    """The seed for `copy`, so that a policy's own randomness differs between replications but not between engines."""
    return int(np.random.SeedSequence((seed, replication)).generate_state(1, np.uint64)[0] >> 1)


def _pessimistic_optimistic(
    policy: PessimisticOptimistic, env: Tabular, world: kernels.TabularArrays
) -> Loop | None:
    if policy.hooks.n_constraints and env.seen_mixed:
        return None
    reward_rows, cost_rows = _rows(env, policy.hooks.compiled_state())
    p = max(reward_rows.shape[2], cost_rows.shape[2])

    def simulate(run: kernels.Run) -> tuple[int, Policy]:
        twin = policy.copy()
        own = twin.hooks.compiled_state()
        reward, cost = _model_arrays(own.reward, reward_rows), _model_arrays(own.cost, cost_rows)
        arrays = kernels.PolicyArrays(reward, cost, own.ranges, own.columns, own.core)
        rounds: int = kernels.simulate_pessimistic_optimistic(world, arrays, _workspace(world, twin, p), run)
        return rounds, twin

    return simulate


def _shadow_price(policy: ShadowPrice, env: Tabular, world: kernels.TabularArrays) -> Loop | None:
    """None if costs are drawn before acting, or if the policy remembers rounds of another world."""
    if env.random_before:
        return None
    state = policy.hooks.compiled_state()
    reward_rows, cost_rows = _rows(env, state)
    first, twins = _equal_contexts(policy, env)
    remembered = [entry for entry in state.memory.entries if entry is not None]
    if state.solve is not None or any(one.key() not in first for one in remembered):
        return None

    def simulate(run: kernels.Run) -> tuple[int, Policy]:
        twin = policy.copy(policy_seed(int(run.seed), run.replication))
        own, settings = twin.hooks.compiled_state(), twin.hooks.settings()
        reward = _standardised_arrays(own.reward, reward_rows)
        cost = _standardised_arrays(own.cost, cost_rows)
        memory = _memory_arrays(own.memory, settings["memory"], twins, first)
        K, J, E = len(twin.totals), env.n_actions, len(memory.counts)
        sample = shadow_loop.SampleArrays(
            contexts=np.zeros(E, dtype=np.int64),
            weights=np.zeros(E),
            offsets=np.zeros(E + 1, dtype=np.int64),
            rewards=np.zeros(E * J),
            costs=np.zeros(E * J * K),
            solver=np.zeros(kernels.prices.solver_size(K)),
            state=np.zeros(shadow_loop.SAMPLE_STATE),
        )
        seed = np.uint64(settings["seed"])
        arrays = shadow_loop.ShadowArrays(reward, cost, own.columns, own.core, memory, sample, seed)
        q = max(reward_rows.shape[2], cost_rows.shape[2]) + 1
        workspace = shadow_loop.ShadowWorkspace(
            trace=np.empty(kernels.shadow_trace.trace_size(J, K)),
            costs=np.zeros(J * K),
            y=np.empty(len(own.columns)),
            booked=np.empty(len(own.columns)),
            room=np.empty(2 * J + kernels.shadow.room_size(J, K, q)),
            inverse=np.empty(2 * q * q),
        )
        rounds: int = shadow_loop.simulate_shadow_price(world, arrays, workspace, run)
        return rounds, twin

    return simulate


def first_equal_contexts(policy: ShadowPrice, env: Tabular) -> NDArray[np.int64]:
    """For each context the first one that looks the same to the policy, (C,): both share one entry of its memory."""
    return _equal_contexts(policy, env)[1]


def _equal_contexts(policy: ShadowPrice, env: Tabular) -> tuple[dict[bytes, int], NDArray[np.int64]]:
    """The first context of each key by which the policy's memory tells contexts apart, and of each context."""
    state, K = policy.hooks.compiled_state(), policy.hooks.n_constraints
    read = [*zip((state.reward, state.cost), _rows(env, state))]
    first: dict[bytes, int] = {}
    twins = np.empty(env.n_contexts, dtype=np.int64)
    for c in range(env.n_contexts):
        ids = np.flatnonzero(env.available[c]).astype(np.int64)
        phi, psi = (
            None
            if model is None or not model.n_features
            else np.ascontiguousarray(rows[c] if rows.shape[1] == 1 else rows[c, ids])
            for model, rows in read
        )
        W = np.ascontiguousarray(np.array(env.costs[c, ids])[:, :K])
        W[:, state.columns] = 0.0
        twins[c] = first.setdefault(Remembered(ids, phi, psi, W).key(), c)
    return first, twins


def _rows(env: Tabular, state: Any) -> tuple[Array, Array]:
    return model_rows(env, "reward", state.reward), model_rows(env, "cost", state.cost)


def _standardised_arrays(model: Any, rows: Array) -> shadow_loop.StandardisedArrays:
    if model is None:
        # No actions and no features: kernels ask for its size even if nothing is learnt.
        flat, spread = kernels.new_ridge(0, 1, 0), np.zeros(1)
    else:
        flat, spread = model.flat, model.spread
    if model is None or not model.n_features:
        rows = np.zeros((1, 1, 1))
    per_context, p = rows.shape[1:]
    return shadow_loop.StandardisedArrays(
        rows.reshape(-1), per_context, flat, spread, np.zeros(per_context * p)
    )


def _memory_arrays(
    memory: RoundMemory, room: int, twins: NDArray[np.int64], first: dict[bytes, int]
) -> shadow_loop.MemoryArrays:
    C = len(twins)
    slots, entries = np.full(room, -1, dtype=np.int64), np.full(C, -1, dtype=np.int64)
    counts = np.zeros(max(min(C, room), len(memory.entries)))
    contexts = np.zeros(len(counts), dtype=np.int64)
    slots[: len(memory)] = memory.slots
    for number, entry in enumerate(memory.entries):
        if entry is not None:
            contexts[number] = first[entry.key()]
            counts[number] = memory.counts[number]
            entries[contexts[number]] = number
    return shadow_loop.MemoryArrays(slots, contexts, counts, entries, twins)


def _comparator(
    policy: Policy, loop: str, world: kernels.TabularArrays, run: kernels.Run
) -> tuple[int, Policy]:
    """The loop of a policy that looks at neither features nor costs before acting; its arrays are passed by name."""
    J = world.rewards.shape[1]
    twin = policy.copy(policy_seed(int(run.seed), run.replication))
    arrays = kernels.ComparatorArrays(
        kind=COMPARATORS[loop],
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
    return rounds, twin


def _workspace(world: kernels.TabularArrays, policy: PessimisticOptimistic, p: int) -> kernels.Workspace:
    C, J, _ = world.means.shape
    K = len(policy.totals)
    return kernels.Workspace(
        trace=np.empty(kernels.trace_size(J, K)),
        costs=np.zeros(J * K),
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
    none = np.zeros(1)
    kind, ridge = kernels.NO_MODEL, kernels.RidgeArrays(none, 1, none, none)
    arms = kernels.ArmArrays(none, np.zeros((1, 1)), none)
    if model is not None and hooks.compiled(model) == "ridge":
        per_context, p = rows.shape[1:]
        kind = kernels.RIDGE_MODEL
        ridge = kernels.RidgeArrays(rows.reshape(-1), per_context, model.flat, np.empty(per_context * p))
    elif model is not None:
        kind, arms = kernels.ARM_MODEL, kernels.ArmArrays(model.counts, model.sums, model.stat)
    return kernels.ModelArrays(kind, ridge, arms)
