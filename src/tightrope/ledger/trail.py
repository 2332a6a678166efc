"""Where an experiment stood at up to 240 moments since it began: what the dashboard draws."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_MOST = 240


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """Sums up to one moment; `actions` are counts by id."""

    decisions: int
    time: int
    rewards: int
    reward_sum: float
    totals: list[float]
    queue: list[float]
    allowed: list[float]
    actions: list[int]


class Trail(msgspec.Struct):
    """Moments at equal distances, twice as far apart whenever there are too many."""

    moments: list[Moment] = []
    stride: int = 1

    def due(self, decisions: int) -> bool:
        return decisions % self.stride == 0

    def add(self, moment: Moment) -> None:
        self.moments.append(moment)
        if len(self.moments) >= _MOST:
            self.moments = self.moments[1::2]
            self.stride *= 2

    def begin_again(self) -> None:
        self.moments = []

    def __iter__(self) -> Iterator[Moment]:
        return iter(self.moments)
