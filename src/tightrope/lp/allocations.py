"""Allocation programs, Slater's constant, and the smallest change of limits that makes all of them feasible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from tightrope.errors import InvalidInput, SolverError
from tightrope.lp.decomposition import Decomposition, solve_decomposed
from tightrope.lp.highs import Array, LPSolution, bounds, solve_lp
from tightrope.lp.program import RESIDUAL, Allocation, Program, infeasible

Method: TypeAlias = Literal["auto", "direct", "decomposition"]

_DIRECT_ROWS = 2_000


def allocation(
    weights: ArrayLike,
    rewards: ArrayLike,
    costs: ArrayLike,
    *,
    offsets: ArrayLike | None = None,
    epsilon: ArrayLike = 0.0,
    method: Method = "auto",
) -> Allocation:
    """Solve the allocation program of the module's docstring.

    Weights p_c >= 0 (C,) need not sum to 1. Rewards are (C, J) and costs (C, J, K), or with `offsets` (C+1,) rewards (N,) and costs
    (N, K), of which rows offsets[c]:offsets[c+1] belong to context c. Costs must stay `epsilon` (a number or K of them) below 0.

    An `InfeasibleProblem` says by how much the constraints are missed at best, and which ones conflict; a `SolverError`, that the
    result can't be verified.

    >>> found = allocation([1.0], [[0.1, 0.7]], [[[-0.1], [0.1]]], epsilon=0.05)
    >>> round(found.value, 12), found.duals.round(12).tolist(), found.certificate.verified
    (0.25, [3.0], True)
    """
    program = Program.make(weights, rewards, costs, offsets)
    eps = bounds(epsilon, program.n_constraints, "epsilon")
    if not np.isfinite(eps).all():
        raise InvalidInput(field="epsilon", must="be finite", got=eps.tolist())
    if _direct(method, program):
        x, duals = _solve_direct(program, eps)
        return program.verified(x, duals, eps, "direct", 0)
    x, duals, iterations = solve_decomposed(program, eps)
    return program.verified(x, duals, eps, "decomposition", iterations)


class Family:
    """One allocation program under many margins: each solve starts from what the last one found.

    >>> family = Family([1.0], [[0.1, 0.7]], [[[-0.1], [0.1]]])
    >>> [round(family.solve(epsilon).value, 12) for epsilon in (0.0, 0.05)]
    [0.4, 0.25]
    """

    def __init__(
        self, weights: ArrayLike, rewards: ArrayLike, costs: ArrayLike, *, offsets: ArrayLike | None = None
    ) -> None:
        self._program = Program.make(weights, rewards, costs, offsets)
        self._search: Decomposition | None = None

    def solve(self, epsilon: ArrayLike) -> Allocation:
        """The verified optimum where costs must stay `epsilon` (a number or K of them) below 0; see `allocation`."""
        program = self._program
        eps = bounds(epsilon, program.n_constraints, "epsilon")
        if _direct("auto", program):
            return program.verified(*_solve_direct(program, eps), eps, "direct", 0)
        if self._search is None:
            self._search = Decomposition(program, eps)
            self._search.solve()
        else:
            self._search.solve_again(eps)
        return program.verified(
            self._search.x(), self._search.center, eps, "decomposition", self._search.iterations
        )


def slater(
    weights: ArrayLike, costs: ArrayLike, *, offsets: ArrayLike | None = None, method: Method = "auto"
) -> Allocation:
    """Slater's constant: the largest δ <= 1 such that some x has Σ p w_k x <= -δ for all k.

    Negative when the constraints can't all be met; 1 by convention when there are none.

    >>> slater([1.0], [[[-0.1], [0.4], [0.4]]]).value
    0.1
    """
    w = np.asarray(costs)
    if w.ndim != (2 if offsets is not None else 3):
        shape = "(C, J, K)" if offsets is None else "(N, K)"
        raise InvalidInput(field="costs", must=f"have shape {shape}", got=w.shape)
    program = Program.make(weights, np.zeros(w.shape[:-1]), costs, offsets)
    eps, direct = np.zeros(program.n_constraints), _direct(method, program)
    if program.n_constraints == 0:
        return program.verified_slater(program.pure(program.offsets[:-1]), np.empty(0), "direct", 0)
    if direct:
        return program.verified_slater(*_widen_direct(program, eps, cap=1.0), "direct", 0)
    search = Decomposition(program, eps)
    search.widen(cap=1.0)
    return program.verified_slater(search.x(), search.center, "decomposition", search.iterations)


def least_moves(
    weights: Array, costs: Array, sizes: Any, which: Sequence[int], shares: Array | None = None
) -> Array:
    """How far each limit (K,) must move so that all constraints of `which` can be met on average, with the least sum of moves.

    `weights` (C,) are those of the contexts; `costs` (R, K) those of the actions on offer, context after context, in the units in
    which moves are counted; `sizes` (C,) says how many rows each context has, `shares` (K,) in which part of the contexts a limit
    counts: moving it by 1 gives that much room. 1 by default.

    >>> least_moves(np.ones(1), np.array([[0.5, -0.25], [-0.25, 0.5]]), [2], [0, 1])
    array([0.25, 0.  ])
    """
    R, K = costs.shape
    chosen = list(which)
    moves = np.zeros(K)
    if not chosen:
        return moves
    of = np.repeat(np.arange(len(sizes)), sizes)
    p = (np.asarray(weights) / np.sum(weights))[of]
    room = np.ones(len(chosen)) if shares is None else np.asarray(shares)[chosen]
    # Rows of similar size, whatever the units.
    size = np.maximum(1e-300, np.abs(costs[:, chosen]).max(axis=0))
    A_ub = sp.hstack([sp.csr_array((p[:, None] * costs[:, chosen] / size).T), sp.diags_array(-room / size)])
    A_eq = sp.csr_array((np.ones(R), (of, np.arange(R))), shape=(len(sizes), R + len(chosen)))
    objective = np.append(np.zeros(R), np.ones(len(chosen))) / size.max()
    limits: dict[str, Any] = {"A_ub": A_ub, "b_ub": np.zeros(len(chosen))}
    limits |= {"A_eq": A_eq, "b_eq": np.ones(len(sizes))}
    found = solve_lp(objective, **limits, maximise=False)
    moves[chosen] = found.x[R:]
    return moves


def _direct(method: Method, program: Program) -> bool:
    if method not in get_args(Method):
        raise InvalidInput(field="method", must="be 'auto', 'direct' or 'decomposition'", got=method)
    small = method == "auto" and program.r.size <= _DIRECT_ROWS
    return method == "direct" or small or program.n_constraints == 0


# The direct method: the program goes to HiGHS whole, in the variables y = C p x. Coefficients and right-hand sides stay of the
# order of 1, so that the solver's absolute tolerances bite however many contexts there are and however small their weights.


def _solve_direct(program: Program, eps: Array) -> tuple[Array, Array]:
    if program.n_constraints == 0:
        return program.pure(program.best_rows(program.r)), np.empty(0)
    contexts = _rows_of_contexts(program)
    scale = program.p.size / program.p.sum()

    def attempt(limits: Array) -> LPSolution:
        spread: dict[str, Any] = {"A_eq": contexts, "b_eq": scale * program.p}
        return solve_lp(program.r, A_ub=program.w.T, b_ub=scale * limits, **spread)

    found = attempt(-eps)
    if found.status == "infeasible":
        x, lam = _widen_direct(program, eps, cap=0.0)
        missed = float(np.max(program.mass(x) @ program.w + eps))
        if missed > RESIDUAL:
            raise infeasible(missed, lam)
        found = attempt(-eps + missed)
    if found.status != "optimal":
        raise SolverError(f"an allocation program can't be {found.status}; rescale the costs")
    return _normalised(program, found.x), np.maximum(found.duals_ub, 0.0)


def _widen_direct(program: Program, eps: Array, cap: float) -> tuple[Array, Array]:
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
