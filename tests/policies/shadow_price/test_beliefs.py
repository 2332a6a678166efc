"""What models say of the actions on offer, and of remembered rounds."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import Bagged, D, J, K, Regressor, Setting, play
from tightrope.policies.shadow_price.beliefs import Beliefs


class Odd(tr.models.Model):
    """Knows nothing of action 0, and has infinite deviations there."""

    def __init__(self, n_actions, n_outputs=1):
        self.n_actions, self.n_outputs = n_actions, n_outputs
        self.count = np.zeros(1)

    def means(self, features=None, actions=None):
        return np.where(np.asarray(actions) == 0, np.nan, 5.0)

    def deviations(self, features=None, actions=None):
        return np.where(np.asarray(actions) == 0, np.inf, 0.5)

    def learn(self, features, outcome, action=None):
        self.count += 1

    def arrays(self):
        return {"count": self.count}


def test_what_was_never_seen_is_as_uncertain_as_can_be():
    means, sds, _ = Beliefs(Odd(3), None).rewards(None, np.arange(3))
    same(means, [0.0, 5.0, 5.0])
    assert sds[0] > 10.0 * 5.0
    same(sds[1:], [0.5, 0.5])
    policy = tr.ShadowPrice(reward=Odd(3), constraints=1)
    for _ in range(10):
        decision = policy.decide(costs=[[0.1], [-0.1], [0.0]])
        policy.learn(decision, 1.0)
        assert np.isfinite(decision.trace).all()


@pytest.mark.parametrize("name", ["before", "disjoint", "arms"])
def test_compiled_predictions_are_the_models_own(name):
    policy = Setting(name).make()
    play(policy, Setting(name), 30)
    rows = None if name == "arms" else np.random.default_rng(0).normal(size=(J, D))
    means, sds, _ = Beliefs(policy._reward, None).rewards(rows, np.arange(J))
    same(means, policy.hooks.reward_model().means(rows))
    same(sds, policy.hooks.reward_model().deviations(rows))


def test_rewards_are_drawn_with_what_later_rounds_will_not_tell():
    policy = Setting("disjoint").make()
    play(policy, Setting("disjoint"), 60)
    rows, ids = np.random.default_rng(0).normal(size=(J, D)), np.arange(J)
    whole, drawn = (
        Beliefs(policy._reward, None, looks_ahead=looks).rewards(rows, ids) for looks in (False, True)
    )
    same(whole.means, drawn.means)
    parts = drawn.deviations / whole.deviations
    np.testing.assert_allclose(parts, policy._reward.drawn_parts(ids))
    assert (parts <= 0.7 + 1e-12).all()
    assert parts.min() < 0.6


def test_looking_at_an_offer_changes_nothing():
    policy = Setting("after").make()
    before = policy.hooks.state()
    Beliefs(policy._reward, policy._cost, looks_ahead=True).rewards(np.ones((J, D)), np.arange(J))
    policy.quote(np.ones((J, D)))
    for name, array in policy.hooks.state().items():
        same(array, before[name])


def test_members_give_mean_and_deviation_in_one_call():
    x, ids = np.random.default_rng(0).normal(size=(J, D)), np.arange(J)
    for n_outputs, members in ((1, 5), (2, 5), (2, 1)):
        model = Bagged(J, D, members=members, n_outputs=n_outputs)
        said = model.members(x, ids).reshape(members, J, n_outputs)
        means, sds = Beliefs(model, model).costs(x, ids)
        np.testing.assert_allclose(means, said.mean(axis=0))
        expected = said.std(axis=0, ddof=1) if members > 1 else np.zeros((J, n_outputs))
        np.testing.assert_allclose(sds, expected)
    means, sds = Beliefs(Regressor(J, D), Regressor(J, D)).costs(x, ids)
    same(sds, np.zeros((J, 1)))


def test_rounds_asked_for_together_are_what_they_are_alone():
    for name in ("members", "gaps", "own model"):
        policy = Setting(name).make()
        play(policy, Setting(name), 12)
        models, entries = policy._beliefs, [entry for entry in policy._memory.entries if entry is not None]
        together = models.rewards_of(entries)
        for i, entry in enumerate(entries):
            alone = models.rewards(entry.phi, entry.ids)
            own = slice(i * J, (i + 1) * J)
            np.testing.assert_allclose(together.means[own], alone.means, atol=1e-12)
            np.testing.assert_allclose(together.deviations[own], alone.deviations, atol=1e-12)


def test_one_row_stands_for_all_actions():
    policy = tr.ShadowPrice(reward=tr.DisjointRidge(J, D), constraints=K)
    x = np.random.default_rng(1).normal(size=D)
    for _ in range(20):
        decision = policy.decide(x, np.zeros((J, K)))
        policy.learn(decision, float(decision.action))
    models, ids = Beliefs(policy._reward, None), np.arange(J)
    one, each = models.rewards(x[None], ids), models.rewards(np.tile(x, (J, 1)), ids)
    np.testing.assert_allclose(one[:2], each[:2], atol=1e-12)
