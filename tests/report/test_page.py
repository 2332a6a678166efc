"""Pages that stand alone, and can be read, heard and printed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope.report import (
    NamedCurve,
    Report,
    curve_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

from html_page import Page
from tightrope.report.glossary import glossary, with_links


def sample(figures: dict[str, Figure]) -> Report:
    report = Report("Rules <kept>", "A page & its *parts*")
    report.headline([((612.3, 598.1, 626.6), "regret"), (0, "violations")])
    report.section("First `part`")
    report.text(
        '**Bold**, *slanted*, `a < b`, Q_{t}, t^{2}, [below](#second-part), 2 * 3 * 4, <script>alert("x")</script>'
    )
    report.bullets(["one", "two"])
    report.section("Second part")
    report.subsection("Details")
    report.table(
        ["policy", "regret", "note"],
        [["safe", (1.0, 0.5, 1.5), "<b>"], ["`fast`", None, "x"]],
        caption="Table of *all*",
        note="Intervals are 95 %.",
    )
    report.code("$ tightrope reproduce --out <dir>\n")
    report.callout(paper="zero", measured="one", why="because")
    for name, figure in figures.items():
        report.figure(figure, name=name, alt=f'What "{name}" shows', caption=f"The {name}.")
    return report


@pytest.fixture(scope="module")
def built(figures: Callable[[], dict[str, Figure]]) -> Report:
    return sample(figures())


def test_the_page_is_well_formed_and_needs_nothing_else(built: Report, tmp_path: Path) -> None:
    path = built.write(tmp_path / "deep" / "page", date="2024-05-01", seed=3)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text.replace("url(#", "")
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert "@import" not in text
    for tag, attributes in page.tags:
        assert "src" not in attributes
        href = attributes.get("href")
        assert href is None or href.startswith("#"), (tag, href)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for target in re.findall(r'(?:url\(|href=")#([^)"]+)', text):
        assert target in ids
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "bars.png",
        "bound.png",
        "curves.png",
        "index.html",
        "strip.png",
    ]


def test_the_page_can_be_heard_and_walked_by_keyboard(
    built: Report, figures: Callable[[], dict[str, Figure]]
) -> None:
    page = Page(built.html(date="2024-05-01"))
    assert page.of("html")[0]["lang"] == "en"
    pictures = page.of("svg")
    assert [picture["aria-label"] for picture in pictures] == [f'What "{name}" shows' for name in figures()]
    assert all(picture["role"] == "img" for picture in pictures)
    assert len(page.of("figcaption")) == len(page.of("figure")) == len(pictures)
    assert len(page.of("caption")) == len(page.of("table")) == 1
    assert {cell["scope"] for cell in page.of("th")} == {"col", "row"}
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert len(page.of("main")) == len(page.of("nav")) == len(page.of("footer")) == 1


def test_markup_is_escaped_and_rendered(built: Report) -> None:
    text = built.html(date="2024-05-01")
    page = Page(text)
    assert "<title>Rules &lt;kept&gt;</title>" in text
    assert "<strong>Bold</strong>" in text
    assert "<em>slanted</em>" in text
    assert "<code>a &lt; b</code>" in text
    assert "Q<sub>t</sub>" in text
    assert "t<sup>2</sup>" in text
    assert '<a href="#second-part">below</a>' in text
    assert "2 * 3 * 4" in page.text
    assert '<script>alert("x")</script>' in page.text
    assert "<b>" in page.text
    assert "$ tightrope reproduce --out <dir>" in page.text
    assert "safe & sound" in page.text


def test_numbers_in_tables_are_aligned_and_carry_their_interval(built: Report) -> None:
    text = built.html(date="2024-05-01")
    assert '<td class="n" data-title="regret">1.0 [0.5, 1.5]</td>' in text
    assert '<td class="n" data-title="regret">–</td>' in text
    assert '<td data-title="note">x</td>' in text


def test_the_footer_names_versions_date_and_seed(built: Report) -> None:
    text = Page(built.html(date="2024-05-01", seed=3)).text
    for word in ("Tightrope", "Python", f"NumPy {np.__version__}", "cores", "2024-05-01", "seed 3"):
        assert word in text
    assert "seed 3" not in Page(built.html(date="2024-05-01")).text


def test_the_same_page_twice_is_the_same_file(
    built: Report, figures: Callable[[], dict[str, Figure]], tmp_path: Path
) -> None:
    first, second = built.write(tmp_path / "a", date="d"), sample(figures()).write(tmp_path / "b", date="d")
    for path in first.parent.iterdir():
        assert path.read_bytes() == (second.parent / path.name).read_bytes(), path.name


def test_headings_with_the_same_words_have_places_of_their_own() -> None:
    report = Report("Title")
    for heading in ("Same", "Same", "√", "Content"):
        report.section(heading)
    page = Page(report.html(date="d"))
    assert [h["id"] for h in page.of("h2")] == ["same", "same-2", "section", "content-2"]


def test_both_themes_define_every_colour(built: Report) -> None:
    text = built.html(date="d")
    light, dark = (
        set(re.findall(r"--([a-z0-9]+):", part)) for part in text.split("prefers-color-scheme:dark")[:2]
    )
    assert light == dark
    assert set(re.findall(r"var\(--([a-z0-9]+)", text)) <= light


@pytest.mark.parametrize(
    "link", ["[x](https://a.example)", "[x](javascript:alert)", "[x](/etc/passwd)", "[x](//a.example)"]
)
def test_links_never_lead_outside(link: str) -> None:
    with pytest.raises(InvalidInput, match="links must lead"):
        Report("Title").text(link)


def test_a_link_to_nowhere_is_refused() -> None:
    report = Report("Title")
    report.text("[x](#nowhere)")
    with pytest.raises(InvalidInput, match="'nowhere'"):
        report.html(date="d")


def test_a_quote_in_a_link_stays_inside_its_attribute() -> None:
    report = Report("Title")
    report.text('[x](a"onclick="b.csv)')
    assert Page(report.html(date="d")).of("a")[-1] == {"href": 'a"onclick="b.csv'}


def test_bad_parts_are_refused(curves: Callable[[], Figure]) -> None:
    report = Report("Title")
    with pytest.raises(InvalidInput, match="title"):
        Report(" ")
    with pytest.raises(InvalidInput, match=r"rows\[1\] must have 2 cells"):
        report.table(["a", "b"], [["x", 1], ["y"]], caption="c")
    with pytest.raises(InvalidInput, match="alt"):
        report.figure(curves(), name="a", alt="", caption="c")
    with pytest.raises(InvalidInput, match="lower-case"):
        report.figure(curves(), name="A b", alt="a", caption="c")
    report.figure(curves(), name="a", alt="a", caption="c")
    with pytest.raises(InvalidInput, match="already"):
        report.figure(curves(), name="a", alt="a", caption="c")


def test_fifteen_figures_stay_small() -> None:
    x = np.arange(1, 60_001)
    report = Report("Many")
    for i in range(15):
        lines = [
            NamedCurve(f"policy {p}", x, np.sqrt(x) * p, np.sqrt(x) * p - 1, np.sqrt(x) * p + 1)
            for p in range(1, 6)
        ]
        figure = curve_figure(lines, xlabel="Round", ylabel="Regret", logx=i % 2 == 1)
        report.figure(figure, name=f"f{i}", alt="a", caption="c")
    assert len(report.html(date="d").encode()) < 2_000_000


def test_the_summary_stands_first_and_words_are_explained_before_they_are_used() -> None:
    report = Report("Title")
    report.words("total", "regret")
    report.section("Results")
    report.text("The regret is low, `regret` is code, and the regret of totals is [below](#results).")
    report.text("Regret once more.")
    report.section("More")
    report.text("**Regret** again.")
    report.summary("Said last, read first: *regret* 3.")
    text = report.html(date="d")
    page = Page(text)
    assert text.index("In short") < text.index('id="words-used-here"') < text.index('id="results"')
    assert text.index('id="word-regret"') < text.index('id="word-total"'), "in the order of the glossary"
    assert text.count('<a href="#word-regret">') == 3, "once in a section, once in the summary"
    assert '<a href="#word-regret">regret</a> is low, <code>regret</code> is code' in text
    assert '<strong><a href="#word-regret">Regret</a></strong> again' in text
    assert text.count('<a href="#word-total">totals</a>') == 1
    assert {"word-regret", "word-total"} <= {one.get("id") for one in page.of("div")}
    with pytest.raises(InvalidInput, match="words must be among"):
        report.words("nonsense")


def test_every_word_is_explained_by_words_above_it() -> None:
    words = glossary()
    names = list(words)
    for i, name in enumerate(names):
        later: set[str] = set()
        with_links(words[name].meaning, names[i + 1 :], later)
        assert later == set(), f"{name} is explained by {later}"


def test_a_template_puts_parts_where_it_calls_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pages_of_a_test").mkdir()
    (tmp_path / "pages_of_a_test" / "page.html").write_text(
        '{{ page.section("One") }}\n'
        "{% call page.text() %}\nWith *{{ name }}* and\n  a < b.\n{% endcall %}\n"
        "{% call page.bullets() %}\n- first\n  item\n- second\n{% endcall %}\n"
        "{% set note %}\nNoted:\n{{ name }}.\n{% endset %}\n"
        '{{ page.table(["n"], [[1.0]], caption="Table", note=note) }}\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    report = Report("Title")
    report.template("pages_of_a_test/page.html", name="<b>")
    report.text("After it.")
    text = report.html(date="d")
    assert "<p>With <em>&lt;b&gt;</em> and a &lt; b.</p>" in text
    assert "<li>first item</li><li>second</li>" in text
    assert '<p class="note">Noted: &lt;b&gt;.</p>' in text
    places = [text.index(one) for one in ('<h2 id="one"', "<p>With", "<ul><li>", "<table>", "<p>After")]
    assert places == sorted(places)
