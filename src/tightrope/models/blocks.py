"""What models with a block of parameters for each action, or one for all, share; they read features in any unit."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.kernels import forgetting
from tightrope.models.model import Ids, Model, keep_entries, size
from tightrope.models.sizes import shared_or_each
from tightrope.validation import Array, finite_array


class BlockModel(Model):
    """Parameters for each action, or shared by all; 0 features if there are only arms. Its constructor takes both sizes first."""

    # All blocks, as kernels read them.
    flat: Array

    def _set_sizes(self, n_actions: Any, n_features: Any) -> bool:
        """Check and keep the sizes; whether they are known."""
        p = size("n_features", n_features, low=0)
        self.n_actions = size("n_actions", n_actions, low=1)
        if p == 0 and self.n_actions is None:
            said = "a model without features needs n_actions, because nothing else tells its outcomes apart."
            raise InvalidInput(said)
        return self._take_sizes(n_features=p)

    sized = classmethod(shared_or_each)

    def grow(self, n_actions: int) -> None:
        before = {name: array.copy() for name, array in self.arrays().items()}
        known = len(kernels.ridge_views(self.flat).Sigma)
        if not self._begin_anew_with(n_actions):
            return
        keep_entries(self._entries(before), self._entries(self.arrays()))
        if self.half_life is not None:
            ages = self._ages()
            ages[forgetting.BORN + known :] = ages[forgetting.TIME]

    def _entries(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The state as arrays that only grow in their first dimension when there are more actions."""
        return {**kernels.ridge_views(arrays.pop("flat"))._asdict(), **arrays}

    @abstractmethod
    def _ages(self) -> Array:
        """The ages of a model that forgets (`kernels.forgetting`), empty for one that does not."""

    def elapse(self, time: float) -> None:
        if self.half_life is not None:
            self._ages()[forgetting.TIME] += time

    def _shown_sizes(self) -> str:
        J, p = self.n_actions, self.n_features
        known = {"n_actions": J, "n_features": p}
        both = None not in known.values()
        return f"{J}, {p}" if both else ", ".join(f"{k}={n}" for k, n in known.items() if n is not None)

    def _rows_and_ids(self, features: Any, actions: Any) -> tuple[Array, Ids]:
        """Checked rows, one for each action or one for all, and the actions."""
        n = self.n_actions if actions is None else len(actions)
        rows = self._rows(features, n)
        if actions is None:
            return rows, np.arange(len(rows) if n is None else n)
        return rows, np.asarray(actions, dtype=np.int64)

    def _rows(self, features: Any, n: int | None) -> Array:
        p = self.n_features
        if not p:
            return np.empty((1, 0))
        shapes: list[tuple[int | None, ...]] = [(p,), (n if self.n_actions is not None else None, p)]
        return np.ascontiguousarray(np.atleast_2d(finite_array("features", features, *shapes)))


def faded(ages: Array, blocks: Ids) -> Array | float:
    """By how much everything learnt has faded since the blocks were last recomputed; 1 without ages."""
    if not ages.size:
        return 1.0
    born = ages[forgetting.BORN :][blocks]
    return np.asarray(np.exp(ages[forgetting.RATE] * (ages[forgetting.TIME] - born)))


def block_widths(flat: Array, rows: Array, blocks: Ids, ridge: float, ages: Array) -> Array:
    """‖x‖_{Σ⁻¹} of rows, each in its block; fading never makes a row more uncertain than if nothing had been learnt."""
    widths = np.empty(len(rows))
    scratch = np.empty(kernels.scratch_size(rows.shape[1]))
    kernels.ridge_widths(flat, rows.reshape(-1), 0, False, blocks, scratch, 0, widths, 0, 1)
    if not ages.size:
        return widths
    most = np.sqrt(np.einsum("np,np->n", rows, rows) / ridge)
    return np.asarray(np.minimum(widths * np.sqrt(faded(ages, blocks)), most))


def drawn_parameters(Sigma: Array, theta: Array, scale: float, normals: Array) -> Array:
    """θ̃ ~ N(θ̂, scale² Σ⁻¹): Σ = LLᵀ, so L⁻ᵀz has covariance Σ⁻¹."""
    L = np.linalg.cholesky(Sigma)
    drawn: Array = theta + scale * np.linalg.solve(L.T, normals)
    return drawn
