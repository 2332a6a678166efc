"""The fast path of the pessimistic-optimistic policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.models import hooks
from tightrope.offer import OfferReader
from tightrope.policies.decision import Decision, Labels
from tightrope.policies.fast_path import IDS, LINE, SAID, TABLE, FastPath, Kernels
from tightrope.policies.pending import AWAITS_REWARD, PendingDecisions
from tightrope.validation import Array


class RidgePath(FastPath):
    """For ridge models. `measure` notes the costs of a round, if δ is measured."""

    before = Kernels(kernels.decide_ridge, kernels.decide_ridge_by_usage, (LINE,))
    after = Kernels(
        kernels.decide_with_learnt_costs,
        kernels.decide_with_learnt_costs_by_usage,
        (LINE, LINE, TABLE, IDS, IDS),
    )

    def __init__(
        self,
        reward: Any,
        cost: Any,
        core: Array,
        ranges: Array,
        pending: PendingDecisions,
        read: OfferReader,
        labels: Labels,
        measure: Callable[[Array, int], None] | None,
    ) -> None:
        kept = 0 if cost is None else cost.n_features
        super().__init__(reward, cost, core, read, pending, labels, kept, True, measure)
        self.ranges = ranges
        self._bind_learning()

    @staticmethod
    def fits(reward: Any, cost: Any) -> bool:
        return hooks.compiled(reward) == "ridge" and (cost is None or hooks.compiled(cost) == "ridge")

    def trace_size(self, J: int) -> int:
        return int(kernels.trace_size(J, self.K))

    def bind_before(self, ids: NDArray[np.int64], decide: Any, by_usage: Any) -> tuple[Any, Any]:
        flat, core = self.reward.flat, self.core

        def on_usage(said: Any, phi: Array, W: Array, trace: Array, x: Array) -> Any:
            values, base, ranges, counted = said
            return by_usage(values, base, ranges, counted, phi, ids, W, flat, core, trace, x)

        return lambda phi, W, trace, x: decide(phi, ids, W, flat, core, trace, x), on_usage

    def bind_after(self, ids: NDArray[np.int64], decide: Any, by_usage: Any) -> tuple[Any, Any]:
        flat, cost, core = self.reward.flat, self.cost.flat, self.core
        limits, columns = self.ranges, self.columns

        def on_costs(phi: Any, psi: Any, W: Any, idle: Any, trace: Any, x: Any, z: Any) -> Any:
            return decide(phi, psi, ids, W, flat, cost, limits, columns, idle, core, trace, x, z)

        def on_usage(said: Any, phi: Any, psi: Any, W: Any, idle: Any, trace: Any, x: Any, z: Any) -> Any:
            values, base, ranges, counted = said
            return by_usage(
                values, base, ranges, counted, phi, psi, ids, W, flat, cost, limits, columns, idle, core, trace, x, z
            )  # fmt: skip

        return on_costs, on_usage

    def _bind_learning(self) -> None:
        flat, core, reward_code = self.reward.flat, self.core, _learn_reward()
        self.learn_reward = lambda _, x, reward: reward_code(0, x, reward, flat, core)
        if self.disjoint:
            self.learn_reward = lambda action, x, reward: reward_code(action, x, reward, flat, core)
        if self.cost is None:
            return
        outcome_code: Any = _learn_outcome()
        usage_code: Any = None if self.rule_costs is None else _learn_usage()
        cost, limits, columns = self.cost.flat, self.ranges, self.columns
        disjoint, cost_disjoint = self.disjoint, self.cost.n_actions is not None
        alone, w = np.zeros(1, dtype=np.int64), np.empty((1, len(columns)))

        def learn_costs(action: int, x: Any, z: Any, reward: float, costs: Any, unseen: Any) -> Any:
            g, h = action if disjoint else 0, action if cost_disjoint else 0
            return outcome_code(g, h, x, z, reward, costs, flat, cost, limits, columns, core)

        def learn_usage(said: Any, action: int, x: Any, z: Any, reward: float, unseen: Any) -> Any:
            values, base, ranges, counted = said
            g, h = action if disjoint else 0, action if cost_disjoint else 0
            return usage_code(
                values, base, ranges, counted, action, alone, w, g, h, x, z, reward, flat, cost, limits, columns, core
            )  # fmt: skip

        self.learn_costs, self.learn_usage = learn_costs, learn_usage

    def decide_many(self, features: Array, costs: Array) -> list[Decision] | None:
        """Successive decisions in one compiled call."""
        n, J = features.shape[:2]
        self.open_for(J)
        if (offer := self.offers.get(features.shape[1:])) is None:
            return None
        _, _, ids, size, *_ = offer
        traces, rows = np.empty((n, size)), np.empty(n, dtype=np.int64)
        if not kernels.decide_many_ridge(features, ids, costs, self.reward.flat, self.core, traces, rows):
            return None
        pending, labels, chosen = self.pending, self.labels, rows.tolist()
        version = pending.version
        numbers = [pending.add(AWAITS_REWARD, row, x) for row, x in zip(chosen, features[np.arange(n), rows])]
        return [
            Decision(row, row, number, pending.owner, version + i, ids, trace, labels, None, True)
            for i, (number, row, trace) in enumerate(zip(numbers, chosen, traces))
        ]


# Compiled code, looked up once.

_OUTCOME = (0, 0, LINE, LINE, 0.0)
_MODELS = (LINE, LINE, TABLE, IDS, LINE)


@cache
def _learn_reward() -> Any:
    return kernels.entry(kernels.learn_reward, 0, LINE, 0.0, LINE, LINE)


@cache
def _learn_outcome() -> Any:
    return kernels.entry(kernels.learn_reward_and_costs, *_OUTCOME, LINE, *_MODELS)


@cache
def _learn_usage() -> Any:
    given = (*SAID, 0, IDS, TABLE, *_OUTCOME, *_MODELS)
    return kernels.entry(kernels.learn_reward_and_costs_by_usage, *given)
