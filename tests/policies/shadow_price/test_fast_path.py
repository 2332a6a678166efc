"""The fast path of the shadow-price policy: the same decisions and the same state as by the careful one, whatever the input."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import D, J, K, Setting, equal_states, rounds
from tightrope.policies.rule_costs import RuleCosts


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
    policy._fast = None


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
            used += fast._fast is not None
            careful(slow)
            for policy, decision in zip((fast, slow), decisions):
                policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
        assert used > 140
        assert equal_states(fast.hooks.state(), slow.hooks.state())

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
        assert equal_states(one.hooks.state(), other.hooks.state())

    def test_rewards_of_other_kinds(self, name):
        setting = Setting(name)
        one, other = setting.make(), setting.make()
        for t, (x, W, _) in enumerate(rounds(7, 12)):
            decisions = [policy.decide(**setting.offer(x, W, t)) for policy in (one, other)]
            outcome = setting.outcome(W, decisions[0].row, t)
            one.learn(decisions[0], float(t), **outcome)
            other.learn(decisions[1], (t, np.float64(t), np.int64(t), np.float32(t))[t % 4], **outcome)
        assert equal_states(one.hooks.state(), other.hooks.state())


USAGE = {
    "arrays": np.array,
    "tables": lambda u: dict(zip("abcd", u)),
    "whole numbers among them": lambda u: [*u[:-1], 1],
    "NumPy's numbers": lambda u: [*map(np.float64, u)],
}


@pytest.mark.parametrize("name", ["rules", "mixed"])
class TestWords:
    @pytest.mark.parametrize("form", USAGE)
    def test_every_form_of_usage(self, name, form):
        setting = Setting(name)
        one, other = setting.make(), setting.make()
        for t, (x, W, r) in enumerate(rounds(7, 40)):
            offer = setting.offer(x, W, t)
            offer["usage"]["hours"][-1] = 1.0
            formed = {**offer, "usage": {"hours": USAGE[form](offer["usage"]["hours"])}}
            decisions = one.decide(**offer), other.decide(**formed)
            same(decisions[0].trace, decisions[1].trace)
            for policy, decision in zip((one, other), decisions):
                policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
        assert equal_states(one.hooks.state(), other.hooks.state())

    def test_they_go_straight_to_compiled_code(self, name, monkeypatch):
        setting = Setting(name)
        policy, straight = setting.make(), 0
        for t, (x, W, r) in enumerate(rounds(7, 60)):
            offer = setting.offer(x, W, t)
            with monkeypatch.context() as other_ways_closed:
                if t >= 9 and policy.rounds < policy._wake:
                    straight += 1
                    for method in ("said", "costs", "observed"):
                        other_ways_closed.setattr(RuleCosts, method, None)
                    other_ways_closed.setattr(policy._input, "offer", None)
                    other_ways_closed.setattr(type(policy.hooks.pending), "number_of", None)
                decision = policy.decide(**offer)
                policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
        assert straight > 40

    def test_another_list_of_usages_in_every_round(self, name):
        setting = Setting(name)
        fast, slow = setting.make(), setting.make()
        for t, (x, W, r) in enumerate(rounds(7, 40)):
            offer, outcome = setting.offer(x, W, t), setting.outcome(W, 0, t)
            if t % 2 and name == "mixed":
                offer["usage"] = {"minutes": 0.5, **offer["usage"]}
                outcome["usage"] = {**outcome["usage"], "hours": 0.25}
            if t % 2 and name == "rules" and offer["group"] != "B":
                offer["usage"] = None
            careful(slow)
            decisions = fast.decide(**offer), slow.decide(**offer)
            same(decisions[0].trace, decisions[1].trace)
            careful(slow)
            for policy, decision in zip((fast, slow), decisions):
                policy.learn(decision, float(r[decision.row]), **outcome)
        assert equal_states(fast.hooks.state(), slow.hooks.state())

    def test_what_is_wrong_is_said_and_changes_nothing(self, name):
        setting = Setting(name)
        policy = setting.make()
        for t, (x, W, r) in enumerate(rounds(7, 9)):
            decision = policy.decide(**setting.offer(x, W, t))
            policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
        good = {"features": x, "usage": {"hours": [0.5] * J}, "group": "B"}
        decision = policy.decide(**good)
        before = policy.hooks.state()
        for bad, message in (
            ({"usage": {"hours": [0.5] * (J - 1)}}, r"usage\['hours'\] must be one number or 4"),
            ({"usage": {"hours": [0.5] * (J - 1) + [2.0]}}, r"usage\['hours'\]\[3\] must lie in \[0, 1\]"),
            ({"usage": {"hours": [0.5] * (J - 1) + ["1"]}}, r"usage\['hours'\] must hold real numbers"),
            ({"usage": {"hour": 0.5}}, "no rule counts 'hour'"),
            ({"usage": {}}, r"usage\['hours'\] is missing"),
            ({"usage": 0.5}, "usage must be a mapping"),
            ({"features": x[:, 1:]}, "features must have shape"),
            ({"features": x * np.nan}, r"features\[0, 0\] must be finite"),
        ):
            with pytest.raises(tr.InvalidInput, match=message):
                policy.decide(**{**good, **bad})
        if name == "mixed":
            for bad, message in (
                ({"minutes": 2.0}, r"usage\['minutes'\] must lie in \[0, 1\]"),
                ({"minutes": True}, r"usage\['minutes'\] must hold real numbers"),
                ({}, r"usage\['minutes'\] is missing"),
                (0.5, "usage must be a mapping"),
            ):
                with pytest.raises(tr.InvalidInput, match=message):
                    policy.learn(decision, 1.0, usage=bad)
        assert equal_states(before, policy.hooks.state())


def test_words_make_no_memory_of_their_own():
    """What is remembered of a round in words does not change with the next."""
    setting = Setting("rules")
    policy, said = setting.make(), []
    for t, (x, W, _) in enumerate(rounds(7, 30)):
        offer = setting.offer(x, W, t)
        said.append(policy.rules.costs(offer["usage"], offer["group"]))
        policy.learn(policy.decide(**offer), 1.0)
    for entry, W in zip(policy._memory.entries, said, strict=True):
        same(entry.W, W)


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
    assert equal_states(words.hooks.state(), numbers.hooks.state())


def test_costs_of_all_kinds_where_they_are_seen_after():
    one, other = Setting("after").make(), Setting("after").make()
    for x, W, r in rounds(7, 20):
        decisions = [policy.decide(x) for policy in (one, other)]
        row = decisions[0].row
        one.learn(decisions[0], float(r[row]), W[row])
        other.learn(decisions[1], float(r[row]), W[row].tolist())
    assert equal_states(one.hooks.state(), other.hooks.state())


def test_it_is_open_only_for_offers_of_all_actions():
    policy = tr.ShadowPrice(reward=tr.DisjointRidge(6, D), constraints=K)
    x, W = np.ones(D), np.zeros((6, K))
    policy.decide(x, W[:2], actions=[3, 1])
    assert not policy._fast.offers
    policy.decide(x, W)
    assert list(policy._fast.offers) == [(D,), (6, D)]


def test_plain_models_have_none():
    policy = Setting("own model").make()
    policy.decide(np.ones((J, D)))
    assert policy._fast is None


def test_a_missing_group_is_asked_for_before_anything_is_changed_though_costs_are_given():
    setting = Setting("rules")
    policy = setting.make()
    x, W = np.ones((J, D)), np.zeros((J, 3))
    for _ in range(4):
        policy.learn(policy.decide(x, W, group="A"), 1.0)
    before = policy.hooks.state()
    with pytest.raises(tr.InvalidInput, match="group is missing"):
        policy.decide(x, W)
    assert equal_states(before, policy.hooks.state())


def test_what_is_remembered_does_not_change_with_the_callers_arrays():
    policy = Setting("before").make()
    x, W = np.ones((J, D)), np.ones((J, K))
    for t in range(6):
        x[:], W[:] = t, -t
        policy.learn(policy.decide(x, W), 1.0)
    kept = [(entry.phi[0, 0], entry.W[0, 0]) for entry in policy._memory.entries]
    assert kept == [(t, -t) for t in range(6)]
