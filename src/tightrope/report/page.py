"""A page: one HTML file that needs nothing else, in light and dark, on screen, phone and paper.

Its frame is `page.html`, its parts `blocks.html`, its style `page.css`, all beside this module. The same input gives the
same bytes.
"""

from __future__ import annotations

import html
import importlib.metadata
import itertools
import os
import platform
import re
from collections.abc import Sequence
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import templates
from tightrope.errors import InvalidInput
from tightrope.report.canvas import THEME
from tightrope.report.glossary import glossary, place_of, with_links
from tightrope.report.images import png_bytes, svg_text
from tightrope.report.numbers import Cell, cell_text
from tightrope.words import Place

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure


class Report:
    """A page, built from top to bottom and written as one `index.html`, with a PNG of each figure beside it.

    Text may hold `**strong**`, `*emphasis*`, `` `code` ``, `x_{t}`, `x^{2}` and `[words](#place)`; everything else is shown
    literally. Links may lead to a place on the page or to a file beside it, never outside.

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
        self._parts: list[Markup] = []
        self._summary: list[Markup] = []
        self._explained: list[str] = []
        self._linked: set[str] = set()
        self._linked_in_summary: set[str] = set()
        self._sections: list[tuple[str, str]] = []
        self._places = {"content"}
        self._images: dict[str, bytes] = {}

    def section(self, heading: str) -> None:
        """Start a section, listed in the contents; its anchor is its heading in lower case with dashes."""
        self._linked = set()
        self._sections.append((self._heading(2, heading), _plain(heading)))

    def subsection(self, heading: str) -> None:
        """Start a subsection."""
        self._heading(3, heading)

    def summary(self, *sentences: str) -> None:
        """Add to the summary at the top of the page, from anywhere: what was run, and what came out."""
        for one in sentences:
            self._summary.append(_inline(self._prose("sentence", one, self._linked_in_summary)))

    def words(self, *names: str) -> None:
        """Explain words of the glossary, in its order; from here on the first mention in each section links there."""
        known = glossary()
        if unknown := set(names) - set(known):
            raise InvalidInput(field="words", must=f"be among {list(known)}", got=sorted(unknown))
        self.section("Words used here")
        self._explained = [name for name in known if name in names]
        self._places.update(map(place_of, self._explained))
        self._add("words", [(place_of(one), known[one].title, known[one].meaning) for one in self._explained])

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self._add("text", self._prose("text", text))

    def bullets(self, items: Sequence[str]) -> None:
        """Add a list."""
        self._add("bullets", [self._prose("item", item) for item in items])

    def headline(self, facts: Sequence[tuple[Cell, str]]) -> None:
        """Add a row of large numbers, each with a caption."""
        self._add("headline", [(value, _filled("words", words)) for value, words in facts])

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[Cell]], *, caption: str, note: str = ""
    ) -> None:
        """Add a table; the first column names the rows.

        A cell is text, a number, None, or (mean, low, high), which reads "mean [low, high]". Columns of numbers are aligned right.
        """
        n = len(header)
        for i, row in enumerate(rows):
            if len(row) != n:
                wanted = f"have {n} cells, as the header has"
                raise InvalidInput(field=Place("rows", i), must=wanted, got=len(row))
        numeric = [bool(rows) and not any(isinstance(row[j], str) for row in rows) for j in range(n)]
        note = self._prose("note", note) if note else ""
        self._add("table", header, rows, numeric, _filled("caption", caption), note)

    def figure(self, figure: Figure, *, name: str, alt: str, caption: str) -> None:
        """Add a figure: `name` is the PNG's file name and must be new, `alt` describes it for people who can't see it."""
        _filled("alt", alt)
        _filled("caption", caption)
        if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) is None:
            raise InvalidInput(field="name", must="be lower-case words joined by dashes", got=name)
        if name in self._images:
            wanted = f"be new on this page, but there is already a figure {name!r}"
            raise InvalidInput(field="name", must=wanted)
        picture = _as_html(svg_text(figure, name=name, alt=alt))
        self._images[name], place = png_bytes(figure), f"figure-{name}"
        self._places.add(place)
        self._add("figure", place, len(self._images), picture, self._prose("caption", caption))

    def code(self, text: str) -> None:
        """Add a block of commands or code, shown exactly."""
        self._add("code", _filled("text", text).strip("\n"))

    def callout(self, *, paper: str, measured: str, why: str = "") -> None:
        """Show what the paper says next to what was measured, and why they differ or agree."""
        self._add("callout", [("The paper says", paper), ("Measured here", measured), ("Why", why)])

    def template(self, name: str, /, **data: Any) -> None:
        """Add a template filled with data. In it, the methods of `page` add their part where they are called.

        Prose is written between ``{% call page.text() %}`` and ``{% endcall %}``, items of `bullets` and `summary` behind dashes.
        """

        def place(method: str, *given: Any, caller: Any = None, **named: Any) -> Markup:
            if caller is not None:
                said = re.split(r"(?m)^- ", caller().unescape())
                items = [" ".join(one.split()) for one in said if one.strip()]
                given = (items,) if method == "bullets" else tuple(items)
            before = len(self._parts)
            getattr(self, method)(*given, **{key: _unwrapped(value) for key, value in named.items()})
            placed = self._parts[before:]
            del self._parts[before:]
            return _as_html("\n".join(placed))

        methods = "section subsection summary words text bullets headline table figure code callout"
        page = {method: partial(place, method) for method in methods.split()}
        self._parts.append(_as_html(templates.render(name, page=page, **data)))

    def html(self, *, date: str, seed: int | None = None) -> str:
        """The whole page. `date` is shown as given; versions and the number of cores are those of this process."""
        for part in (*self._summary, *self._parts):
            for target in re.findall(r'<a href="#([^"]*)"', part):
                if html.unescape(target) not in self._places:
                    wanted = (
                        f"lead to a place on the page, but there is none called {html.unescape(target)!r}"
                    )
                    raise InvalidInput(field="links", must=wanted)
        facts = [
            f"Tightrope {importlib.metadata.version('tightrope')}",
            f"Python {platform.python_version()}",
            f"NumPy {np.__version__}",
            f"{os.cpu_count()} cores",
            _filled("date", date),
            *([] if seed is None else [f"seed {seed}"]),
        ]
        head = {"title": self.title, "subtitle": _inline(self.subtitle), "style": _stylesheet()}
        body = {"sections": self._sections, "summary": self._summary, "parts": self._parts, "facts": facts}
        return templates.render("tightrope.report/page.html", **head, **body)

    def write(self, directory: str | os.PathLike[str], *, date: str, seed: int | None = None) -> Path:
        """Write `index.html` and the PNGs into `directory`, created if necessary; return the page's path."""
        page = self.html(date=date, seed=seed)
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, image in self._images.items():
            (folder / f"{name}.png").write_bytes(image)
        path = folder / "index.html"
        path.write_text(page, encoding="utf-8")
        return path

    def _add(self, block: str, *given: Any) -> None:
        tools: dict[str, Any] = {"inline": _inline, "plain": _plain, "cell": cell_text}
        blocks = templates.macros("tightrope.report/blocks.html", **tools)
        self._parts.append(getattr(blocks, block)(*given))

    def _prose(self, what: str, text: str, linked: set[str] | None = None) -> str:
        """Text with links to the words that the page explains."""
        return with_links(_filled(what, text), self._explained, self._linked if linked is None else linked)

    def _heading(self, level: int, heading: str) -> str:
        words = _plain(_filled("heading", heading)).lower()
        place = first = re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "section"
        for i in itertools.count(2):
            if place not in self._places:
                break
            place = f"{first}-{i}"
        self._places.add(place)
        self._add("heading", level, place, heading)
        return place


def _filled(name: str, text: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(field=name, must="be a string that is not empty", got=text)
    return text


def _unwrapped(value: Any) -> Any:
    """Prose from a template as one line of text; anything else as it is."""
    from markupsafe import Markup

    return " ".join(value.unescape().split()) if isinstance(value, Markup) else value


def _inline(text: str) -> Markup:
    """Markup to HTML: whatever is not markup is escaped."""
    words = re.split(r"`([^`]+)`", text)
    for i, one in enumerate(map(html.escape, words)):
        if i % 2:
            words[i] = f"<code>{one}</code>"
            continue
        one = re.sub(r"\*\*(\S(?:.*?\S)?)\*\*", r"<strong>\1</strong>", one)
        one = re.sub(r"\*(\S(?:[^*]*?\S)?)\*", r"<em>\1</em>", one)
        one = re.sub(r"_\{([^{}]*)\}", r"<sub>\1</sub>", one)
        one = re.sub(r"\^\{([^{}]*)\}", r"<sup>\1</sup>", one)
        words[i] = re.sub(r"\[([^][]+)\]\(([^()\s]+)\)", _link, one)
    return _as_html("".join(words))


def _link(match: re.Match[str]) -> str:
    words, target = match.groups()
    if not target.startswith("#") and (":" in target or target.startswith(("/", "\\"))):
        wanted = "lead to '#place' or to a file beside the page"
        raise InvalidInput(field="links", must=wanted, got=html.unescape(target))
    return f'<a href="{target}">{words}</a>'


def _plain(text: str) -> str:
    text = re.sub(r"\[([^][]+)\]\([^()\s]+\)", r"\1", text)
    return re.sub(r"[`*]|[_^](?=\{)|(?<=[_^])\{|\{|\}", "", text)


@cache
def _stylesheet() -> Markup:
    light, dark = ("".join(f"--{name}:{colours[i]};" for name, colours in THEME.items()) for i in (0, 1))
    rules = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return _as_html(
        f":root{{color-scheme:light dark;{light}}}"
        f"@media (prefers-color-scheme:dark){{@media screen{{:root{{{dark}}}}}}}"
        + re.sub(r"\s*\n\s*", "", rules)
    )


def _as_html(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)
