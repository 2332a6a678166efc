"""Actions drawn with fixed probabilities."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.offer import Offer
from tightrope.policies.choices import Choice
from tightrope.policies.comparator import Comparator
from tightrope.policies.registry import register
from tightrope.validation import real_array, require_range, whole_number


@register("fixed-mix")
class FixedMix(Comparator):
    """Each action with its own probability, whatever the context.

    If not all actions are on offer, the others share the rest in proportion; if none of those has a share, all are equally likely.

    Parameters
    ----------
    n_actions : int
    shares : (J,) array
        The probability of each action.

    Examples
    --------
    >>> policy = FixedMix(3, shares=[0.5, 0.25, 0.25])
    >>> policy.decide(actions=[0, 1]).probabilities.round(3)
    array([0.667, 0.333])
    """

    _randomised: ClassVar[bool] = True
    _learns: ClassVar[bool] = False
    _shown = ("n_actions", "shares")
    settings_by_action = ("shares",)
    _n_actions: int

    def __init__(self, n_actions: int, *, shares: Any, seed: int = 0) -> None:
        self._n_actions = whole_number("n_actions", n_actions, low=1)
        self.shares = real_array("shares", shares, (self._n_actions,)).copy()
        require_range("shares", self.shares, 0.0, 1.0)
        if abs(self.shares.sum() - 1.0) > 1e-6:
            raise InvalidInput(field="shares", must=f"sum to 1, but they sum to {self.shares.sum():.9g}")
        self.seed = whole_number("seed", seed)

    def _choose(self, offer: Offer) -> Choice:
        own = self.shares[offer.ids]
        pi = own / own.sum() if own.any() else np.full(len(own), 1.0 / len(own))
        cdf = np.cumsum(pi)
        # Rounding must not leave a draw beyond the end to an action without a share.
        cdf[np.flatnonzero(pi)[-1] :] = 1.0
        return Choice(int(kernels.pick(cdf, self._uniform())), np.zeros(len(pi)), pi, pi)
