"""The head of a journal in a database, on the machine of each replica: what the database loses or changes is noticed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tightrope.cli.app import app
from tightrope.service.experiment import Experiment
from tightrope.service.http.app import Service
from tightrope.service.http.server import make_service
from tightrope.service.journal import JournalDamaged
from tightrope.service.journal.entries import Learnt
from tightrope.service.journal.rows import entry_of, hash_of, row_of
from workbench import Bench, arms, read

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tightrope[postgres]'")

from faults.database import Server  # noqa: E402
from tightrope.service.storage.postgresql import PostgresJournal  # noqa: E402

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of this replica's user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "tightrope" / "heads"


def start(database: Server, name: str, **options: Any) -> Service:
    return make_service([arms(name)], database=database.url, **options)


def play(service: Service, first: int, last: int) -> None:
    [experiment] = service.experiments.values()
    bench = Bench.__new__(Bench)
    bench.experiment = experiment
    for i in range(first, last):
        read(bench.decide({"event_id": f"e{i}"}))
        read(bench.learn(f"e{i}", reward=0.25))


def stop(service: Service) -> None:
    for experiment in service.experiments.values():
        experiment.close()


def execute(database: Server, *statements: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        for one in statements:
            connection.execute(one)


def delete_tail(database: Server, name: str) -> None:
    last = f"(SELECT max(position) FROM tightrope_journal WHERE experiment = '{name}')"
    execute(
        database,
        f"DELETE FROM tightrope_snapshot WHERE experiment = '{name}'",
        f"DELETE FROM tightrope_journal WHERE experiment = '{name}' AND position > {last} - 20",
    )


def forge_last_reward(database: Server, name: str) -> None:
    """The last reward becomes 1, in a row that follows the one before it as a row of this program does."""
    execute(database, f"DELETE FROM tightrope_snapshot WHERE experiment = '{name}'")
    journal = PostgresJournal(database.url, name, read_only=True)
    journal.open()
    rows = list(journal.rows())
    journal.close()
    [*_, at] = [i for i, row in enumerate(rows) if isinstance(entry_of(row), Learnt)]
    before = None
    for row in rows[:at]:
        before = hash_of(row, before)
    entry = entry_of(rows[at])
    assert isinstance(entry, Learnt)
    entry.reward = 1.0
    forged = row_of(rows[at].position, rows[at].time, entry, before or b"")
    with psycopg.connect(database.url, autocommit=True) as connection:
        gone = "DELETE FROM tightrope_journal WHERE experiment = %s AND position > %s"
        connection.execute(gone, (name, forged.position))
        change = "UPDATE tightrope_journal SET data = %s WHERE experiment = %s AND position = %s"
        connection.execute(change, (forged.data, name, forged.position))


def empty_tables(database: Server, name: str) -> None:
    execute(database, f"DELETE FROM tightrope_snapshot WHERE experiment = '{name}'")
    execute(database, f"DELETE FROM tightrope_journal WHERE experiment = '{name}'")


ATTACKS: dict[str, Callable[[Server, str], None]] = {
    "tail": delete_tail,
    "reward": forge_last_reward,
    "tables": empty_tables,
}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_the_database_lost_or_changed_stops_the_start(attack: str, database: Server) -> None:
    name = f"stops {attack}"
    service = start(database, name)
    play(service, 0, 30)
    # Killed: the last row is an outcome.
    [experiment] = service.experiments.values()
    experiment.journal.close()
    ATTACKS[attack](database, name)
    with pytest.raises(JournalDamaged, match=r"(knows of row|is not the one that).*--accept-restored"):
        start(database, name)
    with pytest.raises(JournalDamaged, match=r"knows of row|is not the one that"):
        app(["replay", database.url, "--experiment", name])
    # With the option it goes on, and knows the new end from then on.
    stop(start(database, name, accept_restored=True))
    stop(start(database, name))


def test_the_control_without_a_head_nothing_is_noticed(database: Server, tmp_path: Path) -> None:
    for attack, change in ATTACKS.items():
        name = f"control {attack}"
        service = start(database, name)
        play(service, 0, 15)
        [experiment] = service.experiments.values()
        experiment.journal.close()
        change(database, name)
        stop(start(database, name, heads=tmp_path / "another machine" / attack))


def test_a_new_replica_is_accepted_and_it_is_logged(
    database: Server, machine: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = start(database, "new replica")
    play(service, 0, 5)
    stop(service)
    [file] = machine.iterdir()
    assert file.name.startswith("new%20.replica.")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        stop(start(database, "new replica", heads=tmp_path / "second"))
    assert "is missing, as on a new replica" in caplog.text
    [other] = (tmp_path / "second").iterdir()
    assert other.name == file.name
    caplog.clear()
    stop(start(database, "new replica", heads=tmp_path / "second"))
    assert "is missing" not in caplog.text


def test_a_folder_that_can_not_be_written_is_said(
    database: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    service = start(database, "no folder", heads=tmp_path / "file")
    assert "no head of the journal can be kept" in caplog.text
    play(service, 0, 2)
    stop(service)


@pytest.fixture
def pair(database: Server, tmp_path: Path) -> Iterator[tuple[Experiment, Experiment]]:
    """One that writes and one that stands by, each on a machine of its own."""
    services = [start(database, "pair of heads", heads=tmp_path / which) for which in ("one", "other")]
    [active], [standby] = (service.experiments.values() for service in services)
    yield active, standby
    standby.close()
    active.journal.close()


@pytest.mark.usefixtures("quiet")
def test_a_standby_knows_what_it_saw_and_does_not_take_over_less(
    pair: tuple[Experiment, Experiment], database: Server
) -> None:
    active, standby = pair
    assert (active.status, standby.status) == ("ready", "standby")
    bench = Bench.__new__(Bench)
    bench.experiment = active
    for i in range(30):
        read(bench.decide({"event_id": f"e{i}"}))
    standby._next_comparison = 0.0
    standby.process([])
    assert standby._heads.known is not None
    assert standby._heads.known.position == active.journal.last()
    delete_tail(database, "pair of heads")
    standby._next_comparison = 0.0
    standby.process([])
    assert standby.status == "differs"
    assert "20 acknowledged entries are lost" in standby.trouble
    active.journal.close()
    for _ in range(3):
        standby._next_comparison = 0.0
        assert standby.process([]) == []
    assert standby.status != "ready"


def test_heads_of_two_databases_do_not_meet() -> None:
    urls = ("postgresql://a@one/x", "postgresql://b@one/x", "postgresql://a@two/x", "postgresql://a@one/y")
    places = [PostgresJournal(url, "ward").place for url in urls]
    assert places[0] == places[1], "the role does not matter"
    assert len({*places}) == 3
