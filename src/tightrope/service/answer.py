"""Answers: a status and JSON; or a refusal, which names the field."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from tightrope.errors import TightropeError


class Answer(NamedTuple):
    """An answer: HTTP status, JSON, and after how many seconds to try again."""

    status: int
    body: bytes
    retry_after: int | None = None

    @classmethod
    def of(cls, value: Any) -> Answer:
        return cls(200, _encoder.encode(value))


class Refusal(TightropeError):
    """A request that is answered with an error: HTTP status, a code for programs, a message for people, and the wrong field."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.field, self.retry_after = field, retry_after

    def answer(self) -> Answer:
        error = {"code": self.code, "message": _encodable(self.message)}
        if self.field is not None:
            error["field"] = _encodable(self.field)
        return Answer(self.status, _encoder.encode({"error": error}), self.retry_after)


def _encodable(text: str) -> str:
    """A caller's text may contain half of a surrogate pair, which UTF-8 can't encode."""
    return text.encode(errors="backslashreplace").decode()


_encoder: Final = msgspec.json.Encoder()
