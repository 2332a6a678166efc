"""The page of a simulation: who earned what of the optimum, which rules held when, what was chosen."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tightrope.concerns import in_runs
from tightrope.oracle import LimitCurve, Solution
from tightrope.oracle.solution import TIGHT
from tightrope.report import Cell, NamedCurve, Panel, Report, format_number, limit_figure, panels_figure
from tightrope.result import Result
from tightrope.rules import Column, Units
from tightrope.spec import Spec

_SHOWN = 6  # curves in a panel
_CURVES = 3  # limits for which is shown what others would earn


def limit_curves(best: Solution) -> list[LimitCurve]:
    """What other limits would earn: of the rules whose limits cost most."""
    cost = best.duals * best.binding
    dearest = [k for k in np.argsort(-cost, kind="stable").tolist() if cost[k] > TIGHT][:_CURVES]
    return [best.curve(k) for k in dearest]


def write_page(
    spec: Spec, results: Sequence[Result], folder: Path, curves: Sequence[LimitCurve] = ()
) -> Path:
    """Write `index.html` and its figures into `folder`; returns the path of the page."""
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
        curves=curves,
        draw_curve=limit_figure,
        ends=_ends(by_name),
        rules={name: _rules(spec, run) for name, run in by_name.items()} if first.constraints else {},
        worded=_columns(spec, first) is not None,
        shares=_shares(by_name),
        concerns=[
            f"{run.policy}: {in_runs(one, run.n_replications)}" for run in results for one in run.concerns
        ],
    )
    return report.write(folder, date=datetime.date.today().isoformat(), seed=first.seed)


def _panels(results: Mapping[str, Result]) -> list[Panel]:
    shown = dict(list(results.items())[:_SHOWN])
    known = all(result.optimum is not None for result in shown.values())
    drawn = {"regret": "Regret (reward)"} if known else {"average_reward": "Reward per round"}
    if any(run.constraints for run in shown.values()):
        drawn["violation"] = "Expected violation (cost)"
    return [
        Panel([NamedCurve.of(name, getattr(run, curve)) for name, run in shown.items()], "Round", title)
        for curve, title in drawn.items()
    ]


def _ends(results: Mapping[str, Result]) -> list[list[Cell]]:
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
        # For a rule on a group, the number of that group's decisions is not known.
        mean = column.in_units(total / run.n_rounds) if column.rule.among is None else None
        rows.append([_worded(column), mean, 0.0 - float(used[k]), column.rule.unit, *when])
    return rows


def _columns(spec: Spec, run: Result) -> Sequence[Column] | None:
    """The columns of the spec's rules; None where the run has other constraints."""
    return spec.rules.columns if spec.rules is not None and spec.rules.names == run.constraints else None


def _worded(column: Column) -> str:
    side = "upper" if column.side == "at_most" else "lower"
    return str(column.rule) if len(column.rule.sides) == 1 else f"{column.rule} ({side} limit)"


def _shares(results: Mapping[str, Result]) -> list[list[Cell]]:
    """How often each action was chosen, of those that were chosen most by the first policy."""
    first = next(iter(results.values()))
    most = np.argsort(-first.shares.mean[-1], kind="stable")[:30].tolist()
    last = [run.shares.mean[-1] for run in results.values()]
    return [[first.actions[j], *(f"{float(shares[j]):.1%}" for shares in last)] for j in most]


def earned(result: Result) -> str:
    """What was earned, and its share of the optimum if known: "earned 0.587 per round, 98.9 % of the optimum"."""
    mean = float(result.average_reward.mean[-1])
    said = f"earned {format_number(mean)} per round"
    if result.optimum is None:
        return said
    so_far = result.optimal_reward
    best = result.optimum if so_far is None else float(so_far[-1]) / result.n_rounds
    return f"{said}, {100 * mean / best:.1f}\u00a0% of the optimum" if best > 0.0 else said


def kept(result: Result) -> str:
    """Which rules held when: "all rules held from round 23 on in every run"."""
    K, n = len(result.constraints), result.n_replications
    if K == 0:
        return "there are no rules"
    rules, last = "the rule" if K == 1 else "all rules", result.last_violated()
    runs = f"all {n:,} runs" if n > 1 else "the run"
    if last.max == 0:
        return f"{rules} held in every round of {runs}"
    broken = int((result.last_violation.max(axis=1) == result.n_rounds).sum())
    if broken == 0:
        usually = f" (on average from round {round(last.mean) + 1:,})" if n > 1 else ""
        return f"{rules} held from round {int(last.max) + 1:,} on in {runs}{usually}"
    worst = int(result.last_violation.mean(axis=0).argmax())
    which = "" if K == 1 else f", most often “{result.constraints[worst]}”"
    return f"in {broken:,} of {n:,} runs a rule was still broken in the last round{which}"


def told(name: str, result: Result) -> str:
    """One sentence on a policy: what it earned, and whether it kept the rules."""
    return f"**{name}** {earned(result)}; {kept(result)}."
