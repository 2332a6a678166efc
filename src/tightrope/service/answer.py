"""What is sent back: a status and JSON; or a refusal, which names the field."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from tightrope.errors import TightropeError


class Answer(NamedTuple):
    """What is sent back: HTTP status, JSON, and after how many seconds to try again."""

    status: int
    body: bytes
    retry_after: int | None = None

    @classmethod
    def of(cls, value: Any) -> Answer:
        """200, with a value in JSON."""
        return cls(200, _encoder.encode(value))


class Refusal(TightropeError):
    """A request that is answered with an error: its HTTP status, a code for programs and words for people.

    >>> Refusal(404, "unknown", "no such event").answer().body
    b'{"error":{"code":"unknown","message":"no such event"}}'
    """

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after

    def answer(self) -> Answer:
        """What is sent back."""
        # What a caller sent stands in the message, and may hold half of a surrogate pair, which UTF-8 has no bytes for.
        message = self.message.encode(errors="backslashreplace").decode()
        error = {"error": {"code": self.code, "message": message}}
        return Answer(self.status, _encoder.encode(error), self.retry_after)


_encoder: Final = msgspec.json.Encoder()
