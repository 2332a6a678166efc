"""The tables of all experiments in a PostgreSQL database, and who may do what with them.

`make_tables` creates missing ones: the role that does so owns them, and may do anything. `migrate` creates them for a service with
its own role, which may read and append to journals but not change or delete their content. For erasure it has the owner's function
`tightrope_erase`, which removes the sealed part of rows, by the same formula as `chain.erase`, and can do nothing else to them.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tightrope.errors import InvalidInput
from tightrope.service.journal import JournalDamaged, JournalError
from tightrope.service.journal.entries import FORMAT, LAST_BY_EVENT
from tightrope.service.storage.postgresql.connection import Connection, connect, failure

log = logging.getLogger("tightrope.service")

_SCHEMA: Final = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
_RIGHTS: Final = Path(__file__).with_name("rights.sql").read_text(encoding="utf-8")
_TABLES: Final = [f"tightrope_{name}" for name in ("format", "journal", "snapshot", "probe", "lease")]
_FUNCTION: Final = "tightrope_erase(text, bigint, bigint[])"


def make_tables(connection: Connection) -> None:
    """Create what is missing, one process at a time, and warn if the role may do more than it needs to."""
    try:
        if not _are_there(connection):
            _make(connection)
    except psycopg.errors.InsufficientPrivilege:
        raise JournalError(
            "PostgreSQL: the tables are missing, and this role may not create them: run `tightrope migrate` with the role that "
            "should own them (docs/containers.md)."
        ) from None
    require_format(connection)
    may_change = "SELECT has_table_privilege('tightrope_journal', 'UPDATE, DELETE, TRUNCATE')"
    if connection.execute(may_change).fetchone() == (True,):
        log.warning(
            "the service's database role may change journal rows; `tightrope migrate` creates one that may not"
        )


def migrate(url: str, service: str) -> str:
    """Make the tables as the role of `url`, which owns them from then on, and let the role of the address `service` use them.

    That role is created if it is missing, with the password of the address. Returns its name. It may be run again at any time.
    """
    try:
        stated = conninfo_to_dict(service)
    except psycopg.Error as error:
        raise failure(service, error) from None
    role, password = stated.get("user"), stated.get("password")
    if not role:
        must = "name its role, postgresql://ROLE@HOST/DATABASE, but it names none"
        raise InvalidInput(field="service", must=must)
    connection = connect(url)
    try:
        if connection.info.user == role:
            raise InvalidInput(
                f"database and service must have different roles, but both have {role!r}: the owner of the tables can change them."
            )
        with connection.transaction():
            connection.execute("SET LOCAL client_min_messages = warning")
            _make_role(connection, str(role), None if password is None else str(password))
            _own(connection)
            _make(connection, commits=False)
            _grant(connection, str(role))
        require_format(connection)
    except psycopg.Error as error:
        raise failure(url, error) from None
    finally:
        connection.close()
    return str(role)


def require_format(connection: Connection) -> None:
    """Refuse a journal that this release can't read."""
    found = connection.execute("SELECT version FROM tightrope_format").fetchall()
    if found != [(FORMAT,)]:
        raise JournalDamaged(
            f"the database holds version {found!r} of the journal's format; this release reads version {FORMAT}."
        )


def _are_there(connection: Connection) -> bool:
    """Whether tables and function exist, so that a role that may not create them need not try."""
    asked = [f"to_regclass('{table}') IS NOT NULL" for table in _TABLES]
    query = f"SELECT {' AND '.join(asked)} AND to_regprocedure('{_FUNCTION}') IS NOT NULL"
    return connection.execute(query).fetchone() == (True,)


def _make(connection: Connection, *, commits: bool = True) -> None:
    [(schema,)] = connection.execute("SELECT quote_ident(current_schema())").fetchall()
    made = _SCHEMA.format(schema=schema, format=FORMAT, last_by_event=LAST_BY_EVENT)
    # In one message, so that a process that stops in the middle keeps nobody waiting.
    connection.execute(f"BEGIN; {made} COMMIT" if commits else made)


def _make_role(connection: Connection, role: str, password: str | None) -> None:
    if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is not None:
        return
    made = sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role))
    if password is not None:
        # As a verifier, so that no log of the server holds the password.
        verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
        made += sql.SQL(" PASSWORD {}").format(sql.Literal(verifier.decode()))
    connection.execute(made)


def _own(connection: Connection) -> None:
    """Take over tables that the service's role created itself, when there was only one role."""
    query = "SELECT relname FROM pg_class WHERE oid = to_regclass(%s) AND relowner <> current_user::regrole"
    for table in _TABLES:
        if connection.execute(query, (table,)).fetchone() is not None:
            connection.execute(f"ALTER TABLE {table} OWNER TO CURRENT_USER")
    function = "SELECT FROM pg_proc WHERE oid = to_regprocedure(%s) AND proowner <> current_user::regrole"
    if connection.execute(function, (_FUNCTION,)).fetchone() is not None:
        connection.execute(f"ALTER FUNCTION {_FUNCTION} OWNER TO CURRENT_USER")


def _grant(connection: Connection, role: str) -> None:
    quoted = "SELECT quote_ident(current_schema()), quote_ident(%s)"
    [(schema, who)] = connection.execute(quoted, (role,)).fetchall()
    connection.execute(_RIGHTS.format(schema=schema, role=who))
    if connection.info.server_version >= 170_000:
        # For the vacuum after an erasure: before this version only the owner may do that.
        connection.execute(f"GRANT MAINTAIN ON tightrope_journal, tightrope_snapshot TO {who}")
