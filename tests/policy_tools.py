"""What the tests of several policies need: a line of actions, the contract that all keep, and ridge regression written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from strategies import unit_rows

# For tests about something else, of policies that say with good reason that they can't do what they are asked to.
unwatched = pytest.mark.filterwarnings("ignore::tightrope.errors.PolicyWarning")

# Six actions on a line: reward (1 + x)/2, cost −0.1 + 0.4 x, so x = 0.6 and x = 1 are unsafe and x = −1 has a margin of 0.5.
X = np.array([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0])


PHI = np.column_stack([np.ones(6), X]) / math.sqrt(2)


LINE = tr.environments.Tabular(
    [1.0],
    PHI[None],
    [(1 + X) / 2],
    (-0.1 + 0.4 * X)[None, :, None],
    cost_noise="gaussian",
    cost_scale=0.1,
    costs_seen="after",
)


# The noise of these costs is 0.1-sub-Gaussian and ‖μ*‖ = 0.583, so 0.583 + 0.1 s is a valid radius, s the square root in √β. With
# a failure probability of 0.2 for two quantities s ≥ 2.1, hence 0.3 (1 + s) is valid too: `bonus=0.3` keeps the papers' claims.
VALID = 0.3


UNSAFE = LINE.costs[0, :, 0] > 0


def allowed_failures(n: int, p: float) -> int:
    """The least m with P(Binomial(n, p) > m) < 1e-6: more failures than that refute a claimed failure probability of p."""
    tail, m = 1.0, -1
    while tail >= 1e-6:
        m += 1
        tail -= math.comb(n, m) * p**m * (1 - p) ** (n - m)
    return m


def check_contract(make, env) -> None:
    """What every policy owes its caller, in an environment of its setting."""
    policy = make()
    assert env.problem().outside(policy) == []
    assert tr.policies.POLICIES[policy.kind] is type(policy)
    run = tr.simulate(policy, env, rounds=60, replications=2, seed=3, workers=1, keep_choices=True)
    again = tr.simulate(policy, env, rounds=60, replications=2, seed=3, workers=1, keep_choices=True)
    assert np.array_equal(run.choices, again.choices)
    assert run.counts[:, -1].sum() == 120

    # Late and in any order: two policies that learn the same outcomes in opposite orders act alike.
    late, other = make(), make()
    for one, order in ((late, 1), (other, -1)):
        decisions = [one.decide(**offer(one, env)) for _ in range(4)]
        for decision in decisions[::order]:
            one.learn(decision.number, 0.5, *outcome(one, env, decision))
    assert [late.decide(**offer(late, env)).action for _ in range(8)] == [
        other.decide(**offer(other, env)).action for _ in range(8)
    ]

    # Once only, nobody else's, nothing invented; and bad outcomes leave no trace.
    decision, untouched = late.decide(**offer(late, env)), late.copy()
    costs = outcome(late, env, decision)
    for bad in (math.nan, math.inf, "1", *([] if costs else [None])):
        with pytest.raises(tr.InvalidInput, match="reward"):
            late.learn(decision, bad, *costs)
    for bad in ([math.nan], [0.1, 0.2], [3.0], ["x"]) if costs else ():
        with pytest.raises(tr.InvalidInput, match="costs"):
            late.learn(decision, 0.5, bad)
    with pytest.raises(tr.InvalidInput, match="never made"):
        late.learn(10_000, 0.5, *costs)
    with pytest.raises(tr.InvalidInput, match="another policy"):
        late.learn(other.decide(**offer(other, env)), 0.5, *costs)
    with pytest.raises(tr.InvalidInput):
        late.decide(**{**offer(late, env), "features": [[math.nan]], "actions": [-1]})
    for one in (late, untouched):
        one.learn(decision.number, 0.5, *costs)
        with pytest.raises(tr.InvalidInput, match="already"):
            one.learn(decision.number, 0.5, *costs)
    assert [late.decide(**offer(late, env)).action for _ in range(8)] == [
        untouched.decide(**offer(untouched, env)).action for _ in range(8)
    ]


def offer(policy, env) -> dict:
    """Context 0 as a policy is shown it."""
    shown = {"features": env.features[0]} if getattr(policy.hooks.reward_model(), "n_features", 0) else {}
    if policy.hooks.sees_context:
        shown["context"] = 0
    return shown


def outcome(policy, env, decision) -> tuple:
    """The mean costs, for a policy that learns them."""
    return (env.costs[0, decision.action],) if policy.hooks.n_constraints else ()


class Literal:
    """Ridge regression as the papers write it, inverted afresh every time."""

    def __init__(self, d):
        self.A, self.b, self.n, self.d = np.eye(d), np.zeros(d), 0, d

    def learn(self, x, y):
        self.A += np.outer(x, x)
        self.b += y * x
        self.n += 1

    def mean(self, x):
        return float(np.linalg.inv(self.A) @ self.b @ x)

    def width(self, x):
        return math.sqrt(x @ np.linalg.inv(self.A) @ x)

    def root_beta(self, p):
        return 1 + math.sqrt(2 * math.log(1 / p) + self.d * math.log((self.d + self.n) / self.d))


def stream(seed, K, T=60, J=5, d=3, d_w=2):
    """Rounds of features of rewards and costs, and noisy outcomes by action. Action 0 costs −0.9 and has its own direction."""
    rng = np.random.default_rng(seed)
    theta, mu = rng.normal(size=d) / 2, rng.normal(size=(K, d_w)) / 2
    for _ in range(T):
        phi, psi = unit_rows(rng, J, d), unit_rows(rng, J, d_w)
        costs = np.clip(psi @ mu.T + rng.normal(scale=0.1, size=(J, K)), -1, 1)
        psi[0], costs[0] = [1.0, 0.0], -0.9
        yield phi, psi, np.clip(phi @ theta + rng.normal(scale=0.1, size=J), -1, 1), costs


def actions_that_look_safe(costs, psi, radius):
    """Those whose costs are at most 0 by their upper bounds."""
    return {j for j in range(len(psi)) if all(m.mean(psi[j]) + radius * m.width(psi[j]) <= 0 for m in costs)}


def chooses_as_written(policy, index_of, known, seed, exploration=0, p=0.4, K=2):
    """The best by `index_of` among the known and the seemingly safe actions; how often an action not known before was played."""
    reward, costs, left = Literal(3), [Literal(2) for _ in range(K)], 0
    for t, (phi, psi, r, w) in enumerate(stream(seed, K, T=250)):
        C_r, C_w = reward.root_beta(p / (1 + K)), costs[0].root_beta(p / (1 + K))
        shown = known | actions_that_look_safe(costs, psi, C_w)
        policy = policy.copy()
        a = policy.decide(phi, psi).action
        if t < exploration:
            assert a in known
        else:
            index = index_of(reward, phi, C_r, t)
            assert a == max(shown, key=index.__getitem__)
            left += a not in known
        policy.learn(t, r[a], w[a])
        reward.learn(phi[a], r[a])
        for k in range(K):
            costs[k].learn(psi[a], w[a, k])
    return left


def same_on_blocks(make):
    """A model for each action gives the choices of one model on e_j ⊗ x."""
    rng = np.random.default_rng(4)
    J, p = 3, 2
    split, whole = make(tr.DisjointRidge(J, p)), make(tr.Ridge(J * p))
    for _ in range(60):
        x = unit_rows(rng, 1, p)[0]
        ids = [0, int(rng.choice([1, 2]))]
        a, b = split.decide(x, actions=ids), whole.decide(np.kron(np.eye(J), x)[ids], actions=ids)
        assert a.action == b.action
        outcome = (0.1 * a.action, *([[-0.5]] if split.hooks.n_constraints else []))
        split.learn(a, *outcome)
        whole.learn(b, *outcome)


def plays_safely_and_finds_safe_actions(policy, p):
    n = 20
    run = tr.simulate(policy, LINE, 600, n, seed=11, workers=1, record=1, keep_choices=True)
    failures = int(UNSAFE[run.choices].any(axis=1).sum())
    assert failures <= allowed_failures(n, p)
    assert (run.choices == 2).any(axis=1).sum() > n / 2, "x = −0.2 is safe, and is to be found so"


# Where actions may sleep, and features are too long.
ASLEEP = tr.environments.Tabular(
    [0.5, 0.5],
    np.tile(PHI[:2] * 1.4, (2, 1, 1)),
    [[0.5, 0.5]] * 2,
    np.array([[[-0.7], [0.3]]] * 2),
    costs_seen="after",
    available=np.array([[True, True], [False, True]]),
)


def reasons(policy, env):
    """Why an environment is not of the policy's setting, in one text."""
    return " ".join(env.problem().outside(policy))
