"""Two ways to keep running totals at or below zero: the ratchet, which raises the buffer where it fell short, and the guard.

The setting is that of `totals`: V_t = v√t, λ_k = [p_k + (S_k + b_tk)/V_t]⁺. The ratchet starts from a small buffer β_t and adds
m_k V_t to it, where m_k is 0 until rule k has been found broken, and doubles each time it is found broken again. In the end b is
larger than what V and the prices can push a total up, whatever δ is: the program needs to know neither δ nor that bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.schedules import Power
from tightrope.validation import finite_number, real_array, whole_number
from tightrope_lab.theory.arguments import Floats, constraints

# After a raise the totals are left alone for at least as many rounds as were played, but not for more than these.
LONGEST_FIRST_WAIT = 1000


@dataclass(frozen=True)
class Ratchet:
    """The rule R(m₀, t₀): V_t = v√t, b_tk = β_t + m_k V_t, and when m_k is raised.

    After round s ≥ g, each rule k with S_k(s) > 0 has its m_k ← max(m₀, 2m_k). Was there one, then with m the largest m_k and s' =
    max(s, ⌈(Km²/v)²⌉), g ← max(min(2s, s + 1000), s' + ⌈4Km²V_{s'}⌉): it takes so long until a raise has worked. At first all m_k
    are 0 and g = t₀. `v` lies in (0, 1], `beta` is the small buffer, `m0` the first raise, and nothing is raised before round
    `t0`.

    >>> rule = Ratchet()
    >>> rule.V(100), rule.buffer(10_000, np.array([0.0, 0.5]))
    (5.0, array([20., 45.]))
    >>> m, ready = rule.step(120, np.array([3.0, -4.0]), np.zeros(2), 100)
    >>> m, ready
    (array([0.125, 0.   ]), 240)
    >>> rule.step(239, np.array([3.0, -4.0]), m, ready)[1]           # too early to judge
    240
    """

    v: float = 0.5
    beta: Power = field(default=Power(2.0, 0.25))
    m0: float = 0.125
    t0: int = 100

    def __post_init__(self) -> None:
        finite_number("v", self.v, low=0.0, high=1.0, open_low=True)
        finite_number("m0", self.m0, low=0.0, open_low=True)
        whole_number("t0", self.t0, low=1)
        if not isinstance(self.beta, Power) or not 0 <= self.beta.exponent < 1:
            raise InvalidInput(field="beta", must="be a Power whose exponent lies in [0, 1)", got=self.beta)

    def V(self, t: float) -> float:
        """V_t = v√t."""
        return self.v * math.sqrt(t)

    def buffer(self, t: float, m: Floats) -> Floats:
        """b_t = β_t + m V_t, for each rule."""
        return np.asarray(self.beta(t) + m * self.V(t))

    def step(self, s: int, totals: Floats, m: Floats, ready: int) -> tuple[Floats, int]:
        """m and g after round s, from those before it and the totals after it. Changes nothing in place."""
        broken = totals > 0.0
        if s < ready or not broken.any():
            return m, ready
        raised = np.where(broken, np.maximum(self.m0, 2.0 * m), m)
        return raised, self.wait(s, float(raised.max()), len(raised))

    def wait(self, s: int, m: float, K: int) -> int:
        """g, the round from which totals are looked at again after a raise to m in round s.

        >>> Ratchet().wait(10_000, 1.0, K=1)                          # 10,000 + 4·50 is less than 10,000 + 1,000
        11000
        """
        start = max(s, math.ceil((K * m * m / self.v) ** 2))
        settled = start + math.ceil(4.0 * K * m * m * self.V(start))
        return max(min(2 * s, s + LONGEST_FIRST_WAIT), settled)


@dataclass(frozen=True)
class RatchetPromise:
    """What is proven of a ratchet; made by `ratchet_promise`.

    With probability at least `probability` no rule is raised more than `raises` times, no m_k exceeds 2 `m_star`, and every
    violation after t₀ lies between a raise and the end of the wait after it. Almost surely finitely many rounds are in violation.
    `longest_wait` is the first round in which a rule that was raised to 2 `m_star` is looked at again, if that raise came in round
    t₀: until then the proof excludes no violation.
    """

    m_star: float
    raises: int
    probability: float
    longest_wait: int


def ratchet_promise(
    *, K: int, delta: float, price_bound: float, q: float = 0.01, ratchet: Ratchet | None = None
) -> RatchetPromise:
    """m* = max{8(1 + p̄)/δ, 8 + 3√ℓ}, ℓ = log(K/(vq)): no rule whose m_k is as large is raised again, with probability 1 − q.

    At most N = 1 + ⌈log₂(m*/m₀)⌉ raises of each rule, with probability 1 − q − KN·10(K³/v²) m*⁴ e^{−0.6 m*²}. Assumed, beside what
    `totals` assumes: v ≤ 1, and from round (Km*²/v)² on β_t ≤ V_t and √K(β_{t+1} − β_t) ≤ δ/8, which is checked. K ≥ 1,
    `price_bound` is p̄, a bound on ‖p‖₁, q lies in (0, 1), and the ratchet is by default `Ratchet()`.

    >>> promise = ratchet_promise(K=1, delta=0.5, price_bound=1.0)
    >>> promise.m_star, promise.raises, round(promise.probability, 6)
    (32.0, 9, 0.99)
    """
    K, delta = constraints(K, delta)
    if K == 0:
        raise InvalidInput("K must be >= 1, but got 0: without rules there is nothing to keep.")
    rule = Ratchet() if ratchet is None else ratchet
    price_bound = finite_number("price_bound", price_bound, low=0.0)
    q = finite_number("q", q, low=0.0, open_low=True)
    if q >= 1:
        raise InvalidInput(f"q must lie in (0, 1), but got {q!r}.")
    m = max(8.0 * (1.0 + price_bound) / delta, 8.0 + 3.0 * math.sqrt(math.log(K / (rule.v * q))))
    t = (K * m * m / rule.v) ** 2
    steepest = rule.beta.scale * rule.beta.exponent * t ** (rule.beta.exponent - 1.0)
    # β/V falls from there on, as its exponent is below ½, and so do its steps.
    if rule.beta.exponent > 0.5 or rule.beta(t) > rule.V(t) or math.sqrt(K) * steepest > delta / 8.0:
        raise InvalidInput(
            f"from round {t:.4g} on beta must stay below V, and rise by at most {delta / 8 / math.sqrt(K):.4g} per round, "
            f"but it is {rule.beta!r}, with V = {rule.v:g}·√t."
        )
    raises = 1 + max(0, math.ceil(math.log2(m / rule.m0)))
    rest = K * raises * 10.0 * K**3 / rule.v**2 * m**4 * math.exp(-0.6 * m * m)
    return RatchetPromise(m, raises, 1.0 - q - rest, rule.wait(rule.t0, 2.0 * m, K))


def rounds_without_safe_action(costs: Any, available: Any = None) -> NDArray[np.int64]:
    """Which rounds offer no action whose costs are all at or below 0: there the guard can't keep its promise.

    Where there are none, and no total starts above 0, an argmax among the actions with S + W_j ≤ 0 keeps every total at or below
    zero in every round, surely, whatever prices, V and b are: an action without a positive cost is always among them. `costs` (n,
    J, K) are those of n rounds, or contexts, that can occur, (J, K) of one; `available` (n, J) says which actions each offers, all
    by default.

    >>> rounds_without_safe_action([[[0.5], [-0.1]], [[0.5], [0.2]]])
    array([1])
    >>> rounds_without_safe_action([[[0.5], [-0.1]]], available=[[True, False]])
    array([0])
    """
    W = real_array("costs", costs, (None, None, None), (None, None))
    W = W[None] if W.ndim == 2 else W
    on_offer = np.asarray(np.ones(W.shape[:2]) if available is None else available, dtype=bool)
    if on_offer.shape != W.shape[:2]:
        raise InvalidInput(f"available must have shape {W.shape[:2]}, but has {on_offer.shape}.")
    safe = (W <= 0.0).all(axis=2) & on_offer
    return np.flatnonzero(~safe.any(axis=1))
