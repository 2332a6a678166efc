"""The standardised linear model: against ridge regression written out, in any unit, and after many updates."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope.kernels import look_ahead, standardised
from tightrope.kernels import spread as layout_of_spread


class Model:
    """G blocks, p features, M outputs, as a policy would hold them."""

    def __init__(self, G, p, M, *, centred=True, prior=None):
        self.G, self.p, self.M, q = G, p, M, p + 1
        self.flat = np.zeros(standardised.flat_size(G, p, M))
        self.spread = np.zeros(layout_of_spread.spread_size(G, p, M))
        prior = np.zeros(M) if prior is None else np.asarray(prior, float)
        standardised.begin_model(self.flat, self.spread, G, p, M, centred, False, prior)
        self.row, self.room = np.zeros(q), np.zeros(2 * q + 2 + 2 * M)
        self.refreshed = 0

    def predict(self, x, g=0):
        mean, sd = np.zeros(self.M), np.zeros(self.M)
        standardised.extend_row(self.flat, self.spread, g, np.asarray(x, float), 0, self.p, self.row, 0)
        standardised.predict(self.flat, self.spread, g, self.row, 0, mean, 0, sd, 0, self.room)
        return mean, sd

    def learn(self, x, y, g=0):
        y = np.atleast_1d(np.asarray(y, float))
        if standardised.learn_costs(g, np.asarray(x, float), y, self.flat, self.spread, self.room):
            standardised.refresh(self.flat, self.spread, g, np.zeros(2 * (self.p + 1) ** 2))
            self.refreshed += 1

    def units(self, g=0):
        """Of each feature in block g: 1/unit, and what is added after."""
        first = layout_of_spread.block_at(self.spread, g) + layout_of_spread.BLOCK_HEAD
        return self.spread[first : first + 2 * self.p].reshape(2, self.p)


def written_out(X, y, x, *, units, centred=True):
    """Ridge regression of what was learnt, in one go: mean, xᵀΣ⁻¹x and the part of it that the ridge hides."""
    p = X.shape[1]
    lam, (per_unit, shift) = 4.0 if p else 1.0, units
    Z = np.column_stack([X * per_unit + shift, np.full(len(X), np.sqrt(lam))])
    z = np.append(x * per_unit + shift, np.sqrt(lam))
    Sigma = lam * np.eye(p + 1) + Z.T @ Z
    c = y.mean(0) if centred else np.zeros(y.shape[1])
    theta = np.linalg.solve(Sigma, Z.T @ (y - c))
    u = np.linalg.solve(Sigma, z)
    return c + z @ theta, z @ u, lam * u @ u


@pytest.mark.parametrize(("p", "M", "centred"), [(4, 1, True), (3, 2, False), (0, 1, True), (7, 3, True)])
def test_it_is_ridge_regression_on_centred_outcomes(p, M, centred):
    rng = np.random.default_rng(p)
    X, y = rng.normal(size=(40, p)) * 3.0, rng.normal(size=(40, M)) + 5.0
    model = Model(1, p, M, centred=centred)
    for i in range(40):
        model.learn(X[i], y[i])
    x = rng.normal(size=p)
    mean, whole, hidden = written_out(X, y, x, units=model.units(), centred=centred)
    got, sd = model.predict(x)
    np.testing.assert_allclose(got, mean, rtol=1e-9)
    for i in range(M):
        noise, signal = standardised.noise_and_signal(model.spread, i)
        assert signal >= noise > 0
        expected = whole * (noise + (hidden / whole) ** 4 * (signal - noise))
        np.testing.assert_allclose(sd[i] ** 2, expected, rtol=1e-9)


def test_noise_is_that_of_errors_made_beforehand():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    model = Model(1, 2, 1)
    total, weights = 0.0, 1.0
    for i in range(30):
        if i:
            mean, h, _ = written_out(X[:i], y[:i, None], X[i], units=model.units())
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
    for x, value in zip(X, y):
        one.learn(x, value)
        other.learn(8.0 * x, 100.0 * value + 5.0)
    for x in X[:10]:
        (a,), (s,) = one.predict(x)
        (b,), (t,) = other.predict(8.0 * x)
        np.testing.assert_allclose([100.0 * a + 5.0, 100.0 * s], [b, t], rtol=1e-9)


def test_an_action_without_features_is_not_worth_the_mean_for_ever():
    model = Model(1, 2, 1)
    for _ in range(200):
        model.learn([1.0, 0.0], 1.0)
        model.learn([0.0, 0.0], 0.0)
    assert abs(model.predict([0.0, 0.0])[0][0]) < 0.05


def test_an_action_that_was_never_tried_stays_uncertain_when_rewards_do_not_vary():
    model = Model(3, 1, 1)
    for _ in range(100):
        model.learn([1.0], 0.9, g=0)
        model.learn([1.0], 0.6, g=1)
    _, tried = model.predict([1.0], g=0)
    _, untried = model.predict([1.0], g=2)
    assert untried[0] > 0.1 > 10 * tried[0]


def test_blocks_learn_each_by_itself():
    rng = np.random.default_rng(4)
    model = Model(2, 2, 1)
    X = rng.normal(size=(50, 2))
    for x in X:
        model.learn(x, x.sum(), g=0)
    _, signal = standardised.noise_and_signal(model.spread, 0)
    hidden = model.predict([1.0, -1.0], g=1)[1][0]
    # Nothing of block 1 is known: it is as uncertain as outcomes are noisy.
    assert hidden == pytest.approx(np.sqrt(signal))
    assert model.predict([1.0, -1.0], g=0)[1][0] < 0.5 * hidden


def test_a_declared_spread_stands_in_until_something_is_learnt():
    model = Model(1, 1, 2, centred=False, prior=[0.5, 2.0])
    mean, sd = model.predict([1.0])
    np.testing.assert_allclose(mean, 0.0)
    np.testing.assert_allclose(sd, [0.5, 2.0])
    model.learn([1.0], [0.0, 0.0])
    assert standardised.noise_and_signal(model.spread, 0)[0] == pytest.approx(
        0.25 / (1.0 + np.sqrt(10.0 / 9.0))
    )


def test_the_first_rows_may_be_zero():
    model = Model(1, 2, 1)
    for _ in range(3):
        model.learn([0.0, 0.0], 1.0)
    assert np.isfinite(model.predict([1.0, 2.0])[1]).all()
    model.learn([0.0, 5.0], 2.0)
    per_unit, shift = model.units()
    # One row in four is 5: the mean is 5/4, and the variance 25 · 3/16.
    np.testing.assert_allclose(per_unit, [0.0, 0.8 / np.sqrt(3.0)])
    np.testing.assert_allclose(shift, [0.0, -1.0 / np.sqrt(3.0)])


def test_features_have_units_of_their_own():
    """Each by another factor, between which there are twelve orders of magnitude: nothing changes."""
    rng = np.random.default_rng(6)
    factors = np.array([1e-6, 1.0, 1e6, 3.0])
    X, y = rng.normal(size=(200, 4)), rng.normal(size=200)
    X[:120, 3] = 0.0
    one, other = Model(2, 4, 1), Model(2, 4, 1)
    for i, (x, value) in enumerate(zip(X, y)):
        for g in (0, 1):
            np.testing.assert_allclose(one.predict(x, g), other.predict(factors * x, g), rtol=1e-7)
        one.learn(x, value, i % 2)
        other.learn(factors * x, value, i % 2)


def test_features_are_centred_on_their_means():
    """A feature far from 0 says as much as the same feature about 0, from the first update of its block's units on."""
    rng = np.random.default_rng(11)
    X, factors, offsets = rng.normal(size=(300, 3)), np.array([1e-3, 1.0, 1e3]), np.array([0.0, 1e4, -1e8])
    y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.normal(size=300)
    about, far = Model(1, 3, 1), Model(1, 3, 1)
    for x, value in zip(X, y):
        about.learn(x, value)
        far.learn(offsets + factors * x, value)
    for x in X[:20]:
        mean, sd = far.predict(offsets + factors * x)
        np.testing.assert_allclose(mean, about.predict(x)[0], atol=2e-3)
        np.testing.assert_allclose(sd, about.predict(x)[1], rtol=0.02)
    per_unit, shift = far.units()
    known = (offsets + factors * X)[: max(n for n in renewals(300) if n <= 300)]
    np.testing.assert_allclose(per_unit, 1.0 / known.std(axis=0), rtol=1e-3)
    np.testing.assert_allclose(shift, -known.mean(axis=0) / known.std(axis=0), rtol=1e-3)


def renewals(rows):
    """After how many rows a block updates its units."""
    n, found = 2, []
    while n <= rows:
        found.append(n)
        n = int(1.5 * n) + 1
    return found


def test_a_feature_that_has_not_varied_leaves_the_constant_alone():
    rng = np.random.default_rng(12)
    one, other = Model(1, 2, 1), Model(1, 1, 1)
    for x, value in zip(rng.normal(size=100), rng.normal(size=100)):
        one.learn([x, 7.0], value)
        other.learn([x], value)
    (mean,), (sd,) = one.predict([0.3, 7.0])
    np.testing.assert_allclose([mean], other.predict([0.3])[0], rtol=1e-9)
    # The first row, which knew no mean, is behind one of the errors.
    np.testing.assert_allclose([sd], other.predict([0.3])[1], rtol=1e-2)


def test_a_category_that_comes_late_is_as_uncertain_as_outcomes_are_noisy():
    rng = np.random.default_rng(7)
    model = Model(1, 2, 1)
    for _ in range(1000):
        model.learn([rng.normal(), 0.0], rng.normal())
    _, signal = standardised.noise_and_signal(model.spread, 0)
    assert model.predict([0.0, 1.0])[1][0] == pytest.approx(np.sqrt(signal), rel=0.05)
    model.learn([0.0, 1.0], 3.0)
    assert model.predict([0.0, 1.0])[0][0] == pytest.approx(3.0, rel=0.05)


def test_the_ridge_does_not_grow_with_the_number_of_features():
    rng = np.random.default_rng(8)
    X, noise = rng.normal(size=(400, 40)), 0.1 * rng.normal(size=400)
    model = Model(1, 40, 1)
    for x, e in zip(X, noise):
        model.learn(x, x[0] + e)
    assert model.predict(np.eye(40)[0])[0][0] == pytest.approx(1.0, abs=0.05)


class TestLookAhead:
    def looked(self, rounds, chosen, G=2, p=1):
        """e of each block after so many rounds, in each of which the estimates choose a block."""
        rng = np.random.default_rng(9)
        model = Model(G, p, 1)
        ids, room = np.arange(G), np.zeros(look_ahead.look_room(p + 1))
        for t in range(rounds):
            x = rng.normal(size=p)
            model.learn(x, rng.normal(), t % G)
            look_ahead.look_ahead(model.flat, model.spread, x, 0, True, ids, chosen(t), room)
        first = [layout_of_spread.block_at(model.spread, g) + layout_of_spread.BLOCK_LEFT for g in range(G)]
        return model.spread[first]

    def test_what_the_estimates_never_choose_keeps_all_of_its_deviation(self):
        always, never = self.looked(400, lambda t: 0)
        assert never == pytest.approx(1.0, abs=1e-12)
        # Half of the rows were learnt of it, and ten times all rounds are to come: √(½ / 10½).
        assert always == pytest.approx(np.sqrt(0.5 / 10.5), rel=0.1)

    def test_it_is_all_before_the_first_look_and_for_arms_too(self):
        np.testing.assert_array_equal(self.looked(7, lambda t: 0), 1.0)
        always, never = self.looked(400, lambda t: 1, p=0)[::-1]
        assert never == pytest.approx(1.0, abs=1e-12)
        assert always < 0.3

    def test_what_was_chosen_long_ago_hardly_counts(self):
        early, late = self.looked(2000, lambda t: int(t > 40))
        assert early > 0.95
        assert late < 0.3

    def test_units_do_not_matter(self):
        rng = np.random.default_rng(10)
        X = rng.normal([0.0, 1.0, 5.0], size=(300, 3))
        left = []
        for factors in (np.ones(3), np.array([1e-6, 1.0, 1e6])):
            model, room = Model(2, 3, 1), np.zeros(look_ahead.look_room(4))
            for t, x in enumerate(X * factors):
                model.learn(x, 1.0, t % 2)
                best = int(X[t, 0] > 0.0)
                look_ahead.look_ahead(model.flat, model.spread, x, 0, True, np.arange(2), best, room)
            left.append([standardised.drawn_part(model.spread, g) for g in range(2)])
        np.testing.assert_allclose(*left, rtol=1e-7)
        assert max(left[0]) < 0.75 * 0.6


def test_many_updates_do_not_drift():
    rng = np.random.default_rng(5)
    model = Model(1, 4, 1)
    X = rng.normal(size=(20_000, 4)) * [1.0, 1e-3, 1.0, 1e3]
    y = X @ [1.0, 100.0, -1.0, 0.002] + rng.normal(size=20_000)
    for x, value in zip(X, y):
        model.learn(x, value)
    assert model.refreshed > 10
    mean, _, _ = written_out(X, y[:, None], X[7], units=model.units())
    np.testing.assert_allclose(model.predict(X[7])[0], mean, rtol=1e-6)


@pytest.mark.parametrize("outcome", [0.4, -1e6, 3e-9])
def test_outcomes_that_are_all_alike_tell_their_unit_alone(outcome):
    """Errors of rounding are no noise: what was not tried stays as uncertain as outcomes are large."""
    model = Model(2, 1, 1)
    for _ in range(100):
        model.learn([1.0], [outcome], 0)
    (mean,), (sd,) = model.predict([1.0], 1)
    assert mean == pytest.approx(outcome, rel=1e-9)
    assert sd == pytest.approx(abs(outcome), rel=0.2)
    model.learn([1.0], [2.0 * outcome], 1)
    assert model.predict([1.0], 1)[1][0] < abs(outcome)
