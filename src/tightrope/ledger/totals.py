"""Cumulative costs: float64 sums that kernels read and write, exact to the last bit because rounding errors are kept too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.validation import Array


class Totals:
    """The sums of K costs, in arrays that kernels read and write: its own, or views on those of a policy's core (`on`)."""

    __slots__ = ("owned", "rests", "sums")

    def __init__(self, n_constraints: int) -> None:
        self.owned = True
        self.sums = np.zeros(n_constraints)
        # The rounding error of each sum; empty if sums are plainly rounded.
        self.rests = np.zeros(n_constraints)

    @classmethod
    def on(cls, sums: Array, rests: Array | None = None) -> Totals:
        """The totals that a core keeps: it owns and saves the arrays."""
        found = cls(0)
        found.owned, found.sums, found.rests = False, sums, found.rests if rests is None else rests
        return found

    @property
    def totals(self) -> Array:
        return self.sums.copy()

    def book(self, costs: Array, columns: NDArray[np.integer] | None = None) -> None:
        """Add the costs (K,) of a decision, or those of some columns."""
        if columns is not None:
            whole = np.zeros(len(self.sums))
            whole[columns] = costs
            costs = whole
        if len(self.rests):
            kernels.add_costs(self.sums, self.rests, costs)
        else:
            self.sums += costs

    def kept_rows(self, W: Array) -> NDArray[np.bool_]:
        """The rows of W (J, K) that leave every total at or below 0; if there is none, those that exceed it least."""
        after = np.empty(W.shape)
        kernels.totals_with(self.sums, self.rests, W, after)
        excess = np.maximum(0.0, after).max(axis=1, initial=0.0)
        return np.asarray(excess <= excess.min())

    def arrays(self) -> dict[str, Array]:
        """Their part of a saved state; nothing if a core saves them."""
        return {"totals": self.sums, "rests": self.rests} if self.owned else {}

    def load(self, arrays: Mapping[str, Any]) -> None:
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    def take_over(self, k: int, other: Totals, was: int) -> None:
        for mine, theirs in zip(self.arrays().values(), other.arrays().values(), strict=True):
            mine[k] = theirs[was]
