"""The paper's two algorithms, transcribed literally and slowly: Σ is solved afresh in every round, no code is the package's."""

from __future__ import annotations

import math

import numpy as np


class ReferenceRidge:
    def __init__(self, d, M=1, *, bonus=1.0, m=1.0, ridge=1.0, dimension=None):
        self.Sigma, self.b = ridge * np.eye(d), np.zeros((M, d))
        self.bonus, self.m, self.ridge, self.n = bonus, m, ridge, 0
        self.d = d if dimension is None else dimension

    def root_beta(self, T):
        inside = 2 * math.log(T) + self.d * math.log(1 + self.n / (self.d * self.ridge))
        return self.bonus * (math.sqrt(self.ridge) * self.m + math.sqrt(inside))

    def estimate(self, phi, i=0):
        return float(np.linalg.solve(self.Sigma, self.b[i]) @ phi)

    def width(self, phi):
        return math.sqrt(phi @ np.linalg.solve(self.Sigma, phi))

    def learn(self, phi, y):
        self.Sigma = self.Sigma + np.outer(phi, phi)
        for i, value in enumerate(np.atleast_1d(y)):
            self.b[i] = self.b[i] + phi * value
        self.n += 1


def choose(values):
    best = max(values)
    return next(j for j, value in enumerate(values) if value >= best - 1e-12 * abs(best))


def gap(values):
    """How far the choice is from flipping by rounding: the least distance of a value below the best from the edge of the tie rule.

    Values that equal the best to the last bit are computed alike, from the same features or by the clip: they can't flip.
    """
    best = max(values)
    return min((abs((best - v) - 1e-12 * abs(best)) for v in values if v != best), default=math.inf)


class ReferenceA:
    """Costs seen before acting; capped is ours: min(ε, δ/2) and max(0, r̂)."""

    def __init__(
        self, d, K, *, slater, horizon, bonus=1.0, m=1.0, ridge=1.0, V=None, epsilon=None, capped=False
    ):
        self.capped = capped
        self.model = ReferenceRidge(d, bonus=bonus, m=m, ridge=ridge)
        self.K, self.delta, self.T, self.V, self.epsilon = K, slater, horizon, V, epsilon
        self.Q, self.t = np.zeros(K), 0

    def decide(self, phi, W):
        self.t += 1
        t, K = self.t, self.K
        T = t if self.T is None else self.T
        if K:
            V_t = self.delta * K**0.25 * math.sqrt(2 * t / 3) if self.V is None else self.V(t)
            eps_t = K**0.75 * math.sqrt(6 / t) if self.epsilon is None else self.epsilon(t)
        r_hat = [
            min(1.0, self.model.estimate(f) + self.model.root_beta(T) * self.model.width(f)) for f in phi
        ]
        if self.capped:
            r_hat = [max(0.0, r) for r in r_hat]
            eps_t = min(eps_t, self.delta / 2) if K else 0.0
        self.r_hat = r_hat
        values = [
            r - (sum(W[j][k] * self.Q[k] for k in range(K)) / V_t if K else 0.0) for j, r in enumerate(r_hat)
        ]
        self.values = values
        a = choose(values)
        if K:
            self.Q = np.maximum(0.0, self.Q + np.asarray(W[a]) + eps_t)
        return a


class ReferenceB:
    """Linear costs seen after acting, any K."""

    def __init__(self, d, d_w, K, *, slater, horizon, bonus=1.0, ridge=1.0, low=-1.0, high=1.0):
        self.reward = ReferenceRidge(d, bonus=bonus, ridge=ridge)
        self.cost = ReferenceRidge(d_w, K, bonus=bonus, ridge=ridge)
        self.K, self.delta, self.T, self.D = K, slater, horizon, max(d, d_w)
        self.low, self.high = low, high
        self.Q, self.t = np.zeros(K), 0

    def decide(self, phi, psi):
        self.t += 1
        t, K = self.t, self.K
        T = t if self.T is None else self.T
        V_t = K**0.25 * self.delta * self.D * math.sqrt(t) * math.log(1 + T) / 4
        eps_t = K**0.75 * 4 * self.D * math.log(1 + T) / math.sqrt(t)
        r_hat = [
            min(1.0, self.reward.estimate(f) + self.reward.root_beta(T) * self.reward.width(f)) for f in phi
        ]
        W = [
            [
                max(
                    self.low,
                    min(self.high, self.cost.estimate(f, k) - self.cost.root_beta(T) * self.cost.width(f)),
                )
                for k in range(K)
            ]
            for f in psi
        ]
        values = [r - sum(W[j][k] * self.Q[k] for k in range(K)) / V_t for j, r in enumerate(r_hat)]
        self.values = values
        a = choose(values)
        self.Q = np.maximum(0.0, self.Q + np.asarray(W[a]) + eps_t)
        return a


class ReferenceArms:
    """Arms only: costs seen after acting, or before."""

    def __init__(self, J, K, V, epsilon, cost_range=(-1.0, 1.0)):
        self.N, self.R, self.C = np.zeros(J), np.zeros(J), np.zeros((J, K))
        self.V, self.epsilon, self.range = V, epsilon, cost_range
        self.Q, self.t = np.zeros(K), 0

    def decide(self, W=None):
        self.t += 1
        t = self.t
        J, K = self.C.shape
        r_hat, W_check = [], []
        for j in range(J):
            if self.N[j] == 0:
                r_hat.append(1.0)
                W_check.append([self.range[0]] * K)
            else:
                width = math.sqrt(math.log(t) / self.N[j])
                r_hat.append(min(1.0, self.R[j] / self.N[j] + width))
                W_check.append(
                    [max(self.range[0], min(self.range[1], c / self.N[j] - width)) for c in self.C[j]]
                )
        W = W_check if W is None else W
        values = [r - sum(W[j][k] * self.Q[k] for k in range(K)) / self.V(t) for j, r in enumerate(r_hat)]
        self.values = values
        a = choose(values)
        self.Q = np.maximum(0.0, self.Q + np.asarray(W[a]) + self.epsilon(t))
        return a

    def learn(self, a, reward, costs=None):
        self.N[a] += 1
        self.R[a] += reward
        if costs is not None:
            self.C[a] += costs
