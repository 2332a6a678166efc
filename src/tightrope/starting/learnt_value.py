"""What a policy learnt from a table would earn, estimated on rows that it was not fitted to.

The rows are split into five folds; in a short table three times, in different ways. On four of the folds outcome models, chances of
the actions and prices of the rules are fitted, which make a policy: the action with the highest expected reward less the prices of
its costs. The fifth says what that policy earns, by the doubly robust (augmented inverse propensity) score of each row. The mean
over all rows estimates

    θ = the average over the folds f of E[ r(x, π_f(x)) − λ_f · w(x, π_f(x)) ],

where x is a new row, π_f the policy and λ_f the prices that were learnt without fold f, and w its costs: usage less the limit. So
what the policy uses beyond a limit is paid for at the price of the rule, and what it leaves is worth as much: to first order θ is
what the policy earns once its prices are moved until the rules hold. θ is not what the best policy could earn, which is unknown; it
falls short of that by what four fifths of the table can't teach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import lp
from tightrope.environments.action_models import chance_model, ridge_by_action
from tightrope.intervals import mean_interval
from tightrope.log import Log
from tightrope.offpolicy.estimators import degrees_of_freedom, interval
from tightrope.rules import Rules, Units
from tightrope.spec import Spec
from tightrope.validation import Array

FOLDS = 5
# A short table is split into folds several times, because the split itself is random.
SPLITS, FEW_ROWS = 3, 5000
LEAST_ROWS, LEAST_EACH = 50, 5  # of a table, and of it for each action
MOST_ROWS = 20_000
# Of tables with many actions fewer rows are used: so many numbers at most, of every row, action, and reward or rule.
MOST_CELLS = 8_000_000
_FEW_CELLS = 1_000_000  # with more, folds are split once
# Smaller probabilities of the action taken are raised to this, or to a fifth of an even share: weights stay below 50, or 5 J.
LEAST_CHANCE, _OF_EVEN = 0.02, 0.2
# Penalties on the slopes of the action probabilities: from as much dependence on the context as the rows show to hardly any.
PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e5)
_MANY_ACTIONS = 50
_RIDGE = 1.0


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table as arrays: p features, J actions, K columns of costs."""

    x: Array  # (n, p), the first feature is 1
    actions: NDArray[np.int64] | None  # (n,); None where every action's reward is known
    rewards: Array  # (n,), or (n, J) where every action's reward is known
    costs: Array | None  # (n, K), of the action taken; None if every action's costs are known
    known: Array  # (n, J, K), of every action; NaN in columns known only for the action taken
    force: Array  # (n, K): 1 where a column counts, 0 in contexts that are in none of its groups

    def __len__(self) -> int:
        return len(self.x)

    def unknown(self) -> NDArray[np.bool_]:
        """Which columns of costs are known only for the action taken, (K,)."""
        return np.asarray(np.isnan(self.known).any(axis=(0, 1)))

    def at(self, which: NDArray[Any]) -> Rows:
        some: dict[str, Any] = {name: None if one is None else one[which] for name, one in vars(self).items()}
        return Rows(**some)


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

        Raises InfeasibleProblem if no policy keeps the rules on these rows.
        """
        J, K = rows.known.shape[1:]
        low, high = float(rows.rewards.min()), float(rows.rewards.max())
        costs = np.zeros((len(rows), K)) if rows.costs is None else rows.costs
        reward_fit = _fit(rows, rows.rewards, J)
        cost_fit = np.zeros((K, *reward_fit.shape))
        for k in np.flatnonzero(rows.unknown()):
            cost_fit[k] = _fit(rows, costs[:, k], J)
        unpriced = np.zeros(K)
        fits = cls(reward_fit, cost_fit, (low, high), cost_range, unpriced, np.ones(J) / J, unpriced, {})
        rewards, expected = fits.expected(rows)
        found = lp.allocation(np.full(len(rows), 1.0 / len(rows)), rewards, expected)
        fixed = lp.allocation([1.0], rewards.mean(axis=0)[None], expected.mean(axis=0)[None])
        # Known contexts get the program's own choice, which may be a mixture.
        sums: dict[bytes, tuple[Array, int]] = {}
        for key, x in zip(_keys(rows), found.x):
            total, n = sums.get(key, (np.zeros(J), 0))
            sums[key] = total + x, n + 1
        met = {key: total / n for key, (total, n) in sums.items()}
        return replace(fits, prices=found.duals, mix=fixed.x[0], mix_prices=fixed.duals, met=met)

    def expected(self, rows: Rows) -> tuple[Array, Array]:
        """Expected rewards (n, J) of every action, and its costs (n, J, K), expected if not known."""
        rewards = np.clip(rows.x @ self.reward_fit.T, *self.reward_range)
        fitted = np.clip(np.einsum("ip,kjp->ijk", rows.x, self.cost_fit), *self.cost_range.T)
        return rewards, np.where(np.isnan(rows.known), fitted * rows.force[:, None, :], rows.known)

    def probabilities(self, rows: Rows) -> Array:
        """The probability with which it takes each action, (n, J)."""
        rewards, costs = self.expected(rows)
        pi: Array = np.eye(rewards.shape[1])[np.argmax(rewards - costs @ self.prices, axis=1)]
        for i, key in enumerate(_keys(rows)):
            if key in self.met:
                pi[i] = self.met[key]
        return pi


@dataclass(frozen=True, eq=False)
class LearntValue:
    """What a policy that is learnt from a table can be expected to earn and use."""

    policy: Estimate  # of θ (see the module): its reward per decision
    mix: Estimate  # the same of the best fixed mix of actions, which does not look at the context
    table: Estimate | None  # what the decisions in the table earned; None if it has no decisions
    over_mix: Estimate  # how much more the policy earns than the best fixed mix, row by row
    over_table: Estimate | None  # and than the decisions in the table
    used: tuple[Estimate, ...]  # by column of the rules, in the rule's units per decision that it counts
    learnt: tuple[Learnt, ...]  # the policy of each fold, of each split
    rows: int  # how many were used
    clipped: float  # the share of rows whose action had a probability below `least_chance`

    def as_data(self, rules: Rules | None) -> dict[str, Any]:
        names = () if rules is None else rules.names
        return {
            "policy": asdict(self.policy),
            "fixed_mix": asdict(self.mix),
            "table": None if self.table is None else asdict(self.table),
            "over_fixed_mix": asdict(self.over_mix),
            "over_table": None if self.over_table is None else asdict(self.over_table),
            "used": {name: asdict(one) for name, one in zip(names, self.used)},
            "rows": self.rows,
        }


def learnt_value(
    rows: Rows, rules: Rules | None, *, seed: int = 0, decided: Array | None = None
) -> LearntValue:
    """Estimate what a policy learnt from the rows earns, by cross-fitting.

    `decided` are the rewards of all decisions in the table, if `rows` are only some of them.

    Raises
    ------
    InfeasibleProblem
        No policy keeps the rules on the rows of some folds.
    """
    found: list[_Split] = []
    short = len(rows) <= FEW_ROWS and rows.known.size <= _FEW_CELLS
    for r in range(SPLITS if short else 1):
        # The penalty that is best for one split is best for the others, up to chance.
        penalties = (found[0].penalty,) if found else PENALTIES
        found.append(_once(rows, rules, np.random.default_rng([seed, r]), penalties))
    policy, *over = (_averaged(list(one)) for one in zip(*(run.policy for run in found)))
    mix, *_ = (_averaged(list(one)) for one in zip(*(run.mix for run in found)))
    used, K = [], rows.known.shape[2]
    units = Units.of(rules, K, rows.force.mean(axis=0))
    for k, column in enumerate(() if rules is None else rules.columns):
        beyond = [float(units.means(np.full(K, end))[k]) for end in astuple(over[k])]
        mean, *ends = (column.limit + column.sign * one for one in beyond)
        used.append(Estimate(mean, min(ends), max(ends)))
    earned = rows.rewards if decided is None else decided
    table = None if rows.actions is None else Estimate(*map(float, mean_interval(earned)))
    return LearntValue(
        policy=policy,
        mix=mix,
        table=table,
        over_mix=_averaged([run.over_mix for run in found]),
        over_table=None if rows.actions is None else _averaged([run.over_table for run in found]),
        used=tuple(used),
        learnt=tuple(one for run in found for one in run.learnt),
        rows=len(rows),
        clipped=float(np.mean([run.clipped for run in found])),
    )


class _Mean(NamedTuple):
    """One split's estimate of a mean."""

    estimate: Estimate  # as if folds were independent
    variance: float
    together: float  # what their dependence adds to the variance


class _Split(NamedTuple):
    """The estimates of one split into folds: the earnings, then each column of costs."""

    policy: list[_Mean]
    mix: list[_Mean]
    over_mix: _Mean
    over_table: _Mean  # meaningless if there are no decisions
    learnt: list[Learnt]
    clipped: float
    penalty: float


def _once(rows: Rows, rules: Rules | None, rng: np.random.Generator, penalties: tuple[float, ...]) -> _Split:
    rows = rows.at(rng.permutation(len(rows)))
    n = len(rows)
    cost_range = np.zeros((0, 2)) if rules is None else rules.cost_range
    fold = np.arange(n) % FOLDS
    chances, penalty = _chances(rows, fold, penalties)
    pairs = combinations_with_replacement(range(FOLDS), 2)
    learnt = {(f, g): Learnt.of(rows.at((fold != f) & (fold != g)), cost_range) for f, g in pairs}
    policy, mix = (_judged(rows, fold, learnt, chances, fixed=fixed) for fixed in (False, True))
    done = rows.rewards if rows.actions is not None else rows.rewards.mean(axis=1)
    table = _Judged(done[:, None], np.zeros((n, 1)), np.ones(n), np.zeros((FOLDS, FOLDS, 1)))
    rare = (
        0.0
        if rows.actions is None
        else float((chances[np.arange(n), rows.actions] < least_chance(rows.known.shape[1])).mean())
    )
    over_mix, over_table = (_gain(policy, other, fold) for other in (mix, table))
    own = [learnt[f, f] for f in range(FOLDS)]
    return _Split(_means(policy, fold), _means(mix, fold), over_mix, over_table, own, rare, penalty)


def least_chance(n_actions: int) -> float:
    """The least probability that weights are made of."""
    return min(LEAST_CHANCE, _OF_EVEN / n_actions)


def _averaged(splits: list[_Mean]) -> Estimate:
    """The average over splits, which differ only by chance: it is closer to θ than the interval of one split says."""
    value, low, high = np.mean([astuple(one.estimate) for one in splits], axis=0).tolist()
    variance = float(np.mean([one.variance for one in splits]))
    together = float(np.mean([one.together for one in splits]))
    stretch = np.sqrt(1.0 + max(0.0, together) / variance) if variance > 0.0 else 1.0
    return Estimate(value, float(value - stretch * (value - low)), float(value + stretch * (high - value)))


def _chances(rows: Rows, fold: NDArray[np.int64], penalties: tuple[float, ...]) -> tuple[Array, float]:
    """The probability of each action (n, J), fitted on the other folds, and the penalty of the fit.

    A fit that follows the noise of its own rows makes weights too large and the interval too wide. One that follows nothing ignores
    what both the choice and the outcome depended on. So this takes the smallest penalty whose predictions of the actions in the
    other rows are within one standard error of the best.
    """
    n, J = rows.known.shape[:2]
    if rows.actions is None:
        return np.ones((n, J)), penalties[0]
    found: list[Array] = []
    logs: list[Array] = []
    for penalty in reversed(penalties):
        chances = np.zeros((n, J))
        for f in range(FOLDS):
            model = chance_model(rows.x[fold != f], rows.actions[fold != f], J, penalty)
            chances[fold == f] = model(rows.x[fold == f])
        found.append(chances)
        logs.append(np.log(np.maximum(np.finfo(float).tiny, chances[np.arange(n), rows.actions])))
        if J > _MANY_ACTIONS and not _near(logs[-1], max(logs, key=np.sum)):
            break  # smaller penalties follow the noise even more, and each takes a minute
    best = max(logs, key=np.sum)
    i = max(i for i, one in enumerate(logs) if _near(one, best))
    return found[i], penalties[-1 - i]


def _near(logs: Array, best: Array) -> bool:
    """Whether a model predicts the actions within one standard error of the best."""
    return bool((best - logs).mean() <= (best - logs).std() / np.sqrt(len(best)))


def most_rows(spec: Spec) -> int:
    """How many rows of a table are used."""
    numbers = len(spec.actions) * (1 + (0 if spec.rules is None else spec.rules.n_constraints))
    return min(MOST_ROWS, max(LEAST_ROWS, MOST_CELLS // numbers))


def rows_of(spec: Spec, log: Log) -> Rows:
    """The rows of a log as a spec reads them: features by its encoder, costs by its rules. Of many rows a fixed sample."""
    assert spec.encoder is not None
    log, rules = log.for_actions(spec.actions), spec.rules
    log = log.sample(most_rows(spec))
    n, J, K = len(log), len(spec.actions), 0 if rules is None else rules.n_constraints
    actions = None if log.tells_all else log.actions
    known, costs, force = np.zeros((n, J, K)), None, np.ones((n, K))
    if rules is not None:
        groups = [log.context_group(i) for i in range(n)]
        given, logged = _usage(spec, log)
        # Costs known only for the action taken are set to NaN below; until then any number in range will do.
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
            costs = rules.logged(usage, log.names.tolist(), None if log.columns.group is None else groups)
    return Rows(spec.encoder.design(log.frame), actions, log.rewards, costs, known, force)


def _usage(spec: Spec, log: Log) -> tuple[dict[str, Array], dict[str, tuple[Array, float]]]:
    """Usages known for every action, (n, J); and those of the action taken, (n,), with the lowest possible value."""
    given: dict[str, Array] = {}
    logged: dict[str, tuple[Array, float]] = {}
    for rule in spec.rules or ():
        name, _, (low, _) = rule.quantity
        if name is None or name in given or name in logged:
            continue
        if name in spec.usage:
            fixed = [float(spec.usage[name].get(action, low)) for action in spec.actions]
            given[name] = np.tile(fixed, (len(log), 1))
        elif (used := log.used(name, spec.actions, untold=low)).ndim == 1:
            logged[name] = (used, low)
        else:
            given[name] = used
    return given, logged


def _fit(rows: Rows, y: Array, J: int) -> Array:
    """Ridge regression by action, (J, p); on all rows if every action's outcome is known."""
    if rows.actions is not None:
        return ridge_by_action(rows.x, rows.actions, y, J, _RIDGE)
    everyone = np.zeros(len(rows), dtype=np.int64)
    return np.concatenate([ridge_by_action(rows.x, everyone, one, 1, _RIDGE) for one in y.T])


class _Judged(NamedTuple):
    """What the rows say of a policy: of what it earns in the first column, of its costs in the others."""

    fitted: Array  # (n, 1 + K), what the fits expect
    missed: Array  # (n, 1 + K), by how much they missed what was done
    weights: Array  # (n,), of that
    moved: Array  # (F, F, 1 + K), how the mean of a fold moves if another fold teaches nothing


def _judged(
    rows: Rows, fold: NDArray[np.int64], learnt: dict[tuple[int, int], Learnt], chances: Array, *, fixed: bool
) -> _Judged:
    """What the policies (or fixed mixes) of the folds earn, costs charged at their prices; then each column of costs.

    learnt[f, g] has seen neither fold f nor fold g. The errors of two folds are not independent, since each fold taught the policy
    that the other one judges. Where both happen to favour an action, both policies take it, and both errors go the same way. With
    D_fg = the error of fold f about π_f less that about π_fg, Cov(error_f, error_g) = E[D_fg D_gf]: all other products have mean 0,
    given the rows that chose the policies. The difference of what fold f says of the two policies stands for D_fg; what it has
    beside the error, their true difference, is of second order among policies that are close to the best. That holds of what they
    earn and not of what they use, so the intervals of costs take folds as independent.
    """
    n, _, K = rows.known.shape
    fitted, missed, weights = np.zeros((n, 1 + K)), np.zeros((n, 1 + K)), np.zeros(n)
    moved = np.zeros((FOLDS, FOLDS, 1 + K))
    for f in range(FOLDS):
        test = fold == f
        own, p = rows.at(test), chances[test]
        fitted[test], missed[test], weights[test] = _parts(learnt[f, f], own, p, fixed=fixed)
        said = _mean(fitted[test], missed[test], weights[test])
        for g in range(FOLDS):
            if g != f:
                moved[f, g] = said - _mean(*_parts(learnt[min(f, g), max(f, g)], own, p, fixed=fixed))
    return _Judged(fitted, missed, weights, moved)


def _means(one: _Judged, fold: NDArray[np.int64]) -> list[_Mean]:
    found = []
    for m in range(one.fitted.shape[1]):
        together = float(np.einsum("fg,gf->", one.moved[..., m], one.moved[..., m])) / FOLDS**2
        found.append(_Mean(*_estimate(*_scores(one, m), fold), together if m == 0 else 0.0))
    return found


def _gain(one: _Judged, other: _Judged, fold: NDArray[np.int64]) -> _Mean:
    """How much more one policy earns than another, judged by the same rows."""
    (scores, *sizes), (others, *other_sizes) = _scores(one, 0), _scores(other, 0)
    moved = one.moved[..., 0] - other.moved[..., 0]
    together = float(np.einsum("fg,gf->", moved, moved)) / FOLDS**2
    freedom, effective = map(min, sizes, other_sizes)
    return _Mean(*_estimate(scores - others, freedom, effective, fold), together)


def _mean(fitted: Array, missed: Array, weights: Array) -> Array:
    """The doubly robust mean of each column."""
    total = float(weights.sum())
    return np.asarray(fitted.mean(axis=0) + (weights @ missed / total if total > 0.0 else 0.0))


def _parts(one: Learnt, rows: Rows, chances: Array, *, fixed: bool) -> tuple[Array, Array, Array]:
    """What the fits expect (n, 1 + K), by how much they missed what was done (n, 1 + K), and the weight of that (n,).

    The first column is what the policy (or its fixed mix) earns with costs charged at its prices, the others are its costs.
    """
    pi = np.tile(one.mix, (len(rows), 1)) if fixed else one.probabilities(rows)
    prices = one.mix_prices if fixed else one.prices
    rewards, costs = one.expected(rows)
    used = np.einsum("ij,ijk->ik", pi, costs)
    if rows.actions is None:
        earned = (pi * rows.rewards).sum(axis=1) - used @ prices
        fitted = np.column_stack([earned, used])
        return fitted, np.zeros_like(fitted), np.ones(len(rows))
    at = np.arange(len(rows)), rows.actions
    weights = pi[at] / np.maximum(least_chance(rows.known.shape[1]), chances[at])
    done = costs[at] if rows.costs is None else rows.costs
    missed = np.where(rows.unknown(), done - costs[at], 0.0)
    fitted = np.column_stack([(pi * rewards).sum(axis=1) - used @ prices, used])
    return fitted, np.column_stack([rows.rewards - rewards[at] - missed @ prices, missed]), weights


def _scores(one: _Judged, m: int) -> tuple[Array, float, float]:
    """The doubly robust score of each row (n,), the degrees of freedom, and how many rows the weights amount to."""
    fitted, missed, weights = one.fitted[:, m], one.missed[:, m], one.weights
    total = float(weights.sum())
    if total <= 0.0:
        return fitted, len(fitted) - 1.0, float(len(fitted))
    scaled = weights * (len(weights) / total)  # a mean of 1, as they have when the chances are right
    mean = float((scaled * missed).mean())
    scores = fitted + mean + scaled * (missed - mean)
    return scores, degrees_of_freedom(weights), total**2 / float((weights**2).sum())


def _estimate(
    scores: Array, freedom: float, effective: float, fold: NDArray[np.int64]
) -> tuple[Estimate, float]:
    """The mean of doubly robust scores with its interval, and its variance; given what was learnt, the rows are independent."""
    centres = np.bincount(fold, scores) / np.bincount(fold)
    value = np.array([scores.mean()])
    influence = scores - centres[fold]
    low, high, _ = interval(value, influence[:, None], None, freedom, effective, scores[:, None])
    variance = float((influence**2).mean() / len(scores))
    return Estimate(float(value[0]), float(low[0]), float(high[0])), variance


def _keys(rows: Rows) -> list[bytes]:
    """What a policy can tell rows apart by: features, and costs that are known before acting."""
    known = np.nan_to_num(rows.known).reshape(len(rows), -1)
    # + 0.0: the two zeros are one.
    parts = np.concatenate([rows.x, known, rows.force], axis=1) + 0.0
    return [one.tobytes() for one in np.ascontiguousarray(parts)]
