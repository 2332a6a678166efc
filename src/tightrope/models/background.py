"""Work done on another thread while decisions go on: an ensemble's fit, a constant that is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

# What to record about a result so that a replay can repeat its effect: all of it, numbers or bytes, or the mark of something that
# can only be recomputed.
Result: TypeAlias = list[int | float | bytes]


class BackgroundWork(Protocol):
    """Work of a policy or model whose result takes effect later: on its own at a fixed round, or when its keeper says so."""

    # Whether a keeper, such as the service, runs the work and says when its result takes effect.
    deferred: bool

    def due(self) -> Callable[[], Result] | None:
        """If there is something to do, a function that does it on any thread and returns the result; else None."""

    def take(self, result: Result) -> None:
        """Put the result into effect; raises `InvalidInput` if it does not belong to the current state."""

    def prepare(self) -> None:
        """Wait for what the next answer needs, for example after loading."""
