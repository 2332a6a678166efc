"""Costs by rules in words: compiled and by `Rules` itself, the same bits and the same errors."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightrope as tr
from kernel_tools import same
from rule_tools import ABC, RANGES, any_rules
from tightrope.offer import plain_group
from tightrope.policies.rule_costs import RuleCosts

# The ways to say J numbers, the plain ones first; then what is no way to say them.
WAYS = {
    "list": lambda u, names: u.tolist(),
    "array": lambda u, names: u,
    "number": lambda u, names: float(u[0]),
    "table": lambda u, names: dict(zip(names, u.tolist())),
    "table of NumPy numbers": lambda u, names: dict(zip(names, u)),
    "tuple": lambda u, names: tuple(u),
    "NumPy number": lambda u, names: u[0],
    "whole number": lambda u, names: 1,
    "whole numbers": lambda u, names: [1] * len(u),
    "table of whole numbers": lambda u, names: dict.fromkeys(names, 1),
    "whole and other numbers": lambda u, names: [1, *u[1:].tolist()],
    "some true": lambda u, names: [1.0, *[True] * (len(u) - 1)],
    "single precision": lambda u, names: u.astype(np.float32),
    "array of whole numbers": lambda u, names: np.ones(len(u), dtype=np.int8),
    "array of one": lambda u, names: np.array(u[0]),
    "every other": lambda u, names: np.repeat(u, 2)[::2],
    "rounded out of range": lambda u, names: (u.round() + 1e-12).tolist(),
    "more than is on offer": lambda u, names: dict.fromkeys(ABC, float(u[0])),
    "fractions": lambda u, names: [Fraction(one) for one in u.tolist()],
    "a number, then fractions": lambda u, names: [1.0, *[Fraction(1, 2)] * (len(u) - 1)],
    "a number, then decimals": lambda u, names: [1.0, *[Decimal("0.5")] * (len(u) - 1)],
    "a number, then a huge one": lambda u, names: [1.0, *[10**400] * (len(u) - 1)],
    "table of fractions": lambda u, names: dict.fromkeys(names, Fraction(1, 2)),
    "too few": lambda u, names: u[1:],
    "too many": lambda u, names: [*u.tolist(), 1.0],
    "of its own shape": lambda u, names: u[None],
    "nested": lambda u, names: [1.0, [1.0]],
    "true": lambda u, names: [True] * len(u),
    "array of bools": lambda u, names: np.ones(len(u), dtype=bool),
    "table of bools": lambda u, names: dict.fromkeys(names, True),
    "texts": lambda u, names: ["1.0"] * len(u),
    "a number, then texts": lambda u, names: [1.0, *["1.0"] * (len(u) - 1)],
    "complex": lambda u, names: [1.0 + 0j] * len(u),
    "NaN": lambda u, names: [1.0] * (len(u) - 1) + [np.nan],
    "infinite": lambda u, names: np.inf,
    "out of range": lambda u, names: u + 100.0,
    "huge": lambda u, names: [10**400] * len(u),
    "nothing": lambda u, names: None,
    "empty": lambda u, names: [],
    "table without the first": lambda u, names: dict(zip(names[1:], u[1:].tolist())),
    "table of an unknown action": lambda u, names: {**dict(zip(names[1:], u[1:].tolist())), "x": 1.0},
}


def outcome(call, *args):
    """What comes of a call: the costs to the last bit, or the error."""
    try:
        found = call(*args)
    except tr.InvalidInput as error:
        return str(error)
    return found.shape, found.tobytes()


@settings(max_examples=400, deadline=None)
@given(
    any_rules(),
    st.sampled_from([None, (), "A", "B", ("A", "B"), "Z"]),
    st.none() | st.permutations([0, 1, 2]),
    st.integers(1, 3),
    st.data(),
)
def test_the_same_costs_and_the_same_errors_as_by_rules(rules, group, order, n_rows, data):
    ids = None if order is None else np.array(order[:n_rows])
    names = ABC if ids is None else [ABC[i] for i in ids]
    counted = {name for name in RANGES if any(rule.counts_usage and rule.name == name for rule in rules)}
    usage, alone = {}, {}
    for name in data.draw(st.permutations(sorted(counted | {"hours"}))):
        low, high = RANGES[name]
        drawn = st.lists(st.floats(low, high), min_size=len(names), max_size=len(names))
        ways = st.sampled_from(list(WAYS)[:4]) | st.sampled_from([*WAYS, "missing"])
        for said, actions in ((usage, names), (alone, names[:1])):
            way = data.draw(ways, label=f"{name} said by")
            if way != "missing":
                said[name] = WAYS[way](np.array(data.draw(drawn)[: len(actions)]), actions)
    group = plain_group(group)
    costs = RuleCosts(rules)
    expected = (
        outcome(rules.costs, usage, group, ids),
        outcome(rules.observed, alone, ABC.index(names[0]), group),
    )
    for _ in range(2):  # the first time and again
        found = (
            outcome(costs.costs, usage, group, ids),
            outcome(costs.observed, alone, ABC.index(names[0]), group),
        )
        assert found == expected


def mixed():
    return tr.Rules(
        [
            tr.Capacity("a", 0.5),
            tr.Budget("hours", 0.4),
            tr.Mean("wait", at_most=4.0, range=(0, 6), seen="after", among="old"),
            tr.Budget("beds", 0.5, action="a", seen="after"),
        ],
        actions=ABC,
    )


@pytest.mark.parametrize("way", list(WAYS)[:16])
def test_plain_numbers_do_not_go_by_rules(way, monkeypatch):
    u, costs = np.array([1.0, 0.25, 0.5]), RuleCosts(mixed())
    usage, alone = {"hours": WAYS[way](u, ABC)}, {"wait": 2.0, "beds": 0.25}
    expected = costs.rules.costs(usage, "old"), costs.rules.observed(alone, "a", "old")
    monkeypatch.setattr(tr.Rules, "costs", None)
    monkeypatch.setattr(tr.Rules, "observed", None)
    same(costs.costs(usage, "old"), expected[0])
    same(costs.observed(alone, 0, "old"), expected[1])
    same(costs.costs(usage, "old", np.array([2, 0, 1]))[:, 0], [-0.5, 0.5, -0.5])


def test_usage_must_be_a_mapping_of_any_kind():
    costs, hours = RuleCosts(mixed()), {"hours": [1.0, 0.25, 0.5]}
    same(costs.costs(type("Usage", (dict,), {})(hours)), costs.costs(hours))
    with pytest.raises(tr.InvalidInput, match="usage must be a mapping"):
        costs.costs([1.0, 0.25, 0.5])
    with pytest.raises(tr.InvalidInput, match=r"usage\['hours'\] is missing"):
        costs.costs()


def test_what_is_idle():
    costs = RuleCosts(mixed())
    assert costs.force("old").idle.tolist() == []
    assert costs.force(()).idle.tolist() == costs.force("young").idle.tolist() == [2]
    with pytest.raises(tr.InvalidInput, match="group is missing"):
        costs.force(None)


def test_costs_are_a_new_array_each_time():
    costs = RuleCosts(mixed())
    for usage in ({"hours": 0.5}, {"hours": np.full(3, 0.5)}):
        first = costs.costs(usage, "old")
        expected = first.copy()
        first[...] = 9.0
        same(costs.costs(usage, "old"), expected)
    fixed = RuleCosts(tr.Rules([tr.Capacity("a", 0.5)], actions=ABC))
    fixed.costs()[...] = 9.0
    same(fixed.costs()[:, 0], [0.5, -0.5, -0.5])


def test_many_groups_stay_bounded_and_right():
    costs = RuleCosts(mixed())
    for i in range(2500):
        same(costs.costs({"hours": 0.5}, f"group {i}")[:, 0], [0.5, -0.5, -0.5])
        assert costs.force(f"group {i}").idle.tolist() == [2]
    assert len(costs._forms) <= 1024
    assert len(costs._forces) <= 1024
