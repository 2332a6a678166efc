"""The rivals: the prototype's choices are the prototype's, prices are optimal, and all play on the simulator's draws."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from tightrope.engine.replication import environment_draws
from tightrope_lab.evidence.rivals import Rival, dual_prices, play, run_once
from tightrope_lab.evidence.worlds import random_world

PROTOTYPE = Path(__file__).parents[4] / "shared" / "shadow-price" / "prototype.py"


def prototype():
    spec = importlib.util.spec_from_file_location("shadow_price_prototype", PROTOTYPE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not PROTOTYPE.is_file(), reason=f"no {PROTOTYPE}")
@pytest.mark.parametrize("seed", [38835001, 38835003, 38835007, 38835021, 38835049])
def test_the_prototypes_choices_are_those_of_the_program_it_is_taken_from(seed):
    """Before and after, shared and own parameters, sleeping actions, and a memory that is soon full."""
    env, rounds = random_world(seed).env, 200
    draws = environment_draws(env, 5, 0, rounds)
    rival = Rival("prototype", memory=64)
    *_, choices = run_once(rival, env, draws, np.random.default_rng(3), np.array([rounds]))
    before = env.costs_seen == "before"
    settings = {"shared": not env.disjoint, "seen": before, "cost_range": env.cost_range, "memory": 64}
    theirs = prototype().ShadowPrice(env.n_actions, env.n_features, env.n_constraints, **settings, seed=3)
    for t, c in enumerate(draws.contexts):
        decision = theirs.decide(env.features[c], env.costs[c], np.flatnonzero(env.available[c]))
        assert decision.action == choices[t], f"round {t + 1}"
        drawn = env.costs[c] if draws.costs is None else draws.costs[t]
        reward = draws.uniforms[t] < env.rewards[c, decision.action]
        theirs.learn(decision.token, reward, drawn[decision.action])


@pytest.mark.parametrize("K", [1, 4])
def test_dual_prices_reach_the_value_of_the_linear_program(K):
    rng = np.random.default_rng(K)
    n, J = 60, 4
    r, w = rng.random((n, J)), rng.uniform(-1, 1, (n, J, K))
    w[:, 0] = -0.5
    rho = float((r.max(axis=1) - r.min(axis=1)).mean())
    p = dual_prices(r, w, np.zeros(K), np.full(K, 20.0 * rho), rho, np.ones(K))
    reached = np.max(r - w @ p, axis=1).mean()
    rows = np.kron(np.eye(n), np.ones(J))
    best = linprog(-r.ravel() / n, w.reshape(n * J, K).T / n, np.zeros(K), rows, np.ones(n))
    assert p.min() >= 0
    assert -best.fun - 1e-9 <= reached <= -best.fun + 0.005 * rho


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
