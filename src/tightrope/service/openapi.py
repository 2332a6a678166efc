"""The API in words for programs (OpenAPI 3.1) and for people (a page without scripts or outside hosts)."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

import tightrope
from tightrope.service.routes import PARAMETERS, SCHEMAS, Route, ref

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


def document(routes: Sequence[Route], *, keys: bool = True) -> dict[str, Any]:
    """The OpenAPI document of a table of routes.

    >>> from tightrope.service.app import ROUTES
    >>> sorted(document(ROUTES)["paths"])[:3]
    ['/docs', '/healthz', '/metrics']
    """
    bodies = [route.request for route in routes if route.method == "POST" and route.request is not None]
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    for schema in schemas.values():
        # The attributes' section of a docstring is for Python's readers.
        schema["description"] = schema.get("description", "").partition("\n\nAttributes")[0]
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, keys)
    components: dict[str, Any] = {"schemas": {**schemas, **SCHEMAS}}
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


def _operation(route: Route, keys: bool) -> dict[str, Any]:
    content = {route.answer: {}} if isinstance(route.answer, str) else _json(route.answer)
    responses = {"200": {"description": "Done, and durable.", "content": content}}
    for code, words in route.otherwise.items():
        responses[str(code)] = {"description": words, "content": content}
    for code in sorted(route.refusals):
        responses[str(code)] = {"description": _REFUSALS[code], "content": _json(ref("Error"))}
    summary = (route.handler.__doc__ or "").partition("\n")[0]
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    if route.of == "experiment":
        # What is in the path first, then the experiment.
        named = sorted(["experiment", *route.parameters], key=lambda name: PARAMETERS[name].where)
        operation["parameters"] = [{"name": name, **PARAMETERS[name].document()} for name in named]
    if route.method == "POST" and route.request is not None:
        operation["requestBody"] = {"required": True, "content": _json(ref(route.request.__name__))}
    if route.scope is not None and keys:
        operation["security"] = [{"key": []}]
        operation["description"] = f"Needs a key with the scope `{route.scope}`."
    return operation


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
