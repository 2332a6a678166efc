"""Services in processes of their own, forked from one that has everything loaded, so that hundreds can be started and killed."""

from __future__ import annotations

import contextlib
import functools
import http.client
import importlib
import json
import math
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from faults.crash import arm
from tightrope.service.experiment.clock import SteadyClock
from tightrope.service.http import server
from tightrope.service.journal.contract import Snapshot
from tightrope.service.journal.rows import Row
from tightrope.service.storage.sqlite import SqliteJournal
from waiting import PATIENCE

_context = multiprocessing.get_context("forkserver")


@functools.cache
def _fork_from_a_loaded_process() -> None:
    """The path of this process does not reach the one that forks before it has loaded: it goes by the environment."""
    _context.set_forkserver_preload(["faults.preload"])
    tests = str(Path(__file__).resolve().parents[1])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = tests if before is None else f"{tests}{os.pathsep}{before}"
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


class Served:
    """A service that runs in a process of its own until it is killed, or kills itself.

    Parameters
    ----------
    spec : path, or several
    options
        For `tightrope.service.serve`: `data` or `database`, `max_pending` …
    crash : (point, at), optional
        Where it dies, see `faults.crash`.
    mutant : str, optional
        How it is made worse, as a control: see `MUTANTS`.
    patch : dict, optional
        Constants by their whole names: a test should not wait as long as operators do.
    clock_offset : float
        How far its wall clock is off at the start, in seconds.
    """

    def __init__(
        self,
        spec: Path | Sequence[Path],
        *,
        port: int | None = None,
        crash: tuple[str, int] | None = None,
        mutant: str | None = None,
        patch: Mapping[str, float] | None = None,
        clock_offset: float = 0.0,
        **options: Any,
    ) -> None:
        _fork_from_a_loaded_process()
        self.port = free_port() if port is None else port
        specs = [str(one) for one in ([spec] if isinstance(spec, Path) else spec)]
        self.clock_offset = _context.Value("d", clock_offset)
        given = (specs, self.port, options, crash, mutant, dict(patch or {}), self.clock_offset)
        self.process = _context.Process(target=_serve, args=given, daemon=True)
        self.process.start()

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def wait(self, *, ready: bool = True, seconds: float = PATIENCE) -> Served:
        """Until it takes decisions; or, for a standby, until it answers at all."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, _ = self.call("GET", "/readyz")
                if status == 200 or not ready:
                    return self
            assert self.alive, "the service ended before it was ready"
            time.sleep(0.01)
        raise AssertionError("the service did not become ready")

    def call(
        self, method: str, path: str, body: Any = None, *, timeout: float = PATIENCE
    ) -> tuple[int, bytes]:
        """One request on a connection of its own."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)) as one:
            one.request(method, path, None if body is None else json.dumps(body))
            answer = one.getresponse()
            return answer.status, answer.read()

    def kill(self) -> None:
        """kill -9."""
        self._signal(signal.SIGKILL)
        self.ended()

    def pause(self) -> None:
        """It stands still, and knows nothing of it."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on where it was."""
        self._signal(signal.SIGCONT)

    @property
    def ready(self) -> bool:
        """Whether it says that it takes decisions."""
        try:
            return self.call("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _signal(self, which: signal.Signals) -> None:
        assert self.process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, which)

    def stop(self) -> None:
        """In order."""
        self.process.terminate()
        self.ended()

    def ended(self, seconds: float = 30.0) -> None:
        """Wait until it is gone."""
        self.process.join(seconds)
        assert not self.alive, "the service is still there"


def _serve(
    specs: list[str],
    port: int,
    options: dict[str, Any],
    crash: tuple[str, int] | None,
    mutant: str | None,
    patch: dict[str, float],
    clock_offset: Any,
) -> None:
    SteadyClock.__init__.__defaults__ = (lambda: time.time() + clock_offset.value, time.monotonic)  # type: ignore[misc]
    for name, value in patch.items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, value)
    if mutant is not None:
        MUTANTS[mutant]()
    if crash is not None:
        arm(*crash)
    server.serve(specs, port=port, **options)


# --- services that break a promise, to show that the tests would notice ---


class _Behind(SqliteJournal):
    """Returns before the rows are written: that happens for twenty batches at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held: list[tuple[Sequence[Row], Sequence[Snapshot], Sequence[int]]] = []

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        self._held.append((rows, snapshots, drop))
        if len(self._held) == 20:
            for one in self._held:
                super().append(*one)
            self._held.clear()

    def find(self, event_ids: Any) -> list[Row]:
        held = [row for rows, _, _ in self._held for row in rows if row.event_id in event_ids]
        return super().find(event_ids) + held


def _behind() -> None:
    import tightrope.service.storage.sqlite

    tightrope.service.storage.sqlite.SqliteJournal = _Behind  # type: ignore[misc]


def _postgresql(module: str) -> Any:
    return importlib.import_module(f"tightrope.service.storage.postgresql.{module}")


def _lazy_database() -> None:
    """PostgreSQL answers before its log is on disk."""
    journal, lease = _postgresql("journal"), _postgresql("lease")
    connect = journal.connect

    def patched(url: str) -> Any:
        connection = connect(url)
        connection.execute("SET synchronous_commit = off")
        return connection

    journal.connect = lease.connect = patched


def _unfenced() -> None:
    """Once active, always active: it never asks whether another has taken over, and writes behind what that one has written."""
    statements, lease = _postgresql("connection").SQL, _postgresql("lease")
    lease.Lease.held = property(lambda self: self._until > 0)  # type: ignore[assignment, method-assign]
    kept = lease.Lease._kept
    lease.Lease._kept = lambda self: kept(self) or True  # type: ignore[method-assign]
    after = "$1, (SELECT coalesce(max(position), 0) FROM tightrope_journal WHERE experiment = $1) + "
    after += "row_number() OVER (), rows.time, rows.kind, rows.event_id, rows.data"
    query = statements["append"].replace("$1, *", after).replace("AND term = $2", "AND $2 > 0")
    statements["append"] = query.replace("::bytea[])", "::bytea[]) AS rows (p, time, kind, event_id, data)")


def _waits_for_ever() -> None:
    """A database that hangs is waited for."""
    from tightrope.service.experiment import writer_thread

    writer_thread._ANSWER_SECONDS = 100.0  # type: ignore[misc]
    _postgresql("connection").PATIENCE = _postgresql("lease").LEASE = 100.0


def _believes_the_clock() -> None:
    """Journals have the time of the machine, whatever that is."""
    SteadyClock.__call__ = lambda self: self._wall()  # type: ignore[method-assign]
    SteadyClock.resume = lambda self, last, **more: None  # type: ignore[method-assign]


def _says_half_characters() -> None:
    """A refusal quotes what came as it came, also what UTF-8 has no bytes for."""
    import msgspec

    from tightrope.service.answer import Answer, Refusal

    def answer(self: Refusal) -> Answer:
        error = {"error": {"code": self.code, "message": self.message}}
        return Answer(self.status, msgspec.json.encode(error), self.retry_after)

    Refusal.answer = answer  # type: ignore[method-assign]


def _any_usage() -> None:
    """Usage may be any number where its range was inferred."""
    from tightrope.service.experiment.policy_input import PolicyInput

    PolicyInput.require_in_ranges = lambda self, usage: None  # type: ignore[method-assign]


def _any_features() -> None:
    """Features may be any numbers, whatever the spec declares."""
    importlib.import_module("tightrope.encoder.fields").require_range = lambda *given: None


def _any_context() -> None:
    """A number outside the range of its field is taken as it comes."""
    from tightrope.encoder.columns import NumberColumn

    NumberColumn.taken = property(lambda self: (-math.inf, math.inf))  # type: ignore[method-assign, assignment]


def _any_reward() -> None:
    """Rewards may lie outside the range of the spec."""
    from tightrope.service.experiment.policy_input import PolicyInput

    PolicyInput.require_reward = lambda self, reward: None  # type: ignore[method-assign]


def _any_group() -> None:
    """Groups and defaults that nobody declared are taken and kept."""
    from tightrope.service.experiment.policy_input import PolicyInput

    PolicyInput.require_declared = lambda self, request: None  # type: ignore[method-assign]


def _key_of_the_head() -> None:
    """A key that was good when the head came is good for the body."""
    from tightrope.service.http.keys import Key, Keys

    find, known = Keys.find, dict[str | None, Key]()

    def patched(self: Keys, authorization: str | None, *, afresh: bool = False) -> Key:
        if not afresh:
            known[authorization] = find(self, authorization)
        return known[authorization]

    Keys.find = patched  # type: ignore[method-assign]


def _rules_fail() -> None:
    """A fault rather than a mutant: every `GET /v1/rules` ends in an error inside the service."""
    from tightrope.service.http.app import ROUTES

    def fail(batch: Any, request: Any) -> Any:
        raise RuntimeError("always")

    [route] = [one for one in ROUTES if one.path == "/v1/rules"]
    route.__dict__.update(handler=fail, request=None)


def _rules_fail_with_their_batch() -> None:
    """The same, where the writer runs the read, and answers all of a batch with the failure of one."""
    from tightrope.service.experiment import Experiment, Op
    from tightrope.service.experiment.reader_thread import Reader
    from tightrope.service.http import app

    async def on_the_writer(self: Reader, op: Op) -> None:
        return None

    def process(self: Experiment, ops: Sequence[Op]) -> Any:
        done = self._run(ops)
        return (
            [app.Refusal(503, "unavailable", "undone").answer()] * len(ops) if isinstance(done, int) else done
        )

    _rules_fail()
    Reader.read = on_the_writer  # type: ignore[assignment, method-assign]
    Experiment.process = process  # type: ignore[method-assign]
    app.Op = lambda operation, request=None, by=None, reads=False: Op(operation, request, by)  # type: ignore[assignment, misc]


def _books_later() -> None:
    """All requests of a batch are checked before the first is booked, as where a ledger has no lock."""
    from tightrope.ledger.windows import Windows
    from tightrope.service.experiment import Experiment

    take, process, late = Windows.take, Experiment.process, list[Any]()

    def processed(self: Experiment, ops: Any) -> Any:
        Windows.take = lambda *given: late.append(given)  # type: ignore[method-assign, assignment]
        answers = process(self, ops)
        Windows.take = take  # type: ignore[method-assign]
        for given in late:
            take(*given)
        late.clear()
        return answers

    Experiment.process = processed  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    "any usage": _any_usage,
    "any features": _any_features,
    "any context": _any_context,
    "any reward": _any_reward,
    "any group": _any_group,
    "key of the head": _key_of_the_head,
    "rules fail": _rules_fail,
    "rules fail with their batch": _rules_fail_with_their_batch,
    "half characters": _says_half_characters,
    "behind": _behind,
    "lazy database": _lazy_database,
    "unfenced": _unfenced,
    "waits for ever": _waits_for_ever,
    "believes the clock": _believes_the_clock,
    "books later": _books_later,
}
