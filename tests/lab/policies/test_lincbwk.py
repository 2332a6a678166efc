"""LinCBwK against its definition, and what its paper claims."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from budget_tools import KNAPSACK, LIMIT
from policy_tools import check_contract
from tightrope_lab.policies.lincbwk import LinCBwK


def make_lincbwk() -> LinCBwK:
    return LinCBwK(tr.Ridge(3), cost=tr.Ridge(3), limits=LIMIT, horizon=400)


def test_lincbwk_keeps_the_contract():
    check_contract(make_lincbwk, KNAPSACK)


def test_lincbwk_plays_as_written():
    K, J, T, p = 2, 4, 60, 0.1
    limits = np.array([0.4, 0.8])
    rng = np.random.default_rng(3)
    policy = LinCBwK(tr.Ridge(3), cost=tr.Ridge(2), limits=limits, horizon=T, failure=p, noop=1)
    A, r_sum, A_w, v_sum, n = np.eye(3), np.zeros(3), np.eye(2), np.zeros((K, 2)), 0
    weights, step, played = np.ones(K), math.sqrt(math.log(K + 1) / T), set()
    spent = np.zeros(K)
    for _ in range(T):
        phi, psi = rng.uniform(-0.5, 0.5, size=(J, 3)), rng.uniform(-0.6, 0.6, size=(J, 2))
        root_beta = [
            1 + math.sqrt(2 * math.log(3 / p) + d * math.log((d + n_d) / d))
            for d, n_d in ((3, n), (2, len(played)))
        ]
        price = weights / (1 + weights.sum())
        np.testing.assert_allclose(policy.hooks.dual() * limits, price, rtol=1e-12)
        values = np.empty(J)
        for j in range(J):
            x, y = phi[j], psi[j]
            values[j] = np.linalg.inv(A) @ r_sum @ x + root_beta[0] * math.sqrt(x @ np.linalg.inv(A) @ x)
            if j != 1:
                low = v_sum @ np.linalg.inv(A_w) @ y - root_beta[1] * math.sqrt(y @ np.linalg.inv(A_w) @ y)
                values[j] -= 1 / 0.4 * price @ low
        a = int(np.argmax(values)) if np.all(spent + 1 <= limits * T) else 1
        policy = policy.copy()
        decision = policy.decide(phi, psi)
        assert decision.action == a
        reward, usage = rng.random(), rng.random(K) if a != 1 else np.zeros(K)
        policy.learn(decision, reward, usage - limits)
        A, r_sum, n = A + np.outer(phi[a], phi[a]), r_sum + reward * phi[a], n + 1
        v = usage * 0.4 / limits
        if a != 1:
            A_w, v_sum = A_w + np.outer(psi[a], psi[a]), v_sum + np.outer(v, psi[a])
            played.add(n)
            spent += usage
        weights *= [(1 + step) ** g if g > 0 else (1 - step) ** -g for g in v - 0.4]
    np.testing.assert_allclose(policy.totals + T * limits, spent)
    assert spent.max() > 10


def test_lincbwk_paces_its_budget():
    # Against the same optimism without prices, which spends the budget early: paired runs, five standard errors.
    T, n = 1200, 10
    settings = {"cost": tr.Ridge(3, bonus=0.2), "limits": LIMIT, "horizon": T}
    paced = LinCBwK(tr.Ridge(3, bonus=0.2), **settings)
    blind = LinCBwK(tr.Ridge(3, bonus=0.2), Z=1e-9, **settings)
    runs = [tr.simulate(p, KNAPSACK, T, n, seed=8, workers=1, record=1) for p in (paced, blind)]
    gain = runs[0].reward[:, -1] - runs[1].reward[:, -1]
    assert gain.mean() > 5 * gain.std(ddof=1) / math.sqrt(n) + 1
    assert runs[0].reward[:, -1].mean() > 0.85 * T * tr.solve(KNAPSACK).value


@pytest.mark.parametrize(
    ("changes", "message"), [({"cost": None}, "cost must be a"), ({"Z": 0.0}, "Z must be")]
)
def test_lincbwk_refuses_bad_settings(changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        LinCBwK(**{"reward": tr.Ridge(3), "cost": tr.Ridge(3), "limits": 0.5, "horizon": 10, **changes})


def test_lincbwk_needs_its_noop():
    policy = make_lincbwk()
    with pytest.raises(tr.InvalidInput, match="noop must be on offer"):
        policy.decide(KNAPSACK.features[0][1:], actions=[1, 2, 3])
    assert policy.decide(KNAPSACK.features[0]).number == 0
