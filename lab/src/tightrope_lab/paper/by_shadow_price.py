"""The paper's experiments once more, by the default policy with nothing set."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.environments import bandit, hospital
from tightrope.models import ArmMeans, DisjointRidge
from tightrope.oracle import check
from tightrope.policies import PessimisticOptimistic, ShadowPrice
from tightrope.report import Cell, NamedCurve, Panel, panels_figure
from tightrope.result import Result
from tightrope.schedules import Power
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


def tell(runs: Runs) -> dict[str, Any]:
    """What `by_shadow_price.html` shows."""
    label = "hospital: "
    arms = {name: one for name, one in runs.results.items() if not name.startswith(label)}
    wards = {name.removeprefix(label): one for name, one in runs.results.items() if name.startswith(label)}
    first = wards[OURS]
    ours = {f"Four arms, threshold {one:g}: {OURS}": arms[_label(one, OURS)] for one in THRESHOLDS}
    panels = []
    for threshold in THRESHOLDS:
        curves = [NamedCurve.of(words, arms[_label(threshold, words)].regret) for words in (OURS, PAPERS)]
        panels.append(Panel(curves, "Round", f"Regret (reward), threshold {threshold:g}"))
    regret = [NamedCurve.of(name, one.regret) for name, one in wards.items()]
    violation = [NamedCurve.of(name, one.violation) for name, one in wards.items()]
    in_wards = [
        Panel(regret, "Round", "Regret (successes)"),
        Panel(violation, "Round", "Expected violation (patients)", logx=True),
    ]
    return {
        "ours": {**ours, f"Inpatient routing: {OURS}": first},
        "arms_figure": panels_figure(panels, height=260.0),
        "arms": [_row(name, result) for name, result in arms.items()],
        "wards_figure": panels_figure(in_wards, height=260.0),
        "wards_replications": first.n_replications,
        "wards": [
            [f"{at:,}, {name}", one.regret.at(at), one.violation.at(at), one.violated_share.at(at)]
            for at in _horizons(first.n_rounds)
            for name, one in wards.items()
        ],
        "ends": {name: (one.regret.at().mean, one.last_violated().mean) for name, one in wards.items()},
    }


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
