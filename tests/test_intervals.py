"""Student's t by another hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import t as student

from tightrope.intervals import mean_interval, student_quantile


@pytest.mark.parametrize("df", [1, 2, 3, 4, 9, 10, 99, 100, 499, 500, 501, 10_000, 1.5, 2.25, 731.4])
def test_quantiles_are_those_of_scipy(df: float) -> None:
    assert student_quantile(df) == pytest.approx(stdtrit(df, 0.975), rel=1e-10)


def test_the_interval_is_that_of_scipy_along_the_first_axis() -> None:
    values = np.random.default_rng(0).normal(size=(7, 3))
    mean, low, high = mean_interval(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(7)
    np.testing.assert_allclose(
        [low, high], student.interval(0.95, 6, loc=values.mean(axis=0), scale=error), rtol=1e-10
    )
    np.testing.assert_array_equal(mean, values.mean(axis=0))


def test_one_value_tells_nothing_of_its_spread() -> None:
    mean, low, high = mean_interval([2.0])
    assert mean == 2.0
    assert np.isnan([low, high]).all()
