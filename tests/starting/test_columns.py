"""What a column looks like."""

from __future__ import annotations

import pytest

from tightrope.frames import Frame
from tightrope.starting.columns import look, words_of

N = 60


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("age", [20.0 + i % 7 for i in range(N)], "number"),
        ("urgent", [float(i % 2) for i in range(N)], "boolean"),
        ("urgent", [i % 2 == 0 for i in range(N)], "boolean"),
        ("sex", ["fm"[i % 2] for i in range(N)], "category"),
        ("admission_type_id", [float(i % 5) for i in range(N)], "category"),
        ("visit", [float(7000 + i) for i in range(N)], "id"),
        ("patient_id", [float(1000 + 37 * (i // 2 * 2 if i < 5 else i)) for i in range(N)], "id"),
        ("booking", [f"V-{i:04d}" for i in range(N)], "id"),
        ("note", [f"customer {i} wants to be called" for i in range(N)], "text"),
        ("when", [f"2026-03-{1 + i % 28:02d}" for i in range(N)], "date"),
        ("day", [f"{1 + i % 28}.3.2026" for i in range(N)], "date"),
        ("day", [f"3/{1 + i % 28}/26" for i in range(N)], "date"),
        ("country", ["de"] * N, "constant"),
        ("fax", [None] * N, "empty"),
        # Few rows: nothing is said of names that do not come twice.
        ("city", ["Bonn", "Kiel", "Ulm"], "category"),
    ],
)
def test_kinds(name, values, kind):
    assert look(Frame({name: values}))[name].kind == kind


def test_what_is_counted():
    column = look(Frame({"age": [41.0, None, 20.0, 41.0]}))["age"]
    assert (column.missing, column.values, column.counts) == (1, (41.0, 20.0), (2, 1))
    assert (column.low, column.high, column.whole, column.missing_share) == (20.0, 41.0, True, 0.25)


def test_words_of_a_name():
    assert words_of("nurseHours_used") == {"nurse", "hours", "used"}


def test_all_columns_are_looked_at():
    found = look(Frame({"age": [41.0, 35.5, None], "sex": ["f", "m", "f"], "urgent": [0, 1, 1]}))
    kinds = [("age", "number", 1), ("sex", "category", 0), ("urgent", "boolean", 0)]
    assert [(one.name, one.kind, one.missing) for one in found.values()] == kinds
