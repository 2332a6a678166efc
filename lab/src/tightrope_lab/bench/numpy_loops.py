"""The algorithm in plain NumPy: what the benchmarks measure against.

The same mathematics as `tightrope.PessimisticOptimistic` (V_t = v·√t, ε_t = e/√t; costs seen before acting, but for `after`), as one
would write it for a single run: arrays and vector operations, rank-one updates, products used twice where they can be, and nothing
else. No input is checked, no decision is recorded, outcomes can't come late, and Σ⁻¹ is never refreshed: all of that is time that
these loops do not spend. Each returns its choices, Q and θ̂.

They are part of the package, and not of `benchmarks/`, because `tightrope bench` measures ratios where it is installed: a ratio needs
both programs on one machine, and the loops also check what it times, choice by choice.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.validation import VIOLATION, Array

Codes: TypeAlias = NDArray[np.int64]

TIE = 1e-12


class Settings(NamedTuple):
    """V_t = v·√t, ε_t = e/√t, the horizon T and the scale of √β."""

    v: float
    e: float
    horizon: int
    bonus: float = 1.0

    def root_beta(self, n: int, d: int) -> float:
        """√β after n outcomes, m = 1."""
        return self.bonus * (1.0 + math.sqrt(2.0 * math.log(self.horizon) + d * math.log(1.0 + n / d)))


class Outcome(NamedTuple):
    """What a program leaves behind: the rows that it chose, and the numbers of its final state."""

    choices: list[int]
    state: Array


def paper(K: int, delta: float, horizon: int, bonus: float = 1.0) -> Settings:
    """The paper's schedules for Slater's constant δ."""
    return Settings(delta * K**0.25 * math.sqrt(2.0 / 3.0), K**0.75 * math.sqrt(6.0), horizon, bonus)


def shared(phis: Array, Ws: Array, rewards: list[float], settings: Settings) -> Outcome:
    """One model for all actions; features (n, J, d) and costs (n, J, K) are new in every round."""
    d = phis.shape[2]
    Sigma_inv, theta, Q = np.eye(d), np.zeros(d), np.zeros(Ws.shape[2])
    choices = []
    for t, (phi, W, reward) in enumerate(zip(phis, Ws, rewards), start=1):
        P = phi @ Sigma_inv
        widths = np.sqrt(np.vecdot(P, phi))
        optimistic = np.minimum(1.0, phi @ theta + settings.root_beta(t - 1, d) * widths)
        values = optimistic - W @ (Q / (settings.v * math.sqrt(t)))
        a = int(np.argmax(values >= (best := values.max()) - TIE * abs(best)))
        Q = np.maximum(0.0, Q + W[a] + settings.e / math.sqrt(t))
        x, u = phi[a], P[a]
        gain = u / (1.0 + widths[a] ** 2)
        theta += (reward - theta @ x) * gain
        Sigma_inv -= gain[:, None] * u
        choices.append(a)
    return Outcome(choices, np.concatenate([Q, theta]))


def after(phis: Array, psis: Array, Ws: Array, rewards: list[float], settings: Settings) -> Outcome:
    """Algorithm B: as `shared`, but the costs (n, J, K) are seen for the chosen action alone, and learnt from features (n, J, q)."""
    d, q, K = phis.shape[2], psis.shape[2], Ws.shape[2]
    Sigma_inv, theta, Q = np.eye(d), np.zeros(d), np.zeros(K)
    Sigma_inv_w, mu = np.eye(q), np.zeros((K, q))
    choices = []
    for t, (phi, psi, costs, reward) in enumerate(zip(phis, psis, Ws, rewards), start=1):
        P, R = phi @ Sigma_inv, psi @ Sigma_inv_w
        widths, widths_w = np.sqrt(np.vecdot(P, phi)), np.sqrt(np.vecdot(R, psi))
        optimistic = np.minimum(1.0, phi @ theta + settings.root_beta(t - 1, d) * widths)
        low = psi @ mu.T - settings.root_beta(t - 1, q) * widths_w[:, None]
        W = np.maximum(-1.0, np.minimum(1.0, low))
        values = optimistic - W @ (Q / (settings.v * math.sqrt(t)))
        a = int(np.argmax(values >= (best := values.max()) - TIE * abs(best)))
        Q = np.maximum(0.0, Q + W[a] + settings.e / math.sqrt(t))
        gain = P[a] / (1.0 + widths[a] ** 2)
        theta += (reward - theta @ phi[a]) * gain
        Sigma_inv -= gain[:, None] * P[a]
        gain = R[a] / (1.0 + widths_w[a] ** 2)
        mu += (costs[a] - mu @ psi[a])[:, None] * gain
        Sigma_inv_w -= gain[:, None] * R[a]
        choices.append(a)
    return Outcome(choices, np.concatenate([Q, theta, mu.ravel()]))


def disjoint(
    features: Array, costs: Array, rewards: Array, contexts: Codes, uniforms: Array, settings: Settings
) -> Outcome:
    """A model for each action; tables (C, p), (C, J, K) and (C, J), the context of every round and the uniform behind its reward."""
    (_, p), (_, J, K) = features.shape, costs.shape
    Sigma_inv, theta, Q = np.tile(np.eye(p), (J, 1, 1)), np.zeros((J, p)), np.zeros(K)
    choices = []
    for t, (c, uniform) in enumerate(zip(contexts.tolist(), uniforms.tolist()), start=1):
        x, W = features[c], costs[c]
        U = Sigma_inv @ x
        widths = np.sqrt(U @ x)
        optimistic = np.minimum(1.0, theta @ x + settings.root_beta(t - 1, J * p) * widths)
        values = optimistic - W @ (Q / (settings.v * math.sqrt(t)))
        a = int(np.argmax(values >= (best := values.max()) - TIE * abs(best)))
        Q = np.maximum(0.0, Q + W[a] + settings.e / math.sqrt(t))
        reward = 1.0 if uniform < rewards[c, a] else 0.0
        gain = U[a] / (1.0 + widths[a] ** 2)
        theta[a] += (reward - theta[a] @ x) * gain
        Sigma_inv[a] -= gain[:, None] * U[a]
        choices.append(a)
    return Outcome(choices, np.concatenate([Q, theta.ravel()]))


def simulated(
    features: Array, costs: Array, rewards: Array, contexts: Codes, uniforms: Array, settings: Settings
) -> Outcome:
    """`disjoint` as a simulation: the state is the cumulated mean reward, costs, and last round in violation of each constraint."""
    choices = disjoint(features, costs, rewards, contexts, uniforms, settings).choices
    totals = np.cumsum(costs[contexts, choices], axis=0)
    violated = totals > VIOLATION
    last = np.where(violated.any(axis=0), len(choices) - np.argmax(violated[::-1], axis=0), 0)
    return Outcome(choices, np.concatenate([[rewards[contexts, choices].sum()], totals[-1], last]))


def full_sweep(
    phi: Array, W: Array, rewards: Array, rounds: int, settings: Settings, block: int | None = None
) -> Outcome:
    """A fixed catalogue, every width in every round; `block` rows at a time where φΣ⁻¹ would not fit.

    Features (J, d), costs (J, K) and rewards (J,).
    """
    J, d = phi.shape
    Sigma_inv, theta, Q = np.eye(d), np.zeros(d), np.zeros(W.shape[1])
    squares = np.empty(J)
    step = J if block is None else block
    choices = []
    for t in range(1, rounds + 1):
        for at in range(0, J, step):
            rows = phi[at : at + step]
            np.vecdot(rows @ Sigma_inv, rows, out=squares[at : at + step])
        optimistic = np.minimum(1.0, phi @ theta + settings.root_beta(t - 1, d) * np.sqrt(squares))
        values = optimistic - W @ (Q / (settings.v * math.sqrt(t)))
        a = int(np.argmax(values >= (best := values.max()) - TIE * abs(best)))
        Q = np.maximum(0.0, Q + W[a] + settings.e / math.sqrt(t))
        x = phi[a]
        u = Sigma_inv @ x
        gain = u / (1.0 + u @ x)
        theta += (rewards[a] - theta @ x) * gain
        Sigma_inv -= gain[:, None] * u
        choices.append(a)
    return Outcome(choices, np.concatenate([Q, theta]))


def running_widths(phi: Array, W: Array, rewards: Array, rounds: int, settings: Settings) -> Outcome:
    """As `full_sweep`, with means and squared widths carried along: ‖φ‖² falls by ⟨φ, u⟩²/(1 + xᵀu), u = Σ⁻¹x.

    One matrix-vector product a round, as few as any exact method needs, at the price of errors that add up and outcomes that must
    come at once.
    """
    J, d = phi.shape
    Sigma_inv, theta, Q = np.eye(d), np.zeros(d), np.zeros(W.shape[1])
    means, squares = np.zeros(J), np.vecdot(phi, phi)
    choices = []
    for t in range(1, rounds + 1):
        optimistic = np.minimum(1.0, means + settings.root_beta(t - 1, d) * np.sqrt(squares))
        values = optimistic - W @ (Q / (settings.v * math.sqrt(t)))
        a = int(np.argmax(values >= (best := values.max()) - TIE * abs(best)))
        Q = np.maximum(0.0, Q + W[a] + settings.e / math.sqrt(t))
        x = phi[a]
        u = Sigma_inv @ x
        s = 1.0 / (1.0 + u @ x)
        change = (rewards[a] - theta @ x) * s
        along = phi @ u
        means += change * along
        along *= along
        squares -= s * along
        theta += change * u
        Sigma_inv -= (s * u)[:, None] * u
        choices.append(a)
    return Outcome(choices, np.concatenate([Q, theta]))


def batch(phis: Array, Ws: Array, Sigma_inv: Array, theta: Array, n: int, settings: Settings) -> Outcome:
    """Successive decisions, from round 1 on, by a model that has learnt n outcomes: one product for all widths."""
    rounds, J, d = phis.shape
    rows = phis.reshape(rounds * J, d)
    widths = np.sqrt(np.vecdot(rows @ Sigma_inv, rows))
    all_optimistic = np.minimum(1.0, rows @ theta + settings.root_beta(n, d) * widths).reshape(rounds, J)
    Q = np.zeros(Ws.shape[2])
    choices = []
    for t, (optimistic, W) in enumerate(zip(all_optimistic, Ws), start=1):
        values = optimistic - W @ (Q / (settings.v * math.sqrt(t)))
        a = int(np.argmax(values >= (best := values.max()) - TIE * abs(best)))
        Q = np.maximum(0.0, Q + W[a] + settings.e / math.sqrt(t))
        choices.append(a)
    return Outcome(choices, Q)
