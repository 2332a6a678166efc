"""The progress bar of everything that takes its time: on standard error, gone when the work is done."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Protocol


class Advance(Protocol):
    """Moves a bar on."""

    def __call__(self, done: int = 1, failed: int = 0) -> None:
        """So many more are done, and of these so many have failed."""


@contextlib.contextmanager
def progress_bar(
    label: str, total: int, unit: str, shown: bool | None = None, *, failures: bool = False
) -> Iterator[Advance]:
    """A bar for `total` units of work; by default (None) if standard error is a terminal.

    With `failures` it also tells how many units have failed, and how many are done in a second.

    >>> with progress_bar("hospital", 10, "runs", False) as advance:
    ...     advance()
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda done=1, failed=0: None
        return
    from rich import progress
    from rich.console import Console

    counted = progress.BarColumn(), progress.MofNCompleteColumn()
    times = progress.TimeElapsedColumn(), "left", progress.TimeRemainingColumn()
    columns = "{task.description}", *counted, "{task.fields[note]}", *times
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, note=f"{unit}, 0 failed, – per second" if failures else unit)
        all_failed = 0

        def advance(done: int = 1, failed: int = 0) -> None:
            nonlocal all_failed
            all_failed += failed
            bar.advance(task, done)
            if failures:
                speed = bar.tasks[0].speed
                rate = "–" if speed is None else f"{speed:,.1f}"
                bar.update(task, note=f"{unit}, {all_failed} failed, {rate} per second")

        yield advance
