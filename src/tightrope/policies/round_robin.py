"""Balance without learning."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.offer import Offer
from tightrope.policies.choices import Choice
from tightrope.policies.comparator import Comparator
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays
from tightrope.validation import real_array, require_range, whole_number


@register("round-robin")
class RoundRobin(Comparator):
    """The action on offer that is furthest behind its share: balance without learning.

    Parameters
    ----------
    n_actions : int
    shares : (J,) array, optional
        The share of decisions that each action should get; equal by default.

    Examples
    --------
    >>> policy = RoundRobin(2, shares=[0.75, 0.25])
    >>> [policy.decide().action for _ in range(8)]
    [0, 0, 1, 0, 0, 0, 1, 0]
    """

    _loop: ClassVar[str | None] = "round-robin"
    _learns: ClassVar[bool] = False
    _shown = ("n_actions",)
    settings_by_action = ("shares",)
    _n_actions: int

    def __init__(self, n_actions: int, *, shares: Any = None) -> None:
        self._n_actions = whole_number("n_actions", n_actions, low=1)
        given = np.full(self._n_actions, 1.0 / self._n_actions) if shares is None else shares
        self.shares = real_array("shares", given, (self._n_actions,)).copy()
        require_range("shares", self.shares, 0.0, 1.0)
        if abs(self.shares.sum() - 1.0) > 1e-6:
            raise InvalidInput(field="shares", must=f"sum to 1, but they sum to {self.shares.sum():.9g}")
        self.counts = np.zeros(self._n_actions)

    def _choose(self, offer: Offer) -> Choice:
        behind = self.shares * (1.0 + self.counts.sum()) - self.counts
        action = kernels.round_robin_choice(offer.ids, self.shares, self.counts)
        row = int(np.argmax(offer.ids == action))
        return Choice(row, np.zeros(len(offer.ids)), behind[offer.ids])

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        self.counts[offer.ids[choice.row]] += 1.0

    def _arrays(self) -> Arrays:
        return {"counts": self.counts}
