"""How things look in a notebook: small pieces of HTML, with every text escaped and nothing loaded from elsewhere.

An object's `_repr_html_` is built from these; their styles are in `displays.html`. Colours are the notebook's own, faded, so that
both light and dark themes read well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NewType

from tightrope import templates

# Only what this module has made: texts are escaped on the way in.
Html = NewType("Html", str)

_MOST_ROWS = 30
_MOST_LETTERS = 300
_WIDTH, _HEIGHT = 300, 90


class Line(NamedTuple):
    """A curve of a small figure: its name, its points, and optionally a band around it and a level to compare it with."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    level: float | None = None
    level_name: str = ""


def page(title: str, *parts: Html) -> Html:
    return _made("page", title, parts)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, marked: int | None = None) -> Html:
    """Rows under a header, numbers on the right, the `marked` row in bold. After thirty rows, only the count of the rest."""
    body = [list(row) for row in rows]
    shown = list(range(min(len(body), _MOST_ROWS)))
    if marked is not None and marked >= _MOST_ROWS:
        shown[-1] = marked
    right = [bool(body) and all(_is_number(row[i]) for row in body) for i in range(len(head))]
    sides = ["right" if one else "left" for one in right]
    worded = [(i, list(map(text, body[i]))) for i in shown]
    return _made("table", head, sides, worded, marked, len(body) - len(shown))


def facts(pairs: Iterable[tuple[str, Any]]) -> Html:
    """The facts about a thing, one per line: name and value."""
    worded = ((name, text(value)) for name, value in pairs)
    most = _MOST_LETTERS
    return _made("facts", [(name, w if len(w) <= most else f"{w[: most - 1]}…") for name, w in worded])


def lines_of(sentences: Iterable[str], *, warning: bool = False) -> Html:
    """A line for each sentence; as a warning, with a conspicuous bar beside it."""
    return _made("lines", list(sentences), warning)


def figure(lines: Sequence[Line]) -> Html:
    """Small curves side by side, over a logarithmic axis of rounds, drawn in the text's own colour."""
    return _made("figure", list(map(_curve, lines)), _WIDTH, _HEIGHT)


def text(value: Any) -> str:
    """A value as text: a number with four digits, a dash if it is not known."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return _digits(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    return str(value)


def _digits(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size < 1e-12:
        return "0"
    found = f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"
    return found.replace("-", "−", 1) if found.startswith("-") else found


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value != "" and (value[0] in "-−–∞0123456789" or value == "nan")
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _curve(line: Line) -> dict[str, str]:
    """The coordinates of a curve, its band and its level, and a caption."""
    values = [*line.y, *(line.low or ()), *(line.high or ()), *([] if line.level is None else [line.level])]
    known = [one for one in values if math.isfinite(one)]
    least, most = (min(known), max(known)) if known else (0.0, 1.0)
    span, first = (most - least) or 1.0, math.log(max(1.0, line.x[0]))
    width = (math.log(max(1.0, line.x[-1])) - first) or 1.0

    def at(x: float, y: float) -> str:
        across = 4 + (_WIDTH - 8) * (math.log(max(1.0, x)) - first) / width
        return f"{across:.1f},{4 + (_HEIGHT - 8) * (1 - (y - least) / span):.1f}"

    band = level = ""
    if line.low is not None and line.high is not None and all(map(math.isfinite, (*line.low, *line.high))):
        back = zip(reversed(line.x), reversed(line.low))
        band = " ".join(at(x, y) for x, y in (*zip(line.x, line.high), *back))
    said = f"from {text(least)} to {text(most)}; {text(float(line.y[-1]))} in round {int(line.x[-1]):,}"
    if line.level is not None:
        level = " ".join(at(x, line.level) for x in (line.x[0], line.x[-1]))
        said += f"; dashed: {line.level_name}" if line.level_name else ""
    points = " ".join(at(x, y) for x, y in zip(line.x, line.y) if math.isfinite(y))
    return {"name": line.name, "points": points, "band": band, "level": level, "said": said}


def _made(macro: str, *given: Any) -> Html:
    return Html(str(getattr(templates.macros("tightrope/displays.html"), macro)(*given)))
