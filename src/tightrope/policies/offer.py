"""What a round offers, brought into the form that models and kernels read, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.actions import ActionNames
from tightrope.errors import InvalidInput
from tightrope.models import Model
from tightrope.validation import Array, real_array

__all__ = [
    "Offer",
    "feature_rows",
    "logged_rows",
    "offered_ids",
    "plain_group",
    "rounds_given",
    "rows_for_each",
]

Ids = NDArray[np.int64]


class Offer(NamedTuple):
    """The actions on offer: ids (J,), φ and ψ (J, d), costs W (J, K), the context's group and, for those who are told, its number.

    φ and ψ have one row where one x stands for all actions. `catalogue`: φ as a catalogue holds it, which never changes.
    """

    ids: Ids
    phi: Array | None = None
    W: Array = np.empty((0, 0))
    psi: Array | None = None
    group: Any = None
    context: int | None = None
    catalogue: Array | None = None

    def row_of(self, name: str, action: int) -> int:
        """The row of an action that must be on offer."""
        rows = np.flatnonzero(self.ids == action)
        if not len(rows):
            raise InvalidInput(
                f"{name} must be on offer in every round, but action {action} is not among {self.ids.tolist()}."
            )
        return int(rows[0])


def offered_ids(actions: Any, names: ActionNames) -> Ids | None:
    """Ids of the actions on offer, each once and at least one; None where all are."""
    return None if actions is None else np.array(names.ids(actions, once=True), dtype=np.int64)


def feature_rows(name: str, value: Any, model: Model, J: int | None) -> tuple[Array | None, int | None]:
    """Rows that `model` reads, one for each action or one for all, and, where they tell it, the number of actions."""
    if not _are_given(name, value, model, "an action"):
        return None, J if J is not None else model.n_actions
    p = model.n_features
    if model.n_actions is not None:
        J = model.n_actions if J is None else J
        if getattr(value, "shape", None) == (1, p):
            # A frame of one row, which is the x of all actions.
            value = real_array(name, value, (1, p))[0]
        rows = real_array(name, value, (p,), (J, p))
        return (rows[None, :] if rows.ndim == 1 else rows), J
    rows = real_array(name, value, (J, p))
    if not len(rows):
        raise InvalidInput(f"at least one action must be on offer, but {name} has no row.")
    return rows, len(rows)


def rows_for_each(rows: Array | None, J: int) -> Array | None:
    """A row for each of J actions, in C order, where one stood for all."""
    if rows is None or len(rows) == J:
        return rows
    return np.array(np.broadcast_to(rows, (J, rows.shape[1])), order="C")


def logged_rows(name: str, value: Any, model: Model, n: int) -> Array | None:
    """One feature row for each of n logged decisions."""
    if not _are_given(name, value, model, "a decision"):
        return None
    return real_array(name, value, (n, model.n_features))


def plain_group(group: Any) -> str | tuple[str, ...] | None:
    """A context's groups in a form that can be kept and saved."""
    if group is None or isinstance(group, str):
        return group
    if not isinstance(group, Iterable):
        raise InvalidInput(f"group must be a name or several, but got {group!r}.")
    names = tuple(group)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"group must be a name or several, but got {name!r} among them.")
    return tuple(sorted(names))


def _are_given(name: str, value: Any, model: Model, of: str) -> bool:
    """Whether there are features, which must be so where the model takes any and only there."""
    if model.takes_features and value is None:
        raise InvalidInput(f"{name} are needed by {type(model).__name__}: {model.n_features} numbers {of}.")
    if not model.takes_features and value is not None:
        raise InvalidInput(f"{name} are not needed by {type(model).__name__}, so they can't be given.")
    return model.takes_features


def rounds_given(name: str, value: Any) -> int:
    """For how many rounds an argument of `decide_many` is."""
    if isinstance(value, (str, bytes)) or not (isinstance(value, Sequence) or np.ndim(value)):
        raise InvalidInput(f"{name} must have one entry for each round, but got {value!r}.")
    return len(value)
