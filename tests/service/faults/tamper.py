"""A journal that someone with access to its storage has changed: rows deleted, forged, edited or moved, snapshots replaced."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from tightrope.service.experiment import Experiment
from tightrope.service.journal import JournalDamaged, JournalError
from tightrope.service.journal.audit import audit
from tightrope.service.journal.chain import GENESIS
from tightrope.service.journal.contract import Journal, Snapshot
from tightrope.service.journal.entries import Learnt
from tightrope.service.journal.heads import keep_head
from tightrope.service.journal.packing import digest_of
from tightrope.service.journal.rows import Row, chained, entry_of
from tightrope.service.storage.sqlite import SqliteJournal
from workbench import Bench, arms, read

Content = tuple[list[Row], list[Snapshot]]


def tail(rows: list[Row], snapshots: list[Snapshot], chance: random.Random) -> Content:
    left = rows[: -chance.randint(1, 20)]
    return left, [one for one in snapshots if one.position <= len(left)]


def emptied(rows: list[Row], snapshots: list[Snapshot], chance: random.Random) -> Content:
    return [], []


def forged(rows: list[Row], snapshots: list[Snapshot], chance: random.Random) -> Content:
    """Another last reward, in a chain that holds and ends there: nothing in the storage speaks against it."""
    at = max(i for i, row in enumerate(rows) if isinstance(entry_of(row), Learnt))
    head, made = GENESIS, []
    for i, row in enumerate(rows[: at + 1]):
        entry: Any = entry_of(row)
        if i == at:
            entry.reward = 1.0
        one, head = chained(row.position, row.time, entry, head)
        made.append(one)
    return made, [one for one in snapshots if one.position < rows[at].position]


def _edited(rows: list[Row], chance: random.Random, **changes: Any) -> list[Row]:
    at = chance.randrange(1, len(rows))
    return [*rows[:at], rows[at]._replace(**changes), *rows[at + 1 :]]


def kind(rows: list[Row], snapshots: list[Snapshot], chance: random.Random) -> Content:
    return _edited(rows, chance, kind=13), snapshots


def event_id(rows: list[Row], snapshots: list[Snapshot], chance: random.Random) -> Content:
    return _edited(rows, chance, event_id="somebody else"), snapshots


def moved_in_time(rows: list[Row], snapshots: list[Snapshot], chance: random.Random) -> Content:
    return _edited(rows, chance, time=1), snapshots


def data_of_another(rows: list[Row], snapshots: list[Snapshot], chance: random.Random) -> Content:
    return _edited(rows, chance, data=rows[0].data), snapshots


def a_row_less(rows: list[Row], snapshots: list[Snapshot], chance: random.Random) -> Content:
    at = chance.randrange(len(rows) - 1)
    return rows[:at] + rows[at + 1 :], snapshots


def another_snapshot(rows: list[Row], snapshots: list[Snapshot], chance: random.Random) -> Content:
    at = chance.randrange(len(snapshots))
    state = snapshots[at].state[:-1] + b"\x00"
    other = snapshots[at]._replace(state=state, digest=digest_of(state))
    return rows, [*snapshots[:at], other, *snapshots[at + 1 :]]


ATTACKS: tuple[Callable[[list[Row], list[Snapshot], random.Random], Content], ...] = (
    *(tail, emptied, forged, kind, event_id, moved_in_time, data_of_another, a_row_less, another_snapshot),
)
# Those that leave a journal which is sound in itself: the head outside it is all that speaks against them.
SOUND = (tail, emptied, forged)


class Sqlite:
    """Journals in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def journal(self, name: str) -> Journal:
        return SqliteJournal(self.folder / f"{name}.sqlite")

    def rewrite(self, name: str, rows: Sequence[Row], snapshots: Sequence[Snapshot]) -> None:
        with closing(apsw.Connection(str(self.folder / f"{name}.sqlite"))) as connection:
            connection.execute("DELETE FROM journal; DELETE FROM snapshot")
            connection.executemany("INSERT INTO journal VALUES (?, ?, ?, ?, ?)", rows)
            connection.executemany("INSERT INTO snapshot VALUES (?, ?, ?, ?, ?)", snapshots)

    def forget_head(self, name: str) -> None:
        (self.folder / f"{name}.head").unlink()


class Postgres:
    """Journals in a database, with their heads in a folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def journal(self, name: str) -> Journal:
        from tightrope.service.storage.postgresql import PostgresJournal

        journal = PostgresJournal(self.url, name)
        keep_head(journal, self.folder)
        return journal

    def rewrite(self, name: str, rows: Sequence[Row], snapshots: Sequence[Snapshot]) -> None:
        import psycopg

        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            for table, columns, content in (
                ("tightrope_journal", "position, time, kind, event_id, data", rows),
                ("tightrope_snapshot", "position, time, digest, label, state", snapshots),
            ):
                cursor.execute(f"DELETE FROM {table} WHERE experiment = %s", (name,))
                into = f"INSERT INTO {table} (experiment, {columns}) VALUES (%s, %s, %s, %s, %s, %s)"
                cursor.executemany(into, [(name, *one) for one in content])

    def forget_head(self, name: str) -> None:
        for file in self.folder.glob(f"{name}.*"):
            file.unlink()


def tampered(
    place: Sqlite | Postgres, name: str, attack: Any, chance: random.Random, *, head: bool = True
) -> str | None:
    """Write a journal, change it, and start on it: what went unnoticed, in words; None if it was noticed.

    `head` False: as before there were heads and audits, which is the control.
    """
    journal = place.journal(name)
    bench = Bench(arms(name), journal, snapshot_every=chance.randint(10, 40))
    for i in range(30):
        read(bench.decide({"event_id": f"e{i}"}))
        read(bench.learn(f"e{i}", reward=0.25))
    if chance.random() < 0.5:
        bench.experiment.close()
    else:
        bench.experiment._heads.close()
        journal.close()
    source = place.journal(name)
    source.open()
    rows = list(source.rows())
    snapshots = [saved for one in source.snapshots() if (saved := source.snapshot(one.position))]
    source.close()
    place.rewrite(name, *attack(rows, snapshots, chance))
    if not head:
        place.forget_head(name)
    experiment = Experiment(arms(name), place.journal(name), clock=lambda: bench.now)
    try:
        experiment.open()
        reader = experiment.journal.reader()
        if head and reader is not None:
            with closing(reader):
                reader.open()
                audit(reader)
    except (JournalDamaged, JournalError):
        return None
    finally:
        experiment.close()
    return f"{attack.__name__} on {type(place).__name__}, {name}: nothing was noticed"
