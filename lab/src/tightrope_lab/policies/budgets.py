"""The account that budget policies keep: what may be spent, what was, and what is still open."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.policies.state_file import Arrays
from tightrope.validation import Array, finite_number, real_array, whole_number


class Budgets:
    """The accounts of K resources side by side: B_k = limit_k · T is never overspent, for outcomes to come count as 1, the most.

    >>> account = Budgets([0.5, 0.75], 4)
    >>> account.reserve()
    >>> account.affords()
    True
    >>> account.reserve(), account.affords()
    (None, False)
    >>> account.settle(account.usage(np.array([-0.5, -0.75])))
    >>> account.affords()
    True
    """

    def __init__(self, limits: Any, horizon: int) -> None:
        self.limits = np.atleast_1d(real_array("limits", limits, (), (None,))).copy()
        if not len(self.limits):
            raise InvalidInput(field="limits", must="have an entry for each resource, but it is empty")
        for k, limit in enumerate(self.limits):
            finite_number(f"limits[{k}]", float(limit), low=0.0, high=1.0, open_low=True)
        self.horizon = whole_number("horizon", horizon, low=1)
        self.allowed = self.limits * self.horizon
        self.rate = float(self.limits.min())
        self.used = np.zeros(len(self.limits))
        # The same of every resource.
        self.reserved = np.zeros(1)

    def affords(self) -> bool:
        """Whether one more action is within every budget, whatever it and those without an outcome use."""
        return bool((self.used + (self.reserved[0] + 1.0) <= self.allowed + 1e-9).all())

    def reserve(self) -> None:
        """An action was taken whose usage is still to come."""
        self.reserved[0] += 1.0

    def settle(self, usage: Array) -> None:
        """Its usage is known."""
        self.reserved[0] -= 1.0
        self.used += usage

    @property
    def cost_bounds(self) -> Array:
        """What costs = usage − limit lie in, (K, 2)."""
        return np.column_stack([-self.limits - 1e-9, 1.0 - self.limits + 1e-9])

    def usage(self, costs: Array) -> Array:
        """Usage (K,) in [0, 1] from costs = usage − limit."""
        return np.clip(costs + self.limits, 0.0, 1.0)

    def scaled(self, usage: Array) -> Array:
        """Usage in units in which every budget is rate · T; in [0, 1] still."""
        scaled: Array = usage * (self.rate / self.limits)
        return scaled

    def arrays(self) -> Arrays:
        return {"spent": self.used, "open": self.reserved}
