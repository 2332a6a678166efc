"""Connections that nothing keeps waiting, databases that can't keep a journal, passwords that no error shows."""

from __future__ import annotations

import socket
import time

import pytest

from tightrope.errors import InvalidInput
from tightrope.service.journal import JournalError, JournalUnreachable
from tightrope.service.journal.entries import Refused
from tightrope.service.journal.rows import row_of

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tightrope[postgres]'")

from faults.database import Server
from tightrope.service.storage import journal_at, stated_address
from tightrope.service.storage.postgresql import PostgresJournal
from tightrope.service.storage.postgresql import connection as connections
from tightrope.service.storage.postgresql.connection import connect, redacted
from waiting import PATIENCE


def test_a_database_that_can_not_hold_every_event_id_is_refused(database: Server) -> None:
    database.execute("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    journal = journal_at(database.url.rpartition("/")[0] + "/latin", "ward")
    with pytest.raises(JournalError, match="encoding must be UTF8, but is LATIN1") as refused:
        journal.open()
    assert not isinstance(refused.value, JournalUnreachable), "there is nothing to wait for"
    journal.close()


def test_a_statement_that_is_not_answered_ends(database: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = journal_at(database.url, "patience")
    assert journal.open()
    monkeypatch.setattr(connections, "PATIENCE", 0.3)
    assert isinstance(journal, PostgresJournal)
    assert journal._connection is not None
    with database.hung(journal._connection.info.backend_pid):
        began = time.monotonic()
        with pytest.raises(JournalError, match="no answer within"):
            journal.append([row_of(1, 0, Refused(event_id="visit-1", reason="unknown"))])
        assert time.monotonic() - began < PATIENCE
    monkeypatch.undo()
    assert journal.open()
    assert journal.last() == 0, "what was given up comes to nothing when the server goes on"
    journal.close()


def test_a_server_that_does_not_answer_at_all_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(JournalUnreachable):
            connect(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/journal")
        assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:sesame-1@127.0.0.1:1/journal",
        "postgresql://me:sesame-1@ss@127.0.0.1:1/journal",
        "postgresql://me:sesame-1/2@127.0.0.1:1/journal",
        "postgresql://me@127.0.0.1:1/journal?password=sesame-1",
        "postgresql://me:sesame-1%2@127.0.0.1:1/journal",
        "mysql://me:sesame-1@127.0.0.1/journal",
    ],
)
def test_no_error_shows_the_password(url: str) -> None:
    with pytest.raises((JournalError, InvalidInput)) as failed:
        journal_at(url, "ward", read_only=True).open()
    error: BaseException | None = failed.value
    while error is not None:
        assert "sesame" not in repr(error)
        error = error.__cause__
    assert failed.value.__suppress_context__ or failed.value.__context__ is None


def test_pieces_of_a_password_are_hidden_too() -> None:
    assert redacted("host ss@db of me:a%20b@ss", "postgresql://me:a%20b@ss@db/x") == "host ss@db of me:***"


def test_an_address_may_stand_in_the_environment_or_in_a_file(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    secret = tmp_path / "url"
    secret.write_text("postgresql://me:sesame@db/journal\n")
    monkeypatch.setenv("JOURNAL", "memory:")
    assert stated_address(f"file:{secret}") == "postgresql://me:sesame@db/journal"
    assert journal_at("env:JOURNAL", "ward").last() == 0
    with pytest.raises(InvalidInput, match="there is no environment variable 'NOWHERE'"):
        stated_address("env:NOWHERE")
    with pytest.raises(InvalidInput, match="the file can't be read"):
        stated_address(f"file:{tmp_path}/none")
