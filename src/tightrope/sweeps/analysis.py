"""What many cells say together: the Pareto front, which field matters, which settings are best."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.sweeps.store import Rows
from tightrope.validation import Array

_MOST_LEVELS = 12  # distinct values that are taken one by one
_BINS = 10


def pareto_layers(regret: Array, violation: Array) -> NDArray[np.int64]:
    """The Pareto layer of each point: 0 for the front, 1 for the front of the rest, and so on."""
    layers = np.zeros(len(regret), dtype=np.int64)
    # In order of regret, a point goes to the first layer whose least violation so far is above its own.
    least: list[float] = []
    newest: list[tuple[float, float]] = []
    for i in np.lexsort((violation, regret)).tolist():
        point = (float(regret[i]), float(violation[i]))
        layer = bisect_right(least, point[1])
        if layer and newest[layer - 1] == point:
            layer -= 1
        if layer == len(least):
            least.append(point[1])
            newest.append(point)
        least[layer], newest[layer] = point[1], point
        layers[i] = layer
    return layers


def ranks(rows: Rows, *, judged: bool) -> Array:
    """Rank of each row, the best first: by how far it falls short of a target, or by Pareto layer; then by regret.

    inf for a row without numbers.
    """
    regret = rows["regret"].astype(float)
    rank = np.full(len(rows), np.inf)
    good = np.flatnonzero(np.isfinite(regret))
    if judged:
        first = rows["shortfall"].astype(float)[good]
    else:
        first = pareto_layers(regret[good], rows["violation"].astype(float)[good]).astype(float)
    rank[good[np.lexsort((regret[good], first))]] = np.arange(good.size)
    return rank


def best_first(rows: Rows) -> NDArray[np.intp]:
    """Indices of rows with numbers: those without violation at the last round, by regret; then the others, by violation."""
    regret, violation = rows["regret"].astype(float), rows["violation"].astype(float)
    good = np.flatnonzero(np.isfinite(regret) & np.isfinite(violation))
    return good[np.lexsort((regret[good], violation[good]))]


def levels(values: NDArray[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """The group of each value, and what stands for each group: the value itself, or the median of a tenth of the cells."""
    if values.dtype == object:
        names = sorted({str(value) for value in values})
        place = {name: i for i, name in enumerate(names)}
        return np.array([place[str(value)] for value in values], dtype=np.intp), list(names)
    distinct, group = np.unique(values, return_inverse=True)
    if distinct.size <= _MOST_LEVELS:
        return group.astype(np.intp), distinct.tolist()
    cuts = np.quantile(values, np.arange(1, _BINS) / _BINS)
    group = np.searchsorted(cuts, values, side="right")
    used, group = np.unique(group, return_inverse=True)
    return group.astype(np.intp), [float(np.median(values[group == g])) for g in range(used.size)]


def explained(values: NDArray[Any], y: Array) -> float:
    """Share of the variance of y between cells that the field alone explains, corrected for chance; nan if it can't be told.

    The correlation ratio of its groups (see `levels`), adjusted as R² is: 1 − (1 − η²)(n − 1)/(n − groups).
    """
    group, names = levels(values)
    n, k = len(y), len(names)
    spread = float(((y - y.mean()) ** 2).sum()) if n else 0.0
    if n <= k:
        return float("nan")
    if k == 1 or spread == 0.0:
        return 0.0
    counts = np.bincount(group, minlength=k)
    means = np.bincount(group, weights=y, minlength=k) / counts
    within = float(((y - means[group]) ** 2).sum())
    return min(1.0, max(0.0, 1.0 - within / spread * (n - 1) / (n - k)))
