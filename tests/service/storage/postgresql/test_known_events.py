"""The database is asked about an event unless it is new for certain."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightrope.service.journal.entries import KINDS, Decided
from tightrope.service.journal.rows import Row
from tightrope.service.storage.postgresql.journal import KnownEvents

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tightrope[postgres]'")

from faults.database import Server
from tightrope.service.storage.postgresql import PostgresJournal
from tightrope.service.storage.postgresql import connection as connections
from waiting import PATIENCE


@given(st.lists(st.text(max_size=12), max_size=30))
def test_what_was_noted_is_never_taken_for_new(events: list[str]) -> None:
    known = KNOWN
    known.note(events)
    assert all(known.may_hold(one) for one in events)


KNOWN = KnownEvents()


def test_what_was_not_noted_is_nearly_always_known_to_be_new() -> None:
    known = KnownEvents()
    known.note(f"visit-{i}" for i in range(20_000))
    assert sum(known.may_hold(f"other-{i}") for i in range(20_000)) < 5


def decided(positions: Sequence[int]) -> list[Row]:
    return [Row(one, 0, KINDS[Decided], f"visit-{one}", b"x") for one in positions]


def test_all_of_the_journal_is_known_after_every_start(
    database: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    call = connections.Connection.call

    def noted(
        self: connections.Connection, statement: connections.Statement, values: Sequence[bytes | None]
    ) -> object:
        asked.append(statement.name)
        return call(self, statement, values)

    monkeypatch.setattr(connections.Connection, "call", noted)
    last = 0
    # More than one page; then nothing at all.
    for rows in (4500, 3):
        journal = PostgresJournal(database.url, "known")
        until = time.monotonic() + PATIENCE
        while not journal.open():
            assert time.monotonic() < until
        assert [row.event_id for row in journal.find([f"visit-{last}", "new"])] == [f"visit-{last}"] * bool(
            last
        )
        while not (journal._known and journal._known.complete):
            assert time.monotonic() < until
            time.sleep(0.01)
        every = [f"visit-{i}" for i in range(1, last + 1)]
        assert [row.event_id for row in journal.find(every)] == every
        asked.clear()
        assert journal.find(["new", "newer"]) == []
        assert asked == []
        journal.append(decided(range(last + 1, last + rows + 1)))
        last += rows
        assert [row.position for row in journal.find([f"visit-{last}", "new"])] == [last]
        journal.close()
