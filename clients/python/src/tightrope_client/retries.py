"""When a request is sent again: one loop for both clients, with no sockets or clocks of its own.

Every request can safely be sent twice: a decision has an event id, the caller's or one made here, and each part of an outcome
counts once. Only a rollback and a snapshot are not repeated once the service may have done them.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any, Final, Generic, Self, TypeVar

from tightrope_client.endpoints import Request, Settings
from tightrope_client.errors import TRANSIENT, Unavailable, refusal
from tightrope_client.transport import Reply, Unsent

T = TypeVar("T")

# Pauses between attempts double from the first to the longest; each is a random part of that, so that callers don't fall into step.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_KEPT: Final = 10_000


class Unanswered:
    """Decisions that got no answer, by event id, with the arguments to ask again. Keeps the newest 10,000."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arguments: dict[str, dict[str, Any]] = {}

    def add(self, request: Request[Any]) -> None:
        with self._lock:
            self._arguments |= request.decisions
            while len(self._arguments) > _KEPT:
                del self._arguments[next(iter(self._arguments))]

    def remove(self, request: Request[Any]) -> None:
        with self._lock:
            for event_id in request.decisions or (request.event_id,):
                self._arguments.pop(event_id or "", None)

    def copy(self) -> dict[str, dict[str, Any]]:
        with self._lock:
            return dict(self._arguments)


class Attempts(Generic[T]):
    """The attempts at one request, one after the other until there is an answer.

    A client pauses, sends, and hands over what came; a failure to send or to read within `with` counts as an attempt:

    >>> attempts = Attempts(Request("GET", "/v1/state"), Settings("http://localhost"), Unanswered())
    >>> for attempt in attempts:
    ...     time.sleep(attempt.pause)
    ...     with attempt:
    ...         if attempt.pause == 0.0:
    ...             raise ConnectionResetError
    ...         attempt.take(Reply(200, {}, b'{"decisions": 7}'))
    >>> attempts.made, attempts.result()
    (2, {'decisions': 7})
    """

    def __init__(self, request: Request[T], settings: Settings, unanswered: Unanswered) -> None:
        self.made = 0
        # Seconds to wait before the next attempt.
        self.pause = 0.0
        self._request, self._settings, self._unanswered = request, settings, unanswered
        self._began = time.monotonic()
        self._answer: Reply | None = None
        unanswered.add(request)

    def __iter__(self) -> Iterator[Self]:
        while self._answer is None:
            yield self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, OSError | HTTPException):
            return False
        self.made += 1
        if not self._again(isinstance(error, Unsent)):
            times = "1 attempt" if self.made == 1 else f"{self.made} attempts"
            words = f"no answer from the service in {times}: {str(error) or type(error).__name__}"
            raise Unavailable(503, "unreachable", words, self._request.event_id) from error
        return True

    @property
    def left(self) -> float | None:
        """Seconds until the request's deadline; None if it has none."""
        if self._request.deadline is None:
            return None
        return max(0.0, self._began + self._request.deadline - time.monotonic())

    @property
    def timeout(self) -> float:
        """Seconds for the next attempt."""
        return min(self._settings.timeout, math.inf if self.left is None else max(0.001, self.left))

    def take(self, reply: Reply) -> None:
        """Take what came back, whether it is the answer or a request to try again later."""
        self.made += 1
        status, headers, content = reply
        if status in TRANSIENT:
            # After 503 `unavailable`, or a proxy's 502 or 504, nobody knows whether it was done.
            refused = status == 503 and refusal(status, content).code not in ("unavailable", "unexpected")
            if self._again(refused or status == 429, headers.get("retry-after")):
                return
        else:
            self._unanswered.remove(self._request)
        self._answer = reply

    def result(self) -> T:
        """What the service answered, or the error that the answer means."""
        assert self._answer is not None, "answer() was called before the attempts ended"
        status, _, content = self._answer
        if status == 200:
            with contextlib.suppress(ValueError):
                answer: T = json.loads(content)
                if isinstance(answer, dict):
                    return answer
        raise refusal(status, content, self._request.event_id)

    def _again(self, undone: bool, retry_after: str | None = None) -> bool:
        """Whether there is another attempt; then its pause is set. `undone`: the service has not done what was asked."""
        if not (undone or self._request.repeatable):
            return False
        # Retry-After may also be a date. This service never sends one; a proxy that does is treated as if it had sent nothing.
        asked = float(retry_after) if retry_after is not None and retry_after.isdigit() else 0.0
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.made - 1, 10))
        self.pause = asked + random.uniform(0.5, 1.0) * longest
        deadline = self._request.deadline
        limit = self._settings.patience if deadline is None else deadline
        return time.monotonic() + self.pause <= self._began + limit
