"""What a limit per window leaves for each decision still to come."""

from __future__ import annotations

from typing import NamedTuple

from tightrope.kernels import pacing
from tightrope.policies.shadow_price.pacing.traffic import Traffic
from tightrope.validation import Array

# How far from the expected number of decisions limits are prepared for, in standard deviations, and how many typical uses stay free
# at the end; for upper limits, and for lower ones.
CAUTION, SPARE = 0.5, 3.0
CAUTION_AT_LEAST, SPARE_AT_LEAST = 1.0, 2.0
# The stretches ahead that a rolling window is paced over, as parts of its span: longer ones make it timid, a short one greedy.
STRETCHES = (1.0 / 16.0, 1.0 / 4.0, 1.0 / 2.0)


class Standing(NamedTuple):
    """Where a window stands: what was used, or is expected of open decisions, how many decisions it had, and when it ends.

    A rolling window has no end, but buckets `ring` of `width` seconds each, oldest first; the first leaves it at `end`. `before`:
    how many decisions its key had in the last window.
    """

    used: float
    decided: int
    start: float
    end: float
    before: int = 0
    ring: Array | None = None
    width: float = 0.0


class PacedLimit(NamedTuple):
    """One limit: column k of the costs, the number of what it counts, the same for limits with one price, and the limit itself.

    `sign` is −1 for a lower limit, whose costs are negative uses. A share is an amount for each decision, so only what was used
    beyond it is spread. `by` names the key that has an account of its own. `span`: how many seconds a window has at least; one
    that `rolls` has no end.
    """

    k: int
    usage: int
    sign: float
    limit: float
    share: bool = False
    by: str | None = None
    hard: bool = False
    span: float = 86_400.0
    rolls: bool = False

    @property
    def stops(self) -> bool:
        """Whether no action may exceed what is left."""
        return self.sign > 0.0 and not self.share

    def inside(self, other: PacedLimit) -> bool:
        """Whether it binds within a window of another limit on the same usage: for one key of it, or for a shorter time."""
        if (self.by is None) != (other.by is None):
            return other.by is None
        return self.by is None and self.span < other.span

    def horizon(self, standing: Standing, t: float) -> float:
        """Until when decisions draw on what is left now."""
        return t + self.span if self.rolls else standing.end

    @property
    def caution(self) -> float:
        return CAUTION if self.sign > 0.0 else CAUTION_AT_LEAST

    def left(self, standing: Standing) -> float:
        """What is free in the costs of this column; below 0 where something is owed.

        >>> PacedLimit(0, 0, 1.0, 50.0).left(Standing(20.0, 7, 0.0, 60.0))
        30.0
        >>> round(PacedLimit(0, 0, 1.0, 0.25, share=True).left(Standing(3.0, 8, 0.0, 60.0)), 2)  # one more than a quarter of eight
        -1.0
        """
        allowed = self.limit * (standing.decided if self.share else 1.0)
        return self.sign * (allowed - standing.used)

    def per_decision(self, standing: Standing, t: float, traffic: Traffic, typical: float) -> float:
        """c: what each decision from t on may cost, this one included. `typical` is the size of one use."""
        spare = typical * (SPARE if self.sign > 0.0 else SPARE_AT_LEAST)
        left = self.left(standing) - spare
        if standing.ring is None:
            return self._spread(left, t, standing.end, traffic)
        buckets, least = len(standing.ring), float("inf")
        gone, so_far = 0.0, 0
        for part in STRETCHES:
            n = max(1, round(buckets * part))
            gone += self.sign * float(standing.ring[so_far:n].sum())
            so_far = n
            until = standing.end + (n - 1) * standing.width
            least = min(least, self._spread(left + gone, t, until, traffic))
        return least

    def _spread(self, left: float, t: float, end: float, traffic: Traffic) -> float:
        mean, deviation = traffic.until(t, end)
        return float(pacing.amount_per_decision(left, mean, deviation, self.caution))
