"""Large allocation programs, decomposed on their K duals: pricing is an argmax in each context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from tightrope.errors import SolverError
from tightrope.lp.highs import Array, new_solver, run_solver
from tightrope.lp.program import GAP, RESIDUAL, Index, Program, infeasible


def solve_decomposed(program: Program, eps: Array) -> tuple[Array, Array, int]:
    """x and λ of the allocation program, and the pricing rounds that it took."""
    search = Decomposition(program, eps)
    search.solve()
    return search.x(), search.center, search.iterations


class Decomposition:
    """Dantzig-Wolfe decomposition of an allocation program, equally a multi-cut Kelley method on its dual.

    Contexts form a few dozen blocks. A column of the master program says what one block earns and costs under
    one choice of an action in each of its contexts. The next columns are the best choices at a point halfway
    between the master's duals and the best point known ("in-out" separation), which tames Kelley's zigzag.
    """

    BLOCKS = 64
    LIMIT = 5_000

    def __init__(self, program: Program, eps: Array) -> None:
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
        self._master = new_solver()
        self._master.setOptionValue("presolve", "off")
        self._master.setOptionValue("simplex_strategy", 4)  # primal: a new column keeps the basis feasible
        self._master.changeObjectiveSense(highspy.ObjSense.kMaximize)
        none = np.empty(0, dtype=np.int32)
        for limit in -eps:
            self._master.addRow(-np.inf, float(limit), 0, none, np.empty(0))
        for _ in range(self._n_blocks):
            self._master.addRow(1.0, 1.0, 0, none, np.empty(0))
        self._master.addCol(1.0, -np.inf, 0.0, k, np.arange(k, dtype=np.int32), np.ones(k))

    def solve(self) -> None:
        """Both phases: a choice within the limits, then the best one."""
        t = self.widen(cap=0.0, enough=0.0)
        if t < -RESIDUAL:
            raise infeasible(-t, self.center)
        self.maximise(min(t, 0.0))

    def solve_again(self, eps: Array) -> None:
        """The same program with other margins; the columns that are there remain, so that few are left to be found."""
        before = self.center
        self.eps, self.iterations = eps, 0
        rows = np.arange(eps.size, dtype=np.int32)
        self._master.changeRowsBounds(eps.size, rows, np.full(eps.size, -np.inf), -eps)
        # Back to the first phase, whose objective is the slack alone.
        self._earned[0] = 1.0
        costs = np.zeros(self._earned.size)
        costs[0] = 1.0
        self._master.changeColsCost(costs.size, np.arange(costs.size, dtype=np.int32), costs)
        t = self.widen(cap=0.0, enough=0.0)
        if t < -RESIDUAL:
            raise infeasible(-t, self.center)
        self.center = before
        self.maximise(min(t, 0.0))

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
        scores = program.scores(rewards, lam)
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
            if run_solver(self._master) != "optimal":
                break
            value = float(self._master.getInfo().objective_function_value)
            gap = (best - value) / max(1.0, abs(value))
            if value >= enough or gap <= 0.5 * GAP:
                return value
            lam = np.maximum(np.asarray(self._master.getSolution().row_dual)[: self.center.size], 0.0)
            # Near the end the master is exact around λ, and halving the way to it would only waste rounds.
            point = lam if gap <= 1e-6 else 0.5 * (self.center + lam)
        raise SolverError(
            f"the decomposition did not close its gap in {self.iterations} rounds; use the method 'direct', or "
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
