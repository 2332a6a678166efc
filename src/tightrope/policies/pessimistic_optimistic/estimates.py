"""Optimism about rewards and costs: r̂ and W̌ of the actions on offer, by compiled kernels if a model has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.models import Model, hooks
from tightrope.offer import Offer, rows_for_each
from tightrope.policies.choices import estimates
from tightrope.policies.decision import Sampling
from tightrope.policies.warm_start import require_readable
from tightrope.validation import COST_LIMIT, Array, first

Ids = NDArray[np.int64]


def require_valid(offer: Offer, reward: Model, cost: Model | None, known: Ids) -> None:
    """Name the entry that the kernels refuse; `known` are the columns of costs seen before acting."""
    for name, rows, model in (("features", offer.phi, reward), ("cost_features", offer.psi, cost)):
        if rows is not None and model is not None:
            require_readable(name, rows, model)
    bad = ~(np.abs(offer.W[:, known]) <= COST_LIMIT)
    if bad.any():
        j, i = first(bad)
        raise InvalidInput(f"costs[{j}, {known[i]}] must lie in [-1, 1], but got {offer.W[j, known[i]]:g}.")


def optimistic_choice(model: Any, offer: Offer, core: Array, trace: Array, x: Array | None) -> int:
    """The row chosen by r̂ and W; its numbers go into trace, its φ into x; moves the queue. −1 if the input is not valid."""
    ids, phi, W = offer.ids, offer.phi, offer.W
    if hooks.compiled(model) == "ridge":
        return int(kernels.decide_ridge(phi, ids, W, model.flat, core, trace, x))
    if hooks.compiled(model) == "arms":
        return int(kernels.decide_arms(ids, W, model.counts, model.sums, model.stat, core, trace))
    J, costs = len(ids), W.reshape(-1)
    if not kernels.costs_are_valid(costs, J, core) or not (phi is None or np.isfinite(phi).all()):
        return -1
    means, widths = estimates(model, rows_for_each(phi, J), ids)
    upper = (means + radius_now(model, core) * widths)[:, 0]
    trace[:J] = np.clip(upper, kernels.least_reward(core), 1.0)
    row = int(kernels.choose_and_step(J, costs, 0, core, trace))
    if x is not None and phi is not None:
        x[...] = phi[row if len(phi) == J else 0]
    return row


def optimistic_costs(
    model: Any, psi: Array | None, ids: Ids, core: Array, ranges: Array, columns: Ids, W: Array
) -> None:
    """W̌ into the columns of W (J, K) that are seen after acting: lower bounds, clipped to the known range of the costs."""
    if hooks.compiled(model) == "ridge" and psi is not None:
        one_row = len(psi) < len(ids)
        kernels.optimistic_costs_ridge(
            model.flat, psi.reshape(-1), 0, one_row, ids, core, ranges, columns, W.reshape(-1), W.shape[1]
        )
    elif hooks.compiled(model) == "arms":
        kernels.optimistic_costs_arms(
            ids, model.counts, model.sums, model.stat, core, ranges, columns, W.reshape(-1), W.shape[1]
        )
    else:
        means, widths = estimates(model, rows_for_each(psi, len(ids)), ids)
        W[:, columns] = np.clip(means - radius_now(model, core) * widths, ranges[:, 0], ranges[:, 1])


def radius_now(model: Model, core: Array) -> float:
    return hooks.radius(model, float(kernels.horizon_at(core, core[kernels.ROUNDS] + 1.0)))


def unpack_trace(trace: Array, J: int, _: Sampling) -> dict[str, Any]:
    seen = kernels.trace_views(trace, J)
    return {
        name: np.copy(value) if isinstance(value, np.ndarray) else value
        for name, value in seen._asdict().items()
    }
