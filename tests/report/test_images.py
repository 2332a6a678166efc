"""Figures as files and as SVG."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

from tightrope.report import (
    png_bytes,
    save_figure,
    svg_text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def test_drawing_leaves_matplotlib_alone(curves: Callable[[], Figure]) -> None:
    with matplotlib.rc_context({"font.size": 31.0, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        styled = svg_text(curves(), name="a", alt="a")
        assert dict(matplotlib.rcParams) == before
    assert svg_text(curves(), name="a", alt="a") == styled


def test_figures_are_saved_by_their_ending(curves: Callable[[], Figure], tmp_path: Path) -> None:
    figure = curves()
    for name, start in {"a.png": b"\x89PNG", "a.svg": b"<?xml", "a.pdf": b"%PDF"}.items():
        save_figure(figure, tmp_path / "new" / name)
        content = (tmp_path / "new" / name).read_bytes()
        assert content.startswith(start)
        save_figure(curves(), tmp_path / "new" / name)
        assert (tmp_path / "new" / name).read_bytes() == content
    assert png_bytes(figure) == (tmp_path / "new" / "a.png").read_bytes()
