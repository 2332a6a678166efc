"""Costs are scaled so that they can be compared; rules are stated in units of their own. This is the one place that converts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tightrope.validation import Array

if TYPE_CHECKING:
    from tightrope.rules.rules import Rules


@dataclass(frozen=True, eq=False)
class Units:
    """How K columns of costs are counted.

    A cost W of column k stands for scales[k] · W units of what its rule counts. A rule among groups counts only the decisions of
    those groups: the part shares[k] of all decisions, 1 for a rule that counts every decision.
    """

    scales: Array
    shares: Array

    @classmethod
    def of(cls, rules: Rules | None, n_constraints: int, shares: ArrayLike | None = None) -> Units:
        """Those of rules; without rules costs are their own units. `shares` is 1 for every column unless it is given."""
        ones = np.ones(n_constraints)
        scales = ones if rules is None else np.array([column.rule.scale for column in rules.columns])
        return cls(scales, ones if shares is None else np.asarray(shares, dtype=float))

    def widened(self, n: int) -> Units:
        """With n more columns, which are in the units of their rules."""
        ones = np.ones(n)
        return Units(np.concatenate([self.scales, ones]), np.concatenate([self.shares, ones]))

    @staticmethod
    def shares_of(rules: Rules | None, weights: Array, groups: Iterable[object] | None) -> Array | None:
        """The part of the decisions that each column of rules counts, for contexts with these `weights` and `groups`."""
        if rules is None or groups is None:
            return None
        force = [rules.in_force(group) for group in groups]  # type: ignore[arg-type]
        shares: Array = np.asarray(weights) @ np.array(force, dtype=float)
        return np.minimum(1.0, shares)

    def prices(self, duals: ArrayLike) -> Array:
        """The reward per decision that each limit would earn if it moved by one unit, where λ = `duals` prices scaled costs."""
        prices: Array = np.asarray(duals) * self.shares / self.scales
        return prices

    def unit_prices(self, duals: ArrayLike) -> Array:
        """The reward that one more unit, used once, would earn: the same as `prices`, but for rules among groups."""
        prices: Array = np.asarray(duals) / self.scales
        return prices

    def totals(self, costs: ArrayLike) -> Array:
        """Sums of costs over decisions (…, K), in units."""
        totals: Array = np.asarray(costs) * self.scales
        return totals

    def means(self, costs: ArrayLike) -> Array:
        """Mean costs per decision (…, K), in units per decision that the rule counts; 0 where it counts none."""
        means: Array = self.totals(costs) / np.where(self.shares > 0.0, self.shares, np.inf)
        return means
