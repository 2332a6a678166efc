"""What a shadow-price policy is given, in any unit: brought into one form, or refused with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.errors import InvalidInput
from tightrope.policies.offer import Offer
from tightrope.policies.pessimistic_optimistic.input import Input
from tightrope.rules import Rules
from tightrope.validation import Array, finite_array, first, require_finite

# Sparse costs are read as they come: so many numbers of a round at most.
MOST_DENSE = 10_000_000


class PriceInput(Input):
    """`Input` without limits on the size of features and costs."""

    def offer(
        self, features: Any, costs: Any, cost_features: Any, actions: Any, usage: Any, group: Any
    ) -> Offer:
        """One round's input; ψ is φ where none is given and the sizes are the same."""
        cost = self.cost
        if (
            cost is not None
            and cost.takes_features
            and cost_features is None
            and (costs is None or len(self.known_columns))
            and cost.n_features == self.reward.n_features
            and (cost.n_actions is None) == (self.reward.n_actions is None)
        ):
            cost_features = features
        offer = Input.offer(self, features, costs, cost_features, actions, usage, group)
        if len(self.columns):
            offer.W[:, self.columns] = 0.0
        return offer

    def require_valid(self, offer: Offer) -> None:
        """Name the entry that is not finite."""
        for name, rows in (("features", offer.phi), ("cost_features", offer.psi)):
            if rows is not None:
                require_finite(name, rows)
        known = self.known_columns
        bad = ~np.isfinite(offer.W[:, known])
        if bad.any():
            j, i = first(bad)
            raise InvalidInput(f"costs[{j}, {known[i]}] must be finite, but got {offer.W[j, known[i]]:g}.")

    def late_ranges(self) -> Array:
        """Costs that are seen after acting may be anything."""
        return np.array([[-np.inf, np.inf]] * len(self.columns)).reshape(-1, 2)

    def observed(self, costs: Any, action: int, group: Any) -> Array:
        """The costs seen after acting, (K_after,), given as such or by the names of usages."""
        w = Input.observed(self, costs, action, group)
        require_finite("costs", w)
        return w


def finite_ranges(K: int, rules: Rules | None, cost_range: Any) -> Array | None:
    """What each of K costs is known to lie in, (K, 2); None where nothing is known."""
    if rules is not None:
        if cost_range is not None:
            raise InvalidInput("cost_range comes from the rules' declared ranges: do not give it as well.")
        return np.array(rules.cost_range, dtype=float).reshape(K, 2)
    if cost_range is None:
        return None
    given = finite_array("cost_range", np.asarray(cost_range, dtype=float), (2,), (K, 2))
    ranges = np.array(np.broadcast_to(given, (K, 2)))
    bad = ranges[:, 0] > ranges[:, 1]
    if bad.any():
        k = int(np.argmax(bad))
        raise InvalidInput(
            f"`low ≤ high` must hold in cost_range, but constraint {k} has {tuple(ranges[k].tolist())}."
        )
    return ranges


def in_force(rules: Rules | None, group: Any) -> NDArray[np.bool_] | None:
    """Which rules are in force for a context of that group; None where all are."""
    if rules is None:
        return None
    force = rules.in_force(group)
    return None if force.all() else force


def dense(features: Any, costs: Any) -> tuple[Any, Any]:
    """The arrays of a catalogue and of sparse costs."""
    if isinstance(features, Catalogue):
        features = features.features
    if isinstance(costs, SparseCosts):
        J, K = costs.shape
        if J * K > MOST_DENSE:
            raise InvalidInput(
                f"SparseCosts of {J} × {K} are too large for this policy, which reads up to {MOST_DENSE} numbers a round."
            )
        costs = np.array([costs.row(j) for j in range(J)]).reshape(J, K)
    return features, costs
