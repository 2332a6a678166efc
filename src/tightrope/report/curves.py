"""Curves with their intervals, each labelled at its right end, in panels one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InvalidInput
from tightrope.report import canvas
from tightrope.report.canvas import DASHES, LIGHT, POINTS, SERIES, WIDTH
from tightrope.validation import Array, finite_array, real_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Less than this is rounding error of a sum.
ZERO = 1e-9
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]


class _Interval(Protocol):
    @property
    def rounds(self) -> NDArray[np.int64]: ...
    @property
    def mean(self) -> Array: ...
    @property
    def low(self) -> Array: ...
    @property
    def high(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class NamedCurve:
    """One line of a figure: its label, x, y and, where known, an interval around y.

    A `reference` (a bound, a limit, a value from elsewhere) is drawn grey, dashed and without markers.
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    reference: bool = False

    def __post_init__(self) -> None:
        x = finite_array("x", self.x, (None,))
        if x.size == 0 or (np.diff(x) < 0).any():
            raise InvalidInput(field=f"x of curve {self.name!r}", must="be increasing and not empty")
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", real_array("y", self.y, (x.size,)))
        if (self.low is None) != (self.high is None):
            raise InvalidInput(field=f"low and high of curve {self.name!r}", must="be given together")
        for end in ("low", "high") if self.low is not None else ():
            object.__setattr__(self, end, real_array(end, getattr(self, end), (x.size,)))

    @classmethod
    def of(cls, name: str, curve: _Interval) -> NamedCurve:
        """A curve of a `Result` with its interval: `NamedCurve.of("safe", run.regret)`."""
        return cls(name, curve.rounds, curve.mean, curve.low, curve.high)


@dataclass(frozen=True, eq=False)
class Panel:
    """Curves that share axes; the y-axis is named above its top end. On a log axis values ≤ 0 are left out."""

    curves: Sequence[NamedCurve]
    xlabel: str
    ylabel: str
    logx: bool = False
    logy: bool = False


def panels_figure(panels: Sequence[Panel], *, height: float = 330.0) -> Figure:
    """Panels one below the other, each `height` px high and 760 px wide.

    >>> panel = Panel([NamedCurve("safe", [1, 2], [0, 1])], xlabel="Round", ylabel="Regret (reward)")
    >>> len(panels_figure([panel, panel]).axes)
    2
    """
    if not panels or any(not panel.curves for panel in panels):
        raise InvalidInput(field="panels", must="not be empty, and each must have at least one curve")
    with canvas.figure_style():
        figure = canvas.blank_figure(height * len(panels))
        texts = [canvas.wrapped(curve.name) for panel in panels for curve in panel.curves]
        right = WIDTH - 56.0 - max(canvas.text_width(figure, text) for text in texts)
        for i, panel in enumerate(panels):
            base = height * (len(panels) - 1 - i)
            _draw_panel(canvas.add_axes(figure, 72.0, right, base + 56.0, base + height - 38.0), panel)
    return figure


def curve_figure(
    curves: Sequence[NamedCurve],
    *,
    xlabel: str,
    ylabel: str,
    logx: bool = False,
    logy: bool = False,
    height: float = 380.0,
) -> Figure:
    """Lines with their bands, each labelled at its right end."""
    return panels_figure([Panel(curves, xlabel, ylabel, logx, logy)], height=height)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    if panel.logx:
        axes.set_xscale("log")
    if panel.logy:
        axes.set_yscale("log", nonpositive="mask")
    ends: list[tuple[str, float, float, dict[str, Any]]] = []
    n_series = sum(not curve.reference for curve in panel.curves)
    i = n_references = 0
    for curve in panel.curves:
        x, y, low, high = _drawn(curve, panel)
        if x.size == 0:
            continue
        if curve.reference:
            look: dict[str, Any] = {"color": LIGHT["muted"], "linestyle": DASHES[1 + n_references % 4]}
            look["linewidth"], marks = 1.6, np.zeros(0, dtype=np.intp)
            n_references += 1
        else:
            look = {"color": SERIES[i % len(SERIES)], "linewidth": 2.0, "markersize": 5.5}
            look["linestyle"] = DASHES[i % len(DASHES)]
            look["marker"] = _MARKERS[i % len(_MARKERS)]
            marks = _marked(np.log(x) if panel.logx else x, i / n_series)
            i += 1
        if np.isfinite(low).any():
            axes.fill_between(x, low, high, color=look["color"], alpha=0.16, linewidth=0.0)
        axes.plot(x, y, markevery=marks.tolist(), solid_joinstyle="round", **look)
        seen = np.flatnonzero(np.isfinite(y))
        if curve.name and seen.size:
            ends.append((curve.name, float(x[seen[-1]]), float(y[seen[-1]]), look))
    axes.margins(x=0.0, y=0.06)
    axes.set_xlim(*_x_limits(panel))
    _frame_flat(axes, panel)
    corner = -72.0 / axes.bbox.width, 1.0 + 16.0 / axes.bbox.height
    axes.text(*corner, panel.ylabel, transform=axes.transAxes, weight="bold")
    canvas.finish_axes(axes, panel.xlabel)
    canvas.set_ticks(axes.yaxis, panel.logy)
    if panel.logx:
        canvas.set_ticks(axes.xaxis, log=True)
    _label_ends(axes, ends)


def _frame_flat(axes: Axes, panel: Panel) -> None:
    """If all curves of a panel are one number, fit the axis to it, and say so if it is zero."""
    values = np.concatenate([_drawn(curve, panel)[i] for curve in panel.curves for i in (1, 2, 3)])
    values = values[np.isfinite(values)]
    if panel.logy or values.size == 0 or np.ptp(values) > ZERO:
        return
    level = float(values[0])
    if abs(level) > ZERO:
        axes.set_ylim(level - abs(level) / 2, level + abs(level) / 2)
        return
    axes.set_ylim(-0.08, 1.0)
    axes.set_yticks([0.0], ["0"])
    axes.text(0.5, 0.5, "zero throughout", transform=axes.transAxes, ha="center", color=LIGHT["muted"])


def _drawn(curve: NamedCurve, panel: Panel) -> tuple[Array, Array, Array, Array]:
    """At most 200 points of a curve, evenly spread along the drawn axis; what a log axis can't show is nan."""
    x, y = np.asarray(curve.x, dtype=float), np.asarray(curve.y, dtype=float)
    unknown = np.full_like(y, np.nan)
    low, high = (unknown if end is None else np.asarray(end) for end in (curve.low, curve.high))
    if panel.logx:
        x, y, low, high = (part[x > 0] for part in (x, y, low, high))
    if x.size > POINTS:
        along = np.log(x) if panel.logx else x
        at = np.unique(np.searchsorted(along, np.linspace(along[0], along[-1], POINTS)))
        x, y, low, high = x[at], y[at], low[at], high[at]
    if panel.logy:
        y, high = np.where(y > 0, y, np.nan), np.where(high > 0, high, np.nan)
        floor = np.nanmin(y) if np.isfinite(y).any() else 1.0
        low = np.where(np.isfinite(high), np.maximum(low, 0.1 * floor), np.nan)
    return x, y, low, high


def _marked(along: Array, phase: float) -> NDArray[np.intp]:
    """Up to eight points that carry a marker, shifted from series to series so that equal curves show both."""
    if along.size <= 8:
        return np.arange(along.size)
    places = along[0] + (np.arange(8) + 0.15 + 0.7 * phase) / 8 * (along[-1] - along[0])
    return np.unique(np.abs(along[:, None] - places).argmin(axis=0))


def _x_limits(panel: Panel) -> tuple[float, float]:
    xs = np.concatenate([np.asarray(curve.x, dtype=float) for curve in panel.curves])
    if panel.logx:
        xs = xs[xs > 0]
        if xs.size == 0:
            raise InvalidInput("a logarithmic x-axis needs at least one x > 0.")
    low, high = float(xs.min()), float(xs.max())
    if low == high:
        return (low / 2, high * 2) if panel.logx else (low - 0.5, high + 0.5)
    return (low, high) if panel.logx else (min(low, 0.0) if low <= 0.1 * high else low, high)


def _label_ends(axes: Axes, ends: list[tuple[str, float, float, dict[str, Any]]]) -> None:
    """Names beside the right ends of the curves, moved apart as little as possible, each with a sample of its line."""
    if not ends:
        return
    box = axes.bbox
    names = [canvas.wrapped(name) for name, *_ in ends]
    heights = np.array([17.0 * (name.count("\n") + 1) for name in names])
    wanted = np.array([axes.transData.transform((x, y))[1] - box.y0 for _, x, y, _ in ends])
    wanted = np.clip(wanted, 0.0, box.height)
    # Equal ends keep the order in which the curves came, the first on top.
    order = np.lexsort((-np.arange(len(ends)), wanted))
    places = np.empty(len(ends))
    places[order] = _apart(wanted[order], heights[order], box.height)
    for name, (_, x, _, look), y0, y in zip(names, ends, wanted, places):
        start = (axes.transData.transform((x, 1.0))[0] - box.x0) / box.width
        right, at = 1.0 + np.array([3.0, 11.0, 23.0, 35.0, 41.0]) / box.width, y / box.height
        # The curve's end, a thin leader to its name, then a sample of the line.
        outside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        leader = [min(start, 1.0), right[0], right[1]], [y0 / box.height, y0 / box.height, at]
        axes.plot(*leader, color=LIGHT["muted"], linewidth=0.8, zorder=1.5, **outside)
        axes.plot(right[1:4], [at, at, at], markevery=[1], **outside, **look)
        axes.text(right[4], at, name, transform=axes.transAxes, va="center", linespacing=1.15)


def _apart(wanted: Array, heights: Array, room: float) -> Array:
    """Centres nearest to the wanted ones (least squares, in their order) such that labels don't overlap: isotonic regression."""
    need = np.concatenate([[0.0], np.cumsum((heights[1:] + heights[:-1]) / 2)])
    if need[-1] > room:  # not enough room: closer together, but still in order
        need *= room / need[-1]
    blocks: list[tuple[float, int]] = []
    for value in wanted - need:
        mean, size = float(value), 1
        while blocks and blocks[-1][0] > mean:
            previous, n = blocks.pop()
            mean, size = (previous * n + mean * size) / (n + size), n + size
        blocks.append((mean, size))
    level = np.concatenate([np.full(size, mean) for mean, size in blocks])
    return np.asarray(np.clip(level, 0.0, room - need[-1]) + need)
