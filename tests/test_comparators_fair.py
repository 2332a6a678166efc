"""LFG and CLUCB against literal transcriptions, and against what their papers claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from test_comparators_linear import LINE, PHI, allowed_failures, check_contract
from tightrope.policies.clucb import CLUCB
from tightrope.policies.lfg import LFG

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


def clucb(**changes) -> CLUCB:
    settings = {"baseline": 3, "baseline_reward": 0.6, "alpha": 0.2, "failure": 0.1}
    return CLUCB(tr.Ridge(2), **{**settings, **changes})


CASES = {
    "lfg": (lambda: LFG(3, shares=SHARES, eta=3.0), ALL_AWAKE),
    "clucb": (clucb, LINE),
    "clucb by context": (lambda: clucb(baseline_reward=[0.6]), LINE),
}


@pytest.mark.parametrize("name", CASES)
def test_contract(name):
    check_contract(*CASES[name])


# Literal transcriptions


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


def test_clucb_plays_as_written():
    rng = np.random.default_rng(2)
    theta, alpha, p = np.array([0.6, 0.4, 0.1]), 0.3, 0.2
    r_b = np.array([0.5, 0.2])
    policy = CLUCB(tr.Ridge(3), baseline=1, baseline_reward=r_b, alpha=alpha, failure=p)
    A, b, z, n = np.eye(3), np.zeros(3), np.zeros(3), 0
    safe, owed, kinds = 0.0, 0.0, []
    for _ in range(400):
        c = int(rng.integers(2))
        phi = np.abs(rng.normal(size=(4, 3)))
        phi /= np.linalg.norm(phi, axis=1, keepdims=True)
        root_beta = 1 + math.sqrt(2 * math.log(1 / p) + 3 * math.log((3 + n) / 3))
        inverse = np.linalg.inv(A)
        a = int(np.argmax([inverse @ b @ x + root_beta * math.sqrt(x @ inverse @ x) for x in phi]))
        new = z + phi[a]
        owed += r_b[c]
        lowest = inverse @ b @ new - root_beta * math.sqrt(new @ inverse @ new)
        optimistic = lowest + safe >= (1 - alpha) * owed
        policy = policy.copy()
        decision = policy.decide(phi, context=c)
        assert decision.action == (a if optimistic else 1)
        reward = theta @ phi[decision.action] + rng.normal(scale=0.1)
        policy.learn(decision, reward)
        if optimistic:
            z, A, b, n = new, A + np.outer(phi[a], phi[a]), b + reward * phi[a], n + 1
        else:
            safe += r_b[c]
        kinds.append(optimistic)
    assert 20 < sum(kinds) < 380


def test_clucb_with_a_model_for_each_action_is_the_same_on_blocks():
    rng = np.random.default_rng(3)
    split = CLUCB(tr.DisjointRidge(3, 2), baseline=0, baseline_reward=0.5, alpha=0.9)
    whole = CLUCB(tr.Ridge(6), baseline=0, baseline_reward=0.5, alpha=0.9)
    for _ in range(200):
        x = rng.normal(size=2)
        x /= 1.1 * np.linalg.norm(x)
        one, two = split.decide(x), whole.decide(np.kron(np.eye(3), x))
        assert one.action == two.action
        for policy, decision in ((split, one), (whole, two)):
            policy.learn(decision, 0.3 + 0.1 * decision.action)
    assert one.action or split._z.any()


# What the papers claim


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


def test_clucb_never_falls_below_its_share_of_the_baseline():
    # Finding the arm of 0.9 means trying the arms of 0.05, which LinUCB does without regard to the baseline.
    means, r_b, alpha = np.array([0.6, 0.05, 0.05, 0.9]), 0.6, 0.2
    n, p, T, arms = 20, 0.1, 800, np.eye(4)
    guarded = CLUCB(tr.Ridge(4), baseline=0, baseline_reward=r_b, alpha=alpha, failure=p)
    broken, learnt = {"guarded": 0, "unguarded": 0}, []
    for seed in range(n):
        for name, policy in (("guarded", guarded.copy()), ("unguarded", tr.LinUCB(tr.Ridge(4), horizon=10))):
            rng = np.random.default_rng(seed)
            choices = []
            for _ in range(T):
                decision = policy.decide(arms)
                choices.append(decision.action)
                policy.learn(decision, float(rng.random() < means[decision.action]))
            owed = (1 - alpha) * r_b * np.arange(1, len(choices) + 1)
            broken[name] += bool((np.cumsum(means[choices]) < owed - 1e-9).any())
            if name == "guarded":
                learnt.append(policy.reward_model.n_learnt)
    assert broken["guarded"] <= allowed_failures(n, p)
    assert broken["unguarded"] > n / 2
    assert min(learnt) > 50, "it must leave the baseline to prove anything"


def test_clucb_learns_what_linucb_learns_in_the_end():
    run = tr.simulate(clucb(), LINE, 1500, 6, seed=5, workers=1, record=[750])
    late = (run.reward[:, 1] - run.reward[:, 0]) / 750
    assert late.mean() > 0.95 * LINE.rewards.max()


# What is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LFG(2, shares=[0.6, 0.6], eta=1.0), "sum to at most 1"),
        (lambda: LFG(2, shares=[0.6], eta=1.0), "shares must have shape"),
        (lambda: LFG(2, shares=[-0.1, 0.1], eta=1.0), r"shares\[0\] must lie in"),
        (lambda: LFG(2, shares=[0.1, 0.1], eta=0.0), "eta must be"),
        (lambda: clucb(alpha=0.0), "alpha must lie in"),
        (lambda: clucb(baseline_reward=[0.5, 1.5]), r"baseline_reward\[1\] must lie in"),
        (lambda: clucb(failure=0.0), "failure must lie in"),
        (lambda: CLUCB(tr.ArmMeans(2), baseline=0, baseline_reward=0.5, alpha=0.1), "reward must be a Ridge"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(tr.InvalidInput, match=message):
        make()


def test_bad_rounds_are_refused():
    lfg, conservative = CASES["lfg"][0](), clucb()
    for actions, message in (
        ([], "at least one"),
        ([0, 0], "each once"),
        ([3], "below 3"),
        ("012", "a sequence"),
    ):
        with pytest.raises(tr.InvalidInput, match=message):
            lfg.decide(actions=actions)
    with pytest.raises(tr.InvalidInput, match="baseline must be on offer"):
        conservative.decide(PHI[:2], actions=[0, 1])
    with pytest.raises(tr.InvalidInput, match="context must be a whole number below 1"):
        clucb(baseline_reward=[0.6]).decide(PHI)
    assert (lfg.decide().number, conservative.decide(PHI).number) == (0, 0)
    with pytest.raises(tr.InvalidInput, match="reward must lie in"):
        lfg.learn(0, 1.5)


def test_environments_of_another_setting_are_told_apart():
    assert SLEEPY.problem().outside(LFG(3, shares=SHARES, eta=1.0)) == []
    other = SLEEPY.problem().outside(LFG(3, shares=[0.1, 0.2, 0.25], eta=1.0))
    assert other == ["constraint 2 is not one of the minimum shares that the policy was given"]
    moody = tr.environments.Tabular([0.5, 0.5], None, [[0.1, 0.2], [0.1, 0.3]])
    assert moody.problem().outside(LFG(2, shares=[0.1, 0.1], eta=1.0)) == [
        "the mean reward of action 1 depends on the context"
    ]
    assert "it has 2 actions" in moody.problem().outside(LFG(3, shares=SHARES, eta=1.0))[0]
    assert "mean reward is 0.6" in " ".join(LINE.problem().outside(clucb(baseline_reward=0.5)))
    assert "1 contexts" in " ".join(LINE.problem().outside(clucb(baseline_reward=[0.6, 0.6])))
