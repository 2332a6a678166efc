"""Linear programs: one door to HiGHS, and the allocation programs that everything else is built on.

An allocation program has a row for each pair (context c, action j) and spreads each context over its rows:

    maximise  Σ p_c r(c,j) x(c,j)   s.t.  Σ_j x(c,j) = 1 for all c,  Σ p_c w_k(c,j) x(c,j) <= -ε_k for all k.

Rows lie context after context; `offsets` (C+1,) says where each context begins, so that contexts may differ
in their number of actions. Small programs go to HiGHS whole. Large ones are decomposed on the K duals λ:
pricing is an argmax of r - λ·w in each context, and a master program over blocks of contexts finds the next
λ.

>>> solve_lp([3.0, 2.0], A_ub=[[1.0, 1.0]], b_ub=[1.0]).value
3.0
>>> found = allocation([1.0], [[0.1, 0.7]], [[[-0.1], [0.1]]])  # a safe and a costly action, half and half
>>> round(found.value, 12), found.x.round(12).tolist()
(0.4, [[0.5, 0.5]])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import highspy
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InfeasibleProblem, InvalidInput, SolverError

__all__ = ["Allocation", "Certificate", "LPSolution", "allocation", "certify", "slater", "solve_lp"]

Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.intp]
Status: TypeAlias = Literal["optimal", "infeasible", "unbounded"]
Method: TypeAlias = Literal["auto", "direct", "decomposition"]

_GAP = 1e-9  # relative: (dual bound - value) / max(1, |value|)
_RESIDUAL = 1e-9  # of a constraint, relative to its largest coefficient when that exceeds 1


@dataclass(frozen=True, slots=True)
class LPSolution:
    """What `solve_lp` found.

    Attributes
    ----------
    status : "optimal", "infeasible" or "unbounded"
    value : float
        The optimal value; for a maximisation -inf when infeasible, inf when unbounded, for a minimisation
        the opposite.
    x : array
        An optimal point (nan unless optimal).
    duals_ub, duals_eq : array
        Shadow prices: the derivative of `value` in each entry of `b_ub`, `b_eq` (nan unless optimal).
        Hence `duals_ub` is >= 0 when maximising and <= 0 when minimising.
    """

    status: Status
    value: float
    x: Array
    duals_ub: Array
    duals_eq: Array


def solve_lp(
    objective: ArrayLike,
    *,
    A_ub: Any = None,
    b_ub: ArrayLike | None = None,
    A_eq: Any = None,
    b_eq: ArrayLike | None = None,
    lower: ArrayLike = 0.0,
    upper: ArrayLike = np.inf,
    maximise: bool = True,
) -> LPSolution:
    """Maximise (or minimise) objective·x subject to A_ub x <= b_ub, A_eq x = b_eq, lower <= x <= upper.

    Matrices may be dense or scipy.sparse. Deterministic: one thread, fixed seed.

    Raises
    ------
    InvalidInput
        For arrays of a wrong shape or with entries that are not numbers.
    SolverError
        When HiGHS stops for any reason but optimality, infeasibility or unboundedness.

    Examples
    --------
    >>> found = solve_lp([1.0, 2.0], A_ub=[[1.0, 1.0], [0.0, 1.0]], b_ub=[4.0, 1.0])
    >>> found.status, found.value, found.x.tolist(), found.duals_ub.tolist()
    ('optimal', 5.0, [3.0, 1.0], [1.0, 1.0])
    >>> solve_lp([1.0], A_ub=[[1.0]], b_ub=[-1.0]).status
    'infeasible'
    """
    c = _vector(objective, "objective")
    n = c.size
    rows_ub, rhs_ub = _rows(A_ub, b_ub, n, "A_ub", "b_ub")
    rows_eq, rhs_eq = _rows(A_eq, b_eq, n, "A_eq", "b_eq")
    low = _bounds(lower, n, "lower")
    high = _bounds(upper, n, "upper")
    if np.any(low > high):
        i = int(np.argmax(low > high))
        raise InvalidInput(f"lower[{i}] <= upper[{i}] must hold, but got lower={low[i]} and upper={high[i]}")

    matrix = sp.vstack([rows_ub, rows_eq], format="csc")
    model = highspy.HighsLp()
    model.num_col_ = n
    model.num_row_ = matrix.shape[0]
    model.sense_ = highspy.ObjSense.kMaximize if maximise else highspy.ObjSense.kMinimize
    model.col_cost_ = c
    model.col_lower_ = low
    model.col_upper_ = high
    model.row_lower_ = np.concatenate([np.full(rhs_ub.size, -np.inf), rhs_eq])
    model.row_upper_ = np.concatenate([rhs_ub, rhs_eq])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = matrix.indptr
    model.a_matrix_.index_ = matrix.indices
    model.a_matrix_.value_ = matrix.data
    solver = _new_solver()
    solver.passModel(model)
    status = _run(solver)
    if status != "optimal":
        value = np.inf if (status == "unbounded") == maximise else -np.inf
        nan = np.full(n + rhs_ub.size + rhs_eq.size, np.nan)
        return LPSolution(status, value, *np.split(nan, [n, n + rhs_ub.size]))
    found = solver.getSolution()
    x = np.asarray(found.col_value, dtype=np.float64)
    duals = np.asarray(found.row_dual, dtype=np.float64)
    return LPSolution(status, float(c @ x), x, duals[: rhs_ub.size], duals[rhs_ub.size :])


class MixtureProgram:
    """max u·π subject to Σ_j W_jk π_j <= 0 for every k, Σπ = 1, π >= 0, solved again and again.

    Each solve starts from the optimal basis of the last one with the same numbers of actions and constraints: from one round of a
    policy to the next little changes, so that few or no pivots are left.

    Examples
    --------
    >>> program = MixtureProgram()
    >>> program.solve(np.array([0.1, 0.7]), np.array([[-0.1], [0.3]])).round(9).tolist()
    [0.75, 0.25]
    >>> program.solve(np.array([0.1]), np.array([[0.2]])) is None
    True
    """

    def __init__(self) -> None:
        self._solver: Any = None
        self._basis: Any = None
        self._shape = (0, 0)

    def solve(self, u: Array, W: Array) -> Array | None:
        """π (J,), or None where nothing is feasible."""
        J, K = W.shape
        if self._solver is None:
            self._solver = _new_solver()
            self._solver.setOptionValue("presolve", "off")
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = J, K + 1
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = u
        model.col_lower_, model.col_upper_ = np.zeros(J), np.full(J, np.inf)
        model.row_lower_ = np.append(np.full(K, -np.inf), 1.0)
        model.row_upper_ = np.append(np.zeros(K), 1.0)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.arange(0, J * (K + 1) + 1, K + 1)
        model.a_matrix_.index_ = np.tile(np.arange(K + 1), J)
        model.a_matrix_.value_ = np.column_stack([W, np.ones(J)]).ravel()
        self._solver.passModel(model)
        if self._basis is not None and self._shape == (J, K):
            self._solver.setBasis(self._basis)
        if _run(self._solver) != "optimal":
            self._basis = None
            return None
        found = self._solver.getBasis()
        basis = highspy.HighsBasis()
        basis.col_status, basis.row_status, basis.valid = list(found.col_status), list(found.row_status), True
        self._basis, self._shape = basis, (J, K)
        positive = np.maximum(np.asarray(self._solver.getSolution().col_value, dtype=np.float64), 0.0)
        pi: Array = positive / positive.sum()
        return pi

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process starts cold."""
        return MixtureProgram, ()


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof of an allocation program's solution, recomputed from the raw data without the solver.

    Any λ >= 0 bounds the program from above by Σ_c p_c max_j (r - λ·w) - ε·λ, so a feasible x whose value
    meets that bound is optimal.

    Attributes
    ----------
    value, bound : float
        What x earns; the upper bound that the duals prove.
    gap : float
        (bound - value) / max(1, |value|); never below 0 but for rounding.
    primal_residual : float
        The largest violation among x >= 0, Σ_j x = 1 and the constraints (relative to a constraint's largest
        coefficient when that exceeds 1).
    dual_residual : float
        The largest violation of λ >= 0.
    verified : bool
        Whether the residuals and the gap are all within 1e-9.

    Examples
    --------
    >>> proof = certify([1.0], [[0.1, 0.7]], [[[-0.1], [0.1]]], x=[[0.5, 0.5]], duals=[3.0])
    >>> proof.verified, round(proof.value, 12), round(proof.bound, 12)
    (True, 0.4, 0.4)
    """

    value: float
    bound: float
    gap: float
    primal_residual: float
    dual_residual: float
    verified: bool


@dataclass(frozen=True, slots=True)
class Allocation:
    """A verified optimum of `allocation` or `slater`.

    Attributes
    ----------
    value : float
        Σ p r x; for `slater` the constant δ.
    x : array
        The probability of each action in each context, in the shape of the rewards.
    duals : array, (K,)
        Shadow prices λ >= 0: -d value / d ε_k. For `slater` they sum to 1 (0 where the cap binds), and the
        constraints with a positive one are those that stand in each other's way.
    slack : array, (K,)
        -ε_k - Σ p w_k x, at least 0 up to rounding.
    certificate : Certificate
    method : "direct" or "decomposition"
    iterations : int
        Pricing rounds of the decomposition; 0 for the direct method.

    Examples
    --------
    >>> allocation([0.5, 0.5], [[0.0, 1.0], [0.0, 0.5]], [[[-0.5], [0.5]], [[-0.5], [0.5]]]).x.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    value: float
    x: Array
    duals: Array
    slack: Array
    certificate: Certificate
    method: str
    iterations: int


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

    Parameters
    ----------
    weights : (C,)
        p_c >= 0; they need not sum to 1.
    rewards, costs : (C, J) and (C, J, K), or with `offsets` (N,) and (N, K)
        K may be 0.
    offsets : (C+1,), optional
        Rows offsets[c]:offsets[c+1] belong to context c.
    epsilon : float or (K,)
        How far below 0 the costs must stay.
    method : "auto", "direct" or "decomposition"
        The default goes by size.

    Raises
    ------
    InfeasibleProblem
        The message tells by how much the constraints are missed at best, and which ones conflict.
    SolverError
        When the result can't be verified.

    Examples
    --------
    >>> found = allocation([1.0], [[0.1, 0.7]], [[[-0.1], [0.1]]], epsilon=0.05)
    >>> round(found.value, 12), found.duals.round(12).tolist(), found.certificate.verified
    (0.25, [3.0], True)
    """
    program = _Program.make(weights, rewards, costs, offsets)
    eps = _bounds(epsilon, program.n_constraints, "epsilon")
    if not np.isfinite(eps).all():
        raise InvalidInput(f"epsilon must be finite, but got {eps.tolist()}")
    chosen = _chosen(method, program)
    if program.n_constraints == 0:
        return _finish(program, program.pure(program.best_rows(program.r)), np.empty(0), eps, "direct", 0)
    if chosen == "direct":
        x, duals = _solve_direct(program, eps)
        return _finish(program, x, duals, eps, "direct", 0)
    x, duals, iterations = _solve_decomposed(program, eps)
    return _finish(program, x, duals, eps, "decomposition", iterations)


def slater(
    weights: ArrayLike,
    costs: ArrayLike,
    *,
    offsets: ArrayLike | None = None,
    method: Method = "auto",
) -> Allocation:
    """Slater's constant: the largest δ <= 1 such that some x has Σ p w_k x <= -δ for all k.

    Negative when the constraints can't all be met; 1 by convention when there are none.

    Examples
    --------
    >>> slater([1.0], [[[-0.1], [0.4], [0.4]]]).value
    0.1
    """
    w = np.asarray(costs)
    if w.ndim != (2 if offsets is not None else 3):
        raise InvalidInput(
            f"costs must have shape {'(N, K)' if offsets is not None else '(C, J, K)'}, but got {w.shape}"
        )
    program = _Program.make(weights, np.zeros(w.shape[:-1]), costs, offsets)
    eps = np.zeros(program.n_constraints)
    chosen = _chosen(method, program)
    if program.n_constraints == 0:
        return _finish_slater(program, program.pure(program.offsets[:-1]), np.empty(0), "direct", 0)
    if chosen == "direct":
        x, duals = _slack_direct(program, eps, cap=1.0)
        return _finish_slater(program, x, duals, "direct", 0)
    search = _Decomposition(program, eps)
    search.widen(cap=1.0)
    return _finish_slater(program, search.x(), search.center, "decomposition", search.iterations)


def certify(
    weights: ArrayLike,
    rewards: ArrayLike,
    costs: ArrayLike,
    *,
    x: ArrayLike,
    duals: ArrayLike,
    offsets: ArrayLike | None = None,
    epsilon: ArrayLike = 0.0,
) -> Certificate:
    """Check a claimed solution (x, duals) of an allocation program against its data.

    Examples
    --------
    >>> certify([1.0], [[0.1, 0.7]], [[[-0.1], [0.1]]], x=[[0.4, 0.6]], duals=[3.0]).verified
    False
    """
    program = _Program.make(weights, rewards, costs, offsets)
    claimed = np.asarray(x, dtype=np.float64)
    if claimed.shape != program.shape:
        raise InvalidInput(f"x must have shape {program.shape}, but got {claimed.shape}")
    lam = _vector(duals, "duals")
    if lam.size != program.n_constraints:
        raise InvalidInput(f"duals must have {program.n_constraints} entries, but got {lam.size}")
    return _certificate(program, claimed.ravel(), lam, _bounds(epsilon, lam.size, "epsilon"))


@dataclass(frozen=True, slots=True)
class _Program:
    """The data of an allocation program, checked once; rows are (context, action) pairs."""

    p: Array  # (C,)
    r: Array  # (N,)
    w: Array  # (N, K)
    offsets: Index  # (C+1,)
    width: int  # actions in every context, 0 when they differ
    shape: tuple[int, ...]  # of the rewards as given

    @classmethod
    def make(
        cls, weights: ArrayLike, rewards: ArrayLike, costs: ArrayLike, offsets: ArrayLike | None
    ) -> _Program:
        p = _vector(weights, "weights")
        if p.size == 0 or np.any(p < 0) or p.sum() <= 0:
            raise InvalidInput("weights must be at least one number, none below 0, not all 0")
        r, w = np.asarray(rewards), np.asarray(costs)
        for array, name in ((r, "rewards"), (w, "costs")):
            if array.dtype.kind not in "fiu":
                raise InvalidInput(f"{name} must hold real numbers, but its dtype is {array.dtype}")
        if offsets is None:
            if r.ndim != 2 or r.shape[0] != p.size or r.shape[1] == 0:
                raise InvalidInput(f"rewards must have shape ({p.size}, J) with J >= 1, but got {r.shape}")
            starts = np.arange(0, r.size + 1, r.shape[1])
        else:
            starts = np.asarray(offsets)
            if (
                starts.dtype.kind not in "iu"
                or starts.shape != (p.size + 1,)
                or starts[0] != 0
                or np.any(np.diff(starts.astype(np.int64)) < 1)
                or r.shape != (int(starts[-1]),)
            ):
                raise InvalidInput(
                    f"offsets must hold {p.size + 1} increasing integers from 0 to the number of rewards, "
                    f"but got shape {starts.shape} for rewards of shape {r.shape}"
                )
        if w.ndim != r.ndim + 1 or w.shape[:-1] != r.shape:
            raise InvalidInput(f"costs must have shape {(*r.shape, 'K')}, but got {w.shape}")
        sizes = np.diff(starts)
        width = int(sizes[0]) if np.all(sizes == sizes[0]) else 0
        program = cls(
            p,
            np.ascontiguousarray(r, dtype=np.float64).ravel(),
            np.ascontiguousarray(w, dtype=np.float64).reshape(r.size, w.shape[-1]),
            starts.astype(np.intp),
            width,
            r.shape,
        )
        for flat, array, name in ((program.r, r, "rewards"), (program.w, w, "costs")):
            if not np.isfinite(flat).all():
                where = np.unravel_index(int(np.argmin(np.isfinite(flat))), array.shape)
                entry = ", ".join(str(int(i)) for i in where)
                raise InvalidInput(f"{name}[{entry}] must be finite, but got {array[where]}")
        return program

    @property
    def n_constraints(self) -> int:
        return int(self.w.shape[1])

    def best_rows(self, scores: Array) -> Index:
        """The first best row of each context."""
        starts = self.offsets[:-1]
        if self.width:
            return np.asarray(starts + scores.reshape(-1, self.width).argmax(axis=1))
        hits = np.flatnonzero(scores == np.repeat(self.tops(scores), np.diff(self.offsets)))
        return np.asarray(hits[np.searchsorted(hits, starts)])

    def pure(self, rows: Index) -> Array:
        """The x that puts all of a context on one row."""
        x = np.zeros(self.r.size)
        x[rows] = 1.0
        return x

    def tops(self, scores: Array) -> Array:
        """The largest score in each context."""
        if self.width:
            return np.asarray(scores.reshape(-1, self.width).max(axis=1))
        return np.asarray(np.maximum.reduceat(scores, self.offsets[:-1]))

    def mass(self, x: Array) -> Array:
        """p_c x_i of each row."""
        return np.repeat(self.p, np.diff(self.offsets)) * x


def _chosen(method: Method, program: _Program) -> Literal["direct", "decomposition"]:
    if method == "auto":
        return "direct" if program.r.size <= _DIRECT_ROWS else "decomposition"
    if method in ("direct", "decomposition"):
        return method
    raise InvalidInput(f"method must be 'auto', 'direct' or 'decomposition', but got {method!r}")


_DIRECT_ROWS = 2_000


def _certificate(program: _Program, x: Array, lam: Array, eps: Array) -> Certificate:
    y = program.mass(x)
    value = float(y @ program.r)
    dual_residual = float(np.max(-lam, initial=0.0))
    bound = float(program.p @ program.tops(program.r - program.w @ lam) - eps @ lam)
    return _judge(program, x, y @ program.w + eps, value, bound, dual_residual)


def _judge(
    program: _Program, x: Array, excess: Array, value: float, bound: float, dual_residual: float
) -> Certificate:
    scale = np.maximum(1.0, np.abs(program.w).max(axis=0, initial=0.0))
    primal_residual = max(
        float(np.max(-x, initial=0.0)),
        float(np.max(np.abs(np.add.reduceat(x, program.offsets[:-1]) - 1.0))),
        float(np.max(excess / scale, initial=0.0)),
    )
    gap = (bound - value) / max(1.0, abs(value))
    verified = primal_residual <= _RESIDUAL and dual_residual <= _RESIDUAL and abs(gap) <= _GAP
    return Certificate(value, bound, gap, primal_residual, dual_residual, verified)


def _finish(program: _Program, x: Array, lam: Array, eps: Array, method: str, iterations: int) -> Allocation:
    proof = _certificate(program, x, lam, eps)
    slack = -eps - program.mass(x) @ program.w
    return _verified(program, x, lam, slack, proof, method, iterations)


def _finish_slater(program: _Program, x: Array, lam: Array, method: str, iterations: int) -> Allocation:
    means = program.mass(x) @ program.w
    value = float(np.minimum(1.0, -means).min(initial=1.0))
    # max_x,δ<=1 of δ - λ·(means + δ) with Σλ <= 1, the dual of the program in δ.
    bound = float(program.p @ program.tops(-program.w @ lam) + 1.0 - lam.sum())
    dual_residual = max(float(np.max(-lam, initial=0.0)), float(lam.sum() - 1.0))
    proof = _judge(program, x, means + value, value, bound, dual_residual)
    return _verified(program, x, lam, -means, proof, method, iterations)


def _verified(
    program: _Program, x: Array, lam: Array, slack: Array, proof: Certificate, method: str, iterations: int
) -> Allocation:
    if not proof.verified:
        raise SolverError(
            f"the {method} method ended with relative gap {proof.gap:.1e}, primal residual "
            f"{proof.primal_residual:.1e} and dual residual {proof.dual_residual:.1e}, each allowed 1e-9; "
            "try the other method, or rescale costs that differ by many orders of magnitude"
        )
    return Allocation(proof.value, x.reshape(program.shape), lam, slack, proof, method, iterations)


def _infeasible(missed: float, lam: Array) -> InfeasibleProblem:
    named = ", ".join(str(k) for k in np.flatnonzero(lam > 1e-7))
    return InfeasibleProblem(
        f"no allocation meets every constraint: the best one still misses some by {missed:.6g}; "
        f"constraints in conflict: {named}"
    )


# The direct method, in the variables y = C p x: coefficients and right-hand sides stay of the order of 1, so that
# the solver's absolute tolerances bite however many contexts there are and however small their weights.


def _rows_of_contexts(program: _Program) -> Any:
    n = program.r.size
    contexts = np.repeat(np.arange(program.p.size), np.diff(program.offsets))
    return sp.csr_matrix((np.ones(n), (contexts, np.arange(n))), shape=(program.p.size, n))


def _solve_direct(program: _Program, eps: Array) -> tuple[Array, Array]:
    contexts = _rows_of_contexts(program)

    scale = program.p.size / program.p.sum()

    def attempt(limits: Array) -> LPSolution:
        return solve_lp(
            program.r, A_ub=program.w.T, b_ub=scale * limits, A_eq=contexts, b_eq=scale * program.p
        )

    found = attempt(-eps)
    if found.status == "infeasible":
        x, lam = _slack_direct(program, eps, cap=0.0)
        missed = float(np.max(program.mass(x) @ program.w + eps))
        if missed > _RESIDUAL:
            raise _infeasible(missed, lam)
        found = attempt(-eps + missed)
    if found.status != "optimal":
        raise SolverError(f"an allocation program can't be {found.status}; rescale the costs")
    return _normalised(program, found.x), np.maximum(found.duals_ub, 0.0)


def _slack_direct(program: _Program, eps: Array, cap: float) -> tuple[Array, Array]:
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


def _simplex(lam: Array) -> Array:
    lam = np.maximum(lam, 0.0)
    return lam / max(1.0, float(lam.sum()))


def _normalised(program: _Program, y: Array) -> Array:
    """The x of a y whose sums are right up to rounding; a context without weight takes its first action."""
    y = np.maximum(y, 0.0)
    sums = np.add.reduceat(y, program.offsets[:-1])
    empty = sums <= 0.0
    y[program.offsets[:-1][empty]] = 1.0
    sums[empty] = 1.0
    return np.asarray(y / np.repeat(sums, np.diff(program.offsets)))


class _Decomposition:
    """Dantzig-Wolfe decomposition of an allocation program, equally a multi-cut Kelley method on its dual.

    Contexts form a few dozen blocks. A column of the master program says what one block earns and costs under
    one choice of an action in each of its contexts. The next columns are the best choices at a point halfway
    between the master's duals and the best point known ("in-out" separation), which tames Kelley's zigzag.
    """

    BLOCKS = 64
    LIMIT = 5_000

    def __init__(self, program: _Program, eps: Array) -> None:
        self.program = program
        self.eps = eps
        self.center = np.full(program.n_constraints, 1.0 / program.n_constraints)
        self.iterations = 0
        contexts, k = program.p.size, program.n_constraints
        self._edges = np.unique(np.linspace(0, contexts, min(contexts, self.BLOCKS) + 1).astype(np.intp))
        self._earned = np.ones(1)  # by each column of the master; column 0 is the slack t
        self._choices: list[NDArray[Any]] = []
        self._n_blocks = self._edges.size - 1
        self._small = np.min_scalar_type(int(np.diff(program.offsets).max()))
        self._master = _new_solver()
        self._master.setOptionValue("presolve", "off")
        self._master.setOptionValue("simplex_strategy", 4)  # primal: a new column keeps the basis feasible
        self._master.changeObjectiveSense(highspy.ObjSense.kMaximize)
        none = np.empty(0, dtype=np.int32)
        for limit in -eps:
            self._master.addRow(-np.inf, float(limit), 0, none, np.empty(0))
        for _ in range(self._n_blocks):
            self._master.addRow(1.0, 1.0, 0, none, np.empty(0))
        self._master.addCol(1.0, -np.inf, 0.0, k, np.arange(k, dtype=np.int32), np.ones(k))

    def widen(self, cap: float, *, enough: float = np.inf) -> float:
        """Maximise t <= cap subject to Σ p w x + t <= -ε; stop early once t reaches `enough`. Return t."""
        self._master.changeColBounds(0, -np.inf, cap)
        rewards = np.zeros_like(self.program.r)

        def bound(lam: Array) -> tuple[float, Index]:
            return self._price(rewards, lam, cap * (1.0 - float(lam.sum())))

        return self._climb(bound, enough)

    def maximise(self, t: float) -> None:
        """Maximise the reward at slack t (0 unless the constraints can only just be met)."""
        columns = np.arange(self._earned.size, dtype=np.int32)
        self._earned[0] = 0.0
        self._master.changeColsCost(columns.size, columns, self._earned)
        self._master.changeColBounds(0, t, t)
        self._climb(lambda lam: self._price(self.program.r, lam, -t * float(lam.sum())), np.inf)

    def x(self) -> Array:
        """The master's mixture of choices."""
        program = self.program
        shares = np.maximum(np.asarray(self._master.getSolution().col_value)[1:], 0.0)
        shares = shares.reshape(-1, self._n_blocks)
        shares /= shares.sum(axis=0)
        sizes = np.diff(self._edges)
        x = np.zeros(program.r.size)
        for i in np.flatnonzero(shares.any(axis=1)):
            x[program.offsets[:-1] + self._choices[i]] += np.repeat(shares[i], sizes)
        return x

    def _price(self, rewards: Array, lam: Array, constant: float) -> tuple[float, Index]:
        """The dual function at λ, and the row that attains it in each context."""
        program = self.program
        scores = rewards - program.w @ lam
        rows = program.best_rows(scores)
        return float(program.p @ scores[rows] - self.eps @ lam) + constant, rows

    def _climb(self, bound: Callable[[Array], tuple[float, Index]], enough: float) -> float:
        best, point = np.inf, self.center
        while self.iterations < self.LIMIT:
            self.iterations += 1
            upper, rows = bound(point)
            if upper < best:
                best, self.center = upper, point
            self._add(rows)
            if _run(self._master) != "optimal":
                break
            value = float(self._master.getInfo().objective_function_value)
            gap = (best - value) / max(1.0, abs(value))
            if value >= enough or gap <= 0.5 * _GAP:
                return value
            lam = np.maximum(np.asarray(self._master.getSolution().row_dual)[: self.center.size], 0.0)
            # Near the end the master is exact around λ, and halving the way to it would only waste rounds.
            point = lam if gap <= 1e-6 else 0.5 * (self.center + lam)
        raise SolverError(
            f"the decomposition did not close its gap in {self.iterations} rounds; use method='direct', or "
            "rescale costs that differ by many orders of magnitude"
        )

    def _add(self, rows: Index) -> None:
        """One column for each block: its part of the choice `rows`."""
        program, k, n = self.program, self.program.n_constraints, self._n_blocks
        columns = np.ones((n, k + 1))
        earned = np.empty(n)
        for b, (low, high) in enumerate(zip(self._edges[:-1], self._edges[1:], strict=True)):
            p, chosen = program.p[low:high], rows[low:high]
            earned[b] = p @ program.r[chosen]
            columns[b, :k] = p @ program.w[chosen]
        indices = np.tile(np.arange(k + 1, dtype=np.int32), (n, 1))
        indices[:, k] += np.arange(n, dtype=np.int32)
        starts = np.arange(0, n * (k + 1), k + 1, dtype=np.int32)
        costs = earned if self._earned[0] == 0.0 else np.zeros(n)
        self._master.addCols(
            n, costs, np.zeros(n), np.full(n, np.inf), columns.size, starts, indices.ravel(), columns.ravel()
        )
        self._earned = np.append(self._earned, earned)
        self._choices.append((rows - program.offsets[:-1]).astype(self._small))


def _solve_decomposed(program: _Program, eps: Array) -> tuple[Array, Array, int]:
    search = _Decomposition(program, eps)
    t = search.widen(cap=0.0, enough=0.0)
    if t < -_RESIDUAL:
        raise _infeasible(-t, search.center)
    search.maximise(min(t, 0.0))
    return search.x(), search.center, search.iterations


_STATUS: dict[highspy.HighsModelStatus, Status] = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kModelEmpty: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnbounded: "unbounded",
}
_TOLERANCE = 1e-10  # the tightest that HiGHS accepts


def _new_solver() -> Any:
    """A silent, deterministic, single-threaded HiGHS at its tightest tolerances."""
    make: Any = highspy.Highs
    solver = make()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("parallel", "off")
    solver.setOptionValue("random_seed", 0)
    solver.setOptionValue("solver", "simplex")
    solver.setOptionValue("primal_feasibility_tolerance", _TOLERANCE)
    solver.setOptionValue("dual_feasibility_tolerance", _TOLERANCE)
    solver.setOptionValue("small_matrix_value", 1e-12)
    return solver


def _run(solver: Any) -> Status:
    solver.run()
    outcome = solver.getModelStatus()
    if outcome == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        # Presolve can't tell the two apart; the simplex method can.
        solver.setOptionValue("presolve", "off")
        solver.run()
        outcome = solver.getModelStatus()
    if outcome not in _STATUS:
        raise SolverError(
            f"HiGHS stopped with {solver.modelStatusToString(outcome)!r}; rescale the rows so that their "
            "entries are of the order of 1, or remove constraints that nearly coincide"
        )
    return _STATUS[outcome]


def _vector(values: ArrayLike, name: str) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InvalidInput(f"{name} must hold real numbers, but its dtype is {array.dtype}")
    if array.ndim != 1:
        raise InvalidInput(f"{name} must have one axis, but its shape is {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        i = int(np.argmin(np.isfinite(array)))
        raise InvalidInput(f"{name}[{i}] must be finite, but got {array[i]}")
    return array


def _bounds(values: ArrayLike, n: int, name: str) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.shape not in {(), (n,)}:
        raise InvalidInput(
            f"{name} must be a number or {n} numbers, but got dtype {array.dtype} and shape {array.shape}"
        )
    if np.isnan(array).any():
        raise InvalidInput(f"{name} must not hold nan")
    return np.broadcast_to(array, n).astype(np.float64)


def _rows(matrix: Any, rhs: ArrayLike | None, n: int, matrix_name: str, rhs_name: str) -> tuple[Any, Array]:
    if (matrix is None) != (rhs is None):
        raise InvalidInput(f"{matrix_name} and {rhs_name} must be given together")
    if matrix is None or rhs is None:
        return sp.csc_matrix((0, n)), np.empty(0)
    b = _vector(rhs, rhs_name)
    if not sp.issparse(matrix):
        matrix = np.asarray(matrix)
    if matrix.dtype.kind not in "fiu":
        raise InvalidInput(f"{matrix_name} must hold real numbers, but its dtype is {matrix.dtype}")
    if matrix.shape != (b.size, n):
        raise InvalidInput(f"{matrix_name} must have shape {(b.size, n)}, but its shape is {matrix.shape}")
    rows = sp.csc_matrix(matrix, dtype=np.float64)
    if not np.isfinite(rows.data).all():
        raise InvalidInput(f"{matrix_name} must be finite, but it holds nan or inf")
    return rows, b
