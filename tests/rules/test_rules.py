"""Sets of rules: costs against their definition, labels, plain data."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import subprocess
import sys
import tomllib
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import tightrope as tr
from rule_tools import ABC, RANGES, any_rules
from tightrope.errors import InvalidInput
from tightrope.rules import Budget, Capacity, Mean, Rules, Share, moves_in_words

WARDS = ["internal", "surgery", "family", "emergency", "cardiology", "other"]
CAPS = [0.2, 0.2, 0.175, 0.175, 0.175, 0.175]
FAIR = [0.175, 0.175, 0.15, 0.15, 0.125, 0.125]


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
    with pytest.raises(InvalidInput, match=r"actions\[0\] is the unknown name 'x'; known: a, b"):
        rules.observed({"h": 1.0}, "x", ())


def test_costs_are_a_new_array_each_time():
    rules = Rules([Capacity("a", 0.5), Budget("h", 0.5)], actions=ABC)
    first = rules.costs({"h": 1.0})
    kept = first.copy()
    first[:] = 7.0
    np.testing.assert_array_equal(rules.costs({"h": 1.0}), kept)
    with pytest.raises(ValueError, match="read-only"):
        rules.cost_range[0, 0] = 0.0


def test_what_is_in_force_is_the_same_for_every_way_to_say_a_group():
    rules = Rules(
        [Capacity("a", 0.5), Share("a", 0.1, among="A"), Share("b", 0.1, among=["A", "B"])], actions=ABC
    )
    for group, expected in (("A", [1, 1, 1]), ("B", [1, 0, 1]), ((), [1, 0, 0]), (["B", "Z"], [1, 0, 1])):
        for _ in range(2):
            found = rules.in_force(group)
            assert found.tolist() == [bool(one) for one in expected]
            assert not found.flags.writeable


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
    rules = Rules([Budget("h", 0.5, range=(0, 1))], actions=ABC)
    np.testing.assert_array_equal(rules.costs({"h": [1 + 1e-12, -1e-12, 0.5]})[:, 0], [0.5, -0.5, 0.0])


# ---------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        (None, r"usage\['h'\] is missing: a rule reads 'h: at most 0.5 per decision on average'"),
        (
            {"hh": 1.0, "h": 1.0},
            r"usage: no rule counts 'hh' \(did you mean 'h'\?\); the rules count \['h', 'w'\]",
        ),
        ({"h": [0.1, np.nan, 0.1], "w": 0}, r"usage\['h'\]\[1\] must lie in \[0, 1\].*but got nan"),
        ({"h": [0.1, 0.1, 1.7], "w": 0}, r"usage\['h'\]\[2\] must lie in \[0, 1\].*but got 1.7"),
        ({"h": np.inf, "w": 0}, r"usage\['h'\] must lie in \[0, 1\].*but got inf"),
        ({"h": [0.1, 0.1], "w": 0}, r"usage\['h'\] must be one number or 3.*shape is \(2,\)"),
        ({"h": [[0.1, 0.1, 0.1]], "w": 0}, r"shape is \(1, 3\)"),
        ({"h": [[0.1], [0.1, 0.2]], "w": 0}, r"usage\['h'\] must hold numbers"),
        ({"h": [True, False, True], "w": 0}, r"usage\['h'\] must hold real numbers"),
        ({"h": np.array([True, False, True], dtype=object), "w": 0}, r"usage\['h'\] must hold real numbers"),
        ({"h": [10**400, 0, 0], "w": 0}, r"usage\['h'\] must hold real numbers"),
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
    rules = Rules([Budget("h", 0.5, range=(0, 1)), Budget("w", 0.5, "a")], actions=ABC)
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
    ("rules", "actions", "message"),
    [
        ([Capacity("x", 0.5)], ABC, r"rules\[0\]: unknown action 'x'; known: a, b, c"),
        ([Capacity("a", 0.5), Share(0, 0.5)], ABC, r"rules\[1\]: unknown action 0"),
        ([Capacity(3, 0.5)], 3, r"rules\[0\]: unknown action 3"),
        ([Capacity("a", 0.5), Capacity("a", 0.5)], ABC, r"rules\[1\] repeats rules\[0\]"),
        (["capacity"], ABC, r"rules\[0\] must be a Budget, Capacity, Mean"),
        (
            [Budget("h", 0.5, range=(0, 1)), Mean("h", 0.5, range=(0, 2))],
            ABC,
            r"rules\[1\].range must be \(0.0, 1.0\), as in an earlier rule on 'h'",
        ),
        ([Capacity("a", 0.5, name="x"), Share("a", 0.1, name="x")], ABC, "name must be unique, but 'x'"),
        ([], [], "actions must name at least one action"),
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
            r"rules\[0\]: at_most is missing: a capacity rule needs it",
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


# --- groups ---


def regions(**more):
    return Rules([Capacity("a", 0.5, among=("North", "South"))], actions=["a", "b"], **more)


def test_a_group_that_was_not_declared_is_refused_with_a_suggestion():
    known = regions(groups=["North", "South", "West"])
    assert known.costs(group="West").tolist() == [[0.0], [0.0]]
    assert known.costs(group=()).tolist() == [[0.0], [0.0]]
    for slip in ("north", ["West", "north"]):
        with pytest.raises(
            InvalidInput, match=r"unknown group 'north' \(did you mean 'North'\?\); known: North, South, West"
        ):
            known.costs(group=slip)
    with pytest.raises(InvalidInput, match="unknown group 'East'"):
        known.in_force("East")


def test_a_policy_refuses_it_and_is_untouched():
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=regions(groups=["North", "South"]))
    for _ in range(3):
        policy.learn(policy.decide(group="North"), reward=1.0)
    before = policy.hooks.state()
    with pytest.raises(InvalidInput, match="did you mean 'South'"):
        policy.decide(group="south")
    assert all(
        np.array_equal(before[name], array, equal_nan=True) for name, array in policy.hooks.state().items()
    )


def test_declared_groups_are_saved_and_limits_can_change(tmp_path):
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=regions(groups=["North", "South"]))
    policy.change_limit("capacity a among North or South", 0.4)
    assert policy.rules.groups == ("North", "South")
    policy.save(tmp_path / "policy")
    assert tr.load(tmp_path / "policy").rules == policy.rules
    assert regions() != regions(groups=["North", "South"])
    assert eval(repr(policy.rules), globals()) == policy.rules


@pytest.mark.parametrize("groups", ["North", [], ["North", ""], ["North", "North"], [1], 3])
def test_groups_are_different_names(groups):
    with pytest.raises(InvalidInput, match="groups must be different names"):
        regions(groups=groups)


def test_a_rule_among_a_group_that_was_not_declared():
    with pytest.raises(InvalidInput, match=r"rules\[0\]: unknown group 'North' \(did you mean 'north'\?\)"):
        regions(groups=["north", "South"])


def test_without_declared_groups_a_slip_is_warned_of_once():
    open_to_all = regions()
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=open_to_all)
    with pytest.warns(
        tr.errors.PolicyWarning, match=r"group 'north' is named by no rule \(did you mean 'North'\?\)"
    ):
        policy.decide(group="north")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.decide(group="north")
        policy.decide(group="West")
        policy.decide(group=["North", "ward-7"])


def test_usage_that_no_rule_counts_is_refused_with_a_suggestion():
    counted = Rules([Budget("nurse_hours", at_most=0.5)], actions=["a", "b"])
    with pytest.raises(InvalidInput, match=r"no rule counts 'nurse_hour' \(did you mean 'nurse_hours'\?\)"):
        counted.costs({"nurse_hour": 0.3})


# ----------------------------------------------------------------------------------------------------------- columns


def test_a_column_knows_its_units_and_what_another_limit_changes():
    was, now = (Rules([Budget("hours", at_most=n, range=(0, 8))], ["a", "b"]).columns[0] for n in (3, 5))
    assert was.shift(now) == -0.25
    assert was.in_units(0.25) == 5.0


def test_prices_and_moves_of_limits_in_words():
    rules = Rules([Budget("cents", 250, range=(0, 1000)), Share("b", at_least=0.2)], ["a", "b"])
    cents, share = rules.columns
    assert (
        cents.price_words(0.000268) == "cents: one more cent per decision would earn 0.000268 per decision."
    )
    lower = "share b: a limit one percentage point lower would earn 0.0031 per decision."
    assert share.price_words(0.31) == lower
    raised = "raise 'cents: at most 250 per decision on average' by 23"
    assert moves_in_words({"cents": 23.0, "share b": 0.05}, rules) == (
        f"{raised}, lower 'b: at least 20% of decisions' by 5 percentage points"
    )
    assert moves_in_words({"cost 1": 0.2}, None) == "raise the limit of 'cost 1' by 0.2"


def test_one_more_unit_in_words():
    assert Budget("nurse_hours", at_most=0.5).one_more("at_most") == "one more nurse hour"
    assert Budget("heat", at_most=0.5).one_more("at_most") == "one more unit of heat"
    assert Share("b", at_least=0.2).one_more("at_least") == "requiring one decision fewer for b"
