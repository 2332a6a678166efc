"""Everything that Tightrope raises on purpose, and what it warns of.

>>> issubclass(InvalidInput, TightropeError) and issubclass(InvalidInput, ValueError)
True
"""

from __future__ import annotations


class TightropeError(Exception):
    """Base of every error that Tightrope raises on purpose."""


class InvalidInput(TightropeError, ValueError):
    """An argument is not what it must be: the message says which entry, what was expected, what came.

    Whatever raised it left its state untouched.
    """


class Untrusted(InvalidInput):
    """Data names code that nobody trusts; nothing of it was imported. See `tightrope.trust`."""


class InfeasibleProblem(TightropeError):
    """The input is well formed, but no decision rule can satisfy the constraints."""


class SolverError(TightropeError):
    """The LP solver stopped without an answer that could be verified."""


class StateFileError(InvalidInput):
    """A saved state can't be used: see the two subclasses for why."""


class StateVersionError(StateFileError):
    """The file was written in a version of the format that this release does not read."""


class StateDamagedError(StateFileError):
    """The file is truncated, altered, or not a saved state at all."""


class PolicyWarning(UserWarning):
    """A policy can't do what it is asked to: the message says why, with the numbers, and what helps. See `Policy.concerns`."""
