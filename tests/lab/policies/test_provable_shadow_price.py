"""ProvableShadowPrice against its definition, the promises of its ratchet and its guard, and the program behind its prices."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from policy_tools import unwatched
from tightrope import lp
from tightrope.environments.build import policies_of
from tightrope.errors import InvalidInput
from tightrope.policies.hooks import restored
from tightrope.spec import make_spec
from tightrope.testing import PolicySuite
from tightrope_lab import theory
from tightrope_lab.policies import provable_shadow_price as module
from tightrope_lab.policies.lp_thompson import RememberedProgram
from tightrope_lab.policies.provable_shadow_price import ProvableShadowPrice

# The dual is flat between prices of 0.6 and 1.2: there the choice does not change, and totals are a free random walk.
FLAT = tr.environments.Tabular(
    [0.5, 0.5],
    rewards=[[0.6, 0.0, 0.9]] * 2,
    costs=[[[0.5], [0.0], [1.0]], [[-0.5], [-1.0], [0.0]]],
    name="flat",
)
LINEAR = tr.environments.synthetic(contexts=6, actions=4, features=3, constraints=2, slater=0.2)


def known_rewards(rewards) -> tr.ArmMeans:
    """Means that are as good as known, and no exploration."""
    model = tr.ArmMeans(len(rewards), bonus=0.0)
    for j, reward in enumerate(rewards):
        model.learn(None, reward, j)
    model.counts *= 1e9
    model.sums *= 1e9
    return model


def play(policy, env, T, seed=0):
    """The totals after each round."""
    rng = np.random.default_rng(seed)
    contexts = rng.choice(env.n_contexts, T, p=env.weights)
    totals = np.empty((T, env.n_constraints))
    for t, c in enumerate(contexts):
        offer = {"costs": env.costs[c]}
        if env.features is not None:
            offer["features"] = env.features[c]
        decision = policy.decide(**offer)
        policy.learn(decision, float(env.rewards[c, decision.action]))
        totals[t] = policy.totals
    return totals


class TestSuite(PolicySuite):
    strict = True

    def make(self):
        return ProvableShadowPrice(tr.Ridge(3), n_constraints=1, memory=24)


class TestSuiteWithAGuard(PolicySuite):
    strict = True

    def make(self):
        return ProvableShadowPrice(tr.ArmMeans(3), n_constraints=1, guard=True, memory=24)

    def environment(self):
        return FLAT


# The steps


def test_it_decides_by_the_stated_formulas():
    policy, bonus = ProvableShadowPrice(tr.Ridge(3, bonus=0.2), n_constraints=2, seed=4), 0.2
    rng = np.random.default_rng(1)
    A, B, S = np.eye(3), np.zeros(3), np.zeros(2)
    m, ready, solves, n = np.zeros(2), 100, 0, 300
    for t in range(1, n + 1):
        c = rng.integers(6)
        phi, W = LINEAR.features[c], np.clip(LINEAR.costs[c] + (0.1 if t < 130 else 0.8), -1.0, 1.0)
        inverse = np.linalg.inv(A)
        radius = bonus * theory.radius(t - 1, d=3, T=t)
        upper = np.clip(
            phi @ inverse @ B + radius * np.sqrt(np.einsum("jp,pq,jq->j", phi, inverse, phi)), 0, 1
        )
        before = policy.prices
        decision = policy.decide(phi, W)
        p = policy.prices
        if not np.array_equal(p, before):
            assert t in (32, 64, 128, 256)
            solves += 1
        rate = np.maximum(0.0, p + (S + 2 * t**0.25 + m * 0.5 * math.sqrt(t)) / (0.5 * math.sqrt(t)))
        values = upper - W @ rate
        assert decision.action == int(np.argmax(values))
        np.testing.assert_allclose(decision.explain().values, values, atol=1e-9)
        S = S + W[decision.action]
        np.testing.assert_allclose(policy.totals, S, atol=1e-12)
        m, ready = theory.Ratchet().step(t, S, m, ready)
        np.testing.assert_array_equal(policy.raised, m)
        reward = float(rng.random() < 0.5)
        policy.learn(decision, reward)
        A += np.outer(phi[decision.action], phi[decision.action])
        B += reward * phi[decision.action]
    assert solves >= 3
    assert m.max() > 0  # in the end nothing is safe, so that the ratchet had to act


def test_prices_are_those_of_the_program_on_the_rounds_before():
    policy = ProvableShadowPrice(known_rewards([0.6, 0.1, 0.9]), n_constraints=2)
    rng = np.random.default_rng(5)
    rounds = rng.uniform(-1, 1, (64, 3, 2))
    rounds[:, 1] -= 0.6
    rounds = rounds.clip(-1, 1)
    for W in rounds:
        policy.decide(costs=W)
    # Solved in round 64, from the 63 before it.
    W, offsets = rounds[:63].reshape(-1, 2), np.arange(0, 190, 3)
    rewards = np.tile([0.6, 0.1, 0.9], 63)

    def gap(margin):
        optimum = lp.allocation(np.full(63, 1 / 63), rewards, W, offsets=offsets, epsilon=margin)
        tops = (rewards - W @ policy.prices).reshape(63, 3).max(axis=1).mean()
        return tops - policy.prices @ margin - optimum.value

    free, deviation = RememberedProgram(rewards, W, offsets, 20.0).solve(np.zeros(2), np.zeros(2))
    chosen = W.reshape(63, 3, 2)[np.arange(63), (rewards - W @ free).reshape(63, 3).argmax(axis=1)]
    np.testing.assert_allclose(deviation, chosen.std(axis=0), atol=0.05)
    margin = 2.0 * deviation / math.sqrt(63)
    assert margin.min() > 0.05
    assert gap(margin) == pytest.approx(0.0, abs=2e-3)
    assert gap(np.zeros(2)) > 5e-3


def test_a_price_has_not_seen_its_own_round():
    policy, other = (ProvableShadowPrice(known_rewards([0.6, 0.1]), n_constraints=1) for _ in range(2))
    rng = np.random.default_rng(0)
    for W in rng.uniform(-1, 1, (63, 2, 1)):
        policy.decide(costs=W)
        other.decide(costs=W)
    policy.decide(costs=[[1.0], [1.0]])
    other.decide(costs=[[-1.0], [0.5]])
    np.testing.assert_array_equal(policy.prices, other.prices)
    assert policy.prices[0] > 0


def test_a_proposal_in_a_round_with_a_solve_changes_nothing():
    policy = ProvableShadowPrice(known_rewards([0.6, 0.1]), n_constraints=1)
    rng = np.random.default_rng(0)
    for W in rng.uniform(-1, 1, (63, 2, 1)):
        policy.decide(costs=W)
    before = policy.hooks.state()
    proposed = policy.propose(costs=[[0.5], [-0.5]])
    assert all(np.array_equal(array, policy.hooks.state()[name]) for name, array in before.items())
    assert policy.decide(costs=[[0.5], [-0.5]]).explain().values == pytest.approx(proposed.explain().values)


def test_every_round_is_remembered_equally_often():
    T, runs = 40, 400
    seen = np.zeros(T)
    for seed in range(runs):
        policy = ProvableShadowPrice(known_rewards([0.5]), n_constraints=1, memory=8, seed=seed)
        for t in range(T):
            policy.decide(costs=[[-t / T]])
        kept = [round(-float(W[0]) * T) for W in policy.hooks.state()["memory/costs"]]
        assert len(set(kept)) == 8
        seen[kept] += 1
    # 80 ± 8 of 400; a deviation of five has a probability below 1e-5 for all forty together.
    assert np.all(np.abs(seen - runs * 8 / T) < 5 * math.sqrt(runs * 0.2 * 0.8))


def test_prices_stay_below_their_cap():
    rng = np.random.default_rng(3)
    policy = ProvableShadowPrice(known_rewards([0.9, 0.1]), n_constraints=3, price_cap=0.5)
    most = 0.0
    for W in rng.uniform(-0.5, 1.0, (300, 2, 3)):  # can't be met
        policy.decide(costs=W)
        most = max(most, policy.prices.sum())
        assert policy.prices.sum() <= 0.5 + 1e-12
    assert most == pytest.approx(0.5)


def test_offers_that_change_and_sleep():
    policy, rng = ProvableShadowPrice(tr.Ridge(2), n_constraints=1, memory=30), np.random.default_rng(0)
    for _ in range(150):
        J = int(rng.integers(1, 6))
        decision = policy.decide(rng.uniform(0, 0.7, (J, 2)), rng.uniform(-1, 1, (J, 1)))
        policy.learn(decision, float(rng.random()))
    twin = restored(type(policy), policy.hooks.settings(), policy.hooks.state())
    for name, array in policy.hooks.state().items():
        np.testing.assert_array_equal(array, twin.hooks.state()[name])
    offer = rng.uniform(0, 0.7, (3, 2)), rng.uniform(-1, 1, (3, 1))
    assert policy.decide(*offer).explain().values.tolist() == twin.decide(*offer).explain().values.tolist()


# What is promised


@unwatched  # without the ratchet a total stays above zero for long
@pytest.mark.parametrize("price", [0.0, 0.6])
def test_the_ratchet_ends_violations_in_the_flat_world(price, monkeypatch):
    # Prices are held at the low end of the dual set, or below it, where any small buffer fails.
    T, broken = 6000, {}
    for name, rule in (("ratchet", theory.Ratchet()), ("none", theory.Ratchet(t0=10**9))):
        monkeypatch.setattr(module, "RULE", rule)
        totals = [
            play(
                ProvableShadowPrice(known_rewards([0.6, 0.0, 0.9]), n_constraints=1, price_cap=price),
                FLAT,
                T,
                seed,
            )
            for seed in range(3)
        ]
        broken[name] = np.mean([(S > 1e-9).sum() for S in totals])
    assert broken["none"] > 300
    assert broken["ratchet"] < 0.1 * broken["none"]


def test_prices_are_broken_upwards_in_the_flat_world(monkeypatch):
    T = 3000
    broken = {}
    monkeypatch.setattr(module, "RULE", theory.Ratchet(t0=10**9))
    for errors in (0.0, 2.0):
        monkeypatch.setattr(module, "STANDARD_ERRORS", errors)
        policies = [ProvableShadowPrice(known_rewards([0.6, 0.0, 0.9]), n_constraints=1) for _ in range(3)]
        totals = [play(policy, FLAT, T, seed) for seed, policy in enumerate(policies)]
        broken[errors] = np.mean([(S > 1e-9).sum() for S in totals])
        if errors:
            assert all(0.6 < policy.prices[0] <= 1.3 for policy in policies)
    assert broken[2.0] <= broken[0.0]


def test_the_guard_keeps_every_total_at_or_below_zero_in_every_round():
    # With a price that is too low, so that the guard has to act.
    policy = ProvableShadowPrice(known_rewards([0.6, 0.0, 0.9]), n_constraints=1, price_cap=0.0, guard=True)
    assert not len(theory.rounds_without_safe_action(FLAT.costs))
    totals = play(policy, FLAT, 2000)
    assert totals.max() <= 0
    free = ProvableShadowPrice(known_rewards([0.6, 0.0, 0.9]), n_constraints=1, price_cap=0.0)
    assert play(free, FLAT, 2000).max() > 1


def test_where_nothing_is_safe_the_guard_takes_the_least_excess():
    policy = ProvableShadowPrice(known_rewards([0.9, 0.5, 0.1]), n_constraints=2, guard=True)
    assert policy.decide(costs=[[0.5, -1.0], [0.2, 0.2], [0.3, 0.0]]).action == 1
    assert policy.decide(costs=[[-0.9, 0.0], [-0.2, -0.2], [0.3, 0.0]]).action == 1  # totals are 0.2 and 0.2


def test_it_learns_and_keeps_the_rules():
    policy = ProvableShadowPrice(tr.Ridge(3, bonus=0.1), n_constraints=2)
    run = tr.simulate(policy, LINEAR, 3000, 2, seed=4, workers=1, record=[1500])
    optimum = tr.solve(LINEAR).value
    early, late = 1500 * optimum - run.reward[:, 0], 1500 * optimum - (run.reward[:, 1] - run.reward[:, 0])
    assert late.mean() < 0.75 * early.mean()
    assert late.mean() < 0.06 * 1500 * optimum
    assert np.all(run.cost[:, -1] <= 0)


class TestGuarantees:
    def test_without_a_guard(self):
        promises = ProvableShadowPrice(tr.Ridge(3), n_constraints=2).guarantees()
        assert list(promises) == [
            "finitely many rounds are in violation",
            "regret of order √T up to logarithms",
        ]
        assert "-δ or below" in promises["finitely many rounds are in violation"]

    def test_in_numbers(self):
        policy = ProvableShadowPrice(tr.Ridge(3), n_constraints=2, price_cap=3.0)
        found = theory.ratchet_promise(K=2, delta=0.25, price_bound=3.0, q=0.05)
        assert found.m_star == 8 * 4 / 0.25
        promises = policy.guarantees(delta=0.25, q=0.05)
        assert any(f"at most {found.raises} times" in promise for promise in promises)
        assert any("probability 0.95" in condition for condition in promises.values())

    def test_with_the_guard_no_regret_is_promised(self):
        """The proof compares with the best action by prices, which the guard may forbid."""
        for delta in (None, 0.25):
            policy = ProvableShadowPrice(tr.ArmMeans(3), n_constraints=1, guard=True)
            assert not any("regret" in promise for promise in policy.guarantees(delta=delta))

    def test_the_waiting_time_is_told(self):
        policy = ProvableShadowPrice(tr.ArmMeans(3), n_constraints=1)
        found = theory.ratchet_promise(K=1, delta=0.1, price_bound=20.0)
        # (K m²/v)² and as much again for m = 2 · 8(1 + 20)/0.1 and v = ½: far beyond any run.
        assert found.longest_wait == pytest.approx(2 * (3360.0**2 / 0.5) ** 2, rel=0.01)
        assert found.longest_wait > 1e14
        said = f"{found.longest_wait:.1e}"
        assert said in policy.guarantees()["finitely many rounds are in violation"]
        assert any(said in condition for condition in policy.guarantees(delta=0.1).values())

    def test_the_guards_condition_is_looked_up(self):
        policy = ProvableShadowPrice(tr.ArmMeans(3), n_constraints=1, guard=True)
        certain = "totals at or below zero in every round"
        assert policy.guarantees()[certain].endswith("no cost above zero")
        assert "which is so here" in policy.guarantees(problem=FLAT.problem())[certain]
        costs = FLAT.costs + 0.25
        unsafe = tr.environments.Tabular([0.5, 0.5], rewards=FLAT.rewards, costs=np.minimum(costs, 1.0))
        told = policy.guarantees(problem=unsafe.problem())[certain]
        assert "1 of 2 contexts offer none, context 0 for one" in told
        random = tr.environments.Tabular(
            [1.0],
            rewards=[[0.5, 0.5, 0.5]],
            costs=[[[0.1], [0.1], [-0.1]]],
            cost_noise="gaussian",
            cost_scale=0.1,
        )
        assert "do not tell" in policy.guarantees(problem=random.problem())[certain]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_constraints": 0}, "n_constraints must be"),
        ({"horizon": 0}, "horizon must be"),
        ({"guard": 1}, "guard must be true or false"),
        ({"memory": 0}, "memory must be"),
        ({"price_cap": -1.0}, "price_cap must"),
        ({"seed": -1}, "seed must"),
        ({"reward": None}, "reward must be a model"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(tr.InvalidInput, match=message):
        ProvableShadowPrice(**{"reward": tr.Ridge(2), "n_constraints": 1, **changes})


def test_costs_are_needed_and_refused_where_they_are_out_of_range():
    policy = ProvableShadowPrice(tr.ArmMeans(2), n_constraints=1)
    with pytest.raises(tr.InvalidInput, match=r"^costs are missing"):
        policy.decide()
    with pytest.raises(tr.InvalidInput, match="costs"):
        policy.decide(costs=[[0.5], [1.5]])
    assert policy.rounds == 0
    assert not policy.hooks.state()["memory/ids"].size


def test_it_asks_for_costs_seen_before_acting():
    env = tr.environments.bandit(threshold=0.5)
    assert any(
        "seen after" in why
        for why in env.problem().misfits(ProvableShadowPrice(tr.ArmMeans(4), n_constraints=1))
    )


class TestItJoinsTheProduct:
    def test_by_an_entry_point(self):
        assert tr.policies.ProvableShadowPrice is ProvableShadowPrice
        assert "ProvableShadowPrice" in dir(tr.policies)
        assert tr.policies.POLICIES.find("provable-shadow-price") is ProvableShadowPrice

    def test_where_the_laboratory_is_not_installed_the_remedy_is_named(self, monkeypatch, tmp_path):
        saved = tmp_path / "policy"
        ProvableShadowPrice(tr.ArmMeans(2), n_constraints=1).save(saved)
        monkeypatch.delitem(tr.policies.POLICIES, "provable-shadow-price")
        monkeypatch.setattr("tightrope.registry.entry_points", lambda group: ())
        with pytest.raises(AttributeError, match="pip install tightrope-lab"):
            _ = tr.policies.ProvableShadowPrice
        missing = "policy 'provable-shadow-price' is not installed: pip install tightrope-lab"
        spec = make_spec({"environment": {"kind": "bandit"}, "policy": {"kind": "provable-shadow-price"}})
        with pytest.raises(InvalidInput, match=f"kind: {missing}"):
            policies_of(spec, tr.environments.bandit())
        with pytest.raises(InvalidInput, match=f"^{saved}: {missing}"):
            tr.load(saved)
