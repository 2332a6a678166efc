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
    report.template(
        "tightrope.simulation/page.html",
        results=results,
        first=first,
        names=list(by_name),
        told=[told(name, result) for name, result in by_name.items()],
        constrained=any(run.constraints for run in results),
        panels=_panels(by_name),
        draw=panels_figure,
        ends=_ends(by_name),
        rules={name: _rules(spec, run) for name, run in by_name.items()} if first.constraints else {},
        worded=_columns(spec, first) is not None,
        shares=_shares(by_name),
        concerns=[
            f"{name}: {in_runs(one, run.n_replications)}"
            for name, run in by_name.items()
            for one in run.concerns
        ],
    )
    return report.write(folder, date=datetime.date.today().isoformat(), seed=first.seed)


def _panels(results: Mapping[str, Result]) -> list[Panel]:
    shown = dict(list(results.items())[:_SHOWN])
    if all(result.optimum is not None for result in shown.values()):
        curves, title = [NamedCurve.of(name, run.regret) for name, run in shown.items()], "Regret (reward)"
    else:
        curves, title = (
            [NamedCurve.of(name, run.average_reward) for name, run in shown.items()],
            "Reward a round",
        )
    panels = [Panel(curves, "Round", title)]
    if any(run.constraints for run in shown.values()):
        curves = [NamedCurve.of(name, run.violation) for name, run in shown.items()]
        panels.append(Panel(curves, "Round", "Expected violation (cost)"))
    return panels


def _ends(results: Mapping[str, Result]) -> list[list[Cell]]:
    """Where each policy stands at the last round."""
    rows: list[list[Cell]] = []
    for name, run in results.items():
        regret = run.regret.at() if run.optimum is not None else None
        rules = [run.violation.at(), run.last_violated().estimate, run.violated_share.at()]
        rows.append([name, run.average_reward.at(), regret, *(rules if run.constraints else [])])
    return rows


def _rules(spec: Spec, run: Result) -> list[list[Cell]]:
    columns = _columns(spec, run)
    units = Units.of(None if columns is None else spec.rules, len(run.constraints))
    used = units.totals(run.cost[:, -1].mean(axis=0))
    rows: list[list[Cell]] = []
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
    return rows


def _columns(spec: Spec, run: Result) -> Sequence[Column] | None:
    """The columns of the spec's rules; None where the run has other constraints."""
    return spec.rules.columns if spec.rules is not None and spec.rules.names == run.constraints else None


def _worded(column: Column) -> str:
    limit = (
        "" if len(column.rule.sides) == 1 else f" ({'upper' if column.side == 'at_most' else 'lower'} limit)"
    )
    return f"{column.rule}{limit}"


def _shares(results: Mapping[str, Result]) -> list[list[Cell]]:
    """How often each action was chosen, of those that were chosen most by the first policy."""
    first = next(iter(results.values()))
    most = np.argsort(-first.shares.mean[-1], kind="stable")[:30]
    return [
        [first.actions[j], *(f"{float(run.shares.mean[-1, j]):.1%}" for run in results.values())]
        for j in most.tolist()
    ]
