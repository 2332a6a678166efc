"""Logs: what can't be one is refused, and what is one keeps its own copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import tightrope as tr
from tightrope import InvalidInput
from tightrope.frames import Frame
from tightrope.log import History, Log, LogColumns, action_name
from tightrope.offpolicy import evaluate

GOOD: dict[str, Any] = {
    "actions": [0, 1, 1],
    "rewards": [1.0, 0.0, 1.0],
    "costs": [[0.1], [0.2], [0.3]],
    "propensities": [0.5, 0.5, 0.5],
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rewards": [1.0, np.nan, 1.0]}, r"rewards\[1\] must be finite, but got nan"),
        ({"rewards": ["1", "0", "1"]}, "rewards must hold real numbers"),
        (
            {"rewards": [1.0], "actions": [0], "costs": None, "propensities": [0.5]},
            "at least 2 rows, but got 1",
        ),
        ({"actions": [0, 1]}, r"actions must be 3 ids or names.*shape \(2,\)"),
        ({"actions": [0, -1, 1]}, r"actions\[1\] must be a whole number >= 0, but got -1"),
        ({"actions": [0.0, 1.0, 1.0]}, "actions must be 3 ids or names"),
        ({"actions": [True, False, True]}, "actions must be 3 ids or names"),
        ({"actions": ["a", "b", "b"]}, "pass action_names= to list them all"),
        (
            {"actions": ["a", "b", "z"], "action_names": ["a", "b"]},
            r"actions\[2\] is the unknown name 'z'; known: a, b",
        ),
        (
            {"actions": [0, 2, 1], "n_actions": 2},
            r"actions\[1\] must be below 2, the number of actions, but got 2",
        ),
        ({"action_names": ["a", "a"]}, "action_names must be different strings"),
        ({"action_names": ["a", "b", "c"], "n_actions": 2}, "the number of actions must be one"),
        ({"costs": [[0.1], [np.inf], [0.3]]}, r"costs\[1, 0\] must be finite, but got inf"),
        ({"costs": [0.1, 0.2, 0.3]}, r"costs must have shape \(3, any\) or \(3, 2, any\)"),
        ({"constraints": ["one", "two"]}, "constraints must name the 1 columns of costs, but got 2 names"),
        ({"propensities": [0.5, 0.0, 0.5]}, r"propensities\[1\] must lie in \(0, 1\], but got 0"),
        ({"propensities": [0.5, np.nan, 0.5]}, r"propensities\[1\] must be finite"),
        (
            {"propensities": [[0.5, 0.5], [0.5, 0.4], [0.5, 0.5]]},
            r"propensities\[1\] must sum to 1, but it sums to 0.9",
        ),
        (
            {"propensities": [[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]},
            r"propensities\[1, 1\] must be above 0",
        ),
        ({"contexts": [0, 1]}, "contexts must have one entry for each of 3 rows, but got 2"),
        ({"contexts": [0, -2, 1]}, r"contexts\[1\] must be 0 or more, but got -2"),
        ({"contexts": [[0.0], [np.nan], [1.0]]}, r"contexts\[1, 0\] must be finite"),
        ({"groups": [1, 1]}, "groups must be 3 ids or names"),
        ({"groups": [1, 1, 1]}, "groups must be at least 2, but all rows belong to one"),
    ],
)
def test_bad_logs_are_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Log(**(GOOD | changes))


def test_a_log_keeps_its_own_copy() -> None:
    rewards = np.array([1.0, 0.0, 1.0])
    log = Log(**(GOOD | {"rewards": rewards}))
    rewards[0] = 7.0
    assert log.rewards[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        log.rewards[0] = 2.0


def test_what_was_used_stands_in_for_costs():
    rules = tr.Rules(
        [tr.Capacity("a", at_most=0.5), tr.Budget("minutes", at_most=20, range=(0, 60), seen="after")],
        actions=["a", "b"],
    )
    actions, minutes = ["a", "b", "b"], [30.0, 20.0, 0.0]
    log = Log(actions, [1.0, 0.0, 1.0], usage={"minutes": minutes}, propensities=[0.5] * 3, constraints=rules)
    np.testing.assert_allclose(log.costs, [[0.5, 1 / 6], [-0.5, 0.0], [-0.5, -1 / 3]], atol=1e-12)
    assert log.constraints == rules.names
    for given in ({"constraints": ["x", "y"]}, {"constraints": rules, "costs": log.costs}):
        with pytest.raises(
            tr.InvalidInput, match="usage takes the place of costs, and needs constraints=Rules"
        ):
            Log(actions, [1.0, 0.0, 1.0], usage={"minutes": minutes}, propensities=[0.5] * 3, **given)
    with pytest.raises(tr.InvalidInput, match=r"usage\['minutes'\] is missing"):
        rules.logged({}, actions)
    with pytest.raises(tr.InvalidInput, match=r"usage\['minutes'\] must be one number or 3, but got 2"):
        rules.logged({"minutes": [1.0, 2.0]}, actions)


TABLE = {
    "sent": ["b", "a", "b", "a"],
    "won": [1, 0, 0, 1],
    "minutes": [4.0, 1.0, 5.0, 1.0],
    "town": ["x", "y", "y", "x"],
}


def test_a_log_of_a_frame_in_the_order_of_the_actions():
    columns = LogColumns(action="sent", reward="won", usage={"minutes": "minutes"}, group="town")
    log = Log.from_frame(pd.DataFrame(TABLE), columns, actions=["b", "a"], costs=["minutes"], unit="town")
    assert (log.action_names, log.actions.tolist()) == (("b", "a"), [0, 1, 0, 1])
    assert log.for_actions(["a", "b"]).actions.tolist() == [1, 0, 1, 0]
    assert log.used("minutes").tolist() == TABLE["minutes"] == log.costs[:, 0].tolist()
    assert (log.constraints, log.groups.tolist()) == (("minutes",), [0, 1, 1, 0])
    assert [log.context_group(i) for i in range(4)] == TABLE["town"]
    assert not log.tells_all
    assert [one.tolist() for one in log.lessons()] == [[0, 1, 2, 3], [0, 1, 0, 1], [1, 0, 0, 1]]
    with pytest.raises(InvalidInput, match="propensities are missing"):
        evaluate(log, [0] * 4)
    drawn = Log.from_frame({**TABLE, "p": [0.5] * 4}, columns, probability="p")
    assert evaluate(drawn, ["b"] * 4, "ips").reward.value == 0.5


def test_rows_that_tell_every_action():
    table = {"right": [2, 10, 2], "r_a": [0.5, 0.0, 1.0]}
    labelled = Log.from_frame(table, LogColumns(label="right"))
    assert labelled.tells_all
    assert (labelled.action_names, labelled.rewards.tolist()) == (("2", "10"), [[1, 0], [0, 1], [1, 0]])
    known = Log.from_frame(table, LogColumns(reward={"a": "r_a", "b": 0.25}, usage={"min": {"a": 3.0}}))
    assert known.for_actions(["b", "a"]).rewards.tolist() == [[0.25, 0.5], [0.25, 0.0], [0.25, 1.0]]
    assert known.used("min").tolist() == [[3.0, 0.0]] * 3
    rows, actions, rewards = known.lessons()
    assert (rows.tolist(), actions.tolist()) == ([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    assert rewards.tolist() == [0.5, 0.25, 0.0, 0.25, 1.0, 0.25]
    with pytest.raises(InvalidInput, match="the log has the reward of every action"):
        evaluate(known, [0] * 3)


def test_rows_of_a_file_that_lack_something_are_left_out(tmp_path):
    (tmp_path / "log.csv").write_text("arm,won,m\n1,yes,2\n10,no,\n2,no,3\n,yes,4\n")
    log = History(file="log.csv", action="arm", reward="won", success="yes", usage={"m": "m"}).read(tmp_path)
    assert (len(log), log.left_out, log.action_names) == (2, 2, ("1", "2"))
    assert (log.rewards.tolist(), log.used("m").tolist()) == ([1.0, 0.0], [2.0, 3.0])
    assert (log.frame.path, len(log.frame.sha256)) == (tmp_path / "log.csv", 64)
    with pytest.raises(
        InvalidInput, match=r"the table has the actions \['1', '2'\], but the spec has \['1', '3'\]"
    ):
        log.for_actions(["1", "3"])
    with pytest.raises(InvalidInput, match=r"log\.csv: no row has all of arm, won, none"):
        History(file="log.csv", action="arm", reward="won", usage={"n": "none"}).of(
            Frame({"arm": [1, 2], "won": [0, 1], "none": [None, None]}, path=tmp_path / "log.csv")
        )


def test_actions_of_a_table_by_name() -> None:
    assert [action_name(one) for one in (3.0, 2.5, "email", True, False)] == [
        "3",
        "2.5",
        "email",
        "true",
        "false",
    ]
