"""How the league plays: totals of every round, and outcomes that come late."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

import tightrope as tr
from tightrope import kernels
from tightrope.engine.replication import tabular_arrays
from tightrope.engine.simulation import policy_seed
from tightrope.environments.tabular import changed
from tightrope.validation import VIOLATION
from tightrope_lab.draws import environment_draws
from tightrope_lab.league import ROSTER, compare, own_entry, run
from tightrope_lab.league.scenarios import Scenario, scenario


@pytest.mark.parametrize("name", ["knapsack-stop", "fair-jobs", "sleeping-fractions"])
def test_totals_are_those_of_every_round(name):
    env = scenario(name).env
    policy = tr.policies.Uniform(env.n_actions)
    all_rounds = tr.simulate(policy, env, 150, 3, seed=4, workers=1, record=range(1, 151), keep_choices=True)
    above, peak = run.path_totals(all_rounds, env)
    assert above.tolist() == (all_rounds.cost > VIOLATION).any(axis=2).sum(axis=1).tolist()
    np.testing.assert_allclose(peak, np.maximum(all_rounds.cost, 0.0).sum(axis=2).max(axis=1), atol=1e-9)
    assert above.max() > 0
    # The last round above zero, found by the engine itself, is one of them.
    assert ((above > 0) == (all_rounds.last_violated().values > 0)).all()
    with pytest.raises(tr.InvalidInput, match="keep_choices=True"):
        run.path_totals(tr.simulate(policy, env, 5, 1), env)


def test_without_constraints_no_total_is_above_zero():
    env = tr.environments.Tabular([1.0], rewards=[[0.1, 0.7]], name="free")
    found = compare([ROSTER["linucb"]], [Scenario(env, "No rules.")], rounds=30, replications=2, workers=1)
    (one,) = found.performances
    assert one.rounds_above.tolist() == one.peak.tolist() == [0.0, 0.0]
    assert one.kept
    assert found.ratio(one) == 1.0


# ------------------------------------------------------------------------------------------------------- late outcomes


def late(delay, name="safe-dosing"):
    """A scenario of the league, with another delay."""
    known = scenario(name)
    return Scenario(changed(known.env, name=f"{name}-{delay}"), known.description, known.safe, delay=delay)


def by_hand(policy, ground, rounds, replication, seed):
    """The actions of a run in which the outcome of a round is learnt before the decision after `delay` further ones."""
    env, world = ground.env, tabular_arrays(ground.env)
    draws = environment_draws(env, seed, replication, rounds)
    policy = policy.copy(policy_seed(seed, replication))
    waiting, actions = deque(), []
    for t in range(rounds):
        while waiting and waiting[0][0] + ground.delay < t:
            policy.learn(*waiting.popleft()[1])
        c = draws.contexts[t]
        decision = policy.decide(
            env.features[c], env.cost_features[c] if policy.hooks.n_constraints else None
        )
        a = decision.action
        reward = kernels.draw_reward(
            seed,
            replication,
            t + 1,
            draws.uniforms[t],
            env.rewards[c, a],
            world.reward_kind,
            world.reward_scale,
        )
        costs = [draws.costs[t, a]] if policy.hooks.n_constraints else []
        waiting.append((t, (decision, reward, *costs)))
        actions.append(a)
    return actions


@pytest.mark.parametrize("name", ["shadow-price", "pessimistic-optimistic-a", "lints", "oplb", "linucb"])
def test_a_late_run_is_that_of_a_loop_that_holds_outcomes_back(name):
    ground, rounds, seed = late(40), 200, 3
    found = compare([ROSTER[name]], [ground, late(0)], rounds=rounds, replications=2, seed=seed, workers=1)
    (delayed, at_once) = found.performances
    for replication in range(2):
        actions = by_hand(ROSTER[name].make(ground, rounds), ground, rounds, replication, seed)
        counts = np.cumsum(np.eye(6, dtype=np.int64)[actions], axis=0)
        recorded = delayed.result.rounds - 1
        np.testing.assert_array_equal(delayed.result.counts[replication], counts[recorded])
    assert not np.array_equal(delayed.result.counts, at_once.result.counts)


def test_without_delay_nothing_changes_by_a_bit():
    ground = late(0)
    entry = ROSTER["shadow-price"]
    (one,) = compare([entry], [ground], rounds=200, replications=2, seed=5, workers=1).performances
    plain = tr.simulate(
        entry.make(ground, 200), ground.env, 200, 2, seed=5, workers=1, record=run.RECORDED, compile=False
    )
    for name in ("reward", "observed_reward", "cost", "mean_cost", "counts", "last_violation"):
        np.testing.assert_array_equal(getattr(one.result, name), getattr(plain, name))


class Averages:
    """The best average so far, by the action alone: an object that is no `Policy`."""

    def __init__(self, n_actions, seed=0):
        self.sums, self.n = np.zeros(n_actions), np.zeros(n_actions)

    def decide(self, features=None, costs=None, actions=None):
        return int(np.argmax(np.where(self.n, self.sums / np.maximum(self.n, 1), np.inf)))

    def learn(self, decision, reward, costs=None):
        self.sums[decision] += reward
        self.n[decision] += 1

    def copy(self, seed):
        twin = type(self)(len(self.n))
        twin.sums, twin.n = self.sums.copy(), self.n.copy()
        return twin


class Patient(Averages):
    takes_late_outcomes = True


def test_who_can_not_wait_is_marked():
    entries = [own_entry(Averages), own_entry(Patient), ROSTER["uniform"]]
    found = compare(entries, [late(20), late(0)], rounds=60, replications=1, workers=1)
    ran = {(one.policy, one.scenario) for one in found.performances}
    assert ("Averages", "safe-dosing-0") in ran
    assert ("Patient", "safe-dosing-20") in ran
    (misfit,) = found.misfits
    assert (misfit.policy, misfit.scenario) == ("Averages", "safe-dosing-20")
    assert misfit.reasons[0].startswith("outcomes come 20 rounds late, and the policy neither inherits")


def test_every_policy_of_the_package_waits():
    for name, entry in ROSTER.items():
        try:
            policy = entry.make(scenario("safe-dosing"), 100)
        except run.Unfit:
            continue
        if not scenario("safe-dosing").env.problem().outside(policy):
            assert run._made(entry, scenario("late-outcomes"), 100), name


def test_sizes_that_are_asked_for_go_before_the_leagues_own():
    assert run.size_of(quick=True, rounds=100, seed=None) == {"rounds": 100, "replications": 5, "seed": 0}
