"""The paper's first experiment: four arms, one constraint."""

from __future__ import annotations

import itertools

import numpy as np

from tightrope.environments.tabular import Tabular
from tightrope.problem import Seen
from tightrope.validation import finite_number

REWARDS = (0.1, 0.2, 0.4, 0.7)
USAGE = (0.0, 0.4, 0.5, 0.2)


def bandit(threshold: float = 0.5, costs_seen: Seen = "after") -> Tabular:
    """Four arms with Bernoulli rewards and a Bernoulli usage whose average must stay below a threshold.

    The cost is usage − threshold, so it jumps between −threshold and 1 − threshold, and these are its `cost_range`. At the paper's
    threshold of 0.5 the constraint never binds; at 0.1 the best mixture is half the first arm, half the last.

    >>> env = bandit(threshold=0.1)
    >>> env.costs[0, :, 0].round(12).tolist(), env.cost_range.round(12).tolist()
    ([-0.1, 0.3, 0.4, 0.1], [[-0.1, 0.9]])
    """
    limit = finite_number("threshold", threshold, low=0.0, high=1.0)
    return Tabular(
        weights=[1.0],
        rewards=[REWARDS],
        costs=np.array(USAGE)[None, :, None] - limit,
        reward_noise="bernoulli",
        cost_noise="bernoulli",
        cost_range=(-limit, 1.0 - limit),
        costs_seen=costs_seen,
        actions=[f"arm {j}" for j in range(1, 5)],
        constraints=["usage"],
        name="bandit",
        optimum=_optimum(limit, costs_seen),
    )


def _optimum(limit: float, costs_seen: Seen) -> float | None:
    """The best value per round by duality: min over λ ≥ 0 of E[max_j r_j − λ w_j], piecewise linear, so at one of its kinks.

    The expectation is over the costs drawn where they are seen before acting; else the costs are their means.
    """
    r, mean = np.array(REWARDS), np.array(USAGE)
    if costs_seen == "after":
        chances, usage = np.ones(1), mean[None]
    else:
        usage = np.array(list(itertools.product((0.0, 1.0), repeat=mean.size)))
        chances = np.where(usage == 1.0, mean, 1.0 - mean).prod(axis=1)
        chances, usage = chances[chances > 0], usage[chances > 0]
    w = usage - limit
    if chances @ w.min(axis=1) > 0.0:
        return None
    rise, gap = r[:, None] - r, w[:, :, None] - w[:, None, :]
    kinks = np.divide(rise, gap, out=np.zeros_like(gap), where=gap != 0.0)
    prices = np.unique(np.maximum(kinks, 0.0))
    return float(min(chances @ (r - price * w).max(axis=1) for price in prices))
