"""Which of the paper's assumptions hold in an environment, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.environments.tabular import Tabular
from tightrope.oracle.programs import require_tabular, slater
from tightrope.oracle.solution import table, text
from tightrope.schedules import tau_prime, tau_prime_linear
from tightrope.validation import Array, finite_number, whole_number


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumption of the paper: what must hold, what was measured, and whether it holds."""

    statement: str
    measured: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What `check` found. `print` shows it as a table.

    `slater` is that of the fluid program, `m` the least with ‖θ*‖ <= m for the θ* of least norm that fits the rewards best, and
    `tau_prime` τ', the first round with ε_t <= δ/2: None where there is none (δ <= 0), or, with costs seen after acting, no
    horizon to compute it from.
    """

    items: tuple[Assumption, ...]
    slater: float
    m: float
    tau_prime: int | None

    @property
    def holds(self) -> bool:
        return all(item.holds for item in self.items)

    def _table(self) -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
        said = {True: "yes", False: "NO"}
        rows = [(item.statement, item.measured, said[item.holds]) for item in self.items]
        return ("assumption", "measured", "holds"), rows

    def __str__(self) -> str:
        verdict = "every assumption holds" if self.holds else "not every assumption holds"
        end = "" if self.tau_prime is None else f"\nτ' = {self.tau_prime:,}: the first round with ε_t ≤ δ/2"
        return table(verdict, *self._table()) + end

    def __repr__(self) -> str:
        failed = [item.statement for item in self.items if not item.holds]
        return f"Assumptions(holds={self.holds}{f', failed={failed}' if failed else ''}, slater={self.slater:.6g})"

    def _repr_html_(self) -> str:
        verdict = "Every assumption holds" if self.holds else "Not every assumption holds"
        return displays.page(verdict, displays.table(*self._table()))


def check(env: Tabular, *, m: float | None = 1.0, horizon: int | None = None) -> Assumptions:
    """Which of the paper's assumptions hold in `env`, and by how much.

    Only actions on offer in contexts that can occur are looked at. Arms without features count as φ = e_j. `m` is the bound on ‖θ*‖
    that the policy is given; None for one that needs none, and nothing is asked of ‖θ*‖. `horizon` is T: with costs seen after
    acting, τ' depends on it.

    >>> from tightrope.environments import synthetic
    >>> print(check(synthetic(contexts=3, actions=2, features=3, constraints=1, slater=0.5)))
    every assumption holds
    assumption                      measured                                      holds
    ‖φ‖ ≤ 1                         largest norm 1                                yes
    mean rewards in [0, 1]          from ... to ...    yes
    mean rewards linear in φ        largest residual ...    yes
    ‖θ*‖ ≤ m = 1                    least norm ...    yes
    reward noise 1-sub-Gaussian     parameter 0.5 (bernoulli)                     yes
    costs in [-1, 1]                from ... to ...    yes
    Slater's condition, δ > 0       δ = 0.5                                       yes
    τ' = 96: the first round with ε_t ≤ δ/2
    """
    require_tabular(env)
    bound = None if m is None else finite_number("m", m, low=0.0)
    rounds = None if horizon is None else whole_number("horizon", horizon, low=1)
    seen = env.available & (env.weights > 0)[:, None]
    rewards = env.rewards[seen]
    fit = _linear_fit(env.features, env.rewards[:, :, None], seen)
    theta_norm = float(fit.norms[0])
    parameter = {"bernoulli": 0.5, "gaussian": env.reward_scale, "none": 0.0}[env.reward_noise]
    items = [
        Assumption("‖φ‖ ≤ 1", f"largest norm {text(fit.largest)}", fit.largest <= 1.0 + 1e-9),
        _within("mean rewards", 0.0, float(rewards.min()), float(rewards.max())),
        Assumption("mean rewards linear in φ", f"largest residual {fit.residual:.1e}", fit.residual <= 1e-8),
    ]
    if bound is not None:
        held = theta_norm <= bound + 1e-9
        items.append(Assumption(f"‖θ*‖ ≤ m = {bound:g}", f"least norm {text(theta_norm)}", held))
    items.append(_light_tails("reward", parameter, env.reward_noise))
    delta = slater(env)
    if env.n_constraints:
        items += _cost_items(env, seen)
        items.append(Assumption("Slater's condition, δ > 0", f"δ = {text(delta)}", delta > 1e-9))
    return Assumptions(tuple(items), delta, theta_norm, _tau_prime(env, delta, rounds))


def _cost_items(env: Tabular, seen: NDArray[np.bool_]) -> list[Assumption]:
    jumps = env.jumps & seen[:, :, None]
    low = float(np.where(jumps, env.cost_range[:, 0], env.costs)[seen].min())
    high = float(np.where(jumps, env.cost_range[:, 1], env.costs)[seen].max())
    inside = _within("costs", -1.0, low, high)
    late = ~env.seen_before
    if not late.any():
        return [inside]
    fit = _linear_fit(env.cost_features, env.costs[..., late], seen)
    norm = float(fit.norms.max())
    # Hoeffding: a variable within an interval is sub-Gaussian with half its length.
    widths = (env.cost_range[late, 1] - env.cost_range[late, 0]) / 2.0
    parameter = float(np.max(np.where(jumps[..., late].any(axis=(0, 1)), widths, 0.0)))
    return [
        inside,
        Assumption("‖ψ‖ ≤ 1", f"largest norm {text(fit.largest)}", fit.largest <= 1.0 + 1e-9),
        Assumption("mean costs linear in ψ", f"largest residual {fit.residual:.1e}", fit.residual <= 1e-8),
        Assumption("‖μ*‖ ≤ 1", f"largest least norm {text(norm)}", norm <= 1.0 + 1e-9),
        _light_tails("cost", parameter, env.cost_noise),
    ]


def _within(what: str, least: float, low: float, high: float) -> Assumption:
    holds = low >= least and high <= 1.0
    return Assumption(f"{what} in [{least:g}, 1]", f"from {text(low)} to {text(high)}", holds)


def _light_tails(what: str, parameter: float, noise: str) -> Assumption:
    measured = f"parameter {text(parameter)} ({noise})"
    return Assumption(f"{what} noise 1-sub-Gaussian", measured, parameter <= 1.0)


def _tau_prime(env: Tabular, delta: float, horizon: int | None) -> int | None:
    if delta <= 1e-9:
        return None
    if env.seen_before.all():
        return tau_prime(K=env.n_constraints, delta=delta)
    if horizon is None:
        return None
    d = max(_dimension(env.features, env.n_actions), _dimension(env.cost_features, env.n_actions))
    return tau_prime_linear(delta=delta, d=d, T=horizon)


def _dimension(features: Array | None, n_actions: int) -> int:
    if features is None:
        return n_actions
    return int(features.shape[-1]) * (n_actions if features.ndim == 2 else 1)


class _Fit(NamedTuple):
    residual: float
    norms: Array  # of each target's least-norm parameter
    largest: float  # norm of a feature vector


def _linear_fit(features: Array | None, targets: Array, seen: NDArray[np.bool_]) -> _Fit:
    """Least squares of targets (C, J, n) on the features, where seen."""
    if features is None:
        features = np.ones((targets.shape[0], 1))
    if features.ndim == 3:
        groups = [(features[seen], targets[seen])]
    else:
        groups = [(features[on], targets[on, j]) for j, on in enumerate(seen.T) if on.any()]
    residual = largest = 0.0
    squares = np.zeros(targets.shape[2])
    for phi, y in groups:
        parameters, *_ = np.linalg.lstsq(phi, y, rcond=None)
        residual = max(residual, float(np.abs(phi @ parameters - y).max()))
        squares += (parameters**2).sum(axis=0)
        largest = max(largest, float(np.linalg.norm(phi, axis=1).max()))
    return _Fit(residual, np.sqrt(squares), largest)
