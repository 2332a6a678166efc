"""Who plays in the league: rivals that look at costs, and comparators with what their papers give them."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.policies import Lagrangian
from tightrope_lab.league import ROSTER, Unfit, chosen_entries
from tightrope_lab.league.scenarios import SCENARIOS, scenario

BUILT = {name: scenario(name) for name in SCENARIOS}


def made(name, ground, horizon=1000):
    policy = ROSTER[name].make(BUILT[ground], horizon)
    reasons = BUILT[ground].env.problem().outside(policy)
    if reasons:
        raise Unfit(reasons)
    return policy


@pytest.mark.parametrize("name", ["lagrangian", "plain-lagrangian", "guarded-lagrangian", "guarded-linucb"])
def test_rivals_that_look_at_costs_play_everywhere(name):
    for ground in SCENARIOS:
        if BUILT[ground].env.n_constraints:
            assert isinstance(made(name, ground), Lagrangian)


@pytest.mark.parametrize("name", ["lag-ts", "lp-ts"])
def test_rivals_with_the_posterior_of_the_default_play_everywhere(name):
    for ground in SCENARIOS:
        ours, default = made(name, ground), made("shadow-price", ground)
        assert ours.hooks.reward_model().settings() == default.hooks.reward_model().settings()
        theirs = default.hooks.cost_model()
        assert (ours.hooks.cost_model() is None) == (theirs is None)
        assert theirs is None or ours.hooks.cost_model().settings() == theirs.settings()


def test_the_plain_one_has_no_margin():
    assert (made("plain-lagrangian", "fair-jobs").margin, made("lagrangian", "fair-jobs").margin) == (
        0.0,
        0.5,
    )


def test_the_four_rivals_differ_as_their_names_say():
    shown = {
        name: made(name, "fair-jobs")
        for name in ("lagrangian", "guarded-lagrangian", "guarded-linucb", "prudent")
    }
    assert {name: (one.guard, one.step > 0) for name, one in shown.items()} == {
        "lagrangian": (False, True),
        "guarded-lagrangian": (True, True),
        "guarded-linucb": (True, False),
        "prudent": (True, False),
    }
    # The prudent one does not look at the context; the others have the model that everybody gets.
    assert isinstance(shown.pop("prudent").hooks.reward_model(), tr.ArmMeans)
    everybody = BUILT["fair-jobs"].known(1000)["reward"].settings()
    assert all(one.hooks.reward_model().settings() == everybody for one in shown.values())


@pytest.mark.parametrize("name", ["guarded-lagrangian", "guarded-linucb", "prudent"])
@pytest.mark.parametrize("ground", ["fair-jobs", "model-routing"])
def test_a_guard_never_lets_a_total_above_zero_where_it_need_not(name, ground):
    env = BUILT[ground].env
    # No action is safe at the very first round of fair-jobs, where each misses a share: one excess of less than 1.
    run = tr.simulate(made(name, ground), env, 400, 2, workers=1, record=400)
    most = run.cost[:, 20:].max()
    assert most <= 1e-9


def test_the_prudent_one_has_no_model_of_costs():
    with pytest.raises(Unfit, match="the policy has no model of them"):
        made("prudent", "safe-dosing")


def test_opb_has_the_radii_of_the_noise_that_there_is():
    policy, known = made("opb", "bandit-binding"), BUILT["bandit-binding"].known(1000)
    assert (policy.reward_noise, policy.cost_noise) == (0.5, 0.5)
    # The same as everybody's: sqrt(log T / N), which is ArmMeans' at t = T.
    n = 25
    for _ in range(n):
        policy.sums[1] += (0.0, 0.0)
        policy.counts[1] += 1.0
    pessimistic = np.subtract(*(policy.propose().explain().rewards, policy.propose().explain().values))[1]
    arms = known["cost"].copy()
    for _ in range(n):
        arms.learn(None, 0.0, 1)
    assert pessimistic == pytest.approx(arms.widths_at(1000)[1])


@pytest.mark.parametrize("name", ["safe-lucb", "safe-lts"])
def test_safe_policies_play_where_safe_actions_span_the_features(name):
    assert set(made(name, "safe-dosing").safe_actions) == {0, 1}
    for ground in ("ads-budget", "conservative-baseline"):
        with pytest.raises(Unfit, match="the known safe actions span 1 of the"):
            made(name, ground)


def test_oplb_leaves_the_safe_action_in_the_first_round():
    for ground in ("bandit-binding", "safe-dosing", "conservative-baseline"):
        env, policy = BUILT[ground].env, made("oplb", ground)
        features = np.eye(env.n_actions) if env.features is None else env.features[0]
        assert policy.propose(features).probabilities[policy.safe_action] < 1.0


def test_lfg_pays_its_debts():
    policy = made("lfg", "sleeping-fractions", 2000)
    assert policy.eta == 1.0
    run = tr.simulate(policy, BUILT["sleeping-fractions"].env, 2000, 3, workers=1)
    assert run.cost[:, -1].mean(axis=0).max() <= 0.0


def test_entries_by_name():
    assert [entry.name for entry in chosen_entries(["opb", "uniform"])] == ["opb", "uniform"]
    assert (
        repr(ROSTER["opb"].make(scenario("bandit-binding"), 1000)) == "OPB(4, safe_cost=-0.1, horizon=1000)"
    )
