"""Ridge regression on features, whether all actions share its parameters or each has its own."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.kernels import forgetting
from tightrope.models import hooks
from tightrope.models.blocks import block_widths, drawn_parameters, faded
from tightrope.models.hooks import dimension
from tightrope.models.model import Ids, Model, Normals, checked_outcome, known_action, size
from tightrope.models.standardised import standardised_like
from tightrope.validation import NORM_LIMIT, Array, finite_number, real_array, require_unit_rows, whole_number

SMALLEST_RIDGE = 1e-8


class RidgeRegression(Model):
    """Ridge regression in `blocks`, each with its Σ, Σ⁻¹, b and θ̂; all arrays are views of one, `flat`, which kernels read."""

    # A model that forgets has no kernels.
    compiled: str | None = "ridge"
    unit_features: ClassVar[bool] = True

    def _begin(self, bonus: Any, m: Any, ridge: Any, n_outputs: Any, half_life: Any, **sizes: Any) -> None:
        self.n_outputs = whole_number("n_outputs", n_outputs)
        self.bonus = finite_number("bonus", bonus, low=0.0)
        self.m = finite_number("m", m, low=0.0)
        self.ridge = finite_number("ridge", ridge, low=SMALLEST_RIDGE)
        self._take_half_life(half_life)
        if self._fades is not None:
            self.compiled = None
        if not self._take_sizes(**{name: size(name, one, low=1) for name, one in sizes.items()}):
            return
        p, blocks = self.n_features, self.n_actions or 1
        self.flat = kernels.new_ridge(blocks, p, self.n_outputs)
        views = kernels.ridge_views(self.flat)
        self.stat, self.Theta, self.Sigma_inv, self.Sigma, self.B, self.wear = views
        self.stat[:] = 0.0, self.bonus, self.m, self.ridge, dimension(self)
        self.Sigma[:] = self.ridge * np.eye(p)
        self.Sigma_inv[:] = np.eye(p) / self.ridge
        self.ages = np.empty(0) if self._fades is None else forgetting.new_ages(*self._fades, blocks, p)

    @property
    def sigma(self) -> Array:
        """Σ = λI + Σ φφᵀ, (d, d), or its blocks by action, (J, p, p); a copy."""
        blocks: Array = self.Sigma / self._faded_blocks()
        return blocks if self.n_actions is not None else blocks[0]

    @property
    def sigma_inverse(self) -> Array:
        """Σ⁻¹ as it is used, (d, d), or its blocks by action, (J, p, p); a copy."""
        blocks: Array = self.Sigma_inv * self._faded_blocks()
        return blocks if self.n_actions is not None else blocks[0]

    @property
    def theta(self) -> Array:
        """θ̂, (d,) or (n_outputs, d); by action (J, p) or (J, n_outputs, p)."""
        theta: Array = self.Theta[:, 0] if self.n_outputs == 1 else self.Theta
        return (theta if self.n_actions is not None else theta[0]).copy()

    @property
    def n_learnt(self) -> int:
        return int(self.stat[kernels.LEARNT])

    def standardised(self, n_outputs: int, *, centred: bool, prior: Any) -> Model:
        """`Standardised` of the same size: `bonus`, `m` and `ridge` are of the paper's radius, and have no part in it."""
        return standardised_like(self, n_outputs, centred, prior)

    def arrays(self) -> dict[str, NDArray[Any]]:
        names = ("stat", "Sigma", "Sigma_inv", "B", "Theta", "wear", "ages")
        return {name: getattr(self, name) for name in names if name != "ages" or self.half_life is not None}

    def grow(self, n_actions: int) -> None:
        """Extend to `n_actions` actions; the radius becomes that of all their dimensions, and the age of new ones starts now."""
        known = len(self.Sigma)
        Model.grow(self, n_actions)
        self.stat[-1] = dimension(self)
        if self._fades is not None:
            self.ages[forgetting.BORN + known :] = self.ages[forgetting.TIME]

    def correct(self, features: Any, was: Array, now: Array, action: int, decision: int) -> hooks.Corrected:
        """Move b by φ(y′ − y); Σ does not depend on outcomes. A model that forgets keeps what it has learnt."""
        if self.half_life is not None:
            return "not"
        block = 0 if self.n_actions is None else action
        self.B[block] += np.outer(now - was, features)
        self.refresh(block)
        return "exactly"

    def resemble(self, action: int, like: int) -> None:
        """Expect of an action what is expected of another, as if a part of that one's outcomes had been its own."""
        if self.n_actions is None:
            return
        eye = self.ridge * np.eye(self.n_features)
        sums = self.Sigma[like] - eye
        # Σ says how long rows were, not how many: ‖φ‖ ≤ 1, so there were at least tr(Σ − λI).
        self.Sigma[action] = eye + hooks.part_alike(float(np.trace(sums)), self.n_features) * sums
        self.B[action] = self.Theta[like] @ self.Sigma[action]
        if self._fades is not None:
            self.ages[forgetting.BORN + action] = self.ages[forgetting.BORN + like]
        kernels.ridge_refresh(self.flat, action, np.empty(2 * self.n_features**2))

    @abstractmethod
    def _rows(self, features: Any, actions: Any) -> tuple[Array, Ids]:
        """Checked rows, and the block of each."""

    def widths(self, features: Any = None, actions: Any = None) -> Array:
        """‖φ‖_{Σ⁻¹} of each row, without the radius."""
        return self._widths(*self._rows(features, actions))

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        """½‖φ‖_{Σ⁻¹}: the noise of an outcome in [0, 1] has at most a standard deviation of ½."""
        return 0.5 * self.widths(features, actions)

    def radius(self, horizon: float) -> float:
        """bonus · √β for a confidence of 1 − 1/horizon, of all dimensions together."""
        T = finite_number("horizon", horizon, low=1.0)
        root_beta = kernels.confidence_radius(self._counted(), float(dimension(self)), T, self.m, self.ridge)
        return float(self.bonus * root_beta)

    def never_learnt(self) -> NDArray[np.bool_] | None:
        """For each action whether Σ_j is still λI; None if all share one."""
        if self.n_actions is None:
            return None
        return np.asarray(np.trace(self.Sigma, axis1=1, axis2=2) <= self.ridge * self.n_features)

    def least_optimism(self, radius: float) -> float | None:
        """The least ⟨θ̂_j, x⟩ + radius · ‖x‖_{Σ_j⁻¹} of the actions that were learnt of, root mean squares over what was learnt.

        Over n_j outcomes Σ xᵀΣ_j⁻¹x = p − λ tr Σ_j⁻¹, and Σ⟨θ̂_j, x⟩² = θ̂_jᵀ(Σ_j − λI)θ̂_j; n_j comes from tr Σ_j, as if all x were
        equally long. Where all actions share one θ̂ others than those chosen may have lower means: these are left out.
        """
        if self.half_life is not None:
            return None
        lengths = np.trace(self.Sigma, axis1=1, axis2=2) - self.ridge * self.n_features
        seen = lengths > 0.0
        if not seen.any():
            return None
        n = lengths[seen] * self.n_learnt / lengths.sum()
        left = self.n_features - self.ridge * np.trace(self.Sigma_inv[seen], axis1=1, axis2=2)
        optimism = radius * np.sqrt(np.maximum(0.0, left) / n)
        if self.n_actions is not None:
            theta = self.Theta[seen, 0]
            squares = np.einsum("gp,gpq,gq->g", theta, self.Sigma[seen], theta, optimize=True)
            optimism += np.sqrt(np.maximum(0.0, squares - self.ridge * (theta**2).sum(axis=1)) / n)
        return float(optimism.min())

    def least_norm(self, horizon: float) -> Array | None:
        """max over some u, ‖u‖ = 1, of ⟨u, θ̂⟩ − √β‖u‖_{Σ⁻¹} by output: no θ* with ‖θ*‖ ≤ m is shorter, as the paper's sets go."""
        if self.half_life is not None:
            return None
        root_beta = kernels.confidence_radius(
            self.stat[kernels.LEARNT], float(dimension(self)), horizon, self.m, self.ridge
        )
        Theta = self.Theta.transpose(1, 0, 2)
        least = np.zeros(self.n_outputs)
        # θ̂ itself, and θ̂ weighed by what is known of each direction.
        for U in (Theta, np.einsum("gpq,mgq->mgp", self.Sigma, Theta)):
            norms = np.sqrt(np.einsum("mgp,mgp->m", U, U))
            along = np.einsum("mgp,mgp->m", U, Theta)
            squares = np.einsum("mgp,gpq,mgq->m", U, self.Sigma_inv, U, optimize=True)
            widths = np.sqrt(np.maximum(0.0, squares))
            with np.errstate(invalid="ignore", divide="ignore"):
                least = np.fmax(least, (along - root_beta * widths) / norms)
        return least

    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        block = 0 if self.n_actions is None else known_action(action, self.n_actions)
        x = real_array("features", features, (self.n_features,))
        require_rows_in_ball("features", x[None, :])
        y = checked_outcome(outcome, self.n_outputs)
        if self.half_life is not None:
            forgetting.note_outcome(self.ages, 0)
            root = math.sqrt(forgetting.weight(self.ages, 0, block))
            x, y = root * x, root * y
        worn = kernels.ridge_learn(self.flat, block, x, 0, y, 0, np.empty_like(x), 0)
        if worn or self.half_life is not None:
            self.refresh(block)

    def elapse(self, time: float) -> None:
        if self.half_life is not None:
            self.ages[forgetting.TIME] += time

    def of_sum(self, z: Array) -> tuple[float, float]:
        """⟨θ̂, z⟩ and ‖z‖_{Σ⁻¹} for features that were added up, by block (blocks, p)."""
        squares = float((self._widths(z, np.arange(len(z))) ** 2).sum())
        return float(np.einsum("gp,gp->", self.Theta[:, 0], z)), math.sqrt(squares)

    def refresh(self, block: int) -> None:
        """Σ⁻¹ and θ̂ of a block afresh from Σ and b, as compiled code asks for from time to time; what is due, if it forgets."""
        scratch = np.empty(2 * self.n_features**2)
        if self.half_life is None:
            kernels.ridge_refresh(self.flat, block, scratch)
        else:
            forgetting.renew_those_due(self.flat, self.ages, 0, block, self.ridge, scratch)

    def _counted(self) -> float:
        """How many outcomes there are, each by its weight."""
        n = float(self.stat[kernels.LEARNT])
        if self.half_life is None:
            return n
        rate = self.ages[forgetting.RATE]
        return math.expm1(-rate * n) / math.expm1(-rate)

    def _faded_blocks(self) -> Array | float:
        w = faded(self.ages, np.arange(len(self.Sigma)))
        return w if isinstance(w, float) else w[:, None, None]

    def _widths(self, rows: Array, blocks: Ids) -> Array:
        return block_widths(self.flat, rows, blocks, self.ridge, self.ages)

    def _sampled_theta(self, block: int, scale: float, normals: Normals) -> Array:
        p, Sigma = self.n_features, self.Sigma[block] / faded(self.ages, np.array([block]))
        return drawn_parameters(Sigma, self.Theta[block, 0], scale, normals(p, block * p))

    def __repr__(self) -> str:
        return self._shown(bonus=self.bonus, m=self.m, ridge=self.ridge)


def require_rows_in_ball(name: str, rows: Array) -> None:
    # The kernel's sums may round the other way than NumPy's: its verdict counts, the lower limit only names the row.
    if not kernels.rows_are_valid(rows):
        require_unit_rows(name, rows, NORM_LIMIT - 1e-12)
