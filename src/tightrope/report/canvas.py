"""What every figure is drawn on: colours of the two themes, sizes, axes and ticks.

Figures are drawn once, in the colours of the light theme. Inlined in a page, each of those colours becomes a CSS variable with
that colour as its fallback, so that one SVG serves both themes. A series is told apart by line style, marker or hatching and by a
label, never by colour alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.report.numbers import format_number, power_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# name: (light, dark). Series colours are those of Okabe and Ito, moved in lightness until each has a contrast of 3 : 1 with the
# paper of its theme and every pair stays apart under simulated protanopia, deuteranopia and tritanopia.
THEME = {
    "paper": ("#fdfdfc", "#15181c"),
    "ink": ("#1d2228", "#e3e7eb"),
    "muted": ("#5b6670", "#9da8b3"),
    "grid": ("#e3e6e8", "#2c333a"),
    "panel": ("#f3f4f3", "#1e2328"),
    "s1": ("#0072b2", "#4aa3df"),
    "s2": ("#d55e00", "#ff8b3d"),
    "s3": ("#009e73", "#3ddbaf"),
    "s4": ("#b04a8f", "#f0a3d0"),
    "s5": ("#5e4800", "#e6d229"),
    "s6": ("#2a1a70", "#8f86f0"),
}
LIGHT = {name: light for name, (light, _) in THEME.items()}
SERIES = [LIGHT[f"s{i}"] for i in range(1, 7)]
DASHES: list[Any] = ["-", (0, (6, 2)), (0, (2, 1.6)), (0, (7, 2, 1.5, 2)), (0, (4, 1.5, 4, 4))]

WIDTH = 760.0  # of every figure, in px, with 1 px = 1 pt
_FONT = 13.0
POINTS = 200  # drawn per curve; more can't be told apart at this width
_WRAP = 24  # characters per line of a label beside a curve


@contextmanager
def figure_style(salt: str = "tightrope") -> Iterator[None]:
    """Matplotlib's defaults with ours on top; the caller's own settings come back afterwards."""
    import matplotlib.style

    ours: dict[str, Any] = {"font.size": _FONT, "svg.fonttype": "none", "svg.hashsalt": salt}
    ours |= dict.fromkeys(("text.color", "axes.labelcolor"), LIGHT["ink"])
    ours |= dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), LIGHT["muted"])
    ours |= {"axes.facecolor": "none", "axes.axisbelow": True, "axes.grid": True}
    ours |= dict.fromkeys(("axes.spines.left", "axes.spines.right", "axes.spines.top"), False)
    ours |= {"grid.color": LIGHT["grid"], "grid.linewidth": 1.0}
    ours |= {"hatch.color": LIGHT["paper"], "hatch.linewidth": 0.8}
    ours |= dict.fromkeys(("ytick.major.size", "ytick.minor.size"), 0.0)
    with matplotlib.style.context(["default", ours]):
        yield


def blank_figure(height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from tightrope.report.shown_figure import ShownFigure

    figure = ShownFigure(figsize=(WIDTH / 72.0, height / 72.0), dpi=72, facecolor=LIGHT["paper"])
    FigureCanvasAgg(figure)
    return figure


def add_axes(figure: Figure, left: float, right: float, bottom: float, top: float) -> Axes:
    """Axes at these px, from the lower left corner."""
    height = figure.get_figheight() * 72.0
    return figure.add_axes((left / WIDTH, bottom / height, (right - left) / WIDTH, (top - bottom) / height))


def finish_axes(axes: Axes, xlabel: str) -> None:
    axes.set_xlabel(xlabel, labelpad=8.0)
    set_ticks(axes.xaxis, log=False)
    axes.tick_params(length=4.0, width=1.0)
    axes.tick_params(axis="y", length=0.0, which="both")


def set_ticks(axis: Any, log: bool) -> None:
    """A few round numbers along an axis, or powers; ticks that were set by hand stay."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if isinstance(axis.get_major_locator(), FixedLocator):
        return
    if log:
        low, high = axis.get_view_interval()
        subs = (1.0,) if high >= 100.0 * low else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=subs, numticks=8))
        axis.set_major_formatter(FuncFormatter(lambda value, _: power_text(value)))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: format_number(float(f"{value:.9g}"))))


def wrapped(text: str) -> str:
    """A label in lines short enough to stand beside a curve or a bar."""
    return "\n".join(textwrap.wrap(text, _WRAP))


def text_width(figure: Figure, text: str) -> float:
    probe = figure.text(0.0, 0.0, text)
    width = float(probe.get_window_extent().width)
    probe.remove()
    return width


def thinned(n: int, most: int) -> NDArray[np.intp]:
    """At most `most` of n indices, evenly spread, always including the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))
