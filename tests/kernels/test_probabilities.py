"""The probability to be the largest: against draws, a brute-force quadrature, closed forms, and with values that do not vary."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from tightrope.kernels import probabilities


def largest(mean, sd):
    mean, sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)
    out = np.full(mean.size, np.nan)
    probabilities.largest_probabilities(mean, sd, out, np.zeros(probabilities.probabilities_room(mean.size)))
    return out


def by_brute_force(mean, sd, nodes=30_001):
    """One fine grid over everything; right where the deviations are alike."""
    y = np.linspace((mean - 9 * sd).min(), (mean + 9 * sd).max(), nodes)
    z = (y - mean[:, None]) / sd[:, None]
    F = np.maximum(ndtr(z), 1e-300)
    density = np.exp(-0.5 * z * z) / (sd[:, None] * np.sqrt(2 * np.pi))
    return np.trapezoid(density * np.exp(np.log(F).sum(0)) / F, y, axis=1)


@pytest.mark.parametrize("J", [2, 3, 10, 40])
@pytest.mark.parametrize("ratio", [1.0, 5.0, 30.0])
def test_against_a_fine_grid(J, ratio):
    rng = np.random.default_rng(J)
    for _ in range(8):
        mean = rng.normal(size=J)
        sd = rng.uniform(0.1, 2.0) * np.exp(rng.uniform(0, np.log(ratio), size=J)) / ratio
        np.testing.assert_allclose(largest(mean, sd), by_brute_force(mean, sd), atol=1e-6)


@pytest.mark.parametrize("ratio", [1.0, 1000.0])
def test_against_draws(ratio):
    rng = np.random.default_rng(1)
    draws = 400_000
    for J in (2, 3, 7, 15):
        mean = rng.normal(size=J)
        sd = np.exp(rng.uniform(0, np.log(ratio), size=J)) / np.sqrt(ratio)
        p = largest(mean, sd)
        seen = np.bincount((mean + sd * rng.normal(size=(draws, J))).argmax(1), minlength=J) / draws
        z = (seen - p) / np.sqrt(np.maximum(p * (1 - p), 1e-6) / draws)
        assert np.abs(z).max() < 4.5


def test_two_values_have_a_closed_form():
    rng = np.random.default_rng(2)
    for _ in range(50):
        mean, sd = rng.normal(size=2), np.exp(rng.uniform(-6, 2, size=2))
        first = norm.cdf((mean[0] - mean[1]) / np.hypot(*sd))
        np.testing.assert_allclose(largest(mean, sd), [first, 1 - first], atol=1e-6)


def test_equal_values_share():
    np.testing.assert_allclose(largest(np.full(25, 3.0), np.full(25, 0.2)), 1 / 25, rtol=1e-7)


def test_one_value():
    assert largest([1.5], [0.3]).tolist() == [1.0]
    assert largest([1.5], [0.0]).tolist() == [1.0]


def test_values_that_do_not_vary():
    assert largest([1.0, 3.0, 3.0, 2.0], np.zeros(4)).tolist() == [0, 1, 0, 0]
    assert largest([3.0 - 1e-13, 3.0], np.zeros(2)).tolist() == [1, 0]


def test_some_values_vary_and_some_do_not():
    p = largest([0.0, 0.5, 0.4], [1.0, 0.0, 0.0])
    np.testing.assert_allclose(p, [1 - ndtr(0.5), ndtr(0.5), 0.0], atol=1e-7)
    p = largest([0.0, 0.1, 0.5], [1.0, 0.5, 0.0])
    rng = np.random.default_rng(3)
    values = np.column_stack(
        [rng.normal(size=400_000), 0.1 + 0.5 * rng.normal(size=400_000), np.full(400_000, 0.5)]
    )
    np.testing.assert_allclose(p, np.bincount(values.argmax(1)) / 400_000, atol=0.004)


def test_a_value_out_of_reach_has_probability_zero():
    assert largest([0.0, 100.0], [1.0, 1.0]).tolist() == [0.0, 1.0]
    assert largest([0.0, 100.0], [1.0, 0.0]).tolist() == [0.0, 1.0]


def test_they_sum_to_one_and_follow_a_permutation():
    rng = np.random.default_rng(4)
    mean, sd = rng.normal(size=60), np.exp(rng.normal(size=60))
    order = rng.permutation(60)
    p = largest(mean, sd)
    assert abs(p.sum() - 1.0) < 1e-12
    np.testing.assert_allclose(largest(mean[order], sd[order]), p[order], atol=1e-12)


def test_units_do_not_matter():
    rng = np.random.default_rng(5)
    mean, sd = rng.normal(size=8), np.exp(rng.normal(size=8))
    np.testing.assert_allclose(largest(1e6 * mean + 5, 1e6 * sd), largest(mean, sd), rtol=1e-8)


def test_actions_that_may_not_be_chosen_are_left_out():
    rng = np.random.default_rng(6)
    mean, sd = rng.normal(size=6), np.exp(rng.normal(size=6))
    may = np.array([True, False, True, True, False, True])
    values = np.where(may, mean + sd * rng.normal(size=(400_000, 6)), -np.inf)
    seen = np.bincount(values.argmax(1), minlength=6)[may] / 400_000
    np.testing.assert_allclose(largest(mean[may], sd[may]), seen, atol=0.004)


def test_means_that_no_deviation_changes_leave_the_lowest_of_the_best():
    assert largest([1e20, 3e20, 3e20, -1e20], [1.0, 1.0, 2.0, 1.0]).tolist() == [0.0, 1.0, 0.0, 0.0]
