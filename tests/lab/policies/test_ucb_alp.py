"""UCB-ALP against its definition, and what its paper claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from budget_tools import ARMS, CONTEXTS, Q
from policy_tools import check_contract, reasons
from tightrope_lab.policies.ucb_alp import UCBALP


def make_ucb_alp() -> UCBALP:
    return UCBALP(3, weights=Q, limit=0.45, horizon=400, seed=2)


def test_ucb_alp_keeps_the_contract():
    check_contract(make_ucb_alp, CONTEXTS)


def test_ucb_alp_probabilities_solve_its_linear_program():
    policy = UCBALP(3, weights=Q, limit=0.45, horizon=300, seed=3)
    rng = np.random.default_rng(5)
    counts, sums, left = np.zeros((3, 3)), np.zeros((3, 3)), 135
    for t in range(1, 301):
        with np.errstate(divide="ignore", invalid="ignore"):
            upper = np.where(counts > 0, sums / counts + np.sqrt(math.log(t) / (2 * counts)), 50.0)
        best = upper[:, 1:].max(axis=1)
        policy = policy.copy()
        p = np.array([policy.propose(context=c).probabilities[1:].sum() for c in range(3)])
        rate = left / (300 - t + 1)
        exact = linprog(-np.array(Q) * best, A_ub=[Q], b_ub=[rate], bounds=(0, 1))
        assert -exact.fun == pytest.approx(np.array(Q) * best @ p, abs=1e-8)
        assert Q @ p <= rate + 1e-12
        c = int(rng.choice(3, p=Q))
        decision = policy.decide(context=c)
        a = decision.action
        if a:
            left -= 1
            assert a == 1 + int(np.argmax(upper[c, 1:]))
            assert decision.probability == pytest.approx(p[c])
        else:
            assert decision.probability == pytest.approx(1 - p[c])
        reward = float(rng.random() < CONTEXTS.rewards[c, a])
        policy.learn(decision, reward)
        counts[c, a] += 1
        sums[c, a] += reward
    assert left >= 0
    assert policy.hooks.state()["spent"] == 135 - left


def test_ucb_alp_has_a_regret_that_grows_slowly():
    regret = []
    for T in (600, 2400):
        run = tr.simulate(
            UCBALP(3, weights=Q, limit=0.45, horizon=T), CONTEXTS, T, 12, seed=10, workers=1, record=1
        )
        regret.append(T * tr.solve(CONTEXTS).value - run.reward[:, -1].mean())
    # Linear regret would be multiplied by 4, √T by 2.
    assert regret[1] < 2 * regret[0] + 5
    assert regret[1] < 0.05 * 2400 * tr.solve(CONTEXTS).value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": [0.5, 0.4]}, "weights must sum to 1"),
        ({"limit": 1.5}, "limit must lie in"),
        ({"n_actions": 1}, "n_actions must be"),
        ({"noop": 3}, "noop must be below 3"),
    ],
)
def test_ucb_alp_refuses_bad_settings(changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        UCBALP(**{"n_actions": 3, "weights": [1.0], "limit": 0.5, "horizon": 10, **changes})


@pytest.mark.parametrize("context", [None, 3, -1, True])
def test_ucb_alp_needs_a_context(context):
    policy = make_ucb_alp()
    with pytest.raises(tr.InvalidInput, match="context must be"):
        policy.decide(context=context)
    assert policy.decide(context=0).number == 0


def test_ucb_alp_tells_other_settings_apart():
    told = reasons(UCBALP(4, weights=[1.0], limit=0.1, horizon=9), ARMS)
    assert "earns something" in told
    assert "unit usage" in told
    other = UCBALP(3, weights=[0.2, 0.4, 0.4], limit=0.45, horizon=9)
    assert "probabilities" in reasons(other, CONTEXTS)
