"""What a policy that is learnt from a table would earn, estimated on rows that it was not fitted on.

The rows are split into five folds; in a short table three times, in different ways. On four of the folds outcome models, chances of
the actions and prices of the rules are fitted, which make a policy: the action with the highest expected reward less the prices of
its costs. The fifth says what that policy earns, by the doubly robust (augmented inverse propensity) score of each row. The mean
over all rows estimates

    θ = the average over the folds f of E[ r(x, π_f(x)) − λ_f · w(x, π_f(x)) ],

where x is a new row, π_f the policy and λ_f the prices that were learnt without fold f, and w its costs: usage less the limit. So
what the policy uses beyond a limit is paid for at the price of the rule, and what it leaves is worth as much: to first order θ is
what the policy earns once its prices are moved until the rules hold. θ is not what the best policy could earn, which nobody knows;
it is below that by what four fifths of the table can't teach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import lp
from tightrope.environments.table import TableRows, chance_model, ridge_by_action
from tightrope.history import Past
from tightrope.intervals import mean_interval
from tightrope.offpolicy.estimators import degrees_of_freedom, interval
from tightrope.rules import Rules, Units
from tightrope.spec import Spec
from tightrope.validation import Array

FOLDS = 5
SPLITS, FEW_ROWS = (
    3,
    5000,
)  # a short table is split into folds several times: which rows go where is chance as well
LEAST_ROWS = 50
MOST_ROWS = 20_000
LEAST_CHANCE = 0.02  # a smaller chance of what was done counts as this much: weights stay below 50
_RIDGE = 1.0


class Estimate(NamedTuple):
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table as arrays: p features, J actions, K columns of costs.

    Parameters
    ----------
    x : (n, p)
        Features, the first of them 1.
    actions : (n,) or None
        What was done; None where every action's reward is known.
    rewards : (n,), or (n, J) where every action's reward is known
    costs : (n, K) or None
        Of what was done, as rules count them; None where every action's costs are known.
    known : (n, J, K)
        Costs of every action, NaN in columns that are known of what was done alone.
    force : (n, K)
        1 where a column counts, 0 in contexts that are of none of its groups.
    """

    x: Array
    actions: NDArray[np.int64] | None
    rewards: Array
    costs: Array | None
    known: Array
    force: Array

    def __len__(self) -> int:
        return len(self.x)

    def unknown(self) -> NDArray[np.bool_]:
        """Which columns of costs are known of what was done alone, (K,)."""
        return np.asarray(np.isnan(self.known).any(axis=(0, 1)))

    def at(self, which: NDArray[Any]) -> Rows:
        """Some of the rows."""
        parts = (self.x, self.actions, self.rewards, self.costs, self.known, self.force)
        return Rows(*(None if one is None else one[which] for one in parts))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Learnt:
    """A policy learnt from rows: expected rewards and costs, linear in x for each action, and a price for each rule.

    `mix` are the shares of the best fixed mix by the same fits, and `mix_prices` the prices that go with it.
    """

    reward_fit: Array  # (J, p)
    cost_fit: Array  # (K, J, p)
    reward_range: tuple[float, float]
    cost_range: Array
    prices: Array
    mix: Array
    mix_prices: Array
    met: Mapping[bytes, Array]

    @classmethod
    def of(cls, rows: Rows, cost_range: Array) -> Learnt:
        """Fit, and solve the rules' program on the rows.

        Raises InfeasibleProblem where no policy keeps the rules on these rows.
        """
        J, K = rows.known.shape[1:]
        low, high = float(rows.rewards.min()), float(rows.rewards.max())
        costs = np.zeros((len(rows), K)) if rows.costs is None else rows.costs
        reward_fit = _fit(rows, rows.rewards, J)
        unknown = rows.unknown()
        cost_fit = np.stack(
            [_fit(rows, costs[:, k], J) if unknown[k] else np.zeros_like(reward_fit) for k in range(K)]
            or [np.zeros((J, rows.x.shape[1]))]
        )[:K]
        start = cls(
            reward_fit, cost_fit, (low, high), cost_range, np.zeros(K), np.ones(J) / J, np.zeros(K), {}
        )
        rewards, expected = start.expected(rows)
        found = lp.allocation(np.full(len(rows), 1.0 / len(rows)), rewards, expected)
        fixed = lp.allocation([1.0], rewards.mean(axis=0)[None], expected.mean(axis=0)[None])
        # Contexts that come again are played as the program plays them, which may be a mixture.
        sums: dict[bytes, tuple[Array, int]] = {}
        for key, x in zip(_keys(rows), found.x):
            total, n = sums.get(key, (np.zeros(J), 0))
            sums[key] = total + x, n + 1
        met = {key: total / n for key, (total, n) in sums.items()}
        return cls(reward_fit, cost_fit, (low, high), cost_range, found.duals, fixed.x[0], fixed.duals, met)

    def expected(self, rows: Rows) -> tuple[Array, Array]:
        """What is expected of every action: rewards (n, J), and costs (n, J, K), as far as they are not known."""
        rewards = np.clip(rows.x @ self.reward_fit.T, *self.reward_range)
        fitted = np.clip(np.einsum("ip,kjp->ijk", rows.x, self.cost_fit), *self.cost_range.T)
        return rewards, np.where(np.isnan(rows.known), fitted * rows.force[:, None, :], rows.known)

    def probabilities(self, rows: Rows) -> Array:
        """With which chance it takes each action, (n, J)."""
        rewards, costs = self.expected(rows)
        pi: Array = np.eye(rewards.shape[1])[np.argmax(rewards - costs @ self.prices, axis=1)]
        for i, key in enumerate(_keys(rows)):
            if key in self.met:
                pi[i] = self.met[key]
        return pi


@dataclass(frozen=True, eq=False)
class LearntValue:
    """What a table lets expect of a policy that is learnt from it.

    Attributes
    ----------
    policy : Estimate
        Of θ (see the module): the reward per decision of a policy learnt from four fifths of the rows, estimated on the rest.
    mix : Estimate
        The same of the best fixed mix of actions, which does not look at the context.
    table : Estimate or None
        What the decisions in the table earned; None where none were made.
    used : tuple of Estimate
        For each column of the rules what the policy uses on average, in the rule's units per decision that it counts.
    learnt : tuple of Learnt
        The policy of each fold, of each split.
    rows : int
        So many were used.
    clipped : float
        The share of rows in which the chance of what was done was below 0.02.
    """

    policy: Estimate
    mix: Estimate
    table: Estimate | None
    used: tuple[Estimate, ...]
    learnt: tuple[Learnt, ...]
    rows: int
    clipped: float

    def as_data(self, rules: Rules | None) -> dict[str, Any]:
        """For machines."""
        names = () if rules is None else rules.names
        return {
            "policy": self.policy._asdict(),
            "fixed_mix": self.mix._asdict(),
            "table": None if self.table is None else self.table._asdict(),
            "used": {name: one._asdict() for name, one in zip(names, self.used)},
            "rows": self.rows,
        }


def learnt_value(rows: Rows, rules: Rules | None, *, seed: int = 0) -> LearntValue:
    """Estimate what a policy learnt from the rows earns, by cross-fitting.

    Raises
    ------
    InfeasibleProblem
        No policy keeps the rules on the rows of some folds.
    """
    found = [
        _once(rows, rules, np.random.default_rng([seed, r]))
        for r in range(SPLITS if len(rows) <= FEW_ROWS else 1)
    ]
    # The splits say the same up to chance: averages over them differ less from θ than the interval of one says.
    means = [
        Estimate(*np.mean(one, axis=0).tolist())
        for one in zip(*((run.policy, run.mix, *run.used) for run in found))
    ]
    table = None if rows.actions is None else Estimate(*map(float, mean_interval(rows.rewards)))
    return LearntValue(
        policy=means[0],
        mix=means[1],
        table=table,
        used=tuple(means[2:]),
        learnt=tuple(one for run in found for one in run.learnt),
        rows=min(len(rows), MOST_ROWS),
        clipped=float(np.mean([run.clipped for run in found])),
    )


class _Split(NamedTuple):
    """What one split into folds says."""

    policy: Estimate
    mix: Estimate
    used: tuple[Estimate, ...]
    learnt: list[Learnt]
    clipped: float


def _once(rows: Rows, rules: Rules | None, rng: np.random.Generator) -> _Split:
    rows = rows.at(rng.permutation(len(rows))[:MOST_ROWS])
    n, J, K = rows.known.shape
    cost_range = np.zeros((0, 2)) if rules is None else rules.cost_range
    fold = np.arange(n) % FOLDS
    policy, mix, used = np.zeros(n), np.zeros(n), np.zeros((n, K))
    weights, clipped, learnt = np.zeros(n), 0, []
    for f in range(FOLDS):
        train, test = rows.at(fold != f), rows.at(fold == f)
        one = Learnt.of(train, cost_range)
        learnt.append(one)
        chances = None if train.actions is None else chance_model(train.x, train.actions, J)(test.x)
        if chances is not None:
            clipped += int((chances[np.arange(len(test)), test.actions] < LEAST_CHANCE).sum())
        earned, cost, w = _scores(one, test, one.probabilities(test), chances)
        policy[fold == f], used[fold == f], weights[fold == f] = earned - cost @ one.prices, cost, w
        earned, cost, _ = _scores(one, test, np.tile(one.mix, (len(test), 1)), chances)
        mix[fold == f] = earned - cost @ one.mix_prices
    units = Units.of(rules, K, rows.force.mean(axis=0))
    told = []
    for k, column in enumerate(() if rules is None else rules.columns):
        over = _interval(used[:, k], fold, weights)
        ends = [column.limit + column.sign * float(units.means(np.full(K, end))[k]) for end in over]
        told.append(Estimate(ends[0], min(ends[1:]), max(ends[1:])))
    return _Split(
        _interval(policy, fold, weights), _interval(mix, fold, weights), tuple(told), learnt, clipped / n
    )


def rows_of(spec: Spec, past: Past) -> Rows:
    """The rows of a table as a spec reads them: features by its encoder, costs by its rules."""
    assert spec.encoder is not None
    history, rules = past.history, spec.rules
    table = TableRows(past.columns, spec.encoder, history.group)
    n, J, K = len(past), len(spec.actions), 0 if rules is None else rules.n_constraints
    if history.label is not None:
        right = past.columns[history.label]
        rewards = np.array([[float(one == action) for action in spec.actions] for one in right])
    elif isinstance(history.reward, dict):
        rewards = np.column_stack([past.numbers(history.reward[action]) for action in spec.actions])
    else:
        assert history.reward is not None
        rewards = past.numbers(history.reward)
    actions = None
    if history.action is not None:
        ids = {action: j for j, action in enumerate(spec.actions)}
        actions = np.array([ids[one] for one in past.columns[history.action]])
    known, costs, force = np.zeros((n, J, K)), None, np.ones((n, K))
    if rules is not None:
        groups = [past.group(i) for i in range(n)]
        given, logged = _usage(spec, past, n)
        # What is known of what was done alone is left open below; until then any number of its range stands there.
        for i in range(n):
            row = {name: one[i] for name, one in given.items()}
            row |= {name: np.full(J, lowest) for name, (_, lowest) in logged.items()}
            known[i] = rules.costs(row, groups[i])
            force[i] = rules.in_force(groups[i])
        for k, column in enumerate(rules.columns):
            if column.rule.quantity.usage in logged:
                known[:, :, k] = np.nan
        if actions is not None:
            usage = {name: one[np.arange(n), actions] for name, one in given.items()}
            usage |= {name: values for name, (values, _) in logged.items()}
            done = [spec.actions[j] for j in actions.tolist()]
            costs = rules.logged(usage, done, None if history.group is None else groups)
    return Rows(table.x, actions, rewards, costs, known, force)


def _usage(spec: Spec, past: Past, n: int) -> tuple[dict[str, Array], dict[str, tuple[Array, float]]]:
    """Usages that are known of every action, (n, J); and those of what was done, (n,), with the lowest that there can be."""
    assert spec.rules is not None
    given: dict[str, Array] = {}
    logged: dict[str, tuple[Array, float]] = {}
    for rule in spec.rules:
        name, _, (low, _) = rule.quantity
        if name is None or name in given or name in logged:
            continue
        if name in spec.usage:
            fixed = [float(spec.usage[name].get(action, low)) for action in spec.actions]
            given[name] = np.tile(fixed, (n, 1))
            continue
        used = past.used(name)
        if None in used:
            logged[name] = (used[None], low)
        else:
            given[name] = np.column_stack([used.get(action, np.full(n, low)) for action in spec.actions])
    return given, logged


def _fit(rows: Rows, y: Array, J: int) -> Array:
    """Ridge regression by action, (J, p); of every action on all rows where all are known."""
    if rows.actions is not None:
        return ridge_by_action(rows.x, rows.actions, y, J, _RIDGE)
    everyone = np.zeros(len(rows), dtype=np.int64)
    return np.concatenate([ridge_by_action(rows.x, everyone, one, 1, _RIDGE) for one in y.T])


def _scores(one: Learnt, rows: Rows, pi: Array, chances: Array | None) -> tuple[Array, Array, Array]:
    """Doubly robust scores of the reward (n,) and of the costs (n, K) under π, and the weights of the rows."""
    known = np.nan_to_num(rows.known)
    rewards, costs = one.expected(rows)
    direct = np.einsum("ij,ijk->ik", pi, known)
    if rows.actions is None or chances is None:
        return (pi * rows.rewards).sum(axis=1), direct, np.ones(len(rows))
    at = np.arange(len(rows)), rows.actions
    w = pi[at] / np.maximum(LEAST_CHANCE, chances[at])
    earned = (pi * rewards).sum(axis=1) + w * (rows.rewards - rewards[at])
    fitted = np.einsum("ij,ijk->ik", pi, costs)
    residual = np.zeros_like(fitted) if rows.costs is None else rows.costs - costs[at]
    unknown = rows.unknown()
    return earned, np.where(unknown, fitted + w[:, None] * residual, direct), w


def _interval(scores: Array, fold: NDArray[np.int64], weights: Array) -> Estimate:
    """The mean of scores and its interval: given what was learnt, the rows of a fold are independent."""
    centres = np.bincount(fold, scores) / np.bincount(fold)
    values = np.array([scores.mean()])
    total = float(weights.sum())
    freedom = degrees_of_freedom(weights) if total > 0.0 else len(scores) - 1.0
    effective = total**2 / float((weights**2).sum()) if total > 0.0 else float(len(scores))
    low, high, _ = interval(
        values, (scores - centres[fold])[:, None], None, freedom, effective, scores[:, None]
    )
    return Estimate(float(values[0]), float(low[0]), float(high[0]))


def _keys(rows: Rows) -> list[bytes]:
    """What tells rows apart for a policy: features, and the costs that are known before acting."""
    # + 0.0: the two zeros are one.
    parts = (
        np.concatenate([rows.x, np.nan_to_num(rows.known).reshape(len(rows), -1), rows.force], axis=1) + 0.0
    )
    return [one.tobytes() for one in np.ascontiguousarray(parts)]
