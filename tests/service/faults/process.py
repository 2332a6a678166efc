"""Services in processes of their own, forked from one that has everything loaded, so that hundreds can be started and killed."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from faults.crash import arm
from tightrope.service import server
from tightrope.service.journal import Row, Snapshot
from tightrope.service.storage.sqlite import SqliteJournal

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
    spec : path
    options
        For `tightrope.service.serve`: `data` or `database`, `max_pending` …
    crash : (point, at), optional
        Where it dies, see `faults.crash`.
    mutant : str, optional
        How it is made worse, as a control: see `MUTANTS`.
    """

    def __init__(
        self,
        spec: Path,
        *,
        port: int | None = None,
        crash: tuple[str, int] | None = None,
        mutant: str | None = None,
        **options: Any,
    ) -> None:
        _fork_from_a_loaded_process()
        self.port = free_port() if port is None else port
        self.process = _context.Process(
            target=_serve, args=(str(spec), self.port, options, crash, mutant), daemon=True
        )
        self.process.start()

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def wait(self, *, ready: bool = True, seconds: float = 30.0) -> Served:
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

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """One request on a connection of its own."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as one:
            one.request(method, path, None if body is None else json.dumps(body))
            answer = one.getresponse()
            return answer.status, answer.read()

    def kill(self) -> None:
        """kill -9."""
        assert self.process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.ended()

    def stop(self) -> None:
        """In order."""
        self.process.terminate()
        self.ended()

    def ended(self, seconds: float = 30.0) -> None:
        """Wait until it is gone."""
        self.process.join(seconds)
        assert not self.alive, "the service is still there"


def _serve(
    spec: str, port: int, options: dict[str, Any], crash: tuple[str, int] | None, mutant: str | None
) -> None:
    if mutant is not None:
        MUTANTS[mutant]()
    if crash is not None:
        arm(*crash)
    server.serve([spec], port=port, **options)


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


def _lazy_database() -> None:
    """PostgreSQL answers before its log is on disk."""
    from tightrope.service.storage.postgresql import PostgresJournal

    take = PostgresJournal._take

    def patched(self: PostgresJournal, connection: Any) -> bool:
        done = take(self, connection)
        connection.execute("SET synchronous_commit = off")
        return done

    PostgresJournal._take = patched  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {"behind": _behind, "lazy database": _lazy_database}
