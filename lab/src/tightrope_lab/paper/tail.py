"""The corollary: the share of sample paths that are in violation at round τ."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.environments import bandit
from tightrope.models import ArmMeans
from tightrope.policies import PessimisticOptimistic
from tightrope.report import Cell, NamedCurve, curve_figure
from tightrope_lab import theory
from tightrope_lab.paper.runs import Runs

ROUNDS, REPLICATIONS = 50_000, 1_000
CASES = {"δ = 0.1": 0.1, "δ = 0.5": 0.5}


def run(runs: Runs) -> None:
    """Bernoulli costs seen before acting, theory's schedules, many runs."""
    T, replications = runs.size.rounds or ROUNDS, runs.size.replications or REPLICATIONS
    for label, delta in CASES.items():
        policy = PessimisticOptimistic(reward=ArmMeans(4), constraints=1, slater=delta, horizon=T)
        runs.add(label, policy, bandit(threshold=delta, costs_seen="before"), T, replications)


def tell(runs: Runs) -> dict[str, Any]:
    """What `tail.html` shows."""
    results = runs.results
    first = next(iter(results.values()))
    curves = [NamedCurve.of(label, r.violated_share) for label, r in results.items()]
    bound = theory.tail_bound(first.rounds, K=1, delta=0.5)
    words = "corollary, δ = 0.5 (1 where it says nothing)"
    curves.append(NamedCurve(words, first.rounds, bound, reference=True))
    rows: list[list[Cell]] = []
    for label, r in results.items():
        median, largest = float(np.median(r.last_violation.max(axis=1))), float(r.last_violation.max())
        starts = float(theory.tail_starts(K=1, delta=CASES[label]))
        rows.append([label, median, largest, starts, r.violated_share.at()])
    return {
        "figure": curve_figure(curves, xlabel="Round", ylabel="Share of runs in violation", logx=True),
        "rows": rows,
        "ends": {label: int(r.last_violation.max()) for label, r in results.items()},
    }
