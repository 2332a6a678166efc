"""HTTP: which request is which operation, who may ask for it, and what happens when too many do.

`POST /v1/decisions` and `POST /v1/outcomes`, which are asked for all the time, are answered here without a framework; the rest
goes through Starlette.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tightrope.service import dashboard, openapi
from tightrope.service.bodies import (
    LIMITS,
    Limits,
    ModeRequest,
    Name,
    Refusal,
    RollbackRequest,
    SnapshotRequest,
    read_body,
    read_decision,
    read_outcome,
)
from tightrope.service.experiment import Answer, Experiment, Op
from tightrope.service.keys import Keys
from tightrope.service.keys import Scope as KeyScope
from tightrope.service.metrics import Labels, Metrics
from tightrope.service.writer import Writer

__all__ = ["Service"]

_BODY_SECONDS: Final = 20.0
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

Body = TypeVar("Body", bound=msgspec.Struct)


class Service:
    """Some experiments behind HTTP: an ASGI application, whose lifespan starts and stops their writers.

    Parameters
    ----------
    experiments : list of Experiment
        Open already. Their names differ.
    keys : Keys, optional
        Without, everyone who reaches the port may do everything; requests that come by way of a browser's page are refused.
    limits : Limits
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
        self._hot: dict[tuple[str, str], tuple[KeyScope, Callable[[Experiment, bytes], Op]]] = {
            ("POST", "/v1/decisions"): ("decide", lambda one, body: one.decide(read_decision(body, limits))),
            ("POST", "/v1/outcomes"): ("outcome", lambda one, body: one.learn(read_outcome(body, limits))),
        }
        self._starlette: ASGIApp = Starlette(
            routes=self._routes(),
            lifespan=self._lifespan,
            exception_handlers={Refusal: _refused, HTTPException: _http_error, Exception: _broken},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan."""
        if scope["type"] != "http":
            await self._starlette(scope, receive, send)
            return
        if self._in_flight >= self._max_in_flight:
            busy = Refusal(503, "overloaded", "too many requests are under way")
            self.metrics.count("requests", {"route": "any", "status": "503"})
            await _send(send, Answer(503, busy.body(), 1))
            return
        self._in_flight += 1
        try:
            hot = self._hot.get((scope["method"], scope["path"]))
            if hot is None:
                await self._cold(scope, receive, send)
            else:
                await _send(send, await self._answer(scope, receive, *hot))
        finally:
            self._in_flight -= 1

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        needed: KeyScope,
        operation: Callable[[Experiment, bytes], Op],
    ) -> Answer:
        try:
            writer = self._admit(scope, needed)
            body = await _read(receive, self._limits.body_bytes)
            answer = await writer.submit(operation(writer.experiment, body))
        except Refusal as refusal:
            answer = Answer(refusal.status, refusal.body(), refusal.retry_after)
        self.metrics.count("requests", {"route": scope["path"], "status": str(answer.status)})
        return answer

    async def _cold(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            path = route.path if isinstance(route, Route) else "other"
            self.metrics.count("requests", {"route": path, "status": str(status)})

    # Who may ask, and for what

    def _admit(self, scope: Scope, needed: KeyScope) -> Writer:
        """The writer of the experiment that is asked for, if the bearer may."""
        query = scope["query_string"]
        name = self._only
        if query:
            asked = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("experiment")
            if asked:
                name = asked[-1]
        headers = scope["headers"]
        if self._keys is not None:
            self._keys.require(_header(headers, b"authorization"), needed, name or "")
        else:
            _require_no_browser(headers)
        if name is None:
            raise Refusal(
                400, "experiment", "several experiments are served here: say which by ?experiment=NAME"
            )
        writer = self._writers.get(name)
        if writer is None:
            raise Refusal(404, "unknown", f"no experiment is named {name!r}")
        return writer

    def _readable(self, scope: Scope) -> list[Experiment]:
        """The experiments that the bearer may read."""
        if self._keys is None:
            _require_no_browser(scope["headers"])
            return list(self.experiments.values())
        key = self._keys.find(_header(scope["headers"], b"authorization"))
        found = [one for name, one in self.experiments.items() if key.opens("read", name)]
        if not found:
            raise Refusal(403, "forbidden", "this key does not open 'read' of any experiment")
        return found

    # The routes beside the hot ones

    def _routes(self) -> list[Route]:
        def get(path: str, make: Callable[[Experiment, Request], Op]) -> Route:
            async def answer(request: Request) -> Response:
                writer = self._admit(request.scope, "read")
                return _response(await writer.submit(make(writer.experiment, request)))

            return Route(path, answer, methods=["GET"])

        def post(path: str, kind: type[Body], make: Callable[[Experiment, Body], Op]) -> Route:
            async def answer(request: Request) -> Response:
                writer = self._admit(request.scope, "admin")
                body = await _read(request.receive, self._limits.body_bytes)
                return _response(
                    await writer.submit(make(writer.experiment, read_body(body, kind, self._limits)))
                )

            return Route(path, answer, methods=["POST"])

        return [
            get("/v1/decisions", lambda one, request: one.decisions(*_page(request))),
            get("/v1/decisions/{event_id:path}", lambda one, request: one.decision(_event_id(request))),
            get("/v1/outcomes", lambda one, request: one.outcomes(_which(request), *_page(request))),
            get("/v1/state", lambda one, request: one.state()),
            get("/v1/history", lambda one, request: one.history()),
            get("/v1/changes", lambda one, request: one.changes(*_page(request))),
            get("/v1/snapshots", lambda one, request: one.snapshots()),
            post("/v1/snapshots", SnapshotRequest, lambda one, body: one.take_snapshot(body)),
            post("/v1/rollback", RollbackRequest, lambda one, body: one.roll_back(body)),
            post("/v1/mode", ModeRequest, lambda one, body: one.change_mode(body)),
            Route("/v1/experiments", self._experiments),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
            Route("/openapi.json", self._openapi),
            Route("/docs", self._docs),
            *dashboard.routes(),
        ]

    async def _experiments(self, request: Request) -> Response:
        return JSONResponse(
            {
                "experiments": [
                    {"name": one.name, "status": one.status, "actions": list(one.spec.actions)}
                    for one in self._readable(request.scope)
                ]
            }
        )

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def _readyz(self, request: Request) -> Response:
        counts: dict[str, int] = {}
        for one in self.experiments.values():
            counts[one.status] = counts.get(one.status, 0) + 1
        ready = counts == {"ready": len(self.experiments)}
        return JSONResponse({"ready": ready, "experiments": counts}, status_code=200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        shown = self._readable(request.scope)
        gauges: list[tuple[str, str, Labels, float]] = [
            ("in_flight", "Requests under way.", {}, float(self._in_flight))
        ]
        for one in shown:
            answer = await self._writers[one.name].submit(one.state())
            up = answer.status == 200
            gauges.append(
                ("ready", "Whether the experiment takes decisions.", {"experiment": one.name}, float(up))
            )
            if up:
                gauges += _gauges(one.name, msgspec.json.decode(answer.body))
        text = self.metrics.text(gauges, frozenset(one.name for one in shown))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(openapi.document(keys=self._keys is not None))

    async def _docs(self, request: Request) -> Response:
        return HTMLResponse(
            openapi.page(openapi.document(keys=self._keys is not None)),
            headers={"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"},
        )

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


def _header(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def _require_no_browser(headers: list[tuple[bytes, bytes]]) -> None:
    """Without keys, what protects a service on loopback from any page that its user visits."""
    host = _header(headers, b"host") or ""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name not in _LOOPBACK:
        raise Refusal(403, "forbidden", "without keys only requests to localhost are answered")
    origin = _header(headers, b"origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise Refusal(403, "forbidden", "without keys no other page may send requests")


def _page(request: Request) -> tuple[int | None, int]:
    """Which rows of a list: before a position, and at most how many."""
    return _whole(request, "before", 1 << 62), _whole(request, "limit", 1000) or 20


def _whole(request: Request, name: str, most: int) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) <= most):
        raise Refusal(422, "invalid", f"{name} must be a whole number from 1 to {most}, but got {text!r}")
    return int(text)


def _which(request: Request) -> Any:
    allowed = ("late", "rejected", "missing", "pending")
    which = request.query_params.get("status")
    if which not in allowed:
        raise Refusal(422, "invalid", f"status must be one of {', '.join(allowed)}, but got {which!r}")
    return which


def _event_id(request: Request) -> str:
    try:
        event_id: str = msgspec.convert(request.path_params["event_id"], Name)
        event_id.encode()
    except (msgspec.ValidationError, UnicodeEncodeError):
        raise Refusal(404, "unknown", "no decision can have such an event_id") from None
    return event_id


# --- answers ---


async def _send(send: Send, answer: Answer) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(answer.body)).encode()),
    ]
    if answer.retry_after is not None:
        headers.append((b"retry-after", str(answer.retry_after).encode()))
    if answer.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _response(answer: Answer) -> Response:
    headers = {} if answer.retry_after is None else {"retry-after": str(answer.retry_after)}
    if answer.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(answer.body, answer.status, headers, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _response(Answer(error.status, error.body(), error.retry_after))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = Refusal(error.status_code, "not-found" if error.status_code == 404 else "http", error.detail)
    response = _response(Answer(refusal.status, refusal.body()))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def _broken(request: Request, error: Exception) -> Response:
    return _response(Answer(500, Refusal(500, "internal", "an error inside the service").body()))


def _gauges(experiment: str, state: Mapping[str, Any]) -> list[tuple[str, str, Labels, float]]:
    label = {"experiment": experiment}
    outcomes = state["outcomes"]
    found: list[tuple[str, str, Labels, float]] = [
        ("journal_position", "Entries in the journal.", label, float(state["position"])),
        ("pending", "Decisions whose outcome is waited for.", label, float(outcomes["pending"])),
        ("reward_sum", "Sum of the rewards.", label, (outcomes["mean_reward"] or 0.0) * outcomes["rewards"]),
    ]
    for action in state["actions"]:
        labels = {**label, "action": action["name"]}
        found.append(("decisions_total", "Decisions by action.", labels, float(action["decisions"])))
    for kind in ("rewards", "complete", "missing", "late", "rejected"):
        found.append(("outcomes_total", "Outcomes by kind.", {**label, "kind": kind}, float(outcomes[kind])))
    for column in state["constraints"]:
        labels = {**label, "constraint": column["name"]}
        found.append(
            (
                "cumulative_cost",
                "Sum of the costs: a rule holds at or below 0.",
                labels,
                column["cumulative_cost"],
            )
        )
        found.append(("queue", "The dual variable of a rule.", labels, column["queue"]))
    for cap in state["hard_caps"]:
        labels = {**label, "cap": cap["name"]}
        found.append(("hard_cap_used", "Used or reserved of a hard cap.", labels, cap["used"]))
        found.append(("hard_cap_total", "What a hard cap allows in all.", labels, cap["total"]))
    return found
