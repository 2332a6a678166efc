"""The calibrated hospital: shapes, exact linearity, and its optima by a solver that is not ours."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from hospital_page import assert_shown, hospital_page
from tightrope.environments import hospital_numbers as numbers
from tightrope.environments.hospital import CAPACITY, FAIRNESS, hospital, hospital_rules
from tightrope.environments.hospital_numbers import WARDS
from tightrope.environments.tabular import Tabular
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope_lab import calibration as cal

MODES = [
    {"reward": reward, "truth": truth, "stay": stay, "costs_seen": seen, "calibration": sample}
    for reward in ("30-day", "any")
    for truth in ("linear", "misspecified")
    for stay in (False, True)
    for seen in ("before", "after")
    for sample in ("all", "first")
]


def optimum(env: Tabular, *, rules: bool = True) -> tuple[float, np.ndarray]:
    """Value and shares of the best policy, by scipy."""
    p, r, w = env.weights, env.rewards, env.costs
    if not rules:
        best = r.argmax(axis=1)
        return float(p @ r.max(axis=1)), np.bincount(best, p, env.n_actions)
    found = linprog(
        -(p[:, None] * r).ravel(),
        A_ub=(p[:, None, None] * w).reshape(r.size, -1).T,
        b_ub=np.zeros(env.n_constraints),
        A_eq=np.kron(np.eye(p.size), np.ones(env.n_actions)),
        b_eq=np.ones(p.size),
    )
    assert found.status == 0
    return -found.fun, p @ found.x.reshape(r.shape)


def slater(env: Tabular) -> float:
    """Slater's constant of the fluid program, by scipy."""
    p, w = env.weights, env.costs
    n = env.rewards.size
    found = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.column_stack([(p[:, None, None] * w).reshape(n, -1).T, np.ones(env.n_constraints)]),
        b_ub=np.zeros(env.n_constraints),
        A_eq=np.column_stack([np.kron(np.eye(p.size), np.ones(env.n_actions)), np.zeros(p.size)]),
        b_eq=np.ones(p.size),
        bounds=[(0, None)] * n + [(None, 1)],
    )
    return float(-found.fun)


def fixed_shares(env: Tabular) -> float:
    """The best feasible policy that ignores the context, where costs ignore it too."""
    found = linprog(
        -(env.weights @ env.rewards),
        A_ub=env.costs[0].T,
        b_ub=np.zeros(env.n_constraints),
        A_eq=np.ones((1, env.n_actions)),
        b_eq=[1.0],
    )
    return float(-found.fun)


@functools.cache
def default() -> Tabular:
    return hospital()


def test_costs_are_those_of_the_paper() -> None:
    w = default().costs
    for j in range(6):
        for a in range(6):
            chosen = float(a == j)
            assert w[:, a, j] == pytest.approx(chosen - CAPACITY[j])
            assert w[:, a, 6 + j] == pytest.approx(FAIRNESS[j] - chosen)
            assert w[:, a, 12 + j] == pytest.approx(chosen - 0.1875)


def test_names() -> None:
    env = default()
    assert env.name == "hospital"
    assert tuple(env.actions) == ("internal", "surgery", "family", "emergency", "cardiology", "other")
    assert len(set(env.constraints)) == 18
    for k, name in enumerate(env.constraints):
        assert name.endswith(WARDS[k % 6])


def test_the_page_tells_the_optima_that_scipy_finds() -> None:
    page = hospital_page()
    for column, reward in enumerate(("30-day", "any")):
        env = hospital(reward)  # type: ignore[arg-type]
        free, shares = optimum(env, rules=False)
        to_cardiology = [100 * shares[4]] if reward == "30-day" else []
        assert_shown(page["optimum without rules"][column], [free, *to_cardiology])
        assert_shown(page["optimum under the rules"][column], [optimum(env)[0]])
        assert_shown(page["best feasible fixed shares"][column], [fixed_shares(env)])
        assert_shown(page["equal shares"][column], [(env.weights @ env.rewards).mean()])


def test_shares_at_the_optimum_meet_the_rules_and_use_up_the_best_ward() -> None:
    value, shares = optimum(default())
    assert (shares <= np.minimum(CAPACITY, 0.1875) + 1e-9).all()
    assert (shares >= np.array(FAIRNESS) - 1e-9).all()
    assert shares[4] == pytest.approx(CAPACITY[4], abs=1e-9), "cardiology, where most would go without rules"
    assert fixed_shares(default()) < value < optimum(default(), rules=False)[0]


def test_slaters_constant_is_half_the_way_from_fairness_to_the_nursing_limit() -> None:
    """0.00625, as the notes on the paper derive it: the first two wards have the narrowest way between their limits."""
    narrowest = min(min(cap, 0.1875) - fair for cap, fair in zip(CAPACITY, FAIRNESS))
    assert slater(default()) == pytest.approx(narrowest / 2, abs=1e-9)
    assert narrowest / 2 == pytest.approx(0.00625)


def test_our_oracle_agrees_with_scipy() -> None:
    for env in (default(), hospital("any", stay=True)):
        found = tr.solve(env)
        assert found.value == pytest.approx(optimum(env)[0], abs=1e-8)
        assert found.slater == pytest.approx(slater(env), abs=1e-8)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(map(str, mode.values())))
def test_every_mode_is_sound(mode: dict[str, object]) -> None:
    env = hospital(**mode)  # type: ignore[arg-type]
    assert (env.n_contexts, env.n_actions, env.n_constraints) == (360, 6, 18)
    assert env.weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.linalg.norm(env.features, axis=1).max() <= 1 + 1e-12
    assert ((env.rewards >= 0) & (env.rewards <= 1)).all()
    low, high = np.asarray(env.cost_range).T
    assert (env.costs >= low - 1e-15).all()
    assert (env.costs <= high + 1e-15).all()
    x = env.features
    # For each action the K costs as functions of x: exactly linear, or only where nothing depends on the patient.
    flat = env.costs.reshape(360, -1)
    residual = np.abs(flat - x @ np.linalg.lstsq(x, flat)[0]).max()
    assert (residual > 1e-3) == (mode["truth"] == "misspecified" and mode["stay"])
    if mode["truth"] == "linear":
        fit = x @ np.linalg.lstsq(x, env.rewards)[0]
        np.testing.assert_allclose(fit, env.rewards, rtol=0, atol=1e-12)
    else:
        fit = x @ np.linalg.lstsq(x, env.rewards)[0]
        assert np.abs(fit - env.rewards).max() > 0.01


def test_limits_can_be_changed_and_are_checked() -> None:
    wide = hospital(capacity=1.0, fairness=0.0, resource=1.0)
    assert optimum(wide)[0] == pytest.approx(optimum(wide, rules=False)[0], abs=1e-9)
    with pytest.raises(InvalidInput, match=r"capacity\[2\] must lie in \[0, 1\], but got 1.5"):
        hospital(capacity=(0.2, 0.2, 1.5, 0.2, 0.2, 0.2))
    with pytest.raises(InvalidInput, match="fairness must be finite, but got nan"):
        hospital(fairness=float("nan"))
    with pytest.raises(InvalidInput, match=r"resource must have shape \(\) or \(6,\)"):
        hospital(resource=(0.1, 0.2))
    with pytest.raises(InvalidInput, match="reward must be one of '30-day', 'any', but got 'never'"):
        hospital("never")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="truth must be one of"):
        hospital(truth="exact")  # type: ignore[arg-type]
    with pytest.raises(InfeasibleProblem, match="internal"):
        hospital(capacity=0.1)


def test_stay_as_a_resource_binds_and_leaves_room() -> None:
    """The default limit is the paper's share of the average stay."""
    for truth in ("linear", "misspecified"):
        env = hospital("any", truth=truth, stay=True)
        assert slater(env) > 0.005
        roomy = hospital("any", truth=truth, stay=True, resource=1.0)
        assert optimum(env)[0] < optimum(roomy)[0] - 1e-4
        used = env.costs[:, :, 12:] - env.costs[:, [1, 2, 3, 4, 5, 0], 12:].min(axis=(0, 1))
        days = 14 * used[:, np.arange(6), np.arange(6)]
        np.testing.assert_allclose(days, numbers.shipped().stay_table(truth), atol=1e-12)


def test_stay_seen_after_is_the_only_random_cost() -> None:
    env = hospital(stay=True, costs_seen="after")
    assert env.random_costs
    low, high = np.asarray(env.cost_range).T
    chance = (env.costs - low) / (high - low)
    assert np.isin(chance[:, :, :12], (0.0, 1.0)).all()
    own = chance[:, np.arange(6), 12 + np.arange(6)]
    assert ((own > 0.1) & (own < 0.6)).all()
    assert not hospital(stay=True).random_costs
    assert not hospital(costs_seen="after").random_costs


def test_own_calibration_is_used() -> None:
    first = numbers.shipped("first")
    np.testing.assert_array_equal(hospital(calibration=first).rewards, hospital(calibration="first").rewards)
    assert not np.array_equal(hospital(calibration=first).weights, default().weights)


def test_rules_give_the_cost_matrix() -> None:
    rules = hospital_rules()
    np.testing.assert_array_equal(rules.costs({"nursing": 1.0}), default().costs[7])
    assert rules.costs({"nursing": 1.0}).shape == (6, 18)


def test_report_tells_the_expected_numbers() -> None:
    text = cal.report(numbers.shipped(), numbers.shipped("first"))
    for part in ("50,726", "37,934", "36,333", "0.00625", "CC BY 4.0", "10.24432/C5230J", "observational"):
        assert part in text
    row = next(line for line in text.splitlines() if line.startswith("| optimum under the rules"))
    assert float(row.split("|")[2]) == pytest.approx(optimum(default())[0], abs=1e-4)
    assert float(row.split("|")[3]) == pytest.approx(optimum(hospital(calibration="first"))[0], abs=1e-4)
