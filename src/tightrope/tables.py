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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.frames import CHUNK, Coded, Frame, Values, joined, spread

Text: TypeAlias = NDArray[Any]  # of NumPy's strings of any length

_LARGE = 2**22  # bytes of a CSV from which on pyarrow reads it, if it is installed
_BLOCK = 2**20


def read_table(path: str | os.PathLike[str]) -> Frame:
    """The columns of a .csv, .csv.gz, .parquet or .json file, the last of which is an object of lists.

    Columns of a CSV in which every entry is a number become numbers. An empty entry of a CSV is missing. Entries may be separated
    by semicolons, tabs or bars instead of commas, and numbers may have a decimal comma. In a column of numbers NA, N/A, null, None,
    ? and - count as missing; a column of only true and false becomes booleans. Large files are read by pyarrow if it is
    installed, which is many times faster.
    """
    path = Path(path)
    kind = next((end for end in (".csv", ".csv.gz", ".parquet", ".json") if path.name.endswith(end)), None)
    if kind is None:
        raise InvalidInput(f"{path} must be a .csv, .csv.gz, .parquet or .json file.")
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            large = file.tell() >= _LARGE
            file.seek(0)
            if kind == ".parquet":
                columns = _parquet(path, file.read())
            elif kind == ".json":
                columns = _json(path, file.read())
            else:
                columns = _csv(path, file, packed=kind == ".csv.gz", large=large)
    except InvalidInput:
        raise
    except (OSError, ValueError, csv.Error, EOFError) as error:
        raise InvalidInput(f"{path} can't be read: {getattr(error, 'strerror', None) or error}.") from error
    return Frame(columns, path=path, sha256=sha256)


def _csv(path: Path, file: IO[bytes], *, packed: bool, large: bool) -> dict[str, Values | Coded]:
    def lines() -> Any:
        file.seek(0)
        unpacked: Any = gzip.GzipFile(fileobj=file) if packed else io.BufferedReader(_Shared(file))
        return io.TextIOWrapper(unpacked, encoding="utf-8-sig", newline="")

    first = next((line for line in lines() if line.strip("\r\n")), "")
    delimiter = _delimiter(first)
    header = next((row for row in csv.reader(lines(), delimiter=delimiter) if row), [])
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InvalidInput(f"{path}: two columns are called {twice!r}.")
    if large:

        def again() -> Any:
            file.seek(0)
            return gzip.GzipFile(fileobj=file) if packed else _Shared(file)

        if (found := _by_arrow(again, header, delimiter)) is not None:
            return found
    return _by_python(path, (row for row in csv.reader(lines(), delimiter=delimiter) if row), header)


class _Shared(io.RawIOBase):
    """A file that stays open when its reader is done."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)  # type: ignore[attr-defined, no-any-return]


def _by_arrow(
    opened: Callable[[], Any], header: list[str], delimiter: str
) -> dict[str, Values | Coded] | None:
    """The columns of a CSV by pyarrow, the same as `_by_python`; None if it is not installed, or can't read the file.

    A column is taken for numbers until an entry is none; the file is then read again.
    """
    try:
        import pyarrow
        from pyarrow import csv as reader
    except ImportError:
        return None
    options = {
        "read_options": reader.ReadOptions(block_size=_BLOCK),
        "parse_options": reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": reader.ConvertOptions(column_types=dict.fromkeys(header, pyarrow.string())),
    }
    texts: set[str] = set()
    while True:
        parts: dict[str, list[Any]] = {name: [] for name in header}
        other = None
        try:
            with reader.open_csv(opened(), **options) as batches:
                if batches.schema.names != header:
                    return None
                for batch in batches:
                    other = _add(parts, batch, texts)
                    if other is not None:
                        break
        except pyarrow.lib.ArrowException:
            return None  # Python's reader says what is wrong
        if other is None:
            break
        texts.add(other)
    if not sum(map(len, parts[header[0]])):
        return None
    return {name: _whole(parts.pop(name), name in texts) for name in header}


def _add(parts: dict[str, list[Any]], batch: Any, texts: set[str]) -> str | None:
    """Add some rows to the columns; the name of a column that turns out not to hold numbers, at the first rows to `texts`."""
    import pyarrow
    from pyarrow import compute

    for name, column in zip(batch.schema.names, batch.columns):
        if name not in texts:
            plain = compute.utf8_trim_whitespace(column)
            empty = compute.equal(plain, "")
            try:
                numbers = compute.cast(compute.if_else(empty, None, plain), pyarrow.float64())
                array = np.array(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
                parts[name].append(Values(array, empty.to_numpy(zero_copy_only=False)))
                continue
            except pyarrow.lib.ArrowInvalid:
                if parts[name]:
                    return str(name)
                texts.add(name)
        parts[name].append(column.dictionary_encode())
    return None


def _whole(parts: list[Any], text: bool) -> Values | Coded:
    """A column from its parts: numbers; or texts, which may be numbers after all, or true and false, in other words."""
    import pyarrow

    if not text:
        return Values(*(np.concatenate(one) for one in zip(*parts)))
    encoded = pyarrow.chunked_array(parts).unify_dictionaries()
    dictionary = encoded.chunk(encoded.num_chunks - 1).dictionary
    # What a column holds depends only on which entries there are.
    entries = [
        np.array(dictionary[begin : begin + CHUNK].to_pylist(), dtype=np.dtypes.StringDType())
        for begin in range(0, len(dictionary), CHUNK)
    ]
    typed = _typed(entries)
    del entries, dictionary
    codes = np.concatenate([one.indices.to_numpy(zero_copy_only=False) for one in encoded.chunks])
    if typed.array.dtype.kind != "T":
        return Values(typed.array[codes], typed.missing[codes])
    return _without_gaps(typed.array, codes)


def _by_python(path: Path, rows: Iterator[list[str]], header: list[str]) -> dict[str, Values | Coded]:
    next(rows, None)  # the header
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
    return {name: _stored_once(_typed(chunks.pop(0))) for name in header}


def _stored_once(values: Values) -> Values | Coded:
    """Texts by their codes; anything else as it is."""
    if values.array.dtype.kind != "T":
        return values
    met: dict[str, int] = {}
    codes = np.empty(values.array.size, dtype=np.int32)
    for begin in range(0, codes.size, CHUNK):
        entries = values.array[begin : begin + CHUNK].tolist()
        codes[begin : begin + CHUNK] = [met.setdefault(one, len(met)) for one in entries]
    return _without_gaps(np.array(list(met), dtype=values.array.dtype), codes)


def _without_gaps(texts: Text, codes: NDArray[np.int32]) -> Coded:
    """Texts and their codes, where blank ones are gaps."""
    blank = _is_blank(texts)
    if not blank.any():
        return Coded(texts, codes)
    places = np.where(blank, -1, np.cumsum(~blank) - 1).astype(np.int32)
    return Coded(texts[~blank], places[codes])


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
    return Values(np.concatenate(chunks), np.concatenate([_is_blank(chunk) for chunk in chunks]))


def _is_blank(texts: Text) -> NDArray[np.bool_]:
    return np.asarray(np.strings.str_len(np.strings.strip(texts)) == 0)


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
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
    except pyarrow.lib.ArrowException as error:
        raise InvalidInput(f"{path} can't be read: {error}.") from error
    columns: dict[str, Any] = dict(zip(table.column_names, table.columns))
    for name, column in columns.items():
        if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
            encoded = column.combine_chunks().dictionary_encode()
            texts = np.array(encoded.dictionary.to_pylist(), dtype=np.dtypes.StringDType())
            codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            columns[name] = Coded(texts, codes.astype(np.int32))
    return columns
