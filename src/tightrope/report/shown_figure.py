"""A figure that a notebook shows by itself, whatever backend Matplotlib has and without `%matplotlib inline`."""

from __future__ import annotations

from matplotlib.figure import Figure

from tightrope.report.images import png_bytes


class ShownFigure(Figure):
    """A Matplotlib figure with the picture that notebooks ask objects for."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        png = png_bytes(self)
        # A PNG begins with its size; it has twice the pixels, so that it is sharp on any screen.
        width, height = (int.from_bytes(png[at : at + 4], "big") // 2 for at in (16, 20))
        return png, {"width": width, "height": height}
