"""A figure of what the best policy would earn with other limits of a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.report.canvas import LIGHT
from tightrope.report.curves import NamedCurve, curve_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tightrope.oracle import LimitCurve


def limit_figure(curve: LimitCurve) -> Figure:
    """The optimum against the limit, with today's limit marked; limits that nothing keeps are left out.

    >>> from tightrope.environments import bandit
    >>> from tightrope.oracle import solve
    >>> len(limit_figure(solve(bandit(threshold=0.1)).curve("usage")).axes)
    1
    """
    kept = np.isfinite(curve.values)
    limits, values = curve.limits[kept], curve.values[kept]
    bound = "at most" if curve.side == "at_most" else "at least"
    across = f"{curve.rule}: {bound} … {'of the decisions' if curve.share else f'{curve.unit} per decision'}"
    lines = [NamedCurve("best policy", limits, values)]
    figure = curve_figure(lines, xlabel=across, ylabel="Reward per decision", height=320.0)
    axes = figure.axes[0]
    axes.set_xlim(float(limits[0]), float(limits[-1]) if limits.size > 1 else float(limits[0]) + 1.0)
    axes.axvline(curve.today, color=LIGHT["muted"], linestyle=(0, (6, 2)), linewidth=1.6)
    axes.plot([curve.today], [curve.value], marker="o", markersize=8.0, color=LIGHT["ink"], linestyle="none")
    label = f"today: {curve.amount(curve.today)}"
    right = curve.today > 0.5 * (limits[0] + limits[-1])
    shift = -8 if right else 8
    where: dict[str, Any] = {"xytext": (shift, -14), "textcoords": "offset points", "va": "top"}
    axes.annotate(label, (curve.today, curve.value), ha="right" if right else "left", **where)
    return figure
