"""Other libraries, in an environment of their own: made once in the cache, with pinned versions."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import TightropeError
from tightrope.validation import Array

_MOST_SECONDS = 900  # for the installation of one library
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class RivalFailed(TightropeError):
    """A rival's program ended with an error."""


def pins() -> dict[str, str]:
    """Library → pinned version."""
    text = resources.files(__package__).joinpath("rivals.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def environment(cache: Path) -> Path:
    """The folder of the rivals' environment: another one for other pins and for another Python."""
    told = json.dumps([pins(), sys.version_info[:2], sys.platform])
    return cache / f"rivals-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def python(cache: Path) -> Path:
    """The Python of the rivals' environment."""
    parts = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    return environment(cache).joinpath(*parts)


def install(
    libraries: Iterable[str], cache: Path, tell: Callable[[str], None] = lambda line: None
) -> dict[str, str]:
    """Make the environment and install what it lacks; returns the reason for each library that could not be installed."""
    folder, failed = environment(cache), {}
    for library in dict.fromkeys(libraries):
        done = folder / f"{library}.installed"
        if done.exists():
            continue
        tell(f"installing {library} {pins()[library]} into {folder}")
        if reason := _installed(library, folder, python(cache)):
            failed[library] = reason
        else:
            done.touch()
    return failed


def _installed(library: str, folder: Path, program: Path) -> str:
    """Install a library; the reason if that fails, and nothing otherwise."""
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
    constraints = folder / "pins.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins().items()))
    flags = ["--quiet", "--disable-pip-version-check", "--constraint", str(constraints)]
    command = [str(program), "-m", "pip", "install", *flags, "numpy", library]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MOST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"its installation took more than {_MOST_SECONDS // 60} minutes"
    return (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1] if done.returncode else ""


def play(
    library: str,
    settings: Mapping[str, Any],
    x: Array,
    y: NDArray[np.int64],
    J: int,
    costs: Array,
    seed: int,
    cache: Path,
) -> NDArray[np.int64]:
    """The actions of a rival on a table, played in its own environment."""
    with tempfile.TemporaryDirectory() as scratch:
        run, out = Path(scratch, "run.npz"), Path(scratch, "actions.npy")
        player = json.dumps({"library": library, "settings": dict(settings)})
        np.savez(run, x=x, y=y, n_actions=J, costs=costs, seed=seed, player=player)
        program = str(Path(__file__).with_name("rival_program.py"))
        done = subprocess.run(
            [str(python(cache)), "-I", program, str(run), str(out)],
            env={**os.environ, **_ONE_THREAD},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RivalFailed((done.stderr.strip().splitlines() or ["it gave no reason"])[-1])
        actions: NDArray[np.int64] = np.load(out)
        return actions
