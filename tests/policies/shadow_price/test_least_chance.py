"""`least_chance=`: exact probabilities, every action that takes no total above zero has its part, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

import tightrope as tr
from shadow_tools import SETTINGS, J, Setting, actions, equal_states, play, rounds
from tightrope.kernels import shadow_trace
from tightrope.policies.hooks import restored
from tightrope.policies.shadow_price.explain import n_constraints, parts, value_probabilities

LEAST = 0.3


def marks_of(decision):
    return decision.trace[slice(*shadow_trace.trace_parts(J, n_constraints(decision.trace, J))[3:5])]


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("guard", [False, True])
def test_probabilities_are_the_least_ones_plus_the_rest_of_the_policys_own(name, guard):
    setting = Setting(name, least_chance=LEAST, guard=guard)
    shared = 0
    for decision in play(setting.make(), setting, 60):
        marks, p = marks_of(decision), decision.probabilities
        n = np.count_nonzero(marks < 1.0) - np.count_nonzero(marks == 0.0)
        shared += n > 1
        own = value_probabilities(decision.trace, J, decision.sampling)
        least = np.where((marks > 0.0) & (marks < 1.0), LEAST / max(n, 1), 0.0)
        np.testing.assert_allclose(p, least + (1.0 - LEAST * (n > 0)) * own, rtol=1e-12, atol=1e-15)
        assert p.sum() == pytest.approx(1.0, abs=1e-6)
        assert (p >= least).all()
        assert (p[marks == 0.0] == 0.0).all()
        assert decision.probability == p[decision.row] > 0.0
    assert shared > 20


@pytest.mark.parametrize("name", ["before", "disjoint", "after", "rules", "mixed", "members, after", "gaps"])
def test_it_is_shared_by_the_actions_that_take_no_total_above_zero(name):
    """By the numbers behind each decision; a cost that is not known counts a standard deviation more, so not all that fit share."""
    setting = Setting(name, least_chance=LEAST)
    left_out = []
    for decision in play(setting.make(), setting, 150):
        seen, marks = parts(decision.trace, J), marks_of(decision)
        after = seen["total"] + seen["costs"]
        fits = ((seen["costs"] <= 0.0) | (after <= 0.0)).all(axis=1)
        sharing = (marks > 0.0) & (marks < 1.0)
        assert not (sharing & ~fits).any()
        if not setting.late:
            assert (sharing == fits).all()
        left_out += [~sharing.all()]
    assert 0 < sum(left_out) < 150


@pytest.mark.parametrize("name", ["before", "after", "rules", "members", "members, linear costs", "gaps"])
def test_draws_are_as_often_as_their_probabilities_say(name):
    """Copies with other seeds in the same state, which choose on the same offer; a round without a solve, which would draw too."""
    setting = Setting(name, least_chance=LEAST)
    policy = setting.make()
    play(policy, setting, 43)
    x, W, _ = list(rounds(0, 44))[43]
    offer = setting.offer(x, W, 43)
    proposed = policy.propose(**offer)
    expected, n = proposed.probabilities, 4000
    twin = restored(type(policy), policy.hooks.settings(), policy.hooks.state())
    found = np.zeros(J)
    for seed in range(n):
        twin._prices.seed = np.uint64(seed)
        found[twin.propose(**offer).row] += 1
    likely = expected * n > 5.0
    assert likely.sum() >= 2
    assert found[expected == 0.0].sum() == 0
    counts = [*found[likely], found[~likely].sum()]
    chances = [*expected[likely], expected[~likely].sum()]
    if chances[-1] * n < 1.0:
        assert counts.pop() <= 8
        chances.pop()
    chances = np.array(chances) / np.sum(chances)
    assert chisquare(counts, chances * np.sum(counts)).pvalue > 1e-4


@pytest.mark.parametrize("name", SETTINGS)
def test_proposals_files_and_followed_actions_know_it(name, tmp_path):
    setting = Setting(name, least_chance=LEAST)
    policy = setting.make()
    play(policy, setting, 30)
    policy.save(tmp_path / "policy")
    twin = tr.load(tmp_path / "policy")
    assert twin.hooks.settings()["least_chance"] == LEAST
    by_value = 0
    for t, (x, W, r) in enumerate(rounds(1, 40)):
        offer = setting.offer(x, W, t)
        proposed = policy.propose(**offer)
        quote = twin.quote(**offer)
        made = policy.decide(**offer), twin.commit(quote, quote.proposed.action)
        for decision in made:
            assert decision.row == proposed.row
            np.testing.assert_array_equal(decision.probabilities, proposed.probabilities)
        values = np.where(marks_of(made[0]) > 0.0, parts(made[0].trace, J)["values"], -np.inf)
        by_value += proposed.row == np.argmax(values)
        for one, decision in zip((policy, twin), made):
            one.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
    assert equal_states(policy.hooks.state(), twin.hooks.state())
    assert by_value < 40, "some are drawn whatever their value"


@pytest.mark.parametrize("name", ["before", "disjoint", "after", "disjoint, after", "rules", "mixed"])
def test_the_fast_path_draws_the_same(name):
    setting = Setting(name, least_chance=LEAST)
    fast, slow = setting.make(), setting.make()
    for t, (x, W, r) in enumerate(rounds(7, 80)):
        offer = setting.offer(x, W, t)
        slow._fast = None
        made = fast.decide(**offer), slow.decide(**offer)
        slow._fast = None
        np.testing.assert_array_equal(made[0].trace, made[1].trace)
        for policy, decision in zip((fast, slow), made):
            policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
        assert made[0].row == made[1].row
    assert equal_states(fast.hooks.state(), slow.hooks.state())


def test_a_rule_without_room_leaves_the_draw_to_the_policy():
    """Every action costs: none may be tried for its own sake, and probabilities are the policy's own."""
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1, least_chance=0.5)
    twin = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
    for _ in range(30):
        made = [one.decide(costs=[[0.2], [0.4]]) for one in (policy, twin)]
        np.testing.assert_array_equal(made[0].trace, made[1].trace)
        for one, decision in zip((policy, twin), made):
            one.learn(decision, float(decision.action))
    assert actions(made[:1]) == actions(made[1:])


def test_a_chance_too_small_to_share_is_none():
    policy = tr.ShadowPrice(reward=tr.ArmMeans(4), least_chance=5e-324)
    decision = policy.decide()
    assert (marks_of(decision) == 1.0).all()
    assert decision.probabilities.sum() == pytest.approx(1.0)


def test_rules_still_hold_and_little_is_lost():
    """The extra draws' costs count like all others, so that prices make up for them."""
    env = tr.environments.bandit(threshold=0.5, costs_seen="after")
    made = {"constraints": 1, "reward": tr.ArmMeans(4), "cost": tr.ArmMeans(4)}
    without, least = (
        tr.simulate(tr.ShadowPrice(**made, least_chance=one), env, rounds=4000, replications=8, seed=3)
        for one in (0.0, 0.05)
    )
    assert (least.cost[:, -1] <= 0.0).all()
    share = least.reward[:, -1].sum() / without.reward[:, -1].sum()
    assert 0.95 < share < 1.0


def test_a_gpu_refuses_it_by_name():
    policy = tr.ShadowPrice(reward=tr.Ridge(3), constraints=2, least_chance=0.01)
    env = tr.environments.synthetic(contexts=5, actions=2, features=3, constraints=2, slater=0.2)
    with pytest.raises(tr.InvalidInput, match="set least_chance to 0, or use engine='cpu'"):
        tr.simulate(policy, env, rounds=10, engine="gpu")
