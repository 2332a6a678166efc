"""The page of a sweep: regret against violation, what each field does, the best settings, what failed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.files import write_json
from tightrope.report import (
    BarSeries,
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
    """Write `index.html` and `summary.json` into the sweep's folder; returns what is in the latter, see `summary`.

    `verdict` is what `tune` says of the settings that it checked.
    """
    rows, everything = sweep.rows(), sweep.rows(0)
    data = summary(sweep, rows)
    report = Report(
        f"Sweep of {sweep.plan.base['name']}",
        subtitle=f"{len(sweep.plan):,} settings, each simulated on the same draws wherever seeds are the same",
    )
    report.words("round", "run", "optimum", "regret", "cost", "total", "violation", "last violated", "pareto")
    _summarise(report, sweep, rows)
    report.section("What was run")
    _overview(report, sweep, rows)
    if verdict:
        report.section("Was tuning worth it?")
        report.text(
            "On fresh draws, beside the spec as it stands on the same draws; differences with 95 % intervals over runs:"
        )
        report.bullets(verdict)
    if np.isfinite(rows["regret"].astype(float)).any():
        _front(report, sweep, rows)
        _sensitivity(report, sweep, everything)
        _best(report, sweep, rows)
    if data["failures"]:
        report.section("Failed cells")
        report.text(f"{sweep.failed:,} cells have no numbers. The first of them:")
        report.bullets([f"{_settings(one['settings'])}: {one['error']}" for one in data["failures"]])
    report.write(sweep.folder, date=datetime.date.today().isoformat(), seed=sweep.plan.design.seed)
    write_json(sweep.folder / "summary.json", data)
    return data


def summary(sweep: Sweep, rows: Rows) -> dict[str, Any]:
    """The sweep for machines: counts, the best settings, the Pareto front, each field's share of the variance, failures."""
    good = rows.take(best_first(rows))
    layers = pareto_layers(good["regret"].astype(float), good["violation"].astype(float))
    everything = sweep.rows(0)
    return {
        "name": sweep.plan.base["name"],
        "cells": len(sweep.plan),
        "ran": sweep.ran,
        "failed": sweep.failed,
        "seconds": round(sweep.seconds, 3),
        "out": str(sweep.folder),
        "rows": [good.row(i) for i in range(min(_BEST, len(good)))],
        "front": [good.row(i) for i in np.flatnonzero(layers == 0)[:_DOTS].tolist()],
        "sensitivity": [
            {"field": field, **{name: value if value == value else None for name, value in shares.items()}}
            for field, shares in _shares(sweep, everything).items()
        ],
        "failures": sweep.failures(_LISTED),
    }


def _summarise(report: Report, sweep: Sweep, rows: Rows) -> None:
    """How many settings kept the rules, and the best of them."""
    order = best_first(rows)
    good = int((rows["violation"][order].astype(float) == 0.0).sum())
    report.summary(
        f"{len(sweep.plan):,} settings of {sweep.plan.base['name']} were simulated"
        + (f"; {sweep.failed:,} failed." if sweep.failed else ".")
    )
    if order.size and good:
        regret, low, high = _estimate(rows, order[0], "regret")
        report.summary(
            f"{good:,} of the {order.size:,} that ran in full kept all rules on average at the last round. The least regret among "
            f"them is {format_estimate(regret, low, high)}, with {_label(sweep, rows, int(order[0]))}."
        )
    elif order.size:
        report.summary(
            f"None of the {order.size:,} that ran in full kept all rules on average at the last round."
        )


def _overview(report: Report, sweep: Sweep, rows: Rows) -> None:
    order = best_first(rows)
    facts: list[tuple[Cell, str]] = [(float(len(sweep.plan)), "settings")]
    if order.size and rows["violation"][order[0]] == 0.0:
        least = _estimate(rows, order[0], "regret")
        facts.append((least, "least regret without violation at the last round"))
    facts.append((float(sweep.failed), "failed"))
    report.headline(facts)
    design = sweep.plan.design
    how = {
        "grid": "every combination of the values below",
        "random": "values drawn at random, independently of each other",
        "sobol": "a scrambled Sobol sequence, which covers all fields and pairs of fields evenly",
    }
    report.text(f"The design is *{design.kind}*: {how[design.kind]}.")
    report.bullets([f"`{axis.path}`: {_range(axis.values)}" for axis in design.axes])
    if len(sweep.rungs) > 1:
        kept = [f"{len(rung.names):,} with {_fraction(f)}" for rung, f in zip(sweep.rungs, RUNGS)]
        report.text(
            f"Successive halving: {', '.join(kept)} of their rounds. On each rung the best third goes on. Front and best settings "
            "are of those that ran in full, the sensitivity is of all settings on the first rung."
        )


def _front(report: Report, sweep: Sweep, rows: Rows) -> None:
    good = rows.take(best_first(rows))
    regret, violation = good["regret"].astype(float), good["violation"].astype(float)
    on_front = np.flatnonzero(pareto_layers(regret, violation) == 0)
    on_front = on_front[np.lexsort((regret[on_front], violation[on_front]))]
    report.section("Regret against violation")
    report.figure(
        _front_figure(regret, violation, on_front),
        name="front",
        alt="Regret against expected violation at the last round: each setting a dot, the Pareto front a line",
        caption="Each dot is a setting at its last round. No setting has both less regret and less violation than one on the line. "
        "Dots far to the right of the front are left out.",
    )
    listed = f", its first {_LISTED} of {on_front.size:,}" if on_front.size > _LISTED else ""
    report.table(
        ["setting", "violation", "regret"],
        _lines(sweep, good, on_front[:_LISTED], "violation", "regret"),
        caption=f"The Pareto front{listed}",
        note="With 95 % intervals. The best of many settings looks better than it is: the more were tried, the more so.",
    )


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


def _sensitivity(report: Report, sweep: Sweep, rows: Rows) -> None:
    shares = _shares(sweep, rows)
    report.section("What each field does")
    if all(value != value for share in shares.values() for value in share.values()):
        report.text("Too few settings for each value to tell.")
        return
    known = {field: {k: 0.0 if v != v else v for k, v in share.items()} for field, share in shares.items()}
    report.figure(
        bars_figure(
            list(known),
            [BarSeries(name, [share[name] for share in known.values()]) for name in ("regret", "violation")],
            xlabel="Share of the variance between settings",
        ),
        name="sensitivity",
        alt="For each field the share of the variance of regret and of violation that it explains alone",
        caption="How much of the variance of regret and of violation between settings each field explains by itself, corrected for "
        "chance. What is missing to 1 is due to fields acting together, and to the draws where seeds vary.",
    )
    good = rows.take(np.flatnonzero(np.isfinite(rows["regret"].astype(float))))
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
    if panels:
        report.figure(
            panels_figure(panels, height=230.0),
            name="fields",
            alt="Median regret and violation of the settings for each value of each field, with quartiles",
            caption="Median over all settings with that value, whatever the other fields; the band holds the middle half of them.",
        )


def _best(report: Report, sweep: Sweep, rows: Rows) -> None:
    order = best_first(rows)[:_BEST]
    lines = _lines(sweep, rows, order, "regret", "violation", "path_violation")
    report.section("Best settings")
    report.table(
        ["setting", "regret", "violation", "path violation", "last violated round"],
        [[*line, float(last)] for line, last in zip(lines, rows["last_violation"][order])],
        caption="Least regret among settings without expected violation at the last round; where there are few, least violation",
        note=f"With 95 % intervals over {int(rows['replications'][order[0]]):,} runs; the last violated round is a mean over runs.",
    )


def _shares(sweep: Sweep, rows: Rows) -> dict[str, dict[str, float]]:
    """For each field, and for the policy where there are several, what it explains of regret and violation."""
    good = rows.take(np.flatnonzero(np.isfinite(rows["regret"].astype(float))))
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
