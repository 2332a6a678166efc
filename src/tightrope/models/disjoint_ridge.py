"""One ridge regression for each action."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.models.model import Ids, Normals, register
from tightrope.models.ridge_regression import RidgeRegression, require_rows_in_ball
from tightrope.validation import Array, real_array


@register("disjoint-ridge")
class DisjointRidge(RidgeRegression):
    """One ridge regression for each action on a context vector x ∈ R^p: `Ridge(n_actions * n_features)` on φ = e_j ⊗ x.

    The confidence radius is that of all n_actions · n_features dimensions, so the two agree in every number, at 1/J of the cost or
    less.

    Parameters
    ----------
    n_actions : int, optional
        J: ids run from 0 to J − 1. By default as many as the policy has.
    n_features : int, optional
        p, the length of x, with ‖x‖ ≤ 1. By default the length of the first context that its policy sees.
    bonus, m, ridge, n_outputs, half_life
        As for `Ridge`; a half-life is counted in outcomes of all actions together.

    Examples
    --------
    >>> model = DisjointRidge(3, 2)
    >>> model.learn([1.0, 0.0], 1.0, action=2)
    >>> model.means([1.0, 0.0])
    array([0. , 0. , 0.5])
    """

    n_actions: int

    def __init__(
        self,
        n_actions: int | None = None,
        n_features: int | None = None,
        *,
        bonus: float = 1.0,
        m: float = 1.0,
        ridge: float = 1.0,
        n_outputs: int = 1,
        half_life: float | str | None = None,
    ) -> None:
        self._begin(bonus, m, ridge, n_outputs, half_life, n_actions=n_actions, n_features=n_features)

    def means(self, features: Any = None, actions: Any = None) -> Array:
        """⟨θ̂_j, x⟩ for one x (p,) or a row for each action (J, p): (J,), or (J, n_outputs)."""
        rows, ids = self._rows(features, actions)
        Theta = self.Theta if actions is None else self.Theta[ids]
        return self._shaped(np.einsum("jmp,jp->jm", Theta, rows))

    def sampled(self, features: Any, actions: Any, scale: float, normals: Normals) -> Array:
        """⟨θ̃_j, x⟩ for θ̃_j ~ N(θ̂_j, scale² Σ_j⁻¹)."""
        rows, ids = self._rows(features, actions)
        return np.array([row @ self._sampled_theta(g, scale, normals) for g, row in zip(ids.tolist(), rows)])

    def _rows(self, features: Any, actions: Any) -> tuple[Array, Ids]:
        ids = np.arange(len(self.Sigma)) if actions is None else np.asarray(actions, dtype=np.int64)
        x = real_array("features", features, (self.n_features,), (len(ids), self.n_features))
        require_rows_in_ball("features", np.atleast_2d(x))
        rows = x if x.ndim == 2 else np.array(np.broadcast_to(x, (len(ids), self.n_features)), order="C")
        return rows, ids
