"""Policies by name, and saved ones."""

from __future__ import annotations

import os

from tightrope.errors import InvalidInput, StateDamagedError, Untrusted
from tightrope.policies.hooks import restored
from tightrope.policies.policy import Policy
from tightrope.policies.state_file import read_state
from tightrope.registry import Registry
from tightrope.trust import grant

# Policies that the laboratory adds, by name.
LABORATORY = {
    "clucb": "CLUCB",
    "lag-ts": "LagrangianThompson",
    "lfg": "LFG",
    "lincbwk": "LinCBwK",
    "lp-ts": "LPThompson",
    "oplb": "OPLB",
    "primal-dual-bwk": "PrimalDualBwK",
    "safe-lts": "SafeLTS",
    "safe-lucb": "SafeLUCB",
    "ucb-alp": "UCBALP",
    "provable-shadow-price": "ProvableShadowPrice",
}
POLICIES = Registry("policy", __package__, elsewhere=dict.fromkeys(LABORATORY, "tightrope-lab"))
register = POLICIES.register


def load(path: str | os.PathLike[str], *, trust: bool = False) -> Policy:
    """The policy saved at `path`: it makes the same choices as the one that was saved, bit for bit.

    Parameters
    ----------
    path : path
    trust : bool
        Whether to run classes of your own that the file names, and the files or modules that contain them: see `tightrope.trust`.

    Raises
    ------
    StateVersionError
        The file has another version of the format.
    StateDamagedError
        The file is truncated, altered, or not a saved policy.
    Untrusted
        The file names code that nobody has trusted; none of it has run.
    """
    kind, settings, arrays = read_state(path)
    if trust:
        grant([kind, settings])
    try:
        made: type[Policy] = POLICIES.find(kind)
    except Untrusted as error:
        raise Untrusted(f"{path}: kind: {error}") from error
    except InvalidInput as error:
        if kind in LABORATORY:
            raise error.inside(str(path)) from error
        raise StateDamagedError(
            f"{path} holds a policy of the unknown kind {kind!r}; known: {', '.join(POLICIES)}. "
            "Import the module that registers it first."
        ) from error
    try:
        return restored(made, settings, arrays)
    except Untrusted as error:
        raise Untrusted(f"{path}: settings: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise StateDamagedError(f"{path} does not hold a complete {kind} policy: {error!r}.") from error
