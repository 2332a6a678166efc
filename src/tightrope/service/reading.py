"""Reads that need no turn of the writer: on a thread and a connection of their own, beside the one that decides."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tightrope.errors import InvalidInput
from tightrope.service.bodies import Answer, Refusal
from tightrope.service.experiment import Batch, Experiment, Op
from tightrope.service.journal import Journal, JournalError

_REST: Final = 0.5

log = logging.getLogger("tightrope.service")


class Reader:
    """Runs operations that write nothing, one at a time, on another connection to an experiment's journal.

    What the journal acknowledged before a read is in the read. Where there is no such connection, or the experiment is not ready,
    there is no answer: the writer knows what to say.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._journal: Journal | None = None
        self._rested_at = 0.0
        name = f"reader of {experiment.name}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def read(self, op: Op) -> Answer | None:
        """The answer, or None where the writer must be asked."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, op)

    def stop(self) -> None:
        """Finish what was asked for and close the connection."""
        self._thread.submit(self._close)
        self._thread.shutdown()

    def _read(self, op: Op) -> Answer | None:
        # A rest as long as the read before: reads one after the other take at most half of a core from decisions.
        time.sleep(max(0.0, self._rested_at - time.monotonic()))
        began = time.monotonic()
        answer = self._asked(op)
        now = time.monotonic()
        self._rested_at = now + min(now - began, _REST)
        return answer

    def _asked(self, op: Op) -> Answer | None:
        state = self._experiment.state
        if state is None:
            self._close()
            return None
        try:
            journal = self._opened()
            if journal is None:
                return None
            found = journal.find([op.event_id]) if op.event_id is not None else ()
            return op.operation(Batch(state, journal, state.time, found), op.request)
        except Refusal as refusal:
            return refusal.answer()
        except InvalidInput as error:
            return Refusal(422, "invalid", str(error).rstrip(".")).answer()
        except JournalError as error:
            log.warning("experiment %r: a read failed: %s", self._experiment.name, error)
        except Exception:
            # The state is not locked against the writer, which may have changed it half way; in its turn it is whole.
            log.exception("experiment %r: a read failed", self._experiment.name)
        self._close()
        return None

    def _opened(self) -> Journal | None:
        if self._journal is None:
            journal = self._experiment.journal.reader()
            if journal is not None:
                journal.open()
            self._journal = journal
        return self._journal

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._journal = None
