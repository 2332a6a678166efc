"""A policy that balances its rules over time, judged on a log by its actions over a whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tightrope.errors import InvalidInput
from tightrope.intervals import student_quantile
from tightrope.log import Codes, Log
from tightrope.offpolicy.estimators import degrees_of_freedom, doubly_robust, outcomes_of, predictions, summed
from tightrope.offpolicy.evaluation import SNAPSHOT, Evaluation, estimated, limits_of, require_log, weigh
from tightrope.policies import Policy
from tightrope.validation import Array, whole_number

_FEWEST_RUNS = 20


def evaluate_live(
    log: Log,
    policy: Policy,
    offers: Sequence[Mapping[str, Any]] | None = None,
    *,
    rounds: int | None = None,
    runs: int = 100,
    limits: ArrayLike = 0.0,
    clip: float | None = None,
    least_chance: float | None = None,
    may_miss: float = 0.0,
    seed: int = 0,
) -> Evaluation:
    """Estimate what `policy` earns and costs on average over its next rounds, its queue or prices moving as they do live.

    A policy that keeps rules by a queue or by prices takes now one action, now another: what it would do at one moment says nothing
    about its rules. Here it goes on from its present state for `rounds` rounds, on rows drawn from the log. Contexts that come
    independently of each other do not depend on where the policy stands, so its mean reward and costs over the run are those of a
    fixed mixture: in each row, the probabilities with which it acts there, averaged over the run. This mixture, averaged
    over all runs, is judged on the log, by "dr".

    Each run has its own rows, drawn with replacement (by group, where there are groups). The spread between the runs is the
    uncertainty: of the outcomes that were logged, and of where the policy finds its balance, which depends on the rows.

    The estimate is the mean over these rounds in a world whose contexts are distributed like the log's. The policy's reward
    estimates stay as they are: what it would learn meanwhile is left out. Costs that it sees after acting are simulated from the
    log: fitted, plus the residual of another row of the same action.

    Parameters
    ----------
    log : Log
        Of rows from which the policy has not learnt.
    policy : Policy
        As it stands; it is not changed.
    offers : sequence of mappings, optional
        The arguments of `decide` in each row. By default `features` are the log's contexts, if these are features, and `costs`
        those of every action, if the log has them.
    rounds : int, optional
        Of each run; by default as many as the log has rows.
    runs : int
    limits, clip, least_chance, may_miss
        As in `evaluate`.
    seed : int

    Examples
    --------
    One of two actions earns more, and may be taken in half of the rounds.

    >>> import numpy as np
    >>> import tightrope as tr
    >>> rng, W = np.random.default_rng(1), np.array([[-0.5], [0.5]])
    >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
    >>> for _ in range(500):
    ...     decision = policy.decide(costs=W)
    ...     policy.learn(decision, float(rng.random() < (0.3, 0.6)[decision.action]))
    >>> actions = rng.integers(0, 2, 1000)
    >>> rewards = (rng.random(1000) < np.array([0.3, 0.6])[actions]).astype(float)
    >>> log = Log(actions, rewards, costs=np.tile(W, (1000, 1, 1)), propensities=np.full((1000, 2), 0.5))
    >>> found = evaluate_live(log, policy)
    >>> found.reward.low < 0.45 < found.reward.high, abs(found.constraints[0].value) < 0.01
    (True, True)
    """
    require_log(log)
    if not isinstance(policy, Policy):
        raise InvalidInput(field="policy", must="be a policy", got=policy)
    K = policy.hooks.n_constraints
    if K not in (0, log.n_constraints):
        wanted = f"have the costs of the policy's {K} constraints, but it has {log.n_constraints}"
        raise InvalidInput(field="the log", must=wanted)
    length = log.n_rows if rounds is None else whole_number("rounds", rounds, low=1)
    runs = whole_number("runs", runs, low=_FEWEST_RUNS)
    seeds = np.random.SeedSequence(whole_number("seed", seed)).spawn(runs)
    bound = limits_of(log, limits)
    known, outcomes = log.costs.ndim == 3, outcomes_of(log)
    fitted = predictions(log, outcomes)
    given = _offers(log, offers)
    costs = _LateCosts(log, policy, log.costs if known else fitted[:, :, 1:])
    draws = map(np.random.default_rng, seeds)
    played = [_run(log, policy.copy(i), given, costs, length, one) for i, one in enumerate(draws)]
    target = _run_averaged(log, played)
    weighed = weigh(log, target, "dr", clip, least_chance, may_miss)
    found = estimated(log, weighed, fitted, "dr", bound)

    scores, values = doubly_robust(log, outcomes, fitted, target, weighed.w)[0], fitted
    if known:
        scores = np.column_stack([scores, np.einsum("ij,ijk->ik", target, log.costs)])
        values = np.concatenate([fitted, log.costs], axis=2)
    means = _means(target, scores, values, played)
    # Known costs need no weights: take the mean cost of the runs.
    centre = np.array([one.value for one in (found.reward, *found.constraints)])
    weighted = outcomes.shape[1]
    centre[weighted:] = means[:, weighted:].mean(axis=0)
    left = degrees_of_freedom(summed(weighed.w, log.groups))
    freedom = [max(1.0, min(runs - 1.0, left))] * weighted + [runs - 1.0] * (centre.size - weighted)
    half = np.array([student_quantile(df) for df in freedom]) * means.std(axis=0, ddof=1)
    reward, *constraints = (
        replace(one, value=float(value), low=float(value - h), high=float(value + h))
        for one, value, h in zip((found.reward, *found.constraints), centre, half, strict=True)
    )
    doubts = tuple(doubt for doubt in found.doubts if doubt != SNAPSHOT)
    rules, size = tuple(constraints), (runs, length)
    return replace(found, reward=reward, constraints=rules, doubts=doubts, runs=size)


def _run_averaged(log: Log, played: Sequence[_Run]) -> Array:
    """The frequencies with which the policy took each action in each row, over all runs, (n, J)."""
    target = np.zeros((log.n_rows, log.n_actions))
    for run in played:
        np.add.at(target, (run.rows, run.actions), 1.0)
    visits = target.sum(axis=1, keepdims=True)
    if missing := int((visits == 0).sum()):
        remedy = f"make runs × rounds, now {int(visits.sum()):,}, at least {20 * log.n_rows:,}"
        raise InvalidInput(f"{missing} of {log.n_rows} rows came up in none of the runs: {remedy}.")
    return np.asarray(target / visits)


def _means(target: Array, scores: Array, values: Array, played: Sequence[_Run]) -> Array:
    """The estimate of each run on the rows that it drew, (runs, M).

    What the mixture is worth there, by `scores` (n, M), and how the run differed from the mixture, by `values` (n, J, M): weights
    on the actions of one run alone would be far noisier than those on the mixture.
    """
    expected = np.einsum("ij,ijm->im", target, values)
    means = []
    for run in played:
        moved = (values[run.rows, run.actions] - expected[run.rows]).mean(axis=0)
        means.append(run.drawn @ scores / run.drawn.sum() + moved)
    return np.array(means)


class _Run(NamedTuple):
    """How often each row was drawn, (n,); row and action of each round."""

    drawn: Array
    rows: Codes
    actions: Codes


class _LateCosts:
    """Costs as a policy sees them after acting: as logged for the row's own action, else fitted plus another row's residual."""

    def __init__(self, log: Log, policy: Policy, means: Array) -> None:
        setting = policy.hooks.setting()
        seen = None if setting is None else setting.seen_before
        self.columns = np.flatnonzero([] if seen is None else ~seen)
        taken = np.arange(log.n_rows), log.actions
        self.means = means[:, :, self.columns]
        self.logged = (log.costs[taken] if log.costs.ndim == 3 else log.costs)[:, self.columns]
        self.actions = log.actions
        residuals = self.logged - self.means[taken]
        self.residuals = [residuals[log.actions == a] for a in range(log.n_actions)]
        self.low, self.high = self.logged.min(axis=0), self.logged.max(axis=0)

    def draw(self, row: int, action: int, generator: np.random.Generator) -> Array:
        """The costs of one round, (K_after,), within the log's range."""
        if action == self.actions[row]:
            return np.asarray(self.logged[row])
        others = self.residuals[action]
        noise = others[generator.integers(len(others))] if len(others) else 0.0
        return np.asarray(np.clip(self.means[row, action] + noise, self.low, self.high))


def _run(
    log: Log,
    policy: Policy,
    offers: Sequence[Mapping[str, Any]],
    costs: _LateCosts,
    rounds: int,
    generator: np.random.Generator,
) -> _Run:
    """The policy goes on for some rounds, on rows that are drawn with replacement and come in a new order each time."""
    n = log.n_rows
    if log.groups is None:
        sample = generator.integers(n, size=n)
    else:
        members = np.split(np.argsort(log.groups, kind="stable"), np.cumsum(np.bincount(log.groups))[:-1])
        sample = np.concatenate([members[g] for g in generator.integers(len(members), size=len(members))])
    times = -(-rounds // sample.size)
    rows = np.concatenate([generator.permutation(sample) for _ in range(times)])[:rounds]
    actions = np.empty(rounds, dtype=np.int64)
    for t, row in enumerate(rows.tolist()):
        try:
            decision = policy.decide(**offers[row])
        except InvalidInput as error:
            raise error.inside(f"row {row} can't be put to the policy") from error
        actions[t] = decision.action
        if len(costs.columns):
            policy.learn(decision, costs=costs.draw(row, decision.action, generator))
        if decision.number in policy.pending:
            policy.forget(decision)
    return _Run(np.bincount(sample, minlength=n).astype(np.float64), rows, actions)


def _offers(log: Log, offers: Sequence[Mapping[str, Any]] | None) -> Sequence[Mapping[str, Any]]:
    if offers is not None:
        if len(offers) != log.n_rows:
            raise InvalidInput(field="offers", must=f"be one for each of {log.n_rows} rows", got=len(offers))
        return offers
    given: dict[str, Any] = {}
    if log.contexts is not None and log.contexts.ndim == 2:
        given["features"] = log.contexts
    if log.costs.ndim == 3:
        given["costs"] = log.costs
    return [{name: rows[i] for name, rows in given.items()} for i in range(log.n_rows)]
