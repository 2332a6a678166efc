"""What a result's files hold: plain data, tables with a line for each round and name, and an archive that is exact."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import StateDamagedError, StateVersionError
from tightrope.files import write, write_csv
from tightrope.result.curves import Curve, Estimate

_FORMAT = "tightrope-result"
_VERSION = 1


def write_archive(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a result's arrays, and all else of it as the header."""
    text = json.dumps({"format": _FORMAT, "version": _VERSION, **header}, allow_nan=False)
    buffer = io.BytesIO()
    encoded = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez_compressed(buffer, allow_pickle=False, header=encoded, **arrays)
    write(path, buffer.getvalue())


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays that `write_archive` wrote."""
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    if header.pop("format") != _FORMAT:
        raise StateDamagedError(f"{path} is not a saved result.")
    version = header.pop("version")
    if version != _VERSION:
        raise StateVersionError(
            f"{path} was saved in version {version!r} of the format; this release reads version {_VERSION}."
        )
    return header, arrays


def write_long(path: Path, kind: str, names: Sequence[str], **curves: Curve) -> None:
    """Curves (G, N) as one line for each round and name."""
    columns = ["round", kind, *(f"{label}{end}" for label in curves for end in ("", "_low", "_high"))]
    rows: list[dict[str, Any]] = []
    for g, at in enumerate(next(iter(curves.values())).rounds.tolist()):
        for n, name in enumerate(names):
            row = {"round": at, kind: name}
            for label, curve in curves.items():
                row |= Estimate(curve.mean[g, n], curve.low[g, n], curve.high[g, n]).columns(label)
            rows.append(row)
    write_csv(path, rows, columns)


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: an object of unknown make by the name of its class, a number that is not finite as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return f"{type(value).__module__}.{type(value).__qualname__}"
