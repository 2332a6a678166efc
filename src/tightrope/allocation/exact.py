"""Exact sums: whether a limit holds, with nothing forgiven.

Every number is the decimal that it is shown as: 0.1 is a tenth, though the computer holds a little more. A first sum is right to
within a proven error; where a limit is nearer than that, the decimals are added as fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tightrope.allocation.limits import Limit, Limits
from tightrope.allocation.table import Actions, Table
from tightrope.kernels.allocation import CHANGES, DECISIONS
from tightrope.validation import Array

# What the first sum may be off by, in parts of the sum of all sizes
_ROUNDING = 256.0 * float(np.finfo(np.float64).eps)


def excess(values: Array, limit: Fraction) -> float:
    """Σ values − limit, as decimals, rounded once: above 0 only where the sum is beyond the limit.

    >>> excess(np.array([0.1] * 10), Fraction(1)), excess(np.array([0.1] * 10), 1 - Fraction(1, 10**20))
    (0.0, 1e-20)
    """
    near, size = float(limit), float(np.abs(values).sum())
    rough = float(values.sum()) - near
    # NumPy adds in pairs, and in blocks of 128; and a decimal is half a digit away.
    if abs(rough) > _ROUNDING * (size + abs(near)):
        return rough
    distinct, counts = np.unique(values, return_counts=True)
    total = sum(
        (Fraction(repr(v)) * n for v, n in zip(distinct.tolist(), counts.tolist(), strict=True)), Fraction(0)
    )
    return float(total - limit)


def excesses(table: Table, actions: Actions) -> Array:
    """(L,) by how much each limit is exceeded, exactly to the sign; below 0 what is left."""
    limits = table.limits
    found = np.empty(len(limits))
    rows = np.arange(len(table))
    for k, limit in enumerate(limits.dense):
        found[k] = excess(_amounts(table, actions, limit, k, rows), limits.exact(k))
    for b, limit in enumerate(limits.keyed):
        keys = table.rows.keys[:, b]
        here = np.flatnonzero(keys >= 0)
        values = _amounts(table, actions, limit, limits.K + b, here, keyed=b)
        order = np.argsort(keys[here], kind="stable")
        numbers = np.arange(limits.starts[b], limits.starts[b + 1])
        edges = np.searchsorted(keys[here][order], np.append(numbers, limits.starts[b + 1]))
        parts = values[order]
        for number, begin, end in zip(numbers.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            found[number] = excess(parts[begin:end], limits.exact(number))
    return found


def _amounts(
    table: Table, actions: Actions, limit: Limit, k: int, rows: NDArray[np.int64], keyed: int | None = None
) -> Array:
    """What the actions of some rows count as towards a limit, signed."""
    book = table.limits.book
    chosen = actions[rows]
    if keyed is None:
        weights = book.weights[table.rows.pattern[rows], chosen, k]
        counted = int(book.counts[k])
    else:
        weights = book.keyed_weights[keyed, chosen]
        counted = int(book.keyed_counts[keyed])
    if counted == DECISIONS:
        return np.asarray(weights)
    if counted == CHANGES:
        previous = table.rows.previous[rows]
        return np.asarray(weights * ((previous >= 0) & (previous != chosen)))
    source = book.source[counted, chosen]
    used = book.constant[counted, chosen]
    read = source >= 0
    used[read] = table.rows.usage[rows[read], source[read]]
    return np.asarray(weights * used)


def value_of(table: Table, actions: Actions) -> float:
    """The sum of the scores."""
    return float(
        np.take_along_axis(table.rows.scores, actions[:, None].astype(np.int64), axis=1).sum(dtype=np.float64)
    )


def worst(limits: Limits, over: Array) -> Sequence[int]:
    """The numbers of the limits that are exceeded, the most exceeded first, in units of their amounts."""
    broken = np.flatnonzero(over > 0.0)
    return [
        int(k)
        for k in broken[np.argsort(-over[broken] / (1.0 + np.abs(limits.amounts[broken])), kind="stable")]
    ]
