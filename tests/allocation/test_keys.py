"""Limits for the whole table, and one for each key: of a team, of a region."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import tightrope as tr

ACTIONS = ("wait", "mail", "call")


def keyed_table(seed: int, n: int, teams: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "mail": rng.random(n),
        "call": 2.0 * rng.random(n),
        "price": rng.uniform(0.5, 1.5, n),
        "team": np.array([f"team {i}" for i in range(teams)])[rng.integers(0, teams, n)],
        "region": rng.choice(["north", "south"], n),
    }


RULES = tr.Rules(
    [
        tr.Budget("cost", at_most=6.0, per="table", by="team"),
        tr.Capacity("call", at_most=0.45, per="table", by="region"),
        tr.Capacity("call", at_most=3, per="table", by="team", count=True, among="south"),
        tr.Share("mail", at_least=0.2),
    ],
    ACTIONS,
)
TOLD: dict[str, Any] = {
    "reward": {"wait": 0.0, "mail": "mail", "call": "call"},
    "usage": {"cost": {"wait": 0.0, "mail": 0.4, "call": "price"}},
    "group": "region",
}


def kept(table: dict[str, Any], actions: Any) -> bool:
    """The rules of this file once more, in rational arithmetic."""
    called, mailed = actions == "call", actions == "mail"
    spent = [
        Fraction(str(p)) if c else Fraction("0.4") if m else Fraction(0)
        for p, c, m in zip(table["price"].tolist(), called, mailed)
    ]
    teams = {team: table["team"] == team for team in set(table["team"].tolist())}
    return (
        all(sum((spent[i] for i in np.flatnonzero(rows)), Fraction(0)) <= 6 for rows in teams.values())
        and all(
            called[table["region"] == one].sum() <= Fraction("0.45") * int((table["region"] == one).sum())
            for one in ("north", "south")
        )
        and all((called & rows & (table["region"] == "south")).sum() <= 3 for rows in teams.values())
        and bool(mailed.sum() >= Fraction("0.2") * len(actions))
    )


def linear_bound(table: dict[str, Any]) -> float:
    """What fractions of rows would earn, by SciPy."""
    n, J = len(table["price"]), 3
    scores = np.column_stack([np.zeros(n), table["mail"], table["call"]]).ravel()
    cost = np.column_stack([np.zeros(n), np.full(n, 0.4), table["price"]])
    call, mail = np.tile([0.0, 0.0, 1.0], (n, 1)), np.tile([0.0, 1.0, 0.0], (n, 1))
    rows, limits = [], []
    for team in sorted(set(table["team"].tolist())):
        here = (table["team"] == team)[:, None]
        rows += [cost * here, call * here * (table["region"] == "south")[:, None]]
        limits += [6.0, 3.0]
    for region in ("north", "south"):
        here = table["region"] == region
        rows.append(call * here[:, None])
        limits.append(np.floor(0.45 * here.sum()))
    rows.append(-mail)
    limits.append(-np.ceil(0.2 * n))
    each = sp.kron(sp.eye_array(n), np.ones((1, J)), format="csr")
    matrix = sp.csr_array(np.array(rows).reshape(len(rows), n * J))
    return -float(linprog(-scores, matrix, limits, each, np.ones(n)).fun)


@pytest.mark.parametrize(("n", "teams", "worst"), [(300, 6, 0.001), (4_000, 200, 0.03)])
def test_each_key_has_its_own_limit(n: int, teams: int, worst: float) -> None:
    table = keyed_table(1, n, teams)
    plan = tr.allocate(table, RULES, **TOLD)
    assert kept(table, plan.actions)
    bound = linear_bound(table)
    assert plan.value <= plan.bound <= bound * (1 + 2e-3)
    assert plan.gap < worst
    assert plan.value >= bound * (1 - 0.03)


def test_prices_and_amounts_are_told_by_key() -> None:
    table = keyed_table(2, 300, 5)
    plan = tr.allocate(table, RULES, **TOLD)
    spent = plan.used["cost per table by team"]
    assert set(spent) == set(table["team"].tolist())
    assert all(0.0 < amount <= 6.0 for amount in spent.values())
    regions = plan.used["capacity call per table by region"]
    called = plan.actions == "call"
    assert regions["north"] == pytest.approx(called[table["region"] == "north"].mean())
    assert plan.prices["cost per table by team"]["team 3"] > 0.0
    again = tr.allocate(table, RULES, **TOLD, start=plan)
    assert again.value == pytest.approx(plan.value, rel=5e-3)


def test_the_key_of_a_rule_may_be_another_column_and_must_be_there() -> None:
    table = keyed_table(3, 60, 3)
    rules = tr.Rules([tr.Capacity("call", at_most=2, per="table", by="crew", count=True)], ACTIONS)
    plan = tr.allocate(table, rules, reward=TOLD["reward"], keys={"crew": "team"})
    assert plan.used["capacity call per table by crew"] == {"team 0": 2, "team 1": 2, "team 2": 2}
    with pytest.raises(tr.InvalidInput, match="must have a column 'crew'"):
        tr.allocate(table, rules, reward=TOLD["reward"])
    table["team"] = [*table["team"][:59].tolist(), None]
    apart = tr.allocate(table, rules, reward=TOLD["reward"], keys={"crew": "team"}, max_set_apart=0.1)
    assert apart.set_apart == {59: "team is missing"}


def test_what_a_key_cannot_have_is_said_with_the_key() -> None:
    table = keyed_table(4, 60, 3)
    table["may"] = table["team"] != "team 1"
    rules = tr.Rules([tr.Share("call", at_least=0.25, per="table", by="team")], ACTIONS)
    with pytest.raises(tr.InfeasibleProblem, match=r"\(team team 1\)' is out of reach; .* for team team 1"):
        tr.allocate(table, rules, reward=TOLD["reward"], eligible={"call": "may"})


def test_time_has_no_meaning_for_a_table() -> None:
    rules = tr.Rules([tr.Budget("cost", at_most=6.0, per="day")], ACTIONS)
    with pytest.raises(tr.InvalidInput, match=r"rules\[0\].per must be 'table' or left out"):
        tr.allocate(keyed_table(0, 9, 2), rules, **{**TOLD, "group": None})


def test_an_amount_for_the_table_is_its_average_times_its_rows() -> None:
    table = keyed_table(5, 400, 4)
    found = [
        tr.allocate(table, tr.Rules([rule], ACTIONS), reward=TOLD["reward"], usage=TOLD["usage"])
        for rule in (tr.Budget("cost", at_most=0.25), tr.Budget("cost", at_most=100.0, per="table"))
    ]
    assert found[0].actions.tolist() == found[1].actions.tolist()
    assert [round(next(iter(one.used.values()))) for one in found] == [0, 100]
