"""What the best policy would earn with other limits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tightrope as tr
from tightrope import lp
from tightrope.environments import Tabular, bandit, synthetic
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.report.limits import limit_figure

ACTIONS = ["a", "b", "c"]


def world(rules: list, contexts: int = 40, seed: int = 0, actions: list[str] = ACTIONS) -> Tabular:
    draw = np.random.default_rng(seed)
    made = tr.Rules(rules, actions=actions)
    cents = draw.uniform(0, 1000, (contexts, len(actions)))
    cents[:, -1] = 0.0
    groups = draw.choice(["far", "near"], contexts).tolist()
    used = {"cents"} & {one.quantity.usage for one in rules}
    costs = [made.costs({"cents": row} if used else None, group) for row, group in zip(cents, groups)]
    return Tabular(
        draw.dirichlet(np.ones(contexts)),
        rewards=draw.uniform(0, 1, (contexts, len(actions))),
        costs=np.stack(costs),
        cost_range=made.cost_range,
        rules=made,
        groups=groups,
        actions=actions,
    )


BUDGET = tr.Budget("cents", at_most=250, range=(0, 1000))
KINDS = [
    ([BUDGET, tr.Capacity("a", at_most=0.4)], 0),
    ([BUDGET, tr.Capacity("a", at_most=0.4)], 1),
    ([tr.Share("b", at_least=0.5), BUDGET], 0),
    ([tr.Share("b", at_least=0.6, among="far"), tr.Capacity("a", at_most=0.2)], 0),
    ([dataclasses.replace(BUDGET, among="near"), tr.Share("a", at_least=0.2)], 0),
]


@pytest.mark.parametrize("contexts", [40, 800])  # solved whole, and decomposed
@pytest.mark.parametrize(("rules", "k"), KINDS)
def test_every_point_is_the_optimum_with_that_limit(rules, k, contexts):
    env = world(rules, contexts)
    found = tr.solve(env)
    curve = found.curve(k, points=7)
    assert curve.rule == env.constraints[k]
    assert curve.value == pytest.approx(found.value, abs=1e-9)
    assert curve.today == rules[k].sides[0][1]
    side = rules[k].sides[0][0]
    for limit, value in zip(curve.limits.tolist(), curve.values.tolist()):
        changed = [
            dataclasses.replace(rule, **({side: limit} if i == k else {})) for i, rule in enumerate(rules)
        ]
        try:
            expected = tr.solve(world(changed, contexts)).value
        except InfeasibleProblem:
            expected = np.nan
        assert value == pytest.approx(expected, abs=1e-8, nan_ok=True)


@pytest.mark.parametrize(("rules", "k"), KINDS)
def test_the_curve_is_concave_and_prices_are_its_slopes(rules, k):
    curve = tr.solve(world(rules)).curve(k, points=15)
    kept = np.isfinite(curve.values)
    limits, values, prices = curve.limits[kept], curve.values[kept], curve.prices[kept]
    slopes = np.diff(values) / np.diff(limits)
    assert (np.diff(slopes) <= 1e-7).all()
    along = prices if curve.side == "at_most" else -prices
    assert (slopes <= along[:-1] + 1e-7).all()
    assert (slopes >= along[1:] - 1e-7).all()


def test_limits_that_nothing_keeps_are_unknown_and_said():
    env = world([BUDGET, tr.Share("a", at_least=0.3)])
    curve = tr.solve(env).curve("cents", np.linspace(0, 250, 11))
    assert np.isnan(curve.values[0])
    assert curve.least is not None
    assert np.isfinite(curve.values[curve.limits >= curve.least]).all()
    assert f"With a limit below {curve.least:g} no policy keeps every rule" in str(curve)
    assert "can't be kept" in str(curve)
    assert [row["limit"] for row in curve.frame_rows()] == curve.limits.tolist()
    # Such limits are left out of the figure.
    assert limit_figure(curve).axes[0].get_xlim()[0] == pytest.approx(curve.least)


def test_from_some_limit_on_more_earns_nothing():
    curve = tr.solve(world([BUDGET])).curve("cents", [100, 400, 700, 1000])
    assert curve.enough is not None
    assert f"From {curve.enough:g} on, a higher limit would earn nothing more." in " ".join(curve.words())
    assert curve.values[-1] == pytest.approx(curve.values[curve.limits >= curve.enough].min())


def test_shares_stay_between_0_and_1_and_are_shown_in_percent():
    curve = tr.solve(world([tr.Capacity("a", at_most=0.8)])).curve("capacity a")
    assert (curve.limits[0], curve.limits[-1]) == (pytest.approx(0.4), 1.0)
    assert curve.amount(curve.today) == "80%"
    assert "today" in curve._repr_html_()


def test_costs_without_rules_have_a_limit_of_0():
    found = tr.solve(bandit(threshold=0.1, costs_seen="after"))
    curve = found.curve("usage", [-0.05, 0.05])
    assert curve.limits.tolist() == [-0.05, 0.0, 0.05]
    margins = [
        tr.solve(bandit(threshold=0.1, costs_seen="after"), epsilon=-one).value for one in curve.limits
    ]
    assert curve.values.tolist() == pytest.approx(margins)


def test_a_joint_program_has_a_curve_too():
    found = tr.solve(bandit(threshold=0.1, costs_seen="before"))
    assert found.baseline == "joint"
    assert found.curve("usage").value == pytest.approx(0.67)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rule": "cent"}, r"unknown rule 'cent' \(did you mean 'cents'\?\); the rules are: cents"),
        ({"rule": 3}, "unknown rule 3"),
        ({"rule": "cents", "points": 1}, "points must be a whole number >= 2"),
        ({"rule": "cents", "limits": [np.nan]}, r"limits\[0\] must be finite"),
    ],
)
def test_what_can_not_be_is_refused(given, words):
    with pytest.raises(InvalidInput, match=words):
        tr.solve(world([BUDGET])).curve(**given)


def test_a_family_starts_from_what_it_found_and_proves_each_optimum():
    env = synthetic(contexts=2_000, actions=6, features=4, constraints=5, slater=0.2, seed=3)
    family = lp.Family(env.weights, env.rewards, env.costs)
    first = family.solve(0.0)
    for margin in (0.01, 0.05, 0.02, 0.0):
        again, fresh = (
            family.solve(margin),
            lp.allocation(env.weights, env.rewards, env.costs, epsilon=margin),
        )
        assert again.certificate.verified
        assert again.value == pytest.approx(fresh.value, abs=1e-9)
        assert again.method == "decomposition"
        assert again.iterations < fresh.iterations
    with pytest.raises(InfeasibleProblem):
        family.solve(0.5)
    # Even after margins that nothing keeps.
    assert family.solve(0.0).value == pytest.approx(first.value, abs=1e-9)


def test_a_table_of_two_hundred_actions_is_decomposed_and_proved():
    names = [f"item {j}" for j in range(200)]
    shares = [tr.Share(names[j], at_least=0.01) for j in range(3)]
    env = world([BUDGET, tr.Capacity(names[3], at_most=0.02), *shares], 1_000, actions=names)
    costs = env.costs.reshape(1_000, 200, 5)
    found = lp.allocation(env.weights, env.rewards, costs)
    assert (found.method, found.certificate.verified) == ("decomposition", True)
    assert found.iterations < 60
    assert tr.solve(env).certificate.verified
