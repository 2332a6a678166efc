"""What was expected against what was seen, one panel for each model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tightrope.report import canvas
from tightrope.report.canvas import LIGHT, SERIES, WIDTH
from tightrope.validation import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS, _SIDE, _GAP = 3, 170.0, 66.0


class Calibration(NamedTuple):
    """Rows in equal-sized bins by expected outcome: mean expected, mean seen and its standard error, (B,) each."""

    expected: Array
    seen: Array
    error: Array

    @property
    def gap(self) -> float:
        """The mean of |expected − seen| over the bins."""
        return float(np.abs(self.expected - self.seen).mean())

    @property
    def noise(self) -> float:
        """What `gap` would be by chance alone if every expectation were right."""
        return float(math.sqrt(2.0 / math.pi) * self.error.mean())


def calibration_figure(panels: Mapping[str, Calibration], what: str) -> Figure:
    """Points on the diagonal are right on average; bars are two standard errors. All panels share their axes."""
    with canvas.figure_style():
        down = -(-len(panels) // _ACROSS)
        height = down * (_SIDE + _GAP) + 20.0
        figure = canvas.blank_figure(height)
        drawn = [
            (one.expected, one.seen - 2 * one.error, one.seen + 2 * one.error) for one in panels.values()
        ]
        low, high = (
            float(np.min([np.min(one) for one in drawn])),
            float(np.max([np.max(one) for one in drawn])),
        )
        room = 0.05 * (high - low or 1.0)
        left = (WIDTH - _ACROSS * _SIDE - (_ACROSS - 1) * _GAP) / 2.0 + 10.0
        for i, (name, one) in enumerate(panels.items()):
            row, column = divmod(i, _ACROSS)
            x, y = left + column * (_SIDE + _GAP), height - 26.0 - row * (_SIDE + _GAP)
            axes = canvas.add_axes(figure, x, x + _SIDE, y - _SIDE, y)
            axes.plot([low, high], [low, high], color=LIGHT["muted"], linestyle=(0, (4, 3)), linewidth=1.0)
            look: dict[str, Any] = {"fmt": "o", "color": SERIES[0], "markersize": 4.0, "elinewidth": 1.2}
            axes.errorbar(one.expected, one.seen, 2 * one.error, **look)
            axes.set_xlim(low - room, high + room)
            axes.set_ylim(low - room, high + room)
            axes.set_title(name, loc="left", fontsize=12.0, color=LIGHT["ink"])
            for axis in (axes.xaxis, axes.yaxis):
                canvas.set_ticks(axis, log=False)
            axes.locator_params(axis="x", nbins=4)
            if column == 0:
                axes.set_ylabel(f"{what} seen")
            if i + _ACROSS >= len(panels):
                axes.set_xlabel(f"{what} expected", labelpad=6.0)
        return figure
