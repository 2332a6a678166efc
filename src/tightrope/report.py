"""Figures, and pages made of them: one HTML file that needs nothing else, in light and dark, on screen, phone and paper.

Figures are drawn once, in the colours of the light theme. Inlined in a page, each of those colours becomes a CSS variable with
that colour as its fallback, so that one SVG serves both themes. A series is told apart by line style, marker or hatching and by a
label, never by colour alone. The same input gives the same bytes.
"""

from __future__ import annotations

import html
import importlib.metadata
import io
import math
import os
import platform
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InvalidInput
from tightrope.validation import finite_number, real_array, require_finite

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BarSeries",
    "NamedCurve",
    "Panel",
    "Report",
    "bars_figure",
    "bound_figure",
    "curve_figure",
    "format_estimate",
    "format_number",
    "last_violation_figure",
    "panels_figure",
    "png_bytes",
    "save_figure",
    "svg_text",
]

Array: TypeAlias = NDArray[np.float64]
Cell: TypeAlias = str | float | tuple[float, float, float] | None

# name: (light, dark). Series colours are those of Okabe and Ito, moved in lightness until each has a contrast of 3 : 1 with the
# paper of its theme and every pair stays apart under simulated protanopia, deuteranopia and tritanopia.
_THEME = {
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
_LIGHT = {name: light for name, (light, _) in _THEME.items()}
_SERIES = [_LIGHT[f"s{i}"] for i in range(1, 7)]
_DASHES: list[Any] = ["-", (0, (6, 2)), (0, (2, 1.6)), (0, (7, 2, 1.5, 2)), (0, (4, 1.5, 4, 4))]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
_HATCHES = ["", "////", "....", "\\\\\\\\", "xxxx", "----"]

_WIDTH = 760.0  # of every figure, in px, with 1 px = 1 pt
_FONT = 13.0
_POINTS = 200  # drawn per curve; more can't be told apart at this width
_WRAP = 24  # characters per line of a label beside a curve


# ---------------------------------------------------------------------------------------------------------------- figures


class SupportsInterval(Protocol):
    """A curve over recorded rounds, such as `tightrope.result.Curve`."""

    @property
    def rounds(self) -> NDArray[np.int64]:
        """(G,)."""

    @property
    def mean(self) -> Array:
        """(G,)."""

    @property
    def low(self) -> Array:
        """(G,)."""

    @property
    def high(self) -> Array:
        """(G,)."""


@dataclass(frozen=True, eq=False)
class NamedCurve:
    """One line of a figure: its label, x, y and, where known, an interval around y.

    A `reference` (a bound, a limit, a value from elsewhere) is drawn grey, dashed and without markers.

    >>> NamedCurve("safe", [1, 2, 3], [0.0, 1.0, 1.5], low=[0, 0.5, 1], high=[0, 1.5, 2]).name
    'safe'
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    reference: bool = False

    def __post_init__(self) -> None:
        x = real_array("x", self.x, (None,))
        require_finite("x", x)
        if x.size == 0 or (np.diff(x) < 0).any():
            raise InvalidInput(f"x of curve {self.name!r} must be increasing and not empty.")
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", real_array("y", self.y, (x.size,)))
        if (self.low is None) != (self.high is None):
            raise InvalidInput(f"low and high of curve {self.name!r} must be given together.")
        if self.low is not None and self.high is not None:
            object.__setattr__(self, "low", real_array("low", self.low, (x.size,)))
            object.__setattr__(self, "high", real_array("high", self.high, (x.size,)))

    @classmethod
    def of(cls, name: str, curve: SupportsInterval) -> NamedCurve:
        """A curve of a `Result` with its interval: `NamedCurve.of("safe", run.regret)`."""
        return cls(name, curve.rounds, curve.mean, curve.low, curve.high)


@dataclass(frozen=True, eq=False)
class Panel:
    """Curves that share axes; the y-axis is named above its top end. On a log axis values ≤ 0 are left out.

    >>> Panel([NamedCurve("safe", [1, 2], [0, 1])], xlabel="Round", ylabel="Regret (reward)").logy
    False
    """

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
        raise InvalidInput("panels must not be empty, and each must have at least one curve.")
    with _style():
        figure = _blank(height * len(panels))
        texts = [_wrapped(curve.name) for panel in panels for curve in panel.curves]
        right = _WIDTH - 56.0 - max(_text_width(figure, text) for text in texts)
        for i, panel in enumerate(panels):
            base = height * (len(panels) - 1 - i)
            _draw_panel(_axes(figure, 72.0, right, base + 56.0, base + height - 38.0), panel)
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
    """Lines with their bands, each labelled at its right end.

    >>> figure = curve_figure([NamedCurve("safe", [1, 2], [0, 1])], xlabel="Round", ylabel="Regret (reward)")
    >>> figure.axes[0].get_xlabel()
    'Round'
    """
    return panels_figure([Panel(curves, xlabel, ylabel, logx, logy)], height=height)


def bound_figure(
    measured: Sequence[NamedCurve],
    bounds: Sequence[NamedCurve],
    *,
    xlabel: str,
    ylabel: str,
    height: float = 380.0,
) -> Figure:
    """What was measured against what theory promises, on two log axes, the bounds as references.

    >>> run = NamedCurve("measured", [1, 10, 100], [1, 3, 9])
    >>> bound = NamedCurve("Theorem 1", [1, 10, 100], [50, 160, 500])
    >>> bound_figure([run], [bound], xlabel="Round", ylabel="Regret (reward)").axes[0].get_yscale()
    'log'
    """
    references = [NamedCurve(b.name, b.x, b.y, b.low, b.high, reference=True) for b in bounds]
    return curve_figure(
        [*measured, *references], xlabel=xlabel, ylabel=ylabel, logx=True, logy=True, height=height
    )


@dataclass(frozen=True, eq=False)
class BarSeries:
    """One value for each label of a bar chart, with an interval where known.

    >>> BarSeries("LinUCB", [0.3, 0.7]).name
    'LinUCB'
    """

    name: str
    values: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None


def bars_figure(
    labels: Sequence[str],
    series: Sequence[BarSeries],
    *,
    xlabel: str,
    marks: Mapping[str, ArrayLike] | None = None,
) -> Figure:
    """Horizontal bars, grouped by label, with intervals and their values written out.

    `marks` puts a tick on each label's bars, such as a limit for each action: name → one number for each label (nan: none).

    >>> figure = bars_figure(["icu", "other"], [BarSeries("share", [0.2, 0.8])], xlabel="Share of rounds",
    ...                      marks={"capacity": [0.2, float("nan")]})
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['icu', 'other']
    """
    n, m = len(labels), len(series)
    if n == 0 or m == 0 or m > len(_HATCHES):
        raise InvalidInput(
            f"bars need at least one label and 1 to {len(_HATCHES)} series, but got {n} and {m}."
        )
    values = [real_array(f"values of {s.name!r}", s.values, (n,)) for s in series]
    for s, v in zip(series, values):
        require_finite(f"values of {s.name!r}", v)
    ticks = {name: real_array(f"marks[{name!r}]", v, (n,)) for name, v in (marks or {}).items()}
    with _style():
        pitch = max(26.0, 17.0 * m + 10.0)
        head = 18.0 + (22.0 if m > 1 or ticks else 0.0)
        figure = _blank(pitch * n + 54.0 + head)
        names = [_wrapped(label) for label in labels]
        left = 20.0 + max(_text_width(figure, name) for name in names)
        axes = _axes(figure, left, _WIDTH - 96.0, 54.0, 54.0 + pitch * n)
        thickness = (pitch - 10.0) / m / pitch
        handles: list[Any] = []
        for i, (s, v) in enumerate(zip(series, values)):
            y = np.arange(n) + (i - (m - 1) / 2) * thickness
            low, high = _interval_of(s, v)
            handles.append(
                axes.barh(
                    y,
                    v,
                    height=thickness * 0.86,
                    color=_SERIES[i],
                    edgecolor=_LIGHT["paper"],
                    linewidth=0.0,
                    hatch=_HATCHES[i],
                    label=s.name,
                )
            )
            known = np.isfinite(low) & np.isfinite(high)
            axes.hlines(y[known], low[known], high[known], color=_LIGHT["ink"], linewidth=1.4)
            for place, value in zip(y, v):
                axes.text(
                    1.0 + 66.0 / axes.bbox.width,
                    float(place),
                    format_number(float(value)),
                    transform=axes.get_yaxis_transform(),
                    ha="right",
                    va="center",
                )
        for i, (name, at) in enumerate(ticks.items()):
            has = np.isfinite(at)
            handles.append(
                axes.vlines(
                    at[has],
                    np.arange(n)[has] - 0.42,
                    np.arange(n)[has] + 0.42,
                    color=_LIGHT["ink"],
                    linewidth=2.0,
                    linestyle=_DASHES[i % len(_DASHES)],
                    label=name,
                )
            )
        axes.axvline(0.0, color=_LIGHT["muted"], linewidth=1.0)
        axes.set_yticks(np.arange(n), names)
        axes.set_ylim(n - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        _finish(axes, xlabel)
        if m > 1 or ticks:
            axes.legend(
                handles=handles,
                loc="lower left",
                bbox_to_anchor=(0.0, 1.0),
                ncols=4,
                frameon=False,
                borderaxespad=0.3,
                borderpad=0.0,
                handlelength=1.8,
                columnspacing=1.6,
            )
    return figure


def last_violation_figure(
    samples: Mapping[str, ArrayLike],
    *,
    xlabel: str = "Last round in violation (0: never)",
    references: Mapping[str, float] | None = None,
    reference_name: str = "paper",
) -> Figure:
    """A strip for each name with one dot for each run, the median as a bar, and a diamond for a value reported elsewhere.

    >>> figure = last_violation_figure({"capacity": [3, 8, 12], "fairness": [0, 0, 4]}, references={"capacity": 32})
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['capacity', 'fairness']
    """
    if not samples:
        raise InvalidInput("samples must have at least one name.")
    references = references or {}
    unknown = set(references) - set(samples)
    if unknown:
        raise InvalidInput(f"references must be among the samples' names, but got {sorted(unknown)}.")
    runs = {name: np.sort(real_array(f"samples[{name!r}]", v, (None,))) for name, v in samples.items()}
    for name, v in runs.items():
        require_finite(f"samples[{name!r}]", v)
        if v.size == 0:
            raise InvalidInput(f"samples[{name!r}] must not be empty.")
    with _style():
        pitch = 62.0
        figure = _blank(pitch * len(runs) + 78.0)
        names = [_wrapped(name) for name in runs]
        left = 20.0 + max(_text_width(figure, name) for name in names)
        axes = _axes(figure, left, _WIDTH - 150.0, 54.0, 54.0 + pitch * len(runs))
        for i, (name, v) in enumerate(runs.items()):
            shown = v[_thinned(v.size, _POINTS)]
            # The golden ratio spreads dots evenly without chance.
            jitter = (np.arange(shown.size) * 0.6180339887498949) % 1.0 - 0.5
            axes.plot(
                shown,
                i + 0.12 + 0.42 * jitter,
                linestyle="none",
                marker="o",
                markersize=4.5,
                color=_SERIES[0],
                alpha=0.45,
                markeredgewidth=0.0,
                clip_on=False,
            )
            median = float(np.median(v))
            axes.vlines(median, i - 0.16, i + 0.4, color=_LIGHT["ink"], linewidth=2.4)
            text = f"median {format_number(median)}\nmax {format_number(float(v[-1]))}"
            axes.text(
                1.0 + 14.0 / axes.bbox.width,
                i + 0.1,
                text,
                transform=axes.get_yaxis_transform(),
                va="center",
                color=_LIGHT["muted"],
            )
            if name in references:
                at = finite_number(f"references[{name!r}]", references[name])
                axes.plot(
                    [at],
                    [i - 0.26],
                    marker="D",
                    markersize=7.5,
                    color=_LIGHT["paper"],
                    markeredgecolor=_SERIES[1],
                    markeredgewidth=2.0,
                )
                _note(axes, f"{reference_name} {format_number(at)}", (at, i - 0.26), (9.0, 0.0))
        axes.set_yticks(range(len(runs)), names)
        axes.set_ylim(len(runs) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        largest = max([float(v[-1]) for v in runs.values()] + [float(r) for r in references.values()])
        axes.set_xlim(0.0, max(1.0, 1.04 * largest))
        _finish(axes, xlabel)
    return figure


def svg_text(figure: Figure, *, name: str, alt: str) -> str:
    """The figure as an `<svg>` to be put into a page: themed by CSS variables, with unique ids and without outside references.

    >>> figure = curve_figure([NamedCurve("safe", [1, 2], [0, 1])], xlabel="Round", ylabel="Regret (reward)")
    >>> svg_text(figure, name="regret", alt="Regret grows.").startswith('<svg role="img" aria-label="Regret grows." viewBox=')
    True
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with _style(salt=name):
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor="none")
    return _inline(buffer.getvalue(), name, alt)


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG on the light theme's paper, at twice its size.

    >>> figure = curve_figure([NamedCurve("safe", [1, 2], [0, 1])], xlabel="Round", ylabel="Regret (reward)")
    >>> png_bytes(figure)[1:4]
    b'PNG'
    """
    buffer = io.BytesIO()
    with _style():
        figure.savefig(buffer, format="png", metadata={"Software": None}, **_framed(figure))
    return buffer.getvalue()


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure in the format that the name's ending says: `.png`, `.svg` or `.pdf`.

    >>> figure = curve_figure([NamedCurve("safe", [1, 2], [0, 1])], xlabel="Round", ylabel="Regret (reward)")
    >>> save_figure(figure, "regret.xyz")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: path must end in .png, .svg or .pdf, but got 'regret.xyz'.
    """
    target = Path(path)
    varying = {".png": "Software", ".svg": "Date", ".pdf": "CreationDate"}
    if target.suffix not in varying:
        raise InvalidInput(f"path must end in .png, .svg or .pdf, but got {str(path)!r}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _style(salt=target.stem):
        kind = target.suffix[1:]
        figure.savefig(target, format=kind, metadata={varying[target.suffix]: None}, **_framed(figure))


# ---------------------------------------------------------------------------------------------------------------- numbers


def format_number(value: float | None, decimals: int | None = None) -> str:
    """A number for people: four significant digits, or so many decimals; a dash for what is not known.

    >>> format_number(1234567), format_number(0.123456), format_number(-3.0), format_number(None), format_number(2.5, 2)
    ('1,234,567', '0.1235', '−3', '–', '2.50')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if decimals is not None:
        text = f"{value:,.{decimals}f}"
    elif value == int(value):
        text = f"{int(value):,}"
    elif abs(value) >= 1000:
        text = f"{value:,.0f}"
    elif abs(value) < 1e-4:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa}·10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    else:
        text = f"{value:,.{3 - math.floor(math.log10(abs(value)))}f}".rstrip("0").rstrip(".")
    if not text.strip("-0.,"):
        text = text.lstrip("-")
    return text.replace("-", "−", 1) if text.startswith("-") else text


def format_estimate(mean: float, low: float, high: float) -> str:
    """An estimate with its interval, to the two digits that the interval's width can bear.

    >>> format_estimate(612.345, 598.11, 626.58), format_estimate(0.81234, 0.8119, 0.8128), format_estimate(0.0, 0.0, 0.0)
    ('612 [598, 627]', '0.81234 [0.81190, 0.81280]', '0 [0, 0]')
    >>> format_estimate(5.0, float("nan"), float("nan"))
    '5'
    """
    mean, (inner, decimals) = float(mean), _interval_text(low, high)
    return f"{format_number(mean, decimals)} [{inner}]" if inner else format_number(mean)


# ------------------------------------------------------------------------------------------------------------------ pages


class Report:
    """A page, built from top to bottom and written as one `index.html`, with a PNG of each figure beside it.

    Text may hold `**strong**`, `*emphasis*`, `` `code` ``, `x_{t}`, `x^{2}` and `[words](#place)`; all else is shown as it stands.
    Links may lead to a place on the page or to a file beside it, never outside.

    >>> report = Report("Two arms", subtitle="A page to look at")
    >>> report.section("What was run")
    >>> report.text("The queue Q_{t} is *never* negative: `Q >= 0`.")
    >>> report.table(["policy", "regret"], [["safe", (612.3, 598.1, 626.6)]], caption="Regret after 1,000 rounds")
    >>> "612 [598, 627]" in report.html(date="2024-05-01", seed=0)
    True
    """

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title = _filled("title", title)
        self.subtitle = subtitle
        self._parts: list[str] = []
        self._contents: list[tuple[int, str, str]] = []
        self._places: set[str] = set()
        self._images: dict[str, bytes] = {}
        self._targets: list[str] = []

    def section(self, heading: str) -> None:
        """Start a section, listed in the contents; its place is its heading in lower case with dashes."""
        self._heading(2, heading)

    def subsection(self, heading: str) -> None:
        """Start a subsection."""
        self._heading(3, heading)

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{self._inline(_filled('text', text))}</p>")

    def bullets(self, items: Sequence[str]) -> None:
        """Add a list."""
        rows = "".join(f"<li>{self._inline(_filled('item', item))}</li>" for item in items)
        self._parts.append(f"<ul>{rows}</ul>")

    def headline(self, facts: Sequence[tuple[Cell, str]]) -> None:
        """Add a row of large numbers, each with the words that say what it is."""
        tiles = ""
        for value, words in facts:
            number, *interval = (
                _cell_text(value).split(" [") if isinstance(value, tuple) else [_cell_text(value)]
            )
            range_ = f"<small>[{interval[0]}</small>" if interval else ""
            tiles += f"<li><strong>{html.escape(number)}</strong>{range_} <span>{self._inline(_filled('words', words))}</span></li>"
        self._parts.append(f'<ul class="headline">{tiles}</ul>')

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[Cell]], *, caption: str, note: str = ""
    ) -> None:
        """Add a table; the first column names the rows.

        A cell is text, a number, None, or (mean, low, high), which reads "mean [low, high]". Columns of numbers are aligned right.
        """
        _filled("caption", caption)
        for i, row in enumerate(rows):
            if len(row) != len(header):
                raise InvalidInput(
                    f"rows[{i}] must have {len(header)} cells, as the header has, but got {len(row)}."
                )
        numeric = [
            bool(rows) and all(not isinstance(row[j], str) for row in rows) for j in range(len(header))
        ]
        classes = [' class="n"' if is_number else "" for is_number in numeric]
        head = "".join(
            f'<th scope="col"{kind}>{self._inline(name)}</th>' for name, kind in zip(header, classes)
        )
        body = []
        for row in rows:
            cells = [self._inline(c) if isinstance(c, str) else html.escape(_cell_text(c)) for c in row]
            first, *rest = cells
            body.append(
                f'<tr><th scope="row"{classes[0]}>{first}</th>'
                + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(rest, classes[1:]))
                + "</tr>"
            )
        foot = f'<p class="note">{self._inline(note)}</p>' if note else ""
        self._parts.append(
            f'<div class="table" role="group" tabindex="0" aria-label="{_attribute(_plain(caption))}"><table>'
            f"<caption>{self._inline(caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(body)}</tbody></table></div>{foot}"
        )

    def figure(self, figure: Figure, *, name: str, alt: str, caption: str) -> None:
        """Add a figure: `name` is the PNG's file name and must be new, `alt` tells what it shows to those who can't see it."""
        _filled("alt", alt)
        _filled("caption", caption)
        if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) is None:
            raise InvalidInput(f"name must be lower-case words joined by dashes, but got {name!r}.")
        place = f"figure-{name}"
        if place in self._places:
            raise InvalidInput(f"name must be new on this page, but there is already a figure {name!r}.")
        picture, text = svg_text(figure, name=name, alt=alt), self._inline(caption)
        self._images[name], number = png_bytes(figure), len(self._images) + 1
        self._places.add(place)
        self._parts.append(
            f'<figure id="{place}"><div class="plot" role="group" tabindex="0" aria-label="Figure {number}">{picture}</div>'
            f"<figcaption><b>Figure {number}.</b> {text}</figcaption></figure>"
        )

    def code(self, text: str) -> None:
        """Add a block of commands or code, shown exactly."""
        self._parts.append(
            f'<pre tabindex="0"><code>{html.escape(_filled("text", text).strip(chr(10)))}</code></pre>'
        )

    def callout(self, *, paper: str, measured: str, why: str = "") -> None:
        """Set what the paper says beside what was measured, and why they differ or agree."""
        rows = [("The paper says", paper), ("Measured here", measured), ("Why", why)]
        items = "".join(
            f"<div><dt>{term}</dt><dd>{self._inline(text)}</dd></div>" for term, text in rows if text
        )
        self._parts.append(f'<dl class="callout">{items}</dl>')

    def html(self, *, date: str, seed: int | None = None) -> str:
        """The whole page. `date` is shown as given; versions and the number of cores are those of this process."""
        lost = [target for target in self._targets if target not in self._places]
        if lost:
            raise InvalidInput(
                f"links must lead to a place on the page, but there is none called {lost[0]!r}."
            )
        title, subtitle = html.escape(self.title), self._inline(self.subtitle)
        lead = f'<p class="subtitle">{subtitle}</p>' if subtitle else ""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{title}</title>\n<style>{_stylesheet()}</style>\n</head>\n<body>\n"
            '<a class="skip" href="#content">Skip to the content</a>\n'
            f"<header><h1>{title}</h1>{lead}</header>\n{self._navigation()}"
            f'<main id="content">\n{chr(10).join(self._parts)}\n</main>\n'
            f"<footer><p>{_provenance(date, seed)}</p></footer>\n</body>\n</html>\n"
        )

    def write(self, directory: str | os.PathLike[str], *, date: str, seed: int | None = None) -> Path:
        """Write `index.html` and the PNGs into `directory`, made if need be; return the page's path."""
        page = self.html(date=date, seed=seed)
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, image in self._images.items():
            (folder / f"{name}.png").write_bytes(image)
        path = folder / "index.html"
        path.write_text(page, encoding="utf-8")
        return path

    def _heading(self, level: int, heading: str) -> None:
        words = (
            re.sub(r"[^a-z0-9]+", "-", _plain(_filled("heading", heading)).lower()).strip("-") or "section"
        )
        place, i = words, 2
        while place in self._places or place == "content":
            place, i = f"{words}-{i}", i + 1
        self._places.add(place)
        self._contents.append((level, place, heading))
        self._parts.append(f'<h{level} id="{place}">{self._inline(heading)}</h{level}>')

    def _navigation(self) -> str:
        sections = [(place, heading) for level, place, heading in self._contents if level == 2]
        if len(sections) < 2:
            return ""
        items = "".join(
            f'<li><a href="#{place}">{html.escape(_plain(heading))}</a></li>' for place, heading in sections
        )
        return f'<nav aria-label="Contents"><p>Contents</p><ol>{items}</ol></nav>\n'

    def _inline(self, text: str) -> str:
        """Markup to HTML: whatever is not markup is escaped."""
        parts = re.split(r"`([^`]+)`", text)
        return "".join(
            f"<code>{html.escape(part)}</code>" if i % 2 else self._words(part)
            for i, part in enumerate(parts)
        )

    def _words(self, text: str) -> str:
        text = html.escape(text)
        text = re.sub(r"\*\*(\S(?:.*?\S)?)\*\*", r"<strong>\1</strong>", text)
        text = re.sub(r"\*(\S(?:[^*]*?\S)?)\*", r"<em>\1</em>", text)
        text = re.sub(r"_\{([^{}]*)\}", r"<sub>\1</sub>", text)
        text = re.sub(r"\^\{([^{}]*)\}", r"<sup>\1</sup>", text)
        return re.sub(r"\[([^][]+)\]\(([^()\s]+)\)", self._link, text)

    def _link(self, match: re.Match[str]) -> str:
        words, target = match.group(1), html.unescape(match.group(2))
        if target.startswith("#"):
            self._targets.append(target[1:])
        elif ":" in target or target.startswith(("/", "\\")):
            raise InvalidInput(
                f"links must lead to '#place' or to a file beside the page, but got {target!r}."
            )
        return f'<a href="{_attribute(target)}">{words}</a>'


# ---------------------------------------------------------------------------------------------------------------- drawing


@contextmanager
def _style(salt: str = "tightrope") -> Iterator[None]:
    """Matplotlib's defaults with ours on top, and the caller's own settings again afterwards."""
    import matplotlib.style

    ours: dict[str, Any] = {
        "font.size": _FONT,
        "text.color": _LIGHT["ink"],
        "axes.labelcolor": _LIGHT["ink"],
        "axes.edgecolor": _LIGHT["muted"],
        "axes.facecolor": "none",
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.spines.left": False,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "grid.color": _LIGHT["grid"],
        "grid.linewidth": 1.0,
        "hatch.color": _LIGHT["paper"],
        "hatch.linewidth": 0.8,
        "xtick.color": _LIGHT["muted"],
        "ytick.color": _LIGHT["muted"],
        "ytick.major.size": 0.0,
        "ytick.minor.size": 0.0,
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
    }
    with matplotlib.style.context(["default", ours]):
        yield


def _framed(figure: Figure) -> dict[str, Any]:
    """How a figure is saved to stand alone: at twice its size, on paper, with a margin."""
    return {"dpi": 144, "facecolor": _LIGHT["paper"], "bbox_inches": figure.bbox_inches.padded(0.25)}


def _blank(height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH / 72.0, height / 72.0), dpi=72)
    FigureCanvasAgg(figure)
    return figure


def _axes(figure: Figure, left: float, right: float, bottom: float, top: float) -> Axes:
    """Axes at these px, from the lower left corner."""
    height = figure.get_figheight() * 72.0
    return figure.add_axes((left / _WIDTH, bottom / height, (right - left) / _WIDTH, (top - bottom) / height))


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
            look: dict[str, Any] = {
                "color": _LIGHT["muted"],
                "linestyle": _DASHES[1 + n_references % 4],
                "linewidth": 1.6,
            }
            marks: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
            n_references += 1
        else:
            look = {
                "color": _SERIES[i % len(_SERIES)],
                "linestyle": _DASHES[i % len(_DASHES)],
                "linewidth": 2.0,
                "marker": _MARKERS[i % len(_MARKERS)],
                "markersize": 5.5,
            }
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
    axes.text(
        -72.0 / axes.bbox.width,
        1.0 + 16.0 / axes.bbox.height,
        panel.ylabel,
        transform=axes.transAxes,
        weight="bold",
    )
    _finish(axes, panel.xlabel)
    _ticks(axes.yaxis, panel.logy)
    if panel.logx:
        _ticks(axes.xaxis, log=True)
    _label_ends(axes, ends)


def _drawn(curve: NamedCurve, panel: Panel) -> tuple[Array, Array, Array, Array]:
    """At most 200 points of a curve, evenly spread along the drawn axis; what a log axis can't show is nan."""
    x, y = np.asarray(curve.x, dtype=float), np.asarray(curve.y, dtype=float)
    gap = np.full_like(y, np.nan)
    low = gap if curve.low is None else np.asarray(curve.low, dtype=float)
    high = gap if curve.high is None else np.asarray(curve.high, dtype=float)
    if panel.logx:
        keep = x > 0
        x, y, low, high = x[keep], y[keep], low[keep], high[keep]
    if x.size > _POINTS:
        along = np.log(x) if panel.logx else x
        at = np.unique(np.searchsorted(along, np.linspace(along[0], along[-1], _POINTS)))
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
    names = [_wrapped(name) for name, *_ in ends]
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
        axes.plot(
            [min(start, 1.0), right[0], right[1]],
            [y0 / box.height, y0 / box.height, at],
            color=_LIGHT["muted"],
            linewidth=0.8,
            transform=axes.transAxes,
            clip_on=False,
            zorder=1.5,
        )
        axes.plot(
            [right[1], right[2], right[3]],
            [at, at, at],
            transform=axes.transAxes,
            clip_on=False,
            markevery=[1],
            **look,
        )
        axes.text(right[4], at, name, transform=axes.transAxes, va="center", linespacing=1.15)


def _apart(wanted: Array, heights: Array, room: float) -> Array:
    """Centres nearest to the wanted ones (least squares, in their order) such that labels don't overlap: isotonic regression."""
    need = np.concatenate([[0.0], np.cumsum((heights[1:] + heights[:-1]) / 2)])
    if need[-1] > room:  # too many for the room: closer together, but still in order
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


def _finish(axes: Axes, xlabel: str) -> None:
    axes.set_xlabel(xlabel, labelpad=8.0)
    _ticks(axes.xaxis, log=False)
    axes.tick_params(length=4.0, width=1.0)
    axes.tick_params(axis="y", length=0.0, which="both")


def _ticks(axis: Any, log: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if isinstance(axis.get_major_locator(), FixedLocator):
        return
    if log:
        low, high = axis.get_view_interval()
        axis.set_major_locator(
            LogLocator(subs=(1.0,) if high >= 100.0 * low else (1.0, 2.0, 5.0), numticks=8)
        )
        axis.set_major_formatter(FuncFormatter(lambda value, _: _power_text(value)))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: format_number(float(f"{value:.9g}"))))


def _power_text(value: float) -> str:
    exponent = round(math.log10(value))
    if 0.009 < value < 99999 or not math.isclose(value, 10.0**exponent):
        return format_number(value)
    return f"10{str(exponent).translate(_SUPERSCRIPT)}"


def _note(axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float]) -> None:
    axes.annotate(
        text,
        at,
        xytext=shift,
        textcoords="offset points",
        va="center",
        color=_LIGHT["ink"],
        annotation_clip=False,
    )


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _WRAP))


def _text_width(figure: Figure, text: str) -> float:
    probe = figure.text(0.0, 0.0, text)
    width = float(probe.get_window_extent().width)
    probe.remove()
    return width


def _thinned(n: int, most: int) -> NDArray[np.intp]:
    """At most so many of n indices, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def _interval_of(series: BarSeries, values: Array) -> tuple[Array, Array]:
    if series.low is None or series.high is None:
        return np.full_like(values, np.nan), np.full_like(values, np.nan)
    name = series.name
    return (
        real_array(f"low of {name!r}", series.low, values.shape),
        real_array(f"high of {name!r}", series.high, values.shape),
    )


# ------------------------------------------------------------------------------------------------------------ SVG to HTML

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_VARIABLES = {light: f"var(--{name}, {light})" for name, light in _LIGHT.items()}


def _inline(svg: str, name: str, alt: str) -> str:
    """Matplotlib's SVG, without what a page must not repeat: prologue, name spaces, page-wide styles, ids that nothing uses."""
    svg = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="([^"]+)"', svg)
    assert box is not None
    body = svg[svg.index(">") + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = body.replace("xlink:href", "href")
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', body))
    body = re.sub(
        r' id="([^"]+)"', lambda m: f' id="{name}-{m.group(1)}"' if m.group(1) in used else "", body
    )
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    body = re.sub(r"-?\d+\.\d{2,}", lambda m: f"{round(float(m.group()), 2):g}", body)
    body = re.sub(r"font-family: [^;\"]+", "font-family: inherit", body)
    body = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", body)
    body = re.sub(r"#[0-9a-f]{6}\b", lambda m: _VARIABLES.get(m.group(), m.group()), body)
    body = re.sub(r"\s*\n\s*", " ", body)
    body = re.sub(r"> <", "><", body)
    body = re.sub(r"(?:<g>\s*</g>)", "", body)
    return f'<svg role="img" aria-label="{_attribute(alt)}" viewBox="{box.group(1)}">{body.strip()}'


def _filled(name: str, text: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"{name} must be a string that is not empty, but got {text!r}.")
    return text


def _attribute(text: str) -> str:
    return html.escape(text, quote=True)


def _plain(text: str) -> str:
    """Text without its markup."""
    text = re.sub(r"\[([^][]+)\]\([^()\s]+\)", r"\1", text)
    return re.sub(r"[`*]|[_^](?=\{)|(?<=[_^])\{|\{|\}", "", text)


def _cell_text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return format_estimate(*cell)
    return format_number(cell)


def _interval_text(low: float, high: float) -> tuple[str, int | None]:
    """low and high to two digits of their difference, and the number of decimals; nothing where they are not finite."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "", None
    width = float(high) - float(low)
    decimals = min(6, max(0, 1 - math.floor(math.log10(width)))) if width > 0 else None
    return f"{format_number(low, decimals)}, {format_number(high, decimals)}", decimals


def _provenance(date: str, seed: int | None) -> str:
    facts = [
        f"Tightrope {importlib.metadata.version('tightrope')}",
        f"Python {platform.python_version()}",
        f"NumPy {np.__version__}",
        f"{os.cpu_count()} cores",
        _filled("date", date),
    ]
    if seed is not None:
        facts.append(f"seed {seed}")
    return " · ".join(html.escape(fact) for fact in facts)


def _stylesheet() -> str:
    light, dark = ("".join(f"--{name}:{colours[i]};" for name, colours in _THEME.items()) for i in (0, 1))
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media (prefers-color-scheme:dark){{@media screen{{:root{{{dark}}}}}}}{_RULES}"
    )


_RULES = re.sub(
    r"\s*\n\s*",
    "",
    """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth;scroll-padding-top:1rem}
body{margin:0 auto;padding:3rem 1.25rem 4rem;max-width:52rem;background:var(--paper);color:var(--ink);
font:1.0625rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
font-variant-numeric:lining-nums}
h1,h2,h3{line-height:1.2;text-wrap:balance;letter-spacing:-.012em}
h1{font-size:clamp(1.9rem,5vw,2.75rem);margin:0 0 .5rem}
h2{font-size:1.6rem;margin:3.5rem 0 1rem;padding-top:1.25rem;border-top:1px solid var(--grid)}
h3{font-size:1.2rem;margin:2.25rem 0 .75rem}
p,ul,dl,pre,figure,.table{margin:0 0 1.25rem}
p,li{max-width:44rem;text-wrap:pretty}
.subtitle{font-size:1.2rem;color:var(--muted);margin-bottom:2rem}
a{color:var(--s1);text-underline-offset:.15em}
a:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--s1);outline-offset:3px;border-radius:3px}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:1rem;background:var(--paper);padding:.5rem 1rem;z-index:1}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.875em}
code{background:var(--panel);padding:.12em .35em;border-radius:4px;overflow-wrap:break-word}
pre{background:var(--panel);padding:1rem 1.15rem;border-radius:8px;overflow-x:auto;line-height:1.5}
pre code{background:none;padding:0;font-size:inherit}
sub,sup{line-height:0;font-size:.75em}
nav{font-size:.95rem;margin:0 0 2.5rem}
nav p{font-weight:600;margin:0 0 .35rem}
nav ol{margin:0;padding-left:2rem}
nav li{padding:.12rem 0}
nav a{text-decoration:none}
nav a:hover{text-decoration:underline}
.headline{list-style:none;padding:0;display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:1rem;
margin:1.75rem 0 2rem}
.headline li{background:var(--panel);border-radius:10px;padding:1rem 1.15rem;line-height:1.4;font-size:.95rem}
.headline strong{display:block;font-size:1.75rem;line-height:1.2;letter-spacing:-.02em;margin-bottom:.3rem;
font-variant-numeric:tabular-nums}
.headline small{display:block;font-size:.95rem;margin:-.15rem 0 .3rem;font-variant-numeric:tabular-nums}
.headline span{color:var(--muted)}
figure{margin:1.75rem 0 2.25rem}
.plot{overflow-x:auto}
.plot svg{display:block;width:100%;min-width:34rem;height:auto}
.plot svg *{stroke-linejoin:round}
figcaption{font-size:.95rem;color:var(--muted);margin-top:.5rem;max-width:44rem}
figcaption b{color:var(--ink)}
.table{overflow-x:auto;margin:1.75rem 0}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums lining-nums}
caption{text-align:left;font-weight:600;padding-bottom:.6rem}
th,td{padding:.42rem .95rem .42rem 0;text-align:left;vertical-align:baseline;border-bottom:1px solid var(--grid)}
th:last-child,td:last-child{padding-right:.25rem}
thead th{color:var(--muted);font-weight:600;border-bottom:2px solid var(--muted);vertical-align:bottom}
tbody th{font-weight:500;min-width:8.5rem}
.n{text-align:right;white-space:nowrap}
thead .n{white-space:normal}
.note{font-size:.9rem;color:var(--muted);margin-top:-1rem}
.callout{background:var(--panel);border-left:4px solid var(--s1);border-radius:0 10px 10px 0;padding:1rem 1.25rem;margin:1.75rem 0}
.callout div{display:grid;grid-template-columns:9.5rem 1fr;gap:.25rem 1rem;padding:.3rem 0}
.callout dt{font-weight:600;font-size:.95em}
.callout dd{margin:0}
footer{margin-top:4rem;padding-top:1rem;border-top:1px solid var(--grid);font-size:.875rem;color:var(--muted)}
@media (min-width:80rem){
body{max-width:74rem;display:grid;grid-template-columns:14rem minmax(0,52rem);column-gap:4rem}
header,main,footer{grid-column:2}
nav{grid-column:1;grid-row:2;position:sticky;top:2rem;align-self:start;max-height:calc(100vh - 4rem);overflow-y:auto}
main{grid-column:2;grid-row:2}}
@media (max-width:36rem){
body{padding-top:1.75rem}
.callout div{grid-template-columns:1fr}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
@media print{
body{display:block;max-width:none;padding:0;font-size:10.5pt}
nav,.skip{display:none}
h2,h3,caption{break-after:avoid}
figure,tr,.callout,.headline,pre{break-inside:avoid}
pre{white-space:pre-wrap}
.plot,.table{overflow:visible}
.plot svg{min-width:0}}
""",
).strip()
