"""A PostgreSQL server of our own, started as another user where we are root, which PostgreSQL refuses."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from waiting import PATIENCE

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tightrope[postgres]'")


def _program(name: str) -> str | None:
    for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True):
        if os.path.exists(f"{folder}/{name}"):
            return f"{folder}/{name}"
    return shutil.which(name)


class Server:
    """It runs until it is removed, and may be stopped and started in between."""

    def __init__(self) -> None:
        for program in ("initdb", "postgres"):
            if _program(program) is None:
                pytest.skip(f"PostgreSQL's {program} is missing: apt-get install postgresql")
        self._user: str | None = None
        if os.geteuid() == 0:
            users = [entry.pw_name for entry in pwd.getpwall()]
            self._user = next((name for name in ("postgres", "nobody") if name in users), None)
            if self._user is None:
                pytest.skip("PostgreSQL does not run as root, and there is no other user to start it as")
        self.folder = Path(tempfile.mkdtemp(prefix="tightrope-pg-"))
        with socket.create_server(("127.0.0.1", 0)) as one:
            self.port = one.getsockname()[1]
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._run(
            "initdb", "-D", str(self.folder / "data"), "-U", "tightrope", "-A", "trust", "-E", "UTF8", "-N"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://tightrope@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        program = _program("postgres")
        assert program is not None
        options = [
            "-D",
            str(self.folder / "data"),
            "-p",
            str(self.port),
            "-k",
            str(self.folder),
            "-h",
            "127.0.0.1",
        ]
        self._process = subprocess.Popen(
            [program, *options], user=self._user, cwd="/", stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(psycopg.Error):
                psycopg.connect(self.url).close()
                return
            assert time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.05)

    def stop(self) -> None:
        """At once, as a crash would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(timeout=PATIENCE)

    def execute(self, statement: str, *values: object) -> list[Any]:
        """As the owner of the database."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            found = admin.execute(statement, values or None)
            return list(found.fetchall()) if found.description else []

    def backends(self) -> list[tuple[int, str]]:
        """The server's processes that work for a service, and what each did last."""
        query = "SELECT pid, query FROM pg_stat_activity WHERE starts_with(application_name, 'tightrope') ORDER BY backend_start"
        return self.execute(query)

    @contextlib.contextmanager
    def hung(self, *pids: int) -> Iterator[None]:
        """Some of its processes stand still."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def without_its_replica(self) -> Iterator[None]:
        """Commits wait for a synchronous replica that does not come."""
        self.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        self.execute("SELECT pg_reload_conf()")
        while self.execute("SHOW synchronous_standby_names") != [("nobody",)]:
            time.sleep(0.02)
        # All of its processes must have heard.
        time.sleep(0.3)
        try:
            yield
        finally:
            # As a setting alone: a commit would wait.
            self.execute("ALTER SYSTEM RESET synchronous_standby_names")
            self.execute("SELECT pg_reload_conf()")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, name: str, *arguments: str) -> None:
        program = _program(name)
        assert program is not None
        subprocess.run([program, *arguments], user=self._user, cwd="/", check=True, capture_output=True)
