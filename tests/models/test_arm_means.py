"""ArmMeans: means, and widths that shrink with the number of outcomes."""

from __future__ import annotations

import math

import numpy as np

import tightrope as tr


def test_arm_means_are_means():
    rng = np.random.default_rng(3)
    model = tr.ArmMeans(3, bonus=0.5, n_outputs=2)
    seen = {0: rng.normal(size=(7, 2)), 2: rng.normal(size=(4, 2))}
    for arm, outcomes in seen.items():
        for y in outcomes:
            model.learn(None, y, action=arm)
    means = model.means()
    for arm, outcomes in seen.items():
        np.testing.assert_allclose(means[arm], outcomes.mean(axis=0), atol=1e-14)
    assert np.isnan(means[1]).all()
    assert model.n_learnt == 11
    np.testing.assert_allclose(model.widths(), [1 / math.sqrt(7), math.inf, 1 / 2])
    np.testing.assert_allclose(model.widths(actions=[2, 0]), [1 / 2, 1 / math.sqrt(7)])
    np.testing.assert_allclose(
        model.widths_at(20), [0.5 * math.sqrt(math.log(20) / 7), math.inf, 0.5 * math.sqrt(math.log(20) / 4)]
    )
    np.testing.assert_allclose(model.radius(20) * model.widths(), model.widths_at(20))
