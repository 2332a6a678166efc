"""What a shadow-price policy is given, in any unit: brought into one form, or refused with the reason."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.errors import InvalidInput
from tightrope.policies.input import Input, Log
from tightrope.policies.offer import Offer
from tightrope.policies.rule_costs import RuleCosts
from tightrope.rules import Rules
from tightrope.validation import LARGEST, Array, finite_array, is_plain, require_range

# Sparse costs are read as they come: so many numbers of a round at most.
MOST_DENSE = 10_000_000


class PriceInput(Input):
    """`Input` for features and costs in any unit."""

    cost_limit: ClassVar[float] = LARGEST

    def set_rules(self, rules: Rules) -> None:
        """Go on with rules of the same names, columns and groups, with other limits."""
        self.rules, self.rule_costs = rules, RuleCosts(rules)

    def offer(
        self, features: Any, costs: Any, cost_features: Any, actions: Any, usage: Any, group: Any
    ) -> Offer:
        """One round's input, all of it checked."""
        catalogue = None
        if isinstance(features, Catalogue) or isinstance(costs, SparseCosts):
            if actions is not None or usage is not None or group is not None:
                raise InvalidInput("with a Catalogue or SparseCosts, decide takes features and costs alone.")
            if isinstance(features, Catalogue):
                catalogue = features.features
                # Compiled code writes to none of it, but is made for arrays that could be written to.
                features = catalogue if is_plain(catalogue) else catalogue.copy()
            costs = dense(costs)
        offer = Input.offer(self, features, costs, cost_features, actions, usage, group)
        self.require_valid(offer)
        self.in_force(offer.group)  # which says what is missing, before anything is changed
        if len(self.columns):
            offer.W[:, self.columns] = 0.0
        return offer if catalogue is None else offer._replace(catalogue=catalogue)

    def require_valid(self, offer: Offer) -> None:
        """Name the entry that is not finite, or too large to be squared."""
        for name, rows in (("features", offer.phi), ("cost_features", offer.psi)):
            if rows is not None:
                require_size(name, rows)
        known = self.known_columns
        require_size("costs", offer.W if len(known) == self.K else _only(offer.W, known))

    def late_ranges(self) -> Array:
        """Costs that are seen after acting may be anything."""
        return np.array([[-LARGEST, LARGEST]] * len(self.columns)).reshape(-1, 2)

    def log(self, *given: Any) -> Log:
        """Logged decisions, all of them checked."""
        log = Input.log(self, *given)
        for name, values in (("features", log.phi), ("rewards", log.rewards), ("cost_features", log.psi)):
            if values is not None:
                require_size(name, values)
        return log

    def observed(self, costs: Any, action: int, group: Any) -> Array:
        """The costs seen after acting, (K_after,), given as such or by the names of usages."""
        w = Input.observed(self, costs, action, group)
        require_size("costs", w)
        return w

    def in_force(self, group: Any) -> NDArray[np.bool_] | None:
        """Which rules are in force for a context of that group; None where all are."""
        return None if self.rule_costs is None else self.rule_costs.force(group).rules


def require_size(name: str, array: Array) -> None:
    """Refuse NaN, Inf and what is too large to be squared, naming the entry."""
    require_range(name, array, -LARGEST, LARGEST)


def _only(W: Array, columns: NDArray[np.int64]) -> Array:
    known = np.zeros(W.shape)
    known[:, columns] = W[:, columns]
    return known


def finite_ranges(K: int, rules: Rules | None, cost_range: Any) -> Array | None:
    """What each of K costs is known to lie in, (K, 2); None where nothing is known."""
    if rules is not None:
        if cost_range is not None:
            raise InvalidInput("cost_range comes from the rules' declared ranges: do not give it as well.")
        ranges = np.array(rules.cost_range, dtype=float).reshape(K, 2)
        for k, column in enumerate(rules.columns):
            if not column.rule.declared:
                # The limit tells about how large costs are, in any unit; where it is 0 nothing does.
                size = max(abs(limit) for _, limit in column.rule.sides) / column.rule.scale
                ranges[k] = -size, size
        return ranges
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


def dense(costs: Any) -> Any:
    """Sparse costs as an array; all else as it is."""
    if not isinstance(costs, SparseCosts):
        return costs
    J, K = costs.shape
    if J * K > MOST_DENSE:
        raise InvalidInput(
            f"SparseCosts of {J} × {K} are too large for this policy, which reads up to {MOST_DENSE} numbers a round."
        )
    W = np.tile(-costs.limits, (J, 1))
    W[np.repeat(np.arange(J), np.diff(costs.offsets)), costs.indices] += costs.data
    return W
