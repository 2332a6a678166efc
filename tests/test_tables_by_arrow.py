"""Large CSV files are read by pyarrow to the same columns as by Python."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from tightrope import tables
from tightrope.errors import InvalidInput
from tightrope.starting.columns import look
from tightrope.tables import read_table

ROWS = [
    "id;price;text;flag;late;words;gap;many",
    *(
        f'{i};{i % 7},25;"a ""{i % 3}"";\nb";{("true", "False")[i % 2]};{i if i < 900 else "x"};{i % 5 if i % 4 else "n/a"};;'
        f" {i % 50} "
        for i in range(1_000)
    ),
]


@pytest.fixture
def both(monkeypatch, tmp_path):
    """What pyarrow and what Python read from a text."""

    def read(text, name="table.csv"):
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        found = []
        for large in (0, 2**60):
            monkeypatch.setattr(tables, "_LARGE", large)
            monkeypatch.setattr(tables, "_BLOCK", 2**12)
            called = []
            by_python = tables._by_python
            monkeypatch.setattr(
                tables, "_by_python", lambda *a, f=by_python, c=called: (c.append(1), f(*a))[1]
            )
            found.append(read_table(tmp_path / name))
            assert bool(called) == (large > 0)
            monkeypatch.setattr(tables, "_by_python", by_python)
        return found

    return read


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_columns_are_the_same(both, name):
    fast, plain = both("\n".join(ROWS) + "\n", name)
    assert fast.names == plain.names
    assert (fast.sha256, len(fast)) == (plain.sha256, len(plain))
    for column in plain.names:
        assert fast.column(column).to_list() == plain.column(column).to_list()
        some = np.arange(0, 1_000, 7)
        assert fast.where(some).column(column).to_list() == plain.where(some).column(column).to_list()
        assert (fast.missing(column) == plain.missing(column)).all()
    # Numbers up to a late entry that is none are texts all the same.
    assert fast.column("late").array[-1] == "x"
    assert look(fast) == look(plain)


def test_what_is_wrong_is_said_by_the_plain_reader(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "_LARGE", 0)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(InvalidInput, match="row 2 has 1 entries, but there are 2 columns"):
        read_table(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes("a,b\n1,é\n".encode("latin-1"))
    with pytest.raises(InvalidInput, match="can't be read"):
        read_table(tmp_path / "b.csv")


def test_without_pyarrow_the_plain_reader_does_it(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "_LARGE", 0)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a.csv").write_text("a,b\n1,x\n3,y\n")
    assert read_table(tmp_path / "a.csv").to_dict() == {"a": [1.0, 3.0], "b": ["x", "y"]}


def test_texts_of_parquet_are_stored_once(tmp_path):
    columns = {"ward": ["b", None, "a", "", "b"], "age": [1.5, 2.0, None, 4.0, 5.0], "none": [None] * 5}
    table = pyarrow.table({**columns, "none": pyarrow.array([None] * 5, pyarrow.string())})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    read = read_table(tmp_path / "a.parquet")
    assert read.to_dict() == columns
    coded = read.texts("ward")
    assert coded is not None
    assert (coded.texts.tolist(), coded.codes.tolist()) == (["b", "a", ""], [0, -1, 1, 2, 0])
    assert read.where([1, 2]).column("ward").to_list() == [None, "a"]
