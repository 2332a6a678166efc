"""The fits on made data, and on the real table where it is at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tightrope.environments import hospital_numbers as numbers
from tightrope_lab import calibration as cal
from tightrope_lab.calibration.encounters import Rows
from tightrope_lab.calibration.fits import (
    auc,
    boosted_fit,
    calibrate,
    folds_of,
    linear_fit,
    recalibration,
)

RAW = Path(__file__).parents[4] / "shared" / "data" / "diabetes130" / "diabetic_data.parquet"
needs_raw = pytest.mark.skipif(not RAW.is_file(), reason=f"the raw table is not at {RAW}")


def made_rows(n: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    context, ward = rng.integers(0, 360, n), rng.integers(0, 6, n)
    y = (rng.random(n) < 0.3 + 0.4 * numbers.contexts()[context, 1] * (ward == 2)).astype(float)
    stay = rng.integers(1, 15, n).astype(float)
    return Rows(n, n, context, ward, rng.integers(0, n // 2, n), stay, {"30-day": y, "any": 1 - y})


@pytest.mark.parametrize("ridge", [1.0, 300.0])
def test_linear_fit_solves_the_augmented_least_squares(ridge: float) -> None:
    """Against rows of data stacked on rows √ridge for each penalised slope, b and g kept apart."""
    rows = made_rows(3000)
    y, x = rows.success["30-day"], numbers.shipped().features[rows.context]
    design = np.zeros((y.size + 54, 10 + 60))
    design[: y.size, :10] = x
    for j in range(6):
        design[: y.size, 10 + 10 * j : 20 + 10 * j] = x * (rows.ward == j)[:, None]
        for i in range(9):
            design[y.size + 9 * j + i, 10 + 10 * j + 1 + i] = np.sqrt(ridge)
    solution = np.linalg.lstsq(design, np.concatenate([y, np.zeros(54)]), rcond=None)[0]
    expected = solution[:10] + solution[10:].reshape(6, 10)
    found = linear_fit(rows, y, np.ones(y.size, dtype=bool), ridge)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_auc_counts_ordered_pairs() -> None:
    rng = np.random.default_rng(1)
    y, score = rng.integers(0, 2, 200).astype(float), rng.integers(0, 20, 200) / 20
    above = score[y == 1][:, None] - score[y == 0]
    assert auc(y, score) == pytest.approx((above > 0).mean() + (above == 0).mean() / 2, abs=1e-12)


def test_recalibration_meets_the_score_equations() -> None:
    rng = np.random.default_rng(2)
    logit = rng.normal(size=5000)
    y = (rng.random(5000) < 1 / (1 + np.exp(-(0.5 * logit - 0.3)))).astype(float)
    slope, intercept = recalibration(y, logit)
    residual = y - 1 / (1 + np.exp(-(slope * logit + intercept)))
    assert abs(residual.sum()) < 1e-8
    assert abs(residual @ logit) < 1e-8
    assert slope == pytest.approx(0.5, abs=0.1)


def test_boosted_trees_find_what_is_not_linear() -> None:
    pytest.importorskip("sklearn")
    rows = made_rows(6000)
    boosted = boosted_fit(rows, rows.success["30-day"], np.ones(6000, dtype=bool))
    male = numbers.contexts()[:, 1] == 1
    assert boosted.shape == (360, 6)
    assert boosted[male, 2].mean() > boosted[~male, 2].mean() + 0.3
    assert abs(boosted[male, 3].mean() - boosted[~male, 3].mean()) < 0.1


def test_folds_never_split_a_patient() -> None:
    patient = np.random.default_rng(3).integers(0, 700, 4000)
    folds = folds_of(patient)
    assert {len(set(folds[patient == one])) for one in np.unique(patient)} == {1}
    sizes = np.bincount([folds[patient == one][0] for one in np.unique(patient)])
    assert sizes.size == 5
    assert np.ptp(sizes) <= 1


def test_cells_of_few_encounters_show_the_fit() -> None:
    pytest.importorskip("sklearn")
    rows = made_rows(4000)
    made = calibrate(rows, "all")
    cell = np.zeros((360, 6))
    np.add.at(cell, (rows.context, rows.ward), 1)
    small = cell < 11
    np.testing.assert_array_equal(made.stay.cells[small], made.stay_table()[small])
    sums = np.zeros((360, 6))
    np.add.at(sums, (rows.context, rows.ward), rows.stay)
    np.testing.assert_allclose(made.stay.cells[~small], sums[~small] / cell[~small], rtol=1e-12)
    assert made.stay.r2 < 0.02  # stays were drawn without regard to context: nothing to predict out of fold
    assert made.counts.sum() == 4000
    np.testing.assert_allclose(made.shares, np.bincount(rows.ward) / 4000)


@needs_raw
@pytest.mark.parametrize("first_encounter", [False, True])
def test_recalibration_gives_the_shipped_numbers(first_encounter: bool) -> None:
    pytest.importorskip("pyarrow")
    sklearn = pytest.importorskip("sklearn")
    fresh = cal.calibrate_hospital(RAW, first_encounter=first_encounter)
    kept = numbers.shipped("first" if first_encounter else "all")
    # Another release of scikit-learn may grow other trees.
    trees = 1e-9 if sklearn.__version__ == kept.scikit_learn else 0.03
    assert (fresh.kept, fresh.patients) == (kept.kept, kept.patients)
    np.testing.assert_array_equal(fresh.counts, kept.counts)
    np.testing.assert_allclose(fresh.shares, kept.shares, rtol=0, atol=1e-9)
    for name, found in fresh.outcomes.items():
        expected = kept.outcomes[name]
        np.testing.assert_allclose(found.by_ward, expected.by_ward, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.boosted, expected.boosted, rtol=0, atol=trees)
        for quality, tolerance in (("linear_quality", 1e-9), ("boosted_quality", trees)):
            for field in ("auc", "log_loss", "slope", "intercept"):
                got, want = (getattr(getattr(outcome, quality), field) for outcome in (found, expected))
                assert got == pytest.approx(want, abs=tolerance), (name, quality, field)
    np.testing.assert_allclose(fresh.stay.coefficients, kept.stay.coefficients, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fresh.stay.cells, kept.stay.cells, rtol=0, atol=1e-9)
    assert fresh.stay.r2 == pytest.approx(kept.stay.r2, abs=1e-9)
