"""Sums and products: the same bits as sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_tools import same
from tightrope import kernels


def symmetric(rng, n):
    A = rng.normal(size=(n, n))
    return A + A.T


def in_four_sums(a, b):
    sums = [0.0] * 4
    whole = len(a) - len(a) % 4
    for i in range(len(a)):
        sums[i % 4 if i < whole else 0] += a[i] * b[i]
    return (sums[0] + sums[1]) + (sums[2] + sums[3])


def form_written_out(A, x):
    n = len(x)
    whole = n - n % 4
    columns = []
    for j in range(n):
        column = 0.5 * A[j, j] * x[j]
        i = j + 1
        if j < whole:
            # The rest of its group of four rows is summed before it is added.
            end = j - j % 4 + 4
            if i < end:
                group = x[i] * A[i, j]
                for i in range(i + 1, end):  # noqa: B020
                    group += x[i] * A[i, j]
                column += group
            i = end
        for i in range(i, n):  # noqa: B020
            column += x[i] * A[i, j]
        columns.append(column)
    return 2.0 * in_four_sums(columns, x)


@pytest.mark.parametrize("n", [*range(1, 23), 32, 33, 40, 64, 71, 100])
def test_every_sum_has_its_order(n):
    rng = np.random.default_rng(n)
    A, x, y = symmetric(rng, n), rng.normal(size=n), rng.normal(size=n)
    assert kernels.inner(x, 0, y, 0, n) == in_four_sums(x.tolist(), y.tolist())
    assert kernels.quadratic_form(A.reshape(-1), 0, x, 0, n) == form_written_out(A, x.tolist())
    assert kernels.quadratic_form(A.reshape(-1), 0, x, 0, n) == pytest.approx(x @ A @ x, abs=1e-10 * n)
    out = np.empty(n)
    kernels.matvec(A.reshape(-1), 0, x, 0, n, out, 0)
    by_rows = np.zeros(n)
    for i in range(n):
        by_rows += x[i] * A[i]
    same(out, by_rows)
    same(kernels_added(x, 0.3, y), x + 0.3 * y)


def kernels_added(x, factor, y):
    # Neighbours must stay as they are.
    out = np.concatenate([[7.0], x, [7.0]])
    kernels.add_scaled(out, 1, factor, y, 0, len(x))
    assert out[0] == out[-1] == 7.0
    copied = np.full(len(x) + 2, 7.0)
    kernels.copy(copied, 1, out, 1, len(x))
    assert copied[0] == copied[-1] == 7.0
    same(copied, out)
    return out[1:-1]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 10, 13, 20, 37, 64, kernels.LARGE - 1, kernels.LARGE + 3])
def test_eight_forms_are_the_single_forms(n):
    rng = np.random.default_rng(n)
    A, X = symmetric(rng, n).reshape(-1), rng.normal(size=(8, n))
    scratch, out = np.empty(16 * n), np.empty(8)
    kernels.rows_as_columns(X.reshape(-1), 0, 8, n, scratch, 0)
    same(scratch[: 8 * n].reshape(n, 8), X.T)
    kernels.eight_quadratic_forms(A, 0, scratch, 0, n, out, 0, 8 * n)
    same(out, [kernels.quadratic_form(A, 0, X.reshape(-1), j * n, n) for j in range(8)])


def test_a_large_matrix_is_read_in_tiles_with_the_same_sums():
    n = kernels.LARGE + 21
    rng = np.random.default_rng(0)
    A, x, out = symmetric(rng, n), rng.normal(size=n), np.empty(n)
    kernels.matvec(A.reshape(-1), 0, x, 0, n, out, 0)
    by_rows = np.zeros(n)
    for i in range(n):
        by_rows += x[i] * A[i]
    same(out, by_rows)
