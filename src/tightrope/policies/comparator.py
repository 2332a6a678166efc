"""What the comparators share: how they are displayed, confidence radii, means of arms, and totals that count expected costs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.models import Model, hooks
from tightrope.offer import Offer
from tightrope.policies.choices import Choice
from tightrope.policies.pending import Pending
from tightrope.policies.policy import Policy
from tightrope.validation import Array, whole_number


class Comparator(Policy):
    """A policy that others are compared with."""

    # The parameters that `repr` shows: the first without its name, the others unless they are None or False.
    _shown: ClassVar[tuple[str, ...]] = ()
    # With what probability some confidence bound may fail, where a policy has such a parameter.
    failure: float

    def __repr__(self) -> str:
        first, *rest = ((name, self._parameter(name)) for name in self._shown)
        named = [
            f"{name}={_written(value)}" for name, value in rest if value is not None and value is not False
        ]
        return f"{type(self).__name__}({', '.join([_written(first[1]), *named])})"

    def _confidence_radius(self, model: Model) -> float:
        """√β of a model; the reward and the K costs share the failure probability equally."""
        return hooks.radius(model, (1 + self._n_constraints) / self.failure)


class ExpectedCosts(Comparator):
    """One that counts the costs of a decision as they are estimated, until they are seen."""

    # Running totals with those estimates, (K,).
    _expected: Array

    @property
    def expected_totals(self) -> Array:
        """Running totals, (K,), with the estimated costs of decisions whose own are not seen yet."""
        return self._expected.copy()

    @abstractmethod
    def _costs_of(self, choice: Choice) -> Array:
        """What the choice costs, or is estimated to cost, (K,)."""

    def _measure(self, offer: Offer, choice: Choice) -> None:
        """Take the measure of an offer on which a choice is played."""

    def _move_prices(self, offer: Offer, choice: Choice) -> None:
        """Let prices follow a choice, whose costs are in the totals."""

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        self._measure(offer, choice)
        self._expected += self._costs_of(choice)
        self._move_prices(offer, choice)

    def _kept_features(self, offer: Offer, choice: Choice) -> tuple[Array | None, Array | None]:
        """φ; ψ followed by the estimated costs."""
        phi = None if offer.phi is None else offer.phi[choice.row].copy()
        if self._cost is None:
            return phi, None
        psi = [] if offer.psi is None else offer.psi[choice.row]
        return phi, np.concatenate([psi, self._costs_of(choice)])

    def _n_booked(self) -> int:
        return 0 if self._cost is None else self._n_constraints

    def _learn_costs(self, pending: Pending, costs: Array) -> None:
        assert self._cost is not None
        assert pending[3] is not None
        psi, estimated = np.split(pending[3], [-self._n_constraints])
        self._cost.learn(psi if len(psi) else None, costs, pending[1])
        error = costs - estimated
        self._measure_costs(costs)
        self._correct_prices(error)
        self._expected += error

    def _measure_costs(self, costs: Array) -> None:
        """Take the measure of costs that were estimated and are seen now."""

    def _correct_prices(self, error: Array) -> None:
        """Let prices follow what costs are higher by than was estimated; the totals do so next."""


def known_action(name: str, action: Any, n_actions: int) -> int:
    """The id of one of so many actions."""
    found = whole_number(name, action)
    if found >= n_actions:
        raise InvalidInput(field=name, must=f"be below {n_actions}", got=found)
    return found


def known_context(context: int | None, n_contexts: int) -> int:
    """The number of one of so many contexts."""
    if context is None or whole_number("context", context) >= n_contexts:
        raise InvalidInput(field="context", must=f"be a whole number below {n_contexts}", got=context)
    return int(context)


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | np.ndarray):
        return f"[{', '.join(map(_written, value))}]"
    return repr(value)
