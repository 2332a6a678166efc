"""Scenarios: optimum and Slater's constant by other means, and what policies are told is true."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from tightrope.environments.tabular import changed
from tightrope_lab.league.scenarios import SCENARIOS, Scenario, scenario

BUILT = {name: scenario(name) for name in SCENARIOS}
REAL = ("digits", "breast-cancer", "wine")


def phases_of(one):
    return getattr(one.env, "phases", (one.env,))


def by_linprog(env, slack=False):
    """The fluid program, or Slater's constant, as one dense LP over the actions on offer."""
    shown = env.available & (env.weights > 0)[:, None]
    c, j = np.nonzero(shown)
    p = env.weights[c]
    costs = (env.costs[c, j] * p[:, None]).T
    rows = np.unique(c)
    each = (c == rows[:, None]).astype(float)
    if slack:
        objective = np.append(np.zeros(len(c)), -1.0)
        upper = np.column_stack([costs, np.ones(len(costs))])
        equal = np.column_stack([each, np.zeros(len(rows))])
        bounds = [(0, None)] * len(c) + [(None, 1)]
    else:
        objective, upper, equal = -env.rewards[c, j] * p, costs, each
        bounds = [(0, None)] * len(c)
    found = linprog(
        objective, A_ub=upper, b_ub=np.zeros(len(costs)), A_eq=equal, b_eq=np.ones(len(rows)), bounds=bounds
    )
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("name", SCENARIOS)
def test_optimum_and_slater_by_another_solver(name):
    one = BUILT[name]
    assert one.name == one.env.name == name
    phases, shares = phases_of(one), getattr(one.env, "shares", (1.0,))
    assert one.optimum == pytest.approx(np.dot(shares, [by_linprog(env) for env in phases]), abs=1e-7)
    assert one.optimum == pytest.approx(np.dot(shares, [tr.solve(env).value for env in phases]), abs=1e-9)
    assert one.slater == pytest.approx(min(by_linprog(env, slack=True) for env in phases), abs=1e-7)
    assert one.slater > 0


def test_optima_by_hand():
    assert BUILT["bandit-slack"].optimum == pytest.approx(0.7)
    assert BUILT["bandit-binding"].optimum == pytest.approx(0.5 * 0.7 + 0.5 * 0.1)
    # All of the first kind of visitor (0.15 at 0.8), and 0.15 of the second (at 0.5).
    assert BUILT["ads-budget"].optimum == pytest.approx(0.15 * 0.8 + 0.15 * 0.5)
    assert BUILT["hospital"].slater == pytest.approx(0.00625)


def test_the_best_action_switches_and_the_rules_bind_alike_before_and_after():
    """So the phases' optima together are that of the whole run: nothing is gained by saving up in the first half."""
    env = BUILT["switching-best"].env
    first, second = (tr.solve(one) for one in env.phases)
    assert first.binding.all()
    assert second.binding.all()
    assert first.duals == pytest.approx(second.duals)
    assert (first.duals > 0.05).all()
    assert first.policy[:, [0, 2, 1, 3]] == pytest.approx(second.policy)
    blue, green = env.actions.index("blue"), env.actions.index("green")
    assert (env.weights @ first.policy)[[blue, green]] == pytest.approx([0.576, 0.0], abs=0.001)
    assert BUILT["switching-best"].optimum == pytest.approx(tr.solve(env.pooled).value)


def test_most_regret_comes_after_the_change_and_no_rule_is_broken():
    env = BUILT["switching-best"].env
    policy = tr.ShadowPrice(reward=tr.DisjointRidge(4, 3), constraints=2)
    run = tr.simulate(policy, env, 3000, 2, seed=0, workers=1, record=[1500])
    before, after = run.regret.mean
    assert after - before > 1.5 * before > 0
    assert not run.last_violation.any()


def test_what_is_told_of_a_world_that_changes_holds_in_every_phase():
    bandit = tr.environments.bandit(threshold=0.3)
    shifted = changed(
        bandit,
        costs=bandit.costs + np.array([[[0.05], [0.0], [0.0], [0.0]]]),
        rewards=bandit.rewards[:, ::-1],
    )
    one = Scenario(tr.environments.Drifting([bandit, shifted], name="shifted"), "")
    known = one.known(100, linear=True)
    assert known["safe_action"] == 0
    assert known["safe_cost"] == pytest.approx(-0.25)
    assert one.slater == pytest.approx(min(tr.oracle.slater(bandit), tr.oracle.slater(shifted)))
    norms = [np.linalg.norm(env.rewards) for env in (bandit, shifted)]
    assert known["reward"].m == pytest.approx(max(1.0, *norms))
    with pytest.raises(tr.InvalidInput, match="baseline must be left out where the means change"):
        Scenario(one.env, "", baseline=0, alpha=0.1)


def test_the_kinds_that_must_be_there():
    assert len(SCENARIOS) >= 10
    assert BUILT["tight-slater"].slater <= 0.01 + 1e-9
    assert BUILT["loose-slater"].slater >= 0.3
    assert BUILT["many-constraints"].env.n_constraints == 50
    sizes = BUILT["changing-actions"].env.available.sum(axis=1)
    assert len(set(sizes.tolist())) > 3
    assert not BUILT["sleeping-fractions"].env.available.all()
    assert not tr.solve(BUILT["bandit-slack"].env).binding.any()
    assert tr.solve(BUILT["bandit-binding"].env).binding.all()
    assert {one.env.costs_seen for one in BUILT.values()} == {"before", "after"}
    for one in BUILT.values():
        assert len(one.description) > 80
        assert "\n" not in one.description


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_policies_are_told_is_true(name):
    one = BUILT[name]
    env, known = one.means, one.known(500)
    met = env.weights > 0
    assert known["weights"] == pytest.approx(one.env.weights)
    for action in known.get("safe_actions", ()):
        assert env.available[met, action].all()
        assert (env.costs[met, action] < 0).all()
    if "safe_cost" in known:
        assert env.costs[met, known["safe_action"]].max() == pytest.approx(known["safe_cost"])
    if "noop" in known:
        assert np.abs(env.costs[met, known["noop"]] + known["limits"]).max() < 1e-9
        assert ((known["limits"] > 0) & (known["limits"] <= 1)).all()
        assert ("Z" in known) == (env.costs_seen == "after")
        if "Z" in known:  # what LinCBwK's bound asks for
            assert (
                one.optimum / known["limits"].min() <= known["Z"] <= one.optimum / known["limits"].min() + 1.0
            )
    if "shares" in known:
        shares = known["shares"]
        for k in range(env.n_constraints):
            rows = [
                np.allclose(env.costs[met][:, :, k], shares[i] - np.eye(env.n_actions)[i])
                for i in range(len(shares))
            ]
            assert any(rows)
    if "baseline" in known:
        assert np.allclose(env.rewards[met, known["baseline"]], known["baseline_reward"])
    assert not set(known) & set(one.lacks)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("part", ["reward", "cost"])
def test_radii_are_valid_for_the_noise(name, part):
    for env in phases_of(BUILT[name]):
        assert_radius_is_valid(env, name, BUILT[name].known(500, linear=True), part)


def assert_radius_is_valid(env, name, known, part):
    if part not in known:
        assert part == "cost"
        assert env.costs_seen == "before"
        return
    model = known[part]
    features = env.features if part == "reward" else env.cost_features
    targets = env.rewards[:, :, None] if part == "reward" else env.costs
    J = env.n_actions
    if features is None:
        phi = np.broadcast_to(np.eye(J), (env.n_contexts, J, J))
    elif features.ndim == 2:
        phi = np.einsum("jk,cp->cjkp", np.eye(J), features).reshape(env.n_contexts, J, -1)
    else:
        phi = features
    shown = env.available & (env.weights > 0)[:, None]
    theta, *_ = np.linalg.lstsq(phi[shown], targets[shown], rcond=None)
    linear = np.abs(phi[shown] @ theta - targets[shown]).max() < 1e-8
    assert linear == (name not in REAL)
    # No radius is valid where means are not linear: those of ‖θ*‖ = 1 are taken.
    norm = np.linalg.norm(theta, axis=0).max() if linear else model.m
    assert linear or model.m == 1.0
    assert norm <= model.m + 1e-9
    noise = env.reward_noise if part == "reward" else env.cost_noise
    R = {
        "bernoulli": 0.5 if part == "reward" else np.ptp(env.cost_range, axis=1).max() / 2,
        "gaussian": env.reward_scale if part == "reward" else env.cost_scale,
        "none": 0.0,
    }[noise]
    for s in np.linspace(math.sqrt(2 * math.log(100)), 60, 200):
        assert model.bonus * (model.m + s) >= norm + R * s - 1e-9


def test_what_is_not_known_is_not_told():
    hospital = BUILT["hospital"]
    assert not hospital.safe_actions
    assert {"safe_action", "limits", "shares", "baseline", "cost"} <= set(hospital.lacks)
    assert "safe_action" not in hospital.known(10)
    assert BUILT["knapsack-stop"].lacks["limit"] == "there is more than one budget"
    assert "limits" in BUILT["knapsack-stop"].known(10)
    # An action that is not always on offer is not safe, however cheap.
    env = tr.environments.Tabular(
        [0.5, 0.5],
        rewards=[[0.1, 0.2], [0.1, 0.2]],
        costs=[[[-0.5], [0.1]], [[-0.5], [0.1]]],
        available=np.array([[False, True], [True, True]]),
        costs_seen="after",
    )
    assert Scenario(env, "").safe_actions == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env": None}, "env must be a Tabular or a Drifting"),
        ({"safe": (9,)}, "safe must name actions below 4, but got 9"),
        ({"baseline": 4, "alpha": 0.1}, "baseline must name actions below 4"),
        ({"baseline": 1}, "baseline and alpha must be given together"),
    ],
)
def test_bad_scenarios_are_refused(settings, message):
    with pytest.raises(tr.InvalidInput, match=re.escape(message)):
        Scenario(**{"env": tr.environments.bandit(), "description": "", **settings})


def test_an_optimum_that_would_be_wrong_is_refused():
    env = tr.environments.bandit(threshold=0.1, costs_seen="before")
    with pytest.raises(tr.InvalidInput, match="joint program"):
        Scenario(env, "").optimum  # noqa: B018
    with pytest.raises(tr.InvalidInput, match="scenario must be one of"):
        scenario("nowhere")


def test_a_delay_is_a_number_of_rounds():
    assert scenario("late-outcomes").delay == 500
    assert BUILT["fair-jobs"].delay == 0
    with pytest.raises(tr.InvalidInput, match=re.escape("delay must be a whole number >= 0, but got -1.")):
        Scenario(BUILT["fair-jobs"].env, "Outcomes before their time.", delay=-1)
