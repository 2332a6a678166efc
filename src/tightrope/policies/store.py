"""Saved policies: one file, versioned, without pickle.

The file is a NumPy `.npz` archive (`docs/state-file.md`): an entry `header` with UTF-8 JSON, an entry `digest` with a SHA-256
over everything else, and the arrays of the state under the names that the header's kind of policy documents. It is written
beside its destination and moved into place, so that a crash leaves the old file or the new one, never half of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import StateDamagedError, StateVersionError

FORMAT = "tightrope-policy"
VERSION = 1

Arrays = dict[str, NDArray[Any]]


def write_state(path: str | os.PathLike[str], kind: str, settings: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a policy's settings (plain data) and arrays to `path`, all or nothing."""
    header = {"format": FORMAT, "version": VERSION, "kind": kind, "settings": dict(settings)}
    text = json.dumps(header, allow_nan=False, sort_keys=True).encode()
    entries = {"header": np.frombuffer(text, dtype=np.uint8), "digest": _digest(text, arrays), **arrays}
    target = Path(path)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **entries)
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".draft")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def read_state(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Arrays]:
    """Kind, settings and arrays of a saved policy, verified."""
    raw = Path(path).read_bytes()
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            entries = {name: archive[name] for name in archive.files}
        text = entries.pop("header").tobytes()
        header = json.loads(text)
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise StateDamagedError(
                f"{path} is not a saved Tightrope policy: its header does not say {FORMAT!r}."
            )
        if header.get("version") != VERSION:
            raise StateVersionError(
                f"{path} was saved in version {header.get('version')!r} of the state format; this release reads "
                f"version {VERSION}. Load it with the release that wrote it."
            )
        if not np.array_equal(entries.pop("digest"), _digest(text, entries)):
            raise StateDamagedError(f"{path} is damaged: its contents do not match their SHA-256.")
        return str(header["kind"]), dict(header["settings"]), entries
    except (
        KeyError,
        ValueError,
        TypeError,
        EOFError,
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
    ) as error:
        if isinstance(error, (StateDamagedError, StateVersionError)):
            raise
        raise StateDamagedError(f"{path} is damaged or not a saved Tightrope policy: {error}") from error


def _digest(header: bytes, arrays: Arrays) -> NDArray[np.uint8]:
    digest = hashlib.sha256(header)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)
