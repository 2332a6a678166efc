"""Ridge regression on features that describe actions by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.models.model import Ids, Normals, register
from tightrope.models.ridge_regression import RidgeRegression, require_rows_in_ball
from tightrope.validation import Array, real_array


@register("ridge")
class Ridge(RidgeRegression):
    """Ridge regression on features φ ∈ R^d shared by all actions, with the confidence radius of LinUCB.

    Parameters
    ----------
    n_features : int, optional
        d, the length of φ, with ‖φ‖ ≤ 1. By default the length of the first φ that its policy sees.
    bonus : float
        Multiplies the radius √β; 1 is the paper's.
    m : float
        Bound on ‖θ*‖.
    ridge : float
        λ in Σ = λI + Σ φφᵀ; at least 1e-8.
    n_outputs : int
        How many quantities are learnt from the same features. A policy sets it to the number of costs that it learns.
    half_life : float or str, optional
        How many outcomes until one counts half as much (`tightrope.kernels.forgetting`), or, in the service, a time such as "2h";
        None forgets nothing. The proofs for the paper's policy assume None.

    Examples
    --------
    >>> model = Ridge(2)
    >>> model.learn([1.0, 0.0], 1.0)
    >>> model.means([[1.0, 0.0], [0.0, 1.0]])
    array([0.5, 0. ])
    >>> model.widths([[1.0, 0.0], [0.0, 1.0]]).round(3)
    array([0.707, 1.   ])
    """

    def __init__(
        self,
        n_features: int | None = None,
        *,
        bonus: float = 1.0,
        m: float = 1.0,
        ridge: float = 1.0,
        n_outputs: int = 1,
        half_life: float | str | None = None,
    ) -> None:
        self._begin(bonus, m, ridge, n_outputs, half_life, n_features=n_features)

    def means(self, features: Any = None, actions: Any = None) -> Array:
        """⟨θ̂, φ⟩ for rows (J, d): (J,), or (J, n_outputs)."""
        return self._shaped(self._rows(features)[0] @ self.Theta[0].T)

    def sampled(self, features: Any, actions: Any, scale: float, normals: Normals) -> Array:
        """⟨θ̃, φ⟩ for one θ̃ ~ N(θ̂, scale² Σ⁻¹)."""
        values: Array = self._rows(features)[0] @ self._sampled_theta(0, scale, normals)
        return values

    def _rows(self, features: Any, actions: Any = None) -> tuple[Array, Ids]:
        rows = real_array("features", features, (None, self.n_features))
        require_rows_in_ball("features", rows)
        return rows, np.zeros(len(rows), dtype=np.int64)
