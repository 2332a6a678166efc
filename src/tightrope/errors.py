"""Everything that Tightrope raises on purpose, and its warnings.

>>> issubclass(InvalidInput, TightropeError) and issubclass(InvalidInput, ValueError)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, Self

from msgspec import UNSET

from tightrope.words import PYTHON, Language, Place, Shown, Text


class TightropeError(Exception):
    """Base of every error that Tightrope raises on purpose."""

    def said(self, language: Language = PYTHON) -> str:
        """The message in the reader's language; `str(error)` is what it says in Python."""
        return language.say(self.args[0]) if self.args else ""


class InvalidInput(TightropeError, ValueError):
    """An argument is invalid.

    Whatever raised it left its state untouched.

    Parameters
    ----------
    message : str, optional
        The whole message; a `tightrope.words.Text` if it differs between Python and the command line; or the error behind it.
    field : str or Place, optional
        The invalid argument or field. `must` says what has to hold for it and `got` is the value given; or `problem` is the whole
        complaint, such as "is missing". `remedy` says what to do about it.
    within : str
        The file, rule or step that the message is about; the message begins with it.

    Examples
    --------
    >>> error = InvalidInput(field="rounds", must="be a whole number >= 1", got=0)
    >>> print(error)
    rounds must be a whole number >= 1, but got 0.
    >>> from tightrope.words import CommandLine
    >>> error.said(CommandLine(["--rounds"])), error.field[0], error.got
    ('--rounds must be a whole number >= 1, but got 0.', 'rounds', 0)
    """

    def __init__(
        self,
        message: str | TightropeError = "",
        *,
        field: str | Place | None = None,
        must: str = "",
        problem: str = "",
        got: Any = UNSET,
        remedy: str = "",
        within: str = "",
    ) -> None:
        self.message, self.must, self.problem, self.got = message, must, problem, got
        self.remedy, self.within = remedy, within
        self.field = getattr(message, "field", None) if field is None else Place.of(field)
        super().__init__(self.said())

    def said(self, language: Language = PYTHON) -> str:
        complaint = self.complaint(language)
        if self.field is not None and not self.message:
            complaint = f"{language.field(self.field)} {complaint}"
        remedy = f" {language.say(self.remedy)}" if self.remedy else ""
        return f"{language.say(self.within)}: {complaint}{remedy}" if self.within else complaint + remedy

    def complaint(self, language: Language = PYTHON) -> str:
        """What is wrong, without the field and the remedy."""
        if self.message:
            return language.say(self.message)
        if self.problem:
            return f"{language.say(self.problem)}."
        got = "" if self.got is UNSET else f", but got {language.value(self.got)}"
        return f"must {language.say(self.must)}{got}."

    def inside(self, within: str) -> Self:
        """The same error, as one about a part of something larger."""
        outer = Text("{outer}: {inner}", outer=within, inner=self.within) if self.within else within
        return type(self)(**{**vars(self), "within": outer})

    def __reduce__(self) -> tuple[Any, ...]:
        # The value may be something that can't be sent to another process.
        got = self.got if self.got is UNSET else Shown(repr(self.got))
        return partial(type(self), **{**vars(self), "got": got}), ()


class Untrusted(InvalidInput):
    """Data names code that is not trusted; none of it was imported. See `tightrope.trust`."""


class InfeasibleProblem(TightropeError):
    """The input is well formed, but no decision rule can satisfy the constraints."""


class Exact(Protocol):
    """An account of a hard limit, in a message."""

    @property
    def name(self) -> str: ...

    @property
    def taken(self) -> Decimal: ...

    @property
    def allowed(self) -> Decimal: ...


class Exhausted(TightropeError):
    """Hard limits leave no action that may be taken; `accounts` are theirs."""

    def __init__(self, accounts: Sequence[Exact], what: str) -> None:
        self.accounts = tuple(accounts)
        used = [f"{one.taken.normalize():f} of {one.allowed.normalize():f}" for one in accounts]
        spent = ", ".join(f"{one.name} ({of} used or reserved)" for one, of in zip(accounts, used))
        super().__init__(f"{what} would exceed a hard cap: {spent}")


class TooManyKeys(TightropeError):
    """There are accounts for as many keys as a rule may have in one window (`max_keys`)."""

    def __init__(self, rule: object, most: int) -> None:
        said = f"there are accounts for {most:,} keys under '{rule}', the most there may be in one window (max_keys)"
        super().__init__(f"{said}: another key must wait for the next window.")


class SolverError(TightropeError):
    """The LP solver stopped without an answer that could be verified."""


class StateFileError(InvalidInput):
    """A saved state can't be used: see the two subclasses for why."""


class StateVersionError(StateFileError):
    """The file was written in a version of the format that this release does not read."""


class StateDamagedError(StateFileError):
    """The file is truncated, altered, or not a saved state at all."""


class PolicyWarning(UserWarning):
    """A policy can't do what it was asked to do; the message says why, with numbers, and what helps. See `Policy.concerns`."""
