"""Work in the background: no request waits for it, and its result takes effect at an entry of the journal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tightrope.errors import InvalidInput
from tightrope.models.background import Result
from tightrope.policies import Policy
from tightrope.service.journal.entries import TookEffect


class Background:
    """The background work of a policy, by its numbers in `Policy.background`."""

    def __init__(self, policy: Policy) -> None:
        self._works = policy.background()
        for work in self._works:
            work.deferred = True

    def due(self) -> tuple[int, Callable[[], Result]] | None:
        """The number of a work that has something to do, and what does it, on any thread."""
        for number, work in enumerate(self._works):
            if (job := work.due()) is not None:
                return number, job
        return None

    def take(self, work: int, result: Result) -> TookEffect:
        """Let a result take effect."""
        if not 0 <= work < len(self._works):
            raise InvalidInput(f"work {work} is not done in the background.")
        self._works[work].take(result)
        return TookEffect(work=work, result=result)

    def prepare(self) -> None:
        """Wait for what the next answer needs, so that no caller has to; what can't be fitted is for callers to hear."""
        for work in self._works:
            with contextlib.suppress(InvalidInput):
                work.prepare()
