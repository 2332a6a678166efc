"""What others ask of a policy beside deciding and learning: those who watch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tightrope.concerns import Concern
from tightrope.policies.decision import Labels
from tightrope.policies.pending import PendingDecisions
from tightrope.validation import Array


class Constrained(Protocol):
    """Whoever has constraints: a policy or an environment."""

    @property
    def n_constraints(self) -> int:
        """K."""
        ...


class Watched(Constrained, Protocol):
    """A policy whose totals, actions and outcomes are watched while it runs."""

    n_actions: int | None
    notify: Callable[[Concern], None]

    @property
    def learns(self) -> bool:
        """Whether it looks at outcomes."""
        ...

    @property
    def decisions(self) -> PendingDecisions:
        """Those whose outcome is still to come."""
        ...

    @property
    def rounds(self) -> int:
        """How many decisions were made."""
        ...

    @property
    def totals(self) -> Array:
        """Cumulative costs, (K,)."""
        ...

    @property
    def labels(self) -> Labels:
        """The names of actions and constraints."""
        ...

    def concerns(self) -> list[Concern]:
        """All that is to be told."""
        ...

    def cost_sizes(self) -> Array:
        """How large a cost of each constraint is, (K,)."""
        ...

    def remedy_of_totals(self, constraints: Sequence[int]) -> str:
        """What helps where the totals of these constraints stay above zero."""
        ...
