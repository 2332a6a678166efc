"""What is compiled: the same bits on every processor, and a cache that notices every change."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile

import tightrope as tr
from tightrope.cli import main
from tightrope.kernels.cache import PackageCacheFile
from tightrope.kernels.compile import announce

ON_ANY_PROCESSOR = """
import hashlib
import numpy as np
import tightrope as tr

rng, digest = np.random.default_rng(0), hashlib.sha256()
for J, d, K in ((10, 20, 3), (5, 33, 9)):
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(d, bonus=0.2), constraints=K, slater=0.1, horizon=1000)
    for _ in range(300):
        phi = rng.normal(size=(J, d))
        phi /= 1.001 * np.linalg.norm(phi, axis=1, keepdims=True)
        decision = policy.decide(phi, rng.uniform(-1, 1, size=(J, K)))
        policy.learn(decision, float(rng.uniform()))
        digest.update(decision.trace.tobytes())
    for array in policy.hooks.state().values():
        digest.update(array.tobytes())
print(digest.hexdigest())
"""


def test_the_bits_do_not_depend_on_the_processors_vectors(tmp_path):
    def run(**settings):
        environment = {**os.environ, **settings}
        done = subprocess.run(
            [sys.executable, "-c", ON_ANY_PROCESSOR],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    # The plainest processor has no vectors of more than two numbers.
    plainest = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(**plainest) == run()


# The cache on disk

CALLER = """
import sys
import numpy as np
from tightrope import kernels
caller = kernels.horizon_twice
if sys.argv[1] == "numba's own":
    import numba
    caller = numba.njit(cache=True)(caller.py_func)
core = kernels.new_core(0, 0, 7.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), ())
value = caller(core)
print(value, sum(caller.stats.cache_hits.values()), caller.stats.cache_path)
"""

ADDED = """

@kernel
def horizon_twice(core):
    return 2.0 * models.horizon_at(core, 1.0)
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package, with a kernel whose callee is in another file."""
    folder = tmp_path / "src"
    shutil.copytree(
        Path(tr.__file__).parent, folder / "tightrope", ignore=shutil.ignore_patterns("__pycache__")
    )
    step = folder / "tightrope" / "kernels" / "step.py"
    step.write_text(step.read_text() + ADDED)
    return folder


def call(package, which="ours", **settings):
    """What the kernel returns, whether it came from the cache, and where that is."""
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", **settings}
    if "NUMBA_CACHE_DIR" not in settings:
        environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", CALLER, which], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    value, hits, path = done.stdout.split(maxsplit=2)
    return float(value), int(hits) > 0, Path(path.strip())


def edit_callee(package):
    """T := 100·T, in a file that the kernel is not in."""
    models = package / "tightrope" / "kernels" / "models.py"
    text = models.read_text()
    changed = text.replace("return core[layout.HORIZON] if", "return 100.0 * core[layout.HORIZON] if")
    assert changed != text
    models.write_text(changed)


@pytest.mark.parametrize("given", [False, True])
def test_a_change_in_another_file_compiles_the_caller_again(package, tmp_path, given):
    settings = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} if given else {}
    inside = tmp_path / "cache" if given else package / "tightrope" / "kernels" / "__pycache__"
    assert call(package, **settings)[:2] == (14.0, False)
    value, cached, path = call(package, **settings)
    assert (value, cached) == (14.0, True)
    assert path == inside or inside in path.parents
    edit_callee(package)
    assert call(package, **settings)[:2] == (1400.0, False)
    assert call(package, **settings)[:2] == (1400.0, True)


def test_a_change_in_the_schedules_changes_the_stamp(package):
    script = "from tightrope.kernels.cache import source_stamp; print(source_stamp())"
    stamps = set()
    for _ in range(2):
        command = [sys.executable, "-c", script]
        environment = {**os.environ, "PYTHONPATH": str(package)}
        stamps.add(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
        with (package / "tightrope" / "schedules.py").open("a") as file:
            file.write("# a change\n")
    assert len(stamps) == 2


def test_numbas_own_cache_would_not_notice(package, tmp_path):
    settings = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert call(package, "numba's own", **settings)[:2] == (14.0, False)
    edit_callee(package)
    assert call(package, "numba's own", **settings)[:2] == (14.0, True)


@pytest.mark.parametrize(
    ("kind", "found"), [(PackageCacheFile, "for floats"), (IndexDataCacheFile, "for ints")]
)
def test_two_processes_may_fill_it_at_once(tmp_path, monkeypatch, kind, found):
    """Each reads the index before the other one writes. Numba's own cache, which numbers its files, then gives the wrong code."""
    first, second = (kind(str(tmp_path), "kernel-1.py311", "stamp") for _ in range(2))
    before = second._load_index()
    first.save("floats", "for floats")
    index = (tmp_path / "kernel-1.py311.nbi").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(second, "_load_index", lambda: before)
        second.save("ints", "for ints")
    assert second.load("ints") == "for ints"
    (tmp_path / "kernel-1.py311.nbi").write_bytes(index)
    assert first.load("floats") == found


def test_where_nothing_can_be_written_a_temporary_folder_serves(package, tmp_path):
    # Files in the way, rather than permissions, which do not hold for root.
    (package / "tightrope" / "kernels" / "__pycache__").write_text("")
    (package / "tightrope" / "__pycache__").write_text("")
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.write_text("")
    temporary.mkdir()
    settings = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "TMPDIR": str(temporary)}
    for cached in (False, True):
        value, found, path = call(package, **settings)
        assert (value, found) == (14.0, cached)
        assert temporary in path.parents


NOTHING_WRITABLE = """
import tempfile

def refuse(*args, **kwargs):
    raise OSError(30, "Read-only file system")

tempfile.gettempdir = tempfile.mkdtemp = tempfile.TemporaryFile = refuse
"""


def test_where_no_folder_can_be_written_to_it_runs_without_a_cache_and_says_so_once(package):
    # Numba's own locators would raise "no locator available".
    script = NOTHING_WRITABLE + CALLER
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, "ours"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "14.0 0 None\n"
    assert done.stderr.count("\n") == 1
    assert "no folder is writable; set NUMBA_CACHE_DIR to one that is" in done.stderr


def test_people_are_told_that_it_compiles_machines_are_not(capsys, monkeypatch, caplog):
    logger = logging.getLogger("tightrope.kernels.compile")
    announce("here")
    assert capsys.readouterr() == ("", "")  # neither a terminal nor a log
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    announce("here")
    assert capsys.readouterr().err.startswith("tightrope: compiling for this machine")
    main(["version", "--json"])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    capsys.readouterr()
    announce("here")
    assert capsys.readouterr().err == ""
    main(["version"])
    assert logger.level == logging.NOTSET
    with caplog.at_level(logging.INFO, logger=logger.name):
        announce("here")
    assert caplog.messages == ["compiling for this machine, which takes a while, but only once; kept in here"]
