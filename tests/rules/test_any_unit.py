"""Usage in any unit: a rule that declares no range takes every finite number, and plays the same in minutes as in hours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tightrope as tr

ACTIONS = ["icu", "surgery", "other"]
MINUTES = np.array([60.0, 30.0, 12.0])
REWARDS = [0.9, 0.6, 0.5]


def played(scale: float, seen: Any = "before", rounds: int = 600) -> tuple[list[int], tr.ShadowPrice]:
    rules = tr.Rules([tr.Budget("nurse_time", at_most=24.0 * scale, seen=seen)], actions=ACTIONS)
    cost = tr.ArmMeans(3) if seen == "after" else None
    policy = tr.ShadowPrice(reward=tr.ArmMeans(3), constraints=rules, cost=cost)
    chosen = []
    for _ in range(rounds):
        usage = {"nurse_time": MINUTES * scale}
        decision = policy.decide(usage=usage if seen == "before" else None)
        late = {} if seen == "before" else {"usage": {"nurse_time": float(MINUTES[decision.row]) * scale}}
        policy.learn(decision, reward=REWARDS[decision.row], **late)
        chosen.append(decision.row)
    return chosen, policy


def test_a_budget_in_minutes_needs_no_range() -> None:
    chosen, policy = played(1.0)
    used = MINUTES[chosen].mean()
    assert 22.0 < used <= 24.0
    assert policy.totals[0] <= 0.0


@pytest.mark.parametrize("seen", ["before", "after"])
@pytest.mark.parametrize("power", [-40, -6, 3, 40])
def test_powers_of_two_change_no_choice(power: int, seen: str) -> None:
    assert played(1.0, seen, 300)[0] == played(2.0**power, seen, 300)[0]


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e12])
@pytest.mark.parametrize("seen", ["before", "after"])
def test_other_units_play_as_well(scale: float, seen: str) -> None:
    chosen, policy = played(scale, seen)
    assert 21.0 < MINUTES[chosen].mean() <= 24.5
    assert policy.totals[0] * policy.hooks.cost_scales()[0] <= 3.0 * 60.0 * scale


def test_what_is_no_finite_number_is_refused_and_a_declared_range_holds() -> None:
    rules = tr.Rules([tr.Budget("minutes", at_most=24)], actions=2)
    assert rules.costs({"minutes": [1e6, -5.0]})[0, 0] > 1e4
    for bad in (np.nan, np.inf):
        with pytest.raises(tr.InvalidInput, match=r"usage\['minutes'\]\[1\] must be a finite number"):
            rules.costs({"minutes": [1.0, bad]})
    declared = tr.Rules([tr.Budget("minutes", at_most=24, range=(0, 60))], actions=2)
    with pytest.raises(tr.InvalidInput, match=r"must lie in \[0, 60\], the range declared"):
        declared.costs({"minutes": [61.0, 0.0]})


def test_rules_on_one_usage_declare_the_same_range_or_none() -> None:
    tr.Rules([tr.Budget("x", at_most=24), tr.Mean("x", at_least=2)], actions=2)
    with pytest.raises(tr.InvalidInput, match="must be left out, as in an earlier rule on 'x', but got"):
        tr.Rules([tr.Budget("x", at_most=24), tr.Mean("x", at_least=2, range=(0, 50))], actions=2)


def test_limits_that_contradict_each_other_conflict_in_any_unit() -> None:
    with pytest.raises(tr.InfeasibleProblem):
        tr.Rules([tr.Budget("x", at_most=24), tr.Mean("x", at_least=25)], actions=2)
    # A tenth of the decisions may use ten times the limit and more.
    rules = tr.Rules([tr.Capacity("a", at_most=0.1), tr.Mean("x", at_least=24)], actions=["a", "b"])
    assert rules.n_constraints == 2


def test_an_environment_from_usage_without_a_range_takes_it_as_it_is() -> None:
    rules = tr.Rules([tr.Budget("minutes", at_most=24)], actions=ACTIONS)
    costs = rules.costs({"minutes": MINUTES * 5})
    low, high = rules.range_of_costs(costs)[0]
    assert low <= costs.min()
    assert costs.max() <= high
