"""What is behind a decision: probabilities against draws of the policy itself, numbers that add up, prices in words."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from shadow_tools import SETTINGS, J, K, Setting, play, rounds
from tightrope.policies.hooks import restored
from tightrope.policies.shadow_price.explain import parts, price_words
from tightrope.rules import Units


@pytest.mark.parametrize(
    "name",
    ["before", "after", "arms, after", "rules", "members", "members, linear costs", "gaps", "gaps, after"],
)
@pytest.mark.parametrize("guard", [False, True])
def test_probabilities_are_those_of_the_policys_own_draws(name, guard):
    """Copies with other seeds in the same state, which choose on the same offer; a round without a solve, which would draw too."""
    setting = Setting(name, guard=guard)
    policy = setting.make()
    play(policy, setting, 5)
    x, W, _ = list(rounds(0, 6))[5]
    offer = setting.offer(x, W, 5)
    expected = policy.propose(**offer).probabilities
    n = 3000
    settings, state = policy.hooks.settings(), policy.hooks.state()
    twin, found = restored(type(policy), settings, state), np.zeros(J)
    for seed in range(n):
        twin._prices.seed = np.uint64(seed)
        found[twin.propose(**offer).row] += 1
    error = np.sqrt(expected * (1 - expected) / n)
    assert (np.abs(found / n - expected) <= 5.0 * error + 1e-6).all()
    assert expected.max() < 0.999 or guard


@pytest.mark.parametrize("name", SETTINGS)
def test_the_numbers_add_up(name):
    setting = Setting(name)
    policy = setting.make()
    for decision in play(policy, setting, 20):
        why = decision.explain()
        np.testing.assert_allclose(why.values, why.rewards - why.penalties.sum(axis=1), atol=1e-9)
        np.testing.assert_allclose(why.probabilities, decision.probabilities, atol=1e-12)
        drawn = parts(decision.trace, J)
        allowed = np.flatnonzero(drawn["allowed"])
        if not name.startswith("gaps"):
            assert decision.row == allowed[np.argmax(drawn["values"][allowed])]
        rows = why.rows()
        assert sum(row["chosen"] for row in rows) == 1
        assert sum(row["probability"] for row in rows) == pytest.approx(1.0, abs=1e-6)


def test_prices_are_told_in_words_and_in_the_rules_own_units():
    rules = tr.Rules([tr.Budget("hours", at_most=4.0, range=(0.0, 10.0))], actions=["a", "b"])
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=rules)
    rng = np.random.default_rng(0)
    for _ in range(400):
        decision = policy.decide(usage={"hours": [8.0, 1.0]})
        policy.learn(decision, (3.0, 1.0)[decision.action] + 0.1 * rng.normal())
    # One more hour a round buys 1/7 of the better action, which is worth 2 more.
    assert policy.prices[0] == pytest.approx(2.0 / 7.0, rel=0.15)
    assert policy.hooks.dual()[0] == pytest.approx(policy.prices[0] * rules.columns[0].rule.scale)
    (line,) = decision.explain().words
    assert line.startswith(f"price of {rules.names[0]} 0.")
    assert line in str(decision.explain())


def test_the_parts_of_a_price_add_up_in_words():
    seen = {
        name: np.array([value])
        for name, value in zip(("price", "shadow", "correction", "total"), (0.5, 0.3, 0.1, -8.0))
    }
    assert price_words(seen, Units(np.array([2.0]), np.ones(1)), ["x"]) == (
        "price of x 0.25: shadow price 0.15, correction 0.05, running total 0.05 (total -16)",
    )


def test_many_prices_are_cut_short():
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=9)
    text = str(policy.decide(costs=np.ones((2, 9))).explain())
    assert "3 more prices" in text


def test_without_caution_there_is_no_wall_to_explain():
    setting = Setting("before", caution=0.0)
    policy = setting.make()
    why = play(policy, setting, 30)[-1].explain()
    assert (why.extra == 0.0).all()
    assert why.penalties.shape == (J, K)
