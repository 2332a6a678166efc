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

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        self._expected += self._costs_of(choice)

    def _kept_features(self, offer: Offer, choice: Choice) -> tuple[Array | None, Array | None]:
        """φ; ψ followed by the estimated costs."""
        phi, psi = super()._kept_features(offer, choice)
        if self._cost is None:
            return phi, None
        return phi, np.concatenate([[] if psi is None else psi, self._costs_of(choice)])

    def _kept_lengths(self) -> tuple[int, int]:
        n_phi, n_psi = super()._kept_lengths()
        return n_phi, n_psi if self._cost is None else n_psi + self._n_constraints

    def _learn_costs(self, pending: Pending, costs: Array) -> None:
        assert self._cost is not None
        assert pending[3] is not None
        psi, estimated = np.split(pending[3], [-self._n_constraints])
        self._cost.learn(psi if len(psi) else None, costs, pending[1])
        self._correct(costs, costs - estimated)

    def _correct(self, costs: Array, error: Array) -> None:
        """Costs are seen that were estimated; `error` is by how much they are higher."""
        self._expected += error


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
