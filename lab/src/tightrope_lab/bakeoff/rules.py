"""Three rules for a table, and the best that can be earned under them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.environments.tabular import Tabular
from tightrope.oracle import solve
from tightrope.validation import Array

MOST_OF_COMMONEST = 0.7
LEAST_OF_RAREST = 1.3
SAVED = 0.25
_MOST_SHARE = 0.9
_ROOM = (
    0.02  # that the budget leaves above the least: without any, no policy could make up for a first mistake
)


@dataclass(frozen=True, eq=False)
class RuledTable:
    """The costs of the actions (J, K), the same in every round, and the reward per round of the best policy that keeps the rules."""

    costs: Array
    optimum: float


def rules_for(y: NDArray[np.int64], n_actions: int) -> RuledTable:
    """Rules for the labels that a run will meet.

    The commonest label is answered in at most 70 % of its share of the rows, the rarest in at least 1.3 times its share, and each
    action uses up a fixed amount, whose mean must go a quarter of the way down from what the best policy under the first two rules
    uses to the least that they allow, but not closer to that than 0.02. All three can be kept at once, with room. The optimum is
    that of the linear program over labels and actions: what a policy would earn that knows the labels. At least one rule binds
    there; with two labels only one can, for there is only one share to choose.
    """
    shares = np.bincount(y, minlength=n_actions) / len(y)
    seen = np.flatnonzero(shares)
    top = int(seen[np.argmax(shares[seen])])
    others = seen[seen != top]
    low = int(others[np.argmin(shares[others])]) if len(others) else (top + 1) % n_actions
    costs = np.zeros((n_actions, 3))
    costs[:, 0] = -MOST_OF_COMMONEST * shares[top]
    costs[top, 0] += 1.0
    costs[:, 1] = min(LEAST_OF_RAREST * shares[low], _MOST_SHARE)
    costs[low, 1] -= 1.0
    use = np.random.default_rng(7).uniform(0.2, 1.0, n_actions)
    right = np.eye(n_actions)[seen]

    def world(rewards: Array, K: int) -> Tabular:
        contexts = np.broadcast_to(costs[:, :K], (len(seen), n_actions, K))
        return Tabular(shares[seen], rewards=rewards, costs=contexts, reward_noise="none")

    least = -solve(world(np.broadcast_to(-use, right.shape), 2)).value
    usual = float(shares[seen] @ solve(world(right, 2)).policy @ use)
    costs[:, 2] = use - max(usual - SAVED * (usual - least), least + _ROOM)
    return RuledTable(costs, solve(world(right, 3)).value)
