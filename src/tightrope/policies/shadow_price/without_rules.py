"""What each rule costs in reward: what the best choices on remembered rounds would earn with all rules, and without each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.errors import InfeasibleProblem
from tightrope.policies.shadow_price.beliefs import Beliefs
from tightrope.policies.shadow_price.memory import RoundMemory

# So few rounds say nothing yet; so many rows are enough, and take some milliseconds for each rule that binds.
LEAST_ROUNDS, MOST_ROWS = 100, 3000


@dataclass(frozen=True)
class WithoutRules:
    """Mean rewards of the best choices on `rounds` remembered rounds, by what is believed of them now: estimates, not promises.

    `reward` is earned under all rules, without[name] where that one alone is left out; the difference is what the rule costs.
    """

    reward: float
    without: Mapping[str, float]
    rounds: int


def earned(made: int, memory: RoundMemory, beliefs: Beliefs, names: Sequence[str]) -> WithoutRules | None:
    """See `ShadowPrice.cost_of_rules`."""
    if made < LEAST_ROUNDS or not names or not len(memory):
        return None
    from tightrope import lp  # takes long to import

    entries, weights = memory.sample(MOST_ROWS)
    rewards = beliefs.rewards_of(entries).means
    costs = beliefs.expected_costs(entries)[0]
    offsets = np.concatenate([[0], np.cumsum([len(entry.ids) for entry in entries])])
    rounds = int(weights.sum())
    weights = weights / rounds
    every = np.arange(costs.shape[1])

    def best(kept: Any) -> Any:
        return lp.allocation(weights, rewards, costs[:, kept], offsets=offsets)

    try:
        all_rules = best(every)
    except InfeasibleProblem:
        return None
    # A rule whose dual is 0 costs nothing: the same duals prove the same value without it.
    without = {
        name: best(every[every != k]).value if all_rules.duals[k] > 0.0 else all_rules.value
        for k, name in enumerate(names)
    }
    return WithoutRules(all_rules.value, without, rounds)
