"""A figure that a notebook shows by itself, whatever backend Matplotlib has and without `%matplotlib inline`."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

_SHARP = 2  # pixels of the picture for each px on the page


class ShownFigure(Figure):
    """A Matplotlib figure with the picture that notebooks ask objects for."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        buffer = io.BytesIO()
        margin = self.bbox_inches.padded(0.25)
        self.savefig(buffer, format="png", dpi=_SHARP * self.dpi, bbox_inches=margin)
        png = buffer.getvalue()
        # A PNG begins with its size.
        width, height = (int.from_bytes(png[at : at + 4], "big") // _SHARP for at in (16, 20))
        return png, {"width": width, "height": height}
