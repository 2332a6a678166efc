"""One replication: a tabular environment as the loops read it, what a run leaves, and the plain loop that any policy can run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.concerns import Concern, ignore
from tightrope.engine.concerns import of_run
from tightrope.environments.drifting import Environment, phases_of
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.policies import Policy
from tightrope.problem import Part
from tightrope.validation import Array

KINDS = {"none": kernels.FIXED, "bernoulli": kernels.BERNOULLI, "gaussian": kernels.GAUSSIAN}


def tabular_arrays(env: Tabular) -> kernels.TabularArrays:
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


def model_rows(env: Tabular, part: Part, model: Any) -> Array:
    """The rows that a model reads in each context, (C, J, d) or (C, 1, p); of no meaning for a model that reads none."""
    features = env.features if part == "reward" else env.cost_features
    rows = env.problem().model_rows(part, model, features)
    if rows is None:
        rows = np.zeros((1, 1, 1))
    return (
        rows if len(rows) == env.n_contexts else np.ascontiguousarray(np.repeat(rows, env.n_contexts, axis=0))
    )


class Replication:
    """What one replication leaves: the tally at the recorded rounds, the last violated rounds, the choices if kept, concerns.

    `tally` and `drawn`, the costs of the round, are what it works with.
    """

    __slots__ = ("choices", "concerns", "drawn", "last_violation", "records", "rounds_run", "tally")

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
        self.concerns: list[Concern] = []


def run_plainly(
    policy: Any,
    env: Environment,
    seed: int,
    replication: int,
    rounds: int,
    grid: NDArray[np.int64],
    keep_choices: bool,
    stop: NDArray[np.int64],
) -> Replication:
    """One replication of any policy with `decide` and `learn`, by the same draws as the compiled loops."""
    (_, last, env), *to_come = phases_of(env, rounds)
    world = tabular_arrays(env)
    K = world.means.shape[2]
    out = Replication(world, grid, rounds, keep_choices)
    tally, drawn = out.tally, out.drawn
    sleeping = not env.available.all()
    before = env.costs_seen == "before"
    constrained = getattr(policy, "n_constraints", K) > 0 and K > 0
    sees_costs = before and constrained
    sees_context = bool(getattr(policy, "sees_context", False))
    reward_rows, cost_rows = (shown_rows(policy, env, part) for part in ("reward", "cost"))
    if isinstance(policy, Policy):
        policy.notify = ignore
    at = 0
    for t in range(1, rounds + 1):
        if stop[0]:
            break
        if t > last:
            # All that was read off `env` before the first round is the same in every phase.
            _, last, env = to_come.pop(0)
            world = tabular_arrays(env)
        u, v = kernels.uniforms(seed, replication, t, kernels.CONTEXT_SLOT)
        c = kernels.pick(world.cdf, u)
        ids = world.ids[world.offsets[c] : world.offsets[c + 1]]
        offer: dict[str, Any] = {}
        if reward_rows is not None:
            offer["features"] = reward_rows.of(c, ids)
        if sees_costs:
            offer["costs"] = shown = np.empty((len(ids), K))
            kernels.offered_costs(world, seed, replication, t, c, ids, shown.reshape(-1))
        elif constrained and cost_rows is not None:
            offer["costs"] = cost_rows.of(c, ids)
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
    if out.rounds_run == rounds:
        out.concerns = of_run(policy, env, out.records, grid)
    return out


class ShownRows(NamedTuple):
    """What a policy is shown: rows for each context, one for each action or `one_row` for all."""

    rows: Array
    one_row: bool

    def of(self, c: int, ids: NDArray[np.int64]) -> Array:
        """Those of a context, for the actions on offer."""
        row: Array = self.rows[c if len(self.rows) > 1 else 0]
        offered: Array = row[0].copy() if self.one_row else row[ids]
        return offered


def shown_rows(policy: Any, env: Tabular, part: Any) -> ShownRows | None:
    """What a policy object is shown, in the form of its own model where it has one."""
    model, features = (
        getattr(policy, f"{part}_model", None),
        env.features if part == "reward" else env.cost_features,
    )
    if model is None or not hasattr(model, "takes_features"):
        if features is None:
            return None
        rows = features if features.ndim == 3 else features[:, None, :]
        return ShownRows(rows, rows.shape[1] == 1)
    found = env.problem().model_rows(part, model, features)
    # A model that all actions share takes a row for each, even where there is but one.
    return None if found is None else ShownRows(found, found.shape[1] == 1 and model.n_actions is not None)


def context_draws(seed: int, replication: int, rounds: int) -> Array:
    """The two uniforms of each round's first slot, (rounds, 2): which context comes, and a Bernoulli reward."""
    return np.array(
        [kernels.uniforms(seed, replication, t, kernels.CONTEXT_SLOT) for t in range(1, rounds + 1)]
    )


class EnvironmentDraws(NamedTuple):
    """What an environment draws in one replication.

    The contexts and a uniform for the reward, (T,) each; and where costs are random those of all actions, (T, J, K), of no
    meaning for actions that are not on offer.
    """

    contexts: NDArray[np.int64]
    uniforms: Array
    costs: Array | None


def environment_draws(env: Environment, seed: int, replication: int, rounds: int) -> EnvironmentDraws:
    """The draws that `simulate` makes, for a loop of your own that is to be compared with it run by run.

    >>> env = Tabular([0.5, 0.5], rewards=[[0.1, 0.7], [0.4, 0.2]])
    >>> environment_draws(env, seed=0, replication=0, rounds=4).contexts.shape
    (4,)
    """
    phases, drawn = phases_of(env, rounds), context_draws(seed, replication, rounds)
    contexts, everything = np.zeros(rounds, dtype=np.int64), np.arange(env.n_actions)
    random = any(phase.env.random_costs for phase in phases)
    costs = np.zeros((rounds, env.n_actions, env.n_constraints)) if random else None
    for first, last, now in phases:
        world = tabular_arrays(now)
        contexts[first - 1 : last] = np.searchsorted(world.cdf, drawn[first - 1 : last, 0], side="right")
        if costs is not None:
            for t in range(first, last + 1):
                shown = costs[t - 1].reshape(-1)
                kernels.offered_costs(world, seed, replication, t, contexts[t - 1], everything, shown)
    return EnvironmentDraws(contexts, drawn[:, 1].copy(), costs)
