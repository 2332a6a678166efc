"""How things look in a notebook: small pieces of HTML, with every text escaped and nothing loaded from elsewhere.

An object's `_repr_html_` is made of these. Colours are the notebook's own, thinned, so that light and dark themes both read well;
styles are inline, since some viewers drop all others.

>>> page("Rules <2>", facts([("icu", 0.2)])).count("&lt;2&gt;")
1
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple, NewType

# Only what this module has made: texts are escaped on the way in.
Html = NewType("Html", str)

_LINE = "1px solid rgba(128,128,128,.4)"
_CELL = "padding:.15em .8em .15em 0;vertical-align:top;border:0"
_MOST_ROWS = 30
_MOST_LETTERS = 300
_WIDTH, _HEIGHT = 300, 90


class Line(NamedTuple):
    """A curve of a small figure: what it is called, its points, and maybe a band around it and a level to hold it against."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    level: float | None = None
    level_name: str = ""


def page(title: str, *parts: Html) -> Html:
    """A heading and what belongs under it."""
    body = "".join(part for part in parts if part)
    return Html(
        f'<div style="font-size:.95em"><div style="font-weight:600">{escape(title)}</div>{body}</div>'
    )


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, marked: int | None = None) -> Html:
    """Rows under a head, numbers to the right; the row that is `marked` is bold. Beyond thirty rows the rest is counted.

    >>> "4 more" in table(["n"], [[i] for i in range(34)])
    True
    """
    body = [list(row) for row in rows]
    shown = list(range(min(len(body), _MOST_ROWS)))
    if marked is not None and marked >= _MOST_ROWS:
        shown[-1] = marked
    right = [bool(body) and all(_is_number(row[i]) for row in body) for i in range(len(head))]
    align = ["text-align:right" if one else "text-align:left" for one in right]
    titles = "".join(
        f'<th style="{_CELL};{side};border-bottom:{_LINE};font-weight:600">{escape(name)}</th>'
        for name, side in zip(head, align, strict=True)
    )
    lines = []
    for i in shown:
        weight = ";font-weight:600" if i == marked else ""
        cells = (
            f'<td style="{_CELL};{side}{weight}">{escape(text(value))}</td>'
            for value, side in zip(body[i], align, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    made = f'<table style="border-collapse:collapse;margin:.3em 0"><thead><tr>{titles}</tr></thead>'
    more = len(body) - len(shown)
    return Html(
        f"{made}<tbody>{''.join(lines)}</tbody></table>{lines_of([f'{more:,} more'] if more else [])}"
    )


def facts(pairs: Iterable[tuple[str, Any]]) -> Html:
    """What is known of a thing, a line for each: its name, its value."""
    rows = "".join(
        f'<tr><td style="{_CELL};text-align:left;opacity:.75">{escape(name)}</td>'
        f'<td style="{_CELL};text-align:left">{escape(_cut(text(value)))}</td></tr>'
        for name, value in pairs
    )
    return Html(
        f'<table style="border-collapse:collapse;margin:.3em 0"><tbody>{rows}</tbody></table>' if rows else ""
    )


def lines_of(sentences: Iterable[str], *, warning: bool = False) -> Html:
    """A line for each sentence; as a warning, with a bar beside it that is seen at once."""
    style = "border-left:3px solid #d9822b;padding-left:.6em;" if warning else ""
    return Html("".join(f'<div style="{style}margin:.2em 0">{escape(one)}</div>' for one in sentences))


def figure(lines: Sequence[Line]) -> Html:
    """Small curves side by side, over a logarithmic axis of rounds, drawn in the text's own colour."""
    drawn = "".join(
        f'<div style="margin-right:1.6em"><div style="opacity:.75">{escape(one.name)}</div>{_curve(one)}</div>'
        for one in lines
    )
    return Html(f'<div style="display:flex;flex-wrap:wrap;margin:.3em 0">{drawn}</div>' if drawn else "")


def text(value: Any) -> str:
    """A value in words: four digits of a number, a dash for what is not known.

    >>> text(0.123456), text(12345), text(None), text(True), text(["a", "b"])
    ('0.1235', '12,345', '–', 'yes', 'a, b')
    """
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


def _cut(words: str) -> str:
    return words if len(words) <= _MOST_LETTERS else f"{words[: _MOST_LETTERS - 1]}…"


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


def _curve(line: Line) -> str:
    """One curve as SVG, with the least and the greatest of what it shows beside it."""
    values = [*line.y, *(line.low or ()), *(line.high or ()), *([] if line.level is None else [line.level])]
    known = [one for one in values if math.isfinite(one)]
    least, most = (min(known), max(known)) if known else (0.0, 1.0)
    span, first = (most - least) or 1.0, math.log(max(1.0, line.x[0]))
    width = (math.log(max(1.0, line.x[-1])) - first) or 1.0

    def at(x: float, y: float) -> str:
        across = 4 + (_WIDTH - 8) * (math.log(max(1.0, x)) - first) / width
        return f"{across:.1f},{4 + (_HEIGHT - 8) * (1 - (y - least) / span):.1f}"

    parts = []
    if line.low is not None and line.high is not None and all(map(math.isfinite, (*line.low, *line.high))):
        edge = [at(x, y) for x, y in zip(line.x, line.high)]
        edge += [at(x, y) for x, y in zip(reversed(line.x), reversed(line.low))]
        parts.append(f'<polygon points="{" ".join(edge)}" fill="currentColor" opacity=".18"/>')
    if line.level is not None:
        ends = " ".join(at(x, line.level) for x in (line.x[0], line.x[-1]))
        parts.append(
            f'<polyline points="{ends}" fill="none" stroke="currentColor" stroke-dasharray="4 3" opacity=".6"/>'
        )
    points = " ".join(at(x, y) for x, y in zip(line.x, line.y) if math.isfinite(y))
    parts.append(f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>')
    said = f"from {text(least)} to {text(most)}; {text(float(line.y[-1]))} in round {int(line.x[-1]):,}"
    said += f"; dashed: {line.level_name}" if line.level is not None and line.level_name else ""
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    drawn = f'<svg {size} role="img" aria-label="{escape(line.name)}" style="display:block">{"".join(parts)}</svg>'
    return f'{drawn}<div style="opacity:.75;font-size:.9em">{escape(said)}</div>'
