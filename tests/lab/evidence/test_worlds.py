"""Random worlds: the law that the page states."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope_lab.evidence.held_out import FIRST_SEED
from tightrope_lab.evidence.worlds import random_world


def test_the_held_out_worlds_are_what_the_page_says():
    worlds = [random_world(FIRST_SEED + i) for i in range(60)]
    envs = [world.env for world in worlds]
    assert {env.n_actions for env in envs} <= set(range(2, 31))
    assert max(env.n_constraints for env in envs) > 30
    assert max(env.n_constraints for env in envs) <= 50
    assert 0.01 <= min(world.slater for world in worlds) < 0.02
    assert {env.costs_seen for env in envs} == {"before", "after"}
    assert {env.cost_noise for env in envs} == {"none", "bernoulli", "gaussian"}
    assert {env.disjoint for env in envs} == {True, False}
    assert any(not env.available.all() for env in envs)
    units = np.concatenate([world.units for world in worlds])
    assert units.min() < 0.03
    assert units.max() > 4
    lengths = [np.linalg.norm(env.features, axis=-1).max() for env in envs]
    assert max(lengths) / min(lengths) > 100


def test_the_world_of_a_seed_is_always_the_same():
    one, other = random_world(3).env, random_world(3).env
    assert np.array_equal(one.costs, other.costs)
    assert np.array_equal(one.rewards, other.rewards)
    assert not np.array_equal(one.weights, random_world(4).env.weights[: one.n_contexts])


@pytest.mark.parametrize("seed", [38835000, 38835001, 38835007])
def test_in_unit_costs_it_is_the_same_world(seed):
    world = random_world(seed)
    restated = world.in_unit_costs()
    assert np.abs(restated.cost_range).max() == 1
    assert np.linalg.norm(restated.features, axis=-1).max() == pytest.approx(1)
    assert restated.costs * world.units == pytest.approx(world.env.costs, abs=1e-9)
    assert tr.solve(restated).value == pytest.approx(tr.solve(world.env).value, abs=1e-7)
    if world.env.cost_noise != "gaussian":  # whose clipping moves the means
        assert tr.solve(restated).slater == pytest.approx(world.slater, abs=1e-6)
