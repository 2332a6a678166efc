"""The prototype's recipe, the first form of `ShadowPrice` that was written down: what the default has to do no worse than.

Prices from the dual of the allocation program on remembered rounds, with a reward and costs drawn for every remembered round; corrected
by the running totals with V = 2·moved·m/ρ and b = 3·noise·√(ρV); posterior sampling of rewards and of unknown costs. No wall, no integral
action, ρ from the drawn rewards. Its random numbers come in the order in which the program that was compared against draws them.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike

from tightrope.environments.tabular import Tabular
from tightrope.studies.shadow_price.learner import Ids, Learner
from tightrope.validation import Array

EXPLORE, CAUTION, MEMORY, GAIN = 1.0, 3.0, 2048, 2.0
CAP = 20.0  # of a price, in units of ρ/m
SOFTEST, HARDEST, COOLING = 0.3, 0.003, 0.3  # temperatures of the smoothed dual, in units of ρ
TINY = 1e-300


class Prototype:
    """The recipe on a tabular environment, for `tightrope.simulate`; costs all seen before or all seen after acting.

    >>> from tightrope.environments import hospital
    >>> policy = Prototype(hospital())
    >>> for t in range(10):
    ...     action = policy.decide(policy.env.features[t], policy.env.costs[t])
    ...     policy.learn(action, 1.0)
    >>> policy.rounds, policy.solves
    (10, 3)
    """

    def __init__(self, env: Tabular, *, seed: int = 0) -> None:
        self.env, self.seed = env, seed
        self.n_actions, self.n_constraints = env.n_actions, env.n_constraints
        K = self.n_constraints
        self.half = (env.cost_range[:, 1] - env.cost_range[:, 0]) / 2
        self.random = np.random.default_rng(seed)
        self.rewards = Learner(self.n_actions)
        self.costs = None if env.costs_seen == "before" else Learner(self.n_actions, K, centred=False)
        self.memory: list[tuple[Array, Array, Ids]] = []
        self.rounds, self.next, self.solves = 0, 1, 0
        self.totals, self.moved = np.zeros(K), np.zeros(K)  # S and G
        self.sizes, self.squares = np.zeros(K), np.zeros(K)  # A1 and A2
        self.m, self.rho = self.half.copy(), 1.0
        self.price, self.infeasible = np.zeros(K), np.zeros(K, dtype=bool)
        self._all = np.arange(self.n_actions)
        self._chosen: Array | None = None

    def copy(self, seed: int) -> Prototype:
        """A twin that has seen nothing yet, with draws of its own."""
        return type(self)(self.env, seed=seed)

    def decide(self, features: Array, costs: Array, actions: Any = None) -> int:
        """An action; `costs` are those of the actions on offer, or nothing of use where they are seen after acting."""
        ids: Ids = self._all if actions is None else np.asarray(actions)
        self.rounds += 1
        means, deviations = self.rewards.predict(features, ids)
        if self.costs is None:
            W, omega = np.asarray(costs, dtype=np.float64), np.zeros((ids.size, self.n_constraints))
        else:
            W, omega = self.costs.predict(features, ids, self.half)
        squares = W**2 + omega**2
        self.squares += squares.mean(axis=0)
        self.sizes += np.sqrt(squares).mean(axis=0)
        if self.costs is None:
            self.moved += squares.mean(axis=0)
        if self.rounds >= self.next and self.memory:
            self._solve()
        self._remember(features, W, ids)
        price = self._prices()
        values = means[:, 0] - W @ price
        spread = np.sqrt((EXPLORE * deviations[:, 0]) ** 2 + EXPLORE**2 * (omega**2) @ price**2)
        row = int(np.argmax(values + spread * self.random.normal(size=ids.size)))
        if self.costs is None:
            self.totals += W[row]
        self._chosen = features if features.ndim == 1 else features[row]
        return int(ids[row])

    def learn(self, action: int, reward: float, costs: ArrayLike | None = None) -> None:
        """What the last decision brought."""
        assert self._chosen is not None
        self.rewards.learn(self._chosen, action, np.array([reward]))
        if self.costs is not None:
            drawn = np.asarray(costs, dtype=np.float64)
            self.totals += drawn
            self.moved += drawn**2
            self.costs.learn(self._chosen, action, drawn)

    def _prices(self) -> Array:
        moved = np.sqrt(np.maximum(np.maximum(self.moved, self.squares), TINY))
        noise = np.sqrt(np.maximum(1.0, self.moved / np.maximum(self.squares, TINY)))
        V = GAIN * moved * self.m / self.rho
        b = CAUTION * noise * np.sqrt(V * self.rho)
        feedback = (self.totals + b) / V
        feedback = np.where(self.infeasible, np.minimum(feedback, 0.0), feedback)
        return np.maximum(0.0, self.price + feedback)

    def _remember(self, features: Array, W: Array, ids: Ids) -> None:
        if len(self.memory) < MEMORY:
            self.memory.append((features, W, ids))
        elif self.random.random() < 2 * MEMORY / self.rounds:  # so old rounds fade
            self.memory[self.random.integers(MEMORY)] = (features, W, ids)

    def _solve(self) -> None:
        n, J, K = len(self.memory), self.n_actions, self.n_constraints
        means, deviations = np.zeros((n, J)), np.zeros((n, J))
        W, omega = np.zeros((n, J, K)), np.zeros((n, J, K))
        offered = np.zeros((n, J), dtype=bool)
        for i, (features, known, ids) in enumerate(self.memory):
            offered[i, ids] = True
            mean, deviation = self.rewards.predict(features, ids)
            means[i, ids], deviations[i, ids] = mean[:, 0], deviation[:, 0]
            W[i, ids] = known
            if self.costs is not None:
                W[i, ids], omega[i, ids] = self.costs.predict(features, ids, self.half)
        r = means + EXPLORE * deviations * self.random.normal(size=means.shape)
        w = W + EXPLORE * omega * self.random.normal(size=W.shape)
        r = np.where(offered, r, -np.inf)
        spread = r.max(axis=1) - np.where(offered, r, np.inf).min(axis=1)
        self.rho = max(float(spread.mean()), 1e-9)
        self.m = np.where(self.sizes > 0, self.squares / np.maximum(self.sizes, TINY), self.half)
        cap = CAP * self.rho / self.m
        self.price = dual_prices(r, w, self.price, cap, self.rho, self.m)
        best = np.argmax(r - w @ self.price, axis=1)
        at = w[np.arange(n), best]
        error = at.std(axis=0) / math.sqrt(n)
        self.infeasible = (self.price >= 0.999 * cap) & (n >= 8) & (at.mean(axis=0) > 2 * error)
        self.next, self.solves = max(self.rounds + 1, 2 * self.rounds), self.solves + 1


def dual_prices(r: Array, w: Array, start: Array, cap: Array, rho: float, m: Array) -> Array:
    """Prices p in [0, cap] that minimise mean_i max_j (r_ij − p·w_ij); r (n, J) is −inf where an action is not on offer, w (n, J, K).

    The max is smoothed, with a temperature that falls from 0.3 ρ to 0.003 ρ; projected Newton, with a diagonal step where Newton's fails at
    the bounds.

    >>> r, w = np.array([[0.0, 1.0]]), np.array([[[-1.0], [1.0]]])
    >>> dual_prices(r, w, np.zeros(1), np.array([20.0]), 1.0, np.ones(1)).round(2).tolist()
    [0.5]
    """
    return np.asarray(_dual_prices(r, w, start, cap, rho, m))


def _smoothed_plainly(r: Array, w: Array, p: Array, tau: float, shares: Array) -> float:
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


def _curvature_plainly(w: Array, shares: Array, free: Ids, tau: float) -> Array:
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


def _dual_prices_plainly(r: Array, w: Array, start: Array, cap: Array, rho: float, m: Array) -> Array:
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


_smoothed = numba.njit(cache=True)(_smoothed_plainly)
_curvature = numba.njit(cache=True)(_curvature_plainly)
_dual_prices = numba.njit(cache=True)(_dual_prices_plainly)
