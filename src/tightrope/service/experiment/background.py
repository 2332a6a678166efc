"""The work of a policy that no request waits for, such as fits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tightrope.errors import InvalidInput
from tightrope.models.background import Result
from tightrope.policies import Policy
from tightrope.service.journal import entries


class Background:
    """The background work of a policy, numbered as in `hooks.background()`: no request waits for it."""

    def __init__(self, policy: Policy) -> None:
        self._works, self._waiting = policy.hooks.background(), policy.hooks.pending
        for work in self._works:
            work.deferred = True

    def due(self) -> tuple[int, Callable[[], Result]] | None:
        """The number of a work item with something to do, and the function that does it on any thread."""
        for number, work in enumerate(self._works):
            if (job := work.due()) is not None:
                return number, job
        return None

    def take(self, work: int, result: Result) -> entries.TookEffect:
        if not 0 <= work < len(self._works):
            raise InvalidInput(f"work {work} is not done in the background.")
        self._works[work].take(result)
        self._waiting.version += 1
        return entries.TookEffect(work=work, result=result)

    def prepare(self) -> None:
        """Wait for what the next answer needs, so that no caller has to; a failed fit is reported to callers."""
        for work in self._works:
            with contextlib.suppress(InvalidInput):
                work.prepare()
