"""Thompson sampling less prices, by dual ascent or by re-solving: against their definitions, and what their docstrings say."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from policy_tools import LINE, PHI, unwatched
from tightrope import kernels, lp
from tightrope.testing import PolicySuite
from tightrope_lab.policies.lagrangian_thompson import LagrangianThompson
from tightrope_lab.policies.lp_thompson import CAP, FIRST_SOLVE, GROWTH, LEAST_WAIT, LPThompson

BEFORE = tr.environments.synthetic(contexts=5, actions=4, features=3, constraints=2, slater=0.2)
# Free, or dear and good: the price at which both are worth the same is 0.8/0.5.
PRICED = tr.environments.Tabular(
    [1.0], rewards=[[0.1, 0.9]], costs=[[[-0.2], [0.3]]], cost_range=(-0.5, 0.5), name="priced"
)
PRICED_AFTER = tr.environments.tabular.changed(PRICED, cost_noise="bernoulli", costs_seen="after")
BOTH = [LagrangianThompson, LPThompson]


class _Before(PolicySuite):
    strict = True
    kind: type

    def make(self):
        return self.kind(tr.Ridge(3), n_constraints=2)

    def environment(self):
        return BEFORE


class TestLagrangianBefore(_Before):
    kind = LagrangianThompson


class TestLPBefore(_Before):
    kind = LPThompson


class _After(PolicySuite):
    strict = True
    kind: type

    def make(self):
        return self.kind(tr.Ridge(3), cost=tr.Ridge(3), n_constraints=2, cost_range=(-1.0, 1.0), seed=1)

    def environment(self):
        return tr.environments.tabular.changed(BEFORE, costs_seen="after")


class TestLagrangianAfter(_After):
    kind = LagrangianThompson


class TestLPAfter(_After):
    kind = LPThompson


class _ArmsAfter(PolicySuite):
    strict = True
    kind: type

    def make(self):
        return self.kind(tr.ArmMeans(2), cost=tr.ArmMeans(2), n_constraints=1, seed=4)

    def environment(self):
        return PRICED_AFTER


class TestLagrangianArms(_ArmsAfter):
    kind = LagrangianThompson


class TestLPArms(_ArmsAfter):
    kind = LPThompson


def played(policy, rounds, seed=0):
    """Rounds of PRICED with Bernoulli rewards; the totals after each."""
    rng, totals = np.random.default_rng(seed), []
    for _ in range(rounds):
        decision = policy.decide(costs=PRICED.costs[0])
        policy.learn(decision, float(rng.random() < PRICED.rewards[0, decision.action]))
        totals.append(policy.totals[0])
    return np.array(totals)


# The posterior


@pytest.mark.parametrize("kind", BOTH)
def test_it_believes_what_the_default_policy_believes(kind):
    """Taught the same outcomes, both have the same means and deviations of rewards and costs."""
    ours = kind(tr.Ridge(2), cost=tr.Ridge(2), n_constraints=1, cost_range=(-1.0, 1.0))
    default = tr.ShadowPrice(reward=tr.Ridge(2), cost=tr.Ridge(2), constraints=1, cost_range=(-1.0, 1.0))
    rng = np.random.default_rng(1)
    for _ in range(40):
        a, y = int(rng.integers(len(PHI))), float(rng.random())
        for policy in (ours, default):
            policy.learn(policy.commit(policy.quote(features=PHI), a), y, LINE.costs[0, a])
    for mine, theirs in (
        (ours.hooks.reward_model(), default.hooks.reward_model()),
        (ours.hooks.cost_model(), default.hooks.cost_model()),
    ):
        np.testing.assert_allclose(mine.predictions(PHI), theirs.predictions(PHI), rtol=1e-12)


@pytest.mark.parametrize("kind", BOTH)
def test_units_of_costs_and_features_play_no_part(kind):
    rng = np.random.default_rng(2)
    plain, scaled = (kind(tr.Ridge(3), n_constraints=2, seed=5) for _ in range(2))
    for _ in range(120):
        phi, W, noise = rng.normal(size=(4, 3)), rng.uniform(-0.4, 0.6, (4, 2)), rng.normal()
        one, other = plain.decide(phi, W), scaled.decide(1024.0 * phi, W / 64.0)
        assert one.action == other.action
        for policy, decision in ((plain, one), (scaled, other)):
            policy.learn(decision, phi[one.row, 0] + 0.1 * noise)
    np.testing.assert_allclose(scaled.hooks.dual(), 64.0 * plain.hooks.dual(), rtol=1e-6)
    assert plain.hooks.dual().max() > 0


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("unit", [1e-9, 1e6])
def test_the_unit_of_rewards_plays_no_part(kind, unit):
    """Before a reward is seen nothing tells how large rewards are; after that no trace of the guess is left."""
    policy, rng = kind(tr.ArmMeans(2), n_constraints=1), np.random.default_rng(3)
    for _ in range(600):
        decision = policy.decide(costs=PRICED.costs[0])
        policy.learn(decision, unit * (7.0 + (rng.random() < PRICED.rewards[0, decision.action])))
    assert policy.hooks.dual()[0] == pytest.approx(unit * 0.8 / 0.5, rel=0.35)
    assert -60 < policy.totals[0] <= 0


@pytest.mark.parametrize("kind", BOTH)
def test_actions_are_played_with_the_probability_that_is_said(kind):
    policy = kind(tr.ArmMeans(2), n_constraints=1)
    played(policy, 12)
    said = policy.propose(costs=PRICED.costs[0]).probabilities
    assert 0.02 < said[1] < 0.98
    found = []
    for policy.seed in range(1500):
        found.append(policy.propose(costs=PRICED.costs[0]).action)
    assert np.mean(found) == pytest.approx(said[1], abs=0.04)


@pytest.mark.parametrize("kind", BOTH)
def test_a_proposal_does_not_set_the_unit_of_the_features(kind):
    asked, fresh = (kind(tr.Ridge(2), n_constraints=1) for _ in range(2))
    asked.propose(1e6 * PHI, np.zeros((len(PHI), 1)))
    for policy in (asked, fresh):
        policy.learn(policy.decide(PHI, np.zeros((len(PHI), 1))), 1.0)
    np.testing.assert_array_equal(asked.hooks.reward_model().spread, fresh.hooks.reward_model().spread)


# The steps


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("learnt", [False, True])
def test_it_plays_as_written(kind, learnt):
    """Units, prices, barrier and draws by their formulas; p of the program is taken as it is found."""
    K, J, explore = 2, 4, 0.8
    rng = np.random.default_rng(3)
    policy = kind(tr.Ridge(3), cost=tr.Ridge(3) if learnt else None, n_constraints=K, explore=explore, seed=7)
    twin, costs_twin = (
        tr.Standardised(n_features=3),
        tr.Standardised(n_features=3, centred=False, n_outputs=K),
    )
    Q, S, size, square, moved, rho, priced, climbs = *np.zeros((5, K)), 0.0, 0, 0
    for t in range(1, 201):
        phi, w = rng.normal(size=(J, 3)), rng.uniform(-0.5, 0.7, (J, K))
        means, deviations = (one[:, 0] for one in twin.seen(phi, np.arange(J)))
        W, unsure = costs_twin.seen(phi, np.arange(J)) if learnt else (w, np.zeros((J, K)))
        squares = W**2 + unsure**2
        size, square = size + np.sqrt(squares).mean(axis=0), square + squares.mean(axis=0)
        moved = moved if learnt else square
        m, noise = square / size, np.sqrt(np.maximum(1.0, moved / square))
        spread = (means + explore * deviations).max() - (means - explore * deviations).min()
        rho += (spread - rho) * min(1.0, 2.0 / max(1, t - 3))
        barrier = np.zeros(J)
        if kind is LagrangianThompson:
            prices = 2.0 * rho * np.maximum(0.0, Q) / ((m * noise) ** 2 * math.sqrt(t))
        else:
            b = 2.0 * noise * m * t**0.25
            prices = np.maximum(0.0, policy.prices + 0.25 * rho * (S + b) / (m**2 * math.sqrt(t)))
            z = 0.6 * b
            for k in range(K):
                for j in range(J):
                    high, low = (max(0.0, s / z[k] + 1.0) ** 2 for s in (S[k] + W[j, k], S[k]))
                    barrier[j] += rho / m[k] * 0.5 * z[k] * (high - low)
            climbs += bool(np.abs(barrier).max() > 0)
        variance = (explore * deviations) ** 2 + ((0.7 * explore * unsure * prices) ** 2).sum(axis=1)
        normals = np.array([kernels.normal(np.uint64(7), 0, t - 1, j) for j in range(J)])
        values = means - W @ prices - barrier + np.sqrt(variance) * normals
        decision = policy.decide(phi) if learnt else policy.decide(phi, w)
        np.testing.assert_allclose(decision.explain().values, values, rtol=1e-9, atol=1e-9)
        row = int(np.argmax(values))
        assert decision.row == row
        margin = 0.5 * m * noise / math.sqrt(t)
        Q, S = np.maximum(0.0, Q + W[row] + margin) + w[row] - W[row], S + w[row]
        y = float(phi[row, 1] + 0.2 * rng.normal())
        policy.learn(decision, y, *([w[row]] if learnt else []))
        twin.learn(phi[row], y)
        if learnt:
            costs_twin.learn(phi[row], w[row])
            moved = moved + w[row] ** 2
        priced += bool(prices.max() > 0)
    assert priced > 100
    assert kind is LagrangianThompson or climbs > 20


def test_costs_seen_later_take_the_place_of_their_estimates_in_the_queue():
    policy = LagrangianThompson(tr.Ridge(2), cost=tr.Ridge(2), n_constraints=1, margin=0.0)
    waiting = [policy.decide(PHI) for _ in range(20)]
    for one in waiting:
        policy.learn(one, 0.5, [0.25])
    assert policy.totals[0] == pytest.approx(20 * 0.25)
    np.testing.assert_allclose(policy.expected_totals, policy.totals, atol=1e-9)
    assert policy.hooks.dual()[0] > 0


# Re-solving


def test_the_rewards_of_the_program_are_drawn():
    policies = [LPThompson(tr.ArmMeans(2), n_constraints=1, explore=1.0) for _ in range(4)]
    for policy in policies:
        for arm in (0, 1) * 10:
            policy.learn(
                policy.commit(policy.quote(costs=PRICED.costs[0]), arm),
                (0.1, 0.9)[arm] + 0.2 * (-1) ** policy.rounds,
            )
    for seed, policy in enumerate(policies):
        policy.seed = seed
    assert len({float(policy._solved(40)[0]) for policy in policies}) == 4
    for policy in policies:
        policy.explore = 0.0
    assert len({float(policy._solved(40)[0]) for policy in policies}) == 1


def test_the_prices_are_the_duals_of_the_program_on_what_was_offered():
    """Without uncertainty, and where nothing is owed, p is the dual of the linear program."""
    rng = np.random.default_rng(4)
    policy = LPThompson(tr.ArmMeans(3), n_constraints=1, explore=0.0, caution=0.0)
    rewards, offers = np.array([0.1, 0.5, 0.9]), []
    for arm in (0, 1, 2) * 20:
        W = rng.uniform(0.1, 0.5, (3, 1)) * [[-1.0], [1.0], [2.0]]
        policy.learn(policy.commit(policy.quote(costs=W), arm), rewards[arm])
        offers.append(W)
    policy._expected[:] = 0.0
    found = policy._solved(60)
    costs = np.concatenate(offers)
    best = lp.allocation(np.full(60, 1 / 60), np.tile(rewards, 60), costs, offsets=3 * np.arange(61))
    assert found == pytest.approx(best.duals, rel=0.1)
    # Half as many rounds again are there to make up for what is owed; more is dearer.
    policy._expected[:] = 3.0
    owed = lp.allocation(
        np.full(60, 1 / 60), np.tile(rewards, 60), costs + 3.0 / 30.0, offsets=3 * np.arange(61)
    )
    assert policy._solved(60) == pytest.approx(owed.duals, rel=0.1)
    assert owed.duals > best.duals


def test_it_solves_after_8_rounds_and_then_after_a_quarter_more():
    policy = LPThompson(tr.ArmMeans(2), n_constraints=1)
    solved, last = [], policy.prices
    rng = np.random.default_rng(0)
    for t in range(1, 201):
        decision = policy.decide(costs=rng.uniform([[-0.6], [-0.2]], [[0.4], [0.8]]))
        policy.learn(decision, float(decision.action) + 0.1 * rng.normal())
        if policy.prices != last:
            solved.append(t)
            last = policy.prices
    wanted = [FIRST_SOLVE]
    while wanted[-1] < 200:
        wanted.append(max(wanted[-1] + LEAST_WAIT, math.floor(GROWTH * wanted[-1])))
    assert set(solved) <= set(wanted)
    assert len(solved) > 10


@unwatched  # totals above zero are what it is about
def test_prices_are_capped_where_rules_can_not_be_met():
    policy = LPThompson(tr.ArmMeans(2), n_constraints=1)
    rng = np.random.default_rng(0)
    for _ in range(600):
        decision = policy.decide(costs=[[0.2], [0.3]])
        policy.learn(decision, rng.random())
    units = policy._units()
    assert policy.prices[0] <= CAP * 1.5 * units.rho / units.m[0]
    assert np.isfinite(policy.hooks.dual()).all()


def test_a_small_memory_is_a_sample_of_all_rounds():
    policy = LPThompson(tr.ArmMeans(2), n_constraints=1, memory=50)
    for t in range(1000):
        policy.decide(costs=[[t / 2000.0], [-0.1]])
    kept = np.array([policy._rounds.entries[n].W[0, 0] * 2000.0 for n in policy._rounds.slots])
    assert len(kept) == 50
    assert 350 < kept.mean() < 650
    assert policy.copy()._rounds.slots == policy._rounds.slots


def test_inputs_that_are_forgotten_leave_the_memory():
    policy, rng = LPThompson(tr.Ridge(2), n_constraints=1), np.random.default_rng(1)
    secret = np.array([[0.123456789, -0.5], [0.25, 0.987654321]])
    for t in range(30):
        phi = secret if t == 11 else rng.normal(size=(2, 2))
        decision = policy.decide(phi, [[0.1], [-0.1]])
        if t != 11:
            policy.learn(decision, rng.random())

    def kept():
        return b"".join(array.tobytes() for array in policy.hooks.state().values())

    assert secret[0, :1].tobytes() in kept()
    policy.hooks.forget_inputs([11])
    assert all(number.tobytes() not in kept() for number in secret.reshape(-1))
    assert len(policy._rounds) == 29
    again = policy.copy()
    for _ in range(40):
        phi, W = rng.normal(size=(2, 2)), rng.uniform(-0.5, 0.5, (2, 1))
        one, other = policy.decide(phi, W), again.decide(phi, W)
        assert one.action == other.action
        policy.learn(one, 0.5)
        again.learn(other, 0.5)
    # An empty memory is no obstacle to a solve.
    policy.hooks.forget_inputs(range(policy.rounds))
    for _ in range(40):
        policy.decide(rng.normal(size=(2, 2)), [[0.1], [-0.1]])


# Both keep the rule, and find the price


@pytest.mark.parametrize("kind", BOTH)
def test_the_rule_is_kept_and_the_price_is_found(kind):
    policy = kind(tr.ArmMeans(2), n_constraints=1)
    totals = played(policy, 3000)
    assert (totals[300:] <= 0).mean() > 0.99
    assert totals[-1] > -60
    assert policy.hooks.dual()[0] == pytest.approx(0.8 / 0.5, rel=0.25)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_constraints": 0}, "n_constraints must be a whole number >= 1"),
        ({"explore": -1.0}, "explore must be finite and >= 0"),
        ({"cost_range": [[0.0, 1.0]] * 3}, "cost_range"),
        ({"reward": 3}, "reward must be a model"),
        ({"cost": 3}, "cost must be a model"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_bad_settings_are_refused(kind, changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        kind(**{"reward": tr.ArmMeans(2), "n_constraints": 2, **changes})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LagrangianThompson(tr.ArmMeans(2), n_constraints=1, step=-1.0), "step must be finite"),
        (lambda: LagrangianThompson(tr.ArmMeans(2), n_constraints=1, margin=math.nan), "margin must be"),
        (lambda: LPThompson(tr.ArmMeans(2), n_constraints=1, caution=-1.0), "caution must be finite"),
        (lambda: LPThompson(tr.ArmMeans(2), n_constraints=1, memory=0), "memory must be a whole number >= 1"),
    ],
)
def test_bad_settings_of_one_are_refused(make, message):
    with pytest.raises(tr.InvalidInput, match=message):
        make()
