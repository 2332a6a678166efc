"""Work that is done beside decisions, on another thread: an ensemble's fit, a constant that is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

# What must be recorded of a result, so that it takes effect again as it did: all of it, or the mark of what is computed again.
Result: TypeAlias = list[int | float]


class BackgroundWork(Protocol):
    """Work of a policy or a model whose result takes effect later, by itself at a fixed round or when its keeper says so."""

    # Whether a keeper, such as the service, has the work done and says when its result takes effect.
    deferred: bool

    def due(self) -> Callable[[], Result] | None:
        """Where there is something to do: what does it, on any thread, and gives the result. None else."""

    def take(self, result: Result) -> None:
        """The result takes effect; raises `InvalidInput` where it is none of the state as it is now."""

    def prepare(self) -> None:
        """Wait for what the next answer needs, as after loading."""
