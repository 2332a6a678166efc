"""Waiting for something to happen, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# Nobody waits this long where things work. It bounds a run in which they don't, and is no statement about speed.
PATIENCE: Final = 180.0


def until(holds: Callable[[], object], what: str, *, every: float = 0.02) -> None:
    """Wait until something holds; fail if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        time.sleep(every)
