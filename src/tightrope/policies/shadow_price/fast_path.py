"""The fast path of the shadow-price policy."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.kernels import shadow, standardised
from tightrope.offer import OfferReader
from tightrope.policies.decision import Labels
from tightrope.policies.fast_path import IDS, LINE, SAID, TABLE, FastPath, Kernels
from tightrope.policies.pending import Pending, PendingDecisions
from tightrope.policies.shadow_price.beliefs import Beliefs
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory
from tightrope.policies.shadow_price.prices import Prices
from tightrope.validation import Array

_LAST = (np.uint64(0), LINE)


class ShadowPath(FastPath):
    """Rounds that enter the memory are put there."""

    before = Kernels(shadow.decide_known, kernels.decide_known_by_usage, (LINE, LINE), _LAST)
    after = Kernels(shadow.decide, kernels.decide_by_usage, (LINE, LINE, LINE, LINE, IDS, IDS), _LAST)
    remembers: ClassVar[bool] = True

    def __init__(
        self,
        beliefs: Beliefs,
        prices: Prices,
        memory: RoundMemory,
        pending: PendingDecisions,
        read: OfferReader,
        labels: Labels,
    ) -> None:
        reward: Any = beliefs.reward
        cost: Any = beliefs.cost
        late, q = len(prices.columns), 0 if cost is None else cost.n_features
        self.beliefs, self.memory, self.seed = beliefs, memory, prices.seed
        self.flats = (reward.flat, reward.spread, *(() if cost is None else (cost.flat, cost.spread)))
        models = self.flats if cost is None else (*self.flats, prices.columns)
        super().__init__(reward, cost, prices.core, read, pending, labels, models, q + late)
        width = max(reward.n_features, q + late) + 1
        self.room = np.empty(2 * width + 3 * late + 8 + int(standardised.predictions_room(width, late)))
        self.learn_reward, self.learns_by = _learn_reward(), (*self.flats[:2], self.core, self.room)
        self.outputs = np.arange(late)

    @staticmethod
    def fits(beliefs: Beliefs) -> bool:
        cost = beliefs.cost
        return beliefs.compiled and beliefs.reward.n_features > 0 and (cost is None or cost.n_features > 0)

    def trace_size(self, J: int) -> int:
        return int(shadow.trace_size(J, self.K))

    def last(self, J: int) -> tuple[Any, ...]:
        return self.seed, np.empty(self.beliefs.room_needed(J, self.K))

    def enter(
        self, row: int, ids: NDArray[np.int64], phi: Array, psi: Array | None, W: Array, force: Any
    ) -> int:
        # The fingerprint is known.
        memory, (slot, mark) = self.memory, self.core[shadow.SLOT : shadow.MARK + 1].tolist()
        phi = phi if phi.ndim == 2 else phi[None, :]
        psi = psi if psi is None or psi.ndim == 2 else psi[None, :]
        own = not memory.knows(mark)
        if own:
            phi, psi, W = phi.copy(), None if psi is None else psi.copy(), W.copy()
        memory.remember(int(slot), Remembered(ids, phi, psi, W, force), mark, own, decision=self.pending.made)
        return shadow.ENTERS - row

    def learn_outcome(
        self, said: tuple[Any, ...] | None, waiting: Pending, reward: float, costs: Any, unseen: Any
    ) -> int:
        _, action, x, z, *_ = waiting
        rest = (
            unseen,
            self.columns,
            self.core,
            *self.flats,
            self.outputs,
            self.alone,
            len(self.pending) == 1,
        )
        if said is None:
            return int(_learn_outcome()(action, x, z, reward, costs, *rest, self.room))
        return int(_learn_usage()(*said, self.w, action, x, z, reward, *rest, self.room))


# Compiled code, looked up once.

_REST = (IDS, IDS, LINE, LINE, LINE, LINE, LINE, IDS, IDS, False, LINE)


@cache
def _learn_reward() -> Any:
    return kernels.entry(shadow.learn_reward, 0, LINE, 0.0, LINE, LINE, LINE, LINE)


@cache
def _learn_outcome() -> Any:
    return kernels.entry(shadow.learn_outcome, 0, LINE, LINE, 0.0, LINE, *_REST)


@cache
def _learn_usage() -> Any:
    return kernels.entry(kernels.learn_outcome_by_usage, *SAID, TABLE, 0, LINE, LINE, 0.0, *_REST)
