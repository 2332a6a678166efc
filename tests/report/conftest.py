"""Figures that several tests draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tightrope.report import (
    NamedCurve,
    bars_figure,
    curve_figure,
    last_violation_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_curves() -> Figure:
    x = np.arange(1, 1001)
    y = np.sqrt(x)
    return curve_figure(
        [NamedCurve("safe & sound", x, y, y - 1, y + 1), NamedCurve("fast", x, 0.5 * y)],
        xlabel="Round",
        ylabel="Regret (reward)",
    )


def draw_figures() -> dict[str, Figure]:
    x = np.geomspace(1, 1e4, 50)
    return {
        "curves": draw_curves(),
        "bound": curve_figure(
            [NamedCurve("run", x, x**0.5), NamedCurve("bound", x, 9 + x, reference=True)],
            xlabel="Round",
            ylabel="Regret (reward)",
            logx=True,
            logy=True,
        ),
        "bars": bars_figure(
            ["icu", "other"],
            {"a": [0.2, 0.8], "b": [0.5, -0.5]},
            xlabel="Share",
            marks={"limit": [0.2, np.nan]},
        ),
        "strip": last_violation_figure({"icu": [3, 9, 27], "other": [0]}, references={"icu": 32}),
    }


@pytest.fixture(scope="session")
def curves() -> Callable[[], Figure]:
    """Draws two curves."""
    return draw_curves


@pytest.fixture(scope="session")
def figures() -> Callable[[], dict[str, Figure]]:
    """Draws a figure of each kind."""
    return draw_figures
