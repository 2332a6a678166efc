"""Widths are the same, however many are computed side by side."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from strategies import unit_rows
from tightrope import kernels


@pytest.mark.parametrize("model", [tr.Ridge(7), tr.DisjointRidge(13, 7), tr.Ridge(kernels.LARGE)])
def test_widths_are_the_same_in_any_company(model):
    rng = np.random.default_rng(0)
    p = model.n_features
    rows = unit_rows(rng, 13, p)
    for i in range(20):
        model.learn(rows[i % 13], 0.5, **({"action": i % 13} if isinstance(model, tr.DisjointRidge) else {}))
    blocks = np.arange(13) if isinstance(model, tr.DisjointRidge) else np.zeros(13, dtype=np.int64)
    alone = [kernels.ridge_width(model.flat, g, row, 0) for g, row in zip(blocks, rows)]
    scratch = np.empty(kernels.scratch_size(p))
    for J in range(1, 14):
        out = np.full(2 * J, 7.0)
        kernels.ridge_widths(model.flat, rows.reshape(-1), 0, False, blocks[:J], scratch, 0, out, 1, 2)
        same(out[1::2], alone[:J])
        assert (out[::2] == 7.0).all()
