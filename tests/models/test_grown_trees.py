"""Trees grown by compiled code: what they answer, how a fit is cut into steps, and that steps change nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tightrope as tr
from tightrope.models import Ensemble
from tightrope.models.grown_trees import boosting, forest
from tightrope.models.members import Growth
from tightrope.models.trees import FlatTrees
from tightrope.testing import ModelSuite

FOREST = {"trees": 5, "least": 1, "rows": 500}
BOOSTING = {"trees": 20, "leaves": 7, "rate": 0.3, "least": 5, "rows": 500}


class TestForest(ModelSuite):
    def make(self):
        return Ensemble("forest", 3, 2, members=3)


class TestBoosting(ModelSuite):
    def make(self):
        return Ensemble("boosting", 3, 2, members=3)


def data(n, d=3, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, d))
    return x, np.sin(3 * x[:, 0]) + (x[:, 1] > 0), draw.integers(1, 4, n).astype(float)


def said(grown, x):
    return FlatTrees([grown], 1, 1).predict(x, np.zeros(len(x), dtype=np.int64))[0, :, 0]


def leaves_of(grown, x):
    """For each tree, the node in which each row ends: a literal walk."""
    found = np.empty((len(grown.roots), len(x)), dtype=int)
    for t, root in enumerate(grown.roots):
        for i, row in enumerate(x):
            node = root
            while grown.child[node] >= 0:
                node = grown.child[node] + int(row[grown.feature[node]] > grown.threshold[node])
            found[t, i] = node
    return found


def test_a_forest_repeats_what_it_was_taught():
    x, y, w = data(200)
    assert np.allclose(said(forest(x, y, w, 1, **FOREST), x), y)


def test_leaves_of_a_forest_hold_the_weighted_mean_and_enough_rows():
    x, y, w = data(150)
    grown = forest(x, y, w, 1, **FOREST | {"least": 4})
    for nodes in leaves_of(grown, x):
        for node in np.unique(nodes):
            inside = nodes == node
            assert inside.sum() >= 4
            assert grown.value[node] == pytest.approx(np.average(y[inside], weights=w[inside]) / 5)


def test_each_tree_of_a_forest_uses_few_rows_and_not_the_same():
    x, y, w = data(400)
    grown = forest(x, y, w, 1, **FOREST | {"rows": 40})
    sizes = np.diff([*grown.roots, len(grown.feature)])
    assert (sizes <= 2 * 40 - 1).all()
    right = [set(np.flatnonzero(np.isclose(5 * grown.value[nodes], y))) for nodes in leaves_of(grown, x)]
    assert len(set.union(*right)) > 100


def test_boosted_trees_are_fitted_to_what_is_left():
    """Tree by tree: leaves hold the rate times the weighted mean of what the trees before left over."""
    x, y, w = data(300)
    grown = boosting(x, y, w, 0, **BOOSTING)
    left = y - np.average(y, weights=w)
    assert grown.base == pytest.approx(np.average(y, weights=w))
    for nodes in leaves_of(grown, x):
        assert len(np.unique(nodes)) <= 7
        for node in np.unique(nodes):
            inside = nodes == node
            assert w[inside].sum() >= 5
            assert grown.value[node] == pytest.approx(0.3 * np.average(left[inside], weights=w[inside]))
        left -= grown.value[nodes]
    assert (left**2).mean() < 0.1 * y.var()


def test_the_first_cut_of_boosted_trees_is_the_best_one():
    x, y, w = data(30, d=2)
    grown = boosting(x, y, w, 0, **BOOSTING | {"trees": 1, "leaves": 2})

    def error(side):
        return sum(
            (w[part] * (y[part] - np.average(y[part], weights=w[part])) ** 2).sum() for part in (side, ~side)
        )

    cuts = [x[:, f] <= at for f in range(2) for at in x[:, f]]
    best = min(error(side) for side in cuts if min(w[side].sum(), w[~side].sum()) >= 5)
    assert error(x[:, grown.feature[0]] <= grown.threshold[0]) == pytest.approx(best)


@pytest.mark.parametrize("name", ["forest", "boosting"])
def test_a_rare_category_and_a_constant_can_be_told_apart(name):
    x = np.zeros((400, 2))
    x[::100, 1] = 1.0
    params = {"least": 2} if name == "boosting" else {}
    model = Ensemble(name, 1, 2, params=params, refit="now")
    model.learn_many(x, x[:, 1], np.zeros(400, dtype=int))
    rare, usual = model.means([[0.0, 1.0], [0.0, 0.0]], [0, 0])
    assert rare - usual > 0.5


@pytest.mark.parametrize("name", ["forest", "boosting"])
def test_steps_change_nothing(name):
    """In one go, or one estimator in a round: the same trees."""
    x, y, _ = data(200)
    model = Ensemble(name, 2, 3)
    model.learn_many(x, y, np.arange(200) % 2)
    sample = model._kept.in_force()
    at_once, stepwise = (Growth(model._plan, sample, 200, 200.0) for _ in range(2))
    for _ in range(model._plan.steps - 3):
        stepwise.advance(1)
    a, b = at_once.result().predictor, stepwise.result().predictor
    for array in ("roots", "feature", "threshold", "child", "value", "base"):
        assert np.array_equal(getattr(a, array), getattr(b, array))


def test_a_fit_is_spread_over_rounds_and_takes_effect_at_a_fixed_one(monkeypatch):
    """No round makes a whole fit; one that was loaded in the middle of a fit answers as one that was not."""
    steps = []
    advance = Growth.advance
    monkeypatch.setattr(Growth, "advance", lambda self, n: (steps.append(n), advance(self, n))[1])
    x, y, _ = data(900)
    model = Ensemble("forest", 2, 3)
    for i in range(500):
        model.learn(x[i], y[i], i % 2)
    while model._clock[3]:
        i += 1
        model.learn(x[i], y[i], i % 2)
    while not model._clock[3]:
        i += 1
        model.learn(x[i], y[i], i % 2)
    fits, late = model.fits, model._clock[4] - model.n_learnt
    assert 10 < late < 0.1 * model.n_learnt
    assert max(steps[-5:]) <= 2 < model._plan.steps
    twin = tr.models.model.model_from_settings(model.settings())
    tr.models.model.take_arrays(twin, model.arrays())
    for _ in range(late):
        assert model.fits == twin.fits == fits
        i += 1
        model.learn(x[i], y[i], i % 2)
        twin.learn(x[i], y[i], i % 2)
    assert model.fits == twin.fits == fits + 1
    assert np.array_equal(model.means(x[:50], np.arange(50) % 2), twin.means(x[:50], np.arange(50) % 2))


def test_parameters_that_it_does_not_have_are_refused():
    with pytest.raises(tr.InvalidInput, match="forest has no parameter 'n_estimators', only trees, least"):
        Ensemble("forest", 2, 1, params={"n_estimators": 3})
    with pytest.raises(tr.InvalidInput, match=r"params\.trees"):
        Ensemble("forest", 2, 1, params={"trees": 0})


def test_no_round_after_the_first_waits_for_the_compiler(tmp_path):
    """In a process of its own, with nothing kept: what is compiled after the third outcome."""
    script = (
        "import numpy as np, tightrope as tr\n"
        "from numba.core import event\n"
        "late = []\n"
        "class Listener(event.Listener):\n"
        "    def on_start(self, event): late.append((t, event.data['dispatcher'].py_func.__name__))\n"
        "    def on_end(self, event): pass\n"
        "t = 0\n"
        "event.register('numba:compile', Listener())\n"
        "model = tr.Ensemble('forest', 2, 1, members=2)\n"
        "for t in range(60):\n"
        "    model.learn([float(t % 7)], float(t % 2), t % 2)\n"
        "    model.means([[1.0]] * 2, [0, 1])\n"
        "assert model.fits > 0\n"
        "assert [one for one in late if one[0] > 0] == [], late\n"
    )
    nothing_kept = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300, env=nothing_kept)
