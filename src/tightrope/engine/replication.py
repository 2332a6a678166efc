"""One replication: its records, the plain loop that runs any policy in any world, and the policy's concerns at the end."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.concerns import Concern, ignore
from tightrope.engine.recording import Terms
from tightrope.environments.custom import Context, Custom
from tightrope.environments.drifting import Environment, phases_of
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.models import Model
from tightrope.policies import Policy
from tightrope.policies.hooks import Player, PolicyHooks, traits_of
from tightrope.policies.watch import FIRST_LOOK, never_tried, totals_above, units_counted
from tightrope.problem import Part, Problem, which_before
from tightrope.rules import Units
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
    """The rows that a model reads in each context, (C, J, d) or (C, 1, p); meaningless for a model that reads none."""
    features = env.features if part == "reward" else env.cost_features
    rows = env.problem().model_rows(part, model, features)
    if rows is None:
        rows = np.zeros((1, 1, 1))
    C = env.n_contexts
    return rows if len(rows) == C else np.ascontiguousarray(np.repeat(rows, C, axis=0))


class Replication:
    """The records of one replication: tallies at the recorded rounds, last violated rounds, choices if kept, concerns.

    `tally` and `drawn` (the costs of the round) are working arrays.
    """

    __slots__ = ("choices", "concerns", "drawn", "last_violation", "records", "rounds_run", "tally")

    def __init__(self, env: Environment | Custom, terms: Terms) -> None:
        K = env.n_constraints
        self.tally = np.zeros(kernels.tally_size(env.n_actions, K))
        self.drawn = np.zeros(K)
        self.records = np.zeros((len(terms.grid), len(self.tally)))
        self.last_violation = np.zeros(K, dtype=np.int64)
        self.choices = np.zeros(terms.rounds if terms.keep_choices else 0, dtype=np.int16)
        self.rounds_run = 0
        self.concerns: list[Concern] = []


class Outcome(NamedTuple):
    """A reward and its mean, K costs and their means; `told` and `used` are what `learn` gets after the decision."""

    told: tuple[Any, ...]
    reward: float
    mean: float
    costs: Array
    mean_costs: Array
    used: Mapping[str, Any] | None = None


class World(abc.ABC):
    """Feeds the rounds of one replication to a policy object.

    `before` and `after` are the costs that the policy sees before and after acting; None if it looks at none of them.
    """

    def __init__(self, policy: Player, env: Environment | Custom) -> None:
        self.env, self.traits, self._problem = env, traits_of(policy), env.problem()
        before, K = which_before(env.costs_seen, env.n_constraints), env.n_constraints
        constrained = self.traits.n_constraints != 0 and K > 0
        self.before = np.flatnonzero(before) if constrained and before.any() else None
        self.after = np.flatnonzero(~before) if constrained and not before.all() else None
        self._shows_group = any(rule.among is not None for rule in self.traits.rules or ())
        # Limits per window read a clock, keys and what is used by name.
        self._limits = () if self.traits.rules is None else self.traits.rules.windows.columns
        self._models = {"reward": self.traits.reward_model(), "cost": self.traits.cost_model()}

    def offer(self, t: int) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """The arguments of `decide` in round t, and the ids of the actions on offer."""
        context = self.context(t)
        offer: dict[str, Any] = {"features": self._shown("reward", context.features, context.ids)}
        if self.before is not None:
            offer["costs"] = np.ascontiguousarray(context.W[:, self.before])
        if self.after is not None:
            features = context.features if context.cost_features is None else context.cost_features
            shown = self._shown("cost", features, context.ids)
            offer["costs" if self.before is None else "cost_features"] = shown
        if self.sleeps(context):
            offer["actions"] = context.ids.tolist()
        if self.traits.sees_context:
            offer["context"] = context.drawn
        if self._shows_group:
            offer["group"] = context.group
        if self._limits:
            offer |= {"usage": context.usage, "keys": context.keys, "time": context.time}
            if self.before is not None:
                del offer["costs"]
        return {name: given for name, given in offer.items() if given is not None}, context.ids

    def _shown(self, part: Part, features: Array | None, ids: NDArray[np.int64]) -> Array | None:
        return shown_rows(self._problem, part, self._models[part], features, ids)

    @abc.abstractmethod
    def context(self, t: int) -> Context:
        """What round t brings."""

    @abc.abstractmethod
    def sleeps(self, context: Context) -> bool:
        """Whether `decide` is told which actions are on offer."""

    @abc.abstractmethod
    def outcome(self, t: int, action: int) -> Outcome:
        """The outcome of an action in the latest round."""

    @abc.abstractmethod
    def end(self) -> Offered:
        """What concerns are judged by at the end: the names of the constraints, and how often actions were on offer."""


def run_plainly(policy: Player, world: World, terms: Terms, stop: NDArray[np.int64]) -> Replication:
    """One replication of any policy with `decide` and `learn`, in any world."""
    out, grid = Replication(world.env, terms), terms.grid
    if isinstance(policy, Policy):
        policy.hooks.report_to(ignore)
    at = 0
    for t in range(1, terms.rounds + 1):
        if stop[0]:
            break
        offer, ids = world.offer(t)
        decision = policy.decide(**offer)
        a = int(getattr(decision, "action", decision))
        if a not in ids:
            raise InvalidInput(
                f"{type(policy).__name__}.decide chose action {a} in round {t}, which is not on offer."
            )
        told, reward, mean, costs, mean_costs, used = world.outcome(t, a)
        if used is None:
            policy.learn(decision, *told)
        else:
            policy.learn(decision, reward, usage=used)
        kernels.add_to_tally(out.tally, t, a, mean, reward, costs, 0, mean_costs, 0, out.last_violation)
        if terms.keep_choices:
            out.choices[t - 1] = a
        if t == grid[at]:
            out.records[at] = out.tally
            at += 1
        out.rounds_run = t
    if out.rounds_run == terms.rounds:
        out.concerns = of_run(policy, world.end(), out.records, grid)
    return out


class TabularWorld(World):
    """A tabular environment, or one that drifts, by the same draws as the compiled loops."""

    def __init__(self, policy: Player, env: Environment, terms: Terms, replication: int) -> None:
        super().__init__(policy, env)
        (_, self._last, self._now), *self._to_come = phases_of(env, terms.rounds)
        self._key, self._rounds = (terms.seed, replication), terms.rounds
        self._arrays = tabular_arrays(self._now)
        self._drawn = np.zeros(env.n_constraints)
        self._sleeping = not self._now.available.all()

    def context(self, t: int) -> Context:
        if t > self._last:
            # Everything read from the environment before the first round is the same in every phase.
            _, self._last, self._now = self._to_come.pop(0)
            self._arrays = tabular_arrays(self._now)
        world, now = self._arrays, self._now
        u, self._v = kernels.uniforms(*self._key, t, kernels.CONTEXT_SLOT)
        self._c = c = kernels.pick(world.cdf, u)
        ids = world.ids[world.offsets[c] : world.offsets[c + 1]]
        W = np.empty((len(ids), now.n_constraints))
        if self.before is not None:
            kernels.offered_costs(world, *self._key, t, c, ids, W.reshape(-1))
        phi, psi = (offered_rows(features, c, ids) for features in (now.features, now.cost_features))
        return Context(c, ids, phi, psi, W, None if now.groups is None else now.groups[c], {})

    def sleeps(self, context: Context) -> bool:
        return self._sleeping

    def outcome(self, t: int, action: int) -> Outcome:
        world, c, drawn = self._arrays, self._c, self._drawn
        mean = world.rewards[c, action]
        reward = kernels.draw_reward(*self._key, t, self._v, mean, world.reward_kind, world.reward_scale)
        kernels.chosen_costs(world, *self._key, t, c, action, drawn)
        told = (reward,) if self.after is None else (reward, drawn[self.after])
        mean_costs = drawn
        if self.before is None:
            mean_costs = world.means[c, action]
        elif self.after is not None:
            mean_costs = drawn.copy()
            mean_costs[self.after] = world.means[c, action, self.after]
        return Outcome(told, reward, mean, drawn, mean_costs)

    def end(self) -> Offered:
        return offered(self._now, self._rounds)


class CustomWorld(World):
    """One replication of an environment of your own."""

    def __init__(self, policy: Player, env: Custom, terms: Terms, replication: int) -> None:
        super().__init__(policy, env)
        self._play, self._counts = env.play(terms.seed, replication), np.zeros(env.n_actions)
        self._late = np.flatnonzero(~env.seen_before)

    def context(self, t: int) -> Context:
        self._context = self._play.context(t)
        self._counts[self._context.ids] += 1.0
        return self._context

    def sleeps(self, context: Context) -> bool:
        return len(context.ids) < self.env.n_actions

    def outcome(self, t: int, action: int) -> Outcome:
        context = self._context
        row = int(np.flatnonzero(context.ids == action)[0])
        reward, late, usage = self._play.outcome(t, context, action)
        costs = context.W[row].copy()
        costs[self._late] = late
        means = self._play.means(context)
        # A cost that is seen before acting is its own mean.
        mean, mean_costs = (reward, costs) if means is None else (float(means.rewards[row]), means.costs[row])
        told = (reward,) if self.after is None else (reward, late)
        seen_late = any(one.rule.seen == "after" for one in self._limits)
        return Outcome(told, reward, mean, costs, mean_costs, usage if seen_late else None)

    def end(self) -> Offered:
        return Offered(worded(self.env), units_counted(self.env.rules, self.env.n_constraints), self._counts)


def offered_rows(features: Array | None, c: int, ids: NDArray[np.int64]) -> Array | None:
    """A table's features in context c: (n, d) for the actions on offer, or one x for all of them."""
    if features is None:
        return None
    rows: Array = features[c] if features.ndim == 2 else features[c, ids]
    return rows


def shown_rows(
    problem: Problem, part: Part, model: Model | None, features: Array | None, ids: NDArray[np.int64]
) -> Array | None:
    """The features of a round in the form that the policy's model reads, if it has one."""
    if model is None or (features is not None and (features.ndim == 2 or model.n_actions is not None)):
        return None if features is None or (model is not None and not model.n_features) else features.copy()
    # Only arms, or one x for all actions, for a model that all actions share.
    rows = problem.model_rows(part, model, None if features is None else features[None])
    return None if rows is None else np.ascontiguousarray(rows[0][ids])


class Offered(NamedTuple):
    """What concerns are judged by: the constraints in words, their units, and how often each action was on offer, (J,)."""

    constraints: tuple[str, ...]
    units: Units
    counts: Array


def offered(env: Tabular, rounds: int) -> Offered:
    """The same of a tabular environment, in expectation."""
    return Offered(worded(env), env.units, (env.weights @ env.available) * float(rounds))


def worded(env: Environment | Custom) -> tuple[str, ...]:
    """The constraints of an environment in words: its rules, if it has any."""
    return env.constraints if env.rules is None else tuple(str(column.rule) for column in env.rules.columns)


def of_run(policy: Player, world: Offered, records: Array, grid: NDArray[np.int64]) -> list[Concern]:
    """The concerns of `policy` at the end of a run: none before round 512, and none for a user's own policy class.

    `records` are the tallies at the rounds of `grid`; only those totals are checked.
    """
    if not isinstance(policy, Policy) or grid[-1] < FIRST_LOOK:
        return []
    hooks = policy.hooks
    found = [*hooks.own_concerns(), *never_tried(hooks, hooks.reward_model(), world.counts)]
    K = hooks.n_constraints
    if K and len(world.constraints) == K:
        totals = kernels.tally_views(records, len(world.counts), K).costs
        found += _totals(hooks, totals, grid, world)
    return found


def _totals(hooks: PolicyHooks, totals: Array, grid: NDArray[np.int64], world: Offered) -> list[Concern]:
    """Of totals (G, K), those that stayed above zero for long, as of the last recorded round that found one."""
    above, at = totals > 0.0, np.arange(len(grid))
    begun = np.maximum.accumulate(np.where(above, -1, at[:, None])) + 1
    since = np.where(above, grid[np.minimum(begun, len(grid) - 1)], 0)
    for g in np.flatnonzero((above & (2 * since <= grid[:, None])).any(axis=1))[::-1].tolist():
        found = totals_above(hooks, totals[g], since[g], int(grid[g]), world.constraints, world.units)
        if found:
            return found
    return []
