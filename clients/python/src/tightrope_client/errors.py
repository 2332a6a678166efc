"""What a client raises: an argument that can't be sent, or the service's refusal of a request.

>>> error = refusal(422, b'{"error": {"code": "invalid", "message": "context.age must lie in [0, 120], but got 171"}}')
>>> type(error).__name__, error.code
('InvalidRequest', 'invalid')
"""

from __future__ import annotations

import json
from typing import Final


class InvalidInput(ValueError):
    """An argument can't be sent: the message says which field, what must hold and what came. Nothing was sent."""


class ServiceError(Exception):
    """The service refused, or did not answer: `status` is HTTP's, `code` the service's word for the reason.

    `event_id` names the event if the call was about one, even if the client made the id: with it the same request can be sent
    again, later or elsewhere.
    """

    def __init__(self, status: int, code: str, message: str, event_id: str | None = None) -> None:
        super().__init__(status, code, message, event_id)
        self.status, self.code, self.message, self.event_id = status, code, message, event_id

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.message}"


class InvalidRequest(ServiceError):
    """400, 408, 413, 422, 431: the request is invalid; the message names the field."""


class NotAllowed(ServiceError):
    """401, 403: no key, an unknown key, or one without access to this."""


class NotFound(ServiceError):
    """404: no such event, experiment, snapshot or route."""


class Conflict(ServiceError):
    """409: the request contradicts what was recorded (`differs`), or hard caps leave no action (`exhausted`)."""


class Gone(ServiceError):
    """410: the outcome came too `late`, or the event was `erased`."""


class Unavailable(ServiceError):
    """429, 502, 503, 504, or no answer at all (`unreachable`), until the client gave up: send the same event again later."""


# Statuses that may differ next time.
TRANSIENT: Final = frozenset({429, 502, 503, 504})

ERRORS_BY_STATUS: Final[dict[int, type[ServiceError]]] = {
    **dict.fromkeys((400, 408, 413, 422, 431), InvalidRequest),
    **dict.fromkeys((401, 403), NotAllowed),
    404: NotFound,
    409: Conflict,
    410: Gone,
    **dict.fromkeys(TRANSIENT, Unavailable),
}


def refusal(status: int, content: bytes, event_id: str | None = None) -> ServiceError:
    """The error for an answer other than 200."""
    try:
        error = json.loads(content)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, TypeError, KeyError):
        code, message = "unexpected", f"this is not an answer from the service: {content[:200]!r}"
    return ERRORS_BY_STATUS.get(status, ServiceError)(status, code, message, event_id)
