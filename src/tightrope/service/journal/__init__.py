"""The journal: what happened to an experiment, in order. Everything else about it can be computed from this.

`entries` are what is told, `rows` how it is stored, `chain` what binds each row to the one before, `contract` what a storage owes.
"""

from __future__ import annotations

from tightrope.errors import TightropeError


class JournalError(TightropeError):
    """The journal can't be read or written now: nothing was acknowledged that is not in it."""


class JournalLocked(JournalError):
    """Another process writes this journal."""


class JournalUnreachable(JournalError):
    """The journal is kept elsewhere, and nothing is heard from there: it may be back by itself."""


class JournalDamaged(JournalError):
    """What the journal holds can't have been written by this program, or does not replay to what it says."""
