"""Rivals that share a learner, as compiled loops: a plain Lagrangian and a guard.

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
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.validation import VIOLATION, Array
from tightrope_lab.draws import EnvironmentDraws, environment_draws
from tightrope_lab.evidence.outcome import Outcome

Ids: TypeAlias = NDArray[np.int64]
Kind: TypeAlias = Literal["lagrangian", "guard"]

LAGRANGIAN, GUARD = range(2)


@dataclass(frozen=True)
class Rival:
    """One of the two.

    lagrangian
        Prices that climb by what is spent, λ ← [λ + step·(w + margin/√t)]⁺, with costs in units of their declared range: the plain code
        that everybody writes first. Step and margin have to be found.
    guard
        Only actions that leave every total at or below zero; where there is none, the least excess.

    Costs that are seen after acting are estimated by the same regression, at their mean.

    >>> from tightrope.environments import hospital
    >>> outcome = play(Rival("lagrangian", step=0.1), hospital(), rounds=200, replications=2)
    >>> outcome.reward.shape, outcome.path.shape
    ((2, 1), (2,))
    """

    kind: Kind
    step: float = 0.03
    margin: float = 1.0

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
    unit = np.abs(env.cost_range).max(axis=1)
    reward, totals, watched = np.zeros(grid.size), np.zeros(K), np.zeros(3)
    choices = np.zeros(rounds, dtype=np.int64)
    drawn = env.costs if draws.costs is None else draws.costs
    _run(
        LAGRANGIAN if rival.kind == "lagrangian" else GUARD,
        (rival.step, rival.margin),
        np.ascontiguousarray(rows),
        size,
        np.ascontiguousarray(env.available),
        np.ascontiguousarray(env.rewards),
        np.ascontiguousarray(env.costs / unit),
        np.ascontiguousarray(drawn / unit),
        draws.costs is not None,
        env.costs_seen == "before",
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


def _noise_(moments, seen):  # type: ignore[no-untyped-def]
    """Standard deviation of the noise of the reward: the residuals', with the raw spread as one more."""
    if seen == 0:
        return 1.0
    found = math.sqrt((moments[1, 0] / seen + moments[2, 0]) / seen)
    return found if found > 0 else 1.0


def _run_(  # type: ignore[no-untyped-def]
    kind, settings, rows, size, available, rewards, known, drawn, by_round, before, contexts, uniforms, rng, grid,
    earned, totals, watched, choices,
):  # fmt: skip
    """One run: `known` are mean costs (C, J, K), `drawn` those of each round (T, J, K) where `by_round`, else as known."""
    step, margin = settings
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
    W, ids, price, y = np.zeros((J, K)), np.zeros(J, dtype=np.int64), np.zeros(K), np.zeros(1)
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
        sigma = _noise(moments, seen)
        if before:
            for j in range(n):
                W[j] = known[c, ids[j]]
        else:
            _predict(
                rows[c], shared, ids, n, cost_inverse, cost_theta, cost_ones, nothing, cost_means, cost_widths
            )
            W[:n] = cost_means[:n]
        least = np.inf
        if kind == GUARD:
            for j in range(n):
                least = min(least, np.maximum(totals + W[j], 0.0).sum())
        row, top = 0, -np.inf
        for j in range(n):
            value = means[j, 0]
            for k in range(K):
                value -= price[k] * W[j, k]
            value += sigma * widths[j] * rng.normal()
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
        excess = 0.0
        for k in range(K):
            totals[k] += spent[k]
            if kind == LAGRANGIAN:
                price[k] = max(0.0, price[k] + step * (spent[k] + margin / math.sqrt(t)))
            if totals[k] > VIOLATION:
                excess += totals[k]
        watched[0] = max(watched[0], excess)
        if excess > 0:
            watched[1] = t
            watched[2] += 1
        if t == grid[at]:
            earned[at] = reward
            at += 1


_predict, _learn, _noise, _run = map(_compiled, (_predict_, _learn_, _noise_, _run_))
