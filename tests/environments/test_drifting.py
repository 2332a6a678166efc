"""Worlds that change with the round: what is drawn, what the optimum is, and what is refused."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import tightrope as tr
from tightrope.environments import Drifting, Tabular
from tightrope.environments.drifting import phases_of
from tightrope.environments.tabular import changed
from tightrope.policies.hooks import Traits
from tightrope_lab.draws import environment_draws

WEIGHTS, REWARDS = np.array([0.6, 0.4]), np.array([[0.2, 0.9], [0.5, 0.7]])
COSTS = np.array([[[-0.4], [0.5]], [[-0.2], [0.3]]])


def world(**changes):
    return changed(Tabular(WEIGHTS, np.eye(2), REWARDS, COSTS), **changes)


def policy(env):
    return tr.ShadowPrice(
        reward=tr.DisjointRidge(env.n_actions, env.n_features), constraints=env.n_constraints
    )


class Told:
    """Plays the best mixture of each phase of a run of that many rounds; it is told when phases begin, and what is true in them."""

    hooks = Traits(sees_context=True)

    def __init__(self, env, rounds, seed=0):
        self.env, self.rounds, self.t, self.draw = env, rounds, 0, np.random.default_rng(seed)
        self.tables = [(phase.last, tr.solve(phase.env).policy) for phase in phases_of(env, rounds)]

    def decide(self, context, **offer):
        self.t += 1
        x = next(x for last, x in self.tables if self.t <= last)[context]
        return int(self.draw.choice(len(x), p=x / x.sum()))

    def learn(self, decision, *outcome):
        pass

    def copy(self, seed):
        return Told(self.env, self.rounds, seed)


def test_phases_fill_the_run_in_their_order():
    env = Drifting([world(), world(rewards=1 - REWARDS), world()], shares=[0.5, 0.3, 0.2])
    for rounds in (1, 2, 3, 10, 101, 10_000):
        parts = env.split(rounds)
        assert parts[0].first == 1
        assert parts[-1].last == rounds
        assert all(a.last + 1 == b.first for a, b in pairwise(parts))
    assert [part[:2] for part in env.split(1000)] == [(1, 500), (501, 800), (801, 1000)]
    assert [part.env for part in env.split(1000)] == list(env.phases)
    assert Drifting([world()] * 4).shares == (0.25,) * 4


def test_one_phase_is_the_table_itself():
    env = world()
    plain = tr.simulate(policy(env), env, 400, 2, seed=3, workers=1, compile=False, keep_choices=True)
    drifting = tr.simulate(policy(env), Drifting([env]), 400, 2, seed=3, workers=1, keep_choices=True)
    for field in ("choices", "reward", "observed_reward", "cost", "last_violation"):
        assert np.array_equal(getattr(plain, field), getattr(drifting, field)), field
    assert drifting.regret.mean == pytest.approx(plain.regret.mean)


def test_the_same_draws_before_the_change_and_other_means_after():
    """Rounds, rewards and costs before the change are those of a world without it; after it they are those of the second."""
    first, second = world(), world(weights=[0.1, 0.9], rewards=1 - REWARDS, costs=-0.5 * COSTS)
    env, T = Drifting([first, second], shares=[0.4, 0.6]), 500
    draws = environment_draws(env, 5, 0, T)
    assert np.array_equal(draws.contexts[:200], environment_draws(first, 5, 0, T).contexts[:200])
    assert np.array_equal(draws.contexts[200:], environment_draws(second, 5, 0, T).contexts[200:])
    run = tr.simulate(policy(env), env, T, seed=5, record=list(range(1, T + 1)), keep_choices=True)
    alone = tr.simulate(policy(env), first, T, seed=5, record=list(range(1, T + 1)), keep_choices=True)
    assert np.array_equal(run.choices[0, :200], alone.choices[0, :200])
    actions = run.choices[0]
    means = np.where(np.arange(T) < 200, *(one.rewards[draws.contexts, actions] for one in env.phases))
    costs = np.where(np.arange(T) < 200, *(one.costs[draws.contexts, actions, 0] for one in env.phases))
    assert np.diff(run.reward[0], prepend=0.0) == pytest.approx(means)
    assert np.diff(run.cost[0, :, 0], prepend=0.0) == pytest.approx(costs)


@pytest.mark.parametrize("seen", ["before", "after"])
def test_random_costs_are_those_of_the_moment(seen):
    low = Tabular([1.0], rewards=[[0.5]], costs=[[[-0.9]]], cost_noise="bernoulli", costs_seen=seen)
    env, T = Drifting([low, changed(low, costs=[[[0.9]]])]), 2000
    draws = environment_draws(env, 0, 0, T).costs[:, 0, 0]
    assert set(draws) == {-1.0, 1.0}
    assert draws[:1000].mean() == pytest.approx(-0.9, abs=0.1)
    assert draws[1000:].mean() == pytest.approx(0.9, abs=0.1)
    run = tr.simulate(tr.policies.Uniform(1), env, T, record=[1000], optimum=0.0)
    assert run.cost[0, :, 0] == pytest.approx([draws[:1000].sum(), draws.sum()])


def test_the_optimum_is_that_of_the_moment_added_up():
    first, second = world(), world(rewards=1 - REWARDS, costs=0.5 * COSTS)
    env, T = Drifting([first, second], shares=[0.25, 0.75]), 400
    before, after = tr.solve(first).value, tr.solve(second).value
    assert abs(before - after) > 0.05
    found = tr.oracle.benchmark(env, T)
    assert found.value == pytest.approx(0.25 * before + 0.75 * after)
    assert found.earned([1, 100, 101, 400]) == pytest.approx(
        [before, 100 * before, 100 * before + after, 100 * before + 300 * after]
    )
    run = tr.simulate(policy(env), env, T, seed=1, record=[1, 100, 101, 400])
    assert run.optimum == pytest.approx(found.value)
    assert run.regret.paths[0] == pytest.approx(found.earned(run.rounds) - run.reward[0])
    # What is told by hand is taken as it is, at every round the same.
    given = tr.simulate(policy(env), env, T, seed=1, optimum=0.5, record=[100])
    assert given.regret.paths[0] == pytest.approx([50, 200] - given.reward[0])


def test_the_optimum_can_be_played_in_every_phase():
    """Who knows the phases has a regret of zero within five standard errors at the change and at the end, and keeps the rule."""
    env = Drifting([world(), world(rewards=1 - REWARDS, costs=0.5 * COSTS)])
    T, n = 400, 60
    run = tr.simulate(Told(env, T), env, T, n, seed=2, workers=1, record=[200])
    for g in range(2):
        regret, cost = run.regret.paths[:, g], run.mean_cost[:, g, 0]
        assert abs(regret.mean()) <= 5 * regret.std(ddof=1) / np.sqrt(n)
        assert cost.mean() <= 5 * cost.std(ddof=1) / np.sqrt(n)


def test_saving_up_can_beat_the_optimum_where_shadow_prices_differ():
    """Costs add up over the run, so a program for the whole of it earns more than the phases' optima do together."""
    env = Drifting([world(), world(rewards=0.2 * REWARDS)])
    prices = [tr.solve(one).duals[0] for one in env.phases]
    assert prices[0] > 2 * prices[1] > 0
    assert tr.solve(env.pooled).value > tr.oracle.benchmark(env, 1000).value + 0.01


def test_pooled_has_every_mean_at_its_share():
    first, second = world(), world(weights=[1.0, 0.0], rewards=1 - REWARDS)
    env = Drifting([first, second], shares=[0.25, 0.75])
    assert env.pooled.weights == pytest.approx([0.15, 0.1, 0.75, 0.0])
    assert np.array_equal(env.pooled.rewards, np.concatenate([first.rewards, second.rewards]))
    assert env.weights == pytest.approx([0.9, 0.1])
    problem = env.problem()
    assert (problem.n_contexts, problem.n_actions, problem.n_constraints) == (2, 2, 1)
    assert np.array_equal(problem.truth.rewards, env.pooled.rewards)


def test_arms_that_change_are_still_one_context():
    arms = [
        Tabular([1.0], rewards=[r], costs=[[[-0.5], [0.5]]], costs_seen="after")
        for r in ([0.1, 0.9], [0.9, 0.1])
    ]
    env = Drifting(arms)
    opb = tr.policies.OPB(2, safe_cost=-0.5, horizon=1000)
    assert not [reason for reason in env.problem().outside(opb) if "contexts" in reason]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Drifting([]), "phases must have at least one environment"),
        (lambda: Drifting([world(), None]), "phases[1] must be a tabular environment, but got None"),
        (
            lambda: Drifting([world(), world(cost_range=(-2, 2))]),
            "only weights, rewards and costs may change from phase to phase, but cost_range of phases[1] is not that of phases[0]",
        ),
        (
            lambda: Drifting([world(), world(actions=["a", "b"])]),
            "actions of phases[1] is not that of phases[0]",
        ),
        (
            lambda: Drifting([world(), world(features=2 * np.eye(2))]),
            "features of phases[1] is not that of phases[0]",
        ),
        (
            lambda: Drifting([world()] * 2, [1.0]),
            "shares must have one entry for each of 2 phases, but has 1",
        ),
        (lambda: Drifting([world()] * 2, [0.5, 0.6]), "shares must sum to 1, but they sum to 1.1"),
        (lambda: Drifting([world()] * 2, [0.0, 1.0]), "shares[0] must be finite and > 0, but got 0.0"),
        (lambda: Drifting([world()], name=3), "name must be a string, but got 3"),
    ],
)
def test_bad_phases_are_refused(make, message):
    with pytest.raises(tr.InvalidInput, match=re.escape(message)):
        make()


def test_who_can_play_one_world_only_says_so():
    env = Drifting([world(), world()], name="moving")
    for ask in (tr.solve, tr.oracle.check, tr.oracle.slater):
        with pytest.raises(tr.InvalidInput, match="the means of 'moving' change with the round"):
            ask(env)
    for engine in ("gpu", "gpu-double"):
        with pytest.raises(tr.InvalidInput, match=r"must not change during the run on a GPU.*engine='cpu'"):
            tr.simulate(policy(env), env, 10, engine=engine)
    with pytest.raises(tr.InvalidInput, match="it has 2 actions, but the policy has 3"):
        tr.simulate(tr.policies.Uniform(3), env, 10)


def test_results_are_saved_with_what_the_optimum_earned(tmp_path):
    env = Drifting([world(), world(rewards=0.5 * REWARDS)])
    run = tr.simulate(policy(env), env, 200, 2, seed=1, workers=1)
    again = tr.Result.load(run.save(tmp_path))
    assert again == run
    assert np.array_equal(again.regret.paths, run.regret.paths)
    assert run.with_optimum(0.5).regret.paths[0, -1] == pytest.approx(100 - run.reward[0, -1])
    still = tr.simulate(policy(env), world(), 200, 2, seed=1, workers=1)
    assert still.optimal_reward is None
    assert tr.Result.load(still.save(tmp_path / "still")) == still
