"""The account that budget policies keep: what may be spent, what was, and what is still open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.policies.linear import action_misfits
from tightrope.validation import Array, finite_number, real_array, require_range, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


class Account:
    """Budgets B_k = limit_k · T that are never overspent: outcomes still to come count as the most that they can be, 1.

    >>> account = Account([0.5, 0.75], 4)
    >>> account.reserve()
    >>> account.affords()
    True
    >>> account.reserve(), account.affords()
    (None, False)
    >>> account.settle(account.usage([-0.5, -0.75]))
    >>> account.affords()
    True
    """

    def __init__(self, limits: Any, horizon: int) -> None:
        self.limits = np.atleast_1d(real_array("limits", limits, (), (None,))).copy()
        if not len(self.limits):
            raise InvalidInput("limits must have an entry for each resource, but it is empty.")
        for k, limit in enumerate(self.limits):
            finite_number(f"limits[{k}]", float(limit), low=0.0, high=1.0, open_low=True)
        self.horizon = whole_number("horizon", horizon, low=1)
        self.budget = self.limits * self.horizon
        self.rate = float(self.limits.min())
        self.spent = np.zeros(len(self.limits))
        self.open = 0

    def affords(self) -> bool:
        """Whether one more action is within every budget, whatever it and the open ones use."""
        return bool((self.spent + (self.open + 1) <= self.budget + 1e-9).all())

    def reserve(self) -> None:
        """An action was taken whose usage is still to come."""
        self.open += 1

    def settle(self, usage: Array) -> None:
        """Its usage is known."""
        self.open -= 1
        self.spent += usage

    def usage(self, costs: Any) -> Array:
        """Usage (K,) in [0, 1] from costs = usage − limit."""
        K = len(self.limits)
        shapes: list[tuple[int | None, ...]] = [(K,), *([()] if K == 1 else [])]
        w = real_array("costs", costs, *shapes).reshape(K)
        require_range("costs", w, -self.limits - 1e-9, 1.0 - self.limits + 1e-9)
        return np.clip(w + self.limits, 0.0, 1.0)

    def scaled(self, usage: Array) -> Array:
        """Usage in units in which every budget is rate · T; in [0, 1] still."""
        scaled: Array = usage * (self.rate / self.limits)
        return scaled

    def copy(self) -> Account:
        """An independent account in the same state."""
        twin = Account(self.limits, self.horizon)
        twin.spent[...] = self.spent
        twin.open = self.open
        return twin

    def misfits(self, env: Tabular, noop: int) -> list[str]:
        """Whether the environment's costs are usage in [0, 1] minus the limits, and the no-op uses nothing."""
        if env.n_constraints != len(self.limits):
            return []
        reasons = action_misfits(env, "the no-op", noop)
        low, high = env.cost_range.T
        met = env.weights > 0
        if env.cost_noise == "none":
            low, high = env.costs[met].min(axis=(0, 1)), env.costs[met].max(axis=(0, 1))
        for k in np.flatnonzero((low < -self.limits - 1e-9) | (high > 1.0 - self.limits + 1e-9)):
            reasons.append(
                f"costs of constraint {k} lie in [{low[k]:g}, {high[k]:g}], but usage in [0, 1] less the limit "
                f"{self.limits[k]:g} lies in [{-self.limits[k]:g}, {1 - self.limits[k]:g}]"
            )
        if noop < env.n_actions:
            most = (env.costs[met, noop] + self.limits).max()
            if most > 1e-9:
                reasons.append(
                    f"the no-op (action {noop}) uses {most:.4g} of a resource, but must use nothing"
                )
        return reasons
