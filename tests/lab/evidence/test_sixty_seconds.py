"""README's example: what is asked for of it, and that no policy can do better than four rounds above zero."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tightrope as tr
from tightrope_lab.evidence import sixty_seconds as example


@pytest.mark.parametrize(("guard", "most"), [(False, example.MOST_ABOVE), (True, example.MOST_ABOVE_GUARDED)])
def test_reward_and_rounds_above_zero(guard, most):
    for seed in range(4):
        policy = tr.ShadowPrice(
            reward=tr.DisjointRidge(3, 2), constraints=example.rules(), guard=guard, seed=seed
        )
        earned, totals = example.play_example(policy)
        assert example.LEAST_REWARD <= earned <= example.optimum()
        assert (totals > 1e-9).any(axis=1).sum() <= most
        assert (totals[-1] <= 0).all()


def test_no_policy_has_fewer_than_four_rounds_above_zero():
    costs = example.rules().costs(usage={"nurse_hours": list(example.HOURS)})
    fewest = min(
        int((np.cumsum(costs[list(choice)], axis=0) > 1e-9).any(axis=1).sum())
        for choice in itertools.product(range(3), repeat=6)
    )
    assert fewest == 4


def test_the_optimum():
    assert round(example.optimum()) == 1780
