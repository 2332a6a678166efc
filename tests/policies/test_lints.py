"""LinTS against its definition, and what its paper claims."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from policy_tools import LINE, Literal, check_contract, same_on_blocks
from strategies import unit_rows
from tightrope.offer import Offer
from tightrope.policies.lints import LinTS, sampled_values


def make_lints() -> LinTS:
    return LinTS(tr.Ridge(2), seed=5)


def test_lints_keeps_the_contract():
    check_contract(make_lints, LINE)


def test_lints_samples_from_the_stated_law():
    rng = np.random.default_rng(2)
    literal, model = Literal(3), tr.Ridge(3)
    for x in unit_rows(rng, 40, 3):
        literal.learn(x, 0.3)
        model.learn(x, 0.3)
    phi = unit_rows(rng, 4, 3)
    n, v = 6000, 1.7
    offer = Offer(np.arange(4), phi)
    drawn = np.array([sampled_values(model, offer, v, 9, i) for i in range(n)])
    covariance = v**2 * phi @ np.linalg.inv(literal.A) @ phi.T
    spread = np.sqrt(np.diag(covariance))
    # Means and covariances of n normal draws: 5.5 standard errors, exceeded with probability below 1e-6 all together.
    assert np.all(np.abs(drawn.mean(0) - [literal.mean(x) for x in phi]) < 5.5 * spread / math.sqrt(n))
    errors = np.abs(np.cov(drawn.T) - covariance)
    assert np.all(errors < 5.5 * np.sqrt((covariance**2 + np.outer(spread, spread) ** 2) / n))

    taught = tr.Ridge(3, bonus=0.05)
    for x in unit_rows(rng, 40, 3):
        taught.learn(x, x @ [0.5, -0.5, 0.3])
    policy = LinTS(taught, failure=0.2, seed=9)
    for t in range(200):
        v_t = 0.05 * math.sqrt(9 * 3 * math.log((t + 1) / 0.2))
        index = sampled_values(taught, offer, v_t, 9, t)
        assert policy.decide(phi).row == int(np.argmax(index))


def test_lints_is_the_same_on_blocks():
    same_on_blocks(lambda model: LinTS(model, seed=1))


def test_lints_learns_the_best_action():
    policy = LinTS(tr.Ridge(2, bonus=0.1))
    run = tr.simulate(policy, LINE, 1500, 10, seed=4, workers=1, record=[750])
    best = LINE.rewards[0].max()
    early, late = best * 750 - run.reward[:, 0], best * 750 - (run.reward[:, 1] - run.reward[:, 0])
    assert late.mean() < 0.5 * early.mean()
    assert late.mean() < 0.02 * 750


def test_lints_refuses_bad_settings():
    with pytest.raises(tr.InvalidInput, match="failure must lie in"):
        LinTS(tr.Ridge(2), failure=1.0)
