"""Safe-LUCB against its definition, and what its paper claims."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from policy_tools import (
    ASLEEP,
    LINE,
    PHI,
    VALID,
    check_contract,
    chooses_as_written,
    plays_safely_and_finds_safe_actions,
    reasons,
)
from tightrope_lab.policies.safe_lucb import SafeLUCB


def make_safe_lucb() -> SafeLUCB:
    return SafeLUCB(
        tr.Ridge(2, bonus=0.1), cost=tr.Ridge(2, bonus=0.1), safe_actions=[0, 1], exploration=5, seed=1
    )


def test_safe_lucb_keeps_the_contract():
    check_contract(make_safe_lucb, LINE)


def test_safe_lucb_chooses_as_written():
    def index(reward, phi, radius, t):
        return np.array([reward.mean(x) + radius * reward.width(x) for x in phi])

    left = 0
    for seed in range(4):
        policy = SafeLUCB(
            tr.Ridge(3),
            safe_actions=[0, 2],
            exploration=20,
            cost=tr.Ridge(2),
            n_constraints=2,
            failure=0.4,
            seed=seed,
        )
        left += chooses_as_written(policy, index, {0, 2}, seed, exploration=20)
    assert left > 10, "it must leave the actions that are known to be safe to prove anything"


def test_safe_lucb_never_plays_an_unsafe_action_and_finds_safe_ones():
    model = tr.Ridge(2, bonus=VALID)
    plays_safely_and_finds_safe_actions(
        SafeLUCB(model, cost=model, safe_actions=[0, 1], exploration=150, failure=0.2), 0.2
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"safe_actions": [0]}, "Give a horizon"),
        ({"safe_actions": [], "horizon": 9}, "at least one"),
        ({"safe_actions": "01", "horizon": 9}, "a sequence"),
    ],
)
def test_safe_lucb_refuses_bad_settings(changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        SafeLUCB(tr.Ridge(2), cost=tr.Ridge(2), **changes)


def test_safe_lucb_needs_one_of_its_safe_actions():
    with pytest.raises(tr.InvalidInput, match="one of the safe actions"):
        make_safe_lucb().decide(PHI[2:], actions=[2, 3, 4, 5])


def test_safe_lucb_explores_for_a_while_that_grows_with_the_horizon():
    policy = SafeLUCB(tr.Ridge(2), cost=tr.Ridge(2), safe_actions=[0], horizon=1000)
    assert policy.exploration == round(1000 ** (2 / 3))


def test_safe_lucb_tells_other_settings_apart():
    policy = SafeLUCB(tr.Ridge(2), cost=tr.Ridge(2), safe_actions=[1], exploration=1)
    assert "mean cost of 0.3" in reasons(policy, ASLEEP)


def test_safe_lucb_must_be_told_safe_actions_in_every_direction():
    model = tr.Ridge(2)
    one, two = (SafeLUCB(model, cost=model, safe_actions=safe, exploration=1) for safe in ([0], [0, 1]))
    assert "the known safe actions span 1 of the 2 directions" in reasons(one, LINE)
    assert reasons(two, LINE) == ""
