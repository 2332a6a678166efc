"""Where compiled code is kept.

Numba's own cache looks only at the file of a function, and would keep using a kernel after a function that it calls in another
file has changed. Ours is stamped with the content of all kernel source files. Several processes may fill it at once.
"""

from __future__ import annotations

import functools
import getpass
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from numba.core import caching, config

from tightrope import schedules, validation

_KERNELS = Path(__file__).parent
_PACKAGE = os.path.realpath(_KERNELS.parent) + os.sep


class PackageCacheLocator(caching.InTreeCacheLocator):
    """Where the package's compiled code is cached: the first writable folder of those that `cache_folders` gives."""

    def get_source_stamp(self):
        if os.path.realpath(self._py_file) in source_files():
            return source_stamp()
        return super().get_source_stamp()

    @classmethod
    def from_function(cls, py_func, py_file):
        folder = writable_folder(py_file) if os.path.realpath(py_file).startswith(_PACKAGE) else None
        if folder is None:
            return None
        locator = cls(py_func, py_file)
        locator._cache_path = folder
        return locator


class PackageCacheFile(caching.IndexDataCacheFile):
    """Numba numbers the files of a function, so two processes compiling at once may give one number to two signatures.

    Here a file is named after its content. At worst, what the other process added to the index meanwhile is compiled again.
    """

    def save(self, key, data):
        named = hashlib.sha256(repr((self._source_stamp, key)).encode()).hexdigest()
        name = self._index_name.removesuffix("nbi") + f"{named[:16]}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


class PackageCacheImpl(caching.CompileResultCacheImpl):
    """Numba's own, except for where code is kept."""

    _locator_classes = [PackageCacheLocator]  # noqa: RUF012


class PackageCache(caching.FunctionCache):
    """The cache of one kernel."""

    _impl_class = PackageCacheImpl

    def __init__(self, py_func):
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = PackageCacheFile(self._cache_path, self._impl.filename_base, stamp)


def keep(dispatcher):
    """The same dispatcher, with its code cached from now on, as in Numba's `enable_caching`."""
    dispatcher._cache = PackageCache(dispatcher.py_func)
    return dispatcher


@functools.cache
def source_files() -> frozenset[str]:
    return frozenset(
        os.path.realpath(path) for path in (*_KERNELS.glob("*.py"), schedules.__file__, validation.__file__)
    )


@functools.cache
def source_stamp() -> str:
    """A hash of the content of `source_files`, read once per process."""
    digest = hashlib.sha256()
    for path in sorted(source_files()):
        content = Path(path).read_bytes()
        digest.update(f"{os.path.basename(path)} {len(content)} ".encode() + content)
    return digest.hexdigest()


def writable_folder(file: str) -> str | None:
    """Where the code of a file is kept; None if no folder is writable."""
    return next(filter(_is_writable, cache_folders(file)), None)


def cache_folders(file: str) -> Iterator[str]:
    """Folders to try: NUMBA_CACHE_DIR if it is set, beside the source, the user's cache, one for temporary files."""
    subfolder = PackageCacheLocator.get_suitable_cache_subpath(file)
    if config.CACHE_DIR:
        yield os.path.join(config.CACHE_DIR, subfolder)
    yield os.path.join(os.path.dirname(file), "__pycache__")
    yield os.path.join(caching.AppDirs(appname="numba", appauthor=False).user_cache_dir, subfolder)
    temporary = _own_temporary_folder()
    if temporary is not None:
        yield os.path.join(temporary, subfolder)


@functools.cache
def _is_writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@functools.cache
def _own_temporary_folder() -> str | None:
    """The same in every process of a user, unless somebody else made it: what is cached there gets executed."""
    try:
        folder = os.path.join(
            tempfile.gettempdir(), f"tightrope-numba-{getattr(os, 'getuid', getpass.getuser)()}"
        )
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        if not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077):
            return folder
        return tempfile.mkdtemp(prefix="tightrope-numba-")
    except OSError:
        return None
