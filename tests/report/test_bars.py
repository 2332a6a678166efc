"""Bars and strips: every value is written out, every limit marked."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope.report import bars_figure, last_violation_figure


def test_bars_carry_their_values_and_limits() -> None:
    figure = bars_figure(
        ["icu", "other"], {"share": [0.25, 0.75]}, xlabel="Share", marks={"at most": [0.2, np.nan]}
    )
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["0.25", "0.75"]
    assert [bar.get_width() for bar in axes.patches] == [0.25, 0.75]
    (limit,) = [lines for lines in axes.collections if lines.get_label() == "at most"]
    assert [segment[0][0] for segment in limit.get_segments()] == [0.2]


def test_a_strip_has_a_dot_for_each_run() -> None:
    figure = last_violation_figure({"icu": [3, 9, 27], "other": [0]}, references={"icu": 32})
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == ["median 9\nmax 27", "paper 32", "median 0\nmax 0"]
    assert sorted(figure.axes[0].lines[0].get_xdata()) == [3, 9, 27]


def test_bad_bars_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one label"):
        bars_figure([], [], xlabel="x")
    with pytest.raises(InvalidInput, match="shape"):
        bars_figure(["a"], {"s": [1, 2]}, xlabel="x")
    with pytest.raises(InvalidInput, match="finite"):
        bars_figure(["a"], {"s": [np.nan]}, xlabel="x")
    with pytest.raises(InvalidInput, match="among the samples"):
        last_violation_figure({"a": [1]}, references={"b": 2})
    with pytest.raises(InvalidInput, match="not be empty"):
        last_violation_figure({"a": []})
