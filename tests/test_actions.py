"""Names and ids of actions: what is meant, and what is refused in which words."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from tightrope.actions import Actions, count, counted
from tightrope.errors import InvalidInput

WARDS = Actions(["icu", "surgery", "other"])


@pytest.mark.parametrize(
    ("actions", "ids"),
    [
        (["other", "icu"], [2, 0]),
        ([1, "icu", np.int32(2)], [1, 0, 2]),
        (np.array([2, 0]), [2, 0]),
        (np.array(["surgery"]), [1]),
        (("icu", "icu"), [0, 0]),
    ],
)
def test_names_and_ids_are_understood(actions: Any, ids: list[int]) -> None:
    assert WARDS.ids(actions) == ids
    assert all(type(one) is int for one in WARDS.ids(actions))
    assert pickle.loads(pickle.dumps(WARDS)).ids(actions) == ids


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (
            ["icu", "surgry"],
            r"actions\[1\] is the unknown name 'surgry' \(did you mean 'surgery'\?\); known: icu, su",
        ),
        ([0, 3], r"actions\[1\] must be below 3, the number of actions, but got 3"),
        ([-1], r"actions\[0\] must be a whole number >= 0, but got -1"),
        ([True], r"actions\[0\] must be a whole number >= 0, but got True"),
        ([1.0], r"actions\[0\] must be a whole number >= 0, but got 1.0"),
        (["icu", 0], "actions must name each action once, but got"),
        ([], "actions must name at least one action, but it is empty"),
        ("icu", "actions must be a sequence of names or ids"),
        ({"icu"}, "actions must be a sequence of names or ids"),
        (0, "actions must be a sequence of names or ids"),
    ],
)
def test_what_is_not_an_action_is_refused(actions: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        WARDS.ids(actions, once=True)


def test_actions_without_names_and_actions_that_nobody_counted() -> None:
    numbered, open_ended = Actions(10**9), Actions(None)
    assert numbered.ids([10**9 - 1]) == [10**9 - 1]
    assert (numbered.name(7), len(numbered), 10**9 in numbered) == (7, 10**9, False)
    assert (open_ended.ids([10**12]), open_ended.name(3), len(open_ended)) == ([10**12], 3, 0)
    for names in (Actions(3), open_ended):
        with pytest.raises(InvalidInput, match="unknown name 'x'; actions have no names here"):
            names.ids(["x"])


def test_as_declared() -> None:
    assert "icu" in WARDS
    assert 0 not in WARDS
    assert 0 in Actions(1)
    assert (WARDS.id("other", "default"), WARDS.name(1), list(WARDS)) == (
        2,
        "surgery",
        ["icu", "surgery", "other"],
    )
    with pytest.raises(InvalidInput, match="default must be below 3"):
        WARDS.id(3, "default")


def test_a_registry_grows_and_its_ids_stay() -> None:
    wards = Actions(["icu", "surgery"])
    later = wards.with_state("icu", "paused").with_action("hospice")
    assert (len(wards), wards.state("icu"), wards.active) == (2, "active", range(2)), (
        "it does not change itself"
    )
    assert [later.id(name) for name in ("icu", "surgery", "hospice")] == [0, 1, 2]
    assert [later.state(name) for name in later] == ["paused", "active", "active"]
    assert later.active == (1, 2)
    assert later.with_state("icu", "active").active == (0, 1, 2)
    assert later.ids(["icu"]) == [0], "a caller may still ask for it by name"
    assert tuple(later)[: len(wards)] == tuple(wards)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda wards: wards.with_action("icu"), "'icu' comes twice"),
        (lambda wards: wards.with_action(""), r"actions\[2\] must be a name"),
        (lambda wards: wards.with_state("icu", "gone"), "state must be one of 'active', 'paused', 'retired'"),
        (lambda wards: wards.with_state("ici", "paused"), "did you mean 'icu'"),
        (lambda _: Actions(3).with_action("x"), "give them names"),
    ],
)
def test_a_registry_refuses_what_would_not_be_one(change, words) -> None:
    with pytest.raises(InvalidInput, match=words):
        change(Actions(["icu", "surgery"]))


def test_counts_by_action_have_room_for_later_ones() -> None:
    counts: list[int] = []
    for action in (1, 0, 1, 4):
        count(counts, action)
    assert counts == [1, 2, 0, 0, 1]
    assert [counted(counts, action) for action in (0, 4, 9)] == [1, 1, 0]
