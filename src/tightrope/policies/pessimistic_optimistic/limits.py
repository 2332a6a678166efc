"""Limits that an operator moves: what was learnt of costs seen after acting stays as it is, and a shift says what it means now.

A ridge model can't restate what it has learnt under another limit. So the model goes on with costs as they were when it began, and
the policy adds the shift to what it predicts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope import kernels
from tightrope.policies.pending import Pending
from tightrope.policies.pessimistic_optimistic.estimates import Ids, optimistic_costs
from tightrope.validation import Array


def resume(policy: Any, old: Any, same_costs: bool, shifts: Array | None) -> None:
    """Go on where `old` stands: see `PessimisticOptimistic.resume`."""
    now, arrays = old.state(), policy.state()
    kept = ("reward/", "cost/", "pending/", "made")
    measured = same_costs and policy._meter is not None and old._meter is not None
    arrays = {
        name: now[name] if name.startswith(kept) or (measured and name.startswith("slater/")) else array
        for name, array in arrays.items()
    }
    policy.load(arrays)
    policy._pending.update(old._pending)
    kernels.carry_over(old._core, old._input.constraints, policy._core, policy._input.constraints)
    set_shift(policy, old._shift + (0.0 if shifts is None else shifts))


def set_shift(policy: Any, shift: Array) -> None:
    """Costs seen after acting are so much larger than the model learns them, (K_after,)."""
    policy._shift = shift
    if shift.any():
        # Compiled code knows nothing of it.
        policy._plain_after, policy._fast_after, policy._by_usage = False, None, None


def shifted_costs(policy: Any, psi: Array | None, ids: Ids, core: Array, W: Array) -> None:
    """W̌ into the columns of W (J, K) that are seen after acting."""
    shift, columns = policy._shift, policy._input.columns
    optimistic_costs(policy._cost, psi, ids, core, policy._ranges - shift[:, None], columns, W)
    W[:, columns] += shift


def costs_to_learn(policy: Any, pending: Pending, costs: Array) -> Array:
    """Costs (K_after,) as the model learns them; of a rule that is not in force nothing is shifted."""
    shift: Array = policy._shift
    if policy._rule_costs is not None and shift.any():
        shift = shift.copy()
        shift[policy._rule_costs.force(pending[4]).unseen] = 0.0
    return np.asarray(costs - shift)
