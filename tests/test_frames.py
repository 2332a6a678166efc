"""Columns of any table: names, lengths, gaps, and one plain type for each."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tightrope as tr
from tightrope import frames
from tightrope.frames import Frame, made_frame, row_of

TIMES = [datetime.datetime(2026, 1, 2, 3, 4, 5), None]


@pytest.mark.parametrize(
    ("values", "kind"),
    [(["a", None], "U"), ([1, None], "f"), ([True, None], "b"), (TIMES, "M"), ([1.5, None], "f")],
)
def test_gaps_are_found_whoever_made_the_column(values: list[Any], kind: str) -> None:
    for table in (
        {"c": values},
        [{"c": values[0]}, {}],
        pd.DataFrame({"c": values}),
        pl.DataFrame({"c": values}),
    ):
        array, missing = Frame(table if not isinstance(table, list) else [*table]).column("c")
        assert missing.tolist() == [False, True], type(table)
        assert array.dtype.kind == kind, type(table)
        assert array[0] == (np.datetime64(values[0]) if kind == "M" else values[0])
    with pytest.raises(tr.InvalidInput, match=r"column 'c'\[1\] is missing"):
        Frame({"c": values}).whole("c")


def test_nullable_columns_of_pandas() -> None:
    frame = pd.DataFrame({"n": [1, None], "b": [True, None], "t": ["x", None]}).convert_dtypes()
    for name in frame:
        assert Frame(frame).column(name).missing.tolist() == [False, True]


def test_columns_that_are_not_asked_for_may_be_anything() -> None:
    frame = Frame(pd.DataFrame({"a": [1, 2], 7: ["x", "y"]}))
    assert (len(frame), frame.whole("a").tolist()) == (2, [1, 2])
    with pytest.raises(tr.InvalidInput, match=r"frame must have a column 'b'; it has: a, 7$"):
        frame.whole("b")
    with pytest.raises(tr.InvalidInput, match=r"a table must have named columns .* but got int"):
        Frame(3)


def test_columns_of_different_lengths_are_refused() -> None:
    frame = Frame({"a": [1, 2], "b": [1]})
    frame.column("a")
    with pytest.raises(tr.InvalidInput, match="column 'b' must have 2 entries, but has 1"):
        frame.column("b")


def test_a_row_and_a_table_are_told_apart() -> None:
    assert row_of({"a": "text", "b": None}, []) is not None
    assert row_of({"a": np.array([1])}, []) is None
    assert row_of(pd.DataFrame({"a": [1]}), []) is None
    assert row_of(pd.Series({"a": 1}), []) == {"a": 1}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_rows_become_a_frame(library):
    frame = made_frame([{"a": 1, "b": {"c": [1.5]}}, {"a": None, "d": "x"}], library)
    assert list(frame.columns) == ["a", "b", "d"]
    assert next(iter(frame["b"])) == '{"c": [1.5]}'
    assert list(frame["d"])[1] == "x"
    assert frame["a"][0] == 1


def test_a_library_that_is_not_there_is_named_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(tr.InvalidInput, match=r"^polars is not installed: pip install polars\.$"):
        made_frame([{"a": 1}], "polars")


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, "bcd", "e", "f", None, None, None, "g"],
        [1, 2, 3, 4.5, None, 6, 7],
        [True, False, True, None, None, None, True],
        [None, None, None, 1, 2],
        [TIMES[0], None, None, None, None, datetime.date(2026, 1, 2)],
    ],
)
def test_a_column_read_in_chunks_is_the_same(values: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [{"c": values}, pd.DataFrame({"c": pd.Series(values, dtype=object)})]
    whole = [Frame(table).column("c") for table in tables]
    monkeypatch.setattr(frames, "CHUNK", 3)
    for table, (array, missing) in zip(tables, whole, strict=True):
        found = Frame(table).column("c")
        assert found.array.dtype == array.dtype
        np.testing.assert_array_equal(found.array, array)
        np.testing.assert_array_equal(found.missing, missing)


def test_errors_in_a_later_chunk_name_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "CHUNK", 3)
    with pytest.raises(
        tr.InvalidInput, match=r"column 'c'\[4\] must be a string, a number or a date, but got \[\]"
    ):
        Frame({"c": ["a", "b", "c", "d", []]}).column("c")
    with pytest.raises(tr.InvalidInput, match="column 'c' must hold strings or numbers, but it holds both"):
        Frame({"c": ["a", "b", "c", 4]}).column("c")


def test_rows_and_columns_of_a_frame(tmp_path: Path) -> None:
    frame = Frame({"a": [1, 2, None], "b": [5, 7, 6], "c": ["x", "y", "z"]}, path=tmp_path, sha256="0")
    part = frame.where([True, False, True])
    assert (len(part), part.names, part.path, part.sha256) == (2, ("a", "b", "c"), tmp_path, "0")
    assert part.to_dict() == part.where([0, 1]).to_dict() == {"a": [1.0, None], "b": [5, 6], "c": ["x", "z"]}
    assert part.numbers("b").tolist() == [5.0, 6.0]
    assert part.numbers(0.5).tolist() == [0.5, 0.5]
    with pytest.raises(tr.InvalidInput, match="column 'c' must hold numbers, but its first entry is 'x'"):
        part.numbers("c")
    assert frame.to_dict() == {"a": [1.0, 2.0, None], "b": [5, 7, 6], "c": ["x", "y", "z"]}


def test_what_stands_for_nothing_and_when_times_are() -> None:
    assert [frames.is_missing(one) for one in (None, float("nan"), pd.NA, pd.NaT, 0, "")] == [True] * 4 + [
        False
    ] * 2
    assert frames.microseconds("1970-01-01T00:00:01") == 1_000_000
    assert frames.microseconds("soon") is None
    with pytest.raises(tr.InvalidInput, match="library must be one of 'pandas', 'polars', but got 'excel'"):
        made_frame([{"a": 1}], "excel")  # type: ignore[arg-type]
