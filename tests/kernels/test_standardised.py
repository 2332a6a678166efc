"""The standardised linear model: against ridge regression written out, in any unit, and after many updates."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import kernels
from tightrope.kernels import standardised


class Model:
    """G blocks, p features, M outputs, as a policy would hold them."""

    def __init__(self, G, p, M, *, centred=True, prior=None):
        self.G, self.p, self.M, q = G, p, M, p + 1
        self.flat = np.zeros(standardised.flat_size(G, p, M))
        self.spread = np.zeros(standardised.spread_size(M))
        standardised.begin_model(
            self.flat,
            self.spread,
            G,
            p,
            M,
            centred,
            np.zeros(M) if prior is None else np.asarray(prior, float),
        )
        self.row, self.room = np.zeros(q), np.zeros(q + 1 + 2 * M)
        self.refreshed = 0

    def see_first(self, rows):
        rows = np.ascontiguousarray(rows, dtype=float)
        standardised.begin_unit(self.spread, rows.ravel(), 0, len(rows), self.p)

    def predict(self, x, g=0):
        mean, sd = np.zeros(self.M), np.zeros(self.M)
        standardised.extend_row(self.spread, np.asarray(x, float), 0, self.p, self.row, 0)
        standardised.predict(self.flat, self.spread, g, self.row, 0, mean, 0, sd, 0, self.room)
        return mean, sd

    def learn(self, x, y, g=0):
        standardised.extend_row(self.spread, np.asarray(x, float), 0, self.p, self.row, 0)
        if standardised.learn(
            self.flat,
            self.spread,
            g,
            self.row,
            0,
            np.atleast_1d(float(y)) if np.ndim(y) == 0 else np.asarray(y, float),
            0,
            self.room,
        ):
            kernels.ridge_refresh(self.flat, g, np.zeros(2 * (self.p + 1) ** 2))
            self.refreshed += 1


def written_out(X, y, x, *, unit, centred=True):
    """Ridge regression of what was learnt, in one go: mean, noise and signal parts of the variance."""
    p = X.shape[1]
    lam = 2.0 if p else 1.0
    Z = np.column_stack([X / unit, np.ones(len(X))])
    z = np.append(x / unit, 1.0)
    Sigma = lam * np.eye(p + 1) + Z.T @ Z
    c = y.mean(0) if centred else np.zeros(y.shape[1])
    theta = np.linalg.solve(Sigma, Z.T @ (y - c))
    u = np.linalg.solve(Sigma, z)
    return c + z @ theta, z @ u - lam * u @ u, lam * u @ u


@pytest.mark.parametrize(("p", "M", "centred"), [(4, 1, True), (3, 2, False), (0, 1, True), (7, 3, True)])
def test_it_is_ridge_regression_on_centred_outcomes(p, M, centred):
    rng = np.random.default_rng(p)
    X, y = rng.normal(size=(40, p)) * 3.0, rng.normal(size=(40, M)) + 5.0
    model = Model(1, p, M, centred=centred)
    model.see_first(X[:4])
    for i in range(40):
        model.learn(X[i], y[i])
    x = rng.normal(size=p)
    mean, learnt, hidden = written_out(X, y, x, unit=model.spread[standardised.UNIT], centred=centred)
    got, sd = model.predict(x)
    np.testing.assert_allclose(got, mean, rtol=1e-9)
    for i in range(M):
        noise, signal = standardised.noise_and_signal(model.spread, i)
        assert signal >= noise > 0
        np.testing.assert_allclose(sd[i] ** 2, noise * learnt + signal * hidden, rtol=1e-9)


def test_noise_is_that_of_errors_made_beforehand():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    model = Model(1, 2, 1)
    model.see_first(X[:1])
    total, weights = 0.0, 1.0
    for i in range(30):
        if i:
            unit = model.spread[standardised.UNIT]
            mean, learnt, hidden = written_out(X[:i], y[:i, None], X[i], unit=unit)
            h = learnt + hidden
            weight = np.sqrt(2.0 * h / (1.0 + h))
            total += weight * (y[i] - mean[0]) ** 2 / (1.0 + h)
            weights += weight
        model.learn(X[i], y[i])
    noise, signal = standardised.noise_and_signal(model.spread, 0)
    np.testing.assert_allclose(noise, (y.var() + total) / weights, rtol=1e-9)
    np.testing.assert_allclose(signal, max(noise, y.var()), rtol=1e-9)


def test_the_noise_is_found():
    rng = np.random.default_rng(2)
    model, theta = Model(1, 5, 1), rng.normal(size=5)
    X = rng.normal(size=(4000, 5))
    model.see_first(X[:3])
    for x in X:
        model.learn(x, 100.0 + x @ theta + 0.3 * rng.normal())
    noise, _ = standardised.noise_and_signal(model.spread, 0)
    # What was seen first, and was hardly known then, counts for more than its share.
    assert 0.3 <= np.sqrt(noise) < 0.5
    mean, sd = model.predict(X[0])
    assert abs(mean[0] - 100.0 - X[0] @ theta) < 5 * sd[0]


def test_units_of_features_and_outcomes_do_not_matter():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    one, other = Model(1, 3, 1), Model(1, 3, 1)
    one.see_first(X[:5])
    other.see_first(8.0 * X[:5])
    for x, value in zip(X, y):
        one.learn(x, value)
        other.learn(8.0 * x, 100.0 * value + 5.0)
    for x in X[:10]:
        (a,), (s,) = one.predict(x)
        (b,), (t,) = other.predict(8.0 * x)
        np.testing.assert_allclose([100.0 * a + 5.0, 100.0 * s], [b, t], rtol=1e-9)


def test_an_action_without_features_is_not_worth_the_mean_for_ever():
    model = Model(1, 2, 1)
    model.see_first([[1.0, 0.0], [0.0, 0.0]])
    for _ in range(200):
        model.learn([1.0, 0.0], 1.0)
        model.learn([0.0, 0.0], 0.0)
    assert abs(model.predict([0.0, 0.0])[0][0]) < 0.05


def test_an_action_that_was_never_tried_stays_uncertain_when_rewards_do_not_vary():
    model = Model(3, 1, 1)
    model.see_first([[1.0]])
    for _ in range(100):
        model.learn([1.0], 0.9, g=0)
        model.learn([1.0], 0.6, g=1)
    _, tried = model.predict([1.0], g=0)
    _, untried = model.predict([1.0], g=2)
    assert untried[0] > 0.1 > 10 * tried[0]


def test_blocks_learn_each_by_itself():
    rng = np.random.default_rng(4)
    model = Model(2, 2, 1)
    model.see_first([[1.0, 1.0]])
    before = model.predict([1.0, -1.0], g=1)[1][0]
    X = rng.normal(size=(50, 2))
    for x in X:
        model.learn(x, x.sum(), g=0)
    _, signal = standardised.noise_and_signal(model.spread, 0)
    hidden = model.predict([1.0, -1.0], g=1)[1][0]
    # Nothing of block 1 is known: all of its variance is hidden by the ridge.
    assert hidden == pytest.approx(np.sqrt(signal) * before)
    assert model.predict([1.0, -1.0], g=0)[1][0] < 0.5 * hidden


def test_a_declared_spread_stands_in_until_something_is_learnt():
    model = Model(1, 1, 2, centred=False, prior=[0.5, 2.0])
    model.see_first([[1.0]])
    mean, sd = model.predict([1.0])
    np.testing.assert_allclose(mean, 0.0)
    np.testing.assert_allclose(sd, [0.5, 2.0])
    model.learn([1.0], [0.0, 0.0])
    assert standardised.noise_and_signal(model.spread, 0)[0] == pytest.approx(0.125)


def test_the_first_rows_may_be_zero():
    model = Model(1, 2, 1)
    model.see_first(np.zeros((3, 2)))
    assert model.spread[standardised.UNIT] == 1.0
    assert np.isfinite(model.predict([1.0, 2.0])[1]).all()


def test_many_updates_do_not_drift():
    rng = np.random.default_rng(5)
    model = Model(1, 4, 1)
    X = rng.normal(size=(20_000, 4)) * [1.0, 1e-3, 1.0, 1e3]
    y = X @ [1.0, 100.0, -1.0, 0.002] + rng.normal(size=20_000)
    model.see_first(X[:2])
    for x, value in zip(X, y):
        model.learn(x, value)
    assert model.refreshed > 10
    mean, _, _ = written_out(X, y[:, None], X[7], unit=model.spread[standardised.UNIT])
    np.testing.assert_allclose(model.predict(X[7])[0], mean, rtol=1e-6)


@pytest.mark.parametrize("outcome", [0.4, -1e6, 3e-9])
def test_outcomes_that_are_all_alike_tell_their_unit_alone(outcome):
    """Errors of rounding are no noise: what was not tried stays as uncertain as outcomes are large."""
    model = Model(2, 1, 1)
    model.see_first([[1.0]])
    for _ in range(100):
        model.learn([1.0], [outcome], 0)
    (mean,), (sd,) = model.predict([1.0], 1)
    assert mean == pytest.approx(outcome, rel=1e-9)
    assert sd == pytest.approx(abs(outcome), rel=0.2)
    model.learn([1.0], [2.0 * outcome], 1)
    assert model.predict([1.0], 1)[1][0] < abs(outcome)
