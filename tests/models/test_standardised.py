"""The model that sets everything by itself: any unit, the contract of all models, outcomes that are restated."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from tightrope.models import MODELS
from tightrope.models.sizes import Sizes
from tightrope.models.standardised import Standardised
from tightrope.testing import ModelSuite


class TestShared(ModelSuite):
    def make(self):
        return Standardised(n_features=3)


class TestDisjoint(ModelSuite):
    def make(self):
        return Standardised(4, 3)


class TestArms(ModelSuite):
    def make(self):
        return Standardised(3, 0)


def taught(model, n=60, features=1.0, outcomes=1.0, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x = rng.normal(size=3)
        y = x.sum() + 0.1 * rng.normal()
        model.learn(features * x, outcomes * y + offset, int(rng.integers(4)) if model.n_actions else None)
    return model


@pytest.mark.parametrize("n_actions", [None, 4])
def test_units_do_not_matter(n_actions):
    rows, ids = np.random.default_rng(1).normal(size=(5, 3)), np.arange(5) % 4
    base = taught(Standardised(n_actions, 3))
    other = taught(Standardised(n_actions, 3), features=1e3, outcomes=1e-4, offset=7.0)
    np.testing.assert_allclose((other.means(1e3 * rows, ids) - 7.0) / 1e-4, base.means(rows, ids), rtol=1e-6)
    np.testing.assert_allclose(
        other.deviations(1e3 * rows, ids) / 1e-4, base.deviations(rows, ids), rtol=1e-6
    )


def test_means_are_those_of_a_regression_with_a_constant():
    model, rows = taught(Standardised(n_features=3), n=4000), np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_allclose(model.means(rows), rows.sum(axis=1), atol=0.02)
    assert (model.deviations(rows) < 0.02).all()


def test_a_declared_deviation_is_known_before_anything_is_learnt():
    model = Standardised(n_features=2, prior=[3.0, 0.5], n_outputs=2, centred=False)
    deviations = model.deviations(np.ones((1, 2)))
    assert deviations[0, 0] / deviations[0, 1] == pytest.approx(6.0)


@pytest.mark.parametrize("centred", [False, True])
def test_shifted_outcomes_are_as_if_they_had_been_learnt_so(centred):
    rng = np.random.default_rng(0)
    model, other = (Standardised(2, 3, centred=centred, n_outputs=2) for _ in range(2))
    for _ in range(40):
        x, y, a = rng.normal(size=3), rng.normal(size=2), int(rng.integers(2))
        model.learn(x, y, a)
        other.learn(x, y + np.array([0.0, 0.7]), a)
    model.shift(1, 0.7)
    rows, ids = rng.normal(size=(4, 3)), np.arange(4) % 2
    means, expected = model.means(rows, ids), other.means(rows, ids)
    same(means[:, 0], other.means(rows, ids)[:, 0])
    if centred:
        np.testing.assert_allclose(means, expected, atol=1e-9)
    else:
        # Without centring the ridge draws towards 0, which has moved too.
        np.testing.assert_allclose(means, expected, atol=0.3)


def test_predictions_change_nothing():
    model = Standardised(n_features=2)
    before = model.spread.copy()
    model.means([[3.0, 4.0]])
    model.seen(np.array([[3.0, 4.0], [0.0, 0.0]]), np.arange(2))
    same(model.spread, before)


def test_what_looked_ahead_goes_on_with_more_actions():
    model = taught(Standardised(4, 3))
    for _ in range(40):
        model.look_ahead(np.ones((1, 3)), np.arange(4), 1)
    before = model.drawn_parts(np.arange(4))
    assert before[1] < 0.5 < before[0]
    model.grow(6)
    same(model.drawn_parts(np.arange(6)), np.append(before, [1.0, 1.0]))


def test_one_that_forgets_does_not_look_ahead():
    model = taught(Standardised(4, 3, half_life=50.0))
    for _ in range(40):
        model.look_ahead(np.ones((1, 3)), np.arange(4), 1)
    same(model.drawn_parts(np.arange(4)), np.ones(4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Standardised(n_features=0), "needs n_actions"),
        (lambda: Standardised(n_features=-1), "n_features"),
        (lambda: Standardised(0, 2), "n_actions"),
        (lambda: Standardised(n_features=2, prior=-1.0), "prior must be at least 0"),
        (lambda: Standardised(n_features=2, prior=[1.0, 2.0]), "prior must have shape"),
        (lambda: Standardised(n_features=2).learn([1.0, math.nan], 1.0), "features"),
        (lambda: Standardised(n_features=2).learn([1.0, 0.0], math.inf), "outcome"),
        (lambda: Standardised(3, 2).learn([1.0, 0.0], 1.0, 3), "action must be below 3"),
        (lambda: Standardised(n_features=2).means([[1.0]]), "features must have shape"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(tr.InvalidInput, match=message):
        make()


def test_it_is_registered():
    assert MODELS.find("standardised") is Standardised
    assert repr(Standardised(4, 3)) == "Standardised(4, 3)"
    assert Standardised.sized(Sizes(4, 3, per_action=True)).n_actions is None
    assert Standardised.sized(Sizes(4, 3, per_action=False)).n_actions == 4
