"""The theorems' bounds against what is measured, over a grid of K, δ and d."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from tightrope.environments import synthetic
from tightrope.models import Ridge
from tightrope.policies import PessimisticOptimistic
from tightrope.report import Cell, NamedCurve, curve_figure
from tightrope.result import Result
from tightrope.validation import VIOLATION, Array
from tightrope_lab import theory
from tightrope_lab.paper.runs import Runs

ROUNDS, REPLICATIONS = 100_000, 20
CONTEXTS, ACTIONS = 20, 5
GRID_A = [(K, delta, d) for K in (1, 4) for delta in (0.05, 0.2) for d in (3, 12)]
GRID_B = [(1, delta, d) for delta in (0.05, 0.2) for d in (3, 6)]
SHOWN_A, SHOWN_B = (4, 0.2, 3), (1, 0.2, 3)
TITLES = {"A": "Theorem 1: costs seen before acting", "B": "Theorem 2: linear costs seen after acting"}


def run(runs: Runs) -> None:
    """Random instances whose Slater's constant is verified by the LP, with the theorems' own schedules."""
    T, replications = runs.size.rounds or ROUNDS, runs.size.replications or REPLICATIONS
    instance = partial(synthetic, contexts=CONTEXTS, actions=ACTIONS, seed=1)
    for algorithm, grid in (("A", GRID_A), ("B", GRID_B)):
        for K, delta, d in grid:
            seen: Literal["before", "after"] = "before" if algorithm == "A" else "after"
            env = instance(features=d, constraints=K, slater=delta, costs_seen=seen)
            cost = Ridge(d) if algorithm == "B" else None
            policy = PessimisticOptimistic(reward=Ridge(d), cost=cost, constraints=K, slater=delta, horizon=T)
            runs.add(_label(algorithm, K, delta, d), policy, env, T, replications)


def tell(runs: Runs) -> dict[str, Any]:
    """What `bounds.html` shows."""
    theorems, ratios, all_hold = [], [], True
    for algorithm, grid, (K, delta, d) in (("A", GRID_A, SHOWN_A), ("B", GRID_B, SHOWN_B)):
        r = runs.results[_label(algorithm, K, delta, d)]
        bounds = _bounds(algorithm, r.rounds, K, delta, d, r.n_rounds)
        curves = [
            NamedCurve.of("measured regret", r.regret),
            NamedCurve.of("measured violation", r.violation),
            NamedCurve("regret bound", r.rounds, bounds[0], reference=True),
            NamedCurve("violation bound", r.rounds, bounds[1], reference=True),
        ]
        label = "Regret (reward), violation (cost)"
        figure = curve_figure(curves, xlabel="Round", ylabel=label, logx=True, logy=True)
        shown = {"algorithm": algorithm, "title": TITLES[algorithm], "K": K, "delta": delta, "d": d}
        rows: list[list[Cell]] = []
        for K, delta, d in grid:
            r = runs.results[_label(algorithm, K, delta, d)]
            regret_bound, violation_bound = _bounds(algorithm, r.rounds, K, delta, d, r.n_rounds)
            within = r.regret.low <= regret_bound, r.violation.low <= violation_bound + VIOLATION
            holds = bool(np.all(within))
            all_hold = all_hold and holds
            ratios.append(float(regret_bound[-1] / r.regret.mean[-1]))
            violation, words = r.violation.mean, "yes" if holds else "no"
            bound = violation_bound[np.argmax(violation)]
            most = [float(one) for one in (violation.max(), bound, violation[-1])]
            regrets: list[Cell] = [r.regret.at(), float(regret_bound[-1])]
            rows.append([f"{K}, {delta:g}, {d}", *regrets, *most, growth_exponent(r), words])
        theorems.append({**shown, "figure": figure, "rows": rows})
    told = {"theorems": theorems, "ratios": ratios, "all_hold": all_hold}
    return {"contexts": CONTEXTS, "actions": ACTIONS, **told}


def growth_exponent(result: Result) -> float | None:
    """Slope of log regret against log round over the last decade; None where regret is not positive there."""
    rounds, regret = result.rounds, result.regret.mean
    part = rounds >= rounds[-1] / 10
    if part.sum() < 2 or (regret[part] <= 0).any():
        return None
    return float(np.polyfit(np.log(rounds[part]), np.log(regret[part]), 1)[0])


def _bounds(algorithm: str, tau: Any, K: int, delta: float, d: int, T: int) -> tuple[Array, Array]:
    """On regret and on violation."""
    if algorithm == "A":
        violation = theory.violation_bound(tau, K=K, delta=delta)
        return theory.regret_bound(tau, K=K, delta=delta, d=d, T=T, m=1.0), violation
    violation = theory.violation_bound_linear(tau, delta=delta, d=d, T=T)
    return theory.regret_bound_linear(tau, delta=delta, d=d, T=T), violation


def _label(algorithm: str, K: int, delta: float, d: int) -> str:
    return f"{algorithm}: K = {K}, delta = {delta:g}, d = {d}"
