"""Policies by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tightrope.errors import InvalidInput, StateDamagedError
from tightrope.policies.store import Arrays, read_state


class Restorable(Protocol):
    """A policy class that can be rebuilt from what `save` wrote."""

    kind: str

    @classmethod
    def restore(cls, settings: dict[str, Any], arrays: Arrays) -> Any:
        """The policy that gave `settings` and `arrays`."""


_Class = TypeVar("_Class", bound=type)

POLICIES: dict[str, Any] = {}


def register(name: str) -> Callable[[_Class], _Class]:
    """Class decorator: make a policy known under `name`."""

    def add(cls: _Class) -> _Class:
        if name in POLICIES:
            raise InvalidInput(f"a policy named {name!r} is registered already: {POLICIES[name]!r}.")
        POLICIES[name] = cls
        cls.kind = name  # type: ignore[attr-defined]
        return cls

    return add


def load(path: str | os.PathLike[str]) -> Any:
    """The policy saved at `path`: it makes the same choices as the one that was saved, bit for bit.

    Raises
    ------
    StateVersionError
        The file is of another version of the format.
    StateDamagedError
        The file is truncated, altered, or not a saved policy.
    """
    kind, settings, arrays = read_state(path)
    if kind not in POLICIES:
        raise StateDamagedError(
            f"{path} holds a policy of the unknown kind {kind!r}; known: {', '.join(POLICIES)}."
        )
    try:
        return POLICIES[kind].restore(settings, arrays)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StateDamagedError(f"{path} does not hold a complete {kind} policy: {error!r}.") from error
