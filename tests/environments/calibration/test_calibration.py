"""The calibrations that come with Tightrope, and their file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tightrope.environments import calibration as cal
from tightrope.environments.calibration.calibration import to_data
from tightrope.errors import InvalidInput


def test_file_restores_every_bit(tmp_path: Path) -> None:
    path = tmp_path / "again.json"
    cal.write(cal.shipped(), path)
    again = to_data(cal.read(path))
    assert again == to_data(cal.shipped())
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


def test_shipped_numbers_are_the_published_ones() -> None:
    numbers = cal.shipped()
    assert (numbers.kept, numbers.counts.sum(), numbers.patients) == (99_340, 50_726, 37_934)
    assert (cal.shipped("first").counts.sum(), cal.shipped("first").patients) == (36_333, 36_333)
    assert (numbers.counts > 0).all()
    assert numbers.shares.round(3).tolist() == [0.286, 0.185, 0.143, 0.146, 0.104, 0.136]
    month, never = numbers.outcomes["30-day"], numbers.outcomes["any"]
    assert month.by_ward.round(3).tolist() == [0.885, 0.906, 0.879, 0.886, 0.920, 0.874]
    assert round(never.mean, 3) == 0.549
    table = numbers.table("30-day")
    assert 0.70 < table.min() < 0.72
    assert 0.97 < table.max() < 0.98
    assert np.linalg.norm(month.coefficients) * np.sqrt(6) == pytest.approx(5.7, abs=0.05)
    assert month.linear_quality.auc == pytest.approx(0.639, abs=0.002)
    assert month.boosted_quality.auc == pytest.approx(0.641, abs=0.002)
    assert month.linear_quality.slope == pytest.approx(0.98, abs=0.01)
    stay = numbers.stay_table()
    assert (round(stay.min(), 1), round(stay.max(), 1)) == (2.1, 7.4)
    assert numbers.stay.r2 == pytest.approx(0.06, abs=0.005)
