"""The ward-routing study's numbers, from 50,726 real hospital stays to what `hospital()` needs.

The assignment of patients to wards in the data is observational. What comes out is a *semi-synthetic* truth:
a surface fitted to real outcomes, from which outcomes are drawn. It supports no clinical claim
(docs/hospital.md).

>>> calibration = shipped()
>>> calibration.counts.sum(), calibration.features.shape, calibration.table("30-day").shape
(np.int64(50726), (360, 10), (360, 6))
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InvalidInput

__all__ = [
    "CREDIT",
    "DIAGNOSES",
    "FEATURES",
    "LICENCE",
    "WARDS",
    "Calibration",
    "Outcome",
    "Quality",
    "Stay",
    "calibrate_hospital",
    "contexts",
    "read",
    "shipped",
    "write",
]

Array: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]
Sample: TypeAlias = Literal["all", "first"]
Reward: TypeAlias = Literal["30-day", "any"]
Truth: TypeAlias = Literal["linear", "misspecified"]

WARDS = ("internal", "surgery", "family", "emergency", "cardiology", "other")
DIAGNOSES = ("other", "circulatory", "respiratory", "diabetes", "injury", "digestive")
FEATURES = ("one", "age", "male", "prior inpatient", "prior emergency", *DIAGNOSES[1:])
LICENCE = "CC BY 4.0"
CREDIT = (
    "Clore, J., Cios, K., DeShazo, J., Strack, B. (2014). Diabetes 130-US Hospitals for Years 1999-2008 "
    "[dataset]. UCI Machine Learning Repository. doi:10.24432/C5230J",
    "Strack, B., DeShazo, J. P., Gennings, C., Olmo, J. L., Ventura, S., Cios, K. J., Clore, J. N. (2014). "
    "Impact of HbA1c Measurement on Hospital Readmission Rates: Analysis of 70,000 Clinical Database Patient "
    "Records. BioMed Research International 2014, 781670",
)

LONGEST_STAY = 14  # days; the data hold no longer stay
_LEVELS = (5, 2, 3, 2, 6)  # age band, gender, prior inpatient, prior emergency, diagnosis
_INPATIENT_SCORE = np.array([0.0, 0.3, 1.0])
_RIDGE: Mapping[Reward, float] = MappingProxyType({"30-day": 1000.0, "any": 300.0})
_STAY_RIDGE = 300.0
_FOLDS = 5
_SMALLEST_CELL = 11  # a mean over fewer encounters says more about single patients than about the cell


@dataclass(frozen=True, slots=True)
class Quality:
    """How well predicted probabilities fit patients that the fit has not seen.

    `slope` and `intercept` are of the regression of the outcome on the logit of the prediction: 1 and 0 when
    the predictions are calibrated.

    Examples
    --------
    >>> round(shipped().outcomes["30-day"].linear_quality.auc, 2)
    0.64
    """

    auc: float
    log_loss: float
    slope: float
    intercept: float


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """One success to be rewarded, as a function of context and ward.

    Attributes
    ----------
    mean : float
        Success over all encounters.
    by_ward : array (6,)
        Success by ward, as logged.
    ridge : float
        Penalty on the slopes of the wards' deviations.
    coefficients : array (6, 10)
        The linear fit: success of context c in ward j is ⟨coefficients[j], x(c)⟩.
    boosted : array (360, 6)
        Success by boosted trees, the truth of the misspecified mode.
    linear_quality, boosted_quality : Quality
        Out of fold, folds by patient.

    Examples
    --------
    >>> shipped().outcomes["any"].coefficients.shape
    (6, 10)
    """

    mean: float
    by_ward: Array
    ridge: float
    coefficients: Array
    boosted: Array
    linear_quality: Quality
    boosted_quality: Quality


@dataclass(frozen=True, eq=False, slots=True)
class Stay:
    """Length of stay in days, as a function of context and ward.

    Attributes
    ----------
    mean : float
    by_ward : array (6,)
    ridge : float
        Penalty on the slopes of the wards' deviations.
    coefficients : array (6, 10)
        The linear fit.
    cells : array (360, 6)
        Means by context and ward; the linear fit where fewer than 11 encounters were seen.
    r2 : float
        Share of the variance that the linear fit explains, out of fold.

    Examples
    --------
    >>> stay = shipped().stay
    >>> bool(stay.cells.min() >= 1 and stay.cells.max() <= 14)
    True
    """

    mean: float
    by_ward: Array
    ridge: float
    coefficients: Array
    cells: Array
    r2: float


@dataclass(frozen=True, eq=False, slots=True)
class Calibration:
    """What the raw table says, as aggregate numbers: no row of a patient is kept.

    Attributes
    ----------
    encounters : "all" or "first"
        Whether every encounter counts or each patient's first alone.
    kept : int
        Encounters left after the exclusions, before those of unknown specialty go.
    patients : int
        Distinct patients among the encounters used.
    counts : array (360,)
        Encounters in each context.
    shares : array (6,)
        Logged share of each ward.
    outcomes : mapping
        "30-day" (not readmitted within 30 days) and "any" (not readmitted at all).
    stay : Stay
    scikit_learn : str
        Version that grew the boosted trees.

    Examples
    --------
    >>> calibration = shipped("first")
    >>> calibration.patients, round(float(calibration.weights.sum()), 12)
    (36333, 1.0)
    """

    encounters: Sample
    kept: int
    patients: int
    counts: Codes
    shares: Array
    outcomes: Mapping[Reward, Outcome]
    stay: Stay
    scikit_learn: str

    @property
    def weights(self) -> Array:
        """Frequency of each context, (360,)."""
        return self.counts.astype(np.float64) / float(self.counts.sum())

    @property
    def features(self) -> Array:
        """x(c), (360, 10), named by `FEATURES`; ‖x‖² <= 6."""
        return _features()

    def table(self, reward: Reward, truth: Truth = "linear") -> Array:
        """Probability of success by context and ward, (360, 6)."""
        outcome = self.outcomes[reward]
        return self.features @ outcome.coefficients.T if truth == "linear" else outcome.boosted

    def stay_table(self, truth: Truth = "linear") -> Array:
        """Expected days by context and ward, (360, 6)."""
        return self.features @ self.stay.coefficients.T if truth == "linear" else self.stay.cells


def contexts() -> Codes:
    """Levels of the 360 contexts, (360, 5): age band, male, prior inpatient, prior emergency, diagnosis.

    Age bands: below 50, 50s, 60s, 70s, 80 and over. Prior inpatient visits: 0, 1, 2 or more. Prior
    emergency visits: 0, 1 or more. Diagnoses as in `DIAGNOSES`.

    Examples
    --------
    >>> contexts()[[0, 359]].tolist()
    [[0, 0, 0, 0, 0], [4, 1, 2, 1, 5]]
    """
    return np.stack(np.unravel_index(np.arange(np.prod(_LEVELS)), _LEVELS), axis=1).astype(np.int64)


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
    tightrope.errors.InvalidInput: source must be an existing file, but got 'no_such_table.csv'
    """
    rows = _select(_columns(Path(source)), first_encounter)
    _check_counts(rows, first_encounter)
    return _calibrate(rows, "first" if first_encounter else "all")


def write(calibration: Calibration, path: str | Path) -> None:
    """Write a calibration as JSON that `read` restores bit for bit.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(shipped(), Path(folder) / "hospital.json")
    ...     again = read(Path(folder) / "hospital.json")
    >>> bool((again.outcomes["any"].boosted == shipped().outcomes["any"].boosted).all())
    True
    """
    Path(path).write_text(_dump(_to_data(calibration)) + "\n", encoding="utf-8", newline="\n")


def read(path: str | Path) -> Calibration:
    """Read what `write` wrote.

    Examples
    --------
    >>> read("no_such_calibration.json")
    Traceback (most recent call last):
    tightrope.errors.InvalidInput: path must be an existing file, but got 'no_such_calibration.json'
    """
    if not Path(path).is_file():
        raise InvalidInput(f"path must be an existing file, but got {str(path)!r}")
    return _parse(Path(path).read_text(encoding="utf-8"), str(path))


@functools.cache
def shipped(encounters: Sample = "all") -> Calibration:
    """The calibration that comes with Tightrope.

    Examples
    --------
    >>> shipped().shares.round(3).tolist()
    [0.286, 0.185, 0.143, 0.146, 0.104, 0.136]
    """
    if encounters not in get_args(Sample):
        raise InvalidInput(f"encounters must be 'all' or 'first', but got {encounters!r}")
    name = "hospital.json" if encounters == "all" else "hospital_first.json"
    text = importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _parse(text, name)


# ---------------------------------------------------------------------------------------------- the raw table

_INTEGERS = (
    "encounter_id",
    "patient_nbr",
    "discharge_disposition_id",
    "time_in_hospital",
    "number_emergency",
    "number_inpatient",
)
_STRINGS = ("gender", "age", "medical_specialty", "diag_1", "readmitted")
_EXPIRED_OR_HOSPICE = (11, 13, 14, 19, 20, 21)
_AGES = tuple(f"[{low}-{low + 10})" for low in range(0, 100, 10))
_INTERNAL = {
    "InternalMedicine",
    "Hospitalist",
    "InfectiousDiseases",
    "Endocrinology",
    "Endocrinology-Metabolism",
    "Osteopath",
}
_SURGICAL = {
    "Urology",
    "Otolaryngology",
    "Gynecology",
    "Ophthalmology",
    "Podiatry",
    "Proctology",
    "Dentistry",
}


@dataclass(frozen=True, eq=False, slots=True)
class _Rows:
    """The encounters used, one entry each; `read` and `kept` count those before the last two exclusions."""

    read: int
    kept: int
    context: Codes
    ward: Codes
    patient: Codes
    stay: Array
    success: Mapping[Reward, Array]


def _columns(source: Path) -> dict[str, NDArray[Any]]:
    if not source.is_file():
        raise InvalidInput(f"source must be an existing file, but got {str(source)!r}")
    with source.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    return _from_parquet(source) if is_parquet else _from_csv(source)


def _from_parquet(source: Path) -> dict[str, NDArray[Any]]:
    import pyarrow.parquet as pq

    _require_columns(pq.read_schema(source).names)
    table = pq.read_table(source, columns=[*_INTEGERS, *_STRINGS])
    columns = {name: table[name].to_numpy().astype(np.int64) for name in _INTEGERS}
    return columns | {name: table[name].to_numpy().astype(str) for name in _STRINGS}


def _from_csv(source: Path) -> dict[str, NDArray[Any]]:
    # The csv module turns no string into a missing value, so "None" and "?" stay what they are.
    with source.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        _require_columns(header)
        wanted = [header.index(name) for name in (*_INTEGERS, *_STRINGS)]
        try:
            cells = [[line[i] for i in wanted] for line in lines]
        except IndexError:
            raise InvalidInput(f"line {lines.line_num} of source must have {len(header)} fields") from None
    by_name = dict(zip((*_INTEGERS, *_STRINGS), zip(*cells))) if cells else {}
    columns: dict[str, NDArray[Any]] = {name: np.array(by_name.get(name, ()), dtype=str) for name in _STRINGS}
    for name in _INTEGERS:
        try:
            columns[name] = np.array(by_name.get(name, ()), dtype=np.int64)
        except ValueError as error:
            raise InvalidInput(f"column {name!r} of source must hold integers: {error}") from None
    return columns


def _require_columns(names: list[str]) -> None:
    missing = [name for name in (*_INTEGERS, *_STRINGS) if name not in names]
    if missing:
        raise InvalidInput(f"source must have the columns {missing}, but its columns are {names}")


def _select(columns: Mapping[str, NDArray[Any]], first_encounter: bool) -> _Rows:
    """Apply the exclusions in order and code what is left."""
    n = columns["encounter_id"].size
    kept = ~np.isin(columns["discharge_disposition_id"], _EXPIRED_OR_HOSPICE)
    kept &= columns["gender"] != "Unknown/Invalid"
    if first_encounter:
        # First over the whole table, then exclude: a patient whose first stay is excluded is out.
        order = np.argsort(columns["encounter_id"], kind="stable")
        first = np.zeros(n, dtype=bool)
        first[order[np.unique(columns["patient_nbr"][order], return_index=True)[1]]] = True
        kept &= first
    used = kept & (columns["medical_specialty"] != "?")
    levels = (
        np.clip(_coded(columns["age"][used], _AGES.index, "age") - 4, 0, 4),
        _coded(columns["gender"][used], ("Female", "Male").index, "gender"),
        np.minimum(columns["number_inpatient"][used], 2),
        np.minimum(columns["number_emergency"][used], 1),
        _coded(columns["diag_1"][used], _diagnosis, "diag_1"),
    )
    readmitted = _coded(columns["readmitted"][used], ("NO", ">30", "<30").index, "readmitted")
    return _Rows(
        read=n,
        kept=int(kept.sum()),
        context=np.ravel_multi_index(levels, _LEVELS).astype(np.int64),
        ward=_coded(columns["medical_specialty"][used], _ward, "medical_specialty"),
        patient=columns["patient_nbr"][used],
        stay=columns["time_in_hospital"][used].astype(np.float64),
        success={"30-day": (readmitted != 2).astype(np.float64), "any": (readmitted == 0).astype(np.float64)},
    )


def _coded(values: NDArray[np.str_], code: Any, name: str) -> Codes:
    distinct, inverse = np.unique(values, return_inverse=True)
    codes = np.empty(distinct.size, dtype=np.int64)
    for i, value in enumerate(distinct.tolist()):
        try:
            codes[i] = code(value)
        except ValueError:
            raise InvalidInput(f"column {name!r} of source holds the unknown value {value!r}") from None
    return codes[inverse]


def _ward(specialty: str) -> int:
    if specialty in _INTERNAL:
        return WARDS.index("internal")
    if specialty.startswith(("Surg", "Ortho", "Obst")) or specialty in _SURGICAL:
        return WARDS.index("surgery")
    if specialty == "Family/GeneralPractice":
        return WARDS.index("family")
    if specialty == "Emergency/Trauma":
        return WARDS.index("emergency")
    if specialty.startswith("Cardiology"):
        return WARDS.index("cardiology")
    return WARDS.index("other")


def _diagnosis(icd9: str) -> int:
    """Group of a primary diagnosis, as Strack et al. group the ICD-9 codes."""
    if icd9 == "?" or icd9.startswith(("E", "V")):
        return DIAGNOSES.index("other")
    code = int(float(icd9))
    if 390 <= code <= 459 or code == 785:
        return DIAGNOSES.index("circulatory")
    if 460 <= code <= 519 or code == 786:
        return DIAGNOSES.index("respiratory")
    if code == 250:
        return DIAGNOSES.index("diabetes")
    if 800 <= code <= 999 or 710 <= code <= 739 or 140 <= code <= 239:
        return DIAGNOSES.index("injury")
    if 520 <= code <= 629 or code in (787, 788):
        return DIAGNOSES.index("digestive")
    return DIAGNOSES.index("other")


def _check_counts(rows: _Rows, first_encounter: bool) -> None:
    """Refuse any table but the published one: its numbers of rows are known after each exclusion."""
    expected = (101_766, 69_970, 36_333, 36_333) if first_encounter else (101_766, 99_340, 50_726, 37_934)
    found = (rows.read, rows.kept, rows.context.size, np.unique(rows.patient).size)
    labels = ("rows", "rows after the exclusions", "rows of known specialty", "patients among these")
    for label, want, got in zip(labels, expected, found):
        if got != want:
            raise InvalidInput(
                f"source must be the whole published table with {want:,} {label}, but got {got:,}"
            )


# -------------------------------------------------------------------------------------------------- the fits


def _calibrate(rows: _Rows, encounters: Sample) -> Calibration:
    import sklearn

    folds = _folds(rows.patient)
    counts = _cell_sums(rows, np.ones(rows.ward.size))
    return Calibration(
        encounters=encounters,
        kept=rows.kept,
        patients=np.unique(rows.patient).size,
        counts=_frozen(counts.sum(axis=1).astype(np.int64)),
        shares=_frozen(counts.sum(axis=0) / counts.sum()),
        outcomes=MappingProxyType({name: _outcome(rows, name, folds) for name in get_args(Reward)}),
        stay=_stay(rows, folds),
        scikit_learn=sklearn.__version__,
    )


def _folds(patient: Codes) -> Codes:
    """Deal the patients out in turn, in the order of their numbers: the same folds on every machine."""
    rank: Codes = np.unique(patient, return_inverse=True)[1]
    return rank % _FOLDS


def _outcome(rows: _Rows, reward: Reward, folds: Codes) -> Outcome:
    y, ridge = rows.success[reward], _RIDGE[reward]
    everyone = np.ones(y.size, dtype=bool)
    predicted = {"linear": np.empty(y.size), "boosted": np.empty(y.size)}
    for fold in range(_FOLDS):
        seen, unseen = folds != fold, folds == fold
        cell = rows.context[unseen], rows.ward[unseen]
        predicted["linear"][unseen] = (_features() @ _linear(rows, y, seen, ridge).T)[cell]
        predicted["boosted"][unseen] = _boosted(rows, y, seen)[cell]
    return Outcome(
        mean=float(y.mean()),
        by_ward=_frozen(np.bincount(rows.ward, y) / np.bincount(rows.ward)),
        ridge=ridge,
        coefficients=_frozen(_linear(rows, y, everyone, ridge)),
        boosted=_frozen(_boosted(rows, y, everyone)),
        linear_quality=_quality(y, predicted["linear"]),
        boosted_quality=_quality(y, predicted["boosted"]),
    )


def _stay(rows: _Rows, folds: Codes) -> Stay:
    y = rows.stay
    predicted = np.empty(y.size)
    for fold in range(_FOLDS):
        unseen = folds == fold
        table = _features() @ _linear(rows, y, ~unseen, _STAY_RIDGE).T
        predicted[unseen] = table[rows.context[unseen], rows.ward[unseen]]
    coefficients = _linear(rows, y, np.ones(y.size, dtype=bool), _STAY_RIDGE)
    counts = _cell_sums(rows, np.ones(y.size))
    means = _cell_sums(rows, y) / np.maximum(counts, 1)
    return Stay(
        mean=float(y.mean()),
        by_ward=_frozen(np.bincount(rows.ward, y) / np.bincount(rows.ward)),
        ridge=_STAY_RIDGE,
        coefficients=_frozen(coefficients),
        cells=_frozen(np.where(counts >= _SMALLEST_CELL, means, _features() @ coefficients.T)),
        r2=float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()),
    )


def _features() -> Array:
    """x(c) = [1, age/4, male, s, emergency, 5 diagnosis dummies]."""
    age, male, inpatient, emergency, diagnosis = contexts().T
    dummies = np.eye(len(DIAGNOSES))[diagnosis][:, 1:]
    return np.column_stack(
        [np.ones(age.size), age / 4, male, _INPATIENT_SCORE[inpatient], emergency, dummies]
    )


def _cell_sums(rows: _Rows, values: Array, seen: NDArray[np.bool_] | None = None) -> Array:
    """Sums by context and ward, (360, 6)."""
    chosen = slice(None) if seen is None else seen
    cell = rows.context[chosen] * len(WARDS) + rows.ward[chosen]
    sums = np.bincount(cell, values[chosen], int(np.prod(_LEVELS)) * len(WARDS))
    return sums.astype(np.float64).reshape(-1, len(WARDS))


def _linear(rows: _Rows, y: Array, seen: NDArray[np.bool_], ridge: float) -> Array:
    """Least squares of y on xᵀb + xᵀg_ward, `ridge` on the slopes of g alone; b + g_ward, (6, 10).

    b's intercept merges with the wards', so the unknowns are 6 intercepts, 9 shared slopes, 6 × 9 deviations.
    """
    slopes = _features()[:, 1:]
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


def _boosted(rows: _Rows, y: Array, seen: NDArray[np.bool_]) -> Array:
    """Success by boosted trees on the levels of the context and the ward, (360, 6)."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

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
    grid = np.column_stack(
        [np.repeat(levels, len(WARDS), axis=0), np.tile(np.arange(len(WARDS)), len(levels))]
    )
    table: Array = trees.predict_proba(grid)[:, 1].reshape(-1, len(WARDS))
    return table


def _quality(y: Array, predicted: Array) -> Quality:
    p = np.clip(predicted, 1e-6, 1 - 1e-6)
    slope, intercept = _recalibration(y, np.log(p / (1 - p)))
    loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return Quality(auc=_auc(y, predicted), log_loss=float(loss), slope=slope, intercept=intercept)


def _auc(y: Array, score: Array) -> float:
    """Probability that a success scores above a failure, ties counting half (Mann-Whitney)."""
    _, rank, counts = np.unique(score, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    positive = y.sum()
    above = middle[rank] @ y - positive * (positive + 1) / 2
    return float(above / (positive * (y.size - positive)))


def _recalibration(y: Array, logit: Array) -> tuple[float, float]:
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


# -------------------------------------------------------------------------------------------------- the file

_FORMAT = "tightrope hospital calibration 1"


def _to_data(calibration: Calibration) -> dict[str, Any]:
    head: dict[str, Any] = {
        "format": _FORMAT,
        "licence": LICENCE,
        "credit": list(CREDIT),
        "changes": "Aggregated: counts, fitted coefficients and fitted tables; no row of a patient.",
        "wards": list(WARDS),
        "features": list(FEATURES),
    }
    return {**head, **_plain(calibration)}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def _dump(value: Any, indent: int = 0) -> str:
    """JSON with one row of a matrix a line, so that two calibrations can be compared line by line.

    Python writes a float with as many digits (17 at most) as it takes to read the same bits back.
    """
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        parts = [f"{pad}{json.dumps(key)}: {_dump(entry, indent + 1)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    if isinstance(value, list) and isinstance(value[0], list | str):
        return "[\n" + ",\n".join(pad + json.dumps(entry) for entry in value) + "\n" + " " * indent + "]"
    return json.dumps(value, allow_nan=False)


def _parse(text: str, origin: str) -> Calibration:
    try:
        data = json.loads(text)
        if data["format"] != _FORMAT:
            raise InvalidInput(f"{origin} must be in the format {_FORMAT!r}, but got {data['format']!r}")
        n, (wards, p) = int(np.prod(_LEVELS)), (len(WARDS), len(FEATURES))
        outcomes: dict[Reward, Outcome] = {
            name: Outcome(
                mean=float(entry["mean"]),
                by_ward=_array(entry["by_ward"], (wards,)),
                ridge=float(entry["ridge"]),
                coefficients=_array(entry["coefficients"], (wards, p)),
                boosted=_array(entry["boosted"], (n, wards)),
                linear_quality=Quality(**entry["linear_quality"]),
                boosted_quality=Quality(**entry["boosted_quality"]),
            )
            for name, entry in ((name, data["outcomes"][name]) for name in get_args(Reward))
        }
        stay = Stay(
            mean=float(data["stay"]["mean"]),
            by_ward=_array(data["stay"]["by_ward"], (wards,)),
            ridge=float(data["stay"]["ridge"]),
            coefficients=_array(data["stay"]["coefficients"], (wards, p)),
            cells=_array(data["stay"]["cells"], (n, wards)),
            r2=float(data["stay"]["r2"]),
        )
        return Calibration(
            encounters=data["encounters"],
            kept=int(data["kept"]),
            patients=int(data["patients"]),
            counts=_frozen(_array(data["counts"], (n,)).astype(np.int64)),
            shares=_array(data["shares"], (wards,)),
            outcomes=MappingProxyType(outcomes),
            stay=stay,
            scikit_learn=str(data["scikit_learn"]),
        )
    except InvalidInput:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{origin} is not a calibration that `write` wrote: {error!r}") from error


def _array(values: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"expected finite numbers of shape {shape}, but got shape {array.shape}")
    return _frozen(array)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
