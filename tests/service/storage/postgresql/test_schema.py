"""Who may do what in the database: a service whose role can't change its journal, and one that owns its tables."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tightrope.errors import InvalidInput
from tightrope.service.http import handlers
from tightrope.service.journal import JournalError, chain
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.replay import open_journal, verify
from tightrope.service.requests import ErasureRequest
from tightrope.service.storage import journals_at, migrate
from workbench import Bench, read, visit, ward

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tightrope[postgres]'")

from faults.database import Server  # noqa: E402
from tightrope.service.storage.postgresql import PostgresJournal  # noqa: E402
from tightrope.service.storage.postgresql.connection import Connection, connect  # noqa: E402

TABLES = ("format", "journal", "snapshot", "probe", "lease")


@pytest.fixture
def schema(database: Server, request: pytest.FixtureRequest) -> Any:
    """A database of its own, and the addresses of its owner, of a service, and of a stranger."""
    name = f"roles_{abs(hash(request.node.name)):x}"
    database.execute(f"CREATE DATABASE {name}")
    for role in ("owner", "stranger"):
        database.execute(f"CREATE ROLE {name}_{role} LOGIN {'CREATEROLE' if role == 'owner' else ''}")
    database.execute(f"ALTER DATABASE {name} OWNER TO {name}_owner")

    def url(role: str) -> str:
        return f"postgresql://{name}_{role}:pass-of-{role}@127.0.0.1:{database.port}/{name}"

    return url


def tried(url: str, statement: str) -> str:
    """What the database says to a statement of this role; empty where it was done."""
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            connection.execute(statement)
        except psycopg.Error as error:
            return str(error).partition("\n")[0]
    return ""


def served(url: str, name: str = "roles") -> Bench:
    bench = Bench(ward(name), PostgresJournal(url, name), snapshot_every=10)
    for i in range(15):
        bench.decide(visit(i))
        bench.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.25})
    return bench


def test_the_services_role_appends_and_neither_changes_nor_deletes(schema: Any, caplog: Any) -> None:
    assert migrate(schema("owner"), schema("service")).endswith("_service")
    with caplog.at_level(logging.WARNING, "tightrope.service"):
        bench = served(schema("service"))
    assert "may change journal rows" not in caplog.text
    assert bench.state()["decisions"] == 15
    bench.experiment.close()
    tried(
        schema("service"), "GRANT ALL ON tightrope_journal TO CURRENT_USER"
    )  # a warning, and nothing granted
    for statement in (
        "UPDATE tightrope_journal SET data = data",
        "DELETE FROM tightrope_journal",
        "TRUNCATE tightrope_journal",
        "DROP TABLE tightrope_journal",
        "ALTER TABLE tightrope_journal DISABLE TRIGGER ALL",
        "UPDATE tightrope_format SET version = 0",
        "DELETE FROM tightrope_lease",
        "CREATE OR REPLACE FUNCTION tightrope_erase(text, bigint, bigint[]) RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
    ):
        told = tried(schema("service"), statement)
        assert "permission denied" in told or "must be owner" in told, (statement, told)
    for table in TABLES:
        assert "permission denied" in tried(schema("stranger"), f"SELECT FROM tightrope_{table}")
    assert "permission denied" in tried(schema("stranger"), "SELECT tightrope_erase('roles', 1, '{1}')")
    # All that it needs is there: a restart, a replay, an erasure.
    journal = open_journal(schema("service"), "roles")
    assert verify(journal).decisions == 15
    journal.close()


def test_an_erasure_with_a_role_that_may_not_change_rows(schema: Any) -> None:
    migrate(schema("owner"), schema("service"))
    bench = served(schema("service"))
    before = {row.position: row for row in bench.journal.rows()}
    answer = bench.ask(handlers.erase, ErasureRequest(event_ids=["visit-3"]))
    assert answer.status == 200, answer.body
    assert read(answer)["entries"] >= 2
    after = {row.position: row for row in bench.journal.rows()}
    gone = [at for at in before if after[at] != before[at]]
    assert {entry_of(before[at]).event_id for at in gone} == {"visit-3"}
    # By the same formula as everywhere else.
    assert all(after[at] == before[at]._replace(data=chain.erase(before[at].data)) for at in gone)
    assert verify(bench.journal).erased == len(gone)
    bench.experiment.close()


@pytest.mark.parametrize("size", [0, 1, 200, 255, 256, 300, 65_535, 65_536, 70_000])
def test_the_databases_formula_for_erasure_is_the_chains(schema: Any, size: int) -> None:
    """Lengths on both sides of where MessagePack writes them otherwise, in the open part and in the sealed one."""
    migrate(schema("owner"), schema("service"))
    whole = [
        chain.seal(chain.GENESIS, b"o" * size, b"private")[0],
        chain.seal(chain.GENESIS, b"open", b"p" * max(1, size))[0],
        chain.seal(chain.GENESIS, b"o" * size, b"")[0],
    ]
    whole.append(chain.erase(whole[0]))
    with psycopg.connect(schema("owner"), autocommit=True) as owner:
        owner.execute("INSERT INTO tightrope_lease VALUES ('e', 7)")
        for i, data in enumerate(whole):
            owner.execute("INSERT INTO tightrope_journal VALUES ('e', %s, 0, 1, NULL, %s)", (i, data))
    with psycopg.connect(schema("service"), autocommit=True) as service:
        erase = "SELECT tightrope_erase('e', %s, '{0,1,2,3,9}')"
        assert service.execute(erase, (6,)).fetchone() == (-1,)
        found = service.execute("SELECT data FROM tightrope_journal ORDER BY position").fetchall()
        assert [bytes(data) for (data,) in found] == whole
        assert service.execute(erase, (7,)).fetchone() == (4,)
        found = service.execute("SELECT data FROM tightrope_journal ORDER BY position").fetchall()
    assert [bytes(data) for (data,) in found] == [chain.erase(data) for data in whole]


def test_a_service_that_owns_its_tables_works_and_says_so(schema: Any, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "tightrope.service"):
        bench = served(schema("owner"))
    assert "may change journal rows; `tightrope migrate`" in caplog.text
    assert bench.ask(handlers.erase, ErasureRequest(event_ids=["visit-3"])).status == 200
    assert verify(bench.journal).erased > 0
    bench.experiment.close()


def test_tables_that_the_service_made_itself_are_taken_over(schema: Any, database: Server) -> None:
    migrate(schema("owner"), schema("service"))
    for table in TABLES:
        database.execute("SELECT 1")
        with psycopg.connect(schema("owner"), autocommit=True) as owner:
            owner.execute(f"DROP TABLE tightrope_{table}")
    with psycopg.connect(schema("owner"), autocommit=True) as owner:
        owner.execute("DROP FUNCTION tightrope_erase")
        name = schema("service").split("://")[1].split(":")[0]
        owner.execute(f"GRANT CREATE ON SCHEMA public TO {name}")
        owner.execute(f"GRANT {name} TO CURRENT_USER")
    served(schema("service")).experiment.close()
    assert tried(schema("service"), "UPDATE tightrope_journal SET data = data") == ""
    with psycopg.connect(schema("owner"), autocommit=True) as owner:
        owner.execute(f"REVOKE CREATE ON SCHEMA public FROM {name}")
    migrate(schema("owner"), schema("service"))
    assert "permission denied" in tried(schema("service"), "UPDATE tightrope_journal SET data = data")
    journal = open_journal(schema("service"), "roles")
    assert verify(journal).decisions == 15
    journal.close()


def test_what_migrate_refuses(schema: Any) -> None:
    with pytest.raises(InvalidInput, match="must have different roles, but both have"):
        migrate(schema("owner"), schema("owner"))
    with pytest.raises(InvalidInput, match="must name its role"):
        migrate(schema("owner"), "postgresql://127.0.0.1/x")
    with pytest.raises(InvalidInput, match="but got sqlite:…, which needs no migration"):
        migrate("sqlite:data", schema("service"))
    with pytest.raises(JournalError) as told:
        migrate(schema("stranger"), schema("service"))
    assert "pass-of" not in str(told.value)


def test_without_tables_the_service_says_what_to_run(schema: Any) -> None:
    with pytest.raises(JournalError, match="run `tightrope migrate` with the role that should own them"):
        PostgresJournal(schema("stranger"), "roles").open()


def test_the_server_is_never_told_the_password(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements may be logged there."""
    told, execute = [], Connection.execute

    def noted(self: Connection, query: Any, *more: Any, **options: Any) -> Any:
        told.append(query if isinstance(query, str) else query.as_string(self))
        return execute(self, query, *more, **options)

    monkeypatch.setattr(Connection, "execute", noted)
    migrate(schema("owner"), schema("service"))
    assert any("SCRAM-SHA-256$" in one for one in told)
    assert not any("pass-of-service" in one for one in told)


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("postgresql://me@db.example.org/tightrope", True),
        ("postgresql://me@db.example.org/tightrope?sslmode=require", True),
        ("postgresql://me@db.example.org/tightrope?sslmode=verify-full", False),
        ("postgresql://me@127.0.0.1/tightrope", False),
        ("postgresql://me@127.0.0.1,db.example.org/tightrope", True),
        ("postgresql://me@/tightrope?host=/var/run/postgresql", False),
    ],
)
def test_a_server_elsewhere_must_show_who_it_is(
    url: str, warned: bool, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    with caplog.at_level(logging.WARNING, "tightrope.service"):
        journals_at(url, ["ward"])
    assert ("sslmode=verify-full" in caplog.text) == warned


def test_what_the_address_says_of_tls_is_passed_on(database: Server) -> None:
    """The server of the tests speaks no TLS, so an address that asks for it is refused by libpq itself."""
    with pytest.raises(JournalError, match="server does not support SSL"):
        connect(f"{database.url}?sslmode=verify-full")
