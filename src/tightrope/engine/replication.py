"""One replication: a tabular environment as the loops read it, what a run leaves, and the plain loop that any policy can run."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.concerns import Concern, ignore
from tightrope.engine.concerns import Offered, of_run, offered
from tightrope.environments.drifting import Environment, phases_of
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.models import Model
from tightrope.policies import Policy
from tightrope.problem import Part
from tightrope.rules import Rules
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

    def __init__(self, J: int, K: int, grid: NDArray[np.int64], rounds: int, keep_choices: bool) -> None:
        self.tally = np.zeros(kernels.tally_size(J, K))
        self.drawn = np.zeros(K)
        self.records = np.zeros((len(grid), len(self.tally)))
        self.last_violation = np.zeros(K, dtype=np.int64)
        self.choices = np.zeros(rounds if keep_choices else 0, dtype=np.int16)
        self.rounds_run = 0
        self.concerns: list[Concern] = []


class World(Protocol):
    """Who brings the rounds of one replication to a policy object."""

    def offer(self, t: int) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """What `decide` is given in round t, and the ids of the actions on offer."""
        ...

    def outcome(self, t: int, action: int) -> Outcome:
        """What comes of an action in the round that was offered last."""
        ...

    def end(self) -> Offered:
        """What concerns are judged by at the end: the names of the constraints, and how often actions were on offer."""
        ...


class Outcome(NamedTuple):
    """A reward and its mean, K costs and their means; `told` is what `learn` is given after the decision."""

    told: tuple[Any, ...]
    reward: float
    mean: float
    costs: Array
    mean_costs: Array


def run_plainly(
    policy: Any,
    world: World,
    out: Replication,
    rounds: int,
    grid: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> Replication:
    """One replication of any policy with `decide` and `learn`, in any world."""
    tally, keep_choices = out.tally, len(out.choices) > 0
    if isinstance(policy, Policy):
        policy.notify = ignore
    at = 0
    for t in range(1, rounds + 1):
        if stop[0]:
            break
        offer, ids = world.offer(t)
        decision = policy.decide(**offer)
        a = int(getattr(decision, "action", decision))
        if a not in ids:
            raise InvalidInput(
                f"{type(policy).__name__}.decide chose action {a} in round {t}, which is not on offer."
            )
        told, reward, mean, costs, mean_costs = world.outcome(t, a)
        policy.learn(decision, *told)
        kernels.add_to_tally(tally, t, a, mean, reward, costs, 0, mean_costs, 0, out.last_violation)
        if keep_choices:
            out.choices[t - 1] = a
        if t == grid[at]:
            out.records[at] = tally
            at += 1
        out.rounds_run = t
    if out.rounds_run == rounds:
        out.concerns = of_run(policy, world.end(), out.records, grid)
    return out


class TabularWorld:
    """A tabular environment, or one that drifts, by the same draws as the compiled loops."""

    def __init__(self, policy: Any, env: Environment, seed: int, replication: int, rounds: int) -> None:
        (_, self._last, self._env), *self._to_come = phases_of(env, rounds)
        self._seed, self._replication, self._rounds = seed, replication, rounds
        self._arrays = tabular_arrays(self._env)
        K = self._env.n_constraints
        constrained = getattr(policy, "n_constraints", K) > 0 and K > 0
        self._drawn = np.zeros(K)
        self._sleeping = not self._env.available.all()
        self._sees_context = bool(getattr(policy, "sees_context", False))
        # Which costs it sees before acting, and which after; None where it looks at none of them.
        before = self._env.seen_before
        self._before = np.flatnonzero(before) if constrained and before.any() else None
        self._after = np.flatnonzero(~before) if constrained and not before.all() else None
        self._mixed = self._before is not None and self._after is not None
        self._reward_rows, self._cost_rows = (
            shown_rows(policy, self._env, part) for part in ("reward", "cost")
        )
        self._groups = getattr(self._env, "groups", None) if needs_group(policy) else None

    def offer(self, t: int) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """What `decide` is given in round t, and the ids of the actions on offer."""
        if t > self._last:
            # All that was read off the environment before the first round is the same in every phase.
            _, self._last, self._env = self._to_come.pop(0)
            self._arrays = tabular_arrays(self._env)
        world, seed, replication = self._arrays, self._seed, self._replication
        u, self._v = kernels.uniforms(seed, replication, t, kernels.CONTEXT_SLOT)
        self._c = c = kernels.pick(world.cdf, u)
        ids = world.ids[world.offsets[c] : world.offsets[c + 1]]
        offer: dict[str, Any] = {}
        if self._reward_rows is not None:
            offer["features"] = self._reward_rows.of(c, ids)
        if self._before is not None:
            shown = np.empty((len(ids), self._env.n_constraints))
            kernels.offered_costs(world, seed, replication, t, c, ids, shown.reshape(-1))
            offer["costs"] = np.ascontiguousarray(shown[:, self._before]) if self._mixed else shown
        if self._after is not None and self._cost_rows is not None:
            offer["cost_features" if self._mixed else "costs"] = self._cost_rows.of(c, ids)
        if self._sleeping:
            offer["actions"] = ids.tolist()
        if self._sees_context:
            offer["context"] = c
        if self._groups is not None:
            offer["group"] = self._groups[c]
        return offer, ids

    def outcome(self, t: int, action: int) -> Outcome:
        """What comes of an action in the round that was offered last."""
        world, c, drawn = self._arrays, self._c, self._drawn
        mean = world.rewards[c, action]
        reward = kernels.draw_reward(
            self._seed, self._replication, t, self._v, mean, world.reward_kind, world.reward_scale
        )
        kernels.chosen_costs(world, self._seed, self._replication, t, c, action, drawn)
        told = (reward,) if self._after is None else (reward, drawn[self._after])
        mean_costs = drawn
        if self._before is None:
            mean_costs = world.means[c, action]
        elif self._after is not None:
            mean_costs = drawn.copy()
            mean_costs[self._after] = world.means[c, action, self._after]
        return Outcome(told, reward, mean, drawn, mean_costs)

    def end(self) -> Offered:
        """What concerns are judged by at the end."""
        return offered(self._env, self._rounds)


def needs_group(policy: Any) -> bool:
    """Whether a policy's rules ask for the group of a context."""
    rules = getattr(policy, "rules", None)
    return isinstance(rules, Rules) and any(rule.among is not None for rule in rules)


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
    if not isinstance(model, Model):
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
