"""The direct method: an allocation program goes to HiGHS whole.

Its variables are y = C p x: coefficients and right-hand sides stay of the order of 1, so that the solver's absolute tolerances
bite however many contexts there are and however small their weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tightrope.errors import SolverError
from tightrope.lp.highs import Array, LPSolution, solve_lp
from tightrope.lp.program import RESIDUAL, Program, infeasible


def solve_direct(program: Program, eps: Array) -> tuple[Array, Array]:
    """x and λ of the allocation program."""
    contexts = _rows_of_contexts(program)
    scale = program.p.size / program.p.sum()

    def attempt(limits: Array) -> LPSolution:
        return solve_lp(
            program.r, A_ub=program.w.T, b_ub=scale * limits, A_eq=contexts, b_eq=scale * program.p
        )

    found = attempt(-eps)
    if found.status == "infeasible":
        x, lam = widen_direct(program, eps, cap=0.0)
        missed = float(np.max(program.mass(x) @ program.w + eps))
        if missed > RESIDUAL:
            raise infeasible(missed, lam)
        found = attempt(-eps + missed)
    if found.status != "optimal":
        raise SolverError(f"an allocation program can't be {found.status}; rescale the costs")
    return _normalised(program, found.x), np.maximum(found.duals_ub, 0.0)


def widen_direct(program: Program, eps: Array, cap: float) -> tuple[Array, Array]:
    """Maximise t <= cap subject to Σ p w x + t <= -ε."""
    n, k = program.w.shape
    scale = program.p.size / program.p.sum()
    found = solve_lp(
        np.append(np.zeros(n), 1.0),
        A_ub=np.hstack([program.w.T, np.ones((k, 1))]),
        b_ub=-scale * eps,
        A_eq=sp.hstack([_rows_of_contexts(program), sp.csr_matrix((program.p.size, 1))]),
        b_eq=scale * program.p,
        lower=np.append(np.zeros(n), -np.inf),
        upper=np.append(np.full(n, np.inf), scale * cap),
    )
    if found.status != "optimal":
        raise SolverError(f"Slater's program can't be {found.status}; rescale the costs")
    return _normalised(program, found.x[:n]), _simplex(found.duals_ub)


def _rows_of_contexts(program: Program) -> Any:
    n = program.r.size
    contexts = np.repeat(np.arange(program.p.size), np.diff(program.offsets))
    return sp.csr_matrix((np.ones(n), (contexts, np.arange(n))), shape=(program.p.size, n))


def _simplex(lam: Array) -> Array:
    lam = np.maximum(lam, 0.0)
    return lam / max(1.0, float(lam.sum()))


def _normalised(program: Program, y: Array) -> Array:
    """The x of a y whose sums are right up to rounding; a context without weight takes its first action."""
    y = np.maximum(y, 0.0)
    sums = np.add.reduceat(y, program.offsets[:-1])
    empty = sums <= 0.0
    y[program.offsets[:-1][empty]] = 1.0
    sums[empty] = 1.0
    return np.asarray(y / np.repeat(sums, np.diff(program.offsets)))
