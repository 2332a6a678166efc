"""Cumulative costs: float64 sums that kernels read and write, exact to the last bit by what rounding left of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.validation import Array


class Totals:
    """The sums of K costs. It owns its arrays and hands them to kernels as they are.

    >>> totals = Totals(2)
    >>> totals.book(np.array([0.5, -0.25]))
    >>> totals.totals
    array([ 0.5 , -0.25])
    """

    __slots__ = ("rests", "sums")

    def __init__(self, n_constraints: int) -> None:
        self.sums = np.zeros(n_constraints)
        # What rounding has left out of each sum.
        self.rests = np.zeros(n_constraints)

    @property
    def totals(self) -> Array:
        """The sums, a copy."""
        return self.sums.copy()

    def book(self, costs: Array) -> None:
        """Add the costs (K,) of a decision."""
        kernels.add_costs(self.sums, self.rests, costs)

    def book_at(self, columns: NDArray[np.integer], costs: Array) -> None:
        """Add costs of some columns."""
        whole = np.zeros(len(self.sums))
        whole[columns] = costs
        self.book(whole)

    def arrays(self) -> dict[str, Array]:
        """What a saved state holds of them."""
        return {"totals": self.sums, "rests": self.rests}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Become what was saved."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    def by_name(self, names: Sequence[str], now: Sequence[str]) -> Totals:
        """Totals of the constraints that there are now, with the sums of those that there were under the same name."""
        new, known = Totals(len(now)), {name: k for k, name in enumerate(names)}
        for at, name in enumerate(now):
            if name in known:
                new.sums[at], new.rests[at] = self.sums[known[name]], self.rests[known[name]]
        return new
