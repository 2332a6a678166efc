"""The league's files: the page with figures and tables, `summary.json`, `league.csv` and the runs themselves."""

from __future__ import annotations

import datetime
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.environments.tabular import seen_words
from tightrope.files import write_csv, write_json
from tightrope.report import Cell, NamedCurve, Panel, Report, panels_figure
from tightrope.result import Estimate
from tightrope.validation import VIOLATION
from tightrope_lab.league.archive import write_runs
from tightrope_lab.league.ranking import (
    CENTRE,
    KNOWS_ALL,
    MOST_ABOVE,
    SOFTENING,
    League,
    final_regret,
    over_runs,
    standing,
)
from tightrope_lab.league.scenarios import Scenario

_SHOWN = 6  # curves in a figure


def write_page(league: League, folder: str | os.PathLike[str]) -> Path:
    """Write `summary.json`, `league.csv`, the runs and the page `index.html` with its figures into `folder`; returns the page."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    write_runs(league, target)
    misfits = [asdict(one) for one in league.misfits]
    facts: list[dict[str, Any]] = []
    for name, one in league.scenarios.items():
        told = {"description": one.description, "optimum": league.optima[name]}
        facts.append({"scenario": name, **told, "slater": one.slater, "delay": one.delay})
    size = {"rounds": league.rounds, "replications": league.replications, "seed": league.seed}
    took = {"seconds": round(league.seconds, 1), "interrupted": league.interrupted, "command": league.command}
    found: dict[str, Any] = {
        "scenarios": facts,
        "scores": league.scores(),
        "rows": league.rows(),
        "outside": misfits,
        "left_out": dict(league.left_out),
    }
    write_json(target / "summary.json", {**size, **took, **found})
    rows = [{**row, "ran": True, "reasons": ""} for row in league.final_rows()]
    rows += [{**one, "ran": False, "reasons": "; ".join(one["reasons"])} for one in misfits]
    write_csv(target / "league.csv", rows)
    return _page(league).write(target, date=datetime.date.today().isoformat(), seed=league.seed)


def _page(league: League) -> Report:
    policies = len({one.policy for one in league.performances})
    report = Report(
        "The league",
        subtitle=f"Policies: {policies}. Scenarios: {len(league.scenarios)}. The same draws for all.",
    )
    scores = [one for one in league.scores() if one["policy"] not in KNOWS_ALL]
    # Who plays few scenarios may well keep them all.
    often = [one for one in scores if 2 * one["played"] >= len(league.scenarios)]
    report.template(
        "tightrope_lab.league/page.html",
        league=league,
        policies=policies,
        best=often[:3] or scores[:3],
        overview=_overview(league),
        by_policy=_by_policy(league),
        scenarios=[_scenario(league, one) for one in league.scenarios.values()],
        centre=CENTRE,
        most_above=f"{100 * MOST_ABOVE:.0f}",
        softening=f"{SOFTENING:.0f}",
    )
    return report


def _overview(league: League) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for scenario, one in zip(league.scenarios.values(), league.overview(), strict=True):
        kind = f"{scenario.env.n_constraints}, seen {seen_words(scenario.env.costs_seen)}"
        kind += f", {scenario.delay} rounds late" if scenario.delay else ""
        best = [", ".join(one["first"]) or "none", one["regret"]]
        ours = [one["ours"], _rounded(one["ratio"]), standing(one)]
        rows.append([f"[{scenario.name}](#{scenario.name})", kind, scenario.slater, *best, *ours])
    return rows


def _by_policy(league: League) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for one in league.scores():
        mine = [found for found in league.performances if found.policy == one["policy"]]
        n, safe = one["played"], sum(found.above.max() == 0.0 for found in mine)
        kept = [f"{one['kept']}\u00a0of\u00a0{n}", f"{safe}\u00a0of\u00a0{n}"]
        ratios = [_rounded(one[name]) for name in ("ratio", "ratio_worst", "ratio_played")]
        time = round(float(np.median([np.median(found.microseconds) for found in mine])))
        firsts = [float(one["first_or_tied"]), float(one["first"])]
        rows.append([one["policy"], *kept, *ratios, *firsts, time])
    return rows


def _scenario(league: League, scenario: Scenario) -> dict[str, Any]:
    performances = league.of(scenario.name)
    env = scenario.env
    able = [one for one in performances if one.policy not in KNOWS_ALL]
    chosen = [one for one in able if one.policy == CENTRE]
    chosen += [one for one in able if one not in chosen][: _SHOWN - len(chosen)]
    shown = [one for one in performances if one in chosen]
    curves = [NamedCurve.of(one.policy, one.result.regret) for one in shown]
    panels = [Panel(curves, "Round", "Regret (reward)")]
    if env.n_constraints and any(one.result.violation.mean.any() for one in shown):
        curves = [NamedCurve.of(one.policy, one.result.violation) for one in shown]
        panels.append(Panel(curves, "Round", "Expected violation (cost)"))
    earned, spent = _standings(league, scenario)
    return {
        "facts": scenario,
        "env": env,
        "seen": seen_words(env.costs_seen),
        "optimum": league.optima[scenario.name],
        "figure": panels_figure(panels) if performances else None,
        "ends": "; ".join(f"{one.policy} ends with regret {final_regret(one):.0f}" for one in shown),
        "earned": earned,
        "spent": spent,
        "outside": [
            [one.policy, "; ".join(one.reasons)] for one in league.misfits if one.scenario == scenario.name
        ],
    }


def _standings(league: League, scenario: Scenario) -> tuple[list[list[Cell]], list[list[Cell]]]:
    earned: list[list[Cell]] = []
    spent: list[list[Cell]] = []
    constrained = scenario.env.n_constraints > 0
    for one in league.of(scenario.name):
        place, gap, result = league.place(one), league.gap(one), one.result
        unplaced = "knows all" if one.policy in KNOWS_ALL else one.verdict
        difference = None if gap is None else _triple(over_runs(gap[:, -1]))
        time = round(float(np.median(one.microseconds)))
        regret, ratio = _triple(result.regret.at()), _rounded(league.ratio(one))
        totals = [float(one.rounds_above.mean()), result.last_violated().mean, one.worst_path]
        where = unplaced if place is None else f"{place}"
        tied = "" if place is None else ", ".join(place.tied_with)
        measured = totals if constrained else [time]
        earned.append([one.policy, where, regret, ratio, *measured, difference, tied])
        per_round, costly = _triple(over_runs(one.excess, least=0.0)), f"{float(one.above.mean()):.0%}"
        ends = [_triple(result.violation.at()), _triple(result.path_violation.at())]
        spent.append([one.policy, *ends, _triple(over_runs(one.peak, least=0.0)), per_round, costly, time])
    return earned, spent


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 2)


def _triple(found: Estimate) -> tuple[float, float, float]:
    # What is left of an exact 0 after a long sum is rounding.
    return tuple(0.0 if abs(one) < VIOLATION else one for one in found)  # type: ignore[return-value]
