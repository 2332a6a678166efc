"""Tables in files."""

from __future__ import annotations

import gzip

import pytest

from tightrope.errors import InvalidInput
from tightrope.tables import read_table

TEXT = "age,sent\n41,email\n,letter\n"
COLUMNS = {"age": [41.0, None], "sent": ["email", "letter"]}


def test_a_csv_is_read_packed_or_not(tmp_path):
    (tmp_path / "log.csv").write_text("\ufeff" + TEXT, encoding="utf-8")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert read_table(tmp_path / "log.csv") == read_table(tmp_path / "log.csv.gz") == COLUMNS


def test_parquet_is_read(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.table(COLUMNS), tmp_path / "log.parquet")
    assert read_table(tmp_path / "log.parquet") == COLUMNS


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("log.csv", "age\n", "at least one row"),
        ("log.csv", "age,sent\n1\n", "row 1 has 1 entries, but there are 2 columns"),
        ("log.csv", "age,age\n1,2\n", "two columns are called 'age'"),
        ("log.xlsx", "", "must be a .csv, .csv.gz or .parquet file"),
        ("log.csv.gz", "not packed", "can't be read"),
        ("log.parquet", "no parquet", "can't be read"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=words):
        read_table(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"gone\.csv can't be read: No such file"):
        read_table(tmp_path / "gone.csv")
