"""Rules that nothing keeps: a proof with the smallest change, or an honest "not found"."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.allocation import NoneFound, settle


def test_rules_in_conflict_are_named_with_the_smallest_change() -> None:
    """Half of the rows may be called, but nine tenths of them should be."""
    budget, least = tr.Budget("calls", at_most=1.0), tr.Share("call", at_least=0.75)
    rules = tr.Rules([budget, least, tr.Capacity("mail", at_most=0.9)], ["wait", "mail", "call"])
    table = {"gain": np.ones(1_000), "price": np.full(1_000, 2.0)}
    told = {"reward": {"wait": 0.0, "mail": 0.5, "call": "gain"}}
    with pytest.raises(tr.InfeasibleProblem) as raised:
        tr.allocate(table, rules, **told, usage={"calls": {"wait": 0, "mail": 0, "call": "price"}})
    error = raised.value
    assert not isinstance(error, NoneFound)
    # A quarter of the rows too many: lowering the share by 0.25 is less than raising the average by 0.5.
    assert set(error.rules) == {budget, least}
    assert error.relaxation == {least: pytest.approx(0.25)}
    assert str(error) == (
        "no allocation of this table keeps these rules: 'call: at least 75% of decisions' and 'calls: at most 1 per decision on "
        "average' conflict; changing limits by 0.25 in total would do: lower 'call: at least 75% of decisions' by 0.25"
    )
    eased = tr.Rules([budget, tr.Share("call", at_least=0.5)], rules.actions)
    assert (
        tr.allocate(table, eased, **told, usage={"calls": {"wait": 0, "mail": 0, "call": "price"}}).counts[
            "call"
        ]
        == 500
    )


def test_one_rule_alone_may_be_out_of_reach() -> None:
    rules = tr.Rules([tr.Share("call", at_least=0.5)], ["wait", "call"])
    with pytest.raises(
        tr.InfeasibleProblem, match=r"is out of reach; .*lower 'call: at least 50% of decisions' by 0.3"
    ):
        tr.allocate(
            {"may": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]},
            rules,
            reward={"wait": 0, "call": 1},
            eligible={"call": "may"},
        )


def test_too_few_changes_are_counted_in_rows() -> None:
    rules = tr.Rules([tr.Share("call", at_least=0.5)], ["wait", "call"])
    table = {"old": ["wait"] * 10}
    with pytest.raises(tr.InfeasibleProblem, match=r"let 3 more rows change|by 0\.3"):
        tr.allocate(table, rules, reward={"wait": 0, "call": 1}, previous="old", max_changes=2)


def test_fractions_that_have_no_whole_counterpart_are_a_proof() -> None:
    """Two rows of 2 and a mean that is 1.5: only one and a half rows would do."""
    rules = tr.Rules([tr.Mean("cost", at_least=1.5, at_most=1.5)], ["wait", "call"])
    with pytest.raises(
        tr.InfeasibleProblem,
        match="no allocation of whole rows keeps these rules, though fractions of rows would",
    ) as raised:
        tr.allocate(
            {"x": [1.0, 1.0]},
            rules,
            reward={"wait": 0, "call": "x"},
            usage={"cost": {"wait": 0, "call": 2.0}},
        )
    assert not isinstance(raised.value, NoneFound)


def test_where_nothing_is_found_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle, "FEW_LIMITS", 0)  # only single rows are moved
    rules = tr.Rules([tr.Mean("cost", at_least=1.5, at_most=1.5)], ["wait", "call"])
    with pytest.raises(
        NoneFound, match=r"not known whether there is one; the nearest misses 'cost: at least 1\.5"
    ) as raised:
        tr.allocate(
            {"x": [1.0, 1.0]},
            rules,
            reward={"wait": 0, "call": "x"},
            usage={"cost": {"wait": 0, "call": 2.0}},
        )
    assert list(raised.value.missed.values()) == [0.5]


def test_large_tables_are_refused_with_a_proof_as_well() -> None:
    rng = np.random.default_rng(0)
    rules = tr.Rules([tr.Budget("cost", at_most=0.2), tr.Share("call", at_least=0.5)], ["wait", "call"])
    price = rng.uniform(0.5, 1.5, 80_000)
    with pytest.raises(tr.InfeasibleProblem) as raised:
        tr.allocate(
            {"gain": rng.random(80_000), "price": price},
            rules,
            reward={"wait": 0, "call": "gain"},
            usage={"cost": {"wait": 0, "call": "price"}},
        )
    assert len(raised.value.rules) == 2
    # The cheapest half costs about 0.375 per row; lowering the share to s leaves 0.5 s + 0.5 s² = 0.2: s = 0.306.
    assert sum(raised.value.relaxation.values()) == pytest.approx(0.5 - 0.306, abs=0.02)
