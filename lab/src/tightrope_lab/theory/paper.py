"""The promises of the paper's theorems, as numbers.

K constraints, `delta` Slater's constant, d features, T the horizon, `tau` a round (a number, or an array of them).
Plain names are for costs known before acting, V_t = δ K^0.25 sqrt(2t/3) and ε_t = K^0.75 sqrt(6/t). Names in `_linear`
are for costs learnt after acting, one constraint, V_t = δ d √t log(1+T)/4 and ε_t = 4 d log(1+T)/√t. Names in
`_schedule` take any V and ε, as a `Steering` whose buffer is `Summed(ε)`, and give nothing away that the proofs do not need to.

Where `form` is an argument, "printed" is the formula as published, "mended" what its own proof gives once the slips in
it are repaired. The regret bounds come out of the repair unchanged and have no `form`. Derivations: docs/bounds.md.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.schedules import (
    Capped,
    Power,
    Schedule,
    confidence_radius,
    known_costs,
    linear_costs,
    tau_prime,
    tau_prime_linear,
)
from tightrope.validation import finite_number, require_choice, whole_number
from tightrope_lab.theory.arguments import (
    Floats,
    Rounds,
    Tightening,
    constraints,
    failure_horizon,
    falling,
    first_at_most,
    like,
    round_numbers,
    slater_constant,
)
from tightrope_lab.theory.totals import Steering, Summed

Form = Literal["mended", "printed"]


# The reward model ---------------------------------------------------------------------------------


def radius(n: Rounds, d: int, T: int, m: float = 1.0, ridge: float = 1.0) -> Rounds:
    """√β, the radius of the confidence set: √λ·m + sqrt(2 log T + d log(1 + n/(dλ))), m a bound on ‖θ*‖ and λ the `ridge`.

    n rewards were learnt so far: t − 1 in round t when none is late.

    >>> radius(0, d=20, T=1)
    1.0
    >>> round(radius(0, d=20, T=100), 6) == round(1 + math.sqrt(2 * math.log(100)), 6)
    True
    """
    count = round_numbers("n", n, least=0)
    d, T, m, ridge = _reward_model(d, T, m, ridge)
    return like(n, _radius(count, d, T, m, ridge))


def elliptical_potential(n: Rounds, *, d: int, ridge: float = 1.0) -> Rounds:
    """Bound on Σ_{t≤n} min(1, ‖φ_t‖²_{Σ⁻¹}), whatever the features: 2 d log(1 + n/(dλ)).

    >>> round(elliptical_potential(2, d=2), 6) == round(4 * math.log(2), 6)
    True
    """
    count = round_numbers("n", n, least=0)
    d, _, _, ridge = _reward_model(d, 1, 1.0, ridge)
    return like(n, _potential(count, d, ridge))


def linucb_bound(
    tau: Rounds, *, d: int, T: int | None, m: float = 1.0, ridge: float = 1.0, clipped: bool = False
) -> Rounds:
    """Regret without constraints: 2 + sqrt(8 d τ β_τ log(1 + τ/(dλ))).

    The 2 is what the two mismatch terms of the proof lose when the confidence set fails: 1 + max(1, 1/√λ), for r̂ can then be
    below 0, by less where features count for less; 2 for any λ where r̂ is `clipped` at 0. Without a horizon (T = None, that is
    T := t in every radius) the set of round t fails with probability at most 1/t, and it becomes (1 + log τ) times as much.

    >>> round(linucb_bound(1, d=1, T=1, m=0) - math.sqrt(8) * math.log(2), 9)
    2.0
    >>> linucb_bound(1, d=1, T=9, ridge=0.25) - linucb_bound(1, d=1, T=9, ridge=0.25, clipped=True)
    1.0
    """
    t = round_numbers("tau", tau, horizon=T)
    d, _, m, ridge = _reward_model(d, 1, m, ridge)
    horizon = t if T is None else float(T)
    once = 1.0 + (1.0 if clipped else max(1.0, 1.0 / math.sqrt(ridge)))
    failure = once * (1 + np.log(t)) if T is None else once
    sqrt_beta = _radius(t, d, horizon, m, ridge)
    return like(tau, failure + 2 * sqrt_beta * np.sqrt(t * _potential(t, d, ridge)))


# Costs known before acting: Theorem 1 -------------------------------------------------------------


def regret_bound(
    tau: Rounds, *, K: int, delta: float, d: int, T: int | None, m: float = 1.0, ridge: float = 1.0
) -> Rounds:
    """Theorem 1, regret: 60 K³/δ³ + 4√6 K^0.75 √τ/δ + 2 + sqrt(8 d τ β_τ log(1 + τ/d)).

    With K = 0 it is `linucb_bound`, which also says what T = None means.

    >>> extra = regret_bound(6, K=1, delta=1, d=4, T=100) - linucb_bound(6, d=4, T=100)
    >>> round(extra, 6)                                      # 60 + 4·√6·√6
    84.0
    """
    K, delta = constraints(K, delta)
    t = round_numbers("tau", tau, horizon=T)
    rest = linucb_bound(t, d=d, T=T, m=m, ridge=ridge)
    return like(tau, 60 * K**3 / delta**3 + 4 * math.sqrt(6) * K**0.75 * np.sqrt(t) / delta + rest)


def violation_bound(tau: Rounds, *, K: int, delta: float, form: Form = "mended") -> Rounds:
    """Theorem 1, violation, summed over the constraints: K^1.5 (S − √τ)⁺, and 0 where K = 0.

    S = (48K²/δ) log(16K/δ) + 24K²/δ² + 30K²/δ + 8K; printed, log(16/δ), 24K^1.5 and 30K^1.5 in their places.
    For K ≥ 2 the printed one is below what its own proof gives, yet true: see `violation_bound_schedule`.

    >>> violation_bound(np.array([1, 36]), K=1, delta=1) - violation_bound(37**2, K=1, delta=1)
    array([36., 31.])
    """
    K, delta, t = _known(tau, K, delta, form)
    return like(tau, K**1.5 * np.maximum(0.0, _violation_offset(K, delta, form) - np.sqrt(t)))


def violation_ends(*, K: int, delta: float, form: Form = "mended") -> int:
    """First round from which `violation_bound` is zero.

    >>> ends = violation_ends(K=1, delta=0.5)
    >>> ends, violation_bound(ends, K=1, delta=0.5), violation_bound(ends - 1, K=1, delta=0.5) > 0
    (246722, 0.0, True)
    """
    K, delta = constraints(K, delta)
    return first_round(_violation_offset(K, delta, form))


def queue_bound(tau: Rounds, *, K: int, delta: float, form: Form = "mended") -> Rounds:
    """Lemma "Q bound": E‖Q(τ)‖₁, and so every E[Q^{(k)}(τ)], at most √K times the bound on E‖Q(τ)‖₂.

    From τ' on that is √K ((48K²/δ) log(16K/δ) + 2K + 4(V_τ + K(1 + ε_τ²))/δ + Q'), where
    Q' = √K Σ_{t<τ'} (1 + ε_t) bounds ‖Q(τ')‖₂ (printed: τ' + √K Σ_{t≤τ'} ε_t). Before τ' it is what the queues
    can reach at all, K Σ_{t<τ} (1 + ε_t).

    >>> queue_bound(1, K=3, delta=0.2)
    0.0
    >>> bool(queue_bound(24, K=1, delta=1) > 48 * math.log(16))
    True
    """
    K, delta, t = _known(tau, K, delta, form)
    if K == 0:
        return like(tau, np.zeros_like(t))
    V, epsilon = paper_schedules(delta, known_costs(K))
    early = K * _pushed(t - 1, epsilon)
    fixed = 48 * K**2 / delta * math.log(16 * K / delta) + 2 * K
    level = _level(K, delta, _at(V, t), _at(epsilon, t))
    late = math.sqrt(K) * (fixed + level + _queue_at_tau_prime(K, delta, form))
    return like(tau, np.where(t < tau_prime(K=K, delta=delta), early, late))


def tail_bound(tau: Rounds, *, K: int, delta: float, form: Form = "mended", T: int | None = None) -> Rounds:
    """Corollary 1: probability that, in round τ of one run, any constraint's running total is above zero.

    exp(−(ζ/3) sqrt(τ/K)), about exp(−δ√τ/(50 K^2.5)); printed, exp(−δ√τ/(50 K²)), which is true as well. It is 1
    before `tail_starts`. Without T it assumes r̂ ≥ 0; where r̂ is not clipped at 0, give T: 1/T is added, for a confidence set that
    fails.

    >>> tail_bound(10, K=1, delta=0.5), tail_bound(10**9, K=1, delta=0.5) < 1e-100
    (1.0, True)
    >>> tail_bound(10**9, K=1, delta=0.5, T=10**9)
    1e-09
    """
    K, delta, t = _known(tau, K, delta, form)
    if K == 0:
        return like(tau, np.zeros_like(t))
    if form == "printed":
        exponent = delta * np.sqrt(t) / (50 * K**2)
    else:
        exponent = drift_exponent(drift=delta / 4, jump=2 * K) / 3 * np.sqrt(t / K)
    held = np.where(t < tail_starts(K=K, delta=delta), 1.0, np.exp(-exponent))
    return like(tau, np.minimum(1.0, held + 1.0 / failure_horizon(T)))


def tail_bound_full(
    tau: Rounds, *, K: int, delta: float, form: Form = "mended", T: int | None = None
) -> Rounds:
    """The display (tail prob) behind Corollary 1 with all its constants: below `tail_bound`, and useful sooner.

    (11ν²/(3ρ²)) exp(ζ(ν + φ_{τ+1} + Q') − (ζ/√K) Σ_{t≤τ} ε_t) with ν = 2K, ρ = δ/4,
    φ_t = 4(V_t + K(1 + ε_t²))/δ and Q' as in `queue_bound`; never above 1, and 1 before τ'. `form` changes Q' only. T is as in
    `tail_bound`.

    >>> tail_bound_full(10**6, K=1, delta=0.5) < 1e-9 < tail_bound(10**6, K=1, delta=0.5)
    True
    """
    K, delta, t = _known(tau, K, delta, form)
    if K == 0:
        return like(tau, np.zeros_like(t))
    V, epsilon = paper_schedules(delta, known_costs(K))
    rho, nu = delta / 4, 2 * K
    zeta = drift_exponent(drift=rho, jump=nu)
    reach = nu + _level(K, delta, _at(V, t + 1), _at(epsilon, t + 1)) + _queue_at_tau_prime(K, delta, form)
    log_p = math.log(11 * nu**2 / (3 * rho**2)) + zeta * (reach - sum_from_below(t, epsilon) / math.sqrt(K))
    log_p = np.where(t + 1 < tau_prime(K=K, delta=delta), 0.0, np.minimum(log_p, 0.0))
    return like(tau, np.minimum(1.0, np.exp(log_p) + 1.0 / failure_horizon(T)))


def tail_starts(*, K: int, delta: float) -> int:
    """τ'', from which `tail_bound` says something: ((200K^2.5/δ) log(27K/δ) + 48K^1.5/δ + 288K^2.5/δ²)².

    >>> tail_starts(K=1, delta=1) == math.ceil((200 * math.log(27) + 48 + 288) ** 2)
    True
    """
    K, delta = constraints(K, delta)
    if K == 0:
        return 1
    root = 200 * K**2.5 / delta * math.log(27 * K / delta) + 48 * K**1.5 / delta + 288 * K**2.5 / delta**2
    return first_round(root)


# Costs learnt after acting: Theorem 2, one constraint ---------------------------------------------


def regret_bound_linear(tau: Rounds, *, delta: float, d: int, T: int) -> Rounds:
    """Theorem 2, regret: 235 d⁴ L⁴/δ³ + (8d + 24) √τ L/δ + 2 + 10 d √τ L, L = log(1 + T), m = 1.

    >>> L = math.log(2)
    >>> round(regret_bound_linear(1, delta=1, d=1, T=1) - (235 * L**4 + 42 * L + 2), 9)
    0.0
    """
    delta, d, T, L = linear_arguments(delta, d, T)
    root = np.sqrt(round_numbers("tau", tau, horizon=T))
    return like(tau, 235 * (d * L) ** 4 / delta**3 + (8 * d + 24) * root * L / delta + 2 + 10 * d * root * L)


def violation_bound_linear(tau: Rounds, *, delta: float, d: int, T: int, form: Form = "mended") -> Rounds:
    """Theorem 2, violation: (128 d²L²/δ² + (48/δ) log(16/δ) + 12/δ + 8dL − (2dL − x)√τ)⁺, L = log(1 + T).

    x = 0 as printed. The proof bounds sqrt(8 d β_T log(1 + T/d)) by 5dL, which holds for d ≥ 2 only; mended, x is
    what is missing at d = 1, always less than 2L.

    >>> printed = [violation_bound_linear(1, delta=0.5, d=d, T=100, form="printed") for d in (1, 2)]
    >>> mended = [violation_bound_linear(1, delta=0.5, d=d, T=100) for d in (1, 2)]
    >>> mended[0] > printed[0], mended[1] == printed[1]
    (True, True)
    """
    delta, d, T, L = linear_arguments(delta, d, T)
    t = round_numbers("tau", tau, horizon=T)
    rate, offset = _violation_linear(delta, d, T, L, form)
    return like(tau, rate * np.maximum(0.0, offset - np.sqrt(t)))


def violation_ends_linear(*, delta: float, d: int, T: int, form: Form = "mended") -> int:
    """Round from which `violation_bound_linear` is zero; beyond T it promises nothing within the horizon.

    >>> violation_ends_linear(delta=1, d=2, T=10_000) > 10_000
    True
    """
    delta, d, T, L = linear_arguments(delta, d, T)
    return first_round(_violation_linear(delta, d, T, L, form)[1])


def queue_bound_linear(tau: Rounds, *, delta: float, d: int, T: int) -> Rounds:
    """Lemma "Q bound" for linear costs, on E[Q(τ)].

    (48/δ) log(16/δ) + 2 + 4(V_τ + 2 + ε_τ + ε_τ²)/δ + Σ_{t<τ'} (1 + ε_t) from τ' on; before it, what the queue can
    reach at all, Σ_{t<τ} (1 + ε_t).

    >>> queue_bound_linear(1, delta=0.5, d=2, T=100)
    0.0
    """
    delta, d, T, _ = linear_arguments(delta, d, T)
    t = round_numbers("tau", tau, horizon=T)
    V, epsilon = paper_schedules(delta, linear_costs(1, d), T)
    start = tau_prime_linear(delta=delta, d=d, T=T)
    eps_t = _at(epsilon, t)
    late = 48 / delta * math.log(16 / delta) + 2 + 4 * (_at(V, t) + 2 + eps_t + eps_t**2) / delta
    late = late + _pushed(np.array(start - 1.0), epsilon)
    return like(tau, np.where(t < start, _pushed(t - 1, epsilon), late))


# The lemmas behind them, for any schedule ---------------------------------------------------------


def drift_exponent(*, drift: float, jump: float) -> float:
    """ζ = ρ/(ν² + νρ/3) of the drift lemma: a process that falls by ρ on average and moves by at most ν.

    >>> drift_exponent(drift=3, jump=3)                      # 3/(9 + 3)
    0.25
    """
    values = (("drift", drift), ("jump", jump))
    rho, nu = (finite_number(name, value, low=0.0, open_low=True) for name, value in values)
    if rho > nu:
        raise InvalidInput(f"`drift <= jump` must hold, but got (drift={drift!r}, jump={jump!r}).")
    return rho / (nu**2 + nu * rho / 3)


def drift_mean_bound(
    level: Rounds, *, drift: float, jump: float, start: float = 0.0, elapsed: Rounds | float = 0.0
) -> Rounds:
    """E[Φ] ≤ (1/ζ) log((1 − ζρ/2)^n e^{ζ·start} + (2/(ζρ)) e^{ζ(ν + level)}): the drift lemma and Jensen.

    Φ was at most `start` n = `elapsed` rounds ago, moves by at most ν = `jump` a round, and falls by ρ = `drift` on
    average whenever it is above its level, which may rise with the round but never fall. The paper states the lemma
    with n = 0 and proves it with n: what was there at the start drains away.

    >>> n = np.array([0, 4000, 8000])
    >>> drift_mean_bound(np.full(3, 100.0), drift=0.25, jump=1.0, start=1e3, elapsed=n).round()
    array([1000.,  493.,  116.])
    """
    zeta = drift_exponent(drift=drift, jump=jump)
    height = round_numbers("level", level, least=0)
    beginning = finite_number("start", start, low=0.0)
    drained = round_numbers("elapsed", elapsed, least=0) * math.log1p(-zeta * drift / 2)
    risen = math.log(2 / (zeta * drift)) + zeta * (jump + height)
    return like(level, np.logaddexp(zeta * beginning + drained, risen) / zeta)


def tightness_cost(tau: Rounds, *, delta: float, epsilon: Tightening) -> Rounds:
    """Lemma "ε gap": reward lost by tightening the constraints by ε_t, at most Σ_{t≤τ} ε_t/δ.

    The sum is bounded by its integral: at most 2√τ − 1 times the scale for an exponent of −1/2.

    >>> tightness_cost(100, delta=0.5, epsilon=Power(6.0, -0.5))     # 6·(2·10 − 1)/0.5
    228.0
    """
    delta = slater_constant(delta)
    t = round_numbers("tau", tau)
    return like(tau, sum_from_above(t, falling(epsilon)) / delta)


def queue_bound_schedule(tau: Rounds, steering: Steering, *, T: int | None = None) -> Rounds:
    """Bound on E‖Q(τ)‖₂, and so on every E[Q^{(k)}(τ)], for any V that never falls and ε that never rises.

    The proof of the lemma "Q bound" with nothing given away: moves of at most √K (1 + ε_{τ'}), the drift lemma with
    its drain, and never more than √K Σ_{t<τ} (1 + ε_t). √K times it bounds E‖Q(τ)‖₁. Without T it assumes 0 ≤ r̂ ≤ 1; where r̂
    is not clipped at 0, give T: √K Σ_{t<τ} (1 + ε_t)/T is added, for a confidence set that fails. ε may be `Capped` at δ/2: then
    τ' = 1, and there is no start to drain.

    >>> steering = Steering(K=1, delta=0.5, V=Power(1.0, 0.5), b=Summed(Power(6.0, -0.5)))
    >>> queue_bound_schedule(np.array([1, 600, 10**6]), steering).round()
    array([   0.,  855., 8079.])
    """
    K, delta, V, epsilon = _tightened(steering)
    t = round_numbers("tau", tau)
    if K == 0:
        return like(tau, np.zeros_like(t))
    reachable = math.sqrt(K) * _pushed(t - 1, epsilon)
    start = first_at_most(epsilon, delta / 2)
    if start == math.inf:
        return like(tau, reachable)
    eps = epsilon(start)
    drifted = drift_mean_bound(
        _level(K, delta, _at(V, t), np.array(eps)),
        drift=delta / 4,
        jump=math.sqrt(K) * (1 + eps),
        start=float(math.sqrt(K) * _pushed(np.array(start - 1.0), epsilon)),
        elapsed=np.maximum(0.0, t - start),
    )
    drifted = drifted + reachable / failure_horizon(T)
    return like(tau, np.where(t < start, reachable, np.minimum(reachable, drifted)))


def violation_bound_schedule(tau: Rounds, steering: Steering, *, T: int | None = None) -> Rounds:
    """Violation for any V and ε: Σ_k (E[Q^{(k)}(τ+1)] − Σ_{t≤τ} ε_t)⁺ by `queue_bound_schedule`, at most Kτ.

    Costs known before acting. With the paper's V and ε it lies below both forms of `violation_bound`. T is as there.

    >>> bandit = Steering(K=1, delta=0.5, V=Power(1.0, 0.5), b=Summed(Power(6.0, -0.5)))       # the paper's, threshold 0.5
    >>> violation_bound_schedule(np.array([10.0, 1e4, 1e5]), bandit).round()
    array([10.,  0.,  0.])
    """
    K, _, _, epsilon = _tightened(steering)
    t = round_numbers("tau", tau, horizon=T)
    Q = queue_bound_schedule(t + 1, steering, T=T)
    return like(tau, K * np.clip(Q - sum_from_below(t, epsilon), 0.0, t))


def violation_ends_schedule(steering: Steering, *, T: int | None = None) -> int | None:
    """Round from which `violation_bound_schedule` stays zero; None if never, as when 4 V_τ/δ outgrows Σ ε_t.

    With T, what a confidence set that fails adds is taken as large as it can be in T rounds, √K Σ_{t≤T} (1 + ε_t)/T; an end beyond
    T promises nothing within the horizon.

    >>> violation_ends_schedule(Steering(K=1, delta=0.5, V=Power(1.0, 0.5), b=Summed(Power(6.0, -0.5)))) < 10_000
    True
    >>> violation_ends_schedule(Steering(K=18, delta=0.00625, V=Power(4.0, 0.5), b=Summed(Power(1.0, -0.5)))) is None
    True
    """
    K, _, V, epsilon = _tightened(steering)
    power = epsilon.power if isinstance(epsilon, Capped) else epsilon
    failed = 0.0
    if T is not None:
        rounds = np.array(float(whole_number("T", T, low=1)))
        failed = float(math.sqrt(K) * _pushed(rounds, epsilon) / rounds)

    def over(tau: int) -> bool:
        Q = queue_bound_schedule(tau + 1.0, steering)
        return bool(K == 0 or Q + failed <= sum_from_below(np.array(float(tau)), epsilon))

    # With p ≤ 1 + q, const + a·t^p − c·t^(1+q) starts above zero and crosses it once; with p > 1 + q it comes back.
    if K > 0 and V.exponent > 1 + power.exponent:
        return None
    high = 1
    while not over(high):
        high *= 2
        if high > 2**300:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if over(middle) else (middle, high)
    return high


# Pieces of the proofs -----------------------------------------------------------------------------


_radius = np.vectorize(confidence_radius, otypes=[np.float64])


def _potential(n: Floats, d: int, ridge: float) -> Floats:
    return np.asarray(2 * d * np.log(1.0 + n / (d * ridge)))


def paper_schedules(delta: float, schedules: tuple[Schedule, Schedule], T: int = 1) -> tuple[Power, Power]:
    """The paper's V, which is given over δ, and ε, as powers of t at the horizon T."""
    scales = [c * one.scale * math.log1p(T) ** one.log_power for c, one in zip((delta, 1.0), schedules)]
    return Power(scales[0], schedules[0].exponent), Power(scales[1], schedules[1].exponent)


def _level(K: int, delta: float, V_t: Floats, eps_t: Floats) -> Floats:
    """φ_t, above which ‖Q‖₂ falls by δ/4 a round on average."""
    return np.asarray(4 * (V_t + K * (1 + eps_t**2)) / delta)


def _queue_at_tau_prime(K: int, delta: float, form: Form) -> float:
    """Q', the bound on ‖Q(τ')‖₂: τ' − 1 rounds from zero, K coordinates, so √K on both terms."""
    _, epsilon = paper_schedules(delta, known_costs(K))
    rounds = np.array(float(tau_prime(K=K, delta=delta)))
    if form == "printed":
        return float(rounds + math.sqrt(K) * sum_from_above(rounds, epsilon))
    return float(math.sqrt(K) * _pushed(rounds - 1, epsilon))


def _violation_offset(K: int, delta: float, form: Form) -> float:
    _check_form(form)
    if K == 0:
        return 0.0
    printed = form == "printed"
    log_term = 48 * K**2 / delta * math.log((16 if printed else 16 * K) / delta)
    power = K**1.5 if printed else K**2
    return log_term + 24 * power / delta**2 + 30 * power / delta + 8 * K


def _violation_linear(delta: float, d: int, T: int, L: float, form: Form) -> tuple[float, float]:
    """(rate, offset) of the bound written as rate · (offset − √τ)⁺."""
    _check_form(form)
    rate = 2 * d * L
    if form == "mended":
        rate -= learning_beyond_five(d, T, L)
    fixed = 128 * (d * L / delta) ** 2 + 48 / delta * math.log(16 / delta) + 12 / delta + 8 * d * L
    return rate, fixed / rate


def learning_beyond_five(d: int, T: int, L: float) -> float:
    """x = (sqrt(8 d β_T log(1 + T/d)) − 5dL)⁺: what the proof of Theorem 2 overlooks at d = 1."""
    end = np.array(float(T))
    learning = float(2 * _radius(end, d, T, 1.0, 1.0) * np.sqrt(_potential(end, d, 1.0)))
    return max(0.0, learning - 5 * d * L)


def _at(schedule: Power, t: Floats) -> Floats:
    return np.asarray(schedule.scale * t**schedule.exponent)


def _pushed(n: Floats, epsilon: Tightening) -> Floats:
    """Σ_{t≤n} (1 + ε_t), the most that n rounds can add to one queue."""
    return np.asarray(n + sum_from_above(n, epsilon))


def sum_from_above(n: Floats, epsilon: Tightening) -> Floats:
    """Σ_{t≤n} ε_t from above, ε falling: ε_1 + ∫₁ⁿ ε."""
    return np.where(n < 1, 0.0, epsilon(1) + _integral(np.maximum(n, 1.0), epsilon))


def sum_from_below(n: Floats, epsilon: Tightening) -> Floats:
    """Σ_{t≤n} ε_t from below, ε falling: ∫₁ⁿ⁺¹ ε."""
    return _integral(n + 1, epsilon)


def _integral(upper: Floats, epsilon: Tightening) -> Floats:
    """∫₁^upper ε_t dt."""
    if isinstance(epsilon, Capped):
        return _capped_integral(upper, epsilon.power, epsilon.most)
    power = epsilon.exponent + 1
    return np.asarray(epsilon.scale * (np.log(upper) if power == 0 else (upper**power - 1) / power))


def _capped_integral(upper: Floats, power: Power, most: float) -> Floats:
    """∫₁^upper min(power, most): flat up to where they meet."""
    if power.scale <= most:
        return _integral(upper, power)
    if power.exponent == 0 or most == 0:
        return np.asarray(most * (upper - 1))
    meet = (most / power.scale) ** (1 / power.exponent)
    tail = _integral(np.maximum(upper, meet), power) - _integral(np.array(meet), power)
    return np.asarray(most * (np.minimum(upper, meet) - 1) + tail)


def first_round(root: float) -> int:
    """First round τ ≥ 1 with √τ ≥ root, in floating point too."""
    square = root * root
    while math.sqrt(square) < root:
        square = math.nextafter(square, math.inf)
    return max(1, math.ceil(square))


# Arguments ----------------------------------------------------------------------------------------


def _tightened(steering: Steering) -> tuple[int, float, Power, Tightening]:
    """K, δ, V and ε, where the buffer is what tightening the constraints by ε builds up."""
    if not isinstance(steering.b, Summed):
        raise InvalidInput(field="b", must="be a Summed", got=steering.b)
    return *constraints(steering.K, steering.delta), steering.V, steering.b.epsilon


def _known(tau: Any, K: Any, delta: Any, form: str) -> tuple[int, float, Floats]:
    _check_form(form)
    return *constraints(K, delta), round_numbers("tau", tau)


def linear_arguments(delta: Any, d: Any, T: Any) -> tuple[float, int, int, float]:
    """δ, d, T, and L = log(1 + T)."""
    horizon = whole_number("T", T, low=1)
    return slater_constant(delta), whole_number("d", d, low=1), horizon, math.log1p(horizon)


def _reward_model(d: Any, T: Any, m: Any, ridge: Any) -> tuple[int, int, float, float]:
    return (
        whole_number("d", d, low=1),
        whole_number("T", T, low=1),
        finite_number("m", m, low=0.0),
        finite_number("ridge", ridge, low=0.0, open_low=True),
    )


def _check_form(form: str) -> None:
    require_choice("form", form, get_args(Form))
