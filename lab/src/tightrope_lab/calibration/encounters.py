"""The raw table: which encounters count, and how they are coded."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.environments.hospital_numbers import DIAGNOSES, LEVELS, WARDS, Codes, Reward
from tightrope.errors import InvalidInput
from tightrope.extras import explained
from tightrope.validation import Array
from tightrope.words import Shown

_INTEGERS: tuple[str, ...] = ("encounter_id", "patient_nbr", "discharge_disposition_id", "time_in_hospital")
_INTEGERS += ("number_emergency", "number_inpatient")
_STRINGS = ("gender", "age", "medical_specialty", "diag_1", "readmitted")
_EXPIRED_OR_HOSPICE = (11, 13, 14, 19, 20, 21)
_AGES = tuple(f"[{low}-{low + 10})" for low in range(0, 100, 10))
# Admitting specialties by how they begin, the first that fits; the whole name for those that end in $. All else is "other".
_WARDS = {
    "internal": r"(InternalMedicine|Hospitalist|InfectiousDiseases|Endocrinology(-Metabolism)?|Osteopath)$",
    "surgery": r"Surg|Ortho|Obst|(Urology|Otolaryngology|Gynecology|Ophthalmology|Podiatry|Proctology|Dentistry)$",
    "family": r"Family/GeneralPractice$",
    "emergency": r"Emergency/Trauma$",
    "cardiology": r"Cardiology",
}
# Primary diagnoses as Strack et al. group the ICD-9 codes: (lowest, highest).
_DIAGNOSES = {
    "circulatory": [(390, 459), (785, 785)],
    "respiratory": [(460, 519), (786, 786)],
    "diabetes": [(250, 250)],
    "injury": [(800, 999), (710, 739), (140, 239)],
    "digestive": [(520, 629), (787, 788)],
}


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """The encounters used, one entry each; `read` and `kept` count those before the last two exclusions."""

    read: int
    kept: int
    context: Codes
    ward: Codes
    patient: Codes
    stay: Array
    success: Mapping[Reward, Array]


def read_columns(source: Path) -> dict[str, NDArray[Any]]:
    """The columns that are needed, from Parquet or CSV."""
    if not source.is_file():
        raise InvalidInput(field="source", must="be an existing file", got=str(source))
    with source.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    return _from_parquet(source) if is_parquet else _from_csv(source)


def _from_parquet(source: Path) -> dict[str, NDArray[Any]]:
    with explained("a table in Parquet"):
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


def select(columns: Mapping[str, NDArray[Any]], first_encounter: bool) -> Rows:
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
        _coded(columns["diag_1"][used], diagnosis_of, "diag_1"),
    )
    readmitted = _coded(columns["readmitted"][used], ("NO", ">30", "<30").index, "readmitted")
    return Rows(
        read=n,
        kept=int(kept.sum()),
        context=np.ravel_multi_index(levels, LEVELS).astype(np.int64),
        ward=_coded(columns["medical_specialty"][used], ward_of, "medical_specialty"),
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


def ward_of(specialty: str) -> int:
    """Ward of an admitting specialty."""
    return WARDS.index(next((ward for ward, names in _WARDS.items() if re.match(names, specialty)), "other"))


def diagnosis_of(icd9: str) -> int:
    """Group of a primary diagnosis."""
    code = -1 if icd9 == "?" or icd9.startswith(("E", "V")) else int(float(icd9))
    groups = (name for name, spans in _DIAGNOSES.items() if any(low <= code <= high for low, high in spans))
    return DIAGNOSES.index(next(groups, "other"))


def check_counts(rows: Rows, first_encounter: bool) -> None:
    """Refuse any table but the published one: its numbers of rows are known after each exclusion."""
    expected = (101_766, 69_970, 36_333, 36_333) if first_encounter else (101_766, 99_340, 50_726, 37_934)
    found = (rows.read, rows.kept, rows.context.size, np.unique(rows.patient).size)
    labels = ("rows", "rows after the exclusions", "rows of known specialty", "patients among these")
    for label, want, got in zip(labels, expected, found):
        if got != want:
            must = f"be the whole published table with {want:,} {label}"
            raise InvalidInput(field="source", must=must, got=Shown(f"{got:,}"))
