"""What `make docs` left in build/site: no dead link or anchor, nothing from the network, a search that works from the folder, and
pages that fit a desk and a phone. Not part of `make test`, which has no site."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from chromium import Browser, Page

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
PAGES = sorted(path for path in SITE.rglob("*.html") if path.name != "404.html")
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Links(HTMLParser):
    """Anchors of a page, where it leads, and what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.leads.append(found["href"])
        if tag in LOADED and LOADED[tag] in found:
            self.loads.append(found[LOADED[tag]])


@pytest.fixture(scope="module")
def links() -> dict[Path, Links]:
    assert len(PAGES) > 50, "run `make docs` first"
    return {page: Links(page) for page in PAGES}


def test_no_link_or_anchor_is_dead(links: dict[Path, Links]) -> None:
    dead = []
    for page, found in links.items():
        for address in found.leads + found.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                dead.append(f"{page.relative_to(SITE)}: {address}")
            elif (
                parts.fragment
                and target in links
                and unquote(parts.fragment) not in links[target].anchors
                and not parts.fragment.startswith("__")  # of the theme's own switches
            ):
                dead.append(f"{page.relative_to(SITE)}: no anchor {address}")
    assert not dead, "\n".join(dead)


def test_nothing_is_loaded_from_the_network(links: dict[Path, Links]) -> None:
    loaded = {address for found in links.values() for address in found.loads}
    assert not [address for address in loaded if urlsplit(address).scheme or urlsplit(address).netloc]
    for sheet in SITE.rglob("*.css"):
        assert "url(http" not in sheet.read_text(encoding="utf-8").replace("'", "").replace('"', ""), sheet


def test_every_tutorial_shows_what_it_made() -> None:
    scripts = sorted((SITE.parents[1] / "docs" / "tutorials").glob("*.py"))
    assert len(scripts) >= 5
    for script in scripts:
        page = (SITE / "tutorials" / f"{script.stem}.html").read_text(encoding="utf-8")
        assert "made by running this page" in page
        assert f"{script.stem}-" in page, "has no figure"
        assert (SITE / "tutorials" / f"{script.stem}.ipynb").exists()


# --- in a browser that can reach nothing ---


def opened(chromium: Browser, path: str, width: int = 1440, **options: bool) -> Page:
    tab = chromium.page()
    tab.size(width, 900, **options)
    tab.open((SITE / path).as_uri())
    return tab


def test_search_finds_from_the_folder(chromium: Browser) -> None:
    tab = opened(chromium, "index.html")
    for words, title in [("nurse hours price", "price"), ("warm_start", "warm"), ("erasure", "rasure")]:
        tab.js(
            "box = document.querySelector('[data-md-component=search-query]'); box.focus();"
            f"box.value = {words!r}; box.dispatchEvent(new KeyboardEvent('keyup', {{bubbles: true}}));"
            "box.dispatchEvent(new Event('input', {bubbles: true}))"
        )
        tab.wait(f"document.querySelector('.md-search-result__list')?.innerText.includes({title!r})")
    leads = tab.js("[...document.querySelectorAll('.md-search-result__link')].map((one) => one.href)")
    assert leads
    assert all(address.startswith("file:") for address in leads)
    sent = {one["request"]["url"] for one in tab.events("Network.requestWillBeSent")}
    assert not [address for address in sent if urlsplit(address).scheme in ("http", "https")]


@pytest.mark.parametrize("dark", [False, True])
def test_colours_follow_the_reader(chromium: Browser, dark: bool) -> None:
    tab = opened(chromium, "index.html", dark=dark)
    scheme = tab.wait("document.body.getAttribute('data-md-color-scheme')")
    assert scheme == ("slate" if dark else "default")


@pytest.mark.parametrize("width", [1440, 390])
def test_pages_fit_the_window(chromium: Browser, width: int) -> None:
    """No page is wider than the window; a table or a line of code that is wider scrolls by itself."""
    tab = opened(chromium, "index.html", width, mobile=width < 500)
    too_wide = {}
    for page in PAGES:
        tab.open(page.as_uri())
        tab.wait(f"location.href === {page.as_uri()!r} && document.readyState === 'complete'")
        wide = tab.js("document.scrollingElement.scrollWidth")
        cut = tab.js(
            "[...document.querySelectorAll('.md-content table')].filter((one) => {"
            "  for (let at = one; at; at = at.parentElement)"
            "    if (['auto', 'scroll'].includes(getComputedStyle(at).overflowX)) return false;"
            "  return one.getBoundingClientRect().right > innerWidth + 1}).length"
        )
        if wide > width or cut:
            too_wide[str(page.relative_to(SITE))] = (wide, cut)
    assert not too_wide
