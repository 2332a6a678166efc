"""Rules that can't be met together on what was seen: which of them, and the smallest change of their limits that would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tightrope.policies.shadow_price.beliefs import Beliefs
from tightrope.policies.shadow_price.memory import RoundMemory
from tightrope.rules import Units

# Rows of the program at most, and what is rounding, in typical costs.
MOST_ROWS = 20_000
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Conflict:
    """Constraints that can't be met together on average over the remembered rounds: without any one of them the others can.

    `relaxation` says by how much limits would have to move, in the rules' own units; no smaller sum of moves does.
    """

    rules: tuple[str, ...]
    relaxation: Mapping[str, float]

    def __str__(self) -> str:
        named = " and ".join(self.rules)
        moves = ", ".join(f"{name} by {change:.4g}" for name, change in self.relaxation.items())
        verb = "can't be met together" if len(self.rules) > 1 else "can't be met"
        return f"{named} {verb} on what was seen; moving limits would do: {moves}"


def find(memory: RoundMemory, beliefs: Beliefs, units: Units, names: Sequence[str]) -> Conflict | None:
    """The conflict among a policy's rules on what it remembers, by the means of its models; None where there is none."""
    K = len(names)
    if not K or not len(memory):
        return None
    from tightrope import lp  # takes long to import

    entries, weights = memory.sample(MOST_ROWS)
    # A rule among groups has room only where it counts.
    force = [np.ones(K) if entry.force is None else entry.force for entry in entries]
    units = Units(units.scales, np.average(force, axis=0, weights=weights))
    costs = units.totals(beliefs.expected_costs(entries)[0])
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
