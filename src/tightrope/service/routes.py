"""What a route is: which request calls what, who may ask, what is answered. The table itself is `app.ROUTES`.

Both the application and the OpenAPI document are made from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from tightrope.service.bodies import Name, Refusal
from tightrope.service.keys import Scope

__all__ = [
    "ANY",
    "DECISION",
    "OUTCOME",
    "PARAMETERS",
    "SCHEMAS",
    "SNAPSHOT",
    "Parameter",
    "Route",
    "listing",
    "ref",
]

ANY: Final = {"type": "object"}


class Route(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    method, path : str
    scope : "decide", "outcome", "read", "admin" or None
        What a key must open; None: anyone may ask.
    handler : callable
        An operation on an experiment, or a method of `Service` about all of them. Its docstring's first line is the summary.
    request : type, optional
        With POST what the body is read as; with GET what path and query are, its fields being among `PARAMETERS`.
    answer : dict or str
        Schema of the JSON that comes back, or the media type of something else.
    refusals : tuple of int
        Statuses, whose meaning is the same for all routes.
    otherwise : dict
        Other statuses that come with the answer's schema, and what they mean.
    of : "experiment" or "service"
    """

    method: Literal["GET", "POST"]
    path: str
    scope: Scope | None
    handler: Callable[..., Any]
    request: type[Any] | None = None
    answer: Mapping[str, Any] | str = ANY
    refusals: tuple[int, ...] = ()
    otherwise: Mapping[int, str] = {}
    of: Literal["experiment", "service"] = "experiment"

    @property
    def parameters(self) -> tuple[str, ...]:
        """What path and query may hold, beside the experiment's name."""
        return self.request.__struct_fields__ if self.method == "GET" and self.request else ()

    def query(self, given: Mapping[str, str]) -> Any:
        """The request of a GET, from the texts in its path and query."""
        values = {
            name: PARAMETERS[name].read(name, given.get(name))
            for name in self.parameters
            if PARAMETERS[name].required or name in given
        }
        return None if self.request is None else self.request(**values)


class Parameter(NamedTuple):
    """A part of a path or a query: its schema, what it means, and how its text is read."""

    schema: dict[str, Any]
    words: str
    read: Callable[[str, str | None], Any]
    where: Literal["path", "query"] = "query"
    required: bool = False

    def document(self) -> dict[str, Any]:
        """In OpenAPI's words."""
        place = {"in": self.where, "required": self.required}
        return {**place, "schema": self.schema, "description": self.words}


def _whole(name: str, text: str | None) -> int:
    most = PARAMETERS[name].schema["maximum"]
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) <= most):
        raise Refusal(422, "invalid", f"{name} must be a whole number from 1 to {most}, but got {text!r}")
    return int(text)


def _choice(name: str, text: str | None) -> str | None:
    allowed = PARAMETERS[name].schema["enum"]
    if text not in allowed:
        raise Refusal(422, "invalid", f"{name} must be one of {', '.join(allowed)}, but got {text!r}")
    return text


def _event_id(name: str, text: str | None) -> str:
    try:
        event_id: str = msgspec.convert(text, Name)
        event_id.encode()
    except (msgspec.ValidationError, UnicodeEncodeError):
        raise Refusal(404, "unknown", "no decision can have such an event_id") from None
    return event_id


_NUMBER: Final = {"type": "number"}
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_LIMIT: Final = {"type": "integer", "minimum": 1, "maximum": 1000}
_POSITION: Final = {"type": "integer", "minimum": 1, "maximum": 1 << 62}
_STATUS: Final = {"enum": ["late", "rejected", "missing", "pending"]}

PARAMETERS: Final = {
    "event_id": Parameter(_TEXT, "The caller's name for the decision.", _event_id, "path", True),
    "experiment": Parameter(_TEXT, "Its name; needed where several are served.", lambda name, text: text),
    "limit": Parameter(_LIMIT, "At most so many rows; 20 by default.", _whole),
    "before": Parameter(_POSITION, "What the page before gave as `before`.", _whole),
    "status": Parameter(_STATUS, "Which outcomes.", _choice, required=True),
}


def ref(name: str) -> dict[str, Any]:
    """The schema of that name among `SCHEMAS` or the bodies."""
    return {"$ref": f"#/components/schemas/{name}"}


DECISION, OUTCOME, SNAPSHOT = ref("Decision"), ref("Outcome"), ref("Snapshot")


def listing(name: str, items: Mapping[str, Any] | None = None, *, paged: bool = True) -> dict[str, Any]:
    """The schema of a list under a name; in pages, with the position at which the next one begins."""
    found = {name: {"type": "array", "items": items or ANY}}
    return _object({**found, "before": {"type": ["integer", "null"]}} if paged else found)


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


_AWAITS: Final = {"type": "array", "items": {"enum": ["reward", "costs"]}}

SCHEMAS: Final[dict[str, Any]] = {
    "Decision": _object(
        {"event_id": _TEXT, "action": _COUNT, "name": _TEXT, "sequence": _COUNT},
        proposed={**_TEXT, "description": "In shadow mode: what the policy would have chosen."},
        explanation={
            "type": "object",
            "description": "By action the optimistic reward, the penalty by constraint and the value; queue, V and ε.",
        },
    ),
    "Outcome": _object({"event_id": _TEXT, "sequence": _COUNT, "awaits": _AWAITS}),
    "Error": _object({"error": _object({"code": _TEXT, "message": _TEXT})}),
    "Snapshot": _object(
        {"position": _COUNT, "time": _NUMBER, "digest": _TEXT, "label": {"type": ["string", "null"]}}
    ),
}
