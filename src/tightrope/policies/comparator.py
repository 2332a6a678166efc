"""What the comparators share: their repr, confidence radii, means of arms, and totals that include expected costs."""

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
    # The parameters that hold a number for each action: a new action has 0.
    settings_by_action: ClassVar[tuple[str, ...]] = ()
    # The probability that some confidence bound fails, for policies with such a parameter.
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
    """A comparator that counts the estimated costs of a decision until the real ones are seen."""

    # Running totals that include those estimates, (K,).
    _expected: Array

    @property
    def expected_totals(self) -> Array:
        """Running totals, (K,), including the estimated costs of decisions whose real costs have not been seen yet."""
        return self._expected.copy()

    def _book_correction(self, costs: Array) -> None:
        super()._book_correction(costs)
        self._expected += costs

    @abstractmethod
    def _costs_of(self, choice: Choice) -> Array:
        """The cost of the choice, known or estimated, (K,)."""

    def _measure(self, offer: Offer, choice: Choice) -> None:
        """Measure the costs of an offer whose choice is played."""

    def _move_prices(self, offer: Offer, choice: Choice) -> None:
        """Update prices after a choice; its costs are already in the totals."""

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        self._measure(offer, choice)
        self._expected += self._costs_of(choice)
        self._move_prices(offer, choice)

    def _kept_features(self, offer: Offer, choice: Choice) -> tuple[Array | None, Array | None]:
        """φ, and ψ followed by the estimated costs."""
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
        """Measure costs that were estimated and have now been seen."""

    def _correct_prices(self, error: Array) -> None:
        """Correct prices by how far the costs seen exceed their estimates; the totals are corrected next."""


def known_action(name: str, action: Any, n_actions: int) -> int:
    """Check an action's id against the number of actions."""
    found = whole_number(name, action)
    if found >= n_actions:
        raise InvalidInput(field=name, must=f"be below {n_actions}", got=found)
    return found


def known_context(context: int | None, n_contexts: int) -> int:
    """Check a context's number against the number of contexts."""
    if context is None or whole_number("context", context) >= n_contexts:
        raise InvalidInput(field="context", must=f"be a whole number below {n_contexts}", got=context)
    return int(context)


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | np.ndarray):
        return f"[{', '.join(map(_written, value))}]"
    return repr(value)
