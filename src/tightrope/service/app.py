"""HTTP: which request is which operation, who may ask for it, and what happens when too many do.

All routes are in the table `ROUTES`. `POST /v1/decisions` and `POST /v1/outcomes`, which are asked for all the time, are answered
without a framework; the rest goes through Starlette.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette import routing
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tightrope.service import dashboard, operations, routes
from tightrope.service.bodies import LIMITS, Answer, Limits, Refusal, read_body
from tightrope.service.experiment import Experiment, Op, Writer
from tightrope.service.keys import Keys
from tightrope.service.metrics import Gauge, Metrics, gauges_of
from tightrope.service.routes import ANY, DECISION, OUTCOME, SNAPSHOT, Route, listing

_BODY_SECONDS: Final = 20.0
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Service:
    """Some experiments behind HTTP: an ASGI application, whose lifespan starts and stops their writers.

    Parameters
    ----------
    experiments : list of Experiment
        Open already. Their names differ.
    keys : Keys, optional
        Without, everyone who reaches the port may do everything; requests that come by way of a browser's page are refused.
    max_in_flight : int
        Requests that may be under way at once. One more is answered 503 before its body is read, which bounds the memory.
    """

    def __init__(
        self,
        experiments: list[Experiment],
        *,
        keys: Keys | None = None,
        limits: Limits = LIMITS,
        max_in_flight: int = 512,
    ) -> None:
        self.experiments = {experiment.name: experiment for experiment in experiments}
        self.metrics = Metrics()
        self._writers = {name: Writer(one, self.metrics) for name, one in self.experiments.items()}
        self._only = experiments[0].name if len(experiments) == 1 else None
        self._keys = keys
        self._limits = limits
        self._max_in_flight = max_in_flight
        self._in_flight = 0
        self._hot = {(one.method, one.path): one for one in ROUTES if one.scope in ("decide", "outcome")}
        others = [one for one in ROUTES if one not in self._hot.values()]
        self._starlette: ASGIApp = Starlette(
            routes=[*map(self._behind_starlette, others), *dashboard.routes()],
            lifespan=self._lifespan,
            exception_handlers={Refusal: _refused, HTTPException: _http_error, Exception: _broken},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan."""
        if scope["type"] != "http":
            await self._starlette(scope, receive, send)
            return
        if self._in_flight >= self._max_in_flight:
            busy = Refusal(503, "overloaded", "too many requests are under way", retry_after=1)
            self.metrics.count("requests", {"route": "any", "status": "503"})
            await _send(send, busy.answer())
            return
        self._in_flight += 1
        try:
            route = self._hot.get((scope["method"], scope["path"]))
            if route is None:
                await self._counted(scope, receive, send)
            else:
                answer = await self._answer(route, scope, receive)
                self.metrics.count("requests", {"route": route.path, "status": str(answer.status)})
                await _send(send, answer)
        finally:
            self._in_flight -= 1

    async def _answer(self, route: Route, scope: Scope, receive: Receive) -> Answer:
        """What an experiment answers: only when what it says is durable."""
        text = scope["query_string"].decode("latin-1")
        query = dict(parse_qsl(text, keep_blank_values=True)) if text else {}
        try:
            writer = self._admitted(route, scope, query.get("experiment", self._only))
            if route.method == "POST" and route.request is not None:
                body = await _read(receive, self._limits.body_bytes)
                op = Op(route.handler, read_body(body, route.request, self._limits))
            else:
                op = Op(route.handler, route.query({**query, **scope["path_params"]}))
            return await writer.submit(op)
        except Refusal as refusal:
            return refusal.answer()

    # Who may ask, and for what

    def _admitted(self, route: Route, scope: Scope, name: str | None) -> Writer:
        """The writer of the experiment that is asked for, if the bearer may."""
        if self._keys is not None:
            assert route.scope is not None
            self._keys.require(_header(scope, b"authorization"), route.scope, name or "")
        else:
            _require_no_browser(scope)
        if name is None:
            words = "several experiments are served here: say which by ?experiment=NAME"
            raise Refusal(400, "experiment", words)
        writer = self._writers.get(name)
        if writer is None:
            raise Refusal(404, "unknown", f"no experiment is named {name!r}")
        return writer

    def _readable(self, scope: Scope) -> list[Experiment]:
        """The experiments that the bearer may read."""
        if self._keys is None:
            _require_no_browser(scope)
            return list(self.experiments.values())
        key = self._keys.find(_header(scope, b"authorization"))
        found = [one for name, one in self.experiments.items() if key.opens("read", name)]
        if not found:
            raise Refusal(403, "forbidden", "this key does not open 'read' of any experiment")
        return found

    # The service as a whole: the summary in the document is the docstring

    async def list_experiments(self, request: Request) -> Response:
        """The experiments that the key opens."""
        shown = [
            {"name": one.name, "status": one.status, "actions": list(one.spec.actions)}
            for one in self._readable(request.scope)
        ]
        return JSONResponse({"experiments": shown})

    async def show_health(self, request: Request) -> Response:
        """Whether the process answers."""
        return JSONResponse({"status": "alive"})

    async def show_readiness(self, request: Request) -> Response:
        """Whether every experiment takes decisions."""
        counts = Counter(one.status for one in self.experiments.values())
        ready = counts == {"ready": len(self.experiments)}
        return JSONResponse({"ready": ready, "experiments": counts}, status_code=200 if ready else 503)

    async def show_metrics(self, request: Request) -> Response:
        """Numbers for Prometheus."""
        shown = self._readable(request.scope)
        gauges: list[Gauge] = [("in_flight", "Requests under way.", {}, float(self._in_flight))]
        for one in shown:
            answer = await self._writers[one.name].submit(Op(operations.show_state))
            up = answer.status == 200
            label, words = {"experiment": one.name}, "Whether the experiment takes decisions."
            gauges.append(("ready", words, label, float(up)))
            if up:
                gauges += gauges_of(one.name, msgspec.json.decode(answer.body))
        text = self.metrics.text(gauges, frozenset(one.name for one in shown))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def show_openapi(self, request: Request) -> Response:
        """This document."""  # noqa: D404
        return JSONResponse(routes.document(ROUTES, keys=self._keys is not None))

    async def show_docs(self, request: Request) -> Response:
        """This document for people."""  # noqa: D404
        safety = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return HTMLResponse(routes.page(routes.document(ROUTES, keys=self._keys is not None)), headers=safety)

    # Starlette

    def _behind_starlette(self, route: Route) -> routing.Route:
        async def respond(request: Request) -> Response:
            if route.of == "service":
                page: Awaitable[Response] = route.handler(self, request)
                return await page
            return _response(await self._answer(route, request.scope, request.receive))

        # An event id may hold slashes.
        path = route.path.replace("{event_id}", "{event_id:path}")
        return routing.Route(path, respond, methods=[route.method])

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 500

        async def note(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._starlette(scope, receive, note)
        finally:
            route = scope.get("route")
            path = route.path if isinstance(route, routing.Route) else "other"
            self.metrics.count("requests", {"route": path, "status": str(status)})

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        for writer in self._writers.values():
            writer.start(loop)
        try:
            yield
        finally:
            for writer in self._writers.values():
                await loop.run_in_executor(None, writer.stop)


_KEY: Final = (401, 403)
_READ: Final = (*_KEY, 400, 404, 503)
_LIST: Final = (*_READ, 422)
_WRITE: Final = (*_LIST, 408, 413)
_NOT_READY: Final = {503: "At least one does not."}
_SNAPSHOTS: Final = listing("snapshots", SNAPSHOT, paged=False)
_EXPERIMENTS: Final = listing("experiments", paged=False)

# method, path, who may ask (the key's scope), what is called, what it answers, how it may refuse
ROUTES: Final = (
    Route("POST", "/v1/decisions", "decide", operations.decide, DECISION, (*_WRITE, 409)),
    Route("GET", "/v1/decisions", "read", operations.list_decisions, listing("decisions"), _LIST),
    Route("GET", "/v1/decisions/{event_id}", "read", operations.show_decision, DECISION, _READ),
    Route("POST", "/v1/outcomes", "outcome", operations.learn, OUTCOME, (*_WRITE, 409, 410)),
    Route("GET", "/v1/outcomes", "read", operations.list_outcomes, listing("outcomes"), _LIST),
    Route("GET", "/v1/state", "read", operations.show_state, ANY, _READ),
    Route("GET", "/v1/history", "read", operations.show_history, ANY, _READ),
    Route("GET", "/v1/changes", "read", operations.list_changes, listing("changes"), _LIST),
    Route("GET", "/v1/snapshots", "read", operations.list_snapshots, _SNAPSHOTS, _READ),
    Route("POST", "/v1/snapshots", "admin", operations.take_snapshot, SNAPSHOT, _WRITE),
    Route("POST", "/v1/rollback", "admin", operations.roll_back, ANY, (*_WRITE, 409)),
    Route("POST", "/v1/mode", "admin", operations.change_mode, ANY, _WRITE),
    Route("POST", "/v1/erasures", "admin", operations.erase, ANY, _WRITE),
    Route("GET", "/v1/experiments", "read", Service.list_experiments, _EXPERIMENTS, _KEY, of="service"),
    Route("GET", "/metrics", "read", Service.show_metrics, "text/plain", _KEY, of="service"),
    Route("GET", "/healthz", None, Service.show_health, of="service"),
    Route("GET", "/readyz", None, Service.show_readiness, otherwise=_NOT_READY, of="service"),
    Route("GET", "/openapi.json", None, Service.show_openapi, of="service"),
    Route("GET", "/docs", None, Service.show_docs, "text/html", of="service"),
)


# --- requests ---


async def _read(receive: Receive, limit: int) -> bytes:
    """The body, refused as soon as it is too long or too slow."""
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "disconnected", "the caller left before the body had come")
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
                size += len(parts[-1])
                if size > limit:
                    raise Refusal(413, "too-large", f"the body must have at most {limit} bytes")
    except TimeoutError:
        raise Refusal(408, "slow", f"the body did not come within {_BODY_SECONDS:g} s") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _header(scope: Scope, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


def _require_no_browser(scope: Scope) -> None:
    """Without keys, what protects a service on loopback from any page that its user visits."""
    host = _header(scope, b"host") or ""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name not in _LOOPBACK:
        raise Refusal(403, "forbidden", "without keys only requests to localhost are answered")
    origin = _header(scope, b"origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise Refusal(403, "forbidden", "without keys no other page may send requests")


# --- answers ---


def _headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    length = str(len(answer.body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    if answer.retry_after is not None:
        headers.append((b"retry-after", str(answer.retry_after).encode()))
    if answer.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers


async def _send(send: Send, answer: Answer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": _headers(answer)})
    await send({"type": "http.response.body", "body": answer.body})


def _response(answer: Answer) -> Response:
    response = Response(answer.body, answer.status)
    response.raw_headers = _headers(answer)
    return response


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _response(error.answer())


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = "not-found" if error.status_code == 404 else "http"
    response = _response(Refusal(error.status_code, code, error.detail).answer())
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def _broken(request: Request, error: Exception) -> Response:
    return _response(Refusal(500, "internal", "an error inside the service").answer())
