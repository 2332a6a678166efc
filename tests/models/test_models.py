"""What all models share: settings, copies, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightrope as tr
from tightrope.models import MODELS, model_from_settings
from tightrope.models.hooks import with_outputs
from tightrope.models.model import half_life_of
from tightrope.models.standardised import Standardised


@pytest.mark.parametrize(
    "model",
    [
        tr.Ridge(3, bonus=0.2, m=2.0, ridge=0.5, n_outputs=2),
        tr.DisjointRidge(2, 3, bonus=0.2, m=2.0, ridge=0.5, n_outputs=2),
        tr.ArmMeans(2, bonus=0.2, n_outputs=2),
        Standardised(2, 3, prior=0.5, n_outputs=2),
        tr.Logistic(2, 3, prior=0.5, low=0.0, high=2.0, n_outputs=2),
        tr.Features("splines", tr.DisjointRidge(2, 3), first=50, n_outputs=2),
    ],
    ids=lambda model: model.kind,
)
def test_settings_and_copies(model):
    assert MODELS[model.kind] is type(model)
    again = model_from_settings(model.settings())
    assert type(again) is type(model)
    assert again.settings() == model.settings()
    teach = {
        "ridge": lambda m: m.learn([0.6, 0.0, 0.8], [1.0, 2.0]),
        "disjoint-ridge": lambda m: m.learn([0.6, 0.0, 0.8], [1.0, 2.0], action=1),
        "standardised": lambda m: m.learn([0.6, 0.0, 0.8], [1.0, 2.0], action=1),
        "logistic": lambda m: m.learn([0.6, 0.0, 0.8], [1.0, 2.0], action=1),
        "features": lambda m: m.learn([0.6, 0.0, 0.8], [1.0, 2.0], action=1),
        "arm-means": lambda m: m.learn(None, [1.0, 2.0], action=1),
    }[model.kind]
    twin = model.copy()
    teach(twin)
    assert (twin.n_learnt, model.n_learnt) == (1, 0)
    third = twin.copy()
    for name, array in twin.arrays().items():
        np.testing.assert_array_equal(array, third.arrays()[name])
        assert not np.shares_memory(array, third.arrays()[name])
    with pytest.raises(tr.InvalidInput, match="has learnt 2 quantities can't go on with 3"):
        with_outputs(twin, 3)
    assert with_outputs(model, 3).n_outputs == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tr.Ridge(0), "n_features must be a whole number >= 1, but got 0"),
        (lambda: tr.Ridge(2.0), "n_features must be a whole number >= 1, but got 2.0"),
        (lambda: tr.Ridge(True), "n_features must be a whole number >= 1, but got True"),
        (lambda: tr.Ridge(2, ridge=0.0), "ridge must be finite and >= 1e-08, but got 0.0"),
        (lambda: tr.Ridge(2, bonus=-1), "bonus must be finite and >= 0, but got -1"),
        (lambda: tr.Ridge(2, bonus=math.nan), "bonus must be finite and >= 0, but got nan"),
        (lambda: tr.Ridge(2, m="1"), "m must be a number, but got '1'"),
        (lambda: tr.Ridge(2, m=10**400), "m must be finite and >= 0, but got 1000"),
        (lambda: tr.DisjointRidge(0, 2), "n_actions must be a whole number >= 1, but got 0"),
        (lambda: tr.ArmMeans(-1), "n_actions must be a whole number >= 1, but got -1"),
        (
            lambda: model_from_settings({"model": "tree"}),
            "model must be one of 'arm-means', .*'ridge', 'standardised', or a class",
        ),
        (
            lambda: model_from_settings({"model": "ridge", "depth": 1}),
            "settings of a ridge model: .*depth",
        ),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(tr.InvalidInput, match=message):
        make()


def test_half_lives_in_rounds_and_in_time() -> None:
    assert half_life_of(None) is None
    assert half_life_of(50) == (50.0, 1.0)
    assert half_life_of("30min") == (1800.0, 0.0)
