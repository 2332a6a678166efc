"""The calibrations that come with Tightrope, and their file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hospital_page import PAGE, assert_shown, hospital_page
from tightrope.environments import hospital_numbers as numbers
from tightrope.environments.hospital_numbers import WARDS
from tightrope.errors import InvalidInput
from tightrope_lab import calibration as cal
from tightrope_lab.calibration.file import to_data


def test_file_restores_every_bit(tmp_path: Path) -> None:
    path = tmp_path / "again.json"
    cal.write(numbers.shipped(), path)
    again = to_data(numbers.read(path))
    assert again == to_data(numbers.shipped())
    cal.write(numbers.read(path), tmp_path / "twice.json")
    assert path.read_bytes() == (tmp_path / "twice.json").read_bytes()


def test_file_carries_credit_and_licence() -> None:
    for name in ("hospital.json", "hospital_first.json"):
        data = json.loads((Path(numbers.__file__).parent / name).read_text(encoding="utf-8"))
        assert data["licence"] == "CC BY 4.0"
        assert "10.24432/C5230J" in data["credit"][0]
        assert "Strack" in data["credit"][1]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    cal.write(numbers.shipped(), tmp_path / "whole.json")
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
            numbers.read(path)


def test_shipped_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        numbers.shipped().counts[0] = 1
    with pytest.raises(InvalidInput, match="one of 'all', 'first'"):
        numbers.shipped("second")  # type: ignore[arg-type]


def test_the_page_tells_the_shipped_numbers() -> None:
    """Every entry of docs/hospital.md that comes of the calibration alone, to the digits that it shows."""
    all_of_them = numbers.shipped()
    page = hospital_page()
    text, first = PAGE.read_text(encoding="utf-8"), numbers.shipped("first")
    assert f"{all_of_them.kept:,} of" in " ".join(text.split())
    assert f"{all_of_them.counts.sum():,} encounters of {all_of_them.patients:,} patients" in " ".join(
        text.split()
    )
    assert f"the same exclusions: {first.patients:,}" in " ".join(text.split())
    assert first.counts.sum() == first.patients
    assert (all_of_them.counts > 0).all()
    two = [all_of_them.outcomes[name] for name in ("30-day", "any")]
    for column, (name, outcome) in enumerate(zip(("30-day", "any"), two)):
        surface = all_of_them.table(name)
        for row, values in {
            "success, logged": [outcome.mean],
            "success by context and ward, linear": [surface.min(), surface.max()],
            "‖θ‖": [np.linalg.norm(outcome.coefficients) * np.sqrt(6)],
            "AUC out of fold, linear / boosted": [outcome.linear_quality.auc, outcome.boosted_quality.auc],
            "log-loss": [outcome.linear_quality.log_loss, outcome.boosted_quality.log_loss],
            "calibration slope": [outcome.linear_quality.slope, outcome.boosted_quality.slope],
        }.items():
            assert_shown(page[row][column], values)
    for j, ward in enumerate(WARDS):
        for shown, value in zip(
            page[ward], (all_of_them.shares[j], *(outcome.by_ward[j] for outcome in two))
        ):
            assert_shown(shown, [value])
