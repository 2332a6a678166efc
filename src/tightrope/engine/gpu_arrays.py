"""Policies and a tabular environment as the arrays that the kernels of a GPU read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.engine.replication import model_rows
from tightrope.environments.tabular import Tabular
from tightrope.models import hooks
from tightrope.policies import PessimisticOptimistic
from tightrope.problem import Part
from tightrope.validation import Array

UNIT = 1.0 / kernels.TO_UNIT


def world_arguments(env: Tabular) -> list[Any]:
    """The environment in the order of WORLD_ARGUMENTS."""
    cdf = np.cumsum(env.weights)
    cdf[np.flatnonzero(env.weights)[-1] :] = 1.0
    cuts = thresholds(cdf)
    bits = guide_bits(env.n_contexts)
    starts = np.arange(2**bits, dtype=np.uint64) << np.uint64(53 - bits)
    rewards = np.zeros(env.rewards.shape, dtype=[("mean", "f8"), ("threshold", "u8")])
    rewards["mean"] = env.rewards
    rewards["threshold"] = thresholds(env.rewards)
    table, context = cost_tables(env)
    low, high = env.cost_range.T
    locations = env.cost_locations[context]
    return [
        cuts,
        np.searchsorted(cuts, starts, side="right").astype(np.uint32),
        rewards,
        table,
        _even(env.costs[context]),
        _even(locations),
        _even(cost_thresholds(locations, low, high))
        if env.cost_noise == "bernoulli"
        else np.zeros(1, np.uint64),
        np.ascontiguousarray(env.cost_range),
        env.available.astype(np.uint8),
        np.float64(env.reward_scale),
        np.float64(env.cost_scale),
    ]


def policy_arguments(
    policies: Sequence[PessimisticOptimistic],
    env: Tabular,
    rounds: int,
    *,
    packed: bool,
    real: type[Any],
    queue: type[Any],
) -> list[Any]:
    """Rows, steps, start, start_queue and ranges, in the types of the estimates and of the queues."""
    any_state = policies[0].hooks.compiled_state()
    K = env.n_constraints
    start, queues, ranges = [], [], []
    for policy in policies:
        state = policy.hooks.compiled_state()
        start.append(np.concatenate([_model_state(m, packed) for m in (state.reward, state.cost)]))
        queues.append(policy.queue if policy.hooks.n_constraints else np.zeros(max(K, 1)))
        ranges.append(state.ranges if len(state.ranges) else np.zeros((max(K, 1), 2)))
    return [
        padded_rows("reward", any_state.reward, env, real),
        padded_rows("cost", any_state.cost, env, real),
        np.stack([schedule_steps(policy, rounds) for policy in policies]).astype(queue),
        np.stack(start).astype(real),
        np.stack(queues).astype(queue),
        np.stack(ranges).astype(real),
    ]


def comparator_arguments(policies: Sequence[Any], env: Tabular, n_settings: int) -> list[Any]:
    """Tables, start and settings; arrays that depend on the replication come later."""
    J = env.n_actions
    tables, start, settings = [], [], []
    for policy in policies:
        tables.append(thresholds(policy.cdf) if hasattr(policy, "cdf") else np.zeros((1, 1), np.uint64))
        counts, sums = getattr(policy, "counts", np.zeros(J)), getattr(policy, "sums", np.zeros((J, 0)))
        start.append(kernels.device_arms(counts, sums, False))
        own = getattr(policy, "constants", getattr(policy, "shares", np.zeros(0)))
        settings.append(np.pad(own, (0, n_settings - len(own))))
    return [np.stack(tables), np.stack(start), np.stack(settings)]


def schedule_steps(policy: PessimisticOptimistic, rounds: int) -> Array:
    """1/V_t, ε_t and the factors of the widths of reward and costs, (rounds, 4), from the policy's current round on."""
    state = policy.hooks.compiled_state()
    core = state.core
    t = core[kernels.ROUNDS] + 1.0 + np.arange(rounds, dtype=np.float64)
    out = np.zeros((rounds, len(kernels.STEP_COLUMNS)))
    steps = dict(zip(kernels.STEP_COLUMNS, out.T))
    if policy.hooks.n_constraints > 0:
        ahead = np.empty((rounds, 2))
        kernels.schedule_values_ahead(core.copy(), ahead)
        steps["inverse_V"][:], steps["eps"][:] = 1.0 / ahead[:, 0], ahead[:, 1]
    models: list[tuple[str, Any]] = [("reward_bonus", state.reward), ("cost_bonus", state.cost)]
    for column, model in models:
        if model is not None and hooks.compiled(model) == "arms":
            # Above 0, so that an arm without outcomes keeps its infinite width.
            steps[column][:] = np.maximum(model.bonus * np.sqrt(np.log(t)), 1.0 / kernels.UNSEEN**0.75)
        elif model is not None:
            kernels.ridge_bonuses_ahead(model.flat.copy(), core.copy(), steps[column])
    return out


def thresholds(p: Array) -> NDArray[np.uint64]:
    """ceil(p 2⁵³) as whole numbers: a draw m of 53 bits is below it exactly when m / 2⁵³ < p."""
    return np.ceil(np.clip(p, 0.0, 1.0) * UNIT).astype(np.uint64)


def cost_thresholds(location: Array, low: Array, high: Array) -> NDArray[np.uint64]:
    """The least m of 53 bits for which `u·(high − low) < location − low`, the kernels' test of a jump, is false at u = m / 2⁵³.

    The test rounds, so the threshold is found by bisection on the test itself, which is monotone in m.
    """
    below = np.zeros(location.shape, dtype=np.uint64)
    above = np.full(location.shape, 2**53, dtype=np.uint64)
    for _ in range(54):
        middle = (below + above) // np.uint64(2)
        jumps = (middle * (1.0 / UNIT)) * (high - low) < location - low
        below = np.where(jumps & (below < above), middle + np.uint64(1), below)
        above = np.where(jumps, above, middle)
    return below


def seed_keys(seed: int) -> NDArray[np.uint32]:
    """The keys of Philox's ten rounds, two by two."""
    key = int(np.uint64(seed))
    words = (key & 0xFFFFFFFF, key >> 32)
    weyl = (int(kernels.PHILOX_W0), int(kernels.PHILOX_W1))
    rounds = [
        (word + i * step) & 0xFFFFFFFF
        for i in range(kernels.PHILOX_ROUNDS)
        for word, step in zip(words, weyl)
    ]
    return np.array(rounds, dtype=np.uint32)


def cost_tables(env: Tabular) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Contexts with equal costs share a table: the table of each context, and one context of each table."""
    if env.n_constraints == 0:
        return np.zeros(env.n_contexts, dtype=np.uint32), np.zeros(1, dtype=np.int64)
    both = np.concatenate([env.costs, env.cost_locations], axis=2).reshape(env.n_contexts, -1)
    _, context, table = np.unique(both, axis=0, return_index=True, return_inverse=True)
    return table.reshape(-1).astype(np.uint32), context


def guide_bits(contexts: int) -> int:
    """How many leading bits of a draw the first lookup of a context uses."""
    return max(1, math.ceil(math.log2(contexts)) + 3)


def _even(table: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(np.pad(table, ((0, 0), (0, 0), (0, table.shape[2] % 2))))


def padded_rows(part: Part, model: Any, env: Tabular, real: type[Any]) -> NDArray[Any]:
    """Feature rows padded to a multiple of four numbers, so that four are loaded at a time."""
    if model is None or not model.n_features:
        return np.zeros(4, dtype=real)
    rows = model_rows(env, part, model)
    return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % 4))).astype(real))


def _model_state(model: Any, packed: bool) -> Array:
    if model is None:
        return np.zeros(0)
    if hooks.compiled(model) == "arms":
        return np.asarray(kernels.device_arms(model.counts, model.sums, packed))
    return np.asarray(kernels.device_ridge(model.Sigma_inv, model.Theta, packed))
