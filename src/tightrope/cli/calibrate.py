"""`tightrope calibrate`: environments fitted to real data."""

from __future__ import annotations

import json
from pathlib import Path

from cyclopts import App

from tightrope.cli.app import DEFAULT, Output, app, command
from tightrope.errors import InvalidInput

calibrate = App(name="calibrate", help="Fit an environment to real data.", help_epilogue="")
app.command(calibrate)


@command(
    "tightrope calibrate hospital --source encounters.parquet --out out/calibration",
    of=calibrate,
    name="hospital",
)
def calibrate_hospital(*, source: Path, first_encounter: bool = False, output: Output = DEFAULT) -> None:
    """Fit the ward-routing environment to a table of hospital encounters.

    With --out the numbers go to hospital.json and the report to report.md.

    Parameters
    ----------
    source
        The public table of 101,766 diabetic encounters, CSV or Parquet.
    first_encounter
        Only the first encounter of each patient.
    """
    import tempfile

    from tightrope.environments import calibration
    from tightrope.environments.hospital import report

    if not source.is_file():
        raise InvalidInput(f"--source: {source} must be a file, but it is none")
    fitted = calibration.calibrate_hospital(source, first_encounter=first_encounter)
    text = report(fitted)
    folder = output.folder()
    with tempfile.TemporaryDirectory() as scratch:
        target = (folder or Path(scratch)) / "hospital.json"
        calibration.write(fitted, target)
        data = json.loads(target.read_text())
    if folder is not None:
        (folder / "report.md").write_text(text)
    output.show(data, text, *([] if folder is None else [f"written to {folder}"]))
