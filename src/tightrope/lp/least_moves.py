"""The smallest change of limits that lets an allocation meet every constraint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tightrope.lp.highs import solve_lp
from tightrope.validation import Array


def least_moves(
    weights: Array, costs: Array, sizes: Any, which: Sequence[int], shares: Array | None = None
) -> Array:
    """How far each limit (K,) moves when all constraints of `which` can be met on average and the sum of the moves is least.

    Parameters
    ----------
    weights : (C,)
        Of the contexts.
    costs : (R, K)
        Of the actions on offer, context after context, in the units in which moves are counted.
    sizes : (C,) of int
        How many rows each context has.
    which : sequence of int
    shares : (K,), optional
        The part of the contexts in which a limit counts: moving it by 1 gives that much room. 1 by default.

    Examples
    --------
    >>> least_moves(np.ones(1), np.array([[0.5, -0.25], [-0.25, 0.5]]), [2], [0, 1])
    array([0.25, 0.  ])
    """
    import scipy.sparse as sp  # takes long to import, as the solver does

    R, K = costs.shape
    chosen = list(which)
    moves = np.zeros(K)
    if not chosen:
        return moves
    of = np.repeat(np.arange(len(sizes)), sizes)
    p = (np.asarray(weights) / np.sum(weights))[of]
    room = np.ones(len(chosen)) if shares is None else np.asarray(shares)[chosen]
    # Rows of like size, whatever the units.
    size = np.maximum(1e-300, np.abs(costs[:, chosen]).max(axis=0))
    A_ub = sp.hstack([sp.csr_array((p[:, None] * costs[:, chosen] / size).T), sp.diags_array(-room / size)])
    A_eq = sp.csr_array((np.ones(R), (of, np.arange(R))), shape=(len(sizes), R + len(chosen)))
    objective = np.concatenate([np.zeros(R), np.ones(len(chosen))])
    found = solve_lp(
        objective / size.max(),
        A_ub=A_ub,
        b_ub=np.zeros(len(chosen)),
        A_eq=A_eq,
        b_eq=np.ones(len(sizes)),
        maximise=False,
    )
    moves[chosen] = found.x[R:]
    return moves
