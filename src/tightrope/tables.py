"""Tables in files, as columns by name."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import itertools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.frames import CHUNK, Frame, Values, joined, spread

Text: TypeAlias = NDArray[Any]  # of NumPy's strings of any length


def read_table(path: str | os.PathLike[str]) -> Frame:
    """The columns of a .csv, .csv.gz, .parquet or .json file, the last of which is an object of lists.

    Columns of a CSV in which every entry is a number become numbers. An empty entry of a CSV is missing. Entries may be separated
    by semicolons, tabs or bars instead of commas, and numbers may have a decimal comma. In a column of numbers NA, N/A, null, None,
    ? and - count as missing; a column of only true and false becomes booleans.
    """
    path = Path(path)
    kind = next((end for end in (".csv", ".csv.gz", ".parquet", ".json") if path.name.endswith(end)), None)
    if kind is None:
        raise InvalidInput(f"{path} must be a .csv, .csv.gz, .parquet or .json file.")
    try:
        data = path.read_bytes()
        if kind == ".parquet":
            columns = _parquet(path, data)
        elif kind == ".json":
            columns = _json(path, data)
        else:
            text = io.BytesIO(data)
            file = gzip.GzipFile(fileobj=text) if kind == ".csv.gz" else text
            columns = _csv(path, io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
    except InvalidInput:
        raise
    except (OSError, ValueError, csv.Error, EOFError) as error:
        raise InvalidInput(f"{path} can't be read: {getattr(error, 'strerror', None) or error}.") from error
    return Frame(columns, path=path, sha256=hashlib.sha256(data).hexdigest())


def _csv(path: Path, file: io.TextIOWrapper) -> dict[str, Values]:
    first = next((line for line in file if line.strip("\r\n")), "")
    file.seek(0)
    rows = (row for row in csv.reader(file, delimiter=_delimiter(first)) if row)
    header = next(rows, [])
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InvalidInput(f"{path}: two columns are called {twice!r}.")
    chunks: list[list[Text]] = [[] for _ in header]
    n = 0
    while chunk := list(itertools.islice(rows, CHUNK)):
        for i, row in enumerate(chunk, start=n + 1):
            if len(row) != len(header):
                wrong = f"row {i} has {len(row)} entries, but there are {len(header)} columns."
                raise InvalidInput(wrong, within=str(path))
        for column, entries in zip(chunks, zip(*chunk)):
            column.append(np.array(entries, dtype=np.dtypes.StringDType()))
        n += len(chunk)
    if not n:
        raise InvalidInput(f"{path} must have a line of column names and at least one row.")
    return {name: _typed(column) for name, column in zip(header, chunks)}


_NOTHING = frozenset(["na", "n/a", "nan", "null", "none", "?", "-"])
_TRUTH = {"true": True, "false": False}


def _delimiter(header: str) -> str:
    return max(",;\t|", key=re.sub(r'"[^"]*"', "", header).count)


def _typed(chunks: list[Text]) -> Values:
    """Numbers or booleans if all entries are, else texts."""

    def read(entry: Callable[[str], Any], *, words: bool) -> Values | None:
        """Parse non-empty entries with `entry` (with `words`, words for "missing" count as empty); None if one can't be parsed."""
        parts = []
        try:
            for chunk in chunks:
                given = chunk.tolist()
                gaps = np.array([_is_nothing(one, words) for one in given], dtype=bool)
                present = np.array([entry(one) for one, gap in zip(given, gaps) if not gap])
                parts.append(spread(present, gaps))
        except (ValueError, KeyError):
            return None
        return joined("", parts)

    found = read(float, words=False)
    if found is None and not all(_is_nothing(one, True) for chunk in chunks for one in chunk.tolist()):
        found = read(lambda one: _TRUTH[one.strip().lower()], words=True) or read(float, words=True)
        if found is None and _decimal_commas(chunks):
            found = read(lambda one: float(one.strip().replace(",", ".")), words=True)
    if found is not None:
        return found
    text = np.concatenate(chunks)
    return Values(text, np.asarray(np.strings.str_len(np.strings.strip(text)) == 0))


def _is_nothing(entry: str, words: bool) -> bool:
    plain = entry.strip()
    return not plain or (words and plain.lower() in _NOTHING)


def _decimal_commas(chunks: list[Text]) -> bool:
    """Whether these are numbers such as 3,5: with three digits after every comma they may be thousands."""
    told = False
    for entry in (entry for chunk in chunks for entry in chunk.tolist() if not _is_nothing(entry, True)):
        part = re.fullmatch(r"[-+]?\d+(?:,(\d+))?", entry.strip())
        if part is None:
            return False
        told |= len(part[1] or "000") != 3
    return told


def _json(path: Path, data: bytes) -> dict[str, list[Any]]:
    columns = json.loads(data)
    lists = isinstance(columns, dict) and all(isinstance(one, list) for one in columns.values())
    if not lists or len({len(one) for one in columns.values()}) != 1:
        raise InvalidInput(f"{path} must be an object of columns by name, lists of one length.")
    found: dict[str, list[Any]] = columns
    return found


def _parquet(path: Path, data: bytes) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidInput(f"{path}: Parquet needs pyarrow: pip install 'tightrope[data]'.") from error
    try:
        return pyarrow.parquet.read_table(pyarrow.BufferReader(data))
    except pyarrow.lib.ArrowException as error:
        raise InvalidInput(f"{path} can't be read: {error}.") from error
