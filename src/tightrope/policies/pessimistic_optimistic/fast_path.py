"""The fast path of the pessimistic-optimistic policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tightrope import kernels
from tightrope.models import hooks
from tightrope.offer import OfferReader
from tightrope.policies.decision import Decision, Labels
from tightrope.policies.fast_path import IDS, LINE, SAID, TABLE, FastPath, Kernels
from tightrope.policies.pending import AWAITS_REWARD, Pending, PendingDecisions
from tightrope.validation import Array


class RidgePath(FastPath):
    """For ridge models. `measure`, where δ is measured, takes note of the costs of a round."""

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
        models = (reward.flat,) if cost is None else (reward.flat, cost.flat, ranges, read.columns)
        kept = 0 if cost is None else cost.n_features
        super().__init__(reward, cost, core, read, pending, labels, models, kept, True, measure)
        self.learn_reward, self.learns_by = _learn_reward(), (reward.flat, core)
        self.cost_disjoint = cost is not None and cost.n_actions is not None

    @staticmethod
    def fits(reward: Any, cost: Any) -> bool:
        return hooks.compiled(reward) == "ridge" and (cost is None or hooks.compiled(cost) == "ridge")

    def trace_size(self, J: int) -> int:
        return int(kernels.trace_size(J, self.K))

    def decide_many(self, features: Array, costs: Array) -> list[Decision] | None:
        """Successive decisions in one compiled call."""
        n, J = features.shape[:2]
        self.open_for(J)
        if (offer := self.offers.get(J)) is None:
            return None
        ids, size, *_ = offer
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

    def learn_outcome(
        self, said: tuple[Any, ...] | None, waiting: Pending, reward: float, costs: Any, unseen: Any
    ) -> int:
        _, action, x, z, *_ = waiting
        g, h = action if self.disjoint else 0, action if self.cost_disjoint else 0
        if said is None:
            return int(_learn_outcome()(g, h, x, z, reward, costs, *self.models, self.core))
        given = (action, self.alone, self.w, g, h, x, z, reward)
        return int(_learn_usage()(*said, *given, *self.models, self.core))


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
