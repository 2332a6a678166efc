"""Tables in files, as columns by name."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path
from typing import Any

from tightrope.errors import InvalidInput

Columns = dict[str, list[Any]]


def read_table(path: str | os.PathLike[str]) -> Columns:
    r"""The columns of a .csv, .csv.gz or .parquet file; columns of a CSV in which every entry is a number become numbers.

    An empty entry of a CSV is None.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("age,sent\n41,email\n,letter\n")
    >>> read_table(file)
    {'age': [41.0, None], 'sent': ['email', 'letter']}
    """
    path = Path(path)
    try:
        if path.suffix == ".parquet":
            return _parquet(path)
        if path.name.endswith((".csv", ".csv.gz")):
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
                rows = list(csv.reader(file))
            return _columns(path, rows)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} can't be read: {getattr(error, 'strerror', None) or error}.") from error
    raise InvalidInput(f"{path} must be a .csv, .csv.gz or .parquet file.")


def _columns(path: Path, rows: list[list[str]]) -> Columns:
    if len(rows) < 2:
        raise InvalidInput(f"{path} must have a line of column names and at least one row.")
    header, *body = (row for row in rows if row)
    for i, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise InvalidInput(
                f"{path}: row {i} has {len(row)} entries, but there are {len(header)} columns."
            )
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InvalidInput(f"{path}: two columns are called {twice!r}.")
    return {name: _typed([row[k] for row in body]) for k, name in enumerate(header)}


def _typed(entries: list[str]) -> list[Any]:
    given = [entry if entry.strip() else None for entry in entries]
    try:
        return [None if entry is None else float(entry) for entry in given]
    except ValueError:
        return given


def _parquet(path: Path) -> Columns:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidInput(
            f"{path}: reading Parquet needs pyarrow, which comes with pip install 'tightrope[data]'."
        ) from error
    try:
        columns: Columns = pyarrow.parquet.read_table(path).to_pydict()
    except pyarrow.lib.ArrowException as error:
        raise InvalidInput(f"{path} can't be read: {error}.") from error
    return columns
