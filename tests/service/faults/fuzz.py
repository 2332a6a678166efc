"""Requests that nobody should send: every route, with bodies, heads, paths and queries that are almost right, or not at all.

Every request has an answer, and the service may not blame itself for one: no 500, and a 503 only by admission control or for a
paused experiment, with `Retry-After`. Seeds make it repeatable.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from tightrope.service.http.app import Service
from tightrope.service.http.connections import ConnectionLimits
from tightrope.service.http.keys import create_key

# Codes with which a 503 may come.
_NOT_NOW = frozenset({"overloaded", "paused"})
_METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "BREW")
_PATHS = (
    *(
        "/v1/decisions",
        "/v1/outcomes",
        "/v1/state",
        "/v1/history",
        "/v1/rules",
        "/v1/changes",
        "/v1/snapshots",
    ),
    *("/v1/rollback", "/v1/mode", "/v1/erasures", "/v1/experiments", "/metrics", "/healthz", "/readyz"),
    *("/openapi.json", "/docs", "/", "/v1/decisions/", "/v1", "/dashboard.js"),
)
_NUMBERS: tuple[Any, ...] = (
    *(
        0,
        1,
        -1,
        2,
        0.5,
        -0.0,
        1e-12,
        5e-324,
        2.2e-308,
        1e12,
        -1e12,
        1e15,
        1e20,
        -1e20,
        1e100,
        1.5e154,
        -1e300,
    ),
    *(1.7976931348623157e308, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400),
)
_TEXTS = (
    *(
        "",
        " ",
        "a",
        "icu",
        "other",
        "f",
        "north",
        "visit-1",
        "hours",
        "\x00",
        "a\n",
        "\x7f",
        "\ud800",
        "a\udfffb",
    ),
    *(
        "\udc00\ud800",
        "é",
        "😀" * 40,
        "x" * 200,
        "x" * 201,
        "x" * 5_000,
        "__proto__",
        "..",
        "a.b",
        "[0]",
        "[...]",
    ),
    *("$", "`", "'", '"', "\\", "%00", "NaN", "1", "true", "null", "\u2028", "e\u0301", "\ufeff", "ﷺ" * 30),
)
# What stands in JSON as it is.
_RAW = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-1e999",
    b"01",
    b"1.",
    b"\xff",
    b'"\xed\xa0\x80"',
    b"''",
    b"",
)
_FIELDS = (
    *(
        "event_id",
        "context",
        "features",
        "usage",
        "costs",
        "group",
        "actions",
        "default",
        "explain",
        "reward",
    ),
    *("mode", "label", "position", "restore", "event_ids", "age", "sex", "hours", "", "\ud800"),
)


class Attempt(NamedTuple):
    """One request: `target` as it stands in the first line, `cuts` where the body is cut on its way."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    cuts: tuple[int, ...] = ()


class Reply(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Verdict:
    """What came back, by status and code, and what may not come back."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.by_route: Counter[tuple[str, str, int]] = Counter()
        self.wrong: list[str] = []

    def take(self, attempt: Attempt, reply: Reply) -> None:
        code = ""
        if reply.status >= 400 and attempt.method != "HEAD":
            try:
                code = json.loads(reply.body)["error"]["code"]
            except (ValueError, KeyError, TypeError):
                # Uvicorn's own words for what is not HTTP, and health and readiness, have another form.
                code = "plain"
        self.counts[f"{reply.status} {code}".strip()] += 1
        path = attempt.target.partition(b"?")[0].decode("latin-1")
        self.by_route[attempt.method, path, reply.status] += 1
        if reply.status in (429, 503) and b"retry-after" not in reply.headers:
            self._blame(attempt, reply, "has no Retry-After")
        elif reply.status >= 500 and (reply.status, code in _NOT_NOW) != (503, True):
            self._blame(attempt, reply, "may not come back")

    def lost(self, attempt: Attempt, why: str) -> None:
        """There was no answer at all."""
        self.counts["none"] += 1
        self.wrong.append(f"{_told(attempt)}: no answer ({why})")

    def _blame(self, attempt: Attempt, reply: Reply, why: str) -> None:
        self.wrong.append(f"{_told(attempt)}: {reply.status} {reply.body[:200]!r} {why}")

    def answered(self, method: str, path: str) -> int:
        """How many requests of a route were answered 200."""
        return self.by_route[method, path, 200]


def _told(attempt: Attempt) -> str:
    return f"{attempt.method} {attempt.target[:200]!r} {attempt.body[:300]!r}"


class Fuzzer:
    """Makes requests for the experiments that `write_specs` writes; `keys` are those that are sent, the first opens everything."""

    def __init__(self, seed: int, keys: Sequence[str] = ()) -> None:
        self._random = random.Random(seed)
        self._keys = keys
        self._made = 0
        # Events that were asked for, newest last: what follows is about them more often than not.
        self._known: dict[str, deque[str]] = {name: deque(maxlen=40) for name in _SPECS}
        self._seed = seed

    def attempts(self, count: int) -> Iterator[Attempt]:
        """So many requests."""
        for _ in range(count):
            self._made += 1
            yield self._attempt()

    def _attempt(self) -> Attempt:
        roll = self._random.random()
        experiment = self._random.choice(("ward", "ward", "ward", "beds", "beds", "arms"))
        if roll < 0.75:
            method, path, body = self._sensible(experiment)
        else:
            method, path, body = self._random.choice(_METHODS), self._path(), self._any_body()
            method = self._random.choice(("GET", "POST", method))
        if body and self._random.random() < 0.5:
            body = self._bent(body)
        query = self._query(experiment)
        target = path + (b"?" + query if query else b"")
        cuts = ()
        if len(body) > 1 and self._random.random() < 0.1:
            cuts = tuple(sorted(self._random.sample(range(1, len(body)), min(3, len(body) - 1))))
        return Attempt(method, target, tuple(self._headers()), body, cuts)

    # What a caller would send

    def _sensible(self, experiment: str) -> tuple[str, bytes, bytes]:
        draw = self._random
        kind = draw.random()
        if kind < 0.45:
            return "POST", b"/v1/decisions", _json(self._decision(experiment))
        if kind < 0.75:
            return "POST", b"/v1/outcomes", _json(self._outcome(experiment))
        if kind < 0.80:
            # Back to life at once, most of the time.
            mode = draw.choice(["live"] * 12 + ["shadow"] * 2 + ["paused"])
            body = {"mode": mode, **({"default": "other"} if mode == "shadow" else {})}
            return "POST", b"/v1/mode", _json(body)
        if kind < 0.801:
            # Seldom: a snapshot with a label is kept for ever, and an erasure looks at each of them.
            return "POST", b"/v1/snapshots", _json({"label": draw.choice(("monday", "é", "x"))})
        if kind < 0.806:
            return "POST", b"/v1/erasures", _json({"event_ids": [self._event(experiment)]})
        if kind < 0.815:
            body = {"position": draw.choice((1, 7, 10**9)), "restore": draw.choice(("learnt", "all"))}
            return "POST", b"/v1/rollback", _json(body)
        if kind < 0.90:
            return "GET", b"/v1/decisions/" + quote(self._event(experiment)).encode(), b""
        return "GET", draw.choice(_PATHS).encode(), b""

    def _event(self, experiment: str) -> str:
        """An event that there may be."""
        known = self._known[experiment]
        if known and self._random.random() < 0.85:
            return self._random.choice(known)
        return f"visit-{self._random.randrange(20)}"

    def _decision(self, experiment: str) -> dict[str, Any]:
        draw = self._random
        again = draw.random() < 0.2
        body: dict[str, Any] = {
            "event_id": self._event(experiment) if again else f"visit-{self._seed}-{self._made}"
        }
        self._known[experiment].append(body["event_id"])
        if experiment == "ward":
            body["context"] = {"age": draw.choice((0, 17.5, 71, 100)), "sex": draw.choice("fm")}
        elif experiment == "beds":
            body |= {"usage": {"minutes": draw.choice((1, [1, 2, 3], {"icu": 3, "surgery": 2, "other": 0}))}}
            body["group"] = draw.choice(("north", ["north"], []))
        if draw.random() < 0.2:
            body["actions"] = draw.choice((["icu", "other"], [0, 2], ["surgery"]))
        if draw.random() < 0.2:
            body["explain"] = True
        if draw.random() < 0.1:
            body["default"] = draw.choice(("icu", 1))
        if draw.random() < 0.05:
            body["features"] = [draw.choice(_NUMBERS[:20]) for _ in range(draw.choice((2, 3, 4)))]
        return body

    def _outcome(self, experiment: str) -> dict[str, Any]:
        draw = self._random
        body: dict[str, Any] = {"event_id": self._event(experiment)}
        if draw.random() < 0.8:
            body["reward"] = draw.choice((0, 1, 0.25, 1.0))
        if experiment == "ward" and draw.random() < 0.7:
            body["usage"] = {"hours": draw.choice((0, 0.5, 1))}
        return body

    # What nobody should send

    def _any_body(self) -> bytes:
        draw = self._random
        kind = draw.random()
        if kind < 0.2:
            return b""
        if kind < 0.3:
            return draw.randbytes(draw.choice((1, 7, 300)))
        if kind < 0.35:
            return b"[" * draw.choice((9, 2000, 100_000)) + b"1"
        if kind < 0.37:
            return _json({"event_id": "x" * draw.choice((1_000, 1 << 20, (1 << 20) + 1))})
        return _json(self._value(3))

    def _value(self, depth: int) -> Any:
        draw = self._random
        kind = draw.random()
        if depth == 0 or kind < 0.3:
            return draw.choice(_NUMBERS)
        if kind < 0.5:
            return draw.choice(_TEXTS)
        if kind < 0.6:
            return draw.choice((None, True, False, [], {}))
        if kind < 0.75:
            return [self._value(depth - 1) for _ in range(draw.choice((1, 2, 3, 30)))]
        keys = (*_FIELDS, *_TEXTS)
        return {draw.choice(keys): self._value(depth - 1) for _ in range(draw.choice((1, 2, 3, 5)))}

    def _bent(self, body: bytes) -> bytes:
        """A body that was good, with something changed."""
        draw = self._random
        if draw.random() < 0.25:
            return self._scratched(body)
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return self._scratched(body)
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            value = self._changed(value)
        text = _json(value)
        if draw.random() < 0.1 and text.startswith(b"{") and len(text) > 2:
            # Everything twice.
            text = b"{" + text[1:-1] + b"," + text[1:]
        if draw.random() < 0.15:
            text = text.replace(b"1", draw.choice(_RAW), 1)
        if draw.random() < 0.1:
            # Half of a pair, as bytes.
            text = json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
        return text

    def _changed(self, value: Any) -> Any:
        """The value with one of its parts replaced, removed, added, wrapped or repeated."""
        draw = self._random
        if isinstance(value, dict) and value and draw.random() < 0.8:
            copy = dict(value)
            key = draw.choice(list(copy))
            kind = draw.random()
            if kind < 0.5:
                copy[key] = self._changed(copy[key])
            elif kind < 0.6:
                del copy[key]
            elif kind < 0.7:
                copy[draw.choice(_TEXTS)] = copy.pop(key)
            else:
                copy[draw.choice((*_FIELDS, *_TEXTS))] = self._value(2)
            return copy
        if isinstance(value, list) and value and draw.random() < 0.7:
            place = draw.randrange(len(value))
            kind = draw.random()
            if kind < 0.5:
                return [*value[:place], self._changed(value[place]), *value[place + 1 :]]
            return value * (2 if len(value) > 40 else draw.choice((2, 30))) if kind < 0.7 else value[:place]
        if draw.random() < 0.15:
            for _ in range(draw.choice((1, 3, 9, 150))):
                value = [value] if draw.random() < 0.5 else {"": value}
            return value
        return self._value(2)

    def _scratched(self, body: bytes) -> bytes:
        draw = self._random
        place = draw.randrange(len(body) + 1)
        kind = draw.random()
        if kind < 0.25:
            return body[:place]
        if kind < 0.5:
            return body[:place] + draw.randbytes(draw.choice((1, 3))) + body[place + 1 :]
        if kind < 0.6:
            return b"\xef\xbb\xbf" + body
        if kind < 0.7:
            return body.decode("utf-8", "replace").encode("utf-16")
        if kind < 0.8:
            return body + draw.choice((b"\x00", b"{}", b" ", b"\n\n"))
        return body[:place] + draw.choice(_RAW) + body[place:]

    def _path(self) -> bytes:
        draw = self._random
        path = draw.choice(_PATHS)
        kind = draw.random()
        if kind < 0.5:
            return path.encode()
        end = draw.choice(_TEXTS).encode(errors="surrogatepass")[:2_000]
        if kind < 0.8:
            return path.encode() + b"/" + quote(end).encode()
        loose = draw.choice((b"%", b"%zz", b"%ff%fe", b"%00", b"%0a", b"//", b"/..", b"/%2e%2e/", b";a=b"))
        return path.encode() + loose

    def _query(self, experiment: str) -> bytes:
        draw = self._random
        if draw.random() < 0.03:
            return b""
        if draw.random() < 0.05:
            experiment = draw.choice(("ward", "beds", "arms", "nobody", ""))
        parts = [b"experiment=" + experiment.encode()]
        if draw.random() < 0.2:
            parts.append(
                b"limit=" + draw.choice((b"1", b"1000", b"0", b"-1", b"1e3", b"9" * 30, b"%31", b"\xb2"))
            )
        if draw.random() < 0.15:
            parts.append(b"before=" + draw.choice((b"1", b"5", b"4611686018427387904", b"9" * 19, b"x")))
        if draw.random() < 0.3:
            parts.append(
                b"status=" + draw.choice((b"late", b"rejected", b"missing", b"pending", b"", b"%ff"))
            )
        if draw.random() < 0.1:
            parts.append(
                draw.choice((b"%", b"&&==", b"experiment=arms", b"a" * 3_000, b"%ed%a0%80=%00", b"\xe9=1"))
            )
        return b"&".join(parts)

    def _headers(self) -> Iterator[tuple[bytes, bytes]]:
        draw = self._random
        odd = draw.random() < 0.1
        yield b"host", draw.choice((b"127.0.0.1", b"evil.example", b"[::1]:8", b"")) if odd else b"127.0.0.1"
        if self._keys and draw.random() < 0.98:
            key = self._keys[0] if draw.random() < 0.85 else draw.choice(self._keys)
            yield b"authorization", b"Bearer " + key.encode()
        elif draw.random() < 0.5:
            words = (
                b"Bearer",
                b"Basic YQ==",
                b"Bearer \xff\xfe",
                b"Bearer tr_" + b"a" * 300,
                b"bearer  x_y_z",
                b"",
            )
            yield b"authorization", draw.choice(words)
        kinds = (
            b"application/json",
            b"text/plain",
            b"application/json; charset=utf-16",
            b"\xff",
            b"multipart/form-data",
            b"",
        )
        yield b"content-type", draw.choice(kinds)
        if draw.random() < 0.05:
            more = (
                *(
                    (b"origin", b"http://evil.example"),
                    (b"content-encoding", b"gzip"),
                    (b"cookie", b"\xff=\xfe"),
                ),
                *(
                    (b"range", b"bytes=0-"),
                    (b"x-forwarded-for", b"::1"),
                    (b"if-match", b"*"),
                    (b"x-" + b"y" * 500, b"z"),
                ),
                *(
                    (b"traceparent", b"00-zz-zz-zz"),
                    (b"accept", b"*/*;q=nan"),
                    (b"accept-encoding", b"gzip;q=9"),
                ),
            )
            yield draw.choice(more)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


# --- what is attacked ---


def write_specs(folder: Path) -> list[Path]:
    """Three experiments: contexts and costs seen after acting; groups, usage by the caller and a hard cap; and plain arms."""
    found = []
    for name, text in _SPECS.items():
        path = folder / f"{name}.toml"
        path.write_text(f'name = "{name}"\nactions = ["icu", "surgery", "other"]\n{text}', encoding="utf-8")
        found.append(path)
    return found


_SPECS = {
    "ward": """
[context]
age = { type = "number", min = 0, max = 100 }
sex = { type = "category", values = ["f", "m"] }

[[rule]]
kind = "capacity"
action = "icu"
at_most = 0.4

[[rule]]
kind = "budget"
name = "hours"
at_most = 0.6
seen = "after"
""",
    "beds": """
[[rule]]
kind = "budget"
name = "minutes"
at_most = 2.0
range = [0, 3]
hard = true
total = 100000

[[rule]]
kind = "share"
action = "icu"
at_least = 0.1
among = "north"
""",
    "arms": """
[policy]
kind = "pessimistic-optimistic"
slater = 0.2
""",
}


def write_keys(path: Path) -> list[str]:
    """Keys of all kinds; the first opens everything."""
    every = ["decide", "outcome", "read", "admin"]
    everything = create_key(path, scopes=every)
    some = [create_key(path, scopes=[scope]) for scope in every]
    few = create_key(path, scopes=every, experiments=["ward"])
    slow = create_key(path, scopes=every, rate=5.0)
    return [everything, *some, few, slow]


# --- how it is attacked ---


async def attack(
    service: Service, attempts: Iterator[Attempt], verdict: Verdict, *, at_once: int = 16
) -> None:
    """Send requests straight into the application, some at a time."""

    async def one(attempt: Attempt) -> None:
        try:
            reply = await _called(service, attempt)
        except Exception as error:
            # The server would answer 500.
            verdict.lost(attempt, repr(error))
        else:
            verdict.take(attempt, reply)

    async with lifespan(service):
        while batch := [attempt for attempt, _ in zip(attempts, range(at_once), strict=False)]:
            await asyncio.gather(*map(one, batch))


@contextlib.asynccontextmanager
async def lifespan(service: Service) -> Any:
    """The application started and stopped, as a server does."""
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    heard: asyncio.Queue[Any] = asyncio.Queue()
    task = asyncio.create_task(service({"type": "lifespan"}, told.get, heard.put))
    told.put_nowait({"type": "lifespan.startup"})
    assert (await heard.get())["type"] == "lifespan.startup.complete"
    yield
    told.put_nowait({"type": "lifespan.shutdown"})
    await heard.get()
    await task


async def _called(service: Callable[..., Awaitable[None]], attempt: Attempt) -> Reply:
    path, _, query = attempt.target.partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": attempt.method,
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": list(attempt.headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "extensions": {},
    }
    places = (0, *attempt.cuts, len(attempt.body))
    parts = [attempt.body[low:high] for low, high in itertools.pairwise(places)]
    coming = iter([{"type": "http.request", "body": one, "more_body": one is not parts[-1]} for one in parts])
    heard: list[Any] = []

    async def receive() -> Any:
        return next(coming, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        heard.append(message)

    await service(scope, receive, send)
    start = heard[0]
    body = b"".join(one.get("body", b"") for one in heard[1:])
    return Reply(start["status"], {name.lower(): value for name, value in start["headers"]}, body)


async def storm(
    port: int, attempts: Iterator[Attempt], verdict: Verdict, *, connections: int = 24, pause: float = 0.0
) -> None:
    """Send requests to a service on this machine, over some connections at once."""

    async def caller() -> None:
        line = _Line(port)
        for attempt in attempts:
            try:
                verdict.take(attempt, await asyncio.wait_for(line.ask(attempt), 60))
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                line.close()
                if attempt.target.isascii() and len(attempt.body) <= ConnectionLimits().unread_bytes:
                    verdict.lost(attempt, repr(error))
                else:
                    # Not HTTP, or a long body that was refused by its head. The server says so and closes, which may overtake
                    # what it said.
                    verdict.counts["closed"] += 1
            if pause:
                await asyncio.sleep(pause)
        line.close()

    await asyncio.gather(*(caller() for _ in range(connections)))


class _Line:
    """A connection that is kept as long as the service keeps it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pair: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def close(self) -> None:
        if self._pair is not None:
            self._pair[1].close()
        self._pair = None

    async def ask(self, attempt: Attempt) -> Reply:
        """Once more on a new connection, where the service has closed the old one meanwhile."""
        if self._pair is not None and not self._pair[0].at_eof():
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                return await self._asked(attempt, *self._pair)
        self.close()
        self._pair = await asyncio.open_connection("127.0.0.1", self._port)
        return await self._asked(attempt, *self._pair)

    async def _asked(
        self, attempt: Attempt, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Reply:
        heads = [b"%s %s HTTP/1.1" % (attempt.method.encode(), attempt.target)]
        heads += [name + b": " + value for name, value in attempt.headers]
        heads.append(b"content-length: %d" % len(attempt.body))
        writer.write(b"\r\n".join([*heads, b"", b""]))
        with contextlib.suppress(ConnectionError):  # refused by its head: the answer is there
            places = (0, *attempt.cuts, len(attempt.body))
            for low, high in itertools.pairwise(places):
                writer.write(attempt.body[low:high])
                await writer.drain()
        first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(b":") for one in lines)}
        status = int(first.split()[1])
        length = int(headers.get(b"content-length", 0))
        body = b""
        if attempt.method != "HEAD" and status not in (204, 304):
            body = await reader.readexactly(length) if b"content-length" in headers else await reader.read()
        if headers.get(b"connection", b"") == b"close" or b"content-length" not in headers:
            self.close()
        return Reply(status, headers, body)
