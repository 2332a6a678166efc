"""The best mixture of actions in one round, solved repeatedly."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from tightrope.lp.highs import Array, lp_model, new_solver, run_solver


class MixtureProgram:
    """max u·π subject to Σ_j W_jk π_j <= 0 for every k, Σπ = 1, π >= 0, solved again and again.

    Each solve starts from `basis`, the optimal one of the last solve with the same numbers of actions and constraints. Little
    changes from one round of a policy to the next, so few or no pivots are left. The last bits of π depend on it.

    >>> program = MixtureProgram()
    >>> program.solve(np.array([0.1, 0.7]), np.array([[-0.1], [0.3]])).round(9).tolist()
    [0.75, 0.25]
    >>> program.solve(np.array([0.1]), np.array([[0.2]])) is None
    True
    """

    def __init__(self) -> None:
        self._solver: Any = None
        # HiGHS's status of each action and each row; empty for a cold start.
        self.basis = np.empty(0, dtype=np.int8)

    def solve(self, u: Array, W: Array) -> Array | None:
        """π (J,), or None where nothing is feasible."""
        J, K = W.shape
        if self._solver is None:
            self._solver = new_solver()
            self._solver.setOptionValue("presolve", "off")
        columns = np.zeros(J), np.full(J, np.inf)
        rows = np.append(np.full(K, -np.inf), 1.0), np.append(np.zeros(K), 1.0)
        starts, indices = np.arange(0, J * (K + 1) + 1, K + 1), np.tile(np.arange(K + 1), J)
        values = np.column_stack([W, np.ones(J)]).ravel()
        self._solver.passModel(lp_model(u, columns, rows, (starts, indices, values)))
        if len(self.basis) == J + K + 1:
            status = [highspy.HighsBasisStatus(one) for one in self.basis.tolist()]
            basis = highspy.HighsBasis()
            basis.col_status, basis.row_status, basis.valid = status[:J], status[J:], True
            self._solver.setBasis(basis)
        if run_solver(self._solver) != "optimal":
            self.basis = np.empty(0, dtype=np.int8)
            return None
        found = self._solver.getBasis()
        self.basis = np.array([int(one) for one in [*found.col_status, *found.row_status]], dtype=np.int8)
        positive = np.maximum(np.asarray(self._solver.getSolution().col_value, dtype=np.float64), 0.0)
        pi: Array = positive / positive.sum()
        return pi

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process starts cold."""
        return MixtureProgram, ()
