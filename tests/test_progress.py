"""A bar that tells how far, and is silent where nobody looks."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from html_page import Page
from tightrope import progress
from tightrope.progress import progress_bar


def test_a_bar_counts_what_is_done_and_what_failed(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("hospital", 3, "cells", True, failures=True) as advance:
        advance()
        advance(2, failed=1)
    told = capsys.readouterr()
    assert "1 failed" in told.err
    assert "3/3" in told.err
    assert told.out == ""


def test_nothing_is_shown_away_from_a_terminal(capsys):
    with progress_bar("hospital", 3, "runs") as advance:
        advance()
    assert capsys.readouterr().err == ""


class Shown:
    """What stands below a cell."""

    def __init__(self) -> None:
        self.drawn: list[dict[str, str]] = []

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id is True
        self.drawn.append(data)
        return SimpleNamespace(update=lambda data, raw: self.drawn.append(data))


@pytest.fixture
def notebook(monkeypatch):
    """As if code ran in a notebook's kernel."""
    shown, ipython, display = Shown(), ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    display.display = shown.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    return shown


def test_in_a_notebook_the_bar_is_below_the_cell_and_gone_at_the_end(notebook, capsys):
    with progress_bar("<hospital>", 3, "cells", failures=True) as advance:
        advance()
        advance(2, failed=1)
    first, second, third, last = notebook.drawn
    assert Page(first["text/html"]).text.startswith("<hospital> 0 of 3 cells")
    assert '<progress value="1" max="3"' in second["text/html"]
    assert "3 of 3 cells, 1 failed" in third["text/plain"]
    assert last == {"text/html": "", "text/plain": ""}
    assert capsys.readouterr().err == ""


def test_a_bar_is_cleared_when_the_work_fails(notebook):
    def work():
        with progress_bar("hospital", 3, "runs"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert notebook.drawn[-1]["text/html"] == ""


def test_a_notebook_is_not_told_every_moment(notebook, monkeypatch):
    monkeypatch.setattr(progress, "_EVERY", 3600.0)
    with progress_bar("hospital", 1000, "runs") as advance:
        for _ in range(1000):
            advance()
    assert len(notebook.drawn) == 2


def test_a_notebook_can_do_without(notebook):
    with progress_bar("hospital", 3, "runs", False) as advance:
        advance()
    assert notebook.drawn == []


def test_ipython_in_a_terminal_is_no_notebook(notebook, capsys):
    sys.modules["IPython"].get_ipython = lambda: SimpleNamespace()
    with progress_bar("hospital", 3, "runs") as advance:
        advance()
    assert notebook.drawn == []


def test_simulations_fits_sweeps_and_leagues_tell_how_far_they_are(notebook, tmp_path):
    import numpy as np

    import tightrope as tr
    from tightrope.spec import make_spec
    from tightrope.sweeps import sweep
    from tightrope_lab.league import ROSTER, compare

    def said() -> str:
        words = " ".join(one["text/plain"] for one in notebook.drawn)
        notebook.drawn.clear()
        return words

    env = tr.environments.bandit()
    tr.simulate(tr.policies.Uniform(4), env, rounds=5, replications=2, workers=1)
    assert "2 of 2 runs" in said()
    sent = np.arange(40) % 2
    tr.compare_models(
        {"sent": sent.astype(str), "got": sent + np.arange(40.0)}, ["arm-means"], action="sent", reward="got"
    )
    assert "1 of 1 models" in said()
    plain = {"environment": {"kind": "bandit"}, "policy": {"kind": "uniform"}}
    spec = make_spec(
        {**plain, "simulation": {"rounds": 5, "replications": 2}, "sweep": {"simulation.seed": [1, 2]}}
    )
    sweep(spec, tmp_path, workers=1)
    assert "2 of 2 cells" in said()
    compare([ROSTER["uniform"]], ["bandit-binding"], rounds=5, replications=1, workers=1)
    assert "1 of 1 runs" in said()
