"""The mixture of one round, warm-started."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import lp


def test_a_mixture_program_that_starts_from_the_last_basis_finds_the_same_optimum():
    rng = np.random.default_rng(3)
    warm = lp.MixtureProgram()
    u, W = rng.random(8), rng.uniform(-1, 1, (8, 3))
    solved = 0
    for step in range(60):
        J = 8 if step % 7 else 5
        u_t, W_t = u[:J] + 0.05 * rng.normal(size=J), W[:J] + 0.05 * rng.normal(size=(J, 3))
        pi = warm.solve(u_t, W_t)
        cold = lp.solve_lp(u_t, A_ub=W_t.T, b_ub=np.zeros(3), A_eq=np.ones((1, J)), b_eq=[1.0])
        assert (pi is None) == (cold.status == "infeasible")
        if pi is not None:
            solved += 1
            assert u_t @ pi == pytest.approx(cold.value, abs=1e-9)
            assert (W_t.T @ pi).max() <= 1e-9
    assert solved > 30
