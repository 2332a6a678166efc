"""Policies by name, and saved ones."""

from __future__ import annotations

import os
from typing import Any

from tightrope.errors import InvalidInput, StateDamagedError
from tightrope.policies.state_file import read_state
from tightrope.registry import Registry

POLICIES = Registry("policy", __package__)
register = POLICIES.register


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
    try:
        made = POLICIES.find(kind)
    except InvalidInput as error:
        raise StateDamagedError(
            f"{path} holds a policy of the unknown kind {kind!r}; known: {', '.join(POLICIES)}. "
            "Import the module that registers it first."
        ) from error
    try:
        return made.restore(settings, arrays)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StateDamagedError(f"{path} does not hold a complete {kind} policy: {error!r}.") from error
