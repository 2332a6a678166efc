"""What ridge regression on features is made of, whether all actions share its parameters or each has its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.models.model import Ids, Model, checked_outcome, factor
from tightrope.models.standardised import standardised_like
from tightrope.validation import NORM_LIMIT, Array, finite_number, real_array, require_unit_rows, whole_number

SMALLEST_RIDGE = 1e-8


class Linear(Model):
    """Ridge regression in `blocks`, each with its Σ, Σ⁻¹, b and θ̂; all arrays are views of one, `flat`, which kernels read."""

    compiled: ClassVar[str | None] = "ridge"
    linear: ClassVar[bool] = True
    unit_features: ClassVar[bool] = True

    bonus: float
    m: float
    ridge: float
    flat: Array
    stat: Array
    Sigma: Array
    Sigma_inv: Array
    B: Array
    Theta: Array
    wear: Array

    def _start(self, blocks: int, n_features: Any, bonus: Any, m: Any, ridge: Any, n_outputs: Any) -> None:
        self.n_features = p = whole_number("n_features", n_features, low=1)
        self.n_outputs = M = whole_number("n_outputs", n_outputs)
        self.bonus = factor("bonus", bonus)
        self.m = factor("m", m)
        self.ridge = finite_number("ridge", ridge, low=SMALLEST_RIDGE)
        self.flat = kernels.new_ridge(blocks, p, M)
        views = kernels.ridge_views(self.flat)
        self.stat, self.Theta, self.Sigma_inv, self.Sigma, self.B, self.wear = views
        self.stat[:] = 0.0, self.bonus, self.m, self.ridge, self.dimension
        self.Sigma[:] = self.ridge * np.eye(p)
        self.Sigma_inv[:] = np.eye(p) / self.ridge

    @property
    def n_learnt(self) -> int:
        """Outcomes learnt so far, over all actions."""
        return int(self.stat[kernels.LEARNT])

    def standardised(self, n_outputs: int, *, centred: bool, prior: Any) -> Model:
        """`Standardised` of the same size: `bonus`, `m` and `ridge` are of the paper's radius, and have no part in it."""
        return standardised_like(self, n_outputs, centred, prior)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state, by name: the arrays themselves, not copies."""
        return {name: getattr(self, name) for name in ("stat", "Sigma", "Sigma_inv", "B", "Theta", "wear")}

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        """½‖φ‖_{Σ⁻¹}: the noise of an outcome in [0, 1] has at most a standard deviation of ½."""
        return 0.5 * self.widths(features, actions)

    def radius(self, horizon: float) -> float:
        """bonus · √β for a confidence of 1 − 1/horizon, of all dimensions together."""
        T = finite_number("horizon", horizon, low=1.0)
        return float(
            self.bonus
            * kernels.confidence_radius(
                self.stat[kernels.LEARNT], float(self.dimension), T, self.m, self.ridge
            )
        )

    def _learn(self, block: int, features: Any, outcome: Any) -> None:
        x = real_array("features", features, (self.n_features,))
        require_rows_in_ball("features", x[None, :])
        y = checked_outcome(outcome, self.n_outputs)
        if kernels.ridge_learn(self.flat, block, x, 0, y, 0, np.empty_like(x), 0):
            self.refresh(block)

    def of_sum(self, z: Array) -> tuple[float, float]:
        """⟨θ̂, z⟩ and ‖z‖_{Σ⁻¹} for features that were added up, by block (blocks, p)."""
        squares = float((self._widths(z, np.arange(len(z))) ** 2).sum())
        return float(np.einsum("gp,gp->", self.Theta[:, 0], z)), math.sqrt(squares)

    def refresh(self, block: int) -> None:
        """Σ⁻¹ and θ̂ of a block afresh from Σ and b, as compiled code asks for from time to time."""
        kernels.ridge_refresh(self.flat, block, np.empty(2 * self.n_features**2))

    def _widths(self, rows: Array, blocks: Ids) -> Array:
        widths = np.empty(len(rows))
        scratch = np.empty(kernels.scratch_size(self.n_features))
        kernels.ridge_widths(self.flat, rows.reshape(-1), 0, False, blocks, scratch, 0, widths, 0, 1)
        return widths

    def _sampled_theta(self, block: int, scale: float, normals: Callable[[int, int], Array]) -> Array:
        # Σ = LLᵀ, so L⁻ᵀz has covariance Σ⁻¹.
        p = self.n_features
        L = np.linalg.cholesky(self.Sigma[block])
        theta: Array = self.Theta[block, 0] + scale * np.linalg.solve(L.T, normals(p, block * p))
        return theta


def require_rows_in_ball(name: str, rows: Array) -> None:
    """Refuse a row whose norm is above 1, naming it."""
    # The kernel's sums may round the other way than NumPy's: its verdict counts, the lower limit only names the row.
    if not kernels.rows_are_valid(rows):
        require_unit_rows(name, rows, NORM_LIMIT - 1e-12)
