"""The API in words for programs (OpenAPI 3.1) and for people (a page without scripts or outside hosts)."""

from __future__ import annotations

import html
import json
from typing import Any, Final

import msgspec

import tightrope
from tightrope.service.bodies import (
    DecisionRequest,
    ModeRequest,
    OutcomeRequest,
    RollbackRequest,
    SnapshotRequest,
)

__all__ = ["document", "page"]

_REFUSALS: Final = {
    400: "Not JSON (the message names the byte), or several experiments and none named.",
    401: "No known key.",
    403: "The key does not open this.",
    404: "No such event, experiment, snapshot or route.",
    408: "The body came too slowly.",
    409: "At odds with what was recorded for this event; or hard caps leave nothing to choose (`exhausted`).",
    410: "The outcome came after its decision had expired. It is counted as late.",
    413: "The body is too long.",
    422: "A field is not what it must be; the message names it.",
    503: "Not now: overloaded, paused, standing by, or the journal can't be written. Retry with the same event_id.",
}


def document(*, keys: bool = True) -> dict[str, Any]:
    """The OpenAPI document.

    >>> sorted(document()["paths"])[:3]
    ['/docs', '/healthz', '/metrics']
    """
    bodies = (DecisionRequest, OutcomeRequest, ModeRequest, SnapshotRequest, RollbackRequest)
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    for schema in schemas.values():
        # The attributes' section of a docstring is for Python's readers.
        schema["description"] = schema.get("description", "").partition("\n\nAttributes")[0]
    paths: dict[str, Any] = {}
    for method, path, scope, summary, body, answer, refusals in _ROUTES:
        paths.setdefault(path, {})[method] = _operation(path, scope, summary, body, answer, refusals, keys)
    components: dict[str, Any] = {"schemas": {**schemas, **_SCHEMAS}}
    if keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tightrope",
            "version": tightrope.__version__,
            "description": "Decisions under rules that hold at all times. A 200 means that what it says is on disk.",
        },
        "paths": paths,
        "components": components,
    }


def page(api: dict[str, Any]) -> str:
    """The document as HTML."""
    parts = []
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            rows = "".join(
                f"<tr><td>{code}</td><td>{html.escape(one['description'])}</td></tr>"
                for code, one in operation["responses"].items()
            )
            fields = "".join(
                f"<li><code>{html.escape(one['name'])}</code> ({one['in']}): {html.escape(one['description'])}</li>"
                for one in operation.get("parameters", ())
            )
            body = operation.get("requestBody")
            if body:
                name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                fields += f'<li>body: <a href="#{name}">{name}</a></li>'
            parts.append(
                f"<section><h2><b>{method.upper()}</b> <code>{html.escape(path)}</code></h2>"
                f"<p>{html.escape(operation['summary'])}</p><ul>{fields}</ul>"
                f"<table><tr><th>status</th><th>meaning</th></tr>{rows}</table></section>"
            )
    for name, schema in api["components"]["schemas"].items():
        text = html.escape(json.dumps(schema, indent=2, ensure_ascii=False))
        parts.append(f'<section id="{name}"><h2>{name}</h2><pre>{text}</pre></section>')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Tightrope API</title>'
        f"<style>{_STYLE}</style></head><body><main><h1>Tightrope {html.escape(api['info']['version'])}</h1>"
        f'<p>{html.escape(api["info"]["description"])} Also as <a href="openapi.json">openapi.json</a>.</p>'
        + "".join(parts)
        + "</main></body></html>"
    )


_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#1b1f24;background:#fff}main{max-width:56rem;margin:auto;"
    "padding:1rem}section{border-top:1px solid #d0d7de;padding:.5rem 0}h2{font-size:1.1rem}pre{overflow:auto;background:#f6f8fa;"
    "padding:.75rem;font-size:.85rem}table{border-collapse:collapse}td,th{text-align:left;padding:.15rem .75rem .15rem 0;"
    "vertical-align:top}@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}pre{background:#161b22}"
    "a{color:#6cb6ff}}"
)

_NUMBER: Final = {"type": "number"}
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_SCHEMAS: Final[dict[str, Any]] = {
    "Decision": _object(
        {"event_id": _TEXT, "action": _COUNT, "name": _TEXT, "sequence": _COUNT},
        proposed={**_TEXT, "description": "In shadow mode: what the policy would have chosen."},
        explanation={
            "type": "object",
            "description": "By action the optimistic reward, the penalty by constraint and the value; queue, V and ε.",
        },
    ),
    "Outcome": _object(
        {"event_id": _TEXT, "sequence": _COUNT, "awaits": _list({"enum": ["reward", "costs"]})}
    ),
    "Error": _object({"error": _object({"code": _TEXT, "message": _TEXT})}),
    "Snapshot": _object(
        {"position": _COUNT, "time": _NUMBER, "digest": _TEXT, "label": {"type": ["string", "null"]}}
    ),
}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _listing(name: str, items: dict[str, Any]) -> dict[str, Any]:
    return _object({name: _list(items), "before": {"type": ["integer", "null"]}})


_ANY: Final = {"type": "object"}
_READ: Final = (400, 401, 403, 404, 503)
_LIST: Final = (*_READ, 422)
_WRITE: Final = (400, 401, 403, 404, 408, 413, 422, 503)

# method, path, scope (None: open), summary, body, schema of the answer, refusals
_ROUTES: Final[list[tuple[str, str, str | None, str, str | None, dict[str, Any] | None, tuple[int, ...]]]] = [
    (
        "post",
        "/v1/decisions",
        "decide",
        "Choose an action, once for each event_id.",
        "DecisionRequest",
        _ref("Decision"),
        (*_WRITE, 409),
    ),
    (
        "get",
        "/v1/decisions",
        "read",
        "The newest decisions, and why they were taken.",
        None,
        _listing("decisions", _ANY),
        _LIST,
    ),
    (
        "get",
        "/v1/decisions/{event_id}",
        "read",
        "One decision, its outcome so far, and why it was taken.",
        None,
        _ref("Decision"),
        _READ,
    ),
    (
        "post",
        "/v1/outcomes",
        "outcome",
        "The outcome of a decision, each part of it once.",
        "OutcomeRequest",
        _ref("Outcome"),
        (*_WRITE, 409, 410),
    ),
    (
        "get",
        "/v1/outcomes",
        "read",
        "Outcomes that came late, were rejected, are missing, or are still waited for.",
        None,
        _listing("outcomes", _ANY),
        _LIST,
    ),
    ("get", "/v1/state", "read", "Where the experiment stands.", None, _ANY, _READ),
    (
        "get",
        "/v1/history",
        "read",
        "Where it stood, at up to 240 moments since its beginning.",
        None,
        _ANY,
        _READ,
    ),
    (
        "get",
        "/v1/changes",
        "read",
        "Changes of its configuration.",
        None,
        _listing("changes", _ANY),
        _LIST,
    ),
    (
        "get",
        "/v1/snapshots",
        "read",
        "Snapshots that can be rolled back to.",
        None,
        _object({"snapshots": _list(_ref("Snapshot"))}),
        _READ,
    ),
    (
        "post",
        "/v1/snapshots",
        "admin",
        "Keep the present state under a name.",
        "SnapshotRequest",
        _ref("Snapshot"),
        _WRITE,
    ),
    (
        "post",
        "/v1/rollback",
        "admin",
        "Go back to a snapshot. Hard caps stay as they are.",
        "RollbackRequest",
        _ANY,
        (*_WRITE, 409),
    ),
    ("post", "/v1/mode", "admin", "Go live, into shadow mode, or pause.", "ModeRequest", _ANY, _WRITE),
    (
        "get",
        "/v1/experiments",
        "read",
        "The experiments that the key opens.",
        None,
        _object({"experiments": _list(_ANY)}),
        (401, 403),
    ),
    ("get", "/metrics", "read", "Numbers for Prometheus.", None, None, (401, 403)),
    ("get", "/healthz", None, "Whether the process answers.", None, _ANY, ()),
    ("get", "/readyz", None, "Whether every experiment takes decisions.", None, _ANY, (503,)),
    ("get", "/openapi.json", None, "This document.", None, _ANY, ()),
    ("get", "/docs", None, "This document for people.", None, None, ()),
]


def _operation(
    path: str,
    scope: str | None,
    summary: str,
    body: str | None,
    answer: dict[str, Any] | None,
    refusals: tuple[int, ...],
    keys: bool,
) -> dict[str, Any]:
    content = {"application/json": {"schema": answer}} if answer is not None else {"text/plain": {}}
    if path == "/docs":
        content = {"text/html": {}}
    responses: dict[str, Any] = {"200": {"description": "Done, and durable.", "content": content}}
    for code in sorted(refusals):
        schema = _ANY if path == "/readyz" else _ref("Error")
        responses[str(code)] = {
            "description": _REFUSALS[code] if path != "/readyz" else "At least one does not.",
            "content": {"application/json": {"schema": schema}},
        }
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    parameters = []
    if "{event_id}" in path:
        parameters.append(
            _parameter("event_id", "path", _TEXT, "The caller's name for the decision.", required=True)
        )
    if path.startswith("/v1/") and path != "/v1/experiments":
        parameters.append(
            _parameter("experiment", "query", _TEXT, "Its name; needed where several are served.")
        )
    if answer is not None and "before" in answer.get("properties", {}):
        limit = {"type": "integer", "minimum": 1, "maximum": 1000}
        parameters.append(_parameter("limit", "query", limit, "At most so many rows; 20 by default."))
        before = {"type": "integer", "minimum": 1, "maximum": 1 << 62}
        parameters.append(_parameter("before", "query", before, "What the page before gave as `before`."))
    if path == "/v1/outcomes" and body is None:
        which = {"enum": ["late", "rejected", "missing", "pending"]}
        parameters.append(_parameter("status", "query", which, "Which outcomes.", required=True))
    if parameters:
        operation["parameters"] = parameters
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(body)}}}
    if scope is not None and keys:
        operation["security"] = [{"key": []}]
        operation["description"] = f"Needs a key with the scope `{scope}`."
    return operation


def _parameter(
    name: str, where: str, schema: dict[str, Any], words: str, *, required: bool = False
) -> dict[str, Any]:
    return {"name": name, "in": where, "required": required, "schema": schema, "description": words}
