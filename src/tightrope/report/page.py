"""A page: one HTML file that needs nothing else, in light and dark, on screen, phone and paper.

Its frame is `page.html` and its look `page.css`, both beside this module. The same input gives the same bytes.
"""

from __future__ import annotations

import html
import importlib.metadata
import os
import platform
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.report.canvas import THEME
from tightrope.report.glossary import WORDS, place_of, with_links
from tightrope.report.images import png_bytes, svg_text
from tightrope.report.numbers import Cell, cell_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Report:
    """A page, built from top to bottom and written as one `index.html`, with a PNG of each figure beside it.

    Text may hold `**strong**`, `*emphasis*`, `` `code` ``, `x_{t}`, `x^{2}` and `[words](#place)`; all else is shown as it stands.
    Links may lead to a place on the page or to a file beside it, never outside.

    >>> report = Report("Two arms", subtitle="A page to look at")
    >>> report.section("What was run")
    >>> report.text("The queue Q_{t} is *never* negative: `Q >= 0`.")
    >>> report.table(["policy", "regret"], [["safe", (612.3, 598.1, 626.6)]], caption="Regret after 1,000 rounds")
    >>> "612 [598, 627]" in report.html(date="2024-05-01", seed=0)
    True
    """

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title = _filled("title", title)
        self.subtitle = subtitle
        self._parts: list[str] = []
        self._summary: list[str] = []
        self._explained: list[str] = []
        self._linked: set[str] = set()
        self._linked_in_summary: set[str] = set()
        self._contents: list[tuple[int, str, str]] = []
        self._places: set[str] = set()
        self._images: dict[str, bytes] = {}
        self._targets: list[str] = []

    def section(self, heading: str) -> None:
        """Start a section, listed in the contents; its place is its heading in lower case with dashes."""
        self._heading(2, heading)

    def subsection(self, heading: str) -> None:
        """Start a subsection."""
        self._heading(3, heading)

    def summary(self, *sentences: str) -> None:
        """Add to what stands first on the page, wherever it is built: what was run, and what came of it."""
        own = self._linked_in_summary
        self._summary += [
            self._inline(with_links(_filled("sentence", one), self._explained, own)) for one in sentences
        ]

    def words(self, *names: str) -> None:
        """Explain words of `WORDS`, in the order of that table; from here on the first mention in each section leads there."""
        self.section("Words used here")
        self._explained = [name for name in WORDS if name in names]
        unknown = set(names) - set(WORDS)
        if unknown:
            raise InvalidInput(f"words must be among {list(WORDS)}, but got {sorted(unknown)}.")
        items = ""
        for name in self._explained:
            self._places.add(place_of(name))
            title, _, meaning = WORDS[name]
            items += f'<div id="{place_of(name)}"><dt>{self._inline(title)}</dt><dd>{self._inline(meaning)}</dd></div>'
        self._parts.append(f'<dl class="words">{items}</dl>')

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{self._prose('text', text)}</p>")

    def bullets(self, items: Sequence[str]) -> None:
        """Add a list."""
        rows = "".join(f"<li>{self._prose('item', item)}</li>" for item in items)
        self._parts.append(f"<ul>{rows}</ul>")

    def headline(self, facts: Sequence[tuple[Cell, str]]) -> None:
        """Add a row of large numbers, each with the words that say what it is."""
        tiles = ""
        for value, words in facts:
            text = cell_text(value)
            number, *interval = text.split(" [") if isinstance(value, tuple) else [text]
            range_ = f"<small>[{interval[0]}</small>" if interval else ""
            tiles += f"<li><strong>{html.escape(number)}</strong>{range_} <span>{self._inline(_filled('words', words))}</span></li>"
        self._parts.append(f'<ul class="headline">{tiles}</ul>')

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[Cell]], *, caption: str, note: str = ""
    ) -> None:
        """Add a table; the first column names the rows.

        A cell is text, a number, None, or (mean, low, high), which reads "mean [low, high]". Columns of numbers are aligned right.
        """
        _filled("caption", caption)
        n = len(header)
        for i, row in enumerate(rows):
            if len(row) != n:
                raise InvalidInput(f"rows[{i}] must have {n} cells, as the header has, but got {len(row)}.")
        numeric = [bool(rows) and not any(isinstance(row[j], str) for row in rows) for j in range(n)]
        classes = [' class="n"' if is_number else "" for is_number in numeric]
        titles = [html.escape(_without_markup(name)) for name in header]
        head = "".join(
            f'<th scope="col"{kind}>{self._inline(name)}</th>' for name, kind in zip(header, classes)
        )
        body = []
        for row in rows:
            first, *rest = (self._inline(c) if isinstance(c, str) else html.escape(cell_text(c)) for c in row)
            # On a phone a row is a block, in which each cell carries the title of its column.
            cells = "".join(
                f'<td{kind} data-title="{title}">{cell}</td>'
                for cell, kind, title in zip(rest, classes[1:], titles[1:])
            )
            body.append(f'<tr><th scope="row"{classes[0]}>{first}</th>{cells}</tr>')
        foot = f'<p class="note">{self._prose("note", note)}</p>' if note else ""
        self._parts.append(
            f'<div class="table" role="group" tabindex="0" aria-label="{html.escape(_without_markup(caption))}"><table>'
            f"<caption>{self._inline(caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(body)}</tbody></table></div>{foot}"
        )

    def figure(self, figure: Figure, *, name: str, alt: str, caption: str) -> None:
        """Add a figure: `name` is the PNG's file name and must be new, `alt` tells what it shows to those who can't see it."""
        _filled("alt", alt)
        _filled("caption", caption)
        if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) is None:
            raise InvalidInput(f"name must be lower-case words joined by dashes, but got {name!r}.")
        place = f"figure-{name}"
        if place in self._places:
            raise InvalidInput(f"name must be new on this page, but there is already a figure {name!r}.")
        picture, text = svg_text(figure, name=name, alt=alt), self._prose("caption", caption)
        self._images[name], number = png_bytes(figure), len(self._images) + 1
        self._places.add(place)
        self._parts.append(
            f'<figure id="{place}"><div class="plot" role="group" tabindex="0" aria-label="Figure {number}">{picture}</div>'
            f"<figcaption><b>Figure {number}.</b> {text}</figcaption></figure>"
        )

    def code(self, text: str) -> None:
        """Add a block of commands or code, shown exactly."""
        shown = html.escape(_filled("text", text).strip("\n"))
        self._parts.append(f'<pre tabindex="0"><code>{shown}</code></pre>')

    def callout(self, *, paper: str, measured: str, why: str = "") -> None:
        """Set what the paper says beside what was measured, and why they differ or agree."""
        rows = [("The paper says", paper), ("Measured here", measured), ("Why", why)]
        told = ((term, self._inline(text)) for term, text in rows if text)
        items = "".join(f"<div><dt>{term}</dt><dd>{text}</dd></div>" for term, text in told)
        self._parts.append(f'<dl class="callout">{items}</dl>')

    def html(self, *, date: str, seed: int | None = None) -> str:
        """The whole page. `date` is shown as given; versions and the number of cores are those of this process."""
        lost = [target for target in self._targets if target not in self._places]
        if lost:
            what = "links must lead to a place on the page"
            raise InvalidInput(f"{what}, but there is none called {lost[0]!r}.")
        title, subtitle = html.escape(self.title), self._inline(self.subtitle)
        lead = f'<p class="subtitle">{subtitle}</p>' if subtitle else ""
        return Template(_resource("page.html")).substitute(
            title=title,
            style=_stylesheet(),
            header=f"<h1>{title}</h1>{lead}",
            navigation=self._navigation(),
            content="\n".join([*self._in_short(), *self._parts]),
            footer=_provenance(date, seed),
        )

    def write(self, directory: str | os.PathLike[str], *, date: str, seed: int | None = None) -> Path:
        """Write `index.html` and the PNGs into `directory`, made if need be; return the page's path."""
        page = self.html(date=date, seed=seed)
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, image in self._images.items():
            (folder / f"{name}.png").write_bytes(image)
        path = folder / "index.html"
        path.write_text(page, encoding="utf-8")
        return path

    def _in_short(self) -> list[str]:
        if not self._summary:
            return []
        items = "".join(f"<li>{sentence}</li>" for sentence in self._summary)
        return [
            f'<section class="summary" aria-label="In short"><p><b>In short</b></p><ul>{items}</ul></section>'
        ]

    def _prose(self, what: str, text: str) -> str:
        """Markup to HTML, with links to the words that the page explains."""
        return self._inline(with_links(_filled(what, text), self._explained, self._linked))

    def _heading(self, level: int, heading: str) -> None:
        if level == 2:
            self._linked = set()
        words = _without_markup(_filled("heading", heading)).lower()
        words = re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "section"
        place, i = words, 2
        while place in self._places or place == "content":
            place, i = f"{words}-{i}", i + 1
        self._places.add(place)
        self._contents.append((level, place, heading))
        self._parts.append(f'<h{level} id="{place}">{self._inline(heading)}</h{level}>')

    def _navigation(self) -> str:
        sections = [
            (at, html.escape(_without_markup(name))) for level, at, name in self._contents if level == 2
        ]
        if len(sections) < 2:
            return ""
        items = "".join(f'<li><a href="#{place}">{heading}</a></li>' for place, heading in sections)
        return f'<nav aria-label="Contents"><p>Contents</p><ol>{items}</ol></nav>\n'

    def _inline(self, text: str) -> str:
        """Markup to HTML: whatever is not markup is escaped."""
        words = re.split(r"`([^`]+)`", text)
        words[::2] = map(self._words, words[::2])
        words[1::2] = (f"<code>{html.escape(code)}</code>" for code in words[1::2])
        return "".join(words)

    def _words(self, text: str) -> str:
        text = html.escape(text)
        text = re.sub(r"\*\*(\S(?:.*?\S)?)\*\*", r"<strong>\1</strong>", text)
        text = re.sub(r"\*(\S(?:[^*]*?\S)?)\*", r"<em>\1</em>", text)
        text = re.sub(r"_\{([^{}]*)\}", r"<sub>\1</sub>", text)
        text = re.sub(r"\^\{([^{}]*)\}", r"<sup>\1</sup>", text)
        return re.sub(r"\[([^][]+)\]\(([^()\s]+)\)", self._link, text)

    def _link(self, match: re.Match[str]) -> str:
        words, target = match.group(1), html.unescape(match.group(2))
        if target.startswith("#"):
            self._targets.append(target[1:])
        elif ":" in target or target.startswith(("/", "\\")):
            what = "links must lead to '#place' or to a file beside the page"
            raise InvalidInput(f"{what}, but got {target!r}.")
        return f'<a href="{html.escape(target)}">{words}</a>'


def _filled(name: str, text: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"{name} must be a string that is not empty, but got {text!r}.")
    return text


def _without_markup(text: str) -> str:
    """Text without its markup."""
    text = re.sub(r"\[([^][]+)\]\([^()\s]+\)", r"\1", text)
    return re.sub(r"[`*]|[_^](?=\{)|(?<=[_^])\{|\{|\}", "", text)


def _provenance(date: str, seed: int | None) -> str:
    facts = [
        f"Tightrope {importlib.metadata.version('tightrope')}",
        f"Python {platform.python_version()}",
        f"NumPy {np.__version__}",
        f"{os.cpu_count()} cores",
        _filled("date", date),
    ]
    if seed is not None:
        facts.append(f"seed {seed}")
    return " · ".join(html.escape(fact) for fact in facts)


@cache
def _stylesheet() -> str:
    light, dark = ("".join(f"--{name}:{colours[i]};" for name, colours in THEME.items()) for i in (0, 1))
    rules = re.sub(r"\s*\n\s*", "", _resource("page.css"))
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media (prefers-color-scheme:dark){{@media screen{{:root{{{dark}}}}}}}{rules}"
    )


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
