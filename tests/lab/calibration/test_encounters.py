"""The raw table: which encounters count, and how they are coded, on rows written by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tightrope.environments import hospital_numbers as numbers
from tightrope.environments.hospital_numbers import DIAGNOSES, WARDS
from tightrope.errors import InvalidInput
from tightrope_lab import calibration as cal
from tightrope_lab.calibration.encounters import Rows, diagnosis_of, read_columns, select, ward_of

RAW = Path(__file__).parents[4] / "shared" / "data" / "diabetes130" / "diabetic_data.parquet"
needs_raw = pytest.mark.skipif(not RAW.is_file(), reason=f"the raw table is not at {RAW}")

COLUMNS = (
    "encounter_id",
    "patient_nbr",
    "discharge_disposition_id",
    "time_in_hospital",
    "number_emergency",
    "number_inpatient",
    "gender",
    "age",
    "medical_specialty",
    "diag_1",
    "readmitted",
)
ROW = (1, 10, 1, 3, 0, 0, "Female", "[50-60)", "Cardiology", "428", "NO")


def table(tmp_path: Path, rows: list[tuple[object, ...]], columns: tuple[str, ...] = COLUMNS) -> Path:
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def altered(**changes: object) -> tuple[object, ...]:
    return tuple(changes.get(name, value) for name, value in zip(COLUMNS, ROW, strict=True))


def selected(path: Path, *, first_encounter: bool = False) -> Rows:
    return select(read_columns(path), first_encounter)


@pytest.mark.parametrize(
    ("icd9", "group"),
    [
        ("390", "circulatory"),
        ("459", "circulatory"),
        ("785", "circulatory"),
        ("460", "respiratory"),
        ("519.1", "respiratory"),
        ("786", "respiratory"),
        ("250", "diabetes"),
        ("250.83", "diabetes"),
        ("251", "other"),
        ("249", "other"),
        ("800", "injury"),
        ("999", "injury"),
        ("710", "injury"),
        ("739", "injury"),
        ("740", "other"),
        ("140", "injury"),
        ("239", "injury"),
        ("139", "other"),
        ("240", "other"),
        ("520", "digestive"),
        ("579", "digestive"),
        ("580", "digestive"),
        ("629", "digestive"),
        ("787", "digestive"),
        ("788", "digestive"),
        ("630", "other"),
        ("V57", "other"),
        ("E909", "other"),
        ("?", "other"),
        ("8", "other"),
    ],
)
def test_diagnoses_fall_into_the_published_groups(icd9: str, group: str) -> None:
    assert DIAGNOSES[diagnosis_of(icd9)] == group


@pytest.mark.parametrize(
    ("specialty", "ward"),
    [
        ("InternalMedicine", "internal"),
        ("Endocrinology-Metabolism", "internal"),
        ("Surgery-General", "surgery"),
        ("SurgicalSpecialty", "surgery"),
        ("Orthopedics-Reconstructive", "surgery"),
        ("Obsterics&Gynecology-GynecologicOnco", "surgery"),
        ("Gynecology", "surgery"),
        ("Family/GeneralPractice", "family"),
        ("Emergency/Trauma", "emergency"),
        ("Cardiology-Pediatric", "cardiology"),
        ("Pediatrics-Endocrinology", "other"),
        ("Nephrology", "other"),
        ("PhysicianNotFound", "other"),
    ],
)
def test_specialties_belong_to_wards(specialty: str, ward: str) -> None:
    assert WARDS[ward_of(specialty)] == ward


def test_a_row_is_coded_as_written_by_hand(tmp_path: Path) -> None:
    rows = selected(
        table(
            tmp_path,
            [
                altered(
                    age="[30-40)", gender="Male", number_inpatient=7, number_emergency=3, readmitted="<30"
                ),
                altered(encounter_id=2, age="[90-100)", number_inpatient=1, diag_1="250.1", readmitted=">30"),
            ],
        )
    )
    assert numbers.contexts()[rows.context].tolist() == [[0, 1, 2, 1, 1], [4, 0, 1, 0, 3]]
    assert rows.success["30-day"].tolist() == [0, 1]
    assert rows.success["any"].tolist() == [0, 0]
    assert rows.stay.tolist() == [3, 3]
    x = numbers.shipped().features[rows.context]
    assert x.tolist() == [[1, 0, 1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 0, 0.3, 0, 0, 0, 1, 0, 0]]


def test_exclusions_come_in_the_order_of_the_recipe(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        [
            altered(encounter_id=5, patient_nbr=1, diag_1="460"),  # not the first of patient 1
            altered(encounter_id=2, patient_nbr=1),
            altered(
                encounter_id=3, patient_nbr=2, discharge_disposition_id=11
            ),  # patient 2's first is excluded
            altered(encounter_id=4, patient_nbr=2),
            altered(encounter_id=6, patient_nbr=3, gender="Unknown/Invalid"),
            altered(encounter_id=7, patient_nbr=4, medical_specialty="?"),
        ],
    )
    every = selected(path)
    assert (every.read, every.kept, every.patient.tolist()) == (6, 4, [1, 1, 2])
    first = selected(path, first_encounter=True)
    assert (first.kept, first.patient.tolist()) == (2, [1])
    assert numbers.contexts()[first.context][:, 4].tolist() == [
        1
    ]  # the earlier encounter, though it comes later


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gender": "f"}, "'gender' of source holds the unknown value 'f'"),
        ({"age": "[100-110)"}, "'age' of source holds the unknown value"),
        ({"readmitted": ""}, "'readmitted' of source holds the unknown value ''"),
        ({"diag_1": "abc"}, "'diag_1' of source holds the unknown value 'abc'"),
        ({"number_inpatient": "None"}, "'number_inpatient' of source must hold integers"),
    ],
)
def test_unknown_values_are_named(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words.replace("[", r"\[")):
        selected(table(tmp_path, [altered(**changes)]))


def test_a_table_that_is_not_the_published_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="101,766 rows, but got 1"):
        cal.calibrate_hospital(table(tmp_path, [ROW]))
    with pytest.raises(InvalidInput, match=r"must have the columns \['age'\]"):
        cal.calibrate_hospital(table(tmp_path, [], tuple(name for name in COLUMNS if name != "age")))
    with pytest.raises(InvalidInput, match="line 2 of source must have 11 fields"):
        cal.calibrate_hospital(table(tmp_path, [ROW[:3]]))
    with pytest.raises(InvalidInput, match="existing file"):
        cal.calibrate_hospital(tmp_path / "absent")


@needs_raw
def test_csv_and_parquet_hold_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    names = [name for name in parquet.read_schema(RAW).names if name in COLUMNS] + ["max_glu_serum", "weight"]
    whole = parquet.read_table(RAW, columns=names)
    path = table(tmp_path, list(zip(*(whole[name].to_pylist() for name in names))), tuple(names))
    from_csv, from_parquet = read_columns(path), read_columns(RAW)
    assert from_csv.keys() == from_parquet.keys()
    for name, column in from_csv.items():
        np.testing.assert_array_equal(column, from_parquet[name], err_msg=name)
