"""How far what open decisions will use may be above what is expected of them."""

from __future__ import annotations

import math

import numpy as np

from tightrope.policies.state_file import Arrays

# Standard deviations of the sum that are kept free.
DEVIATIONS = 1.64
# How much each outcome leaves of those before it, and the outcomes with ratio 1 and variance 1 that are supposed before the first.
KEPT, PRIOR = 0.999, 4.0


class OpenUse:
    """The decisions of one limit whose usage is still to come, by number: the start of their window and what is expected of each.

    The ratio of usage to its expectation is learnt from outcomes. What is held is a quantile of the sum: errors of many decisions
    cancel out.

    >>> use = OpenUse()
    >>> for number in range(100):
    ...     use.begin(number, 0.0, expected=1.0)
    >>> 15.0 < use.spread(0.0) < 20.0  # of a hundred, ten times what is kept for one
    True
    """

    def __init__(self) -> None:
        self.decisions: dict[int, tuple[float, float]] = {}
        # By the start of a window: how many decisions are open, and the sum of the squares of what is expected of them.
        self.squares: dict[float, tuple[int, float]] = {}
        self.n, self.sum, self.square = PRIOR, PRIOR, 2.0 * PRIOR

    def begin(self, number: int, start: float, expected: float) -> None:
        self.decisions[number] = start, expected
        n, square = self.squares.get(start, (0, 0.0))
        self.squares[start] = n + 1, square + expected**2

    def end(self, number: int, used: float | None) -> None:
        """An outcome has come, or with None never will."""
        if number not in self.decisions:
            return
        start, expected = self.decisions.pop(number)
        n, square = self.squares.pop(start)
        if n > 1:
            self.squares[start] = n - 1, max(0.0, square - expected**2)
        if used is not None and expected > 0.0:
            ratio = used / expected
            self.n, self.sum, self.square = (
                KEPT * self.n + 1.0,
                KEPT * self.sum + ratio,
                KEPT * self.square + ratio**2,
            )

    def spread(self, start: float) -> float:
        """What is kept free for the decisions of a window, beyond what is expected of them."""
        _, squares = self.squares.get(start, (0, 0.0))
        mean = self.sum / self.n
        variance = max(self.square / self.n - mean**2, 0.0)
        return DEVIATIONS * math.sqrt(variance * squares)

    # Save, restore

    def arrays(self) -> Arrays:
        rows = [(number, start, expected) for number, (start, expected) in self.decisions.items()]
        return {
            "decisions": np.array(rows).reshape(-1, 3),
            "squares": np.array([(start, *own) for start, own in self.squares.items()]).reshape(-1, 3),
            "ratios": np.array([self.n, self.sum, self.square]),
        }

    def load(self, arrays: Arrays) -> None:
        self.decisions = {int(n): (start, expected) for n, start, expected in arrays["decisions"].tolist()}
        self.squares = {start: (int(n), square) for start, n, square in arrays["squares"].tolist()}
        self.n, self.sum, self.square = arrays["ratios"].tolist()
