"""Decisions among many fixed actions, or under many constraints: the same choice as the full computation, for far less work."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.errors import InvalidInput
from tightrope.models.ridge_regression import require_rows_in_ball
from tightrope.validation import COST_LIMIT, NORM_LIMIT, Array, is_plain, real_array, require_range

Ids = NDArray[np.int64]


class Scores:
    """For one catalogue: upper bounds of the widths, kept between rounds, and room for penalties, rewards and values."""

    def __init__(self, bounds: Array) -> None:
        self.table = np.zeros((4, len(bounds)))
        self.table[0] = bounds
        self.exact = np.zeros(len(bounds), dtype=np.bool_)


class LazyChoices:
    """Choices by `kernels.lazy_choice`, for a `Ridge` reward model and costs that are seen before acting."""

    def __init__(self, model: Any, K: int) -> None:
        self.model, self.K = model, K
        self._scores: WeakKeyDictionary[Catalogue, Scores] = WeakKeyDictionary()
        self._last: tuple[Catalogue | None, Scores | None] = (None, None)

    def choose(
        self, features: Any, costs: Any, core: Array
    ) -> tuple[int, Array, Ids, Array | Callable[[], Array], Array | None]:
        """The row, its φ, the rows to show in an explanation, their numbers, and dense costs; moves the queue in `core`."""
        model, K = self.model, self.K
        if isinstance(features, Catalogue):
            phi, columns = features.features, features.columns
            scores = self._scores_of(features)
        else:
            phi, columns = real_array("features", features, (None, model.n_features)), np.empty((0, 0))
            require_rows_in_ball("features", phi)
            if not len(phi):
                raise InvalidInput("at least one action must be on offer, but features has no row.")
            scores = Scores(np.full(len(phi), math.sqrt(NORM_LIMIT / model.ridge)))
        shown = np.empty(kernels.SHOWN, dtype=np.int64)
        if isinstance(costs, SparseCosts):
            row, n, behind = self._choose_sparsely(phi, columns, costs, scores, shown, core)
            return row, phi[row].copy(), shown[:n], behind, None
        if is_plain(costs) and costs.ndim == 2:
            W = costs
        elif costs is None and not K:
            W = np.empty((len(phi), 0))
        else:
            W = real_array("costs", costs, (len(phi), K))
        trace = np.empty(kernels.trace_size(kernels.SHOWN, K))
        row, n = kernels.decide_lazily(
            phi, columns, W, model.flat, core, scores.table, scores.exact, shown, trace
        )
        if row < 0:
            real_array("costs", W, (len(phi), K))
            require_range("costs", W, -COST_LIMIT, COST_LIMIT)
        return row, phi[row].copy(), shown[:n], trace[: kernels.trace_size(n, K)], W

    def _scores_of(self, catalogue: Catalogue) -> Scores:
        last, scores = self._last
        if catalogue is last and scores is not None:
            return scores
        model = self.model
        if catalogue.features.shape[1] != model.n_features:
            raise InvalidInput(
                f"the catalogue must have {model.n_features} features, but has {catalogue.features.shape[1]}."
            )
        scores = self._scores.get(catalogue)
        if scores is None:
            scores = self._scores[catalogue] = Scores(catalogue.norms / math.sqrt(model.ridge))
        self._last = (catalogue, scores)
        return scores

    def _choose_sparsely(
        self, phi: Array, columns: Array, costs: SparseCosts, scores: Scores, shown: Ids, core: Array
    ) -> tuple[int, int, Callable[[], Array]]:
        K = self.K
        if costs.shape != (len(phi), K):
            raise InvalidInput(field="costs", must=f"have shape ({len(phi)}, {K})", got=costs.shape)
        before, numbers = np.empty(K), np.empty(kernels.trace_size(kernels.SHOWN, 0))
        row, n = kernels.decide_sparsely(
            phi,
            columns,
            costs.offsets,
            costs.indices,
            costs.data,
            costs.limits,
            self.model.flat,
            core,
            scores.table,
            scores.exact,
            shown,
            numbers,
            before,
            np.empty(2 * costs.most_entries),
        )
        return row, n, partial(_sparse_trace, costs, shown[:n], numbers[: kernels.trace_size(n, 0)], before)


def _sparse_trace(costs: SparseCosts, rows: Ids, numbers: Array, Q: Array) -> Array:
    """The numbers behind a decision with sparse costs, made dense only when they are asked for."""
    seen = kernels.trace_views(numbers, len(rows))
    W = (costs.row(j) for j in rows.tolist())
    return np.concatenate([seen.rewards, seen.values, *W, Q, [seen.V, seen.epsilon]])
