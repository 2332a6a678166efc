"""Curves that can be told apart, with names that can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope.report import (
    NamedCurve,
    Panel,
    curve_figure,
    panels_figure,
)
from tightrope.report.curves import _apart

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def test_figures_name_their_axes_and_series(curves: Callable[[], Figure]) -> None:
    axes = curves().axes[0]
    texts = {text.get_text() for text in axes.texts}
    assert axes.get_xlabel() == "Round"
    assert {"Regret (reward)", "safe & sound", "fast"} <= texts


def test_series_differ_by_more_than_colour() -> None:
    x = np.arange(1, 50)
    figure = curve_figure([NamedCurve(str(i), x, i * x) for i in range(7)], xlabel="x", ylabel="y")
    lines = [line for line in figure.axes[0].lines if len(np.atleast_1d(line.get_xdata())) == x.size]
    looks = {(str(line.get_linestyle()), str(line.get_marker())) for line in lines}
    assert len(lines) == len(looks) == 7


def test_labels_keep_their_order_and_distance() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        n = int(rng.integers(1, 10))
        wanted, heights = np.sort(rng.uniform(0, 300, n)), rng.uniform(10, 30, n)
        places = _apart(wanted, heights, 300.0)
        gaps = (heights[1:] + heights[:-1]) / 2
        assert (np.diff(places) >= gaps - 1e-9).all()
        assert places[0] >= 0
        assert places[-1] <= 300 + 1e-9
    # Far enough apart already: nothing moves. Two at the same place: they share the way.
    np.testing.assert_allclose(_apart(np.array([10.0, 90.0]), np.full(2, 20.0), 300.0), [10, 90])
    np.testing.assert_allclose(_apart(np.array([50.0, 50.0]), np.full(2, 20.0), 300.0), [40, 60])


def test_a_log_axis_leaves_out_what_it_can_not_show() -> None:
    panel = Panel(
        [NamedCurve("a", [0, 1, 10], [5, 0, 2], [0, 0, 1], [9, 0, 3])], "x", "y", logx=True, logy=True
    )
    line = panels_figure([panel]).axes[0].lines[0]
    np.testing.assert_array_equal(line.get_xdata(), [1, 10])
    np.testing.assert_array_equal(line.get_ydata(), [np.nan, 2])


def test_long_curves_are_thinned_but_keep_their_ends() -> None:
    x = np.arange(1, 100_001)
    for logx in (False, True):
        figure = curve_figure([NamedCurve("a", x, x)], xlabel="x", ylabel="y", logx=logx)
        drawn = np.asarray(figure.axes[0].lines[0].get_xdata())
        assert drawn.size <= 200
        assert (drawn[0], drawn[-1]) == (1, 100_000)


def test_curves_from_results_carry_their_interval() -> None:
    class Measured:
        rounds, mean = np.array([1, 2]), np.array([1.0, 2.0])
        low, high = mean - 1, mean + 1

    curve = NamedCurve.of("a", Measured())
    np.testing.assert_array_equal(np.asarray(curve.high), [2, 3])


def test_unknown_intervals_are_not_drawn() -> None:
    nothing = np.full(3, np.nan)
    figure = curve_figure([NamedCurve("a", [1, 2, 3], [1, 2, 3], nothing, nothing)], xlabel="x", ylabel="y")
    assert not figure.axes[0].collections


def test_bad_curves_are_refused() -> None:
    with pytest.raises(InvalidInput, match="increasing"):
        NamedCurve("a", [2, 1], [0, 0])
    with pytest.raises(InvalidInput, match="together"):
        NamedCurve("a", [1, 2], [0, 0], low=[0, 0])
    with pytest.raises(InvalidInput, match="shape"):
        NamedCurve("a", [1, 2], [0, 0, 0])
    with pytest.raises(InvalidInput, match="at least one curve"):
        panels_figure([])
    with pytest.raises(InvalidInput, match="x > 0"):
        curve_figure([NamedCurve("a", [0], [0])], xlabel="x", ylabel="y", logx=True)


def test_a_flat_panel_has_an_axis_that_fits() -> None:
    x = np.arange(1, 50)
    zero = NamedCurve("none", x, np.zeros(49), np.zeros(49), np.zeros(49))
    [nothing, level, real] = panels_figure(
        [
            Panel([zero, zero], "Round", "Violation"),
            Panel([NamedCurve("flat", x, np.full(49, 40.0))], "Round", "Regret"),
            Panel([zero, NamedCurve("tiny", x, 1e-6 * x)], "Round", "Violation"),
        ]
    ).axes
    assert "zero throughout" in {text.get_text() for text in nothing.texts}
    assert [tick.get_text() for tick in nothing.get_yticklabels()] == ["0"]
    assert level.get_ylim() == (20.0, 60.0)
    for axes in (level, real):
        assert "zero throughout" not in {text.get_text() for text in axes.texts}
    assert real.get_ylim()[1] < 1e-4
