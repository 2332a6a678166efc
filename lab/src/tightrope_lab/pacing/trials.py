"""What is measured of pacing, each as a function of a world and how far it is from hindsight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import tightrope as tr
from tightrope.validation import Array
from tightrope_lab.pacing import hindsight
from tightrope_lab.pacing.play import Played, greedy, play
from tightrope_lab.pacing.worlds import BUSY_DAY, DAY, DOUBLE_DAY, HOUR, START, World

# The part of what the best actions would use on a middling day that is allowed.
TIGHT = 0.4
# More than an amount, by rounding alone.
ABOVE = 1.0 + 1e-9


class Days(NamedTuple):
    """By day: reward as a part of that of the best fixed price, use as a part of the amount, use before the last hour, and whether
    the amount binds.
    """

    reward: Array
    used: Array
    before_last_hour: Array
    binds: NDArray[np.bool_]

    def measures(self) -> dict[str, float]:
        """The first day stands apart from the others."""
        usual = np.arange(len(self.reward)) > 0
        tight = usual & self.binds
        found = {
            "reward": float(self.reward[usual].mean()),
            "first day": float(self.reward[0]),
            "used": float(self.used[tight].mean()),
            "days above": float((self.used[tight] > ABOVE).mean()),
            "worst excess": max(0.0, float(self.used[tight].max()) - 1.0),
            "left for the last hour": float((self.before_last_hour[tight] < 1.0).mean()),
        }
        special = {"double day": DOUBLE_DAY, "busy afternoon": BUSY_DAY}
        return found | {name: float(self.reward[d]) for name, d in special.items() if d < len(self.reward)}


def amount_per_day(world: World, part: float = TIGHT) -> float:
    """A part of what the best actions use on a middling day."""
    best = world.rewards.argmax(axis=1)
    use = world.usage[np.arange(len(best)), best]
    return float(part * np.median(np.bincount(world.days, use)))


def by_day(world: World, played: Played, amount: float) -> Days:
    """A play beside the best fixed price of each day."""
    last = (world.times - START) % DAY >= DAY - HOUR
    rows = []
    for day in range(int(world.days[-1]) + 1):
        own = world.days == day
        best, binds = hindsight.fixed_price(world.rewards[own], world.usage[own], amount)
        used, early = played.used[own].sum(), played.used[own & ~last].sum()
        rows.append((played.rewards[own].sum() / best, used / amount, early / amount, binds))
    reward, used_of, early_of, tight = (np.array(one) for one in zip(*rows))
    return Days(reward, used_of, early_of, tight.astype(bool))


def one_amount(world: World, *, known: bool, seed: int = 0, expect: float | None = None) -> dict[str, float]:
    """An amount per day."""
    amount = amount_per_day(world)
    played = play(world, [tr.Budget("cost", amount, per="day")], known=known, seed=seed, expect=expect)
    return by_day(world, played, amount).measures()


def rolling(world: World, seed: int = 0) -> dict[str, float]:
    """An amount in any 24 hours, checked at every whole hour."""
    amount = amount_per_day(world)
    played = play(world, [tr.Budget("cost", amount, per="24h")], known=True, seed=seed)
    hours = np.bincount(world.hours, played.used)
    stretches = [(range(end - 23, end + 1), amount) for end in range(23, len(hours))]
    bound = hindsight.bound_by_stretch(world.rewards, world.usage, world.hours, stretches)
    sums = np.convolve(hours, np.ones(24), "valid")
    return {
        "reward": float(played.rewards.sum() / bound),
        "hours above": float((sums > amount * ABOVE).mean()),
    }


def nested(world: World, seed: int = 0) -> dict[str, float]:
    """Amounts per hour, day and week on one usage."""
    day = amount_per_day(world)
    amounts = {"hour": 2.2 * day / 24.0, "day": day, "week": 6.0 * day}
    rules = [tr.Budget("cost", amount, per=per) for per, amount in amounts.items()]
    played = play(world, rules, known=True, seed=seed)
    n = int(world.hours[-1]) + 1
    length = {"hour": 1, "day": 24, "week": 168}
    windows = [
        (range(start, min(start + length[per], n)), amount)
        for per, amount in amounts.items()
        for start in range(0, n, length[per])
    ]
    bound = hindsight.bound_by_stretch(world.rewards, world.usage, world.hours, windows)
    hours = np.bincount(world.hours, played.used, minlength=n)
    above = [hours[list(own)].sum() > 1.02 * amount for own, amount in windows]
    return {"reward": float(played.rewards.sum() / bound), "windows above by 2 %": float(np.mean(above))}


def two_usages(world: World, seed: int = 0) -> dict[str, float]:
    """An amount per day, and a share of the decisions of each week, both tight."""
    amount = amount_per_day(world)
    _, price = hindsight.price_of(world.rewards, world.usage, amount * (int(world.days[-1]) + 1))
    free = (world.rewards - price * world.usage).argmax(axis=1)
    part = round(0.6 * float(world.share[np.arange(len(free)), free].mean()), 3)
    counted = [name for name, one in zip(world.actions, world.share[0]) if one]
    rules = [tr.Budget("cost", amount, per="day"), tr.Capacity(counted[0], part, per="week")]
    played = play(world, rules, known=True, seed=seed)
    bound = hindsight.bound_of_two(world.rewards, world.usage, world.share, world.days, amount, part)
    taken = world.share[np.arange(len(played.actions)), played.actions]
    weeks = np.bincount(world.days // 7, taken) / np.bincount(world.days // 7)
    days = np.bincount(world.days, played.used) / amount
    return {
        "reward": float(played.rewards.sum() / bound),
        "most used in a day": float(days.max()),
        "largest share": float(weeks.max() / part),
    }


def keys(world: World, limit: float, seed: int = 0) -> dict[str, float]:
    """A hard amount per day for each user: how far from a stop alone to the best in hindsight."""
    rules = [tr.Budget("cost", limit, per="day", by="user", hard=True)]
    played = play(world, rules, known=True, seed=seed)
    accounts = world.days * (int(world.users.max()) + 1) + world.users
    later = world.days > 0
    given = world.rewards[later], world.usage[later], accounts[later]
    bound = hindsight.bound_by_key(*given, limit)
    stop = float(greedy(world, limit).rewards[later].sum())
    most = np.bincount(accounts, played.used).max()
    earned = float(played.rewards[later].sum())
    return {
        "of the distance": (earned - stop) / (bound - stop),
        "reward": earned / bound,
        "stop alone": stop / bound,
        "most used": float(most / limit),
    }


def late_outcomes(world: World, delay: float = 2.0 * HOUR, seed: int = 0) -> dict[str, float]:
    """An amount per day whose usage is seen after acting, two hours late; some outcomes never come."""
    amount = amount_per_day(world)
    rules = [tr.Budget("cost", amount, per="day", seen="after")]
    played = play(world, rules, known=True, delay=delay, seed=seed)
    days = by_day(world, played, amount)
    usual = (np.arange(len(days.used)) > 0) & days.binds
    return {
        "unused": float(np.mean(np.maximum(0.0, 1.0 - days.used[usual]))),
        "windows above": float(np.mean(days.used[usual] > ABOVE)),
        "mean excess": float(np.mean(np.maximum(0.0, days.used[usual] - 1.0))),
    }
