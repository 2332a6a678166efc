"""What a route is: which request calls which function, who may call it, what it answers. The table itself is `app.ROUTES`.

The table defines the application and its documentation: for programs (OpenAPI 3.1) and for people (a page without scripts or
outside hosts).
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, get_type_hints

import msgspec

from tightrope import templates
from tightrope.service.http.keys import Scope
from tightrope.spec import Spec
from tightrope.version import __version__
from tightrope_client import responses


@dataclass(frozen=True)
class Route:
    """A row of the table."""

    method: Literal["GET", "POST"]
    path: str
    # The scope that a key must have; None: anyone may ask.
    scope: Scope | None
    # An operation on an experiment, or a method of `Service` about all of them. Its docstring's first line is the summary.
    handler: Callable[..., Any]
    # The type of the JSON answer, one of `responses`; or the media type of something else.
    answer: type[Any] | str = dict
    # Error statuses, which mean the same for all routes.
    refusals: tuple[int, ...] = ()
    # Other statuses with the answer's schema, and what they mean.
    otherwise: Mapping[int, str] = field(default_factory=dict)
    # Whether it is read on its own connection, without waiting for the writer.
    apart: bool = False
    # The operation on each item of a batch; `handler` then makes one answer of all of theirs.
    each: Callable[..., Any] | None = None

    @property
    def of_service(self) -> bool:
        """Whether it is about all experiments: such methods are asynchronous."""
        return inspect.iscoroutinefunction(self.handler)

    @cached_property
    def request(self) -> Any:
        """The type of its operation's request: for a POST that of the body, for a GET that of path and query; or None."""
        given = None if self.of_service else get_type_hints(self.handler)["request"]
        return None if given is type(None) else given


def document(routes: Sequence[Route], specs: Sequence[Spec] = (), *, keys: bool = True) -> dict[str, Any]:
    """The OpenAPI document of a table of routes, with the `context` schemas of some experiments."""
    bodies = [route.request for route in routes if route.method == "POST" and route.request is not None]
    sent_back = [route.answer for route in routes if not isinstance(route.answer, str)]
    _, schemas = msgspec.json.schema_components(
        [*bodies, *sent_back, responses.Error], ref_template=_ref("{name}")["$ref"]
    )
    for name, schema in schemas.items():
        _describe(schema)
        if hasattr(responses, name):
            _limit(schema)
        if name in EXAMPLES:
            schema["examples"] = [EXAMPLES[name]]
    encoders = [(spec.name, spec.encoder) for spec in specs if spec.encoder is not None]
    if encoders:
        known = [{"title": f"context of {name}", **encoder.schema()} for name, encoder in encoders]
        sent = schemas["DecisionRequest"]["properties"]["context"]
        sent |= {"anyOf": [*known, {"type": "null"}], "default": None}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, keys)
    words = "Decisions under rules that hold over time. A 200 means that its effects are on disk."
    needed = "A key from `tightrope keys create`. A service on loopback may need none."
    security = {"key": {"type": "http", "scheme": "bearer", "description": needed}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tightrope", "version": __version__, "description": words},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": security},
    }


def page(api: dict[str, Any]) -> str:
    schemas = {
        name: json.dumps(schema, indent=2, ensure_ascii=False)
        for name, schema in api["components"]["schemas"].items()
    }
    title = "Tightrope API"
    return templates.render("tightrope.service.http/api.html", title=title, api=api, schemas=schemas)


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _describe(schema: dict[str, Any]) -> None:
    r"""The descriptions in a docstring: of the class, and of each field in its list.

    >>> schema = {"description": "A bed.\n\n- ward, room: Where.", "properties": {"room": {}}}
    >>> _describe(schema)
    >>> schema
    {'description': 'A bed.', 'properties': {'room': {'description': 'Where.'}}}
    """
    whole, *listed = re.split(r"\n+- ", inspect.cleandoc(schema.get("description", "")))
    schema["description"] = " ".join(whole.split())
    for one in listed:
        names, _, words = one.partition(": ")
        for name in names.split(", "):
            if name in schema["properties"]:
                schema["properties"][name]["description"] = " ".join(words.split())


def _limit(schema: Any, name: str = "") -> None:
    """Add what Python's types don't say: whole numbers are at least 0, probabilities at most 1, a `request` is one that was sent.

    >>> schema = {"properties": {"share": {"type": "number"}, "before": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    >>> _limit(schema)
    >>> schema["properties"]["share"], schema["properties"]["before"]["anyOf"][0]
    ({'type': 'number', 'minimum': 0.0, 'maximum': 1.0}, {'type': 'integer', 'minimum': 0})
    """
    if isinstance(schema, list):
        for one in schema:
            _limit(one, name)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind == "integer":
            schema["minimum"] = 0
        elif kind == "number" and name in ("probability", "share"):
            schema |= {"minimum": 0.0, "maximum": 1.0}
        elif kind == "object" and name == "request":
            schema |= _ref("DecisionRequest")
        for key, one in schema.items():
            _limit(one, name if key == "anyOf" else key)


def _operation(route: Route, keys: bool) -> dict[str, Any]:
    if isinstance(route.answer, str):
        content: dict[str, Any] = {route.answer: {"schema": _TEXT}}
    else:
        content = _json({"type": "object"} if route.answer is dict else _ref(route.answer.__name__))
    responses: dict[str, Any] = {"200": {"description": "Done and durable.", "content": content}}
    for code, words in route.otherwise.items():
        responses[str(code)] = {"description": words, "content": content}
    for code in sorted(route.refusals):
        responses[str(code)] = {"description": _WORDS["refusals"][str(code)], "content": _json(_ref("Error"))}
        if code in (429, 503):
            responses[str(code)]["headers"] = {"Retry-After": {"description": _RETRY, "schema": _COUNT}}
    summary = (route.handler.__doc__ or "").partition("\n")[0]
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "tags": [route.scope or "open"],
        "summary": summary,
        "responses": responses,
    }
    if not route.of_service:
        operation["parameters"] = _parameters(route)
    if route.method == "POST" and route.request is not None:
        operation["requestBody"] = {"required": True, "content": _json(_ref(route.request.__name__))}
    if route.scope is not None:
        operation["security"] = [{"key": []}] if keys else [{}, {"key": []}]
        operation["description"] = f"Needs a key with the scope `{route.scope}`."
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    """The parameters of path and query: those in the path first, then the experiment."""
    named: dict[str, dict[str, Any]] = {
        "experiment": {**_TEXT, "description": "Its name; required if several are served."}
    }
    required: list[str] = []
    if route.method == "GET" and route.request is not None:
        [schema] = msgspec.json.schema_components([route.request])[1].values()
        named, required = named | schema["properties"], schema.get("required", [])
    listed = []
    for name, given in named.items():
        # A missing parameter is not null.
        one = {key: value for key, value in given.get("anyOf", [given])[0].items() if key != "default"}
        where = "path" if f"{{{name}}}" in route.path else "query"
        words = one.pop("description")
        listed.append(
            {"name": name, "in": where, "required": name in required, "schema": one, "description": words}
        )
    return sorted(listed, key=lambda one: str(one["in"]))


_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_RETRY: Final = "After how many seconds the same request may be sent again."
_WORDS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
EXAMPLES: Final[dict[str, Any]] = _WORDS["examples"]
