"""The journal in memory."""

from __future__ import annotations

from tightrope.service.journal.conformance import JournalSuite
from tightrope.service.storage.memory import MemoryJournal


class TestMemoryJournal(JournalSuite):
    durable = False

    def make(self) -> MemoryJournal:
        return MemoryJournal()
