"""What policies share that know one action to be safe by a margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.models import Model
from tightrope.policies.choices import copy_of_model, failure_probability
from tightrope.policies.policy import Policy
from tightrope.problem import Setting, mean_costs_at_most
from tightrope.validation import finite_number, whole_number

# What bounds the mean reward.
REWARD_BOUND = 1.0


class OneSafeAction(Policy):
    """Models of reward and K costs, which are seen after acting, and an action whose mean costs are at most −ξ."""

    _reward: Model
    _cost: Model

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
        self._n_constraints = whole_number("n_constraints", n_constraints, low=1)
        self.safe_action = whole_number("safe_action", safe_action)
        self.safe_cost = finite_number("safe_cost", safe_cost)
        if not -1.0 <= self.safe_cost < 0.0:
            must = "lie in [-1, 0), for the safe action's mean costs are strictly below 0"
            raise InvalidInput(field="safe_cost", must=must, got=safe_cost)
        self.failure = failure_probability(failure)
        self.seed = whole_number("seed", seed)
        self._reward = copy_of_model("reward", reward)
        self._cost = copy_of_model("cost", cost, self._n_constraints)

    def _setting(self) -> Setting:
        """An action that is always on offer and safe by the margin told."""
        return self._asks(
            counts_on=(("the safe action", self.safe_action),),
            told=(mean_costs_at_most(self.safe_action, self.safe_cost),),
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._reward!r}, cost={self._cost!r}, safe_action={self.safe_action}, "
            f"safe_cost={self.safe_cost:g}, n_constraints={self._n_constraints}, failure={self.failure:g})"
        )


def known_safe(safe_actions: Any) -> tuple[int, ...]:
    """Ids of actions that are known to be safe."""
    if isinstance(safe_actions, (str, bytes)) or not isinstance(safe_actions, (Sequence, np.ndarray)):
        raise InvalidInput(field="safe_actions", must="be a sequence of action ids", got=safe_actions)
    return tuple(whole_number(f"safe_actions[{i}]", action) for i, action in enumerate(safe_actions))
