"""The theorems' bounds against what is measured, over a grid of K, δ and d."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from tightrope.environments import synthetic
from tightrope.models import Ridge
from tightrope.policies import PessimisticOptimistic
from tightrope.report import Cell, NamedCurve, Report, curve_figure
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


def tell(runs: Runs, report: Report) -> None:
    """The section of the report."""
    results = runs.results
    T, replications, command = runs.done()
    report.section("The theorems against measurement")
    report.text(
        f"Random instances with {CONTEXTS} contexts and {ACTIONS} actions whose rewards are linear in d features and whose Slater's "
        "constant is δ, checked by the LP; the theorems' own schedules. Bounds are the mended forms (docs/bounds.md lists each slip of "
        f"the print). {T:,} rounds, {replications} runs each."
    )
    report.code(command)
    all_hold, ratios = True, []
    for algorithm, grid, shown in (("A", GRID_A, SHOWN_A), ("B", GRID_B, SHOWN_B)):
        report.subsection(TITLES[algorithm])
        K, delta, d = shown
        r = results[_label(algorithm, K, delta, d)]
        measured = [("regret", r.regret), ("violation", r.violation)]
        bounds = zip(("regret", "violation"), _bounds(algorithm, r.rounds, K, delta, d, T))
        report.figure(
            curve_figure(
                [NamedCurve.of(f"measured {name}", curve) for name, curve in measured]
                + [NamedCurve(f"{name} bound", r.rounds, bound, reference=True) for name, bound in bounds],
                xlabel="Round",
                ylabel="Regret (reward), violation (cost)",
                logx=True,
                logy=True,
            ),
            name=f"bounds-{algorithm.lower()}",
            alt=f"{TITLES[algorithm]}. Measured regret and violation far below their bounds, on log axes",
            caption=f"{TITLES[algorithm]}; K = {K} constraints, δ = {delta:g}, d = {d} features. On log axes values at or below 0 are not drawn.",
        )
        rows: list[list[Cell]] = []
        for K, delta, d in grid:
            r = results[_label(algorithm, K, delta, d)]
            regret_bound, violation_bound = _bounds(algorithm, r.rounds, K, delta, d, T)
            within = r.regret.low <= regret_bound, r.violation.low <= violation_bound + VIOLATION
            holds = bool(np.all(within))
            all_hold = all_hold and holds
            ratios.append(float(regret_bound[-1] / r.regret.mean[-1]))
            violation = r.violation.mean
            most, its_bound = float(violation.max()), float(violation_bound[np.argmax(violation)])
            row: list[Cell] = [
                f"{K}, {delta:g}, {d}",
                r.regret.at(),
                float(regret_bound[-1]),
                most,
                its_bound,
            ]
            rows.append([*row, float(violation[-1]), growth_exponent(r), "yes" if holds else "no"])
        violations = ["largest violation", "its bound", "violation at T"]
        report.table(
            ["K, δ, d", "regret at T", "its bound", *violations, "growth", "holds"],
            rows,
            caption=f"{TITLES[algorithm]}: measured and promised, T = {T:,}",
            note="Growth: slope of log regret against log round over the last decade of rounds. 0.5 is what the theorem "
            "promises for long runs; at these lengths the constants still rule. Holds: within both bounds at every recorded round.",
        )
    least, most = min(ratios), max(ratios)
    report.summary(
        f"**The theorems**: {'every' if all_hold else 'not every'} one of {len(ratios)} measured pairs of curves stays below its bounds; regret "
        f"at the end is {least:,.0f} to {most:,.0f} times smaller than promised."
    )
    report.callout(
        paper="Regret of order √τ and zero violation after a constant number of rounds.",
        measured=("Every" if all_hold else "Not every")
        + f" measured curve lies below its bounds at every recorded round; at T the regret is {least:,.0f} to {most:,.0f} times "
        "smaller than promised.",
        why="The constants (60K³/δ³ in the regret, 48K²/δ·log(16K/δ) + 24K²/δ² in the violation) are those of a worst-case proof. "
        "The bounds say that the order is right; they are no forecast.",
    )


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
