"""Regret of steering by prices: the inequality on random paths, the identity against brute force."""

import itertools
import math

import numpy as np
import pytest

import tightrope as tr
from tightrope.errors import InvalidInput
from tightrope_lab import theory


def random_path(rng):
    T, K = int(rng.integers(1, 60)), int(rng.integers(1, 4))
    w = rng.uniform(-1, 1, (T, K)) + rng.uniform(-0.5, 0.5)
    p = rng.exponential(rng.choice([0.1, 1.0, 10.0]), (T, K))
    if rng.random() < 0.5:
        p = np.repeat(p[:: max(1, T // 4)], max(1, T // 4), axis=0)[:T]
    V = np.sort(rng.exponential(rng.choice([0.3, 3.0]), T)) + 0.05
    b = np.sort(rng.exponential(rng.choice([0.1, 5.0]), (T, K)), axis=0)
    return np.clip(w, -1, 1), p, V, b


def test_the_inequality_holds_on_3000_random_paths():
    rng = np.random.default_rng(20)
    tightest = math.inf
    for _ in range(3000):
        w, p, V, b = random_path(rng)
        before = np.vstack([np.zeros(w.shape[1]), np.cumsum(w, axis=0)[:-1]])
        prices = theory.steered_prices(p, before, b, V[:, None])
        spent = -(prices * w).sum(axis=0)
        bound = theory.price_cost_bound(w, p, V, b)
        assert np.all(spent <= bound + 1e-9 * (1 + abs(bound)))
        tightest = min(tightest, float((bound - spent).min()))
    # It is not far off either: some path nearly reaches it.
    assert tightest < 0.1


def test_one_buffer_for_all_rules():
    w, p = np.array([[0.5, -0.5], [-1.0, 1.0], [0.2, 0.1]]), np.array([[0.1, 2.0], [0.3, 0.0], [0.3, 1.0]])
    V, b = [1.0, 2.0, 2.0], np.array([0.5, 0.7, 0.9])
    both = theory.price_cost_bound(w, p, V, b)
    np.testing.assert_allclose(both, theory.price_cost_bound(w, p, V, np.column_stack([b, b])))


def test_the_corollary_covers_the_inequality():
    # Prices that change at doublings, up to P; K = 1. The expectation of the bound on a path, over many of them.
    rng = np.random.default_rng(3)
    T, P, delta = 4096, 1.5, 0.5
    t = np.arange(1.0, T + 1)
    V, b = 0.5 * np.sqrt(t), 2 * t**0.25
    total = []
    for _ in range(20):
        price = np.repeat(rng.uniform(0, P, 13), 2 ** np.arange(13))[:T]
        S, w = 0.0, np.empty(T)
        for s in range(T):
            tempted = price[s] + (S + b[s]) / V[s] < 1.0
            w[s] = (0.5 if tempted else -0.5) + rng.choice([-0.5, 0.5])
            S += w[s]
        total.append(theory.price_cost_bound(w[:, None], price[:, None], V, b)[0])
    learning = theory.linucb_bound(T, d=1, T=T)
    corollary = theory.regret_bound_prices(T, K=1, delta=delta, d=1, T=T, price_cap=P) - learning
    assert 10 < np.mean(total) <= corollary


def test_the_corollary_is_of_order_root_t():
    t = np.array([1e8, 1e16])
    bound = theory.regret_bound_prices(t, K=2, delta=0.3, d=5, T=None, price_cap=2.0)
    assert bound[1] / bound[0] < 1e4 * 4  # a logarithm more
    assert bound[1] < t[1]
    alone = theory.regret_bound_prices(10**6, K=0, delta=0.3, d=5, T=None, price_cap=2.0)
    assert alone == theory.linucb_bound(10**6, d=5, T=None)


def test_prices_that_change_in_every_round_can_cost_a_share_of_them():
    # Reward u ~ U[0, 1] at a cost of ½, or nothing at −½; prices 0 and 1 in turn: half the rounds take whatever comes.
    T = 4096
    t = np.arange(1.0, T + 1)
    rng = np.random.default_rng(0)
    regret = {}
    for name, price in (("every round", t % 2), ("held", np.full(T, 0.5))):
        S = earned = 0.0
        for s, u in enumerate(rng.random(T)):
            rate = theory.steered_prices(price[s], S, 2 * t[s] ** 0.25, 0.5 * math.sqrt(t[s]))
            taken = u - 0.5 * rate > 0.5 * rate
            S += 0.5 if taken else -0.5
            earned += u * taken
        regret[name] = 0.375 * T - earned
    assert regret["every round"] > 0.1 * T > 5 * regret["held"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prices": [[-1.0], [0.0]]}, "prices >= 0"),
        ({"V": [2.0, 1.0]}, "never fall"),
        ({"b": [2.0, 1.0]}, "never fall"),
        ({"V": [0.0, 1.0]}, "V > 0"),
        ({"prices": [[1.0]]}, "prices must have shape"),
        ({"costs": [[math.nan], [0.0]]}, "costs"),
    ],
)
def test_bad_paths(changes, message):
    given = {"costs": [[0.5], [0.5]], "prices": [[1.0], [1.0]], "V": [1.0, 2.0], "b": [0.0, 1.0]}
    with pytest.raises(InvalidInput, match=message):
        theory.price_cost_bound(**{**given, **changes})


# The identity


def small_world(seed, K=2):
    rng = np.random.default_rng(seed)
    rewards = rng.random((3, 3)).round(2)
    costs = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], (3, 3, K))
    costs[:, 0] = -0.5
    return theory.FiniteWorld(np.array([0.5, 0.3, 0.2]), rewards, costs)


def rule(t, S):
    return theory.steered_prices(np.array([0.3, 0.1]), S, 0.2, math.sqrt(t))


@pytest.mark.parametrize("seed", range(6))
def test_the_identity_against_every_sequence_of_contexts(seed):
    world, T, best = small_world(seed), 6, np.array([0.4, 0.2])
    earned, slack = 0.0, np.zeros(2)
    for contexts in itertools.product(range(3), repeat=T):
        S, won, share = np.zeros(2), 0.0, float(np.prod(world.weights[list(contexts)]))
        for t, c in enumerate(contexts, 1):
            values = [world.rewards[c, j] - rule(t, S) @ world.costs[c, j] for j in range(3)]
            j = int(np.argmax(values))
            won += world.rewards[c, j]
            S = S + world.costs[c, j]
        earned += share * won
        slack += share * S
    parts = theory.regret_parts(world, rule, T, best)
    dual = sum(
        q * max(world.rewards[c] - world.costs[c] @ best) for c, q in enumerate(world.weights.tolist())
    )
    assert parts.regret == pytest.approx(T * dual - earned, abs=1e-9)
    np.testing.assert_allclose(parts.totals, slack, atol=1e-9)
    assert parts.slack == pytest.approx(-best @ slack, abs=1e-9)
    # The identity itself; the gaps come from the dual alone, round by round.
    assert parts.regret == pytest.approx(parts.slack + parts.gaps, abs=1e-9)
    assert parts.gaps >= -1e-12


def test_regret_is_against_the_program_and_slack_is_a_lower_bound():
    world, T = small_world(1), 40
    env = tr.environments.Tabular(world.weights, rewards=world.rewards, costs=world.costs)
    solution = tr.solve(env)
    best = solution.duals
    assert world.dual(best) == pytest.approx(solution.value, abs=1e-7)
    parts = theory.regret_parts(world, rule, T, best)
    assert parts.regret == pytest.approx(parts.slack + parts.gaps, abs=1e-6)
    assert parts.regret >= parts.slack - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_gaps_are_never_negative(seed):
    world, rng = small_world(seed), np.random.default_rng(seed)
    for _ in range(200):
        price, best = rng.exponential(1.0, (2, 2))
        assert world.bregman_gap(price, best) >= -1e-12
    assert world.bregman_gap(best, best) == pytest.approx(0)


def test_bad_worlds():
    with pytest.raises(InvalidInput, match="weights must be probabilities"):
        theory.FiniteWorld([0.5, 0.4], [[1.0], [1.0]], [[[0.0]], [[0.0]]])
    with pytest.raises(InvalidInput, match="costs must have shape"):
        theory.FiniteWorld([1.0], [[1.0, 0.0]], [[[0.0]]])
    world = theory.FiniteWorld([1.0], [[1.0, 0.0]], [[[0.0], [1.0]]])
    with pytest.raises(InvalidInput, match="prices must have shape"):
        world.dual([1.0, 2.0])
