"""Which column is what."""

from __future__ import annotations

import numpy as np

from tightrope.frames import Frame
from tightrope.starting import roles
from tightrope.starting.columns import look

RNG = np.random.default_rng(0)
N = 200
SENT = RNG.choice(["email", "letter"], N)
TABLE = {
    "age": RNG.integers(20, 90, N).astype(float),
    "price": RNG.uniform(1, 9, N),
    "sent": SENT,
    "bought": (RNG.random(N) < 0.4).astype(float),
    "minutes": np.where(SENT == "letter", 8.0, 2.0) + RNG.uniform(0, 4, N),
    "dwell": np.where(SENT == "letter", 90.0, 20.0) + RNG.uniform(0, 9, N),
}


def seen(**changes):
    frame = Frame({**TABLE, **changes})
    return frame, look(frame)


def test_action_and_reward_by_name():
    _, columns = seen()
    assert roles.find_action(columns).what == "sent"
    assert roles.find_reward(columns).what == "bought"


def test_a_name_that_is_nothing_but_the_word_goes_first():
    _, columns = seen(action_date=["x", "y"] * 100, action=["a", "b"] * 100)
    assert roles.find_action(columns).what == "action"


def test_the_only_column_of_a_few_names_is_the_action():
    frame = Frame({"age": TABLE["age"], "kanal": SENT, "y": TABLE["bought"]})
    found = roles.find_action(look(frame), ["y"])
    assert found.what == "kanal"
    assert "it is the only column of a few different texts" in found.why
    both = Frame({"kanal": SENT, "stadt": ["Bonn", "Kiel"] * 100})
    assert roles.find_action(look(both)) is None


def test_usage_is_what_the_action_makes_a_difference_to():
    frame, columns = seen()
    # A price has nothing to do with what was done: it was known before.
    assert [one.what for one in roles.find_usage(frame, columns, "sent", ["sent", "bought"])] == ["minutes"]


def test_what_goes_with_the_action_came_after_it_whatever_its_name():
    frame, columns = seen()
    found = roles.find_consequences(frame, columns, "sent")
    assert set(found) == {"minutes", "dwell"}
    assert "--usage" in found["dwell"]


def test_what_tells_the_reward_is_found():
    frame, columns = seen(points=10 * TABLE["bought"] + RNG.normal(0, 0.01, N))
    assert roles.find_leaks(frame, columns, "bought") == ["points"]


def test_columns_of_every_action():
    frame = Frame({"age": [1.0, 2.0], "reward_a": [0.0, 1.0], "reward_b": [1.0, 0.0], "size_a": [1.0, 2.0]})
    assert roles.find_per_action(look(frame)) == {"reward": {"a": "reward_a", "b": "reward_b"}}
    both = Frame({f"{what}_{action}": [0.0, 1.0] for what in ("reward", "cost") for action in "ab"})
    costs = {"a": "cost_a", "b": "cost_b"}
    assert roles.find_per_action(look(both)) == {"reward": {"a": "reward_a", "b": "reward_b"}, "cost": costs}


def test_the_good_one_of_two():
    frame = Frame({"won": ["no", "Yes"], "side": ["left", "right"]})
    columns = look(frame)
    assert roles.good_value(columns["won"]) == "Yes"
    assert roles.good_value(columns["side"]) is None
