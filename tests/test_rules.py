"""Rules: costs against their definition, words, plain data, and conflicts against independent means."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import subprocess
import sys
import tomllib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.rules import Budget, Capacity, Mean, Rules, Share

WARDS = ["internal", "surgery", "family", "emergency", "cardiology", "other"]
CAPS = [0.2, 0.2, 0.175, 0.175, 0.175, 0.175]
FAIR = [0.175, 0.175, 0.15, 0.15, 0.125, 0.125]
ABC = ["a", "b", "c"]


def refusal(rules):
    """The error that the rules raise together, or None."""
    try:
        Rules(rules, actions=ABC)
    except InfeasibleProblem as conflict:
        return conflict
    return None


def hospital():
    return Rules(
        [Capacity(ward, cap) for ward, cap in zip(WARDS, CAPS)]
        + [Share(ward, fair) for ward, fair in zip(WARDS, FAIR)]
        + [Budget("nursing", 0.1875, ward) for ward in WARDS],
        actions=WARDS,
    )


# ----------------------------------------------------------------------------------------------------------- costs


def test_the_example_of_the_design():
    rules = Rules(
        [
            Capacity("icu", at_most=0.2),
            Share("icu", at_least=0.175),
            Budget("nurse_hours", at_most=0.4),
        ],
        actions=["icu", "surgery", "other"],
    )
    costs = rules.costs(usage={"nurse_hours": [1.0, 0.5, 0.2]})
    assert costs.dtype == np.float64
    assert costs.flags.c_contiguous
    np.testing.assert_array_equal(
        costs,
        [
            [1 - 0.2, 0.175 - 1, 1.0 - 0.4],
            [0 - 0.2, 0.175 - 0, 0.5 - 0.4],
            [0 - 0.2, 0.175 - 0, 0.2 - 0.4],
        ],
    )
    assert rules.n_constraints == len(rules) == 3
    assert rules.seen.tolist() == [True, True, True]
    np.testing.assert_array_equal(rules.cost_range, [[-0.2, 1 - 0.2], [0.175 - 1, 0.175], [-0.4, 1 - 0.4]])


def test_hospital_costs_are_the_papers():
    rules = hospital()
    eye = np.eye(6)
    expected = np.hstack([eye - CAPS, np.array(FAIR) - eye, eye - 0.1875])
    np.testing.assert_array_equal(rules.costs({"nursing": 1.0}), expected)
    assert rules.n_constraints == 18
    assert len(set(rules.names)) == 18
    assert [c.side for c in rules.columns] == ["at_most"] * 6 + ["at_least"] * 6 + ["at_most"] * 6


def test_hospital_slater_constant():
    costs = hospital().costs({"nursing": 1.0})
    found = linprog(
        [0] * 6 + [-1],
        A_ub=np.hstack([costs.T, np.ones((18, 1))]),
        b_ub=np.zeros(18),
        A_eq=[[1] * 6 + [0]],
        b_eq=[1],
        bounds=[(0, None)] * 6 + [(None, None)],
    )
    assert -found.fun == pytest.approx(0.00625, abs=1e-12)


def by_definition(rules, usage, groups, ids):
    """Costs entry by entry, from the sentences in the documentation."""
    out = np.zeros((len(ids), rules.n_constraints))
    for k, (_, rule, side) in enumerate(rules.columns):
        if rule.among is not None:
            among = {rule.among} if isinstance(rule.among, str) else set(rule.among)
            if not among & set(groups):
                continue
        action = getattr(rule, "action", None)
        members = None if action is None else {action} if isinstance(action, str) else set(action)
        for row, i in enumerate(ids):
            counts = members is None or rules.actions[i] in members
            if rule.kind in ("capacity", "share"):
                value, low, high = float(counts), 0.0, 1.0
            else:
                value = usage[rule.name][row] if counts else 0.0
                low, high = rule.range
                if members is not None:
                    low, high = min(low, 0.0), max(high, 0.0)
            limits = [
                x for x in (getattr(rule, "at_most", None), getattr(rule, "at_least", None)) if x is not None
            ]
            scale = max(1.0, max(high, *limits) - min(low, *limits))
            limit = getattr(rule, side)
            out[row, k] = (value - limit if side == "at_most" else limit - value) / scale
    return out


RANGES = {"hours": (0.0, 1.0), "wait": (-2.0, 6.0), "dose": (1.0, 1.5)}
LIMITS = {"hours": (0.0, 2.0), "wait": (-2.0, 9.0), "dose": (1.0, 3.0)}
groups_of_actions = st.sampled_from(["a", "b", "c", ("a", "b"), ["c", "a"], ("a", "b", "c")])
among = st.sampled_from([None, None, "A", "B", ("A", "B")])
seen = st.sampled_from(["before", "after"])


@st.composite
def any_rule(draw):
    kind = draw(st.sampled_from(["capacity", "share", "budget", "mean"]))
    common = {"among": draw(among), "seen": draw(seen)}
    if kind == "capacity":
        return Capacity(draw(groups_of_actions), draw(st.floats(0, 1)), **common)
    if kind == "share":
        return Share(draw(groups_of_actions), draw(st.floats(0, 1)), **common)
    name = draw(st.sampled_from(sorted(RANGES)))
    limit = draw(st.floats(*LIMITS[name]))
    common["range"] = RANGES[name]
    if kind == "budget":
        return Budget(name, limit, draw(st.none() | groups_of_actions), **common)
    low = draw(st.none() | st.floats(RANGES[name][0] - 1, limit))
    return Mean(name, at_most=limit, at_least=low, **common)


@st.composite
def any_rules(draw):
    rules = draw(st.lists(any_rule(), max_size=6, unique=True))
    while conflict := refusal(rules):
        rules = [rule for rule in rules if rule not in conflict.rules]
    return Rules(rules, actions=ABC)


@settings(max_examples=150, deadline=None)
@given(
    any_rules(),
    st.sampled_from([(), ("A",), ("B",), ("A", "B"), ("Z",)]),
    st.permutations([0, 1, 2]),
    st.integers(1, 3),
    st.data(),
)
def test_costs_follow_the_definition(rules, groups, order, n_rows, data):
    ids = order[:n_rows]
    usage = {}
    for name, (low, high) in RANGES.items():
        if any(getattr(rule, "range", None) and rule.name == name for rule in rules):
            used = st.lists(st.floats(low, high), min_size=n_rows, max_size=n_rows)
            usage[name] = np.array(data.draw(used, label=name))
    costs = rules.costs(usage, group=groups, actions=ids)
    np.testing.assert_allclose(costs, by_definition(rules, usage, groups, ids), rtol=0, atol=1e-15)
    assert (np.abs(costs) <= 1).all()
    assert (costs >= rules.cost_range[:, 0]).all()
    assert (costs <= rules.cost_range[:, 1]).all()

    # The same numbers by every way of saying them.
    tables = {name: {ABC[i]: v for i, v in zip(ids, values)} for name, values in usage.items()}
    named = rules.costs(tables, group=set(groups), actions=[ABC[i] for i in ids])
    np.testing.assert_array_equal(named, costs)
    np.testing.assert_array_equal(rules.costs(usage, groups, np.array(ids)), costs)
    for row, i in enumerate(ids):
        alone = {name: values[row] for name, values in usage.items()}
        np.testing.assert_array_equal(rules.observed(alone, i, groups), costs[row, ~rules.seen])


def test_cost_ranges_are_reached():
    rules = Rules(
        [
            Budget("wait", 1.0, range=(-2, 6)),
            Budget("dose", 0.5, "a", range=(1, 1.5)),
            Mean("hours", at_least=0.25, at_most=0.5),
            Share("a", 0.25, among="A"),
        ],
        actions=ABC,
    )
    corners = [
        rules.costs({"wait": w, "dose": d, "hours": h}, group=g)
        for w, d, h, g in itertools.product((-2, 6), (1, 1.5), (0, 1), ("A", ()))
    ]
    stacked = np.concatenate(corners)
    np.testing.assert_array_equal(stacked.min(axis=0), rules.cost_range[:, 0])
    np.testing.assert_array_equal(stacked.max(axis=0), rules.cost_range[:, 1])


@pytest.mark.parametrize(
    ("rule", "scale"),
    [
        (Capacity("a", 0.2), 1.0),
        (Budget("h", 0.4), 1.0),
        (Budget("h", 0.4, range=(0, 0.5)), 1.0),
        (Budget("h", 3.0, range=(0, 8)), 8.0),
        (Budget("h", 10.0, range=(0, 8)), 10.0),  # limit above the range: never violated
        (Budget("h", 2.0, range=(3, 4)), 2.0),  # limit below it: never met
        (Budget("h", 3.5, range=(3, 4)), 1.0),
        (Budget("h", 3.5, "a", range=(3, 4)), 4.0),  # 0 where another action is chosen
        (Mean("h", at_least=-1, at_most=3, range=(0, 2)), 4.0),
    ],
)
def test_scale_is_the_width_of_values_and_limits(rule, scale):
    assert rule.scale == scale


def test_a_rule_among_a_group_costs_nothing_elsewhere():
    rules = Rules([Share(["a", "b"], 0.3, among=("A", "B")), Budget("h", 0.5, among="A")], actions=ABC)
    np.testing.assert_array_equal(rules.costs(group="C"), np.zeros((3, 2)))
    np.testing.assert_array_equal(rules.costs(group=()), np.zeros((3, 2)))
    np.testing.assert_array_equal(rules.costs(group="B")[:, 0], [0.3 - 1, 0.3 - 1, 0.3])
    np.testing.assert_array_equal(rules.costs({"h": 0.75}, group=["A", "C"])[:, 1], [0.25] * 3)


def test_costs_seen_after():
    rules = Rules(
        [Capacity("a", 0.5), Budget("h", 0.25, seen="after"), Mean("w", 0.75, 0.25, seen="after", among="A")],
        actions=ABC,
    )
    assert rules.seen.tolist() == [True, False, False, False]
    np.testing.assert_array_equal(rules.costs()[:, 1:], 0.0)
    np.testing.assert_array_equal(rules.costs({"h": 0.5})[:, 1], 0.25)
    np.testing.assert_array_equal(rules.observed({"h": 1.0, "w": 0.0}, "b", "A"), [0.75, -0.75, 0.25])
    np.testing.assert_array_equal(rules.observed({"h": 1.0}, 1, ()), [0.75, 0.0, 0.0])
    with pytest.raises(InvalidInput, match="group is missing"):
        rules.observed({"h": 1.0, "w": 0.0}, "b")
    with pytest.raises(InvalidInput, match=r"usage\['h'\] is missing"):
        rules.observed({"w": 0.0}, "b", "A")
    with pytest.raises(InvalidInput, match=r"actions\[0\] must be one of .* but got 'x'"):
        rules.observed({"h": 1.0}, "x", ())


def test_costs_are_a_new_array_each_time():
    rules = Rules([Capacity("a", 0.5), Budget("h", 0.5)], actions=ABC)
    first = rules.costs({"h": 1.0})
    kept = first.copy()
    first[:] = 7.0
    np.testing.assert_array_equal(rules.costs({"h": 1.0}), kept)
    with pytest.raises(ValueError, match="read-only"):
        rules.cost_range[0, 0] = 0.0


def test_many_combinations_of_actions_stay_bounded_and_right():
    rules = Rules([Capacity(i, 0.5) for i in range(12)], actions=12)
    full = rules.costs()
    for mask in range(1, 2**12):
        ids = [i for i in range(12) if mask >> i & 1]
        np.testing.assert_array_equal(rules.costs(actions=ids), full[ids])
    assert len(rules._plans) <= 1024


def test_actions_without_names():
    rules = Rules([Capacity((0, 2), 0.5), Budget("h", 0.5, 1)], actions=3)
    assert rules.actions == (0, 1, 2)
    np.testing.assert_array_equal(rules.costs({"h": {1: 1.0}}), [[0.5, -0.5], [-0.5, 0.5], [0.5, -0.5]])
    assert rules.names == ("capacity 0 or 2", "h of 1")
    assert str(rules).splitlines()[0] == "actions 0 or 2: at most 50% of decisions"
    assert Rules(list(rules), actions=rules.actions) == rules


def test_no_rules():
    rules = Rules([], actions=ABC)
    assert rules.costs().shape == (3, 0)
    assert rules.cost_range.shape == (0, 2)
    assert str(rules) == "no rules"


def test_usage_may_overshoot_its_range_by_rounding_only():
    rules = Rules([Budget("h", 0.5)], actions=ABC)
    np.testing.assert_array_equal(rules.costs({"h": [1 + 1e-12, -1e-12, 0.5]})[:, 0], [0.5, -0.5, 0.0])


# ---------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        (None, r"usage\['h'\] is missing: a rule reads 'h: at most 0.5 per decision on average'"),
        ({"hh": 1.0, "h": 1.0}, r"usage: no rule counts 'hh'; the rules count \['h', 'w'\]"),
        ({"h": [0.1, np.nan, 0.1], "w": 0}, r"usage\['h'\]\[1\] must lie in \[0, 1\].*but got nan"),
        ({"h": [0.1, 0.1, 1.7], "w": 0}, r"usage\['h'\]\[2\] must lie in \[0, 1\].*but got 1.7"),
        ({"h": np.inf, "w": 0}, r"usage\['h'\] must lie in \[0, 1\].*but got inf"),
        ({"h": [0.1, 0.1], "w": 0}, r"usage\['h'\] must be one number or 3.*shape is \(2,\)"),
        ({"h": [[0.1, 0.1, 0.1]], "w": 0}, r"shape is \(1, 3\)"),
        ({"h": [[0.1], [0.1, 0.2]], "w": 0}, r"usage\['h'\] must hold numbers"),
        ({"h": [True, False, True], "w": 0}, r"usage\['h'\] must hold real numbers"),
        ({"h": "0.5", "w": 0}, r"usage\['h'\] must hold real numbers"),
        ({"h": None, "w": 0}, r"usage\['h'\] must hold real numbers"),
        ({"h": [1j, 0, 0], "w": 0}, r"usage\['h'\] must hold real numbers"),
        (
            {"h": {"a": 1.0, "b": 1.0}, "w": 0},
            r"usage\['h'\] must hold every action on offer, but 'c' is missing",
        ),
        ({"h": {"a": 1.0, "x": 1.0}, "w": 0}, r"usage\['h'\]: unknown action 'x'"),
        ({"h": {"a": 1.0, "b": True, "c": 0}, "w": 0}, r"usage\['h'\]\['b'\] must be a number, but got True"),
        ([0.5, 0.5, 0.5], "usage must be a mapping"),
    ],
)
def test_bad_usage(usage, message):
    rules = Rules([Budget("h", 0.5), Budget("w", 0.5, "a")], actions=ABC)
    with pytest.raises(InvalidInput, match=message):
        rules.costs(usage)


def test_a_table_may_leave_out_actions_that_no_rule_counts():
    rules = Rules([Budget("w", 0.5, "a", range=(1, 2))], actions=ABC)
    np.testing.assert_array_equal(rules.costs({"w": {"a": 1.5}})[:, 0], [0.5, -0.25, -0.25])


@pytest.mark.parametrize("actions", [["a", "x"], [3], [-1], [1.0], [True], "a", {"a"}, [], [None]])
def test_bad_actions_on_offer(actions):
    with pytest.raises(InvalidInput, match="actions"):
        Rules([Capacity("a", 0.5)], actions=ABC).costs(actions=actions)


def test_a_group_that_matters_must_be_said():
    rules = Rules([Capacity("a", 0.5, among="A")], actions=ABC)
    with pytest.raises(InvalidInput, match="group is missing"):
        rules.costs()
    with pytest.raises(InvalidInput, match="group must be a name or several, but got 3"):
        rules.costs(group=[3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Capacity("a", 1.7), r"Capacity\('a'\): at_most must lie in \[0, 1\].*but got 1.7"),
        (lambda: Capacity("a", -0.1), "at_most must lie in"),
        (lambda: Share("a", float("nan")), "at_least must be finite, but got nan"),
        (lambda: Share("a", "0.5"), "at_least must be a number, but got '0.5'"),
        (lambda: Share("a", True), "at_least must be a number, but got True"),
        (lambda: Share("", 0.5), "Share: action must be a name"),
        (lambda: Share([], 0.5), "Share: action must name one action or several"),
        (lambda: Share(["a", "a"], 0.5), "several different ones"),
        (lambda: Share(["a", 1.5], 0.5), r"action\[1\] must be a name or an index >= 0, but got 1.5"),
        (lambda: Share(-1, 0.5), "index >= 0, but got -1"),
        (lambda: Share(None, 0.5), "but got None"),
        (lambda: Capacity("a", 0.5, among=""), "among must name"),
        (lambda: Capacity("a", 0.5, among=["A", "A"]), "among must name"),
        (lambda: Capacity("a", 0.5, among=3), "among must name"),
        (lambda: Capacity("a", 0.5, seen="later"), "seen must be 'before' or 'after', but got 'later'"),
        (lambda: Capacity("a", 0.5, name=""), "name must be a text"),
        (lambda: Budget("", 0.5), "Budget: name must be a text"),
        (lambda: Budget("h", float("inf")), "at_most must be finite"),
        (lambda: Budget("h", 10**400), "at_most must be finite"),
        (lambda: Budget("h", 0.5, range=(1, 0)), "low < high"),
        (lambda: Budget("h", 0.5, range=(0,)), r"must be a pair"),
        (lambda: Budget("h", 0.5, range="01"), r"must be a pair"),
        (lambda: Budget("h", 0.5, range=(0, float("nan"))), r"range\[1\] must be finite"),
        (lambda: Budget("h", 0.5, range=(-1e308, 1e308)), "too far apart"),
        (lambda: Mean("h"), "at_most or at_least must be given"),
    ],
)
def test_bad_rules(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("rules", "actions", "message"),
    [
        ([Capacity("x", 0.5)], ABC, r"rules\[0\]: unknown action 'x'; expected one of \['a', 'b', 'c'\]"),
        ([Capacity("a", 0.5), Share(0, 0.5)], ABC, r"rules\[1\]: unknown action 0"),
        ([Capacity(3, 0.5)], 3, r"rules\[0\]: unknown action 3"),
        ([Capacity("a", 0.5), Capacity("a", 0.5)], ABC, r"rules\[1\] repeats rules\[0\]"),
        (["capacity"], ABC, r"rules\[0\] must be a Capacity, Share, Budget or Mean"),
        (
            [Budget("h", 0.5), Mean("h", 0.5, range=(0, 2))],
            ABC,
            r"rules\[1\]: range of 'h' must be \(0.0, 1.0\)",
        ),
        ([Capacity("a", 0.5, name="x"), Share("a", 0.1, name="x")], ABC, "name must be unique, but 'x'"),
        ([], [], "actions must be a list of names"),
        ([], 0, "actions must be at least 1"),
        ([], True, "actions must be a list of names"),
        ([], "abc", "actions must be a list of names"),
        ([], ["a", "a"], "'a' comes twice"),
        ([], ["a", 1], "actions must be names, or 0, 1, 2"),
        ([], [1, 2], "actions must be names, or 0, 1, 2"),
        ([], ["a", ""], r"actions\[1\] must be a name"),
    ],
)
def test_bad_rule_sets(rules, actions, message):
    with pytest.raises(InvalidInput, match=message):
        Rules(rules, actions=actions)


# --------------------------------------------------------------------------------------------- words and plain data


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Capacity("icu", at_most=0.2), "icu: at most 20% of decisions"),
        (Share("icu", at_least=0.175), "icu: at least 17.5% of decisions"),
        (Budget("nurse_hours", at_most=0.4), "nurse_hours: at most 0.4 per decision on average"),
        (
            Share(["icu", "surgery"], 0.3, among="A"),
            "among group A: icu or surgery: at least 30% of that group's decisions",
        ),
        (
            Budget("nurse_hours", 0.1875, action="icu"),
            "nurse_hours used by icu: at most 0.1875 per decision on average",
        ),
        (Mean("wait", at_least=0.1), "wait: at least 0.1 per decision on average"),
        (
            Mean("wait", 2, 1, among=("A", "B"), range=(0, 5), seen="after"),
            "among groups A or B: wait: at least 1 and at most 2 per decision of those groups on average "
            "(seen after acting)",
        ),
        (Capacity((0, 1, 4), 1), "actions 0, 1 or 4: at most 100% of decisions"),
    ],
)
def test_words(rule, words):
    assert str(rule) == words


def test_labels_are_unique_and_short():
    rules = Rules(
        [
            Capacity("a", 0.5),
            Capacity("a", 0.6),
            Capacity("a", 0.7, name="capacity a"),
            Share(["a", "b"], 0.1, among="A"),
            Mean("w", 0.5, 0.1),
            Mean("w", 0.6),
            Budget("w", 0.4, "a"),
        ],
        actions=ABC,
    )
    assert rules.names == (
        "capacity a (2)",
        "capacity a (3)",
        "capacity a",
        "share a or b among A",
        "w at most",
        "w at least",
        "w",
        "w of a",
    )
    assert [column.name for column in rules.columns] == list(rules.names)
    assert [rules[4], rules[4]] == [column.rule for column in rules.columns[4:6]]


def everything():
    return Rules(
        [
            Capacity(["a", "b"], 0.75, among="A", seen="after", name="beds"),
            Share("a", 0.25, among=["A", "B"]),
            Budget("h", 2.5, "b", range=(0, 8)),
            Mean("w", at_least=0.125, at_most=0.5, seen="after"),
        ],
        actions=ABC,
    )


def test_repr_is_python():
    rules = everything()
    assert eval(repr(rules)) == rules
    numbered = Rules([Capacity(0, 0.5)], actions=2)
    assert repr(numbered) == "Rules([Capacity(0, at_most=0.5)], actions=2)"


def test_plain_data_round_trip():
    rules = everything()
    data = json.loads(json.dumps(rules.to_data()))
    again = Rules.from_data(data, list(rules.actions))
    assert again == rules
    assert hash(again) == hash(rules)
    assert again.to_data() == rules.to_data()


def test_a_toml_table_is_read():
    text = """
    [[rule]]
    kind = "capacity"
    action = "a"
    at_most = 0.2

    [[rule]]
    kind = "mean"
    name = "wait"
    at_least = 1
    range = [0, 2]
    """
    rules = Rules.from_data(tomllib.loads(text)["rule"], ABC)
    assert list(rules) == [Capacity("a", 0.2), Mean("wait", at_least=1.0, range=(0, 2))]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([{"kind": "cap", "action": "a"}], r"rules\[0\]: kind must be one of .*but got 'cap'"),
        ([{"action": "a"}], r"rules\[0\]: kind must be one of"),
        ([{"kind": ["share"]}], r"rules\[0\]: kind must be one of"),
        (
            [{"kind": "capacity", "action": "a", "atmost": 1}],
            r"rules\[0\]: unknown field 'atmost'; a capacity rule has",
        ),
        (
            [{"kind": "capacity", "action": "a"}],
            r"rules\[0\]: field 'at_most' is missing from a capacity rule",
        ),
        (
            [
                {"kind": "share", "action": "a", "at_least": 0.1},
                {"kind": "budget", "name": "h", "at_most": "x"},
            ],
            r"rules\[1\]: Budget\('h'\): at_most must be a number",
        ),
        (["capacity"], r"rules\[0\] must be a table"),
        ({"kind": "capacity"}, "must be a list of tables"),
    ],
)
def test_bad_plain_data(data, message):
    with pytest.raises(InvalidInput, match=message):
        Rules.from_data(data, ABC)


def test_equality_copies_and_pickles():
    rules = everything()
    usage = {"h": [1.0, 2.0, 3.0], "w": 0.5}
    for again in (copy.deepcopy(rules), pickle.loads(pickle.dumps(rules))):
        assert again == rules
        np.testing.assert_array_equal(again.costs(usage, "A"), rules.costs(usage, "A"))
    assert Capacity(["a"], 0.5) == Capacity("a", 0.5)
    assert len({Capacity("a", 0.5), Capacity(("a",), np.float64(0.5)), Share("a", 0.5)}) == 2
    assert rules != Rules(list(rules), actions=["a", "b", "d", "c"])
    assert rules != 3
    with pytest.raises(AttributeError):
        rules[0].at_most = 0.1


def test_importing_rules_loads_no_solver():
    code = "import sys, tightrope.rules; sys.exit('highspy' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------------------------------------------- conflicts


@pytest.mark.parametrize(
    ("rules", "conflicting", "total"),
    [
        ([Share("a", 0.6), Share("b", 0.5), Capacity("c", 0.3)], [0, 1], 0.1),
        ([Capacity("a", 0.3), Share("a", 0.1), Capacity("b", 0.3), Capacity("c", 0.3)], [0, 2, 3], 0.1),
        ([Share(["a", "b"], 0.5), Capacity("a", 0.2), Capacity("b", 0.2)], [0, 1, 2], 0.1),
        ([Capacity("b", 0.9), Share("a", 0.5), Capacity("a", 0.2)], [1, 2], 0.3),
        ([Mean("w", at_least=0.6, at_most=0.4)], [0], 0.2),
        ([Mean("w", at_least=0.6), Budget("w", 0.4)], [0, 1], 0.2),
        ([Budget("h", -0.1), Share("a", 0.5)], [0], 0.1),
        ([Budget("h", 1.0, range=(2, 4))], [0], 1.0),
        ([Budget("h", 1.0, "a", range=(2, 4)), Share("a", 0.75)], [0, 1], 0.25),
        ([Mean("w", at_most=-0.1, at_least=1.1)], [0], 1.2),
        ([Share("a", 0.6, among="A"), Share("b", 0.5, among="A"), Share("c", 0.9)], [0, 1], 0.1),
        ([Share("a", 0.6, among=("A", "B")), Share("b", 0.5, among=("B", "A"))], [0, 1], 0.1),
        ([Budget("h", 0.2, seen="after"), Mean("h", at_least=0.3)], [0, 1], 0.1),
    ],
)
def test_classic_conflicts(rules, conflicting, total):
    with pytest.raises(InfeasibleProblem) as caught:
        Rules(rules, actions=ABC)
    assert list(caught.value.rules) == [rules[i] for i in conflicting]
    assert sum(caught.value.relaxation.values()) == pytest.approx(total, abs=1e-9)
    for i in conflicting:
        assert f"'{rules[i]}'" in str(caught.value)
    assert f"{total:g} in total" in str(caught.value)


@pytest.mark.parametrize(
    "rules",
    [
        [Share("a", 0.7), Share("b", 0.2), Share("c", 0.1)],  # sums to 1 but for rounding
        [Capacity(x, 1 / 3) for x in ABC],
        [Share("a", 0.5), Capacity("a", 0.5)],
        [Budget("h", 0.0)],
        [Budget("h", 5.0, range=(0, 1))],
        [Mean("w", at_least=0.3, at_most=0.3)],
        [Share("a", 1.0), Capacity("a", 0.0, among="A")],  # group A may be as rare as it likes
        [Share("a", 1.0, among="A"), Share("b", 1.0, among="B"), Share("c", 1.0, among="C")],
        [Budget("h", 100.0, range=(0, 1e6)), Mean("h", at_least=100.0, range=(0, 1e6)), Share("a", 1.0)],
    ],
)
def test_tight_rule_sets_are_accepted(rules):
    assert len(Rules(rules, actions=ABC)) == len(rules)


def test_two_conflicts_name_one_and_relax_both():
    rules = [Share("a", 0.75), Share("b", 0.5), Share("a", 0.75, among="A"), Share("b", 0.75, among="A")]
    with pytest.raises(InfeasibleProblem) as caught:
        Rules(rules, actions=ABC)
    assert caught.value.rules == tuple(rules[:2])
    assert sum(caught.value.relaxation.values()) == pytest.approx(0.25 + 0.5)


def population_rows(rules):
    """The rules of one population over z = (y, v), v_{u,j} the usage u of action j times how often it is chosen."""
    names = sorted({r.name for r in rules if r.kind in ("budget", "mean")})
    n, width = len(ABC), len(ABC) * (1 + len(names))
    rows, limits, owner = [], [], []
    for rule in rules:
        action = getattr(rule, "action", None)
        members = ABC if action is None else [action] if isinstance(action, str) else list(action)
        row = np.zeros(width)
        start = 0 if rule.kind in ("capacity", "share") else n * (1 + names.index(rule.name))
        row[[start + ABC.index(a) for a in members]] = 1.0
        for side, sign in (("at_most", 1.0), ("at_least", -1.0)):
            limit = getattr(rule, side, None)
            if limit is not None:
                rows.append(sign * row)
                limits.append(sign * limit)
                owner.append(rule)
    links = []
    for i, name in enumerate(names):
        for j in range(n):
            for bound, sign in zip(RANGES[name], (-1.0, 1.0)):
                link = np.zeros(width)
                link[n * (1 + i) + j], link[j] = sign, -sign * bound
                links.append(link)
    return np.array(rows), np.array(limits), owner, np.array(links).reshape(-1, width)


def least_sum_of_changes(rules):
    """By another solver call, in the rules' own units and other variables than the code under test."""
    rows, limits, _, links = population_rows(rules)
    k, width = rows.shape
    found = linprog(
        np.r_[np.zeros(width), np.ones(k)],
        A_ub=np.block([[rows, -np.eye(k)], [links, np.zeros((len(links), k))]]),
        b_ub=np.r_[limits, np.zeros(len(links))],
        A_eq=[np.r_[np.ones(3), np.zeros(width - 3 + k)]],
        b_eq=[1.0],
        bounds=[(0, None)] * 3 + [(None, None)] * (width - 3) + [(0, None)] * k,
    )
    assert found.success
    return found.fun


def feasible(rules, tolerance=1e-7):
    return not rules or least_sum_of_changes(rules) <= tolerance


def random_rules(rng, with_usage):
    """Limits on a coarse grid, so that nothing is infeasible by a hair."""
    rules = set()
    for _ in range(rng.integers(2, 7)):
        members = tuple(rng.permutation(ABC)[: rng.integers(1, 3)].tolist())
        kind = rng.integers(0, 4 if with_usage else 2)
        name = str(rng.choice(sorted(RANGES)))
        low, high = RANGES[name]
        grid = [low + (high - low) * i / 8 for i in range(-1, 10)]
        if kind == 0:
            rules.add(Capacity(members, rng.integers(0, 17) / 16))
        elif kind == 1:
            rules.add(Share(members, rng.integers(0, 17) / 16))
        elif kind == 2:
            action = members if rng.random() < 0.5 else None
            rules.add(Budget(name, float(rng.choice(grid)), action, range=(low, high)))
        else:
            sides = rng.choice(grid, 2)
            rules.add(
                Mean(
                    name,
                    *(s if rng.random() < 0.7 or i == 0 else None for i, s in enumerate(sides)),
                    range=(low, high),
                )
            )
    return sorted(rules, key=repr)


@pytest.mark.parametrize("with_usage", [False, True])
def test_conflicts_are_found_exactly_and_are_irreducible(with_usage):
    rng = np.random.default_rng(20 + with_usage)
    refused = 0
    for _ in range(120):
        rules = random_rules(rng, with_usage)
        conflict = refusal(rules)
        if conflict is None:
            assert feasible(rules)
            continue
        refused += 1
        found = list(conflict.rules)
        assert not feasible(found)
        for i in range(len(found)):
            assert feasible(found[:i] + found[i + 1 :])
        assert sum(conflict.relaxation.values()) == pytest.approx(least_sum_of_changes(rules), abs=1e-8)
        assert set(conflict.relaxation) <= set(rules)
        assert feasible(relaxed(rules, conflict.relaxation))
    assert 20 <= refused <= 110


def relaxed(rules, relaxation):
    """Limits moved as told; where a rule has two sides, both by its whole change."""
    moved = []
    for rule in rules:
        change = relaxation.get(rule, 0.0)
        if rule.kind == "capacity":
            moved.append(Capacity(rule.action, min(1.0, rule.at_most + change)))
        elif rule.kind == "share":
            moved.append(Share(rule.action, max(0.0, rule.at_least - change)))
        elif rule.kind == "budget":
            moved.append(Budget(rule.name, rule.at_most + change, rule.action, range=rule.range))
        else:
            low = None if rule.at_least is None else rule.at_least - change
            moved.append(Mean(rule.name, rule.at_most + change, low, range=rule.range))
    return moved


def exact_least_sum(rules):
    """Minimum over the simplex of Σ (excess)⁺ for shares: convex and piecewise linear, so it is attained where two
    of the lines {rule tight} and {y_j = 0} cross; all crossings are tried, in rational numbers."""
    lines = [([Fraction(int(a == b)) for b in ABC], Fraction(0)) for a in ABC]
    sides = []
    for rule in rules:
        members = {rule.action} if isinstance(rule.action, str) else set(rule.action)
        row = [Fraction(int(a in members)) for a in ABC]
        sign = 1 if rule.kind == "capacity" else -1
        limit = Fraction(rule.at_most if sign == 1 else rule.at_least)
        lines.append((row, limit))
        sides.append((row, limit, sign))
    best = None
    for (r1, l1), (r2, l2) in itertools.combinations(lines, 2):
        # y_c = 1 − y_a − y_b
        a11, a12, b1 = r1[0] - r1[2], r1[1] - r1[2], l1 - r1[2]
        a21, a22, b2 = r2[0] - r2[2], r2[1] - r2[2], l2 - r2[2]
        det = a11 * a22 - a12 * a21
        if det == 0:
            continue
        ya, yb = (b1 * a22 - b2 * a12) / det, (a11 * b2 - a21 * b1) / det
        y = [ya, yb, 1 - ya - yb]
        if min(y) < 0:
            continue
        total = sum(
            max(Fraction(0), sign * (sum(c * v for c, v in zip(row, y)) - limit))
            for row, limit, sign in sides
        )
        best = total if best is None else min(best, total)
    return best


def test_the_relaxation_is_the_smallest_by_brute_force():
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(150):
        rules = random_rules(rng, with_usage=False)
        least = exact_least_sum(rules)
        conflict = refusal(rules)
        if conflict is None:
            assert least == 0
            continue
        refused += 1
        assert least > 0
        assert sum(conflict.relaxation.values()) == pytest.approx(float(least), abs=1e-9)
    assert 20 <= refused <= 130
