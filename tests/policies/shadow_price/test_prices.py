"""Work on prices between decisions: when it starts, and draws that are the same one by one and in compiled chunks."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_tools import same
from shadow_tools import SETTINGS, K, Setting, play
from tightrope.kernels import shadow
from tightrope.policies.shadow_price import prices
from tightrope.policies.shadow_price.solve import PriceSolve


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "members, linear costs"])
def test_a_solve_starts_whenever_rounds_have_doubled(name):
    setting = Setting(name)
    policy, solves = setting.make(), []
    for t in range(70):
        play(policy, setting, 1, start=t)
        solves.append(policy._core[shadow.SOLVES])
    begun = [t + 1 for t in range(1, 70) if solves[t] > solves[t - 1]]
    assert begun == [2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("name", ["before", "disjoint", "after", "disjoint, after", "arms, after", "mixed"])
def test_compiled_draws_are_those_of_one_round_after_the_other(name):
    setting = Setting(name)
    policy = setting.make()
    play(policy, setting, 30)
    found = []
    for compiled in (True, False):
        solve = PriceSolve.start(*policy._memory.sample(np.inf), 30.0, policy._row_work, policy.n_constraints)
        policy._compiled = compiled
        n = len(solve.entries)
        for i in range(0, n, 7):
            prices.draw_rounds(policy, policy._models(), solve, i, min(7, n - i))
        found.append(solve)
    policy._compiled = True
    for part in ("rewards", "costs", "numbers"):
        np.testing.assert_allclose(getattr(found[0], part), getattr(found[1], part), rtol=1e-9, atol=1e-12)


def test_costs_of_a_remembered_round():
    setting = Setting("mixed")
    policy = setting.make()
    play(policy, setting, 12)
    models = policy._models()
    for entry in policy._memory.entries:
        means, spreads = prices.expected_costs([entry], models, policy._columns)
        same(means[:, :2], entry.W[:, :2])
        same(spreads[:, :2], np.zeros((4, 2)))
        if entry.force is not None:
            same(means[:, 2], np.zeros(4))
            same(spreads[:, 2], np.zeros(4))
        assert (spreads[:, 3] > 0).all()


def test_when_there_is_work_to_do():
    setting = Setting("before")
    policy = setting.make()
    assert prices.next_work(policy) == 1.0
    play(policy, setting, 8)
    assert prices.next_work(policy) == 15.0
    policy._solve = PriceSolve.start(*policy._memory.sample(np.inf), 8.0, 1.0, K)
    assert prices.next_work(policy) == 0.0
    assert prices.next_work(Setting("before", constraints=0).make()) == np.inf
