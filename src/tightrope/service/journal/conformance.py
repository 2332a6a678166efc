"""What every storage must do, as tests for pytest: inherit, and define how a journal is made.

>>> from tightrope.service.storage.memory import MemoryJournal
>>> class TestMemory(JournalSuite):
...     durable = False
...
...     def make(self):
...         return MemoryJournal()
>>> TestMemory().test_rows_come_back_in_order()
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator
from typing import ClassVar

from tightrope.service.journal import JournalError
from tightrope.service.journal.contract import Journal, Snapshot
from tightrope.service.journal.entries import (
    KINDS,
    Blank,
    Decided,
    Expired,
    Learnt,
    ModeChanged,
    Refused,
    Written,
)
from tightrope.service.journal.rows import Row, entry_of, erased, row_of
from tightrope.service.requests import DecisionRequest


class JournalSuite:
    """Tests that every storage passes. Inherit it in a test module and define `make`.

    `make()` returns a journal that is not open. Within one test all share the same place, which is empty at first; with `durable`
    False each has its own, which disappears with the object. `make` takes no arguments. If it needs pytest's `tmp_path`, let a
    fixture of the class with ``autouse=True`` keep that in an attribute.
    """

    durable: ClassVar[bool] = True

    def make(self) -> Journal:
        """A journal on the test's place."""
        raise NotImplementedError("define make(self), which returns a journal that is not open")

    def test_a_reader_sees_what_was_appended(self) -> None:
        with self._opened() as journal:
            reader = journal.reader()
            if reader is None:
                return
            journal.append([_row(1)])
            assert reader.open()
            try:
                for position in range(2, 12):
                    journal.append([_row(position)])
                    assert reader.last() == position
                assert reader.find(["visit-5"]) == journal.find(["visit-5"])
                assert reader.select(KINDS.values()) == journal.select(KINDS.values())
            finally:
                reader.close()
            journal.append([_row(12)])
            assert journal.last() == 12

    def test_an_empty_journal_holds_nothing(self) -> None:
        with self._opened() as journal:
            assert (journal.last(), list(journal.rows()), journal.snapshots()) == (0, [], [])
            assert (journal.find(["visit-1"]), journal.snapshot(1), journal.select([1, 3])) == ([], None, [])

    def test_rows_come_back_in_order(self) -> None:
        with self._opened() as journal:
            rows = [_row(position) for position in range(1, 6001)]
            journal.append(rows[:1])
            journal.append(rows[1:])
            assert journal.last() == 6000
            assert list(journal.rows()) == rows
            assert list(journal.rows(after=5990)) == rows[5990:]

    def test_events_are_found_by_their_ids(self) -> None:
        with self._opened() as journal:
            odd = "a/b?c#d ä \u2028 'quoted' \\"
            learnt = Learnt(event_id="one", number=0, reward=0.5)
            entries: list[Written] = [_decided("one"), _decided(odd), learnt]
            entries.append(Refused(event_id="one", reason="differs", reward=0.25))
            rows = [row_of(i, 0, entry) for i, entry in enumerate(entries, 1)]
            journal.append(rows)
            assert journal.find(["nobody", "one"]) == [rows[0], rows[2]]
            assert journal.find([odd, "one"]) == rows[:3]

    def test_the_newest_rows_of_some_kinds_come_in_pages(self) -> None:
        with self._opened() as journal:
            rows = [_row(position) for position in range(1, 61)]
            journal.append(rows)
            for kinds in ([KINDS[Decided]], [KINDS[Refused]], [KINDS[Expired], KINDS[ModeChanged]]):
                expected = [row for row in reversed(rows) if row.kind in kinds]
                assert expected
                assert journal.select(kinds) == expected
                assert journal.select(kinds, limit=3) == expected[:3]
                assert journal.select(kinds, before=expected[2].position, limit=3) == expected[3:6]

    def test_an_append_is_kept_whole_or_not_at_all(self) -> None:
        with self._opened() as journal:
            rows = [_row(position) for position in range(1, 6)]
            journal.append(rows[:3], [_snapshot(3)])
            try:
                journal.append([rows[3], rows[2]], [_snapshot(4)], [3])
            except JournalError:
                _open(journal)
            else:
                raise AssertionError("an occupied position was overwritten")
            assert list(journal.rows()) == rows[:3]
            assert journal.snapshot(3) == _snapshot(3)
            assert journal.snapshot(4) is None
            journal.append(rows[3:])
            assert list(journal.rows()) == rows

    def test_snapshots_are_listed_without_their_states_and_dropped(self) -> None:
        with self._opened() as journal:
            taken = [_snapshot(1), _snapshot(2, "good"), _snapshot(3)]
            journal.append([_row(1), _row(2), _row(3)], taken)
            assert journal.snapshots() == [one.without_state for one in taken]
            assert journal.snapshot(2) == taken[1]
            journal.append([], [_snapshot(2)], [1])
            assert [(one.position, one.label) for one in journal.snapshots()] == [(2, None), (3, None)]

    def test_a_probe_leaves_no_trace(self) -> None:
        with self._opened() as journal:
            journal.append([_row(1)])
            journal.probe()
            assert list(journal.rows()) == [_row(1)]

    def test_what_was_appended_is_there_for_the_next_process(self) -> None:
        if self.durable:
            with self._opened() as journal:
                journal.append([_row(1), _row(2)], [_snapshot(2)])
            with self._opened() as again:
                assert list(again.rows()) == [_row(1), _row(2)]
                assert again.snapshot(2) == _snapshot(2)

    def test_what_is_overwritten_is_gone(self) -> None:
        rows = [_row(position) for position in range(1, 12)]
        with self._opened() as journal:
            journal.append(rows)
            try:
                journal.overwrite([erased(rows[4]), erased(rows[0])])
            except JournalError:  # it can't, and says so
                _open(journal)
                assert list(journal.rows()) == rows
                return
            self._require_erased(journal, rows)
        if self.durable:
            with self._opened() as again:
                self._require_erased(again, rows)

    @staticmethod
    def _require_erased(journal: Journal, rows: list[Row]) -> None:
        blank = [erased(row) if row.position in (1, 5) else row for row in rows]
        assert list(journal.rows()) == blank
        assert journal.find(["visit-5"]) == [blank[4]]
        assert [isinstance(entry_of(row), Blank) for row in blank[:6]] == [True, *[False] * 3, True, False]

    def test_two_do_not_write_at_once(self) -> None:
        if self.durable:
            with self._opened() as first:
                first.append([_row(1)])
                second = self.make()
                with contextlib.suppress(JournalError):
                    assert not second.open(), "two journals are open for writing in one place"
                second.close()
                first.append([_row(2)])
            with self._opened() as next_one:
                next_one.append([_row(3)])
                assert next_one.last() == 3

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Journal]:
        journal = self.make()
        _open(journal)
        try:
            yield journal
        finally:
            journal.close()


def _open(journal: Journal) -> None:
    """A server may release a lock a moment after the connection that held it is gone."""
    deadline = time.monotonic() + 10.0
    while not journal.open():
        assert time.monotonic() < deadline, "the journal does not open"
        time.sleep(0.05)


def _decided(event_id: str) -> Decided:
    numbers = {"number": 0, "action": 1, "fingerprint": b"f", "trace": bytes(range(256)), "queue": b""}
    return Decided(event_id=event_id, request=DecisionRequest(), **numbers)  # type: ignore[arg-type]


@functools.cache
def _row(position: int) -> Row:
    """Some rows of each kind, each with its own time; always the same, although sealed parts have a random salt."""
    event_id = f"visit-{position}"
    entries: list[Written] = [
        _decided(event_id),
        Learnt(event_id=event_id, number=position, reward=0.5),
        Refused(event_id=event_id, reason="unknown"),
        Expired(numbers=[position], event_ids=[event_id]),
        ModeChanged(mode="live"),
    ]
    return row_of(position, 1_700_000_000_000_000 + position, entries[position % len(entries)])


def _snapshot(position: int, label: str | None = None) -> Snapshot:
    return Snapshot(position, 1_700_000_000_000_000, "0" * 64, label, bytes(range(256)))
