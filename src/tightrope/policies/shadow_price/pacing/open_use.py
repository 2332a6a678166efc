"""How far what open decisions will use may be above what is expected of them."""

from __future__ import annotations

import math

import numpy as np

from tightrope.policies.state_file import Arrays

# Standard deviations of the sum that are kept free.
DEVIATIONS = 1.64
# How much each outcome leaves of those before it, and how many, each as far off as it was expected to be large, are supposed before
# the first.
KEPT, PRIOR = 0.999, 4.0


class OpenUse:
    """The decisions of one limit whose usage is still to come, by number: the start of their window and what is expected of each.

    The square of their errors is learnt from outcomes, as a part of the square of what was expected: of sums, not of each, so that
    a small use that was twice as large as expected counts as the little that it is. What is held is a quantile of the sum: errors
    of many decisions cancel out.

    >>> use = OpenUse()
    >>> for number in range(100):
    ...     use.begin(number, 0.0, expected=1.0)
    >>> 15.0 < use.spread(0.0) < 20.0  # of a hundred, ten times what is kept for one
    True
    >>> use.end(0, used=1.0)
    >>> use.begin(0, 1.0, expected=0.01)
    >>> use.end(0, used=1.0)  # a hundred times as much, but no more off than others
    >>> use.spread(0.0) < 20.0
    True
    """

    def __init__(self) -> None:
        self.decisions: dict[int, tuple[float, float]] = {}
        # By the start of a window: how many decisions are open, and the sum of the squares of what is expected of them.
        self.squares: dict[float, tuple[int, float]] = {}
        # Over outcomes that have come, later ones counting more: their number, and the sums of squared errors and expectations.
        self.n, self.errors, self.expected = 0.0, 0.0, 0.0

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
            self.n = KEPT * self.n + 1.0
            self.errors = KEPT * self.errors + (used - expected) ** 2
            self.expected = KEPT * self.expected + expected**2

    def spread(self, start: float) -> float:
        """What is kept free for the decisions of a window, beyond what is expected of them."""
        _, squares = self.squares.get(start, (0, 0.0))
        supposed = PRIOR * self.expected / self.n if self.n else 1.0
        return DEVIATIONS * math.sqrt((self.errors + supposed) / (self.expected + supposed) * squares)

    # Save, restore

    def arrays(self) -> Arrays:
        rows = [(number, start, expected) for number, (start, expected) in self.decisions.items()]
        return {
            "decisions": np.array(rows).reshape(-1, 3),
            "squares": np.array([(start, *own) for start, own in self.squares.items()]).reshape(-1, 3),
            "learnt": np.array([self.n, self.errors, self.expected]),
        }

    def load(self, arrays: Arrays) -> None:
        self.decisions = {int(n): (start, expected) for n, start, expected in arrays["decisions"].tolist()}
        self.squares = {start: (int(n), square) for start, n, square in arrays["squares"].tolist()}
        self.n, self.errors, self.expected = arrays["learnt"].tolist()
