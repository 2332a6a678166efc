"""Inpatient routing: six wards, 18 constraints, the paper's settings on calibrated public data."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope import lp
from tightrope.environments import hospital
from tightrope.environments.tabular import Tabular
from tightrope.models import DisjointRidge
from tightrope.oracle import check, solve
from tightrope.policies import PessimisticOptimistic, Policy, RoundRobin
from tightrope.report import Cell, NamedCurve, Panel, panels_figure
from tightrope.report.bars import bars_figure, last_violation_figure
from tightrope.result import Result
from tightrope.schedules import Power
from tightrope.validation import VIOLATION, Array
from tightrope_lab.paper.runs import Runs

HORIZONS = (2_500, 10_000, 22_500, 40_000, 62_500)
TRAJECTORY = 10_000
REPLICATIONS = 100
# Constraints by kind, in the order of the environment; last violated rounds printed by the paper.
KINDS = {"capacity": range(6), "fairness": range(6, 12), "resource": range(12, 18)}
PAPER_LAST = {"capacity": 32.0, "fairness": 50.0, "resource": 54.0}
POLICIES = ("bonus 1", "bonus 0.1", "round-robin")
NAMES = {
    "bonus 1": "the paper's radius (bonus 1)",
    "bonus 0.1": "a tenth of the radius (bonus 0.1)",
    "round-robin": "round-robin, learns nothing",
}


def run(runs: Runs) -> None:
    """Five horizons by three policies; the trajectory at T = 10,000 is one of them."""
    replications = runs.size.replications or REPLICATIONS
    env = hospital()
    shares = balanced_shares(env)
    m = check(env).m
    for T in horizons(runs):
        for name in POLICIES:
            policy: Policy
            if name == "round-robin":
                policy = RoundRobin(env.n_actions, shares=shares)
            else:
                model = DisjointRidge(env.n_actions, env.n_features, bonus=float(name.split()[1]), m=m)
                stated: dict[str, Any] = {"V": Power(4.0, 0.5), "epsilon": Power(1.0, -0.5), "horizon": T}
                policy = PessimisticOptimistic(reward=model, constraints=env.n_constraints, **stated)
            runs.add(_label(T, name), policy, env, T, replications)


def horizons(runs: Runs) -> list[int]:
    """The paper's, as far as `rounds` allows."""
    most = runs.size.rounds or HORIZONS[-1]
    return [T for T in HORIZONS if most >= T] or [most]


def balanced_shares(env: Tabular) -> Array:
    """The shares, the same in every context, that stay furthest from every limit: what Slater's constant is measured at."""
    mean_costs = np.einsum("c,cjk->jk", env.weights, env.costs)
    return np.asarray(lp.slater(np.ones(1), mean_costs[None]).x).reshape(-1)


def tell(runs: Runs) -> dict[str, Any]:
    """What `hospital.html` shows."""
    results, env = runs.results, hospital()
    Ts = horizons(runs)
    trajectory = TRAJECTORY if TRAJECTORY in Ts else Ts[-1]
    on_the_way = {name: results[_label(trajectory, name)] for name in POLICIES}
    measures = {"regret": "Regret (successes)", "violation": "Expected violation (patients)"}
    ends = [
        Panel([_over_horizons(results, Ts, name, what) for name in POLICIES], "Horizon T", label)
        for what, label in measures.items()
    ]
    papers = {T: results[_label(T, "bonus 1")] for T in Ts}
    at_the_end = {NAMES[name]: results[_label(Ts[-1], name)] for name in POLICIES}
    series = {name: result.shares.mean[-1] for name, result in at_the_end.items()}
    series["LP optimum"] = env.weights @ solve(env).policy
    rules = env.costs[0]
    limits = {"at least": [rules[(j + 1) % 6, 6 + j] for j in range(6)]}
    limits["at most"] = [-rules[(j + 1) % 6, j] for j in range(6)]
    last = {kind: on_the_way["bonus 1"].last_violated(ks).values for kind, ks in KINDS.items()}
    return {
        "horizons": Ts,
        "at_the_end": at_the_end,
        "ends_figure": panels_figure(ends),
        "ends": [_final_row(T, name, results[_label(T, name)]) for T in Ts for name in POLICIES],
        "zero": all(one.violation.mean[-1] <= 0.0 for one in papers.values()),
        "regrets": {T: one.regret.at().mean for T, one in papers.items()},
        "trajectory": trajectory,
        "trajectory_figure": panels_figure([_by_kind(*one) for one in on_the_way.items()], height=260.0),
        "last": [row for one in on_the_way.items() for row in _last_rows(*one)],
        "last_figure": last_violation_figure(last, references=PAPER_LAST),
        "settled": {
            who: {kind: on_the_way[name].last_violated(ks).mean for kind, ks in KINDS.items()}
            for who, name in (("papers", "bonus 1"), ("round_robin", "round-robin"))
        },
        "shares_figure": bars_figure(list(env.actions), series, xlabel="Share of patients", marks=limits),
    }


def _by_kind(name: str, r: Result) -> Panel:
    curves = [
        NamedCurve(kind, r.rounds, np.maximum(r.mean_cost[:, :, list(ks)].mean(axis=0), 0.0).sum(axis=1))
        for kind, ks in KINDS.items()
    ]
    return Panel(curves, "Round", f"Expected violation, {NAMES[name]} (patients)", logx=True)


def _last_rows(name: str, r: Result) -> list[list[Cell]]:
    found = {kind: r.last_violated(ks) for kind, ks in KINDS.items()}
    return [
        [f"{NAMES[name]}, {kind}", when.estimate, float(when.max), PAPER_LAST[kind]]
        for kind, when in found.items()
    ]


def _final_row(T: int, name: str, result: Result) -> list[Cell]:
    share = float((result.cost[:, -1] > VIOLATION).any(axis=1).mean())
    success = float(result.reward[:, -1].mean() / T)
    return [f"{T:,}, {NAMES[name]}", result.regret.at(), result.violation.at(), share, success]


def _over_horizons(results: dict[str, Result], Ts: list[int], name: str, what: str) -> NamedCurve:
    ends = np.array([getattr(results[_label(T, name)], what).at() for T in Ts])
    return NamedCurve(NAMES[name], Ts, ends[:, 0], ends[:, 1], ends[:, 2])


def _label(T: int, name: str) -> str:
    return f"T = {T}: {name}"
