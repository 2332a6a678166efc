"""LinCBwK, primal-dual BwK and UCB-ALP against literal transcriptions, and against what their papers claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from test_comparators_linear import check_contract
from tightrope.policies.lincbwk import LinCBwK
from tightrope.policies.primal_dual_bwk import PrimalDualBwK
from tightrope.policies.ucb_alp import UCBALP

LIMIT = 0.25


def knapsack() -> tr.environments.Tabular:
    """Five contexts, three actions and a no-op with φ = 0; rewards and usage linear, usage Bernoulli."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(5, 3, 2))
    u /= np.linalg.norm(u, axis=2, keepdims=True)
    phi = np.concatenate([np.ones((5, 3, 1)), u], axis=2) / math.sqrt(2)
    phi = np.concatenate([np.zeros((5, 1, 3)), phi], axis=1)
    reward = phi @ np.array([1.0, 0.8, 0.6]) / math.sqrt(2)
    usage = phi @ np.array([1.0, 0.6, -0.8]) / math.sqrt(2)
    return tr.environments.Tabular(
        np.full(5, 0.2),
        phi,
        reward,
        (usage - LIMIT)[..., None],
        cost_noise="bernoulli",
        cost_range=(-LIMIT, 1 - LIMIT),
        costs_seen="after",
    )


KNAPSACK = knapsack()
ARMS = tr.environments.bandit(threshold=0.1)
Q = [0.3, 0.3, 0.4]
# Context 0 is worth 0.9, context 1 is worth 0.5, context 2 is worth 0.2: with a rate of 0.45 all of 0 and half of 1 are served.
CONTEXTS = tr.environments.Tabular(
    Q,
    None,
    [[0, 0.9, 0.2], [0, 0.3, 0.5], [0, 0.1, 0.2]],
    np.array([[[-0.45], [0.55], [0.55]]] * 3),
    costs_seen="after",
)

CASES = {
    "lincbwk": (lambda: LinCBwK(tr.Ridge(3), cost=tr.Ridge(3), limits=LIMIT, horizon=400), KNAPSACK),
    "primal-dual-bwk": (lambda: PrimalDualBwK(4, limits=0.1, horizon=400), ARMS),
    "ucb-alp": (lambda: UCBALP(3, weights=Q, limit=0.45, horizon=400, seed=2), CONTEXTS),
}


@pytest.mark.parametrize("name", CASES)
def test_contract(name):
    check_contract(*CASES[name])


# Literal transcriptions


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
        np.testing.assert_allclose(policy.prices, price, rtol=1e-12)
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
    np.testing.assert_allclose(policy.spent, spent)
    assert spent.max() > 10


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


def test_ucb_alp_probabilities_solve_its_linear_program():
    policy = UCBALP(3, weights=Q, limit=0.45, horizon=300, seed=3)
    rng = np.random.default_rng(5)
    counts, sums, left = np.zeros((3, 3)), np.zeros((3, 3)), 135
    for t in range(1, 301):
        with np.errstate(divide="ignore", invalid="ignore"):
            upper = np.where(counts > 0, sums / counts + np.sqrt(math.log(t) / (2 * counts)), 50.0)
        best = upper[:, 1:].max(axis=1)
        policy = policy.copy()
        p = policy.probabilities()
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
    assert policy.left == left >= 0


# What the papers claim


@pytest.mark.parametrize("delay", [0, 1, 7])
def test_no_budget_is_ever_overspent_even_by_the_greediest_usage(delay):
    # Every action uses 1, and outcomes come late and in reversed batches: the account must reserve for what is still open.
    T = 100
    for make, shown in (
        (lambda: LinCBwK(tr.Ridge(3), cost=tr.Ridge(3), limits=[0.3, 0.21], horizon=T), KNAPSACK.features[0]),
        (lambda: PrimalDualBwK(4, limits=[0.3, 0.21], horizon=T), None),
    ):
        policy, open_ = make(), []
        used = 0
        for _ in range(2 * T):
            decision = policy.decide() if shown is None else policy.decide(shown)
            used += decision.action != 0
            assert used <= 21
            open_.append(decision)
            if len(open_) > delay:
                for late in open_[::-1]:
                    usage = 1.0 if late.action else 0.0
                    policy.learn(late, 0.9 * usage, [usage - 0.3, usage - 0.21])
                open_.clear()
        assert used == 21
        assert np.all(policy.spent <= policy.budget)


def test_budgets_hold_in_every_run():
    for policy, env in (
        (LinCBwK(tr.Ridge(3, bonus=0.2), cost=tr.Ridge(3, bonus=0.2), limits=LIMIT, horizon=400), KNAPSACK),
        (PrimalDualBwK(4, limits=0.1, horizon=400), ARMS),
        (UCBALP(3, weights=Q, limit=0.45, horizon=400), CONTEXTS),
    ):
        run = tr.simulate(policy, env, 500, 10, seed=7, workers=1, record=[400])
        assert run.cost[:, 0, 0].max() <= 1e-9
        idle = run.counts[:, 1] - run.counts[:, 0]
        assert np.all(idle[:, 0] == 100), "after the horizon only the no-op is played"


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


def test_primal_dual_bwk_comes_near_the_optimum():
    optimum = tr.solve(ARMS).value
    shares = []
    for T in (500, 4000):
        run = tr.simulate(PrimalDualBwK(4, limits=0.1, horizon=T), ARMS, T, 10, seed=9, workers=1, record=1)
        shares.append(run.reward[:, -1].mean() / (T * optimum))
    assert shares[1] > shares[0]
    # Half the no-op, half the last arm is optimal; the no-op alone earns a quarter of that.
    assert shares[1] > 0.85


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


# What is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrimalDualBwK(4, limits=0.0, horizon=10), r"limits\[0\] must lie in \(0, 1\]"),
        (lambda: PrimalDualBwK(4, limits=[], horizon=10), "limits must have an entry"),
        (lambda: PrimalDualBwK(4, limits=0.5, horizon=0), "horizon must be"),
        (lambda: PrimalDualBwK(4, limits=0.5, horizon=10, noop=4), "noop must be below 4"),
        (lambda: LinCBwK(tr.Ridge(3), cost=tr.ArmMeans(4), limits=0.5, horizon=10), "cost must be a Ridge"),
        (lambda: LinCBwK(tr.Ridge(3), cost=tr.Ridge(3), limits=0.5, horizon=10, Z=0.0), "Z must be"),
        (lambda: UCBALP(3, weights=[0.5, 0.4], limit=0.5, horizon=10), "weights must sum to 1"),
        (lambda: UCBALP(3, weights=[1.0], limit=1.5, horizon=10), "limit must lie in"),
        (lambda: UCBALP(1, weights=[1.0], limit=0.5, horizon=10), "n_actions must be"),
        (lambda: UCBALP(3, weights=[1.0], limit=0.5, horizon=10, noop=3), "noop must be below 3"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(tr.InvalidInput, match=message):
        make()


def test_bad_rounds_are_refused():
    lincbwk, bwk, alp = (CASES[name][0]() for name in CASES)
    with pytest.raises(tr.InvalidInput, match="noop must be on offer"):
        lincbwk.decide(KNAPSACK.features[0][1:], actions=[1, 2, 3])
    with pytest.raises(tr.InvalidInput, match="takes no costs"):
        bwk.decide(costs=[[0.1]])
    for context in (None, 3, -1, True):
        with pytest.raises(tr.InvalidInput, match="context must be"):
            alp.decide(context=context)
    decision = bwk.decide()
    for costs in ([-0.2], [0.95]):
        with pytest.raises(tr.InvalidInput, match=r"costs\[0\] must lie in \[-0.1, 0.9\]"):
            bwk.learn(decision, 0.5, costs)
    with pytest.raises(tr.InvalidInput, match="reward must lie in"):
        bwk.learn(decision, 1.5, [0.1])
    assert (lincbwk.decide(KNAPSACK.features[0]).number, alp.decide(context=0).number) == (0, 0)


def test_environments_of_another_setting_are_told_apart():
    half = tr.environments.bandit(threshold=0.5)
    told = " ".join(half.problem().outside(PrimalDualBwK(4, limits=0.1, horizon=9, noop=1)))
    assert "costs of constraint 0 lie in [-0.5, 0.5]" in told
    told = " ".join(ARMS.problem().outside(PrimalDualBwK(4, limits=0.1, horizon=9, noop=1)))
    assert "the no-op (action 1) uses 0.4" in told
    told = " ".join(KNAPSACK.problem().outside(PrimalDualBwK(4, limits=LIMIT, horizon=9)))
    assert "5 contexts" in told
    told = " ".join(ARMS.problem().outside(UCBALP(4, weights=[1.0], limit=0.1, horizon=9)))
    assert "earns something" in told
    assert "unit usage" in told
    assert "probabilities" in " ".join(
        CONTEXTS.problem().outside(UCBALP(3, weights=[0.2, 0.4, 0.4], limit=0.45, horizon=9))
    )
