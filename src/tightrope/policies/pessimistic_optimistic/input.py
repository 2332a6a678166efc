"""What a pessimistic-optimistic policy is made with: ranges of costs, what measures Slater's constant, schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import schedules
from tightrope.errors import InvalidInput
from tightrope.rules import Rules
from tightrope.validation import Array, real_array, require_range

if TYPE_CHECKING:
    from tightrope.policies.pessimistic_optimistic.slater import SlaterMeter


def cost_ranges(K: int, rules: Rules | None, cost_range: Any) -> Array:
    """What each of K costs is known to lie in, (K, 2)."""
    if rules is not None:
        if cost_range is not None:
            raise InvalidInput("cost_range comes from the rules' declared ranges: do not give it as well.")
        return np.array(rules.cost_range, dtype=float).reshape(K, 2)
    given = real_array("cost_range", (-1.0, 1.0) if cost_range is None else cost_range, (2,), (K, 2))
    ranges = np.array(np.broadcast_to(given, (K, 2)))
    require_range("cost_range", ranges, -1.0, 1.0)
    bad = ranges[:, 0] >= ranges[:, 1]
    if bad.any():
        k = int(np.argmax(bad))
        raise InvalidInput(
            f"`low < high` must hold in cost_range, but constraint {k} has {tuple(ranges[k].tolist())}."
        )
    return ranges


def slater_meter(
    slater: Any, V: Any, capped: bool, K: int, late: int, seed: int, measured: Callable[[], None]
) -> SlaterMeter | None:
    """What measures δ, where V or the cap on ε must come from it and it was not given; `measured` hears of a new δ."""
    if (V is not None and not capped) or slater is not None or K == 0:
        return None
    if late:
        which = "every constraint here is" if late == K else f"{late} of {K} constraints here are"
        raise InvalidInput(
            f"Slater's constant is measured from costs that are seen before acting, but {which} seen only after. "
            f"Give slater{': the cap on ε_t is δ/2' if capped else ', or V (V_t is all that needs it)'}."
        )
    from tightrope.policies.pessimistic_optimistic.slater import (
        SlaterMeter,  # the LP solver takes long to import
    )

    return SlaterMeter(K, seed, measured)


def power_settings(name: str, power: Any) -> list[float] | None:
    """A schedule as plain data."""
    if power is None:
        return None
    schedule = schedules.as_schedule(name, power)
    return [schedule.scale, schedule.exponent]
