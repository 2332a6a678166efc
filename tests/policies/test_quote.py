"""`decide` is `quote` and `commit`, to the bit: a quote changes nothing, and is made again from the state."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import SETTINGS, J, Setting, rounds
from tightrope.offer import Offer, OfferReader
from tightrope.policies import Lagrangian
from tightrope.policies.hooks import restored
from tightrope_lab.policies.lp_thompson import LPThompson

PHI = np.random.default_rng(0).uniform(0.1, 0.4, (J, 3))


def states_equal(one, other):
    found, expected = one.hooks.state(), other.hooks.state()
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("name", SETTINGS)
def test_decide_is_quote_and_commit(name):
    """Through solves, memory and the compiled path: by one call, by two, and by two on a policy that was restored in between."""
    setting = Setting(name)
    whole, halves = setting.make(), setting.make()
    for t, (x, W, r) in enumerate(rounds(0, 40)):
        offer = setting.offer(x, W, t)
        quote = halves.quote(**offer)
        again = restored(type(halves), halves.hooks.settings(), halves.hooks.state()).propose(**offer)
        one, other = whole.decide(**offer), halves.commit(quote)
        for seen in (quote.proposed, again, other):
            assert (seen.action, seen.row, seen.number) == (one.action, one.row, one.number)
            same(seen.trace, one.trace)
        states_equal(halves, whole)
        for policy, decision in ((whole, one), (halves, other)):
            policy.learn(decision, float(r[one.row]), **setting.outcome(W, one.row, t))


def paper():
    return tr.PessimisticOptimistic(reward=tr.Ridge(3), constraints=1, slater=0.1, horizon=100)


MAKERS = {
    "pessimistic-optimistic": paper,
    "lagrangian": lambda: Lagrangian(tr.Ridge(3), n_constraints=1),
    "lp-ts": lambda: LPThompson(tr.Ridge(3), n_constraints=1),
    "shadow-price": lambda: tr.ShadowPrice(reward=tr.Ridge(3), constraints=1),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_every_policy_quotes_and_commits(make):
    rng = np.random.default_rng(1)
    whole, halves = make(), make()
    for _ in range(20):
        W = rng.uniform(-0.5, 0.4, (J, 1))
        quote = halves.quote(PHI, W)
        one, other = whole.decide(PHI, W), halves.commit(quote)
        same(one.trace, other.trace)
        for policy, decision in ((whole, one), (halves, other)):
            policy.learn(decision, 0.5)
        states_equal(halves, whole)


def test_what_someone_else_has_chosen_counts_in_its_place(make):
    policy, W = make(), np.array([[-0.1], [-0.2], [-0.3], [0.4]])
    for action in (2, 0):
        decision = policy.commit(policy.quote(PHI, W), action)
        assert decision.action == action
        policy.learn(decision, 1.0)
    assert policy.totals == pytest.approx([-0.4])
    with pytest.raises(tr.InvalidInput, match="action 9 is not among"):
        policy.commit(policy.quote(PHI, W), 9)
    assert policy.rounds == 2


def test_a_quote_of_a_state_that_is_past_is_refused(make):
    policy, other, W = make(), make(), np.full((J, 1), -0.1)
    quote, decision = policy.quote(PHI, W), policy.decide(PHI, W)
    for change in (lambda: None, lambda: policy.learn(decision, 0.5)):
        change()
        with pytest.raises(tr.InvalidInput, match="quote again"):
            policy.commit(quote)
        quote = policy.quote(PHI, W)
        policy.commit(quote)
    with pytest.raises(tr.InvalidInput, match="another policy"):
        other.commit(policy.quote(PHI, W))


def test_a_decision_carries_the_version_of_its_state_which_is_saved_with_it(make, tmp_path):
    policy, W = make(), np.full((J, 1), -0.1)
    changes = [
        lambda: policy.decide(PHI, W),
        lambda: policy.learn(0, 0.5),
        lambda: policy.forget(policy.decide(PHI, W)),
        lambda: policy.hooks.forget_inputs([0]),
        lambda: policy.hooks.roll_back(policy.hooks.state(), learnt_only=False),
    ]
    seen = [policy.quote(PHI, W).version]
    for change in changes:
        change()
        seen.append(policy.quote(PHI, W).version)
    assert seen == sorted(set(seen))
    quote = policy.quote(PHI, W)
    policy.save(tmp_path / "policy")
    again = tr.load(tmp_path / "policy")
    assert policy.commit(quote).version == quote.version == again.quote(PHI, W).version
    assert again.commit(quote).action == quote.proposed.action


def test_an_offer_keeps_all_that_a_round_brings():
    reader = OfferReader(tr.ArmMeans(2), None, 0, np.zeros(0, dtype=bool))
    offer = reader.offer(keys={"user": "u17"}, time=3.0)
    assert (offer.keys, offer.time) == ({"user": "u17"}, 3.0)
    with pytest.raises(AttributeError):
        offer.time = 4.0
    quote = tr.ShadowPrice(reward=tr.ArmMeans(2)).quote(offer)
    assert quote.offer is offer
    assert isinstance(offer, Offer)
