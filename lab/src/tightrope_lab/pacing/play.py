"""Plays of a policy in a world with a clock: what it chose, earned and used."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tightrope as tr
from tightrope.models import Model
from tightrope.rules import Rule
from tightrope.validation import Array
from tightrope_lab.pacing.worlds import World

# Of late outcomes, the part that never comes.
LOST = 0.02


class KnownPayoffs(Model):
    """Rewards that need no learning: the only feature of an action is its mean reward.

    >>> KnownPayoffs().means(np.array([[0.25], [0.5]]))
    array([0.25, 0.5 ])
    """

    n_actions = None
    n_features = 1
    n_outputs = 1

    def means(self, features: Any = None, actions: Any = None) -> Array:
        return np.asarray(features, dtype=float)[:, 0]

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        return np.zeros(len(features))

    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        """Nothing is left to be learnt."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}


class Played(NamedTuple):
    """What was chosen in each round, and what that earned on average and used, (n,)."""

    actions: NDArray[np.int64]
    rewards: Array
    used: Array


def play(
    world: World,
    rules: Sequence[Rule],
    *,
    known: bool,
    delay: float = 0.0,
    seed: int = 0,
    expect: float | None = None,
) -> Played:
    """`ShadowPrice` in a world, with known payoffs or linear models that learn them; outcomes come `delay` seconds late.

    `expect` is the number of decisions per day that it is told of.
    """
    J = len(world.actions)
    reward = KnownPayoffs() if known else tr.DisjointRidge(J, world.features.shape[1])
    late = any(rule.seen == "after" for rule in rules)
    cost: Any = tr.DisjointRidge(J, 1 + world.features.shape[1]) if late else None
    policy = tr.ShadowPrice(tr.Rules(rules, actions=world.actions), reward, cost, seed=seed, expect=expect)
    lost = np.random.default_rng([4, seed]).random(len(world.times)) < LOST
    chosen = np.zeros(len(world.times), dtype=np.int64)
    open_until: list[tuple[float, int, int]] = []
    for i, t in enumerate(world.times.tolist()):
        while open_until and open_until[0][0] <= t:
            _, number, then = heapq.heappop(open_until)
            _learn(policy, world, number, then, int(chosen[then]), late)
        x = world.rewards[i][:, None] if known else world.features[i]
        given: dict[str, Any] = {} if late else {"usage": {"cost": world.usage[i]}}
        if late:
            given["cost_features"] = np.concatenate([[world.usage[i, -1]], world.features[i]])
        decision = policy.decide(x, keys={"user": str(world.users[i])}, time=t, **given)
        chosen[i] = decision.action
        if delay and not lost[i]:
            heapq.heappush(open_until, (t + delay, decision.number, i))
        elif not delay:
            _learn(policy, world, decision, i, decision.action, late)
    rows = np.arange(len(chosen))
    return Played(chosen, world.rewards[rows, chosen], world.used[rows, chosen])


def greedy(world: World, limit: float) -> Played:
    """Always the best action that fits what is left of each user's day: a stop alone."""
    spent: dict[tuple[int, int], float] = {}
    chosen = np.zeros(len(world.times), dtype=np.int64)
    for i, (day, user) in enumerate(zip(world.days.tolist(), world.users.tolist())):
        used = spent.get((day, user), 0.0)
        fits = used + world.usage[i] <= limit
        chosen[i] = int(np.argmax(np.where(fits, world.rewards[i], -np.inf)))
        spent[day, user] = used + float(world.usage[i, chosen[i]])
    rows = np.arange(len(chosen))
    return Played(chosen, world.rewards[rows, chosen], world.used[rows, chosen])


def _learn(policy: Any, world: World, decision: Any, i: int, action: int, late: bool) -> None:
    usage = {"usage": {"cost": float(world.used[i, action])}} if late else {}
    policy.learn(decision, float(world.outcomes[i, action]), **usage)
