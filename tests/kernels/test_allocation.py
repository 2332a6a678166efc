"""Passes over a table beside plain NumPy on the costs written out, (n, J, L)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from tightrope.allocation.limits import Limit, Limits, book_of
from tightrope.allocation.prices import smooth
from tightrope.allocation.table import Table, prices_of
from tightrope.kernels import allocation
from tightrope.kernels.allocation import CHANGES, DECISIONS, Rows

N, J = 150, 4
EVERYTHING = (0, 1, 2, 3)


def limit(counts: Any, actions: tuple[int, ...], sign: float = 1.0, by: str | None = None) -> Limit:
    return Limit("one", sign, 1.0, counts, actions, frozenset(), by, True, None)


def made(seed: int, kind: Any = np.float64) -> tuple[Table, np.ndarray]:
    """A table with every sort of limit, and what each action of each row counts towards each limit, written out."""
    rng = np.random.default_rng(seed)
    scores, usage = rng.normal(size=(N, J)).astype(kind), rng.random((N, 3)).astype(kind)
    scores[rng.random((N, J)) < 0.1] = -np.inf
    scores[:, 0] = 0.0
    pattern, previous = rng.integers(0, 2, N).astype(np.int32), rng.integers(-1, J, N).astype(np.int16)
    team = rng.integers(-1, 3, N)
    dense = (
        limit("cost", EVERYTHING),
        limit(DECISIONS, (1, 2), -1.0),
        limit(CHANGES, EVERYTHING),
        limit("cost", (3,)),
    )
    keyed = (limit("cost", (1, 3), by="team"), limit(DECISIONS, (2,), by="team"))
    members = np.array([[True, False, True, True], [True, True, True, False]])
    sources: list[int | float | None] = [0.0, 0, 2, 0.5]
    book = book_of(dense, keyed, members, {"cost": sources}, J)
    keys = np.column_stack([np.where(team < 0, -1, 4 + team), np.where(team < 0, -1, 7 + team)])
    limits = Limits(dense, keyed, ((0, 1, 2), (0, 1, 2)), np.full(10, N), book)
    rows = Rows(scores=scores, usage=usage, pattern=pattern, keys=keys, previous=previous)
    cost = np.column_stack([np.zeros(N), usage[:, 0], usage[:, 2], np.full(N, 0.5)]).astype(np.float64)
    written = np.zeros((N, J, 10))
    written[:, :, 0] = cost
    written[:, 1:3, 1] = -1.0 * (pattern == 1)[:, None]
    written[:, :, 2] = (previous[:, None] >= 0) & (previous[:, None] != np.arange(J))
    written[:, 3, 3] = cost[:, 3] * (pattern == 0)
    for key in range(3):
        here = team == key
        written[here, 1, 4 + key], written[here, 3, 4 + key] = cost[here, 1], cost[here, 3]
        written[here, 2, 7 + key] = 1.0
    return Table(rows, limits, ThreadPoolExecutor(1)), written


def values(table: Table, written: np.ndarray, prices: np.ndarray) -> np.ndarray:
    return table.rows.scores.astype(np.float64) - written @ prices


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_row_takes_what_is_best_at_the_prices(kind: Any) -> None:
    table, written = made(0, kind)
    prices = np.random.default_rng(1).random(10)
    found, expected = table.choose(prices), values(table, written, prices)
    np.testing.assert_array_equal(found.actions, expected.argmax(axis=1))
    np.testing.assert_allclose(found.used, written[np.arange(N), found.actions].sum(axis=0), atol=1e-10)
    assert found.bound == pytest.approx(expected.max(axis=1).sum() + prices @ table.limits.amounts)
    ordered = np.sort(expected, axis=1)
    np.testing.assert_allclose(found.margins, ordered[:, -1] - ordered[:, -2], rtol=1e-6, atol=1e-6)


def test_the_smoothed_dual_has_this_slope_and_this_curvature() -> None:
    table, written = made(2)
    rng = np.random.default_rng(3)
    prices, amounts, tau = rng.random(10), rng.random(10), 0.2
    found = smooth(table, amounts, prices, tau)
    each = values(table, written, prices)
    top = each.max(axis=1, keepdims=True)
    shares = np.exp((each - top) / tau)
    total = shares.sum(axis=1, keepdims=True)
    shares /= total
    assert found.value == pytest.approx(
        float(top.sum() + tau * np.log(total).sum() + prices @ amounts), abs=1e-8
    )
    np.testing.assert_allclose(found.slope, amounts - np.einsum("ij,ijk->k", shares, written), atol=1e-7)
    centred = written - np.einsum("ij,ijk->ik", shares, written)[:, None]
    curvature = np.einsum("ij,ijk,ijm->km", shares, centred, centred) / tau
    np.testing.assert_allclose(found.curvature.dense, curvature[:4, :4], atol=1e-6)
    np.testing.assert_allclose(found.curvature.cross, curvature[4:, :4], atol=1e-6)
    # Two keyed limits share a row: each counts double, so that the model does not promise too much.
    np.testing.assert_allclose(found.curvature.own, 2.0 * np.diag(curvature)[4:], atol=1e-6)


def test_the_model_is_minimised_within_its_bounds() -> None:
    rng = np.random.default_rng(4)
    root = rng.normal(size=(7, 7))
    whole = root @ root.T + np.eye(7)
    # Keyed limits meet dense ones alone.
    whole[3:, 3:] = np.diag(np.diag(whole)[3:] + 40.0)
    slope, cap = rng.normal(size=7), np.full(7, 0.02)
    point, moving = np.full(7, 0.01), slope.copy()
    allocation.minimise_model(
        moving, whole[:3, :3].copy(), np.diag(whole)[3:].copy(), whole[3:, :3].copy(), point, cap, np.ones(7)
    )
    start = np.full(7, 0.01)

    def model(x: np.ndarray) -> tuple[float, np.ndarray]:
        step = x - start
        return float(slope @ step + 0.5 * step @ whole @ step), slope + whole @ step

    best = minimize(model, start, jac=True, bounds=[(0.0, 0.02)] * 7, method="L-BFGS-B", tol=1e-14)
    np.testing.assert_allclose(point, best.x, atol=1e-6)
    np.testing.assert_allclose(moving, model(point)[1], atol=1e-10)


def test_repairs_keep_the_books_and_end_within_the_limits() -> None:
    table, written = made(5)
    choice = table.choose(np.zeros(10))
    limits = choice.used - 0.05 * np.abs(choice.used)
    actions, used = choice.actions.copy(), choice.used.copy()
    told, room = prices_of(table.limits, np.zeros(10)), np.empty(J)
    excess = np.maximum(0.0, used - limits).sum()
    removed = 0.0
    for dearest in (0.1, 1.0, np.inf):
        for _ in range(20):
            removed += allocation.repair_rows(
                table.rows, table.limits.book, told, actions, used, limits, np.ones(10), dearest, room
            )
    np.testing.assert_allclose(used, written[np.arange(N), actions].sum(axis=0), atol=1e-9)
    assert removed == pytest.approx(excess - np.maximum(0.0, used - limits).sum())
    assert removed > 0.5 * excess
    before = table.rows.scores[np.arange(N), actions].sum()
    roomy = np.maximum(used, limits) + 2.0
    gained = allocation.improve_rows(table.rows, table.limits.book, actions, used, roomy, 0.0)
    assert gained == pytest.approx(float(table.rows.scores[np.arange(N), actions].sum() - before))
    assert gained > 0.0
    assert (written[np.arange(N), actions].sum(axis=0) <= roomy + 1e-9).all()
