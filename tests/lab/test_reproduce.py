"""All studies, one report that holds together."""

from __future__ import annotations

import html
import json
import re

import pytest

import tightrope as tr
from html_page import Page
from tightrope_lab.paper import STUDIES, hospital, reproduce


def test_all_studies_give_one_report(tmp_path):
    lines = []
    page = reproduce("all", rounds=600, replications=3, seed=4, out=tmp_path, tell=lines.append)
    assert page == tmp_path / "index.html"
    text = page.read_text(encoding="utf-8")
    parsed = Page(text)
    assert len(parsed.of("table")) >= 8
    sources = [found.get(a) or "" for _, found in parsed.tags for a in ("src", "href", "xlink:href")]
    assert not [source for source in sources if source.startswith(("http", "//"))]
    for study in STUDIES:
        assert f"tightrope reproduce {study}" in text
        assert any(line.startswith(f"{study}: ") for line in lines)
    assert len(list(tmp_path.glob("*.png"))) >= 9
    # A summary first, then the words that it uses, then the studies.
    assert text.index("In short") < text.index('id="word-regret"') < text.index("<figure")
    assert "of the optimum" in text[: text.index('id="words-used-here"')]
    assert "schedules of A" not in text
    # Figures and tables call a variant by the same name.
    names = re.findall(r"[:;] ([^:;]*) ends with regret", html.unescape(text))
    assert len(names) == 6
    firsts = {
        " ".join(re.sub("<[^>]*>", "", one).split())
        for one in re.findall(r'<th scope="row">(.*?)</th>', text)
    }
    firsts = {html.unescape(one) for one in firsts}
    assert set(names) <= firsts
    for name in hospital.NAMES.values():
        assert f"600, {name}" in firsts
    rows = json.loads((tmp_path / "summary.json").read_text())["rows"]
    needed = {
        "policy",
        "scenario",
        "round",
        "regret",
        "regret_low",
        "regret_high",
        "violation",
        "last_violation",
    }
    assert all(needed <= set(row) for row in rows)
    assert {row["policy"] for row in rows} == {"pessimistic-optimistic", "opb", "round-robin", "shadow-price"}
    keys = [(row["study"], row["variant"], row["round"]) for row in rows]
    assert len(keys) == len(set(keys))


def test_an_unknown_study_is_refused(tmp_path):
    with pytest.raises(tr.InvalidInput, match="one of mab, hospital, bounds, tail, shadow-price, all"):
        reproduce("moon", out=tmp_path)
