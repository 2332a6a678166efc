"""Programs in whole numbers: which one of several options each row takes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import highspy
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tightrope.errors import SolverError
from tightrope.lp.highs import Array, lp_model, new_solver


@dataclass(frozen=True, slots=True)
class Selection:
    """What `select` found."""

    # "found": options that meet the limits; "infeasible": there are none; "open": none was found within the nodes allowed.
    status: Literal["found", "infeasible", "open"]
    chosen: NDArray[np.intp]  # the number of the option that each row takes; empty unless found
    bound: float  # nothing earns more


def select(
    rewards: Array,
    costs: Array,
    offsets: NDArray[np.intp],
    limits: Array,
    *,
    gap: float = 0.0,
    nodes: int = 2_000,
) -> Selection:
    """One option for each row, so that the rewards are as high as the limits allow.

    The options of row i are offsets[i] to offsets[i + 1] of rewards (N,) and costs (N, K); the sums of costs stay within limits
    (K,), to the solver's tolerance of 1e-9. The search ends at a choice that is at most `gap` below the best, or after so many
    nodes.

    >>> rewards, costs = np.array([1.0, 3.0, 0.0, 2.5]), np.array([[0.0], [2.0], [0.0], [1.0]])
    >>> found = select(rewards, costs, np.array([0, 2, 4]), np.array([2.0]))
    >>> found.status, found.chosen.tolist(), found.bound
    ('found', [0, 3], 3.5)
    >>> select(rewards, costs + 1.0, np.array([0, 2, 4]), np.array([1.0])).status
    'infeasible'
    """
    n, K = costs.shape
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    one_each = sp.csr_array((np.ones(n), (rows, np.arange(n))), shape=(len(offsets) - 1, n))
    matrix: Any = sp.vstack([sp.csr_array(costs.T), one_each], format="csc")
    ones = np.ones(len(offsets) - 1)
    row_bounds = np.concatenate([np.full(K, -np.inf), ones]), np.concatenate([limits, ones])
    entries = matrix.indptr, matrix.indices, matrix.data
    model = lp_model(rewards, (np.zeros(n), np.ones(n)), row_bounds, entries)
    model.integrality_ = [highspy.HighsVarType.kInteger] * n
    solver = new_solver()
    options = {"mip_feasibility_tolerance": 1e-9, "mip_rel_gap": 0.0, "mip_abs_gap": max(gap, 1e-12)}
    for name, value in {**options, "mip_max_nodes": nodes, "solver": "choose"}.items():
        solver.setOptionValue(name, value)
    solver.passModel(model)
    solver.run()
    status = solver.getModelStatus()
    ends = highspy.HighsModelStatus
    if status in (ends.kInfeasible, ends.kUnboundedOrInfeasible):
        return Selection("infeasible", np.empty(0, dtype=np.intp), -np.inf)
    if status not in (ends.kOptimal, ends.kSolutionLimit, ends.kIterationLimit):
        raise SolverError(f"HiGHS stopped with {solver.modelStatusToString(status)!r}; rescale the costs")
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Selection("open", np.empty(0, dtype=np.intp), float(info.mip_dual_bound))
    x = np.asarray(solver.getSolution().col_value)
    chosen = [begin + int(np.argmax(x[begin:end])) for begin, end in pairwise(offsets)]
    return Selection("found", np.array(chosen, dtype=np.intp), float(info.mip_dual_bound))
