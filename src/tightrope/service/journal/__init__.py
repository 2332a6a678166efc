"""The journal: what happened to an experiment, in order. Everything else about it can be computed from this.

`entries` are its content, `rows` how it is stored, `chain` what links each row to the one before, `contract` what a storage must
do.
"""

from __future__ import annotations

from tightrope.errors import TightropeError


class JournalError(TightropeError):
    """The journal can't be read or written now: everything that was acknowledged is in it."""


class JournalLocked(JournalError):
    """Another process writes this journal."""


class JournalUnreachable(JournalError):
    """The journal is on another machine that does not answer: it may come back by itself."""


class JournalDamaged(JournalError):
    """The journal's content can't have been written by this program, or does not replay to what it says."""
