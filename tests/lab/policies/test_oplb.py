"""OPLB against its definition, and what its paper claims."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from policy_tools import (
    ASLEEP,
    LINE,
    PHI,
    VALID,
    Literal,
    allowed_failures,
    check_contract,
    reasons,
    same_on_blocks,
    stream,
)
from tightrope_lab.policies.oplb import OPLB, best_mixture


def make_oplb() -> OPLB:
    return OPLB(tr.Ridge(2, bonus=0.1), cost=tr.Ridge(2, bonus=0.1), safe_action=0, safe_cost=-0.49)


def test_oplb_keeps_the_contract():
    check_contract(make_oplb, LINE)


@pytest.mark.parametrize("K", [1, 3])
def test_oplb_plays_the_program_of_its_definition(K):
    xi, p = 0.9, 0.5
    mixed = 0
    for seed in range(3):
        policy = OPLB(
            tr.Ridge(3), cost=tr.Ridge(2), safe_action=0, safe_cost=-xi, n_constraints=K, failure=p, seed=seed
        )
        reward, costs = Literal(3), [Literal(2) for _ in range(K)]
        for phi, psi, r, w in stream(seed, K, T=140):
            C_r, C_w = reward.root_beta(p / (1 + K)), costs[0].root_beta(p / (1 + K))
            policy = policy.copy()
            pi = policy.propose(phi, psi).probabilities
            decision = policy.decide(phi, psi)
            a = decision.action
            assert decision.probability == pytest.approx(pi[a], abs=1e-12)
            assert pi[a] > 0
            u = [
                reward.mean(x) + C_r * reward.width(x) + (j > 0) * 2 / xi * C_w * costs[0].width(y)
                for j, (x, y) in enumerate(zip(phi, psi))
            ]
            W = np.array([[m.mean(y) + C_w * m.width(y) for y in psi] for m in costs])
            W[:, 0] = np.minimum(W[:, 0], -xi)
            best = linprog(-np.array(u), A_ub=W, b_ub=np.zeros(K), A_eq=np.ones((1, 5)), b_eq=[1.0])
            assert best.status == 0
            assert np.max(W @ pi) <= 1e-7
            assert pi.min() >= 0
            assert abs(pi.sum() - 1) < 1e-12
            assert u @ pi == pytest.approx(-best.fun, abs=1e-7)
            mixed += pi[0] < 1
            policy.learn(decision, r[a], w[a])
            reward.learn(phi[a], r[a])
            for k in range(K):
                costs[k].learn(psi[a], w[a, k])
    assert mixed > 30


def test_oplb_uses_the_known_cost_from_the_first_round():
    # Nothing was seen, so every cost may be as high as the radius allows, but the safe action's is known.
    policy = OPLB(tr.Ridge(2), cost=tr.Ridge(2), safe_action=0, safe_cost=-0.49, failure=0.2)
    pi = policy.propose(PHI).probabilities
    assert 0 < pi[0] < 1
    worst = policy.hooks.cost_model().radius(2 / 0.2) * np.linalg.norm(PHI, axis=1)
    assert pi[0] * -0.49 + pi[1:] @ worst[1:] == pytest.approx(0.0, abs=1e-12)
    # A lower estimate of its cost is taken, which leaves more to spend on others.
    taught = tr.Ridge(2)
    for _ in range(2000):
        taught.learn(PHI[0], -0.8)
    bold = OPLB(tr.Ridge(2), cost=taught, safe_action=0, safe_cost=-0.1, failure=0.2)
    radius = taught.radius(2 / 0.2)
    upper = taught.means(PHI) + radius * taught.widths(PHI)
    assert upper[0] < -0.5
    assert upper @ bold.propose(PHI).probabilities == pytest.approx(0.0, abs=1e-12)


def test_best_mixture_of_one_constraint_is_the_linear_program():
    rng = np.random.default_rng(0)
    for _ in range(200):
        J = int(rng.integers(1, 7))
        u, w = rng.normal(size=J), rng.normal(size=J)
        pi = best_mixture(u, w[:, None])
        exact = linprog(-u, A_ub=w[None], b_ub=[0.0], A_eq=np.ones((1, J)), b_eq=[1.0])
        assert (pi is None) == (exact.status == 2)
        if pi is not None:
            assert w @ pi <= 1e-12
            assert (pi > 0).sum() <= 2
            assert u @ pi == pytest.approx(-exact.fun, abs=1e-8)


def test_oplb_is_the_same_on_blocks():
    same_on_blocks(lambda model: OPLB(model, cost=model, safe_action=0, safe_cost=-0.9, failure=0.5))


def test_oplb_keeps_every_mixture_within_the_constraint():
    n, p, failures, beyond = 12, 0.2, 0, 0
    truth, rng = LINE.costs[0, :, 0], np.random.default_rng(5)
    model = tr.Ridge(2, bonus=VALID)
    for seed in range(n):
        policy = OPLB(model, cost=model, safe_action=0, safe_cost=-0.49, failure=p, seed=seed)
        broken = False
        for _ in range(500):
            pi = policy.propose(PHI).probabilities
            broken |= bool(truth @ pi > 1e-12)
            beyond += pi[0] < 1
            decision = policy.decide(PHI)
            a = decision.action
            policy.learn(decision, float(rng.random() < LINE.rewards[0, a]), [rng.normal(truth[a], 0.1)])
        failures += broken
    assert failures <= allowed_failures(n, p)
    assert beyond > 2000, "it must leave the safe action to prove anything"


def test_oplb_is_optimistic_so_it_ends_near_the_optimum():
    run = tr.simulate(make_oplb(), LINE, 2000, 4, seed=2, workers=1, record=[1000])
    optimum = tr.solve(LINE).value
    late = (run.reward[:, 1] - run.reward[:, 0]) / 1000
    safe_alone = LINE.rewards[0, 0]
    assert np.all(late > safe_alone + 0.85 * (optimum - safe_alone))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"safe_cost": 0.0}, "safe_cost must lie in"), ({"cost": None}, "cost must be a")],
)
def test_oplb_refuses_bad_settings(changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        OPLB(**{"reward": tr.Ridge(2), "cost": tr.Ridge(2), "safe_action": 0, "safe_cost": -0.1, **changes})


@pytest.mark.parametrize(
    ("features", "more", "message"),
    [
        (PHI * 2, {}, "Euclidean norm"),
        (PHI[:, :1], {}, "shape"),
        (PHI, {"costs": PHI[:3]}, "shape"),
        (PHI, {"actions": [0, 1]}, "shape"),
        (PHI[:2], {"actions": [3, 3]}, "once"),
        (PHI[:2], {"actions": [3, 4]}, "must be on offer"),
        (None, {}, "Ridge needs features"),
    ],
)
def test_oplb_refuses_bad_rounds_and_stays_as_it_was(features, more, message):
    policy = make_oplb()
    with pytest.raises(tr.InvalidInput, match=message):
        policy.decide(features, **more)
    assert policy.decide(PHI).number == 0


def test_oplb_tells_other_settings_apart():
    told = reasons(make_oplb(), ASLEEP)
    for reason in ("not on offer in every", "norm 1.4"):
        assert reason in told
    boastful = OPLB(tr.Ridge(2), cost=tr.Ridge(2), safe_action=0, safe_cost=-0.9)
    assert "above -0.9" in reasons(boastful, LINE)
