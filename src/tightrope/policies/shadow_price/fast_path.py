"""The fast path of the shadow-price policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.kernels import shadow, shadow_learning, shadow_trace, standardised
from tightrope.offer import OfferReader
from tightrope.policies.decision import Labels
from tightrope.policies.fast_path import IDS, LINE, SAID, TABLE, FastPath, Kernels
from tightrope.policies.pending import PendingDecisions
from tightrope.policies.shadow_price.beliefs import Beliefs
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory
from tightrope.policies.shadow_price.prices import Prices
from tightrope.validation import Array

_LAST = (np.uint64(0), LINE)


class ShadowPath(FastPath):
    """Rounds that enter the memory are put there. `changed` is called when the world is found to have changed."""

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
        changed: Callable[[], None],
    ) -> None:
        reward: Any = beliefs.reward
        cost: Any = beliefs.cost
        late, q = len(prices.columns), 0 if cost is None else cost.n_features
        super().__init__(reward, cost, prices.core, read, pending, labels, q + late)
        self.beliefs, self.memory, self.seed, self.changed = beliefs, memory, prices.seed, changed
        self._bind_learning(max(reward.n_features, q + late) + 1)

    @staticmethod
    def fits(beliefs: Beliefs) -> bool:
        cost = beliefs.cost
        return beliefs.compiled and beliefs.reward.n_features > 0 and (cost is None or cost.n_features > 0)

    def trace_size(self, J: int) -> int:
        return int(shadow_trace.trace_size(J, self.K))

    def bind_before(self, ids: NDArray[np.int64], decide: Any, by_usage: Any) -> tuple[Any, Any]:
        flat, spread, core, seed, room = *_flat(self.reward), self.core, self.seed, self._room(len(ids))

        def on_costs(phi: Any, W: Any, trace: Any, x: Any) -> Any:
            return decide(phi, ids, W, flat, spread, core, trace, x, seed, room)

        def on_usage(said: Any, phi: Any, W: Any, trace: Any, x: Any) -> Any:
            values, base, ranges, counted = said
            return by_usage(
                values, base, ranges, counted, phi, ids, W, flat, spread, core, trace, x, seed, room
            )

        return on_costs, on_usage

    def bind_after(self, ids: NDArray[np.int64], decide: Any, by_usage: Any) -> tuple[Any, Any]:
        flat, spread, cost, cost_spread = *_flat(self.reward), *_flat(self.cost)
        columns, core, seed, room = self.columns, self.core, self.seed, self._room(len(ids))

        def on_costs(phi: Any, psi: Any, W: Any, idle: Any, trace: Any, x: Any, z: Any) -> Any:
            return decide(
                phi,
                psi,
                ids,
                W,
                flat,
                spread,
                cost,
                cost_spread,
                columns,
                idle,
                core,
                trace,
                x,
                z,
                seed,
                room,
            )

        def on_usage(said: Any, phi: Any, psi: Any, W: Any, idle: Any, trace: Any, x: Any, z: Any) -> Any:
            values, base, ranges, counted = said
            return by_usage(
                values, base, ranges, counted, phi, psi, ids, W, flat, spread, cost, cost_spread, columns, idle, core, trace, x, z,
                seed, room
            )  # fmt: skip

        return on_costs, on_usage

    def _bind_learning(self, width: int) -> None:
        flat, spread, core, columns, pending = *_flat(self.reward), self.core, self.columns, self.pending
        late, reward_code = len(columns), _learn_reward()
        room = np.empty(2 * width + 3 * late + 8 + int(standardised.predictions_room(width, late)))
        self.learn_reward = lambda _, x, reward: reward_code(0, x, reward, flat, spread, core, room)
        if self.disjoint:
            self.learn_reward = lambda g, x, reward: reward_code(g, x, reward, flat, spread, core, room)
        if self.cost is None:
            return
        outcome_code: Any = _learn_outcome()
        usage_code: Any = None if self.rule_costs is None else _learn_usage()
        cost, cost_spread, outputs = *_flat(self.cost), np.arange(late)
        alone, w = np.zeros(1, dtype=np.int64), np.empty((1, late))

        def learn_costs(action: int, x: Any, z: Any, reward: float, costs: Any, unseen: Any) -> Any:
            last = len(pending) == 1
            return outcome_code(
                action, x, z, reward, costs, unseen, columns, core, flat, spread, cost, cost_spread, outputs, alone, last, room
            )  # fmt: skip

        def learn_usage(said: Any, action: int, x: Any, z: Any, reward: float, unseen: Any) -> Any:
            values, base, ranges, counted = said
            last = len(pending) == 1
            return usage_code(
                values, base, ranges, counted, w, action, x, z, reward, unseen, columns, core, flat, spread, cost, cost_spread,
                outputs, alone, last, room
            )  # fmt: skip

        self.learn_costs, self.learn_usage = learn_costs, learn_usage

    def _refresh(self, action: int, due: int) -> None:
        for model, part in ((self.reward, 1), (self.cost, 2)):
            if due & part:
                block = action if model.n_actions is not None else 0
                scratch = np.empty(2 * (model.n_features + 1) ** 2)
                if shadow_learning.refresh(block, model.flat, model.spread, self.core, scratch):
                    self.changed()

    def _room(self, J: int) -> Array:
        return np.empty(self.beliefs.room_needed(J, self.K))

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


def _flat(model: Any) -> tuple[Array, Array]:
    return model.flat, model.spread


# Compiled code, looked up once.

_REST = (IDS, IDS, LINE, LINE, LINE, LINE, LINE, IDS, IDS, False, LINE)


@cache
def _learn_reward() -> Any:
    return kernels.entry(shadow_learning.learn_reward, 0, LINE, 0.0, LINE, LINE, LINE, LINE)


@cache
def _learn_outcome() -> Any:
    return kernels.entry(shadow_learning.learn_outcome, 0, LINE, LINE, 0.0, LINE, *_REST)


@cache
def _learn_usage() -> Any:
    return kernels.entry(kernels.learn_outcome_by_usage, *SAID, TABLE, 0, LINE, LINE, 0.0, *_REST)
