"""A PostgreSQL connection that never waits for ever, and whose errors never show a password."""

from __future__ import annotations

import logging
import math
import os
import re
import select
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

import psycopg
from psycopg import pq
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict

from tightrope.service.journal import JournalError, JournalUnreachable
from tightrope.service.journal.entries import LAST_BY_EVENT

log = logging.getLogger("tightrope.service")

T = TypeVar("T")

# Seconds until a server that does not answer is given up, and its connection with it.
PATIENCE: Final = 4.0
# A long message gets an extra second per this many bytes.
BYTES_A_SECOND: Final = 2e6
_FILE: Final = Path(__file__).with_name("statements.sql").read_text(encoding="utf-8")
_, *_named = re.split(r"^-- (\w+)\n", _FILE.format(last_by_event=LAST_BY_EVENT), flags=re.MULTILINE)
# The statements in that file by their names.
SQL: Final = dict(zip(_named[::2], _named[1::2], strict=True))
_DONE: Final = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)

# Abandoned connections: the server may still be working for them, or waiting for a replica, for ever.
_given_up: dict[str, set[str]] = {}


class Statement(NamedTuple):
    """A statement of `SQL` that is prepared once on each connection; parameters and results are in PostgreSQL's binary form."""

    name: str
    types: tuple[int, ...]


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection on which every statement is answered within `PATIENCE` seconds, or fails; after a failure it is unusable."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        # The server's id for it, and the statements prepared on it.
        self.token = ""
        self._statements: set[str] = set()

    @property
    def gone(self) -> bool:
        """Whether the server has ended it; known without asking the server, from any thread."""
        try:
            poll = select.poll()
            poll.register(self.pgconn.socket, select.POLLRDHUP)
            return bool(poll.poll(0))
        except (psycopg.Error, OSError, ValueError):
            return True

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Psycopg's own waiting, with an end."""
        return super().wait(gen, interval, PATIENCE if timeout is None else timeout)

    def call(self, statement: Statement, parameters: Sequence[bytes | None]) -> pq.abc.PGresult:
        """Run a prepared statement without Psycopg's conveniences, which take longer than the statement."""
        size = sum(len(one) for one in parameters if one is not None)
        deadline = time.monotonic() + PATIENCE + size / BYTES_A_SECOND
        connection, name = self.pgconn, statement.name.encode()
        if statement.name not in self._statements:
            connection.send_prepare(name, SQL[statement.name].encode(), statement.types)
            self._answered(deadline)
            self._statements.add(statement.name)
        connection.send_query_prepared(
            name, parameters, [pq.Format.BINARY] * len(parameters), pq.Format.BINARY
        )
        return self._answered(deadline)

    def _answered(self, deadline: float) -> pq.abc.PGresult:
        connection = self.pgconn
        while connection.flush():
            self._await(select.POLLIN | select.POLLOUT, deadline)
            connection.consume_input()
        found: pq.abc.PGresult | None = None
        while True:
            while connection.is_busy():
                self._await(select.POLLIN, deadline)
                connection.consume_input()
            one = connection.get_result()
            if one is None:
                break
            found = one
        if found is None or found.status not in _DONE:
            said = b"" if found is None else found.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
            raise psycopg.OperationalError(said.decode(errors="replace") or "the connection is lost")
        return found

    def _await(self, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self.pgconn.socket, events)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise psycopg.OperationalError(f"no answer within {PATIENCE:g} s")


def connect(url: str) -> Connection:
    """Connect within `PATIENCE` seconds, and terminate what is left of abandoned connections.

    `JournalUnreachable`: no connection is possible now. `JournalError`: the database is not in UTF-8.
    """
    token = f"tightrope {uuid.uuid4().hex}"
    try:
        connection = Connection.connect(
            url,
            autocommit=True,
            connect_timeout=math.ceil(PATIENCE),
            keepalives=1,
            keepalives_idle=math.ceil(PATIENCE),
            keepalives_interval=1,
            keepalives_count=math.ceil(PATIENCE),
            tcp_user_timeout=int(PATIENCE * 1000),
            application_name=token,
            client_encoding="UTF8",
        )
    except psycopg.Error as error:
        raise failure(url, error, JournalUnreachable) from None
    connection.token = token
    encoding = connection.pgconn.parameter_status(b"server_encoding")
    if encoding != b"UTF8":
        connection.close()
        shown = (encoding or b"?").decode()
        raise JournalError(
            f"PostgreSQL: the database's encoding must be UTF8, but is {shown}: it can't hold every event_id."
        )
    try:
        # A statement stops waiting for a row before we abandon it, so that nothing happens afterwards. Every query uses an index,
        # even if the server's statistics date from when the journal was short.
        waiting = f"SET lock_timeout = {int(PATIENCE * 500)}"
        connection.execute(f"SET synchronous_commit = on; {waiting}; SET enable_seqscan = off")
        for one in list(_given_up.get(url, ())):
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
            connection.execute(ended, (one,))
            _given_up[url].discard(one)
    except psycopg.Error as error:
        give_up(url, connection)
        raise failure(url, error, JournalUnreachable) from None
    return connection


def warn_unverified(url: str) -> None:
    """Warn if a server on another machine need not prove its identity: the address then lacks `sslmode`."""
    try:
        stated = conninfo_to_dict(url)
    except psycopg.Error:
        return
    hosts = str(stated.get("host") or stated.get("hostaddr") or "").split(",")
    mode = stated.get("sslmode") or os.environ.get("PGSSLMODE", "prefer")
    elsewhere = [one for one in hosts if not re.fullmatch(r"|/.*|localhost|127\.[\d.]+|::1", one)]
    if elsewhere and mode not in ("verify-ca", "verify-full"):
        words = "the database at %s need not prove its identity; add sslmode=verify-full to its address"
        log.warning(words, ", ".join(elsewhere))


def give_up(url: str, connection: Connection) -> None:
    """Abandon a connection that may still be at work; the next one to this server terminates it there."""
    if not connection.closed:
        _given_up.setdefault(url, set()).add(connection.token)
    connection.close()


def failure(url: str, error: Exception, kind: type[JournalError] = JournalError) -> JournalError:
    """What went wrong, in one line, without the password."""
    words = str(error).strip().partition("\n")[0]
    return kind(f"PostgreSQL: {redacted(words, url) or type(error).__name__}")


def redacted(text: str, url: str) -> str:
    """`text` without any part of `url` that may be a password, even if the URL is malformed.

    >>> redacted('no host "x@db" for postgresql://me:s3cret%21x@db/journal: s3cret!x', "postgresql://me:s3cret%21x@db/journal")
    'no host "x@db" for postgresql://me:***@db/journal: ***'
    """
    found = re.findall(r"://[^:/?#]*:(.*)@", url) + re.findall(r"[?&\s]password=([^&\s]*)", url)
    # A '@' or a '/' that should have been written as %40 or %2F: libpq then shows pieces of the password.
    pieces = [piece for one in found for piece in re.split(r"[@/?#:]", one) if len(piece) > 2]
    for secret in sorted({*found, *pieces, *map(unquote, found)}, key=len, reverse=True):
        if secret:
            text = text.replace(secret, "***")
    return text
