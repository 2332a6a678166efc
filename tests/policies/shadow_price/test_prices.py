"""Work on prices between decisions: when it starts, and draws that are the same one by one and in compiled chunks."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import SETTINGS, Bagged, D, J, K, Setting, equal_states, play
from tightrope.kernels import shadow, shadow_solve
from tightrope.policies.pending import NEVER
from tightrope.policies.shadow_price import prices
from tightrope.policies.shadow_price.solve import PriceSolve


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "members, linear costs"])
def test_a_solve_starts_whenever_rounds_have_doubled(name):
    setting = Setting(name)
    policy, solves = setting.make(), []
    for t in range(70):
        play(policy, setting, 1, start=t)
        solves.append(policy._prices.core[shadow.SOLVES])
    begun = [t + 1 for t in range(1, 70) if solves[t] > solves[t - 1]]
    assert begun == [2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("name", ["before", "disjoint", "after", "disjoint, after", "arms, after", "mixed"])
def test_compiled_draws_are_those_of_one_round_after_the_other(name):
    setting = Setting(name)
    policy = setting.make()
    play(policy, setting, 30)
    found = []
    for compiled in (True, False):
        solve = PriceSolve.start(
            *policy._memory.sample(np.inf), 30.0, policy._prices.row_work, policy.hooks.n_constraints
        )
        policy._beliefs.compiled = compiled
        n = len(solve.entries)
        for i in range(0, n, 7):
            policy._prices.draw_rounds(policy._beliefs, solve, i, min(7, n - i))
        found.append(solve)
    policy._beliefs.compiled = True
    for part in ("rewards", "costs", "numbers"):
        np.testing.assert_allclose(getattr(found[0], part), getattr(found[1], part), rtol=1e-9, atol=1e-12)


def test_costs_of_a_remembered_round():
    setting = Setting("mixed")
    policy = setting.make()
    play(policy, setting, 12)
    models = policy._beliefs
    for entry in policy._memory.entries:
        means, spreads = models.expected_costs([entry])
        same(means[:, :2], entry.W[:, :2])
        same(spreads[:, :2], np.zeros((4, 2)))
        if entry.force is not None:
            same(means[:, 2], np.zeros(4))
            same(spreads[:, 2], np.zeros(4))
        assert (spreads[:, 3] > 0).all()


def test_when_there_is_work_to_do():
    setting = Setting("before")
    policy = setting.make()
    assert policy._prices.next_work(policy.rounds) == 1.0
    play(policy, setting, 8)
    assert policy._prices.next_work(policy.rounds) == 15.0
    policy._prices.solve = PriceSolve.start(*policy._memory.sample(np.inf), 8.0, 1.0, K)
    assert policy._prices.next_work(policy.rounds) == 0.0
    assert Setting("before", constraints=0).make()._prices.next_work(0) == NEVER


class TestRefits:
    """A model that was fitted anew has its prices solved for."""

    @staticmethod
    def solves(policy, T, start=0):
        """The rounds in which a solve began."""
        begun, setting = [], Setting("members")
        for t in range(start, start + T):
            before = policy._prices.core[shadow.NEXT_SOLVE]
            play(policy, setting, 1, start=t)
            if policy._prices.core[shadow.NEXT_SOLVE] != before:
                begun.append(t + 1)
        return begun

    def test_a_solve_starts_after_each_as_well_as_at_doublings(self):
        policy = tr.ShadowPrice(reward=Bagged(J, D, growth=1.3), constraints=K)
        # Fits after 10, 13, 17, 23, 30, 39, 51, 67, 88 outcomes; from the first of them on solves are eight rounds apart at least.
        assert self.solves(policy, 100) == [2, 4, 8, 11, 19, 27, 35, 43, 52, 68, 89]
        assert policy._reward.fits == 9

    def test_costs_fitted_anew_count_as_well(self):
        policy = tr.ShadowPrice(reward=Bagged(J, D), cost=Bagged(J, D, growth=2.0), constraints=K)
        setting, begun = Setting("members, after"), []
        for t in range(50):
            before = policy._prices.core[shadow.NEXT_SOLVE]
            play(policy, setting, 1, start=t)
            if policy._prices.core[shadow.NEXT_SOLVE] != before:
                begun.append(t + 1)
        assert begun == [2, 4, 8, 11, 21, 41]

    def test_a_model_that_is_always_fitted_anew_does_not_slow_every_decision(self):
        policy = tr.ShadowPrice(reward=Bagged(J, D, growth=1.0), constraints=K)
        begun = self.solves(policy, 200)
        assert policy._reward.fits > 150
        assert min(np.diff([t for t in begun if t > 8])) >= prices.LEAST_WAIT

    def test_not_while_one_is_under_way(self, monkeypatch):
        monkeypatch.setattr(shadow, "BUDGET", 3_000.0)
        monkeypatch.setattr(shadow_solve, "deadline", lambda t, rows, row_work, K: t + min(30.0, t // 2))
        policy = tr.ShadowPrice(reward=Bagged(J, D, growth=1.0), constraints=K)
        begun = [t for t in self.solves(policy, 300) if t > 60]
        assert min(np.diff(begun)) >= 60

    def test_a_file_and_a_proposal_know_of_it(self, tmp_path):
        policy = tr.ShadowPrice(reward=Bagged(J, D, growth=1.3), constraints=K)
        setting = Setting("members")
        play(policy, setting, 42)
        policy.save(tmp_path / "policy")
        twin = tr.load(tmp_path / "policy")
        before = policy.hooks.state()
        x, W = np.ones((J, D)), np.zeros((J, K))
        proposed = policy.propose(x, W)
        assert equal_states(before, policy.hooks.state())
        same(proposed.trace, twin.decide(x, W).trace)
        same(proposed.trace, policy.decide(x, W).trace)
        assert policy._prices.core[shadow.NEXT_SOLVE] == 86.0
        assert equal_states(twin.hooks.state(), policy.hooks.state())

    def test_states_of_models_that_are_not_are_what_they_were(self):
        for name in ("before", "own model"):
            policy = Setting(name).make()
            play(policy, Setting(name), 20)
            assert "refits" not in policy.hooks.state()
