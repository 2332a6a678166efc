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
    facts = [
        {
            "scenario": name,
            "description": one.description,
            "optimum": league.optima[name],
            "slater": one.slater,
            "delay": one.delay,
        }
        for name, one in league.scenarios.items()
    ]
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
    report.words("round", "run", "optimum", "regret", "cost", "total", "violation", "last violated", "slater")
    _summarise(report, league)
    _overview(report, league)
    _by_policy(report, league)
    report.section("How it is measured")
    report.bullets(
        [
            "**Regret**: rounds times the optimum of the linear program, less the mean rewards earned; where means change with the round, "
            "the optimum of each moment, added up. It may be negative for who breaks the constraints.",
            f"**Against {CENTRE}**: regret less that policy's, run by run on the same draws; negative is better.",
            "**Place**: one more than the number of policies that are shown to have less regret, of those that keep the constraints and do "
            "not know the truth; = where several share it. Two are **tied** if the interval of the difference in their regrets, run by "
            "run on the same draws, includes 0.",
            "**Expected violation**: Σ_{k} (E S_{k})^{+}, with S_{k} the cumulative cost at the end, its noise averaged out. A policy "
            "*keeps* the constraints if the interval reaches down to 0, or if no run at all ended in violation, and if at most "
            f"{100 * MOST_ABOVE:.0f} % of the rounds, on average over runs, had some total above 0.",
            "**Rounds above zero**: rounds with some S_{k} > 0, with costs as drawn, averaged over runs. **Last violated round**: the "
            "last of them, averaged over runs.",
            "**Path violation**: Σ_{k} (S_{k})^{+} at the end of a run, averaged over runs. **Worst path**: the most that it came to in "
            "any round of any run.",
            f"**Ratio**: (regret + {SOFTENING:.0f}) / (regret of the best + {SOFTENING:.0f}), where the best is the one with the lowest "
            "regret of all that keep the constraints and do not know the truth; regrets below 0 count as 0. The "
            f"{SOFTENING:.0f} keep differences of a few rewards, which are chance, from counting.",
            "**Violation per round**: the average over rounds of Σ_{k} (w_{k})^{+}, with w the mean costs, given the context, of the "
            "mixture that was played (of the action, where a policy tells no mixture). **Rounds that cost**: the share of rounds in which "
            "some w_{k} > 0. Policies for cumulative constraints promise nothing here; where capacities and shares are among the rules, no "
            "single action can be free of it.",
            "**Time**: median of one decision with its learning, on one core of this machine.",
        ]
    )
    for scenario in league.scenarios.values():
        _scenario(report, league, scenario)
    return report


def _summarise(report: Report, league: League) -> None:
    """What was run, who kept the rules, who earned most among them."""
    every = [one for one in league.scores() if one["policy"] not in KNOWS_ALL]
    # Who plays few scenarios may well keep them all.
    scores = [one for one in every if 2 * one["played"] >= len(league.scenarios)][:3] or every[:3]
    report.summary(
        f"{len({one.policy for one in league.performances})} policies in {len(league.scenarios)} scenarios, {league.rounds:,} rounds and "
        f"{league.replications} runs each, wherever a policy's assumptions hold."
    )
    for one in scores:
        beyond = (
            ""
            if one["ratio"] is None
            else f" There its regret is {one['ratio']:.2f} times that of the best, on average."
        )
        report.summary(
            f"**{one['policy']}** kept the rules in {one['kept']} of {one['played']} scenarios, and was first or tied for first in "
            f"{one['first_or_tied']}.{beyond}"
        )


def _overview(report: Report, league: League) -> None:
    report.section("Who wins")
    rows: list[list[Cell]] = []
    for scenario, one in zip(league.scenarios.values(), league.overview(), strict=True):
        name = f"[{scenario.name}](#{scenario.name})"
        kind = f"{scenario.env.n_constraints}, seen {seen_words(scenario.env.costs_seen)}"
        kind += f", {scenario.delay} rounds late" if scenario.delay else ""
        best = [", ".join(one["first"]) or "none", one["regret"]]
        rows.append([name, kind, scenario.slater, *best, one["ours"], _rounded(one["ratio"]), standing(one)])
    winner = ["first or tied, of those that keep them", "lowest regret"]
    report.table(
        ["scenario", "constraints", "δ", *winner, "ours", "our ratio", "our place"],
        rows,
        caption=f"The best by scenario; ours is {CENTRE}",
        note="δ is Slater's constant. The oracle, which knows all means, takes no place. To keep the constraints means that no violation "
        f"at the end is *shown*, where a small one may hide in few runs, and that at most {100 * MOST_ABOVE:.0f} % of the rounds had a total "
        "above zero. First or tied: nobody is shown to have less regret. What a ratio is, and all else that is measured, is told "
        "[further down](#how-it-is-measured).",
    )


def _by_policy(report: Report, league: League) -> None:
    rows: list[list[Cell]] = []
    for one in league.scores():
        mine = [found for found in league.performances if found.policy == one["policy"]]
        n, safe = one["played"], sum(found.above.max() == 0.0 for found in mine)
        kept = [f"{one['kept']}\u00a0of\u00a0{n}", f"{safe}\u00a0of\u00a0{n}"]
        ratios = [_rounded(one[name]) for name in ("ratio", "ratio_worst", "ratio_played")]
        time = round(float(np.median([np.median(found.microseconds) for found in mine])))
        firsts = [float(one["first_or_tied"]), float(one["first"])]
        rows.append([one["policy"], *kept, *ratios, *firsts, time])
    head = ["policy", "kept", "in every round", "mean ratio where kept", "worst", "mean ratio of all"]
    report.table(
        [*head, "first or tied", "first alone", "µs a decision"],
        rows,
        caption="The policies over all scenarios of their setting",
        note="In every round: no round of any run had a mixture whose mean cost was above 0. The mean ratio of all scenarios also "
        "counts those whose constraints were not kept, and where rules are broken regret is easily low.",
    )


def _scenario(report: Report, league: League, scenario: Scenario) -> None:
    performances = league.of(scenario.name)
    report.section(scenario.name)
    report.text(scenario.description)
    env = scenario.env
    report.text(
        f"Contexts: {env.n_contexts}. Actions: {env.n_actions}. Constraints: {env.n_constraints}, seen {seen_words(env.costs_seen)} acting. Optimum: "
        f"{league.optima[scenario.name]:.4f} a round. Slater's constant: {scenario.slater:.4g}."
    )
    if scenario.delay:
        report.text(f"Outcomes come {scenario.delay} rounds late.")
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
        earned.append(
            [one.policy, where, regret, ratio, *(totals if constrained else [time]), difference, tied]
        )
        per_round, costly = _triple(over_runs(one.excess, least=0.0)), f"{float(one.above.mean()):.0%}"
        ends = [_triple(result.violation.at()), _triple(result.path_violation.at())]
        spent.append([one.policy, *ends, _triple(over_runs(one.peak, least=0.0)), per_round, costly, time])
    head = ["policy", "place", "regret", "ratio"]
    head += ["rounds above zero", "last violated round", "worst path"] if constrained else ["µs a decision"]
    report.table([*head, f"against {CENTRE}", "tied with"], earned, caption=f"Standings on {scenario.name}")
    if constrained:
        head = ["policy", "expected violation", "path violation", "its most in a run", "violation per round"]
        head += ["rounds that cost", "µs a decision"]
        report.table(head, spent, caption=f"Constraints on {scenario.name}")


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 2)


def _triple(found: Estimate) -> tuple[float, float, float]:
    # What is left of an exact 0 after a long sum is rounding.
    return tuple(0.0 if abs(one) < VIOLATION else one for one in found)  # type: ignore[return-value]
