"""What would be used per decision at each price, on remembered rounds: the dual for one usage, solved for every limit at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightrope.kernels import pacing
from tightrope.validation import Array

# Prices: 0, and this many more from 10^LOWEST to 10^HIGHEST times ρ/m.
STEPS, LOWEST, HIGHEST = 59, -2.5, 1.5
GRID = np.concatenate([[0.0], np.logspace(LOWEST, HIGHEST, STEPS)])


class Curve:
    """Mean use per decision at a grid of prices.

    >>> curve = Curve()
    >>> curve.price(0.5)  # nothing is known yet
    0.0
    >>> rewards, uses = np.array([1.0, 0.0, 3.0, 0.0]), np.array([1.0, 0.0, 1.0, 0.0])
    >>> curve.solve(rewards, uses, np.array([0, 2, 4]), np.ones(2), np.zeros(2), unit=1.0)
    >>> 1.0 < curve.price(0.5) < 1.2  # only the second round, which earns 3 more, uses one at this price
    True
    """

    def __init__(self, prices: Array | None = None, use: Array | None = None) -> None:
        self.prices = np.zeros(len(GRID)) if prices is None else prices
        self.use = np.zeros(len(GRID)) if use is None else use

    @property
    def solved(self) -> bool:
        return bool(self.prices[-1] > 0.0)

    def copy(self) -> Curve:
        return Curve(self.prices.copy(), self.use.copy())

    def solve(
        self,
        rewards: Array,
        uses: Array,
        offsets: NDArray[np.int64],
        weights: Array,
        floors: Array,
        unit: float,
    ) -> None:
        """Fill the curve from rounds, whose rows start at `offsets`; none pays less than its floor. `unit` is ρ/m."""
        self.prices[:] = GRID * unit
        pacing.fill_use(rewards, uses, offsets, weights, floors, self.prices, self.use)

    def price(self, c: float) -> float:
        """The least price at which no more than c is used per decision."""
        return float(pacing.price_at(self.prices, self.use, c)) if self.solved else 0.0

    def mean_price(self, left: float, chances: Array) -> float:
        """The mean price of an even share of what is left, over the chances of how many decisions are still to come."""
        if not self.solved:
            return 0.0
        return float(pacing.mean_price(self.prices, self.use, left, chances, pacing.TYPICAL))

    @property
    def least_use(self) -> float:
        """What is used per decision at the highest price."""
        return float(self.use[-1])
