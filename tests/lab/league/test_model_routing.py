"""Worlds that change: what changes in each, by how much, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.testing import EnvironmentSuite
from tightrope_lab.league import model_routing

WORLDS = [
    model_routing.switching_best,
    model_routing.slow_drift,
    model_routing.seasons,
    model_routing.tightened_limit,
]


class TestAPhaseOnTheWay(EnvironmentSuite):
    def make(self):
        return model_routing.slow_drift().phases[7]


class TestTheTighterHalf(EnvironmentSuite):
    def make(self):
        return model_routing.tightened_limit().phases[1]


@pytest.mark.parametrize("make", WORLDS)
def test_every_phase_is_the_first_but_for_what_changes(make):
    env = make()
    first = env.phases[0]
    for phase in env.phases:
        np.testing.assert_allclose(phase.rewards[:, [0, 3]], first.rewards[:, [0, 3]], rtol=1e-12)
        np.testing.assert_allclose(phase.rewards[:, 1:3].sum(axis=1), first.rewards[:, 1:3].sum(axis=1))
        assert tr.solve(phase).slater > 0


def test_what_changes():
    before, after = model_routing.switching_best().phases
    np.testing.assert_array_equal(before.rewards[:, 1], after.rewards[:, 2])
    slow = model_routing.slow_drift()
    assert len(slow.phases) == 21
    steps = [np.abs(b.rewards - a.rewards).max() for a, b in zip(slow.phases, slow.phases[1:])]
    assert max(steps) == pytest.approx(0.3 / 20)
    np.testing.assert_array_equal(slow.phases[-1].rewards, after.rewards)
    seasons = model_routing.seasons()
    assert [bool((phase.rewards == before.rewards).all()) for phase in seasons.phases] == [
        True,
        False,
        True,
        False,
    ]
    loose, tight = model_routing.tightened_limit().phases
    np.testing.assert_array_equal(loose.rewards, tight.rewards)
    np.testing.assert_allclose(tight.costs - loose.costs, [[[0.1, 0.0]] * 4] * 3)
    assert tr.solve(tight).duals[0] > tr.solve(loose).duals[0] + 0.1
