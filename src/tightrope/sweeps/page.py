"""The page of a sweep: regret against violation, what each field does, the best settings, what failed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.files import write_json
from tightrope.report import (
    Cell,
    NamedCurve,
    Panel,
    Report,
    bars_figure,
    format_estimate,
    panels_figure,
)
from tightrope.report.canvas import thinned
from tightrope.sweeps.analysis import best_first, explained, levels, pareto_layers
from tightrope.sweeps.cells import shown
from tightrope.sweeps.run import RUNGS, Sweep
from tightrope.sweeps.store import Rows
from tightrope.validation import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LISTED = 20
_BEST = 10
_DOTS = 2_000
_PANELS = 6


def write_page(sweep: Sweep, verdict: Sequence[str] = ()) -> dict[str, Any]:
    """Write `index.html` and `summary.json` into the sweep's folder; returns the data of the latter.

    That is the sweep for machines: counts, the best settings, the Pareto front, each field's share of the variance, failures.
    `verdict` is what `tune` says about the settings that it checked.
    """
    rows = sweep.rows()
    good = rows.take(best_first(rows))
    regret, violation = good["regret"].astype(float), good["violation"].astype(float)
    front = np.flatnonzero(pareto_layers(regret, violation) == 0)
    everything = sweep.rows(0)
    settled = everything.take(np.flatnonzero(np.isfinite(everything["regret"].astype(float))))
    shares = _shares(sweep, settled)
    design, kept = sweep.plan.design, int((violation == 0.0).sum())
    data = {
        "name": sweep.plan.base["name"],
        "cells": len(sweep.plan),
        "ran": sweep.ran,
        "failed": sweep.failed,
        "seconds": round(sweep.seconds, 3),
        "out": str(sweep.folder),
        "rows": [good.row(i) for i in range(min(_BEST, len(good)))],
        "front": [good.row(i) for i in front[:_DOTS].tolist()],
        "sensitivity": [
            {"field": field, **{name: value if value == value else None for name, value in share.items()}}
            for field, share in shares.items()
        ],
        "failures": sweep.failures(_LISTED),
    }
    report = Report(
        f"Sweep of {data['name']}",
        subtitle=f"{len(sweep.plan):,} settings; those with the same seed are simulated on the same draws",
    )
    listed = np.lexsort((regret[front], violation[front]))
    best = _lines(sweep, good, np.arange(len(good))[:_BEST], "regret", "violation", "path_violation")
    report.template(
        "tightrope.sweeps/page.html",
        sweep=sweep,
        verdict=verdict,
        complete=len(good),
        kept=kept,
        least=_estimate(good, 0, "regret") if kept else None,
        winner=_label(sweep, good, 0) if len(good) else "",
        estimate=format_estimate,
        axes=[f"`{axis.path}`: {_range(axis.values)}" for axis in design.axes],
        halved=[f"{len(rung.names):,} with {_fraction(f)}" for rung, f in zip(sweep.rungs, RUNGS)],
        front_figure=partial(_front_figure, regret, violation, front[listed]),
        front_listed=f", its first {_LISTED} of {front.size:,}" if front.size > _LISTED else "",
        front=_lines(sweep, good, front[listed][:_LISTED], "violation", "regret"),
        fields=partial(_fields, sweep, settled, shares),
        best=[[*line, float(last)] for line, last in zip(best, good["last_violation"])],
        runs=int(good["replications"][0]) if len(good) else 0,
        failures=[f"{_settings(one['settings'])}: {one['error']}" for one in data["failures"]],
    )
    report.write(sweep.folder, date=datetime.date.today().isoformat(), seed=design.seed)
    write_json(sweep.folder / "summary.json", data)
    return data


def _front_figure(regret: Array, violation: Array, on_front: NDArray[np.intp]) -> Figure:
    line = NamedCurve("Pareto front", violation[on_front], regret[on_front])
    figure = panels_figure([Panel([line], "Expected violation (cost)", "Regret (reward)")], height=400.0)
    axes = figure.axes[0]
    right = 1.15 * float(violation[on_front].max()) or float(np.quantile(violation, 0.5)) or 1.0
    dots = thinned(len(regret), _DOTS)
    dots = dots[violation[dots] <= right]
    look: dict[str, Any] = {"markersize": 3.5, "markeredgewidth": 0.0, "alpha": 0.3}
    look |= {"zorder": 1.5, "clip_on": False, "color": axes.xaxis.label.get_color()}
    axes.plot(violation[dots], regret[dots], "o", **look)
    axes.set_xlim(-0.02 * right, right)
    low, high = float(regret[dots].min()), float(regret[dots].max())
    room = 0.06 * (high - low) or 1.0
    axes.set_ylim(low - room, high + room)
    return figure


def _fields(sweep: Sweep, good: Rows, shares: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What each field explains, and the numbers by its values; nothing if there are too few settings."""
    if all(value != value for share in shares.values() for value in share.values()):
        return {}
    known = {field: {k: 0.0 if v != v else v for k, v in share.items()} for field, share in shares.items()}
    bars = {name: [share[name] for share in known.values()] for name in ("regret", "violation")}
    numeric = [axis for axis in sweep.plan.design.axes if axis.column in ("int", "float")][:_PANELS]
    panels = []
    for axis in numeric:
        group, values = levels(good[axis.path])
        if len(values) < 2:
            continue
        wide = values[0] > 0 and values[-1] / values[0] >= 10
        for name in ("regret", "violation"):
            found = good[name].astype(float)
            parts = [np.quantile(found[group == g], (0.25, 0.5, 0.75)) for g in range(len(values))]
            low, median, high = np.array(parts).T
            curve = NamedCurve("median", values, median, low, high)
            panels.append(Panel([curve], axis.path, name.capitalize(), logx=wide))
    return {
        "shares": bars_figure(list(known), bars, xlabel="Share of the variance between settings"),
        "values": panels_figure(panels, height=230.0) if panels else None,
    }


def _shares(sweep: Sweep, good: Rows) -> dict[str, dict[str, float]]:
    """For each field, and for the policy if there are several, its share of the variance of regret and violation."""
    fields = list(sweep.plan.design.paths) + (["policy"] if len(sweep.plan.names) > 1 else [])
    return {
        field: {name: explained(good[field], good[name].astype(float)) for name in ("regret", "violation")}
        for field in fields
    }


def _lines(sweep: Sweep, rows: Rows, at: NDArray[np.intp], *names: str) -> list[list[Cell]]:
    return [[_label(sweep, rows, i), *(_estimate(rows, i, name) for name in names)] for i in at.tolist()]


def _label(sweep: Sweep, rows: Rows, i: int) -> str:
    row = rows.row(i)
    text = _settings({path: row[path] for path in sweep.plan.design.paths})
    return f"{row['policy']}: {text}" if len(sweep.plan.names) > 1 else text


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"`{path}` {shown(value)}" for path, value in settings.items())


def _estimate(rows: Rows, i: int, name: str) -> tuple[float, float, float]:
    mean, low, high = (float(rows[f"{name}{end}"][i]) for end in ("", "_low", "_high"))
    return mean, low, high


def _range(values: Any) -> str:
    if isinstance(values, tuple):
        return ", ".join(map(shown, values))
    steps = "" if values.steps is None else f", {values.steps} values"
    return f"{shown(values.low)} to {shown(values.high)}, {values.scale} scale{steps}"


def _fraction(fraction: float) -> str:
    return "all" if fraction == 1.0 else f"1/{round(1 / fraction)}"
