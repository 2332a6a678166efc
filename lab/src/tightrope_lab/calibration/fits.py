"""From encounters to a calibration: linear fits and boosted trees, judged on patients that they have not seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from tightrope.environments.hospital_numbers import (
    LEVELS,
    WARDS,
    Calibration,
    Codes,
    Outcome,
    Quality,
    Reward,
    Sample,
    Stay,
    contexts,
    features,
    frozen,
)
from tightrope.extras import explained
from tightrope.validation import Array
from tightrope_lab.calibration.encounters import Rows, check_counts, read_columns, select

_RIDGE: Mapping[Reward, float] = {"30-day": 1000.0, "any": 300.0}
_STAY_RIDGE = 300.0
_FOLDS = 5
_SMALLEST_CELL = 11  # a mean over fewer encounters says more about single patients than about the cell


def calibrate_hospital(source: str | Path, *, first_encounter: bool = False) -> Calibration:
    """Calibrate the ward-routing study on the table "Diabetes 130-US hospitals, 1999-2008".

    Parameters
    ----------
    source : path
        The table as Parquet (needs pyarrow), or the original CSV.
    first_encounter : bool
        Use each patient's first encounter alone, so that no patient counts twice.

    Raises
    ------
    InvalidInput
        If the file is not that table: a column is missing, a value is unknown, or the numbers of rows after
        each exclusion are not those of the published table.

    Examples
    --------
    >>> calibration = calibrate_hospital("diabetic_data.csv")  # doctest: +SKIP
    >>> write(calibration, "hospital.json")  # doctest: +SKIP
    >>> calibrate_hospital("no_such_table.csv")
    Traceback (most recent call last):
    tightrope.errors.InvalidInput: source must be an existing file, but got 'no_such_table.csv'.
    """
    rows = select(read_columns(Path(source)), first_encounter)
    check_counts(rows, first_encounter)
    return calibrate(rows, "first" if first_encounter else "all")


def calibrate(rows: Rows, encounters: Sample) -> Calibration:
    """Fit everything to these encounters."""
    with explained("the calibration"):
        import sklearn

    folds = folds_of(rows.patient)
    counts = _cell_sums(rows, np.ones(rows.ward.size))
    return Calibration(
        encounters=encounters,
        kept=rows.kept,
        patients=np.unique(rows.patient).size,
        counts=frozen(counts.sum(axis=1).astype(np.int64)),
        shares=frozen(counts.sum(axis=0) / counts.sum()),
        outcomes={name: _outcome(rows, name, folds) for name in get_args(Reward)},
        stay=_stay(rows, folds),
        scikit_learn=sklearn.__version__,
    )


def folds_of(patient: Codes) -> Codes:
    """Deal the patients out in turn, in the order of their numbers: the same folds on every machine."""
    rank: Codes = np.unique(patient, return_inverse=True)[1]
    return rank % _FOLDS


def _outcome(rows: Rows, reward: Reward, folds: Codes) -> Outcome:
    y, ridge = rows.success[reward], _RIDGE[reward]
    everyone = np.ones(y.size, dtype=bool)
    predicted = {"linear": np.empty(y.size), "boosted": np.empty(y.size)}
    for fold in range(_FOLDS):
        seen, unseen = folds != fold, folds == fold
        cell = rows.context[unseen], rows.ward[unseen]
        predicted["linear"][unseen] = (features() @ linear_fit(rows, y, seen, ridge).T)[cell]
        predicted["boosted"][unseen] = boosted_fit(rows, y, seen)[cell]
    return Outcome(
        mean=float(y.mean()),
        by_ward=frozen(np.bincount(rows.ward, y) / np.bincount(rows.ward)),
        ridge=ridge,
        coefficients=frozen(linear_fit(rows, y, everyone, ridge)),
        boosted=frozen(boosted_fit(rows, y, everyone)),
        linear_quality=_quality(y, predicted["linear"]),
        boosted_quality=_quality(y, predicted["boosted"]),
    )


def _stay(rows: Rows, folds: Codes) -> Stay:
    y = rows.stay
    predicted = np.empty(y.size)
    for fold in range(_FOLDS):
        unseen = folds == fold
        table = features() @ linear_fit(rows, y, ~unseen, _STAY_RIDGE).T
        predicted[unseen] = table[rows.context[unseen], rows.ward[unseen]]
    coefficients = linear_fit(rows, y, np.ones(y.size, dtype=bool), _STAY_RIDGE)
    counts = _cell_sums(rows, np.ones(y.size))
    means = _cell_sums(rows, y) / np.maximum(counts, 1)
    return Stay(
        mean=float(y.mean()),
        by_ward=frozen(np.bincount(rows.ward, y) / np.bincount(rows.ward)),
        ridge=_STAY_RIDGE,
        coefficients=frozen(coefficients),
        cells=frozen(np.where(counts >= _SMALLEST_CELL, means, features() @ coefficients.T)),
        r2=float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()),
    )


def _cell_sums(rows: Rows, values: Array, seen: NDArray[np.bool_] | None = None) -> Array:
    """Sums by context and ward, (360, 6)."""
    chosen = slice(None) if seen is None else seen
    cell = rows.context[chosen] * len(WARDS) + rows.ward[chosen]
    sums = np.bincount(cell, values[chosen], int(np.prod(LEVELS)) * len(WARDS))
    return sums.astype(np.float64).reshape(-1, len(WARDS))


def linear_fit(rows: Rows, y: Array, seen: NDArray[np.bool_], ridge: float) -> Array:
    """Least squares of y on xᵀb + xᵀg_ward, `ridge` on the slopes of g alone; b + g_ward, (6, 10).

    b's intercept merges with the wards', so the unknowns are 6 intercepts, 9 shared slopes, 6 × 9 deviations.
    """
    slopes = features()[:, 1:]
    (n, p), wards = slopes.shape, len(WARDS)
    design = np.zeros((n, wards, wards + p + wards * p))
    for j in range(wards):
        design[:, j, j] = 1.0
        design[:, j, wards : wards + p] = slopes
        design[:, j, wards + p * (j + 1) : wards + p * (j + 2)] = slopes
    flat = design.reshape(n * wards, -1)
    gram = (flat.T * _cell_sums(rows, np.ones(y.size), seen).ravel()) @ flat
    gram[np.diag_indices_from(gram)] += np.repeat([0.0, ridge], [wards + p, wards * p])
    solution = np.linalg.solve(gram, flat.T @ _cell_sums(rows, y, seen).ravel())
    deviations = solution[wards + p :].reshape(wards, p)
    return np.column_stack([solution[:wards], solution[wards : wards + p] + deviations])


def boosted_fit(rows: Rows, y: Array, seen: NDArray[np.bool_]) -> Array:
    """Success by boosted trees on the levels of the context and the ward, (360, 6)."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    levels = contexts().astype(np.float64)
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=100,
        max_leaf_nodes=8,
        min_samples_leaf=50,
        categorical_features=[4, 5],
        early_stopping=False,
        random_state=0,
    )
    # The trees are small: several threads would mostly wait for each other, without end on a busy machine.
    with threadpool_limits(1, user_api="openmp"):
        trees.fit(np.column_stack([levels[rows.context[seen]], rows.ward[seen]]), y[seen])
    J = len(WARDS)
    grid = np.column_stack([np.repeat(levels, J, axis=0), np.tile(np.arange(J), len(levels))])
    table: Array = trees.predict_proba(grid)[:, 1].reshape(-1, J)
    return table


def _quality(y: Array, predicted: Array) -> Quality:
    p = np.clip(predicted, 1e-6, 1 - 1e-6)
    slope, intercept = recalibration(y, np.log(p / (1 - p)))
    loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return Quality(auc=auc(y, predicted), log_loss=float(loss), slope=slope, intercept=intercept)


def auc(y: Array, score: Array) -> float:
    """Probability that a success scores above a failure, ties counting half (Mann-Whitney)."""
    _, rank, counts = np.unique(score, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    positive = y.sum()
    above = middle[rank] @ y - positive * (positive + 1) / 2
    return float(above / (positive * (y.size - positive)))


def recalibration(y: Array, logit: Array) -> tuple[float, float]:
    """Slope and intercept of the logistic regression of y on a logit, by Newton's method."""
    design = np.column_stack([logit, np.ones(y.size)])
    beta = np.array([1.0, 0.0])
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ beta))
        step = np.linalg.solve((design.T * (p * (1 - p))) @ design, design.T @ (y - p))
        beta += step
        if np.abs(step).max() < 1e-13:
            break
    return float(beta[0]), float(beta[1])
