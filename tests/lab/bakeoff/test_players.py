"""Every player of ours learns an easy table, and sees nothing but whether it was right."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope_lab.bakeoff import players
from tightrope_lab.bakeoff.players import OURS, PLAYERS
from tightrope_lab.bakeoff.rules import rules_for

NO_RULES = np.zeros((3, 0))


@pytest.fixture(scope="module")
def easy():
    draw = np.random.default_rng(0)
    y = draw.integers(3, size=400)
    return np.eye(3)[y] + 0.1 * draw.normal(size=(400, 3)), y


@pytest.mark.parametrize("name", [*OURS, "numpy"])
def test_it_learns(name, easy, tmp_path):
    x, y = easy
    actions = players.play(PLAYERS[name], x, y, 3, NO_RULES, 0, tmp_path)
    assert actions.shape == y.shape
    assert np.mean(actions[-100:] == y[-100:]) > 0.85


@pytest.mark.parametrize("name", ["tightrope", "numpy", "lagrangian"])
def test_it_keeps_rules(name, easy, tmp_path):
    x, y = easy
    ruled = rules_for(y, 3)
    actions = players.play(PLAYERS[name], x, y, 3, ruled.costs, 0, tmp_path)
    assert (ruled.costs[actions].sum(axis=0) <= 1e-9).all()
    assert np.mean(actions == y) > 0.3


@pytest.mark.parametrize("name", ["tightrope", "numpy"])
def test_a_choice_does_not_depend_on_labels_to_come(name, easy, tmp_path):
    x, y = easy
    other = np.concatenate([y[:50], (y[50:] + 1) % 3])
    one, two = (players.play(PLAYERS[name], x, labels, 3, NO_RULES, 0, tmp_path) for labels in (y, other))
    assert one[:51].tolist() == two[:51].tolist()
    assert one.tolist() != two.tolist()


def test_players_are_chosen_by_name_or_family():
    assert [one.name for one in players.chosen(["numpy", "contextualbandits"])] == [
        "numpy",
        "cb-lints-1",
        "cb-lints-0.1",
        "cb-linucb-1",
        "cb-linucb-0.1",
    ]
    assert players.chosen(()) == list(PLAYERS.values())
    with pytest.raises(InvalidInput, match=r"players must be among tightrope, .* but got 'nobody'"):
        players.chosen(["nobody"])


def test_other_settings_are_another_player_in_the_file():
    one = PLAYERS["vw-squarecb-0.5"]
    assert "vowpalwabbit 9." in one.identity
    others = [
        dataclasses.replace(one, settings={"arguments": "--squarecb -l 3"}),
        dataclasses.replace(one, raw=True),
    ]
    assert len({one.identity, *(other.identity for other in others)}) == 3
