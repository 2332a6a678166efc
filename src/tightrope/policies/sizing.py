"""Infers the sizes of models: from the first round that a policy sees, from past rows, or from a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tightrope.catalogue import Catalogue
from tightrope.encoder import Encoder
from tightrope.errors import InvalidInput
from tightrope.frames import row_of
from tightrope.messages import did_you_mean
from tightrope.models.sizes import Sizes
from tightrope.problem import Problem

__all__ = ["Context", "numbers_of", "read_context", "sizes_in", "sizes_of_rows"]

# How a context becomes numbers: by an encoder, or in the order of these names; None if it is already numbers.
Context = Encoder | tuple[str, ...] | None


def sizes_in(problem: Problem, part: str) -> Sizes:
    """The sizes that a model of rewards or costs needs in a problem."""
    vectors = problem.features if part == "reward" else problem.cost_features
    n, per_action = (0, False) if vectors is None else (vectors.length, vectors.per_action)
    return Sizes(problem.n_actions, n, per_action)


def sizes_of_rows(name: str, rows: Any, n_actions: int | None) -> Sizes:
    """The sizes that a model needs for these features of a round: one x (p,), or a row for each action (J, d)."""
    if rows is None:
        return Sizes(n_actions, 0, per_action=False)
    shape = (rows.features if isinstance(rows, Catalogue) else np.asarray(rows)).shape
    if len(shape) not in (1, 2):
        raise InvalidInput(f"{name} must be one vector, or a row for each action, but have shape {shape}.")
    # A frame with one row is the x of all actions.
    one_for_all = len(shape) == 1 or (shape[0] == 1 and n_actions not in (None, 1))
    return Sizes(n_actions, shape[-1], per_action=not one_for_all)


def read_context(context: Any) -> Context:
    """Read a policy's `context` argument: an encoder, an encoder as data, or names."""
    if isinstance(context, Encoder):
        if not context.fitted:
            raise InvalidInput("context must be an encoder that has seen a table: fit it first.")
        return context
    if isinstance(context, Mapping):
        return Encoder.from_dict(context)
    if context is None:
        return None
    names = tuple(context) if isinstance(context, list | tuple) else (context,)
    if not names or not all(isinstance(one, str) for one in names) or isinstance(context, str):
        raise InvalidInput(field="context", must="be an Encoder or a list of names", got=context)
    return names


def numbers_of(features: Any, context: Context) -> tuple[Any, Context]:
    """Features as numbers, and how they became numbers: names are learnt from the first row that has some.

    >>> numbers_of({"age": 41, "fever": True}, None)
    ([41.0, 1.0], ('age', 'fever'))
    """
    if features is None or isinstance(features, np.ndarray | list | Catalogue):
        return features, context
    if isinstance(context, Encoder):
        return context.transform(features), context
    row = row_of(features, ())
    if row is None or not all(isinstance(name, str) for name in row):
        return features, context
    names = tuple(row) if context is None else context
    for name in row.keys() - set(names):
        raise InvalidInput(f"context.{name} was not in the first context{did_you_mean(name, names)}.")
    return [_number(name, row.get(name)) for name in names], names


def _number(name: str, value: Any) -> float:
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError):
        pass
    remedy = "Give the policy context=tr.Encoder().fit(table) for other columns."
    raise InvalidInput(field=f"context.{name}", must="be a number", got=value, remedy=remedy)
