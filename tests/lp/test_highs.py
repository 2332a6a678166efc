"""HiGHS through one door: optimality by duality, statuses in words, bad arrays refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tightrope import lp
from tightrope.errors import InvalidInput


class TestSolveLP:
    @pytest.mark.parametrize("maximise", [True, False])
    @pytest.mark.parametrize("seed", range(5))
    def test_optimal_by_strong_duality(self, seed: int, maximise: bool) -> None:
        draw = np.random.default_rng(seed)
        A, E = draw.normal(size=(4, 6)), draw.normal(size=(2, 6))
        inside = draw.uniform(0.2, 0.8, size=6)
        b, e, c = A @ inside + draw.uniform(0, 0.3, size=4), E @ inside, draw.normal(size=6)
        found = lp.solve_lp(c, A_ub=A, b_ub=b, A_eq=sp.csr_matrix(E), b_eq=e, upper=1.0, maximise=maximise)
        assert found.status == "optimal"
        assert np.all(A @ found.x <= b + 1e-9)
        assert np.all(found.x >= -1e-9)
        assert np.all(found.x <= 1 + 1e-9)
        np.testing.assert_allclose(E @ found.x, e, atol=1e-9)
        sign = 1.0 if maximise else -1.0
        assert np.all(sign * found.duals_ub >= -1e-9)
        # The box [0, 1] takes the positive part of each reduced gain.
        gains = sign * (c - A.T @ found.duals_ub - E.T @ found.duals_eq)
        bound = b @ found.duals_ub + e @ found.duals_eq + sign * np.maximum(gains, 0).sum()
        assert found.value == pytest.approx(bound, abs=1e-9)

    @pytest.mark.parametrize("maximise", [True, False])
    def test_duals_are_shadow_prices(self, maximise: bool) -> None:
        sign = 1 if maximise else -1
        data: dict[str, Any] = {"A_ub": [[2.0, 1.0], [-1.0, 3.0]], "A_eq": [[1.0, 1.0]]}

        def value(b0: float = 3.0, b1: float = 1.0, e: float = 2.0) -> lp.LPSolution:
            return lp.solve_lp([sign * 3.0, sign * 1.0], b_ub=[b0, b1], b_eq=[e], maximise=maximise, **data)

        h = 1e-4
        found = value()
        slopes = [value(b0=3 + h), value(b1=1 + h), value(e=2 + h)]
        measured = [(one.value - found.value) / h for one in slopes]
        np.testing.assert_allclose([*found.duals_ub, *found.duals_eq], measured, atol=1e-8)

    def test_statuses(self) -> None:
        infeasible = lp.solve_lp([1.0], A_ub=[[1.0]], b_ub=[-1.0])
        assert (infeasible.status, infeasible.value) == ("infeasible", -np.inf)
        assert np.isnan(infeasible.x).all()
        assert lp.solve_lp([1.0], A_ub=[[1.0]], b_ub=[-1.0], maximise=False).value == np.inf
        unbounded = lp.solve_lp([1.0, 1.0], A_ub=[[1.0, -1.0]], b_ub=[0.0])
        assert (unbounded.status, unbounded.value) == ("unbounded", np.inf)
        assert lp.solve_lp([1.0], lower=-np.inf, maximise=False).status == "unbounded"
        assert lp.solve_lp([-2.0, 0.0]).value == 0.0

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"objective": [1.0, np.nan]}, r"objective\[1\] must be finite"),
            ({"objective": ["a"]}, "objective must hold real numbers"),
            ({"objective": [[1.0]]}, r"objective must have shape \(any,\)"),
            ({"objective": [1.0], "A_ub": [[1.0]]}, "given together"),
            ({"objective": [1.0], "A_ub": [[1.0, 2.0]], "b_ub": [1.0]}, r"shape \(1, 1\)"),
            ({"objective": [1.0], "A_eq": [[np.inf]], "b_eq": [1.0]}, "A_eq must be finite"),
            ({"objective": [1.0], "A_eq": [["a"]], "b_eq": [1.0]}, "A_eq must hold real numbers"),
            ({"objective": [1.0], "lower": 2.0, "upper": 1.0}, r"lower\[0\] <= upper\[0\]"),
            ({"objective": [1.0], "upper": [1.0, 2.0]}, "upper must be a number or 1 numbers"),
            ({"objective": [1.0], "lower": np.nan}, "must not hold nan"),
        ],
    )
    def test_refuses(self, arguments: dict[str, Any], text: str) -> None:
        with pytest.raises(InvalidInput, match=text):
            lp.solve_lp(**arguments)
