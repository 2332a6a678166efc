"""Saved policies: one file, versioned, without pickle.

The file is a NumPy `.npz` archive (`docs/state-file.md`): an entry `header` with UTF-8 JSON, the arrays of the state under the
names that the header's kind of policy documents, and, as the comment that ends a zip archive, the SHA-256 of every byte before it.
It is written beside its destination and moved into place, so that a crash leaves the old file or the new one, never half of one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tightrope.errors import StateDamagedError, StateFileError, StateVersionError
from tightrope.files import write
from tightrope.models import Model

FORMAT = "tightrope-policy"
VERSION = 1
SEAL = 64
# Arrays with these names belong to models, or are means of outcomes, rather than rounds, queues and budgets.
LEARNT = ("reward/", "cost/", "rewards/", "usage/")

Arrays = dict[str, NDArray[Any]]


def write_state(path: str | os.PathLike[str], kind: str, settings: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a policy's settings (plain data) and arrays to `path`, all or nothing."""
    header = {"format": FORMAT, "version": VERSION, "kind": kind, "settings": dict(settings)}
    text = json.dumps(header, allow_nan=False, sort_keys=True).encode()
    write(path, sealed({"header": np.frombuffer(text, dtype=np.uint8), **arrays}))


def as_data(value: Any) -> Any:
    """A policy's parameter in the form that is saved."""
    if isinstance(value, Model):
        return value.settings()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def part_of(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays whose names have this prefix, by the rest of their names."""
    return {name.removeprefix(prefix): one for name, one in arrays.items() if name.startswith(prefix)}


def rolled_back(now: Arrays, then: Arrays, learnt_only: bool) -> Arrays:
    """The earlier state, or only what it had learnt, with the current decisions."""
    if learnt_only:
        then = {**now, **{name: then[name] for name in now if name.startswith(LEARNT)}}
    kept = ("pending/", "windows/")
    decisions = {name: one for name, one in now.items() if name.startswith(kept) or name == "made"}
    return {**then, **decisions}


def checked(arrays: Arrays, name: str, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """The array with that name; raises a ValueError unless it has this type and shape."""
    array = arrays[name]
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"{name} must be {np.dtype(dtype)} of shape {shape}, but is {array.dtype} of {array.shape}"
        )
    return array


def sealed(entries: Arrays) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in entries.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
        archive.comment = bytes(SEAL)
    body = buffer.getvalue()[:-SEAL]
    return body + hashlib.sha256(body).hexdigest().encode()


def read_state(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Arrays]:
    raw = Path(path).read_bytes()
    if hashlib.sha256(raw[:-SEAL]).hexdigest().encode() != raw[-SEAL:]:
        raise StateDamagedError(
            f"{path} is damaged or not a saved Tightrope policy: it does not end in the SHA-256 of its contents."
        )
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            entries = {name: archive[name] for name in archive.files}
        header = json.loads(entries.pop("header").tobytes())
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise StateDamagedError(
                f"{path} is not a saved Tightrope policy: its header does not say {FORMAT!r}."
            )
        if header.get("version") != VERSION:
            raise StateVersionError(
                f"{path} was saved in version {header.get('version')!r} of the state format; this release reads "
                f"version {VERSION}. Load it with the release that wrote it."
            )
        return str(header["kind"]), dict(header["settings"]), entries
    except StateFileError:
        raise
    except Exception as error:  # any error from parsing foreign bytes means the same
        raise StateDamagedError(f"{path} is damaged or not a saved Tightrope policy: {error}") from error
