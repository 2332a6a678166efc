"""The encoder: one formula for a row wherever it is met, what is missing or unseen as declared, errors that name the column."""

from __future__ import annotations

import datetime
import json
import math
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightrope as tr

TABLE: dict[str, list[Any]] = {
    "age": [20, 40, 90],
    "ward": ["B", "A", "B"],
    "urgent": [True, False, True],
    "since": [datetime.date(2026, 1, 1), datetime.date(2026, 1, 3), datetime.date(2026, 1, 5)],
}


def rows_of(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(table, values)) for values in zip(*table.values())]


def test_what_each_kind_becomes() -> None:
    encoder = tr.Encoder(unit=False).fit(TABLE)
    assert encoder.names == ("one", "age", "ward=B", "urgent", "since")
    assert encoder.n_features == 5
    age = (np.array([20, 40, 90]) - 50) / np.std([20, 40, 90])
    since = np.array([-2, 0, 2]) / np.std([-2, 0, 2])
    expected = np.column_stack([np.ones(3), age, [1, 0, 1], [1, 0, 1], since])
    np.testing.assert_allclose(encoder.transform(TABLE), expected, rtol=1e-12, atol=1e-12)
    unit = tr.Encoder().fit(TABLE)
    np.testing.assert_allclose(np.linalg.norm(unit.transform(TABLE), axis=1).max(), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(unit.transform(TABLE), encoder.transform(TABLE) / unit.norm)
    np.testing.assert_array_equal(unit.design(TABLE), encoder.transform(TABLE))


def test_every_form_of_a_table_and_of_a_row_gives_the_same_bits() -> None:
    encoder = tr.Encoder().fit(TABLE)
    x, rows = encoder.transform(TABLE), rows_of(TABLE)
    frame = pd.DataFrame(TABLE)
    tables = [
        rows,
        frame,
        pl.DataFrame(TABLE),
        pa.table(TABLE),
        frame.assign(ward=frame["ward"].astype("category"), age=frame["age"].astype("Int64")),
        frame.assign(since=pd.to_datetime(frame["since"])),
        frame.to_records(index=False),
    ]
    for table in tables:
        assert tr.Encoder(list(TABLE)).fit(table) == encoder, type(table)
        assert encoder.transform(table).tobytes() == x.tobytes(), type(table)
    assert encoder.transform(frame[1:2]).tobytes() == x[1:2].tobytes()
    Row = namedtuple("Row", TABLE)
    iso = {**rows[1], "since": "2026-01-03"}
    ones = [rows[1], Row(**rows[1]), frame.iloc[1], pl.DataFrame(TABLE).row(1, named=True), iso]
    for one in [*ones, frame.to_records(index=False)[1]]:
        assert encoder.transform(one).tobytes() == x[1].tobytes(), type(one)
    for one in (rows[1], iso):
        assert encoder.vector(one).tobytes() == x[1].tobytes()


def test_columns_without_names() -> None:
    table = np.array([[1.0, 5.0], [2.0, 7.0], [3.0, 6.0]])
    encoder = tr.Encoder(unit=False)
    x = encoder.fit_transform(table)
    assert encoder.names == ("one", "x0", "x1")
    np.testing.assert_allclose(x[:, 1:].mean(axis=0), 0.0, atol=1e-15)
    np.testing.assert_array_equal(encoder.transform(table[1]), x[1])
    with pytest.raises(tr.InvalidInput, match="must have the 2 columns x0, x1, but has 1"):
        encoder.transform(table[:, :1])
    with pytest.raises(tr.InvalidInput, match="a row must have 2 entries, but has 3"):
        encoder.transform(np.zeros(3))


def test_a_constant_column_has_no_entry_unless_it_is_taken_as_it_is() -> None:
    table = {"same": [0.1] * 3, "n": [1, 2, 3]}
    assert tr.Encoder().fit(table).names == ("one", "n")
    as_is = tr.Encoder({"same": {"standardise": False}, "n": {"standardise": False}}, unit=False).fit(table)
    assert as_is.transform(table).tolist() == [[1, 0.1, 1], [1, 0.1, 2], [1, 0.1, 3]]


def test_missing_values_as_declared() -> None:
    nothing = float("nan")
    table = {"age": [20.0, nothing, 60.0], "ward": ["A", None, "B"], "urgent": [True, None, False]}
    x = tr.Encoder(
        {"age": {"missing": "mean"}, "ward": {"missing": "indicator"}, "urgent": {"fill": True}}, unit=False
    )
    assert x.fit_transform(table).tolist() == [[1, -1, 0, 0, 1], [1, 0, 0, 1, 1], [1, 1, 1, 0, 0]]
    assert x.names == ("one", "age", "ward=B", "ward missing", "urgent")
    other = tr.Encoder(
        {"age": {"missing": "indicator"}, "ward": {"fill": "B"}, "urgent": {"missing": "mean"}}, unit=False
    ).fit(pd.DataFrame(table))
    assert other.transform({}).tolist() == [1, 0, 1, 1, 0.5]
    assert other.transform({"age": pd.NA, "ward": None, "urgent": pd.NA}).tolist() == [1, 0, 1, 1, 0.5]
    filled = tr.Encoder({"age": {"fill": 100}}, unit=False).fit(pl.DataFrame(table))
    assert filled.transform({"age": None}).tolist() == [1, 3]
    both = tr.Encoder({"age": {"missing": "indicator"}, "urgent": {"missing": "indicator"}}, unit=False)
    assert both.fit_transform(table)[1].tolist() == [1, 0, 1, 0, 1]


def test_unseen_categories_as_declared() -> None:
    table = {"ward": ["A", "B", "B"]}

    def encoded(unseen: str) -> tuple[Any, list[float]]:
        encoder = tr.Encoder({"ward": {"unseen": unseen}}, unit=False).fit(table)
        return encoder.names, encoder.transform({"ward": "C"}).tolist()

    assert encoded("ignore") == (("one", "ward=A", "ward=B"), [1, 0, 0])
    assert encoded("other") == (("one", "ward=B", "ward other"), [1, 0, 1])
    with pytest.raises(tr.InvalidInput, match="column 'ward' must be one of 'A', 'B', but got 'C'"):
        encoded("error")
    few = tr.Encoder({"ward": {"values": ["B"], "unseen": "other"}}, unit=False)
    assert few.fit_transform(table).tolist() == [[1, 1], [1, 0], [1, 0]]


def test_numbers_as_categories() -> None:
    encoder = tr.Encoder({"zip": "category"}, unit=False).fit({"zip": [10, 20, 30]})
    assert encoder.names == ("one", "zip=20", "zip=30")
    assert encoder.transform({"zip": 20.0}).tolist() == [1, 1, 0]
    with pytest.raises(tr.InvalidInput, match="must be a text or a number, but got True"):
        encoder.transform({"zip": True})


def test_dates_are_days_in_utc() -> None:
    encoder = tr.Encoder({"at": {"type": "date", "standardise": False}}, unit=False)
    x = encoder.fit_transform({"at": ["1970-01-02", "1970-01-03T12:00:00+02:00"]})
    assert x[:, 1].tolist() == [1.0, 2 + 10 / 24]
    assert encoder.transform({"at": pd.Timestamp("1970-01-11")}).tolist() == [1, 10]
    assert encoder.transform({"at": np.datetime64("1970-01-11")}).tolist() == [1, 10]


VALUES = {
    "number": st.none() | st.floats(-1e6, 1e6) | st.integers(-1000, 1000),
    "category": st.none() | st.sampled_from(["A", "B", "C"]),
    "boolean": st.none() | st.booleans(),
    "date": st.none() | st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), kind=st.sampled_from(list(VALUES)), missing=st.sampled_from(["indicator", "mean"]))
def test_a_row_alone_is_encoded_as_in_its_table(data: Any, kind: str, missing: str) -> None:
    if kind == "category":
        missing = "indicator"
    column = data.draw(
        st.lists(VALUES[kind], min_size=1, max_size=8).filter(lambda c: any(v is not None for v in c))
    )
    stated = {"type": kind, "missing": missing, **({"unseen": "other"} if kind == "category" else {})}
    encoder = tr.Encoder({"c": stated}).fit({"c": column})
    x = encoder.transform({"c": column})
    alone = [encoder.transform({"c": value}) for value in column]
    sent = [encoder.vector({"c": str(one) if kind == "date" and one is not None else one}) for one in column]
    assert x.tobytes() == np.array(alone).tobytes() == np.array(sent).tobytes()
    assert encoder.transform(pd.DataFrame({"c": column})).tobytes() == x.tobytes()
    again = tr.Encoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    assert again.transform({"c": column}).tobytes() == x.tobytes()


def test_saved_as_plain_json(tmp_path: Path) -> None:
    encoder = tr.Encoder({"age": {"missing": "mean"}, "ward": {"unseen": "other"}}).fit(TABLE)
    encoder.save(tmp_path / "encoder.json")
    loaded = tr.Encoder.load(tmp_path / "encoder.json")
    assert loaded == encoder
    assert loaded != tr.Encoder(["age", "ward"]).fit(TABLE)
    assert loaded.transform(TABLE).tobytes() == encoder.transform(TABLE).tobytes()
    assert repr(loaded) == "Encoder(age: number, ward: category; 4 features)"
    data = json.loads((tmp_path / "encoder.json").read_text())
    assert data["columns"]["ward"] == {"type": "category", "values": ["A", "B"], "unseen": "other"}


def test_the_callers_row_is_strict() -> None:
    encoder = tr.Encoder({"age": {}, "ward": {"missing": "indicator"}}).fit(TABLE)
    assert encoder.transform({"age": 20, "note": "?"}).shape == (4,)
    with pytest.raises(
        tr.InvalidInput, match=r"context\.agee is not a declared field \(did you mean 'age'\?\)"
    ):
        encoder.vector({"agee": 20})
    with pytest.raises(tr.InvalidInput, match=r"context\.age is missing: give a number"):
        encoder.vector({"ward": "A"})
    with pytest.raises(tr.InvalidInput, match=r"context\.age must be a number, but got 'old'"):
        encoder.vector({"age": "old"})
    with pytest.raises(tr.InvalidInput, match=r"context\.age must be finite, but got inf"):
        encoder.vector({"age": math.inf})
    assert encoder.vector(encoder.example()).shape == (4,)


def test_schema_says_what_a_caller_sends() -> None:
    schema = (
        tr.Encoder({"age": {"missing": "mean"}, "ward": {}, "since": {}, "urgent": {}}).fit(TABLE).schema()
    )
    assert schema["required"] == ["ward", "since", "urgent"]
    assert schema["properties"]["ward"] == {"enum": ["A", "B"]}
    number, null = schema["properties"]["age"]["anyOf"]
    assert (number["type"], null) == ("number", {"type": "null"})
    assert number["description"] == "From 20 to 90; a number outside is clipped."


@pytest.mark.parametrize("value", [30_000.0, 1e308, -1e6])
def test_a_number_outside_the_table_is_clipped_refused_or_taken(value: float) -> None:
    table = {"age": [18.0, 30.0, 79.0], "ward": ["a", "b", "b"]}
    far = {"age": [value, 30.0], "ward": ["a", "b"]}
    end = 79.0 if value > 0 else 18.0
    clips = tr.Encoder(["age", "ward"]).fit(table)
    expected = clips.vector({"age": end, "ward": "a"})
    np.testing.assert_array_equal(clips.vector({"age": value, "ward": "a"}), expected)
    np.testing.assert_array_equal(clips.transform(far)[0], expected)
    assert clips.outside({"age": value, "ward": "a"}) == ["age"]
    assert clips.outside({"age": 30.0, "ward": "a"}) == []
    again = tr.Encoder.from_dict(clips.to_dict())
    np.testing.assert_array_equal(again.transform(far), clips.transform(far))
    refuses = tr.Encoder({"age": {"outside": "refuse"}, "ward": {}}).fit(table)
    with pytest.raises(tr.InvalidInput, match=r"context.age must lie in \[18, 79\], but got"):
        refuses.vector({"age": value, "ward": "a"})
    with pytest.raises(tr.InvalidInput, match=r"column 'age'\[0\] must lie in \[18, 79\], but got"):
        refuses.transform(far)
    takes = tr.Encoder({"age": {"outside": "take"}, "ward": {}}).fit(table)
    reach = 79.0 + 610.0 if value > 0 else 18.0 - 610.0
    np.testing.assert_array_equal(takes.transform(far)[0], takes.vector({"age": reach, "ward": "a"}))


def test_what_stands_in_for_a_missing_number_may_be_outside() -> None:
    encoder = tr.Encoder({"age": {"fill": -1.0}}).fit({"age": [18.0, 79.0, None]})
    by_row = encoder.vector({"age": None})
    np.testing.assert_array_equal(by_row, encoder.transform({"age": [math.nan]})[0])
    assert by_row[1] < encoder.vector({"age": 18.0})[1]


def test_a_column_too_large_to_be_squared_is_refused() -> None:
    with pytest.raises(tr.InvalidInput, match="column 'age' must hold numbers whose squares can be added"):
        tr.Encoder(["age"]).fit({"age": [1e200, -1e200]})


@pytest.mark.parametrize(
    ("columns", "table", "words"),
    [
        (["agee"], TABLE, r"frame must have a column 'agee' \(did you mean 'age'\?\); it has: age, ward"),
        ("age", TABLE, "columns must be one or more column names, but got 'age'"),
        (["age", "age"], TABLE, "columns must differ from each other"),
        (["age"], pl.DataFrame({"a": [1]}), "frame must have a column 'age'; it has: a"),
        (["age"], {"age": [1.0, math.nan]}, r"column 'age'\[1\] is missing: give a number"),
        (["age"], {"age": [1.0, math.inf]}, r"column 'age'\[1\] must be finite, but got inf"),
        ({"age": "number"}, {"age": ["x"]}, r"column 'age'\[0\] must be a number, but got 'x'"),
        ({"age": "boolean"}, {"age": [1, 2]}, r"column 'age'\[1\] must be true or false, but got 2"),
        (
            {"age": "date"},
            {"age": ["soon"]},
            r"column 'age'\[0\] must be a date such as 2026-03-31, but got 'soon'",
        ),
        (
            {"age": "numbr"},
            TABLE,
            r"columns\['age'\]\.type must be one of .* but got 'numbr' \(did you mean 'number'\?\)",
        ),
        (
            {"age": {"mising": "mean"}},
            TABLE,
            r"columns\['age'\]\.mising is an unknown field; allowed: type, missing",
        ),
        (
            {"ward": {"missing": "mean"}},
            TABLE,
            r"columns\['ward'\]\.missing must be 'error' or 'indicator' or 'fill'",
        ),
        ({"age": {"fill": 1, "missing": "mean"}}, TABLE, r"columns\['age'\]\.fill needs missing"),
        ({"age": {"missing": "fill"}}, TABLE, r"columns\['age'\]\.fill must give the value to use"),
        (
            {"ward": {"values": ["A"], "fill": "C"}},
            TABLE,
            r"columns\['ward'\]\.fill must be one of the values 'A'",
        ),
        ({"ward": {"values": ["A"]}}, TABLE, r"column 'ward'\[0\] must be one of 'A', but got 'B'"),
        (["age"], {"age": []}, "an encoder needs a column and a row, but got 1 and 0"),
        (["age"], {"age": [None, None]}, "column 'age' must have a value in some row"),
        (
            ["age"],
            {"age": [[1], [2]]},
            r"column 'age'\[0\] must be a string, a number or a date, but got \[1\]",
        ),
        (["age"], [{"age": 1}, 3], r"rows\[1\] must be a row by column names, but got 3"),
        (["age"], 7, "a table must have named columns or be a list of rows, but got int"),
    ],
)
def test_bad_tables_are_refused_in_words(columns: Any, table: Any, words: str) -> None:
    encoder = tr.Encoder()
    with pytest.raises(tr.InvalidInput, match=words):
        encoder.fit(table, columns)
    assert not encoder.fitted
    with pytest.raises(tr.InvalidInput, match="is not fitted yet"):
        encoder.transform(table)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, "version must be 1"),
        ({"norm": 0}, "norm must be finite and > 0, but got 0"),
        ({"more": 1}, "an encoder has no field 'more'"),
        ({"columns": {}}, "columns must be a table of columns by name"),
        ({"columns": {"age": {"type": "number", "mean": 1.0}}}, r"columns\['age'\]\.deviation is missing"),
        (
            {"columns": {"age": {"type": "number", "mean": 1.0, "deviation": -1.0}}},
            "deviation must be at least 0",
        ),
        (
            {"columns": {"ward": {"type": "category", "values": ["A", "A"]}}},
            "must be different texts or numbers",
        ),
    ],
)
def test_bad_files_are_refused_in_words(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    data = tr.Encoder(["age"]).fit(TABLE).to_dict() | changes
    (tmp_path / "e.json").write_text(json.dumps(data))
    with pytest.raises(tr.InvalidInput, match=rf"e\.json: .*{words}"):
        tr.Encoder.load(tmp_path / "e.json")


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "e.json").write_text("{")
    with pytest.raises(tr.InvalidInput, match=r"e\.json must be JSON"):
        tr.Encoder.load(tmp_path / "e.json")
    with pytest.raises(tr.InvalidInput, match=r"none\.json can't be read"):
        tr.Encoder.load(tmp_path / "none.json")


def test_plain_data_are_what_json_gives_back_and_the_order_of_columns_counts() -> None:
    rows = [{"ward": "B", "age": 3.0}, {"ward": "A", "age": 5.0}]
    encoder = tr.Encoder(["ward", "age"]).fit(rows)
    assert encoder.to_dict() == json.loads(json.dumps(encoder.to_dict()))
    other = tr.Encoder(["age", "ward"]).fit(rows)
    assert other.to_dict() == encoder.to_dict(), "a table has no order"
    assert other != encoder


def test_unseen_values_may_count_as_one_of_the_others():
    rows = [{"ward": "A"}, {"ward": "B"}, {"ward": "C"}]
    encoder = tr.Encoder({"ward": {"other": "B"}}, unit=False).fit(rows)
    assert encoder.names == ("one", "ward=B", "ward=C")
    assert encoder.transform({"ward": "Z"}).tolist() == encoder.transform({"ward": "B"}).tolist()
    assert encoder.replaced({"ward": "Z"}) == [("ward", "other")]
    assert tr.Encoder.from_dict(encoder.to_dict()) == encoder
    with pytest.raises(tr.InvalidInput, match="other must be one of the values"):
        tr.Encoder({"ward": {"other": "Z", "values": ["A"]}}, unit=False).fit(rows)
    for wrong in ({"unseen": "other", "other": "B"}, {"unseen": "fill"}):
        with pytest.raises(tr.InvalidInput, match="other"):
            tr.Encoder({"ward": wrong}, unit=False).fit(rows)
