"""How many decisions are still to come: learnt from the days before and from today."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from zoneinfo import ZoneInfo

import numpy as np

from tightrope.kernels import pacing
from tightrope.validation import Array

Bounds = Callable[[float], tuple[float, float]]

# A new day counts this much in the level, the profile and the variances; the first ones count in full.
NEW_LEVEL, NEW_PROFILE, NEW_VARIANCE = 0.2, 0.15, 0.2
FIRST_BETWEEN, FIRST_WITHIN = 0.04, 0.02
# A weekday's factor is a mean of at most this many days, and of one more at 1.
MOST_WEEKS = 5.0
# What the profile has of every time of day, before anything is known of it; this fades with the number of days.
EVENNESS = 0.05
# A first day that starts later than this, as a share of the day, teaches no profile.
LATE_START = 0.02


class Traffic:
    """A forecast of decisions: level of a day × weekday × profile of the day × today's factor, in the array `state`.

    `bounds` gives the day of a moment, from midnight to midnight in `zone`. With `expect`, decisions per day, the first day is
    forecast like any other.

    >>> midnights = lambda t: (t // 86400 * 86400, t // 86400 * 86400 + 86400)
    >>> traffic = Traffic(midnights, "UTC", expect=1000.0)
    >>> mean, deviation = traffic.at(0.0).until(0.0, 86400.0)
    >>> round(mean)
    1000
    """

    def __init__(self, bounds: Bounds, zone: str, expect: float | None = None) -> None:
        self.bounds, self.zone = bounds, zone
        self.state = np.zeros(pacing.TRAFFIC_SIZE)
        self.state[pacing.LEVEL] = 0.0 if expect is None else expect
        self.state[pacing.BETWEEN], self.state[pacing.WITHIN] = FIRST_BETWEEN, FIRST_WITHIN
        self.vector(pacing.FACTORS, pacing.WEEK)[:] = 1.0
        self.vector(pacing.BEFORE, pacing.BUCKETS + 1)[:] = np.linspace(0.0, 1.0, pacing.BUCKETS + 1)
        self.vector(pacing.PROFILE, pacing.BUCKETS)[:] = 1.0 / pacing.BUCKETS

    def vector(self, at: int, n: int) -> Array:
        return self.state[at : at + n]

    @property
    def per_day(self) -> float:
        """Decisions on an ordinary day, as far as is known."""
        return float(max(self.state[pacing.LEVEL], self.state[pacing.TODAY]))

    @property
    def day_end(self) -> float:
        return float(self.state[pacing.END])

    def place(self, t: float) -> float:
        """The share of the day in progress that is over at t."""
        return float(pacing.place_in_day(self.state, t))

    def at(self, t: float) -> Traffic:
        """The forecast as of t: this one, or after midnight a copy that has learnt from the day that is over."""
        if self.state[pacing.START] <= t < self.state[pacing.END]:
            return self
        twin = Traffic(self.bounds, self.zone)
        twin.state[:] = self.state
        twin._begin_day(t)
        return twin

    def until(self, t: float, end: float) -> tuple[float, float]:
        """How many decisions come after t and before `end`, and the relative standard deviation of that number."""
        mean, deviation = pacing.still_to_come(self.state, t, end)
        return mean, deviation

    def note(self, t: float) -> None:
        """Count a decision at t, on the day in progress."""
        pacing.note_decision(self.state, t)

    def coming_by_time(self, parts: int, t: float, end: float) -> Array:
        """Of the decisions after t and before `end`, the share in each of so many equal parts of the day, (parts,)."""
        state = self.state
        edges = np.linspace(0.0, 1.0, parts + 1)
        places = [pacing.share_of_day(state, edge) for edge in edges.tolist()]
        whole = np.diff(places)
        gone = pacing.share_of_day(state, pacing.place_in_day(state, t))
        last = pacing.share_of_day(state, min(pacing.place_in_day(state, end), 1.0))
        today: Array = np.diff(np.clip(places, gone, max(last, gone)))
        later = max(0.0, (end - state[pacing.END]) / pacing.DAY)
        coming = today + later * whole
        total = coming.sum()
        return coming / total if total > 0.0 else whole

    def _begin_day(self, t: float) -> None:
        state, first = self.state, not self.state[pacing.END]
        if not first:
            self._learn_day()
        start, end = self.bounds(t)
        place = (t - start) / (end - start)
        state[pacing.START], state[pacing.END] = start, end
        state[pacing.WEEKDAY] = dt.datetime.fromtimestamp(start, ZoneInfo(self.zone)).weekday()
        state[pacing.BEGAN] = place if first else 0.0
        state[pacing.TODAY] = state[pacing.RECENT] = state[pacing.GONE] = 0.0
        state[pacing.SHARE] = pacing.share_of_day(state, place) if first else 0.0
        self.vector(pacing.COUNTS, pacing.BUCKETS)[:] = 0.0

    def _learn_day(self) -> None:
        state, counts = self.state, self.vector(pacing.COUNTS, pacing.BUCKETS)
        n, days, weekday = float(state[pacing.TODAY]), float(state[pacing.DAYS]), int(state[pacing.WEEKDAY])
        factors, seen = self.vector(pacing.FACTORS, pacing.WEEK), self.vector(pacing.SEEN, pacing.WEEK)
        whole = state[pacing.BEGAN] <= LATE_START
        if not n or (days and not whole):
            return
        level = float(state[pacing.LEVEL])
        if level and whole:
            state[pacing.BETWEEN] += NEW_VARIANCE * (
                (n / (level * factors[weekday]) - 1.0) ** 2 - state[pacing.BETWEEN]
            )
            seen[weekday] += 1.0
            factors[weekday] += (n / level - factors[weekday]) / (1.0 + min(seen[weekday], MOST_WEEKS - 1.0))
        if whole and days:
            self._learn_within(counts / n)
        if whole:
            self._learn_profile(counts / n)
        total = n if whole else n / max(1.0 - state[pacing.BEGAN], LATE_START)
        state[pacing.LEVEL] += max(1.0 / (days + 1.0), NEW_LEVEL) * (total / factors[weekday] - level)
        state[pacing.DAYS] += 1.0

    def _learn_within(self, shares: Array) -> None:
        usual = self.vector(pacing.BEFORE, pacing.BUCKETS + 1)[1:-1]
        known = usual > 0.05
        ways = (np.cumsum(shares)[:-1][known] / usual[known] - 1.0) ** 2
        spread = float(np.mean(ways * usual[known] / np.maximum(1.0 - usual[known], 0.02)))
        self.state[pacing.WITHIN] += NEW_VARIANCE * (spread - self.state[pacing.WITHIN])

    def _learn_profile(self, shares: Array) -> None:
        days = float(self.state[pacing.DAYS])
        profile = self.vector(pacing.PROFILE, pacing.BUCKETS)
        profile += max(1.0 / (days + 1.0), NEW_PROFILE) * (shares - profile)
        around = (np.roll(profile, 1) + profile + np.roll(profile, -1)) / 3.0
        around += EVENNESS / pacing.BUCKETS / (days + 1.0)
        self.vector(pacing.BEFORE, pacing.BUCKETS + 1)[1:] = np.cumsum(around / around.sum())
