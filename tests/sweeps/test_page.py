"""The page of a sweep and its summary."""

from __future__ import annotations

import json

from sweep_tools import GRID, spec_of, stored
from tightrope.sweeps import sweep, write_page


def test_the_page_and_the_summary(tmp_path):
    found = sweep(spec_of(GRID), tmp_path, workers=1)
    told = write_page(found)
    assert told == json.loads((tmp_path / "summary.json").read_text())
    rows = {row["cell"]: row for row in stored(tmp_path)}
    points = {name: (row["regret"], row["violation"]) for name, row in rows.items()}
    front = {
        name
        for name, p in points.items()
        if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points.values())
    }
    assert {row["cell"] for row in told["front"]} == front
    clean = sorted(row["regret"] for row in rows.values() if row["violation"] == 0.0)
    assert [row["regret"] for row in told["rows"]][: len(clean)] == clean
    page = (tmp_path / "index.html").read_text()
    for words in (
        "Regret against violation",
        "What each field does",
        "Best settings",
        "policy.epsilon.scale",
    ):
        assert words in page
    assert json.loads((tmp_path / "sweep.json").read_text())["points"] == 6
