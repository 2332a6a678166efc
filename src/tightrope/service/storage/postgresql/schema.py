"""The tables of all experiments in a PostgreSQL database, and who may do what with them.

`make_tables` makes them where they are missing: the role that does so owns them, and may do anything. `migrate` makes them for a
service with a role of its own, which may read and append to journals but neither change nor delete what is in them. What erasure
needs it has as a function of the owner's, `tightrope_erase`: that takes the sealed part out of rows, by the same formula as
`chain.erase`, and can do nothing else to them.
"""

from __future__ import annotations

import logging
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tightrope.errors import InvalidInput
from tightrope.service.journal import JournalDamaged, JournalError
from tightrope.service.journal.entries import FORMAT, LAST_BY_EVENT
from tightrope.service.storage.postgresql.connection import Connection, connect, failure

log = logging.getLogger("tightrope.service")

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

# What is left of a row (MessagePack: link, open part, salt, sealed part) is link, open part, SHA-256 of salt and sealed part. What
# has no sealed part, or none any more, stays as it is. The caller names rows and nothing else.
_ERASE: Final = """
CREATE OR REPLACE FUNCTION tightrope_erase(of_experiment text, in_term bigint, positions bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $erase$
DECLARE
  old bytea; at integer; size integer; sealed integer; one bigint; done bigint := 0;
BEGIN
  PERFORM FROM tightrope_lease WHERE experiment = of_experiment AND term = in_term FOR KEY SHARE;
  IF NOT FOUND THEN
    RETURN -1;
  END IF;
  FOREACH one IN ARRAY positions LOOP
    SELECT data INTO old FROM tightrope_journal WHERE experiment = of_experiment AND position = one FOR UPDATE;
    IF NOT FOUND THEN
      CONTINUE;
    END IF;
    done := done + 1;
    IF get_byte(old, 0) <> 148 THEN
      CONTINUE;
    END IF;
    at := 1;
    FOR part IN 1..4 LOOP
      CASE get_byte(old, at)
        WHEN 196 THEN size := get_byte(old, at + 1); at := at + 2;
        WHEN 197 THEN size := get_byte(old, at + 1) * 256 + get_byte(old, at + 2); at := at + 3;
        WHEN 198 THEN
          size := get_byte(old, at + 1) * 16777216 + get_byte(old, at + 2) * 65536 + get_byte(old, at + 3) * 256
            + get_byte(old, at + 4);
          at := at + 5;
        ELSE RAISE EXCEPTION 'row % is no entry of a journal', one;
      END CASE;
      -- Where the open part ends, and where salt and sealed part begin.
      IF part = 2 THEN
        sealed := at + size;
      ELSIF part = 3 AND size <> 16 THEN
        RAISE EXCEPTION 'row % is no entry of a journal', one;
      END IF;
      IF part < 4 THEN
        at := at + size;
      END IF;
    END LOOP;
    IF at + size <> length(old) THEN
      RAISE EXCEPTION 'row % is no entry of a journal', one;
    END IF;
    UPDATE tightrope_journal SET data = decode('93', 'hex') || substring(old FROM 2 FOR sealed - 1) || decode('c420', 'hex')
      || sha256(substring(old FROM sealed + 3 FOR 16) || substring(old FROM at + 1))
      WHERE experiment = of_experiment AND position = one;
  END LOOP;
  RETURN done;
END $erase$"""

# What the service's role may do. It appends to journals, it never changes or deletes a row; snapshots can be made again from them.
_RIGHTS: Final = {
    "tightrope_format": "SELECT",
    "tightrope_journal": "SELECT, INSERT",
    "tightrope_snapshot": "SELECT, INSERT, UPDATE, DELETE",
    "tightrope_probe": "SELECT, INSERT, UPDATE",
    "tightrope_lease": "SELECT, INSERT, UPDATE",
}
_FUNCTION: Final = "tightrope_erase(text, bigint, bigint[])"
# What an erasure vacuums, if the role may: from this version of PostgreSQL on one that is not the owner can be allowed to.
_VACUUMED: Final = ("tightrope_journal", "tightrope_snapshot")
_MAINTAIN_SINCE: Final = 170_000


def make_tables(connection: Connection) -> None:
    """Make what is not there yet, one process after the other, and say so where the role may do more than it needs to."""
    try:
        if not _are_there(connection):
            _make(connection)
    except psycopg.errors.InsufficientPrivilege:
        raise JournalError(
            "PostgreSQL: the tables are missing, and this role may not make them: run `tightrope migrate` with the role that "
            "shall own them (docs/containers.md)."
        ) from None
    require_format(connection)
    may_change = "SELECT has_table_privilege('tightrope_journal', 'UPDATE, DELETE, TRUNCATE')"
    if connection.execute(may_change).fetchone() == (True,):
        log.warning(
            "the database's role may change journal rows: `tightrope migrate` makes one for the service that may not"
        )


def migrate(url: str, service: str) -> str:
    """Make the tables as the role of `url`, which owns them from then on, and let the role of the address `service` use them.

    That role is made where it is missing, with the password of the address. Returns its name. It may be run again at any time.
    """
    try:
        stated = conninfo_to_dict(service)
    except psycopg.Error as error:
        raise failure(service, error) from None
    role, password = stated.get("user"), stated.get("password")
    if not role:
        raise InvalidInput("service must name its role, postgresql://ROLE@HOST/DATABASE, but it names none.")
    connection = connect(url)
    try:
        if connection.info.user == role:
            raise InvalidInput(
                f"database and service must have different roles, but both have {role!r}: who owns the tables can change them."
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
    """Whether tables and function are there; who may not make them need not try."""
    asked = [f"to_regclass('{table}') IS NOT NULL" for table in _RIGHTS]
    query = f"SELECT {' AND '.join(asked)} AND to_regprocedure('{_FUNCTION}') IS NOT NULL"
    return connection.execute(query).fetchone() == (True,)


def _make(connection: Connection, *, commits: bool = True) -> None:
    [(schema,)] = connection.execute("SELECT quote_ident(current_schema())").fetchall()
    statements = [
        "SET LOCAL client_min_messages = warning",
        "SELECT pg_advisory_xact_lock(hashtext('tightrope schema'))",
        *_TABLES,
        _ERASE.format(schema=schema),
        f"REVOKE ALL ON FUNCTION {_FUNCTION} FROM PUBLIC",
    ]
    # In one message, so that a process that stops in the middle keeps no one waiting.
    connection.execute("; ".join(["BEGIN", *statements, "COMMIT"] if commits else statements))


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
    """Take over tables that the service's role made itself, in an earlier life with one role."""
    query = "SELECT relname FROM pg_class WHERE oid = to_regclass(%s) AND relowner <> current_user::regrole"
    for table in _RIGHTS:
        if connection.execute(query, (table,)).fetchone() is not None:
            connection.execute(f"ALTER TABLE {table} OWNER TO CURRENT_USER")
    function = "SELECT FROM pg_proc WHERE oid = to_regprocedure(%s) AND proowner <> current_user::regrole"
    if connection.execute(function, (_FUNCTION,)).fetchone() is not None:
        connection.execute(f"ALTER FUNCTION {_FUNCTION} OWNER TO CURRENT_USER")


def _grant(connection: Connection, role: str) -> None:
    who = sql.Identifier(role)
    [(schema,)] = connection.execute("SELECT current_schema()").fetchall()
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), who))
    for table, rights in _RIGHTS.items():
        name = sql.Identifier(table)
        connection.execute(sql.SQL("REVOKE ALL ON {} FROM PUBLIC, {}").format(name, who))
        connection.execute(sql.SQL("GRANT {} ON {} TO {}").format(sql.SQL(rights), name, who))
        if connection.info.server_version >= _MAINTAIN_SINCE and table in _VACUUMED:
            connection.execute(sql.SQL("GRANT MAINTAIN ON {} TO {}").format(name, who))
    connection.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(sql.SQL(_FUNCTION), who))
