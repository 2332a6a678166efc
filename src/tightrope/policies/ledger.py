"""Decisions that await their outcome, for policies that need no more than that."""

from __future__ import annotations

import secrets
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.policies.decision import Decision
from tightrope.validation import whole_number

T = TypeVar("T")


class Ledger(Generic[T]):
    """Numbers decisions, keeps what each one needs until it is learnt, and refuses a second outcome.

    >>> ledger = Ledger[str]()
    >>> decision = ledger.add(2, 0, "kept")
    >>> decision.action, ledger.take(decision)
    (2, 'kept')
    >>> ledger.take(decision)
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: decision 0 has had its outcome already, or was forgotten.
    """

    def __init__(self) -> None:
        self.made = 0
        self.waiting: dict[int, T] = {}
        self.owner = secrets.randbits(63)

    def add(
        self,
        action: int,
        row: int,
        kept: T,
        *,
        probability: float = 1.0,
        ids: NDArray[np.int64] | None = None,
    ) -> Decision:
        """A new decision, whose `kept` comes back when it is learnt."""
        number = self.made
        self.made += 1
        self.waiting[number] = kept
        return Decision(action, row, number, self.owner, ids, None, (None, None), probability)

    def find(self, decision: Decision | int) -> int:
        """The number of a decision that still awaits its outcome."""
        if isinstance(decision, Decision):
            if decision.owner != self.owner:
                raise InvalidInput(f"decision {decision.number} was made by another policy.")
            number = decision.number
        else:
            number = whole_number("decision", decision)
        if number >= self.made:
            raise InvalidInput(
                f"decision {number} was never made: this policy has made {self.made}, from number 0."
            )
        if number not in self.waiting:
            raise InvalidInput(f"decision {number} has had its outcome already, or was forgotten.")
        return number

    def take(self, decision: Decision | int) -> T:
        """What was kept for a decision, which then counts as learnt."""
        return self.waiting.pop(self.find(decision))

    def copy(self) -> Ledger[T]:
        """The same numbers waiting, under an identity of its own."""
        twin = Ledger[T]()
        twin.made, twin.waiting = self.made, dict(self.waiting)
        return twin
