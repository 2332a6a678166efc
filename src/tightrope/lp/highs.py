"""The one interface to HiGHS: a program in arrays, its solution, and what the solver's statuses mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import highspy
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InvalidInput, SolverError
from tightrope.validation import finite_array
from tightrope.words import Shown

Array: TypeAlias = NDArray[np.float64]
Status: TypeAlias = Literal["optimal", "infeasible", "unbounded"]


@dataclass(frozen=True, slots=True)
class LPSolution:
    """What `solve_lp` found."""

    status: Status
    value: float  # when maximising -inf if infeasible and inf if unbounded, when minimising the opposite
    x: Array  # an optimal point (nan unless optimal)
    # Shadow prices: the derivative of `value` in each entry of `b_ub`, `b_eq` (nan unless optimal). Hence `duals_ub` is >= 0 when
    # maximising and <= 0 when minimising.
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

    Matrices may be dense or scipy.sparse. Deterministic: one thread, fixed seed. A `SolverError` means that HiGHS stopped for any
    reason but optimality, infeasibility or unboundedness.

    >>> found = solve_lp([1.0, 2.0], A_ub=[[1.0, 1.0], [0.0, 1.0]], b_ub=[4.0, 1.0])
    >>> found.status, found.value, found.x.tolist(), found.duals_ub.tolist()
    ('optimal', 5.0, [3.0, 1.0], [1.0, 1.0])
    >>> solve_lp([1.0], A_ub=[[1.0]], b_ub=[-1.0]).status
    'infeasible'
    """
    c = finite_array("objective", objective, (None,))
    n = c.size
    rows_ub, rhs_ub = _rows(A_ub, b_ub, n, "A_ub", "b_ub")
    rows_eq, rhs_eq = _rows(A_eq, b_eq, n, "A_eq", "b_eq")
    low = bounds(lower, n, "lower")
    high = bounds(upper, n, "upper")
    if np.any(low > high):
        i = int(np.argmax(low > high))
        came = Shown(f"lower={low[i]} and upper={high[i]}")
        raise InvalidInput(field=f"lower[{i}] <= upper[{i}]", must="hold", got=came)

    matrix = sp.vstack([rows_ub, rows_eq], format="csc")
    solver = new_solver()
    rows = np.append(np.full(rhs_ub.size, -np.inf), rhs_eq), np.append(rhs_ub, rhs_eq)
    entries = matrix.indptr, matrix.indices, matrix.data
    solver.passModel(lp_model(c, (low, high), rows, entries, maximise=maximise))
    status = run_solver(solver)
    if status != "optimal":
        value = np.inf if (status == "unbounded") == maximise else -np.inf
        nan = np.full(n + rhs_ub.size + rhs_eq.size, np.nan)
        return LPSolution(status, value, *np.split(nan, [n, n + rhs_ub.size]))
    found = solver.getSolution()
    x = np.asarray(found.col_value, dtype=np.float64)
    duals = np.asarray(found.row_dual, dtype=np.float64)
    return LPSolution(status, float(c @ x), x, duals[: rhs_ub.size], duals[rhs_ub.size :])


def lp_model(
    objective: Array,
    columns: tuple[Array, Array],
    rows: tuple[Array, Array],
    matrix: tuple[NDArray[Any], NDArray[Any], Array],
    *,
    maximise: bool = True,
) -> Any:
    """HiGHS's form of a program: bounds of columns, bounds of rows, and the matrix by columns (starts, row indices, values)."""
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = objective.size, rows[0].size
    model.sense_ = highspy.ObjSense.kMaximize if maximise else highspy.ObjSense.kMinimize
    model.col_cost_ = objective
    model.col_lower_, model.col_upper_ = columns
    model.row_lower_, model.row_upper_ = rows
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = matrix
    return model


STATUS: dict[highspy.HighsModelStatus, Status] = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kModelEmpty: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnbounded: "unbounded",
}


def new_solver() -> Any:
    """A silent, deterministic, single-threaded HiGHS at the tightest tolerances that it accepts."""
    make: Any = highspy.Highs
    solver = make()
    options = {"output_flag": False, "threads": 1, "parallel": "off", "random_seed": 0, "solver": "simplex"}
    tolerances = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
    for name, value in {**options, **dict.fromkeys(tolerances, 1e-10), "small_matrix_value": 1e-12}.items():
        solver.setOptionValue(name, value)
    return solver


def run_solver(solver: Any) -> Status:
    solver.run()
    outcome = solver.getModelStatus()
    if outcome == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        # Presolve can't tell the two apart; the simplex method can.
        solver.setOptionValue("presolve", "off")
        solver.run()
        outcome = solver.getModelStatus()
    if outcome not in STATUS:
        remedy = "rescale the rows so that their entries are of the order of 1, or remove near-duplicate constraints"
        raise SolverError(f"HiGHS stopped with {solver.modelStatusToString(outcome)!r}; {remedy}")
    return STATUS[outcome]


def bounds(values: ArrayLike, n: int, name: str) -> Array:
    """A number, or n of them, as n numbers; they may be infinite."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.shape not in {(), (n,)}:
        came = Shown(f"dtype {array.dtype} and shape {array.shape}")
        raise InvalidInput(field=name, must=f"be a number or {n} numbers", got=came)
    if np.isnan(array).any():
        raise InvalidInput(field=name, must="not hold nan")
    return np.broadcast_to(array, n).astype(np.float64)


def _rows(matrix: Any, rhs: ArrayLike | None, n: int, matrix_name: str, rhs_name: str) -> tuple[Any, Array]:
    if (matrix is None) != (rhs is None):
        raise InvalidInput(f"{matrix_name} and {rhs_name} must be given together")
    if matrix is None or rhs is None:
        return sp.csc_matrix((0, n)), np.empty(0)
    b = finite_array(rhs_name, rhs, (None,))
    if not sp.issparse(matrix):
        matrix = np.asarray(matrix)
    if matrix.dtype.kind not in "fiu":
        raise InvalidInput(field=matrix_name, must=f"hold real numbers, but its dtype is {matrix.dtype}")
    if matrix.shape != (b.size, n):
        raise InvalidInput(field=matrix_name, must=f"have shape {(b.size, n)}", got=matrix.shape)
    rows = sp.csc_matrix(matrix, dtype=np.float64)
    if not np.isfinite(rows.data).all():
        raise InvalidInput(field=matrix_name, must="be finite, but it holds nan or inf")
    return rows, b
