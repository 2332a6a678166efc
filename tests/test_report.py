"""Pages that stand alone, figures that can be read by all, numbers as people write them."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
import pytest

from tightrope import report as report_module
from tightrope.errors import InvalidInput
from tightrope.report import (
    BarSeries,
    NamedCurve,
    Panel,
    Report,
    bars_figure,
    bound_figure,
    curve_figure,
    format_estimate,
    format_number,
    last_violation_figure,
    panels_figure,
    png_bytes,
    save_figure,
    svg_text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Checks nesting and unique ids as it reads, and keeps the tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def curves() -> Figure:
    x = np.arange(1, 1001)
    y = np.sqrt(x)
    return curve_figure(
        [NamedCurve("safe & sound", x, y, y - 1, y + 1), NamedCurve("fast", x, 0.5 * y)],
        xlabel="Round",
        ylabel="Regret (reward)",
    )


def figures() -> dict[str, Figure]:
    x = np.geomspace(1, 1e4, 50)
    return {
        "curves": curves(),
        "bound": bound_figure(
            [NamedCurve("run", x, x**0.5)],
            [NamedCurve("bound", x, 9 + x)],
            xlabel="Round",
            ylabel="Regret (reward)",
        ),
        "bars": bars_figure(
            ["icu", "other"],
            [BarSeries("a", [0.2, 0.8], [0.1, 0.7], [0.3, 0.9]), BarSeries("b", [0.5, -0.5])],
            xlabel="Share",
            marks={"limit": [0.2, np.nan]},
        ),
        "strip": last_violation_figure({"icu": [3, 9, 27], "other": [0]}, references={"icu": 32}),
    }


def sample() -> Report:
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
    for name, figure in figures().items():
        report.figure(figure, name=name, alt=f'What "{name}" shows', caption=f"The {name}.")
    return report


@pytest.fixture(scope="module")
def built() -> Report:
    return sample()


# ------------------------------------------------------------------------------------------------------------------ pages


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


def test_the_page_can_be_heard_and_walked_by_keyboard(built: Report) -> None:
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
    assert '<td class="n">1.0 [0.5, 1.5]</td>' in text
    assert '<td class="n">–</td>' in text
    assert "<td>x</td>" in text


def test_the_footer_names_versions_date_and_seed(built: Report) -> None:
    text = Page(built.html(date="2024-05-01", seed=3)).text
    for word in ("Tightrope", "Python", f"NumPy {np.__version__}", "cores", "2024-05-01", "seed 3"):
        assert word in text
    assert "seed 3" not in Page(built.html(date="2024-05-01")).text


def test_the_same_page_twice_is_the_same_file(built: Report, tmp_path: Path) -> None:
    first, second = built.write(tmp_path / "a", date="d"), sample().write(tmp_path / "b", date="d")
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


def test_bad_parts_are_refused() -> None:
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


# ---------------------------------------------------------------------------------------------------------------- figures


def test_drawing_leaves_matplotlib_alone() -> None:
    with matplotlib.rc_context({"font.size": 31.0, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        styled = svg_text(curves(), name="a", alt="a")
        assert dict(matplotlib.rcParams) == before
    assert svg_text(curves(), name="a", alt="a") == styled


def test_figures_name_their_axes_and_series() -> None:
    axes = curves().axes[0]
    texts = {text.get_text() for text in axes.texts}
    assert axes.get_xlabel() == "Round"
    assert {"Regret (reward)", "safe & sound", "fast"} <= texts


def test_series_differ_by_more_than_colour() -> None:
    x = np.arange(1, 50)
    figure = curve_figure([NamedCurve(str(i), x, i * x) for i in range(7)], xlabel="x", ylabel="y")
    lines = [line for line in figure.axes[0].lines if len(np.atleast_1d(line.get_xdata())) == x.size]
    looks = {(str(line.get_linestyle()), str(line.get_marker())) for line in lines}
    assert len(lines) == len(looks) == 7


def test_colours_have_contrast_in_both_themes() -> None:
    def luminance(colour: str) -> float:
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    def contrast(a: str, b: str) -> float:
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    for theme in (0, 1):
        colours = {name: pair[theme] for name, pair in report_module._THEME.items()}
        for name, least in {"ink": 7.0, "muted": 4.5, **{f"s{i}": 3.0 for i in range(1, 7)}}.items():
            assert contrast(colours[name], colours["paper"]) >= least, (theme, name)
        assert contrast(colours["s1"], colours["paper"]) >= 4.5  # links
        assert contrast(colours["muted"], colours["panel"]) >= 4.5


def test_labels_keep_their_order_and_distance() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        n = int(rng.integers(1, 10))
        wanted, heights = np.sort(rng.uniform(0, 300, n)), rng.uniform(10, 30, n)
        places = report_module._apart(wanted, heights, 300.0)
        gaps = (heights[1:] + heights[:-1]) / 2
        assert (np.diff(places) >= gaps - 1e-9).all()
        assert places[0] >= 0
        assert places[-1] <= 300 + 1e-9
    # Far enough apart already: nothing moves. Two at the same place: they share the way.
    np.testing.assert_allclose(
        report_module._apart(np.array([10.0, 90.0]), np.full(2, 20.0), 300.0), [10, 90]
    )
    np.testing.assert_allclose(
        report_module._apart(np.array([50.0, 50.0]), np.full(2, 20.0), 300.0), [40, 60]
    )


def test_a_log_axis_leaves_out_what_it_can_not_show() -> None:
    panel = Panel(
        [NamedCurve("a", [0, 1, 10], [5, 0, 2], [0, 0, 1], [9, 0, 3])], "x", "y", logx=True, logy=True
    )
    line = panels_figure([panel]).axes[0].lines[0]
    np.testing.assert_array_equal(line.get_xdata(), [1, 10])
    np.testing.assert_array_equal(line.get_ydata(), [np.nan, 2])


def test_long_curves_are_thinned_but_keep_their_ends() -> None:
    x = np.arange(1, 100_001)
    for logx in (False, True):
        figure = curve_figure([NamedCurve("a", x, x)], xlabel="x", ylabel="y", logx=logx)
        drawn = np.asarray(figure.axes[0].lines[0].get_xdata())
        assert drawn.size <= 200
        assert (drawn[0], drawn[-1]) == (1, 100_000)


def test_curves_from_results_carry_their_interval() -> None:
    class Measured:
        rounds, mean = np.array([1, 2]), np.array([1.0, 2.0])
        low, high = mean - 1, mean + 1

    curve = NamedCurve.of("a", Measured())
    np.testing.assert_array_equal(np.asarray(curve.high), [2, 3])


def test_unknown_intervals_are_not_drawn() -> None:
    nothing = np.full(3, np.nan)
    figure = curve_figure([NamedCurve("a", [1, 2, 3], [1, 2, 3], nothing, nothing)], xlabel="x", ylabel="y")
    assert not figure.axes[0].collections


def test_figures_are_saved_by_their_ending(tmp_path: Path) -> None:
    figure = curves()
    for name, start in {"a.png": b"\x89PNG", "a.svg": b"<?xml", "a.pdf": b"%PDF"}.items():
        save_figure(figure, tmp_path / "new" / name)
        content = (tmp_path / "new" / name).read_bytes()
        assert content.startswith(start)
        save_figure(curves(), tmp_path / "new" / name)
        assert (tmp_path / "new" / name).read_bytes() == content
    assert png_bytes(figure) == (tmp_path / "new" / "a.png").read_bytes()


def test_bad_figures_are_refused() -> None:
    with pytest.raises(InvalidInput, match="increasing"):
        NamedCurve("a", [2, 1], [0, 0])
    with pytest.raises(InvalidInput, match="together"):
        NamedCurve("a", [1, 2], [0, 0], low=[0, 0])
    with pytest.raises(InvalidInput, match="shape"):
        NamedCurve("a", [1, 2], [0, 0, 0])
    with pytest.raises(InvalidInput, match="at least one curve"):
        panels_figure([])
    with pytest.raises(InvalidInput, match="x > 0"):
        curve_figure([NamedCurve("a", [0], [0])], xlabel="x", ylabel="y", logx=True)
    with pytest.raises(InvalidInput, match="at least one label"):
        bars_figure([], [], xlabel="x")
    with pytest.raises(InvalidInput, match="shape"):
        bars_figure(["a"], [BarSeries("s", [1, 2])], xlabel="x")
    with pytest.raises(InvalidInput, match="finite"):
        bars_figure(["a"], [BarSeries("s", [np.nan])], xlabel="x")
    with pytest.raises(InvalidInput, match="among the samples"):
        last_violation_figure({"a": [1]}, references={"b": 2})
    with pytest.raises(InvalidInput, match="not be empty"):
        last_violation_figure({"a": []})


# ---------------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (12345.678, "12,346"),
        (999.96, "1,000"),
        (0.5, "0.5"),
        (123.456, "123.5"),
        (-0.00625, "−0.00625"),
        (3.2e-7, "3.20·10⁻⁷"),
        (float("inf"), "∞"),
        (float("nan"), "–"),
    ],
)
def test_format_number(value: float, text: str) -> None:
    assert format_number(value) == text


def test_format_estimate_shows_what_the_interval_can_bear() -> None:
    assert format_estimate(55.123, 54.9, 55.4) == "55.12 [54.90, 55.40]"
    assert format_estimate(1874.2, 1802.0, 1950.0) == "1,874 [1,802, 1,950]"
    assert format_estimate(-0.001, -0.4, 0.4) == "0.00 [−0.40, 0.40]"
    assert format_estimate(2.5, 2.5, 2.5) == "2.5 [2.5, 2.5]"
