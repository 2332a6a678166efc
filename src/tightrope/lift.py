"""What a policy earns or uses more than a control group: an interval that is valid whenever you look at it.

Each decision, or each user, is in the control group with a known probability π. With y an outcome, n of them in all, and ȳ₁, ȳ₀
the means under the policy and in the control group,

    f = ȳ₁ − ȳ₀ + (y − ȳ₁)/(1 − π)  under the policy,      ȳ₁ − ȳ₀ − (y − ȳ₀)/π  in the control group
    v = var f + 1.5 L²/(min(π, 1 − π)² n),      L² = Σ(y − ȳ)⁴ / Σ(y − ȳ)² over both
    half-width = √( 2 v (n q + 1)/(n² q) · ln(√(n q + 1)/α) ),      q = (−2 ln α + ln(−2 ln α) + 1)/2000

The boundary is that of a normal mixture (Robbins), narrowest after 2000 outcomes, applied to sums that are nearly normal, so
the interval is valid for the large n that it starts with, not for any n. The term with L² counts one or two large outcomes more
than were seen, as if they had been in the smaller arm: without it, rare outcomes would break the interval. It is not from a
theorem; `benchmarks/lift.py` measures it.

What is estimated is the mean, over the outcomes so far, of the expected difference at the time of each. So the policy may learn.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.validation import Array

POLICY: Final = 0
CONTROL: Final = 1
# Fewer outcomes than this in either arm say nothing.
LEAST: Final = 30
_ALPHA: Final = 0.05
_NARROWEST_AT: Final = 2000
_LARGE_ONES: Final = 1.5


class Lift(NamedTuple):
    """Policy less control, by measure: the estimate and a 95 % interval, infinite while too little is known."""

    estimate: Array
    low: Array
    high: Array


class ArmSums:
    """Sums of outcomes and their powers by arm, for M measures.

    `shift` (M,) is the first outcome of each, subtracted before powers are taken; `sums` (2, 5, M) holds Σ(y − shift)^i by arm,
    for i = 0 to 4.

    >>> sums = ArmSums(1)
    >>> for i in range(1000):
    ...     sums.add(CONTROL if i % 10 == 0 else POLICY, [0], [float(i % 3 == 0)])
    >>> sums.counts[:, 0].tolist(), sums.means[:, 0].round(3).tolist()
    ([900.0, 100.0], [0.333, 0.34])
    >>> found = sums.lift(0.1)
    >>> bool(found.low[0] < 0 < found.high[0])
    True
    """

    def __init__(self, n_measures: int) -> None:
        self.shift = np.full(n_measures, np.nan)
        self.sums = np.zeros((2, 5, n_measures))

    def add(self, arm: int | NDArray[np.int64], at: ArrayLike, y: ArrayLike) -> None:
        """One more outcome of the measures `at`; `arm` may differ by measure."""
        at, y = np.asarray(at), np.asarray(y, dtype=float)
        known = self.shift[at]
        new = np.isnan(known)
        if new.any():
            self.shift[at] = np.where(new, y, known)
        self.sums[arm, :, at] += self._powers(at, y)

    def move(self, arm: int | NDArray[np.int64], at: ArrayLike, was: ArrayLike, now: ArrayLike) -> None:
        """An outcome that was added before has another value now, such as the sum of one user."""
        at = np.asarray(at)
        old, new = (self._powers(at, np.asarray(one, dtype=float)) for one in (was, now))
        self.sums[arm, :, at] += new - old

    @property
    def counts(self) -> Array:
        """How many outcomes there were, (2, M)."""
        return self.sums[:, 0]

    @property
    def means(self) -> Array:
        """Mean outcomes, (2, M); nan where there are none."""
        counts = np.where(self.counts > 0, self.counts, np.nan)
        means: Array = self.shift + self.sums[:, 1] / counts
        return means

    def lift(self, share: float) -> Lift:
        """The interval, where the control group has this share."""
        n, first, second = self.sums[:, 0], self.sums[:, 1], self.sums[:, 2]
        enough = n.min(axis=0) >= LEAST
        counts, total = np.maximum(n, 1.0), np.maximum(n.sum(axis=0), 1.0)
        spread = np.maximum(0.0, second - first**2 / counts)
        variance = (spread[POLICY] / (1.0 - share) ** 2 + spread[CONTROL] / share**2) / total
        large = self._large_squared(total)
        enough &= large > 0.0
        v = variance + _LARGE_ONES * large / (min(share, 1.0 - share) ** 2 * total)
        half = np.where(enough, np.sqrt(v * boundary(total)), np.inf)
        estimate = first[POLICY] / counts[POLICY] - first[CONTROL] / counts[CONTROL]
        return Lift(estimate, estimate - half, estimate + half)

    def arrays(self) -> dict[str, Any]:
        """All of it, by name."""
        return {"shift": self.shift, "sums": self.sums}

    def _powers(self, at: Any, y: Array) -> Array:
        d = y - self.shift[at]
        powers = np.empty((*d.shape, 5))
        powers[..., 0], powers[..., 1] = 1.0, d
        np.multiply(d, d, out=powers[..., 2])
        np.multiply(powers[..., 2], d, out=powers[..., 3])
        np.multiply(powers[..., 2], powers[..., 2], out=powers[..., 4])
        return powers

    def _large_squared(self, total: Array) -> Array:
        """L²; 0 where all outcomes so far are equal."""
        e = self.sums.sum(axis=0) / total
        second = e[2] - e[1] ** 2
        fourth = e[4] - 4 * e[1] * e[3] + 6 * e[1] ** 2 * e[2] - 3 * e[1] ** 4
        # Rounding leaves about this much of outcomes that are all equal.
        varies = second > 1e-12 * e[2]
        return np.where(varies, np.maximum(fourth, 0.0) / np.where(varies, second, 1.0), 0.0)


def boundary(n: ArrayLike) -> Array:
    """The square of the half-width after n outcomes of variance 1."""
    n = np.asarray(n, dtype=float)
    q = (-2.0 * math.log(_ALPHA) + math.log(-2.0 * math.log(_ALPHA)) + 1.0) / _NARROWEST_AT
    squared: Array = 2.0 * (n * q + 1.0) / (n * n * q) * np.log(np.sqrt(n * q + 1.0) / _ALPHA)
    return squared
