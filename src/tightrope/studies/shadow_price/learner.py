"""What the rivals learn with: ridge regression in the data's own units, compiled, so that a comparison is of how rules are kept."""

from __future__ import annotations

import math
from typing import TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from tightrope.validation import Array

Ids: TypeAlias = NDArray[np.int64]


class Learner:
    """Ridge regression with several outputs: one for all actions where each has features of its own, else one for each action.

    Features are measured in the size of the first ones, a constant is appended, outputs may be centred on their running mean, and the
    noise is that of the residuals with the raw spread as one more observation. A prediction is a mean and a standard deviation.

    >>> learner = Learner(n_actions=2)
    >>> for reward in (0.0, 2.0) * 50:
    ...     learner.learn(np.array([1.0]), 1, np.array([reward]))
    >>> means, deviations = learner.predict(np.array([1.0]), np.array([0, 1]))
    >>> means.round(1).tolist(), bool(deviations[1, 0] < 0.2 < deviations[0, 0])
    ([[1.0], [1.0]], True)
    """

    def __init__(self, n_actions: int, n_outputs: int = 1, *, centred: bool = True) -> None:
        self.n_actions, self.centred = n_actions, centred
        self.constant = 0.0
        # mean, spread about it, and squared residuals of the outputs
        self.moments = np.zeros((3, n_outputs))
        self.seen = np.zeros(1)
        self.inverse = np.zeros((0, 0, 0))
        self.theta = np.zeros((0, 0, n_outputs))
        self.ones = np.zeros((0, 0))

    def predict(self, features: Array, ids: Ids, prior: Array | None = None) -> tuple[Array, Array]:
        """Means and standard deviations of the outputs for actions `ids`, (J, M) each; features (p,) or (J, p)."""
        rows, shared = self._rows(features)
        means = np.empty((ids.size, self.moments.shape[1]))
        widths = np.empty(ids.size)
        blocks = np.zeros_like(ids) if shared else ids
        centre = self.moments[0] if self.centred else np.zeros(means.shape[1])
        _predict(rows, blocks, self.inverse, self.theta, self.ones, centre, means, widths)
        return means, widths[:, None] * self.noise(prior)

    def predict_many(self, features: Array, prior: Array | None = None) -> tuple[Array, Array]:
        """The same for n rounds and all actions, (n, J, M) each; features (n, p) or (n, J, p)."""
        n, ids = len(features), np.arange(self.n_actions)
        found = [self.predict(one, ids, prior) for one in features]
        shape = (n, self.n_actions, self.moments.shape[1])
        return (
            np.concatenate([one for one, _ in found]).reshape(shape),
            np.concatenate([one for _, one in found]).reshape(shape),
        )

    def learn(self, features: Array, action: int, outputs: Array) -> None:
        """The outputs of an action, with its features (p,)."""
        if not self.constant:
            self._start(features[None], shared=False)
        block = action if len(self.inverse) > 1 else 0
        row = np.append(features, self.constant)
        parts = (self.inverse[block], self.theta[block], self.ones[block])
        _learn(row, outputs, *parts, self.moments, self.seen, self.centred)

    def noise(self, prior: Array | None = None) -> Array:
        """Standard deviation of the noise of each output; `prior` counts as one residual."""
        n, (_, spread, residuals) = self.seen[0], self.moments
        if n == 0:
            return np.ones(residuals.size) if prior is None else prior
        if prior is not None:
            return np.asarray(np.sqrt((prior**2 + residuals) / (1 + n)))
        found = np.sqrt((spread / n + residuals) / n)
        return np.where(found > 0, found, 1.0)

    def _rows(self, features: Array) -> tuple[Array, bool]:
        shared = features.ndim == 2
        rows = np.atleast_2d(features)
        if not self.constant:
            self._start(rows, shared)
        extended = np.empty((len(rows), rows.shape[1] + 1))
        extended[:, :-1], extended[:, -1] = rows, self.constant
        return extended, shared

    def _start(self, rows: Array, shared: bool) -> None:
        # The prior of a prediction is as wide as the noise in any unit; without the constant a row of zeros would be worth the mean.
        size = max(float((rows**2).sum(axis=1).mean()), 1e-12)
        blocks, q = (1 if shared else self.n_actions), rows.shape[1] + 1
        self.constant = math.sqrt(size)
        self.inverse = np.tile(np.eye(q) / (2.0 * size), (blocks, 1, 1))
        self.theta = np.zeros((blocks, q, self.moments.shape[1]))
        self.ones = np.zeros((blocks, q))


def _predict_plainly(
    rows: Array, blocks: Ids, inverse: Array, theta: Array, ones: Array, centre: Array, means: Array, widths: Array
) -> None:
    q, M = rows.shape[1], means.shape[1]
    for j in range(blocks.shape[0]):
        x, g = rows[min(j, rows.shape[0] - 1)], blocks[j]
        square, one = 0.0, 0.0
        for i in range(q):
            across = 0.0
            for k in range(q):
                across += inverse[g, i, k] * x[k]
            square += x[i] * across
            one += x[i] * ones[g, i]
        widths[j] = math.sqrt(max(square, 0.0))
        for m in range(M):
            plain = 0.0
            for i in range(q):
                plain += x[i] * theta[g, i, m]
            means[j, m] = centre[m] + plain - one * centre[m]


def _learn_plainly(
    x: Array, y: Array, inverse: Array, theta: Array, ones: Array, moments: Array, seen: Array, centred: bool
) -> None:
    q, M = x.shape[0], y.shape[0]
    u = np.zeros(q)
    scale, one = 1.0, 0.0
    for i in range(q):
        for k in range(q):
            u[i] += inverse[i, k] * x[k]
        scale += x[i] * u[i]
        one += x[i] * ones[i]
    for m in range(M):
        plain, centre = 0.0, moments[0, m] if centred else 0.0
        for i in range(q):
            plain += x[i] * theta[i, m]
        if seen[0] > 0 or not centred:
            moments[2, m] += (y[m] - centre - plain + centre * one) ** 2 / scale
        for i in range(q):
            theta[i, m] += u[i] * (y[m] - plain) / scale
    for i in range(q):
        ones[i] += u[i] * (1.0 - one) / scale
        for k in range(q):
            inverse[i, k] -= u[i] * u[k] / scale
    seen[0] += 1.0
    for m in range(M):
        gap = y[m] - moments[0, m]
        moments[0, m] += gap / seen[0]
        moments[1, m] += gap * (y[m] - moments[0, m])


_predict = numba.njit(cache=True)(_predict_plainly)
_learn = numba.njit(cache=True)(_learn_plainly)
