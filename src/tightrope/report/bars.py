"""Bars with their values written out, and strips with a dot for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tightrope.errors import InvalidInput
from tightrope.report import canvas
from tightrope.report.canvas import DASHES, LIGHT, POINTS, SERIES, WIDTH
from tightrope.report.numbers import format_number
from tightrope.validation import finite_array, finite_number, real_array
from tightrope.words import Key, Place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HATCHES = ["", "////", "....", "\\\\\\\\", "xxxx", "----"]


def bars_figure(
    labels: Sequence[str],
    series: Mapping[str, ArrayLike],
    *,
    xlabel: str,
    marks: Mapping[str, ArrayLike] | None = None,
) -> Figure:
    """Horizontal bars, grouped by label, with their values written out: `series` has a number for each label.

    `marks` puts a tick on each label's bars, such as a limit for each action: name → one number for each label (nan: none).

    >>> figure = bars_figure(["icu", "other"], {"share": [0.2, 0.8]}, xlabel="Share of rounds",
    ...                      marks={"capacity": [0.2, float("nan")]})
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['icu', 'other']
    """
    n, m = len(labels), len(series)
    most = len(_HATCHES)
    if n == 0 or not 0 < m <= most:
        raise InvalidInput(f"bars need at least one label and 1 to {most} series, but got {n} and {m}.")
    values = {name: finite_array(f"values of {name!r}", v, (n,)) for name, v in series.items()}
    ticks = {name: real_array(f"marks[{name!r}]", v, (n,)) for name, v in (marks or {}).items()}
    with canvas.figure_style():
        pitch = max(26.0, 17.0 * m + 10.0)
        head = 18.0 + (22.0 if m > 1 or ticks else 0.0)
        figure, axes = _rows(labels, pitch, right=96.0, head=head, xlabel=xlabel)
        look: dict[str, Any]
        edge, beside = 1.0 + 66.0 / axes.bbox.width, axes.get_yaxis_transform()
        thickness = (pitch - 10.0) / m / pitch
        handles: list[Any] = []
        for i, (name, v) in enumerate(values.items()):
            y = np.arange(n) + (i - (m - 1) / 2) * thickness
            look = {"color": SERIES[i], "edgecolor": LIGHT["paper"], "linewidth": 0.0, "hatch": _HATCHES[i]}
            handles.append(axes.barh(y, v, height=thickness * 0.86, label=name, **look))
            for place, value in zip(y.tolist(), v.tolist()):
                axes.text(edge, place, format_number(value), transform=beside, ha="right", va="center")
        for i, (name, at) in enumerate(ticks.items()):
            rows, at = np.arange(n)[np.isfinite(at)], at[np.isfinite(at)]
            look = {"color": LIGHT["ink"], "linewidth": 2.0, "linestyle": DASHES[i % len(DASHES)]}
            handles.append(axes.vlines(at, rows - 0.42, rows + 0.42, label=name, **look))
        axes.axvline(0.0, color=LIGHT["muted"], linewidth=1.0)
        if m > 1 or ticks:
            look = {"borderaxespad": 0.3, "borderpad": 0.0, "handlelength": 1.8, "columnspacing": 1.6}
            look |= {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 4, "frameon": False}
            axes.legend(handles=handles, **look)
    return figure


def last_violation_figure(
    samples: Mapping[str, ArrayLike], *, references: Mapping[str, float] | None = None
) -> Figure:
    """A strip for each name with one dot for each run, the median as a bar, and a diamond for what a paper reports."""
    if not samples:
        raise InvalidInput(field="samples", must="have at least one name")
    references = references or {}
    if unknown := set(references) - set(samples):
        raise InvalidInput(field="references", must="be among the samples' names", got=sorted(unknown))
    runs = {name: np.sort(finite_array(f"samples[{name!r}]", v, (None,))) for name, v in samples.items()}
    for name, v in runs.items():
        if v.size == 0:
            raise InvalidInput(field=Place("samples", Key(name)), must="not be empty")
    largest = max([float(v[-1]) for v in runs.values()] + [float(r) for r in references.values()])
    with canvas.figure_style():
        xlabel = "Last round in violation (0: never)"
        figure, axes = _rows(list(runs), 62.0, right=150.0, head=24.0, xlabel=xlabel)
        look: dict[str, Any]
        edge, beside = 1.0 + 14.0 / axes.bbox.width, axes.get_yaxis_transform()
        for i, (name, v) in enumerate(runs.items()):
            shown = v[canvas.thinned(v.size, POINTS)]
            # The golden ratio spreads dots evenly without randomness.
            jitter = (np.arange(shown.size) * 0.6180339887498949) % 1.0 - 0.5
            look = {"color": SERIES[0], "alpha": 0.45, "markersize": 4.5, "markeredgewidth": 0.0}
            axes.plot(shown, i + 0.12 + 0.42 * jitter, "o", clip_on=False, **look)
            median = float(np.median(v))
            axes.vlines(median, i - 0.16, i + 0.4, color=LIGHT["ink"], linewidth=2.4)
            text = f"median {format_number(median)}\nmax {format_number(float(v[-1]))}"
            axes.text(edge, i + 0.1, text, transform=beside, va="center", color=LIGHT["muted"])
            if name in references:
                at = finite_number(f"references[{name!r}]", references[name])
                look = {"color": LIGHT["paper"], "markeredgecolor": SERIES[1], "markeredgewidth": 2.0}
                axes.plot([at], [i - 0.26], marker="D", markersize=7.5, **look)
                text = f"paper {format_number(at)}"
                look = {"va": "center", "color": LIGHT["ink"], "annotation_clip": False}
                axes.annotate(text, (at, i - 0.26), xytext=(9.0, 0.0), textcoords="offset points", **look)
        axes.set_xlim(0.0, max(1.0, 1.04 * largest))
    return figure


def _rows(
    labels: Sequence[str], pitch: float, *, right: float, head: float, xlabel: str
) -> tuple[Figure, Axes]:
    """A new figure, and its axes with a row for each label, from top to bottom, and room beside and above them."""
    n = len(labels)
    figure = canvas.blank_figure(pitch * n + 54.0 + head)
    names = [canvas.wrapped(label) for label in labels]
    left = 20.0 + max(canvas.text_width(figure, name) for name in names)
    axes = canvas.add_axes(figure, left, WIDTH - right, 54.0, 54.0 + pitch * n)
    axes.set_yticks(np.arange(n), names)
    axes.set_ylim(n - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    canvas.finish_axes(axes, xlabel)
    return figure, axes
