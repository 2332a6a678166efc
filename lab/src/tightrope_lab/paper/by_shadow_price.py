"""The paper's experiments once more, by the default policy with nothing set."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.environments import bandit, hospital
from tightrope.models import ArmMeans, DisjointRidge
from tightrope.oracle import check
from tightrope.policies import PessimisticOptimistic, ShadowPrice
from tightrope.report import Cell, NamedCurve, Panel, Report, panels_figure
from tightrope.result import Result
from tightrope.schedules import Power
from tightrope.simulation.page import told
from tightrope_lab.paper.runs import Runs

ROUNDS, REPLICATIONS = 10_000, 200
HOSPITAL_ROUNDS, HOSPITAL_REPLICATIONS = 62_500, 50
HORIZONS = (2_500, 10_000, 22_500, 40_000, 62_500)
THRESHOLDS = (0.5, 0.1)
BONUSES = {"bonus 1": 1.0, "bonus 0.1": 0.1}
OURS, PAPERS = "ShadowPrice, nothing set", "the paper's policy and schedules"


def run(runs: Runs) -> None:
    """Four arms at both thresholds, and the hospital; the paper's policy with the paper's settings on the same draws."""
    rounds, replications = runs.size.rounds or ROUNDS, runs.size.replications or REPLICATIONS
    for threshold in THRESHOLDS:
        env, ends = bandit(threshold=threshold, costs_seen="after"), (-threshold, 1.0 - threshold)
        arms = ArmMeans(4)
        ours = ShadowPrice(reward=arms, cost=arms, constraints=1, cost_range=ends)
        runs.add(_label(threshold, OURS), ours, env, rounds, replications)
        schedules: dict[str, Any] = {"V": Power(1.0, 0.5), "epsilon": Power(6.0, -0.5)}
        theirs = PessimisticOptimistic(reward=arms, cost=arms, constraints=1, cost_range=ends, **schedules)
        runs.add(_label(threshold, PAPERS), theirs, env, rounds, replications)
    env = hospital()
    T, replications = runs.size.rounds or HOSPITAL_ROUNDS, runs.size.replications or HOSPITAL_REPLICATIONS
    J, p, m = env.n_actions, env.n_features, check(env).m
    ours = ShadowPrice(reward=DisjointRidge(J, p), constraints=env.n_constraints)
    runs.add(f"hospital: {OURS}", ours, env, T, replications, record=_recorded(T))
    for name, bonus in BONUSES.items():
        model = DisjointRidge(J, p, bonus=bonus, m=m)
        stated: dict[str, Any] = {"V": Power(4.0, 0.5), "epsilon": Power(1.0, -0.5)}
        theirs = PessimisticOptimistic(reward=model, constraints=env.n_constraints, horizon=T, **stated)
        runs.add(f"hospital: {PAPERS}, {name}", theirs, env, T, replications, record=_recorded(T))


def tell(runs: Runs, report: Report) -> None:
    """The section of the report."""
    rounds, replications, command = runs.done()
    report.section("The same experiments by ShadowPrice")
    report.text(
        "`ShadowPrice` is what Tightrope decides by unless it is told otherwise. Its prices come from the dual of the allocation program on "
        "remembered rounds, are corrected by the running totals, and it explores by posterior sampling; no horizon, Slater's constant, "
        "radius or schedule is set. It has no theorem like the paper's: what follows is measured, on the same draws."
    )
    report.code(command)
    told_of = {_label(one, OURS): f"Four arms, threshold {one:g}: {OURS}" for one in THRESHOLDS}
    told_of[f"hospital: {OURS}"] = f"Inpatient routing: {OURS}"
    report.summary(*(told(words, runs.results[label]) for label, words in told_of.items()))
    report.subsection("Four arms")
    shown = {name: result for name, result in runs.results.items() if not name.startswith("hospital")}
    panels = []
    for threshold in THRESHOLDS:
        curves = [NamedCurve.of(words, shown[_label(threshold, words)].regret) for words in (OURS, PAPERS)]
        panels.append(Panel(curves, "Round", f"Regret (reward), threshold {threshold:g}"))
    report.figure(
        panels_figure(panels, height=260.0),
        name="shadow-price-mab",
        alt="Regret of ShadowPrice and of the paper's policy on the four arms, at thresholds 0.5 and 0.1",
        caption="Regret on the four arms, cost seen after acting; bands are 95 % intervals of the mean.",
    )
    report.table(
        ["threshold and policy", "regret", "violation", "paths in violation", "last violated"],
        [_row(name, result) for name, result in shown.items()],
        caption=f"Four arms, cost seen after acting, T = {rounds:,}, {replications} runs",
    )
    report.subsection("Inpatient routing")
    wards = {
        name.removeprefix("hospital: "): one
        for name, one in runs.results.items()
        if name.startswith("hospital")
    }
    first = next(iter(wards.values()))
    report.figure(
        panels_figure(
            [
                Panel(
                    [NamedCurve.of(name, one.regret) for name, one in wards.items()],
                    "Round",
                    "Regret (successes)",
                ),
                Panel(
                    [NamedCurve.of(name, one.violation) for name, one in wards.items()],
                    "Round",
                    "Expected violation (patients)",
                    logx=True,
                ),
            ],
            height=260.0,
        ),
        name="shadow-price-hospital",
        alt="Regret and expected violation in the hospital for ShadowPrice and the paper's policy with two radii",
        caption=f"The hospital with 18 rules, {first.n_replications} runs.",
    )
    rows: list[list[Cell]] = []
    for at in _horizons(first.n_rounds):
        for name, one in wards.items():
            rows.append(
                [f"{at:,}, {name}", one.regret.at(at), one.violation.at(at), one.violated_share.at(at)]
            )
    report.table(
        ["round and policy", "regret", "violation", "paths in violation"],
        rows,
        caption="The hospital after as many rounds as the paper's horizons",
        note="One run each of the longest horizon, looked at on the way: ShadowPrice has no horizon; the paper's policy is told the longest.",
    )
    last = {name: one.last_violated() for name, one in wards.items()}
    report.callout(
        paper="Low regret and zero violation, with schedules that are set for the problem.",
        measured="; ".join(
            f"{name}: regret {one.regret.at().mean:,.0f}, last violated round {last[name].mean:.0f} on average"
            for name, one in wards.items()
        )
        + ".",
        why="A queue has to climb to its price by violating its rule, and the tightening ε pays for the climb; a price from the dual of "
        "the remembered rounds is there at once, and what is left is the error of the estimates.",
    )


def _row(name: str, result: Result) -> list[Cell]:
    last = float(result.last_violation.max(axis=1).mean())
    return [name, result.regret.at(), result.violation.at(), result.violated_share.at(), last]


def _horizons(rounds: int) -> list[int]:
    return [T for T in HORIZONS if rounds >= T] or [rounds]


def _recorded(rounds: int) -> list[int]:
    """Evenly spread on a logarithmic axis and on a plain one, and the paper's horizons."""
    spread = [*np.geomspace(1, rounds, 60), *np.linspace(1, rounds, 60)]
    return sorted({*(int(one) for one in spread), *_horizons(rounds)})


def _label(threshold: float, words: str) -> str:
    return f"threshold {threshold:g}: {words}"
