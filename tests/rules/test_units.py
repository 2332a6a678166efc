"""Prices, slack and violations in the units of the rules: every price that is told is the difference of two solves."""

import re

import numpy as np
import pytest

import tightrope as tr
from cli_tools import machine
from tightrope.cli import main
from tightrope.environments import Tabular
from tightrope.errors import InfeasibleProblem

ACTIONS = ["a", "b", "c"]
GROUPS = ["north", "south", "south", "north", "south", "south", "south", "south"]
WEIGHTS = np.array([3.0, 1, 2, 1, 2, 1, 4, 2]) / 16
RNG = np.random.default_rng(5)
REWARDS = RNG.uniform(0.0, 1.0, (8, 3))
CENTS = np.round(RNG.uniform(0.0, 1000.0, (8, 3)))


def world(rules):
    """Eight kinds of contexts in two groups, under rules."""
    made = tr.Rules(rules, actions=ACTIONS)
    used = {"cents": CENTS} if any(one.quantity.usage for one in rules) else {}
    costs = [made.costs({name: u[c] for name, u in used.items()}, GROUPS[c]) for c in range(8)]
    return Tabular(WEIGHTS, rewards=REWARDS, costs=costs, rules=made, groups=GROUPS)


RULES = {
    "budget": lambda x: tr.Budget("cents", at_most=300 + x, range=(0, 1000)),
    "capacity": lambda x: tr.Capacity("a", at_most=0.2 + x),
    "share": lambda x: tr.Share("b", at_least=0.7 + x),
    "mean": lambda x: tr.Mean("cents", at_least=700 + x, range=(0, 1000)),
    "budget of a group": lambda x: tr.Budget("cents", at_most=310 + x, range=(0, 1000), among="north"),
    "share of a group": lambda x: tr.Share("c", at_least=0.6 + x, among="south"),
}
STEPS = {"budget": 1.0, "mean": 1.0, "budget of a group": 1.0}


def gained(kind):
    """What the value rises by when the limit moves by one unit the way that helps: by two solves."""
    step = STEPS.get(kind, 1e-3)
    up, down = (tr.solve(world([RULES[kind](x)])).value for x in (step, -step))
    return abs(up - down) / (2 * step)


def first_number_after(text, words):
    return float(re.search(rf"{re.escape(words)}[^\d-]*([-\d.e]+\d)", text)[1])


@pytest.mark.parametrize("kind", RULES)
def test_every_price_is_the_difference_of_two_solves(kind):
    found = tr.solve(world([RULES[kind](0.0)]))
    expected = gained(kind)
    assert expected > 0.0
    assert found.binding.all()
    assert found.prices == pytest.approx([expected], rel=1e-6)
    [row] = found.frame_rows()
    assert row["price"] == pytest.approx(expected, rel=1e-6)
    assert found.to_pandas()["price"].tolist() == pytest.approx([expected], rel=1e-6)
    cells = str(found).splitlines()[-1].split()
    assert float(cells[-2]) == pytest.approx(expected, rel=1e-5)
    percent = 100.0 if kind not in STEPS else 1.0
    [sentence] = found.words()
    assert first_number_after(sentence, "would earn") == pytest.approx(expected / percent, rel=1e-3)
    assert sentence in found._repr_html_().replace("&#x27;", "'")


@pytest.mark.parametrize("kind", RULES)
def test_what_is_left_is_in_the_units_of_the_rule(kind):
    other = tr.Capacity("b", at_most=0.9)
    env = world([RULES[kind]({"share": -0.7, "mean": -700, "share of a group": -0.6}.get(kind, 0.6)), other])
    found = tr.solve(env)
    rule = env.rules[0]
    counted = np.array([rule.among is None or group == rule.among for group in GROUPS])
    p = WEIGHTS * counted / WEIGHTS[counted].sum()
    used = (
        CENTS if rule.quantity.usage else np.isin(ACTIONS, rule.quantity.actions)[None, :] * np.ones((8, 1))
    )
    mean = float(p @ (found.policy * used).sum(axis=1))
    column = env.rules.columns[0]
    assert column.sign * (column.limit - mean) == pytest.approx(found.left[0], abs=1e-9)


def spec(tmp_path, rule, rows=None, policies='[policy]\nkind = "shadow-price"\n'):
    path = tmp_path / "s.toml"
    cents = "" if "cents" not in rule else f"usage.cents = {CENTS.tolist()}\n"
    path.write_text(
        f'name = "shop"\nactions = {ACTIONS}\n[[rule]]\n{rule}\n{policies}[environment]\nkind = "tabular"\n'
        f"weights = {WEIGHTS.tolist()}\nrewards = {REWARDS.tolist()}\n{cents}{rows or ''}"
        "[simulation]\nrounds = 3000\nreplications = 2\n"
    )
    return path


def test_the_oracle_command_tells_the_price_of_a_cent(capsys, tmp_path):
    def told(limit):
        rule = f'kind = "budget"\nname = "cents"\nat_most = {limit}\nrange = [0, 1000]'
        return machine(capsys, "oracle", spec(tmp_path, rule))

    [rule] = told(300)["rules"]
    difference = (told(301)["value"] - told(299)["value"]) / 2
    assert rule["price"] == pytest.approx(difference, rel=1e-6)
    assert rule["unit"] == "cents"
    assert main(["oracle", str(tmp_path / "s.toml")]) == 0
    shown = capsys.readouterr().out
    assert first_number_after(shown, "one more cent per decision would earn") == pytest.approx(
        difference, rel=1e-3
    )


def test_a_conflict_is_told_in_the_units_of_the_rules():
    cheap = tr.Budget("cents", at_most=210, range=(0, 1000))
    dear = tr.Share("c", at_least=0.9)
    with pytest.raises(
        InfeasibleProblem, match=r"'cents: at most 210 .* and 'c: at least 90% .* can't be met together"
    ) as refused:
        tr.solve(world([cheap, dear]))
    moves = refused.value.relaxation
    moved = world(
        [
            tr.Budget("cents", at_most=210 + moves.get("cents", 0.0) + 1e-6, range=(0, 1000)),
            tr.Share("c", at_least=0.9 - moves.get("share c", 0.0)),
        ]
    )
    tr.solve(moved)
    # No smaller change of the same kind does.
    short = world(
        [
            tr.Budget("cents", at_most=210 + 0.99 * moves.get("cents", 0.0), range=(0, 1000)),
            tr.Share("c", at_least=0.9 - 0.99 * moves.get("share c", 0.0)),
        ]
    )
    with pytest.raises(InfeasibleProblem):
        tr.solve(short)


def test_a_group_has_to_be_given_room_for_its_own_decisions():
    # The cheapest of the north costs more than 100 on average over the north's decisions.
    north = np.array(GROUPS) == "north"
    least = float(WEIGHTS[north] @ CENTS[north].min(axis=1) / WEIGHTS[north].sum())
    rule = tr.Budget("cents", at_most=least - 40, range=(0, 1000), among="north")
    with pytest.raises(InfeasibleProblem) as refused:
        tr.solve(world([rule]))
    assert refused.value.relaxation == {"cents among north": pytest.approx(40.0)}


def test_what_a_simulated_policy_exceeds_is_told_in_the_units_of_the_rule():
    env = world([tr.Budget("cents", at_most=250, range=(0, 1000))])
    run = tr.simulate(tr.policies.Uniform(3), env, 2000, 1, seed=1, warn=False)
    constrained = tr.simulate(
        tr.PessimisticOptimistic(reward=tr.ArmMeans(3), constraints=1, slater=0.1, V=tr.Power(1e6, 0.5)),
        env,
        2048,
        1,
        seed=1,
        warn=False,
    )
    over = float(constrained.mean_cost[0, -1, 0]) * 1000 / constrained.n_rounds
    assert over > 10
    [told] = [one for one in constrained.concerns if one.kind == "total above zero"]
    assert "cents: at most 250 per decision on average" in told.message
    said = float(re.search(r"which is ([\d.e+]+) per decision too much", told.message)[1])
    assert said == pytest.approx(over, rel=0.05)
    # One constraint is shown in its own unit: the notebook, and the table by constraint.
    assert run.scales == (1000.0,)
    assert run.mean_cost_curve.times(run.scales).mean[-1] == pytest.approx(
        1000 * run.mean_cost_curve.mean[-1]
    )


def test_units_by_hand():
    units = tr.rules.Units(np.array([1000.0, 1.0]), np.array([1.0, 0.25]))
    assert units.prices([0.2695, 0.4]).tolist() == [0.0002695, 0.1]
    assert units.totals([0.01, 0.01]).tolist() == [10.0, 0.01]
    assert units.means([0.01, 0.01]).tolist() == [10.0, 0.04]
