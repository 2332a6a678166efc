"""The prices of limits per window: before each decision the dual at what is left per decision still to come."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.kernels import shadow
from tightrope.policies.shadow_price.pacing.curves import Curve
from tightrope.policies.shadow_price.pacing.keys import TIMES, KeyTable
from tightrope.policies.shadow_price.pacing.limits import PacedLimit, Standing
from tightrope.policies.shadow_price.pacing.traffic import Traffic
from tightrope.policies.state_file import Arrays, part_of
from tightrope.validation import Array

# Where a limit, by its number, stands at a time for a key ("": one account for all).
Stands = Callable[[int, str, float], Standing]

# How often a day prices are solved for.
SOLVES_A_DAY = 24.0
# Prices of several usages are solved one after the other, this many times.
SWEEPS = 6
# How many multiplications a row takes in one of them.
CURVE_WORK = 40.0
# About so many days are remembered.
DAYS_REMEMBERED = 7.0
# Remembered rounds are told apart by TIMES of the day; what a round weighs whatever its time; and the least number of rounds that
# share the weight of a time.
WHATEVER_TIME, LEAST_OF_TIME = 0.1, 16.0
# Rounds of less than an hour would be too few to tell what is to come.
SHORTEST = 3600.0


def mean_size(core: Array, k: int) -> float:
    """The mean size of the costs in column k that were on offer."""
    return float(shadow.vector(core, shadow.SIZE)[k] / max(1.0, shadow.rounds_that_count(core)))


class Sample(NamedTuple):
    """Rounds with drawn rewards (R,) and costs (R, K), as a solve has them; what each weighs for each
    limit, and what the limits charged it, (n, M).
    """

    rewards: Array
    costs: Array
    offsets: NDArray[np.int64]
    weights: Array
    paid: Array


class Pacer:
    """Paces limits, given the forecast of decisions and where each limit stands.

    It sets the prices of its columns in `core` (`kernels.shadow`) before a decision, and what is left as their totals. Each limit
    has a curve of what would be used at each price by the decisions to come in its window. Limits on the same usage have one
    price, that of the dearest: the dual of all of them.
    """

    def __init__(self, limits: Sequence[PacedLimit], traffic: Traffic, stands: Stands, seed: int) -> None:
        self.limits, self.traffic, self.stands = tuple(limits), traffic, stands
        numbers = range(len(self.limits))
        self.usages = [
            [m for m in numbers if self.limits[m].usage == u]
            for u in {one.usage: None for one in self.limits}
        ]
        # What a round of the past paid anyway, whatever this limit charges: prices of keys and of shorter windows.
        self.within = [
            [i for i in own if i != m and self.limits[i].inside(self.limits[m])]
            for m in numbers
            for own in self.usages
            if m in own
        ]
        self.curves = [Curve() for _ in numbers]
        self.tables = {m: KeyTable(seed) for m in numbers if self.limits[m].by and not self.limits[m].rolls}
        # In the last round: c of each limit, what it would charge by itself, what was left and when its window ends; and the time.
        self.ratios, self.alone = np.full(len(numbers), np.inf), np.zeros(len(numbers))
        # Whether even the cheapest choices exceed a limit.
        self.unmet = np.zeros(len(numbers))
        self.left, self.ends, self.now = np.zeros(len(numbers)), np.zeros(len(numbers)), 0.0
        # By number: the time of day of a remembered decision, and what each limit charged by itself.
        self.moments: dict[int, tuple[int, Array]] = {}

    # One round

    def set_prices(self, core: Array, t: float, keys: Mapping[str, str]) -> None:
        """The prices of a decision at t into `core`, with what is left of each window, as a total below 0."""
        traffic = self.traffic.at(t)
        totals, prices = shadow.vector(core, shadow.TOTALS), shadow.vector(core, shadow.PRICE)
        for m, limit in enumerate(self.limits):
            standing = self.stands(m, "" if limit.by is None else keys[limit.by], t)
            left = limit.left(standing)
            totals[limit.k], prices[limit.k], self.left[m] = -left, 0.0, left
            self.ends[m] = max(limit.horizon(standing, t), t + SHORTEST)
            if limit.by is None:
                typical = mean_size(core, limit.k)
                self.ratios[m] = limit.per_decision(standing, t, traffic, typical)
                self.alone[m] = self.curves[m].price(float(self.ratios[m]))
            elif m in self.tables:
                self.alone[m] = self.curves[m].mean_price(left, self.tables[m].chances(standing, t))
        for own in self.usages:
            dearest = max(own, key=self.alone.__getitem__)
            prices[self.limits[dearest].k] = self.alone[dearest]

    def note(self, core: Array, t: float, keys: Mapping[str, str], number: int) -> None:
        """A decision was made at the prices just set, and is about to be booked."""
        self.traffic = self.traffic.at(t)
        time = self._time_of_day(t)
        for m, table in self.tables.items():
            key = keys[str(self.limits[m].by)]
            table.note(key, self.stands(m, key, t), t, time, partial(self.stands, m))
        self.traffic.note(t)
        if core[shadow.SLOT] >= 0.0:
            self.moments[number] = (time, self.alone.copy())
        core[shadow.RECALL] = 1.0 / (DAYS_REMEMBERED * max(1.0, self.traffic.per_day))
        self.now = t

    def _time_of_day(self, t: float) -> int:
        """Which of so many parts of the day in progress."""
        return min(max(int(self.traffic.place(t) * TIMES), 0), TIMES - 1)

    # A solve for prices

    def next_solve(self, t: float) -> float:
        """The round of the solve after one in round t."""
        return max(t + 1.0, math.floor(t + self.traffic.per_day / SOLVES_A_DAY))

    def weigh(self, decisions: Sequence[int]) -> tuple[Array, Array]:
        """For each limit, what remembered decisions weigh by what is to come at their time of day, and what it charged, (n, M)."""
        known = [self.moments.get(number) for number in decisions]
        n, M = len(known), len(self.limits)
        paid = np.array([np.zeros(M) if one is None else one[1] for one in known]).reshape(n, M)
        times = np.array([-1 if one is None else one[0] for one in known])
        there = np.maximum(np.bincount(times[times >= 0], minlength=TIMES), LEAST_OF_TIME)
        weights = np.empty((n, M))
        for m in range(M):
            coming = self.traffic.coming_by_time(TIMES, self.now, float(self.ends[m]))
            if m in self.tables:
                coming = self.tables[m].coming(self._time_of_day(self.now), coming)
            each = (1.0 - WHATEVER_TIME) * coming / there
            weights[:, m] = WHATEVER_TIME / n + np.where(times >= 0, each[times], 1.0 / n)
        return weights * (n / weights.sum(axis=0)), paid

    def charged(self, sample: Sample, but: Collection[int] = ()) -> Array:
        """Rewards minus what all usages cost but that of some limits: the prices of the longest windows, or what others charged."""
        rewards, sizes = sample.rewards.copy(), np.diff(sample.offsets)
        for own in self.usages:
            if own[0] not in but:
                lasting = [m for m in own if not any(m in self.within[i] for i in own)]
                base = max(self.alone[m] for m in lasting if self.limits[m].by is None or m in self.tables)
                anyway = [m for m in own if m not in lasting]
                price = np.maximum(base, sample.paid[:, anyway].max(axis=1, initial=0.0))
                rewards -= np.repeat(price, sizes) * sample.costs[:, self.limits[own[0]].k]
        return rewards

    def leaves(self, K: int) -> bool:
        """Whether any of K rules are not paced."""
        return len(self.limits) < K

    def deadline(self, t: float, rows: float, row_work: float) -> float:
        """The round in which a solve that starts in round t is over, if there are no other rules."""
        work = rows * (row_work + SWEEPS * len(self.limits) * CURVE_WORK)
        return t + min(math.ceil(work / shadow.BUDGET) - 1.0, math.floor(0.5 * t))

    def solved(self, core: Array, sample: Sample) -> None:
        """Take note of a solve, which has set the prices of all other rules: what would be used at each price."""
        others = shadow.vector(core, shadow.PRICE).copy()
        others[[one.k for one in self.limits]] = 0.0
        free = sample._replace(rewards=sample.rewards - sample.costs @ others)
        several = len(self.usages) > 1
        for _ in range(SWEEPS if several else 1):
            for own in self.usages:
                rewards = self.charged(free, but=own) if several else free.rewards
                for m in own:
                    self._solve(m, core, free._replace(rewards=rewards))
        unmet = shadow.vector(core, shadow.INFEASIBLE)
        for m, limit in enumerate(self.limits):
            # Towards the end of a window a few decisions more or less would decide.
            if limit.stops and not (limit.by or limit.rolls) and self.ends[m] - self.now > 0.5 * limit.span:
                coming, _ = self.traffic.until(self.now, float(self.ends[m]))
                self.unmet[m] = self.left[m] < self.curves[m].least_use * coming
            unmet[limit.k] = self.unmet[m]

    def _solve(self, m: int, core: Array, sample: Sample) -> None:
        k = self.limits[m].k
        size = float(shadow.typical_size(core, k))
        unit = float(core[shadow.RHO]) / size if size > 0.0 else 1.0
        floors = sample.paid[:, self.within[m]].max(axis=1, initial=0.0)
        weights = np.ascontiguousarray(sample.weights[:, m])
        uses = np.ascontiguousarray(sample.costs[:, k])
        self.curves[m].solve(sample.rewards, uses, sample.offsets, weights, floors, unit)
        if self.limits[m].by is None:
            self.alone[m] = self.curves[m].price(float(self.ratios[m]))

    def forget(self, kept: Collection[int]) -> None:
        """Only these decisions are still remembered."""
        self.moments = {number: one for number, one in self.moments.items() if number in kept}

    # Copy, save, restore

    def copy(self) -> Pacer:
        """A twin whose prices can be set and solved for; what decisions note is shared."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        for name in ("ratios", "alone", "left", "ends", "unmet"):
            setattr(twin, name, getattr(self, name).copy())
        twin.curves = [one.copy() for one in self.curves]
        return twin

    def arrays(self) -> Arrays:
        found: Arrays = {"traffic": self.traffic.state.copy(), "now": np.array([self.now])}
        found["rounds"] = np.array([self.ratios, self.alone, self.left, self.ends, self.unmet])
        found["curves"] = np.array([[one.prices, one.use] for one in self.curves])
        found["moments/numbers"] = np.array(list(self.moments), dtype=np.int64)
        found["moments/times"] = np.array([time for time, _ in self.moments.values()], dtype=np.int64)
        paid = np.array([paid for _, paid in self.moments.values()])
        found["moments/paid"] = paid.reshape(len(self.moments), len(self.limits))
        for m, table in self.tables.items():
            found |= {f"keys/{m}/{name}": array for name, array in table.arrays().items()}
        return found

    def load(self, arrays: Arrays) -> None:
        self.traffic.state[:] = arrays["traffic"]
        self.now = float(arrays["now"][0])
        self.ratios[:], self.alone[:], self.left[:], self.ends[:], self.unmet[:] = arrays["rounds"]
        self.curves = [Curve(prices.copy(), use.copy()) for prices, use in arrays["curves"]]
        each = zip(*(arrays[f"moments/{name}"] for name in ("numbers", "times", "paid")))
        self.moments = {int(number): (int(time), paid.copy()) for number, time, paid in each}
        for m, table in self.tables.items():
            table.load(part_of(arrays, f"keys/{m}/"))
