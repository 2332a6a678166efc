"""Colours that all can read."""

from __future__ import annotations

import numpy as np

from tightrope.report.canvas import THEME


def test_colours_have_contrast_in_both_themes() -> None:
    def luminance(colour: str) -> float:
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    def contrast(a: str, b: str) -> float:
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    for theme in (0, 1):
        colours = {name: pair[theme] for name, pair in THEME.items()}
        for name, least in {"ink": 7.0, "muted": 4.5, **{f"s{i}": 3.0 for i in range(1, 7)}}.items():
            assert contrast(colours[name], colours["paper"]) >= least, (theme, name)
        assert contrast(colours["s1"], colours["paper"]) >= 4.5  # links
        assert contrast(colours["muted"], colours["panel"]) >= 4.5
