"""The JSON file of a calibration: `tightrope.environments.hospital_numbers.read` reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tightrope.environments.hospital_numbers import FEATURES, FORMAT, WARDS, Calibration

LICENCE = "CC BY 4.0"
CREDIT = (
    "Clore, J., Cios, K., DeShazo, J., Strack, B. (2014). Diabetes 130-US Hospitals for Years 1999-2008 "
    "[dataset]. UCI Machine Learning Repository. doi:10.24432/C5230J",
    "Strack, B., DeShazo, J. P., Gennings, C., Olmo, J. L., Ventura, S., Cios, K. J., Clore, J. N. (2014). "
    "Impact of HbA1c Measurement on Hospital Readmission Rates: Analysis of 70,000 Clinical Database Patient "
    "Records. BioMed Research International 2014, 781670",
)


def write(calibration: Calibration, path: str | Path) -> None:
    """Write a calibration as JSON that `read` restores bit for bit."""
    Path(path).write_text(_dump(to_data(calibration)) + "\n", encoding="utf-8", newline="\n")


def to_data(calibration: Calibration) -> dict[str, Any]:
    """The calibration as builtin types, with credit and licence."""
    head: dict[str, Any] = {
        "format": FORMAT,
        "licence": LICENCE,
        "credit": list(CREDIT),
        "changes": "Aggregated: counts, fitted coefficients and fitted tables; no row of a patient.",
        "wards": list(WARDS),
        "features": list(FEATURES),
    }
    return {**head, **msgspec.to_builtins(calibration, enc_hook=np.ndarray.tolist)}


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
