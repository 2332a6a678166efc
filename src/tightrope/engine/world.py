"""A tabular environment in the form of the compiled loops, and the replication that any policy object can run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans, DisjointRidge, Ridge
from tightrope.validation import Array

KINDS = {"none": kernels.FIXED, "bernoulli": kernels.BERNOULLI, "gaussian": kernels.GAUSSIAN}


def world_of(env: Tabular) -> kernels.TabularArrays:
    """The arrays that the loops read."""
    cdf = np.cumsum(env.weights)
    cdf[np.flatnonzero(env.weights)[-1] :] = 1.0
    sizes = env.available.sum(axis=1)
    return kernels.TabularArrays(
        cdf=cdf,
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        ids=np.nonzero(env.available)[1].astype(np.int64),
        rewards=np.array(env.rewards),
        reward_kind=KINDS[env.reward_noise],
        reward_scale=env.reward_scale,
        means=np.array(env.costs),
        locations=np.array(env.cost_locations),
        cost_kind=KINDS[env.cost_noise],
        cost_scale=env.cost_scale,
        spans=np.array(env.cost_range),
        before=env.costs_seen == "before",
    )


def rows_for(
    name: str, model: Ridge | DisjointRidge | ArmMeans | None, features: Array | None, J: int
) -> Array:
    """The environment's features as the rows that `model` reads, (C, J, d) or (C, 1, p) for one row that serves all actions."""
    if model is None or isinstance(model, ArmMeans):
        return np.zeros((1, 1, 1))
    d = model.n_features
    if features is None:
        if isinstance(model, Ridge) and d == J:
            return np.eye(J)[None]
        raise InvalidInput(
            f"the {name} model {model!r} needs features, but the environment has none: use ArmMeans({J})."
        )
    p = features.shape[-1]
    if isinstance(model, DisjointRidge):
        wanted = f"DisjointRidge({J}, {p})"
        if model.n_actions == J and d == p:
            return np.array(features[:, None, :] if features.ndim == 2 else features)
    elif features.ndim == 3:
        wanted = f"Ridge({p})"
        if d == p:
            return np.array(features)
    else:
        wanted = f"DisjointRidge({J}, {p}) or Ridge({J * p})"
        if d == J * p:
            rows = np.einsum("jk,cp->cjkp", np.eye(J), features)
            return np.ascontiguousarray(rows.reshape(len(features), J, J * p))
    raise InvalidInput(f"the {name} model must be {wanted} in this environment, but is {model!r}.")


def context_index(rows: Array, n_contexts: int) -> Array:
    """Rows that are the same in every context, repeated where there are several contexts."""
    return rows if len(rows) == n_contexts else np.ascontiguousarray(np.repeat(rows, n_contexts, axis=0))


class Replication:
    """What one replication leaves: the tally at the recorded rounds, the last violated rounds, the choices if kept.

    `tally` and `drawn`, the costs of the round, are what it works with.
    """

    __slots__ = ("choices", "drawn", "last_violation", "records", "rounds_run", "tally")

    def __init__(
        self, world: kernels.TabularArrays, grid: NDArray[np.int64], rounds: int, keep_choices: bool
    ) -> None:
        J, K = world.rewards.shape[1], world.means.shape[2]
        self.tally = np.zeros(kernels.tally_size(J, K))
        self.drawn = np.zeros(K)
        self.records = np.zeros((len(grid), len(self.tally)))
        self.last_violation = np.zeros(K, dtype=np.int64)
        self.choices = np.zeros(rounds if keep_choices else 0, dtype=np.int16)
        self.rounds_run = 0


def replay_in_python(
    policy: Any,
    env: Tabular,
    seed: int,
    replication: int,
    rounds: int,
    grid: NDArray[np.int64],
    keep_choices: bool,
    stop: NDArray[np.int64],
) -> Replication:
    """One replication of any policy with `decide` and `learn`, by the same draws as the compiled loops."""
    world = world_of(env)
    J, K = world.rewards.shape[1], world.means.shape[2]
    out = Replication(world, grid, rounds, keep_choices)
    tally, drawn = out.tally, out.drawn
    sleeping = not env.available.all()
    before = env.costs_seen == "before"
    constrained = getattr(policy, "n_constraints", K) > 0 and K > 0
    sees_costs = before and constrained
    sees_context = bool(getattr(policy, "sees_context", False))
    reward_rows, one_reward_row = _rows_of(policy, "reward", env.features, J)
    cost_rows, one_cost_row = _rows_of(policy, "cost", env.cost_features, J)
    at = 0
    for t in range(1, rounds + 1):
        if stop[0]:
            break
        u, v = kernels.uniforms(seed, replication, t, kernels.CONTEXT_SLOT)
        c = kernels.pick(world.cdf, u)
        ids = world.ids[world.offsets[c] : world.offsets[c + 1]]
        offer: dict[str, Any] = {}
        if reward_rows is not None:
            offer["features"] = _offered(reward_rows, one_reward_row, c, ids)
        if sees_costs:
            offer["costs"] = shown = np.empty((len(ids), K))
            kernels.offered_costs(world, seed, replication, t, c, ids, shown.reshape(-1))
        elif constrained and cost_rows is not None:
            offer["costs"] = _offered(cost_rows, one_cost_row, c, ids)
        if sleeping:
            offer["actions"] = ids.tolist()
        if sees_context:
            offer["context"] = c
        decision = policy.decide(**offer)
        a = int(getattr(decision, "action", decision))
        if a not in ids:
            raise InvalidInput(
                f"{type(policy).__name__}.decide chose action {a} in round {t}, which is not on offer."
            )
        mean = world.rewards[c, a]
        reward = kernels.draw_reward(seed, replication, t, v, mean, world.reward_kind, world.reward_scale)
        kernels.chosen_costs(world, seed, replication, t, c, a, drawn)
        if before or not constrained:
            policy.learn(decision, reward)
        else:
            policy.learn(decision, reward, drawn.copy())
        mean_costs = drawn if sees_costs else world.means[c, a]
        kernels.add_to_tally(tally, t, a, mean, reward, drawn, 0, mean_costs, 0, out.last_violation)
        if keep_choices:
            out.choices[t - 1] = a
        if t == grid[at]:
            out.records[at] = tally
            at += 1
        out.rounds_run = t
    return out


def _rows_of(policy: Any, part: str, features: Array | None, J: int) -> tuple[Array | None, bool]:
    """What a policy object is shown, in the form of its own model where it has one, and whether one row is for all actions."""
    model = getattr(policy, f"{part}_model", None)
    if isinstance(model, (Ridge, DisjointRidge)):
        rows = rows_for(part, model, features, J)
    elif isinstance(model, ArmMeans) or features is None:
        return None, False
    else:
        rows = features if features.ndim == 3 else features[:, None, :]
    # A model that all actions share takes a row for each, even where there is but one.
    return rows, rows.shape[1] == 1 and not isinstance(model, Ridge)


def _offered(rows: Array, one_row: bool, c: int, ids: NDArray[np.int64]) -> Array:
    row: Array = rows[c if len(rows) > 1 else 0]
    offered: Array = row[0].copy() if one_row else row[ids]
    return offered
