"""The prices of a table: the dual of its allocation program, smoothed less and less, by Newton's method on whole passes.

A pass gives the value, the slope and the curvature of the smoothed dual at one point; the next point is the least of the quadratic
model within the bounds, and a line search along the way. First on a sample of the rows, then on all of them: few passes are left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tightrope.allocation.limits import Limits
from tightrope.allocation.table import Table, add_sums, new_sums, prices_of, used_of
from tightrope.kernels.allocation import Curvature, Rows, Sums, minimise_model, smooth_rows
from tightrope.validation import Array

# Smoothing, in typical differences between the scores of a row, on a sample and then on all rows.
ROUGH = (0.3, 0.1, 0.03, 0.01, 0.003)
FINE = (0.003, 0.001, 0.0003)
# Steps for each smoothing, points tried on each, and how much closer each is than the one before
STEPS, TRIALS, SHORTER = 12, 10, 0.35
# The share of the slope that a step must bring, and the gain that ends a stage, in typical differences per row
ENOUGH_DESCENT, ENOUGH_GAIN = 1e-4, 1e-7
# What is added to the curvature, in m²/ρ per row, for a cost of typical size m and a typical difference ρ
LEAST_CURVATURE = 1e-4
# No price is higher than this many typical differences of scores per typical cost: rules that ask for more can't be kept.
CAP = 1e6


@dataclass(frozen=True, eq=False)
class Scales:
    """Sizes of a table's numbers, so that nothing depends on their units."""

    difference: float  # between the scores of a row, typically
    size: Array  # (L,) of what counts towards a limit, where anything does

    @property
    def caps(self) -> Array:
        return CAP * self.difference / self.size


def scales_of(table: Table) -> Scales:
    """Measured on the table's rows, a sample of them where there are many."""
    book = table.limits.book
    scores = table.rows.scores[:: max(1, len(table) // 20_000)].astype(np.float64)
    scores[np.isneginf(scores)] = np.nan
    several = np.isfinite(scores).sum(axis=1) > 1
    spread = np.nanstd(scores[several], axis=1).mean() if several.any() else 0.0
    level = np.nanmean(np.abs(scores)) if scores.size else 0.0
    difference = float(spread) or float(level) or 1.0
    usage = table.rows.usage[:: max(1, len(table) // 20_000)].astype(np.float64)

    def typical(counted: int, weights: Array) -> float:
        if counted < 0:
            return 1.0
        used = [
            np.abs(usage[:, column]).max(initial=0.0) if column >= 0 else abs(constant)
            for column, constant, weight in zip(
                book.source[counted], book.constant[counted], weights, strict=True
            )
            if weight != 0.0
        ]
        return float(max(used, default=0.0)) or 1.0

    limits = table.limits
    size = np.ones(len(limits))
    for k in range(limits.K):
        size[k] = typical(int(book.counts[k]), np.abs(book.weights[:, :, k]).max(axis=0, initial=0.0))
    for b in range(len(limits.keyed)):
        part = slice(limits.starts[b], limits.starts[b + 1])
        size[part] = typical(int(book.keyed_counts[b]), book.keyed_weights[b])
    return Scales(difference, size)


@dataclass(frozen=True, eq=False)
class Model:
    """The smoothed dual around one point."""

    value: float
    slope: Array  # (L,)
    curvature: Curvature


def smooth(table: Table, amounts: Array, prices: Array, tau: float) -> Model:
    """One pass: the smoothed dual, its slope and its curvature at `prices`, for these amounts."""
    limits, J = table.limits, table.n_actions
    told = prices_of(limits, prices)
    K, Q = limits.K, len(limits) - limits.K

    def none_yet() -> tuple[Sums, Curvature]:
        return new_sums(limits, J), Curvature(np.zeros((K, K)), np.zeros(Q), np.zeros((Q, K)))

    def work(piece: Rows, part: slice) -> tuple[Sums, Curvature]:
        sums, curvature = none_yet()
        costs = np.empty((J, K + len(limits.keyed)))
        smooth_rows(piece, limits.book, told, tau, sums, curvature, np.empty(J), costs)
        return sums, curvature

    sums, curvature = none_yet()
    for one, other in table.each_piece(work):
        add_sums(sums, one)
        for total, more in zip(curvature, other, strict=True):
            total += more
    dense = (curvature.dense + np.tril(curvature.dense, -1).T) / tau
    # Keyed limits of several rules lean on each other, which the model leaves out.
    own, cross = max(1, len(limits.keyed)) * curvature.own / tau, curvature.cross / tau
    value = float(sums.head[0]) + float(prices @ amounts)
    return Model(value, amounts - used_of(limits, sums), Curvature(dense, own, cross))


def lower_dual(
    table: Table,
    amounts: Array,
    start: Array,
    scales: Scales,
    stages: tuple[float, ...],
    caps: Array,
    told: Callable[[], None],
) -> Array:
    """Prices that lower the dual, smoothed as the stages say, from `start` on."""
    prices, n = np.clip(start, 0.0, caps), len(table)
    enough = ENOUGH_GAIN * scales.difference * n
    for stage in stages:
        tau = stage * scales.difference
        here = smooth(table, amounts, prices, tau)
        told()
        for _ in range(STEPS):
            point, promised = _step(here, table.limits, prices, scales, caps, n)
            if promised <= enough:
                break
            step, there = point - prices, None
            slope = float(here.slope @ step)
            for trial in range(TRIALS):
                length = SHORTER**trial
                there = smooth(table, amounts, prices + length * step, tau)
                told()
                if there.value <= here.value + ENOUGH_DESCENT * length * slope:
                    prices = prices + length * step
                    break
            else:
                break
            gained, here = here.value - there.value, there
            if gained <= enough:
                break
    return prices


def _step(
    model: Model, limits: Limits, prices: Array, scales: Scales, caps: Array, n: int
) -> tuple[Array, float]:
    """The least point of the quadratic model within the bounds, and how much lower the model is there."""
    least = LEAST_CURVATURE * n * scales.size**2 / scales.difference
    dense = model.curvature.dense + np.diag(least[: limits.K])
    own = model.curvature.own + least[limits.K :]
    slope, point = model.slope.copy(), prices.copy()
    minimise_model(slope, dense, own, model.curvature.cross, point, caps, scales.difference / scales.size)
    step = point - prices
    return point, -0.5 * float(step @ (model.slope + slope))
