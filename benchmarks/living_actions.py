"""An action that is added in round 5,000 to an experiment with six, beside a fresh experiment with seven.

Prints, for each of a few worlds, the regret of rounds 5,001 to 10,000 as a part of the regret that the fresh experiment has in its
first 5,000, and the largest total of a rule, in any round, per round: at most 0 where the rules are kept.

    python benchmarks/living_actions.py --worlds 8
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

import tightrope as tr

ACTIONS = [f"action {i}" for i in range(7)]
RULES = [
    tr.Capacity("action 0", at_most=0.3),
    tr.Share("action 1", at_least=0.05),
    tr.Budget("cost", at_most=0.5),
]
FEATURES = 5


class World(NamedTuple):
    """Linear rewards, (J, p), and what each action costs, (J,)."""

    effects: np.ndarray
    costs: np.ndarray

    @classmethod
    def drawn(cls, seed: int) -> World:
        rng = np.random.default_rng([seed, 1])
        return cls(rng.normal(0.0, 0.3, (7, FEATURES)), rng.uniform(0.2, 1.0, 7))

    def best(self, contexts: np.ndarray) -> float:
        """The best mean reward under the rules on these contexts, by the prices that the linear program gives."""
        means, rows = contexts @ self.effects.T, len(contexts)
        rules = tr.Rules(RULES, ACTIONS)
        W = rules.costs({"cost": self.costs.tolist()})
        environment = tr.environments.Tabular(
            weights=np.full(rows, 1.0 / rows), features=contexts, rewards=means, costs=np.broadcast_to(W, (rows, *W.shape)),
            reward_noise="none",
        )  # fmt: skip
        return float(tr.solve(environment).value)


class Played(NamedTuple):
    """Mean rewards of rounds, and the largest total of a rule that there was from some round on."""

    rewards: np.ndarray
    largest: float


def play(policy: tr.ShadowPrice, world: World, contexts: np.ndarray, seed: int) -> Played:
    rng, rewards, largest = np.random.default_rng([seed, 2]), np.empty(len(contexts)), -np.inf
    known = {name: float(cost) for name, cost in zip(ACTIONS, world.costs)}
    for t, x in enumerate(contexts):
        decision = policy.decide(x, usage={"cost": {name: known[name] for name in policy.actions}})
        rewards[t] = world.effects[decision.action] @ x
        policy.learn(decision, rewards[t] + rng.normal(0.0, 0.3))
        if t >= LOOKED_AT:
            largest = max(largest, float(policy.totals.max()) / (t + 1))
    return Played(rewards, largest)


# Totals of the first rounds have nothing to make up for them yet.
LOOKED_AT = 500


def compare(seed: int, rounds: int) -> tuple[float, float]:
    """The regret with an added action as a part of that of a fresh start; and the largest total of a rule per round."""
    world = World.drawn(seed)
    first, second = np.random.default_rng([seed, 3]).normal(size=(2, rounds, FEATURES))
    first[:, 0] = second[:, 0] = 1.0
    policy = tr.ShadowPrice(tr.Rules(RULES, ACTIONS[:6]), seed=seed)
    early = play(policy, world, first, seed)
    policy.actions.add(ACTIONS[6])
    later = play(policy, world, second, seed + 1)
    fresh = play(tr.ShadowPrice(tr.Rules(RULES, ACTIONS), seed=seed), world, second, seed + 1)
    value = world.best(second) * rounds
    part = (value - later.rewards.sum()) / (value - fresh.rewards.sum())
    return part, max(early.largest, later.largest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5_000)
    given = parser.parse_args()
    found = [compare(seed, given.rounds) for seed in range(given.worlds)]
    for seed, (part, largest) in enumerate(found):
        print(
            f"world {seed}: {part:.2f} of the regret of a fresh start; largest total {largest:+.5f} per round"
        )
    print(f"mean: {np.mean([part for part, _ in found]):.2f}")


if __name__ == "__main__":
    main()
