"""What policies share that play only what is safe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.models import Model
from tightrope.offer import Offer
from tightrope.policies.choices import copy_of_model, estimates, failure_probability
from tightrope.policies.comparator import Comparator
from tightrope.problem import Setting, mean_costs_at_most
from tightrope.validation import finite_number, whole_number
from tightrope.words import Place

# What bounds the mean reward.
REWARD_BOUND = 1.0


class SafePolicy(Comparator):
    """Models of the reward and of K costs, which are seen after acting."""

    _reward: Model
    _cost: Model

    def __init__(self, reward: Model, cost: Model, n_constraints: int, failure: float, seed: int) -> None:
        self._n_constraints = whole_number("n_constraints", n_constraints, low=1)
        self.failure = failure_probability(failure)
        self.seed = whole_number("seed", seed)
        self._reward = copy_of_model("reward", reward)
        self._cost = copy_of_model("cost", cost, self._n_constraints)

    def _rows_shown_safe(self, offer: Offer, *known: int) -> NDArray[np.bool_]:
        """The actions known to be safe, and those whose costs are at most 0 even by their upper confidence bounds."""
        w, widths = estimates(self._cost, offer.psi, offer.ids)
        shown = (w + self._confidence_radius(self._cost) * widths <= 0.0).all(axis=1)
        rows: NDArray[np.bool_] = shown | np.isin(offer.ids, known)
        return rows


class OneSafeAction(SafePolicy):
    """One that knows an action whose mean costs are at most −ξ."""

    _shown: ClassVar[tuple[str, ...]] = (
        "reward", "cost", "safe_action", "safe_cost", "n_constraints", "failure"
    )  # fmt: skip

    def __init__(
        self,
        reward: Model,
        *,
        cost: Model,
        safe_action: int,
        safe_cost: float,
        n_constraints: int = 1,
        failure: float = 0.01,
        seed: int = 0,
    ) -> None:
        SafePolicy.__init__(self, reward, cost, n_constraints, failure, seed)
        self.safe_action = whole_number("safe_action", safe_action)
        self.safe_cost = finite_number("safe_cost", safe_cost)
        if not -1.0 <= self.safe_cost < 0.0:
            must = "lie in [-1, 0), for the safe action's mean costs are strictly below 0"
            raise InvalidInput(field="safe_cost", must=must, got=safe_cost)

    def _setting(self) -> Setting:
        return self._asks(
            counts_on=(("the safe action", self.safe_action),),
            told=(mean_costs_at_most(self.safe_action, self.safe_cost),),
        )


def known_safe(safe_actions: Any) -> tuple[int, ...]:
    """Ids of actions that are known to be safe."""
    if isinstance(safe_actions, (str, bytes)) or not isinstance(safe_actions, (Sequence, np.ndarray)):
        raise InvalidInput(field="safe_actions", must="be a sequence of action ids", got=safe_actions)
    return tuple(whole_number(Place("safe_actions", i), action) for i, action in enumerate(safe_actions))
