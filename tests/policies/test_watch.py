"""What any policy is watched for: when it is looked at, what is told and how often, and that nothing is told without a reason."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tightrope as tr
from tightrope.policies import watch


class Stubborn(tr.policies.Policy):
    """The same action in every round, whatever it costs."""

    def __init__(self, n_actions, *, n_constraints, action=0):
        self._n_actions, self._n_constraints, self.action = n_actions, n_constraints, action
        self._sees_costs = n_constraints > 0
        self._reward = tr.ArmMeans(n_actions)

    def _choose(self, offer):
        row = int(np.flatnonzero(offer.ids == self.action)[0])
        return tr.policies.Choice(row, np.zeros(len(offer.ids)), np.zeros(len(offer.ids)))


def run(policy, rounds, learn=True, **offer):
    """What was told, as (number of the decision, kind)."""
    told = []
    policy.hooks.report_to(lambda concern: told.append((policy.rounds, concern.kind)))
    for _ in range(rounds):
        decision = policy.decide(**offer)
        if learn:
            policy.learn(decision, 0.5)
    return told


@pytest.mark.parametrize("plain", [True, False], ids=["fast path", "careful way"])
def test_totals_are_looked_at_before_every_64th_decision_and_all_else_when_their_number_has_doubled(plain):
    looks, whole = [], []
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
    look = policy._look
    policy._look = lambda: (looks.append(policy.rounds), look())
    concerns = policy.concerns
    policy.concerns = lambda: whole.append(policy.rounds) or concerns()
    costs = [[0.5], [-0.5]]
    run(policy, 2100, costs=np.array(costs) if plain else costs)
    assert looks == list(range(64, 2100, 64))
    assert whole == [512, 1024, 2048]
    assert [watch.next_look(n) for n in (0, 63, 64, 1000)] == [64, 64, 128, 1024]
    assert [watch.next_whole_look(n) for n in (0, 511, 512, 1023, 1024)] == [512, 512, 1024, 1024, 2048]


@pytest.mark.parametrize("plain", [True, False], ids=["fast path", "careful way"])
@pytest.mark.parametrize("make", [tr.ShadowPrice, tr.PessimisticOptimistic])
def test_looking_changes_no_decision(make, plain):
    rng = np.random.default_rng(0)
    rows, costs = rng.normal(size=(8, 3, 2)) / 4, rng.uniform(-1.0, 0.5, size=(8, 3, 1))
    looked, left = (make(reward=tr.Ridge(2, bonus=0.1), constraints=1) for _ in range(2))
    left._look_at = 10**9
    for policy in (looked, left):
        policy.hooks.report_to(lambda concern: None)
    for i in range(1100):
        given = (rows[i % 8], costs[i % 8]) if plain else (rows[i % 8].tolist(), costs[i % 8].tolist())
        first, second = looked.decide(*given), left.decide(*given)
        assert first.action == second.action
        looked.learn(first, float(first.action)), left.learn(second, float(second.action))
    for name, array in looked.hooks.state().items():
        np.testing.assert_array_equal(array, left.hooks.state()[name])
    assert looked._look_at == 1152


def test_a_total_that_stays_above_zero_is_told_once_with_rule_round_and_amount():
    policy = Stubborn(2, n_constraints=2)
    told = run(policy, 2100, costs=[[0.25, -1.0], [-1.0, -1.0]])
    assert told.count((512, "total above zero")) == 1
    assert [kind for _, kind in told].count("total above zero") == 1
    [concern] = [one for one in policy.concerns() if one.kind == "total above zero"]
    assert concern.message == (
        "constraint 0: its total was above zero at every check from round 64 on; in round 2,100 it is 525, "
        "which is 0.25 per decision too much."
    )
    assert "shadow-price" in concern.remedy


@pytest.mark.parametrize("make", [tr.ShadowPrice, tr.PessimisticOptimistic])
def test_a_total_above_zero_in_all_of_1000_rounds_is_told_and_never_out_of_sight(make):
    """Both actions cost: no policy can help it. Between the powers of two, too."""
    policy = make(reward=tr.ArmMeans(2), constraints=1)
    told = run(policy, 600, costs=np.array([[0.5], [0.25]]))
    assert "total above zero" in [kind for _, kind in told]
    for _ in range(400):
        assert "total above zero" in [one.kind for one in policy.concerns()]
        policy.learn(policy.decide(costs=np.array([[0.5], [0.25]])), 0.5)


def test_totals_are_read_as_they_are_between_two_looks():
    policy = Stubborn(2, n_constraints=1)
    run(policy, 650, costs=[[0.25], [0.0]])
    assert "total above zero" in [one.kind for one in policy.concerns()]
    policy._ledger.sums[:] = -1.0
    assert policy.concerns() == []


def test_a_policy_that_was_loaded_is_watched_from_there_on(tmp_path):
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1, guard=True)
    run(policy, 5_000, costs=np.array([[0.5], [0.25]]))
    policy.save(tmp_path / "state")
    loaded = tr.load(tmp_path / "state")
    told = run(loaded, 700, costs=np.array([[0.5], [0.25]]))
    assert [n for n, kind in told if kind == "total above zero"] == [5_568]


def test_a_total_that_falls_below_zero_is_no_concern_any_more():
    policy = Stubborn(2, n_constraints=1)
    run(policy, 1500, costs=[[0.25], [0.0]])
    run(policy, 700, costs=[[-1.0], [0.0]])
    assert policy.totals[0] < 0
    assert not [one for one in policy.concerns() if one.kind == "total above zero"]


def test_a_small_total_is_no_concern():
    policy = Stubborn(2, n_constraints=1)
    run(policy, 3, costs=[[0.9], [0.0]])
    run(policy, 2100, costs=[[0.0], [0.0]])
    assert policy.totals[0] > 0
    assert not [one for one in policy.concerns() if one.kind == "total above zero"]


def test_an_action_without_an_outcome_is_named():
    policy = Stubborn(3, n_constraints=0, action=1)
    assert (1024, "action never tried") in run(policy, 1100)
    [concern] = policy.concerns()
    assert concern.message.startswith("No outcome of action 0 and 2 was ever seen in 1,100 rounds on offer")
    policy.learn(policy.commit(policy.quote(), 0), 0.1)
    pending = policy.commit(policy.quote(), 2)
    assert policy.concerns() == []
    policy.forget(pending)
    assert "action 2 " in policy.concerns()[0].message


def test_an_action_that_is_seldom_on_offer_is_no_concern():
    policy = Stubborn(3, n_constraints=0)
    run(policy, 1500, actions=[0, 2])
    run(policy, 600, actions=[1, 0])
    [concern] = policy.concerns()
    assert concern.message.startswith("No outcome of action 2 was ever seen in 1,500 rounds")


def test_where_all_actions_share_a_model_none_is_missed():
    policy = tr.ShadowPrice(reward=tr.Ridge(1), constraints=0)
    run(policy, 1100, features=[[1.0], [-1.0]])
    assert policy.concerns() == []


def test_costs_that_nobody_tells():
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=1)
    assert (512, "costs not seen") in run(policy, 600, learn=False)
    assert "The costs of 600 of 600 decisions" in policy.concerns()[0].message
    for number in list(policy.pending)[:400]:
        policy.learn(number, costs=[-0.5])
    assert "costs not seen" not in [one.kind for one in policy.concerns()]


def test_a_warning_as_an_error_leaves_the_state_as_it_was():
    policy = Stubborn(2, n_constraints=1)
    policy.hooks.pending.made = 1024
    policy._watch.since[:] = watch.FIRST_LOOK
    policy._ledger.sums[:] = 100.0
    before = policy.hooks.state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(tr.errors.PolicyWarning, match="constraint 0: its total"):
            policy.decide(costs=[[0.5], [0.0]])
        for name, array in before.items():
            np.testing.assert_array_equal(array, policy.hooks.state()[name])
        policy.decide(costs=[[0.5], [0.0]])
    assert policy.rounds == 1025


def test_a_policy_that_was_loaded_is_looked_at_again(tmp_path):
    rules = tr.Rules([tr.Share("a", at_least=0.6), tr.Budget("hours", at_most=0.3)], actions=["a", "b"])
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=rules)
    told = run(policy, 700, usage={"hours": [0.8, 0.1]})
    assert told == [(512, "rules that can't be met"), (512, "total above zero")]
    policy.save(tmp_path / "state")
    loaded = tr.load(tmp_path / "state")
    with pytest.warns(tr.errors.PolicyWarning, match="no choice of actions keeps this"):
        loaded.decide(usage={"hours": [0.8, 0.1]})


def test_the_readmes_example_raises_no_concern_with_the_default_policy_and_three_with_the_papers():
    rules = tr.Rules(
        [
            tr.Capacity("icu", at_most=0.2),
            tr.Share("icu", at_least=0.1),
            tr.Budget("nurse_hours", at_most=0.4),
        ],
        actions=["icu", "surgery", "other"],
    )
    told = {}
    for make in (tr.ShadowPrice, tr.PessimisticOptimistic):
        policy = make(reward=tr.DisjointRidge(3, 2), constraints=rules)
        said = told[make] = []
        policy.hooks.report_to(said.append)
        for patient in range(3000):
            x = [0.7, 0.7 * (patient % 2)]
            decision = policy.decide(x, usage={"nurse_hours": [1.0, 0.5, 0.2]})
            policy.learn(decision, reward=[0.9, 0.6, 0.5][decision.action])
    assert told[tr.ShadowPrice] == []
    kinds = [one.kind for one in told[tr.PessimisticOptimistic]]
    assert kinds == ["epsilon above every cost", "total above zero", "action never tried"]
    tight, total, untried = told[tr.PessimisticOptimistic]
    assert (
        "no action gives back more than 0.2, so the tightened rule can't be met before round 780"
        in tight.message
    )
    assert total.message.startswith("icu: at least 10% of decisions: its total was above zero")
    assert "more than the slack of 0.05 that some mix of actions leaves (slater)" in total.remedy
    assert "'surgery'" in untried.message
