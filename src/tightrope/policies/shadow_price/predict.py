"""What models say of the actions on offer, by compiled kernels where they have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.kernels import shadow
from tightrope.models import Model
from tightrope.policies.offer import rows_for_each
from tightrope.policies.shadow_price.memory import Remembered
from tightrope.policies.shadow_price.solve import PriceSolve
from tightrope.validation import Array

Ids = NDArray[np.int64]
_LINE = np.empty(0)


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
            seen: tuple[Array, Array] = model.seen(rows, ids)
            return seen
        J = len(ids)
        rows = rows_for_each(rows, J)
        means, sds = (np.asarray(one, dtype=float) for one in model.predictions(rows, ids))
        means = np.where(np.isnan(means), 0.0, means)
        known = np.isfinite(sds)
        # What was never seen is as uncertain as can be: ten times wider than all that is known.
        wide = 10.0 * (1.0 + np.abs(means).max() + np.where(known, sds, 0.0).max())
        return means, np.where(known, sds, wide)


def draw_sample(
    models: Predictions,
    columns: Ids,
    core: Array,
    solve: PriceSolve,
    entries: Sequence[Remembered],
    i: int,
    seed: np.uint64,
    room: Array,
) -> None:
    """Rounds of a solve's sample, from number i on, in one compiled call."""
    reward: Any = models.reward
    cost: Any = models.cost
    phi, phi_at = _one_after_the_other([entry.phi for entry in entries])
    psi, psi_at = _one_after_the_other([entry.psi for entry in entries])
    shadow.draw_sample(
        phi,
        phi_at,
        psi,
        psi_at,
        np.concatenate([entry.ids for entry in entries]),
        np.concatenate([entry.W for entry in entries]).reshape(-1),
        reward.flat,
        reward.spread,
        *((_LINE, _LINE) if cost is None else (cost.flat, cost.spread)),
        columns,
        core,
        solve.rewards,
        solve.costs,
        solve.offsets,
        solve.weights,
        i,
        len(entries),
        seed,
        solve.begun,
        solve.sums,
        room,
    )
    K = len(core[shadow.HEAD :]) // shadow.VECTORS
    costs = solve.costs.reshape(-1, K)
    for r, entry in enumerate(entries, start=i):
        if entry.force is not None and len(columns):
            # Of a rule that was not in force the cost is 0, which no draw changes.
            costs[solve.offsets[r] : solve.offsets[r + 1], columns[~entry.force[columns]]] = 0.0


def _one_after_the_other(rows: list[Array | None]) -> tuple[Array, Ids]:
    """Features in one line, and where each starts."""
    given = [one for one in rows if one is not None]
    if not given:
        return _LINE, np.zeros(len(rows) + 1, dtype=np.int64)
    ends = np.cumsum([one.size for one in given])
    return np.concatenate(given).reshape(-1), np.concatenate([[0], ends]).astype(np.int64)
