"""V_t and ε_t: how the weight of the queues and the tightening of the constraints change with the round; and √β, which does too.

V_t and ε_t have the form scale · t^exponent · log(1 + T)^log_power, T being the horizon, or t if there is none. The kernels compile
`power_law` and `confidence_radius`, so these use only `math`. If the tightening is capped, ε_t is at most `cap(δ)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tightrope.errors import InvalidInput


def power_law(t: float, scale: float, exponent: float, log_power: float, T: float) -> float:
    """scale · t^exponent · log(1 + T)^log_power."""
    if exponent == 0.5:
        value = scale * math.sqrt(t)
    elif exponent == -0.5:
        value = scale / math.sqrt(t)
    else:
        value = scale * math.pow(t, exponent)
    if log_power != 0.0:
        value *= math.pow(math.log(1.0 + T), log_power)
    return value


def confidence_radius(n: float, d: float, T: float, m: float, ridge: float) -> float:
    """√β = √λ·m + sqrt(2 log T + d log(1 + n/(dλ))), n outcomes learnt so far (Abbasi-Yadkori et al. 2011, Theorem 2)."""
    return math.sqrt(ridge) * m + math.sqrt(2.0 * math.log(T) + d * math.log(1.0 + n / (d * ridge)))


@dataclass(frozen=True)
class Power:
    """The schedule scale · t^exponent.

    Parameters
    ----------
    scale : float
        Value at t = 1; finite and not negative.
    exponent : float
        Any finite number.

    Examples
    --------
    >>> Power(6.0, -0.5)(4)
    3.0
    """

    scale: float
    exponent: float

    def __post_init__(self) -> None:
        for name in ("scale", "exponent"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise InvalidInput(field=f"{name} of a schedule", must="be a finite number", got=value)
        if self.scale < 0:
            raise InvalidInput(field="scale of a schedule", must="be >= 0", got=self.scale)

    def __call__(self, t: float) -> float:
        """Value at round t ≥ 1."""
        return float(self.scale * t**self.exponent)


@dataclass(frozen=True)
class Capped:
    """The schedule min(power, most): a capped tightening."""

    power: Power
    most: float

    def __call__(self, t: float) -> float:
        return min(self.most, self.power(t))


def cap(delta: float) -> float:
    """δ/2, the most that a capped ε_t is: some mixture of actions then meets the tightened rules with δ/2 to spare."""
    return delta / 2


@dataclass(frozen=True)
class Schedule:
    """scale · t^exponent · log(1 + T)^log_power: what the kernels evaluate."""

    scale: float
    exponent: float
    log_power: float = 0.0

    def __call__(self, t: float, horizon: float | None = None) -> float:
        return power_law(t, self.scale, self.exponent, self.log_power, t if horizon is None else horizon)

    def times(self, factor: float) -> Schedule:
        return Schedule(self.scale * factor, self.exponent, self.log_power)


def known_costs(K: int) -> tuple[Schedule, Schedule]:
    """Algorithm A: V_t / δ = K^0.25 sqrt(2t/3) and ε_t = K^0.75 sqrt(6/t)."""
    return Schedule(K**0.25 * math.sqrt(2 / 3), 0.5), Schedule(K**0.75 * math.sqrt(6), -0.5)


def linear_costs(K: int, d: int) -> tuple[Schedule, Schedule]:
    """Algorithm B: V_t / δ = d √t log(1+T) / 4 and ε_t = 4 d log(1+T) / √t, scaled by K^0.25 and K^0.75 as in A."""
    return Schedule(K**0.25 * d / 4, 0.5, 1.0), Schedule(K**0.75 * 4 * d, -0.5, 1.0)


def tau_prime(*, K: int, delta: float) -> int:
    """τ', the first round with ε_t ≤ δ/2 in algorithm A: ⌈24 K^1.5/δ²⌉."""
    return max(1, ceiling(24 * K**1.5 / delta**2))


def tau_prime_linear(*, delta: float, d: int, T: int) -> int:
    """τ' in algorithm B with one constraint: ⌈64 d² log²(1 + T)/δ²⌉; it may lie beyond T."""
    return ceiling((8 * d * math.log1p(T) / delta) ** 2)


def ceiling(value: float) -> int:
    """⌈value⌉, but 2400 for 2400.0000000000005."""
    nearest = round(value)
    return nearest if math.isclose(value, nearest, rel_tol=1e-12) else math.ceil(value)


def as_schedule(name: str, value: Any) -> Schedule:
    if isinstance(value, Schedule):
        return value
    if not isinstance(value, Power):
        raise InvalidInput(field=name, must="be a schedule, such as tr.Power(1.0, 0.5)", got=value)
    if name == "V" and value.scale == 0:
        why = "The queues are divided by V_t."
        raise InvalidInput(field="the scale of V", must="be > 0", got=0, remedy=why)
    return Schedule(float(value.scale), float(value.exponent))


def as_data(name: str, power: Any) -> list[float] | None:
    if power is None:
        return None
    schedule = as_schedule(name, power)
    return [schedule.scale, schedule.exponent]
