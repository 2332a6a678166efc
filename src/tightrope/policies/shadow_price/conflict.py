"""Rules that can't be met together on what was seen: which of them, and the smallest change of their limits that would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.policies.shadow_price.prices import expected_costs
from tightrope.validation import Array

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


def find(policy: Any) -> Conflict | None:
    """The conflict among a policy's rules on what it remembers, by the means of its models; None where there is none."""
    K = policy.n_constraints
    if not K or not len(policy._memory):
        return None
    entries, weights = policy._memory.sample(MOST_ROWS)
    costs = expected_costs(entries, policy._models(), policy._columns)[0] * policy._scales
    sizes = np.array([len(entry.ids) for entry in entries])
    moves = least_moves(weights, costs, sizes, range(K))
    names = policy._input.constraints
    unit = np.abs(costs).mean(axis=0)
    relaxation = {names[k]: float(moves[k]) for k in range(K) if moves[k] > _TOLERANCE * unit[k]}
    if not relaxation:
        return None
    kept = list(range(K))
    for k in range(K):
        others = [i for i in kept if i != k]
        moved = least_moves(weights, costs, sizes, others)
        if (moved > _TOLERANCE * unit).any():
            kept = others
    return Conflict(tuple(names[k] for k in kept), relaxation)


def least_moves(weights: Array, costs: Array, sizes: Any, which: Sequence[int]) -> Array:
    """How far each limit (K,) moves when all rules of `which` can be met on average and the sum of the moves is least.

    >>> least_moves(np.ones(1), np.array([[0.5, -0.25], [-0.25, 0.5]]), [2], [0, 1])
    array([0.25, 0.  ])
    """
    import scipy.sparse as sp  # takes long to import, as the solver does

    from tightrope import lp

    R, K = costs.shape
    chosen = list(which)
    moves = np.zeros(K)
    if not chosen:
        return moves
    of = np.repeat(np.arange(len(sizes)), sizes)
    p = (np.asarray(weights) / np.sum(weights))[of]
    A_ub = sp.hstack([sp.csr_array((p[:, None] * costs[:, chosen]).T), -sp.eye_array(len(chosen))])
    A_eq = sp.csr_array((np.ones(R), (of, np.arange(R))), shape=(len(sizes), R + len(chosen)))
    objective = np.concatenate([np.zeros(R), np.ones(len(chosen))])
    found = lp.solve_lp(
        objective,
        A_ub=A_ub,
        b_ub=np.zeros(len(chosen)),
        A_eq=A_eq,
        b_eq=np.ones(len(sizes)),
        maximise=False,
    )
    moves[chosen] = found.x[R:]
    return moves
