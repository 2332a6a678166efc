"""What the raw table says, as numbers by context and ward, and the JSON that holds them."""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InvalidInput
from tightrope.validation import Array

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
LEVELS = (5, 2, 3, 2, 6)  # age band, gender, prior inpatient, prior emergency, diagnosis
_INPATIENT_SCORE = np.array([0.0, 0.3, 1.0])


@dataclass(frozen=True, slots=True)
class Quality:
    """How well predicted probabilities fit patients that the fit has not seen.

    >>> round(shipped().outcomes["30-day"].linear_quality.auc, 2)
    0.64
    """

    auc: float
    log_loss: float
    # Of the regression of the outcome on the logit of the prediction: 1 and 0 when the predictions are calibrated.
    slope: float
    intercept: float


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """One success to be rewarded, as a function of context and ward; the qualities are out of fold, folds by patient.

    >>> shipped().outcomes["any"].coefficients.shape
    (6, 10)
    """

    mean: float  # over all encounters
    by_ward: Array  # (6,), as logged
    ridge: float  # penalty on the slopes of the wards' deviations
    coefficients: Array  # (6, 10), the linear fit: success of context c in ward j is ⟨coefficients[j], x(c)⟩
    boosted: Array  # (360, 6), by boosted trees: the truth of the misspecified mode
    linear_quality: Quality
    boosted_quality: Quality


@dataclass(frozen=True, eq=False, slots=True)
class Stay:
    """Length of stay in days, as a function of context and ward.

    >>> stay = shipped().stay
    >>> bool(stay.cells.min() >= 1 and stay.cells.max() <= 14)
    True
    """

    mean: float
    by_ward: Array  # (6,)
    ridge: float  # penalty on the slopes of the wards' deviations
    coefficients: Array  # (6, 10), the linear fit
    cells: (
        Array  # (360, 6), means by context and ward; the linear fit where fewer than 11 encounters were seen
    )
    r2: float  # share of the variance that the linear fit explains, out of fold


@dataclass(frozen=True, eq=False, slots=True)
class Calibration:
    """What the raw table says, as aggregate numbers: no row of a patient is kept.

    >>> calibration = shipped("first")
    >>> calibration.patients, round(float(calibration.weights.sum()), 12)
    (36333, 1.0)
    """

    encounters: Sample  # whether every encounter counts or each patient's first alone
    kept: int  # encounters left after the exclusions, before those of unknown specialty go
    patients: int  # distinct ones among the encounters used
    counts: Codes  # (360,), encounters in each context
    shares: Array  # (6,), logged share of each ward
    outcomes: Mapping[
        Reward, Outcome
    ]  # "30-day", not readmitted within 30 days; "any", not readmitted at all
    stay: Stay
    scikit_learn: str  # the version that grew the boosted trees

    @property
    def weights(self) -> Array:
        """Frequency of each context, (360,)."""
        return self.counts.astype(np.float64) / float(self.counts.sum())

    @property
    def features(self) -> Array:
        """x(c), (360, 10), named by `FEATURES`; ‖x‖² <= 6."""
        return features()

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

    >>> contexts()[[0, 359]].tolist()
    [[0, 0, 0, 0, 0], [4, 1, 2, 1, 5]]
    """
    return np.stack(np.unravel_index(np.arange(np.prod(LEVELS)), LEVELS), axis=1).astype(np.int64)


def read(path: str | Path) -> Calibration:
    """Read a calibration that `tightrope calibrate hospital` wrote.

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

    >>> shipped().shares.round(3).tolist()
    [0.286, 0.185, 0.143, 0.146, 0.104, 0.136]
    """
    if encounters not in get_args(Sample):
        raise InvalidInput(f"encounters must be 'all' or 'first', but got {encounters!r}")
    name = "hospital.json" if encounters == "all" else "hospital_first.json"
    text = importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _parse(text, name)


def features() -> Array:
    """x(c) = [1, age/4, male, s, emergency, 5 diagnosis dummies]."""
    age, male, inpatient, emergency, diagnosis = contexts().T
    dummies = np.eye(len(DIAGNOSES))[diagnosis][:, 1:]
    return np.column_stack(
        [np.ones(age.size), age / 4, male, _INPATIENT_SCORE[inpatient], emergency, dummies]
    )


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array, made read-only."""
    array.flags.writeable = False
    return array


FORMAT = "tightrope hospital calibration 1"
_CELLS = (int(np.prod(LEVELS)), len(WARDS))
_SHAPES = {
    "counts": _CELLS[:1],
    "shares": _CELLS[1:],
    "by_ward": _CELLS[1:],
    "coefficients": (len(WARDS), len(FEATURES)),
    "boosted": _CELLS,
    "cells": _CELLS,
}
_Part = TypeVar("_Part", Outcome, Stay)


def _parse(text: str, origin: str) -> Calibration:
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise InvalidInput(f"{origin} must be in the format {FORMAT!r}, but got {data['format']!r}")
        return Calibration(
            encounters=data["encounters"],
            kept=int(data["kept"]),
            patients=int(data["patients"]),
            counts=frozen(_array("counts", data["counts"]).astype(np.int64)),
            shares=_array("shares", data["shares"]),
            outcomes=MappingProxyType(
                {name: _parsed(Outcome, data["outcomes"][name]) for name in get_args(Reward)}
            ),
            stay=_parsed(Stay, data["stay"]),
            scikit_learn=str(data["scikit_learn"]),
        )
    except InvalidInput:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{origin} is not a calibration: {error!r}") from error


def _parsed(cls: type[_Part], entry: Mapping[str, Any]) -> _Part:
    """An Outcome or a Stay: arrays, numbers, and qualities."""
    values: dict[str, Any] = {}
    for one in fields(cls):
        given = entry[one.name]
        if one.name in _SHAPES:
            values[one.name] = _array(one.name, given)
        else:
            values[one.name] = Quality(**given) if one.name.endswith("quality") else float(given)
    return cls(**values)


def _array(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != _SHAPES[name] or not np.isfinite(array).all():
        raise ValueError(f"expected finite numbers of shape {_SHAPES[name]}, but got shape {array.shape}")
    return frozen(array)
