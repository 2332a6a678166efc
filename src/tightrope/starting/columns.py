"""What the columns of a table look like: what kind of values, how many different ones, how many missing."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.frames import CHUNK, Frame, microseconds

Kind = Literal["number", "boolean", "category", "date", "id", "text", "constant", "empty"]

# With more different values than that, only the common ones get their own category.
MOST_VALUES = 20
# So many of the most common values of a column are kept, and so many of its texts are looked at.
_KEPT = 2_000
_LOOKED_AT = 10_000
# From this many rows on, values that are hardly ever repeated are ids of rows or free text.
_FEW = 20
_MOSTLY = 0.5
# Typical names of columns of each kind, the surest first; "good" are values that mean success.
_NAMES = json.loads(resources.files(__package__).joinpath("column_names.json").read_text())
NAMES: dict[str, list[str]] = {kind: names.split() for kind, names in _NAMES.items()}


@dataclass(frozen=True)
class Column:
    """What a column holds: `n_values` different values, the most common first; `low`, `high` and `mean` are for numbers."""

    name: str
    kind: Kind
    rows: int
    missing: int
    values: tuple[Any, ...]
    counts: tuple[int, ...]
    n_values: int
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    mean: float = 0.0

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
    missing = frame.missing(name)
    n, gaps = missing.size, int(missing.sum())
    coded = frame.texts(name)
    present = np.empty(0) if coded is not None else frame.column(name).array[~missing]
    if coded is None:
        values, counts = _counted(present)
        n_values = len(values)
    else:
        counts = np.bincount(coded.codes[coded.codes >= 0], minlength=coded.texts.size)
        order = np.argsort(-counts, kind="stable")
        values, counts, n_values = coded.texts[order[:_KEPT]], counts[order], coded.texts.size
    kept = tuple(values[:_KEPT].tolist()), tuple(counts[:_KEPT].tolist()), n_values
    if n_values < 2:
        return Column(name, "constant" if n_values else "empty", n, gaps, *kept)
    words, low, high, whole, mean = words_of(name), 0.0, 0.0, False, 0.0
    kind: Kind
    if present.dtype.kind == "b":
        kind = "boolean"
        mean = float(present.mean())
    elif present.dtype.kind == "M":
        kind = "date"
    elif coded is not None or present.dtype.kind == "U":
        texts = values if coded is None else coded.texts
        kind = _of_texts(texts[:: max(1, n_values // _LOOKED_AT)].tolist(), n_values, n - gaps, words)
    else:
        numbers = present.astype(np.float64)
        low, high, mean = float(numbers.min()), float(numbers.max()), float(numbers.mean())
        whole = bool((numbers == np.round(numbers)).all())
        kind = _of_numbers(kept[0], n_values, numbers, whole, words)
    return Column(name, kind, n, gaps, *kept, low, high, whole, mean)


def _counted(present: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The different values of an array, the most common first, and how often each occurs; of equally common ones the first."""
    if present.dtype.kind == "U":
        counter: Counter[Any] = Counter()
        for begin in range(0, present.size, CHUNK):
            counter.update(present[begin : begin + CHUNK].tolist())
        counted = counter.most_common()
        return np.array([value for value, _ in counted]), np.array([count for _, count in counted], dtype=int)
    values, counts = np.unique(present, return_counts=True)
    first = np.zeros(values.size, dtype=np.intp)
    if values.size <= _KEPT:
        codes = np.searchsorted(values, present)
        first[codes[::-1]] = np.arange(present.size)[::-1]
    order = np.lexsort((first, -counts))
    return values[order], counts[order]


def _of_texts(values: list[str], n_values: int, n: int, words: frozenset[str]) -> Kind:
    if all(_is_date(one) for one in values):
        return "date"
    if n < _FEW or n_values <= _MOSTLY * n:
        return "category"
    return "id" if words & {*NAMES["id"]} or all(" " not in one.strip() for one in values) else "text"


def _is_date(text: str) -> bool:
    """ISO dates and times such as 2026-03-31, or days as people write them: 31.3.2026, 3/31/26."""
    plain = re.fullmatch(r"\d{1,2}[./-]\d{1,2}[./-](\d{2}|\d{4})(\D.*)?", text.strip())
    return plain is not None or (len(text) > 7 and microseconds(text) is not None)


def _of_numbers(
    values: tuple[float, ...], n_values: int, numbers: Any, whole: bool, words: frozenset[str]
) -> Kind:
    if not whole:
        return "number"
    if {*values} == {0.0, 1.0}:
        return "boolean"
    n = numbers.size
    hardly_twice = n >= _FEW and n_values > _MOSTLY * n
    counts_rows = n_values == n and (np.diff(numbers) == 1.0).all()
    if hardly_twice and (counts_rows or words.intersection(NAMES["id"])):
        return "id"
    if words.intersection(NAMES["date"]) and numbers.min() > 1e8:  # seconds since 1970, or 20260331123000
        return "date"
    if words.intersection(NAMES["code"]):
        return "id" if hardly_twice else "category"
    return "number"
