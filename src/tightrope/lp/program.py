"""The data of an allocation program, and the proof of a solution, computed without the solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InfeasibleProblem, InvalidInput, SolverError
from tightrope.lp.highs import Array, bounds
from tightrope.validation import finite_array
from tightrope.words import Shown

Index: TypeAlias = NDArray[np.intp]

GAP = 1e-9  # relative: (dual bound - value) / max(1, |value|)
RESIDUAL = 1e-9  # of a constraint, relative to its largest coefficient when that exceeds 1


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof of an allocation program's solution, recomputed from the raw data without the solver.

    Any λ >= 0 bounds the program from above by Σ_c p_c max_j (r - λ·w) - ε·λ, so a feasible x whose value meets that bound is
    optimal.

    >>> proof = certify([1.0], [[0.1, 0.7]], [[[-0.1], [0.1]]], x=[[0.5, 0.5]], duals=[3.0])
    >>> proof.verified, round(proof.value, 12), round(proof.bound, 12)
    (True, 0.4, 0.4)
    """

    value: float  # what x earns
    bound: float  # the upper bound that the duals prove
    gap: float  # (bound - value) / max(1, |value|); never below 0 but for rounding
    # The largest violation among x >= 0, Σ_j x = 1 and the constraints, relative to a constraint's largest coefficient when that
    # exceeds 1; and that of λ >= 0.
    primal_residual: float
    dual_residual: float
    verified: bool  # whether the residuals and the gap are all within 1e-9


@dataclass(frozen=True, slots=True)
class Allocation:
    """A verified optimum of `allocation` or `slater`."""

    value: float  # Σ p r x; for `slater` the constant δ
    x: Array  # the probability of each action in each context, in the shape of the rewards
    # (K,), shadow prices λ >= 0: -d value / d ε_k. For `slater` they sum to 1 (0 where the cap binds), and the constraints with a
    # positive one are those that stand in each other's way.
    duals: Array
    slack: Array  # (K,), -ε_k - Σ p w_k x, at least 0 up to rounding
    certificate: Certificate
    method: str  # "direct" or "decomposition"
    iterations: int  # pricing rounds of the decomposition; 0 for the direct method


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

    >>> certify([1.0], [[0.1, 0.7]], [[[-0.1], [0.1]]], x=[[0.4, 0.6]], duals=[3.0]).verified
    False
    """
    program = Program.make(weights, rewards, costs, offsets)
    claimed = np.asarray(x, dtype=np.float64)
    if claimed.shape != program.shape:
        raise InvalidInput(field="x", must=f"have shape {program.shape}", got=claimed.shape)
    lam = finite_array("duals", duals, (program.n_constraints,))
    return program.certificate(claimed.ravel(), lam, bounds(epsilon, lam.size, "epsilon"))


@dataclass(frozen=True, slots=True)
class Program:
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
    ) -> Program:
        p = finite_array("weights", weights, (None,))
        if p.size == 0 or np.any(p < 0) or p.sum() <= 0:
            raise InvalidInput(field="weights", must="be at least one number, none below 0, not all 0")
        if offsets is None:
            r = finite_array("rewards", rewards, (p.size, None))
            if r.shape[1] == 0:
                wanted = f"have shape ({p.size}, J) with J >= 1"
                raise InvalidInput(field="rewards", must=wanted, got=r.shape)
            starts = np.arange(0, r.size + 1, r.shape[1])
        else:
            r, starts = finite_array("rewards", rewards, (None,)), np.asarray(offsets)
            if (
                starts.dtype.kind not in "iu"
                or starts.shape != (p.size + 1,)
                or starts[0] != 0
                or np.any(np.diff(starts.astype(np.int64)) < 1)
                or r.shape != (int(starts[-1]),)
            ):
                wanted = f"hold {p.size + 1} increasing integers from 0 to the number of rewards"
                came = Shown(f"shape {starts.shape} for rewards of shape {r.shape}")
                raise InvalidInput(field="offsets", must=wanted, got=came)
        w = finite_array("costs", costs, (*r.shape, None))
        sizes = np.diff(starts)
        width = int(sizes[0]) if np.all(sizes == sizes[0]) else 0
        return cls(p, r.ravel(), w.reshape(r.size, w.shape[-1]), starts.astype(np.intp), width, r.shape)

    @property
    def n_constraints(self) -> int:
        return int(self.w.shape[1])

    def scores(self, rewards: Array, lam: Array) -> Array:
        """What each row is worth at the prices λ: r - λ·w."""
        # On one core, and faster than a product by OpenBLAS, whose threads cost more than they save on so few columns.
        return np.asarray(rewards - np.einsum("nk,k->n", self.w, lam))

    def best_rows(self, scores: Array) -> Index:
        """The first best row of each context."""
        starts = self.offsets[:-1]
        if self.width:
            return np.asarray(starts + scores.reshape(-1, self.width).argmax(axis=1))
        hits = np.flatnonzero(scores == np.repeat(self.tops(scores), np.diff(self.offsets)))
        return np.asarray(hits[np.searchsorted(hits, starts)])

    def pure(self, rows: Index) -> Array:
        x = np.zeros(self.r.size)
        x[rows] = 1.0
        return x

    def tops(self, scores: Array) -> Array:
        if self.width:
            return np.asarray(scores.reshape(-1, self.width).max(axis=1))
        return np.asarray(np.maximum.reduceat(scores, self.offsets[:-1]))

    def mass(self, x: Array) -> Array:
        """p_c x_i of each row."""
        return np.repeat(self.p, np.diff(self.offsets)) * x

    def certificate(self, x: Array, lam: Array, eps: Array) -> Certificate:
        y = self.mass(x)
        value = float(y @ self.r)
        dual_residual = float(np.max(-lam, initial=0.0))
        bound = float(self.p @ self.tops(self.scores(self.r, lam)) - eps @ lam)
        return self._judged(x, y @ self.w + eps, value, bound, dual_residual)

    def verified(self, x: Array, lam: Array, eps: Array, method: str, iterations: int) -> Allocation:
        """A solution of the program, with its proof; an error where there is none."""
        slack = -eps - self.mass(x) @ self.w
        return self._verified(x, lam, slack, self.certificate(x, lam, eps), method, iterations)

    def verified_slater(self, x: Array, lam: Array, method: str, iterations: int) -> Allocation:
        """The same for Slater's program, whose value is δ."""
        means = self.mass(x) @ self.w
        value = float(np.minimum(1.0, -means).min(initial=1.0))
        # max_x,δ<=1 of δ - λ·(means + δ) with Σλ <= 1, the dual of the program in δ.
        bound = float(self.p @ self.tops(self.scores(np.zeros_like(self.r), lam)) + 1.0 - lam.sum())
        dual_residual = max(float(np.max(-lam, initial=0.0)), float(lam.sum() - 1.0))
        proof = self._judged(x, means + value, value, bound, dual_residual)
        return self._verified(x, lam, -means, proof, method, iterations)

    def _judged(
        self, x: Array, excess: Array, value: float, bound: float, dual_residual: float
    ) -> Certificate:
        scale = np.maximum(1.0, np.abs(self.w).max(axis=0, initial=0.0))
        primal_residual = max(
            float(np.max(-x, initial=0.0)),
            float(np.max(np.abs(np.add.reduceat(x, self.offsets[:-1]) - 1.0))),
            float(np.max(excess / scale, initial=0.0)),
        )
        gap = (bound - value) / max(1.0, abs(value))
        verified = primal_residual <= RESIDUAL and dual_residual <= RESIDUAL and abs(gap) <= GAP
        return Certificate(value, bound, gap, primal_residual, dual_residual, verified)

    def _verified(
        self, x: Array, lam: Array, slack: Array, proof: Certificate, method: str, iterations: int
    ) -> Allocation:
        if not proof.verified:
            residuals = (
                f"primal residual {proof.primal_residual:.1e} and dual residual {proof.dual_residual:.1e}"
            )
            remedy = "try the other method, or rescale costs that differ by many orders of magnitude"
            ended = f"the {method} method ended with relative gap {proof.gap:.1e}, {residuals}"
            raise SolverError(f"{ended}, each allowed 1e-9; {remedy}")
        return Allocation(proof.value, x.reshape(self.shape), lam, slack, proof, method, iterations)


def infeasible(missed: float, lam: Array) -> InfeasibleProblem:
    """The error for constraints that the best allocation still misses by `missed`, λ > 0 for those in conflict."""
    named = ", ".join(str(k) for k in np.flatnonzero(lam > 1e-7))
    return InfeasibleProblem(
        f"no allocation meets every constraint: the best one still misses some by {missed:.6g}; "
        f"constraints in conflict: {named}"
    )
