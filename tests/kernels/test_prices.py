"""The price solver against HiGHS by certificate, on ties and rules that can't be met, and however its work is cut."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import lp
from tightrope.kernels import prices


class Program:
    """Rounds with rows of actions: rewards (R,), costs (R, K), offsets (n + 1,), weights (n,)."""

    def __init__(self, rewards, costs, offsets, weights=None):
        self.rewards = np.asarray(rewards, dtype=float)
        self.costs = np.asarray(costs, dtype=float)
        self.offsets = np.asarray(offsets, dtype=np.int64)
        self.weights = np.ones(len(offsets) - 1) if weights is None else np.asarray(weights, dtype=float)
        self.starts = self.offsets[:-1]
        top = np.maximum.reduceat(self.rewards, self.starts)
        low = np.minimum.reduceat(self.rewards, self.starts)
        self.unit = float(np.average(top - low, weights=self.weights))
        self.size = np.array([(w @ w) / max(np.abs(w).sum(), 1e-300) for w in self.costs.T])

    @property
    def K(self):
        return self.costs.shape[1]

    @property
    def cap(self):
        return 20.0 * self.unit / np.where(self.size > 0, self.size, 1.0)

    def value(self, p, margin=0.0):
        tops = np.maximum.reduceat(self.rewards - self.costs @ p, self.starts)
        return np.average(tops, weights=self.weights) - np.sum(p * margin)

    def optimum(self, margin=0.0):
        w = self.weights / self.weights.sum()
        return lp.allocation(w, self.rewards, self.costs, offsets=self.offsets, epsilon=margin)

    def solve(self, start=None, margin=0.0, budget=np.inf, cap=None):
        K = self.K
        solver = np.zeros(prices.solver_size(K))
        room = np.zeros(np.diff(self.offsets).max())
        prices.begin_prices(
            solver,
            np.zeros(K) if start is None else np.asarray(start, dtype=float),
            self.cap if cap is None else cap,
            self.size,
            np.broadcast_to(np.asarray(margin, dtype=float), (K,)).copy(),
            self.unit,
        )
        calls = 0
        while solver[prices.PHASE] != prices.SOLVED:
            prices.advance_prices(
                solver, self.rewards, self.costs.ravel(), self.offsets, self.weights, room, budget
            )
            calls += 1
            assert calls < 1e6
        return Solved(solver, K, calls)


class Solved:
    def __init__(self, solver, K, calls):
        at = prices.solver_parts(K)
        self.solver, self.calls, self.passes = solver, calls, int(solver[prices.PASSES])
        self.price = solver[at[0] : at[0] + K].copy()
        self.gradient = solver[at[4] : at[4] + K].copy()
        self.mean_square = solver[at[8] : at[8] + K].copy()


def random_program(rng, n, J, K, ragged=False, weighted=False):
    sizes = rng.integers(1, J + 1, size=n) if ragged else np.full(n, J)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    R = offsets[-1]
    rewards = rng.normal(size=R) * rng.uniform(0.01, 100.0) + rng.normal()
    units = 10.0 ** rng.uniform(-3, 3, size=K)
    costs = (
        rng.normal(size=(R, K)) + 0.5 * (rewards[:, None] - rewards.mean()) / rewards.std() - 0.2
    ) * units
    if ragged:
        # A first action that breaks no rule, so that the program can be met
        costs[offsets[:-1]] = -0.3 * units
    weights = rng.integers(1, 9, size=n).astype(float) if weighted else None
    return Program(rewards, costs, offsets, weights)


@pytest.mark.parametrize(("n", "J", "K"), [(300, 4, 1), (400, 6, 4), (200, 10, 8), (150, 8, 30), (60, 60, 3)])
@pytest.mark.parametrize("ragged", [False, True])
def test_the_dual_gap_is_small(n, J, K, ragged):
    rng = np.random.default_rng(n + J + K + ragged)
    program = random_program(rng, n, J, K, ragged, weighted=ragged)
    optimum = program.optimum()
    found = program.solve()
    gap = program.value(found.price) - optimum.value
    assert -1e-9 * program.unit <= gap <= 1e-3 * program.unit
    assert found.passes < 60


def test_conditions_of_optimality_at_the_smoothed_optimum():
    program = random_program(np.random.default_rng(3), 400, 6, 5)
    found = program.solve()
    scaled = found.gradient / program.size
    free = (found.price > 0) & (found.price < program.cap)
    assert np.abs(scaled[free]).max() < 0.01
    assert (scaled[found.price == 0] >= 0).all()
    assert (found.price >= 0).all()
    assert (found.price <= program.cap).all()


def test_the_gradient_is_the_mean_cost_and_squares_are_mean_squares():
    program = random_program(np.random.default_rng(4), 50, 5, 3)
    found = program.solve(margin=0.01 * program.size)
    values = program.rewards - program.costs @ found.price
    tau = prices.LAST_SMOOTHING * program.unit
    e = np.exp((values - np.repeat(np.maximum.reduceat(values, program.starts), 5)) / tau)
    e /= np.repeat(np.add.reduceat(e, program.starts), 5)
    mean = (e[:, None] * program.costs).sum(0) / 50
    np.testing.assert_allclose(-found.gradient - 0.01 * program.size, mean, atol=1e-9 * program.size.max())
    np.testing.assert_allclose(found.mean_square, (e[:, None] * program.costs**2).sum(0) / 50, rtol=1e-7)


def test_weights_stand_for_repeated_rounds():
    rng = np.random.default_rng(5)
    program = random_program(rng, 40, 4, 3, weighted=True)
    repeats = program.weights.astype(int)
    rows = np.concatenate([np.arange(4 * i, 4 * i + 4) for i in np.repeat(np.arange(40), repeats)])
    spread = Program(program.rewards[rows], program.costs[rows], np.arange(0, rows.size + 1, 4))
    spread.unit, spread.size = program.unit, program.size
    np.testing.assert_allclose(program.solve().price, spread.solve().price, rtol=1e-6, atol=1e-9)


def test_rounds_without_weight_do_not_count():
    rng = np.random.default_rng(6)
    program = random_program(rng, 30, 4, 2)
    program.weights[::3] = 0.0
    kept = np.flatnonzero(program.weights)
    rows = np.concatenate([np.arange(4 * i, 4 * i + 4) for i in kept])
    some = Program(program.rewards[rows], program.costs[rows], np.arange(0, rows.size + 1, 4))
    some.unit, some.size = program.unit, program.size
    np.testing.assert_array_equal(program.solve(cap=some.cap).price, some.solve().price)


@pytest.mark.parametrize("budget", [1.0, 137.0, 5000.0])
def test_the_result_does_not_depend_on_how_the_work_is_cut(budget):
    program = random_program(np.random.default_rng(7), 25, 5, 4, ragged=True)
    whole = program.solve()
    cut = program.solve(budget=budget)
    assert cut.calls > 1
    np.testing.assert_array_equal(whole.solver, cut.solver)


def test_units_do_not_matter():
    program = random_program(np.random.default_rng(8), 200, 5, 4)
    found = program.solve()
    units = np.array([1e-4, 1.0, 8.0, 1e5])
    other = Program(64.0 * program.rewards + 3.0, program.costs * units, program.offsets)
    again = other.solve()
    np.testing.assert_allclose(
        again.price * units / 64.0, found.price, rtol=1e-6, atol=1e-8 * found.price.max()
    )


def test_a_warm_start_ends_at_the_same_prices_with_fewer_passes():
    program = random_program(np.random.default_rng(9), 500, 6, 4)
    cold = program.solve()
    warm = program.solve(start=cold.price)
    assert warm.passes <= cold.passes
    gap = abs(program.value(warm.price) - program.value(cold.price))
    assert gap < 1e-4 * program.unit


def test_duplicate_rules_share_one_price():
    rng = np.random.default_rng(10)
    program = random_program(rng, 200, 5, 2)
    twice = Program(program.rewards, np.repeat(program.costs, 2, axis=1), program.offsets)
    one, two = program.solve(), twice.solve()
    np.testing.assert_allclose(
        two.price.reshape(2, 2).sum(1), one.price, rtol=0.02, atol=0.01 * program.cap.min() / 20
    )


def test_equal_rewards_and_costs_that_are_all_zero():
    rng = np.random.default_rng(11)
    offsets = np.arange(0, 31, 3)
    nothing = Program(rng.random(30), np.zeros((30, 2)), offsets)
    assert nothing.solve(start=[1.0, 2.0]).price.tolist() == [0.0, 0.0]
    ties = Program(np.ones(30), np.tile([[1.0], [-1.0], [0.0]], (10, 1)), offsets)
    ties.unit = 1e-9
    assert np.isfinite(ties.solve().price).all()


def test_a_rule_that_no_action_can_keep_gets_the_cap_and_leaves_the_others_priced():
    rng = np.random.default_rng(12)
    program = random_program(rng, 200, 4, 2)
    costs = np.column_stack([np.abs(program.costs[:, 0]) + program.size[0], program.costs[:, 1]])
    hopeless = Program(program.rewards, costs, program.offsets)
    found = hopeless.solve()
    assert found.price[0] >= 0.999 * hopeless.cap[0]
    assert -found.gradient[0] > 0
    assert found.price[1] < hopeless.cap[1]


def test_a_margin_breaks_ties_upwards():
    # Between 0.6 and 1.2 every price is optimal; only the upper end leaves slack.
    rewards = np.tile([0.6, 0.0, 0.9], 10)
    costs = np.tile([[0.0], [-0.5], [0.5]], (10, 1))
    program = Program(rewards, costs, np.arange(0, 31, 3))
    assert program.value(np.array([0.7])) == program.value(np.array([1.1]))
    low = program.solve(margin=-1e-2).price
    high = program.solve(margin=1e-2).price
    np.testing.assert_allclose([low[0], high[0]], [0.6, 1.2], atol=0.03)


def test_the_margin_is_that_of_the_linear_program():
    program = random_program(np.random.default_rng(13), 300, 6, 3)
    margin = 0.05 * program.size
    gap = program.value(program.solve(margin=margin).price, margin) - program.optimum(margin).value
    assert -1e-9 * program.unit <= gap <= 1e-3 * program.unit


def test_the_exponential():
    x = -np.concatenate([np.linspace(0, 36, 3001)[:-1], [36.5, 1e3, np.inf]])
    e = np.array([prices.exp_of_negative(float(z)) for z in x])
    np.testing.assert_allclose(e[:-3], np.exp(x[:-3]), rtol=5e-13)
    assert (e[-3:] == 0).all()
