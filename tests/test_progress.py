"""A bar that tells how far, and is silent where nobody looks."""

from __future__ import annotations

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
