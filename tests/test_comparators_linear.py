"""Greedy, LinTS, OPLB, Safe-LUCB and Safe-LTS against literal transcriptions, and against what their papers claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope as tr
from strategies import unit_rows
from tightrope import kernels
from tightrope.policies.greedy import Greedy
from tightrope.policies.linear import Offer
from tightrope.policies.lints import LinTS, sampled_values
from tightrope.policies.oplb import OPLB, best_mixture
from tightrope.policies.safe_lts import SafeLTS
from tightrope.policies.safe_lucb import SafeLUCB

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
    assert policy.requires(env) == []
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
    for bad in (math.nan, math.inf, True, "1", None):
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
    shown = {} if isinstance(policy.reward_model, tr.ArmMeans) else {"features": env.features[0]}
    if getattr(policy, "sees_context", False):
        shown["context"] = 0
    return shown


def outcome(policy, env, decision) -> tuple:
    """The mean costs, for a policy that learns them."""
    return (env.costs[0, decision.action],) if policy.n_constraints else ()


CASES = {
    "greedy": lambda: Greedy(tr.Ridge(2)),
    "lints": lambda: LinTS(tr.Ridge(2), seed=5),
    "oplb": lambda: OPLB(tr.Ridge(2, bonus=0.1), cost=tr.Ridge(2, bonus=0.1), safe_action=0, safe_cost=-0.49),
    "safe-lucb": lambda: SafeLUCB(
        tr.Ridge(2, bonus=0.1), cost=tr.Ridge(2, bonus=0.1), safe_actions=[0, 1], exploration=5, seed=1
    ),
    "safe-lts": lambda: SafeLTS(
        tr.Ridge(2, bonus=0.1), cost=tr.Ridge(2, bonus=0.1), safe_action=0, safe_cost=-0.49, seed=1
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_contract(name):
    check_contract(CASES[name], LINE)


# Literal transcriptions


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


@pytest.mark.parametrize("K", [1, 3])
def test_oplb_plays_the_program_of_its_definition(K):
    xi, p = 0.9, 0.5
    solved = 0
    for seed in range(3):
        policy = OPLB(
            tr.Ridge(3), cost=tr.Ridge(2), safe_action=0, safe_cost=-xi, n_constraints=K, failure=p, seed=seed
        )
        reward, costs = Literal(3), [Literal(2) for _ in range(K)]
        for phi, psi, r, w in stream(seed, K, T=140):
            C_r, C_w = reward.root_beta(p / (1 + K)), costs[0].root_beta(p / (1 + K))
            policy = policy.copy()
            pi = policy.mixture(phi, psi)
            decision = policy.decide(phi, psi)
            a = decision.action
            assert decision.probability == pytest.approx(pi[a], abs=1e-12)
            assert pi[a] > 0
            if costs[0].width(psi[0]) > xi / (2 * C_w):
                assert pi.tolist() == [1, 0, 0, 0, 0]
            else:
                u = [
                    reward.mean(x) + C_r * reward.width(x) + 2 / xi * C_w * costs[0].width(y)
                    for x, y in zip(phi, psi)
                ]
                W = [[m.mean(y) + C_w * m.width(y) for y in psi] for m in costs]
                best = linprog(-np.array(u), A_ub=W, b_ub=np.zeros(K), A_eq=np.ones((1, 5)), b_eq=[1.0])
                assert best.status == 0
                assert np.max(W @ pi) <= 1e-7
                assert pi.min() >= 0
                assert abs(pi.sum() - 1) < 1e-12
                assert u @ pi == pytest.approx(-best.fun, abs=1e-7)
                solved += 1
            policy.learn(decision, r[a], w[a])
            reward.learn(phi[a], r[a])
            for k in range(K):
                costs[k].learn(psi[a], w[a, k])
    assert solved > 30


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


def test_safe_lucb_and_safe_lts_choose_as_written():
    p, K, left = 0.4, 2, 0
    for seed in range(4):
        common = {"cost": tr.Ridge(2), "n_constraints": K, "failure": p, "seed": seed}
        lucb = SafeLUCB(tr.Ridge(3), safe_actions=[0, 2], exploration=20, **common)
        lts = SafeLTS(tr.Ridge(3), safe_action=0, safe_cost=-0.9, **common)
        for policy, known in ((lucb, {0, 2}), (lts, {0})):
            walker, reward, costs = policy, Literal(3), [Literal(2) for _ in range(K)]
            for t, (phi, psi, r, w) in enumerate(stream(seed, K, T=250)):
                C_r, C_w = reward.root_beta(p / (1 + K)), costs[0].root_beta(p / (1 + K))
                shown = known | {
                    j for j in range(5) if all(m.mean(psi[j]) + C_w * m.width(psi[j]) <= 0 for m in costs)
                }
                if policy is lts:
                    z = np.array([kernels.normal(seed, 0, t, i) for i in range(3)])
                    # Any root of Σ⁻¹ gives the law; this one is the transpose of the inverse Cholesky factor of Σ.
                    root = np.linalg.inv(np.linalg.cholesky(reward.A)).T
                    theta = np.linalg.inv(reward.A) @ reward.b + (1 + 2 / 0.9) * C_r * root @ z
                    index = phi @ theta
                else:
                    index = np.array([reward.mean(x) + C_r * reward.width(x) for x in phi])
                walker = walker.copy()
                a = walker.decide(phi, psi).action
                if policy is lucb and t < 20:
                    assert a in known
                else:
                    assert a == max(shown, key=lambda j, index=index: index[j])
                    left += a not in known
                walker.learn(t, r[a], w[a])
                reward.learn(phi[a], r[a])
                for k in range(K):
                    costs[k].learn(psi[a], w[a, k])
    assert left > 20


def test_greedy_plays_the_best_estimate():
    policy, literal = Greedy(tr.Ridge(3)), Literal(3)
    for phi, _, r, _ in stream(1, 1):
        policy = policy.copy()
        decision = policy.decide(phi)
        means = [literal.mean(x) for x in phi]
        assert means[decision.row] >= max(means) - 1e-9
        policy.learn(decision, r[decision.row])
        literal.learn(phi[decision.row], r[decision.row])


def test_lints_samples_from_the_stated_law():
    rng = np.random.default_rng(2)
    literal, model = Literal(3), tr.Ridge(3)
    for x in unit_rows(rng, 40, 3):
        literal.learn(x, 0.3)
        model.learn(x, 0.3)
    phi = unit_rows(rng, 4, 3)
    n, v = 6000, 1.7
    drawn = np.array([sampled_values(model, Offer(np.arange(4), phi), v, 9, i) for i in range(n)])
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
        index = sampled_values(taught, Offer(np.arange(4), phi), v_t, 9, t)
        assert policy.decide(phi).row == int(np.argmax(index))


def test_disjoint_models_are_the_shared_model_on_blocks():
    rng = np.random.default_rng(4)
    J, p = 3, 2
    for make in (
        lambda m: Greedy(m),
        lambda m: LinTS(m, seed=1),
        lambda m: OPLB(m, cost=m, safe_action=0, safe_cost=-0.9, failure=0.5),
        lambda m: SafeLTS(m, cost=m, safe_action=0, safe_cost=-0.9, failure=0.5),
    ):
        split, whole = make(tr.DisjointRidge(J, p)), make(tr.Ridge(J * p))
        for _ in range(60):
            x = unit_rows(rng, 1, p)[0]
            ids = np.sort(rng.choice([1, 2], size=1)).tolist()
            ids = [0, *ids]
            blocks = np.kron(np.eye(J), x)[ids]
            a, b = split.decide(x, actions=ids), whole.decide(blocks, actions=ids)
            assert a.action == b.action
            outcome = (0.1 * a.action, *([[-0.5]] if split.n_constraints else []))
            split.learn(a, *outcome)
            whole.learn(b, *outcome)


# What the papers claim


def test_safe_policies_never_play_an_unsafe_action_and_find_safe_ones():
    n, p = 20, 0.2
    model = tr.Ridge(2, bonus=VALID)
    for policy in (
        SafeLUCB(model, cost=model, safe_actions=[0, 1], exploration=150, failure=p),
        SafeLTS(model, cost=model, safe_action=0, safe_cost=-0.49, failure=p),
    ):
        run = tr.simulate(policy, LINE, 600, n, seed=11, workers=1, record=1, keep_choices=True)
        failures = int(UNSAFE[run.choices].any(axis=1).sum())
        assert failures <= allowed_failures(n, p)
        assert (run.choices == 2).any(axis=1).sum() > n / 2, "x = −0.2 is safe, and is to be found so"


def test_oplb_keeps_every_mixture_within_the_constraint():
    n, p, failures, beyond = 12, 0.2, 0, 0
    truth, rng = LINE.costs[0, :, 0], np.random.default_rng(5)
    model = tr.Ridge(2, bonus=VALID)
    for seed in range(n):
        policy = OPLB(model, cost=model, safe_action=0, safe_cost=-0.49, failure=p, seed=seed)
        broken = False
        for _ in range(500):
            pi = policy.mixture(PHI)
            broken |= bool(truth @ pi > 1e-12)
            beyond += pi[0] < 1
            decision = policy.decide(PHI)
            a = decision.action
            policy.learn(decision, float(rng.random() < LINE.rewards[0, a]), [rng.normal(truth[a], 0.1)])
        failures += broken
    assert failures <= allowed_failures(n, p)
    assert beyond > 2000, "it must leave the safe action to prove anything"


def test_oplb_is_optimistic_so_it_ends_near_the_optimum():
    run = tr.simulate(CASES["oplb"](), LINE, 2000, 4, seed=2, workers=1, record=[1000])
    optimum = tr.solve(LINE).value
    late = (run.reward[:, 1] - run.reward[:, 0]) / 1000
    safe_alone = LINE.rewards[0, 0]
    assert np.all(late > safe_alone + 0.85 * (optimum - safe_alone))


def test_lints_learns_the_best_action():
    policy = LinTS(tr.Ridge(2, bonus=0.1))
    run = tr.simulate(policy, LINE, 1500, 10, seed=4, workers=1, record=[750])
    best = LINE.rewards[0].max()
    early, late = best * 750 - run.reward[:, 0], best * 750 - (run.reward[:, 1] - run.reward[:, 0])
    assert late.mean() < 0.5 * early.mean()
    assert late.mean() < 0.02 * 750


def test_greedy_needs_diverse_contexts():
    # Two actions, contexts on the circle: whatever is believed, both sides occur (covariate diversity).
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False) + 0.1
    x = np.column_stack([np.cos(angle), np.sin(angle)])
    diverse = tr.environments.Tabular(
        np.full(24, 1 / 24), x, x / 2, reward_noise="gaussian", reward_scale=0.5
    )
    run = tr.simulate(Greedy(tr.DisjointRidge(2, 2)), diverse, 1200, 10, seed=6, workers=1, record=[600])
    optimum = np.maximum(x[:, 0], x[:, 1]).mean() / 2
    late = 600 * optimum - (run.reward[:, 1] - run.reward[:, 0])
    assert late.mean() < 0.02 * 600 * optimum + 10

    stuck = tr.environments.Tabular([1.0], None, [[0.3, 0.8]])
    run = tr.simulate(Greedy(tr.Ridge(2)), stuck, 300, 4, seed=6, workers=1)
    assert np.all(run.counts[:, -1, 0] > 295), "without variety it holds on to what paid first"


# What is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Greedy(tr.ArmMeans(2)), "reward must be a Ridge"),
        (lambda: LinTS(tr.Ridge(2), failure=1.0), "failure must lie in"),
        (lambda: OPLB(tr.Ridge(2), cost=tr.Ridge(2), safe_action=0, safe_cost=0.0), "safe_cost must lie in"),
        (lambda: OPLB(tr.Ridge(2), cost=None, safe_action=0, safe_cost=-0.1), "cost must be a Ridge"),
        (lambda: SafeLUCB(tr.Ridge(2), cost=tr.Ridge(2), safe_actions=[0]), "horizon="),
        (lambda: SafeLUCB(tr.Ridge(2), cost=tr.Ridge(2), safe_actions=[], horizon=9), "at least one"),
        (lambda: SafeLUCB(tr.Ridge(2), cost=tr.Ridge(2), safe_actions="01", horizon=9), "a sequence"),
        (
            lambda: SafeLTS(tr.Ridge(2), cost=tr.Ridge(2), safe_action=0, safe_cost=-0.1, n_constraints=0),
            "n_constraints must be",
        ),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(tr.InvalidInput, match=message):
        make()


def test_bad_rounds_are_refused():
    oplb = CASES["oplb"]()
    for features, more, message in (
        (PHI * 2, {}, "Euclidean norm"),
        (PHI[:, :1], {}, "shape"),
        (PHI, {"costs": PHI[:3]}, "a row for each action"),
        (PHI, {"actions": [0, 1]}, "a row for each action"),
        (PHI[:2], {"actions": [3, 3]}, "each once"),
        (PHI[:2], {"actions": [3, 4]}, "safe_action must be on offer"),
        (None, {}, "are needed"),
    ):
        with pytest.raises(tr.InvalidInput, match=message):
            oplb.decide(features, **more)
    with pytest.raises(tr.InvalidInput, match="one of the safe actions"):
        CASES["safe-lucb"]().decide(PHI[2:], actions=[2, 3, 4, 5])
    assert oplb.decide(PHI).number == 0
    assert SafeLUCB(tr.Ridge(2), cost=tr.Ridge(2), safe_actions=[0], horizon=1000).exploration == 100


def test_environments_of_another_setting_are_told_apart():
    bandit = tr.environments.bandit(costs_seen="before")
    asleep = tr.environments.Tabular(
        [0.5, 0.5],
        np.tile(PHI[:2] * 1.4, (2, 1, 1)),
        [[0.5, 0.5]] * 2,
        np.array([[[-0.7], [0.3]]] * 2),
        costs_seen="after",
        available=np.array([[True, True], [False, True]]),
    )
    told = " ".join(CASES["safe-lts"]().requires(bandit) + CASES["oplb"]().requires(asleep))
    for reason in (
        "seen before acting",
        "no features",
        "tells about another",
        "not on offer in every",
        "norm 1.4",
    ):
        assert reason in told
    assert "mean cost of 0.3" in " ".join(
        SafeLUCB(tr.Ridge(2), cost=tr.Ridge(2), safe_actions=[1], exploration=1).requires(asleep)
    )
    assert "above -0.9" in " ".join(
        OPLB(tr.Ridge(2), cost=tr.Ridge(2), safe_action=0, safe_cost=-0.9).requires(LINE)
    )
