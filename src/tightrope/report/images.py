"""Figures as files, and as SVG to be put into a page. The same figure gives the same bytes."""

from __future__ import annotations

import html
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.errors import InvalidInput
from tightrope.report.canvas import LIGHT, figure_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VARIABLES = {light: f"var(--{name}, {light})" for name, light in LIGHT.items()}


def svg_text(figure: Figure, *, name: str, alt: str) -> str:
    """The figure as an `<svg>` to be put into a page: themed by CSS variables, with unique ids and without outside references."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with figure_style(salt=name):
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor="none")
    return _inline(buffer.getvalue(), name, alt)


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG on the light theme's paper, at twice its size."""
    buffer = io.BytesIO()
    with figure_style():
        figure.savefig(buffer, format="png", metadata={"Software": None}, **_framed(figure))
    return buffer.getvalue()


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure in the format that the name's ending says: `.png`, `.svg` or `.pdf`.

    >>> from tightrope.report.curves import NamedCurve, curve_figure
    >>> figure = curve_figure([NamedCurve("safe", [1, 2], [0, 1])], xlabel="Round", ylabel="Regret (reward)")
    >>> save_figure(figure, "regret.xyz")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: path must end in .png, .svg or .pdf, but got 'regret.xyz'.
    """
    target = Path(path)
    varying = {".png": "Software", ".svg": "Date", ".pdf": "CreationDate"}
    if target.suffix not in varying:
        raise InvalidInput(field="path", must="end in .png, .svg or .pdf", got=str(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with figure_style(salt=target.stem):
        kind = target.suffix[1:]
        figure.savefig(target, format=kind, metadata={varying[target.suffix]: None}, **_framed(figure))


def _framed(figure: Figure) -> dict[str, Any]:
    """How a figure is saved to stand alone: at twice its size, on paper, with a margin."""
    return {"dpi": 144, "facecolor": LIGHT["paper"], "bbox_inches": figure.bbox_inches.padded(0.25)}


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
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    body = re.sub(r"-?\d+\.\d{2,}", lambda m: f"{round(float(m.group()), 2):g}", body)
    body = re.sub(r"font-family: [^;\"]+", "font-family: inherit", body)
    body = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", body)
    body = re.sub(r"#[0-9a-f]{6}\b", lambda m: _VARIABLES.get(m.group(), m.group()), body)
    body = re.sub(r"\s*\n\s*", " ", body)
    body = re.sub(r"<g>\s*</g>", "", body.replace("> <", "><"))
    return f'<svg role="img" aria-label="{html.escape(alt)}" viewBox="{box.group(1)}">{body.strip()}'
