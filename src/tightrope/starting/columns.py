"""What the columns of a table look like: what kind of values, how many different ones, how many missing."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import numpy as np

from tightrope.frames import CHUNK, Frame, microseconds

Kind = Literal["number", "boolean", "category", "date", "id", "text", "constant", "empty"]

# With more different values than that, only the common ones get their own category.
MOST_VALUES = 20
# From this many rows on, values that are hardly ever repeated are ids of rows or free text.
_FEW = 20
_MOSTLY = 0.5
# Typical names of columns of each kind, the surest first; "good" are values that mean success.
_NAMES = json.loads(resources.files(__package__).joinpath("column_names.json").read_text())
NAMES: dict[str, list[str]] = {kind: names.split() for kind, names in _NAMES.items()}


@dataclass(frozen=True)
class Column:
    """What a column holds. `values` are the different ones, the most common first; `low` and `high` are for numbers."""

    name: str
    kind: Kind
    rows: int
    missing: int
    values: tuple[Any, ...]
    counts: tuple[int, ...]
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    @property
    def n_values(self) -> int:
        return len(self.values)

    @property
    def words(self) -> frozenset[str]:
        return words_of(self.name)

    @property
    def missing_share(self) -> float:
        return self.missing / self.rows


def words_of(name: str) -> frozenset[str]:
    """The words that a name is made of: nurseHours_used has nurse, hours and used."""
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return frozenset(word for word in re.split(r"[^a-z0-9äöüßéèç]+", apart.lower()) if word)


def look(frame: Frame) -> dict[str, Column]:
    """All columns of a table."""
    return {name: _column(name, frame) for name in frame.names}


def _column(name: str, frame: Frame) -> Column:
    array, missing = frame.column(name)
    present = array[~missing]
    n, gaps = array.size, int(missing.sum())
    counter: Counter[Any] = Counter()
    for begin in range(0, present.size, CHUNK):
        counter.update(present[begin : begin + CHUNK].tolist())
    counted = counter.most_common()
    values, counts = tuple(value for value, _ in counted), tuple(count for _, count in counted)
    if len(values) < 2:
        return Column(name, "constant" if values else "empty", n, gaps, values, counts)
    words, low, high, whole = words_of(name), 0.0, 0.0, False
    kind: Kind
    if present.dtype.kind == "b":
        kind = "boolean"
    elif present.dtype.kind == "M":
        kind = "date"
    elif present.dtype.kind == "U":
        kind = _of_texts(values, present.size, words)
    else:
        numbers = present.astype(np.float64)
        low, high = float(numbers.min()), float(numbers.max())
        whole = bool((numbers == np.round(numbers)).all())
        kind = _of_numbers(values, numbers, whole, words)
    return Column(name, kind, n, gaps, values, counts, low, high, whole)


def _of_texts(values: tuple[str, ...], n: int, words: frozenset[str]) -> Kind:
    if all(_is_date(one) for one in values):
        return "date"
    if n < _FEW or len(values) <= _MOSTLY * n:
        return "category"
    return "id" if words & {*NAMES["id"]} or all(" " not in one.strip() for one in values) else "text"


def _is_date(text: str) -> bool:
    """ISO dates and times such as 2026-03-31, or days as people write them: 31.3.2026, 3/31/26."""
    plain = re.fullmatch(r"\d{1,2}[./-]\d{1,2}[./-](\d{2}|\d{4})(\D.*)?", text.strip())
    return plain is not None or (len(text) > 7 and microseconds(text) is not None)


def _of_numbers(values: tuple[float, ...], numbers: Any, whole: bool, words: frozenset[str]) -> Kind:
    if not whole:
        return "number"
    if {*values} == {0.0, 1.0}:
        return "boolean"
    n = numbers.size
    hardly_twice = n >= _FEW and len(values) > _MOSTLY * n
    counts_rows = len(values) == n and (np.diff(numbers) == 1.0).all()
    if hardly_twice and (counts_rows or words.intersection(NAMES["id"])):
        return "id"
    if words.intersection(NAMES["date"]) and numbers.min() > 1e8:  # seconds since 1970, or 20260331123000
        return "date"
    if words.intersection(NAMES["code"]):
        return "id" if hardly_twice else "category"
    return "number"
