"""The league's files: the page with figures and tables, `summary.json` and `league.csv`."""

from __future__ import annotations

import datetime
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tightrope.environments.scenarios import Scenario
from tightrope.files import write_csv, write_json
from tightrope.report import Cell, NamedCurve, Panel, Report, panels_figure
from tightrope.result import Estimate
from tightrope.studies.league.ranking import CENTRE, KNOWS_ALL, League, final_regret, over_runs, standing
from tightrope.validation import VIOLATION

_SHOWN = 6  # curves in a figure


def write_page(league: League, folder: str | os.PathLike[str]) -> Path:
    """Write `summary.json`, `league.csv` and the page `index.html` with its figures into `folder`; returns the page."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    misfits = [asdict(one) for one in league.misfits]
    facts = [
        {
            "scenario": name,
            "description": one.description,
            "optimum": league.optima[name],
            "slater": one.slater,
        }
        for name, one in league.scenarios.items()
    ]
    size = {"rounds": league.rounds, "replications": league.replications, "seed": league.seed}
    took = {"seconds": round(league.seconds, 1), "interrupted": league.interrupted, "command": league.command}
    found = {"scenarios": facts, "rows": league.rows(), "outside": misfits, "left_out": dict(league.left_out)}
    write_json(target / "summary.json", {**size, **took, **found})
    rows = [{**row, "ran": True, "reasons": ""} for row in league.final_rows()]
    rows += [{**one, "ran": False, "reasons": "; ".join(one["reasons"])} for one in misfits]
    write_csv(target / "league.csv", rows)
    return _page(league).write(target, date=datetime.date.today().isoformat(), seed=league.seed)


def _page(league: League) -> Report:
    report = Report(
        "The league",
        subtitle=f"Policies: {len({one.policy for one in league.performances})}. Scenarios: {len(league.scenarios)}. The same draws for all.",
    )
    report.text(
        f"Every policy ran in every scenario of its setting: {league.rounds:,} rounds, {league.replications} runs each, "
        f"{league.seconds:,.0f} s in all. Policies outside their assumptions were not run; each scenario lists them with the reasons. "
        "All brackets are 95 % intervals."
    )
    if league.command:
        report.code(league.command)
    if league.interrupted:
        report.text("**The league was interrupted**: what follows is what was finished.")
    for name, reason in league.left_out.items():
        report.text(f"**{name} is left out**: {reason}.")
    _overview(report, league)
    _by_policy(report, league)
    report.section("How it is measured")
    report.bullets(
        [
            "**Regret**: rounds times the optimum of the linear program, less the mean rewards earned; where means change with the round, "
            "the optimum of each moment, added up. It may be negative for who breaks the constraints.",
            f"**Against {CENTRE}**: regret less that policy's, run by run on the same draws; negative is better.",
            "**Expected violation**: Σ_{k} (E S_{k})^{+}, with S_{k} the cumulative cost at the end, its noise averaged out. A policy "
            "*keeps* the constraints if the interval reaches down to 0, or if no run at all ended in violation.",
            "**Path violation**: Σ_{k} (S_{k})^{+} within a run, averaged over runs.",
            "**Violation per round**: the average over rounds of Σ_{k} (w_{k})^{+}, with w the mean costs, given the context, of the "
            "mixture that was played (of the action, where a policy tells no mixture). **Rounds**: the share of rounds in which some "
            "w_{k} > 0. Policies for cumulative constraints promise nothing here; where capacities and shares are among the rules, no "
            "single action can be free of it.",
            "**Last violated round**: the last one in which any cumulative cost was above 0, averaged over runs.",
            "**Time**: median of one decision with its learning, on one core of this machine.",
        ]
    )
    for scenario in league.scenarios.values():
        _scenario(report, league, scenario)
    return report


def _overview(report: Report, league: League) -> None:
    report.section("Who wins")
    rows: list[list[Cell]] = []
    for scenario, one in zip(league.scenarios.values(), league.overview(), strict=True):
        name = f"[{scenario.name}](#{scenario.name})"
        kind = f"{scenario.env.n_constraints}, seen {scenario.env.costs_seen}"
        best = [one["best"] or "none", one["regret"], one["violation"]]
        rows.append([name, kind, scenario.slater, *best, one["ours"], standing(one)])
    winner = ["lowest regret of those that keep them", "its regret", "its violation"]
    report.table(
        ["scenario", "constraints", "δ", *winner, "ours", "our place"],
        rows,
        caption=f"The best by scenario; ours is {CENTRE}",
        note="δ is Slater's constant. The oracle, which knows all means, takes no place. To keep the constraints means that no violation "
        "is *shown*: a small one may hide in few runs. Regrets of neighbours may differ by less than their intervals: see the tables "
        "below.",
    )


def _by_policy(report: Report, league: League) -> None:
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(one.policy for one in league.performances):
        mine = [one for one in league.performances if one.policy == name]
        n, kept, safe = len(mine), sum(one.kept for one in mine), sum(one.above.max() == 0.0 for one in mine)
        first = sum(league.place(one) == 1 for one in mine)
        time = round(float(np.median([np.median(one.microseconds) for one in mine])))
        rows.append([name, float(n), f"{kept} of {n}", f"{safe} of {n}", float(first), time])
    report.table(
        ["policy", "scenarios", "kept at the end", "kept in every round", "first places", "µs a decision"],
        rows,
        caption="The policies over all scenarios of their setting",
        note="Kept in every round: no round of any run had a mixture whose mean cost was above 0.",
    )


def _scenario(report: Report, league: League, scenario: Scenario) -> None:
    performances = league.of(scenario.name)
    report.section(scenario.name)
    report.text(scenario.description)
    env = scenario.env
    report.text(
        f"Contexts: {env.n_contexts}. Actions: {env.n_actions}. Constraints: {env.n_constraints}, seen {env.costs_seen} acting. Optimum: "
        f"{league.optima[scenario.name]:.4f} a round. Slater's constant: {scenario.slater:.4g}."
    )
    if performances:
        able = [one for one in performances if one.policy not in KNOWS_ALL]
        chosen = [one for one in able if one.policy == CENTRE]
        chosen += [one for one in able if one not in chosen][: _SHOWN - len(chosen)]
        shown = [one for one in performances if one in chosen]
        curves = [NamedCurve.of(one.policy, one.result.regret) for one in shown]
        panels = [Panel(curves, "Round", "Regret (reward)")]
        if env.n_constraints and any(one.result.violation.mean.any() for one in shown):
            curves = [NamedCurve.of(one.policy, one.result.violation) for one in shown]
            panels.append(Panel(curves, "Round", "Expected violation (cost)"))
        report.figure(
            panels_figure(panels),
            name=scenario.name,
            alt=f"Regret and violation on {scenario.name}: "
            + "; ".join(f"{one.policy} ends with regret {final_regret(one):.0f}" for one in shown),
            caption=f"{scenario.name}: {CENTRE} and the best of the others; bands are 95 % intervals of the mean.",
        )
        _standings(report, league, scenario)
    outside = [one for one in league.misfits if one.scenario == scenario.name]
    if outside:
        report.table(
            ["not run", "because"],
            [[one.policy, "; ".join(one.reasons)] for one in outside],
            caption=f"Outside their assumptions on {scenario.name}",
        )


def _standings(report: Report, league: League, scenario: Scenario) -> None:
    earned: list[list[Cell]] = []
    spent: list[list[Cell]] = []
    for one in league.of(scenario.name):
        place, gap, result = league.place(one), league.gap(one), one.result
        unplaced = "knows all" if one.policy in KNOWS_ALL else "violates"
        difference = None if gap is None else _triple(over_runs(gap[:, -1]))
        time = round(float(np.median(one.microseconds)))
        regret = _triple(result.regret.at())
        earned.append([one.policy, unplaced if place is None else f"{place}", regret, difference, time])
        per_round, above = _triple(over_runs(one.excess, least=0.0)), f"{float(one.above.mean()):.0%}"
        ends = [_triple(result.violation.at()), _triple(result.path_violation.at())]
        spent.append([one.policy, *ends, per_round, above, _triple(result.last_violated().estimate)])
    head = ["policy", "place", "regret", f"against {CENTRE}", "µs a decision"]
    report.table(head, earned, caption=f"Standings on {scenario.name}")
    if scenario.env.n_constraints:
        head = ["policy", "expected violation", "path violation", "violation per round", "rounds"]
        head.append("last violated round")
        report.table(head, spent, caption=f"Constraints on {scenario.name}")


def _triple(found: Estimate) -> tuple[float, float, float]:
    # What is left of an exact 0 after a long sum is rounding.
    return tuple(0.0 if abs(one) < VIOLATION else one for one in found)  # type: ignore[return-value]
