"""The progress bar for slow work: below a notebook's cell or on standard error, gone when the work is done."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, Protocol

_EVERY = 0.1  # seconds between two updates of a notebook's bar


class Advance(Protocol):
    """Advances a bar: how many more are done, and how many of these failed."""

    def __call__(self, done: int = 1, failed: int = 0) -> None: ...


@contextlib.contextmanager
def progress_bar(
    label: str, total: int, unit: str, shown: bool | None = None, *, failures: bool = False
) -> Iterator[Advance]:
    """A bar for `total` units of work; by default (None) in a notebook, and elsewhere if standard error is a terminal.

    With `failures` it also shows how many units have failed, and how many are done per second.

    >>> with progress_bar("hospital", 10, "runs", False) as advance:
    ...     advance()
    """
    display = _notebook_display()
    if not (display is not None or sys.stderr.isatty() if shown is None else shown):
        yield lambda done=1, failed=0: None
    elif display is not None:
        yield from _in_notebook(display, label, total, unit, failures)
    else:
        yield from _in_terminal(label, total, unit, failures)


def _note(unit: str, failures: bool, failed: int = 0, speed: float | None = None) -> str:
    rate = "–" if speed is None else f"{speed:,.1f}"
    return f"{unit}, {failed:,} failed, {rate} per second" if failures else unit


def _in_terminal(label: str, total: int, unit: str, failures: bool) -> Iterator[Advance]:
    from rich import progress
    from rich.console import Console

    counted = progress.BarColumn(), progress.MofNCompleteColumn()
    times = progress.TimeElapsedColumn(), "left", progress.TimeRemainingColumn()
    columns = "{task.description}", *counted, "{task.fields[note]}", *times
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, note=_note(unit, failures))
        all_failed = 0

        def advance(done: int = 1, failed: int = 0) -> None:
            nonlocal all_failed
            all_failed += failed
            bar.advance(task, done)
            bar.update(task, note=_note(unit, failures, all_failed, bar.tasks[0].speed))

        yield advance


def _in_notebook(
    display: Callable[..., Any], label: str, total: int, unit: str, failures: bool
) -> Iterator[Advance]:
    """A bar of the browser's own, so that nothing but IPython is needed."""
    begun = told = time.monotonic()
    all_done = all_failed = 0

    def drawn(now: float) -> dict[str, str]:
        seconds = now - begun
        note = _note(unit, failures, all_failed, all_done / seconds if seconds > 0 else None)
        words = f"{all_done:,} of {total:,} {note}, {seconds:.0f} s"
        if 0 < all_done < total:
            words += f", {seconds * (total - all_done) / all_done:.0f} s left"
        bar = f'<progress value="{all_done}" max="{max(1, total)}" style="width:16em;vertical-align:middle"></progress>'
        return {"text/html": f"{escape(label)} {bar} {escape(words)}", "text/plain": f"{label}: {words}"}

    shown = display(drawn(begun), raw=True, display_id=True)

    def advance(done: int = 1, failed: int = 0) -> None:
        nonlocal all_done, all_failed, told
        all_done, all_failed = all_done + done, all_failed + failed
        now = time.monotonic()
        if now - told >= _EVERY:
            told = now
            shown.update(drawn(now), raw=True)

    try:
        yield advance
    finally:
        shown.update({"text/html": "", "text/plain": ""}, raw=True)


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's display function if the code runs in a notebook, where IPython is already loaded."""
    running = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if running is None or not hasattr(running, "kernel"):
        return None
    from IPython.display import display

    found: Callable[..., Any] = display
    return found
