"""Tables in files, as columns by name."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from pathlib import Path
from typing import Any

from tightrope.errors import InvalidInput

Columns = dict[str, list[Any]]


def read_table(path: str | os.PathLike[str]) -> Columns:
    r"""The columns of a .csv, .csv.gz, .parquet or .json file, the last of which is an object of lists.

    Columns of a CSV in which every entry is a number become numbers. An empty entry of a CSV is None. Entries may stand between
    semicolons, tabs or bars instead of commas, and numbers may have a decimal comma. In a column of numbers NA, N/A, null, None, ?
    and - are no entries; one of true and false alone becomes booleans.

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
        if path.suffix == ".json":
            return _json(path)
        if path.name.endswith((".csv", ".csv.gz")):
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
                text = file.read()
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text)))
            return _columns(path, rows)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} can't be read: {getattr(error, 'strerror', None) or error}.") from error
    raise InvalidInput(f"{path} must be a .csv, .csv.gz, .parquet or .json file.")


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


_NOTHING = frozenset(["na", "n/a", "nan", "null", "none", "?", "-"])
_TRUTH = {"true": True, "false": False}


def _delimiter(text: str) -> str:
    """What stands most often between the column names, a comma if nothing does."""
    header = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").partition("\n")[0])
    return max(",;\t|", key=header.count)


def _typed(entries: list[str]) -> list[Any]:
    given = [entry if entry.strip() else None for entry in entries]
    try:
        return [None if entry is None else float(entry) for entry in given]
    except ValueError:
        pass
    present = [
        None if entry is None or entry.strip().lower() in _NOTHING else entry.strip() for entry in given
    ]
    words = [entry for entry in present if entry is not None]
    if not words:
        return given
    if all(word.lower() in _TRUTH for word in words):
        return [None if entry is None else _TRUTH[entry.lower()] for entry in present]
    try:
        return [None if entry is None else float(entry) for entry in present]
    except ValueError:
        pass
    if _decimal_commas(words):
        return [None if entry is None else float(entry.replace(",", ".")) for entry in present]
    return given


def _decimal_commas(words: list[str]) -> bool:
    """Whether these are numbers such as 3,5: three digits after every comma may as well be thousands.

    >>> _decimal_commas(["3,5", "12"]), _decimal_commas(["1,000", "2,500"])
    (True, False)
    """
    parts = [re.fullmatch(r"[-+]?\d+(?:,(\d+))?", word) for word in words]
    return None not in parts and any(len(one[1] or "000") != 3 for one in parts if one)


def _json(path: Path) -> Columns:
    try:
        columns = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidInput(f"{path} can't be read: {error}.") from error
    lists = isinstance(columns, dict) and all(isinstance(one, list) for one in columns.values())
    if not lists or len({len(one) for one in columns.values()}) != 1:
        raise InvalidInput(f"{path} must be an object of columns by name, lists of one length.")
    found: Columns = columns
    return found


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
