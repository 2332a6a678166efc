"""The page of a plan, for whoever signs it off: what is earned, what each rule leaves and costs, and what another limit would
bring.
"""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tightrope.allocation.plan import Plan
from tightrope.report import Cell, NamedCurve, Panel, Report, bars_figure, format_number, panels_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVES = 3  # limits whose curve is drawn
_ACTIONS = 30


def write_page(name: str, plan: Plan, folder: Path) -> Path:
    """Write `index.html` and its figures; returns the path of the page."""
    report = Report(f"Allocation of {name}", subtitle=f"{len(plan.actions):,} rows, each with one action")
    report.template(
        "tightrope.allocation/page.html",
        plan=plan,
        n=len(plan.actions),
        number=format_number,
        gap=f"{plan.gap:.1e}",
        limits=_limits(plan),
        hidden=len(plan.limits) - len(plan.shown()),
        chosen=_chosen(plan),
        shares=_shares(plan),
        curves=_curves(plan),
        reasons=[[why, n] for why, n in Counter(plan.set_apart.values()).most_common()],
    )
    return report.write(folder, date=datetime.date.today().isoformat())


def _limits(plan: Plan) -> list[list[Cell]]:
    return [
        [
            f"{one['rule']}" if one["key"] is None else f"{one['rule']}: {one['key']}",
            one["used"],
            one["left"],
            one["price"],
        ]
        for one in plan.shown()
    ]


def _chosen(plan: Plan) -> list[list[Cell]]:
    n = max(1, sum(plan.counts.values()))
    most = sorted(plan.counts.items(), key=lambda item: -item[1])[:_ACTIONS]
    return [[str(action), f"{rows:,}", f"{rows / n:.1%}"] for action, rows in most]


def _shares(plan: Plan) -> Figure:
    n = max(1, sum(plan.counts.values()))
    most = sorted(plan.counts.items(), key=lambda item: -item[1])[:_ACTIONS]
    return bars_figure(
        [str(action) for action, _ in most],
        {"rows": [100 * rows / n for _, rows in most]},
        xlabel="Share of the rows (%)",
    )


def _curves(plan: Plan) -> Figure | None:
    """What other limits would earn, for the limits without keys that cost most."""
    prices = plan.duals[: plan.limits.K] * np.abs(plan.limits.amounts[: plan.limits.K])
    chosen = [int(k) for k in np.argsort(-prices, kind="stable")[:_CURVES] if prices[k] > 0.0]
    panels = []
    for k in chosen:
        limit = plan.limits.dense[k]
        points = sorted(plan.curve(limit.name), key=lambda point: point.limit)
        x = [point.limit for point in points]
        curve = NamedCurve("at most", x, [point.value for point in points])
        panels.append(Panel([curve], f"Limit of {limit.name}", "Reward of the table"))
    return panels_figure(panels, height=260.0) if panels else None
