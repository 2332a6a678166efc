"""What allocation programs on remembered rounds say about rules: which can't be met together, and what each costs in reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.errors import InfeasibleProblem
from tightrope.policies.shadow_price.beliefs import Beliefs
from tightrope.policies.shadow_price.memory import RoundMemory
from tightrope.rules import Units

# For a conflict: the most rows in the program, and the rounding error in typical costs.
CONFLICT_ROWS = 20_000
_TOLERANCE = 1e-7
# For the cost of rules: fewer rounds say nothing yet; this many rows are enough, and take some milliseconds per binding rule.
LEAST_ROUNDS, MOST_ROWS = 100, 3000


@dataclass(frozen=True)
class Conflict:
    """Constraints that can't be met together on average over the remembered rounds; drop any one and the others can be met.

    `relaxation` says by how much limits would have to move, in the rules' own units; no smaller sum of moves is enough.
    """

    rules: tuple[str, ...]
    relaxation: Mapping[str, float]

    def __str__(self) -> str:
        named = " and ".join(self.rules)
        moves = ", ".join(f"{name} by {change:.4g}" for name, change in self.relaxation.items())
        verb = "can't be met together" if len(self.rules) > 1 else "can't be met"
        return f"{named} {verb} on what was seen; moving limits would do: {moves}"


@dataclass(frozen=True)
class WithoutRules:
    """Mean rewards of the best choices on `rounds` remembered rounds, by current predictions: estimates, not promises.

    `reward` is earned under all rules, without[name] if only that rule is left out; the difference is the cost of the rule.
    """

    reward: float
    without: Mapping[str, float]
    rounds: int


def find_conflict(
    memory: RoundMemory, beliefs: Beliefs, units: Units, names: Sequence[str]
) -> Conflict | None:
    """The conflict among a policy's rules on its remembered rounds, by the means of its models; None if there is none."""
    K = len(names)
    if not K or not len(memory):
        return None
    from tightrope import lp  # takes long to import

    entries, weights = memory.sample(CONFLICT_ROWS)
    # A rule for a group has room only where it counts.
    force = [np.ones(K) if entry.force is None else entry.force[:K] for entry in entries]
    units = Units(units.scales, np.average(force, axis=0, weights=weights))
    costs = units.totals(beliefs.expected_costs(entries)[0][:, :K])
    sizes = np.array([len(entry.ids) for entry in entries])
    moves = lp.least_moves(weights, costs, sizes, range(K), units.shares)
    unit = np.abs(costs).mean(axis=0)
    relaxation = {names[k]: float(moves[k]) for k in range(K) if moves[k] > _TOLERANCE * unit[k]}
    if not relaxation:
        return None
    kept = list(range(K))
    for k in range(K):
        others = [i for i in kept if i != k]
        moved = lp.least_moves(weights, costs, sizes, others, units.shares)
        if (moved > _TOLERANCE * unit).any():
            kept = others
    return Conflict(tuple(names[k] for k in kept), relaxation)


def rewards_without_rules(
    made: int, memory: RoundMemory, beliefs: Beliefs, names: Sequence[str]
) -> WithoutRules | None:
    if made < LEAST_ROUNDS or not names or not len(memory):
        return None
    from tightrope import lp  # takes long to import

    entries, weights = memory.sample(MOST_ROWS)
    rewards = beliefs.rewards_of(entries).means
    costs = beliefs.expected_costs(entries)[0][:, : len(names)]
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
