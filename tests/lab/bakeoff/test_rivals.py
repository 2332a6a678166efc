"""Other libraries: their environment, and the program that plays them, with stand-ins for the libraries themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tightrope_lab.bakeoff import rival_program, rivals
from tightrope_lab.bakeoff.rival_program import Guard, play_contextualbandits, play_vowpalwabbit

NO_RULES = np.zeros((3, 0))


def test_a_guard_takes_away_what_would_break_a_rule():
    guard = Guard(np.array([[0.5, -0.1], [-0.5, -0.1], [-0.2, 0.3]]))
    assert guard.allowed().tolist() == [False, True, False]
    guard.take(1)
    guard.take(1)
    guard.take(1)
    assert guard.allowed().tolist() == [True, True, True]
    guard.totals[:] = 1.0
    assert guard.allowed().tolist() == [False, True, False]
    assert Guard(NO_RULES).allowed().all()


class Workspace:
    """Always nearly sure of action 1, and keeps what it is told."""

    told: list[list[str]]

    def __init__(self, arguments):
        Workspace.arguments, Workspace.told = arguments, []

    def predict(self, lines):
        return [0.05, 0.9, 0.05]

    def learn(self, lines):
        Workspace.told.append(lines)

    def finish(self):
        pass


@pytest.fixture
def vowpalwabbit(monkeypatch):
    monkeypatch.setitem(sys.modules, "vowpalwabbit", SimpleNamespace(Workspace=Workspace))


@pytest.mark.usefixtures("vowpalwabbit")
def test_vowpal_wabbit_is_told_the_loss_of_its_own_action_and_its_chance():
    x, y = np.array([[0.5, 0.0]] * 200), np.array([1, 0] * 100)
    actions = play_vowpalwabbit(x, y, 3, NO_RULES, 4, "--squarecb -l 2")
    assert "--random_seed 5" in Workspace.arguments
    assert Workspace.arguments.endswith("--squarecb -l 2")
    assert 0.8 < np.mean(actions == 1) < 0.98
    for action, label, (shared, *lines) in zip(actions, y, Workspace.told, strict=True):
        assert shared == "shared |s c:1 f0:0.5"
        chance = (0.05, 0.9, 0.05)[action]
        labels = [line.partition("|")[0] for line in lines]
        assert [bool(one) for one in labels] == [j == action for j in range(3)]
        _, loss, told = labels[action].split(":")
        assert (float(loss), float(told)) == (-float(action == label), pytest.approx(chance))


@pytest.mark.usefixtures("vowpalwabbit")
def test_with_rules_the_chances_are_those_of_what_is_allowed():
    costs = np.array([[-0.1], [0.9], [-0.1]])
    actions = play_vowpalwabbit(np.ones((60, 1)), np.zeros(60, dtype=int), 3, costs, 0, "")
    totals = np.cumsum(costs[actions, 0])
    assert (totals <= 1e-9).all()
    assert 1 in actions
    assert Workspace.told[0][1 + actions[0]].split(" ")[0].endswith(":0.5")


def test_contextualbandits_plays_its_best_score_and_learns_row_by_row(monkeypatch):
    made = []

    class LinUCB:
        def __init__(self, n, random_state, **settings):
            made.append((n, random_state, settings))
            self.learnt = []

        def decision_function(self, x):
            return np.array([[0.1, 0.2, 0.9]])

        def partial_fit(self, x, actions, rewards):
            made.append((x.shape, actions.tolist(), rewards.tolist()))

    online = ModuleType("contextualbandits.online")
    online.LinUCB = LinUCB
    monkeypatch.setitem(sys.modules, "contextualbandits", ModuleType("contextualbandits"))
    monkeypatch.setitem(sys.modules, "contextualbandits.online", online)
    actions = play_contextualbandits(
        np.ones((4, 2)), np.array([0, 2, 1, 2]), 3, NO_RULES, 0, "LinUCB", alpha=0.1
    )
    assert made[0] == (3, 1, {"alpha": 0.1})
    assert actions[1:].tolist() == [2, 2, 2]
    assert made[2:] == [((1, 2), [2], [1.0]), ((1, 2), [2], [0.0]), ((1, 2), [2], [1.0])]


def test_a_library_is_installed_once_with_pins_into_the_cache(monkeypatch, tmp_path):
    calls = []

    def run(command, **settings):
        calls.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(rivals.subprocess, "run", run)
    assert rivals.install(["vowpalwabbit", "vowpalwabbit"], tmp_path) == {}
    assert rivals.install(["vowpalwabbit"], tmp_path) == {}
    make, install = calls
    assert make[1:3] == ["-m", "venv"]
    assert Path(make[3]).parent == tmp_path
    assert install[0] == str(rivals.python(tmp_path))
    assert install[-1] == "vowpalwabbit"
    pins = Path(install[install.index("--constraint") + 1]).read_text()
    assert f"vowpalwabbit=={rivals.pins()['vowpalwabbit']}\n" in pins


def test_why_a_library_can_not_be_installed_is_said_and_it_is_tried_again(monkeypatch, tmp_path):
    calls = []

    def run(command, **settings):
        calls.append(command)
        return subprocess.CompletedProcess(command, int("pip" in command), "", "ERROR: no compiler")

    monkeypatch.setattr(rivals.subprocess, "run", run)
    (rivals.environment(tmp_path)).mkdir()
    assert rivals.install(["contextualbandits"], tmp_path) == {"contextualbandits": "ERROR: no compiler"}
    assert rivals.install(["contextualbandits"], tmp_path) == {"contextualbandits": "ERROR: no compiler"}
    assert sum("pip" in command for command in calls) == 2


def test_a_run_goes_through_a_program_of_its_own(monkeypatch, tmp_path):
    """The program gets the table and the settings, and its actions come back; its error is passed on."""
    monkeypatch.setattr(rivals, "python", lambda cache: Path(sys.executable))
    given = np.ones((5, 2)), np.arange(5) % 3, 3, NO_RULES, 0, tmp_path
    with pytest.raises(rivals.RivalFailed, match="KeyError: 'nobody'"):
        rivals.play("nobody", {}, *given)
    echo = tmp_path / "rival_program.py"
    source = Path(rival_program.__file__).read_text().replace('if __name__ == "__main__":', "", 1)
    head, _, call = source.rpartition("\n    main(")
    plays = 'PLAYS["echo"] = lambda x, y, J, costs, seed, add: (y + add) % J'
    echo.write_text(f"{head}\n{plays}\nmain({call}")
    monkeypatch.setattr(rivals, "__file__", str(tmp_path / "rivals.py"))
    assert rivals.play("echo", {"add": 1}, *given).tolist() == [1, 2, 0, 1, 2]
