"""Files that are complete or absent: written beside their place, flushed to disk, then moved into it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """A draft beside `path` to write to: it takes the place of `path` when the block ends, and is removed if the block fails.

    A reader sees the old file or the new one. `private` keeps the file from all but its owner.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}.draft")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
        yield draft
        with open(draft, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write(path: str | os.PathLike[str], content: str | bytes, *, private: bool = False) -> None:
    with replacing(path, private=private) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: str | os.PathLike[str], data: Any, *, indent: int = 1) -> None:
    """Write plain data; nan and inf, which JSON does not have, are refused."""
    write(path, json.dumps(data, allow_nan=False, ensure_ascii=False, indent=indent) + "\n")


def write_csv(
    path: str | os.PathLike[str],
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    *,
    newline: str = "\n",
) -> None:
    """Write rows; by default the columns are all that occur, in order of appearance."""
    rows = list(rows)
    buffer = io.StringIO(newline="")
    names = list(dict.fromkeys(name for row in rows for name in row)) if columns is None else columns
    writer = csv.DictWriter(buffer, names, lineterminator=newline)
    writer.writeheader()
    writer.writerows(rows)
    write(path, buffer.getvalue())


def file_name(text: str) -> str:
    """A text as the name of a file, so that different texts give different names."""
    return "".join(c if (c.isalnum() and c.isascii()) or c in "-_" else f"%{ord(c):x}." for c in text)
