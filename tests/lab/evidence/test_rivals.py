"""The rivals: what each keeps and what it needs, on the simulator's draws."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope_lab.draws import environment_draws
from tightrope_lab.evidence.rivals import Rival, play
from tightrope_lab.evidence.worlds import random_world


def test_draws_are_those_of_simulate():
    env = random_world(38835005).env
    run = tr.simulate(tr.policies.Uniform(env.n_actions), env, 400, 2, seed=9, keep_choices=True, workers=1)
    for replication in range(2):
        draws = environment_draws(env, 9, replication, 400)
        choices = run.choices[replication]
        assert run.reward[replication, -1] == pytest.approx(env.rewards[draws.contexts, choices].sum())
        assert draws.costs is not None
        assert run.cost[replication, -1] == pytest.approx(draws.costs[np.arange(400), choices].sum(axis=0))


def test_a_guard_never_lets_a_total_rise_where_some_action_costs_nothing():
    costs = np.tile([[0.0], [0.8], [-0.3]], (2, 1, 1))
    env = tr.environments.Tabular([0.5, 0.5], np.eye(2), [[0.1, 0.9, 0.0], [0.2, 0.7, 0.1]], costs)
    outcome = play(Rival("guard"), env, 500, 2)
    assert outcome.path.max() == 0
    assert outcome.last.max() == 0
    # It may use what the third action gives back.
    assert outcome.reward[:, -1].min() > 500 * 0.15


def test_a_lagrangian_needs_its_margin():
    """Its price is what was overspent: without a margin the total stays where the price has to be."""
    env = tr.environments.Tabular([1.0], [[1.0]], [[0.9, 0.1]], [[[0.5], [-0.5]]])
    loose = play(Rival("lagrangian", step=0.03, margin=0.0), env, 3000, 2)
    tight = play(Rival("lagrangian", step=0.03, margin=1.0), env, 3000, 2)
    assert loose.end.min() > 0.5 / 0.03
    assert not tight.ends_above.any()


def test_worlds_that_rivals_can_not_play_are_refused():
    with pytest.raises(tr.InvalidInput, match="features and Bernoulli rewards"):
        play(Rival("guard"), tr.environments.bandit(0.5, "after"), 10, 1)
