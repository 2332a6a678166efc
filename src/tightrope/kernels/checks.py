"""Whether a policy's input is valid: features of length at most 1, and costs in [−1, 1]."""

from __future__ import annotations

from tightrope.kernels import layout
from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.linear_algebra import inner
from tightrope.validation import COST_LIMIT, NORM_LIMIT


@kernel
def rows_are_valid(phi):
    """Whether every ‖φ_j‖ of phi (J, p) is at most 1 (false for NaN and Inf too)."""
    return rows_are_short(phi.reshape(phi.size), phi.shape[0], phi.shape[1])


@inlined
def rows_fit(phi, flat, J):
    """Whether phi holds valid features of a model: a row for each of J actions, or one for all if each has its own block."""
    p = int(flat[layout.FEATURES])
    rows = phi.size // p
    if phi.shape[-1] != p or not (rows == J or (rows == 1 and flat[layout.BLOCKS] > 1.0)):
        return False
    return rows_are_short(phi.reshape(phi.size), rows, p)


@kernel
def costs_are_valid(W, J, core):
    """Whether W has a row for each of J ≥ 1 actions, and every |W_jk| seen before acting is ≤ 1 (false for NaN and Inf too)."""
    K = int(core[layout.CONSTRAINTS])
    if J < 1 or W.shape[0] != J * K:
        return False
    known = layout.known_at(core)
    unknown = 0
    for k in range(K):
        unknown += core[known + k] == 0.0
    bad = 0
    if unknown == 0:
        # The loop vectorises only without an early exit.
        for i in range(J * K):
            bad += not abs(W[i]) <= COST_LIMIT
    else:
        for j in range(J):
            for k in range(K):
                bad += core[known + k] != 0.0 and not abs(W[j * K + k]) <= COST_LIMIT
    return bad == 0


@inlined
def rows_are_short(phi, J, p):
    for j in range(J):  # noqa: SIM110 - Numba compiles the loop, not the generator
        if not inner(phi, j * p, phi, j * p, p) <= NORM_LIMIT:
            return False
    return True
