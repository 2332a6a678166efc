"""Rivals that share a learner, as compiled loops: a plain Lagrangian, a guard, and the prototype's recipe.

They learn by ridge regression in the data's own units and choose by posterior sampling, and differ only in how they keep the rules, which
is what is compared. They play on the draws of `tightrope.simulate`, run by run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from tightrope.engine.cpu import policy_seed
from tightrope.engine.replication import EnvironmentDraws, environment_draws
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.validation import Array
from tightrope_lab.evidence.outcome import Outcome

Ids: TypeAlias = NDArray[np.int64]
Kind: TypeAlias = Literal["lagrangian", "guard", "prototype"]

LAGRANGIAN, GUARD, PROTOTYPE = range(3)

# The prototype's numbers.
CAUTION, MEMORY, GAIN = 3.0, 2048, 2.0
CAP = 20.0  # of a price, in units of ρ/m
SOFTEST, HARDEST, COOLING = 0.3, 0.003, 0.3  # temperatures of the smoothed dual, in units of ρ
TINY = 1e-300


@dataclass(frozen=True)
class Rival:
    """One of the three.

    lagrangian
        Prices that climb by what is spent, λ ← [λ + step·(w + margin/√t)]⁺, with costs in units of their declared range: the plain code
        that everybody writes first. Step and margin have to be found.
    guard
        Only actions that leave every total at or below zero; where there is none, the least excess.
    prototype
        The first form of `ShadowPrice` that was written down: prices from the dual of the allocation program on remembered rounds, with a
        reward and costs drawn for every one of them; corrected by the totals with V = 2·moved·m/ρ and b = 3·noise·√(ρV).

    Costs that are seen after acting are estimated by the same regression: at their mean by the first two, drawn by the third.

    >>> from tightrope.environments import hospital
    >>> outcome = play(Rival("lagrangian", step=0.1), hospital(), rounds=200, replications=2)
    >>> outcome.reward.shape, outcome.path.shape
    ((2, 1), (2,))
    """

    kind: Kind
    step: float = 0.03
    margin: float = 1.0
    memory: int = MEMORY

    @property
    def name(self) -> str:
        """For tables."""
        return "thompson + guard" if self.kind == "guard" else self.kind


def play(
    rival: Rival,
    env: Tabular,
    rounds: int,
    replications: int,
    seed: int = 0,
    *,
    record: tuple[int, ...] = (),
    draws: dict[int, EnvironmentDraws] | None = None,
) -> Outcome:
    """Run a rival on the draws of `tightrope.simulate(…, seed=seed)`; `draws` keeps them for the next one on the same environment."""
    kept: dict[int, EnvironmentDraws] = {} if draws is None else draws
    grid = np.unique(np.array([*(r for r in record if r <= rounds), rounds], dtype=np.int64))
    reward = np.zeros((replications, grid.size))
    end = np.zeros((replications, env.n_constraints))
    watched = np.zeros((replications, 3))
    for i in range(replications):
        if i not in kept:
            kept[i] = environment_draws(env, seed, i, rounds)
        generator = np.random.default_rng(policy_seed(seed, i))
        reward[i], end[i], watched[i], _ = run_once(rival, env, kept[i], generator, grid)
    path, last, above = watched.T
    return Outcome(rival.name, env.name, grid, reward, end, path, last, above)


def run_once(
    rival: Rival, env: Tabular, draws: EnvironmentDraws, generator: np.random.Generator, grid: Ids
) -> tuple[Array, Array, Array, Ids]:
    """Reward earned by the rounds of `grid`, the totals at the end, (path, last, above) as in `Outcome`, and the choices."""
    if env.features is None or env.reward_noise != "bernoulli" or env.cost_features is not env.features:
        raise InvalidInput(f"rivals play where there are features and Bernoulli rewards, but got {env!r}.")
    rounds, K = int(grid[-1]), env.n_constraints
    phi = env.features if env.features.ndim == 3 else env.features[:, None, :]
    c = draws.contexts[0]
    first = phi[c] if env.disjoint else phi[c][env.available[c]]
    # The prior of a prediction is as wide as the noise in any unit; without a constant a row of zeros would be worth the mean.
    size = max(float((first**2).sum(axis=1).mean()), 1e-12)
    rows = np.concatenate([phi, np.full((*phi.shape[:2], 1), math.sqrt(size))], axis=2)
    # The prototype has units of its own.
    unit = np.ones(K) if rival.kind == "prototype" else np.abs(env.cost_range).max(axis=1)
    units = np.abs(env.cost_range).max(axis=1)
    half = (env.cost_range[:, 1] - env.cost_range[:, 0]) / 2
    reward, totals, watched = np.zeros(grid.size), np.zeros(K), np.zeros(3)
    choices = np.zeros(rounds, dtype=np.int64)
    drawn = env.costs if draws.costs is None else draws.costs
    _run(
        {"lagrangian": LAGRANGIAN, "guard": GUARD, "prototype": PROTOTYPE}[rival.kind],
        (rival.step, rival.margin, rival.memory),
        np.ascontiguousarray(rows),
        size,
        np.ascontiguousarray(env.available),
        np.ascontiguousarray(env.rewards),
        np.ascontiguousarray(env.costs / unit),
        np.ascontiguousarray(drawn / unit),
        draws.costs is not None,
        env.costs_seen == "before",
        half,
        units / unit,
        draws.contexts,
        draws.uniforms,
        generator,
        grid,
        reward,
        totals,
        watched,
        choices,
    )
    return reward, totals * unit, watched, choices


def dual_prices(r: Array, w: Array, start: Array, cap: Array, rho: float, m: Array) -> Array:
    """Prices p in [0, cap] that minimise mean_i max_j (r_ij − p·w_ij); r (n, J) is −inf where an action is not on offer, w (n, J, K).

    The max is smoothed, with a temperature that falls from 0.3 ρ to 0.003 ρ; projected Newton, with a diagonal step where Newton's fails at
    the bounds.

    >>> r, w = np.array([[0.0, 1.0]]), np.array([[[-1.0], [1.0]]])
    >>> dual_prices(r, w, np.zeros(1), np.array([20.0]), 1.0, np.ones(1)).round(2).tolist()
    [0.5]
    """
    return np.asarray(_dual_prices(r, w, start, cap, rho, m))


# ----------------------------------------------------------------------------------------------------------- compiled

_compiled: Any = numba.njit(cache=True)


def _predict_(rows, shared, ids, n, inverse, theta, ones, centre, means, widths):  # type: ignore[no-untyped-def]
    """Means (n, M) and ‖x‖ in the norm of the inverse (n,) of the first n actions of ids."""
    q, M = rows.shape[1], means.shape[1]
    across = np.empty(q)
    for j in range(n):
        x, g = (rows[ids[j]], 0) if shared else (rows[0], ids[j])
        # By rows of the inverse, which is symmetric: so the sums run in vector lanes, in one order.
        across[:] = 0.0
        for i in range(q):
            for k in range(q):
                across[k] += inverse[g, i, k] * x[i]
        square, one = 0.0, 0.0
        for i in range(q):
            square += x[i] * across[i]
            one += x[i] * ones[g, i]
        widths[j] = math.sqrt(max(square, 0.0))
        for m in range(M):
            plain = 0.0
            for i in range(q):
                plain += x[i] * theta[g, i, m]
            means[j, m] = centre[m] + plain - one * centre[m]


def _learn_(x, y, inverse, theta, ones, moments, seen, centred):  # type: ignore[no-untyped-def]
    """Outputs y (M,) at x; moments are their running means, spreads and squared residuals."""
    q, M = x.shape[0], y.shape[0]
    u = np.zeros(q)
    scale, one = 1.0, 0.0
    for i in range(q):
        for k in range(q):
            u[k] += inverse[i, k] * x[i]
    for i in range(q):
        scale += x[i] * u[i]
        one += x[i] * ones[i]
    for m in range(M):
        plain, centre = 0.0, moments[0, m] if centred else 0.0
        for i in range(q):
            plain += x[i] * theta[i, m]
        if seen > 0 or not centred:
            moments[2, m] += (y[m] - centre - plain + centre * one) ** 2 / scale
        for i in range(q):
            theta[i, m] += u[i] * (y[m] - plain) / scale
    for i in range(q):
        ones[i] += u[i] * (1.0 - one) / scale
        for k in range(q):
            inverse[i, k] -= u[i] * u[k] / scale
    for m in range(M):
        gap = y[m] - moments[0, m]
        moments[0, m] += gap / (seen + 1.0)
        moments[1, m] += gap * (y[m] - moments[0, m])


def _smoothed_(r, w, p, tau, shares):  # type: ignore[no-untyped-def]
    """The smoothed dual at p, and how likely each action is the best one."""
    n, J, K = w.shape
    total = 0.0
    for i in range(n):
        top = -np.inf
        for j in range(J):
            value = r[i, j]
            for k in range(K):
                value -= p[k] * w[i, j, k]
            shares[i, j] = value
            top = max(top, value)
        z = 0.0
        for j in range(J):
            shares[i, j] = math.exp((shares[i, j] - top) / tau)
            z += shares[i, j]
        for j in range(J):
            shares[i, j] /= z
        total += top + tau * math.log(z)
    return total / n


def _curvature_(w, shares, free, tau):  # type: ignore[no-untyped-def]
    """The Hessian of the smoothed dual in the prices that are free."""
    n, J, _ = w.shape
    f = free.shape[0]
    H = np.zeros((f, f))
    mean = np.empty(f)
    for i in range(n):
        mean[:] = 0.0
        for j in range(J):
            share = shares[i, j]
            if share == 0.0:
                continue
            for a in range(f):
                one = share * w[i, j, free[a]]
                mean[a] += one
                for b in range(a + 1):
                    H[a, b] += one * w[i, j, free[b]]
        for a in range(f):
            for b in range(a + 1):
                H[a, b] -= mean[a] * mean[b]
    for a in range(f):
        for b in range(a + 1):
            H[a, b] /= n * tau
            H[b, a] = H[a, b]
    return H


def _dual_prices_(r, w, start, cap, rho, m):  # type: ignore[no-untyped-def]
    n, J, K = w.shape
    p = np.minimum(np.maximum(start, 0.0), cap)
    shares, tried = np.empty((n, J)), np.empty((n, J))
    g, q = np.empty(K), np.empty(K)
    near, free = np.empty(K, dtype=np.bool_), np.empty(K, dtype=np.bool_)
    tau, end = SOFTEST * rho, HARDEST * rho
    while True:
        value = _smoothed(r, w, p, tau, shares)
        for _ in range(12):
            g[:] = 0.0
            for i in range(n):
                for j in range(J):
                    for k in range(K):
                        g[k] -= shares[i, j] * w[i, j, k]
            steepest = 0.0
            for k in range(K):
                g[k] /= n
                held = (p[k] <= 0 and g[k] >= 0) or (p[k] >= cap[k] and g[k] <= 0)
                near[k] = not held and p[k] < 1e-3 * rho / m[k] and g[k] > 0
                free[k] = not held and not near[k]
                if free[k]:
                    steepest = max(steepest, abs(g[k]) / m[k])
            F = np.flatnonzero(free)
            if F.shape[0] == 0 or steepest < 1e-4:
                break
            H = _curvature(w, shares, F, tau)
            for a in range(F.shape[0]):
                H[a, a] += 1e-3 * m[F[a]] ** 2 / rho
            newton = np.linalg.solve(H, -g[F])
            moved, gain = False, 0.0
            for kind in range(2):
                half = 1.0
                for _ in range(8):
                    expected = 0.0
                    for k in range(K):
                        q[k] = p[k] * (1.0 - half) if near[k] else p[k]
                    for a in range(F.shape[0]):
                        k = F[a]
                        step = newton[a] if kind == 0 else -g[k] / np.abs(H[a]).sum()
                        q[k] = min(max(p[k] + half * step, 0.0), cap[k])
                    for k in range(K):
                        expected += g[k] * (q[k] - p[k])
                    new = _smoothed(r, w, q, tau, tried)
                    if expected < 0 and new <= value + 1e-4 * expected:
                        moved, gain = True, value - new
                        break
                    half *= 0.35
                if moved:
                    break
            if not moved:
                break
            p[:] = q
            shares[:] = tried
            value = new
            if gain < 1e-6 * rho:
                break
        if tau <= end:
            return p
        tau = max(COOLING * tau, end)


def _noise_(moments, m, seen, prior):  # type: ignore[no-untyped-def]
    """Standard deviation of the noise of output m: the residuals', with the raw spread, or `prior` where it is positive, as one more."""
    if prior > 0:
        return math.sqrt((prior * prior + moments[2, m]) / (1.0 + seen))
    if seen == 0:
        return 1.0
    found = math.sqrt((moments[1, m] / seen + moments[2, m]) / seen)
    return found if found > 0 else 1.0


def _run_(  # type: ignore[no-untyped-def]
    kind, settings, rows, size, available, rewards, known, drawn, by_round, before, half, units, contexts, uniforms, rng, grid,
    earned, totals, watched, choices,
):  # fmt: skip
    """One run: `known` are mean costs (C, J, K), `drawn` those of each round (T, J, K) where `by_round`, else as known."""
    step, margin, memory = settings
    _, J, K = known.shape
    q = rows.shape[2]
    shared = rows.shape[1] > 1
    blocks = 1 if shared else J
    inverse = np.zeros((blocks, q, q))
    cost_inverse = np.zeros((blocks, q, q))
    for g in range(blocks):
        for i in range(q):
            inverse[g, i, i] = cost_inverse[g, i, i] = 1.0 / (2.0 * size)
    theta, ones, moments = np.zeros((blocks, q, 1)), np.zeros((blocks, q)), np.zeros((3, 1))
    cost_theta, cost_ones, cost_moments = np.zeros((blocks, q, K)), np.zeros((blocks, q)), np.zeros((3, K))
    nothing = np.zeros(K)
    means, widths, cost_means, cost_widths = np.empty((J, 1)), np.empty(J), np.empty((J, K)), np.empty(J)
    W, omega, ids = np.zeros((J, K)), np.zeros((J, K)), np.zeros(J, dtype=np.int64)
    price, shadow, infeasible = np.zeros(K), np.zeros(K), np.zeros(K, dtype=np.bool_)
    moved, sizes, squares, m = np.zeros(K), np.zeros(K), np.zeros(K), half.copy()
    rho, following, remembered = 1.0, 1, 0
    slots = np.zeros(memory, dtype=np.int64)
    y = np.zeros(1)
    at, reward = 0, 0.0
    for t in range(1, contexts.shape[0] + 1):
        c = contexts[t - 1]
        n = 0
        for j in range(J):
            if available[c, j]:
                ids[n] = j
                n += 1
        seen = t - 1.0
        _predict(rows[c], shared, ids, n, inverse, theta, ones, moments[0], means, widths)
        sigma = _noise(moments, 0, seen, 0.0)
        if before:
            for j in range(n):
                W[j] = known[c, ids[j]]
        else:
            _predict(
                rows[c], shared, ids, n, cost_inverse, cost_theta, cost_ones, nothing, cost_means, cost_widths
            )
            for j in range(n):
                for k in range(K):
                    W[j, k] = cost_means[j, k]
                    if kind == PROTOTYPE:
                        omega[j, k] = _noise(cost_moments, k, seen, half[k]) * cost_widths[j]
        if kind == PROTOTYPE:
            for k in range(K):
                square, mean_size = 0.0, 0.0
                for j in range(n):
                    one = W[j, k] ** 2 + omega[j, k] ** 2
                    square += one
                    mean_size += math.sqrt(one)
                squares[k] += square / n
                sizes[k] += mean_size / n
                if before:
                    moved[k] += square / n
            if t >= following and remembered > 0:
                # A reward and costs are drawn for every remembered round, before this one is remembered.
                r, w = np.full((remembered, J), -np.inf), np.zeros((remembered, J, K))
                on = np.zeros(J, dtype=np.int64)
                normals = rng.normal(0.0, 1.0, (remembered, J))
                cost_normals = rng.normal(0.0, 1.0, (remembered, J, K))
                spread = 0.0
                for i in range(remembered):
                    o = slots[i]
                    count = 0
                    for j in range(J):
                        if available[o, j]:
                            on[count] = j
                            count += 1
                    _predict(rows[o], shared, on, count, inverse, theta, ones, moments[0], means, widths)
                    if not before:
                        _predict(
                            rows[o],
                            shared,
                            on,
                            count,
                            cost_inverse,
                            cost_theta,
                            cost_ones,
                            nothing,
                            cost_means,
                            cost_widths,
                        )
                    low, high = np.inf, -np.inf
                    for j in range(count):
                        a = on[j]
                        r[i, a] = means[j, 0] + sigma * widths[j] * normals[i, a]
                        low, high = min(low, r[i, a]), max(high, r[i, a])
                        for k in range(K):
                            w[i, a, k] = known[o, a, k]
                            if not before:
                                deviation = _noise(cost_moments, k, seen, half[k]) * cost_widths[j]
                                w[i, a, k] = cost_means[j, k] + deviation * cost_normals[i, a, k]
                    spread += high - low
                rho = max(spread / remembered, 1e-9)
                for k in range(K):
                    m[k] = squares[k] / sizes[k] if sizes[k] > 0 else half[k]
                cap = CAP * rho / m
                shadow = _dual_prices(r, w, shadow, cap, rho, m)
                first, second = np.zeros(K), np.zeros(K)
                for i in range(remembered):
                    best, top = 0, -np.inf
                    for j in range(J):
                        value = r[i, j]
                        for k in range(K):
                            value -= shadow[k] * w[i, j, k]
                        if value > top:
                            best, top = j, value
                    first += w[i, best]
                    second += w[i, best] ** 2
                for k in range(K):
                    mean = first[k] / remembered
                    error = math.sqrt(max(0.0, second[k] / remembered - mean * mean) / remembered)
                    infeasible[k] = shadow[k] >= 0.999 * cap[k] and remembered >= 8 and mean > 2 * error
                following = max(t + 1, 2 * t)
                # What the solve has overwritten.
                _predict(rows[c], shared, ids, n, inverse, theta, ones, moments[0], means, widths)
            if remembered < memory:
                slots[remembered] = c
                remembered += 1
            elif rng.random() < 2 * memory / t:  # so old rounds fade
                slots[rng.integers(0, memory)] = c
            for k in range(K):
                path = math.sqrt(max(moved[k], squares[k], TINY))
                noise = math.sqrt(max(1.0, moved[k] / max(squares[k], TINY)))
                V = GAIN * path * m[k] / rho
                feedback = (totals[k] + CAUTION * noise * math.sqrt(V * rho)) / V
                price[k] = max(0.0, shadow[k] + (min(feedback, 0.0) if infeasible[k] else feedback))
        least = np.inf
        if kind == GUARD:
            for j in range(n):
                least = min(least, np.maximum(totals + W[j], 0.0).sum())
        row, top = 0, -np.inf
        for j in range(n):
            value, variance = means[j, 0], (sigma * widths[j]) ** 2
            for k in range(K):
                value -= price[k] * W[j, k]
                variance += (price[k] * omega[j, k]) ** 2
            value += math.sqrt(variance) * rng.normal()
            if kind == GUARD and np.maximum(totals + W[j], 0.0).sum() > least + 1e-12:
                continue
            if value > top:
                row, top = j, value
        a = ids[row]
        choices[t - 1] = a
        reward += rewards[c, a]
        spent = drawn[t - 1, a] if by_round else known[c, a]
        g = 0 if shared else a
        x = rows[c, a if shared else 0]
        y[0] = 1.0 if uniforms[t - 1] < rewards[c, a] else 0.0
        _learn(x, y, inverse[g], theta[g], ones[g], moments, seen, True)
        if not before:
            _learn(x, spent, cost_inverse[g], cost_theta[g], cost_ones[g], cost_moments, seen, False)
            moved += spent**2
        excess = 0.0
        for k in range(K):
            totals[k] += spent[k]
            if kind == LAGRANGIAN:
                price[k] = max(0.0, price[k] + step * (spent[k] + margin / math.sqrt(t)))
            if totals[k] > 1e-9 * units[k]:
                excess += totals[k] / units[k]
        watched[0] = max(watched[0], excess)
        if excess > 0:
            watched[1] = t
            watched[2] += 1
        if t == grid[at]:
            earned[at] = reward
            at += 1


_predict, _learn, _smoothed = _compiled(_predict_), _compiled(_learn_), _compiled(_smoothed_)
_curvature, _noise = _compiled(_curvature_), _compiled(_noise_)
_dual_prices = _compiled(_dual_prices_)
_run = _compiled(_run_)
