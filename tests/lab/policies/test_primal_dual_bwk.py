"""Primal-dual BwK against its definition, and what its paper claims."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from budget_tools import ARMS
from policy_tools import check_contract, reasons
from tightrope_lab.policies.primal_dual_bwk import PrimalDualBwK


def make_primal_dual_bwk() -> PrimalDualBwK:
    return PrimalDualBwK(4, limits=0.1, horizon=400)


def test_primal_dual_bwk_keeps_the_contract():
    check_contract(make_primal_dual_bwk, ARMS)


def test_primal_dual_bwk_plays_as_written():
    J, T, limits = 3, 200, np.array([0.3, 0.6])
    rng = np.random.default_rng(4)
    policy = PrimalDualBwK(J, limits=limits, horizon=T, noop=2)
    means, usages = np.array([0.8, 0.5, 0.0]), np.array([[0.6, 0.2], [0.1, 0.7], [0.0, 0.0]])
    d, b = 3, 0.3
    C, step = math.log(d * J * T), math.sqrt(math.log(d) / (b * T))
    n, r_sum, v_sum, v = np.zeros(J), np.zeros(J), np.zeros((J, 2)), np.ones(d)
    spent = np.zeros(2)
    for t in range(T):
        low = np.zeros((J, d))
        low[:, 2] = b
        for j in (0, 1):
            for k in (0, 1):
                if n[j]:
                    nu = v_sum[j, k] / n[j]
                    low[j, k] = max(0, nu - math.sqrt(C * nu / n[j]) - C / n[j])
        if np.any(spent + 1 > limits * T):
            a = 2
        elif t < J:
            a = t
        else:
            high = [min(1, s / m + math.sqrt(C * s / m / m) + C / m) for s, m in zip(r_sum, n)]
            a = int(np.argmax(high / (low @ (v / v.sum()))))
            v *= (1 + step) ** low[a]
        policy = policy.copy()
        decision = policy.decide()
        assert decision.action == a
        reward, usage = float(rng.random() < means[a]), (rng.random(2) < usages[a]).astype(float)
        policy.learn(decision, reward, usage - limits)
        n[a] += 1
        r_sum[a] += reward
        v_sum[a] += usage * b / limits
        spent += usage
    assert np.all(spent <= limits * T)


def test_primal_dual_bwk_comes_near_the_optimum():
    optimum = tr.solve(ARMS).value
    shares = []
    for T in (500, 4000):
        run = tr.simulate(PrimalDualBwK(4, limits=0.1, horizon=T), ARMS, T, 10, seed=9, workers=1, record=1)
        shares.append(run.reward[:, -1].mean() / (T * optimum))
    assert shares[1] > shares[0]
    # Half the no-op, half the last arm is optimal; the no-op alone earns a quarter of that.
    assert shares[1] > 0.85


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limits": 0.0}, r"limits\[0\] must lie in \(0, 1\]"),
        ({"limits": []}, "limits must have an entry"),
        ({"horizon": 0}, "horizon must be"),
        ({"noop": 4}, "noop must be below 4"),
    ],
)
def test_primal_dual_bwk_refuses_bad_settings(changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        PrimalDualBwK(4, **{"limits": 0.5, "horizon": 10, **changes})


def test_primal_dual_bwk_refuses_bad_rounds_and_outcomes():
    policy = make_primal_dual_bwk()
    with pytest.raises(tr.InvalidInput, match="takes no costs"):
        policy.decide(costs=[[0.1]])
    decision = policy.decide()
    for costs in ([-0.2], [0.95]):
        with pytest.raises(tr.InvalidInput, match=r"costs\[0\] must lie in \[-0.1, 0.9\]"):
            policy.learn(decision, 0.5, costs)
    with pytest.raises(tr.InvalidInput, match="reward must lie in"):
        policy.learn(decision, 1.5, [0.1])


def test_primal_dual_bwk_tells_other_settings_apart():
    policy = PrimalDualBwK(4, limits=0.1, horizon=9, noop=1)
    half = tr.environments.bandit(threshold=0.5)
    assert "costs of constraint 0 lie in [-0.5, 0.5]" in reasons(policy, half)
    assert "the no-op (action 1) uses 0.4" in reasons(policy, ARMS)
    several = tr.environments.Tabular(
        [0.5, 0.5], None, [[0.0, 0.5]] * 2, [[[-0.1], [0.2]]] * 2, costs_seen="after"
    )
    assert "2 contexts" in reasons(PrimalDualBwK(2, limits=0.1, horizon=9), several)
