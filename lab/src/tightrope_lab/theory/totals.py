"""Running totals under shadow prices: when the rules hold, in expectation and with what probability.

A policy that steers by shadow prices plays argmax_j r̃_j − λ·W_j, where λ_k = [p_k + (S_k + b_t)/V_t]⁺, S_k is the total of cost k
before round t, and p a price. Assumed throughout: rounds are i.i.d., costs W in [−1, 1] are seen before acting, r̃ lies in [0, 1],
some policy keeps every mean cost at −δ or below (which the program need not know), V and b never fall, and p ≥ 0 with ‖p‖₁ ≤ p̄ is a
function of the rounds before t alone. p may change in any round and in any way. Where r̃ is an r̂ that is not clipped at 0, as in the
paper's policy, some functions take T: a confidence set fails with probability 1/T, and what that can cost is added.

The paper's policy is the case p = 0, b_t = Σ_{s<t} ε_s (`Summed`). That its queues are reflected at 0 changes nothing: the proof is
of Y = (S + b)⁺, and (Q + w + ε)⁺ ≤ (Q + w)⁺ + ε. Derivations and numbers: docs/bounds.md.

`tau` is a number of rounds played, and L(τ) the norm ‖(S(τ) + b_{τ+1})⁺‖₂. η in (0, 1) splits the drift δ of the proof between what
pulls L down and what V takes; where it is None, the best of `ETAS` is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.schedules import Capped, Power
from tightrope.validation import finite_number
from tightrope_lab.theory.arguments import (
    Floats,
    Rounds,
    Tightening,
    constraints,
    failure_horizon,
    falling,
    first_at_most,
    like,
    rising,
    round_numbers,
)

ETAS = np.arange(1, 500) / 500.0
# Ends beyond this round are not looked for.
LAST = 2.0**300


@dataclass(frozen=True)
class Summed:
    """The buffer b_t = Σ_{s<t} ε_s that tightening the constraints by ε, which may be `Capped`, in every round builds up.

    Examples
    --------
    >>> Summed(Power(6.0, -0.5))(3)                          # 6 + 6/√2
    10.242640687119286
    """

    epsilon: Tightening

    def __post_init__(self) -> None:
        falling(self.epsilon)

    def __call__(self, t: float) -> float:
        """Value at round t ≥ 1, to rounding."""
        return float(_buffer(self).low(np.asarray(float(t))))


@dataclass(frozen=True)
class LogTimes:
    """The buffer b_t = factor · V_t · log(1 + t): it outgrows V, so that the rules hold from some round on whatever δ is.

    Examples
    --------
    >>> round(LogTimes(2.0, Power(0.5, 0.5))(1), 6)          # log 2
    0.693147
    """

    factor: float
    V: Power

    def __post_init__(self) -> None:
        finite_number("factor", self.factor, low=0.0, open_low=True)
        if rising(self.V).exponent >= 1:
            must = "be below 1, so that b rises by less and less"
            raise InvalidInput(field="the exponent of V", must=must, got=self.V)

    def __call__(self, t: float) -> float:
        """Value at round t ≥ 1."""
        return float(self.factor * self.V(t) * math.log1p(t))


Buffer = Power | Summed | LogTimes


@dataclass(frozen=True)
class Steering:
    """What every bound here is of: the rules, and how their totals are steered.

    Parameters
    ----------
    K, delta
        Constraints and Slater's constant.
    V, b
        The weight of the reward, a `Power` that never falls, and the buffer: a `Power`, `Summed` or `LogTimes`.
    price_bound : float
        p̄, a bound on ‖p‖₁; 0 for a policy without a price beside its queues.
    B : float, optional
        The largest ‖W_j‖₂; √K by default, which always holds.
    eta : float, optional
        η in (0, 1).

    Examples
    --------
    >>> V = Power(0.5, 0.5)
    >>> Steering(K=1, delta=0.5, V=V, b=LogTimes(2.0, V)).price_bound
    0.0
    """

    K: int
    delta: float
    V: Power
    b: Buffer
    price_bound: float = 0.0
    B: float | None = None
    eta: float | None = None

    def __post_init__(self) -> None:
        constraints(self.K, self.delta)
        rising(self.V)
        _buffer(self.b)
        finite_number("price_bound", self.price_bound, low=0.0)
        if self.B is not None:
            finite_number("B", self.B, low=0.0, high=math.sqrt(max(1, self.K)), open_low=True)
        if self.eta is not None and finite_number("eta", self.eta, low=0.0, high=1.0, open_low=True) == 1.0:
            raise InvalidInput("eta must lie in (0, 1), but got 1.")


def log_moment_bound(tau: Rounds, steering: Steering) -> Rounds:
    """Bound on log E e^{ζL(τ)}, with ζ = `drift_exponent(drift=ηδ/2, jump=B + ηδ/2)`.

    With ρ = ηδ/2, ν = B + ρ, φ_t = (V_t(1 + p̄) + B²/2)/((1 − η)δ), t = τ + 1, and t₁ the round from which √K(b_{t+1} − b_t) ≤ ρ:
    √K b_t ζ + log(1 + (2/ζρ) e^{ζ(ν + φ_t)}) at any time, and from t₁ on also
    log((1 − ζρ/2)^{t−t₁} e^{ζ√K b_{t₁}} (1 + (2/ζρ) e^{ζ(ν + φ_{t₁})}) + (2/ζρ) e^{ζ(ν + φ_t)}). Where b = Σ ε with ε at most
    σ < δ, as where it is capped, b may stand inside the drift: with ν = B + √K σ, the least ρ for which ζ is an exponent of the
    drift lemma, and φ_t = (V_t(1 + p̄) + ν²/2)/(δ − σ − ρ), also log((1 − ζρ/2)^{t−1} + (2/ζρ) e^{ζ(ν + φ_t)}), and it is the start
    at t₁ of the line above.

    >>> V = Power(0.5, 0.5)
    >>> log_moment_bound(10_000, Steering(K=1, delta=0.5, V=V, b=LogTimes(2.0, V), eta=0.5)) < 60
    True
    """
    if steering.eta is None:
        raise InvalidInput("eta must lie in (0, 1), but got None.")
    t = round_numbers("tau", tau) + 1.0
    proof = _Proof(steering)
    return like(tau, proof.log_moment(t)[..., 0])


def expected_total_bound(tau: Rounds, steering: Steering, *, T: int | None = None) -> Rounds:
    """Bound on E S_k(τ) for each k: (1/ζ) `log_moment_bound` − b_{τ+1}, and never above τ.

    With T, √K(τ + b_{τ+1})/T is added.

    >>> V = Power(0.5, 0.5)
    >>> expected_total_bound(np.array([10, 920, 5000]), Steering(K=1, delta=0.5, V=V, b=LogTimes(2.0, V))).round()
    array([  10.,   -0., -403.])
    """
    t = round_numbers("tau", tau) + 1.0
    proof = _Proof(steering)
    if proof.K == 0:
        return like(tau, np.zeros_like(t))
    bound = (proof.log_moment(t) / proof.zeta).min(axis=-1) - proof.buffer.low(t)
    bound = bound + math.sqrt(proof.K) * (t - 1.0 + proof.buffer.high(t)) / failure_horizon(T)
    return like(tau, np.minimum(bound, t - 1.0))


def violation_probability_bound(tau: Rounds, steering: Steering, *, T: int | None = None) -> Rounds:
    """Bound on P(some S_k(τ) > 0): e^{−ζ b_{τ+1}} E e^{ζL(τ)}, and never above 1.

    With T, 1/T is added.

    >>> V = Power(0.5, 0.5)
    >>> violation_probability_bound(np.array([10, 1100]), Steering(K=1, delta=0.5, V=V, b=LogTimes(2.0, V))).round(4)
    array([1.    , 0.0095])
    """
    t = round_numbers("tau", tau) + 1.0
    proof = _Proof(steering)
    if proof.K == 0:
        return like(tau, np.zeros_like(t))
    exponent = (proof.log_moment(t) - proof.zeta * proof.buffer.low(t)[..., None]).min(axis=-1)
    return like(tau, np.minimum(1.0, np.exp(np.minimum(exponent, 0.0)) + 1.0 / failure_horizon(T)))


def expected_violation_ends(steering: Steering, *, T: int | None = None) -> int | None:
    """Round from which `expected_total_bound` stays at or below 0; None where none is proven, as where b/V falls.

    With T, what is added is taken as large as it can be in T rounds; an end beyond T promises nothing within the horizon.

    >>> V = Power(0.5, 0.5)
    >>> expected_violation_ends(Steering(K=1, delta=0.5, V=V, b=LogTimes(2.0, V)))
    919
    >>> expected_violation_ends(Steering(K=1, delta=0.5, V=V, b=Power(2.0, 0.25))) is None
    True
    """
    proof = _Proof(steering)
    return _end(proof, 0.0, _failed(proof, T))


def violation_probability_ends(steering: Steering, q: float = 0.01, *, T: int | None = None) -> int | None:
    """Round from which `violation_probability_bound` stays below q in (0, 1); None where none is proven, as where q ≤ 1/T.

    >>> V = Power(0.5, 0.5)
    >>> violation_probability_ends(Steering(K=1, delta=0.5, V=V, b=LogTimes(2.0, V)), 0.01)
    1098
    """
    q = finite_number("q", q, low=0.0, open_low=True)
    if q >= 1:
        raise InvalidInput(f"q must lie in (0, 1), but got {q!r}.")
    proof, left = _Proof(steering), q - 1.0 / failure_horizon(T)
    if proof.K and left <= 0.0:
        return None
    return _end(proof, math.log(left) if proof.K else 0.0)


def excess_bound(tau: Rounds, steering: Steering) -> Rounds:
    """Bound on E S_k⁺(τ) for each k: (1/ζ) `log_moment_bound`, as S_k⁺ ≤ L where b ≥ 0; never above τ. It holds for any b.

    >>> V = Power(0.5, 0.5)
    >>> excess = excess_bound(10**8, Steering(K=1, delta=0.5, V=V, b=Power(2.0, 0.25)))
    >>> excess / V(10**8) < 2 * 1.1 / 0.5
    True
    """
    t = round_numbers("tau", tau) + 1.0
    proof = _Proof(steering)
    if proof.K == 0:
        return like(tau, np.zeros_like(t))
    return like(tau, np.minimum((proof.log_moment(t) / proof.zeta).min(axis=-1), t - 1.0))


# The proof ----------------------------------------------------------------------------------------


class _Proof:
    """What the bounds are made of, for several η at once; rounds t broadcast against (η,)."""

    def __init__(self, steering: Steering) -> None:
        self.K, self.delta = constraints(steering.K, steering.delta)
        self.V, self.buffer = steering.V, _buffer(steering.b)
        self.eta = ETAS if steering.eta is None else np.array([float(steering.eta)])
        self.price_bound = float(steering.price_bound)
        self.B = math.sqrt(max(1, self.K)) if steering.B is None else float(steering.B)

    @cached_property
    def rho(self) -> Floats:
        return np.asarray(self.eta * self.delta / 2.0)

    @cached_property
    def nu(self) -> Floats:
        return np.asarray(self.B + self.rho)

    @cached_property
    def zeta(self) -> Floats:
        return np.asarray(self.rho / (self.nu**2 + self.nu * self.rho / 3.0))

    @cached_property
    def inside(self) -> tuple[Floats, float, Floats]:
        """ρ, ν and what is left of δ for the level, with steps of b inside the drift; the last is not above 0 where that fails."""
        step = self.buffer.largest_step
        nu = self.B + math.sqrt(self.K) * step
        rho = np.asarray(self.zeta * nu**2 / np.maximum(1.0 - self.zeta * nu / 3.0, 1e-300))
        return rho, nu, np.asarray(self.delta - step - rho)

    @cached_property
    def settled(self) -> Floats:
        """t₁ for each η; inf where there is none."""
        limit = self.rho / math.sqrt(max(1, self.K))
        start = np.full(len(limit), self.buffer.concave_from)
        return _first(lambda t: self.buffer.step(t) <= limit, start)

    def log_moment(self, t: Floats) -> Floats:
        """log E e^{ζL}, for rounds t (…) and each η, (…, η)."""
        return np.minimum(self.anytime(t[..., None]), self.late(t[..., None]))

    def anytime(self, t: Floats) -> Floats:
        start = self.zeta * math.sqrt(self.K) * self.buffer.high(t)
        return np.minimum(start + np.logaddexp(0.0, self.risen(t)), self.tight(t))

    def tight(self, t: Floats) -> Floats:
        """From the first round on, where no step of b takes all of δ; inf elsewhere."""
        if not self.buffer.largest_step < self.delta:
            return np.full(np.broadcast_shapes(t.shape, self.eta.shape), math.inf)
        rho, nu, left = self.inside
        level = (self.V_at(t) * (1.0 + self.price_bound) + nu**2 / 2.0) / np.where(left > 0.0, left, 1.0)
        drained = (t - 1.0) * np.log1p(-np.minimum(self.zeta * rho / 2.0, 0.5))
        risen = np.log(2.0 / (self.zeta * rho)) + self.zeta * (nu + level)
        return np.where(left > 0.0, np.logaddexp(drained, risen), math.inf)

    def late(self, t: Floats) -> Floats:
        """What is left of the start, and what has come since; inf before t₁."""
        known = np.isfinite(self.settled)
        begin = np.where(known, self.settled, 1.0)
        drained = np.maximum(0.0, t - begin) * np.log1p(-self.zeta * self.rho / 2.0)
        moment = np.logaddexp(drained + self.anytime(begin), self.risen(t))
        return np.where(known & (t >= begin), moment, math.inf)

    def risen(self, t: Floats) -> Floats:
        """log of (2/ζρ) e^{ζ(ν + φ_t)}."""
        level = (self.V_at(t) * (1.0 + self.price_bound) + self.B**2 / 2.0) / ((1.0 - self.eta) * self.delta)
        return np.asarray(np.log(2.0 / (self.zeta * self.rho)) + self.zeta * (self.nu + level))

    def V_at(self, t: Floats) -> Floats:
        return np.asarray(self.V.scale * t**self.V.exponent)


def _end(proof: _Proof, log_q: float, failed: float = 0.0) -> int | None:
    """Number of rounds after which e^{−ζ(b − failed)} E e^{ζL} stays at or below q.

    Once it is, it stays so: then φ_t < b_t, hence φ_t − b_t, which is V_t times a constant less b_t, falls from there on if b/V
    does not fall. So there is one crossing for each η.
    """
    if proof.K == 0:
        return 1
    if proof.buffer.exponent < proof.V.exponent:
        return None

    def over(moment: Callable[[Floats], Floats], t: Floats) -> NDArray[np.bool_]:
        return np.asarray(moment(t) - proof.zeta * (proof.buffer.low(t) - failed) <= log_q)

    found = _first(partial(over, proof.late), np.minimum(proof.settled, LAST))
    if proof.buffer.largest_step < proof.delta:
        found = np.minimum(found, _first(partial(over, proof.tight), np.ones_like(found)))
    t = float(found.min())
    return None if t == math.inf else max(1, int(t) - 1)


def _failed(proof: _Proof, T: int | None) -> float:
    """The most that a confidence set that fails adds to E S_k in T rounds: √K(T + b_{T+1})/T."""
    rounds = failure_horizon(T)
    if rounds == math.inf:
        return 0.0
    return float(math.sqrt(proof.K) * (rounds + proof.buffer.high(np.array(rounds + 1.0))) / rounds)


def _first(holds: Callable[[Floats], NDArray[np.bool_]], start: Floats) -> Floats:
    """For each entry the first round from `start` on at which it holds, and then goes on to hold; inf where none is found."""
    low, high = start - 1.0, start.copy()
    while True:
        open_ = ~holds(high)
        if not (open_ & (high < LAST)).any():
            break
        low = np.where(open_, high, low)
        high = np.where(open_, 2.0 * high, high)
    missing = open_
    while True:
        middle = np.floor((low + high) / 2.0)
        inside = (middle > low) & (middle < high) & ~missing
        if not inside.any():
            return np.where(missing, math.inf, high)
        good = holds(np.where(inside, middle, high))
        high = np.where(inside & good, middle, high)
        low = np.where(inside & ~good, middle, low)


# Buffers ------------------------------------------------------------------------------------------


class _Shape(Protocol):
    """What the proof needs of a buffer b that never falls."""

    # b grows like t^exponent, or faster by a logarithm, and b_t/t^x does not fall for any x up to it.
    exponent: float
    # From this round on `step` falls.
    concave_from: float
    # No step is above it; inf where b is no sum of steps.
    largest_step: float

    def low(self, t: Floats) -> Floats:
        """b_t, or a little less."""
        ...

    def high(self, t: Floats) -> Floats:
        """b_t, or a little more."""
        ...

    def step(self, t: Floats) -> Floats:
        """b_{t+1} − b_t, or a little more."""
        ...


def _buffer(b: Any) -> _Shape:
    if isinstance(b, Summed):
        return _CappedSum(b.epsilon) if isinstance(b.epsilon, Capped) else _Sum(b.epsilon)
    if isinstance(b, LogTimes):
        return _Product(b.factor * b.V.scale, b.V.exponent, logarithm=True)
    if isinstance(b, Power) and b.exponent >= 0:
        if b.exponent >= 1:
            raise InvalidInput(field="the exponent of b", must="be below 1", got=b)
        return _Product(b.scale, b.exponent, logarithm=False)
    must = "be a Power whose exponent lies in [0, 1), a Summed or a LogTimes"
    raise InvalidInput(field="b", must=must, got=b)


class _Product:
    """scale · t^x, or that times log(1 + t)."""

    largest_step = math.inf

    def __init__(self, scale: float, exponent: float, *, logarithm: bool) -> None:
        self.scale, self.exponent, self.logarithm = scale, exponent, logarithm
        # t^x log(1 + t) is concave once log(1 + t) ≥ 2/(1 − x); for x = ½ that is so from round 3 on.
        bends = math.exp(min(600.0, 2.0 / (1.0 - exponent)))
        self.concave_from = 1.0 if not logarithm else 3.0 if exponent == 0.5 else math.ceil(bends)

    def low(self, t: Floats) -> Floats:
        value = self.scale * t**self.exponent
        return np.asarray(value * np.log1p(t) if self.logarithm else value)

    high = low

    def step(self, t: Floats) -> Floats:
        """The difference, and the slope, which is above it, where the difference would be lost in rounding."""
        x, power = self.exponent, self.scale * t**self.exponent
        slope = x * power / t
        if self.logarithm:
            slope = slope * np.log1p(t) + power / (1.0 + t)
        return np.where(t < 1e6, self.low(t + 1.0) - self.low(t), slope)


class _Sum:
    """Σ_{s<t} ε_s: exact for `EXACT` terms, then between the trapezoids and the midpoints of a convex function."""

    EXACT = 4096

    def __init__(self, epsilon: Power) -> None:
        self.epsilon, self.exponent, self.concave_from = epsilon, 1.0 + epsilon.exponent, 1.0
        self.largest_step = epsilon.scale

    @cached_property
    def head(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.step(np.arange(1.0, self.EXACT + 1)))])

    def step(self, t: Floats) -> Floats:
        return np.asarray(self.epsilon.scale * t**self.epsilon.exponent)

    def low(self, t: Floats) -> Floats:
        n = float(self.EXACT)
        last = np.maximum(t - 1.0, n)
        tail = self.integral(n, last) + (self.step(last) - self.step(np.array(n))) / 2.0
        return self.sum(t, tail)

    def high(self, t: Floats) -> Floats:
        n = float(self.EXACT)
        return self.sum(t, self.integral(n + 0.5, np.maximum(t - 1.0, n) + 0.5))

    def sum(self, t: Floats, tail: Floats) -> Floats:
        terms = np.minimum(t - 1.0, float(self.EXACT)).astype(np.int64)
        return np.asarray(self.head[terms] + np.where(t - 1.0 > self.EXACT, tail, 0.0))

    def integral(self, lower: float, upper: Floats) -> Floats:
        power, scale = self.exponent, self.epsilon.scale
        if power == 0:
            return np.asarray(scale * np.log(upper / lower))
        return np.asarray(scale * (upper**power - lower**power) / power)


class _CappedSum:
    """Σ_{s<t} min(ε_s, most): a straight line up to the round where ε falls below `most`, then as `_Sum`."""

    def __init__(self, epsilon: Capped) -> None:
        self.epsilon, self.rest = epsilon, _Sum(epsilon.power)
        self.exponent, self.concave_from = self.rest.exponent, 1.0
        self.largest_step = min(epsilon.most, epsilon.power.scale)
        self.bends = min(first_at_most(epsilon.power, epsilon.most), LAST)

    def step(self, t: Floats) -> Floats:
        return np.minimum(self.epsilon.most, self.rest.step(t))

    def low(self, t: Floats) -> Floats:
        return self.sum(t, self.rest.low, self.rest.high)

    def high(self, t: Floats) -> Floats:
        return self.sum(t, self.rest.high, self.rest.low)

    def sum(self, t: Floats, upto: Callable[[Floats], Floats], before: Callable[[Floats], Floats]) -> Floats:
        beyond = np.maximum(t, self.bends)
        tail = np.maximum(0.0, upto(beyond) - before(np.array(self.bends)))
        line = self.epsilon.most * (np.minimum(t, self.bends) - 1.0)
        return np.asarray(line + np.where(t > self.bends, tail, 0.0))
