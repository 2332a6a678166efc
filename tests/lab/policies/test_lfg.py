"""LFG against its definition, and what its paper claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from policy_tools import check_contract, reasons
from tightrope_lab.policies.lfg import LFG

SHARES = np.array([0.1, 0.2, 0.3])


AWAKE = np.array([[1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=bool)


SLEEPY = tr.environments.Tabular(
    [0.4, 0.2, 0.2, 0.2],
    None,
    [[0.9, 0.5, 0.2]] * 4,
    np.broadcast_to(SHARES - np.eye(3), (4, 3, 3)),
    available=AWAKE,
)


ALL_AWAKE = tr.environments.Tabular([1.0], None, [[0.9, 0.5, 0.2]], (SHARES - np.eye(3))[None])


def make_lfg() -> LFG:
    return LFG(3, shares=SHARES, eta=3.0)


def test_lfg_keeps_the_contract():
    check_contract(make_lfg, ALL_AWAKE)


def test_lfg_plays_as_written():
    eta, rng = 2.5, np.random.default_rng(1)
    policy = LFG(3, shares=SHARES, eta=eta)
    Q, d, h, total, late = np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3), []
    for t in range(1, 301):
        awake = np.flatnonzero(AWAKE[rng.integers(4)])
        Q = np.maximum(Q + SHARES - d, 0)
        index = [
            Q[i]
            + eta * (1.0 if h[i] == 0 else min(1, total[i] / h[i] + math.sqrt(3 * math.log(t) / (2 * h[i]))))
            for i in awake
        ]
        policy = policy.copy()
        decision = policy.decide(actions=awake.tolist())
        a = int(awake[np.argmax(index)])
        assert decision.action == a
        assert awake[decision.row] == a
        d = np.eye(3)[a]
        late.append((decision, a))
        if rng.random() < 0.5:  # rewards come late, in any order; the queue does not wait for them
            rng.shuffle(late)
            for old, i in late:
                reward = float(rng.random() < (0.9, 0.5, 0.2)[i])
                policy.learn(old.number, reward)
                h[i] += 1
                total[i] += reward
            late = []
    np.testing.assert_allclose(policy.queue, np.maximum(Q + SHARES - d, 0))


def margin() -> float:
    """The largest ε such that some rule chooses every arm with probability at least s_i + ε."""
    cells = [(c, i) for c in range(4) for i in range(3) if AWAKE[c, i]]
    per_arm = [[-SLEEPY.weights[c] * (i == arm) for c, i in cells] + [1.0] for arm in range(3)]
    per_context = [[float(c == context) for c, _ in cells] + [0.0] for context in range(4)]
    objective = [0.0] * len(cells) + [-1.0]
    found = linprog(objective, A_ub=per_arm, b_ub=-SHARES, A_eq=per_context, b_eq=np.ones(4))
    return -found.fun


@pytest.mark.parametrize("eta", [1.0, 10.0])
def test_lfg_keeps_its_queues_within_the_bound_of_its_theorem(eta):
    T, n = 1500, 8
    bound = (3 / 2 + eta) / margin()
    averages = np.zeros(n)
    for seed in range(n):
        policy, rng = LFG(3, shares=SHARES, eta=eta), np.random.default_rng(seed)
        chosen = np.zeros(3)
        for _ in range(T):
            decision = policy.decide(actions=np.flatnonzero(AWAKE[rng.choice(4, p=SLEEPY.weights)]).tolist())
            policy.learn(decision, float(rng.random() < (0.9, 0.5, 0.2)[decision.action]))
            chosen[decision.action] += 1
            averages[seed] += policy.queue.sum() / T
        # For certain, and after any number of rounds: an arm is behind by no more than its queue.
        assert np.all(chosen >= SHARES * T - policy.queue - 1e-9)
        assert np.all(chosen / T > SHARES - 0.04 * eta / 10 - 0.005)
    assert averages.mean() + 3 * averages.std() / math.sqrt(n) < bound


def test_lfg_trades_reward_for_fairness_by_eta():
    # Regret at most J/(2η) a round, plus what is lost to learning.
    T, optimum = 3000, tr.solve(SLEEPY).value
    losses = []
    for eta in (0.5, 50.0):
        run = tr.simulate(LFG(3, shares=SHARES, eta=eta), SLEEPY, T, 6, seed=1, workers=1, record=1)
        losses.append(optimum - run.reward[:, -1].mean() / T)
        learning = 2 * math.sqrt(6 * 3 * math.log(T) / T)
        assert losses[-1] < 3 / (2 * eta) + learning
    assert losses[1] < losses[0] - 0.02


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shares": [0.6, 0.6]}, "sum to at most 1"),
        ({"shares": [0.6]}, "shares must have shape"),
        ({"shares": [-0.1, 0.1]}, r"shares\[0\] must lie in"),
        ({"eta": 0.0}, "eta must be"),
    ],
)
def test_lfg_refuses_bad_settings(changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        LFG(2, **{"shares": [0.1, 0.1], "eta": 1.0, **changes})


@pytest.mark.parametrize(
    ("actions", "message"),
    [([], "at least one"), ([0, 0], "once"), ([3], "below 3"), ("012", "a sequence")],
)
def test_lfg_refuses_bad_rounds_and_stays_as_it_was(actions, message):
    policy = make_lfg()
    with pytest.raises(tr.InvalidInput, match=message):
        policy.decide(actions=actions)
    assert policy.decide().number == 0
    with pytest.raises(tr.InvalidInput, match="reward must lie in"):
        policy.learn(0, 1.5)


def test_lfg_tells_other_settings_apart():
    assert reasons(LFG(3, shares=SHARES, eta=1.0), SLEEPY) == ""
    other = reasons(LFG(3, shares=[0.1, 0.2, 0.25], eta=1.0), SLEEPY)
    assert other == "constraint 2 is not one of the minimum shares that the policy was given"
    moody = tr.environments.Tabular([0.5, 0.5], None, [[0.1, 0.2], [0.1, 0.3]])
    told = reasons(LFG(2, shares=[0.1, 0.1], eta=1.0), moody)
    assert told == "the mean reward of action 1 depends on the context"
    assert "it has 2 actions" in reasons(LFG(3, shares=SHARES, eta=1.0), moody)


def test_lfg_by_default_pays_a_whole_debt_before_any_reward():
    """η = 1 is the largest for which a debt of one choice outweighs any difference of rewards in [0, 1]."""
    policy, bold = LFG(2, shares=[0.0, 0.25]), LFG(2, shares=[0.0, 0.25], eta=1.2)
    assert policy.eta == 1.0
    debts = []
    for one in (policy, bold):
        worst = 0.0
        for _ in range(3000):
            decision = one.decide()
            one.learn(decision, (1.0, 0.0)[decision.action])
            worst = max(worst, one.queue[1])
        debts.append(worst)
    assert debts[0] <= 1.0 < debts[1]
