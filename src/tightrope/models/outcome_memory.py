"""The outcomes that a model keeps for its next fit: a limited number, chosen by a rule."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.kernels import bootstrap
from tightrope.models.model import NO_DECISION, Ids
from tightrope.validation import Array, require_choice, whole_number

# The state of a row: in the sample of the fit in force, in the sample of the next fit, or passed over for the next fit. A newer row
# is in none of them.
IN_FORCE, NEXT, PASSED_OVER = np.int8(1), np.int8(2), np.int8(4)
_SMALLEST = 64


class Sample(NamedTuple):
    """Outcomes to fit to, oldest first: features (n, d), actions (n,), outcomes (n, n_outputs), numbers (from 1) and times (n,)."""

    features: Array
    actions: Ids
    outcomes: Array
    numbers: Ids
    times: Array


class KeptOutcomes:
    """A bounded memory of outcomes, in order of arrival.

    A fit uses a sample that `choose` picks from the memory. Later outcomes wait, and no row of the fit in force is dropped, so that
    it can be made again from the arrays at any time. `take_up` puts the chosen sample in force and forgets the rest. A sample has
    `limit` outcomes; `rule` says which stay if there are more: the newest ("recent"), an even sample of all that ever came
    ("reservoir", drawn by `seed`), or half and half ("both").
    """

    def __init__(self, n_features: int, n_outputs: int, *, limit: int, rule: str, seed: int) -> None:
        self.limit = whole_number("keep", limit, low=1)
        require_choice("keep_rule", rule, ("both", "recent", "reservoir"))
        self.rule, self.seed = rule, seed
        self.used = np.zeros(1, dtype=np.int64)
        self._rows: dict[str, NDArray[Any]] = {
            "features": np.zeros((0, n_features)),
            "actions": np.zeros(0, dtype=np.int64),
            "outcomes": np.zeros((0, n_outputs)),
            "numbers": np.zeros(0, dtype=np.int64),
            "times": np.zeros(0),
            "decisions": np.zeros(0, dtype=np.int64),
            "samples": np.zeros(0, dtype=np.int8),
        }
        self._reserve(_SMALLEST)

    def __len__(self) -> int:
        return int(self.used[0])

    def add(self, *row: Any, decision: int = NO_DECISION) -> None:
        """Add an outcome, in the form of `Sample`, with the number of its decision; numbers and times of outcomes only increase."""
        i = len(self)
        if i == len(self._rows["numbers"]):
            self._reserve(2 * i)
        for array, value in zip(self._rows.values(), (*row, decision, 0)):
            array[i] = value
        self.used[0] = i + 1

    def choose(self) -> None:
        n = len(self)
        samples, chosen = self._rows["samples"][:n], np.zeros(n, dtype=np.bool_)
        chosen[self._chosen(self._rows["numbers"][:n])] = True
        samples[:] = (samples & IN_FORCE) | np.where(chosen, NEXT, PASSED_OVER)

    def take_up(self) -> None:
        """Put the chosen sample in force; forget what is neither in it nor newer."""
        samples = self._rows["samples"][: len(self)]
        self._keep((samples == 0) | (samples & NEXT != 0))
        samples = self._rows["samples"][: len(self)]
        samples[:] = np.where(samples & NEXT, IN_FORCE, 0)

    def forget(self, decisions: Collection[int]) -> bool:
        gone = np.isin(self._rows["decisions"][: len(self)], list(decisions))
        if gone.any():
            self._keep(~gone)
        return bool(gone.any())

    def correct(self, decision: int, outcome: Array) -> bool | None:
        """Replace the outcome of a decision; whether a fit used it, or None if it is not kept."""
        rows = np.flatnonzero(self._rows["decisions"][: len(self)] == decision)
        if not len(rows) or decision == NO_DECISION:
            return None
        self._rows["outcomes"][rows] = outcome
        return bool((self._rows["samples"][rows] & (IN_FORCE | NEXT)).any())

    def in_force(self) -> Sample:
        return self._sample(IN_FORCE)

    def next(self) -> Sample:
        return self._sample(NEXT)

    def all(self) -> Sample:
        n = len(self)
        return Sample(*(self._rows[name][:n] for name in Sample._fields))

    def decision(self, row: int) -> int:
        """The number of the decision that a row is an outcome of."""
        return int(self._rows["decisions"][row])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state, by name: the arrays themselves, which have spare room and double when it is used up."""
        return {"used": self.used, **self._rows}

    def make_room(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Make room for as many outcomes as these arrays hold; refused if their lengths differ."""
        rooms = {len(arrays[name]) if arrays[name].ndim else 0 for name in self._rows}
        if len(rooms) != 1 or arrays["used"].shape != (1,) or not 0 <= arrays["used"][0] <= max(rooms):
            raise ValueError(f"kept outcomes must have one length, but have room for {sorted(rooms)}")
        if rooms != {len(self._rows["numbers"])}:
            self.used[0] = 0
            self._reserve(rooms.pop())

    def _reserve(self, room: int) -> None:
        n = len(self)
        for name, array in self._rows.items():
            self._rows[name] = larger = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
            larger[:n] = array[:n]

    def _keep(self, stays: NDArray[np.bool_]) -> None:
        self.used[0] = keep_rows(self._rows.values(), np.flatnonzero(stays), len(self))

    def _sample(self, which: np.int8) -> Sample:
        picked = self._rows["samples"][: len(self)] & which != 0
        return Sample(*(self._rows[name][: len(self)][picked] for name in Sample._fields))

    def _chosen(self, numbers: Ids) -> Ids:
        n, limit = len(numbers), self.limit
        if n <= limit:
            return np.arange(n)
        newest = {"recent": limit, "reservoir": 0, "both": math.ceil(limit / 2)}[self.rule]
        older = numbers[: n - newest]
        # An outcome's priority never changes, so the highest among kept and new ones are the highest of all.
        drawn = np.empty(len(older))
        bootstrap.priorities(self.seed, older, drawn)
        picked = np.sort(np.argsort(-drawn, kind="stable")[: limit - newest])
        return np.concatenate([picked, np.arange(n - newest, n)])


def keep_rows(arrays: Iterable[NDArray[Any]], which: Ids, n: int) -> int:
    """Move these of the first n rows to the front of each array and zero the others; returns how many are left."""
    left = len(which)
    for array in arrays:
        array[:left] = array[which]
        array[left:n] = 0
    return left


def bootstrap_weights(seed: int, numbers: Ids, worth: Array, members: int) -> Array:
    """How often each outcome counts for each member, (n, members): Poisson of the mean `worth` (n,), drawn once by its number.

    As an outcome loses worth with age, it drops out of one member after another and never comes back. A single member has no
    bootstrap: an outcome counts once until it drops out.
    """
    if members == 1:
        drawn = np.empty(len(numbers))
        bootstrap.priorities(seed, numbers, drawn)
        return (drawn < worth).astype(float)[:, None]
    counts = np.empty((len(numbers), members), dtype=np.uint8)
    bootstrap.poisson_weights(seed, numbers, worth, counts)
    return counts.astype(float)
