from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

import tightrope as tr
from tightrope.policies import FixedMix


def test_draws_follow_the_shares() -> None:
    policy = FixedMix(4, shares=[0.5, 0.0, 0.2, 0.3], seed=3)
    rows = [policy.decide().action for _ in range(4000)]
    counts = np.bincount(rows, minlength=4)
    assert counts[1] == 0
    assert chisquare(counts[[0, 2, 3]], 4000 * np.array([0.5, 0.2, 0.3])).pvalue > 1e-4


def test_those_on_offer_share_what_the_others_would_have_had() -> None:
    policy = FixedMix(4, shares=[0.5, 0.0, 0.2, 0.3])
    np.testing.assert_allclose(policy.decide(actions=[2, 3]).probabilities, [0.4, 0.6])
    np.testing.assert_allclose(policy.decide(actions=[1]).probabilities, [1.0])


@pytest.mark.parametrize("shares", [[0.5, 0.4], [1.5, -0.5], [1.0]])
def test_shares_are_checked(shares: list[float]) -> None:
    with pytest.raises(tr.InvalidInput, match="shares"):
        FixedMix(2, shares=shares)


def test_it_plays_in_simulations() -> None:
    env = tr.environments.Tabular([1.0], rewards=[[0.2, 0.8]], costs=[[[0.0], [0.0]]])
    run = tr.simulate(FixedMix(2, shares=[0.25, 0.75]), env, rounds=2000, replications=2, seed=0)
    assert run.shares.mean[-1][1] == pytest.approx(0.75, abs=0.04)
    assert "shares" in repr(FixedMix(2, shares=[0.25, 0.75]))
