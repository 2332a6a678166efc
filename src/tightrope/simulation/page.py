"""The page of a simulation: who earned what of the optimum, which rules held when, what was chosen."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tightrope.concerns import in_runs
from tightrope.report import Cell, NamedCurve, Panel, Report, panels_figure
from tightrope.result import Result
from tightrope.rules import Column, Units
from tightrope.simulation.sentences import told
from tightrope.spec import Spec

_SHOWN = 6  # curves in a panel


def write_page(spec: Spec, results: Sequence[Result], folder: Path) -> Path:
    """Write `index.html` and its figure into `folder`; returns the path of the page."""
    by_name = {result.policy: result for result in results}
    first = results[0]
    size = f"{first.n_rounds:,} rounds, {first.n_replications:,} {'run' if first.n_replications == 1 else 'runs'} of each policy"
    report = Report(
        f"Simulation of {spec.name}",
        subtitle=f"{first.scenario}: {size} on the same draws, seed {first.seed}",
    )
    known = first.optimum is not None
    report.words(
        *("round", "run", "cost", "total", "violation", "last violated"),
        *(("optimum", "regret") if known else ()),
    )
    report.summary(
        f"In {first.scenario} {'one policy' if len(results) == 1 else f'{len(results)} policies'} made {first.n_rounds:,} decisions in "
        f"each of {first.n_replications:,} {'run' if first.n_replications == 1 else 'runs'}, among {len(first.actions)} actions and under "
        f"{len(first.constraints)} {'rule' if len(first.constraints) == 1 else 'rules'}.",
        *(told(name, result) for name, result in by_name.items()),
    )
    if any(result.interrupted for result in results):
        report.summary("**The simulation was interrupted**: this is what was finished.")
    _rewards(report, by_name)
    if first.constraints:
        _rules(report, spec, by_name)
    _actions(report, by_name)
    concerns = [
        f"{name}: {in_runs(one, run.n_replications)}" for name, run in by_name.items() for one in run.concerns
    ]
    if concerns:
        report.section("What policies could not do")
        report.bullets(concerns)
    return report.write(folder, date=datetime.date.today().isoformat(), seed=first.seed)


def _rewards(report: Report, results: Mapping[str, Result]) -> None:
    report.section("What was earned")
    shown = dict(list(results.items())[:_SHOWN])
    known = all(result.optimum is not None for result in shown.values())
    panels = [
        Panel([NamedCurve.of(name, run.regret) for name, run in shown.items()], "Round", "Regret (reward)")
        if known
        else Panel(
            [NamedCurve.of(name, run.average_reward) for name, run in shown.items()],
            "Round",
            "Reward a round",
        )
    ]
    if any(run.constraints for run in shown.values()):
        curves = [NamedCurve.of(name, run.violation) for name, run in shown.items()]
        panels.append(Panel(curves, "Round", "Expected violation (cost)"))
    ends = "; ".join(f"{curve.name} ends at {np.asarray(curve.y)[-1]:.4g}" for curve in panels[0].curves)
    report.figure(
        panels_figure(panels),
        name="simulation",
        alt=f"{', '.join(panel.ylabel for panel in panels)} against the round. {ends}",
        caption="Bands are 95 % intervals of the mean over runs.",
    )
    rows: list[list[Cell]] = []
    for name, run in results.items():
        regret = run.regret.at() if run.optimum is not None else None
        last = run.last_violated()
        rules: list[Cell] = (
            [run.violation.at(), last.estimate, run.violated_share.at()] if run.constraints else []
        )
        rows.append([name, run.average_reward.at(), regret, *rules])
    head = ["expected violation", "last violated round", "runs with a rule broken at the end"]
    report.table(
        [
            "policy",
            "reward a round",
            "regret",
            *(head if any(run.constraints for run in results.values()) else []),
        ],
        rows,
        caption="At the last round",
        note="Brackets are 95 % intervals over runs.",
    )


def _rules(report: Report, spec: Spec, results: Mapping[str, Result]) -> None:
    report.section("Which rules held when")
    first = next(iter(results.values()))
    columns = spec.rules.columns if spec.rules is not None and spec.rules.names == first.constraints else None
    for name, run in results.items():
        rows: list[list[Cell]] = []
        used = Units.of(None if columns is None else spec.rules, len(run.constraints)).totals(
            run.cost[:, -1].mean(axis=0)
        )
        for k, constraint in enumerate(run.constraints):
            total = float(run.cost[:, -1, k].mean())
            last = run.last_violation[:, k]
            when: list[Cell] = [float(last.mean()), int(last.max()), int((last == run.n_rounds).sum())]
            if columns is None:
                rows.append([constraint, -total, *when])
                continue
            column = columns[k]
            # Of a rule for a group it is not known how many decisions were of that group.
            mean = column.in_units(total / run.n_rounds) if column.rule.among is None else None
            rows.append([_worded(column), mean, 0.0 - float(used[k]), column.rule.unit, *when])
        left = ["left at the end"] if columns is None else ["mean a decision", "left at the end", "unit"]
        report.table(
            ["rule", *left, "last violated round, mean", "largest", "runs broken at the end"],
            rows,
            caption=f"The rules under {name}",
            note="Left: what the rule allowed less what was used, a mean over runs; of a minimum, what there was more than required. "
            "Below 0 it is violated."
            + ("" if columns is None else " In the rule's own unit; shares of decisions as a part of 1."),
        )


def _worded(column: Column) -> str:
    limit = (
        "" if len(column.rule.sides) == 1 else f" ({'upper' if column.side == 'at_most' else 'lower'} limit)"
    )
    return f"{column.rule}{limit}"


def _actions(report: Report, results: Mapping[str, Result]) -> None:
    report.section("What was chosen")
    first = next(iter(results.values()))
    most = np.argsort(-first.shares.mean[-1], kind="stable")[:30]
    rows: list[list[Cell]] = [
        [first.actions[j], *(f"{float(run.shares.mean[-1, j]):.1%}" for run in results.values())]
        for j in most.tolist()
    ]
    left = len(first.actions) - len(rows)
    report.table(
        ["action", *results],
        rows,
        caption="Shares of the decisions",
        note=f"{left:,} others are left out." if left else "",
    )
