"""Intervals of means and shares: those of the textbooks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tightrope.intervals import mean_interval, share_interval, student_quantile


@pytest.mark.parametrize("df", [1, 2, 3, 4, 9, 30, 99, 500, 501, 10_000, 1.5, 2.25, 731.4])
def test_students_quantile(df):
    assert student_quantile(df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-10)


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(size=(12, 3))
    mean, low, high = mean_interval(values)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    np.testing.assert_allclose(mean, values.mean(axis=0))
    np.testing.assert_allclose([low, high], [expected.low, expected.high])


def test_one_run_says_nothing_about_the_spread():
    mean, low, high = mean_interval(np.array([[2.0, 3.0]]))
    assert mean.tolist() == [2.0, 3.0]
    assert np.isnan([low, high]).all()


def test_the_interval_of_a_share_is_wilsons():
    shares = np.array([0, 3, 20]) / 20
    low, high = share_interval(shares, 20)
    expected = [stats.binomtest(k, 20).proportion_ci(method="wilson") for k in (0, 3, 20)]
    np.testing.assert_allclose(low, [one.low for one in expected])
    np.testing.assert_allclose(high, [one.high for one in expected])
