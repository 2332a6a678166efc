"""Worlds with a clock: when decisions come, who asks, what each action earns and uses.

Every world has two peaks a day, days that differ by ±20 %, quiet weekends and growth; one day has twice the usual traffic, one has
half, and one has an afternoon that is 2.5 times as busy. Nothing here was changed after a policy was first run in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.validation import Array

Users = Literal["uniform", "heavy", "bursts"]
DAY, HOUR = 86_400.0, 3_600.0
# A Monday at midnight, UTC.
START = 1_704_067_200.0
DAYS = 42
# Days with twice and half the usual traffic, and one with a busy afternoon: a Thursday, a Tuesday and a Friday.
DOUBLE_DAY, HALF_DAY, BUSY_DAY = 24, 29, 32
BUSY_FROM, BUSY_TO, BUSY = 12.0, 18.0, 2.5


class World(NamedTuple):
    """n decisions in order of time among J actions; `rewards`, `usage` and `share` are expected values, (n, J).

    `outcomes` and `used` (n, J) are what is seen if the action is taken: rewards with noise, and usage that may differ from `usage`.
    `share` marks the actions that a second limit counts. `users` (n,) says who asks.
    """

    name: str
    actions: tuple[str, ...]
    times: Array
    features: Array
    rewards: Array
    outcomes: Array
    usage: Array
    used: Array
    share: Array
    users: NDArray[np.int64]

    @property
    def days(self) -> NDArray[np.int64]:
        return ((self.times - START) // DAY).astype(np.int64)

    @property
    def hours(self) -> NDArray[np.int64]:
        return ((self.times - START) // HOUR).astype(np.int64)


@dataclass(frozen=True)
class Traffic:
    """How decisions arrive: `per_day` of them on an ordinary weekday at the start."""

    per_day: float = 3000.0
    days: int = DAYS
    growth: float = 1.01
    weekend: float = 0.6
    spread: float = 0.2

    def times(self, rng: np.random.Generator) -> Array:
        """Seconds since the epoch, sorted."""
        found = []
        for day in range(self.days):
            usual = self.per_day * self.growth**day * (self.weekend if day % 7 >= 5 else 1.0)
            usual *= max(0.4, 1.0 + self.spread * rng.standard_normal())
            usual *= {DOUBLE_DAY: 2.0, HALF_DAY: 0.5}.get(day, 1.0)
            hours = _hours_of(rng, rng.poisson(usual))
            if day == BUSY_DAY:
                more = _hours_of(rng, rng.poisson((BUSY - 1.0) * usual))
                hours = np.concatenate([hours, more[(more >= BUSY_FROM) & (more < BUSY_TO)]])
            found.append(START + day * DAY + HOUR * np.sort(hours))
        return np.concatenate(found)


def _hours_of(rng: np.random.Generator, n: int) -> Array:
    """Hours of the day: some at any time, a peak in the morning and a wider one in the evening."""
    which = rng.random(n)
    peaks = np.where(which < 0.65, 10.0 + 1.5 * rng.standard_normal(n), 19.0 + 2.0 * rng.standard_normal(n))
    hours: Array = np.where(which < 0.3, 24.0 * rng.random(n), peaks) % 24.0
    return hours


def routing(seed: int, traffic: Traffic | None = None, users: Users = "uniform", n_users: int = 300) -> World:
    """Requests routed to one of four language models: better ones answer hard questions, and cost up to eighty times as much."""
    rng = np.random.default_rng([1, seed])
    times = (traffic or Traffic()).times(rng)
    n = len(times)
    hard, tokens = rng.standard_normal(n), np.exp(0.6 * rng.standard_normal(n))
    skill, falls = np.array([-0.5, 0.3, 1.0, 1.7]), np.array([0.9, 0.65, 0.4, 0.2])
    rewards = 1.0 / (1.0 + np.exp(-(skill - hard[:, None] * falls)))
    usage = tokens[:, None] * np.array([0.1, 0.6, 2.0, 8.0])
    features = np.column_stack([hard, hard**2, np.log(tokens)])
    return World(
        "routing",
        ("tiny", "small", "large", "huge"),
        times,
        features,
        rewards,
        rewards + 0.25 * rng.standard_normal(rewards.shape),
        usage,
        usage,
        np.tile([0.0, 0.0, 0.0, 1.0], (n, 1)),
        _users_of(rng, times, users, n_users),
    )


def coupons(seed: int, traffic: Traffic | None = None, users: Users = "uniform", n_users: int = 300) -> World:
    """No coupon, a small or a large one: who reacts to it differs, and in the evening everybody does more."""
    rng = np.random.default_rng([2, seed])
    times = (traffic or Traffic()).times(rng)
    n = len(times)
    hour = (times - START) % DAY / HOUR
    evening = 0.5 + np.exp(-0.5 * ((hour - 20.0) / 2.5) ** 2)
    reacts = np.exp(0.7 * rng.standard_normal(n))
    lift = reacts * evening
    rewards = 0.5 * evening[:, None] + lift[:, None] * np.array([0.0, 0.4, 0.7])
    usage = np.tile([0.0, 1.0, 3.0], (n, 1))
    return World(
        "coupons",
        ("none", "small", "large"),
        times,
        np.column_stack([evening, reacts, lift]),
        rewards,
        rewards + 0.3 * rng.standard_normal(rewards.shape),
        usage,
        usage,
        np.tile([0.0, 0.0, 1.0], (n, 1)),
        _users_of(rng, times, users, n_users),
    )


def late(world: World, seed: int, spread: float = 1.0) -> World:
    """The same world where usage is only predicted before acting: what is used is log-normal about it, with the same mean."""
    rng = np.random.default_rng([3, seed])
    factor = np.exp(spread * rng.standard_normal(world.usage.shape) - 0.5 * spread**2)
    return world._replace(used=world.usage * factor)


def _users_of(rng: np.random.Generator, times: Array, kind: Users, n_users: int) -> NDArray[np.int64]:
    """Who asks: everybody equally often, a few most of the time, or each in bursts of about eight within half an hour."""
    n = len(times)
    if kind == "uniform":
        return rng.integers(n_users, size=n)
    weights = 1.0 / np.arange(1, n_users + 1)
    if kind == "heavy":
        return rng.choice(n_users, size=n, p=weights / weights.sum())
    found, open_until, left, who = (
        np.empty(n, dtype=np.int64),
        np.zeros(0),
        np.zeros(0),
        np.zeros(0, dtype=np.int64),
    )
    for i, t in enumerate(times.tolist()):
        alive = (open_until > t) & (left > 0)
        open_until, left, who = open_until[alive], left[alive], who[alive]
        if len(who) and rng.random() < 7.0 / 8.0:
            k = int(rng.integers(len(who)))
        else:
            open_until, left = (
                np.append(open_until, t + 0.5 * HOUR),
                np.append(left, rng.geometric(1.0 / 8.0)),
            )
            who, k = np.append(who, rng.integers(n_users)), len(who)
        found[i] = who[k]
        left[k] -= 1
    return found
