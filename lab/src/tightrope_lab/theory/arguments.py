"""What the bounds are given: checked, and brought into one form."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.schedules import Capped, Power, ceiling
from tightrope.validation import finite_number, first, whole_number
from tightrope.words import Place, Shown

Rounds = TypeVar("Rounds", float, NDArray[Any])
Floats = NDArray[np.float64]
Tightening = Power | Capped


def like(given: Rounds, value: Floats) -> Rounds:
    """A number where a number was given, else an array."""
    return value if isinstance(given, np.ndarray) or np.ndim(given) else float(value)  # type: ignore[return-value]


def round_numbers(name: str, value: Any, *, least: float = 1, horizon: int | None = None) -> Floats:
    """Numbers of rounds, or other numbers ≥ least, as floats; at most the horizon where there is one."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise InvalidInput(field=name, must="be a number or an array of numbers", got=value)
    floats = array.astype(np.float64)
    most = math.inf if horizon is None else whole_number("T", horizon, low=1)
    wrong = ~(np.isfinite(floats) & (floats >= least) & (floats <= most))
    if wrong.any():
        at = first(wrong)
        bounds = f">= {least}" if horizon is None else f"in [{least}, T = {horizon}]"
        got = Shown(f"{floats[at]:g}")
        raise InvalidInput(field=Place(name, *([at] if at else [])), must=f"be finite and {bounds}", got=got)
    return floats


def slater_constant(delta: Any) -> float:
    """δ in (0, 1]."""
    number = finite_number("delta", delta, low=0.0, open_low=True)
    if number > 1:
        raise InvalidInput(f"delta must lie in (0, 1], but got {delta!r}; where it is larger, 1 holds too.")
    return number


def constraints(K: Any, delta: Any) -> tuple[int, float]:
    """K ≥ 0 and δ."""
    return whole_number("K", K, low=0), slater_constant(delta)


def falling(epsilon: Any) -> Tightening:
    """ε that never rises."""
    power = epsilon.power if isinstance(epsilon, Capped) else epsilon
    if not isinstance(power, Power) or power.exponent > 0:
        must = "be a Power whose exponent is <= 0, or a Capped one"
        raise InvalidInput(field="epsilon", must=must, got=epsilon)
    if isinstance(epsilon, Capped):
        finite_number("the cap of epsilon", epsilon.most, low=0.0)
        return epsilon
    return power


def first_at_most(epsilon: Tightening, level: float) -> float:
    """First round with ε_t ≤ level, inf where there is none.

    >>> first_at_most(Power(6.0, -0.5), 2.0), first_at_most(Capped(Power(6.0, -0.5), 2.0), 2.0)
    (9, 1)
    """
    if isinstance(epsilon, Capped):
        return 1 if epsilon.most <= level else first_at_most(epsilon.power, level)
    if epsilon.scale <= level:
        return 1
    if epsilon.exponent == 0 or level <= 0:
        return math.inf
    log_round = math.log(epsilon.scale / level) / -epsilon.exponent
    return ceiling(math.exp(log_round)) if log_round < 700 else math.inf


def failure_horizon(T: Any) -> float:
    """T where a confidence set that fails must be paid for, inf where r̂ ≥ 0 whatever happens."""
    return math.inf if T is None else whole_number("T", T, low=1)


def rising(V: Any) -> Power:
    """V > 0 that never falls."""
    if not isinstance(V, Power) or V.exponent < 0 or V.scale <= 0:
        raise InvalidInput(field="V", must="be a Power with scale > 0 and exponent >= 0", got=V)
    return V
