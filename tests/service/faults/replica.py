"""A second life of an experiment, computed from the rows of its journal as they come."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tightrope.service.experiment.state import ExperimentState
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.entries import Decided, Learnt


class Replica:
    """Follows a journal: every row is repeated and compared bit for bit.

    Parameters
    ----------
    journal : callable
        A journal to read, not open.
    """

    def __init__(self, journal: Callable[[], Journal]) -> None:
        self._journal = journal
        self.state: ExperimentState | None = None
        self.decided: dict[str, tuple[int, int]] = {}
        self.learnt: dict[tuple[str, str], object] = {}

    @property
    def position(self) -> int:
        return 0 if self.state is None else self.state.position

    def follow(self, until: int | None = None) -> None:
        """Read on, to a position or to the end.

        Raises
        ------
        JournalDamaged
            A row is missing, or does not come out as it was recorded.
        """
        with contextlib.closing(self._journal()) as journal:
            journal.open()
            for row in journal.rows(after=self.position):
                if until is not None and row.position > until:
                    break
                if self.state is None:
                    self.state = ExperimentState.begin(row)
                    continue
                entry = self.state.replay(row)
                if isinstance(entry, Decided):
                    assert entry.event_id not in self.decided, f"{entry.event_id} was decided twice"
                    self.decided[entry.event_id] = (entry.action, entry.number)
                elif isinstance(entry, Learnt):
                    for part in ("reward", "usage"):
                        value = getattr(entry, part)
                        if value is not None:
                            key = entry.event_id, part
                            assert key not in self.learnt, f"{part} of {entry.event_id} was applied twice"
                            self.learnt[key] = value

    def digest(self) -> str:
        """Of the whole state."""
        assert self.state is not None
        return self.state.snapshot()[1]
