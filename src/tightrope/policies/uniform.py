"""Any action on offer, all equally likely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tightrope import kernels
from tightrope.offer import Offer
from tightrope.policies.choices import Choice
from tightrope.policies.comparator import Comparator
from tightrope.policies.registry import register
from tightrope.validation import whole_number


@register("uniform")
class Uniform(Comparator):
    """One of the actions on offer, all equally likely.

    >>> policy = Uniform(3, seed=1)
    >>> decision = policy.decide()
    >>> round(decision.probability, 3)
    0.333
    """

    _randomised: ClassVar[bool] = True
    _loop: ClassVar[str | None] = "uniform"
    _learns: ClassVar[bool] = False
    _shown = ("n_actions",)
    _n_actions: int

    def __init__(self, n_actions: int, *, seed: int = 0) -> None:
        self._n_actions = whole_number("n_actions", n_actions, low=1)
        self.seed = whole_number("seed", seed)

    def _choose(self, offer: Offer) -> Choice:
        J = len(offer.ids)
        row = int(kernels.uniform_choice(np.arange(J), self._uniform()))
        return Choice(row, np.zeros(J), np.zeros(J), np.full(J, 1.0 / J))
