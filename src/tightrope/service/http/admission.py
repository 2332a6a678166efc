"""Which requests get in: fair shares of concurrent requests, rates by key, and a budget for slow bodies."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable

from tightrope.service.answer import Refusal


class Admission:
    """Requests in progress: half of the slots are shared equally by the experiments, the rest are first come, first served."""

    def __init__(self, experiments: Iterable[str], slots: int) -> None:
        self._since: dict[str, dict[int, float]] = {name: {} for name in experiments}
        self._own = slots // (2 * max(1, len(self._since)))
        self._common = slots - self._own * len(self._since)
        self._borrowed = 0
        self._tickets = itertools.count()

    def enter_all(self, experiment: str, slots: int) -> list[int]:
        """Several slots, by their tickets; or a `Refusal` and none."""
        tickets: list[int] = []
        try:
            for _ in range(slots):
                tickets.append(self.enter(experiment))
        except Refusal:
            for ticket in tickets:
                self.leave(experiment, ticket)
            raise
        return tickets

    def enter(self, experiment: str) -> int:
        """A slot for a request, by its ticket; or a `Refusal` with 503."""
        inside = self._since[experiment]
        if len(inside) >= self._own:
            if self._borrowed >= self._common:
                raise Refusal(503, "overloaded", "too many requests are in progress", retry_after=1)
            self._borrowed += 1
        ticket = next(self._tickets)
        inside[ticket] = time.monotonic()
        return ticket

    def leave(self, experiment: str, ticket: int) -> None:
        inside = self._since[experiment]
        del inside[ticket]
        self._borrowed -= len(inside) >= self._own

    def waiting(self, experiment: str) -> int:
        return len(self._since[experiment])

    def oldest(self, experiment: str) -> float:
        """How many seconds ago the oldest one got in; 0 if there is none."""
        first = next(iter(self._since[experiment].values()), None)
        return 0.0 if first is None else time.monotonic() - first


class Rates:
    """Requests per second by key: each has a bucket that holds one second's worth and fills evenly."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str, rate: float) -> None:
        now = self._clock()
        most = max(1.0, rate)
        left, then = self._buckets.get(key, (most, now))
        left = min(most, left + (now - then) * rate)
        if left < 1.0:
            self._buckets[key] = left, now
            pause = math.ceil((1.0 - left) / rate)
            words = f"this key may send {rate:g} requests per second"
            raise Refusal(429, "rate", words, retry_after=min(pause, 3600))
        self._buckets[key] = left - 1.0, now

    def charge(self, key: str, more: int) -> None:
        """Count more requests of a key that was let in: it then waits until its bucket has filled again."""
        left, then = self._buckets[key]
        self._buckets[key] = left - more, then


class BodyBudget:
    """Memory for incomplete bodies: a total budget, of which one key gets at most half."""

    def __init__(self, total: int) -> None:
        self._half = total // 2
        self._left = total
        self._by: Counter[str | None] = Counter()

    def take(self, by: str | None, size: int) -> None:
        if size > self._left or (by is not None and self._by[by] + size > self._half):
            raise Refusal(503, "overloaded", "too many bodies are being received", retry_after=1)
        self._left -= size
        self._by[by] += size

    def give_back(self, by: str | None, size: int) -> None:
        self._left += size
        self._by[by] -= size
        if not self._by[by]:
            del self._by[by]
