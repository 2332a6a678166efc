"""Trust: which code may run because data names it.

A spec, a journal or a saved policy names classes: an estimator as `module:Class`, a policy of your own as `file.py:Class`.
Importing one runs it, so a name is followed only if it is in a library of `LIBRARIES`, if the operator lists its module or file in
the environment variable `TIGHTROPE_TRUST`, if the program itself passed such an object, or if the reader of the data trusts it
(`--trust`, or `trust=True`). Trust is given to names, for the rest of the process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tightrope.errors import Untrusted
from tightrope.words import Either, Text

# Libraries of estimators and transformers, whose classes do what their parameters say and nothing else.
LIBRARIES = ("catboost", "lightgbm", "sklearn", "xgboost")
VARIABLE = "TIGHTROPE_TRUST"

_granted: set[str] = set()


def grant(data: Any, folder: Path = Path()) -> None:
    """Trust every class that `data` (plain tables and texts) names; files are looked up in `folder`."""
    if isinstance(data, str):
        _granted.update((absolute(data, folder), absolute(data)))
    elif isinstance(data, Mapping | Sequence) and not isinstance(data, bytes):
        for one in data.values() if isinstance(data, Mapping) else data:
            grant(one, folder)


def require_trusted(what: str, name: str, folder: Path = Path(), libraries: Sequence[str] = ()) -> None:
    """Refuse a name of untrusted code before anything is imported; `what` describes the thing in the message."""
    place = name.rpartition(":")[0]
    if absolute(name, folder) in _granted or is_allowed(place, libraries, folder):
        return
    code = f"that is not of {', '.join(libraries[:-1])} or {libraries[-1]}" if libraries else f"of {place}"
    said = f"{what} {name!r} would run code {code}. If you trust its source"
    listing = f"list {place!r} in the environment variable {VARIABLE}"
    trust = Either("--trust (in Python trust=True)", "--trust")
    raise Untrusted(Text("{said}, use {trust}, or {listing}.", said=said, trust=trust, listing=listing))


def is_allowed(place: str, libraries: Sequence[str] = (), folder: Path = Path()) -> bool:
    """Whether a module belongs to one of the libraries, or a module or file is listed in `TIGHTROPE_TRUST`."""
    listed = [one.strip() for one in os.environ.get(VARIABLE, "").split(",") if one.strip()]
    if place.endswith(".py"):
        files = [Path(one).resolve() for one in listed if one.endswith(".py")]
        return (folder / place).resolve() in files
    if not all(part.isidentifier() for part in place.split(".")):
        return False
    return any(place == one or place.startswith(f"{one}.") for one in (*libraries, *listed))


def absolute(name: str, folder: Path = Path()) -> str:
    """The same name for a process in another folder: a file by its absolute path."""
    place, _, attribute = name.rpartition(":")
    return f"{(folder / place).resolve()}:{attribute}" if place.endswith(".py") else name
