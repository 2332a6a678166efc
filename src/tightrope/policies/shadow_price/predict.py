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
_SEED = np.uint64(0)


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
def decide_known(disjoint: bool) -> tuple[Any, ...]:
    """`kernels.shadow.decide_known` by the number of dimensions of features, None where there is none."""

    def entry(features: Any) -> Any:
        return kernels.entry(
            shadow.decide_known, features, _IDS, _TABLE, _LINE, _LINE, _LINE, _LINE, _LINE, _SEED, _LINE
        )

    return (None, entry(_LINE) if disjoint else None, entry(_TABLE))


@cache
def decide_all(disjoint: bool, cost_disjoint: bool) -> tuple[Any, ...]:
    """`kernels.shadow.decide` by 3 · dimensions of φ + dimensions of ψ, None where there is none."""
    ways: list[Any] = [None] * 9
    for i, phi in enumerate((_LINE, _TABLE), start=1):
        for j, psi in enumerate((_LINE, _TABLE), start=1):
            if (i == 2 or disjoint) and (j == 2 or cost_disjoint):
                flats = (_LINE, _LINE, _LINE, _LINE)
                ways[3 * i + j] = kernels.entry(
                    shadow.decide, phi, psi, _IDS, _TABLE, *flats, _IDS, *flats, _SEED, _LINE
                )
    return tuple(ways)


@cache
def learn_reward() -> Any:
    """`kernels.shadow.learn_reward`."""
    return kernels.entry(shadow.learn_reward, 0, _LINE, 0.0, _LINE, _LINE, _LINE)


@cache
def learn_costs() -> Any:
    """`kernels.shadow.learn_costs`."""
    return kernels.entry(shadow.learn_costs, 0, _LINE, _LINE, _LINE, _LINE, _LINE)


@cache
def draw_remembered() -> Any:
    """`kernels.shadow.draw_remembered`."""
    rows, flats = (_LINE, 0, True), (_LINE, _LINE, _LINE, _LINE)
    rest = (_IDS, _LINE, _LINE, _LINE, 0, _SEED, 0.0, _LINE)
    return kernels.entry(shadow.draw_remembered, *rows, *rows, _IDS, _LINE, 0, *flats, *rest)
