"""Safe-LTS against its definition, and what its paper claims."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from policy_tools import (
    LINE,
    PHI,
    VALID,
    check_contract,
    chooses_as_written,
    plays_safely_and_finds_safe_actions,
    reasons,
    same_on_blocks,
)
from tightrope import kernels
from tightrope_lab.policies.safe_lts import SafeLTS


def make_safe_lts() -> SafeLTS:
    return SafeLTS(
        tr.Ridge(2, bonus=0.1),
        cost=tr.Ridge(2, bonus=0.1),
        safe_action=0,
        safe_cost=-0.49,
        safe_actions=[1],
        seed=1,
    )


def test_safe_lts_keeps_the_contract():
    check_contract(make_safe_lts, LINE)


def test_safe_lts_chooses_as_written():
    left = 0
    for seed in range(4):
        policy = SafeLTS(
            tr.Ridge(3),
            safe_action=0,
            safe_cost=-0.9,
            cost=tr.Ridge(2),
            n_constraints=2,
            failure=0.4,
            seed=seed,
        )

        def index(reward, phi, radius, t, seed=seed):
            z = np.array([kernels.normal(seed, 0, t, i) for i in range(3)])
            # Any root of Σ⁻¹ gives the law; this one is the transpose of the inverse Cholesky factor of Σ.
            root = np.linalg.inv(np.linalg.cholesky(reward.A)).T
            return phi @ (np.linalg.inv(reward.A) @ reward.b + (1 + 2 / 0.9) * radius * root @ z)

        left += chooses_as_written(policy, index, {0}, seed)
    assert left > 10, "it must leave the action that is known to be safe to prove anything"


def test_safe_lts_is_the_same_on_blocks():
    same_on_blocks(lambda model: SafeLTS(model, cost=model, safe_action=0, safe_cost=-0.9, failure=0.5))


def test_safe_lts_never_plays_an_unsafe_action_and_finds_safe_ones():
    model = tr.Ridge(2, bonus=VALID)
    plays_safely_and_finds_safe_actions(
        SafeLTS(model, cost=model, safe_action=0, safe_cost=-0.49, failure=0.2), 0.2
    )


def test_safe_lts_refuses_bad_settings():
    with pytest.raises(tr.InvalidInput, match="n_constraints must be"):
        SafeLTS(tr.Ridge(2), cost=tr.Ridge(2), safe_action=0, safe_cost=-0.1, n_constraints=0)


def test_safe_lts_tells_other_settings_apart():
    told = reasons(make_safe_lts(), tr.environments.bandit(costs_seen="before"))
    assert "seen before acting" in told
    assert "no features" in told


def test_safe_lts_plays_what_it_is_told_is_safe():
    wide = {"reward": tr.Ridge(2), "cost": tr.Ridge(2), "safe_action": 0, "safe_cost": -0.49}
    told, alone = SafeLTS(**wide, safe_actions=[3]), SafeLTS(**wide)
    assert {told.decide(PHI).action for _ in range(30)} == {0, 3}
    assert {alone.decide(PHI).action for _ in range(30)} == {0}


def test_safe_lts_must_be_told_safe_actions_in_every_direction():
    settings = {"reward": tr.Ridge(2), "cost": tr.Ridge(2), "safe_action": 0, "safe_cost": -0.49}
    assert "span 1 of the 2 directions" in reasons(SafeLTS(**settings), LINE)
    assert reasons(SafeLTS(**settings, safe_actions=[1]), LINE) == ""
    assert "action 5 has a mean cost of 0.3" in reasons(SafeLTS(**settings, safe_actions=[5]), LINE)
