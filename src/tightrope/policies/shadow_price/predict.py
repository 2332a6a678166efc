"""What models say of the actions on offer, by compiled kernels where they have them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.kernels import shadow
from tightrope.models import Model
from tightrope.policies.offer import rows_for_each
from tightrope.validation import Array

Ids = NDArray[np.int64]
_LINE, _TABLE, _IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)


class Predictions:
    """Means and standard deviations of rewards (J,) and of the costs that are seen after acting (J, M)."""

    def __init__(self, reward: Model, cost: Model | None) -> None:
        self.reward, self.cost = reward, cost

    def rewards(self, phi: Array | None, ids: Ids) -> tuple[Array, Array]:
        """Of the actions on offer."""
        means, sds = self._of(self.reward, phi, ids)
        return means[:, 0], sds[:, 0]

    def costs(self, psi: Array | None, ids: Ids) -> tuple[Array, Array]:
        """Of the actions on offer."""
        assert self.cost is not None
        return self._of(self.cost, psi, ids)

    def copy(self) -> Predictions:
        """One whose models may take note of what they are shown."""
        return Predictions(self.reward.copy(), None if self.cost is None else self.cost.copy())

    def _of(self, model: Any, rows: Array | None, ids: Ids) -> tuple[Array, Array]:
        if model.compiled == "standardised":
            return model.seen(rows, ids)
        J = len(ids)
        rows = rows_for_each(rows, J)
        means = np.asarray(model.means(rows, ids), dtype=float).reshape(J, -1)
        sds = np.asarray(model.deviations(rows, ids), dtype=float).reshape(J, -1)
        means = np.where(np.isnan(means), 0.0, means)
        known = np.isfinite(sds)
        # What was never seen is as uncertain as can be: ten times wider than all that is known.
        wide = 10.0 * (1.0 + np.abs(means).max() + np.where(known, sds, 0.0).max())
        return means, np.where(known, sds, wide)


@cache
def decide_entry(disjoint: bool) -> tuple[Any, ...]:
    """`kernels.shadow.decide` by the number of dimensions of features, None where there is none, for costs seen before acting."""

    def entry(features: Any) -> Any:
        return kernels.entry(
            shadow.decide, features, _LINE, _IDS, _TABLE, _LINE, _LINE, _LINE, _LINE, _IDS, _LINE, _LINE, _LINE, _LINE, np.uint64(0),
            _LINE,
        )  # fmt: skip

    return (None, entry(_LINE) if disjoint else None, entry(_TABLE))


@cache
def learn_entry() -> Any:
    """`kernels.shadow.learn_reward`."""
    return kernels.entry(shadow.learn_reward, 0, _LINE, 0.0, _LINE, _LINE, _LINE)
