"""Models on logged decisions: errors are of rows not learnt from, the simplest of the best is taken, and words are true."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.fitting import compare
from tightrope.fitting.comparison import CANDIDATES
from tightrope.offpolicy import Log


def logged(n=800, *, seed=0, effect=1.0, noise=0.3):
    draw = np.random.default_rng(seed)
    x, a = draw.normal(size=(n, 2)), draw.integers(3, size=n)
    y = effect * x[:, 0] * (a - 1.0) + noise * draw.normal(size=n)
    return Log(a, y, propensities=np.full(n, 1 / 3), contexts=x)


@pytest.fixture(scope="module")
def linear():
    return compare(logged(), ["arm-means", "linear"])


def test_who_can_predict_is_taken(linear):
    assert linear.recommended.name == "linear"
    assert linear["arm-means"].loss == pytest.approx(1.0, abs=0.03)
    # What is left is the noise.
    log = logged()
    assert linear["linear"].loss == pytest.approx(0.3**2 / log.rewards.var(), rel=0.1)
    assert "Use linear for the reward" in linear.words()[0]


def test_its_favourites_earn_what_they_would(linear):
    """E max over a of x(a − 1) is E|x|, 0.798; a log of uniform choices has 0."""
    value = linear["linear"].value.reward
    assert value.low <= np.sqrt(2 / np.pi) <= value.high
    assert "would earn" in " ".join(linear.words())


def test_rows_are_predicted_by_models_that_have_not_seen_them():
    """A model that remembers rows by heart is no better than chance on noise."""
    draw = np.random.default_rng(3)
    n = 300
    log = Log(
        draw.integers(2, size=n),
        draw.normal(size=n),
        propensities=np.full(n, 0.5),
        contexts=draw.normal(size=(n, 3)),
    )
    found = compare(log, ["arm-means", {"model": "ensemble", "estimator": "extra-trees", "members": 2}])
    assert found["extra-trees"].loss > 1.0
    assert found.recommended.name == "arm-means"
    assert "no better than the average" in " ".join(found.words())


def test_the_simplest_of_equals_is_taken():
    found = compare(logged(), ["linear", ("again", {"model": "disjoint-ridge"})])
    assert found.recommended.name == "linear"
    found = compare(logged(), [("again", {"model": "disjoint-ridge"}), "linear"])
    assert found.recommended.name == "again"


def test_groups_are_never_split():
    """With an outcome that belongs to the group alone, whoever saw a row of it would know the others."""
    draw = np.random.default_rng(4)
    groups = np.repeat(np.arange(100), 5)
    x, of_group = np.eye(100)[groups], draw.normal(size=100)
    how = {"propensities": np.full(500, 0.5), "contexts": x}
    a = draw.integers(2, size=500)
    split = compare(Log(a, of_group[groups], **how), ["linear"])
    whole = compare(Log(a, of_group[groups], groups=groups, **how), ["linear"])
    assert split["linear"].loss < 0.8 < 0.95 < whole["linear"].loss


def test_calibration_shows_what_is_too_extreme():
    log = logged(noise=1.0)
    fair = compare(log, ["linear"])["linear"].calibration
    assert fair.gap < 2 * fair.noise
    assert np.all(np.diff(fair.expected) > 0)


def test_several_costs_are_compared_together():
    log = logged()
    costs = np.column_stack([log.rewards, -2 * log.rewards])
    found = compare(log, ["arm-means", "linear"], what="cost", outcomes=costs)
    assert found.recommended.name == "linear"
    assert found["linear"].expected.shape == (800, 3, 2)
    assert found["linear"].value is None


def test_every_candidate_that_is_named_exists():
    for _, settings, _ in CANDIDATES:
        assert tr.models.MODELS.knows(settings["model"])


@pytest.mark.parametrize("models", [[], "linear"])
def test_what_is_no_list_is_refused(models):
    with pytest.raises(tr.InvalidInput, match="models must be a list"):
        compare(logged(60), models)


def test_outcomes_that_never_vary_are_refused():
    log = Log([0, 1, 0, 1], [1.0] * 4, propensities=[0.5] * 4)
    with pytest.raises(tr.InvalidInput, match="must vary"):
        compare(log)
