"""The calibration from the raw table: its steps on made data, and the shipped numbers against the real file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from hospital_page import PAGE, assert_shown, hospital_page
from tightrope.environments import calibration as cal
from tightrope.errors import InvalidInput

RAW = Path(__file__).parents[2] / "shared" / "data" / "diabetes130" / "diabetic_data.parquet"
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


def selected(path: Path, *, first_encounter: bool = False) -> cal._Rows:
    return cal._select(cal._columns(path), first_encounter)


def made_rows(n: int, seed: int = 0) -> cal._Rows:
    rng = np.random.default_rng(seed)
    context, ward = rng.integers(0, 360, n), rng.integers(0, 6, n)
    y = (rng.random(n) < 0.3 + 0.4 * cal.contexts()[context, 1] * (ward == 2)).astype(float)
    stay = rng.integers(1, 15, n).astype(float)
    return cal._Rows(n, n, context, ward, rng.integers(0, n // 2, n), stay, {"30-day": y, "any": 1 - y})


# --- coding


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
    assert cal.DIAGNOSES[cal._diagnosis(icd9)] == group


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
    assert cal.WARDS[cal._ward(specialty)] == ward


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
    assert cal.contexts()[rows.context].tolist() == [[0, 1, 2, 1, 1], [4, 0, 1, 0, 3]]
    assert rows.success["30-day"].tolist() == [0, 1]
    assert rows.success["any"].tolist() == [0, 0]
    assert rows.stay.tolist() == [3, 3]
    x = shipped_features()[rows.context]
    assert x.tolist() == [[1, 0, 1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 0, 0.3, 0, 0, 0, 1, 0, 0]]


def shipped_features() -> np.ndarray:
    return cal.shipped().features


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
    assert cal.contexts()[first.context][:, 4].tolist() == [1]  # the earlier encounter, though it comes later


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


# --- fits


@pytest.mark.parametrize("ridge", [1.0, 300.0])
def test_linear_fit_solves_the_augmented_least_squares(ridge: float) -> None:
    """Against rows of data stacked on rows √ridge for each penalised slope, b and g kept apart."""
    rows = made_rows(3000)
    y, x = rows.success["30-day"], shipped_features()[rows.context]
    design = np.zeros((y.size + 54, 10 + 60))
    design[: y.size, :10] = x
    for j in range(6):
        design[: y.size, 10 + 10 * j : 20 + 10 * j] = x * (rows.ward == j)[:, None]
        for i in range(9):
            design[y.size + 9 * j + i, 10 + 10 * j + 1 + i] = np.sqrt(ridge)
    solution = np.linalg.lstsq(design, np.concatenate([y, np.zeros(54)]), rcond=None)[0]
    expected = solution[:10] + solution[10:].reshape(6, 10)
    found = cal._linear(rows, y, np.ones(y.size, dtype=bool), ridge)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_auc_counts_ordered_pairs() -> None:
    rng = np.random.default_rng(1)
    y, score = rng.integers(0, 2, 200).astype(float), rng.integers(0, 20, 200) / 20
    above = score[y == 1][:, None] - score[y == 0]
    assert cal._auc(y, score) == pytest.approx((above > 0).mean() + (above == 0).mean() / 2, abs=1e-12)


def test_recalibration_meets_the_score_equations() -> None:
    rng = np.random.default_rng(2)
    logit = rng.normal(size=5000)
    y = (rng.random(5000) < 1 / (1 + np.exp(-(0.5 * logit - 0.3)))).astype(float)
    slope, intercept = cal._recalibration(y, logit)
    residual = y - 1 / (1 + np.exp(-(slope * logit + intercept)))
    assert abs(residual.sum()) < 1e-8
    assert abs(residual @ logit) < 1e-8
    assert slope == pytest.approx(0.5, abs=0.1)


def test_boosted_trees_find_what_is_not_linear() -> None:
    pytest.importorskip("sklearn")
    rows = made_rows(6000)
    boosted = cal._boosted(rows, rows.success["30-day"], np.ones(6000, dtype=bool))
    male = cal.contexts()[:, 1] == 1
    assert boosted.shape == (360, 6)
    assert boosted[male, 2].mean() > boosted[~male, 2].mean() + 0.3
    assert abs(boosted[male, 3].mean() - boosted[~male, 3].mean()) < 0.1


def test_folds_never_split_a_patient() -> None:
    patient = np.random.default_rng(3).integers(0, 700, 4000)
    folds = cal._folds(patient)
    assert {len(set(folds[patient == one])) for one in np.unique(patient)} == {1}
    sizes = np.bincount([folds[patient == one][0] for one in np.unique(patient)])
    assert sizes.size == 5
    assert np.ptp(sizes) <= 1


def test_cells_of_few_encounters_show_the_fit() -> None:
    pytest.importorskip("sklearn")
    rows = made_rows(4000)
    made = cal._calibrate(rows, "all")
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


# --- the file


def test_file_restores_every_bit(tmp_path: Path) -> None:
    path = tmp_path / "again.json"
    cal.write(cal.shipped(), path)
    again = cal._to_data(cal.read(path))
    assert again == cal._to_data(cal.shipped())
    cal.write(cal.read(path), tmp_path / "twice.json")
    assert path.read_bytes() == (tmp_path / "twice.json").read_bytes()


def test_file_carries_credit_and_licence() -> None:
    for name in ("hospital.json", "hospital_first.json"):
        data = json.loads((Path(cal.__file__).parent / name).read_text(encoding="utf-8"))
        assert data["licence"] == "CC BY 4.0"
        assert "10.24432/C5230J" in data["credit"][0]
        assert "Strack" in data["credit"][1]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    cal.write(cal.shipped(), tmp_path / "whole.json")
    text = (tmp_path / "whole.json").read_text(encoding="utf-8")
    data = json.loads(text)
    cases = {
        "truncated": text[: len(text) // 2],
        "format": json.dumps(data | {"format": "other"}),
        "shape": json.dumps(data | {"shares": [0.5, 0.5]}),
        "nan": json.dumps(data | {"shares": [float("nan")] * 6}),
        "missing": json.dumps({key: value for key, value in data.items() if key != "stay"}),
        "list": "[]",
    }
    for name, damaged in cases.items():
        path = tmp_path / f"{name}.json"
        path.write_text(damaged, encoding="utf-8")
        with pytest.raises(InvalidInput, match=f"{name}.json"):
            cal.read(path)


def test_shipped_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        cal.shipped().counts[0] = 1
    with pytest.raises(InvalidInput, match="'all' or 'first'"):
        cal.shipped("second")  # type: ignore[arg-type]


# --- the real table


def test_the_page_tells_the_shipped_numbers() -> None:
    """Every entry of docs/hospital.md that comes of the calibration alone, to the digits that it shows."""
    numbers = cal.shipped()
    page = hospital_page()
    text, first = PAGE.read_text(encoding="utf-8"), cal.shipped("first")
    assert f"{numbers.kept:,} of" in " ".join(text.split())
    assert f"{numbers.counts.sum():,} encounters of {numbers.patients:,} patients" in " ".join(text.split())
    assert f"the same exclusions: {first.patients:,}" in " ".join(text.split())
    assert first.counts.sum() == first.patients
    assert (numbers.counts > 0).all()
    two = [numbers.outcomes[name] for name in ("30-day", "any")]
    for column, (name, outcome) in enumerate(zip(("30-day", "any"), two)):
        surface = numbers.table(name)
        for row, values in {
            "success, logged": [outcome.mean],
            "success by context and ward, linear": [surface.min(), surface.max()],
            "‖θ‖": [np.linalg.norm(outcome.coefficients) * np.sqrt(6)],
            "AUC out of fold, linear / boosted": [outcome.linear_quality.auc, outcome.boosted_quality.auc],
            "log-loss": [outcome.linear_quality.log_loss, outcome.boosted_quality.log_loss],
            "calibration slope": [outcome.linear_quality.slope, outcome.boosted_quality.slope],
        }.items():
            assert_shown(page[row][column], values)
    for j, ward in enumerate(cal.WARDS):
        for shown, value in zip(page[ward], (numbers.shares[j], *(outcome.by_ward[j] for outcome in two))):
            assert_shown(shown, [value])


@needs_raw
@pytest.mark.parametrize("first_encounter", [False, True])
def test_recalibration_gives_the_shipped_numbers(first_encounter: bool) -> None:
    pytest.importorskip("pyarrow")
    sklearn = pytest.importorskip("sklearn")
    fresh = cal.calibrate_hospital(RAW, first_encounter=first_encounter)
    kept = cal.shipped("first" if first_encounter else "all")
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


@needs_raw
def test_csv_and_parquet_hold_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    names = [name for name in parquet.read_schema(RAW).names if name in COLUMNS] + ["max_glu_serum", "weight"]
    whole = parquet.read_table(RAW, columns=names)
    path = table(tmp_path, list(zip(*(whole[name].to_pylist() for name in names))), tuple(names))
    from_csv, from_parquet = cal._columns(path), cal._columns(RAW)
    assert from_csv.keys() == from_parquet.keys()
    for name, column in from_csv.items():
        np.testing.assert_array_equal(column, from_parquet[name], err_msg=name)
