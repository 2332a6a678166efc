"""A choice among the actions on offer, and the estimates it is based on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.models import Model, hooks
from tightrope.models.model import missing_sizes
from tightrope.policies.decision import Sampling
from tightrope.validation import Array, finite_number

__all__ = [
    "Choice",
    "best_row",
    "checked_choice",
    "copy_of_model",
    "estimates",
    "failure_probability",
    "one_hot",
    "unpack_choice",
]


class Choice(NamedTuple):
    """The row; per row the expected reward, the value and, if drawn, the probability (NaN: no closed form); a note for `chosen`."""

    row: int
    rewards: Array
    values: Array
    probabilities: Array | None = None
    note: Any = None

    def trace(self) -> Array:
        """The numbers behind it, as `unpack_choice` reads them."""
        pi = one_hot(self.row, len(self.values)) if self.probabilities is None else self.probabilities
        return np.concatenate([self.rewards, self.values, pi])


def unpack_choice(trace: Array, J: int, _: Sampling) -> dict[str, Any]:
    rewards, values, probabilities = trace.reshape(3, J).copy()
    return {
        "rewards": rewards,
        "values": values,
        "probabilities": probabilities,
        "costs": np.empty((J, 0)),
        "queue": np.empty(0),
    }


def copy_of_model(name: str, model: Any, n_outputs: int = 1) -> Model:
    """A copy of a model for a policy to work on; it learns `n_outputs` quantities."""
    if not isinstance(model, Model):
        raise InvalidInput(
            field=name, must="be a model, such as ridge, disjoint-ridge or arm-means", got=model
        )
    if missing := missing_sizes(model):
        raise InvalidInput(
            f"{name} has no {' and '.join(missing)}, which this policy can't infer: pass {missing[0]}=."
        )
    return hooks.with_outputs(model, n_outputs)


def estimates(model: Model, rows: Array | None, ids: Any) -> tuple[Array, Array]:
    """Means and widths of the actions on offer, (J, n_outputs) or (J, 1); a mean of 0 and an infinite width if never seen."""
    means = np.asarray(model.means(rows, ids)).reshape(len(ids), -1)
    return np.where(np.isnan(means), 0.0, means), np.asarray(model.widths(rows, ids)).reshape(len(ids), -1)


def failure_probability(failure: Any) -> float:
    p = finite_number("failure", failure, low=0.0, high=1.0, open_low=True)
    if p == 1.0:
        raise InvalidInput(field="failure", must="lie in (0, 1)", got=1)
    return p


def one_hot(row: int, J: int) -> Array:
    pi = np.zeros(J)
    pi[row] = 1.0
    return pi


def best_row(values: Array) -> int:
    """The lowest row whose value ties with the highest."""
    return int(kernels.first_of_the_best(values))


def checked_choice(choice: Any, J: int, who: str) -> Choice:
    """Check what a policy's `_choose` returned for J rows; the error says what it must return."""
    if not isinstance(choice, Choice):
        words = f"must return a Choice(row, rewards, values), but returned {choice!r}"
        raise InvalidInput(f"{who}._choose {words}.")
    by_row = [one for one in choice[1:4] if one is not None]
    if not 0 <= choice.row < J or any(len(one) != J for one in by_row):
        got = f"row {choice.row}, with {', '.join(str(len(one)) for one in by_row)} numbers"
        must = f"one of {J} rows, from 0, with rewards, values and maybe probabilities of {J} numbers each"
        raise InvalidInput(f"{who}._choose must give {must}, but gave {got}.")
    return choice
