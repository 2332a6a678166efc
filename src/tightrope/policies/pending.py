"""Decisions that await their outcome, in one class for every policy and for the service."""

from __future__ import annotations

import secrets
import sys
from typing import Any, Final

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.policies.decision import NOBODY, Decision, Quote
from tightrope.policies.state_file import Arrays, checked
from tightrope.validation import Array, whole_number

__all__ = ["AWAITS_COSTS", "AWAITS_REWARD", "NEVER", "Pending", "PendingDecisions"]

AWAITS_REWARD: Final = 1
AWAITS_COSTS: Final = 2
# The number of a decision that is never made.
NEVER: Final = sys.maxsize

# What a decision still awaits, its action, the features φ and ψ for learning its outcome, the context's group, and
# anything else its keeper notes (the service: whose event it is).
Pending = tuple[int, int, Array | None, Array | None, Any, Any]


class PendingDecisions(dict[int, Pending]):
    """Pending decisions by number, oldest first; `made` counts all decisions, `owner` distinguishes this policy's from another's.

    `version` counts the changes of the policy's state: it grows with every change, and it is saved with the state.

    >>> decisions = PendingDecisions()
    >>> number = decisions.add(AWAITS_REWARD, 2)
    >>> decisions[number][1]
    2
    >>> decisions.learnt(number, AWAITS_REWARD)
    >>> decisions.number_of(number)
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: decision 0 already has its whole outcome, or was forgotten.
    """

    __slots__ = ("made", "owner", "version")

    def __init__(self) -> None:
        self.made = self.version = 0
        self.owner = secrets.randbits(63)

    def add(
        self, awaits: int, action: int, phi: Array | None = None, psi: Array | None = None, group: Any = None
    ) -> int:
        number = self.made
        self.made = number + 1
        self.version += 1
        self[number] = (awaits, action, phi, psi, group, None)
        return number

    def close(self, number: int) -> None:
        del self[number]
        self.version += 1

    def awaiting_costs(self) -> list[int]:
        return [number for number, one in self.items() if one[0] & AWAITS_COSTS]

    def go_on_as(self, other: PendingDecisions) -> None:
        """Treat another policy's decisions and quotes as this one's."""
        self.owner, self.version = other.owner, other.version

    def restate(self, number: int, psi: Array) -> None:
        """Replace a decision's ψ, and the numbers stored after it."""
        entry = self[number]
        self[number] = (*entry[:3], psi, *entry[4:])

    def require_current(self, quote: Quote) -> None:
        """Refuse a quote from another policy, or from an earlier state."""
        if quote.owner != self.owner:
            raise InvalidInput("the quote was made by another policy.")
        if quote.version != self.version:
            raise InvalidInput(
                f"the quote was made in version {quote.version} of the policy's state, which is now {self.version}: quote again."
            )

    def number_of(self, decision: Decision | int) -> int:
        if isinstance(decision, Decision):
            if decision.owner == NOBODY:
                raise InvalidInput(
                    "decision was proposed, not made: only what `decide` returns has an outcome."
                )
            if decision.owner != self.owner:
                raise InvalidInput(f"decision {decision.number} was made by another policy.")
            number = decision.number
        else:
            number = whole_number("decision must be a Decision or its number, which", decision)
        if number not in self:
            if number >= self.made:
                raise InvalidInput(
                    f"decision {number} was never made: this policy has made {self.made}, from number 0."
                )
            raise InvalidInput(f"decision {number} already has its whole outcome, or was forgotten.")
        return number

    def require(self, number: int, part: int) -> None:
        if not self[number][0] & part:
            raise InvalidInput(
                f"decision {number} already has its {'reward' if part == AWAITS_REWARD else 'costs'}."
            )

    def learnt(self, number: int, parts: int) -> None:
        """Mark parts of an outcome as received; after the last of them the decision is no longer pending."""
        awaits, *rest = self[number]
        self.version += 1
        if awaits & ~parts:
            self[number] = (awaits & ~parts, *rest)
        else:
            del self[number]

    def note(self, number: int, note: Any, awaits: int | None = None) -> None:
        """Attach the keeper's own note to a decision; `awaits` says what the keeper waits for, which may be more."""
        entry = self[number]
        self[number] = (entry[0] if awaits is None else awaits, *entry[1:5], note)

    def arrays(self, n_phi: int, n_psi: int) -> Arrays:
        """The state, by name; a row that a decision lacks is NaN. Groups are not numbers: see `settings`."""
        entries = list(self.values())
        return {
            "made": np.array([self.made], dtype=np.int64),
            "pending/number": np.array(list(self), dtype=np.int64),
            "pending/awaits": np.array([one[0] for one in entries], dtype=np.int64),
            "pending/action": np.array([one[1] for one in entries], dtype=np.int64),
            "pending/phi": _stacked([one[2] for one in entries], n_phi),
            "pending/psi": _stacked([one[3] for one in entries], n_psi),
        }

    def settings(self) -> dict[str, Any]:
        """What is saved beside the arrays: the owner, the version of the state, and the decisions' groups if any has one."""
        groups = [one[4] for one in self.values()]
        known = groups if any(group is not None for group in groups) else None
        return {"owner": self.owner, "version": self.version, "pending_groups": known}

    def take_settings(self, settings: dict[str, Any]) -> None:
        """Continue with the owner and version in `settings`; older files have no version."""
        self.owner = int(settings["owner"])
        self.version = int(settings.get("version", self.version))
        self.set_groups(settings["pending_groups"])

    def set_groups(self, groups: list[Any] | None) -> None:
        for number, group in zip(list(self), groups or ()):
            entry = self[number]
            self[number] = (*entry[:4], tuple(group) if isinstance(group, list) else group, entry[5])

    def restore(self, arrays: Arrays, n_phi: int, n_psi: int, n_actions: int | None) -> None:
        """Take on the state in `arrays`; the owner stays."""
        n = len(arrays["pending/number"])
        numbers, awaits, actions = (
            checked(arrays, f"pending/{name}", np.int64, (n,)) for name in ("number", "awaits", "action")
        )
        phi = checked(arrays, "pending/phi", np.float64, (n, n_phi))
        psi = checked(arrays, "pending/psi", np.float64, (n, n_psi))
        if n and (actions.min() < 0 or (n_actions is not None and actions.max() >= n_actions)):
            raise ValueError(f"pending/action must lie in 0..{n_actions}, but found {actions.tolist()}")
        self.made = int(checked(arrays, "made", np.int64, (1,))[0])
        for i, number in enumerate(numbers.tolist()):
            self[number] = (int(awaits[i]), int(actions[i]), _row(phi[i]), _row(psi[i]), None, None)


def _stacked(rows: list[Array | None], width: int) -> Array:
    if not rows or not width:
        return np.empty((len(rows), width))
    return np.stack([np.full(width, np.nan) if row is None else row for row in rows])


def _row(row: Array) -> Array | None:
    return None if not len(row) or np.isnan(row[0]) else row.copy()
