"""The fast path of the shadow-price policy: the same decisions and the same state as by the careful one, whatever the input."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import D, J, K, Setting, equal_states, rounds
from tightrope.policies.shadow_price import fast_path


def forms(x):
    frozen = x.copy()
    frozen.flags.writeable = False
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    return {
        "read-only": frozen,
        "column by column": np.asfortranarray(x),
        "every other column": wide[..., ::2],
        "list": x.tolist(),
        "other byte order": x.astype(">f8"),
    }


def careful(policy):
    """The policy without its fast path."""
    policy._fast_known = policy._fast_late = policy._fast_learn = policy._by_usage = None
    policy._offers.clear()


@pytest.mark.parametrize("name", ["before", "disjoint", "after", "disjoint, after", "rules", "mixed"])
class TestSameAsCareful:
    def test_decisions_and_state(self, name):
        setting = Setting(name, memory=40)
        fast, slow = setting.make(), setting.make()
        used = 0
        for t, (x, W, r) in enumerate(rounds(7, 150)):
            offer = setting.offer(x, W, t)
            careful(slow)
            decisions = fast.decide(**offer), slow.decide(**offer)
            same(decisions[0].trace, decisions[1].trace)
            assert decisions[0].row == decisions[1].row
            used += bool(fast._offers)
            careful(slow)
            for policy, decision in zip((fast, slow), decisions):
                policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
        assert used > 140
        assert equal_states(fast.state(), slow.state())

    @pytest.mark.parametrize("form", forms(np.eye(2)))
    def test_every_form_of_input(self, name, form):
        setting = Setting(name)
        one, other = setting.make(), setting.make()
        for t, (x, W, r) in enumerate(rounds(7, 25)):
            offer = setting.offer(x, W, t)
            formed = {
                key: forms(value)[form] if isinstance(value, np.ndarray) else value
                for key, value in offer.items()
            }
            decisions = one.decide(**offer), other.decide(**formed)
            same(decisions[0].trace, decisions[1].trace)
            for policy, decision in zip((one, other), decisions):
                policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
        assert equal_states(one.state(), other.state())

    def test_rewards_of_other_kinds(self, name):
        setting = Setting(name)
        one, other = setting.make(), setting.make()
        for t, (x, W, _) in enumerate(rounds(7, 12)):
            decisions = [policy.decide(**setting.offer(x, W, t)) for policy in (one, other)]
            outcome = setting.outcome(W, decisions[0].row, t)
            one.learn(decisions[0], float(t), **outcome)
            other.learn(decisions[1], (t, np.float64(t), np.int64(t), np.float32(t))[t % 4], **outcome)
        assert equal_states(one.state(), other.state())


def test_costs_that_are_known_may_be_given_as_numbers():
    setting = Setting("mixed")
    words, numbers = setting.make(), setting.make()
    for t, (x, W, r) in enumerate(rounds(7, 30)):
        offer = setting.offer(x, W, t)
        costs = words.rules.costs(offer["usage"], offer["group"])
        decisions = words.decide(**offer), numbers.decide(x, costs, group=offer["group"])
        same(decisions[0].trace, decisions[1].trace)
        for policy, decision in zip((words, numbers), decisions):
            policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
    assert equal_states(words.state(), numbers.state())


def test_costs_of_all_kinds_where_they_are_seen_after():
    one, other = Setting("after").make(), Setting("after").make()
    for x, W, r in rounds(7, 20):
        decisions = [policy.decide(x) for policy in (one, other)]
        row = decisions[0].row
        one.learn(decisions[0], float(r[row]), W[row])
        other.learn(decisions[1], float(r[row]), W[row].tolist())
    assert equal_states(one.state(), other.state())


def test_it_is_open_only_for_offers_of_all_actions():
    policy = tr.ShadowPrice(reward=tr.DisjointRidge(6, D), constraints=K)
    fast_path.open_for(policy, 2)
    assert not policy._offers
    fast_path.open_for(policy, 6)
    assert list(policy._offers) == [6]


def test_plain_models_have_none():
    policy = Setting("own model").make()
    fast_path.open_for(policy, J)
    assert policy._fast_learn is None
    assert not policy._offers


def test_a_missing_group_is_asked_for_before_anything_is_changed_though_costs_are_given():
    setting = Setting("rules")
    policy = setting.make()
    x, W = np.ones((J, D)), np.zeros((J, 3))
    for _ in range(4):
        policy.learn(policy.decide(x, W, group="A"), 1.0)
    before = policy.state()
    with pytest.raises(tr.InvalidInput, match="group is missing"):
        policy.decide(x, W)
    assert equal_states(before, policy.state())


def test_what_is_remembered_does_not_change_with_the_callers_arrays():
    policy = Setting("before").make()
    x, W = np.ones((J, D)), np.ones((J, K))
    for t in range(6):
        x[:], W[:] = t, -t
        policy.learn(policy.decide(x, W), 1.0)
    kept = [(entry.phi[0, 0], entry.W[0, 0]) for entry in policy._memory.entries]
    assert kept == [(t, -t) for t in range(6)]
