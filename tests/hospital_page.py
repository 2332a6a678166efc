"""The numbers of docs/hospital.md, so that what the page claims is what tests find."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "hospital.md"


def hospital_page() -> dict[str, list[str]]:
    """Cells of the page's tables by the first cell of their row; the first row of a name counts."""
    rows: dict[str, list[str]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            rows.setdefault(name, cells)
    return rows


def assert_shown(cell: str, values: Sequence[float]) -> None:
    """The numbers in a cell are `values`, rounded to the digits that are shown."""
    shown = re.findall(r"\d+(?:\.\d+)?", cell)
    assert len(shown) == len(values), (cell, values)
    for text, value in zip(shown, values):
        digits = len(text.partition(".")[2])
        assert abs(float(text) - value) <= 0.5001 * 10**-digits, (cell, value)
