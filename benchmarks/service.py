"""How fast the service decides, what durability costs, whether its memory stays flat, how soon it is back.

    python benchmarks/service.py load                 # 64 connections: bare endpoints, journal off, SQLite, with outcomes
    python benchmarks/service.py load --client own    # the same without wrk, with a client in Python
    python benchmarks/service.py load --database postgresql://… --connections 1    # PostgreSQL too, one caller at a time
    python benchmarks/service.py memory               # 10⁶ decisions over HTTP, memory as they go
    python benchmarks/service.py restart              # a journal of 10⁶ entries, killed; seconds until it is ready again

Client and server share the machine. Ratios are of runs that take turns within one call, so that a busy machine slows all alike; the
load of the machine is printed with them. The spec is `examples/hospital.toml`.

There are two endpoints to compare with, both of which read a body and answer with a constant. One goes through Starlette, as a
service usually does; the other is a bare ASGI function behind our own protocol class, since decisions do not go through Starlette
here. The first says what a caller gains or loses against what is usual, the second what everything beyond HTTP costs: policy,
rules, journal. Processor time is that of the server's process, user and system, for each request: it depends least on what else
the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

SPEC = Path(__file__).resolve().parents[1] / "examples" / "hospital.toml"


class Measured(NamedTuple):
    """One run: requests a second, milliseconds, refusals, and how many requests there were."""

    rate: float
    p50: float
    p99: float
    errors: int
    count: int


# --- servers ---


_ANSWER = b'{"event_id":"1","action":0,"name":"internal","sequence":0}'


def serve_raw(port: int) -> None:
    """What HTTP costs alone, behind the protocol class of the service: a POST that is read and answered, nothing else."""
    import uvicorn

    from tightrope.service.http.server import UVICORN

    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(_ANSWER)).encode())]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                asked = (await receive())["type"]
                await send({"type": f"{asked}.complete"})
                if asked == "lifespan.shutdown":
                    return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": _ANSWER})

    uvicorn.run(app, host="127.0.0.1", port=port, **UVICORN)


def serve_bare(port: int) -> None:
    """What the framework costs alone: a POST that is read and answered, nothing else."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from tightrope.service.http.server import UVICORN

    async def decide(request: Request) -> Response:
        await request.body()
        return Response(_ANSWER, media_type="application/json")

    async def ready(request: Request) -> Response:
        return Response(b"{}")

    app = Starlette(routes=[Route("/v1/decisions", decide, methods=["POST"]), Route("/readyz", ready)])
    uvicorn.run(app, host="127.0.0.1", port=port, **{**UVICORN, "http": "auto"})


def serve(kind: str, port: int, place: str) -> None:
    if kind in ("starlette", "raw"):
        (serve_bare if kind == "starlette" else serve_raw)(port)
        return
    from tightrope.service import serve as run

    if kind == "memory":
        run([SPEC], port=port, database="memory:")
    elif kind == "postgresql":
        run([SPEC], port=port, database=place)
    else:
        run([SPEC], port=port, data=place)


class Server:
    def __init__(self, kind: str, place: str | Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as one:
            self.port = one.getsockname()[1]
        began = time.perf_counter()
        self.process = subprocess.Popen([sys.executable, __file__, "serve", kind, str(self.port), str(place)])
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=60).close()
                break
            if self.process.poll() is not None:
                raise SystemExit("the server did not start")
            time.sleep(0.02)
        self.seconds = time.perf_counter() - began

    def resident(self) -> float:
        """MiB of memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def processor(self) -> float:
        """Seconds of processor time so far, user and system, of all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(timeout=60)


@contextlib.contextmanager
def server(kind: str, place: str | Path) -> Iterator[Server]:
    one = Server(kind, place)
    try:
        yield one
    finally:
        one.end()


# --- clients ---

_LUA = """
local thread_count = 0
function setup(thread) thread_count = thread_count + 1; thread:set("id", thread_count) end
local serial = 0
function request()
  serial = serial + 1
  local body = string.format(
    '{"event_id":"%s-%d-%d","context":{"age":%d,"sex":"%s","prior_inpatient":%d}}',
    prefix, id, serial, serial * 37 % 120, serial % 2 == 0 and "f" or "m", serial % 10)
  return wrk.format("POST", "/v1/decisions", {["Content-Type"] = "application/json"}, body)
end
function init(args) prefix = args[1] end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('{"requests":%d,"us":%d,"p50":%g,"p99":%g,"errors":%d}\\n', summary.requests, summary.duration,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def wrk(port: int, connections: int, seconds: float) -> Measured:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_LUA)
        script.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "20s", "-s", script.name]
        done = subprocess.run(
            [*command, f"http://127.0.0.1:{port}", "--", os.urandom(4).hex()],
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"requests"')))
    rate = found["requests"] / found["us"] * 1e6
    return Measured(rate, found["p50"], found["p99"], found["errors"], found["requests"])


class _Connection(asyncio.Protocol):
    """One request at a time, the next as soon as the answer is there."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._buffer = b""
        self._outcome_of: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._run.gone()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, blank, body = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        at = head.lower().index(b"content-length:") + 15
        if len(body) < int(head[at:].split(b"\r\n", 1)[0]):
            return
        self._run.took(time.perf_counter() - self._began, head[9:12] == b"200")
        self._buffer = b""
        if self._run.over():
            self._transport.close()
        else:
            self._send()

    def _send(self) -> None:
        run = self._run
        if self._outcome_of is not None:
            path = "/v1/outcomes"
            body = f'{{"event_id":"{self._outcome_of}","reward":{random.random():.3f}}}'
            self._outcome_of = None
        else:
            run.serial += 1
            event_id = f"{run.prefix}-{run.serial}"
            path = "/v1/decisions"
            body = (
                f'{{"event_id":"{event_id}","context":{{"age":{run.serial * 37 % 120},"sex":"f",'
                f'"prior_inpatient":{run.serial % 10}}}}}'
            )
            if run.outcomes:
                self._outcome_of = event_id
        self._began = time.perf_counter()
        self._transport.write(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )


class _Run:
    def __init__(self, connections: int, seconds: float, requests: int | None, outcomes: bool) -> None:
        self.prefix = os.urandom(4).hex()
        self.serial = 0
        self.outcomes = outcomes
        self.latencies: list[float] = []
        self.count = self.errors = 0
        self._requests = requests
        self._open = connections
        self._end = time.perf_counter() + seconds
        self.finished = asyncio.get_running_loop().create_future()

    def took(self, seconds: float, good: bool) -> None:
        self.count += 1
        self.errors += not good
        if len(self.latencies) < 200_000:
            self.latencies.append(seconds)

    def over(self) -> bool:
        if self._requests is not None:
            return self.count >= self._requests
        return time.perf_counter() >= self._end

    def gone(self) -> None:
        self._open -= 1
        if self._open == 0 and not self.finished.done():
            self.finished.set_result(None)


async def _drive(
    port: int, connections: int, seconds: float, requests: int | None, outcomes: bool
) -> Measured:
    run = _Run(connections, seconds, requests, outcomes)
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(run), "127.0.0.1", port)
    await run.finished
    spent = time.perf_counter() - began
    ordered = sorted(run.latencies)
    return Measured(
        run.count / spent,
        1e3 * ordered[len(ordered) // 2],
        1e3 * ordered[int(0.99 * len(ordered))],
        run.errors,
        run.count,
    )


def own(
    port: int,
    connections: int,
    seconds: float = 0.0,
    *,
    requests: int | None = None,
    outcomes: bool = False,
) -> Measured:
    """A closed loop on raw sockets, in this process."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.run(_drive(port, connections, seconds, requests, outcomes))
    return asyncio.run(_drive(port, connections, seconds, requests, outcomes))


# --- what is measured ---


def load(connections: int, seconds: float, rounds: int, client: str, database: str | None) -> None:
    print(f"load of the machine: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores; client: {client}")
    kinds = [
        "starlette",
        "raw",
        "memory",
        "sqlite",
        "sqlite, outcomes",
        *([] if database is None else ["postgresql"]),
    ]
    found: dict[str, list[Measured]] = {kind: [] for kind in kinds}
    processor: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            with (
                tempfile.TemporaryDirectory() as folder,
                server(
                    kind.partition(",")[0], database if kind == "postgresql" and database else folder
                ) as one,
            ):
                run = wrk if client == "wrk" and "outcomes" not in kind else own
                run(one.port, connections, 1.0)
                before = one.processor()
                if "outcomes" in kind:
                    done = own(one.port, connections, seconds, outcomes=True)
                else:
                    done = run(one.port, connections, seconds)
                found[kind].append(done)
                processor[kind].append(1e6 * (one.processor() - before) / done.count)
    print(
        "| service | requests/s | p50, ms | p99, ms | not 200 | processor time a request, µs | of Starlette | of raw ASGI "
        "| of journal off |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    base = {kind: statistics.median(one.rate for one in runs) for kind, runs in found.items()}
    names = {
        "starlette": "a bare Starlette endpoint",
        "raw": "a bare ASGI endpoint on the service's protocol class",
        "memory": "journal off",
        "sqlite": "SQLite, fsynced",
        "sqlite, outcomes": "SQLite, decision and outcome in turn",
        "postgresql": "PostgreSQL, fsynced",
    }
    for kind, runs in found.items():
        p50, p99 = (statistics.median(getattr(one, name) for one in runs) for name in ("p50", "p99"))
        print(
            f"| {names[kind]} | {base[kind]:,.0f} | {p50:.1f} | {p99:.1f} | {sum(one.errors for one in runs)} | "
            f"{statistics.median(processor[kind]):.0f} | {base[kind] / base['starlette']:.2f} | {base[kind] / base['raw']:.2f} | "
            f"{base[kind] / base['memory']:.2f} |"
        )
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")


def memory(connections: int, decisions: int) -> None:
    """No outcome ever comes, which is the worst case: as many decisions as `max_pending` allows stay pending."""
    with tempfile.TemporaryDirectory() as folder, server("sqlite", Path(folder)) as one:
        print("| decisions | memory, MiB | decisions/s | p99, ms |")
        print("| ---: | ---: | ---: | ---: |")
        print(f"| 0 | {one.resident():.0f} | | |")
        step = decisions // 10
        for i in range(10):
            run = own(one.port, connections, requests=step)
            print(
                f"| {(i + 1) * step:,} | {one.resident():.0f} | {run.rate:,.0f} | {run.p99:.1f} |", flush=True
            )
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        print(f"journal: {size / 2**20:.0f} MiB, {size / decisions:.0f} bytes a decision")
        one.end(signal.SIGKILL)
        print(f"after kill -9: ready in {_restarted(Path(folder)):.1f} s")


def restart(entries: int) -> None:
    """Journals written without HTTP, and left as a kill just before the next snapshot would."""
    print(
        "| journal | entries | snapshots | to replay | pending | build, s | restart after kill, s | after a stop, s |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, share in (("outcomes come", 0.9), ("outcomes never come", 0.0)):
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            began = time.perf_counter()
            last, snapshots, pending = _build(folder, entries, share)
            built = time.perf_counter() - began
            after_kill = _restarted(folder)
            after_stop = _restarted(folder)
            print(
                f"| {name} | {last:,} | {len(snapshots)} | {last - snapshots[-1]:,} | {pending:,} | {built:.0f} | "
                f"{after_kill:.1f} | {after_stop:.1f} |",
                flush=True,
            )


def _restarted(folder: Path) -> float:
    one = Server("sqlite", folder)
    one.end()
    return one.seconds


def _build(folder: Path, entries: int, share: float) -> tuple[int, list[int], int]:
    from tightrope.service.experiment import Experiment, Op
    from tightrope.service.http.handlers import decide, learn
    from tightrope.service.requests import DecisionRequest, OutcomeRequest
    from tightrope.service.storage import journal_at
    from tightrope.spec import read_spec

    spec = read_spec(SPEC)
    journal = journal_at(f"sqlite:{folder}", spec.name)
    experiment = Experiment(spec, journal)
    experiment.open()
    chance = random.Random(0)
    serial = 0
    while True:
        batch = []
        for _ in range(128):
            event_id = f"event-{serial}"
            context: dict[str, float | str] = {
                "age": float(serial * 37 % 120),
                "sex": "f",
                "prior_inpatient": float(serial % 10),
            }
            batch.append(Op(decide, DecisionRequest(event_id=event_id, context=context)))
            if chance.random() < share:
                batch.append(Op(learn, OutcomeRequest(event_id=event_id, reward=chance.random())))
            serial += 1
        experiment.process(batch)
        job = experiment.background_job()
        if job is not None:
            experiment.process([job()])
        state = experiment._state
        assert state is not None
        left = max(experiment._snapshot_every, len(state.waiting)) - (
            state.position - experiment._snapshot_at
        )
        if state.position >= entries and left <= 2 * 256:
            break
    state = state.position, [one.position for one in journal.snapshots()], len(state.waiting)
    journal.close()
    return state


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("load")
    one.add_argument("--connections", type=int, default=64)
    one.add_argument("--seconds", type=float, default=10.0)
    one.add_argument("--rounds", type=int, default=3)
    one.add_argument("--client", choices=["wrk", "own"], default="wrk" if shutil.which("wrk") else "own")
    one.add_argument("--database", help="postgresql://… of a server that may be written to")
    one = commands.add_parser("memory")
    one.add_argument("--connections", type=int, default=64)
    one.add_argument("--decisions", type=int, default=1_000_000)
    one = commands.add_parser("restart")
    one.add_argument("--entries", type=int, default=1_000_000)
    one = commands.add_parser("serve")
    one.add_argument("kind")
    one.add_argument("port", type=int)
    one.add_argument("place")
    options: Any = parser.parse_args()
    if options.command == "load":
        load(options.connections, options.seconds, options.rounds, options.client, options.database)
    elif options.command == "memory":
        memory(options.connections, options.decisions)
    elif options.command == "restart":
        restart(options.entries)
    else:
        serve(options.kind, options.port, options.place)


if __name__ == "__main__":
    main()
