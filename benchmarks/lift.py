"""How often the interval of a lift misses, looked at after every 100 decisions: 1,000 experiments on each of six worlds.

    python benchmarks/lift.py            # all of it, some minutes on one core
    python benchmarks/lift.py --quick    # 100 experiments of 4,000 decisions

Every policy learns from all outcomes, whoever decided. A miss is an experiment in which the truth was outside the interval at any
of the looks. The truth at a look is the mean, over the outcomes so far, of the expected difference when each was decided.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.lift import CONTROL, POLICY, ArmSums

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
_LOOK = 100


@dataclass(frozen=True)
class World:
    """Mean rewards and usages (J,) of a round of one kind out of some, and how an outcome is drawn around its mean."""

    name: str
    words: str
    means: Callable[[int, int], Array]  # round, kind -> (J,)
    usages: Array  # (J,)
    draw: Callable[[np.random.Generator, Array], Array]
    draw_usage: Callable[[np.random.Generator, Array], Array]
    share: float = 0.1
    kinds: int = 1
    # Rounds until an outcome comes, at most; a tenth never comes.
    delay: int = 0
    # How many users there are, of whom some come much more often; each is in one arm, and outcomes are sums by user.
    users: int = 0


def bernoulli(random: np.random.Generator, mean: Array) -> Array:
    return (random.random(mean.shape) < mean).astype(float)


def lognormal(sigma: float) -> Callable[[np.random.Generator, Array], Array]:
    def draw(random: np.random.Generator, mean: Array) -> Array:
        drawn: Array = mean * np.exp(sigma * random.standard_normal(mean.shape) - sigma**2 / 2)
        return drawn

    return draw


def worlds() -> list[World]:
    def fixed(*means: float) -> Callable[[int, int], Array]:
        known = np.array(means)
        return lambda t, kind: known

    def seasons(t: int, kind: int) -> Array:
        wave = 0.15 * np.sin(2 * np.pi * t / 5000)
        return np.array([0.5, 0.5 + wave, 0.5 - wave]) + (0.1 if kind else -0.1)

    use = np.array([1.0, 1.3, 0.6])
    return [
        World("arms", "three actions, rewards 0 or 1", fixed(0.5, 0.55, 0.6), use, bernoulli, lognormal(0.5)),
        World(
            "rare", "a reward in 1 to 2 % of rounds", fixed(0.01, 0.012, 0.02), use, bernoulli, lognormal(1.0)
        ),
        World(
            "heavy tails",
            "lognormal rewards (σ = 1) and usage (σ = 1.5)",
            *(fixed(1.0, 1.1, 1.3), use, lognormal(1.0), lognormal(1.5)),
        ),
        World(
            "seasons",
            "the best action changes, two kinds of rounds, control 5 %",
            *(seasons, use, bernoulli, lognormal(0.5)),
            share=0.05,
            kinds=2,
        ),
        World(
            "late",
            "outcomes up to 1,000 rounds late, a tenth never",
            *(fixed(0.3, 0.35, 0.45), use, bernoulli, lognormal(1.0)),
            delay=1000,
        ),
        World(
            "users",
            "5,000 users, some come much more often; sums by user",
            *(fixed(0.3, 0.32, 0.4), use, bernoulli, lognormal(1.0)),
            users=5000,
        ),
    ]


@dataclass
class Experiments:
    """R experiments side by side: what the policy has learnt, the sums of both measures, and the truth."""

    world: World
    R: int
    random: np.random.Generator

    def __post_init__(self) -> None:
        J = len(self.world.usages)
        self.seen, self.total = np.full((self.R, J), 1.0), np.full((self.R, J), 0.5)
        self.measures = [ArmSums(self.R), ArmSums(self.R)]
        self.truth, self.n = [np.zeros(self.R), np.zeros(self.R)], np.zeros(self.R)
        self.at = np.arange(self.R)
        users = self.world.users
        # The most active twentieth of the users comes in about a quarter of the rounds.
        weights = np.exp(self.random.standard_normal(users))
        self.activity = weights.cumsum() / max(weights.sum(), 1.0)
        self.arm_of = (self.random.random((self.R, users)) < self.world.share).astype(np.int64)
        self.sums_of = [np.full((self.R, users), np.nan) for _ in self.measures]
        self.coming: dict[int, list[tuple[Ints, Ints, list[Array], list[Array]]]] = {}

    def chances(self, t: int) -> Array:
        """Of the policy: a tenth of the time any action, else the one with the highest upper bound."""
        J = self.seen.shape[1]
        width = np.sqrt(0.5 * np.log(t + 2.0) / self.seen)
        best = (self.total / self.seen + width * self.scale).argmax(axis=1)
        chances = np.full((self.R, J), 0.1 / J)
        chances[self.at, best] += 0.9
        return chances

    @property
    def scale(self) -> float:
        return float(self.world.means(0, 0).max()) ** 0.5

    def play(self, t: int) -> None:
        world, random = self.world, self.random
        kind = int(random.integers(world.kinds))
        means, chances = world.means(t, kind), self.chances(t)
        picked = (random.random((self.R, 1)) > chances.cumsum(axis=1)).sum(axis=1)
        picked = np.minimum(picked, chances.shape[1] - 1)
        if world.users:
            user = np.minimum(np.searchsorted(self.activity, random.random(self.R)), world.users - 1)
            arm = self.arm_of[self.at, user]
        else:
            user, arm = self.at, (random.random(self.R) < world.share).astype(np.int64)
        action = np.where(arm == CONTROL, 0, picked)
        outcomes = [world.draw(random, means[action]), world.draw_usage(random, world.usages[action])]
        expected = [chances @ means - means[0], chances @ world.usages - world.usages[0]]
        if not world.delay:
            self.learn(arm, action, user, outcomes, expected)
            return
        if random.random() < 0.9:
            later = t + int(random.integers(world.delay))
            self.coming.setdefault(later, []).append((arm, action, outcomes, expected))
        for one in self.coming.pop(t, ()):
            self.learn(one[0], one[1], user, one[2], one[3])

    def learn(
        self, arm: Ints, action: Ints, user: Ints, outcomes: list[Array], expected: list[Array]
    ) -> None:
        self.seen[self.at, action] += 1.0
        self.total[self.at, action] += outcomes[0]
        for sums, truth, y, mean in zip(self.measures, self.truth, outcomes, expected, strict=True):
            truth += mean
            if not self.world.users:
                sums.add(arm, self.at, y)
        if not self.world.users:
            self.n += 1.0
            return
        new = np.isnan(self.sums_of[0][self.at, user])
        self.n += new
        for sums, by_user, y in zip(self.measures, self.sums_of, outcomes, strict=True):
            was = np.where(new, 0.0, by_user[self.at, user])
            sums.add(arm[new], self.at[new], np.zeros(int(new.sum())))
            sums.move(arm, self.at, was, was + y)
            by_user[self.at, user] = was + y


def single_look(sums: ArmSums, share: float) -> Array:
    """Half the width of a 95 % interval for one look only, at a time chosen before."""
    n, first, second = sums.sums[:, 0], sums.sums[:, 1], sums.sums[:, 2]
    spread = second - first**2 / n
    variance = spread[POLICY] / (1.0 - share) ** 2 + spread[CONTROL] / share**2
    half: Array = 1.959964 * np.sqrt(variance) / n.sum(axis=0)
    return half


def judged(world: World, R: int, rounds: int, seed: int) -> tuple[list[float], list[float]]:
    """For reward and usage: the share of experiments that missed, and the width relative to an interval for a single look."""
    run = Experiments(world, R, np.random.default_rng(seed))
    missed = [np.zeros(R, dtype=bool) for _ in run.measures]
    for t in range(rounds):
        run.play(t)
        if (t + 1) % _LOOK:
            continue
        for miss, sums, truth in zip(missed, run.measures, run.truth, strict=True):
            found, true = sums.lift(world.share), truth / np.maximum(run.n, 1.0)
            miss |= (true < found.low) | (true > found.high)
    ratios = []
    for sums in run.measures:
        found = sums.lift(world.share)
        ratios.append(float(np.mean((found.high - found.low) / 2 / single_look(sums, world.share))))
    return [float(one.mean()) for one in missed], ratios


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    R, rounds = (100, 4000) if given.quick else (1000, 20_000)
    assert (POLICY, CONTROL) == (0, 1)
    print(f"{R} experiments of {rounds} decisions, looked at every {_LOOK}\n")
    print(
        "| world | misses, reward | misses, usage | width, reward | width, usage |\n| --- | --- | --- | --- | --- |"
    )
    every: list[float] = []
    for number, world in enumerate(worlds()):
        began = time.process_time()
        misses, ratios = judged(world, R, rounds, given.seed * 100 + number)
        every += misses
        cells = [*(f"{100 * one:.1f} %" for one in misses), *(f"{one:.2f}" for one in ratios)]
        print(f"| {world.name}: {world.words} | {' | '.join(cells)} |", flush=True)
        print(f"  ({time.process_time() - began:.0f} s)", flush=True)
    print(f"\nmean of misses {100 * np.mean(every):.1f} %, most {100 * max(every):.1f} %")


if __name__ == "__main__":
    main()
