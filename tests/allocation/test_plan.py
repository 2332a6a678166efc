"""What a plan tells: prices as differences of optima, the curve, tables and words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tightrope as tr
from allocation_tools import random_case
from html_page import Page
from tightrope.allocation import settle
from tightrope.allocation.page import write_page

ACTIONS = ("wait", "call")
GAIN = {"gain": np.random.default_rng(0).random(10_000)}
SCORES = {"wait": 0.0, "call": "gain"}


def called(share: float) -> tr.allocation.Plan:
    return tr.allocate(GAIN, tr.Rules([tr.Capacity("call", at_most=share)], ACTIONS), reward=SCORES)


def test_a_price_is_what_one_more_row_would_earn() -> None:
    """The gains are uniform: at a share s the next row brings 1 − s."""
    plan = called(0.3)
    assert plan.prices["capacity call"] == pytest.approx(0.7, abs=0.01)
    assert plan.binding == ("capacity call",)
    assert called(0.3001).value - plan.value == pytest.approx(plan.prices["capacity call"], abs=2e-3)


def test_the_curve_is_what_other_limits_earn() -> None:
    points = called(0.3).curve("capacity call", (0.5, 1.0, 1.5))
    assert [point.limit for point in points] == pytest.approx([0.15, 0.3, 0.45])
    for point in points:
        other = called(point.limit)
        assert point.value == pytest.approx(other.value, rel=2e-3)
        assert point.price == pytest.approx(other.prices["capacity call"], abs=0.02)
    with pytest.raises(
        tr.InvalidInput, match=r"no limit without keys is called 'capacity cal' .did you mean 'capacity call'"
    ):
        called(0.3).curve("capacity cal")


def test_without_a_rule_that_binds_every_row_has_its_best_action() -> None:
    plan = called(1.0)
    assert (plan.gap, plan.binding, plan.counts) == (0.0, (), {"wait": 0, "call": 10_000})
    none = tr.allocate(GAIN, tr.Rules([], ACTIONS), reward=SCORES)
    assert none.value == plan.value == pytest.approx(GAIN["gain"].sum())


def test_what_a_plan_says_of_itself() -> None:
    plan = random_case(0, 120).allocate()
    rows = plan.to_pandas()
    assert isinstance(rows, pd.DataFrame)
    assert list(rows["limit"]) == [*plan.used]
    assert rows["price"].tolist() == list(plan.prices.values())
    assert (rows["left"] >= 0.0).all()
    assert isinstance(plan.actions_frame("polars"), pl.DataFrame)
    assert plan.actions_frame()["action"].tolist() == plan.actions.tolist()
    assert str(plan).startswith("120 rows earn ")
    page = Page(plan._repr_html_())
    assert "capacity visit" in page.text


def test_the_page_says_what_is_set_apart_and_shows_the_worst_keys(tmp_path) -> None:
    table = {"gain": [1.0, None, *range(98)], "team": [f"t{i % 20:02}" for i in range(100)]}
    rules = tr.Rules([tr.Capacity("call", at_most=2, per="table", by="team", count=True)], ACTIONS)
    plan = tr.allocate(table, rules, reward=SCORES, max_set_apart=0.1)
    text = Page(write_page("calls", plan, tmp_path).read_text(encoding="utf-8")).text
    assert "1 of 100 rows were set apart" in text
    assert "gain is missing or not finite" in text
    assert "10 limits of keys are left out" in text


def test_searches_stay_small_on_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes to the solver is the core, however many rows there are."""
    sizes = []
    whole = settle.select

    def spied(rewards, costs, offsets, *given, **named):
        sizes.append(len(offsets) - 1)
        return whole(rewards, costs, offsets, *given, **named)

    monkeypatch.setattr(settle, "select", spied)
    random_case(1, 30_000, beyond=False).allocate()
    assert sizes
    assert max(sizes) < 500
