"""What a policy can't do as asked, with the numbers and the remedy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tightrope.errors import PolicyWarning


@dataclass(frozen=True)
class Concern:
    """One thing that keeps a policy from doing what it was asked to do.

    `kind` is a word for programs, `message` says what is wrong, `remedy` what helps. In a simulation `runs` says how many runs had
    it; the message is then that of the first.
    """

    kind: str
    message: str
    remedy: str
    runs: int | None = None

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}"


def of_runs(found: Iterable[Iterable[Concern]]) -> tuple[Concern, ...]:
    """The concerns of several runs, one of each kind, with the number of runs that have it."""
    kinds: dict[str, Concern] = {}
    for concerns in found:
        for one in concerns:
            first = kinds.setdefault(one.kind, replace(one, runs=0))
            kinds[one.kind] = replace(first, runs=(first.runs or 0) + 1)
    return tuple(kinds.values())


def in_runs(concern: Concern, n: int) -> str:
    if n == 1:
        return str(concern)
    some = "all" if concern.runs == n else f"{concern.runs} of"
    return f"in {some} {n:,} runs, such as this one: {concern}"


def warn(concern: Concern | str) -> None:
    """A Python warning that points to the first line outside this package."""
    import inspect
    from pathlib import Path

    package, level, frame = str(Path(__file__).parent), 1, inspect.currentframe()
    while frame is not None and frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(str(concern), PolicyWarning, stacklevel=level)


def ignore(concern: Concern) -> None:
    """Say nothing: someone else reads `concerns`."""
