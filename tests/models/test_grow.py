"""`Model.grow`: more actions behind those that there are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tightrope as tr
from tightrope.models import Model

J, P = 3, 2
MODELS: dict[str, Callable[[int], Model]] = {
    "disjoint": lambda n: tr.DisjointRidge(n, P),
    "disjoint, forgetting": lambda n: tr.DisjointRidge(n, P, half_life=30.0),
    "standardised": lambda n: tr.Standardised(n, P),
    "standardised, forgetting": lambda n: tr.Standardised(n, P, half_life=30.0),
    "logistic": lambda n: tr.Logistic(n, P),
    "logistic, forgetting": lambda n: tr.Logistic(n, P, half_life=30.0),
    "features": lambda n: tr.Features("splines", tr.Standardised(n, P), first=30),
    "auto": lambda n: tr.Auto(n, P, candidates=["standardised", "logistic"]),
}


def teach(model: Model, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x = rng.uniform(-0.7, 0.7, P)
        model.learn(x, float(rng.random() < 0.5), int(rng.integers(J)))


@pytest.mark.parametrize("name", MODELS)
def test_those_that_there_were_are_learnt_on_as_if_nothing_had_come(name: str) -> None:
    grown, other = MODELS[name](J), MODELS[name](J)
    for model in (grown, other):
        teach(model, 50, 1)
    grown.grow(J + 2)
    for model in (grown, other):
        teach(model, 50, 2)
    rows, ids = np.random.default_rng(3).uniform(-0.7, 0.7, (6, P)), np.arange(6) % J
    # Blocks of a model that forgets take turns in having their ridge put back: it is a few percent off until it is their turn.
    tolerance = 0.05 if "forgetting" in name else 0.0
    for ask in ("means", "deviations"):
        one, same = (getattr(model, ask)(rows, ids) for model in (grown, other))
        np.testing.assert_allclose(one, same, rtol=tolerance)


@pytest.mark.parametrize("name", ["disjoint", "standardised", "logistic"])
def test_a_new_action_is_believed_what_is_believed_of_one_never_tried(name: str) -> None:
    grown, larger = MODELS[name](J), MODELS[name](J + 1)
    for model in (grown, larger):
        teach(model, 50, 1)
    grown.grow(J + 1)
    rows = np.random.default_rng(3).uniform(-0.7, 0.7, (4, P))
    for ask in ("means", "deviations"):
        one, other = (getattr(model, ask)(rows, np.full(4, J)) for model in (grown, larger))
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_networks_go_on_and_are_restored() -> None:
    small = {"members": 2, "first": 20, "refit": "now", "params": {"hidden_layer_sizes": [4]}}
    model = tr.Ensemble("mlp", J, P, **small)
    teach(model, 60, 1)
    rows, ids = np.random.default_rng(3).uniform(-0.7, 0.7, (6, P)), np.arange(6) % J
    before = model.means(rows, ids)
    model.grow(J + 1)
    for _ in range(2):
        twin = model.copy()
        np.testing.assert_array_equal(twin.means(rows, ids), model.means(rows, ids))
        np.testing.assert_array_equal(model.means(rows, ids), before)
        assert np.isfinite(model.means(rows[:1], [J])).all()
        fits = model.fits
        teach(model, 60, 2)
        assert model.fits > fits
        before = model.means(rows, ids)


def test_actions_are_never_taken_away() -> None:
    model = tr.DisjointRidge(3, 2)
    with pytest.raises(
        tr.InvalidInput, match="n_actions must be at least 3, since actions are never taken away, but got 2"
    ):
        model.grow(2)
    model.grow(3)
    assert model.n_actions == 3
    shared = tr.Ridge(2)
    shared.grow(7)
    assert shared.n_actions is None
