"""The tables of all experiments in a PostgreSQL database."""

from __future__ import annotations

from typing import Final

from tightrope.service.journal import FORMAT, LAST_BY_EVENT, JournalDamaged
from tightrope.service.storage.postgresql.connection import Connection

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS tightrope_format (version integer PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS tightrope_journal (experiment text NOT NULL, position bigint NOT NULL, time bigint NOT NULL, "
    "kind smallint NOT NULL, event_id text, data bytea NOT NULL, PRIMARY KEY (experiment, position))",
    "CREATE INDEX IF NOT EXISTS tightrope_journal_event ON tightrope_journal (experiment, event_id) "
    f"WHERE kind <= {LAST_BY_EVENT}",
    "CREATE INDEX IF NOT EXISTS tightrope_journal_kind ON tightrope_journal (experiment, kind, position) "
    f"WHERE kind > {LAST_BY_EVENT}",
    "CREATE TABLE IF NOT EXISTS tightrope_snapshot (experiment text NOT NULL, position bigint NOT NULL, time bigint NOT NULL, "
    "digest text NOT NULL, label text, state bytea NOT NULL, PRIMARY KEY (experiment, position))",
    "CREATE TABLE IF NOT EXISTS tightrope_probe (experiment text PRIMARY KEY, count bigint NOT NULL)",
    # Who writes: see `lease`.
    "CREATE TABLE IF NOT EXISTS tightrope_lease (experiment text PRIMARY KEY, term bigint NOT NULL DEFAULT 0, "
    "beat bigint NOT NULL DEFAULT 0, holder text, pid integer, connected timestamptz)",
    f"INSERT INTO tightrope_format SELECT {FORMAT} WHERE NOT EXISTS (SELECT FROM tightrope_format)",
)


def make_tables(connection: Connection) -> None:
    """Make what is not there yet. Two processes that start at once would make the same tables: one waits for the other."""
    # In one message, so that a process that stops in the middle keeps no one waiting.
    turn = "SELECT pg_advisory_xact_lock(hashtext('tightrope schema'))"
    connection.execute(
        "; ".join(("BEGIN", "SET LOCAL client_min_messages = warning", turn, *_TABLES, "COMMIT"))
    )
    require_format(connection)


def require_format(connection: Connection) -> None:
    """Refuse a journal that this release can't read."""
    found = connection.execute("SELECT version FROM tightrope_format").fetchall()
    if found != [(FORMAT,)]:
        raise JournalDamaged(
            f"the database holds version {found!r} of the journal's format; this release reads version {FORMAT}."
        )
