"""HTTP: which request calls which operation, who may call it, and what happens if too many do.

All routes are in the table `ROUTES`. The frequent ones, `POST /v1/decisions` and `POST /v1/outcomes`, are answered without a
framework; the rest goes through Starlette.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, get_args
from urllib.parse import parse_qsl

import msgspec
from starlette import routing
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tightrope.service.answer import Answer, Refusal
from tightrope.service.experiment import Experiment, Op
from tightrope.service.experiment.clock import SteadyClock
from tightrope.service.experiment.experiment import ERRORS_IN_A_ROW, Status
from tightrope.service.experiment.reader_thread import Reader
from tightrope.service.experiment.writer_thread import Writer, stop_writers
from tightrope.service.http import batches, dashboard, handlers, lift, openapi, windows
from tightrope.service.http.admission import Admission, BodyBudget, Rates
from tightrope.service.http.connections import EXCHANGE, Exchange
from tightrope.service.http.keys import Key, Keys
from tightrope.service.http.openapi import Route
from tightrope.service.http.tracing import spans
from tightrope.service.metrics import Metrics, Sample, Samples
from tightrope.service.requests import LIMITS, Limits, read_body, read_items, read_query
from tightrope.spec import Spec
from tightrope_client import responses

log = logging.getLogger("tightrope.service")
requests_log = logging.getLogger("tightrope.service.requests")

_BODY_SECONDS: Final = 20.0
# How many whole bodies may be arriving at once, and in what chunks memory is reserved for each.
_UNFINISHED: Final = 64
_PIECE: Final = 64 << 10
# A body up to this size is parsed on the loop, within a few milliseconds whatever it holds; a longer one on a thread.
_SHORT: Final = 16 << 10
_SAMPLE_SECONDS: Final = 1.0
# The status labels of the metrics.
ROLES: Final = {status: status for status in get_args(Status)} | {"ready": "active", "differs": "differing"}
# Why an experiment in this status is not ready; shown to anyone, so without names.
_REASONS: Final = {
    "standby": "another process is active",
    "differs": "another process is active with a different spec or settings, or this one knows of entries that are gone",
    "failing": "a journal can't be read or written now",
    "damaged": "a check of the whole chain found that a journal was changed or is damaged; the log names the row",
    "broken": f"{ERRORS_IN_A_ROW} decisions or outcomes in a row failed with an error inside the service; see the log; "
    "the next one that succeeds ends this",
    "stuck": "a batch is overdue",
    "dead": "a worker thread died; restart the process",
    "closed": "starting or stopping",
}
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Service:
    """Some open experiments behind HTTP: an ASGI application, whose lifespan starts and stops their threads.

    - keys: Without them, everyone who reaches the port may do everything; requests from a browser's page are refused.
    - max_in_flight: How many decisions, outcomes and changes may be in progress at once; one more gets a 503. Each experiment has
      its share. Reads have an eighth as many slots of their own.
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
        self._readers = {name: Reader(one) for name, one in self.experiments.items()}
        self._only = experiments[0].name if len(experiments) == 1 else None
        self._keys = keys
        if keys is not None:
            keys.passed = self._passed
        self._limits = limits
        self._writes = Admission(self.experiments, max_in_flight)
        self._reads = Admission(self.experiments, max(8, max_in_flight // 8))
        self._rates = Rates()
        self._bodies = BodyBudget(_UNFINISHED * max(1 << 20, limits.body_bytes))
        # One thread: long bodies wait for each other, and the loop waits for none.
        self._parser = ThreadPoolExecutor(1, thread_name_prefix="bodies")
        # Each experiment's last report, and when it was made.
        self._states: dict[str, tuple[float, dict[str, Any] | None]] = {}
        self._spans = spans()
        self._hot = {(one.method, one.path): one for one in ROUTES if one.scope in ("decide", "outcome")}
        others = [one for one in ROUTES if one not in self._hot.values()]
        starlette = Starlette(
            routes=[*map(self._behind_starlette, others), *dashboard.routes()],
            lifespan=lambda _: self.lifespan(),
            exception_handlers=dict.fromkeys((Refusal, HTTPException, Exception), _failed),
        )
        # A path with an extra slash is unknown. Starlette would redirect to an address built from the query, which may not be text.
        starlette.router.redirect_slashes = False
        self._starlette: ASGIApp = starlette

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, noted: dict[str, Any] | None = None
    ) -> None:
        """One request, or the lifespan; details of a request go to its span through `noted`."""
        if scope["type"] != "http":
            await self._starlette(scope, receive, send)
            return
        if self._spans is not None and noted is None:
            with self._spans(scope) as noted:
                await self(scope, receive, send, noted)
            return
        began = time.perf_counter()
        # Removed from the scope, which it refers to: a reference cycle per request would keep the garbage collector busy.
        exchange: Exchange | None = scope.get("extensions", {}).pop(EXCHANGE, None)
        route = self._hot.get((scope["method"], scope["path"]))
        path, status = "other", 500
        try:
            if route is not None:
                path = route.path
                whole = None if exchange is None else exchange.body()
                answer = await self._answer(route, scope, receive, whole)
                status = answer.status
            else:
                path, status = await self._counted(scope, receive, send)
        finally:
            seconds = time.perf_counter() - began
            # A refused request says nothing about an experiment.
            self.metrics.answered(scope.get("experiment", ""), path, status, seconds)
            if noted is not None or requests_log.isEnabledFor(logging.DEBUG):
                _tell(scope, path, status, seconds, noted)
        if route is not None:
            await _send(exchange, send, answer)

    async def _answer(
        self, route: Route, scope: Scope, receive: Receive, whole: bytes | None = None
    ) -> Answer:
        """An experiment's answer, once its effects are durable. `whole` is the body, if all of it has arrived."""
        text = scope["query_string"].decode("latin-1")
        query = dict(parse_qsl(text, keep_blank_values=True)) if text else {}
        by: str | None = None
        try:
            key = self._bearer(scope["headers"])
            by = scope["key"] = None if key is None else key.id
            name = scope["experiment"] = self._admitted(route, key, query.get("experiment", self._only))
            if route.each is not None:
                return await self._batch(route, scope, receive, whole, key, name)
            if route.method == "POST" and route.request is not None:
                body = await self._body(receive, by) if whole is None else whole
                if len(body) <= _SHORT:
                    op = Op(route.handler, read_body(body, route.request, self._limits), by)
                else:
                    read = functools.partial(read_body, body, route.request, self._limits)
                    loop = asyncio.get_running_loop()
                    op = Op(route.handler, await loop.run_in_executor(self._parser, read), by)
                if self._keys is not None and (whole is None or len(body) > _SHORT):
                    # That took time, and the key may have been revoked meanwhile.
                    given = _header(scope["headers"], b"authorization")
                    self._admitted(route, self._keys.find(given, afresh=True), name)
            else:
                kind, texts = route.request, {**query, **scope["path_params"]}
                asked = None if kind is None else read_query(texts, kind)
                op = Op(route.handler, asked, by, reads=route.method == "GET")
            admission = self._reads if route.method == "GET" else self._writes
            ticket = admission.enter(name)
            try:
                answer = await self._readers[name].read(op) if route.apart else None
                answer = answer or await self._writers[name].submit(op)
            finally:
                admission.leave(name, ticket)
        except Refusal as refusal:
            answer = refusal.answer()
        if route.scope == "admin":
            known = {"route": route.path, "experiment": scope.get("experiment", ""), "key": by}
            log.info("admin call", extra={**known, "status": answer.status})
        return answer

    async def _batch(
        self, route: Route, scope: Scope, receive: Receive, whole: bytes | None, key: Key | None, name: str
    ) -> Answer:
        """One answer to many requests: each is an operation of its own, refused or done like a single one."""
        assert route.each is not None
        by = None if key is None else key.id
        body = await self._body(receive, by) if whole is None else whole
        # On the thread, however short: a batch is rarely urgent.
        read = functools.partial(read_items, body, route.request, self._limits)
        items = await asyncio.get_running_loop().run_in_executor(self._parser, read)
        if self._keys is not None and key is not None:
            given = _header(scope["headers"], b"authorization")
            self._admitted(route, self._keys.find(given, afresh=True), name)
            if key.rate is not None:
                self._rates.charge(key.id, len(items) - 1)
        tickets = self._writes.enter_all(name, batches.slots(len(items)))
        try:
            writer = self._writers[name]
            coming = {
                i: writer.submit(Op(route.each, one, by))
                for i, one in enumerate(items)
                if not isinstance(one, Refusal)
            }
            await asyncio.gather(*coming.values())
        finally:
            for ticket in tickets:
                self._writes.leave(name, ticket)
        answers = [
            one.answer() if isinstance(one, Refusal) else coming[i].result() for i, one in enumerate(items)
        ]
        answer: Answer = route.handler(answers, None)
        return answer

    # Access

    def _bearer(self, headers: Headers) -> Key | None:
        if self._keys is None:
            _require_no_browser(_header(headers, b"host") or "", _header(headers, b"origin"))
            return None
        key = self._keys.find(_header(headers, b"authorization"))
        if key.rate is not None:
            self._rates.take(key.id, key.rate)
        return key

    def _passed(self) -> float:
        states = (one.state for one in self.experiments.values())
        return max((state.time / 1e6 for state in states if state is not None), default=0.0)

    def _admitted(self, route: Route, key: Key | None, name: str | None) -> str:
        if key is not None:
            assert route.scope is not None
            key.require(route.scope, name or "")
        if name is None:
            raise Refusal(400, "experiment", "several experiments are served here: add ?experiment=NAME")
        if name not in self._writers:
            raise Refusal(404, "unknown", f"no experiment is named {name!r:.220}")
        return name

    def _readable(self, scope: Scope) -> tuple[list[Experiment], bool]:
        """The experiments that the bearer may read, and whether that covers all present and future ones."""
        key = self._bearer(scope["headers"])
        if key is None:
            return list(self.experiments.values()), True
        found = [one for name, one in self.experiments.items() if key.opens("read", name)]
        if not found:
            raise Refusal(403, "forbidden", "this key does not have the scope 'read' for any experiment")
        return found, "*" in key.experiments

    # The service as a whole: the summary in the document is the docstring

    async def list_experiments(self, request: Request) -> Response:
        """The experiments that the key opens."""
        shown = [
            {"name": one.name, "status": self._writers[one.name].status, "actions": list(one.spec.actions)}
            for one in self._readable(request.scope)[0]
        ]
        return JSONResponse({"experiments": shown})

    async def show_health(self, request: Request) -> Response:
        """Whether the process answers and all of its threads are running."""
        alive = all(writer.alive for writer in self._writers.values())
        return _health({"status": "alive" if alive else "dead"}, alive)

    async def show_readiness(self, request: Request) -> Response:
        """Whether every experiment accepts decisions."""
        counts = Counter(one.status for one in self._writers.values())
        ready = counts == {"ready": len(self.experiments)}
        # Callers without a key must not learn how many there are.
        shown: dict[str, Any] = {"ready": ready}
        if not ready:
            shown["why"] = sorted(_REASONS[status] for status in counts if status != "ready")
        if self._keys is None:
            shown["experiments"] = counts
        return _health(shown, ready)

    async def show_metrics(self, request: Request) -> Response:
        """Numbers for Prometheus."""
        experiments, everything = self._readable(request.scope)
        shown = frozenset(one.name for one in experiments) | ({""} if everything else set())
        samples = [sample for one in experiments for sample in await self._samples_of(one)]
        if self._keys is not None and everything:
            samples.append(Sample("keys_file_good", {}, float(not self._keys.trouble)))
        text = self.metrics.text(samples, shown)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def _samples_of(self, experiment: Experiment) -> list[Sample]:
        """What is known about an experiment now. Its thread's report may be a second old, and is left out while it is busy."""
        name, found, now = experiment.name, Samples(experiment.name), self._writers[experiment.name].status
        found.add("ready", now == "ready")
        found.add("in_flight", self._writes.waiting(name))
        found.add("reads_in_flight", self._reads.waiting(name))
        found.add("audited_position", experiment.checked)
        found.add("oldest_request_seconds", max(self._writes.oldest(name), self._reads.oldest(name)))
        for status, role in ROLES.items():
            found.add("role", now == status, role=role)
        left, clock = experiment.journal.disk_left(), experiment.clock
        if left is not None:
            found.add("disk_free_bytes", left)
        if isinstance(clock, SteadyClock):
            found.add_clock(clock.ahead, clock.alarms)
        if now not in ("ready", "broken"):
            return found
        then, state = self._states.get(name, (-math.inf, None))
        if time.monotonic() - then > _SAMPLE_SECONDS:
            state = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SAMPLE_SECONDS):
                    answer = await self._writers[name].submit(Op(handlers.show_state, reads=True))
                    state = msgspec.json.decode(answer.body) if answer.status == 200 else None
            self._states[name] = time.monotonic(), state
        if state is not None:
            found.add_state(state)
        return found

    async def show_openapi(self, request: Request) -> Response:
        """This document."""  # noqa: D404
        return JSONResponse(self._document(request))

    async def show_docs(self, request: Request) -> Response:
        """This document for people."""  # noqa: D404
        safety = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}
        return HTMLResponse(openapi.page(self._document(request)), headers=safety)

    def _document(self, request: Request) -> dict[str, Any]:
        """The API, with the columns of contexts only for experiments that the bearer may read."""
        try:
            specs = [one.spec for one in self._readable(request.scope)[0]]
        except Refusal:
            specs = []
        return document(specs, keys=self._keys is not None)

    # Starlette

    def _behind_starlette(self, route: Route) -> routing.Route:
        async def respond(request: Request) -> Response:
            if route.of_service:
                page: Awaitable[Response] = route.handler(self, request)
                return await page
            return _response(await self._answer(route, request.scope, request.receive))

        # An event id may hold slashes.
        path = route.path.replace("{event_id}", "{event_id:path}")
        return routing.Route(path, respond, methods=[route.method])

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> tuple[str, int]:
        """Let Starlette answer; returns the route's path and the status."""
        status = 500

        async def note(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        if "\n" in scope["path"]:
            # Starlette's patterns would overlook one at the end of a path.
            refusal = Refusal(404, "not-found", "the path must not contain line feeds")
            await _send(None, send, refusal.answer())
            return "other", refusal.status
        await self._starlette(scope, receive, note)
        route = scope.get("route")
        path = route.path.replace(":path}", "}") if isinstance(route, routing.Route) else "other"
        return path, status

    async def _body(self, receive: Receive, by: str | None) -> bytes:
        """The body, refused as soon as it is too long or too slow, or if too many are arriving."""
        limit, size, reserved = self._limits.body_bytes, 0, 0
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while True:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if not message.get("more_body", False) or size > limit:
                        break
                    while reserved < size + _PIECE:
                        self._bodies.take(by, _PIECE)
                        reserved += _PIECE
        except TimeoutError:
            raise Refusal(408, "slow", f"the body did not arrive within {_BODY_SECONDS:g} s") from None
        finally:
            if reserved:
                self._bodies.give_back(by, reserved)
        if message["type"] == "http.disconnect":
            raise Refusal(400, "disconnected", "the caller disconnected before the body had arrived")
        if size > limit:
            raise Refusal(413, "too-large", f"the body must have at most {limit} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        for writer in self._writers.values():
            writer.start(loop)
        try:
            yield
        finally:
            for reader in self._readers.values():
                await loop.run_in_executor(None, reader.stop)
            await loop.run_in_executor(None, stop_writers, self._writers.values())
            self._parser.shutdown(wait=False)


_KEY: Final = (401, 403, 429)
_READ: Final = (*_KEY, 400, 404, 503)
_LIST: Final = (*_READ, 422)
_WRITE: Final = (*_LIST, 408, 413)
_NOT_READY: Final = {503: "At least one does not."}
_DEAD: Final = {503: "A worker thread died; restart the process."}

# method, path, required scope of the key, function, type of the answer, possible refusals
ROUTES: Final = (
    Route("POST", "/v1/decisions", "decide", handlers.decide, responses.Decision, (*_WRITE, 409, 410)),
    Route(
        *("POST", "/v1/decisions/batch", "decide", batches.decide_batch, responses.DecisionResults, _WRITE),
        each=handlers.decide,
    ),
    Route("GET", "/v1/decisions", "read", handlers.list_decisions, responses.DecisionPage, _LIST, apart=True),
    Route(
        *("GET", "/v1/decisions/{event_id}", "read", handlers.show_decision, responses.RecordedDecision),
        refusals=(*_READ, 409, 410),
        apart=True,
    ),
    Route("POST", "/v1/outcomes", "outcome", handlers.learn, responses.Outcome, (*_WRITE, 409, 410)),
    Route(
        *("POST", "/v1/outcomes/batch", "outcome", batches.learn_batch, responses.OutcomeResults, _WRITE),
        each=handlers.learn,
    ),
    Route("POST", "/v1/corrections", "outcome", handlers.correct, responses.Correction, (*_WRITE, 409, 410)),
    Route("GET", "/v1/outcomes", "read", handlers.list_outcomes, responses.OutcomePage, _LIST, apart=True),
    Route("GET", "/v1/state", "read", handlers.show_state, responses.State, _READ),
    Route("GET", "/v1/history", "read", handlers.show_history, responses.History, _READ),
    Route("GET", "/v1/rules", "read", handlers.show_rules, responses.RuleCosts, _READ, apart=True),
    Route("GET", "/v1/windows", "read", windows.show_windows, responses.WindowList, _LIST),
    Route("GET", "/v1/lift", "read", lift.show_lift, responses.Lift, _READ),
    Route("GET", "/v1/changes", "read", handlers.list_changes, responses.ChangePage, _LIST, apart=True),
    Route("POST", "/v1/changes", "admin", handlers.change, responses.Changed, (*_WRITE, 409)),
    Route("POST", "/v1/changes/cancel", "admin", handlers.cancel_change, responses.Cancelled, _WRITE),
    Route("GET", "/v1/snapshots", "read", handlers.list_snapshots, responses.SnapshotList, _READ, apart=True),
    Route("POST", "/v1/snapshots", "admin", handlers.take_snapshot, responses.Snapshot, _WRITE),
    Route("POST", "/v1/rollback", "admin", handlers.roll_back, responses.Rollback, (*_WRITE, 409)),
    Route("POST", "/v1/mode", "admin", handlers.change_mode, responses.ModeState, _WRITE),
    Route("POST", "/v1/erasures", "admin", handlers.erase, responses.Erasure, (*_WRITE, 409)),
    Route("GET", "/v1/experiments", "read", Service.list_experiments, responses.ExperimentList, _KEY),
    Route("GET", "/metrics", "read", Service.show_metrics, "text/plain", _KEY),
    Route("GET", "/healthz", None, Service.show_health, responses.Health, otherwise=_DEAD),
    Route("GET", "/readyz", None, Service.show_readiness, responses.Readiness, otherwise=_NOT_READY),
    Route("GET", "/openapi.json", None, Service.show_openapi),
    Route("GET", "/docs", None, Service.show_docs, "text/html"),
)


def document(specs: Sequence[Spec] = (), *, keys: bool = True) -> dict[str, Any]:
    """The OpenAPI document of the service, with the contexts of some experiments."""
    return openapi.document(ROUTES, specs, keys=keys)


# --- requests ---


def _header(headers: Headers, name: bytes) -> str | None:
    for key, value in headers:
        if key == name:
            return str(value, "latin-1")
    return None


def _require_no_browser(host: str, origin: str | None) -> None:
    """Without keys, protect a service on loopback from web pages that its user visits."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name not in _LOOPBACK:
        raise Refusal(403, "forbidden", "without keys, only requests to localhost are answered")
    if origin is not None and origin.partition("://")[2] != host:
        raise Refusal(403, "forbidden", "without keys, requests from other web pages are refused")


# --- answers ---


def _tell(scope: Scope, path: str, status: int, seconds: float, noted: dict[str, Any] | None) -> None:
    known = {"route": path, "status": status, "experiment": scope.get("experiment"), "key": scope.get("key")}
    said = {name: value for name, value in known.items() if value is not None}
    requests_log.debug("request", extra={"method": scope["method"], **said, "seconds": round(seconds, 6)})
    if noted is not None:
        noted |= {"http.route": path, "http.response.status_code": status}
        noted |= {f"tightrope.{name}": said[name] for name in ("experiment", "key") if name in said}


def _headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    length = str(len(answer.body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    if answer.retry_after is not None:
        headers.append((b"retry-after", str(answer.retry_after).encode()))
    if answer.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers


async def _send(exchange: Exchange | None, send: Send, answer: Answer) -> None:
    headers = _headers(answer)
    if exchange is None or not exchange.write(answer.status, headers, answer.body):
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


def _response(answer: Answer) -> Response:
    response = Response(answer.body, answer.status)
    response.raw_headers = _headers(answer)
    return response


def _health(shown: dict[str, Any], good: bool) -> Response:
    return JSONResponse(shown, 200 if good else 503, None if good else {"retry-after": "1"})


async def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return _response(error.answer())
    if not isinstance(error, HTTPException):
        return _response(Refusal(500, "internal", "an error inside the service").answer())
    status, code, words, path = error.status_code, "http", error.detail, request.scope["path"]
    # Not `request.url`, which fails on a query that is no text; nor is every path one.
    shown = path[:200].encode("ascii", "backslashreplace").decode()
    headers = {**(error.headers or {})}
    # Starlette only knows what the first of its routes takes, and not the routes that are answered without it.
    if takes := sorted(one.method for one in ROUTES if one.path == path):
        status, headers["Allow"] = 405, ", ".join(takes)
    if status == 405:
        words = f"{shown} takes {headers['Allow']}, but this request is a {request.method}"
    elif status == 404:
        code, words = "not-found", f"there is no route {shown}; GET /docs lists all of them"
    response = _response(Refusal(status, code, words).answer())
    response.headers.update(headers)
    return response
