"""A wheel with small made tables in a cache, in place of the packages that the bake-off fetches."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np

from tightrope_lab.bakeoff.packages import PACKAGES, Package
from tightrope_lab.bakeoff.tables import SOURCES, Source

# Two of each half, by their names.
NAMES = ("made/a", "made/b", "made/c", "made/d")


def make(cache: Path) -> None:
    """Put the wheel into the cache, and its tables in the place of all others, in this process."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for i, name in enumerate(NAMES):
            draw = np.random.default_rng(i)
            y = draw.integers(3, size=130)
            x = np.eye(3)[y] + 0.3 * draw.normal(size=(130, 3))
            lines = [",".join([*(f"{value:.4f}" for value in row), f"l{label}"]) for row, label in zip(x, y)]
            member = zipfile.ZipInfo(f"{name}.csv", (2020, 1, 1, 0, 0, 0))
            archive.writestr(member, "\n".join(lines))
    folder = cache / "packages" / "made==1.0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made.whl").write_bytes(content.getvalue())
    PACKAGES["made"] = Package("made", "1.0", hashlib.sha256(content.getvalue()).hexdigest())
    SOURCES.clear()
    SOURCES.update({name: Source("made", f"{name}.csv") for name in NAMES})
