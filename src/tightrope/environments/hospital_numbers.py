"""What the raw table says, as numbers by context and ward, and the JSON that holds them."""

from __future__ import annotations

import functools
import importlib.resources
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InvalidInput
from tightrope.validation import Array, require_choice

Codes: TypeAlias = NDArray[np.int64]
Sample: TypeAlias = Literal["all", "first"]
Reward: TypeAlias = Literal["30-day", "any"]
Truth: TypeAlias = Literal["linear", "misspecified"]

WARDS = ("internal", "surgery", "family", "emergency", "cardiology", "other")
DIAGNOSES = ("other", "circulatory", "respiratory", "diabetes", "injury", "digestive")
FEATURES = ("one", "age", "male", "prior inpatient", "prior emergency", *DIAGNOSES[1:])
LONGEST_STAY = 14  # days; the data hold no longer stay
LEVELS = (5, 2, 3, 2, 6)  # age band, gender, prior inpatient, prior emergency, diagnosis
_INPATIENT_SCORE = np.array([0.0, 0.3, 1.0])


@dataclass(frozen=True, slots=True)
class Quality:
    """How well predicted probabilities fit patients that the fit has not seen."""

    auc: float
    log_loss: float
    # Of the regression of the outcome on the logit of the prediction: 1 and 0 when the predictions are calibrated.
    slope: float
    intercept: float


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """One success to be rewarded, as a function of context and ward; the qualities are out of fold, folds by patient."""

    mean: float  # over all encounters
    by_ward: Array  # (6,), as logged
    ridge: float  # penalty on the slopes of the wards' deviations
    coefficients: Array  # (6, 10), the linear fit: success of context c in ward j is ⟨coefficients[j], x(c)⟩
    boosted: Array  # (360, 6), by boosted trees: the truth of the misspecified mode
    linear_quality: Quality
    boosted_quality: Quality


@dataclass(frozen=True, eq=False, slots=True)
class Stay:
    """Length of stay in days, as a function of context and ward."""

    mean: float
    by_ward: Array  # (6,)
    ridge: float  # penalty on the slopes of the wards' deviations
    coefficients: Array  # (6, 10), the linear fit
    # (360, 6), means by context and ward; the linear fit where fewer than 11 encounters were seen.
    cells: Array
    r2: float  # share of the variance that the linear fit explains, out of fold


@dataclass(frozen=True, eq=False, slots=True)
class Calibration:
    """What the raw table says, as aggregate numbers: no row of a patient is kept."""

    encounters: Sample  # whether every encounter counts or only each patient's first
    kept: int  # encounters left after the exclusions, before those of unknown specialty go
    patients: int  # distinct ones among the encounters used
    counts: Codes  # (360,), encounters in each context
    shares: Array  # (6,), logged share of each ward
    outcomes: dict[Reward, Outcome]  # "30-day", not readmitted within 30 days; "any", not readmitted at all
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
    """
    return np.stack(np.unravel_index(np.arange(np.prod(LEVELS)), LEVELS), axis=1).astype(np.int64)


def read(path: str | Path) -> Calibration:
    """Read a calibration that `tightrope calibrate hospital` wrote."""
    if not Path(path).is_file():
        raise InvalidInput(field="path", must="be an existing file", got=str(path))
    return _parse(Path(path).read_text(encoding="utf-8"), str(path))


@functools.cache
def shipped(encounters: Sample = "all") -> Calibration:
    require_choice("encounters", encounters, get_args(Sample))
    name = "hospital.json" if encounters == "all" else "hospital_first.json"
    text = importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _parse(text, name)


def features() -> Array:
    """x(c) = [1, age/4, male, s, emergency, 5 diagnosis dummies]."""
    age, male, inpatient, emergency, diagnosis = contexts().T
    dummies = np.eye(len(DIAGNOSES))[diagnosis][:, 1:]
    visits = _INPATIENT_SCORE[inpatient]
    return np.column_stack([np.ones(age.size), age / 4, male, visits, emergency, dummies])


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


FORMAT = "tightrope hospital calibration 1"
_C, _J = int(np.prod(LEVELS)), len(WARDS)
_SHAPES: dict[str, tuple[int, ...]] = {"counts": (_C,), "boosted": (_C, _J), "cells": (_C, _J)}
_SHAPES |= {"shares": (_J,), "by_ward": (_J,), "coefficients": (_J, len(FEATURES))}


def _parse(text: str, origin: str) -> Calibration:
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise InvalidInput(field=origin, must=f"be in the format {FORMAT!r}", got=data["format"])
        found = msgspec.convert(data, Calibration, dec_hook=_array)
        for part in (found, found.stay, *(found.outcomes[name] for name in get_args(Reward))):
            for name, shape in _SHAPES.items():
                array = getattr(part, name, np.empty(shape))
                if array.shape != shape:
                    raise ValueError(f"{name} must have shape {shape}, but got shape {array.shape}")
        return found
    except InvalidInput:
        raise
    except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise InvalidInput(f"{origin} is not a calibration: {error!r}") from error


def _array(kind: Any, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values, dtype=np.int64 if kind == Codes else np.float64)
    if not np.isfinite(array).all():
        raise ValueError("expected finite numbers")
    return frozen(array)
