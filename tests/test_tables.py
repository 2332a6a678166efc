"""Tables in files."""

from __future__ import annotations

import gzip
import hashlib

import pytest

from tightrope import tables
from tightrope.errors import InvalidInput
from tightrope.tables import read_table

TEXT = "age,sent\n41,email\n,letter\n"
COLUMNS = {"age": [41.0, None], "sent": ["email", "letter"]}


def test_a_csv_is_read_packed_or_not(tmp_path):
    (tmp_path / "log.csv").write_text("\ufeff" + TEXT, encoding="utf-8")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert (
        read_table(tmp_path / "log.csv").to_dict() == read_table(tmp_path / "log.csv.gz").to_dict() == COLUMNS
    )


def test_parquet_is_read(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.table(COLUMNS), tmp_path / "log.parquet")
    assert read_table(tmp_path / "log.parquet").to_dict() == COLUMNS


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("log.csv", "age\n", "at least one row"),
        ("log.csv", "age,sent\n1\n", "row 1 has 1 entries, but there are 2 columns"),
        ("log.csv", "age,age\n1,2\n", "two columns are called 'age'"),
        ("log.xlsx", "", "must be a .csv, .csv.gz, .parquet or .json file"),
        ("log.csv.gz", "not packed", "can't be read"),
        ("log.parquet", "no parquet", "can't be read"),
        ("log.json", "{", "can't be read"),
        ("log.json", '{"age": [1], "sent": []}', "an object of columns by name, lists of one length"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=words):
        read_table(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"gone\.csv can't be read: No such file"):
        read_table(tmp_path / "gone.csv")


def test_json_is_read(tmp_path):
    (tmp_path / "log.json").write_text('{"age": [41, null], "sent": ["007", "letter"]}')
    assert read_table(tmp_path / "log.json").to_dict() == {"age": [41, None], "sent": ["007", "letter"]}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a;b\n1,5;x\n2;y\n", {"a": [1.5, 2.0], "b": ["x", "y"]}),
        ("a\tb\n1.5\tx,y\n2\tz\n", {"a": [1.5, 2.0], "b": ["x,y", "z"]}),
        ('"a,1";b\n"3,25";2\n', {"a,1": [3.25], "b": [2.0]}),
        ('a,b\n"3,5",1\n"12,25",2\n', {"a": [3.5, 12.25], "b": [1.0, 2.0]}),
        # Thousands, as it may as well be: left as they are.
        ('a,b\n"1,000",1\n"2,500",2\n', {"a": ["1,000", "2,500"], "b": [1.0, 2.0]}),
        ("a,b\n1,x\nNA,NA\n?,y\n", {"a": [1.0, None, None], "b": ["x", "NA", "y"]}),
        ("a,b\nTrue,yes\nfalse,no\n,no\n", {"a": [True, False, None], "b": ["yes", "no", "no"]}),
        ("a,b\nNA,x\nNA,y\n", {"a": ["NA", "NA"], "b": ["x", "y"]}),
        ("age,sent\n41,email\n,letter\n", {"age": [41.0, None], "sent": ["email", "letter"]}),
    ],
)
def test_a_csv_is_read_as_it_is_met(tmp_path, text, columns):
    (tmp_path / "log.csv").write_text(text, encoding="utf-8")
    assert read_table(tmp_path / "log.csv").to_dict() == columns


def test_a_csv_read_in_chunks_is_the_same(tmp_path, monkeypatch):
    rows = [f"{i},{'' if i % 4 else i / 8},{'NA' if i == 9 else i},w{i}" for i in range(10)]
    (tmp_path / "log.csv").write_text("\n".join(["a,b,c,d", *rows]))
    whole = read_table(tmp_path / "log.csv")
    monkeypatch.setattr(tables, "CHUNK", 3)
    again = read_table(tmp_path / "log.csv")
    assert again.to_dict() == whole.to_dict()
    assert again.column("c").array.dtype == float
    assert again.sha256 == whole.sha256 == hashlib.sha256((tmp_path / "log.csv").read_bytes()).hexdigest()
    (tmp_path / "log.csv").write_text("a,b\n" + "1,2\n" * 7 + "1\n")
    with pytest.raises(InvalidInput, match="row 8 has 1 entries, but there are 2 columns"):
        read_table(tmp_path / "log.csv")
