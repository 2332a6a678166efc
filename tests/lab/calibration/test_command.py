"""`tightrope calibrate`."""

import json

import numpy as np

from cli_tools import machine
from tightrope.cli import main


def test_calibrate_writes_numbers_and_report(capsys, tmp_path, monkeypatch):
    from tightrope.environments import hospital_numbers
    from tightrope_lab import calibration

    source = tmp_path / "encounters.csv"
    source.write_text("")
    asked = []

    def fit(path, *, first_encounter):
        asked.append((path, first_encounter))
        return hospital_numbers.shipped("first")

    monkeypatch.setattr(calibration, "calibrate_hospital", fit)
    data = machine(
        capsys, "calibrate", "hospital", "--source", source, "--first-encounter", "--out", tmp_path / "o"
    )
    assert asked == [(source, True)]
    again = hospital_numbers.read(tmp_path / "o" / "hospital.json")
    np.testing.assert_array_equal(again.counts, hospital_numbers.shipped("first").counts)
    assert data == json.loads((tmp_path / "o" / "hospital.json").read_text())
    assert (tmp_path / "o" / "report.md").read_text().startswith("# Ward routing")
    assert main(["calibrate", "hospital", "--source", str(source)]) == 0
    assert "# Ward routing" in capsys.readouterr().out
