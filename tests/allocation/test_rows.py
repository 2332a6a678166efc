"""What a row brings, and rows that are set apart: counted, with a reason, never dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tightrope as tr
from tightrope.allocation.columns import Layout
from tightrope.allocation.reader import RowReader, read_rows
from tightrope.frames import Frame

RULES = tr.Rules([tr.Capacity("call", at_most=0.5), tr.Budget("cost", at_most=1.0)], ["wait", "mail", "call"])
TABLE: Mapping[str, Any] = {
    "mail": [1.0, 2.0, 3.0, 1.5, 0.5, 2.5],
    "call": [4.0, 1.0, 5.0, 2.0, 3.0, 2.0],
    "price": [1.0, 2.0, 1.0, 2.0, 1.0, 1.0],
}
TOLD: Mapping[str, Any] = {
    "reward": {"wait": 0.0, "mail": "mail", "call": "call"},
    "usage": {"cost": {"wait": 0, "mail": 0.5, "call": "price"}},
}


def plan_of(**columns: Any) -> tr.allocation.Plan:
    told = {**TOLD, "max_set_apart": 1.0, **{k: v for k, v in columns.items() if k in NAMES}}
    return tr.allocate({**TABLE, **{k: v for k, v in columns.items() if k not in NAMES}}, RULES, **told)


NAMES = ("eligible", "fixed", "previous", "max_changes", "id", "max_set_apart", "group")


@pytest.mark.parametrize(
    ("columns", "reasons"),
    [
        (
            {"mail": [1.0, np.nan, 3.0, 1.5, np.inf, 2.5]},
            dict.fromkeys((1, 4), "mail is missing or not finite"),
        ),
        ({"price": [1.0, 2.0, None, 2.0, 1.0, 1.0]}, {2: "price is missing or not finite"}),
        (
            {"id": "who", "who": ["a", "b", "a", "c", None, "b"]},
            {2: "who comes a second time", 4: "who is missing", 5: "who comes a second time"},
        ),
        ({"fixed": "done", "done": ["mail", "", "fax", None, "", ""]}, {2: "done is no action"}),
        ({"eligible": {"call": "may"}, "may": [True, None, False, True, True, True]}, {1: "may is missing"}),
        (
            {
                "eligible": {"call": "may"},
                "may": [0] * 6,
                "fixed": "done",
                "done": ["call", "", "", "", "", ""],
            },
            {0: "done is not eligible"},
        ),
        (
            {"eligible": dict.fromkeys(("wait", "mail", "call"), "may"), "may": [1, 1, 0, 1, 1, 1]},
            {2: "no action is eligible"},
        ),
        ({"previous": "old", "old": ["mail", "fax", "", "call", "", ""]}, {1: "old is no action"}),
    ],
)
def test_rows_that_cannot_be_used_are_set_apart_with_a_reason(
    columns: dict[str, Any], reasons: dict[int, str]
) -> None:
    plan = plan_of(**columns)
    assert plan.set_apart == reasons
    assert [i for i, action in enumerate(plan.actions) if action is None] == list(reasons)
    assert sum(plan.counts.values()) == 6 - len(reasons)


def test_a_number_that_is_not_needed_may_be_missing() -> None:
    columns = {
        "eligible": {"call": "may"},
        "may": [0, 1, 1, 1, 1, 1],
        "call": [np.nan, 1.0, 5.0, 2.0, 3.0, 2.0],
    }
    plan = plan_of(**columns, price=[np.nan, 2.0, 1.0, 2.0, 1.0, 1.0])
    assert not plan.set_apart
    assert plan.actions[0] != "call"


def test_shares_are_those_of_the_rows_that_can_be_used() -> None:
    assert plan_of(mail=[1.0, np.nan, np.nan, 1.5, 0.5, 2.5]).counts["call"] == 2
    assert plan_of().counts["call"] == 3


def test_too_many_rows_set_apart_stop_it() -> None:
    said = r"2 of 6 rows can't be used, more than max_set_apart allows \(0.2\): mail is .* \(2 rows\); the first is row 1"
    with pytest.raises(tr.InvalidInput, match=said):
        plan_of(mail=[1.0, np.nan, np.nan, 1.5, 0.5, 2.5], max_set_apart=0.2)


def test_what_is_fixed_stays_and_counts() -> None:
    plan = plan_of(fixed="done", done=["call", "call", "", "call", "", ""])
    assert [plan.actions[i] for i in (0, 1, 3)] == ["call"] * 3
    assert plan.counts["call"] == 3


def test_at_most_so_many_rows_change() -> None:
    old = ["wait", "mail", "wait", "", "wait", "mail"]
    for most in range(4):
        plan = plan_of(previous="old", old=old, max_changes=most)
        changed = sum(before not in ("", now) for before, now in zip(old, plan.actions, strict=True))
        assert changed == most == plan.used["changes"]


def rows_of(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table, row)) for row in zip(*table.values())]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, rows_of])
def test_any_table_will_do(make: Any) -> None:
    assert tr.allocate(make(dict(TABLE)), RULES, **TOLD).actions.tolist() == plan_of().actions.tolist()


def test_float32_stays_float32_and_means_the_same() -> None:
    narrow = {name: np.array(values, dtype=np.float32) for name, values in TABLE.items()}
    layout = Layout(scores=(0.0, "mail", "call"), usage={"cost": (0.0, 0.5, "price")})
    assert read_rows(Frame(narrow), layout, RULES.registry).rows.scores.dtype == np.float32
    assert read_rows(Frame(dict(TABLE)), layout, RULES.registry).rows.scores.dtype == np.float64
    wide = Layout(scores=(0.1, "mail", "call"), usage={"cost": (0.0, 0.5, "price")})
    assert read_rows(Frame(narrow), wide, RULES.registry).rows.scores.dtype == np.float64
    assert tr.allocate(narrow, RULES, **TOLD).value == plan_of().value


def test_parts_and_files_give_what_the_whole_table_gives(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    table = {
        "score": rng.random(50_000),
        "region": rng.choice(["a", "b", "c"], 50_000),
        "who": rng.integers(0, 49_990, 50_000),
        "team": rng.integers(0, 40, 50_000),
    }
    table["score"][7] = np.nan
    layout = Layout(
        scores=(0.0, "score", "score"), usage={}, group=("region",), keys={"team": "team"}, id="who"
    )
    whole = read_rows(Frame(table), layout, RULES.registry)
    reader = RowReader(layout, RULES.registry, 50_000, narrow=False, folder=tmp_path)
    for begin in range(0, 50_000, 7_000):
        reader.add(Frame({name: column[begin : begin + 7_000] for name, column in table.items()}))
    parts = reader.finish()
    assert isinstance(parts.rows.scores.base, np.ndarray)
    assert whole.reasons == parts.reasons
    np.testing.assert_array_equal(whole.kept, parts.kept)
    np.testing.assert_array_equal(whole.rows.scores, parts.rows.scores)
    for one in (whole, parts):
        groups = np.array([next(iter(group)) for group in one.groups])
        np.testing.assert_array_equal(groups[one.rows.pattern], table["region"][one.kept])
        keys = np.array(one.keys["team"])
        np.testing.assert_array_equal(keys[one.rows.keys[:, 0]], table["team"][one.kept])


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"reward": {"wait": 0.0, "mail": "mail"}},
            "reward must hold every action that counts, but 'call' is missing",
        ),
        (
            {"reward": {"wait": 0.0, "mail": "mail", "call": "call", "fax": 1.0}},
            "reward: unknown action 'fax'",
        ),
        ({"usage": None}, "usage['cost'] is missing: a rule reads 'cost: at most 1 per decision on average'"),
        ({"usage": {"cost": 1.0, "time": 2.0}}, "usage: no rule counts 'time'"),
        ({"usage": {"cost": "prise"}}, "must have a column 'prise'"),
        ({"max_changes": 3}, "previous is missing: max_changes counts changes from it"),
        ({"max_changes": -1, "previous": "mail"}, "max_changes must be a whole number >= 0"),
        ({"eligible": "may"}, "eligible must be a mapping"),
    ],
)
def test_what_is_told_wrongly_is_refused(told: dict[str, Any], said: str) -> None:
    with pytest.raises(tr.InvalidInput) as raised:
        tr.allocate(dict(TABLE), RULES, **{**TOLD, **told})
    assert said in str(raised.value)


def test_usage_outside_its_declared_range_sets_a_row_apart() -> None:
    rules = tr.Rules([tr.Budget("cost", at_most=1.0, range=(0.0, 1.5))], RULES.actions)
    plan = tr.allocate(dict(TABLE), rules, **TOLD, max_set_apart=1.0)
    assert plan.set_apart == dict.fromkeys((1, 3), "price is outside its range")


def test_groups_that_look_misspelt_are_told_and_undeclared_ones_refused() -> None:
    table = {"gain": [1.0, 2.0, 3.0], "region": ["north", "North", "east"]}
    told = {"reward": {"wait": 0.0, "call": "gain"}, "group": "region"}
    rules = [tr.Capacity("call", at_most=0.5, among="north")]
    with pytest.warns(tr.errors.PolicyWarning, match="'North' is named by no rule .did you mean 'north'"):
        tr.allocate(table, tr.Rules(rules, ["wait", "call"]), **told)
    with pytest.raises(tr.InvalidInput, match=r"unknown group 'North' .did you mean 'north'"):
        tr.allocate(table, tr.Rules(rules, ["wait", "call"], groups=["north", "east"]), **told)


def test_groups_need_a_column() -> None:
    rules = tr.Rules([tr.Capacity("call", at_most=0.5, among="north")], ["wait", "call"])
    with pytest.raises(tr.InvalidInput, match="group is missing: a rule reads 'among group north"):
        tr.allocate({"gain": [1.0]}, rules, reward={"wait": 0.0, "call": "gain"})
